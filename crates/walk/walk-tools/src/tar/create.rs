//! Visitor that writes each entry to an archive.
//!
//! A directory comes after all that is in it: GNU tar sets its times when it comes to something
//! that is not in it, and here what is in it may come at any time. One that not everybody may look
//! into comes before as well. And so does one with a link that leads out of it, right before the
//! first such link: GNU tar puts a file in the place of such a link until all is unpacked, and sets
//! the times of the directory after that only if it has just heard of it.

use crate::copy::attributes::{list, list_at};
use crate::copy::data::{Copying, DataError, Methods, fill, segment};
use crate::find::users::{group_name, user_name};
use crate::limits::PIECE_BYTES;
use crate::output::Part;
use crate::session::say;
use crate::tar::acl::{self, Who};
use crate::tar::allocator::{Claim, Place};
use crate::tar::choice::Excluded;
use crate::tar::header::{BLOCK, Kind, Member, fill_up};
use crate::tar::listing::{Detail, Listing, Says};
use crate::tar::sink::Sink;
use pandofs_walk_fs::{
    DirState, Entry, FileType, Flow, Leaving, Meter, Problem, Stat, Task, Visitor,
};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, major, minor, openat, readlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard};

/// Files with fewer bytes are put together in memory with their headers.
const SMALL_BYTES: u64 = 1 << 20;

/// Whether a directory is in the archive before a link that leads out of it.
#[derive(Debug)]
pub(crate) struct InArchive(AtomicBool);

impl DirState for InArchive {
    fn new(_seed: [u64; 2]) -> InArchive {
        InArchive(AtomicBool::new(false))
    }
}

/// State that all threads share.
pub(crate) struct Archive {
    pub sink: Sink,
    /// The archive's own identity, which is not put in it.
    pub itself: Option<(u64, u64)>,
    pub excluded: Excluded,
    /// Detail and form of the list of members.
    pub detail: Detail,
    pub says: Says,
    /// Owners have no names.
    pub numeric: bool,
    /// The contents of directories are packed as well.
    pub recursive: bool,
    pub one_file_system: bool,
    /// Links are taken for what they lead to.
    pub follows: bool,
    pub methods: Methods,
}

/// One thread's writer.
pub(crate) struct Creator<'c> {
    archive: &'c Archive,
    meter: Arc<Meter>,
    copying: Copying,
    listing: Listing,
    pub members: u64,
}

#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("it vanished")]
    Vanished,
    #[error("{0}")]
    Read(Errno),
    #[error("it became shorter while it was read; the rest of it is zeros in the archive")]
    Shorter,
    #[error("cannot write the archive: {0}")]
    Write(Errno),
    #[error("left out: {0}")]
    LeftOut(&'static str),
}

impl From<DataError> for Trouble {
    fn from(error: DataError) -> Trouble {
        match error {
            DataError::Read(error) => Trouble::Read(error),
            DataError::Write(error) => Trouble::Write(error),
            DataError::Shorter => Trouble::Shorter,
        }
    }
}

/// Whether all that is in a directory is in the archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Yes,
    No,
}

/// A part of a large file, and where it goes.
#[derive(Serialize, Deserialize)]
struct Piece {
    name: CString,
    start: u64,
    end: u64,
    at: u64,
}

