//! Visitor that copies each entry to its counterpart.

use crate::copy::attributes::{self, take_over, take_over_at, take_over_unopened};
use crate::copy::data::{Copying, DataError, Methods, stretch};
use crate::copy::large::{is_large, same};
use crate::copy::links::Links;
use crate::copy::pieces::{self, Pieces};
use crate::copy::temporary;
use crate::copy::twin::{Seen, Twin};
use crate::copy::wanted::{Counts, Wanted};
use crate::mirror::Mirror;
use crate::output::Part;
use crate::session::say;
use crate::text::{JsonPath, json_line, show};
use pandofs_walk_fs::{
    Dir, Entry, FileType, Flow, Leaving, Meter, Problem, ProblemKind, Stat, Task, Visitor,
};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, mkdirat, mknodat, openat, readlinkat, renameat, symlinkat, unlinkat,
};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// Sign of an entry that was there already, and has only other attributes.
const ATTRIBUTES: &str = "=";

/// Why an entry was not copied, or not wholly.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    #[error("it vanished")]
    Vanished,
    /// Its copy has the time that it had before, so that the next run copies it again.
    #[error("it was changed while it was copied: the copy may be of both")]
    Changed,
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
    #[error("the link leads to nothing")]
    Dangling,
    /// Of a copy that failed when it had more than one name already.
    #[error("other names of its copy ({0}) lead to an empty file")]
    OtherNames(u64),
}

/// State that all threads share.
pub(crate) struct Shared {
    pub wanted: Wanted,
    pub mirror: Mirror<Twin>,
    pub links: Links,
    pub methods: Methods,
    pub pieces: Pieces,
    /// Targets of links are copied, wherever links are.
    pub follows: bool,
    /// Roots that are links are what they lead to.
    pub follows_roots: bool,
    /// Directories that are copied to, which are not copied themselves.
    pub targets: Vec<(u64, u64)>,
}

/// One thread's copier.
pub(crate) struct Copier<'c> {
    pub(super) shared: &'c Shared,
    pub(super) meter: Arc<Meter>,
    pub(super) copying: Copying,
    pub counts: Counts,
    out: Part,
}

/// Source and destination of an entry.
pub(super) struct Way<'w> {
    pub from: BorrowedFd<'w>,
    pub name: &'w CStr,
    pub stat: &'w Stat,
    pub to: BorrowedFd<'w>,
    pub to_name: &'w CStr,
    /// The directory that it is in.
    pub holder: &'w Arc<Dir<Twin>>,
}

