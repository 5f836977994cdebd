//! Threads that make what is in an archive, from jobs of the reader of the headers.

use crate::copy::attributes::{is_missed, set_at, what};
use crate::copy::data::{Copying, DataError, Methods};
use crate::session::say;
use crate::tar::acl::Malformed;
use crate::tar::byte_budget::ByteBudget;
use crate::tar::header::{Kind, Member};
use crate::tar::pending::{Key, Pending};
use crate::tar::resolve_beneath::{Nowhere, Own, Resolver, Spot};
use pandofs_walk_fs::{Meter, Stat, chmod_at};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags, chownat, fchmod, fchown,
    fsetxattr, ftruncate, futimens, openat, unlinkat, utimensat,
};
use rustix::io::{Errno, pwrite, retry_on_intr};
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};

/// Treatment of existing entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Existing {
    #[default]
    Replace,
    /// It stays, and that is a failure.
    Refuse,
    /// It stays.
    Leave,
    /// It stays unless it is older than the member.
    LeaveNewer,
}

/// Attributes that members keep besides their data.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Keeping {
    pub owner: bool,
    /// Owners are those whose numbers, not whose names, the archive has.
    pub numeric: bool,
    /// Permissions that nothing gets; those that are special go too then.
    pub mask: Option<Mode>,
    pub times: bool,
}

impl Keeping {
    fn mode(&self, member: &Member) -> Mode {
        let mode = Mode::from_raw_mode(member.mode);
        match self.mask {
            Some(mask) => mode & (Mode::RWXU | Mode::RWXG | Mode::RWXO) & !mask,
            None => mode,
        }
    }
}

