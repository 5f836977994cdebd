//! Listing directories: cookies, pages, and the end.
//!
//! A cookie is the position of an entry in its directory's one stable order, which no split changes
//! ([`Position`]), so a listing goes on where it was whatever happened meanwhile, and nothing has
//! to be kept for an open directory. `.` and `..` have the cookies 1 and 2, below every position.
//!
//! `opendir` could therefore be answered with "not implemented", which the kernel takes for "then
//! do without" and never asks again. It also takes it for leave to keep listings and to answer from
//! what it kept for as long as the directory's `mtime` stays the same (`FOPEN_CACHE_DIR`, Linux
//! `fs/fuse/readdir.c`). Here that would not be right: an `mtime` is gathered from several shards
//! as the latest of theirs, by several clocks, and a shard whose clock is behind changes its part
//! without changing it. So directories are opened, which costs a message within this machine; the
//! handle is used to save one to a server ([`Ends`]).

use pandofs_types::Position;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Cookie of `.`.
pub(crate) const DOT: u64 = 1;
/// Cookie of `..`.
pub(crate) const DOT_DOT: u64 = 2;

const _: () = assert!(DOT_DOT < Position::FIRST.0);

/// The position to go on from after the entry with this cookie, or at the start after 0, `.` and
/// `..`.
pub(crate) fn after(cookie: u64) -> Position {
    // Positions are hash and ordinal: the next one is one further, taken or not.
    Position(
        cookie
            .saturating_add(1)
            .clamp(Position::FIRST.0, Position::END.0),
    )
}

/// Remembers for open directories after which entry their listing ended, so that the kernel's last
/// question, which it only asks to learn that there is no more, needs no server. A name made after
/// that entry meanwhile is not seen, as POSIX allows of names made after `opendir`; but once it
/// knows, it is forgotten, so that a program that reads on later does see it.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    handles: AtomicU64,
    after: Mutex<HashMap<u64, u64>>,
}

impl Ends {
    /// A handle for a directory being opened.
    pub(crate) fn open(&self) -> u64 {
        self.handles.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn close(&self, handle: u64) {
        self.lock().remove(&handle);
    }

    /// There was nothing after the entry with this cookie.
    pub(crate) fn reached(&self, handle: u64, cookie: u64) {
        self.lock().insert(handle, cookie);
    }

    /// Returns whether there is nothing after this cookie; true once at most.
    pub(crate) fn take(&self, handle: u64, cookie: u64) -> bool {
        self.lock().remove(&handle) == Some(cookie)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, u64>> {
        self.after.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_starts_before_every_name() {
        for cookie in [0, DOT, DOT_DOT, Position::FIRST.0 - 1] {
            assert_eq!(after(cookie), Position::FIRST);
        }
    }

    #[test]
    fn a_listing_goes_on_behind_the_entry_it_was_at() {
        let first = Position::from_hash(1);
        assert_eq!(after(first.0), first.with_ordinal(1));
        assert_eq!(after(first.with_ordinal(127).0), Position::from_hash(2));
    }

    #[test]
    fn behind_the_last_possible_entry_is_the_end() {
        assert_eq!(after(Position::END.0 - 1), Position::END);
        assert_eq!(after(u64::MAX), Position::END);
    }

    #[test]
    fn an_end_is_told_once_and_only_where_it_was() {
        let ends = Ends::default();
        let (one, two) = (ends.open(), ends.open());
        assert_ne!(one, two);
        ends.reached(one, 500);
        assert!(!ends.take(two, 500));
        assert!(ends.take(one, 500));
        assert!(!ends.take(one, 500));
        ends.reached(one, 500);
        assert!(
            !ends.take(one, 400),
            "somebody went back: servers are asked again"
        );
        assert!(!ends.take(one, 500));
        ends.reached(two, 1);
        ends.close(two);
        assert!(!ends.take(two, 1));
    }
}
