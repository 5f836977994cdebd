//! Files in memory: a private mapping is a copy, a shared one is the mount's or refused.

use crate::at::{c_string, errno};
use crate::complain::{self, About};
use crate::fds;
use crate::memory;
use crate::open_file::{OpenFile, READ, WRITE};
use crate::session;
use crate::sys;
use std::sync::Arc;

/// Bytes that offsets of mappings are multiples of.
const PAGE: usize = 4_096;

/// As `mmap` of a file of the file system.
///
/// # Errors
/// Error numbers.
pub(crate) fn map(args: sys::Args) -> Result<isize, i32> {
    let [place, length, rights, flags, fd, offset] = args;
    let file = fds::get(fd as i32)?;
    let (rights, flags) = (rights as i32, flags as i32);
    if length == 0 || !offset.is_multiple_of(PAGE) {
        return Err(libc::EINVAL);
    }
    let opened = file.opened(READ).map_err(|_| libc::EACCES)?;
    let is_shared = flags & libc::MAP_TYPE != libc::MAP_PRIVATE;
    let writes = is_shared && rights & libc::PROT_WRITE != 0;
    if writes && file.access & WRITE == 0 {
        return Err(libc::EACCES);
    }
    if is_shared {
        return map_shared(args, &file);
    }
    let (client, caller) = (&opened.session.client, session::caller()?);
    // A copy: what is written to the file later is not seen in it, which POSIX leaves open.
    let flags = flags | libc::MAP_ANONYMOUS;
    let writable = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let got = sys::call(
        libc::SYS_mmap,
        [place, length, writable, flags as usize, usize::MAX, 0],
    );
    if got < 0 {
        return Err(-got as i32);
    }
    let start = got as usize;
    let put = |at: usize, data: &[u8]| memory::put_bytes(start + at, data);
    let read = pandofs_handles::read_whole(client, &caller, file.ino, offset as u64, length, put);
    let done = read.map_err(errno).and_then(|_| {
        match sys::call3(libc::SYS_mprotect, start, length, rights as usize) {
            0 => Ok(got),
            error => Err(-error as i32),
        }
    });
    if done.is_err() {
        sys::call3(libc::SYS_munmap, start, length, 0);
    }
    done
}

/// Maps the same file below the mount, if there is one.
fn map_shared(args: sys::Args, file: &Arc<OpenFile>) -> Result<isize, i32> {
    let config = session::config().ok_or(libc::EIO)?;
    if !config.is_mounted {
        complain::once(
            About::SharedMapping,
            "a shared mapping of a file needs a mount, and there is none: ENODEV",
        );
        return Err(libc::ENODEV);
    }
    file.flush()?;
    let path = c_string(config.prefix.outer(&file.path))?;
    let flags = match file.access & WRITE != 0 {
        true => libc::O_RDWR,
        false => libc::O_RDONLY,
    } | libc::O_CLOEXEC;
    let fd = sys::call3(libc::SYS_open, path.as_ptr() as usize, flags as usize, 0);
    if fd < 0 {
        return Err(-fd as i32);
    }
    let is_it = sys::inode_of(fd as i32) == Some(file.ino.0);
    if !is_it {
        // It was renamed or removed, and the path leads to something else.
        sys::close(fd as i32);
        return Err(libc::ENODEV);
    }
    let [place, length, rights, flags, _, offset] = args;
    let got = sys::call(
        libc::SYS_mmap,
        [place, length, rights, flags, fd as usize, offset],
    );
    sys::close(fd as i32);
    match got {
        error @ -4_095..0 => Err(-error as i32),
        got => Ok(got),
    }
}
