//! Calls on open files: reading, writing, offsets, space.

use crate::at::errno;
use crate::fds;
use crate::memory;
use crate::open_file::{OpenFile, READ, WRITE};
use crate::session;
use pandofs_client::Seek;
use pandofs_types::{FileKind, SetAttr};
use std::sync::Arc;

/// Buffers of one call at most, as in Linux.
const MAX_BUFFERS: usize = 1_024;
/// A call's whole of buffers is copied at once, up to this.
const MAX_COPIED: usize = 64 << 20;

/// One buffer of a call.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Buffer {
    start: usize,
    length: usize,
}

/// Where a call reads or writes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Offset {
    /// At the open file's own, which moves.
    Own,
    At(usize),
}

impl Offset {
    fn with<T>(
        self,
        file: &OpenFile,
        work: impl FnOnce(u64) -> Result<(u64, T), i32>,
    ) -> Result<T, i32> {
        match self {
            Offset::At(offset) => {
                let offset = u64::try_from(offset as i64).map_err(|_| libc::EINVAL)?;
                work(offset).map(|(_, done)| done)
            }
            Offset::Own => file.with_offset(|offset| {
                let (end, done) = work(*offset)?;
                *offset = end;
                Ok(done)
            }),
        }
    }
}

/// As `read` and `pread64`.
///
/// # Errors
/// Error numbers.
pub(crate) fn read(fd: i32, room: usize, size: usize, offset: Offset) -> Result<isize, i32> {
    let file = fds::get(fd)?;
    let opened = file.opened(READ)?;
    memory::check(room, size)?;
    let caller = session::caller()?;
    offset.with(&file, |at| {
        let put = |place: usize, data: &[u8]| memory::put_bytes(room + place, data);
        let client = &opened.session.client;
        let read =
            pandofs_handles::read(client, &caller, file.ino, at, size, put).map_err(errno)?;
        Ok((at + read as u64, read as isize))
    })
}

/// As `write` and `pwrite64`.
///
/// # Errors
/// Error numbers.
pub(crate) fn write(fd: i32, data: usize, size: usize, offset: Offset) -> Result<isize, i32> {
    let file = fds::get(fd)?;
    file.opened(WRITE)?;
    memory::check(data, size)?;
    write_bytes(&file, memory::bytes(data, size), offset)
}

fn write_bytes(file: &Arc<OpenFile>, data: &[u8], offset: Offset) -> Result<isize, i32> {
    let opened = file.opened(WRITE)?;
    let (client, caller) = (&opened.session.client, session::caller()?);
    let flags = file.flags();
    let data = &data[..data.len().min(pandofs_handles::MAX_CALL_BYTES)];
    let written = offset.with(file, |at| {
        if data.is_empty() {
            return Ok((at, 0));
        }
        if flags & libc::O_APPEND != 0 {
            let at = client.append(&caller, file.ino, data).map_err(errno)?;
            return Ok((at + data.len() as u64, data.len()));
        }
        let written = pandofs_handles::write(client, &caller, file.ino, at, data).map_err(errno)?;
        Ok((at + written as u64, written))
    })?;
    if flags & (libc::O_SYNC | libc::O_DSYNC) != 0 {
        client
            .fsync_through(&caller, file.ino, opened.number)
            .map_err(errno)?;
    }
    Ok(written as isize)
}

fn buffers(array: usize, count: usize) -> Result<Vec<Buffer>, i32> {
    if count > MAX_BUFFERS {
        return Err(libc::EINVAL);
    }
    let mut whole = 0_usize;
    (0..count)
        .map(|index| {
            let buffer: Buffer =
                memory::get(array + index * size_of::<Buffer>()).ok_or(libc::EFAULT)?;
            memory::check(buffer.start, buffer.length)?;
            let sum = whole.checked_add(buffer.length);
            whole = sum
                .filter(|sum| isize::try_from(*sum).is_ok())
                .ok_or(libc::EINVAL)?;
            Ok(buffer)
        })
        .collect()
}

/// As `readv` and the like.
///
/// # Errors
/// Error numbers.
pub(crate) fn read_buffers(
    fd: i32,
    array: usize,
    count: usize,
    offset: Offset,
) -> Result<isize, i32> {
    let buffers = buffers(array, count)?;
    let whole: usize = buffers.iter().map(|buffer| buffer.length).sum();
    let mut data = vec![0_u8; whole.min(MAX_COPIED)];
    let read = read(fd, data.as_mut_ptr() as usize, data.len(), offset)?;
    let mut rest = &data[..read as usize];
    for buffer in buffers {
        let (now, later) = rest.split_at(buffer.length.min(rest.len()));
        memory::put_bytes(buffer.start, now);
        rest = later;
    }
    Ok(read)
}

/// As `writev` and the like.
///
/// # Errors
/// Error numbers.
pub(crate) fn write_buffers(
    fd: i32,
    array: usize,
    count: usize,
    offset: Offset,
) -> Result<isize, i32> {
    let file = fds::get(fd)?;
    let mut data = Vec::new();
    for buffer in buffers(array, count)? {
        let room = MAX_COPIED - data.len();
        data.extend(memory::bytes(buffer.start, buffer.length.min(room)));
    }
    write_bytes(&file, &data, offset)
}

