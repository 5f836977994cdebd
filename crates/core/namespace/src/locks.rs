//! Transaction locks: what undecided distributed operations hold.
//!
//! They are derived from the transaction records, and rebuilt from
//! them after a restart: a lock outlives a crash because its operation does.
//!
//! Of several holders that are in the way the same one is told wherever the same locks are held, in whichever order they
//! were taken: who waits for whom, and who gives up, has to be what it was when the records are applied once more.

use crate::Stop;
use hashbrown::{HashMap, HashSet};
use pandofs_types::{Ino, LeaseKey, Name, Position, ShardId, TxId};
use std::collections::{BTreeMap, BTreeSet};

/// One thing that an operation holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lock {
    /// A name, whether it is there or not.
    Entry {
        /// The directory.
        dir: Ino,
        /// Of the name's hash.
        position: Position,
        /// Names that share a hash are locked one by one.
        name: Name,
    },
    /// An inode, or a directory's attributes.
    Inode(Ino),
    /// All partitions of a directory on this shard: nothing may come in or go.
    Dir(Ino),
    /// The names of a directory from one position to before another.
    Range {
        /// The directory.
        dir: Ino,
        /// The first position.
        start: Position,
        /// The first position after the range.
        end: Position,
    },
    /// The parent of a directory is about to change.
    Parent(Ino),
    /// The parent of a directory must not change.
    Ancestor(Ino),
    /// A directory that is made here: a request that names it already waits until it is there.
    Made(Ino),
    /// A line of the path log is about to tell that the directory has changed.
    Path(Ino),
}

/// The locks of one step.
pub type LockSet = Vec<Lock>;

/// All locks of a shard.
#[derive(Clone, Debug, Default)]
pub struct Locks {
    entries: HashMap<Ino, BTreeMap<(Position, Name), TxId>>,
    ranges: HashMap<Ino, Vec<(Position, Position, TxId)>>,
    dirs: HashMap<Ino, TxId>,
    inodes: HashMap<Ino, TxId>,
    parents: HashMap<Ino, TxId>,
    ancestors: HashMap<Ino, Vec<TxId>>,
    made: HashMap<Ino, TxId>,
    paths: HashMap<Ino, TxId>,
    held: HashMap<TxId, HashSet<Lock>>,
}

impl Locks {
    /// Returns whether no operation holds anything.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Fails with [`Stop::Locked`] if an operation other than `own` holds something that conflicts.
    pub fn check(&self, lock: &Lock, own: Option<TxId>) -> Result<(), Stop> {
        if self.is_empty() {
            return Ok(());
        }
        let holder = self.conflict(lock, own).or_else(|| match lock {
            Lock::Entry { dir, .. } => self.changes_rights(*dir, own),
            _ => None,
        });
        match holder {
            Some(holder) => Err(Stop::Locked(holder)),
            None => Ok(()),
        }
    }

    /// Fails with [`Stop::Locked`] if an operation is changing the rights to the directory.
    pub fn check_rights(&self, dir: Ino) -> Result<(), Stop> {
        match self.changes_rights(dir, None) {
            Some(holder) => Err(Stop::Locked(holder)),
            None => Ok(()),
        }
    }

    /// The operation that changes the rights to the directory of a name. Its client is answered before
    /// this shard hears the decision, and a request after the answer must meet the new rights. (No
    /// conflict in the other direction: rights that were checked may change afterwards.)
    fn changes_rights(&self, dir: Ino, own: Option<TxId>) -> Option<TxId> {
        let tx = self.inodes.get(&dir).filter(|tx| Some(**tx) != own)?;
        // A split only keeps the attributes as they are.
        let splits = |ranges: &Vec<(Position, Position, TxId)>| ranges.iter().any(|r| r.2 == *tx);
        (!self.ranges.get(&dir).is_some_and(splits)).then_some(*tx)
    }

