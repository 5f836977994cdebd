//! Opening, closing and duplicating.

use crate::at::{Found, Here, Leaf, Path, Start, c_string, errno};
use crate::attributes;
use crate::complain::{self, About};
use crate::fds;
use crate::open_file::{OpenFile, READ, WRITE};
use crate::session::{self, Config};
use crate::sys;
use crate::walk::{End, Walk};
use pandofs_client::{ClientError, Node, OpenHow};
use pandofs_types::{FileKind, FsError, NewMode, SetAttr};
use std::sync::Arc;

/// Symbolic links that are followed behind the last component of a path, and times that it comes and goes.
const MAX_LOOKS: usize = 64;
/// Flags of an open file that `fcntl` tells.
const KEPT_FLAGS: i32 = libc::O_ACCMODE
    | libc::O_APPEND
    | libc::O_NONBLOCK
    | libc::O_SYNC
    | libc::O_DIRECTORY
    | libc::O_PATH
    | libc::O_NOATIME
    | libc::O_DIRECT
    | libc::O_LARGEFILE;

/// Flags with which something is opened.
#[derive(Clone, Copy, Debug)]
struct Flags(i32);

impl Flags {
    fn has(self, flag: i32) -> bool {
        self.0 & flag == flag
    }

    fn access(self) -> u16 {
        match self.0 & libc::O_ACCMODE {
            _ if self.has(libc::O_PATH) => 0,
            libc::O_RDONLY => READ,
            libc::O_WRONLY => WRITE,
            _ => READ | WRITE,
        }
    }

    fn truncates(self) -> bool {
        self.has(libc::O_TRUNC) && !self.has(libc::O_PATH)
    }

    fn follows(self) -> bool {
        !(self.has(libc::O_NOFOLLOW) || self.has(libc::O_CREAT | libc::O_EXCL))
    }
}

/// Outcome of an open: nothing that is the file system's, a descriptor of the kernel's, or one that stands for this.
enum Opened {
    Kernel,
    Elsewhere(isize),
    File(OpenFile),
}

/// As `openat`; `None` if it is the kernel's.
///
/// # Errors
/// Error numbers.
pub(crate) fn open(path: Path<'_>, flags: i32, mode: usize) -> Result<Option<isize>, i32> {
    if flags & libc::O_TMPFILE == libc::O_TMPFILE {
        return match path.start()? {
            Start::Kernel => Ok(None),
            Start::Inside(..) if by_mount().is_some() && !fds::is_ours(path.dir) => Ok(None),
            _ => Err(libc::EOPNOTSUPP),
        };
    }
    let flags = Flags(flags);
    let opened = match flags.has(libc::O_CREAT) && !flags.has(libc::O_PATH) {
        true => create(path, flags, mode)?,
        false => open_found(path, flags, mode)?,
    };
    let file = match opened {
        Opened::Kernel => return Ok(None),
        Opened::Elsewhere(answer) => return Ok(Some(answer)),
        Opened::File(file) => Arc::new(file),
    };
    let fd = fds::table().open(file, flags.has(libc::O_CLOEXEC), 0)?;
    Ok(Some(fd as isize))
}

/// The configuration, if the file system is mounted at the prefix.
fn by_mount() -> Option<&'static Config> {
    session::config().filter(|config| config.is_mounted)
}

fn by_kernel(path: &std::ffi::CStr, flags: Flags, mode: usize) -> Opened {
    let args = [
        libc::AT_FDCWD as usize,
        path.as_ptr() as usize,
        flags.0 as usize,
        mode,
        0,
        0,
    ];
    Opened::Elsewhere(sys::call(libc::SYS_openat, args))
}

/// Opens what is there.
fn open_found(path: Path<'_>, flags: Flags, mode: usize) -> Result<Opened, i32> {
    for _ in 0..MAX_LOOKS {
        let (node, inner) = match path.find(flags.follows())? {
            Found::Kernel => return Ok(Opened::Kernel),
            Found::Elsewhere(path) => return Ok(by_kernel(&path, flags, mode)),
            Found::Node(node, inner) => (node, inner),
        };
        match open_node(&Here::now()?, &node, flags, inner.clone()) {
            Err(error) if error == FsError::Stale.errno() => {}
            // A fifo, socket or device: only the kernel has those.
            Err(libc::ENXIO) => {
                let config = by_mount().ok_or(libc::ENXIO)?;
                return Ok(by_kernel(
                    &c_string(config.prefix.outer(&inner))?,
                    flags,
                    mode,
                ));
            }
            opened => return opened.map(Opened::File),
        }
    }
    Err(libc::ENOENT)
}

