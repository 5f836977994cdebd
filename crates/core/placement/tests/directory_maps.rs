//! Directory maps that grew by random splits: what must hold whatever the order was.

use pandofs_placement::{DirMap, PartitionIndex, range};
use pandofs_types::{Position, ShardId};
use proptest::prelude::*;

/// Splits partitions chosen by `choices` wherever they may still split.
fn grow(map: &mut DirMap, choices: &[u16], max_partitions: u32) {
    for &choice in choices {
        let active: Vec<PartitionIndex> = map.active().collect();
        let chosen = active[usize::from(choice) % active.len()];
        if let Some(child) = map.split_child(chosen, max_partitions) {
            map.activate(child);
        }
    }
}

/// The number of slots, the initial partitions and the splits of a directory.
fn histories() -> impl Strategy<Value = (u16, u32, Vec<u16>)> {
    (1_u16..=200).prop_flat_map(|slots| {
        (
            Just(slots),
            1..=u32::from(slots),
            prop::collection::vec(any::<u16>(), 0..150),
        )
    })
}

fn grown((slots, initial, splits): &(u16, u32, Vec<u16>)) -> DirMap {
    let mut map = DirMap::with_slots((0..*slots).map(ShardId).collect(), *initial);
    grow(&mut map, splits, u32::from(*slots));
    map
}

/// Two or three maps of one directory, each of which saw other splits; the first may not even have
/// the slots.
fn relatives() -> impl Strategy<Value = Vec<DirMap>> {
    let seen = || prop::collection::vec(any::<u16>(), 0..60);
    (histories(), any::<bool>(), seen(), seen()).prop_map(|(history, unsplit, left, right)| {
        let base = grown(&(history.0, 1, history.2));
        let mut maps = vec![base.clone(), base.clone(), base];
        grow(&mut maps[1], &left, u32::from(history.0));
        grow(&mut maps[2], &right, u32::from(history.0));
        if unsplit {
            maps[0] = DirMap::single(ShardId(0));
        }
        maps
    })
}

fn merged(left: &DirMap, right: &DirMap) -> DirMap {
    let mut merged = left.clone();
    merged.merge(right);
    merged
}

/// Whether `larger` has all that `smaller` has.
fn covers(larger: &DirMap, smaller: &DirMap) -> bool {
    larger.version() >= smaller.version() && smaller.active().all(|index| larger.is_active(index))
}

