//! Recalls of leases.

use super::LeaseCache;
use pandofs_types::LeaseKey;

impl LeaseCache {
    /// Drops these. Returns those of them that this session is changing just now.
    ///
    /// `None`, and nothing is let go of, while writes are under way that began under these leases,
    /// if it `waits` for them: then it is to be called again. No more of them begin under leases
    /// that there are already.
    ///
    /// All keys are looked at again each time, and in the end without dropping what is cached. (A
    /// recall has X, which is written to slowly, and Y, which is not written to. It waits for X; a
    /// first write to Y begins meanwhile under what is cached of Y, and is answered; X is written;
    /// the recall is answered with Y's write under way, which comes after the truncation.)
    pub fn recall(&mut self, keys: &[LeaseKey], waits: bool) -> Option<Vec<LeaseKey>> {
        let state = &mut self.state;
        let wanted = keys.iter().map(|&key| match key {
            LeaseKey::Inode(ino) => state.want_write_lease(ino),
            _ => false,
        });
        // Each of them is to know that it is wanted.
        let is_written = wanted.fold(false, |any, written| any | written);
        if is_written && waits {
            return None;
        }
        self.recalled += keys.len() as u64;
        let event = self.event();
        let state = &mut self.state;
        for &key in keys {
            state.forget(key);
            state.recalled.insert(key, event);
            state.note(key, event);
            if let LeaseKey::Inode(ino) | LeaseKey::Parts(ino) = key {
                state.dirs.remove(&ino);
            }
            if let LeaseKey::Inode(ino) = key {
                state.recall_write_lease(ino);
            }
        }
        let own = keys.iter().filter(|key| state.changing.contains_key(*key));
        Some(own.copied().collect())
    }
}