/// Something for a thread to do.
pub(super) enum Job {
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
pub(super) struct Large {
    pub member: Member,
    pub file: OwnedFd,
    /// Pieces that are not done.
    pub left: AtomicU64,
    /// Some will not be.
    pub is_broken: AtomicBool,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    #[error(transparent)]
    Nowhere(#[from] Nowhere),
    #[error("{0}")]
    Os(Errno),
    #[error("{0}")]
    Data(#[from] DataError),
    #[error("cannot set its {0}: {1}")]
    Attribute(&'static str, Errno),
    #[error("its access control list is not kept: {0}")]
    Acl(#[from] Malformed),
    #[error("its access control list is not kept: '{0}' is of a kind that is not known here")]
    AclKind(String),
    /// An existing entry stays, as it was asked for.
    #[error("it is there already")]
    Left,
}

impl From<Errno> for Trouble {
    fn from(error: Errno) -> Trouble {
        Trouble::Os(error)
    }
}

/// State that all threads share.
pub(super) struct Shared<'e> {
    pub root: &'e Arc<OwnedFd>,
    pub archive: Option<&'e File>,
    pub methods: Methods,
    pub meter: &'e Meter,
    pub existing: Existing,
    pub keeping: Keeping,
    /// Directories that were made by now, if it matters which were there before.
    pub own: Option<Own>,
    pub budget: ByteBudget,
    /// Paths of jobs that are not done.
    pub pending: Pending,
    /// Members that were given up, or left as they were.
    pub not_made: AtomicU64,
}

impl Shared<'_> {
    /// Does jobs until there are no more.
    pub(super) fn work(&self, jobs: &Mutex<Receiver<Job>>) {
        let mut resolver = self.resolver();
        let mut copying = Copying::new();
        loop {
            let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(job) = job else { return };
            match &job {
                Job::Small(member, data) => {
                    let done = self.small(&mut resolver, member, data);
                    self.budget.give_back(data.len());
                    self.ended(member, done);
                }
                Job::Stored(member, at) => {
                    let done = self.stored(&mut resolver, &mut copying, member, *at);
                    self.ended(member, done);
                }
                Job::Piece {
                    large,
                    from,
                    to,
                    length,
                } => {
                    let place = (*from, *to, *length);
                    self.piece(&mut resolver, &mut copying, large, place);
                }
            }
            self.meter.count_entries(1);
        }
    }

    /// A file was made, or not.
    fn ended(&self, member: &Member, done: Result<(), Trouble>) {
        if let Err(trouble) = done {
            self.failed(&member.path, &trouble);
        }
        self.pending.done(Key::of(&member.path));
    }

    /// Copies a piece: from where, to where, how long. A file of which one is missing goes, when
    /// the others are done.
    fn piece(
        &self,
        resolver: &mut Resolver,
        copying: &mut Copying,
        large: &Large,
        (from, to, length): (u64, u64, u64),
    ) {
        let file = large.file.as_fd();
        if self.meter.is_stopped() {
            large.is_broken.store(true, Ordering::Relaxed);
        } else if let Err(trouble) = self.range(copying, file, from, to, length)
            && !large.is_broken.swap(true, Ordering::Relaxed)
        {
            self.report(&large.member.path, &trouble);
        }
        if large.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            let mut done = Ok(());
            if large.is_broken.load(Ordering::Relaxed) {
                self.give_up(resolver, &large.member);
            } else {
                done = self.attributes(file, &large.member);
            }
            self.ended(&large.member, done);
        }
    }

    fn small(&self, resolver: &mut Resolver, member: &Member, data: &[u8]) -> Result<(), Trouble> {
        let file = self.make_file(&resolver.spot(&member.path)?, member)?;
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
        resolver: &mut Resolver,
        copying: &mut Copying,
        member: &Member,
        at: u64,
    ) -> Result<(), Trouble> {
        let file = self.make_file(&resolver.spot(&member.path)?, member)?;
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

    pub(super) fn attributes(&self, fd: BorrowedFd<'_>, member: &Member) -> Result<(), Trouble> {
        let failed = |what| move |error| Trouble::Attribute(what, error);
        if self.keeping.owner {
            let (uid, gid) = (Uid::from_raw(member.uid), Gid::from_raw(member.gid));
            fchown(fd, Some(uid), Some(gid)).map_err(failed("owner"))?;
        }
        let extended = extended(member, |name, value| {
            fsetxattr(fd, name, value, XattrFlags::empty())
        });
        fchmod(fd, self.keeping.mode(member)).map_err(failed("permissions"))?;
        if self.keeping.times {
            futimens(fd, &times(member)).map_err(failed("times"))?;
        }
        extended
    }

    pub(super) fn attributes_at(&self, spot: &Spot, member: &Member) -> Result<(), Trouble> {
        let failed = |what| move |error| Trouble::Attribute(what, error);
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let (dir, name) = (spot.dir(), &*spot.name);
        if self.keeping.owner {
            let (uid, gid) = (Uid::from_raw(member.uid), Gid::from_raw(member.gid));
            chownat(dir, name, Some(uid), Some(gid), flags).map_err(failed("owner"))?;
        }
        let extended = extended(member, |attribute, value| {
            set_at(dir, name, attribute, value)
        });
        if member.kind != Kind::Symlink {
            let mode = self.keeping.mode(member);
            chmod_at(dir, name, mode).map_err(failed("permissions"))?;
        }
        if self.keeping.times {
            utimensat(dir, name, &times(member), flags).map_err(failed("times"))?;
        }
        extended
    }

    /// Makes a file in the place of what may be there.
    pub(super) fn make_file(&self, spot: &Spot, member: &Member) -> Result<OwnedFd, Trouble> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let time = (member.seconds, member.nanoseconds);
        self.in_place(spot, time, || openat(spot.dir(), &*spot.name, flags, mode))
    }

    /// Makes something, in the place of what may be there unless that is a directory, or is to
    /// stay. Of seconds and nanoseconds it is newer than what is there.
    pub(super) fn in_place<T>(
        &self,
        spot: &Spot,
        time: (i64, u32),
        make: impl Fn() -> Result<T, Errno>,
    ) -> Result<T, Trouble> {
        match make() {
            Err(Errno::EXIST) => {}
            made => return Ok(made?),
        }
        match self.existing {
            Existing::Replace => {}
            Existing::Refuse => return Err(Errno::EXIST.into()),
            Existing::Leave => return Err(Trouble::Left),
            Existing::LeaveNewer => {
                let old = Stat::of(spot.dir(), &spot.name)?.modified();
                if (old.seconds, old.nanoseconds) >= time {
                    return Err(Trouble::Left);
                }
            }
        }
        unlinkat(spot.dir(), &*spot.name, AtFlags::empty())?;
        Ok(make()?)
    }

    /// A way through the directory that is unpacked to.
    pub(super) fn resolver(&self) -> Resolver {
        Resolver::new(Arc::clone(self.root), self.own.clone())
    }

    /// Removes what there is of a large file that this run made and will not finish.
    pub(super) fn give_up(&self, resolver: &mut Resolver, member: &Member) {
        self.not_made.fetch_add(1, Ordering::Relaxed);
        if let Ok(spot) = resolver.spot(&member.path) {
            let _ = unlinkat(spot.dir(), &*spot.name, AtFlags::empty());
        }
    }

    pub(super) fn failed(&self, path: &[u8], trouble: &Trouble) {
        // It is there without an attribute.
        if !matches!(trouble, Trouble::Attribute(..)) {
            self.not_made.fetch_add(1, Ordering::Relaxed);
        }
        self.report(path, trouble);
    }

    pub(super) fn report(&self, path: &[u8], trouble: &Trouble) {
        if let Trouble::Left = trouble {
            return;
        }
        self.meter.add_problem();
        say("tar", path, trouble);
    }
}

/// Gives a member its extended attributes. When one cannot be set, the others are all the same; the
/// first failure is returned.
fn extended(
    member: &Member,
    set: impl Fn(&[u8], &[u8]) -> Result<(), Errno>,
) -> Result<(), Trouble> {
    let mut first = Ok(());
    for (name, value) in &member.extended {
        match set(name, value) {
            Err(Errno::PERM | Errno::OPNOTSUPP) if !is_missed(name) => {}
            Err(error) => first = first.and(Err(Trouble::Attribute(what(name), error))),
            Ok(()) => {}
        }
    }
    first
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

pub(super) fn write_at(fd: BorrowedFd<'_>, bytes: &[u8], at: u64) -> Result<(), Errno> {
    let mut written = 0;
    while written < bytes.len() {
        let rest = &bytes[written..];
        written += retry_on_intr(|| pwrite(fd, rest, at + written as u64))?;
    }
    Ok(())
}
