//! Calls that name something by a path, and what they do to names.

use super::paths::{Found, Walk};
use super::process::Spot;
use super::value::{AT_FDCWD, Call, Returned, descriptor, field, has_flag, integer, mode, string};
use super::{During, Strace};
use crate::import::Problem;
use crate::import::names::{by_name, by_number};
use crate::op::{Kind, escape};
use crate::recording::Event;

pub(super) const ENOENT: i32 = 2;
pub(super) const EEXIST: i32 = 17;
const ENOTDIR: i32 = 20;
pub(super) const EISDIR: i32 = 21;
const EINVAL: i32 = 22;
pub(super) const ENOTEMPTY: i32 = 39;
const ENODATA: i32 = 61;
/// Errors that follow from what names and inodes are, so that they come again. All others are of rights, disks and time.
const COME_AGAIN: [i32; 7] = [ENOENT, EEXIST, ENOTDIR, EISDIR, EINVAL, ENOTEMPTY, ENODATA];

/// Calls that are understood, and may fail for reasons that are not in [`COME_AGAIN`].
#[rustfmt::skip]
const OF_FILES: [&str; 85] = [
    "access", "chdir", "chmod", "chown", "chown32", "close", "close_range", "copy_file_range", "creat", "dup", "dup2", "dup3",
    "execve", "execveat", "faccessat", "faccessat2", "fallocate", "fchdir", "fchmod", "fchmodat", "fchmodat2", "fchown",
    "fchown32", "fchownat", "fcntl", "fcntl64", "fgetxattr", "flistxattr", "fremovexattr", "fsetxattr", "fstat", "fstat64",
    "fstatat64", "ftruncate", "ftruncate64", "futimes", "futimesat", "getdents", "getdents64", "getxattr", "lchown", "lchown32",
    "lgetxattr", "link", "linkat", "listxattr", "llistxattr", "lremovexattr", "lseek", "lsetxattr", "lstat", "lstat64", "mkdir",
    "mkdirat", "mknod", "mknodat", "newfstatat", "open", "openat", "openat2", "pread64", "preadv", "preadv2", "pwrite64",
    "pwritev", "pwritev2", "read", "readlink", "readlinkat", "readv", "removexattr", "rename", "renameat", "renameat2", "rmdir",
    "sendfile", "setxattr", "stat", "statx", "symlink", "symlinkat", "truncate", "unlink", "unlinkat", "utimensat",
];

/// Calls on an object by path or descriptor that a recording has nothing for.
const WITHOUT_COUNTERPART: [&str; 22] = [
    "bind",
    "chroot",
    "fadvise64",
    "fdatasync",
    "flock",
    "fstatfs",
    "fstatfs64",
    "fsync",
    "inotify_add_watch",
    "ioctl",
    "mmap",
    "mount",
    "name_to_handle_at",
    "pivot_root",
    "quotactl",
    "readahead",
    "splice",
    "statfs",
    "statfs64",
    "swapon",
    "sync_file_range",
    "vmsplice",
];

impl Call<'_> {
    pub(super) fn argument(&self, at: usize) -> Result<&[u8], Problem> {
        self.arguments.get(at).copied().ok_or(Problem::Argument)
    }

    pub(super) fn error(&self) -> Option<i32> {
        match self.returned {
            Returned::Error(error) => Some(error),
            _ => None,
        }
    }

    pub(super) fn value(&self) -> Option<i64> {
        match self.returned {
            Returned::Value(value, _) => Some(value),
            _ => None,
        }
    }

    /// An unsigned number.
    pub(super) fn number(&self, at: usize) -> Result<u64, Problem> {
        let number = integer(self.argument(at)?).and_then(|number| u64::try_from(number).ok());
        number.ok_or(Problem::Argument)
    }

    fn flags(&self, at: usize) -> &[u8] {
        self.arguments.get(at).copied().unwrap_or(b"0")
    }
}

