//! Functions for connections: to begin and end them, and what is about no file.

use crate::abi::{Fs, Options, PANDOFS_OWN, PANDOFS_VERSION, StatVfs, given};
use crate::call::{Call, done};
use crate::failure::{Failure, Result};
use crate::last_error;
use crate::pointers::{Out, bytes};
use crate::table::{self, Entry};
use pandofs_client::ClientError;
use pandofs_handles::{DEFAULT_CACHE_BYTES, DEFAULT_TIMEOUT_MS, Failure as CallFailure, Mount};
use pandofs_types::{Credentials, Ino};
use std::ffi::{c_char, c_int};
use std::sync::Arc;

/// Bytes of the first version of the options.
const FIRST_OPTIONS_BYTES: usize = size_of::<Options>();
/// Bytes of options of any version, so that not everything is read that a stray number says.
const MAX_OPTIONS_BYTES: usize = 4_096;

/// The library's version, as PANDOFS_VERSION has the header's.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub extern "C" fn pandofs_version_number() -> u32 {
    PANDOFS_VERSION
}

/// Words about the last call of this thread that failed: which function, which path, what is wrong and, where one is
/// to blame, which server. Never null, and empty before the first. It lasts until the next call of this thread that
/// fails, or the thread's end.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub extern "C" fn pandofs_strerror_last() -> *const c_char {
    last_error::get()
}

/// Fills in the options as they are at first. `size` is sizeof(pandofs_options_t).
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_options_init(options: *mut Options, size: usize) -> c_int {
    done("pandofs_options_init", |_| {
        if options.is_null() {
            return Err(Failure::Null("options"));
        }
        if !(FIRST_OPTIONS_BYTES..=MAX_OPTIONS_BYTES).contains(&size) {
            return Err(CallFailure::Invalid("no version of the options has this size").into());
        }
        let initial = Options {
            size: size as u32,
            ..initial()
        };
        // SAFETY: there are `size` bytes, which is no less than this version's.
        unsafe {
            options.cast::<u8>().write_bytes(0, size);
            options.write_unaligned(initial);
        }
        Ok(())
    })
}

/// Connects to a file system. `cluster` is the path of its cluster map, or the addresses of some of its servers
/// ("unix:/PATH" or "tcp:HOST:PORT") with commas in between; options may be null. At least one server has to answer.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_connect(
    cluster: *const c_char,
    options: *const Options,
    fs: *mut Fs,
) -> c_int {
    done("pandofs_connect", |call| {
        // SAFETY: as C gives them.
        let (cluster, options, fs) = unsafe {
            let cluster = call.path(cluster, "cluster")?;
            (cluster, read_options(options)?, Out::new(fs, "fs")?)
        };
        let mount = Mount::connect(
            cluster,
            options.timeout_ms,
            options.cache_bytes,
            options.caller,
            options.umask,
        )?;
        let id = table::insert(Entry::Mount(Arc::new(mount)))?;
        fs.set(Fs { id });
        Ok(())
    })
}

/// Another handle of the same connection, for another caller; with the same directory. User 0 may do everything.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_as(
    fs: Fs,
    uid: u32,
    gid: u32,
    groups: *const u32,
    group_count: usize,
    other: *mut Fs,
) -> c_int {
    done("pandofs_as", |call| {
        // SAFETY: as C gives them.
        let (groups, other) = unsafe {
            let groups = bytes(groups, group_count, "groups")?;
            (groups, Out::new(other, "other")?)
        };
        let mount = call.mount(fs)?;
        let caller = caller(uid, gid, groups)?;
        other.set(another(&mount, caller, mount.base)?);
        Ok(())
    })
}

/// Another handle of the same connection and caller, whose relative paths begin in that directory: what dirfd is to
/// openat(2).
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_at(fs: Fs, path: *const c_char, other: *mut Fs) -> c_int {
    done("pandofs_at", |call| {
        // SAFETY: as C gives them.
        let (path, other) = unsafe { (call.path(path, "path")?, Out::new(other, "other")?) };
        let mount = call.mount(fs)?;
        let base = mount.directory(path)?;
        other.set(another(&mount, mount.caller.clone(), base)?);
        Ok(())
    })
}

