//! File handles: `name_to_handle_at` and `open_by_handle_at`.

use super::{Number, O, Text, answer, call};
use crate::case::Call;
use rustix::fd::{FromRawFd, OwnedFd};
use std::os::fd::AsRawFd;

/// Bytes of a handle at most (`MAX_HANDLE_SZ`).
const MAX_HANDLE_BYTES: usize = 128;

/// `struct file_handle`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Handle {
    pub bytes: u32,
    kind: i32,
    data: [u8; MAX_HANDLE_BYTES],
}

/// With room for so many bytes. When that is too little, `needed` is how many it takes.
pub(crate) fn name_to_handle_into(path: impl Text, room: u32, needed: &mut u32) -> Call<Handle> {
    assert!(room as usize <= MAX_HANDLE_BYTES);
    let mut handle = Handle {
        bytes: room,
        kind: 0,
        data: [0; MAX_HANDLE_BYTES],
    };
    let mut mount = 0;
    let name = path
        .as_cow_c_str()
        .map(|it| it.into_owned())
        .unwrap_or_default();
    // SAFETY: the handle has room for as many bytes as it says; the path ends with a NUL.
    let result = answer(unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            libc::AT_FDCWD,
            name.as_ptr(),
            &raw mut handle,
            &raw mut mount,
            0,
        )
    });
    *needed = handle.bytes;
    call!("name_to_handle_at", [path, room], result.map(|_| handle))
}

pub(crate) fn name_to_handle(path: impl Text) -> Call<Handle> {
    name_to_handle_into(path, MAX_HANDLE_BYTES as u32, &mut 0)
}

/// `mount` is open on anything of the file system.
pub(crate) fn open_by_handle(mount: &OwnedFd, handle: &Handle, flags: O) -> Call<OwnedFd> {
    let mut handle = handle.clone();
    let number = flags.bits() as i32 | libc::O_CLOEXEC;
    // SAFETY: the handle is one that the kernel made, with the length that it says.
    let result = answer(unsafe {
        libc::syscall(
            libc::SYS_open_by_handle_at,
            mount.as_raw_fd(),
            &raw mut handle,
            number,
        )
    });
    // SAFETY: the number is that of a descriptor just made, which no other code knows.
    let result = result.map(|fd| unsafe { OwnedFd::from_raw_fd(fd as i32) });
    call!(
        "open_by_handle_at",
        [Number(mount), handle.bytes, flags],
        result
    )
}
