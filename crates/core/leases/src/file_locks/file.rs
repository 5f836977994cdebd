//! The locks of one file.

use pandofs_types::{FileLock, LockKind, LockMode, LockRange, SessionId};
use std::collections::BTreeMap;

/// Owner of a lock: its number is unique within a session only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    /// The session that locked.
    pub session: SessionId,
    /// Chosen by the session, as in [`FileLock`].
    pub number: u64,
}

/// A range that one owner has locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    range: LockRange,
    mode: LockMode,
    pid: u32,
}

/// Locked ranges. Of one kind and owner they are in order, do not overlap, and where they touch they differ
/// in mode.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileLocks {
    pieces: BTreeMap<(LockKind, Owner), Vec<Piece>>,
    count: usize,
}

impl FileLocks {
    /// Locked ranges, of all owners.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns whether nobody has a lock of either kind.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// A lock of somebody else that keeps `owner` from having `lock`: of several the one that begins
    /// first.
    pub fn conflict(&self, owner: Owner, lock: &FileLock) -> Option<(Owner, FileLock)> {
        let first = |(other, pieces): (Owner, &Vec<Piece>)| {
            let found =
                overlapping(pieces, lock.range).find(|piece| conflicts(piece.mode, lock.mode))?;
            Some((other, to_lock(lock.kind, other, found)))
        };
        self.others(owner, lock.kind)
            .filter_map(first)
            .min_by_key(|(other, found)| (found.range.first, *other))
    }

    /// Everybody who keeps `owner` from having `lock`.
    pub fn blockers(&self, owner: Owner, lock: &FileLock) -> impl Iterator<Item = Owner> {
        self.others(owner, lock.kind).filter_map(|(other, pieces)| {
            overlapping(pieces, lock.range)
                .any(|piece| conflicts(piece.mode, lock.mode))
                .then_some(other)
        })
    }

    /// Whether the owner has a lock of this kind.
    pub fn has(&self, kind: LockKind, owner: Owner) -> bool {
        self.pieces.contains_key(&(kind, owner))
    }

    fn others(&self, owner: Owner, kind: LockKind) -> impl Iterator<Item = (Owner, &Vec<Piece>)> {
        self.pieces
            .iter()
            .filter(move |((of_kind, other), _)| *of_kind == kind && *other != owner)
            .map(|((_, other), pieces)| (*other, pieces))
    }

    /// Gives `owner` the lock, in place of what it had locked of the range.
    ///
    /// # Panics
    /// When somebody else's lock is in the way.
    pub fn set(&mut self, owner: Owner, lock: &FileLock) {
        assert!(
            self.conflict(owner, lock).is_none(),
            "a lock was given that is somebody else's"
        );
        self.note(owner, lock);
    }

    /// As [`FileLocks::set`], believing the shard that gave it: for a client, which hears of locks later
    /// than they are given, and not in that order.
    pub fn note(&mut self, owner: Owner, lock: &FileLock) {
        self.cut(owner, lock.kind, lock.range);
        let pieces = self.pieces.entry((lock.kind, owner)).or_default();
        let at = pieces.partition_point(|piece| piece.range.first < lock.range.first);
        let mut new = Piece {
            range: lock.range,
            mode: lock.mode,
            pid: lock.pid,
        };
        let (mut from, mut to) = (at, at);
        if at > 0
            && let Some(before) = pieces.get(at - 1)
            && before.mode == new.mode
            && before.range.last.checked_add(1) == Some(new.range.first)
        {
            new.range.first = before.range.first;
            from -= 1;
        }
        if let Some(after) = pieces.get(at)
            && after.mode == new.mode
            && new.range.last.checked_add(1) == Some(after.range.first)
        {
            new.range.last = after.range.last;
            to += 1;
        }
        pieces.splice(from..to, [new]);
        self.count = self.count + 1 - (to - from);
    }

    /// Takes what `owner` has locked of the range; answers whether that was anything.
    pub fn clear(&mut self, owner: Owner, kind: LockKind, range: LockRange) -> bool {
        let cut = self.cut(owner, kind, range);
        if self.pieces.get(&(kind, owner)).is_some_and(Vec::is_empty) {
            self.pieces.remove(&(kind, owner));
        }
        cut
    }

    /// The lock of which [`FileLocks::clear`] would take the middle out, so that there would be two.
    pub fn split_by(&self, owner: Owner, kind: LockKind, range: LockRange) -> Option<FileLock> {
        let mut pieces = self.pieces.get(&(kind, owner))?.iter();
        let found = pieces
            .find(|piece| piece.range.first < range.first && range.last < piece.range.last)?;
        Some(to_lock(kind, owner, found))
    }