/// Closes the handle. With the last one of its connection the connection ends, and files and directories that are open
/// are closed; the first error of that is answered, and all is closed all the same. Calls that other threads are in
/// go on until they are done.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub extern "C" fn pandofs_disconnect(fs: Fs) -> c_int {
    done("pandofs_disconnect", |_| {
        let Entry::Mount(mount) = table::take(fs.id, |entry| matches!(entry, Entry::Mount(_)))?
        else {
            return Err(CallFailure::NoHandle.into());
        };
        let mut result = Ok(());
        for entry in table::take_rest(mount.session.number) {
            let Entry::File(file) = entry else { continue };
            let closed = file.close();
            if let Err(CallFailure::Client(
                ClientError::Unavailable { .. } | ClientError::Unknown { .. },
            )) = closed
            {
                // The others wait for nobody: the caller has waited as long as it wanted.
                mount.session.client.close();
            }
            result = result.and(closed);
        }
        Ok(result?)
    })
}

/// Room in the file system.
// SAFETY: by the header of the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pandofs_statvfs(fs: Fs, room: *mut StatVfs) -> c_int {
    done("pandofs_statvfs", |call: &mut Call| {
        // SAFETY: as C gives it.
        let room = unsafe { Out::new(room, "room") }?;
        room.set(call.mount(fs)?.client().statfs()?.into());
        Ok(())
    })
}

fn initial() -> Options {
    Options {
        size: FIRST_OPTIONS_BYTES as u32,
        timeout_ms: DEFAULT_TIMEOUT_MS,
        uid: PANDOFS_OWN,
        gid: PANDOFS_OWN,
        umask: 0,
        group_count: 0,
        groups: std::ptr::null(),
        cache_bytes: DEFAULT_CACHE_BYTES,
    }
}

/// The options, as they were read.
struct Choice {
    timeout_ms: u32,
    umask: u16,
    caller: Credentials,
    cache_bytes: u64,
}

/// # Safety
/// The crate's rules of C.
// SAFETY: its caller's to keep, as said above.
unsafe fn read_options(options: *const Options) -> Result<Choice> {
    let options = match options.is_null() {
        true => initial(),
        // SAFETY: the first field is there, and says how many bytes are.
        false => unsafe { copied(options, options.cast::<u32>().read_unaligned() as usize) }?,
    };
    // SAFETY: as C gives them.
    let groups = unsafe { bytes(options.groups, options.group_count as usize, "groups") }?;
    if options.umask & !0o777 != 0 {
        return Err(CallFailure::Invalid("the umask has bits other than 0777").into());
    }
    Ok(Choice {
        timeout_ms: options.timeout_ms,
        umask: options.umask as u16,
        caller: caller(options.uid, options.gid, groups)?,
        cache_bytes: options.cache_bytes,
    })
}

/// Options of this or a later version.
///
/// # Safety
/// There are `size` bytes.
// SAFETY: its caller's to keep, as said above.
unsafe fn copied(options: *const Options, size: usize) -> Result<Options> {
    if !(FIRST_OPTIONS_BYTES..=MAX_OPTIONS_BYTES).contains(&size) {
        let why = "the options were not filled in by pandofs_options_init()";
        return Err(CallFailure::Invalid(why).into());
    }
    let later = options.cast::<u8>().wrapping_add(FIRST_OPTIONS_BYTES);
    // SAFETY: so many bytes are there behind those of this version.
    let later = unsafe { bytes(later, size - FIRST_OPTIONS_BYTES, "options") }?;
    if later.iter().any(|&byte| byte != 0) {
        return Err(Failure::Later);
    }
    // SAFETY: as many bytes as this version has are there, and any bytes are options.
    Ok(unsafe { options.read_unaligned() })
}

fn caller(uid: u32, gid: u32, groups: &[u32]) -> pandofs_handles::Result<Credentials> {
    pandofs_handles::named_caller(given(uid), given(gid), groups)
}

fn another(mount: &Mount, caller: Credentials, base: Ino) -> Result<Fs> {
    let mount = Mount {
        session: Arc::clone(&mount.session),
        caller,
        umask: mount.umask,
        base,
    };
    let id = table::insert(Entry::Mount(Arc::new(mount)))?;
    Ok(Fs { id })
}
