//! Copies each entry that is walked to its counterpart.

use crate::copy::attributes::{self, take_over, take_over_at};
use crate::copy::data::{Copying, DataError, Methods, stretch};
use crate::copy::links::Links;
use crate::copy::twin::{Large, Twin};
use crate::copy::wanted::{Counts, Wanted, is_excluded};
use crate::mirror::Mirror;
use crate::output::Part;
use crate::session::say;
use crate::text::show;
use pandofs_types::limits::TOOL_PIECE_BYTES;
use pandofs_walk_fs::{
    Dir, Entry, FileType, Flow, Leaving, Meter, Problem, ProblemKind, Stat, Task, Visitor,
};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, linkat, mkdirat, mknodat, openat, readlinkat, renameat, symlinkat,
    unlinkat,
};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::ffi::{CStr, CString};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Why an entry was not copied, or not wholly.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("it vanished")]
    Vanished,
    #[error("{0}")]
    Read(Errno),
    #[error("cannot write the copy: {0}")]
    Write(Errno),
    #[error(transparent)]
    Data(#[from] DataError),
    #[error(transparent)]
    Attributes(#[from] attributes::Failed),
    #[error("{0}")]
    InTheWay(&'static str),
}

/// A part of a large file.
#[derive(Serialize, Deserialize)]
struct Piece {
    name: CString,
    /// What the copy is called as yet; nothing if by its own name.
    temporary: Option<CString>,
    start: u64,
    end: u64,
    sparse: bool,
}

/// What all threads share.
pub struct Shared {
    pub wanted: Wanted,
    pub mirror: Mirror<Twin>,
    pub links: Links,
    pub methods: Methods,
    /// Directories that are copied to, which are not copied themselves.
    pub targets: Vec<(u64, u64)>,
}

/// One thread's copier.
pub struct Copier<'c> {
    shared: &'c Shared,
    meter: Arc<Meter>,
    copying: Copying,
    pub counts: Counts,
    out: Part,
}

/// Where an entry comes from and goes to.
struct Way<'w> {
    from: BorrowedFd<'w>,
    name: &'w CStr,
    stat: &'w Stat,
    to: BorrowedFd<'w>,
    to_name: &'w CStr,
}

