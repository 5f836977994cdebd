//! Lists of folders in memory: which files there are, so that the disk is not asked for those that are not, and that a
//! scan finds them in order.
//!
//! A list is right from when it was read until it is forgotten: each change of a folder changes its list.

use crate::limits::LISTED_BYTES;
use crate::place::Folder;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// Lists, as many as there is room for; the one that was not looked at for longest is forgotten first.
pub(crate) struct Listings {
    room: usize,
    bytes: usize,
    /// Counts uses.
    clock: u64,
    folders: BTreeMap<Folder, Listing>,
    /// Folders by their last use.
    uses: BTreeMap<u64, Folder>,
}

struct Listing {
    /// `None`: there are more than there is room for.
    children: Option<BTreeSet<Vec<u8>>>,
    bytes: usize,
    used: u64,
}

/// Children of a folder, as far as memory tells.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer<T> {
    Known(T),
    /// The list was not read, or is forgotten.
    Unread,
    /// The list does not fit.
    TooLarge,
}

fn bytes_of(child: &[u8]) -> usize {
    LISTED_BYTES + child.len()
}

impl Listings {
    /// In so many bytes.
    pub(crate) fn of(room: usize) -> Listings {
        Listings {
            room,
            bytes: 0,
            clock: 0,
            folders: BTreeMap::new(),
            uses: BTreeMap::new(),
        }
    }

    /// Whether there is such a child.
    pub(crate) fn contains(&mut self, folder: &Folder, child: &[u8]) -> Answer<bool> {
        self.look(folder, |children| children.contains(child))
    }

    /// The first `limit` children from `from` on.
    pub(crate) fn from(
        &mut self,
        folder: &Folder,
        from: &[u8],
        limit: usize,
    ) -> Answer<Vec<Vec<u8>>> {
        self.look(folder, |children| {
            let range = (Bound::Included(from), Bound::Unbounded);
            children
                .range::<[u8], _>(range)
                .take(limit)
                .cloned()
                .collect()
        })
    }

    fn look<T>(
        &mut self,
        folder: &Folder,
        answer: impl FnOnce(&BTreeSet<Vec<u8>>) -> T,
    ) -> Answer<T> {
        let Some(listing) = self.folders.get_mut(folder) else {
            return Answer::Unread;
        };
        self.uses.remove(&listing.used);
        self.clock += 1;
        listing.used = self.clock;
        self.uses.insert(self.clock, folder.clone());
        match &listing.children {
            Some(children) => Answer::Known(answer(children)),
            None => Answer::TooLarge,
        }
    }

    /// The list was read.
    pub(crate) fn keep(&mut self, folder: &Folder, children: BTreeSet<Vec<u8>>) {
        self.forget(folder);
        let of_children: usize = children.iter().map(|child| bytes_of(child)).sum();
        let fits = 2 * LISTED_BYTES + of_children <= self.room;
        let listing = Listing {
            children: fits.then_some(children),
            bytes: 2 * LISTED_BYTES + if fits { of_children } else { 0 },
            used: self.clock + 1,
        };
        self.clock += 1;
        self.bytes += listing.bytes;
        self.uses.insert(self.clock, folder.clone());
        self.folders.insert(folder.clone(), listing);
        self.make_room();
    }

    /// There is a new child.
    pub(crate) fn insert(&mut self, folder: &Folder, child: &[u8]) {
        let Some(listing) = self.folders.get_mut(folder) else {
            return;
        };
        if let Some(children) = &mut listing.children
            && children.insert(child.to_vec())
        {
            listing.bytes += bytes_of(child);
            self.bytes += bytes_of(child);
            self.make_room();
        }
    }

    /// A child is gone.
    pub(crate) fn remove(&mut self, folder: &Folder, child: &[u8]) {
        let Some(listing) = self.folders.get_mut(folder) else {
            return;
        };
        if let Some(children) = &mut listing.children
            && children.remove(child)
        {
            listing.bytes -= bytes_of(child);
            self.bytes -= bytes_of(child);
        }
    }

    fn forget(&mut self, folder: &Folder) {
        if let Some(listing) = self.folders.remove(folder) {
            self.bytes -= listing.bytes;
            self.uses.remove(&listing.used);
        }
    }

    fn make_room(&mut self) {
        while self.bytes > self.room {
            let Some((_, folder)) = self.uses.pop_first() else {
                break;
            };
            if let Some(listing) = self.folders.remove(&folder) {
                self.bytes -= listing.bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn children(numbers: std::ops::Range<u8>) -> BTreeSet<Vec<u8>> {
        numbers.map(|number| vec![number; 36]).collect()
    }

    #[test]
    fn a_list_follows_its_folder() {
        let mut listings = Listings::of(10_000);
        let folder = Folder::Directory(1, 2);
        assert_eq!(listings.contains(&folder, &[1; 36]), Answer::Unread);
        listings.insert(&folder, &[1; 36]);
        assert_eq!(listings.contains(&folder, &[1; 36]), Answer::Unread);
        listings.keep(&folder, children(0..3));
        listings.insert(&folder, &[9; 36]);
        listings.remove(&folder, &[1; 36]);
        assert_eq!(listings.contains(&folder, &[1; 36]), Answer::Known(false));
        assert_eq!(
            listings.from(&folder, &[1], 2),
            Answer::Known(vec![vec![2; 36], vec![9; 36]])
        );
        assert_eq!(listings.bytes, 128 + 3 * 100);
    }

    #[test]
    fn what_is_not_looked_at_goes_first() {
        let mut listings = Listings::of(1_000);
        let folder = |number| Folder::Directory(1, number);
        for number in 0..3 {
            listings.keep(&folder(number), children(0..2));
        }
        assert_eq!(listings.contains(&folder(0), &[0; 36]), Answer::Known(true));
        listings.keep(&folder(3), children(0..2));
        assert_eq!(listings.contains(&folder(1), &[0; 36]), Answer::Unread);
        assert_eq!(listings.contains(&folder(0), &[0; 36]), Answer::Known(true));
        listings.keep(&folder(4), children(0..99));
        assert_eq!(listings.contains(&folder(4), &[0; 36]), Answer::TooLarge);
        assert!(listings.bytes <= 1_000);
        assert_eq!(listings.folders.len(), listings.uses.len());
    }

    #[test]
    fn one_that_grows_beyond_the_room_is_forgotten() {
        let mut listings = Listings::of(1_000);
        let folder = Folder::Directory(1, 2);
        listings.keep(&folder, children(0..8));
        listings.insert(&folder, &[9; 36]);
        assert_eq!(listings.contains(&folder, &[9; 36]), Answer::Unread);
        assert_eq!(listings.bytes, 0);
    }
}
