//! Clients with stale maps, on their way to a name's owner.
//!
//! GIGA+ goes by what each wrong shard knows, OrangeFS asks the home, to which every split was
//! reported.

use pandofs_placement::{DirMap, PartitionIndex};
use pandofs_types::limits::MAX_PARTITION_DEPTH;
use pandofs_types::{Position, ShardId};
use proptest::prelude::*;
use std::collections::HashMap;

/// A directory in which every shard knows only what went through it.
struct Directory {
    /// The true map; no one has it.
    truth: DirMap,
    /// Map of each shard: the history of the partitions it has.
    known: HashMap<ShardId, DirMap>,
}

impl Directory {
    fn new(slots: Vec<ShardId>) -> Directory {
        let truth = DirMap::with_slots(slots, 1);
        let known = HashMap::from([(truth.home(), truth.clone())]);
        Directory { truth, known }
    }

    /// The shard of a partition splits it without asking anyone; the shard of the new partition is
    /// handed the map with the entries, and the home gets a report when `tell_home`.
    fn split(&mut self, choice: u16, tell_home: bool) {
        let active: Vec<PartitionIndex> = self.truth.active().collect();
        let index = active[usize::from(choice) % active.len()];
        let shard = self.truth.shard_of_partition(index);
        let map = self
            .known
            .get_mut(&shard)
            .expect("the shard of an active partition has a map");
        // Its own knowledge of its own partition is exact, so what it decides is right.
        assert_eq!(map.depth_of(index), self.truth.depth_of(index));
        let Some(child) = map.split_child(index, u32::MAX) else {
            return;
        };
        map.activate(child);
        let handed_over = map.clone();
        self.truth.activate(child);
        self.learn(self.truth.shard_of_partition(child), &handed_over);
        if tell_home {
            self.learn(self.truth.home(), &handed_over);
        }
    }

    fn learn(&mut self, shard: ShardId, map: &DirMap) {
        self.known
            .entry(shard)
            .or_insert_with(|| map.clone())
            .merge(map);
    }

    /// Asks `shard` for the name at `position`: `None` when it owns it, else all that it knows.
    fn probe(&self, shard: ShardId, position: Position) -> Option<&DirMap> {
        let known = &self.known[&shard];
        let owner = known.shard_of(position);
        // A shard that takes itself for the owner is right: it knows its own splits.
        assert!(owner != shard || self.truth.shard_of(position) == shard);
        (owner != shard).then_some(known)
    }

    /// Probes until the owner is found, learning from every wrong shard.
    fn probes(&self, client: &mut DirMap, position: Position) -> usize {
        for probes in 1.. {
            let shard = client.shard_of(position);
            let Some(answer) = self.probe(shard, position) else {
                return probes;
            };
            let before = client.partition_of(position);
            assert!(client.merge(answer), "a wrong shard taught nothing");
            assert_ne!(
                client.partition_of(position),
                before,
                "the client was sent where it was"
            );
        }
        unreachable!("each probe is of a deeper partition")
    }

    /// As `probes`, but after a wrong shard the home is asked for its map.
    fn probes_with_home(&self, client: &mut DirMap, position: Position) -> usize {
        let shard = client.shard_of(position);
        if self.probe(shard, position).is_none() {
            return 1;
        }
        client.merge(&self.known[&self.truth.home()]);
        assert!(
            self.probe(client.shard_of(position), position).is_none(),
            "a third probe"
        );
        2
    }
}

/// Partitions, shards and splits; the shards take turns in the slots, so most hold several.
fn directories() -> impl Strategy<Value = (Vec<ShardId>, Vec<u16>)> {
    (
        1_u16..=128,
        1_u16..=16,
        prop::collection::vec(any::<u16>(), 0..250),
    )
        .prop_map(|(slots, shards, splits)| {
            (
                (0..slots).map(|slot| ShardId(slot % shards)).collect(),
                splits,
            )
        })
}

fn positions() -> impl Strategy<Value = Vec<Position>> {
    prop::collection::vec(
        (Position::FIRST.0..Position::END.0).prop_map(Position),
        1..40,
    )
}

