//! Functions for open files.

use crate::abi::{File, Fs};
use crate::call::{count, done};
use crate::pointers::{Out, Room, bytes};
use crate::table::{self, Entry};
use pandofs_client::Seek;
use pandofs_handles::{Failure, OpenFile};
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

/// As open(2), for regular files: O_RDONLY, O_WRONLY or O_RDWR, and any of O_CREAT, O_EXCL, O_TRUNC, O_APPEND,
/// O_NOFOLLOW, O_SYNC and O_DSYNC. Flags that are about the kernel alone mean nothing; others are -EOPNOTSUPP. mode
/// counts with O_CREAT.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_open(
    fs: Fs,
    path: *const c_char,
    flags: c_int,
    mode: u32,
    file: *mut File,
) -> c_int {
    done("pandofs_open", |call| {
        // SAFETY: as C gives them.
        let (path, file) = unsafe { (call.path(path, "path")?, Out::new(file, "file")?) };
        let mount = call.mount(fs)?;
        let opened = Arc::new(OpenFile::open(&mount, path, flags, mode)?);
        let id = table::insert(Entry::File(opened))?;
        file.set(File { id });
        Ok(())
    })
}

/// As close(2): waits until others see what was written, and answers an error of an earlier write that is not known
/// yet. It is closed whatever is answered. Waits for locks through it end with -EINTR.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub extern "C" fn pandofs_close(file: File) -> c_int {
    done("pandofs_close", |call| {
        // For words about an error.
        call.file(file)?;
        match table::take(file.id, |entry| matches!(entry, Entry::File(_)))? {
            Entry::File(file) => Ok(file.close()?),
            Entry::Mount(_) | Entry::Dir(_) => Err(Failure::NoHandle.into()),
        }
    })
}

/// As pread(2): fewer bytes only where the file ends.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_pread(
    file: File,
    buffer: *mut c_void,
    size: usize,
    offset: u64,
) -> i64 {
    count("pandofs_pread", |call| {
        // SAFETY: as C gives it.
        let mut room = unsafe { Room::new(buffer, size, "buffer") }?;
        let file = call.file(file)?;
        let wanted = room.size;
        let read = file.read(offset, wanted, |at, data| room.put(at, data))?;
        Ok(read as i64)
    })
}

/// As pwrite(2): all of it, or fewer bytes if an error came in between. With O_APPEND it goes to the end of the file, as in
/// Linux. The servers have it then; other clients see a new length after pandofs_flush().
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_pwrite(
    file: File,
    buffer: *const c_void,
    size: usize,
    offset: u64,
) -> i64 {
    count("pandofs_pwrite", |call| {
        // SAFETY: as C gives it.
        let data = unsafe { bytes(buffer.cast::<u8>(), size, "buffer") }?;
        Ok(call.file(file)?.write(offset, data)? as i64)
    })
}

/// Writes all of it at the end of the file in one piece, whoever else appends, and says where that was; offset may be null.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_append(
    file: File,
    buffer: *const c_void,
    size: usize,
    offset: *mut u64,
) -> i64 {
    count("pandofs_append", |call| {
        // SAFETY: as C gives it.
        let data = unsafe { bytes(buffer.cast::<u8>(), size, "buffer") }?;
        let at = call.file(file)?.append(data)?;
        if !offset.is_null() {
            // SAFETY: as C gives it.
            unsafe { Out::new(offset, "offset") }?.set(at);
        }
        Ok(data.len() as i64)
    })
}

/// Has other clients see what was written, as closing does.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub extern "C" fn pandofs_flush(file: File) -> c_int {
    done("pandofs_flush", |call| Ok(call.file(file)?.flush()?))
}

/// As fsync(2). Through each open file, an error of an earlier write is answered once.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub extern "C" fn pandofs_fsync(file: File) -> c_int {
    done("pandofs_fsync", |call| Ok(call.file(file)?.sync()?))
}

/// As fallocate(2): mode 0, FALLOC_FL_PUNCH_HOLE or FALLOC_FL_ZERO_RANGE, with FALLOC_FL_KEEP_SIZE or not.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub extern "C" fn pandofs_fallocate(file: File, mode: c_int, offset: u64, length: u64) -> c_int {
    done("pandofs_fallocate", |call| {
        let file = call.file(file)?;
        file.to_write()?;
        let allocation = pandofs_handles::allocation(mode).ok_or(Failure::NotSupported(
            "a mode that the library does not have",
        ))?;
        let (client, caller) = (file.client(), &file.caller);
        client.allocate(caller, file.ino, offset, length, allocation)?;
        Ok(file.written()?)
    })
}

/// The first byte from offset on that holds data (whence SEEK_DATA) or is in a hole (SEEK_HOLE); -ENXIO if there is none.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub extern "C" fn pandofs_seek(file: File, offset: u64, whence: c_int) -> i64 {
    count("pandofs_seek", |call| {
        let file = call.file(file)?;
        let what = match whence {
            libc::SEEK_DATA => Seek::Data,
            libc::SEEK_HOLE => Seek::Hole,
            _ => return Err(Failure::Invalid("it is neither SEEK_DATA nor SEEK_HOLE").into()),
        };
        let found = file.client().seek(&file.caller, file.ino, offset, what)?;
        // Files are not that large.
        let found = found.ok_or(Failure::NothingBehind)?;
        Ok(found as i64)
    })
}
