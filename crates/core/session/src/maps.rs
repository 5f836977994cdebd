//! Cache of the places of directories and inodes.
//!
//! All of it may be stale: a shard that is asked wrongly says what it knows, and that is learnt
//! here.

use crate::limits::{MAX_CACHED_INODE_SHARDS, MAX_CACHED_PARTITIONS};
use hashbrown::HashMap;
use pandofs_placement::DirMap;
use pandofs_types::limits::MAX_CACHED_DIR_MAPS;
use pandofs_types::{Ino, Position, ShardId};

/// A map of bounded size that forgets what was not used for longest, about: what is used moves to
/// the young half; when that is full it becomes the old half and the old one is forgotten.
#[derive(Debug)]
struct Generations<V> {
    young: HashMap<Ino, V>,
    old: HashMap<Ino, V>,
    /// Entries of one half.
    half: usize,
    /// The weight that the entries of one half may have; those of the young one have it, or less.
    half_weight: usize,
    weight: usize,
    weigh: fn(&V) -> usize,
}

impl<V> Generations<V> {
    fn new(capacity: usize, weight: usize, weigh: fn(&V) -> usize) -> Generations<V> {
        Generations {
            young: HashMap::new(),
            old: HashMap::new(),
            half: (capacity / 2).max(1),
            half_weight: weight / 2,
            weight: 0,
            weigh,
        }
    }

    fn get(&mut self, ino: Ino) -> Option<&mut V> {
        if !self.young.contains_key(&ino) {
            let value = self.old.remove(&ino)?;
            self.insert(ino, value);
        }
        self.young.get_mut(&ino)
    }

    fn insert(&mut self, ino: Ino, value: V) {
        let is_full = self.young.len() >= self.half || self.weight >= self.half_weight;
        if is_full && !self.young.contains_key(&ino) {
            self.old = std::mem::take(&mut self.young);
            self.weight = 0;
        }
        self.old.remove(&ino);
        self.weight += (self.weigh)(&value);
        self.young.insert(ino, value);
    }

    /// Changes a value that is there; whether it is, and what `change` says.
    fn change(&mut self, ino: Ino, change: impl FnOnce(&mut V) -> bool) -> Option<bool> {
        let weigh = self.weigh;
        let value = self.get(ino)?;
        let before = weigh(value);
        let changed = change(value);
        let grown = weigh(value).saturating_sub(before);
        self.weight += grown;
        Some(changed)
    }

    fn remove(&mut self, ino: Ino) {
        self.young.remove(&ino);
        self.old.remove(&ino);
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}

/// The maps of the directories that were split. One that is not here is taken to be at its home.
#[derive(Debug)]
pub struct DirMaps {
    maps: Generations<DirMap>,
}

impl Default for DirMaps {
    fn default() -> DirMaps {
        DirMaps::new()
    }
}

impl DirMaps {
    /// Knows no directory; the limits are the defaults.
    pub fn new() -> DirMaps {
        DirMaps::within(MAX_CACHED_DIR_MAPS, MAX_CACHED_PARTITIONS)
    }

    /// Of no more than this many directories, and with no more than this many partitions in all,
    /// about.
    pub fn within(dirs: usize, partitions: usize) -> DirMaps {
        DirMaps {
            maps: Generations::new(dirs, partitions, |map| map.slots().len()),
        }
    }

    /// The shard that holds this position of the directory, as far as is known.
    pub fn shard_of(&mut self, dir: Ino, position: Position) -> ShardId {
        match self.maps.get(dir) {
            Some(map) => map.shard_of(position),
            None => dir.birth_shard(),
        }
    }

    /// All that is known of the directory.
    pub fn map(&mut self, dir: Ino) -> DirMap {
        self.maps
            .get(dir)
            .map_or_else(|| DirMap::single(dir.birth_shard()), |map| map.clone())
    }

