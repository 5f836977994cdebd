//! Functions for locks of files.
//!
//! Both kinds are owned by the open file, as by `flock()` and `F_OFD_SETLK`, and hold against programs on mounts.

use crate::abi::{File, Lock};
use crate::call::done;
use crate::pointers::Out;
use pandofs_client::{Holder, Tried};
use pandofs_handles::{Failure, OpenFile, Result};
use pandofs_types::{FileLock, FsError, LockKind, LockMode, LockRange};
use std::ffi::c_int;

/// As flock(2): LOCK_SH, LOCK_EX or LOCK_UN, with LOCK_NB or not.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub extern "C" fn pandofs_flock(file: File, operation: c_int) -> c_int {
    done("pandofs_flock", |call| {
        let file = call.file(file)?;
        let mode = match operation & !libc::LOCK_NB {
            libc::LOCK_SH => Some(LockMode::Shared),
            libc::LOCK_EX => Some(LockMode::Exclusive),
            libc::LOCK_UN => None,
            _ => return Err(Failure::Invalid("an operation that flock(2) does not have").into()),
        };
        let waits = operation & libc::LOCK_NB == 0;
        Ok(change(
            &file,
            LockKind::Flock,
            LockRange::WHOLE,
            mode,
            waits,
        )?)
    })
}

/// Locks or unlocks bytes, as fcntl(2) with F_OFD_SETLK (wait 0) or F_OFD_SETLKW: kind is F_RDLCK, F_WRLCK or F_UNLCK, and
/// length 0 is all that follows. -EAGAIN: somebody else has a lock that is in the way.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub extern "C" fn pandofs_lock(
    file: File,
    kind: c_int,
    start: u64,
    length: u64,
    wait: c_int,
) -> c_int {
    done("pandofs_lock", |call| {
        let file = call.file(file)?;
        let (range, mode) = (range(start, length)?, mode(kind)?);
        match mode {
            // As fcntl(2) has it.
            Some(LockMode::Shared) => file.to_read()?,
            Some(LockMode::Exclusive) => file.to_write()?,
            None => {}
        }
        Ok(change(&file, LockKind::Record, range, mode, wait != 0)?)
    })
}

/// The holder who is in the way of a lock, as fcntl(2) with F_OFD_GETLK: kind becomes F_UNLCK if nobody is.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_getlock(file: File, lock: *mut Lock) -> c_int {
    done("pandofs_getlock", |call| {
        // SAFETY: as C gives it.
        let place = unsafe { Out::new(lock, "lock") }?;
        // SAFETY: it is not null, and any bytes are a lock.
        let asked = unsafe { lock.read_unaligned() };
        let file = call.file(file)?;
        let range = range(asked.start, asked.length)?;
        let mode = mode(asked.kind)?.ok_or(Failure::Invalid("F_UNLCK is no lock to ask for"))?;
        let wanted = wanted(&file, LockKind::Record, range, mode);
        let found = match file.client().lock_holder(file.ino, wanted, true)? {
            Holder::Lock(found) => found,
            Holder::Nobody => {
                place.set(Lock {
                    kind: c_int::from(libc::F_UNLCK as i16),
                    ..asked
                });
                return Ok(());
            }
            Holder::NotYet => return Err(FsError::Interrupted.into()),
        };
        place.set(Lock {
            start: found.range.first,
            length: match found.range.last {
                LockRange::MAX => 0,
                last => last - found.range.first + 1,
            },
            kind: match found.mode {
                LockMode::Shared => libc::F_RDLCK as c_int,
                LockMode::Exclusive => libc::F_WRLCK as c_int,
            },
            pid: found.pid,
        });
        Ok(())
    })
}

fn range(start: u64, length: u64) -> Result<LockRange> {
    pandofs_handles::lock_range(start, length).ok_or(Failure::Invalid("offsets are below 2^63"))
}

fn mode(kind: c_int) -> Result<Option<LockMode>> {
    const SHARED: c_int = libc::F_RDLCK as c_int;
    const EXCLUSIVE: c_int = libc::F_WRLCK as c_int;
    const NONE: c_int = libc::F_UNLCK as c_int;
    match kind {
        SHARED => Ok(Some(LockMode::Shared)),
        EXCLUSIVE => Ok(Some(LockMode::Exclusive)),
        NONE => Ok(None),
        _ => Err(Failure::Invalid(
            "it is none of F_RDLCK, F_WRLCK and F_UNLCK",
        )),
    }
}

fn wanted(file: &OpenFile, kind: LockKind, range: LockRange, mode: LockMode) -> FileLock {
    FileLock {
        kind,
        owner: file.number,
        pid: std::process::id(),
        mode,
        range,
    }
}

/// Locks, or unlocks without a mode. Writes are reported before, so that the next owner of the lock sees them.
fn change(
    file: &OpenFile,
    kind: LockKind,
    range: LockRange,
    mode: Option<LockMode>,
    waits: bool,
) -> Result<()> {
    let (client, ino, number) = (file.client(), file.ino, file.number);
    client.report_written(ino)?;
    let Some(mode) = mode else {
        return Ok(client.unlock(ino, number, kind, number, range)?);
    };
    let lock = wanted(file, kind, range, mode);
    match client.try_lock(ino, number, lock)? {
        Tried::Locked => Ok(()),
        Tried::Busy if !waits => Err(FsError::WouldBlock.into()),
        Tried::Busy | Tried::NotYet => {
            file.wait_for_lock(client.lock_wait(ino, number, lock, waits)?)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_those_of_fcntl() {
        assert_eq!(mode(libc::F_UNLCK), Ok(None));
        assert_eq!(mode(77).unwrap_err().errno(), libc::EINVAL);
    }
}