impl<'c> Copier<'c> {
    pub fn new(shared: &'c Shared, meter: &Arc<Meter>, out: Part) -> Copier<'c> {
        Copier {
            shared,
            meter: Arc::clone(meter),
            copying: Copying::new(),
            counts: Counts::default(),
            out,
        }
    }

    fn copy(&mut self, entry: &mut Entry<'_, Twin>) -> Result<Flow, Trouble> {
        let Ok(stat) = entry.stat().copied() else {
            return Ok(Flow::Skip);
        };
        let (name, holder) = (entry.name(), entry.holder());
        let shared = self.shared;
        let is_directory = stat.kind() == FileType::Directory;
        if is_directory && shared.targets.contains(&stat.identity()) {
            return Err(Trouble::InTheWay("it is what is copied to"));
        }
        if entry.holder().state().missing {
            self.told("+", entry);
            self.count(&stat);
            return Ok(if is_directory {
                Flow::Descend([1, 0])
            } else {
                Flow::Skip
            });
        }
        let place = shared.mirror.place(holder, name).map_err(Trouble::Write)?;
        let way = Way {
            from: entry.dir_fd(),
            name,
            stat: &stat,
            to: place.dir(),
            to_name: place.name,
        };
        let mut existing = None;
        if shared.wanted.update || shared.wanted.dry_run {
            existing = Stat::of(way.to, way.to_name).ok();
            let in_the_way = |old: &Stat| is_directory != (old.kind() == FileType::Directory);
            if shared.wanted.dry_run && shared.wanted.clears {
                existing = existing.filter(|old| !in_the_way(old));
            }
        }
        if is_directory {
            return self.directory(&way, existing.as_ref(), entry);
        }
        if let Some(old) = &existing {
            if old.kind() == FileType::Directory {
                return Err(Trouble::InTheWay("a directory is in the place of its copy"));
            }
            if shared.wanted.update && self.is_unchanged(&way, old)? {
                if !shared.wanted.dry_run {
                    self.keep(&way, old)?;
                }
                self.counts.unchanged += 1;
                return Ok(Flow::Skip);
            }
        }
        if shared.wanted.dry_run || shared.wanted.verbose {
            let sign = if existing.is_some() { "~" } else { "+" };
            self.told(sign, entry);
        }
        self.count(&stat);
        if shared.wanted.dry_run {
            return Ok(Flow::Skip);
        }
        let mut later = Vec::new();
        if stat.links() > 1 {
            self.linked(&way, existing.as_ref(), holder, &mut later)?;
        } else {
            self.make(&way, holder, &mut later)?;
        }
        for what in later {
            entry.later(what);
        }
        Ok(Flow::Skip)
    }

    fn directory(
        &mut self,
        way: &Way<'_>,
        existing: Option<&Stat>,
        entry: &mut Entry<'_, Twin>,
    ) -> Result<Flow, Trouble> {
        let in_the_way = Err(Trouble::InTheWay(
            "something else is in the place of its copy",
        ));
        let is_root = entry.depth() == 0;
        let is_directory = |stat: &Stat| {
            stat.kind() == FileType::Directory || (is_root && stat.kind() == FileType::Symlink)
        };
        if let Some(old) = existing {
            if is_directory(old) {
                return Ok(Flow::Descend([0, 0]));
            }
            if !self.shared.wanted.replaces {
                return in_the_way;
            }
            // A link too, also one to a directory: what it leads to is no part of the copy.
            if !self.shared.wanted.dry_run {
                unlinkat(way.to, way.to_name, AtFlags::empty()).map_err(Trouble::Write)?;
            }
        }
        if self.shared.wanted.dry_run {
            self.told("+", entry);
            self.counts.directories += 1;
            return Ok(Flow::Descend([1, 0]));
        }
        match mkdirat(way.to, way.to_name, Mode::RWXU) {
            Ok(()) => {
                if self.shared.wanted.verbose {
                    self.told("+", entry);
                }
                self.counts.directories += 1;
            }
            Err(Errno::EXIST) => {
                let old = Stat::of(way.to, way.to_name).map_err(Trouble::Write)?;
                if !is_directory(&old) {
                    return in_the_way;
                }
            }
            Err(error) => return Err(Trouble::Write(error)),
        }
        Ok(Flow::Descend([0, 0]))
    }

    fn count(&mut self, stat: &Stat) {
        match stat.kind() {
            FileType::Directory => self.counts.directories += 1,
            FileType::RegularFile => self.counts.files += 1,
            FileType::Symlink => self.counts.links += 1,
            _ => self.counts.others += 1,
        }
    }

    /// Whether the copy is there already, but for its attributes.
    fn is_unchanged(&mut self, way: &Way<'_>, old: &Stat) -> Result<bool, Trouble> {
        if old.kind() != way.stat.kind() {
            return Ok(false);
        }
        match old.kind() {
            FileType::RegularFile if old.size() != way.stat.size() => Ok(false),
            FileType::RegularFile if self.shared.wanted.compare => {
                let from = open_source(way.from, way.name)?;
                let to = openat(way.to, way.to_name, SOURCE, Mode::empty());
                let to = to.map_err(Trouble::Write)?;
                let range = 0..way.stat.size();
                let same = self.copying.same(from.as_fd(), to.as_fd(), range);
                same.map_err(Trouble::Read)
            }
            FileType::RegularFile => Ok(old.modified() == way.stat.modified()),
            FileType::Symlink => {
                let target = |dir, name: &CStr| readlinkat(dir, name, Vec::new());
                let new = target(way.from, way.name).map_err(Trouble::Read)?;
                Ok(target(way.to, way.to_name).is_ok_and(|old| old == new))
            }
            FileType::CharacterDevice | FileType::BlockDevice => Ok(old.rdev() == way.stat.rdev()),
            _ => Ok(true),
        }
    }

    /// Brings the attributes of an unchanged copy, and which names it has, up to date.
    fn keep(&mut self, way: &Way<'_>, old: &Stat) -> Result<(), Trouble> {
        let of = |stat: &Stat| (stat.mode(), stat.uid(), stat.gid(), stat.modified());
        let mut same = of(old) == of(way.stat);
        if old.kind() == FileType::RegularFile {
            same = same
                && !attributes::may_have(way.from, way.name)
                && !attributes::may_have(way.to, way.to_name);
            if !same {
                let from = open_source(way.from, way.name)?;
                let to = openat(way.to, way.to_name, SOURCE, Mode::empty());
                let to = to.map_err(Trouble::Write)?;
                take_over(from.as_fd(), to.as_fd(), way.stat)?;
            }
        } else if !same {
            take_over_at(way.to, way.to_name, way.stat)?;
        }
        let linked = way.stat.links() > 1 || old.links() > 1;
        let Some(dir) = self.shared.links.dir().filter(|_| linked) else {
            return Ok(());
        };
        let key = Links::key(way.stat);
        match linkat(way.to, way.to_name, dir, &*key, AtFlags::empty()) {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) => {
                let known = Stat::of(dir, &key).map_err(Trouble::Write)?;
                if known.identity() == old.identity() {
                    return Ok(());
                }
                self.counts.hard_links += 1;
                put(way, |name| {
                    linkat(dir, &*key, way.to, name, AtFlags::empty())
                })
            }
            Err(_) => {
                self.shared.links.give_up();
                Ok(())
            }
        }
    }