impl Strace {
    pub(super) fn perform(&mut self, call: &Call<'_>, during: During) -> Result<(), Problem> {
        if call
            .error()
            .is_some_and(|error| !COME_AGAIN.contains(&error))
        {
            let why = if is_of_files(call.name) {
                "failed-otherwise"
            } else {
                "no-file"
            };
            return self.left.count(why, call.name);
        }
        match call.name {
            "open" => self.open(call, None, call.argument(1)?, call.flags(2), during),
            "creat" => self.open(
                call,
                None,
                b"O_WRONLY|O_CREAT|O_TRUNC",
                call.argument(1)?,
                during,
            ),
            "openat" => self.open(call, Some(0), call.argument(2)?, call.flags(3), during),
            "openat2" => {
                let how = call.argument(2)?;
                let flags = field(how, "flags").ok_or(Problem::Argument)?;
                self.open(
                    call,
                    Some(0),
                    flags,
                    field(how, "mode").unwrap_or(b"0"),
                    during,
                )
            }
            "stat" | "stat64" | "oldstat" => self.stat(call, (None, 0, 1), true, during),
            "lstat" | "lstat64" => self.stat(call, (None, 0, 1), false, during),
            "newfstatat" | "fstatat64" => {
                let follows = !has_flag(call.flags(3), "AT_SYMLINK_NOFOLLOW");
                self.stat(call, (Some(0), 1, 2), follows, during)
            }
            "statx" => {
                let follows = !has_flag(call.flags(2), "AT_SYMLINK_NOFOLLOW");
                self.stat(call, (Some(0), 1, 4), follows, during)
            }
            "access" | "execve" => self.look_up(call, None, 0, during),
            "faccessat" | "faccessat2" | "execveat" => self.look_up(call, Some(0), 1, during),
            "chdir" => self.change_directory(call, during),
            "readlink" => self.read_link(call, None, 0, during),
            "readlinkat" => self.read_link(call, Some(0), 1, during),
            "mkdir" => self.make(call, Kind::Mkdir, (None, 0), Some(1), during),
            "mkdirat" => self.make(call, Kind::Mkdir, (Some(0), 1), Some(2), during),
            "mknod" => self.make(call, Kind::Mknod, (None, 0), Some(1), during),
            "mknodat" => self.make(call, Kind::Mknod, (Some(0), 1), Some(2), during),
            "symlink" => self.make(call, Kind::Symlink, (None, 1), None, during),
            "symlinkat" => self.make(call, Kind::Symlink, (Some(1), 2), None, during),
            "link" => self.link(call, (None, 0), (None, 1), false, during),
            "linkat" => {
                let follows = has_flag(call.flags(4), "AT_SYMLINK_FOLLOW");
                self.link(call, (Some(0), 1), (Some(2), 3), follows, during)
            }
            "unlink" => self.remove(call, Kind::Unlink, (None, 0), during),
            "rmdir" => self.remove(call, Kind::Rmdir, (None, 0), during),
            "unlinkat" => {
                let kind = match has_flag(call.flags(2), "AT_REMOVEDIR") {
                    true => Kind::Rmdir,
                    false => Kind::Unlink,
                };
                self.remove(call, kind, (Some(0), 1), during)
            }
            "rename" => self.rename(call, (None, 0), (None, 1), b"0", during),
            "renameat" => self.rename(call, (Some(0), 1), (Some(2), 3), b"0", during),
            "renameat2" => self.rename(call, (Some(0), 1), (Some(2), 3), call.flags(4), during),
            "chmod" => self.set(call, (None, 0), true, set_mode(call.argument(1)?)?, during),
            "fchmodat" | "fchmodat2" => {
                let follows = !has_flag(call.flags(3), "AT_SYMLINK_NOFOLLOW");
                let set = set_mode(call.argument(2)?)?;
                self.set(call, (Some(0), 1), follows, set, during)
            }
            "chown" | "chown32" => {
                let set = set_owner(call.argument(1)?, call.argument(2)?);
                self.set(call, (None, 0), true, set, during)
            }
            "lchown" | "lchown32" => {
                let set = set_owner(call.argument(1)?, call.argument(2)?);
                self.set(call, (None, 0), false, set, during)
            }
            "fchownat" => {
                let follows = !has_flag(call.flags(4), "AT_SYMLINK_NOFOLLOW");
                let set = set_owner(call.argument(2)?, call.argument(3)?);
                self.set(call, (Some(0), 1), follows, set, during)
            }
            "truncate" | "truncate64" => {
                let set = set_size(call.number(1)?);
                self.set(call, (None, 0), true, set, during)
            }
            "utime" | "utimes" => self.set(call, (None, 0), true, set_times(), during),
            "futimesat" => self.set(call, (Some(0), 1), true, set_times(), during),
            "utimensat" => {
                let follows = !has_flag(call.flags(3), "AT_SYMLINK_NOFOLLOW");
                self.set(call, (Some(0), 1), follows, set_times(), during)
            }
            "getxattr" | "setxattr" | "removexattr" | "listxattr" => {
                self.attribute(call, true, during)
            }
            "lgetxattr" | "lsetxattr" | "lremovexattr" | "llistxattr" => {
                self.attribute(call, false, during)
            }
            name if WITHOUT_COUNTERPART.contains(&name) => self.leave_out(call, during),
            _ => self.on_descriptor(call, during),
        }
    }

