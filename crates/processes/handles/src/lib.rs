//! Parts of an interface to the client library: connections, open files, listings, and calls by paths and flags as Linux has them.
//!
//! The libraries for C and Python and the preloaded one stand on it; the command has lines of mounts from here.
//!
//! Invariant: nothing in it knows how a program names what it has open, or which language it is written in; each error has
//! its number.
//!
//! | file | job |
//! | --- | --- |
//! | `failure` | reasons why a call fails |
//! | `mount`, `open_file`, `open_dir` | a connection, an open file, a listing |
//! | `names`, `attributes`, `many` | calls by paths, one or many |
//! | `mounts` | lines of the system's list of mounts |

pub mod attributes;
mod failure;
mod many;
mod mount;
pub mod mounts;
mod names;
mod open_dir;
mod open_file;

pub use crate::failure::{Failure, Result};
pub use crate::mount::{Mount, Session};
pub use crate::open_dir::OpenDir;
pub use crate::open_file::OpenFile;

use pandofs_api::{Allocation, XattrMode};
use pandofs_client::{CacheLimits, Client, ClientError, Options};
use pandofs_types::limits::MAX_GROUPS;
use pandofs_types::{Capabilities, Credentials, FileKind, FsError, Ino, LockRange};
use std::ffi::{OsStr, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

/// Milliseconds for which a call waits for a server that does not answer.
pub const DEFAULT_TIMEOUT_MS: u32 = 30_000;
/// Memory for what is remembered: a tenth of what a mount takes, since a process may have several of these.
pub const DEFAULT_CACHE_BYTES: u64 = 16 << 20;
/// Shortest time for finding servers, and for telling which changes were lost.
const LEAST_CACHE_BYTES: usize = 1 << 20;
/// Bytes that one request to the client library is about, so that what a call takes of memory does not grow with it.
const PIECE_BYTES: usize = 16 << 20;
/// The most that one call reads or writes, as in Linux.
pub const MAX_CALL_BYTES: usize = 0x7fff_f000;

/// Returns whether a text names a cluster by addresses of its servers, and not by the path of its map.
pub fn is_address(cluster: &[u8]) -> bool {
    cluster.starts_with(b"unix:") || cluster.starts_with(b"tcp:")
}

/// Connects to a file system, by the path of its cluster map or by addresses of some of its servers with commas in
/// between. With a timeout of 0 ms a call waits for ever; with 0 bytes of cache nothing is remembered.
///
/// # Errors
/// `Protocol` when there is no such cluster, or the system has no random numbers; those of finding the root.
pub fn connect(
    cluster: &[u8],
    timeout_ms: u32,
    cache_bytes: u64,
) -> pandofs_client::Result<Client> {
    // A child process has the random numbers that its parent would have drawn next, and sessions have their
    // names from there.
    rand::rng()
        .reseed()
        .map_err(|_| ClientError::Protocol("the system has no random numbers".to_owned()))?;
    let cache_bytes = usize::try_from(cache_bytes).unwrap_or(usize::MAX);
    let options = Options {
        soft: (timeout_ms > 0).then(|| Duration::from_millis(timeout_ms.into())),
        cache_limits: CacheLimits::within(cache_bytes.max(LEAST_CACHE_BYTES)),
    };
    let client = if is_address(cluster) {
        let text = String::from_utf8_lossy(cluster);
        let addresses: Vec<&str> = text.split(',').map(str::trim).collect();
        Client::connect_to(&addresses, options)?
    } else {
        Client::open(Path::new(OsStr::from_bytes(cluster)), options)?
    };
    if cache_bytes > 0 {
        // Cached names are believed until servers recall them; for each caller those that it has found itself.
        client.take_leases(false, |_| ())?;
    }
    // A wrong address is to be found here, not where a file is looked for.
    if let Err(error) = client.getattr(&Credentials::ROOT, Ino::ROOT) {
        client.close();
        return Err(error);
    }
    Ok(client)
}

/// A caller by numbers: user 0 may do everything.
pub fn caller(uid: u32, gid: u32, groups: Vec<u32>) -> Credentials {
    let caller = Credentials::user(uid, gid, groups);
    match uid {
        0 => caller.with(Capabilities::ALL),
        _ => caller,
    }
}

/// The process as a caller; `None` when its groups are not known.
pub fn own_caller() -> Option<Credentials> {
    let groups = rustix::process::getgroups().ok()?;
    let uid = rustix::process::geteuid().as_raw();
    let gid = rustix::process::getegid().as_raw();
    let groups = groups.iter().map(|group| group.as_raw()).collect();
    Some(caller(uid, gid, groups))
}

/// The caller that a program names, or the process itself where it names none.
///
/// # Errors
/// `Invalid` for one of user and group without the other or groups without them, and for too many groups.
pub fn named_caller(uid: Option<u32>, gid: Option<u32>, groups: &[u32]) -> Result<Credentials> {
    if groups.len() > MAX_GROUPS {
        return Err(Failure::Invalid("too many groups"));
    }
    match (uid, gid, groups) {
        (None, None, []) => {
            own_caller().ok_or(Failure::Invalid("the groups of this process are not known"))
        }
        (Some(uid), Some(gid), groups) => Ok(caller(uid, gid, groups.to_vec())),
        _ => Err(Failure::Invalid(
            "user and group are given together, and further groups only with them",
        )),
    }
}

/// Reads up to `wanted` bytes from `offset` on, and gives `put` what was read and at which place of the whole. Answers
/// how many: fewer only where the file ends, or where an error came behind some that were read.
///
/// # Errors
/// The client library's, if nothing was read.
pub fn read(
    client: &Client,
    caller: &Credentials,
    ino: Ino,
    offset: u64,
    wanted: usize,
    mut put: impl FnMut(usize, &[u8]),
) -> pandofs_client::Result<usize> {
    let wanted = wanted.min(MAX_CALL_BYTES);
    let mut read = 0;
    while read < wanted {
        let piece = PIECE_BYTES.min(wanted - read);
        let from = offset.saturating_add(read as u64);
        let data = match client.read(caller, ino, from, piece) {
            Ok(data) => data,
            // The bytes read are given; the next call gets the error.
            Err(_) if read > 0 => break,
            Err(error) => return Err(error),
        };
        put(read, &data);
        read += data.len();
        if data.len() < piece {
            break;
        }
    }
    Ok(read)
}

/// Reads as [`read`] does, but all: fewer than `wanted` bytes only where the file ends.
///
/// # Errors
/// The client library's, also if something was read and given to `put` before.
pub fn read_whole(
    client: &Client,
    caller: &Credentials,
    ino: Ino,
    offset: u64,
    wanted: usize,
    mut put: impl FnMut(usize, &[u8]),
) -> pandofs_client::Result<usize> {
    whole(wanted, |done| {
        let put = |place: usize, data: &[u8]| put(done + place, data);
        let from = offset.saturating_add(done as u64);
        read(client, caller, ino, from, wanted - done, put)
    })
}

/// Calls what goes on behind so many bytes, and says how many more it did, until all are done or it does none.
fn whole<E>(
    wanted: usize,
    mut go_on: impl FnMut(usize) -> std::result::Result<usize, E>,
) -> std::result::Result<usize, E> {
    let mut done = 0;
    while done < wanted {
        match go_on(done)? {
            0 => break,
            more => done += more,
        }
    }
    Ok(done)
}

/// Writes at `offset`, and answers how many bytes: fewer if an error came in between.
///
/// # Errors
/// The client library's, if nothing was written.
pub fn write(
    client: &Client,
    caller: &Credentials,
    ino: Ino,
    offset: u64,
    data: &[u8],
) -> pandofs_client::Result<usize> {
    let data = &data[..data.len().min(MAX_CALL_BYTES)];
    let mut written = 0;
    for piece in data.chunks(PIECE_BYTES) {
        let to = offset
            .checked_add(written as u64)
            .ok_or(FsError::FileTooBig)?;
        match client.write(caller, ino, to, piece) {
            Ok(()) => written += piece.len(),
            Err(_) if written > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(written)
}

/// Ends an open file: what it has locked is let go, and it is released.
///
/// # Errors
/// The client library's; it is closed all the same.
pub fn release(client: &Client, ino: Ino, handle: u64) -> pandofs_client::Result<()> {
    let unlocked = client.unlock_handle(ino, handle);
    let released = client.release(ino);
    unlocked.and(released)
}

/// The bits of a mode (`S_IFMT`) that say the kind.
pub fn format(kind: FileKind) -> u32 {
    match kind {
        FileKind::File => libc::S_IFREG,
        FileKind::Dir => libc::S_IFDIR,
        FileKind::Symlink => libc::S_IFLNK,
        FileKind::Fifo => libc::S_IFIFO,
        FileKind::Socket => libc::S_IFSOCK,
        FileKind::Char => libc::S_IFCHR,
        FileKind::Block => libc::S_IFBLK,
    }
}

/// Meaning of a mode of fallocate(2); `None` if the client library does not have it.
pub fn allocation(mode: c_int) -> Option<Allocation> {
    let keep_size = mode & libc::FALLOC_FL_KEEP_SIZE != 0;
    match mode & !libc::FALLOC_FL_KEEP_SIZE {
        0 => Some(Allocation::Reserve { keep_size }),
        libc::FALLOC_FL_PUNCH_HOLE if keep_size => Some(Allocation::Punch),
        libc::FALLOC_FL_ZERO_RANGE => Some(Allocation::Zero { keep_size }),
        _ => None,
    }
}

/// Meaning of the flags of setxattr(2).
///
/// # Errors
/// `Invalid` for others than `XATTR_CREATE` or `XATTR_REPLACE`.
pub fn xattr_mode(flags: c_int) -> Result<XattrMode> {
    match flags {
        0 => Ok(XattrMode::Either),
        libc::XATTR_CREATE => Ok(XattrMode::Create),
        libc::XATTR_REPLACE => Ok(XattrMode::Replace),
        _ => Err(Failure::Invalid(
            "flags other than XATTR_CREATE or XATTR_REPLACE",
        )),
    }
}

/// The bytes that a lock is about, of which length 0 means all that follow; `None` if offsets are not below 2^63.
pub fn lock_range(start: u64, length: u64) -> Option<LockRange> {
    let last = match length {
        0 => Some(LockRange::MAX),
        length => start.checked_add(length - 1),
    };
    let range = last.map(|last| LockRange { first: start, last });
    range.filter(|range| range.is_valid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_bytes_that_there_may_be() {
        assert_eq!(lock_range(0, 0), Some(LockRange::WHOLE));
        assert_eq!(lock_range(5, 2), Some(LockRange { first: 5, last: 6 }));
        for (start, length) in [(u64::MAX, 2), (1 << 63, 0), (1, 1 << 63), (1 << 63, 1)] {
            assert_eq!(lock_range(start, length), None);
        }
    }

    #[test]
    fn the_superuser_may_do_everything() {
        assert!(caller(0, 5, vec![]).has(Capabilities::ALL));
        assert_eq!(caller(7, 5, vec![1]), Credentials::user(7, 5, vec![1]));
    }

    #[test]
    fn a_caller_is_named_whole() {
        assert_eq!(named_caller(None, None, &[]).ok(), own_caller());
        assert_eq!(
            named_caller(Some(7), Some(5), &[1]),
            Ok(caller(7, 5, vec![1]))
        );
        let too_many = vec![1; MAX_GROUPS + 1];
        for (uid, gid, groups) in [
            (None, Some(5), &[][..]),
            (Some(7), None, &[]),
            (None, None, &[1]),
            (Some(7), Some(5), &too_many),
        ] {
            let refused = named_caller(uid, gid, groups);
            assert!(
                matches!(refused, Err(Failure::Invalid(_))),
                "{uid:?} {gid:?}"
            );
        }
    }

    #[test]
    fn a_whole_goes_on_to_its_end_or_an_error() {
        let by_three = |end: usize| move |done: usize| Ok::<usize, ()>(3.min(end - done));
        assert_eq!(whole(7, by_three(7)), Ok(7));
        assert_eq!(whole(7, by_three(4)), Ok(4));
        let fails = |done: usize| if done < 6 { Ok(3) } else { Err("error") };
        assert_eq!(whole(7, fails), Err("error"));
    }

    #[test]
    fn modes_of_fallocate() {
        let keep_size = true;
        assert_eq!(
            allocation(0),
            Some(Allocation::Reserve { keep_size: false })
        );
        assert_eq!(
            allocation(libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE),
            Some(Allocation::Punch)
        );
        assert_eq!(
            allocation(libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE),
            Some(Allocation::Zero { keep_size })
        );
        assert_eq!(allocation(libc::FALLOC_FL_PUNCH_HOLE), None);
        assert_eq!(allocation(libc::FALLOC_FL_COLLAPSE_RANGE), None);
    }
}
