//! Names: making, removing, renaming and linking.

use crate::at::{Found, Here, Leaf, Path, Start, errno};
use crate::memory;
use crate::open::{in_use, path_of};
use crate::session;
use crate::sys;
use crate::walk::Place;
use pandofs_api::NewNode;
use pandofs_client::{Node, RenameHow};
use pandofs_types::{FileKind, Name, NewMode};
use std::ffi::CString;

/// As in `attributes`.
type Answer = Result<Option<isize>, i32>;

fn new_mode(mode: usize) -> NewMode {
    NewMode {
        mode: (mode & 0o7777) as u16,
        umask: session::umask(),
    }
}

/// A call of the kernel's with a path in place of a directory and a path.
fn at(number: i64, path: &CString, third: usize, fourth: usize) -> isize {
    let (dir, path) = (libc::AT_FDCWD as usize, path.as_ptr() as usize);
    sys::call(number, [dir, path, third, fourth, 0, 0])
}

/// Does something with a new name, which is no directory unless `may_be_dir`.
fn make(
    path: Path<'_>,
    may_be_dir: bool,
    work: impl FnOnce(&Here, &Place, &Name) -> Result<(), i32>,
    elsewhere: impl FnOnce(CString) -> isize,
) -> Answer {
    match path.leaf()? {
        Leaf::Kernel => Ok(None),
        Leaf::Elsewhere(path) => Ok(Some(elsewhere(path))),
        Leaf::Dir => Err(libc::EEXIST),
        Leaf::Name { slash: true, .. } if !may_be_dir => match path.find(true) {
            Ok(_) => Err(libc::EEXIST),
            Err(error) => Err(error),
        },
        Leaf::Name { dir, name, .. } => {
            work(&Here::now()?, &dir, &name)?;
            Ok(Some(0))
        }
    }
}

/// As `mkdirat`.
///
/// # Errors
/// Error numbers.
pub(crate) fn mkdir(path: Path<'_>, mode: usize) -> Answer {
    // Of a directory the kernel leaves the set-id bits to its parent's group.
    let mode = mode & 0o1777;
    make(
        path,
        true,
        |here, dir, name| {
            let made =
                here.session
                    .client
                    .mkdir_masked(&here.caller, dir.ino, name, new_mode(mode));
            made.map(drop).map_err(errno)
        },
        |path| at(libc::SYS_mkdirat, &path, mode, 0),
    )
}

/// As `mknodat`.
///
/// # Errors
/// Error numbers.
pub(crate) fn mknod(path: Path<'_>, mode: usize, device: usize) -> Answer {
    let rdev = device as u32;
    let node = match mode as u32 & libc::S_IFMT {
        0 | libc::S_IFREG => NewNode::File,
        libc::S_IFIFO => NewNode::Fifo,
        libc::S_IFSOCK => NewNode::Socket,
        libc::S_IFCHR => NewNode::Char { rdev },
        libc::S_IFBLK => NewNode::Block { rdev },
        _ => return Err(libc::EINVAL),
    };
    make(
        path,
        false,
        |here, dir, name| {
            let (client, mode) = (&here.session.client, new_mode(mode));
            let made = client.mknod_masked(&here.caller, dir.ino, name, node, mode);
            made.map(drop).map_err(errno)
        },
        |path| at(libc::SYS_mknodat, &path, mode, device),
    )
}

/// As `symlinkat`.
///
/// # Errors
/// Error numbers.
pub(crate) fn symlink(target: usize, path: Path<'_>) -> Answer {
    let text = memory::text(target).ok_or(libc::EFAULT)?;
    if text.is_empty() {
        return Err(libc::ENOENT);
    }
    make(
        path,
        false,
        |here, dir, name| {
            let made = here
                .session
                .client
                .symlink(&here.caller, dir.ino, name, text);
            made.map(drop).map_err(errno)
        },
        |path| {
            let dir = libc::AT_FDCWD as usize;
            sys::call3(libc::SYS_symlinkat, target, dir, path.as_ptr() as usize)
        },
    )
}

/// As `unlinkat`.
///
/// # Errors
/// Error numbers.
pub(crate) fn unlink(path: Path<'_>, flags: usize) -> Answer {
    let is_dir = flags & libc::AT_REMOVEDIR as usize != 0;
    let leaf = path.leaf()?;
    let last = path
        .text
        .rsplit(|&byte| byte == b'/')
        .find(|part| !part.is_empty());
    in_use(
        &leaf,
        match (is_dir, last) {
            (false, _) => libc::EISDIR,
            (true, Some(b".")) => libc::EINVAL,
            (true, Some(b"..")) => libc::ENOTEMPTY,
            (true, _) => libc::EBUSY,
        },
    )?;
    match leaf {
        Leaf::Kernel | Leaf::Dir => Ok(None),
        Leaf::Elsewhere(path) => Ok(Some(at(libc::SYS_unlinkat, &path, flags, 0))),
        Leaf::Name {
            dir,
            name,
            slash: true,
        } if !is_dir => {
            let here = Here::now()?;
            match crate::walk::Tree::entry(&here, dir.ino, &name)? {
                (_, FileKind::Dir) => Err(libc::EISDIR),
                _ => Err(libc::ENOTDIR),
            }
        }
        Leaf::Name { dir, name, .. } => {
            let here = Here::now()?;
            let client = &here.session.client;
            let removed = match is_dir {
                true => client.rmdir(&here.caller, dir.ino, &name),
                false => client.unlink(&here.caller, dir.ino, &name),
            };
            removed.map_err(errno)?;
            Ok(Some(0))
        }
    }
}

