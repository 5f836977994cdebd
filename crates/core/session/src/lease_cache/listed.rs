//! Lease times of a page of a listing.

use super::{LeaseCache, is_same};
use crate::boottime::Boottime;
use pandofs_types::{Attr, Ino, LeaseKey, Name};

/// The ends of the leases of a listed entry; `None`: not leased, as far as is known here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListedUntil {
    /// Until when the name leads to the listed inode.
    pub name: Option<Boottime>,
    /// Until when the listed attributes are current; never of a directory.
    pub attr: Option<Boottime>,
}

/// A listed entry.
#[derive(Clone, Copy, Debug)]
pub struct Listed<'e> {
    /// Of the entry, as [`LeaseCache::entry_key`] says.
    pub key: LeaseKey,
    /// The listed name.
    pub name: &'e Name,
    /// The inode that the listing gives for it.
    pub ino: Ino,
    /// Attributes that the listing gives, if it has them.
    pub attr: Option<&'e Attr>,
}

impl LeaseCache {
    /// The ends of the leases of a listed entry's name, and of these attributes unless it is a directory.
    pub fn listed_until(&self, entry: Listed<'_>) -> ListedUntil {
        let LeaseKey::Entry { dir, position } = entry.key else {
            return ListedUntil::default();
        };
        let known = self.state.entries.get(&(dir, position));
        let known = known.filter(|known| known.name == *entry.name);
        let leads = |known: &&super::Entry| known.leads_to.is_some_and(|to| to.ino == entry.ino);
        let attr = entry.attr.and_then(|attr| {
            let inode = self.state.inodes.get(&entry.ino)?;
            let is_same = inode.reply.dir.is_none() && is_same(&inode.reply.attr, attr);
            is_same.then_some(inode.until)
        });
        ListedUntil {
            name: known.filter(leads).map(|known| known.until),
            attr,
        }
    }
}