    /// Learns a map of the directory; true when that was anything new. A map that
    /// cannot be this directory's is ignored.
    pub fn merge(&mut self, dir: Ino, other: &DirMap) -> bool {
        if !other.has_slots() || other.home() != dir.birth_shard() {
            return false;
        }
        if let Some(is_new) = self.maps.change(dir, |map| map.merge(other)) {
            return is_new;
        }
        self.maps.insert(dir, other.clone());
        true
    }

    /// Learns what the directory's home knows; true when that was anything new. The home is right
    /// where the two cannot be reconciled.
    pub fn correct(&mut self, dir: Ino, home: &DirMap) -> bool {
        if self.merge(dir, home) {
            return true;
        }
        if !home.has_slots() || home.home() != dir.birth_shard() {
            return false;
        }
        let corrected = self.maps.change(dir, |map| {
            let is_wrong = map.contradicts(home);
            if is_wrong {
                map.clone_from(home);
            }
            is_wrong
        });
        corrected == Some(true)
    }

    /// The directory is gone.
    pub fn forget(&mut self, dir: Ino) {
        self.maps.remove(dir);
    }
}

/// The shards of inodes that are not on their birth shard.
#[derive(Debug)]
pub struct InodeShards {
    shards: Generations<ShardId>,
}

impl Default for InodeShards {
    fn default() -> InodeShards {
        InodeShards::new()
    }
}

impl InodeShards {
    /// Takes every inode to be where it was made; the limit is the default.
    pub fn new() -> InodeShards {
        InodeShards::within(MAX_CACHED_INODE_SHARDS)
    }

    /// Of no more than this many inodes, about.
    pub fn within(inodes: usize) -> InodeShards {
        InodeShards {
            shards: Generations::new(inodes, usize::MAX, |_| 0),
        }
    }

    /// The shard to ask first; it may have been told wrong.
    pub fn shard_of(&mut self, ino: Ino) -> ShardId {
        self.shards.get(ino).copied().unwrap_or(ino.birth_shard())
    }

