//! Pace of copying a directory to other shards while it is being spread slowly.
//!
//! For so long its partitions also split before they are full, where servers joined and are to get their share of it.
//!
//! Only the first copy of each entry is slowed down. Entries changed since are copied again at once: were that slower
//! than the directory is changed, the split would never end, and what it has to remember grow.

use crate::port::Ticket;
use crate::shard::Shard;
use pandofs_api::{Refusal, Reply};
use pandofs_types::limits::{MAX_SPREAD_DIRS, SPLIT_CHUNK_ENTRIES, SPREAD_TERM};
use pandofs_types::{FsError, Ino, Steady};
use std::collections::BTreeMap;

const SECOND: i64 = 1_000_000_000;

/// Nanoseconds of sending nothing that may be made up for: ticks come late.
const ARREARS: i64 = SECOND / 10;

#[derive(Debug, Default)]
pub(super) struct Paces(BTreeMap<Ino, Pace>);

#[derive(Debug)]
struct Pace {
    /// Not 0.
    entries_per_second: u32,
    /// No message has renewed it for so long that it is not kept any more.
    until: Steady,
    /// When the next entry may go.
    next: Steady,
}

impl Paces {
    /// Whether it was taken on: there may be too many.
    fn tell(&mut self, dir: Ino, entries_per_second: u32, now: Steady) -> bool {
        if entries_per_second == 0 {
            self.0.remove(&dir);
            return true;
        }
        let next = self.0.get(&dir).map_or(now, |known| known.next);
        if !self.0.contains_key(&dir) && self.0.len() >= MAX_SPREAD_DIRS {
            return false;
        }
        let pace = Pace {
            entries_per_second,
            until: now.after(SPREAD_TERM),
            next,
        };
        self.0.insert(dir, pace);
        true
    }

    pub(super) fn has(&self, dir: Ino) -> bool {
        self.0.contains_key(&dir)
    }

    /// How many entries may go in one message now; `None`: none yet. A message has no more than go in a second, so that
    /// the receiver never takes the split for one that has stopped.
    pub(super) fn chunk(&mut self, dir: Ino, now: Option<Steady>) -> Option<usize> {
        let Some(pace) = self.0.get_mut(&dir) else {
            return Some(SPLIT_CHUNK_ENTRIES);
        };
        let now = now?;
        if pace.next > now {
            return None;
        }
        pace.next = pace.next.max(Steady(now.0 - ARREARS));
        Some(SPLIT_CHUNK_ENTRIES.min(pace.entries_per_second as usize))
    }

    pub(super) fn sent(&mut self, dir: Ino, entries: usize) {
        if let Some(pace) = self.0.get_mut(&dir) {
            pace.next.0 += entries as i64 * SECOND / i64::from(pace.entries_per_second);
        }
    }

    pub(super) fn forget_before(&mut self, now: Steady) {
        self.0.retain(|_, pace| pace.until > now);
    }
}

impl Shard {
    /// [`Request::Spread`](pandofs_api::Request::Spread): the next ticks look at the partitions.
    pub(crate) fn spread(
        &mut self,
        ticket: Ticket,
        dir: Ino,
        entries_per_second: u32,
        now: Steady,
    ) {
        let spreading = &mut self.splits.spreading;
        let has_room = spreading.contains_key(&dir) || spreading.len() < MAX_SPREAD_DIRS;
        let result = match has_room && self.splits.paces.tell(dir, entries_per_second, now) {
            true => {
                spreading.insert(dir, now.after(SPREAD_TERM));
                self.splits.look_again_later(dir);
                Ok(Reply::Done)
            }
            false => Err(Refusal::Fs(FsError::Busy)),
        };
        self.answer(ticket, result, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIR: Ino = Ino::ROOT;

    fn at(milliseconds: i64) -> Option<Steady> {
        Some(Steady(milliseconds * SECOND / 1_000))
    }

    #[test]
    fn so_many_go_in_a_second() {
        let mut paces = Paces::default();
        assert!(paces.tell(DIR, 100, Steady(0)));
        assert_eq!(paces.chunk(DIR, at(0)), Some(100));
        paces.sent(DIR, 100);
        assert_eq!(paces.chunk(DIR, at(999)), None);
        // Late by no more than what may be made up for.
        assert_eq!(paces.chunk(DIR, at(1_050)), Some(100));
        paces.sent(DIR, 100);
        assert_eq!(paces.chunk(DIR, at(1_999)), None);
        assert_eq!(paces.chunk(DIR, at(9_000)), Some(100));
        paces.sent(DIR, 100);
        assert_eq!(paces.chunk(DIR, at(9_899)), None);
        assert_eq!(paces.chunk(DIR, at(9_900)), Some(100));
    }

    #[test]
    fn told_again_it_does_not_begin_anew() {
        let mut paces = Paces::default();
        assert!(paces.tell(DIR, 1, Steady(0)));
        paces.sent(DIR, 1);
        assert!(paces.tell(DIR, 1, Steady(SECOND / 2)));
        assert_eq!(paces.chunk(DIR, at(999)), None);
        assert_eq!(paces.chunk(DIR, at(1_000)), Some(1));
    }

    #[test]
    fn it_is_kept_until_it_is_lifted_or_forgotten() {
        let mut paces = Paces::default();
        assert!(paces.tell(DIR, 1, Steady(0)));
        assert_eq!(paces.chunk(DIR, None), None);
        let term = SPREAD_TERM.as_nanos() as i64;
        paces.forget_before(Steady(term - 1));
        assert!(paces.has(DIR));
        paces.forget_before(Steady(term));
        assert!(!paces.has(DIR));
        assert_eq!(paces.chunk(DIR, None), Some(SPLIT_CHUNK_ENTRIES));
        assert!(paces.tell(DIR, 1, Steady(0)) && paces.tell(DIR, 0, Steady(0)));
        assert!(!paces.has(DIR));
    }

    #[test]
    fn there_are_so_many_at_once() {
        let mut paces = Paces::default();
        for dir in 0..MAX_SPREAD_DIRS as u64 {
            assert!(paces.tell(Ino(dir), 1, Steady(0)));
        }
        assert!(!paces.tell(Ino(1 << 40), 1, Steady(0)));
        assert!(paces.tell(Ino(0), 2, Steady(0)) && paces.tell(Ino(1 << 40), 0, Steady(0)));
    }
}
