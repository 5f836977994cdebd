//! Gathering of values that are kept in parts with the partitions of a directory.
//!
//! It says which shard to ask, so that every name is counted once although partitions split and
//! merge meanwhile.
//!
//! Each shard answers for the partitions that it has when it is asked, and with all that it knows of the
//! map. Were the answers simply added up, names that move from one shard to another in between would be
//! counted twice, or not at all: a partition is asked and does not have them yet, they come, and the shard
//! they come from is asked when it has them no more. So an answer counts only for as long as all that was
//! learnt since says that the shard still has the same partitions, of the same depths.

use crate::{DirMap, PartitionIndex};
use pandofs_types::{Position, ShardId};
use std::collections::BTreeMap;

/// Times that the shards of a directory are asked for its attributes, while it splits and merges.
const MAX_GATHER_ROUNDS: u32 = 8;

/// Values gathered of one directory.
#[derive(Clone, Debug)]
pub struct Gather<T> {
    map: DirMap,
    parts: BTreeMap<ShardId, (DirMap, T)>,
    rounds: u32,
}

impl<T> Gather<T> {
    /// `map` is what is known of the directory; more is learnt from the answers.
    pub fn new(map: DirMap) -> Gather<T> {
        Gather {
            map,
            parts: BTreeMap::new(),
            rounds: 0,
        }
    }

    /// The shards to ask now, the home first; none once all is there. A directory that changes faster than
    /// it can be asked is not asked more than `MAX_GATHER_ROUNDS` times: then what is there has to do.
    pub fn ask(&mut self) -> Vec<ShardId> {
        let map = &self.map;
        self.parts.retain(|&shard, _| !share(map, shard).is_empty());
        let counts = |shard: &ShardId| {
            let known = self.parts.get(shard);
            known.is_some_and(|(then, _)| share(then, *shard) == share(map, *shard))
        };
        let mut shards = map.shards();
        shards.retain(|shard| !counts(shard));
        if !shards.is_empty() {
            self.rounds += 1;
        }
        if self.rounds > MAX_GATHER_ROUNDS {
            return Vec::new();
        }
        shards
    }

    /// A shard's part, and all that it knows of the directory.
    pub fn answer(&mut self, shard: ShardId, map: DirMap, part: T) {
        self.map.merge(&map);
        self.parts.insert(shard, (map, part));
    }

    /// The shard has no part of the directory.
    pub fn nothing(&mut self, shard: ShardId, map: Option<&DirMap>) {
        if let Some(map) = map {
            self.map.merge(map);
        }
        self.parts.remove(&shard);
        if !share(&self.map, shard).is_empty() {
            // Its partitions were merged; the home has heard of it, and no shard that was asked had: the
            // home says where they are now.
            self.parts.clear();
        }
    }

    /// All that is known of the directory, and each shard's part.
    pub fn finish(self) -> (DirMap, Vec<(ShardId, T)>) {
        let parts = self.parts.into_iter();
        (
            self.map,
            parts.map(|(shard, (_, part))| (shard, part)).collect(),
        )
    }
}

/// The partitions of a shard, and where they end.
fn share(map: &DirMap, shard: ShardId) -> Vec<(PartitionIndex, Position)> {
    map.active()
        .filter(|&index| map.shard_of_partition(index) == shard)
        .map(|index| (index, map.range_of(index).1))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOTS: [ShardId; 4] = [ShardId(0), ShardId(1), ShardId(2), ShardId(3)];

    fn map(partitions: u32) -> DirMap {
        DirMap::with_slots(SLOTS.to_vec(), partitions)
    }

    fn merged() -> DirMap {
        let mut map = map(2);
        map.deactivate(PartitionIndex(1));
        map
    }

    #[test]
    fn each_shard_is_asked_once_while_nothing_changes() {
        let mut gather = Gather::new(map(3));
        assert_eq!(gather.ask(), SLOTS[..3]);
        for shard in 0..3 {
            gather.answer(ShardId(shard), map(3), shard);
        }
        assert_eq!(gather.ask(), []);
        let parts = (0..3).map(|shard| (ShardId(shard), shard)).collect();
        assert_eq!(gather.finish(), (map(3), parts));
    }

    #[test]
    fn who_has_split_since_is_asked_again() {
        let mut gather = Gather::new(DirMap::single(ShardId(0)));
        assert_eq!(gather.ask(), [ShardId(0)]);
        gather.answer(ShardId(0), map(2), "0 of 2");
        assert_eq!(gather.ask(), [ShardId(1)]);
        // 0 has split off 2 and 1 has heard of it.
        gather.answer(ShardId(1), map(3), "1 of 3");
        assert_eq!(gather.ask(), [ShardId(0), ShardId(2)]);
        gather.answer(ShardId(0), map(3), "0 of 3");
        gather.answer(ShardId(2), map(3), "2 of 3");
        assert_eq!(gather.ask(), []);
        let texts: Vec<_> = gather.finish().1.into_iter().map(|part| part.1).collect();
        assert_eq!(texts, ["0 of 3", "1 of 3", "2 of 3"]);
    }

    #[test]
    fn what_was_merged_counts_where_it_is() {
        // Asked before it goes, and the other one before it comes: the second is asked again, the first
        // counts no more.
        let mut gather = Gather::new(map(2));
        gather.answer(ShardId(0), map(2), "0 without 1");
        gather.answer(ShardId(1), merged(), "empty");
        assert_eq!(gather.ask(), [ShardId(0)]);
        gather.answer(ShardId(0), merged(), "0 with 1");
        assert_eq!(gather.ask(), []);
        assert_eq!(gather.finish().1, [(ShardId(0), "0 with 1")]);
        // The other way round.
        let mut gather = Gather::new(map(2));
        gather.answer(ShardId(1), map(2), "1");
        gather.answer(ShardId(0), merged(), "0 with 1");
        assert_eq!(gather.ask(), []);
        assert_eq!(gather.finish().1, [(ShardId(0), "0 with 1")]);
    }

    #[test]
    fn the_home_says_where_it_is_when_it_is_forgotten() {
        let mut gather = Gather::new(map(2));
        gather.answer(ShardId(0), map(2), "0 without 1");
        gather.nothing(ShardId(1), None);
        assert_eq!(gather.ask(), [ShardId(0), ShardId(1)]);
        gather.answer(ShardId(0), merged(), "0 with 1");
        gather.nothing(ShardId(1), None);
        assert_eq!(gather.ask(), []);
        assert_eq!(gather.finish().1, [(ShardId(0), "0 with 1")]);
    }

    #[test]
    fn it_ends_also_when_nobody_has_anything() {
        let mut gather: Gather<()> = Gather::new(map(2));
        let mut rounds = 0;
        loop {
            let shards = gather.ask();
            if shards.is_empty() {
                break;
            }
            rounds += 1;
            for shard in shards {
                gather.nothing(shard, None);
            }
        }
        assert_eq!(rounds, MAX_GATHER_ROUNDS);
    }
}
