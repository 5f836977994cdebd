//! Listings, as `getdents64` has them.
//!
//! The offset of a directory is the cookie of the entry that was given last, as on a mount: 1 and 2 for `.` and `..`, then
//! positions, which no split changes.

use crate::at::errno;
use crate::fds;
use crate::memory;
use crate::open_file::{Listed, OpenFile};
use crate::session;
use pandofs_types::limits::MAX_READDIR_ENTRIES;
use pandofs_types::{Credentials, FileKind, Ino, Position};

const DOT: u64 = 1;
const DOT_DOT: u64 = 2;
/// Bytes of an entry before its name, and what entries are multiples of.
const HEAD: usize = 19;
const ALIGNMENT: usize = 8;

const _: () = assert!(DOT_DOT < Position::FIRST.0);

/// As `getdents64`.
///
/// # Errors
/// Error numbers.
pub(crate) fn list(fd: i32, room: usize, size: usize) -> Result<isize, i32> {
    let file = fds::get(fd)?;
    if file.kind != FileKind::Dir {
        return Err(libc::ENOTDIR);
    }
    if file.access == 0 {
        return Err(libc::EBADF);
    }
    memory::check(room, size)?;
    file.with_offset(|offset| {
        let mut bytes = Vec::new();
        loop {
            let (name, cookie, ino, kind) = match next(&file, *offset) {
                Ok(Some(entry)) => entry,
                Ok(None) => break,
                // The entries found are given; the next call gets the error.
                Err(_) if !bytes.is_empty() => break,
                Err(error) => return Err(error),
            };
            let length = (HEAD + name.len() + 1).next_multiple_of(ALIGNMENT);
            if bytes.len() + length > size {
                if bytes.is_empty() {
                    return Err(libc::EINVAL);
                }
                break;
            }
            put(&mut bytes, length, &name, cookie, ino, kind);
            *offset = cookie;
            given(&file, cookie);
        }
        memory::put_bytes(room, &bytes);
        Ok(bytes.len() as isize)
    })
}

fn put(bytes: &mut Vec<u8>, length: usize, name: &[u8], cookie: u64, ino: Ino, kind: FileKind) {
    let end = bytes.len() + length;
    bytes.extend(ino.0.to_le_bytes());
    bytes.extend(cookie.to_le_bytes());
    bytes.extend((length as u16).to_le_bytes());
    // The kind as in a mode, where its bits begin at this one.
    bytes.push((pandofs_handles::format(kind) >> 12) as u8);
    bytes.extend(name);
    bytes.resize(end, 0);
}

/// The entry behind the one with this cookie.
#[allow(
    clippy::type_complexity,
    reason = "an entry's four fields, for one caller"
)]
fn next(file: &OpenFile, cookie: u64) -> Result<Option<(Vec<u8>, u64, Ino, FileKind)>, i32> {
    let session = session::get()?;
    let caller = session::caller()?;
    match cookie {
        0 => return Ok(Some((b".".to_vec(), DOT, file.ino, FileKind::Dir))),
        DOT => {
            let parent = session.client.parent(&caller, file.ino).map_err(errno)?;
            return Ok(Some((b"..".to_vec(), DOT_DOT, parent, FileKind::Dir)));
        }
        _ => {}
    }
    let mut listed = file
        .page
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if listed.at != cookie || cookie == DOT_DOT {
        *listed = Listed {
            at: cookie,
            entries: std::collections::VecDeque::new(),
            next: after(cookie),
        };
    }
    if listed.entries.is_empty() && listed.next < Position::END {
        // The right was seen when it was opened, and lasts.
        let (from, most) = (listed.next, MAX_READDIR_ENTRIES);
        let page = session
            .client
            .readdir(&Credentials::ROOT, file.ino, from, false, most)
            .map_err(errno)?;
        listed.entries = page.entries.into();
        listed.next = page.next;
    }
    let Some(entry) = listed.entries.front() else {
        return Ok(None);
    };
    let found = (
        entry.name.as_bytes().to_vec(),
        entry.position.0,
        entry.ino,
        entry.kind,
    );
    Ok(Some(found))
}

/// The position to go on from behind the entry with this cookie.
fn after(cookie: u64) -> Position {
    // Positions are hash and ordinal: the next one is one further, taken or not.
    Position(
        cookie
            .saturating_add(1)
            .clamp(Position::FIRST.0, Position::END.0),
    )
}

/// The entry with this cookie was given.
fn given(file: &OpenFile, cookie: u64) {
    let mut listed = file
        .page
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if listed
        .entries
        .front()
        .is_some_and(|entry| entry.position.0 == cookie)
    {
        listed.entries.pop_front();
        listed.at = cookie;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_as_the_kernel_writes_them() {
        let mut bytes = Vec::new();
        put(&mut bytes, 24, b"abc", 7, Ino(9), FileKind::Dir);
        assert_eq!(bytes.len(), 24);
        assert_eq!(bytes[..8], 9_u64.to_le_bytes());
        assert_eq!(bytes[8..16], 7_u64.to_le_bytes());
        assert_eq!(bytes[16..18], [24, 0]);
        assert_eq!(bytes[18], libc::DT_DIR);
        assert_eq!(&bytes[19..], b"abc\0\0");
    }

    #[test]
    fn a_listing_goes_on_behind_where_it_was() {
        assert_eq!(after(0), Position::FIRST);
        assert_eq!(after(DOT_DOT), Position::FIRST);
        assert_eq!(after(Position::FIRST.0), Position(Position::FIRST.0 + 1));
        assert_eq!(after(u64::MAX), Position::END);
    }
}