/// As `lseek`.
///
/// # Errors
/// Error numbers.
pub(crate) fn seek(fd: i32, offset: usize, whence: usize) -> Result<isize, i32> {
    let file = fds::get(fd)?;
    if file.access == 0 {
        return Err(libc::EBADF);
    }
    let offset = offset as i64;
    let moved = |from: u64| {
        let to = i64::try_from(from)
            .ok()
            .and_then(|from| from.checked_add(offset));
        to.ok_or(libc::EOVERFLOW)
            .and_then(|to| u64::try_from(to).map_err(|_| libc::EINVAL))
    };
    let find = |what: Seek| {
        let at = u64::try_from(offset).map_err(|_| libc::ENXIO)?;
        let opened = file.opened(0)?;
        let found = opened
            .session
            .client
            .seek(&*session::caller()?, file.ino, at, what);
        found.map_err(errno)?.ok_or(libc::ENXIO)
    };
    file.with_offset(|own| {
        *own = match whence as i32 {
            libc::SEEK_SET => moved(0)?,
            libc::SEEK_CUR => moved(*own)?,
            libc::SEEK_END if file.kind == FileKind::Dir => return Err(libc::EINVAL),
            libc::SEEK_END => {
                let client = file.opened(0)?.session.client.clone();
                moved(
                    client
                        .getattr(&*session::caller()?, file.ino)
                        .map_err(errno)?
                        .size,
                )?
            }
            libc::SEEK_DATA => find(Seek::Data)?,
            libc::SEEK_HOLE => find(Seek::Hole)?,
            _ => return Err(libc::EINVAL),
        };
        Ok(*own as isize)
    })
}

/// As `FIONREAD`: the bytes from the offset to the end.
///
/// # Errors
/// `ENOTTY` for what is no file; others.
pub(crate) fn bytes_left(fd: i32, place: usize) -> Result<isize, i32> {
    let file = fds::get(fd)?;
    if file.kind != FileKind::File {
        return Err(libc::ENOTTY);
    }
    let opened = file.opened(0)?;
    memory::check(place, size_of::<i32>())?;
    let client = &opened.session.client;
    let attr = client
        .getattr(&*session::caller()?, file.ino)
        .map_err(errno)?;
    let left = attr.size as i64 - file.with_offset(|offset| Ok(*offset))? as i64;
    // An int has no more room, as in the kernel.
    memory::put(place, left as i32);
    Ok(0)
}

/// As `fsync` and the like.
///
/// # Errors
/// Error numbers.
pub(crate) fn sync(fd: i32) -> Result<isize, i32> {
    let file = fds::get(fd)?;
    let caller = session::caller()?;
    if file.kind == FileKind::Dir {
        session::get()?
            .client
            .fsyncdir(&caller, file.ino)
            .map_err(errno)?;
        return Ok(0);
    }
    let opened = file.opened(0)?;
    let client = &opened.session.client;
    client
        .fsync_through(&caller, file.ino, opened.number)
        .map_err(errno)?;
    Ok(0)
}

/// As `ftruncate`.
///
/// # Errors
/// Error numbers.
pub(crate) fn truncate(fd: i32, size: usize) -> Result<isize, i32> {
    let file = fds::get(fd)?;
    let size = u64::try_from(size as i64).map_err(|_| libc::EINVAL)?;
    // As the kernel has it, of what is not open for writing.
    let opened = file.opened(WRITE).map_err(|_| libc::EINVAL)?;
    let set = SetAttr {
        size: Some(size),
        ..SetAttr::default()
    };
    // The right was seen when it was opened, and lasts.
    let caller = (*session::caller()?).clone().writing_anyway();
    opened
        .session
        .client
        .setattr(&caller, file.ino, set)
        .map_err(errno)?;
    Ok(0)
}

/// As `fallocate`.
///
/// # Errors
/// Error numbers.
pub(crate) fn allocate(fd: i32, mode: usize, offset: usize, length: usize) -> Result<isize, i32> {
    let file = fds::get(fd)?;
    let opened = file.opened(WRITE)?;
    let positive = |number: usize| u64::try_from(number as i64).map_err(|_| libc::EINVAL);
    let (offset, length) = (positive(offset)?, positive(length)?);
    let what = pandofs_handles::allocation(mode as i32).ok_or(libc::EOPNOTSUPP)?;
    let (client, caller) = (&opened.session.client, session::caller()?);
    client
        .allocate(&caller, file.ino, offset, length, what)
        .map_err(errno)?;
    Ok(0)
}

/// As `fcntl`, but for locks and duplicates.
///
/// # Errors
/// Error numbers.
pub(crate) fn control(fd: i32, command: i32, argument: usize) -> Result<Option<isize>, i32> {
    /// Flags that can be set.
    const SETTABLE: i32 = libc::O_APPEND | libc::O_NONBLOCK | libc::O_NOATIME | libc::O_DIRECT;
    let file = fds::get(fd)?;
    match command {
        libc::F_GETFD | libc::F_SETFD => Ok(None),
        libc::F_GETFL => Ok(Some(file.flags() as isize)),
        libc::F_SETFL => {
            file.set_flags(file.flags() & !SETTABLE | argument as i32 & SETTABLE);
            Ok(Some(0))
        }
        _ => Err(libc::EINVAL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_somewhere_and_not_endless() {
        let of =
            |array: &[Buffer]| buffers(array.as_ptr() as usize, array.len()).map(|all| all.len());
        let buffer = |start: usize, length: usize| Buffer { start, length };
        assert_eq!(of(&[buffer(8_192, 5), buffer(0, 0)]), Ok(2));
        assert_eq!(of(&[buffer(8_192, 5), buffer(0, 1)]), Err(libc::EFAULT));
        let most = isize::MAX as usize;
        assert_eq!(
            of(&[buffer(8_192, most), buffer(8_192, 1)]),
            Err(libc::EINVAL)
        );
        assert_eq!(
            of(&[buffer(8_192, usize::MAX), buffer(8_192, 2)]),
            Err(libc::EINVAL)
        );
    }
}