impl<'c> Creator<'c> {
    pub(crate) fn new(archive: &'c Archive, meter: &Arc<Meter>, out: Part) -> Creator<'c> {
        Creator {
            archive,
            meter: Arc::clone(meter),
            copying: Copying::new(),
            listing: Listing::new(out, archive.detail, archive.says),
            members: 0,
        }
    }

    fn add(&mut self, entry: &mut Entry<'_, InArchive>, is_left: Left) -> Result<Flow, Trouble> {
        let Ok(stat) = entry.stat().copied() else {
            return Ok(Flow::Skip);
        };
        if self.archive.itself == Some(stat.identity()) {
            return Ok(Flow::Skip);
        }
        let kind = match stat.kind() {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Directory,
            FileType::Symlink => Kind::Symlink,
            FileType::Fifo => Kind::Fifo,
            FileType::CharacterDevice => Kind::CharacterDevice,
            FileType::BlockDevice => Kind::BlockDevice,
            FileType::Socket => {
                // As GNU tar: archives have none, and a server makes its socket anew.
                say("tar", entry.path(), "socket ignored");
                return Ok(Flow::Skip);
            }
            FileType::Unknown => return Err(Trouble::LeftOut("nobody knows what it is")),
        };
        let path = relative(entry.path()).to_vec();
        let (dir, name) = (entry.dir_fd(), entry.name());
        let mut member = self.member(kind, path, &stat);
        match kind {
            Kind::Symlink => {
                let target = readlinkat(dir, name, Vec::new()).map_err(vanished)?;
                member.target = target.into_bytes();
                self.extend(&mut member, pairs(list_at(dir, name).map_err(vanished)?));
                if stat.links() == 1
                    && leads_out(&member.target)
                    && !entry.holder().state().0.swap(true, Ordering::Relaxed)
                {
                    return self.link_out(entry, &member).map(|()| Flow::Skip);
                }
            }
            Kind::CharacterDevice | Kind::BlockDevice => {
                member.device = (major(stat.rdev()), minor(stat.rdev()));
                self.extend(&mut member, pairs(list_at(dir, name).map_err(vanished)?));
            }
            Kind::Directory => {
                let stays = self.archive.one_file_system && entry.is_elsewhere();
                let is_entered = self.archive.recursive && !stays;
                if is_entered && is_left == Left::No && stat.mode() & 0o055 == 0o055 {
                    return Ok(Flow::Descend([0, 0]));
                }
                let flags = OFlags::DIRECTORY | self.archive.how_to_open();
                // One that may not be read is reported when it is to be listed.
                if let Ok(opened) = openat(dir, name, flags, Mode::empty()) {
                    self.extend(&mut member, extended(opened.as_fd())?);
                }
                self.put(&member)?;
                if is_left == Left::Yes || !is_entered {
                    self.added(&member);
                    return Ok(Flow::Skip);
                }
                return Ok(Flow::Descend([0, 0]));
            }
            Kind::File => return self.file(entry, &stat, member),
            Kind::Fifo => self.extend(&mut member, pairs(list_at(dir, name).map_err(vanished)?)),
            Kind::HardLink => {}
        }
        self.append(&member.headers().0, &member, claim(&stat, &member))?;
        self.added(&member);
        Ok(Flow::Skip)
    }

    /// A link that leads out of its directory, right after the directory.
    fn link_out(&mut self, entry: &mut Entry<'_, InArchive>, link: &Member) -> Result<(), Trouble> {
        let mut bytes = Vec::new();
        let above = link.path.iter().rposition(|byte| *byte == b'/');
        if let Some(end) = above.filter(|_| entry.depth() > 0) {
            let stat = Stat::of_open(entry.dir_fd()).map_err(Trouble::Read)?;
            let mut above = self.member(Kind::Directory, link.path[..end].to_vec(), &stat);
            self.extend(&mut above, extended(entry.dir_fd())?);
            bytes = above.headers().0;
        }
        bytes.extend_from_slice(&link.headers().0);
        self.append(&bytes, link, None)?;
        self.added(link);
        Ok(())
    }

    /// Returns the header of an entry, but for what depends on its kind.
    fn member(&self, kind: Kind, mut path: Vec<u8>, stat: &Stat) -> Member {
        if kind == Kind::Directory && path.last() != Some(&b'/') {
            path.push(b'/');
        }
        // A name that is a number is none.
        let named = |name: String, id: u32| {
            if self.archive.numeric || name == id.to_string() {
                String::new()
            } else {
                name
            }
        };
        Member {
            kind,
            path,
            target: Vec::new(),
            mode: stat.mode(),
            uid: stat.uid(),
            gid: stat.gid(),
            user: named(user_name(stat.uid()), stat.uid()),
            group: named(group_name(stat.gid()), stat.gid()),
            seconds: stat.modified().seconds,
            nanoseconds: stat.modified().nanoseconds,
            device: (0, 0),
            size: 0,
            sparse: None,
            extended: Vec::new(),
            acls: Vec::new(),
        }
    }

    /// Gives a member what it has besides; access control lists as text too, for GNU tar's
    /// `--acls`, which looks at nothing else.
    fn extend(&self, member: &mut Member, extended: Extended) {
        for (name, value) in &extended {
            let Some(scope) = acl::scope_of(name) else {
                continue;
            };
            let text = acl::to_text(value, |who, id| {
                let name = match who {
                    Who::User => user_name(id),
                    Who::Group => group_name(id),
                };
                (!self.archive.numeric && name != id.to_string()).then_some(name)
            });
            member.acls.extend(text.map(|text| (scope.to_vec(), text)));
        }
        member.extended = extended;
    }

    fn put(&self, member: &Member) -> Result<(), Trouble> {
        self.append(&member.headers().0, member, None)
    }

    /// Writes a member, or a link to the name that has claimed it before.
    fn append(&self, bytes: &[u8], member: &Member, claim: Option<Claim>) -> Result<(), Trouble> {
        let link = |first: &[u8]| as_link(member, first).headers().0;
        let written = self.archive.sink.append(bytes, claim, link);
        written.map_err(Trouble::Write)
    }

    fn file(
        &mut self,
        entry: &mut Entry<'_, InArchive>,
        stat: &Stat,
        mut member: Member,
    ) -> Result<Flow, Trouble> {
        let archive = self.archive;
        let (dir, name) = (entry.dir_fd(), entry.name());
        let file = self.archive.open(dir, name)?;
        member.size = stat.size();
        self.extend(&mut member, extended(file.as_fd())?);
        let mut data = Vec::new();
        let sparse = stat.blocks() * 512 < stat.size();
        if sparse {
            member.sparse = Some(segments(&file, stat.size())?);
        } else if member.size <= SMALL_BYTES {
            data.resize(member.size as usize, 0);
            let read = fill(file.as_fd(), &mut data, 0).map_err(Trouble::Read)?;
            data.truncate(read);
            member.size = read as u64;
        }
        let claim = claim(stat, &member);
        let (mut head, stored) = member.headers();
        let is_small = member.sparse.is_none() && member.size <= SMALL_BYTES;
        if is_small {
            head.extend_from_slice(&data);
            fill_up(&mut head);
            self.append(&head, &member, claim)?;
            self.added(&member);
            return Ok(Flow::Skip);
        }
        let sink = &archive.sink;
        let turn = (!sink.is_seekable()).then(|| sink.turn());
        let all = head.len() as u64 + stored.next_multiple_of(BLOCK as u64);
        match sink.place(all, claim).map_err(Trouble::Write)? {
            Place::After(first) => {
                drop(turn);
                self.put(&as_link(&member, &first))?;
            }
            Place::At(at) => {
                if let Some(turn) = &turn {
                    sink.write_next(&head, turn).map_err(Trouble::Write)?;
                    self.stream(&file, &member, stored, turn)?;
                } else {
                    sink.write_at(&head, at).map_err(Trouble::Write)?;
                    for what in pieces(&member, name, at + head.len() as u64) {
                        entry.later(what);
                    }
                }
                drop(turn);
            }
        }
        self.added(&member);
        Ok(Flow::Skip)
    }

    /// Writes data to a pipe. Bytes that the file has lost by now become zeros: its header is out.
    fn stream(
        &mut self,
        file: &OwnedFd,
        member: &Member,
        stored: u64,
        turn: &MutexGuard<'_, ()>,
    ) -> Result<(), Trouble> {
        let whole = [(0, member.size)];
        let segments = member.sparse.as_deref().unwrap_or(&whole);
        let mut buffer = vec![0; SMALL_BYTES as usize];
        let mut shorter = Ok(());
        for (start, length) in segments {
            let mut at = *start;
            while at < start + length {
                let most = (start + length - at).min(SMALL_BYTES) as usize;
                let read = fill(file.as_fd(), &mut buffer[..most], at);
                let count = read.unwrap_or(0);
                if count < most {
                    buffer[count..most].fill(0);
                    shorter = Err(read.map_or_else(Trouble::Read, |_| Trouble::Shorter));
                }
                let written = self.archive.sink.write_next(&buffer[..most], turn);
                written.map_err(Trouble::Write)?;
                at += most as u64;
            }
        }
        let rest = stored.next_multiple_of(BLOCK as u64) - stored;
        let zeros = vec![0; rest as usize];
        self.archive
            .sink
            .write_next(&zeros, turn)
            .map_err(Trouble::Write)?;
        shorter
    }

    fn piece(&mut self, dir: BorrowedFd<'_>, piece: &Piece) -> Result<(), Trouble> {
        let file = self.archive.open(dir, &piece.name)?;
        let archive = self.archive;
        let (from, to) = (file.as_fd(), archive.sink.fd());
        self.copying
            .copy_to(&archive.methods, from, to, piece.start..piece.end, piece.at)?;
        Ok(())
    }

    fn added(&mut self, member: &Member) {
        self.members += 1;
        self.listing.show(member);
    }

    fn failed(&mut self, path: &[u8], trouble: &Trouble) -> Flow {
        match trouble {
            Trouble::Vanished => self.meter.add_vanished(),
            trouble => {
                self.meter.add_problem();
                say("tar", path, trouble);
            }
        }
        if let Trouble::Write(_) = trouble {
            // The archive is useless; so is the rest of the walk.
            return Flow::Quit;
        }
        Flow::Skip
    }
}

/// Returns whether a link could lead out of where an archive is unpacked.
fn leads_out(target: &[u8]) -> bool {
    target.starts_with(b"/") || target.split(|byte| *byte == b'/').any(|name| name == b"..")
}

/// Returns the pieces of a file's data, to be copied by any thread.
fn pieces(member: &Member, name: &CStr, at: u64) -> Vec<Vec<u8>> {
    let whole = [(0, member.size)];
    let mut place = at;
    let mut made = Vec::new();
    for (segment, length) in member.sparse.as_deref().unwrap_or(&whole) {
        let mut start = *segment;
        let end = segment + length;
        while start < end {
            let piece = Piece {
                name: name.to_owned(),
                start,
                end: end.min(start + PIECE_BYTES),
                at: place,
            };
            place += piece.end - piece.start;
            start = piece.end;
            made.push(postcard::to_stdvec(&piece).unwrap_or_default());
        }
    }
    made
}

/// The thread that comes first with one of its names gives a file a place, before all links to it.
fn claim(stat: &Stat, member: &Member) -> Option<Claim> {
    (stat.links() > 1).then(|| (stat.identity(), member.path.clone()))
}

fn as_link(member: &Member, first: &[u8]) -> Member {
    Member {
        kind: Kind::HardLink,
        target: first.to_vec(),
        size: 0,
        sparse: None,
        extended: Vec::new(),
        acls: Vec::new(),
        ..member.clone()
    }
}

/// Without slashes in front, and what is before a `..`: archives are unpacked where one is.
fn relative(path: &[u8]) -> &[u8] {
    let mut rest = path;
    let mut at = 0;
    for name in path.split(|byte| *byte == b'/') {
        at += name.len() + 1;
        if name == b".." {
            rest = path.get(at..).unwrap_or_default();
        }
    }
    let start = rest.iter().position(|byte| *byte != b'/');
    match start {
        Some(start) => &rest[start..],
        None => b".",
    }
}

fn vanished(error: Errno) -> Trouble {
    match error {
        Errno::NOENT => Trouble::Vanished,
        error => Trouble::Read(error),
    }
}

impl Archive {
    /// Returns the flags of an open: what was no link when it was looked at may be one by now.
    fn how_to_open(&self) -> OFlags {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match self.follows {
            true => flags,
            false => flags | OFlags::NOFOLLOW,
        }
    }

