//! Directories that are being listed.

use crate::abi::PANDOFS_DIR_STAT;
use crate::failure::{Failure, Result};
use crate::mount::Mount;
use pandofs_client::Entry;
use pandofs_types::limits::MAX_READDIR_ENTRIES;
use pandofs_types::{Ino, Position};
use std::collections::VecDeque;
use std::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The right to read a directory, as the client library has it.
const READ: u16 = 4;

/// Target of a `pandofs_dir_t`.
#[derive(Debug)]
pub(crate) struct OpenDir {
    pub mount: Arc<Mount>,
    pub ino: Ino,
    /// For words about errors.
    pub path: Vec<u8>,
    /// Entries come with attributes.
    plus: bool,
    listing: Mutex<Listing>,
}

/// Progress of a listing.
#[derive(Debug)]
struct Listing {
    /// Asked for, and not given yet.
    page: VecDeque<Entry>,
    /// Behind the page.
    next: Position,
}

impl OpenDir {
    pub(crate) fn open(mount: Arc<Mount>, path: &[u8], flags: c_int) -> Result<OpenDir> {
        if flags & !PANDOFS_DIR_STAT != 0 {
            return Err(Failure::Invalid(
                "a flag that pandofs_opendir() does not have",
            ));
        }
        let plus = flags & PANDOFS_DIR_STAT != 0;
        // With its first page at once, where that is one request.
        let listed = mount.by_path(path, |client, caller| {
            client.list_by_path(caller, path, plus, MAX_READDIR_ENTRIES)
        })?;
        let (ino, page, next) = match listed {
            Some((ino, page)) => (ino, page.entries.into(), page.next),
            None => {
                let ino = mount.directory(path)?;
                mount.client().access(&mount.caller, ino, READ)?;
                (ino, VecDeque::new(), Position::FIRST)
            }
        };
        Ok(OpenDir {
            mount,
            ino,
            path: path.to_vec(),
            plus,
            listing: Mutex::new(Listing { page, next }),
        })
    }

    fn listing(&self) -> MutexGuard<'_, Listing> {
        self.listing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next entry, if there is one.
    pub(crate) fn next(&self) -> Result<Option<Entry>> {
        let mut listing = self.listing();
        if listing.page.is_empty() && listing.next < Position::END {
            let (client, caller) = (self.mount.client(), &self.mount.caller);
            let (from, most) = (listing.next, MAX_READDIR_ENTRIES);
            let page = client.readdir(caller, self.ino, from, self.plus, most)?;
            listing.page = page.entries.into();
            listing.next = page.next;
        }
        Ok(listing.page.pop_front())
    }

    /// Goes on behind the entry that had this offset, or from the start.
    pub(crate) fn seek(&self, offset: i64) -> Result<()> {
        let offset = u64::try_from(offset).map_err(|_| Failure::Invalid("a negative offset"))?;
        let mut listing = self.listing();
        listing.page.clear();
        listing.next = Position(offset).clamp(Position::FIRST, Position::END);
        Ok(())
    }
}
