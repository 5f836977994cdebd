//! Functions for listings of directories.

use crate::abi::{Dir, Dirent, Fs, PANDOFS_DIR_STAT};
use crate::call::done;
use crate::pointers::Out;
use crate::table::{self, Entry};
use pandofs_handles::{Failure, OpenDir};
use std::ffi::{c_char, c_int};
use std::sync::Arc;

/// As opendir(3). Flags: 0, or PANDOFS_DIR_STAT for attributes with each entry, which is faster than to ask for each.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_opendir(
    fs: Fs,
    path: *const c_char,
    flags: c_int,
    dir: *mut Dir,
) -> c_int {
    done("pandofs_opendir", |call| {
        // SAFETY: as C gives them.
        let (path, dir) = unsafe { (call.path(path, "path")?, Out::new(dir, "dir")?) };
        let mount = call.mount(fs)?;
        if flags & !PANDOFS_DIR_STAT != 0 {
            return Err(Failure::Invalid("a flag that pandofs_opendir() does not have").into());
        }
        let plus = flags & PANDOFS_DIR_STAT != 0;
        let opened = Arc::new(OpenDir::open(mount, path, plus)?);
        let id = table::insert(Entry::Dir(opened))?;
        dir.set(Dir { id });
        Ok(())
    })
}

/// The next entry: 1, or 0 at the end. Without . and .. Threads that share a listing get different entries.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_readdir(dir: Dir, entry: *mut Dirent) -> c_int {
    let count = crate::call::count("pandofs_readdir", |call| {
        // SAFETY: as C gives it.
        let place = unsafe { Out::new(entry, "entry") }?;
        match call.dir(dir)?.next()? {
            Some(entry) => {
                place.set(Dirent::from(&entry));
                Ok(1)
            }
            None => Ok(0),
        }
    });
    // 0, 1 or an error number.
    count as c_int
}

/// Goes on behind the entry that had this offset; from the start with 0.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub extern "C" fn pandofs_seekdir(dir: Dir, offset: i64) -> c_int {
    done("pandofs_seekdir", |call| Ok(call.dir(dir)?.seek(offset)?))
}

/// As fsync(2) of a directory: its entries are on disk.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub extern "C" fn pandofs_fsyncdir(dir: Dir) -> c_int {
    done("pandofs_fsyncdir", |call| {
        let dir = call.dir(dir)?;
        let mount = &dir.mount;
        Ok(mount.client().fsyncdir(&mount.caller, dir.ino)?)
    })
}

/// As closedir(3).
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub extern "C" fn pandofs_closedir(dir: Dir) -> c_int {
    done("pandofs_closedir", |_| {
        match table::take(dir.id, |entry| matches!(entry, Entry::Dir(_)))? {
            Entry::Dir(_) => Ok(()),
            Entry::Mount(_) | Entry::File(_) => Err(Failure::NoHandle.into()),
        }
    })
}
