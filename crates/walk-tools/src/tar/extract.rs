//! Unpacks an archive: one thread reads headers, the others make files.

use crate::copy::data::{Copying, DataError, Methods};
use crate::find::users::{group_number, user_number};
use crate::output::Part;
use crate::session::say;
use crate::tar::beneath::{Beneath, Nowhere, Spot};
use crate::tar::header::{BLOCK, Kind, Member};
use crate::tar::parse::Parser;
use crate::text::show;
use anyhow::{Context, Result};
use pandofs_types::limits::TOOL_PIECE_BYTES;
use pandofs_walk_fs::{FileType, Meter};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags, chmodat, chownat, fchmod,
    fchown, fsetxattr, ftruncate, futimens, linkat, makedev, mkdirat, mknodat, openat, symlinkat,
    unlinkat, utimensat,
};
use rustix::io::{Errno, pwrite, retry_on_intr};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Files with fewer bytes are handed over in memory, if the archive cannot be read anywhere.
const SMALL_BYTES: u64 = 1 << 20;
/// Jobs that wait for a thread.
const WAITING_JOBS: usize = 256;

/// Something for a thread to do.
enum Job {
    /// A file whose data are here.
    Small(Member, Vec<u8>),
    /// A file whose data are in the archive from here on.
    Stored(Member, u64),
    /// A piece of a large one.
    Piece {
        large: Arc<Large>,
        from: u64,
        to: u64,
        length: u64,
    },
}

/// A large file that several threads write.
struct Large {
    member: Member,
    file: OwnedFd,
    /// Pieces that are not done.
    left: AtomicUsize,
}

#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Nowhere(#[from] Nowhere),
    #[error("{0}")]
    Os(Errno),
    #[error("{0}")]
    Data(#[from] DataError),
    #[error("cannot set its {0}: {1}")]
    Attribute(&'static str, Errno),
}

impl From<Errno> for Trouble {
    fn from(error: Errno) -> Trouble {
        Trouble::Os(error)
    }
}

/// What all threads share.
struct Shared<'e> {
    root: &'e Arc<OwnedFd>,
    archive: Option<&'e File>,
    methods: Methods,
    meter: &'e Meter,
    is_root: bool,
}

/// What was unpacked.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Unpacked {
    pub members: u64,
    pub bytes: u64,
    /// Why the rest of the archive was not.
    pub failure: Option<String>,
}

/// An archive.
pub struct Source<'e> {
    pub input: &'e File,
    /// Once more, if it can be read anywhere.
    pub archive: Option<&'e File>,
    /// Which of how many processes this is. All read all headers, and each makes what falls to it, by its path: what an
    /// archive has twice is made by one.
    pub part: (u32, u32),
}

/// Unpacks an archive to a directory. `meet` waits for all processes, and says whether this one is to do what comes last.
///
/// # Errors
/// When the processes do not find together. What could not be made is told, and counted by the meter.
pub fn extract(
    from: &Source<'_>,
    root: OwnedFd,
    threads: u32,
    meter: &Meter,
    verbose: Option<Part>,
    meet: impl FnOnce() -> Result<bool>,
) -> Result<Unpacked> {
    let root = Arc::new(root);
    let shared = Shared {
        root: &root,
        archive: from.archive,
        methods: Methods::default(),
        meter,
        is_root: rustix::process::geteuid().is_root(),
    };
    let (jobs, waiting) = sync_channel(WAITING_JOBS);
    let waiting = Mutex::new(waiting);
    let mut reader = Reader {
        shared: &shared,
        part: from.part,
        parser: Parser::new(BufReader::with_capacity(1 << 20, from.input)),
        beneath: Beneath::new(Arc::clone(&root)),
        directories: Vec::new(),
        links: Vec::new(),
        ids: HashMap::new(),
        unpacked: Unpacked::default(),
        verbose,
    };
    let read = std::thread::scope(|scope| {
        for number in 0..threads {
            let (waiting, shared) = (&waiting, &shared);
            std::thread::Builder::new()
                .name(format!("untar-{number}"))
                .spawn_scoped(scope, move || shared.work(waiting))
                .context("cannot start a thread")?;
        }
        let read = reader.read(&jobs);
        drop(jobs);
        read
    });
    // What is there by now is finished also if the archive is damaged further on.
    if meet()? {
        reader.finish();
    }
    reader.unpacked.failure = read.err().map(|error| format!("{error:#}"));
    Ok(reader.unpacked)
}

