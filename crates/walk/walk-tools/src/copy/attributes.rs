//! Attributes that a copy takes over besides the data.
//!
//! They are the owner, extended attributes (access control lists are two of them), permissions,
//! times.

use crate::copy::copier::Way;
use pandofs_walk_fs::{FileType, Stat, Time, chmod_at};
use rustix::fd::BorrowedFd;
use rustix::fs::{
    AtFlags, CWD, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags, chownat, fchmod, fchown,
    fgetxattr, flistxattr, fremovexattr, fsetxattr, futimens, lgetxattr, llistxattr, lremovexattr,
    lsetxattr, utimensat,
};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::os::fd::AsRawFd;

/// Takes over all that there is from an open file or directory to another one. The first thing that
/// could not be done is returned; the rest is done all the same.
///
/// # Errors
/// The first failure.
pub(crate) fn take_over(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    stat: &Stat,
) -> Result<(), Failed> {
    take_over_with(from, to, stat, &times(stat))
}

/// The same with other times.
///
/// # Errors
/// The first failure.
pub(crate) fn take_over_with(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    stat: &Stat,
    times: &Timestamps,
) -> Result<(), Failed> {
    take_over_to(&Node::Open(from), to, stat, times)
}

/// The same from what may not be opened.
///
/// # Errors
/// The first failure.
pub(crate) fn take_over_unopened(
    (dir, name): (BorrowedFd<'_>, &CStr),
    to: BorrowedFd<'_>,
    stat: &Stat,
) -> Result<(), Failed> {
    take_over_to(&Node::at(dir, name), to, stat, &times(stat))
}

fn take_over_to(
    from: &Node<'_>,
    to: BorrowedFd<'_>,
    stat: &Stat,
    times: &Timestamps,
) -> Result<(), Failed> {
    // The owner first: a change of it takes set-id bits away.
    let owner = owner(stat, |uid, gid| fchown(to, uid, gid)).map_err(|it| Failed("owner", it));
    let extended = extended(from, &Node::Open(to));
    let mode = Stat::of_open(to).map(|now| kept_mode(stat, &now));
    let mode = mode.and_then(|mode| fchmod(to, mode));
    let mode = mode.map_err(|it| Failed("permissions", it));
    // The times last: all of the above changes none, but what was written before did.
    let times = futimens(to, times).map_err(|it| Failed("times", it));
    owner.and(extended).and(mode).and(times)
}

/// The same for what cannot be opened, as links, which have no permissions.
///
/// # Errors
/// The first failure.
pub(crate) fn take_over_at(
    from: (BorrowedFd<'_>, &CStr),
    (dir, name): (BorrowedFd<'_>, &CStr),
    stat: &Stat,
) -> Result<(), Failed> {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    let change = |uid, gid| chownat(dir, name, uid, gid, flags);
    let owner = owner(stat, change).map_err(|it| Failed("owner", it));
    let extended = extended(&Node::at(from.0, from.1), &Node::at(dir, name));
    let mode = if stat.kind() == FileType::Symlink {
        Ok(())
    } else {
        let mode = Stat::of(dir, name).map(|now| kept_mode(stat, &now));
        mode.and_then(|mode| chmod_at(dir, name, mode))
            .map_err(|it| Failed("permissions", it))
    };
    let times = utimensat(dir, name, &times(stat), flags).map_err(|it| Failed("times", it));
    owner.and(extended).and(mode).and(times)
}

/// Something of a copy that is not as it should be.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("cannot take over its {0}: {1}")]
pub(crate) struct Failed(pub &'static str, pub Errno);

/// The permissions that a copy keeps, whose owner may not be that of the original: without what
/// lets others act as the owner or the group, where that would be another one.
fn kept_mode(original: &Stat, copy: &Stat) -> Mode {
    let mut mode = original.mode() & 0o7777;
    if copy.uid() != original.uid() {
        mode &= !0o4000;
    }
    if copy.gid() != original.gid() {
        mode &= !0o2000;
    }
    Mode::from_raw_mode(mode)
}

fn owner(
    stat: &Stat,
    change: impl Fn(Option<Uid>, Option<Gid>) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let (uid, gid) = (Uid::from_raw(stat.uid()), Gid::from_raw(stat.gid()));
    if rustix::process::geteuid().is_root() {
        return change(Some(uid), Some(gid));
    }
    // Others may give files to groups that they are in, and keep their own.
    match change(None, Some(gid)) {
        Err(Errno::PERM) => Ok(()),
        other => other,
    }
}

/// Something that has extended attributes.
enum Node<'n> {
    Open(BorrowedFd<'n>),
    /// A path, of a file that cannot be opened, or of which opening has an effect.
    Named(Vec<u8>),
}

impl Node<'_> {
    /// There are no such calls relative to a directory, but there is a path to one that is open.
    fn at(dir: BorrowedFd<'_>, name: &CStr) -> Node<'static> {
        if dir.as_raw_fd() == CWD.as_raw_fd() {
            return Node::Named(name.to_bytes().to_vec());
        }
        let mut path = format!("/proc/self/fd/{}/", dir.as_raw_fd()).into_bytes();
        path.extend_from_slice(name.to_bytes());
        Node::Named(path)
    }

    fn list(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        match self {
            Node::Open(fd) => flistxattr(fd, buffer),
            Node::Named(path) => llistxattr(&**path, buffer),
        }
    }

    fn get(&self, name: &CStr, buffer: &mut [u8]) -> Result<usize, Errno> {
        match self {
            Node::Open(fd) => fgetxattr(fd, name, buffer),
            Node::Named(path) => lgetxattr(&**path, name, buffer),
        }
    }

    fn set(&self, name: &CStr, value: &[u8]) -> Result<(), Errno> {
        match self {
            Node::Open(fd) => fsetxattr(fd, name, value, XattrFlags::empty()),
            Node::Named(path) => lsetxattr(&**path, name, value, XattrFlags::empty()),
        }
    }

    fn remove(&self, name: &CStr) -> Result<(), Errno> {
        match self {
            Node::Open(fd) => fremovexattr(fd, name),
            Node::Named(path) => lremovexattr(&**path, name),
        }
    }
}

const ACCESS_LISTS: &[u8] = b"system.posix_acl_";

/// Returns whether to report that a copy is without this attribute. Others only root may set, and
/// the other file system may have none of their kind. One without its access control list lets
/// others in: the permissions of its group are those that the list gives at most.
pub(crate) fn is_missed(attribute: &[u8]) -> bool {
    attribute.starts_with(b"user.") || attribute.starts_with(ACCESS_LISTS)
}

/// Returns the name of this attribute in messages.
pub(crate) fn what(attribute: &[u8]) -> &'static str {
    match attribute.starts_with(ACCESS_LISTS) {
        true => "access control list",
        false => "extended attributes",
    }
}

fn extended(from: &Node<'_>, to: &Node<'_>) -> Result<(), Failed> {
    let failed = |error| Failed("extended attributes", error);
    let wanted = names(from).map_err(failed)?;
    // A new file may have some as well: those that its directory has for what is made in it.
    let had = names(to).map_err(failed)?;
    let mut first = Ok(());
    let mut done = |name: &CStr, result| match result {
        Err(Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP) if !is_missed(name.to_bytes()) => {}
        // It was removed meanwhile.
        Ok(()) | Err(Errno::NODATA) => {}
        Err(error) => first = first.and(Err(Failed(what(name.to_bytes()), error))),
    };
    for name in each(&had) {
        if !each(&wanted).any(|it| it == name) {
            done(name, to.remove(name));
        }
    }
    for name in each(&wanted) {
        let value = all(|buffer| from.get(name, buffer));
        let set = value.and_then(|value| to.set(name, &value));
        done(name, set);
    }
    first
}

/// Names of extended attributes, each with a NUL after it.
fn names(of: &Node<'_>) -> Result<Vec<u8>, Errno> {
    let mut small = [0_u8; 256];
    match of.list(&mut small[..]) {
        Ok(length) => Ok(small[..length].to_vec()),
        Err(Errno::OPNOTSUPP) => Ok(Vec::new()),
        Err(Errno::RANGE) => all(|buffer| of.list(buffer)),
        Err(error) => Err(error),
    }
}

fn each(names: &[u8]) -> impl Iterator<Item = &CStr> {
    let names = names.split_inclusive(|byte| *byte == 0);
    names.filter_map(|name| CStr::from_bytes_with_nul(name).ok())
}

/// Returns whether anything of the copy that is there is to be changed by [`take_over`], but for
/// its times; as far as the caller may change it.
pub(super) fn differ(way: &Way<'_>, old: &Stat) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    let owners = |stat: &Stat| (stat.uid(), stat.gid());
    if is_root && owners(way.stat) != owners(old) {
        return true;
    }
    // A file that is to have another owner has it by now, or never will.
    if old.kind() != FileType::Symlink
        && kept_mode(way.stat, old).as_raw_mode() != old.mode() & 0o7777
    {
        return true;
    }
    let may_be_set = |name: &CStr| {
        let name = name.to_bytes();
        is_root || is_missed(name)
    };
    let of = |node: Node<'_>| -> Result<Listed, Errno> {
        let names = names(&node)?;
        // As a rule there are none.
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let mut listed = listed(&node)?;
        listed.retain(|(name, _)| may_be_set(name));
        Ok(listed)
    };
    let wanted = of(Node::at(way.from, way.name));
    let had = of(Node::at(way.to, way.to_name));
    // Attributes that cannot be read are set all the same, and errors reported.
    !matches!((wanted, had), (Ok(wanted), Ok(had)) if wanted == had)
}

fn all(read: impl Fn(&mut [u8]) -> Result<usize, Errno>) -> Result<Vec<u8>, Errno> {
    let mut buffer = vec![0; 256];
    loop {
        match read(&mut buffer) {
            Ok(length) => {
                buffer.truncate(length);
                return Ok(buffer);
            }
            Err(Errno::RANGE) if buffer.len() < 1 << 20 => buffer.resize(buffer.len() * 16, 0),
            Err(error) => return Err(error),
        }
    }
}

/// Extended attributes of an open file, in the order of their names.
///
/// # Errors
/// When they cannot be read.
pub(crate) fn list(fd: BorrowedFd<'_>) -> Result<Listed, Errno> {
    listed(&Node::Open(fd))
}

/// The same of what cannot be opened, as links.
///
/// # Errors
/// When they cannot be read.
pub(crate) fn list_at(dir: BorrowedFd<'_>, name: &CStr) -> Result<Listed, Errno> {
    listed(&Node::at(dir, name))
}

/// Names and values.
type Listed = Vec<(CString, Vec<u8>)>;

fn listed(of: &Node<'_>) -> Result<Listed, Errno> {
    let names = names(of)?;
    let mut listed = Vec::new();
    for name in each(&names) {
        listed.push((name.to_owned(), all(|buffer| of.get(name, buffer))?));
    }
    listed.sort_unstable();
    Ok(listed)
}

/// Sets one of what cannot be opened, as links.
///
/// # Errors
/// When it cannot be set.
pub(crate) fn set_at(
    dir: BorrowedFd<'_>,
    name: &CStr,
    attribute: &[u8],
    value: &[u8],
) -> Result<(), Errno> {
    let attribute = CString::new(attribute).map_err(|_| Errno::INVAL)?;
    Node::at(dir, name).set(&attribute, value)
}

/// The times of access and modification.
pub(crate) fn times(stat: &Stat) -> Timestamps {
    Timestamps {
        last_access: timespec(stat.accessed()),
        last_modification: timespec(stat.modified()),
    }
}

fn timespec(time: Time) -> Timespec {
    Timespec {
        tv_sec: time.seconds,
        tv_nsec: i64::from(time.nanoseconds),
    }
}
