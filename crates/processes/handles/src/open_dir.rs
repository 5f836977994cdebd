//! Directories that are being listed.

use crate::failure::{Failure, Result};
use crate::mount::{Mount, READ};
use pandofs_client::Entry;
use pandofs_types::limits::MAX_READDIR_ENTRIES;
use pandofs_types::{Ino, Position};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A listing, of C what a `pandofs_dir_t` leads to.
#[derive(Debug)]
pub struct OpenDir {
    /// Whose caller asks.
    pub mount: Arc<Mount>,
    /// The directory's inode.
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
    /// Opens a directory, as opendir(3); with `plus` entries come with attributes.
    ///
    /// # Errors
    /// As opendir(3).
    pub fn open(mount: Arc<Mount>, path: &[u8], plus: bool) -> Result<OpenDir> {
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
    ///
    /// # Errors
    /// Those of [`pandofs_client::Client::readdir`].
    pub fn next(&self) -> Result<Option<Entry>> {
        let mut listing = self.listing();
        self.fill(&mut listing)?;
        Ok(listing.page.pop_front())
    }

    /// The next entries, as many as servers give at once; none at the end.
    ///
    /// # Errors
    /// As [`OpenDir::next`].
    pub fn next_page(&self) -> Result<VecDeque<Entry>> {
        let mut listing = self.listing();
        self.fill(&mut listing)?;
        Ok(std::mem::take(&mut listing.page))
    }

    /// Asks for more entries if none are left.
    fn fill(&self, listing: &mut Listing) -> Result<()> {
        if listing.page.is_empty() && listing.next < Position::END {
            let (client, caller) = (self.mount.client(), &self.mount.caller);
            let (from, most) = (listing.next, MAX_READDIR_ENTRIES);
            let page = client.readdir(caller, self.ino, from, self.plus, most)?;
            listing.page = page.entries.into();
            listing.next = page.next;
        }
        Ok(())
    }

    /// Goes on behind the entry that had this offset, or from the start.
    ///
    /// # Errors
    /// `Invalid` for a negative offset.
    pub fn seek(&self, offset: i64) -> Result<()> {
        let offset = u64::try_from(offset).map_err(|_| Failure::Invalid("a negative offset"))?;
        let mut listing = self.listing();
        listing.page.clear();
        listing.next = Position(offset).clamp(Position::FIRST, Position::END);
        Ok(())
    }
}