proptest! {
    #[test]
    fn ranges_tile_the_space(history in histories()) {
        let map = grown(&history);
        let partitions = map.in_order();
        prop_assert_eq!(partitions.len(), map.active_count() as usize);
        let mut next = Position(0);
        for (index, start, end) in partitions {
            prop_assert_eq!(start, next);
            prop_assert!(start < end);
            prop_assert_eq!(map.next_partition_after(start), Some(index));
            next = end;
        }
        prop_assert_eq!(next, Position::END);
        prop_assert_eq!(map.next_partition_after(next), None);
    }

    #[test]
    fn a_name_is_in_the_range_of_its_partition(
        history in histories(),
        positions in prop::collection::vec(0..Position::END.0, 100),
    ) {
        let map = grown(&history);
        for position in positions.into_iter().map(Position) {
            let index = map.partition_of(position);
            let (start, end) = map.range_of(index);
            prop_assert!(start <= position && position < end);
            prop_assert_eq!(position.radix_index(map.depth_of(index)), index.0);
            prop_assert_eq!(map.shard_of(position), map.shard_of_partition(index));
        }
        for (index, start, end) in map.in_order() {
            prop_assert_eq!(map.partition_of(start), index);
            prop_assert_eq!(map.partition_of(Position(end.0 - 1)), index);
        }
    }

    /// A split gives the upper half of the range to the new partition and changes nothing else.
    #[test]
    fn a_split_halves_one_range(history in histories(), choice: prop::sample::Index) {
        let before = grown(&history);
        let partitions = before.in_order();
        let (index, start, end) = partitions[choice.index(partitions.len())];
        let Some(child) = before.split_child(index, u32::from(history.0)) else { return Ok(()) };
        prop_assert!(!before.is_active(child));
        prop_assert!(child.0 < u32::from(history.0));
        let mut after = before.clone();
        after.activate(child);
        let middle = Position(start.0 + (end.0 - start.0) / 2);
        prop_assert_eq!(after.range_of(index), (start, middle));
        prop_assert_eq!(after.range_of(child), (middle, end));
        prop_assert_eq!(after.depth_of(index), before.depth_of(index) + 1);
        for (other, start, end) in partitions {
            if other != index {
                prop_assert_eq!(after.range_of(other), (start, end));
            }
        }
    }

    #[test]
    fn a_range_is_the_names_whose_radix_bits_are_the_index(
        position in 0..Position::END.0,
        depth in 0_u8..=32,
    ) {
        let position = Position(position);
        let (start, end) = range(PartitionIndex(position.radix_index(depth)), depth);
        prop_assert!(start <= position && position < end);
        prop_assert_eq!(end.0 - start.0, Position::END.0 >> depth);
    }

    /// Fully split, all partitions below the bound are active, in whatever order they came.
    #[test]
    fn every_order_of_splits_ends_at_the_same_map(history in histories()) {
        let mut map = grown(&history);
        loop {
            let splittable: Vec<PartitionIndex> =
                map.active().filter_map(|index| map.split_child(index, 1_024)).collect();
            if splittable.is_empty() {
                break;
            }
            for child in splittable {
                map.activate(child);
            }
        }
        let slots = (0..history.0).map(ShardId).collect();
        prop_assert_eq!(map, DirMap::with_slots(slots, u32::from(history.0)));
    }

    #[test]
    fn merging_is_commutative(maps in relatives()) {
        prop_assert_eq!(merged(&maps[0], &maps[1]), merged(&maps[1], &maps[0]));
        prop_assert_eq!(merged(&maps[2], &maps[1]), merged(&maps[1], &maps[2]));
    }

    #[test]
    fn merging_is_associative(maps in relatives()) {
        let left = merged(&merged(&maps[0], &maps[1]), &maps[2]);
        let right = merged(&maps[0], &merged(&maps[1], &maps[2]));
        prop_assert_eq!(left, right);
    }

    #[test]
    fn merging_loses_nothing_and_makes_nothing_up(maps in relatives()) {
        let (left, right) = (&maps[1], &maps[2]);
        let both = merged(left, right);
        prop_assert!(covers(&both, left) && covers(&both, right));
        for index in both.active() {
            prop_assert!(left.is_active(index) || right.is_active(index));
        }
        // The result is a map like any other: it tiles, and it may be sent.
        let tiled: u64 = both.in_order().iter().map(|(_, start, end)| end.0 - start.0).sum();
        prop_assert_eq!(tiled, Position::END.0);
        let bytes = postcard::to_stdvec(&both).unwrap();
        prop_assert_eq!(postcard::from_bytes::<DirMap>(&bytes).unwrap(), both);
    }

    #[test]
    fn merging_says_whether_it_learnt(maps in relatives()) {
        for (left, right) in [(0, 1), (1, 0), (1, 2)] {
            let mut both = maps[left].clone();
            let learnt = both.merge(&maps[right]);
            prop_assert_eq!(learnt, both != maps[left]);
            prop_assert!(!both.merge(&maps[right]));
            prop_assert!(!both.merge(&maps[left]));
        }
    }

    /// Bytes from the network are refused or make a map on which every question has an answer.
    #[test]
    fn any_bytes_are_refused_or_make_a_whole_map(
        version in 0..3_u32,
        slots in prop::collection::vec(0..5_000_u16, 0..12),
        words in prop::collection::vec(prop_oneof![Just(0), Just(1), 0..4_096_u64], 0..3),
    ) {
        let bytes = postcard::to_stdvec(&(version, &slots, &words)).unwrap();
        let Ok(map) = postcard::from_bytes::<DirMap>(&bytes) else { return Ok(()) };
        let mut next = Position(0);
        for (index, start, end) in map.in_order() {
            prop_assert_eq!(start, next);
            prop_assert_eq!(map.shard_of(start), map.shard_of_partition(index));
            next = end;
        }
        prop_assert_eq!(next, Position::END);
        let mut merged = DirMap::with_slots(vec![map.home(); 4], 4);
        merged.merge(&map);
        prop_assert!(merged.shards().contains(&map.home()));
    }
}