    /// Operations that change what a reader of `dir` sees from `start` on and that may have been answered
    /// although they are still to be performed on this shard, which is `me`: those of other shards, whose
    /// decision is on its way, and the end of a split, after which another shard answers for the names.
    pub fn unseen(&self, dir: Ino, start: Position, me: ShardId) -> BTreeSet<TxId> {
        let mut unseen = BTreeSet::new();
        if self.is_empty() {
            return unseen;
        }
        let decided_elsewhere = |tx: &&TxId| tx.coordinator != me;
        if let Some(entries) = self.entries.get(&dir) {
            let from_start = entries.iter().filter(|((at, _), _)| *at >= start);
            unseen.extend(from_start.map(|(_, tx)| tx).filter(decided_elsewhere));
        }
        unseen.extend(self.inodes.get(&dir).filter(decided_elsewhere));
        unseen.extend(self.parents.get(&dir).filter(decided_elsewhere));
        if let Some(ranges) = self.ranges.get(&dir) {
            unseen.extend(
                ranges
                    .iter()
                    .filter(|range| range.1 > start)
                    .map(|range| range.2),
            );
        }
        unseen
    }

    /// The operations that hold anything here, in order.
    pub fn holders(&self) -> Vec<TxId> {
        let mut holders: Vec<TxId> = self.held.keys().copied().collect();
        holders.sort();
        holders
    }

    /// Whether an operation that is under way may change this when it is performed. Of a directory's part that
    /// is any that holds a name in it.
    pub fn covers(&self, key: LeaseKey) -> bool {
        if self.is_empty() {
            return false;
        }
        match key {
            LeaseKey::Entry { dir, position } => {
                let at = |entries: &BTreeMap<(Position, Name), TxId>| {
                    entries.keys().any(|(other, _)| *other == position)
                };
                let within = |ranges: &Vec<(Position, Position, TxId)>| {
                    let mut ranges = ranges.iter();
                    ranges.any(|(start, end, _)| *start <= position && position < *end)
                };
                self.dirs.contains_key(&dir)
                    || self.entries.get(&dir).is_some_and(at)
                    || self.ranges.get(&dir).is_some_and(within)
            }
            LeaseKey::Inode(ino) => {
                self.inodes.contains_key(&ino) || self.parents.contains_key(&ino)
            }
            LeaseKey::Parts(dir) => {
                self.dirs.contains_key(&dir)
                    || self.entries.contains_key(&dir)
                    || self.ranges.contains_key(&dir)
                    || self.inodes.contains_key(&dir)
            }
            LeaseKey::Grant(dir) => {
                self.covers(LeaseKey::Inode(dir)) || self.covers(LeaseKey::Parts(dir))
            }
        }
    }

    /// Whether an operation that is under way removes the directory, or brings it here.
    pub fn holds_dir(&self, dir: Ino) -> bool {
        self.dirs.contains_key(&dir)
    }

    /// Whether the operation holds anything here.
    pub fn holds(&self, tx: TxId) -> bool {
        self.held.contains_key(&tx)
    }