    /// What a path in the arguments leads to, from a descriptor in them or the working directory.
    pub(super) fn place(
        &mut self,
        call: &Call<'_>,
        (from, path): (Option<usize>, usize),
        follows: bool,
        during: During,
    ) -> Result<Found, Problem> {
        let from = match from {
            Some(at) => descriptor(call.argument(at)?)?,
            None => (AT_FDCWD, None),
        };
        let Some((path, true)) = string(call.argument(path)?)? else {
            return Ok(Found::Unknown);
        };
        let base = match path.starts_with(b"/") {
            true => Some(Spot::Outside(b"/".to_vec())),
            false => self.base(from, during)?,
        };
        let Some(base) = base else {
            return Ok(Found::Unknown);
        };
        let how = Walk {
            follows,
            error: call.error(),
        };
        self.walk(&base, &path, how, during)
    }

    /// Tells of what cannot be done by name; the name otherwise.
    pub(super) fn name_of(
        &mut self,
        call: &Call<'_>,
        found: Found,
        during: During,
    ) -> Result<Option<(u64, Vec<u8>)>, Problem> {
        match found {
            Found::Name(dir, name) => return Ok(Some((dir, name))),
            Found::Missing(dir, name) => self.missing(dir, &name, during),
            Found::Outside(_) => self.left.count("outside", call.name)?,
            // The root cannot be made, moved or removed, nor can anything by `.` or `..`.
            Found::Dir(_) => self.left.count("no-counterpart", call.name)?,
            Found::Unknown => self.left.count("path-unknown", call.name)?,
        }
        Ok(None)
    }

    /// The inode of what is there; tells of what is not.
    pub(super) fn node_of(
        &mut self,
        call: &Call<'_>,
        found: Found,
        during: During,
    ) -> Result<Option<u64>, Problem> {
        if let Found::Dir(dir) = found {
            return Ok(Some(dir));
        }
        let Some((dir, name)) = self.name_of(call, found, during)? else {
            return Ok(None);
        };
        if call.error() == Some(ENOENT) && self.names.get(dir, &name).is_none() {
            let event = by_name(Kind::Lookup, dir, &name);
            self.emit(failed(event, ENOENT), during);
            return Ok(None);
        }
        self.there(dir, &name, during).map(Some)
    }

    /// The same of a path, or of a descriptor if the path is empty or missing.
    fn object(
        &mut self,
        call: &Call<'_>,
        at: (Option<usize>, usize),
        follows: bool,
        during: During,
    ) -> Result<Option<u64>, Problem> {
        let path = call.argument(at.1)?;
        let is_of_descriptor = path == b"NULL" || path == b"\"\"";
        if let (Some(from), true) = (at.0, is_of_descriptor && call.error().is_none()) {
            return self.inside(call, from, during);
        }
        let found = self.place(call, at, follows, during)?;
        self.node_of(call, found, during)
    }