    /// Copies a file with several names once.
    fn linked(
        &mut self,
        way: &Way<'_>,
        existing: Option<&Stat>,
        holder: &Arc<Dir<Twin>>,
        later: &mut Vec<Vec<u8>>,
    ) -> Result<(), Trouble> {
        let key = Links::key(way.stat);
        loop {
            let Some(dir) = self.shared.links.dir() else {
                return self.make(way, holder, later);
            };
            if let Ok(known) = Stat::of(dir, &key) {
                if existing.is_some_and(|old| old.identity() == known.identity()) {
                    return Ok(());
                }
                match put(way, |name| {
                    linkat(dir, &*key, way.to, name, AtFlags::empty())
                }) {
                    // Another file system is mounted there, or there are too many names.
                    Err(Trouble::Write(Errno::XDEV | Errno::MLINK)) => {
                        return self.make(way, holder, later);
                    }
                    done => {
                        self.counts.hard_links += 1;
                        self.counts.files -= u64::from(way.stat.kind() == FileType::RegularFile);
                        return done;
                    }
                }
            }
            // Made empty under its key first: whoever comes next links to it. Data follow.
            let made = if way.stat.kind() == FileType::RegularFile {
                openat(dir, &*key, NEW, Mode::RUSR | Mode::WUSR).map(drop)
            } else {
                make_other(way, dir, &key)
            };
            match made {
                Ok(()) => {}
                Err(Errno::EXIST) => continue,
                Err(error) => return Err(Trouble::Write(error)),
            }
            let linked = put(way, |name| {
                linkat(dir, &*key, way.to, name, AtFlags::empty())
            });
            match linked {
                Ok(()) => {}
                Err(Trouble::Write(Errno::XDEV | Errno::PERM | Errno::OPNOTSUPP)) => {
                    let _ = unlinkat(dir, &*key, AtFlags::empty());
                    return self.make(way, holder, later);
                }
                Err(error) => return Err(error),
            }
            if way.stat.kind() != FileType::RegularFile {
                return Ok(take_over_at(way.to, way.to_name, way.stat)?);
            }
            let from = open_source(way.from, way.name)?;
            let to = openat(way.to, way.to_name, COPY, Mode::empty());
            let to = to.map_err(Trouble::Write)?;
            return self.fill(way, &from, &to, None, holder, later);
        }
    }

    fn make(
        &mut self,
        way: &Way<'_>,
        holder: &Arc<Dir<Twin>>,
        later: &mut Vec<Vec<u8>>,
    ) -> Result<(), Trouble> {
        if way.stat.kind() != FileType::RegularFile {
            put(way, |name| make_other(way, way.to, name))?;
            return Ok(take_over_at(way.to, way.to_name, way.stat)?);
        }
        let from = open_source(way.from, way.name)?;
        let mode = Mode::RUSR | Mode::WUSR;
        match openat(way.to, way.to_name, NEW, mode) {
            Ok(to) => {
                let filled = self.fill(way, &from, &to, None, holder, later);
                if filled.as_ref().is_err_and(Trouble::is_of_data) {
                    let _ = unlinkat(way.to, way.to_name, AtFlags::empty());
                }
                filled
            }
            Err(Errno::EXIST) => {
                in_the_way(way)?;
                // Whoever reads it meanwhile sees the old file or the new one, not a part.
                let temporary = temporary();
                let to = openat(way.to, &*temporary, NEW, mode).map_err(Trouble::Write)?;
                let filled = self.fill(way, &from, &to, Some(&temporary), holder, later);
                if filled.is_err() {
                    let _ = unlinkat(way.to, &*temporary, AtFlags::empty());
                }
                filled
            }
            Err(error) => Err(Trouble::Write(error)),
        }
    }

