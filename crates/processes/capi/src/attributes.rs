//! Functions for attributes and rights.

use crate::abi::{File, Fs, PANDOFS_TIME_NOW, PANDOFS_TIME_OMIT, Stat, given};
use crate::call::done;
use crate::failure::Result;
use crate::pointers::Out;
use pandofs_handles::OpenFile;
use pandofs_handles::attributes::of_mode;
use pandofs_types::{SetAttr, SetTime, Time};
use std::ffi::{c_char, c_int};

/// As stat(2).
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_stat(fs: Fs, path: *const c_char, stat: *mut Stat) -> c_int {
    done("pandofs_stat", |call| {
        // SAFETY: as C gives them.
        let (path, stat) = unsafe { (call.path(path, "path")?, Out::new(stat, "stat")?) };
        stat.set(Stat::from(&call.mount(fs)?.stat(path, true)?));
        Ok(())
    })
}

/// As lstat(2): of a symbolic link itself.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_lstat(fs: Fs, path: *const c_char, stat: *mut Stat) -> c_int {
    done("pandofs_lstat", |call| {
        // SAFETY: as C gives them.
        let (path, stat) = unsafe { (call.path(path, "path")?, Out::new(stat, "stat")?) };
        stat.set(Stat::from(&call.mount(fs)?.stat(path, false)?));
        Ok(())
    })
}

/// As fstat(2).
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_fstat(file: File, stat: *mut Stat) -> c_int {
    done("pandofs_fstat", |call| {
        // SAFETY: as C gives it.
        let stat = unsafe { Out::new(stat, "stat") }?;
        let file = call.file(file)?;
        let attr = file.client().getattr(&file.caller, file.ino)?;
        stat.set(Stat::from(&attr));
        Ok(())
    })
}

/// As access(2), by the caller of the handle: any of R_OK, W_OK and X_OK, or F_OK.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_access(fs: Fs, path: *const c_char, rights: c_int) -> c_int {
    done("pandofs_access", |call| {
        // SAFETY: as C gives it.
        let path = unsafe { call.path(path, "path") }?;
        Ok(call.mount(fs)?.access(path, rights)?)
    })
}

/// As chmod(2).
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_chmod(fs: Fs, path: *const c_char, mode: u32) -> c_int {
    done("pandofs_chmod", |call| {
        // SAFETY: as C gives it.
        let path = unsafe { call.path(path, "path") }?;
        Ok(call.mount(fs)?.set(path, true, &of_mode(mode))?)
    })
}

/// As fchmod(2).
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub extern "C" fn pandofs_fchmod(file: File, mode: u32) -> c_int {
    done("pandofs_fchmod", |call| {
        set_open(&*call.file(file)?, of_mode(mode))
    })
}

/// As chown(2); PANDOFS_OWN leaves the user or the group as it is.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_chown(fs: Fs, path: *const c_char, uid: u32, gid: u32) -> c_int {
    done("pandofs_chown", |call| {
        // SAFETY: as C gives it.
        let path = unsafe { call.path(path, "path") }?;
        Ok(call.mount(fs)?.set(path, true, &of_owner(uid, gid))?)
    })
}

/// As lchown(2): of a symbolic link itself.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_lchown(fs: Fs, path: *const c_char, uid: u32, gid: u32) -> c_int {
    done("pandofs_lchown", |call| {
        // SAFETY: as C gives it.
        let path = unsafe { call.path(path, "path") }?;
        Ok(call.mount(fs)?.set(path, false, &of_owner(uid, gid))?)
    })
}

/// As fchown(2).
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub extern "C" fn pandofs_fchown(file: File, uid: u32, gid: u32) -> c_int {
    done("pandofs_fchown", |call| {
        set_open(&*call.file(file)?, of_owner(uid, gid))
    })
}

/// As utimensat(2): the times of access and of modification in nanoseconds since 1970 UTC, PANDOFS_TIME_NOW or
/// PANDOFS_TIME_OMIT.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_utimens(
    fs: Fs,
    path: *const c_char,
    atime_ns: i64,
    mtime_ns: i64,
) -> c_int {
    done("pandofs_utimens", |call| {
        // SAFETY: as C gives it.
        let path = unsafe { call.path(path, "path") }?;
        Ok(call
            .mount(fs)?
            .set(path, true, &of_times(atime_ns, mtime_ns))?)
    })
}

/// As pandofs_utimens(), of a symbolic link itself.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_lutimens(
    fs: Fs,
    path: *const c_char,
    atime_ns: i64,
    mtime_ns: i64,
) -> c_int {
    done("pandofs_lutimens", |call| {
        // SAFETY: as C gives it.
        let path = unsafe { call.path(path, "path") }?;
        let times = of_times(atime_ns, mtime_ns);
        Ok(call.mount(fs)?.set(path, false, &times)?)
    })
}

/// As pandofs_utimens(), of an open file.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub extern "C" fn pandofs_futimens(file: File, atime_ns: i64, mtime_ns: i64) -> c_int {
    done("pandofs_futimens", |call| {
        set_open(&*call.file(file)?, of_times(atime_ns, mtime_ns))
    })
}

/// As truncate(2).
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_truncate(fs: Fs, path: *const c_char, size: u64) -> c_int {
    done("pandofs_truncate", |call| {
        // SAFETY: as C gives it.
        let path = unsafe { call.path(path, "path") }?;
        Ok(call.mount(fs)?.truncate(path, size)?)
    })
}

/// As ftruncate(2).
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub extern "C" fn pandofs_ftruncate(file: File, size: u64) -> c_int {
    done("pandofs_ftruncate", |call| {
        Ok(call.file(file)?.truncate(size)?)
    })
}

fn set_open(file: &OpenFile, attributes: SetAttr) -> Result<()> {
    file.client().setattr(&file.caller, file.ino, attributes)?;
    Ok(())
}

fn of_owner(uid: u32, gid: u32) -> SetAttr {
    pandofs_handles::attributes::of_owner(given(uid), given(gid))
}

fn of_times(atime_ns: i64, mtime_ns: i64) -> SetAttr {
    let time = |nanoseconds| match nanoseconds {
        PANDOFS_TIME_OMIT => None,
        PANDOFS_TIME_NOW => Some(SetTime::Now),
        at => Some(SetTime::At(Time(at))),
    };
    SetAttr {
        atime: time(atime_ns),
        mtime: time(mtime_ns),
        ..SetAttr::default()
    }
}