/// As `readlinkat`.
///
/// # Errors
/// Error numbers.
pub(crate) fn readlink(path: Path<'_>, room: usize, size: usize) -> Answer {
    let target = |here: &Here, node: &Node| {
        if node.kind != FileKind::Symlink {
            return Err(libc::EINVAL);
        }
        let client = &here.session.client;
        let target = client.readlink(&here.caller, node.ino).map_err(errno)?;
        give(&target, room, size)
    };
    if path.text.is_empty() && crate::fds::is_ours(path.dir) {
        // A symbolic link itself, opened to be looked at.
        return match crate::at::of_descriptor(path.dir)? {
            Found::Node(node, _) if node.kind == FileKind::Symlink => {
                target(&Here::now()?, &node).map(Some)
            }
            _ => Err(libc::ENOENT),
        };
    }
    if let Start::Descriptor(fd) = path.start()? {
        return give(&path_of(fd)?, room, size).map(Some);
    }
    path.with_node(false, target, |path| {
        at(libc::SYS_readlinkat, &path, room, size)
    })
}

fn give(target: &[u8], room: usize, size: usize) -> Result<isize, i32> {
    if size as i32 <= 0 {
        return Err(libc::EINVAL);
    }
    memory::check(room, size)?;
    let fits = &target[..target.len().min(size)];
    memory::put_bytes(room, fits);
    Ok(fits.len() as isize)
}

/// As `renameat2`.
///
/// # Errors
/// Error numbers.
pub(crate) fn rename(old: Path<'_>, new: Path<'_>, flags: usize) -> Answer {
    let (from, to) = (old.leaf()?, new.leaf()?);
    in_use(&from, libc::EBUSY)?;
    in_use(&to, libc::EBUSY)?;
    let (dir, name, new_dir, new_name, slash) = match (from, to) {
        (
            Leaf::Name { dir, name, slash },
            Leaf::Name {
                dir: new_dir,
                name: new_name,
                slash: new_slash,
            },
        ) => (dir, name, new_dir, new_name, slash || new_slash),
        (Leaf::Name { .. }, _) | (_, Leaf::Name { .. }) => return Err(libc::EXDEV),
        (from, to) => {
            let Some([old, new]) = both_elsewhere(from, old, to, new)? else {
                return Ok(None);
            };
            let (old, new) = (old.as_ptr() as usize, new.as_ptr() as usize);
            let dir = libc::AT_FDCWD as usize;
            return Ok(Some(sys::call(
                libc::SYS_renameat2,
                [dir, old, dir, new, flags, 0],
            )));
        }
    };
    let here = Here::now()?;
    let (client, caller) = (&here.session.client, &here.caller);
    if slash {
        let node = client.lookup(caller, dir.ino, &name).map_err(errno)?;
        if node.kind != FileKind::Dir {
            return Err(libc::ENOTDIR);
        }
    }
    const HOW: u32 = libc::RENAME_NOREPLACE | libc::RENAME_WHITEOUT;
    let how = match flags as u32 {
        flags if flags & !HOW == 0 => RenameHow {
            no_replace: flags & libc::RENAME_NOREPLACE != 0,
            whiteout: flags & libc::RENAME_WHITEOUT != 0,
        },
        libc::RENAME_EXCHANGE => {
            let done = client.exchange(caller, dir.ino, &name, new_dir.ino, &new_name);
            done.map_err(errno)?;
            return Ok(Some(0));
        }
        _ => return Err(libc::EINVAL),
    };
    let (from, to) = ((dir.ino, &name), (new_dir.ino, &new_name));
    client.rename_how(caller, from, to, how).map_err(errno)?;
    Ok(Some(0))
}

/// The paths of two names of the kernel's, of which a symbolic link of the file system leads to one at least.
fn both_elsewhere(
    from: Leaf,
    old: Path<'_>,
    to: Leaf,
    new: Path<'_>,
) -> Result<Option<[CString; 2]>, i32> {
    let given = |path: Path<'_>| crate::at::c_string(path.text.to_vec());
    let relative = |path: Path<'_>| path.dir != libc::AT_FDCWD && !path.text.starts_with(b"/");
    Ok(match (from, to) {
        (Leaf::Elsewhere(from), Leaf::Elsewhere(to)) => Some([from, to]),
        (Leaf::Elsewhere(from), _) if !relative(new) => Some([from, given(new)?]),
        (_, Leaf::Elsewhere(to)) if !relative(old) => Some([given(old)?, to]),
        (Leaf::Elsewhere(_), _) | (_, Leaf::Elsewhere(_)) => return Err(libc::EXDEV),
        _ => None,
    })
}

/// As `linkat`.
///
/// # Errors
/// Error numbers.
pub(crate) fn link(old: Path<'_>, new: Path<'_>, flags: usize) -> Answer {
    let follow = flags & libc::AT_SYMLINK_FOLLOW as usize != 0;
    let found = match old.text.is_empty() && flags & libc::AT_EMPTY_PATH as usize != 0 {
        true if crate::fds::is_ours(old.dir) => crate::at::of_descriptor(old.dir)?,
        true => Found::Kernel,
        false => old.find(follow)?,
    };
    let leaf = new.leaf()?;
    let node = match (found, &leaf) {
        (Found::Node(node, _), Leaf::Name { .. } | Leaf::Dir) => node,
        (Found::Node(..), _) | (_, Leaf::Name { .. } | Leaf::Dir) => return Err(libc::EXDEV),
        (Found::Kernel, Leaf::Kernel) => return Ok(None),
        // One of the kernel's by way of the file system, and nobody has looked at that yet.
        _ => return Err(libc::EXDEV),
    };
    make(
        new,
        false,
        |here, dir, name| {
            let made = here
                .session
                .client
                .link(&here.caller, node.ino, dir.ino, name);
            made.map(drop).map_err(errno)
        },
        |_| -libc::EXDEV as isize,
    )
}
