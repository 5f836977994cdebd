//! Functions for extended attributes.

use crate::abi::{File, Fs, PANDOFS_NAME_MAX};
use crate::call::{Call, count, done};
use crate::failure::{Failure, Result};
use crate::pointers::{self, Room, bytes};
use pandofs_client::Client;
use pandofs_handles::{Failure as CallFailure, xattr_mode};
use pandofs_types::{Credentials, Ino};
use std::ffi::{c_char, c_int, c_void};

/// As getxattr(2): the value and its length; with size 0 the length alone.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_getxattr(
    fs: Fs,
    path: *const c_char,
    name: *const c_char,
    value: *mut c_void,
    size: usize,
) -> i64 {
    count("pandofs_getxattr", |call| {
        // SAFETY: as C gives them.
        let (path, name, mut room) = unsafe {
            let path = call.path(path, "path")?;
            (path, name_of(name)?, Room::new(value, size, "value")?)
        };
        let value = of_path(call, fs, path, true, |client, caller, ino| {
            client.getxattr(caller, ino, name)
        })?;
        room.answer(&value)
    })
}

/// As pandofs_getxattr(), of a symbolic link itself.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_lgetxattr(
    fs: Fs,
    path: *const c_char,
    name: *const c_char,
    value: *mut c_void,
    size: usize,
) -> i64 {
    count("pandofs_lgetxattr", |call| {
        // SAFETY: as C gives them.
        let (path, name, mut room) = unsafe {
            let path = call.path(path, "path")?;
            (path, name_of(name)?, Room::new(value, size, "value")?)
        };
        let value = of_path(call, fs, path, false, |client, caller, ino| {
            client.getxattr(caller, ino, name)
        })?;
        room.answer(&value)
    })
}

/// As pandofs_getxattr(), of an open file.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_fgetxattr(
    file: File,
    name: *const c_char,
    value: *mut c_void,
    size: usize,
) -> i64 {
    count("pandofs_fgetxattr", |call| {
        // SAFETY: as C gives them.
        let (name, mut room) = unsafe { (name_of(name)?, Room::new(value, size, "value")?) };
        let file = call.file(file)?;
        room.answer(&file.client().getxattr(&file.caller, file.ino, name)?)
    })
}

/// As listxattr(2): the names, each with a NUL behind it, and their length; with size 0 the length alone.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_listxattr(
    fs: Fs,
    path: *const c_char,
    names: *mut c_char,
    size: usize,
) -> i64 {
    count("pandofs_listxattr", |call| {
        // SAFETY: as C gives them.
        let (path, mut room) =
            unsafe { (call.path(path, "path")?, Room::new(names, size, "names")?) };
        let names = of_path(call, fs, path, true, |client, caller, ino| {
            client.listxattr(caller, ino)
        })?;
        room.answer(&joined(&names))
    })
}

/// As pandofs_listxattr(), of a symbolic link itself.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_llistxattr(
    fs: Fs,
    path: *const c_char,
    names: *mut c_char,
    size: usize,
) -> i64 {
    count("pandofs_llistxattr", |call| {
        // SAFETY: as C gives them.
        let (path, mut room) =
            unsafe { (call.path(path, "path")?, Room::new(names, size, "names")?) };
        let names = of_path(call, fs, path, false, |client, caller, ino| {
            client.listxattr(caller, ino)
        })?;
        room.answer(&joined(&names))
    })
}

/// As pandofs_listxattr(), of an open file.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_flistxattr(file: File, names: *mut c_char, size: usize) -> i64 {
    count("pandofs_flistxattr", |call| {
        // SAFETY: as C gives it.
        let mut room = unsafe { Room::new(names, size, "names") }?;
        let file = call.file(file)?;
        room.answer(&joined(&file.client().listxattr(&file.caller, file.ino)?))
    })
}

/// As setxattr(2). Flags: 0, XATTR_CREATE or XATTR_REPLACE. "user.pandofs.layout" chooses how a file is striped.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_setxattr(
    fs: Fs,
    path: *const c_char,
    name: *const c_char,
    value: *const c_void,
    size: usize,
    flags: c_int,
) -> c_int {
    done("pandofs_setxattr", |call| {
        // SAFETY: as C gives them.
        let (path, name, value) = unsafe {
            let path = call.path(path, "path")?;
            (
                path,
                name_of(name)?,
                bytes(value.cast::<u8>(), size, "value")?,
            )
        };
        let mode = xattr_mode(flags)?;
        of_path(call, fs, path, true, |client, caller, ino| {
            client.setxattr(caller, ino, name, value, mode)
        })
    })
}

