//! Leases that are recalled.

use super::{Beliefs, State};
use pandofs_types::LeaseKey;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

impl Beliefs {
    /// These are believed no longer. Those of them that this session is changing just now are given back.
    ///
    /// Before that it waits until the writes have ended that began under these leases; no more begin under those that
    /// there are already. Not for ever: after `patience` a write that takes longer is reported as one that had no lease.
    ///
    /// All keys are looked at again each time, and in the end without letting go of what is believed. (A recall has X,
    /// which is written to slowly, and Y, which is not written to. It waits for X; a first write to Y begins meanwhile
    /// under what is believed of Y; X is written; the recall is answered with Y's write under way, which comes after the
    /// cut and is reported as older than it.)
    pub fn recall(
        &self,
        keys: &[LeaseKey],
        now: impl Fn() -> Instant,
        patience: Duration,
    ) -> Vec<LeaseKey> {
        self.recalled
            .fetch_add(keys.len() as u64, Ordering::Relaxed);
        let is_written = |state: &mut State| {
            let wanted = keys.iter().map(|&key| match key {
                LeaseKey::Inode(ino) => state.want_grip(ino),
                _ => false,
            });
            // Each of them is to know that it is wanted.
            wanted.fold(false, |any, written| any | written)
        };
        let (mut state, _) = self
            .written
            .wait_timeout_while(self.state(), patience, is_written)
            .unwrap_or_else(PoisonError::into_inner);
        let (event, now) = (self.event(), now());
        for &key in keys {
            state.forget(key);
            state.recalled.insert(key, event);
            state.note(key, event);
            if let LeaseKey::Inode(ino) | LeaseKey::Parts(ino) = key {
                state.dirs.remove(&ino);
            }
            if let LeaseKey::Inode(ino) = key {
                state.recall_grip(ino, now);
            }
        }
        let own = keys.iter().filter(|key| state.changing.contains_key(*key));
        own.copied().collect()
    }
}
