//! Lease times of a page of a listing, read under one lock.

use super::{LeaseCache, is_same};
use crate::Entry;
use crate::boottime::Boottime;
use pandofs_types::LeaseKey;

/// The ends of the leases of a listed entry; `None`: not leased, as far as is known here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListedUntil {
    pub name: Option<Boottime>,
    pub attr: Option<Boottime>,
}

impl LeaseCache {
    /// The ends of the leases of names, and of these attributes of all but directories, of
    /// each entry of a listing; a key for each.
    pub fn listed_until(&self, keys: &[LeaseKey], entries: &[Entry]) -> Vec<ListedUntil> {
        let state = self.state();
        let until = |(key, entry): (&LeaseKey, &Entry)| {
            let LeaseKey::Entry { dir, position } = *key else {
                return ListedUntil::default();
            };
            let known = state.entries.get(&(dir, position));
            let known = known.filter(|known| known.name == entry.name);
            let leads =
                |known: &&super::Entry| known.leads_to.is_some_and(|to| to.ino == entry.ino);
            let attr = entry.attr.as_ref().and_then(|attr| {
                let inode = state.inodes.get(&entry.ino)?;
                let is_same = inode.reply.dir.is_none() && is_same(&inode.reply.attr, attr);
                is_same.then_some(inode.until)
            });
            ListedUntil {
                name: known.filter(leads).map(|known| known.until),
                attr,
            }
        };
        keys.iter().zip(entries).map(until).collect()
    }
}