proptest! {
    /// However often a client that knows only the home asks for a name, it is wrong at most as often as the
    /// owner is deep; and once it has learnt everything, it needs one probe for each.
    ///
    /// Having found every name once is not enough for that: it may have asked the right shard for the wrong
    /// partition, and be led elsewhere when it hears that this one has split.
    #[test]
    fn wrong_shards_lead_to_the_owner((slots, splits) in directories(), positions in positions()) {
        let mut directory = Directory::new(slots);
        for choice in splits {
            directory.split(choice, false);
        }
        let mut client = DirMap::single(directory.truth.home());
        let mut wrong = vec![0; positions.len()];
        loop {
            let before = client.clone();
            let mut all_right = true;
            for (&position, wrong) in positions.iter().zip(&mut wrong) {
                let depth = directory.truth.depth_of(directory.truth.partition_of(position));
                let probes = directory.probes(&mut client, position);
                all_right &= probes == 1;
                *wrong += probes - 1;
                prop_assert!(*wrong <= usize::from(depth.min(MAX_PARTITION_DEPTH)));
                prop_assert!(probes == 1 || client.has_slots());
            }
            prop_assert_eq!(all_right, client == before);
            if all_right {
                break;
            }
        }
        prop_assert!(client.active().all(|index| directory.truth.is_active(index)));
    }

    /// Splits go on while the client works: it is never led in a circle or to a dead end.
    #[test]
    fn a_client_keeps_up_with_splits((slots, splits) in directories(), positions in positions()) {
        let mut directory = Directory::new(slots);
        let mut client = DirMap::single(directory.truth.home());
        for (turn, choice) in splits.into_iter().enumerate() {
            directory.split(choice, turn % 2 == 0);
            let position = positions[turn % positions.len()];
            let probes = directory.probes(&mut client, position);
            prop_assert!(probes <= usize::from(MAX_PARTITION_DEPTH) + 1);
        }
    }

    /// Once every split was reported to the home, two probes are enough however stale the client
    /// is.
    #[test]
    fn two_probes_when_the_home_knows(
        (slots, splits) in directories(),
        positions in positions(),
        stale_after: prop::sample::Index,
    ) {
        let mut directory = Directory::new(slots);
        let fetched_after = stale_after.index(splits.len() + 1);
        let mut stale = DirMap::single(directory.truth.home());
        for (turn, choice) in splits.into_iter().enumerate() {
            if turn == fetched_after {
                stale = directory.truth.clone();
            }
            directory.split(choice, true);
        }
        prop_assert_eq!(&directory.known[&directory.truth.home()], &directory.truth);
        for position in positions {
            let mut client = stale.clone();
            prop_assert!(directory.probes_with_home(&mut client, position) <= 2);
            prop_assert_eq!(directory.probes_with_home(&mut client, position), 1);
        }
    }

    /// Notices of splits reach the home late and in any order; in the end it knows all.
    #[test]
    fn notices_may_arrive_in_any_order(
        (slots, splits) in directories(),
        order in any::<prop::sample::Index>(),
    ) {
        let mut directory = Directory::new(slots.clone());
        for choice in splits {
            directory.split(choice, false);
        }
        let mut notices: Vec<PartitionIndex> = directory.truth.active().collect();
        notices.reverse();
        let start = order.index(notices.len());
        notices.rotate_left(start);
        let mut home = DirMap::with_slots(slots, 1);
        for notice in notices {
            home.activate(notice);
            let tiled: u64 = home.in_order().iter().map(|(_, start, end)| end.0 - start.0).sum();
            prop_assert_eq!(tiled, Position::END.0);
            prop_assert!(home.active().all(|index| directory.truth.is_active(index)));
        }
        prop_assert_eq!(home, directory.truth);
    }
}

#[test]
fn giga_plus_a_client_that_knows_the_home_alone_learns_a_whole_branch() {
    // Partition 0 makes 1, 1 makes 3, 3 makes 7; each is on a shard of its own.
    let mut directory = Directory::new((0..8).map(ShardId).collect());
    for choice in [0, 1, 2] {
        directory.split(choice, false);
    }
    let active: Vec<u32> = directory.truth.active().map(|index| index.0).collect();
    assert_eq!(active, [0, 1, 3, 7]);
    let last = Position(Position::END.0 - 1);
    let mut client = DirMap::single(ShardId(0));
    assert_eq!(directory.probes(&mut client, last), 4);
    assert_eq!(client, directory.truth);
    assert_eq!(directory.probes(&mut client, last), 1);
}