/// As pandofs_setxattr(), of a symbolic link itself.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_lsetxattr(
    fs: Fs,
    path: *const c_char,
    name: *const c_char,
    value: *const c_void,
    size: usize,
    flags: c_int,
) -> c_int {
    done("pandofs_lsetxattr", |call| {
        // SAFETY: as C gives them.
        let (path, name, value) = unsafe {
            let path = call.path(path, "path")?;
            (
                path,
                name_of(name)?,
                bytes(value.cast::<u8>(), size, "value")?,
            )
        };
        let mode = xattr_mode(flags)?;
        of_path(call, fs, path, false, |client, caller, ino| {
            client.setxattr(caller, ino, name, value, mode)
        })
    })
}

/// As pandofs_setxattr(), of an open file.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_fsetxattr(
    file: File,
    name: *const c_char,
    value: *const c_void,
    size: usize,
    flags: c_int,
) -> c_int {
    done("pandofs_fsetxattr", |call| {
        // SAFETY: as C gives them.
        let (name, value) = unsafe { (name_of(name)?, bytes(value.cast::<u8>(), size, "value")?) };
        let (file, mode) = (call.file(file)?, xattr_mode(flags)?);
        let client = file.client();
        Ok(client.setxattr(&file.caller, file.ino, name, value, mode)?)
    })
}

/// As removexattr(2).
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_removexattr(
    fs: Fs,
    path: *const c_char,
    name: *const c_char,
) -> c_int {
    done("pandofs_removexattr", |call| {
        // SAFETY: as C gives them.
        let (path, name) = unsafe { (call.path(path, "path")?, name_of(name)?) };
        of_path(call, fs, path, true, |client, caller, ino| {
            client.removexattr(caller, ino, name)
        })
    })
}

/// As pandofs_removexattr(), of a symbolic link itself.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_lremovexattr(
    fs: Fs,
    path: *const c_char,
    name: *const c_char,
) -> c_int {
    done("pandofs_lremovexattr", |call| {
        // SAFETY: as C gives them.
        let (path, name) = unsafe { (call.path(path, "path")?, name_of(name)?) };
        of_path(call, fs, path, false, |client, caller, ino| {
            client.removexattr(caller, ino, name)
        })
    })
}

/// As pandofs_removexattr(), of an open file.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_fremovexattr(file: File, name: *const c_char) -> c_int {
    done("pandofs_fremovexattr", |call| {
        // SAFETY: as C gives it.
        let name = unsafe { name_of(name) }?;
        let file = call.file(file)?;
        Ok(file.client().removexattr(&file.caller, file.ino, name)?)
    })
}

/// # Safety
/// The crate's rules of C.
// SAFETY: its caller's to keep, as said above.
unsafe fn name_of<'a>(name: *const c_char) -> Result<&'a [u8]> {
    // SAFETY: the caller's promise.
    match unsafe { pointers::text(name, "name", PANDOFS_NAME_MAX + 1) } {
        // As Linux has it.
        Err(Failure::TooLong(..)) | Ok(b"") => {
            Err(CallFailure::Invalid("a name of 1 to 255 bytes is needed").into())
        }
        name => name,
    }
}

fn of_path<T>(
    call: &Call,
    fs: Fs,
    path: &[u8],
    follow: bool,
    work: impl Fn(&Client, &Credentials, Ino) -> pandofs_client::Result<T>,
) -> Result<T> {
    let mount = call.mount(fs)?;
    Ok(mount.with_node(path, follow, |node| {
        Ok(work(mount.client(), &mount.caller, node.ino)?)
    })?)
}

fn joined(names: &[Vec<u8>]) -> Vec<u8> {
    let with_end = |name: &Vec<u8>| name.iter().copied().chain([0]).collect::<Vec<u8>>();
    names.iter().flat_map(with_end).collect()
}
