//! Cache of the places of directories and inodes, shared by the client's threads.

use crate::core::Core;
use pandofs_placement::DirMap;
use pandofs_session::KnownPlaces;
use pandofs_types::{Ino, Position, ShardId};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks over which the inodes are spread, so that threads rarely meet.
const STRIPES: usize = 16;

/// One of these behind each of several locks.
#[derive(Debug)]
struct Striped<T> {
    stripes: Vec<Mutex<T>>,
}

impl<T> Striped<T> {
    fn new(make: impl Fn() -> T) -> Striped<T> {
        Striped {
            stripes: (0..STRIPES).map(|_| Mutex::new(make())).collect(),
        }
    }

    fn lock(&self, ino: Ino) -> MutexGuard<'_, T> {
        // Nothing panics halfway through a change of these maps.
        self.stripes[stripe_of(ino)]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn stripe_of(ino: Ino) -> usize {
    // Numbers of one shard follow one another.
    (ino.serial() as usize).wrapping_add(usize::from(ino.birth_shard().0)) % STRIPES
}

/// The maps of the directories that were split.
#[derive(Debug)]
pub(crate) struct DirMaps {
    maps: Striped<pandofs_session::DirMaps>,
}

impl DirMaps {
    /// Of no more than this many directories, and with no more than this many partitions in all,
    /// about.
    pub(crate) fn within(dirs: usize, partitions: usize) -> DirMaps {
        let stripe = || pandofs_session::DirMaps::within(dirs / STRIPES, partitions / STRIPES);
        DirMaps {
            maps: Striped::new(stripe),
        }
    }

    /// As [`pandofs_session::DirMaps::shard_of`].
    pub(crate) fn shard_of(&self, dir: Ino, position: Position) -> ShardId {
        self.maps.lock(dir).shard_of(dir, position)
    }

    /// As [`pandofs_session::DirMaps::map`].
    pub(crate) fn map(&self, dir: Ino) -> DirMap {
        self.maps.lock(dir).map(dir)
    }

    /// As [`pandofs_session::DirMaps::merge`].
    pub(crate) fn merge(&self, dir: Ino, other: &DirMap) -> bool {
        self.maps.lock(dir).merge(dir, other)
    }

    /// As [`pandofs_session::DirMaps::correct`].
    pub(crate) fn correct(&self, dir: Ino, home: &DirMap) -> bool {
        self.maps.lock(dir).correct(dir, home)
    }

    /// The directory is gone.
    pub(crate) fn forget(&self, dir: Ino) {
        self.maps.lock(dir).forget(dir);
    }
}

/// The shards of inodes that are not on their birth shard.
#[derive(Debug)]
pub(crate) struct InodeShards {
    shards: Striped<pandofs_session::InodeShards>,
}

impl InodeShards {
    /// Of no more than this many inodes, about.
    pub(crate) fn within(inodes: usize) -> InodeShards {
        InodeShards {
            shards: Striped::new(|| pandofs_session::InodeShards::within(inodes / STRIPES)),
        }
    }

    pub(crate) fn shard_of(&self, ino: Ino) -> ShardId {
        self.shards.lock(ino).shard_of(ino)
    }

    pub(crate) fn learn(&self, ino: Ino, shard: ShardId) {
        self.shards.lock(ino).learn(ino, shard);
    }
}

impl KnownPlaces for Core {
    fn shard_of(&self, dir: Ino, position: Position) -> ShardId {
        self.maps.shard_of(dir, position)
    }

    fn inode_shard(&self, ino: Ino) -> ShardId {
        self.inodes.shard_of(ino)
    }

    fn merge(&self, dir: Ino, map: &DirMap) -> bool {
        self.maps.merge(dir, map)
    }

    fn correct(&self, dir: Ino, home: &DirMap) -> bool {
        self.maps.correct(dir, home)
    }

    fn moved(&self, ino: Ino, shard: ShardId) {
        self.learn_shard(ino, shard);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that one shard gives one after the other are of different locks.
    #[test]
    fn all_locks_are_used() {
        let mut used: Vec<usize> = (1..=STRIPES as u64)
            .map(|serial| stripe_of(Ino::new(ShardId(3), serial)))
            .collect();
        used.sort_unstable();
        assert_eq!(used, (0..STRIPES).collect::<Vec<_>>());
    }
}
