//! Functions that make, remove and rename.

use crate::abi::Fs;
use crate::call::done;
use crate::pointers::Room;
use pandofs_types::limits::MAX_SYMLINK_BYTES;
use std::ffi::{c_char, c_int};

/// As mkdir(2).
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_mkdir(fs: Fs, path: *const c_char, mode: u32) -> c_int {
    done("pandofs_mkdir", |call| {
        // SAFETY: as C gives it.
        let path = unsafe { call.path(path, "path") }?;
        Ok(call.mount(fs)?.mkdir(path, mode)?)
    })
}

/// As rmdir(2).
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_rmdir(fs: Fs, path: *const c_char) -> c_int {
    done("pandofs_rmdir", |call| {
        // SAFETY: as C gives it.
        let path = unsafe { call.path(path, "path") }?;
        Ok(call.mount(fs)?.rmdir(path)?)
    })
}

/// As unlink(2).
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_unlink(fs: Fs, path: *const c_char) -> c_int {
    done("pandofs_unlink", |call| {
        // SAFETY: as C gives it.
        let path = unsafe { call.path(path, "path") }?;
        Ok(call.mount(fs)?.unlink(path)?)
    })
}

/// As renameat2(2). Each path has a handle of its own, of one connection; the caller is the first one's. Flags: 0,
/// RENAME_NOREPLACE or RENAME_EXCHANGE.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_rename(
    fs: Fs,
    path: *const c_char,
    new_fs: Fs,
    new_path: *const c_char,
    flags: u32,
) -> c_int {
    done("pandofs_rename", |call| {
        // SAFETY: as C gives them.
        let (path, new_path) =
            unsafe { (call.path(path, "path")?, call.path(new_path, "new_path")?) };
        let mount = call.mount(fs)?;
        let new_mount = call.mount(new_fs)?;
        Ok(mount.rename(path, &new_mount, new_path, flags)?)
    })
}

/// As link(2): another name for a file, or for a symbolic link. Handles as for pandofs_rename().
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_link(
    fs: Fs,
    path: *const c_char,
    new_fs: Fs,
    new_path: *const c_char,
) -> c_int {
    done("pandofs_link", |call| {
        // SAFETY: as C gives them.
        let (path, new_path) =
            unsafe { (call.path(path, "path")?, call.path(new_path, "new_path")?) };
        let mount = call.mount(fs)?;
        let new_mount = call.mount(new_fs)?;
        Ok(mount.link(path, &new_mount, new_path)?)
    })
}

/// As symlink(2).
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_symlink(
    target: *const c_char,
    fs: Fs,
    path: *const c_char,
) -> c_int {
    done("pandofs_symlink", |call| {
        // SAFETY: as C gives them.
        let (target, path) = unsafe { (call.path(target, "target")?, call.path(path, "path")?) };
        Ok(call.mount(fs)?.symlink(target, path)?)
    })
}

/// The target of a symbolic link, without a NUL, and its length. Unlike readlink(2) it is -ERANGE if it does not fit; with
/// size 0 the length alone is answered.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_readlink(
    fs: Fs,
    path: *const c_char,
    target: *mut c_char,
    size: usize,
) -> i64 {
    crate::call::count("pandofs_readlink", |call| {
        // SAFETY: as C gives them.
        let (path, mut room) =
            unsafe { (call.path(path, "path")?, Room::new(target, size, "target")?) };
        let target = call.mount(fs)?.readlink(path)?;
        assert!(target.len() <= MAX_SYMLINK_BYTES);
        room.answer(&target)
    })
}