struct Reader<'e, R> {
    shared: &'e Shared<'e>,
    part: (u32, u32),
    parser: Parser<BufReader<R>>,
    beneath: Beneath,
    /// Their attributes come last: what is made in them changes their times, and may need permission.
    directories: Vec<Member>,
    /// They come when the files that they are names of are there.
    links: Vec<Member>,
    ids: HashMap<(bool, String), Option<u32>>,
    unpacked: Unpacked,
    verbose: Option<Part>,
}

impl<R: Read> Reader<'_, R> {
    fn read(&mut self, jobs: &SyncSender<Job>) -> Result<()> {
        while let Some(found) = self.parser.next()? {
            let mut member = found.member;
            let is_mine = self.is_mine(&member);
            if !is_mine && !matches!(member.kind, Kind::Directory | Kind::HardLink) {
                self.pass_over(found.stored.next_multiple_of(BLOCK as u64))?;
                continue;
            }
            member.uid = self.id(false, &member.user, member.uid);
            member.gid = self.id(true, &member.group, member.gid);
            self.unpacked.members += u64::from(is_mine);
            if let Some(out) = self.verbose.as_mut().filter(|_| is_mine) {
                let mut line = String::new();
                show(&member.path, &mut line);
                line.push('\n');
                out.bytes().extend_from_slice(line.as_bytes());
                out.end_record();
            }
            match member.kind {
                Kind::File => {
                    self.unpacked.bytes += found.stored;
                    self.file(member, found.stored, jobs)?;
                    continue;
                }
                Kind::Directory => match self.directory(&member) {
                    Ok(()) => self.directories.push(member),
                    Err(trouble) => self.shared.failed(&member.path, &trouble),
                },
                Kind::HardLink => self.links.push(member),
                _ => {
                    let made = self.other(&member);
                    if let Err(trouble) = made {
                        self.shared.failed(&member.path, &trouble);
                    }
                }
            }
            self.pass_over(found.stored.next_multiple_of(BLOCK as u64))?;
        }
        Ok(())
    }

    /// Whether this process makes it. Directories are made by all, and before all else that is in them; files' other names, and
    /// directories' attributes, by the first, at the end.
    fn is_mine(&self, member: &Member) -> bool {
        let (rank, ranks) = self.part;
        if ranks == 1 {
            return true;
        }
        let mut hasher = DefaultHasher::new();
        // Names that are the same path, as far as archives have them.
        let names = member.path.split(|byte| *byte == b'/');
        for name in names.filter(|name| !matches!(*name, b"" | b".")) {
            name.hash(&mut hasher);
        }
        hasher.finish() % u64::from(ranks) == u64::from(rank)
    }

    /// Names count more than numbers, which are those of another machine.
    fn id(&mut self, is_group: bool, name: &str, id: u32) -> u32 {
        if name.is_empty() || !self.shared.is_root {
            return id;
        }
        let known = self.ids.entry((is_group, name.to_owned()));
        let number = if is_group { group_number } else { user_number };
        known.or_insert_with(|| number(name)).unwrap_or(id)
    }

    fn file(&mut self, member: Member, stored: u64, jobs: &SyncSender<Job>) -> Result<()> {
        let at = self.parser.at;
        let padded = stored.next_multiple_of(BLOCK as u64);
        if self.shared.archive.is_some() {
            if stored > 2 * TOOL_PIECE_BYTES {
                self.pieces(member, at, jobs);
            } else {
                self.hand_over(Job::Stored(member, at), jobs);
            }
            return self.pass_over(padded);
        }
        if stored <= SMALL_BYTES {
            let mut data = vec![0; padded as usize];
            self.parser.read(&mut data)?;
            data.truncate(stored as usize);
            self.hand_over(Job::Small(member, data), jobs);
            return Ok(());
        }
        self.stream(&member, stored)
    }

    fn hand_over(&self, job: Job, jobs: &SyncSender<Job>) {
        // The threads end when there can be no more jobs, not before.
        assert!(jobs.send(job).is_ok(), "no thread takes jobs");
    }

    fn pieces(&mut self, member: Member, at: u64, jobs: &SyncSender<Job>) {
        let path = member.path.clone();
        let file = self
            .beneath
            .spot(&path)
            .map_err(Trouble::from)
            .and_then(|spot| {
                let file = make_file(&spot)?;
                ftruncate(&file, member.size)?;
                Ok(file)
            });
        let file = match file {
            Ok(file) => file,
            Err(trouble) => return self.shared.failed(&path, &trouble),
        };
        let whole = vec![(0, member.size)];
        let segments = member.sparse.clone().unwrap_or(whole);
        let mut pieces = Vec::new();
        let mut from = at;
        for (start, length) in segments {
            for offset in (0..length).step_by(TOOL_PIECE_BYTES as usize) {
                let length = TOOL_PIECE_BYTES.min(length - offset);
                pieces.push((from, start + offset, length));
                from += length;
            }
        }
        let large = Arc::new(Large {
            member,
            file,
            left: AtomicUsize::new(pieces.len()),
        });
        for (from, to, length) in pieces {
            let large = Arc::clone(&large);
            self.hand_over(
                Job::Piece {
                    large,
                    from,
                    to,
                    length,
                },
                jobs,
            );
        }
    }

    /// Writes a large file from what can be read but once.
    fn stream(&mut self, member: &Member, stored: u64) -> Result<()> {
        let made = self.beneath.spot(&member.path).map_err(Trouble::from);
        let mut file = made.and_then(|spot| make_file(&spot));
        if let Ok(made) = &file
            && let Err(error) = ftruncate(made, member.size)
        {
            file = Err(error.into());
        }
        let whole = [(0, member.size)];
        let mut buffer = vec![0; SMALL_BYTES as usize];
        for (start, length) in member.sparse.as_deref().unwrap_or(&whole) {
            let mut at = *start;
            while at < start + length {
                let most = (start + length - at).min(SMALL_BYTES) as usize;
                self.parser.read(&mut buffer[..most])?;
                if let Ok(made) = &file
                    && let Err(error) = write_at(made.as_fd(), &buffer[..most], at)
                {
                    file = Err(error.into());
                }
                at += most as u64;
            }
        }
        let done = file.and_then(|file| self.shared.attributes(file.as_fd(), member));
        if let Err(trouble) = done {
            self.shared.failed(&member.path, &trouble);
        }
        self.shared.meter.count_entries(1);
        self.pass_over(stored.next_multiple_of(BLOCK as u64) - stored)
    }

    fn pass_over(&mut self, bytes: u64) -> Result<()> {
        if let Some(archive) = self.shared.archive {
            // The file's place is shared by all who read it so; only this thread does.
            let buffered = self.parser.input.buffer().len() as u64;
            if bytes <= buffered {
                self.parser.input.consume(bytes as usize);
            } else {
                self.parser.input.consume(buffered as usize);
                let mut file = archive;
                file.seek(SeekFrom::Current((bytes - buffered) as i64))?;
            }
            self.parser.at += bytes;
            return Ok(());
        }
        let mut left = bytes;
        let mut buffer = [0; 64 << 10];
        while left > 0 {
            let most = left.min(buffer.len() as u64) as usize;
            self.parser.read(&mut buffer[..most])?;
            left -= most as u64;
        }
        Ok(())
    }

    fn directory(&mut self, member: &Member) -> Result<(), Trouble> {
        let spot = self.beneath.spot(&member.path)?;
        if &*spot.name == c"." {
            return Ok(());
        }
        // Its permissions come last. Another process may be making the same one.
        match mkdirat(spot.dir(), &*spot.name, Mode::RWXU) {
            Err(Errno::EXIST) => {}
            done => return Ok(done?),
        }
        let stat = pandofs_walk_fs::Stat::of(spot.dir(), &spot.name);
        if stat.is_ok_and(|it| it.kind() == FileType::Directory) {
            return Ok(());
        }
        self.beneath.forget();
        match unlinkat(spot.dir(), &*spot.name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT | Errno::ISDIR) => {}
            Err(error) => return Err(error.into()),
        }
        match mkdirat(spot.dir(), &*spot.name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Links and devices.
    fn other(&mut self, member: &Member) -> Result<(), Trouble> {
        let spot = self.beneath.spot(&member.path)?;
        let mode = Mode::from_raw_mode(member.mode);
        let device = makedev(member.device.0, member.device.1);
        let node = |kind, device| mknodat(spot.dir(), &*spot.name, kind, mode, device);
        in_place(&spot, || match member.kind {
            Kind::Symlink => symlinkat(&member.target[..], spot.dir(), &*spot.name),
            Kind::Fifo => node(FileType::Fifo, 0),
            Kind::CharacterDevice => node(FileType::CharacterDevice, device),
            _ => node(FileType::BlockDevice, device),
        })?;
        self.shared.meter.count_entries(1);
        self.shared.attributes_at(&spot, member)
    }

    /// What has to come last: names of files, then attributes of directories, from the bottom up.
    fn finish(&mut self) {
        let mut target_beneath = Beneath::new(Arc::clone(self.shared.root));
        for member in std::mem::take(&mut self.links) {
            let made = (|| {
                let target = target_beneath.spot(&member.target)?;
                let spot = self.beneath.spot(&member.path)?;
                let (from, to) = (target.dir(), spot.dir());
                in_place(&spot, || {
                    linkat(from, &*target.name, to, &*spot.name, AtFlags::empty())
                })?;
                Ok::<_, Trouble>(())
            })();
            if let Err(trouble) = made {
                self.shared.failed(&member.path, &trouble);
            }
            self.shared.meter.count_entries(1);
        }
        let mut directories = std::mem::take(&mut self.directories);
        // Deeper ones first. An archive may have the same one twice: the last time counts.
        directories.reverse();
        let depth = |member: &Member| {
            member
                .path
                .split(|byte| *byte == b'/')
                .filter(|it| !it.is_empty())
                .count()
        };
        directories.sort_by_key(|member| std::cmp::Reverse(depth(member)));
        for member in &directories {
            let done = self
                .beneath
                .spot(&member.path)
                .map_err(Trouble::from)
                .and_then(|spot| {
                    let flags = crate::mirror::DIRECTORY;
                    let dir = openat(spot.dir(), &*spot.name, flags, Mode::empty())?;
                    self.shared.attributes(dir.as_fd(), member)
                });
            if let Err(trouble) = done {
                self.shared.failed(&member.path, &trouble);
            }
            self.shared.meter.count_entries(1);
        }
    }
}