    /// Copies data and attributes to a file that was made, now or later.
    fn fill(
        &mut self,
        way: &Way<'_>,
        from: &OwnedFd,
        to: &OwnedFd,
        temporary: Option<&CStr>,
        holder: &Arc<Dir<Twin>>,
        later: &mut Vec<Vec<u8>>,
    ) -> Result<(), Trouble> {
        let (from, to, size) = (from.as_fd(), to.as_fd(), way.stat.size());
        let sparse = way.stat.blocks() * 512 < size;
        if size > 0 && !self.shared.methods.share(from, to) {
            if sparse || size > 2 * TOOL_PIECE_BYTES {
                stretch(to, size)?;
            }
            if size > 2 * TOOL_PIECE_BYTES {
                for start in (0..size).step_by(TOOL_PIECE_BYTES as usize) {
                    let piece = Piece {
                        name: way.name.to_owned(),
                        temporary: temporary.map(CStr::to_owned),
                        start,
                        end: size.min(start + TOOL_PIECE_BYTES),
                        sparse,
                    };
                    later.push(postcard::to_stdvec(&piece).unwrap_or_default());
                }
                holder.state().larges().files.push(Large {
                    name: way.name.to_owned(),
                    temporary: temporary.map(CStr::to_owned),
                });
                return Ok(());
            }
            let methods = &self.shared.methods;
            self.counts.bytes += self.copying.copy(methods, from, to, 0..size, sparse)?;
        }
        let taken = take_over(from, to, way.stat);
        if let Some(temporary) = temporary {
            renameat(way.to, temporary, way.to, way.to_name).map_err(Trouble::Write)?;
        }
        Ok(taken?)
    }

    fn piece(&mut self, task: &Task<'_, Twin>, piece: &Piece) -> Result<(), Trouble> {
        let mirror = &self.shared.mirror;
        let place = mirror
            .place(task.holder(), &piece.name)
            .map_err(Trouble::Write)?;
        let from = open_source(task.dir_fd(), &piece.name)?;
        let name = piece.temporary.as_deref().unwrap_or(place.name);
        let to = openat(place.dir(), name, COPY, Mode::empty()).map_err(Trouble::Write)?;
        let (methods, range) = (&self.shared.methods, piece.start..piece.end);
        self.counts.bytes +=
            self.copying
                .copy(methods, from.as_fd(), to.as_fd(), range, piece.sparse)?;
        Ok(())
    }

    /// Finishes the large files of a directory all whose pieces are done.
    fn finish(&mut self, from: BorrowedFd<'_>, dir: &Arc<Dir<Twin>>, path: &[u8]) {
        let larges = std::mem::take(&mut *dir.state().larges());
        for large in &larges.files {
            let is_whole = !larges.failed.contains(&large.name);
            let finished = self.finish_one(from, dir, large, is_whole);
            if let Err(trouble) = finished {
                let path = [path, b"/", large.name.to_bytes()].concat();
                self.failed(&path, &trouble);
            }
        }
    }

    fn finish_one(
        &self,
        from: BorrowedFd<'_>,
        dir: &Arc<Dir<Twin>>,
        large: &Large,
        is_whole: bool,
    ) -> Result<(), Trouble> {
        let place = self
            .shared
            .mirror
            .place(dir, &large.name)
            .map_err(Trouble::Write)?;
        let name = large.temporary.as_deref().unwrap_or(place.name);
        if !is_whole {
            // What was wrong has been said.
            return unlinkat(place.dir(), name, AtFlags::empty()).map_err(Trouble::Write);
        }
        let source = open_source(from, &large.name)?;
        let stat = Stat::of_open(source.as_fd()).map_err(Trouble::Read)?;
        let to = openat(place.dir(), name, COPY, Mode::empty()).map_err(Trouble::Write)?;
        let taken = take_over(source.as_fd(), to.as_fd(), &stat);
        if large.temporary.is_some() {
            renameat(place.dir(), name, place.dir(), place.name).map_err(Trouble::Write)?;
        }
        Ok(taken?)
    }

    /// Finishes the large files among the roots, after the walk.
    pub fn finish_roots(&mut self, top: &Arc<Dir<Twin>>) {
        self.finish(CWD, top, b"");
    }

    fn leaving(&mut self, leaving: &mut Leaving<'_, Twin>) -> Result<(), Trouble> {
        let dir = Arc::clone(leaving.dir());
        let path = leaving.path().to_vec();
        let to = self.shared.mirror.open(&dir).map_err(Trouble::Write)?;
        leaving
            .in_itself(|from| {
                self.finish(from, &dir, &path);
                let stat = Stat::of_open(from).map_err(Trouble::Read)?;
                Ok(take_over(from, to.as_fd(), &stat)?)
            })
            .map_err(|kind| match kind {
                ProblemKind::Open(error) => Trouble::Read(error),
                _ => Trouble::InTheWay("it was replaced while it was copied"),
            })?
    }