    /// The inode that a descriptor in the arguments is of, if it is in the tree.
    pub(super) fn inside(
        &mut self,
        call: &Call<'_>,
        at: usize,
        during: During,
    ) -> Result<Option<u64>, Problem> {
        match self.base(descriptor(call.argument(at)?)?, during)? {
            Some(Spot::Inside(ino)) => Ok(Some(ino)),
            _ => {
                self.left.count("outside", call.name)?;
                Ok(None)
            }
        }
    }

    fn stat(
        &mut self,
        call: &Call<'_>,
        (from, path, told): (Option<usize>, usize, usize),
        follows: bool,
        during: During,
    ) -> Result<(), Problem> {
        if let Some(ino) = self.object(call, (from, path), follows, during)?
            && call.error().is_none()
        {
            self.told(ino, call.argument(told)?);
            self.emit(by_number(Kind::Stat, ino), during);
        }
        Ok(())
    }

    /// Takes note of a structure with attributes.
    pub(super) fn told(&mut self, ino: u64, attributes: &[u8]) {
        let text = |name: &str, other: &str| field(attributes, name).or(field(attributes, other));
        let kind = text("st_mode", "stx_mode").and_then(kind_of);
        if let Some(kind) = kind {
            self.names.learn_kind(ino, kind);
        }
        let size = text("st_size", "stx_size").and_then(integer);
        if let (Some('f' | 'l'), Some(size)) =
            (kind, size.and_then(|size| u64::try_from(size).ok()))
        {
            self.names.learn_size(ino, size, false);
        }
    }

    /// A call that asks whether there is something.
    fn look_up(
        &mut self,
        call: &Call<'_>,
        from: Option<usize>,
        path: usize,
        during: During,
    ) -> Result<(), Problem> {
        let found = self.place(call, (from, path), true, during)?;
        let name = match &found {
            Found::Name(dir, name) => self.names.get(*dir, name).map(|_| (*dir, name.clone())),
            _ => None,
        };
        let ino = self.node_of(call, found, during)?;
        if let (Some(ino), Some((dir, name)), None) = (ino, name, call.error()) {
            let event = Event {
                is: Some(ino),
                kind: Some(self.names.kind(ino).unwrap_or('f')),
                size: Some(self.names.size(ino)),
                ..by_name(Kind::Lookup, dir, &name)
            };
            self.emit(event, during);
        }
        if call.name.starts_with("exec")
            && call.error().is_none()
            && let Some(process) = self.processes.get_mut(&during.process)
        {
            process.exec();
        }
        Ok(())
    }

    fn change_directory(&mut self, call: &Call<'_>, during: During) -> Result<(), Problem> {
        let found = self.place(call, (None, 0), true, during)?;
        let at = match found {
            Found::Outside(path) if call.error().is_none() => Some(Spot::Outside(path)),
            Found::Unknown if call.error().is_none() => return Err(Problem::DirectoryUnknown),
            found => self.node_of(call, found, during)?.map(Spot::Inside),
        };
        if let (Some(at), None) = (at, call.error()) {
            if let Spot::Inside(dir) = at {
                self.names.learn_kind(dir, 'd');
            }
            if let Some(process) = self.process(during.process) {
                process.place.borrow_mut().directory = at;
            }
        }
        Ok(())
    }

    fn read_link(
        &mut self,
        call: &Call<'_>,
        from: Option<usize>,
        path: usize,
        during: During,
    ) -> Result<(), Problem> {
        let Some(ino) = self.object(call, (from, path), false, during)? else {
            return Ok(());
        };
        let event = by_number(Kind::Readlink, ino);
        if let Some(error) = call.error() {
            self.emit(failed(event, error), during);
            return Ok(());
        }
        self.names.learn_kind(ino, 'l');
        match string(call.argument(path + 1)?)? {
            Some((target, true)) => self.names.learn_target(ino, target),
            _ => self
                .names
                .learn_size(ino, call.value().unwrap_or(0).unsigned_abs(), false),
        }
        self.emit(event, during);
        Ok(())
    }

    fn set(
        &mut self,
        call: &Call<'_>,
        at: (Option<usize>, usize),
        follows: bool,
        set: Event,
        during: During,
    ) -> Result<(), Problem> {
        let Some(ino) = self.object(call, at, follows, during)? else {
            return Ok(());
        };
        self.set_on(call, ino, set, during);
        Ok(())
    }

