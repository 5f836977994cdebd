//! The current directory, where it is one of the file system.
//!
//! The kernel's is then the same, if it is mounted, or one that was removed, in which nothing can be found or made: a program
//! that does not come by here is told so, in place of working elsewhere.

use crate::at::{Found, Path};
use crate::fds;
use crate::memory;
use crate::open_file::OpenFile;
use crate::session;
use crate::sys;
use crate::walk::{Place, Tree};
use pandofs_types::{FileKind, Ino};
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

static IS_INSIDE: AtomicBool = AtomicBool::new(false);
static INSIDE: Mutex<Option<Place>> = Mutex::new(None);

/// Where a directory can be made to be removed.
const SCRATCH: [&str; 3] = ["/tmp", "/dev/shm", "/var/tmp"];

/// The lock of the current directory.
pub(crate) fn lock() -> MutexGuard<'static, Option<Place>> {
    INSIDE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether the current directory is in the file system.
pub(crate) fn is_inside() -> bool {
    IS_INSIDE.load(Ordering::Acquire)
}

/// The current directory, if it is in the file system.
pub(crate) fn inside() -> Option<Place> {
    lock().clone()
}

/// As `chdir`.
///
/// # Errors
/// Error numbers.
pub(crate) fn change(path: Path<'_>) -> Result<Option<isize>, i32> {
    match path.find(true)? {
        Found::Kernel => Ok(Some(outside(&crate::at::c_string(path.text.to_vec())?))),
        Found::Elsewhere(path) => Ok(Some(outside(&path))),
        Found::Node(node, path) => {
            if node.kind != FileKind::Dir {
                return Err(libc::ENOTDIR);
            }
            enter(Place {
                ino: node.ino,
                path,
            })
            .map(Some)
        }
    }
}

/// As `fchdir`.
///
/// # Errors
/// Error numbers.
pub(crate) fn change_to(file: &OpenFile) -> Result<isize, i32> {
    if file.kind != FileKind::Dir {
        return Err(libc::ENOTDIR);
    }
    enter(Place {
        ino: file.ino,
        path: file.path.clone(),
    })
}

/// The kernel's current directory was changed to one of its own.
pub(crate) fn left() {
    IS_INSIDE.store(false, Ordering::Release);
    *lock() = None;
}

/// The current directory of the process that called `exec`.
pub(crate) fn inherit(ino: Ino, path: Vec<u8>) {
    *lock() = Some(Place { ino, path });
    IS_INSIDE.store(true, Ordering::Release);
}

/// A program of a current directory below a mount begins.
pub(crate) fn begin() {
    let mut room = vec![0_u8; libc::PATH_MAX as usize];
    let length = sys::call3(libc::SYS_getcwd, room.as_mut_ptr() as usize, room.len(), 0);
    let Some(length) = usize::try_from(length)
        .ok()
        .and_then(|length| length.checked_sub(1))
    else {
        return;
    };
    room.truncate(length);
    let path = Path {
        dir: libc::AT_FDCWD,
        text: &room,
    };
    if path.may_be_ours()
        && let Ok(Found::Node(node, path)) = path.find(true)
    {
        inherit(node.ino, path);
    }
}

/// As `getcwd`; `None` if it is the kernel's.
///
/// # Errors
/// `ERANGE` when there is no room.
pub(crate) fn get(room: usize, size: usize) -> Result<Option<isize>, i32> {
    let (Some(place), Some(config)) = (inside(), session::config()) else {
        return Ok(None);
    };
    let mut path = config.prefix.outer(&place.path);
    path.push(0);
    if size < path.len() {
        return Err(libc::ERANGE);
    }
    memory::check(room, size)?;
    memory::put_bytes(room, &path);
    Ok(Some(path.len() as isize))
}

fn enter(place: Place) -> Result<isize, i32> {
    let here = crate::at::Here::now()?;
    here.search(place.ino)?;
    let is_there = here.config.is_mounted && {
        let path = crate::at::c_string(here.config.prefix.outer(&place.path))?;
        sys::call3(libc::SYS_chdir, path.as_ptr() as usize, 0, 0) == 0
    };
    if !is_there && (here.config.is_mounted || !is_inside()) {
        hide()?;
    }
    *lock() = Some(place);
    IS_INSIDE.store(true, Ordering::Release);
    Ok(0)
}

fn outside(path: &CString) -> isize {
    let answer = sys::call3(libc::SYS_chdir, path.as_ptr() as usize, 0, 0);
    if answer == 0 {
        left();
    }
    answer
}

/// Has the kernel's current directory be one that is nowhere.
fn hide() -> Result<(), i32> {
    let mut last = libc::EIO;
    for scratch in SCRATCH {
        let name = format!(
            "{scratch}/pandofs-{}-{:p}",
            std::process::id(),
            &raw const last
        );
        let Ok(name) = CString::new(name) else {
            continue;
        };
        let path = name.as_ptr() as usize;
        let made = sys::call3(libc::SYS_mkdir, path, 0o700, 0);
        if made != 0 {
            last = -made as i32;
            continue;
        }
        let changed = sys::call3(libc::SYS_chdir, path, 0, 0);
        sys::call3(libc::SYS_rmdir, path, 0, 0);
        if changed == 0 {
            return Ok(());
        }
        last = -changed as i32;
    }
    Err(last)
}

/// As `fchdir` to a directory of the kernel's, which has it done.
pub(crate) fn change_by_kernel(fd: i32) -> isize {
    debug_assert!(!fds::is_ours(fd));
    let answer = sys::call3(libc::SYS_fchdir, fd as usize, 0, 0);
    if answer == 0 {
        left();
    }
    answer
}