fn open_node(here: &Here, node: &Node, flags: Flags, path: Vec<u8>) -> Result<OpenFile, i32> {
    let (client, caller) = (&here.session.client, &here.caller);
    let (ino, kind) = (node.ino, node.kind);
    let access = flags.access();
    if flags.has(libc::O_DIRECTORY) && kind != FileKind::Dir {
        return Err(libc::ENOTDIR);
    }
    let kept = flags.0 & KEPT_FLAGS;
    if access == 0 {
        return Ok(OpenFile::new(ino, kind, 0, kept, path, None));
    }
    if flags.has(libc::O_NOATIME) && !attributes::is_owner(caller, &node.attr) {
        return Err(libc::EPERM);
    }
    match kind {
        FileKind::File => {}
        FileKind::Dir if access & WRITE != 0 || flags.truncates() => return Err(libc::EISDIR),
        FileKind::Dir => {
            client.access(caller, ino, READ).map_err(errno)?;
            return Ok(OpenFile::new(ino, kind, READ, kept, path, None));
        }
        FileKind::Symlink => return Err(libc::ELOOP),
        _ => return Err(libc::ENXIO),
    }
    let rights = match flags.truncates() {
        true => access | WRITE,
        false => access,
    };
    client
        .open_node(caller, ino, rights, flags.truncates())
        .map_err(errno)?;
    let session = Some(Arc::clone(&here.session));
    Ok(OpenFile::new(ino, kind, access, kept, path, session))
}

/// Opens what is there, or makes it.
fn create(path: Path<'_>, flags: Flags, mode: usize) -> Result<Opened, i32> {
    let (from, text) = match path.start()? {
        Start::Kernel => return Ok(Opened::Kernel),
        Start::Descriptor(_) => return open_found(path, flags, mode),
        Start::Inside(from, text) => (from, text),
    };
    let exclusive = flags.has(libc::O_EXCL);
    let here = Here::now()?;
    let (client, caller) = (&here.session.client, &here.caller);
    let mut walk = Walk::new(&here, &here.config.prefix);
    let (mut from, mut text) = (from, text);
    let how = OpenHow {
        access: flags.access(),
        truncate: flags.truncates(),
        exclusive,
    };
    let mode_asked = NewMode {
        mode: (mode & 0o7777) as u16,
        umask: session::umask(),
    };
    for _ in 0..MAX_LOOKS {
        let (dir, name) = match walk.go_to_name(from.clone(), &text)? {
            End::Outside(path) => return Ok(by_kernel(&c_string(path)?, flags, mode)),
            End::Dir(_) | End::Name { slash: true, .. } => return Err(libc::EISDIR),
            End::Name { dir, name, .. } => (dir, name),
        };
        let made = client.create_masked(caller, dir.ino, &name, mode_asked, how);
        let refusal = match made {
            Ok(found) if found.node.kind == FileKind::File => {
                if flags.has(libc::O_NOATIME) && !attributes::is_owner(caller, &found.node.attr) {
                    client.release(found.node.ino).map_err(errno)?;
                    return Err(libc::EPERM);
                }
                let session = Some(Arc::clone(&here.session));
                let kept = flags.0 & KEPT_FLAGS;
                let (ino, path) = (found.node.ino, dir.join(&name));
                let file = OpenFile::new(ino, FileKind::File, how.access, kept, path, session);
                return Ok(Opened::File(file));
            }
            Ok(found) => {
                client.release(found.node.ino).map_err(errno)?;
                return Err(libc::ENXIO);
            }
            // It is no file, or nothing may be made in the directory.
            Err(ClientError::Fs(error @ (FsError::Exists | FsError::Access))) if !exclusive => {
                error
            }
            Err(error) => return Err(errno(error)),
        };
        let node = match client.lookup(caller, dir.ino, &name) {
            Ok(node) => node,
            Err(error) if error.is_gone() && refusal == FsError::Exists => continue,
            Err(error) if error.is_gone() => return Err(refusal.errno()),
            Err(error) => return Err(errno(error)),
        };
        if node.kind == FileKind::Symlink && flags.follows() {
            match walk.through(dir, node.ino, b"")? {
                Ok((on, rest)) => (from, text) = (on, rest),
                Err(outside) => return Ok(by_kernel(&c_string(outside)?, flags, mode)),
            }
            continue;
        }
        if node.kind == FileKind::Dir {
            return Err(libc::EISDIR);
        }
        match open_node(&here, &node, flags, dir.join(&name)) {
            Err(error) if error == FsError::Stale.errno() => {}
            opened => return opened.map(Opened::File),
        }
    }
    Err(libc::ELOOP)
}

/// As `truncate`; `None` if it is the kernel's.
///
/// # Errors
/// Error numbers.
pub(crate) fn truncate(path: Path<'_>, size: usize) -> Result<Option<isize>, i32> {
    let size = u64::try_from(size as i64).map_err(|_| libc::EINVAL)?;
    path.with_node(
        true,
        |here, node| {
            match node.kind {
                FileKind::File => {}
                FileKind::Dir => return Err(libc::EISDIR),
                _ => return Err(libc::EINVAL),
            }
            let set = SetAttr {
                size: Some(size),
                ..SetAttr::default()
            };
            here.session
                .client
                .setattr(&here.caller, node.ino, set)
                .map_err(errno)?;
            Ok(0)
        },
        |path| sys::call3(libc::SYS_truncate, path.as_ptr() as usize, size as usize, 0),
    )
}