    fn open(&self, dir: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Trouble> {
        openat(dir, name, self.how_to_open(), Mode::empty()).map_err(vanished)
    }
}

/// Names and values.
type Extended = Vec<(Vec<u8>, Vec<u8>)>;

fn extended(fd: BorrowedFd<'_>) -> Result<Extended, Trouble> {
    list(fd).map(pairs).map_err(Trouble::Read)
}

fn pairs(listed: Vec<(CString, Vec<u8>)>) -> Extended {
    let pairs = listed.into_iter();
    pairs
        .map(|(name, value)| (name.into_bytes(), value))
        .collect()
}

/// Returns a file's segments of data. As in GNU tar's archives, one that ends with a hole has an
/// empty one at its end.
fn segments(file: &OwnedFd, size: u64) -> Result<Vec<(u64, u64)>, Trouble> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some((start, end)) = segment(file.as_fd(), at, size).map_err(Trouble::Read)? {
        found.push((start, end - start));
        at = end;
        if at >= size {
            return Ok(found);
        }
    }
    found.push((size, 0));
    Ok(found)
}

impl Visitor for Creator<'_> {
    type Dir = InArchive;

    fn entry(&mut self, entry: &mut Entry<'_, InArchive>) -> Flow {
        let excluded = &self.archive.excluded;
        if !excluded.is_empty() && excluded.has(entry.path()) {
            return Flow::Skip;
        }
        self.add(entry, Left::No).unwrap_or_else(|trouble| {
            let path = entry.path().to_vec();
            self.failed(&path, &trouble)
        })
    }

    fn task(&mut self, task: &mut Task<'_, InArchive>) {
        let piece = postcard::from_bytes::<Piece>(task.what()).ok();
        // A broken task is reported, wherever it comes from.
        let Some(piece) = piece.filter(|it| it.start <= it.end) else {
            self.failed(task.path(b""), &Trouble::Read(Errno::BADMSG));
            return;
        };
        if let Err(trouble) = self.piece(task.dir_fd(), &piece) {
            let path = task.path(piece.name.to_bytes()).to_vec();
            if let Flow::Quit = self.failed(&path, &trouble) {
                self.meter.stop();
            }
        }
    }

    fn leave(&mut self, leaving: &mut Leaving<'_, InArchive>) {
        let added = leaving.as_entry(|entry| self.add(entry, Left::Yes).map(drop));
        match added {
            Ok(Ok(())) => {}
            Ok(Err(trouble)) => {
                let path = leaving.path().to_vec();
                if let Flow::Quit = self.failed(&path, &trouble) {
                    self.meter.stop();
                }
            }
            Err(kind) => {
                self.meter.add_problem();
                say("tar", leaving.path(), kind);
            }
        }
    }

    fn problem(&mut self, problem: Problem<'_>) {
        say("tar", problem.path, problem.kind);
    }
}