    pub(super) fn set_on(&mut self, call: &Call<'_>, ino: u64, set: Event, during: During) {
        let event = Event {
            ino: Some(ino),
            error: call.error(),
            ..set
        };
        if let (Some(size), None) = (event.size, event.error) {
            self.names.changed(ino, size);
        }
        self.emit(event, during);
    }

    fn attribute(&mut self, call: &Call<'_>, follows: bool, during: During) -> Result<(), Problem> {
        let found = self.place(call, (None, 0), follows, during)?;
        match self.node_of(call, found, during)? {
            Some(ino) => self.attribute_of(call, ino, during),
            None => Ok(()),
        }
    }

    pub(super) fn attribute_of(
        &mut self,
        call: &Call<'_>,
        ino: u64,
        during: During,
    ) -> Result<(), Problem> {
        let name = call.name.trim_start_matches(['f', 'l']);
        let (op, is_named) = match name {
            "getxattr" => (Kind::Getxattr, true),
            "setxattr" => (Kind::Setxattr, true),
            "removexattr" => (Kind::Removexattr, true),
            _ => (Kind::Listxattr, false),
        };
        let mut event = by_number(op, ino);
        if is_named {
            let Some((name, true)) = string(call.argument(1)?)? else {
                return self.left.count("path-unknown", call.name);
            };
            event.name = Some(escape(&name));
        }
        if op == Kind::Setxattr {
            event.bytes = call.number(3)?;
        }
        event.error = call.error();
        self.emit(event, during);
        Ok(())
    }

    fn leave_out(&mut self, call: &Call<'_>, during: During) -> Result<(), Problem> {
        // Of what kind the first argument is hangs on the call.
        let first = call.argument(if call.name == "mmap" { 4 } else { 0 })?;
        let is_inside = match string(first) {
            Ok(Some(_)) => {
                let found = self.place(call, (None, 0), true, during)?;
                !matches!(found, Found::Outside(_))
            }
            _ => match descriptor(first) {
                Ok(descriptor) => matches!(self.base(descriptor, during)?, Some(Spot::Inside(_))),
                Err(_) => false,
            },
        };
        self.left.count(
            if is_inside {
                "no-counterpart"
            } else {
                "outside"
            },
            call.name,
        )
    }
}

pub(super) fn is_of_files(name: &str) -> bool {
    OF_FILES.contains(&name) || WITHOUT_COUNTERPART.contains(&name)
}

pub(super) fn failed(event: Event, error: i32) -> Event {
    Event {
        error: Some(error),
        ..event
    }
}

/// As `find -type` has it.
pub(super) fn kind_of(mode: &[u8]) -> Option<char> {
    mode.split(|&byte| byte == b'|')
        .find_map(|word| match word {
            b"S_IFREG" => Some('f'),
            b"S_IFDIR" => Some('d'),
            b"S_IFLNK" => Some('l'),
            b"S_IFIFO" => Some('p'),
            b"S_IFSOCK" => Some('s'),
            b"S_IFCHR" => Some('c'),
            b"S_IFBLK" => Some('b'),
            _ => None,
        })
}

pub(super) fn set_mode(text: &[u8]) -> Result<Event, Problem> {
    Ok(Event {
        mode: Some(mode(text).ok_or(Problem::Argument)?),
        ..Event::new(Kind::Setattr)
    })
}

pub(super) fn set_owner(uid: &[u8], gid: &[u8]) -> Event {
    // -1 leaves it as it is.
    let id = |text| integer(text).and_then(|id| u32::try_from(id).ok());
    let id = |text| id(text).filter(|id| *id != u32::MAX);
    Event {
        uid: id(uid),
        gid: id(gid),
        ..Event::new(Kind::Setattr)
    }
}

pub(super) fn set_size(size: u64) -> Event {
    Event {
        size: Some(size),
        ..Event::new(Kind::Setattr)
    }
}

pub(super) fn set_times() -> Event {
    Event {
        times: true,
        ..Event::new(Kind::Setattr)
    }
}