    /// As [`FileLocks::clear`], but may leave an owner without pieces.
    fn cut(&mut self, owner: Owner, kind: LockKind, range: LockRange) -> bool {
        let Some(pieces) = self.pieces.get_mut(&(kind, owner)) else {
            return false;
        };
        let from = pieces.partition_point(|piece| piece.range.last < range.first);
        let to = pieces.partition_point(|piece| piece.range.first <= range.last);
        if from >= to {
            return false;
        }
        let (first, last) = (pieces[from], pieces[to - 1]);
        let mut left = Vec::with_capacity(2);
        if first.range.first < range.first {
            left.push(Piece {
                range: LockRange {
                    first: first.range.first,
                    last: range.first - 1,
                },
                ..first
            });
        }
        if last.range.last > range.last {
            left.push(Piece {
                range: LockRange {
                    first: range.last + 1,
                    last: last.range.last,
                },
                ..last
            });
        }
        self.count = self.count + left.len() - (to - from);
        pieces.splice(from..to, left);
        true
    }

    /// Takes all that the session has locked; answers whether that was anything.
    pub fn drop_session(&mut self, session: SessionId) -> bool {
        let mut dropped = 0;
        self.pieces.retain(|(_, owner), pieces| {
            let goes = owner.session == session;
            dropped += if goes { pieces.len() } else { 0 };
            !goes
        });
        self.count -= dropped;
        dropped > 0
    }

    /// Whether the owner has all of the range, in this mode or one that is stronger.
    pub fn holds(&self, owner: Owner, lock: &FileLock) -> bool {
        let Some(pieces) = self.pieces.get(&(lock.kind, owner)) else {
            return false;
        };
        let mut wanted = lock.range.first;
        for piece in overlapping(pieces, lock.range) {
            if piece.range.first > wanted || piece.mode < lock.mode {
                return false;
            }
            if piece.range.last >= lock.range.last {
                return true;
            }
            wanted = piece.range.last + 1;
        }
        false
    }

    /// All locks, in a fixed order.
    pub fn iter(&self) -> impl Iterator<Item = (Owner, FileLock)> {
        self.pieces.iter().flat_map(|((kind, owner), pieces)| {
            pieces
                .iter()
                .map(|piece| (*owner, to_lock(*kind, *owner, piece)))
        })
    }
}

fn overlapping(pieces: &[Piece], range: LockRange) -> impl Iterator<Item = &Piece> {
    let from = pieces.partition_point(|piece| piece.range.last < range.first);
    pieces[from..]
        .iter()
        .take_while(move |piece| piece.range.first <= range.last)
}

fn conflicts(one: LockMode, other: LockMode) -> bool {
    one == LockMode::Exclusive || other == LockMode::Exclusive
}

fn to_lock(kind: LockKind, owner: Owner, piece: &Piece) -> FileLock {
    FileLock {
        kind,
        owner: owner.number,
        pid: piece.pid,
        mode: piece.mode,
        range: piece.range,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(number: u64) -> Owner {
        Owner {
            session: SessionId(1),
            number,
        }
    }

    fn record(mode: LockMode, first: u64, last: u64) -> FileLock {
        FileLock {
            kind: LockKind::Record,
            owner: 0,
            pid: 7,
            mode,
            range: LockRange { first, last },
        }
    }

    fn ranges(locks: &FileLocks) -> Vec<(u64, u64)> {
        let ends = |(_, lock): (Owner, FileLock)| (lock.range.first, lock.range.last);
        locks.iter().map(ends).collect()
    }

    #[test]
    fn touching_ranges_of_one_mode_become_one_and_an_unlock_splits() {
        use LockMode::{Exclusive, Shared};
        let mut locks = FileLocks::default();
        locks.set(owner(1), &record(Shared, 0, 9));
        locks.set(owner(1), &record(Shared, 20, 29));
        locks.set(owner(1), &record(Shared, 10, 19));
        assert_eq!((ranges(&locks), locks.count()), (vec![(0, 29)], 1));
        locks.set(owner(1), &record(Exclusive, 10, 19));
        assert_eq!(ranges(&locks), [(0, 9), (10, 19), (20, 29)]);
        assert!(locks.clear(owner(1), LockKind::Record, LockRange { first: 5, last: 24 }));
        assert_eq!((ranges(&locks), locks.count()), (vec![(0, 4), (25, 29)], 2));
        assert!(!locks.clear(owner(1), LockKind::Record, LockRange { first: 5, last: 24 }));
        assert!(locks.drop_session(SessionId(1)));
        assert!(locks.is_empty());
    }

    #[test]
    fn the_last_byte_can_be_locked() {
        let mut locks = FileLocks::default();
        let end = LockRange::MAX;
        locks.set(owner(1), &record(LockMode::Shared, end, end));
        locks.set(owner(1), &record(LockMode::Shared, 0, end - 1));
        assert_eq!(ranges(&locks), [(0, end)]);
        assert!(locks.holds(owner(1), &record(LockMode::Shared, 5, end)));
        assert!(!locks.holds(owner(1), &record(LockMode::Exclusive, 5, end)));
    }

    #[test]
    fn kinds_do_not_conflict() {
        let mut locks = FileLocks::default();
        let whole = FileLock {
            kind: LockKind::Flock,
            ..record(LockMode::Exclusive, 0, LockRange::MAX)
        };
        locks.set(owner(1), &whole);
        let also = record(LockMode::Exclusive, 3, 4);
        assert_eq!(locks.conflict(owner(2), &also), None);
        assert_eq!(
            locks.conflict(owner(2), &whole).map(|(other, _)| other),
            Some(owner(1))
        );
    }
}