    fn failed(&mut self, path: &[u8], trouble: &Trouble) {
        if let Trouble::Vanished = trouble {
            self.meter.add_vanished();
            return;
        }
        self.counts.failed += 1;
        self.meter.add_problem();
        say(self.shared.wanted.tool, path, trouble);
    }

    fn told(&mut self, sign: &str, entry: &mut Entry<'_, Twin>) {
        let mut line = format!("{sign} ");
        show(entry.path(), &mut line);
        line.push('\n');
        self.out.bytes().extend_from_slice(line.as_bytes());
        self.out.end_record();
    }
}

impl Trouble {
    /// Whether the copy's data are not those of the file.
    fn is_of_data(&self) -> bool {
        !matches!(self, Trouble::Attributes(_))
    }
}

impl Visitor for Copier<'_> {
    type Dir = Twin;

    fn entry(&mut self, entry: &mut Entry<'_, Twin>) -> Flow {
        let excluded = &self.shared.wanted.excluded;
        if !excluded.is_empty() && entry.depth() > 0 && is_excluded(excluded, entry) {
            return Flow::Skip;
        }
        match self.copy(entry) {
            Ok(flow) => flow,
            Err(trouble) => {
                self.failed(entry.path(), &trouble);
                Flow::Skip
            }
        }
    }

    fn task(&mut self, task: &mut Task<'_, Twin>) {
        let Ok(piece) = postcard::from_bytes::<Piece>(task.what()) else {
            unreachable!("it was made by a copier");
        };
        if let Err(trouble) = self.piece(task, &piece) {
            let mut larges = task.holder().state().larges();
            let is_first = !larges.failed.contains(&piece.name);
            larges.failed.push(piece.name.clone());
            drop(larges);
            if is_first {
                self.failed(task.path(piece.name.to_bytes()), &trouble);
            }
        }
    }

    fn leave(&mut self, leaving: &mut Leaving<'_, Twin>) {
        if self.shared.wanted.dry_run {
            return;
        }
        if let Err(trouble) = self.leaving(leaving) {
            self.failed(leaving.path(), &trouble);
        }
    }

    fn problem(&mut self, problem: Problem<'_>) {
        say(self.shared.wanted.tool, problem.path, problem.kind);
    }
}

const SOURCE: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);
const COPY: OFlags = OFlags::WRONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
const NEW: OFlags = COPY.union(OFlags::CREATE).union(OFlags::EXCL);

fn open_source(dir: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Trouble> {
    // A root may be a link that was followed.
    let flags = if dir.as_raw_fd() == CWD.as_raw_fd() {
        SOURCE - OFlags::NOFOLLOW
    } else {
        SOURCE
    };
    openat(dir, name, flags, Mode::empty()).map_err(|error| match error {
        Errno::NOENT => Trouble::Vanished,
        error => Trouble::Read(error),
    })
}

fn in_the_way(way: &Way<'_>) -> Result<(), Trouble> {
    match Stat::of(way.to, way.to_name) {
        Ok(old) if old.kind() == FileType::Directory => {
            Err(Trouble::InTheWay("a directory is in the place of its copy"))
        }
        _ => Ok(()),
    }
}

/// Makes something at its place, in that of what may be there.
fn put(way: &Way<'_>, make: impl Fn(&CStr) -> Result<(), Errno>) -> Result<(), Trouble> {
    match make(way.to_name) {
        Ok(()) => return Ok(()),
        Err(Errno::EXIST) => {}
        Err(error) => return Err(Trouble::Write(error)),
    }
    in_the_way(way)?;
    let temporary = temporary();
    make(&temporary).map_err(Trouble::Write)?;
    renameat(way.to, &*temporary, way.to, way.to_name).map_err(|error| {
        let _ = unlinkat(way.to, &*temporary, AtFlags::empty());
        Trouble::Write(error)
    })?;
    // Renaming one name of a file to another one of it does nothing at all.
    let _ = unlinkat(way.to, &*temporary, AtFlags::empty());
    Ok(())
}

/// Makes what is neither a file nor a directory.
fn make_other(way: &Way<'_>, to: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    if way.stat.kind() == FileType::Symlink {
        let target = readlinkat(way.from, way.name, Vec::new())?;
        return symlinkat(&*target, to, name);
    }
    let mode = Mode::from_raw_mode(way.stat.mode() & 0o7777);
    mknodat(to, name, way.stat.kind(), mode, way.stat.rdev())
}

/// A name that nobody else has.
fn temporary() -> CString {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_nanos() as u64);
    let id = std::process::id();
    CString::new(format!(".pandofs-{id:x}-{now:x}-{number:x}")).unwrap_or_default()
}