impl<'c> Copier<'c> {
    pub(crate) fn new(shared: &'c Shared, meter: &Arc<Meter>, out: Part) -> Copier<'c> {
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
        if shared.follows && stat.kind() == FileType::Symlink {
            return Err(Trouble::Dangling);
        }
        if is_directory && shared.targets.contains(&stat.identity()) {
            return Err(Trouble::InTheWay("it is what is copied to"));
        }
        if entry.holder().state().missing {
            self.report("+", entry);
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
            holder,
        };
        let mut existing = None;
        if shared.wanted.looks() {
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
            if shared.wanted.leaves(way.stat, old) {
                self.counts.unchanged += 1;
                return Ok(Flow::Skip);
            }
            if shared.wanted.update && self.is_unchanged(&way, old)? {
                let differs =
                    attributes::differ(&way, old) || old.modified() != way.stat.modified();
                if differs && (shared.wanted.dry_run || shared.wanted.verbose) {
                    self.report(ATTRIBUTES, entry);
                }
                if !shared.wanted.dry_run {
                    self.keep(&way, old, differs)?;
                }
                self.counts.attributes += u64::from(differs);
                self.counts.unchanged += u64::from(!differs);
                return Ok(Flow::Skip);
            }
        }
        if shared.wanted.dry_run || shared.wanted.verbose {
            let sign = if existing.is_some() { "~" } else { "+" };
            self.report(sign, entry);
        }
        self.count(&stat);
        if shared.wanted.dry_run {
            return Ok(Flow::Skip);
        }
        let mut later = Vec::new();
        if stat.links() > 1 {
            self.linked(&way, existing.as_ref(), &mut later)?;
        } else {
            self.make(&way, &mut later)?;
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
                let is_told = self.shared.wanted.dry_run || self.shared.wanted.verbose;
                if is_told && !is_root && attributes::differ(way, old) {
                    self.report(ATTRIBUTES, entry);
                    self.counts.attributes += 1;
                }
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
            self.report("+", entry);
            self.counts.directories += 1;
            return Ok(Flow::Descend([1, 0]));
        }
        match mkdirat(way.to, way.to_name, Mode::RWXU) {
            Ok(()) => {
                if self.shared.wanted.verbose {
                    self.report("+", entry);
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

    /// Returns whether the copy is there already, but for its attributes.
    fn is_unchanged(&mut self, way: &Way<'_>, old: &Stat) -> Result<bool, Trouble> {
        if old.kind() != way.stat.kind() {
            return Ok(false);
        }
        match old.kind() {
            FileType::RegularFile if old.size() != way.stat.size() => Ok(false),
            FileType::RegularFile if self.shared.wanted.compare => {
                let from = self.shared.open_source(way.from, way.name)?;
                let to = openat(way.to, way.to_name, SOURCE, Mode::empty());
                let to = to.map_err(Trouble::Write)?;
                let range = 0..way.stat.size();
                let same = self.copying.same(from.as_fd(), to.as_fd(), range);
                same.map_err(Trouble::Read)
            }
            FileType::RegularFile if self.shared.wanted.size_only => Ok(true),
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
    fn keep(&mut self, way: &Way<'_>, old: &Stat, differs: bool) -> Result<(), Trouble> {
        if old.kind() == FileType::RegularFile {
            if differs {
                let from = self.shared.open_source(way.from, way.name)?;
                let to = openat(way.to, way.to_name, SOURCE, Mode::empty());
                let to = to.map_err(Trouble::Write)?;
                take_over(from.as_fd(), to.as_fd(), way.stat)?;
            }
        } else if differs {
            way.take_over()?;
        }
        if way.stat.links() > 1 || old.links() > 1 {
            self.keep_names(way, old)?;
        }
        Ok(())
    }

    pub(super) fn make(&mut self, way: &Way<'_>, later: &mut Vec<Vec<u8>>) -> Result<(), Trouble> {
        if way.stat.kind() != FileType::RegularFile {
            put(way, |name| make_other(way, way.to, name))?;
            return Ok(way.take_over()?);
        }
        let from = self.shared.open_source(way.from, way.name)?;
        let mode = Mode::RUSR | Mode::WUSR;
        // A large one has its name when it is complete: whatever ends the run, no part of it, with
        // holes, has it. Nor of others, where the next run takes whatever has the name for the
        // copy. All others are taken for it by their time, which comes last, and a name of their
        // own at once saves a call for each file.
        if !is_large(way.stat) && !self.shared.wanted.takes_names() {
            match openat(way.to, way.to_name, NEW, mode) {
                Ok(to) => {
                    let filled = self.fill(way, &from, &to, None, Some(later));
                    if filled.as_ref().is_err_and(Trouble::is_of_data) {
                        let _ = unlinkat(way.to, way.to_name, AtFlags::empty());
                    }
                    return filled;
                }
                Err(Errno::EXIST) => {}
                Err(error) => return Err(Trouble::Write(error)),
            }
        }
        in_the_way(way)?;
        if is_large(way.stat) && self.shared.wanted.update {
            let temporary = way.temporary();
            if let Some(there) = pieces::left(way.to, &temporary, way.stat) {
                self.put_off(way, Some(&temporary), &there, later);
                return Ok(());
            }
        }
        // A reader sees the old file or the new one meanwhile, not a part.
        let (temporary, to) = way.temporarily(|name| openat(way.to, name, NEW, mode))?;
        let filled = self.fill(way, &from, &to, Some(&temporary), Some(later));
        if filled.is_err() {
            let _ = unlinkat(way.to, &*temporary, AtFlags::empty());
        }
        filled
    }

    /// Copies data and attributes to a file that was made, now or later, if it may be later.
    pub(super) fn fill(
        &mut self,
        way: &Way<'_>,
        from: &OwnedFd,
        to: &OwnedFd,
        temporary: Option<&CStr>,
        later: Option<&mut Vec<Vec<u8>>>,
    ) -> Result<(), Trouble> {
        let mut unchanged = Ok(());
        let (from, to, size) = (from.as_fd(), to.as_fd(), way.stat.size());
        let sparse = way.is_sparse();
        if size == 0 {
            // A file that the kernel makes up when it is read has no size, as in /proc.
            self.counts.bytes += self.copying.copy_to_end(&self.shared.methods, from, to)?;
        } else if !self.shared.methods.share(from, to) {
            let later = later.filter(|_| is_large(way.stat));
            if sparse || later.is_some() {
                stretch(to, size)?;
            }
            if let Some(later) = later {
                if let Some(temporary) = temporary {
                    pieces::begin(way.to, temporary, way.to_name, way.stat, to);
                }
                self.put_off(way, temporary, &[], later);
                return Ok(());
            }
            let methods = &self.shared.methods;
            self.counts.bytes += self.copying.copy(methods, from, to, 0..size, sparse)?;
            let now = Stat::of_open(from).map_err(Trouble::Read)?;
            unchanged = same(&Seen::of(way.stat), &now);
        }
        let taken = take_over(from, to, way.stat);
        if let Some(temporary) = temporary {
            renameat(way.to, temporary, way.to, way.to_name).map_err(Trouble::Write)?;
        }
        taken?;
        unchanged
    }

    fn leaving(&mut self, leaving: &mut Leaving<'_, Twin>) -> Result<(), Trouble> {
        let dir = Arc::clone(leaving.dir());
        let path = leaving.path().to_vec();
        let to = self.shared.mirror.open(&dir).map_err(Trouble::Write)?;
        let done = leaving.in_itself(|from| {
            self.finish(from, &dir, &path);
            let stat = Stat::of_open(from).map_err(Trouble::Read)?;
            Ok(take_over(from, to.as_fd(), &stat)?)
        });
        let done = match done {
            // That it may not be read was reported when it was to be entered.
            Err(ProblemKind::Open(Errno::ACCESS)) => leaving.in_parent(|above, name| {
                let stat = Stat::of(above, name).map_err(Trouble::Read)?;
                Ok(take_over_unopened((above, name), to.as_fd(), &stat)?)
            }),
            done => done,
        };
        done.map_err(|kind| match kind {
            ProblemKind::Open(error) => Trouble::Read(error),
            _ => Trouble::InTheWay("it was replaced while it was copied"),
        })?
    }

    pub(super) fn failed(&mut self, path: &[u8], trouble: &Trouble) {
        if let Trouble::Vanished | Trouble::Read(Errno::NOENT) = trouble {
            self.meter.add_vanished();
            return;
        }
        self.counts.failed += 1;
        self.meter.add_problem();
        say(self.shared.wanted.tool, path, trouble);
    }

    fn report(&mut self, sign: &str, entry: &mut Entry<'_, Twin>) {
        report_change(sign, entry.path(), self.shared.wanted.json, &mut self.out);
    }
}

/// Reports what becomes of an entry.
pub(super) fn report_change(sign: &str, path: &[u8], json: bool, out: &mut Part) {
    #[derive(serde::Serialize)]
    struct Change<'t> {
        #[serde(flatten)]
        path: JsonPath<'t>,
        done: &'t str,
    }
    if json {
        let path = JsonPath::new(path);
        json_line(&Change { path, done: sign }, out.bytes());
    } else {
        let mut line = format!("{sign} ");
        show(path, &mut line);
        line.push('\n');
        out.bytes().extend_from_slice(line.as_bytes());
    }
    out.end_record();
}

impl Trouble {
    /// Returns whether the copy's data are not those of the file.
    pub(super) fn is_of_data(&self) -> bool {
        !matches!(self, Trouble::Attributes(_) | Trouble::Changed)
    }
}

impl Visitor for Copier<'_> {
    type Dir = Twin;

    fn entry(&mut self, entry: &mut Entry<'_, Twin>) -> Flow {
        if entry.depth() > 0
            && (temporary::is_one(entry.name()) || self.shared.wanted.leaves_out(entry))
        {
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
        self.part(task);
    }

    fn leave(&mut self, leaving: &mut Leaving<'_, Twin>) {
        if self.shared.wanted.dry_run {
            return;
        }
        if let Err(trouble) = self.leaving(leaving) {
            self.failed(leaving.path(), &trouble);
        }
    }

    fn abandon(&mut self, leaving: &mut Leaving<'_, Twin>) {
        self.give_up(leaving.dir());
    }

    fn problem(&mut self, problem: Problem<'_>) {
        say(self.shared.wanted.tool, problem.path, problem.kind);
    }
}

const SOURCE: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);
pub(super) const COPY: OFlags = OFlags::WRONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
pub(super) const NEW: OFlags = COPY.union(OFlags::CREATE).union(OFlags::EXCL);

impl Shared {
    pub(super) fn open_source(&self, dir: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Trouble> {
        // A root may be a link that was followed as such; what was no link may be one by now.
        let is_root = dir.as_raw_fd() == CWD.as_raw_fd();
        let flags = if self.follows || self.follows_roots && is_root {
            SOURCE - OFlags::NOFOLLOW
        } else {
            SOURCE
        };
        openat(dir, name, flags, Mode::empty()).map_err(|error| match error {
            Errno::NOENT => Trouble::Vanished,
            error => Trouble::Read(error),
        })
    }
}

pub(super) fn in_the_way(way: &Way<'_>) -> Result<(), Trouble> {
    match Stat::of(way.to, way.to_name) {
        Ok(old) if old.kind() == FileType::Directory => {
            Err(Trouble::InTheWay("a directory is in the place of its copy"))
        }
        _ => Ok(()),
    }
}

/// Makes something at its place, in that of what may be there.
pub(super) fn put(way: &Way<'_>, make: impl Fn(&CStr) -> Result<(), Errno>) -> Result<(), Trouble> {
    match make(way.to_name) {
        Ok(()) => return Ok(()),
        Err(Errno::EXIST) => {}
        Err(error) => return Err(Trouble::Write(error)),
    }
    in_the_way(way)?;
    let (temporary, ()) = way.temporarily(make)?;
    renameat(way.to, &*temporary, way.to, way.to_name).map_err(|error| {
        let _ = unlinkat(way.to, &*temporary, AtFlags::empty());
        Trouble::Write(error)
    })?;
    // Renaming one name of a file to another one of it does nothing at all.
    let _ = unlinkat(way.to, &*temporary, AtFlags::empty());
    Ok(())
}

/// Makes what is neither a file nor a directory.
pub(super) fn make_other(way: &Way<'_>, to: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    if way.stat.kind() == FileType::Symlink {
        let target = readlinkat(way.from, way.name, Vec::new())?;
        return symlinkat(&*target, to, name);
    }
    let mode = Mode::from_raw_mode(way.stat.mode() & 0o7777);
    mknodat(to, name, way.stat.kind(), mode, way.stat.rdev())
}

impl Way<'_> {
    /// Takes over all but data, of an entry that cannot be opened.
    pub(super) fn take_over(&self) -> Result<(), attributes::Failed> {
        let (from, to) = ((self.from, self.name), (self.to, self.to_name));
        take_over_at(from, to, self.stat)
    }

    /// Makes something under the name that a copy has until it is complete, in the place of what an
    /// earlier run may have left there.
    pub(super) fn temporarily<T>(
        &self,
        make: impl Fn(&CStr) -> Result<T, Errno>,
    ) -> Result<(CString, T), Trouble> {
        let name = self.temporary();
        let made = match make(&name) {
            Err(Errno::EXIST) => {
                unlinkat(self.to, &*name, AtFlags::empty()).map_err(Trouble::Write)?;
                let _ = unlinkat(self.to, &*temporary::known(&name), AtFlags::empty());
                make(&name)
            }
            made => made,
        };
        Ok((name, made.map_err(Trouble::Write)?))
    }

    /// Returns whether there may be holes in it.
    pub(super) fn is_sparse(&self) -> bool {
        self.stat.blocks() * 512 < self.stat.size()
    }

    fn temporary(&self) -> CString {
        let mut root = self.name;
        if !self.holder.is_above_roots() {
            let mut dir = self.holder;
            while let Some(above) = dir.parent() {
                dir = above;
            }
            root = dir.name();
        }
        temporary::of(root, self.to_name)
    }
}