    /// Notes where a shard said that the inode is.
    pub fn learn(&mut self, ino: Ino, shard: ShardId) {
        if shard == ino.birth_shard() {
            self.shards.remove(ino);
        } else {
            self.shards.insert(ino, shard);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIR: Ino = Ino(5);

    fn split_map(active: u32) -> DirMap {
        DirMap::with_slots(vec![ShardId(0), ShardId(1), ShardId(2), ShardId(3)], active)
    }

    #[test]
    fn what_is_used_stays_and_the_rest_is_forgotten() {
        let mut cache = Generations::new(8, usize::MAX, |_| 0);
        cache.insert(Ino(1), 'a');
        for number in 100..200 {
            cache.insert(Ino(number), 'x');
            assert_eq!(cache.get(Ino(1)), Some(&mut 'a'));
            assert!(cache.len() <= 8, "{}", cache.len());
        }
        assert!(cache.len() > 4, "a half and some of the other");
        assert_eq!(cache.get(Ino(100)), None);
        assert_eq!(cache.get(Ino(199)), Some(&mut 'x'));
        cache.remove(Ino(1));
        assert_eq!(cache.get(Ino(1)), None);
    }

    #[test]
    fn large_maps_are_forgotten_sooner() {
        let mut maps = DirMaps::within(1 << 20, 64);
        let dir = |number: u64| Ino::new(ShardId(0), number);
        let large = DirMap::with_slots(vec![ShardId(0); 16], 16);
        for number in 1..100 {
            assert!(maps.merge(dir(number), &split_map(2)));
            // It grows where it is.
            assert!(maps.correct(dir(number), &large));
            // Two of them are a half.
            let expected = match number {
                1 => 1,
                2 => 2,
                more => 4 - more % 2,
            };
            assert_eq!(maps.maps.len() as u64, expected, "{number}");
            let young = maps.maps.young.values();
            let weight: usize = young.map(|map| map.slots().len()).sum();
            assert_eq!(maps.maps.weight, weight, "{number}");
        }
        assert_eq!(maps.map(dir(99)), large);
    }

    #[test]
    fn an_entry_that_is_replaced_leaves_no_old_one_behind() {
        let mut cache = Generations::new(4, usize::MAX, |_| 0);
        cache.insert(Ino(1), 'a');
        cache.insert(Ino(2), 'b');
        cache.insert(Ino(3), 'c');
        cache.insert(Ino(1), 'd');
        assert_eq!(cache.get(Ino(1)), Some(&mut 'd'));
        cache.remove(Ino(1));
        assert_eq!(cache.get(Ino(1)), None);
    }

    #[test]
    fn an_unknown_directory_is_at_its_home() {
        let mut maps = DirMaps::new();
        let dir = Ino::new(ShardId(7), 9);
        assert_eq!(maps.shard_of(dir, Position::FIRST), ShardId(7));
        assert_eq!(maps.map(dir), DirMap::single(ShardId(7)));
        assert!(!maps.merge(dir, &DirMap::single(ShardId(7))));
    }

    #[test]
    fn maps_are_merged_and_only_grow() {
        let mut maps = DirMaps::new();
        let top = Position(1 << 62);
        assert!(maps.merge(DIR, &split_map(2)));
        assert_eq!(maps.shard_of(DIR, top), ShardId(1));
        assert!(maps.merge(DIR, &split_map(4)));
        assert_eq!(maps.shard_of(DIR, top), ShardId(1));
        assert_eq!(maps.shard_of(DIR, Position(3 << 61)), ShardId(3));
        assert!(!maps.merge(DIR, &split_map(3)));
        assert_eq!(maps.map(DIR), split_map(4));
        maps.forget(DIR);
        assert_eq!(maps.map(DIR), DirMap::single(ShardId(0)));
    }

    #[test]
    fn the_home_is_right_where_maps_contradict_one_another() {
        let mut maps = DirMaps::new();
        let other = DirMap::with_slots(vec![ShardId(0), ShardId(9)], 2);
        assert!(maps.merge(DIR, &other));
        assert!(!maps.merge(DIR, &split_map(4)));
        assert!(maps.correct(DIR, &split_map(4)));
        assert_eq!(maps.map(DIR), split_map(4));
        assert!(!maps.correct(DIR, &split_map(4)));
        let of_another_directory = DirMap::with_slots(vec![ShardId(8), ShardId(9)], 2);
        assert!(!maps.correct(DIR, &of_another_directory));
    }

    #[test]
    fn an_inode_is_on_its_birth_shard_unless_learnt() {
        let mut shards = InodeShards::new();
        let ino = Ino::new(ShardId(3), 8);
        assert_eq!(shards.shard_of(ino), ShardId(3));
        shards.learn(ino, ShardId(5));
        assert_eq!(shards.shard_of(ino), ShardId(5));
        shards.learn(ino, ShardId(3));
        assert_eq!(shards.shard_of(ino), ShardId(3));
    }

    #[test]
    fn a_full_half_is_not_exchanged_for_what_is_there_already() {
        let mut cache = Generations::new(4, usize::MAX, |_| 0);
        for (number, value) in [(1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')] {
            cache.insert(Ino(number), value);
        }
        cache.insert(Ino(4), 'e');
        let all = [1, 2, 3, 4].map(|number| cache.young.get(&Ino(number)).copied());
        assert_eq!(all, [None, None, Some('c'), Some('e')]);
        assert_eq!(cache.old.len(), 2);
    }

    #[test]
    fn many_directories_and_few_inodes_are_known_as_the_limits_say() {
        let mut maps = DirMaps::new();
        let dir = |number: u64| Ino::new(ShardId(0), number);
        for number in 1..=1_000 {
            assert!(maps.merge(dir(number), &split_map(4)));
        }
        assert_eq!(maps.maps.len(), 1_000);
        let mut shards = InodeShards::within(4);
        for number in 1..=100 {
            shards.learn(dir(number), ShardId(7));
            assert!(shards.shards.len() <= 4);
        }
        assert_eq!(shards.shard_of(dir(100)), ShardId(7));
        assert_eq!(shards.shard_of(dir(1)), ShardId(0), "it is forgotten");
    }
}