impl Shared<'_> {
    fn work(&self, jobs: &Mutex<Receiver<Job>>) {
        let mut beneath = Beneath::new(Arc::clone(self.root));
        let mut copying = Copying::new();
        loop {
            let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(job) = job else { return };
            let (path, done) = match &job {
                Job::Small(member, data) => (&member.path, self.small(&mut beneath, member, data)),
                Job::Stored(member, at) => {
                    let done = self.stored(&mut beneath, &mut copying, member, *at);
                    (&member.path, done)
                }
                Job::Piece {
                    large,
                    from,
                    to,
                    length,
                } => {
                    let mut done =
                        self.range(&mut copying, large.file.as_fd(), *from, *to, *length);
                    if large.left.fetch_sub(1, Ordering::AcqRel) == 1 {
                        done = done.and(self.attributes(large.file.as_fd(), &large.member));
                    }
                    (&large.member.path, done)
                }
            };
            if let Err(trouble) = done {
                self.failed(path, &trouble);
            }
            self.meter.count_entries(1);
        }
    }

    fn small(&self, beneath: &mut Beneath, member: &Member, data: &[u8]) -> Result<(), Trouble> {
        let file = make_file(&beneath.spot(&member.path)?)?;
        if let Some(segments) = &member.sparse {
            ftruncate(&file, member.size)?;
            let mut rest = data;
            for (start, length) in segments {
                let (piece, after) = rest.split_at(*length as usize);
                write_at(file.as_fd(), piece, *start)?;
                rest = after;
            }
        } else {
            write_at(file.as_fd(), data, 0)?;
        }
        self.attributes(file.as_fd(), member)
    }

    fn stored(
        &self,
        beneath: &mut Beneath,
        copying: &mut Copying,
        member: &Member,
        at: u64,
    ) -> Result<(), Trouble> {
        let file = make_file(&beneath.spot(&member.path)?)?;
        let whole = [(0, member.size)];
        let mut from = at;
        if member.sparse.is_some() {
            ftruncate(&file, member.size)?;
        }
        for (start, length) in member.sparse.as_deref().unwrap_or(&whole) {
            self.range(copying, file.as_fd(), from, *start, *length)?;
            from += length;
        }
        self.attributes(file.as_fd(), member)
    }

    fn range(
        &self,
        copying: &mut Copying,
        file: BorrowedFd<'_>,
        from: u64,
        to: u64,
        length: u64,
    ) -> Result<(), Trouble> {
        let Some(archive) = self.archive else {
            unreachable!("only what can be read anywhere is read so");
        };
        let range = from..from + length;
        Ok(copying.copy_to(&self.methods, archive.as_fd(), file, range, to)?)
    }

    fn attributes(&self, fd: BorrowedFd<'_>, member: &Member) -> Result<(), Trouble> {
        let failed = |what| move |error| Trouble::Attribute(what, error);
        if self.is_root {
            let (uid, gid) = (Uid::from_raw(member.uid), Gid::from_raw(member.gid));
            fchown(fd, Some(uid), Some(gid)).map_err(failed("owner"))?;
        }
        for (name, value) in &member.extended {
            match fsetxattr(fd, &name[..], value, XattrFlags::empty()) {
                Err(Errno::PERM | Errno::OPNOTSUPP) if !name.starts_with(b"user.") => {}
                done => done.map_err(failed("extended attributes"))?,
            }
        }
        fchmod(fd, Mode::from_raw_mode(member.mode)).map_err(failed("permissions"))?;
        futimens(fd, &times(member)).map_err(failed("times"))
    }

    fn attributes_at(&self, spot: &Spot, member: &Member) -> Result<(), Trouble> {
        let failed = |what| move |error| Trouble::Attribute(what, error);
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let (dir, name) = (spot.dir(), &*spot.name);
        if self.is_root {
            let (uid, gid) = (Uid::from_raw(member.uid), Gid::from_raw(member.gid));
            chownat(dir, name, Some(uid), Some(gid), flags).map_err(failed("owner"))?;
        }
        if member.kind != Kind::Symlink {
            let mode = Mode::from_raw_mode(member.mode);
            chmodat(dir, name, mode, AtFlags::empty()).map_err(failed("permissions"))?;
        }
        utimensat(dir, name, &times(member), flags).map_err(failed("times"))
    }

    fn failed(&self, path: &[u8], trouble: &Trouble) {
        self.meter.add_problem();
        say("tar", path, trouble);
    }
}

fn times(member: &Member) -> Timestamps {
    let time = Timespec {
        tv_sec: member.seconds,
        tv_nsec: i64::from(member.nanoseconds),
    };
    Timestamps {
        last_access: time,
        last_modification: time,
    }
}

/// Makes a file in the place of what may be there.
fn make_file(spot: &Spot) -> Result<OwnedFd, Trouble> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    in_place(spot, || openat(spot.dir(), &*spot.name, flags, mode))
}

/// Makes something, in the place of what may be there unless that is a directory.
fn in_place<T>(spot: &Spot, make: impl Fn() -> Result<T, Errno>) -> Result<T, Trouble> {
    match make() {
        Err(Errno::EXIST) => {
            unlinkat(spot.dir(), &*spot.name, AtFlags::empty())?;
            Ok(make()?)
        }
        made => Ok(made?),
    }
}

fn write_at(fd: BorrowedFd<'_>, bytes: &[u8], at: u64) -> Result<(), Errno> {
    let mut written = 0;
    while written < bytes.len() {
        let rest = &bytes[written..];
        written += retry_on_intr(|| pwrite(fd, rest, at + written as u64))?;
    }
    Ok(())
}