    fn conflict(&self, lock: &Lock, own: Option<TxId>) -> Option<TxId> {
        let others = |tx: &TxId| Some(*tx) != own;
        match lock {
            Lock::Entry {
                dir,
                position,
                name,
            } => self
                .dirs
                .get(dir)
                .filter(|tx| others(tx))
                .or_else(|| {
                    let entries = self.entries.get(dir)?;
                    entries
                        .get(&(*position, name.clone()))
                        .filter(|tx| others(tx))
                })
                .copied()
                .or_else(|| {
                    let ranges = self.ranges.get(dir)?;
                    ranges
                        .iter()
                        .filter(|(start, end, tx)| {
                            start <= position && position < end && others(tx)
                        })
                        .map(|(_, _, tx)| *tx)
                        .min()
                }),
            Lock::Inode(ino) => self.inodes.get(ino).filter(|tx| others(tx)).copied(),
            Lock::Dir(dir) => self
                .dirs
                .get(dir)
                .filter(|tx| others(tx))
                .copied()
                .or_else(|| {
                    self.entries
                        .get(dir)?
                        .values()
                        .find(|tx| others(tx))
                        .copied()
                })
                .or_else(|| {
                    self.ranges
                        .get(dir)?
                        .iter()
                        .map(|(_, _, tx)| *tx)
                        .filter(others)
                        .min()
                }),
            Lock::Range { dir, start, end } => self
                .dirs
                .get(dir)
                .filter(|tx| others(tx))
                .copied()
                .or_else(|| {
                    let entries = self.entries.get(dir)?;
                    entries
                        .iter()
                        .find(|((at, _), tx)| start <= at && at < end && others(tx))
                        .map(|(_, tx)| *tx)
                })
                .or_else(|| {
                    let ranges = self.ranges.get(dir)?;
                    ranges
                        .iter()
                        .filter(|(from, to, tx)| from < end && start < to && others(tx))
                        .map(|(_, _, tx)| *tx)
                        .min()
                }),
            Lock::Parent(ino) => self
                .parents
                .get(ino)
                .filter(|tx| others(tx))
                .copied()
                .or_else(|| {
                    let holders = self.ancestors.get(ino)?;
                    holders.iter().copied().filter(others).min()
                }),
            Lock::Ancestor(ino) => self.parents.get(ino).filter(|tx| others(tx)).copied(),
            Lock::Made(ino) => self.made.get(ino).filter(|tx| others(tx)).copied(),
            Lock::Path(ino) => self.paths.get(ino).filter(|tx| others(tx)).copied(),
        }
    }

    /// Gives `tx` all of `locks`.
    ///
    /// # Panics
    /// When one conflicts: the caller has checked.
    pub fn acquire(&mut self, tx: TxId, locks: &[Lock]) {
        for lock in locks {
            assert!(
                self.conflict(lock, Some(tx)).is_none(),
                "operation {tx} takes {lock:?}, which is locked"
            );
            if !self.held.entry(tx).or_default().insert(lock.clone()) {
                continue;
            }
            match lock.clone() {
                Lock::Entry {
                    dir,
                    position,
                    name,
                } => {
                    self.entries
                        .entry(dir)
                        .or_default()
                        .insert((position, name), tx);
                }
                Lock::Inode(ino) => {
                    self.inodes.insert(ino, tx);
                }
                Lock::Dir(dir) => {
                    self.dirs.insert(dir, tx);
                }
                Lock::Range { dir, start, end } => {
                    self.ranges.entry(dir).or_default().push((start, end, tx));
                }
                Lock::Parent(ino) => {
                    self.parents.insert(ino, tx);
                }
                Lock::Ancestor(ino) => self.ancestors.entry(ino).or_default().push(tx),
                Lock::Made(ino) => {
                    self.made.insert(ino, tx);
                }
                Lock::Path(ino) => {
                    self.paths.insert(ino, tx);
                }
            }
        }
    }

    /// Lets go of all that `tx` holds; whether that was anything.
    pub fn release(&mut self, tx: TxId) -> bool {
        let Some(locks) = self.held.remove(&tx) else {
            return false;
        };
        for lock in locks {
            match lock {
                Lock::Entry {
                    dir,
                    position,
                    name,
                } => {
                    if let Some(entries) = self.entries.get_mut(&dir) {
                        entries.remove(&(position, name));
                        if entries.is_empty() {
                            self.entries.remove(&dir);
                        }
                    }
                }
                Lock::Inode(ino) => {
                    self.inodes.remove(&ino);
                }
                Lock::Dir(dir) => {
                    self.dirs.remove(&dir);
                }
                Lock::Range { dir, .. } => {
                    if let Some(ranges) = self.ranges.get_mut(&dir) {
                        ranges.retain(|(_, _, holder)| *holder != tx);
                        if ranges.is_empty() {
                            self.ranges.remove(&dir);
                        }
                    }
                }
                Lock::Parent(ino) => {
                    self.parents.remove(&ino);
                }
                Lock::Ancestor(ino) => {
                    if let Some(holders) = self.ancestors.get_mut(&ino) {
                        holders.retain(|holder| *holder != tx);
                        if holders.is_empty() {
                            self.ancestors.remove(&ino);
                        }
                    }
                }
                Lock::Made(ino) => {
                    self.made.remove(&ino);
                }
                Lock::Path(ino) => {
                    self.paths.remove(&ino);
                }
            }
        }
        true
    }