/// As `close`.
///
/// # Errors
/// Those of earlier writes; it is closed all the same.
pub(crate) fn close(fd: i32) -> Result<isize, i32> {
    if fds::is_own(fd) {
        return Err(libc::EBADF);
    }
    let file = fds::table().remove(fd);
    sys::close(fd);
    match file {
        Some(file) => close_file(file).map(|()| 0),
        None => Err(libc::EBADF),
    }
}

fn close_file(file: Arc<OpenFile>) -> Result<(), i32> {
    // Another thread that is reading it goes on until that is done; the last ends it.
    file.close_descriptor()
}

/// As `close_range`.
///
/// # Errors
/// Error numbers.
pub(crate) fn close_range(first: usize, last: usize, flags: usize) -> Result<isize, i32> {
    let (first, last) = (u64::from(first as u32), u64::from(last as u32));
    if first > last {
        return Err(libc::EINVAL);
    }
    let range = first..=last;
    let by_exec = flags & libc::CLOSE_RANGE_CLOEXEC as usize != 0;
    let mut closed = Vec::new();
    if !by_exec {
        let mut table = fds::table();
        for (fd, _) in table.all() {
            if range.contains(&(fd as u64)) {
                closed.extend(table.remove(fd));
            }
        }
    }
    let mut from = first;
    for own in fds::own() {
        let own = own as u64;
        if range.contains(&own) {
            if from < own {
                kernel_range(from, own - 1, flags)?;
            }
            from = own + 1;
        }
    }
    if from <= last {
        kernel_range(from, last, flags)?;
    }
    for file in closed {
        // close_range(2) tells of none of these.
        let _ = close_file(file);
    }
    Ok(0)
}

fn kernel_range(first: u64, last: u64, flags: usize) -> Result<(), i32> {
    match sys::call3(libc::SYS_close_range, first as usize, last as usize, flags) {
        0 => Ok(()),
        error => Err(-error as i32),
    }
}

/// As `dup` and the like: the lowest number from `least` on.
///
/// # Errors
/// Error numbers.
pub(crate) fn duplicate(fd: i32, close_on_exec: bool, least: i32) -> Result<isize, i32> {
    if fds::is_own(fd) {
        return Err(libc::EBADF);
    }
    let mut table = fds::table();
    let file = table.all().into_iter().find(|(other, _)| *other == fd);
    let (_, file) = file.ok_or(libc::EBADF)?;
    table
        .duplicate(fd, file, close_on_exec, least)
        .map(|fd| fd as isize)
}

/// As `dup3`, and `dup2` where the numbers may be the same.
///
/// # Errors
/// Error numbers.
pub(crate) fn duplicate_to(old: i32, new: i32, flags: usize, same: bool) -> Result<isize, i32> {
    if fds::is_own(old) {
        return Err(libc::EBADF);
    }
    if fds::is_own(new) {
        let words = format!(
            "descriptor {new} is in use for the connection to the servers, and cannot be replaced"
        );
        complain::once(About::OwnDescriptor, &words);
        return Err(libc::EBUSY);
    }
    if old == new {
        return match same {
            true if sys::is_open(old) => Ok(new as isize),
            true => Err(libc::EBADF),
            false => Err(libc::EINVAL),
        };
    }
    if new as usize >= fds::MAX_FD && fds::is_ours(old) {
        return Err(libc::EBADF);
    }
    let mut table = fds::table();
    let answer = sys::call3(libc::SYS_dup3, old as usize, new as usize, flags);
    if answer < 0 {
        return Err(-answer as i32);
    }
    let file = table.all().into_iter().find(|(fd, _)| *fd == old);
    let before = match file {
        Some((_, file)) => table.insert(new, file),
        None => table.remove(new),
    };
    drop(table);
    if let Some(before) = before {
        // dup2(2) tells of no error of what it closes.
        let _ = close_file(before);
    }
    Ok(answer)
}

/// As `readlink` of the link in `/proc` of a descriptor that stands for a file: the path that it was opened by.
pub(crate) fn path_of(fd: i32) -> Result<Vec<u8>, i32> {
    let file = fds::get(fd)?;
    let config = session::config().ok_or(libc::EIO)?;
    Ok(config.prefix.outer(&file.path))
}

/// Not there unless something is to be made: where a path ends in no name.
pub(crate) fn in_use(leaf: &Leaf, error: i32) -> Result<(), i32> {
    match leaf {
        Leaf::Dir => Err(error),
        _ => Ok(()),
    }
}
