//! Locks of files.
//!
//! Those of the process belong to its number; those of `flock` and `F_OFD_SETLK` to the open file, and so to nobody else:
//! a session has them, and a process that inherits the file has another session.

use crate::at::errno;
use crate::complain::{self, About};
use crate::fds;
use crate::guard;
use crate::memory;
use crate::open_file::{OpenFile, Opened, PROCESS, READ, WRITE};
use crate::session;
use pandofs_client::{Holder, Tried};
use pandofs_types::{FileLock, LockKind, LockMode, LockRange};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Pauses between looks whether a lock is free: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const MAX_PAUSE: Duration = Duration::from_millis(50);

/// Owner of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Process,
    OpenFile,
}

/// Returns whether the command of `fcntl` is one for locks.
pub(crate) fn is_command(command: i32) -> bool {
    matches!(
        command,
        libc::F_GETLK
            | libc::F_SETLK
            | libc::F_SETLKW
            | libc::F_OFD_GETLK
            | libc::F_OFD_SETLK
            | libc::F_OFD_SETLKW
    )
}

/// As `fcntl` with such a command.
///
/// # Errors
/// Error numbers.
pub(crate) fn control(fd: i32, command: i32, pointer: usize) -> Result<isize, i32> {
    let file = fds::get(fd)?;
    let asked: libc::flock = memory::get(pointer).ok_or(libc::EFAULT)?;
    let owner = match command {
        libc::F_GETLK | libc::F_SETLK | libc::F_SETLKW => Owner::Process,
        _ => Owner::OpenFile,
    };
    let opened = file.opened(0)?;
    let range = range(&file, &opened, &asked)?;
    let mode = match i32::from(asked.l_type) {
        libc::F_RDLCK => Some(LockMode::Shared),
        libc::F_WRLCK => Some(LockMode::Exclusive),
        libc::F_UNLCK => None,
        _ => return Err(libc::EINVAL),
    };
    if command == libc::F_GETLK || command == libc::F_OFD_GETLK {
        let mode = mode.ok_or(libc::EINVAL)?;
        let lock = lock(&opened, owner, LockKind::Record, range, mode);
        let client = &opened.session.client;
        let mut answer = asked;
        match client.lock_holder(file.ino, lock, true).map_err(errno)? {
            Holder::Lock(found) => {
                answer.l_type = match found.mode {
                    LockMode::Shared => libc::F_RDLCK as i16,
                    LockMode::Exclusive => libc::F_WRLCK as i16,
                };
                answer.l_whence = libc::SEEK_SET as i16;
                answer.l_start = found.range.first as i64;
                answer.l_len = match found.range.last {
                    LockRange::MAX => 0,
                    last => (last - found.range.first + 1) as i64,
                };
                answer.l_pid = match owner {
                    Owner::Process => found.pid as i32,
                    Owner::OpenFile => -1,
                };
            }
            Holder::Nobody => answer.l_type = libc::F_UNLCK as i16,
            Holder::NotYet => return Err(libc::EINTR),
        }
        memory::put(pointer, answer);
        return Ok(0);
    }
    let right = match mode {
        Some(LockMode::Shared) => READ,
        Some(LockMode::Exclusive) => WRITE,
        None => 0,
    };
    file.opened(right)?;
    let waits = command == libc::F_SETLKW || command == libc::F_OFD_SETLKW;
    change(&file, &opened, owner, LockKind::Record, range, mode, waits)
}

/// As `flock`.
///
/// # Errors
/// Error numbers.
pub(crate) fn flock(fd: i32, operation: usize) -> Result<isize, i32> {
    let file = fds::get(fd)?;
    let operation = operation as i32;
    let mode = match operation & !libc::LOCK_NB {
        libc::LOCK_SH => Some(LockMode::Shared),
        libc::LOCK_EX => Some(LockMode::Exclusive),
        libc::LOCK_UN => None,
        _ => return Err(libc::EINVAL),
    };
    let opened = file.opened(0)?;
    let waits = operation & libc::LOCK_NB == 0;
    let (owner, whole) = (Owner::OpenFile, LockRange::WHOLE);
    change(&file, &opened, owner, LockKind::Flock, whole, mode, waits)
}

fn range(file: &OpenFile, opened: &Opened, asked: &libc::flock) -> Result<LockRange, i32> {
    let client = &opened.session.client;
    let from = match i32::from(asked.l_whence) {
        libc::SEEK_SET => 0,
        libc::SEEK_CUR => file.with_offset(|offset| Ok(*offset))? as i64,
        libc::SEEK_END => {
            client
                .getattr(&*session::caller()?, file.ino)
                .map_err(errno)?
                .size as i64
        }
        _ => return Err(libc::EINVAL),
    };
    let start = from.checked_add(asked.l_start).ok_or(libc::EOVERFLOW)?;
    let (start, length) = match asked.l_len {
        length @ 0.. => (start, length),
        // Bytes before, as POSIX has it.
        length => (start.checked_add(length).ok_or(libc::EINVAL)?, -length),
    };
    let start = u64::try_from(start).map_err(|_| libc::EINVAL)?;
    pandofs_handles::lock_range(start, length as u64).ok_or(libc::EOVERFLOW)
}

fn lock(
    opened: &Opened,
    owner: Owner,
    kind: LockKind,
    range: LockRange,
    mode: LockMode,
) -> FileLock {
    FileLock {
        kind,
        owner: match owner {
            Owner::Process => PROCESS,
            Owner::OpenFile => opened.number,
        },
        pid: std::process::id(),
        mode,
        range,
    }
}

/// Locks, or unlocks without a mode. Writes are reported before, so that the next owner of the lock sees them.
fn change(
    file: &OpenFile,
    opened: &Opened,
    owner: Owner,
    kind: LockKind,
    range: LockRange,
    mode: Option<LockMode>,
    waits: bool,
) -> Result<isize, i32> {
    let (client, ino, number) = (&opened.session.client, file.ino, opened.number);
    // This process may change and unlock its own locks.
    let is_new = mode.is_some() && !file.is_locked.load(Ordering::Relaxed);
    if owner == Owner::OpenFile && is_new && file.page_id().is_some() {
        complain::once(
            About::SharedLock,
            "flock() and F_OFD_SETLK are refused for files that another process has open by inheritance: the lock \
             would not be in common",
        );
        return Err(libc::ENOLCK);
    }
    client.report_written(ino).map_err(errno)?;
    let Some(mode) = mode else {
        let owner = lock(opened, owner, kind, range, LockMode::Shared).owner;
        client
            .unlock(ino, number, kind, owner, range)
            .map_err(errno)?;
        if owner == number && range == LockRange::WHOLE {
            file.is_locked.store(false, Ordering::Relaxed);
        }
        return Ok(0);
    };
    let wanted = lock(opened, owner, kind, range, mode);
    let mut pause = FIRST_PAUSE;
    loop {
        match client.try_lock(ino, number, wanted).map_err(errno)? {
            Tried::Locked => break,
            Tried::NotYet if !waits => {
                let wait = client
                    .lock_wait(ino, number, wanted, false)
                    .map_err(errno)?;
                wait.wait().map_err(errno)?;
                break;
            }
            Tried::Busy if !waits => return Err(libc::EAGAIN),
            Tried::Busy | Tried::NotYet => {}
        }
        if guard::is_interrupted() {
            return Err(libc::EINTR);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(MAX_PAUSE);
    }
    if owner == Owner::OpenFile {
        file.is_locked.store(true, Ordering::Relaxed);
    }
    Ok(0)
}