    /// Everything `tx` holds, in order.
    pub fn held_by(&self, tx: TxId) -> LockSet {
        let mut locks: LockSet = self
            .held
            .get(&tx)
            .map(|held| held.iter().cloned().collect())
            .unwrap_or_default();
        locks.sort();
        locks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tx(sequence: u64) -> TxId {
        TxId {
            coordinator: ShardId(0),
            sequence,
        }
    }

    fn entry(hash: u64) -> Lock {
        Lock::Entry {
            dir: Ino(1),
            position: Position::from_hash(hash),
            name: Name::new(b"a").unwrap(),
        }
    }

    /// An operation that removed a directory waited, or gave up, by which of two that held names in it was found first in
    /// a hash table; applied once more, its record did something else.
    #[test]
    fn the_same_holder_is_told_however_the_locks_were_taken() {
        let range = |start, end| Lock::Range {
            dir: Ino(2),
            start: Position::from_hash(start),
            end: Position::from_hash(end),
        };
        let held: Vec<(TxId, Lock)> = (1..20)
            .flat_map(|n| {
                let ancestor = Lock::Ancestor(Ino(9));
                [entry(100 - n), range(n, n + 1), ancestor].map(|lock| (tx(n), lock))
            })
            .collect();
        let wanted = [
            Lock::Dir(Ino(1)),
            Lock::Dir(Ino(2)),
            Lock::Parent(Ino(9)),
            Lock::Range {
                dir: Ino(1),
                start: Position::from_hash(1),
                end: Position::from_hash(1_000),
            },
            range(5, 15),
        ];
        let told = |order: Vec<&(TxId, Lock)>| {
            let mut locks = Locks::default();
            for (tx, lock) in order {
                locks.acquire(*tx, std::slice::from_ref(lock));
            }
            let refusals = wanted
                .iter()
                .map(|lock| locks.check(lock, None).unwrap_err());
            refusals.map(|stop| format!("{stop:?}")).collect::<Vec<_>>()
        };
        let first = told(held.iter().collect());
        for _ in 0..10 {
            assert_eq!(told(held.iter().rev().collect()), first);
        }
    }

    #[test]
    fn what_conflicts_with_what() {
        let mut locks = Locks::default();
        locks.acquire(tx(1), &[entry(5), Lock::Ancestor(Ino(9))]);
        assert!(locks.check(&entry(5), None).is_err());
        assert!(locks.check(&entry(5), Some(tx(1))).is_ok());
        assert!(locks.check(&entry(6), None).is_ok());
        assert!(locks.check(&Lock::Dir(Ino(1)), None).is_err());
        assert!(locks.check(&Lock::Dir(Ino(2)), None).is_ok());
        let range = |start, end| Lock::Range {
            dir: Ino(1),
            start: Position::from_hash(start),
            end: Position::from_hash(end),
        };
        assert!(locks.check(&range(1, 6), None).is_err());
        assert!(locks.check(&range(1, 5), None).is_ok());
        // Two moves may hold the same ancestor; neither may move it.
        locks.acquire(tx(2), &[Lock::Ancestor(Ino(9))]);
        assert!(locks.check(&Lock::Parent(Ino(9)), Some(tx(2))).is_err());
        assert!(locks.release(tx(1)));
        assert!(locks.check(&Lock::Parent(Ino(9)), Some(tx(2))).is_ok());
        assert!(locks.check(&entry(5), None).is_ok());
        assert!(locks.release(tx(2)));
        assert!(!locks.release(tx(2)));
        assert!(locks.is_empty());
    }
}
