//! System calls as the kernel has them, past the C library and so past this library's own hook.

use std::arch::asm;

/// A call's six arguments.
pub(crate) type Args = [usize; 6];

/// Makes a system call; the answer is the kernel's, an error a negated number.
///
/// Pointers among the arguments are either the program's own, which it gave to this very call, or lead to what outlives
/// it.
pub(crate) fn call(number: i64, args: Args) -> isize {
    let answer: isize;
    // SAFETY: the kernel checks its arguments, and whom pointers belong to is said above.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => answer,
            in("rdi") args[0],
            in("rsi") args[1],
            in("rdx") args[2],
            in("r10") args[3],
            in("r8") args[4],
            in("r9") args[5],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    answer
}

/// As [`call`], of three arguments.
pub(crate) fn call3(number: i64, first: usize, second: usize, third: usize) -> isize {
    call(number, [first, second, third, 0, 0, 0])
}

/// Closes a descriptor.
pub(crate) fn close(fd: i32) {
    call3(libc::SYS_close, fd as usize, 0, 0);
}

/// Returns whether the descriptor is open.
pub(crate) fn is_open(fd: i32) -> bool {
    descriptor_flags(fd) >= 0
}

/// As `F_GETFD`.
pub(crate) fn descriptor_flags(fd: i32) -> isize {
    call3(libc::SYS_fcntl, fd as usize, libc::F_GETFD as usize, 0)
}

/// Returns whether this thread is the one that the process began with.
pub(crate) fn is_first_thread() -> bool {
    call3(libc::SYS_gettid, 0, 0, 0) == call3(libc::SYS_getpid, 0, 0, 0)
}

/// The target of a symbolic link of the kernel, if it is one.
pub(crate) fn readlink(path: &std::ffi::CStr) -> Option<Vec<u8>> {
    let mut room = vec![0_u8; libc::PATH_MAX as usize];
    let (path, place) = (path.as_ptr() as usize, room.as_mut_ptr() as usize);
    let length = call3(libc::SYS_readlink, path, place, room.len());
    room.truncate(usize::try_from(length).ok()?);
    Some(room)
}

/// The path in `/proc` of a descriptor of this process.
pub(crate) fn proc_path(fd: i32) -> std::ffi::CString {
    let text = format!("/proc/self/fd/{fd}");
    // A number has no NUL.
    std::ffi::CString::new(text).unwrap_or_default()
}

/// Writes to a descriptor of the kernel what fits, for words that nobody waits for.
pub(crate) fn say(fd: i32, text: &str) {
    call3(
        libc::SYS_write,
        fd as usize,
        text.as_ptr() as usize,
        text.len(),
    );
}

/// The number of the inode that a descriptor of the kernel's leads to.
pub(crate) fn inode_of(fd: i32) -> Option<u64> {
    // SAFETY: it is all numbers.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    let place = (&raw mut stat) as usize;
    (call3(libc::SYS_fstat, fd as usize, place, 0) == 0).then_some(stat.st_ino)
}
