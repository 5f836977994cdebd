use super::*;

fn shards(count: u16) -> Vec<ShardId> {
    (0..count).map(ShardId).collect()
}

fn partitions(indexes: &[u32]) -> Vec<PartitionIndex> {
    indexes.iter().copied().map(PartitionIndex).collect()
}

fn active(map: &DirMap) -> Vec<PartitionIndex> {
    map.active().collect()
}

/// A position whose first radix bits are those of `index`.
fn position_of(index: u32) -> Position {
    range(PartitionIndex(index), 10).0
}

fn decode(version: u32, slots: Vec<ShardId>, changes: Vec<u32>) -> Result<DirMap, DirMapError> {
    DirMap::try_from(UncheckedDirMap {
        version,
        slots,
        changes,
    })
}

#[test]
fn a_directory_that_never_split_is_at_its_home() {
    let map = DirMap::single(ShardId(7));
    assert!(!map.has_slots());
    assert_eq!(map.version(), 0);
    assert_eq!(map.slots(), [ShardId(7)]);
    assert_eq!(map.home(), ShardId(7));
    assert_eq!(map.active_count(), 1);
    assert_eq!(active(&map), partitions(&[0]));
    assert_eq!(map.depth_of(PartitionIndex::ZERO), 0);
    assert_eq!(
        map.range_of(PartitionIndex::ZERO),
        (Position(0), Position::END)
    );
    assert_eq!(map.shard_of(Position::FIRST), ShardId(7));
    assert_eq!(map.shards(), [ShardId(7)]);
}

/// GIGA+, figure 1 at time T3: server 1 manages partition 1 at depth 3, and split off 3 and 5.
#[test]
fn giga_plus_figure_1() {
    let mut map = DirMap::with_slots(shards(8), 1);
    for (split, child) in [(0, 1), (1, 3), (0, 2), (1, 5)] {
        assert_eq!(
            map.split_child(PartitionIndex(split), 8),
            Some(PartitionIndex(child))
        );
        map.activate(PartitionIndex(child));
    }
    assert_eq!(active(&map), partitions(&[0, 1, 2, 3, 5]));
    let depths: Vec<u8> = map.active().map(|index| map.depth_of(index)).collect();
    assert_eq!(depths, [2, 3, 2, 2, 3]);
    let eighth = Position::END.0 / 8;
    let tiles: Vec<(u32, u64, u64)> = map
        .in_order()
        .iter()
        .map(|(index, start, end)| (index.0, start.0 / eighth, end.0 / eighth))
        .collect();
    assert_eq!(
        tiles,
        [(0, 0, 2), (2, 2, 4), (1, 4, 5), (5, 5, 6), (3, 6, 8)]
    );
}

/// OrangeFS, figure 4: eight partitions, a key whose first match is 7, which is not active.
#[test]
fn orangefs_figure_4() {
    let key = position_of(7);
    let mut map = DirMap::with_slots(shards(8), 1);
    assert_eq!(map.partition_of(key), PartitionIndex(0));
    map.activate(PartitionIndex(1));
    assert_eq!(map.partition_of(key), PartitionIndex(1));
    map.activate(PartitionIndex(4));
    assert_eq!(map.partition_of(key), PartitionIndex(1));
    map.activate(PartitionIndex(3));
    assert_eq!(map.partition_of(key), PartitionIndex(3));
    map.activate(PartitionIndex(7));
    assert_eq!(map.partition_of(key), PartitionIndex(7));
    assert_eq!(map.shard_of(key), ShardId(7));
}

#[test]
fn depths_differ_when_the_initial_partitions_are_no_power_of_two() {
    let depths = |initial| -> Vec<u8> {
        let map = DirMap::with_slots(shards(8), initial);
        map.active().map(|index| map.depth_of(index)).collect()
    };
    assert_eq!(depths(3), [2, 1, 2]);
    assert_eq!(depths(5), [3, 2, 2, 2, 3]);
    assert_eq!(depths(6), [3, 3, 2, 2, 3, 3]);
    assert_eq!(depths(8), [3; 8]);
}

#[test]
fn splitting_stops_at_the_bound_and_at_the_last_slot() {
    let mut map = DirMap::with_slots(shards(6), 4);
    assert_eq!(
        map.split_child(PartitionIndex(0), 1024),
        Some(PartitionIndex(4))
    );
    assert_eq!(map.split_child(PartitionIndex(0), 4), None);
    assert_eq!(
        map.split_child(PartitionIndex(1), 1024),
        Some(PartitionIndex(5))
    );
    assert_eq!(
        map.split_child(PartitionIndex(2), 1024),
        None,
        "6 has no slot"
    );
    map.activate(PartitionIndex(4));
    assert_eq!(
        map.split_child(PartitionIndex(0), 1024),
        None,
        "8 has no slot"
    );
    assert_eq!(
        map.split_child(PartitionIndex(4), 1024),
        None,
        "12 has no slot"
    );
    let unsplit = DirMap::single(ShardId(0));
    assert_eq!(
        unsplit.split_child(PartitionIndex(0), 2),
        Some(PartitionIndex(1))
    );
    assert_eq!(unsplit.split_child(PartitionIndex(0), 1), None);
    let full = DirMap::with_slots(vec![ShardId(0); MAX_PARTITIONS], MAX_PARTITIONS as u32);
    assert_eq!(full.depth_of(PartitionIndex(1023)), 10);
    assert_eq!(full.split_child(PartitionIndex(1023), u32::MAX), None);
}

#[test]
fn a_notice_that_arrives_early_brings_what_came_before() {
    let mut map = DirMap::with_slots(shards(64), 1);
    // 21 = 10101b: split from 5, after 5 had split off 13; 5 from 1, after 3; 1 from 0.
    map.activate(PartitionIndex(21));
    assert_eq!(active(&map), partitions(&[0, 1, 3, 5, 13, 21]));
}

#[test]
fn a_position_past_every_name_is_in_the_last_partition() {
    let map = DirMap::with_slots(shards(8), 5);
    let (last, _, end) = map.in_order()[4];
    assert_eq!(end, Position::END);
    assert_eq!(map.partition_of(Position::END), last);
    assert_eq!(map.partition_of(Position(u64::MAX)), last);
    assert_eq!(map.next_partition_after(Position::END), None);
    assert_eq!(map.next_partition_after(Position(u64::MAX)), None);
}

#[test]
fn a_listing_walks_the_partitions_in_the_order_of_positions() {
    let map = DirMap::with_slots(shards(8), 7);
    let mut walked = Vec::new();
    let mut next = map.next_partition_after(Position(0));
    while let Some(index) = next {
        walked.push(index);
        next = map.next_partition_after(map.range_of(index).1);
    }
    assert_eq!(walked, partitions(&[0, 4, 2, 6, 1, 5, 3]));
}

#[test]
fn each_shard_is_named_once_home_first() {
    let slots = [3, 1, 3, 0, 1].map(ShardId).to_vec();
    assert_eq!(
        DirMap::with_slots(slots.clone(), 3).shards(),
        [3, 1].map(ShardId)
    );
    assert_eq!(
        DirMap::with_slots(slots, 5).shards(),
        [3, 1, 0].map(ShardId)
    );
}

#[test]
fn a_map_learns_slots_and_partitions() {
    let mut stale = DirMap::single(ShardId(0));
    let fresh = DirMap::with_slots(shards(4), 3);
    assert!(stale.merge(&fresh));
    assert_eq!(stale, fresh);
    assert!(!stale.merge(&fresh));
    assert!(!stale.merge(&DirMap::single(ShardId(0))));
    assert_eq!(stale, fresh);
}

#[test]
fn a_map_of_another_directory_is_ignored() {
    let map = DirMap::with_slots(shards(4), 2);
    let unfit = [
        DirMap::with_slots([1, 2, 3, 0].map(ShardId).to_vec(), 4),
        DirMap::with_slots([0, 2, 1, 3].map(ShardId).to_vec(), 4),
        decode(2, shards(1), vec![1]).unwrap(),
    ];
    for other in unfit {
        let mut merged = map.clone();
        assert!(!merged.merge(&other), "{other:?}");
        assert_eq!(merged, map);
    }
    let longer = decode(2, shards(8), vec![1, 1]).unwrap();
    let mut merged = map.clone();
    assert!(merged.merge(&longer));
    assert_eq!(merged, longer);
}

#[test]
fn a_broken_map_is_refused() {
    use DirMapError::*;
    let at = PartitionIndex;
    assert_eq!(decode(1, vec![], vec![1]), Err(NoHome));
    assert_eq!(
        decode(1, vec![ShardId(0); 1025], vec![1]),
        Err(TooManyPartitions)
    );
    assert_eq!(decode(1, shards(4), vec![1; 1025]), Err(TooManyPartitions));
    assert_eq!(decode(0, shards(2), vec![1]), Err(SlotsBeforeFirstSplit));
    assert_eq!(
        decode(1, vec![ShardId(MAX_SHARDS)], vec![1]),
        Err(NoSuchShard(ShardId(MAX_SHARDS)))
    );
    assert_eq!(decode(1, shards(4), vec![]), Err(ZeroInactive));
    assert_eq!(decode(1, shards(4), vec![2, 1]), Err(ZeroInactive));
    assert_eq!(decode(1, shards(4), vec![1; 5]), Err(NoSlot(at(4))));
    assert_eq!(decode(0, shards(1), vec![1, 1]), Err(NoSlot(at(1))));
    assert_eq!(
        decode(1, shards(4), vec![1, u32::MAX]),
        Err(TooManyChanges(at(1)))
    );
    // 3 without its parent 1, and 2 without the 1 that partition 0 split off before.
    assert_eq!(
        decode(1, shards(4), vec![1, 0, 0, 1]),
        Err(NoPredecessor {
            made: at(3),
            before: at(1)
        })
    );
    assert_eq!(
        decode(1, shards(4), vec![1, 2, 1]),
        Err(NoPredecessor {
            made: at(2),
            before: at(1)
        })
    );
}

#[test]
fn partitions_that_never_were_make_no_difference() {
    assert_eq!(
        decode(1, shards(4), vec![1, 1, 0, 0]).unwrap(),
        DirMap::with_slots(shards(4), 2)
    );
}

#[test]
fn the_encoding_is_pinned() {
    let single = DirMap::single(ShardId(300));
    let split = DirMap::with_slots([300, 1, 2].map(ShardId).to_vec(), 3);
    // version; number of slots, slots; number of counters, counters: all as LEB128.
    let golden: [(&DirMap, &[u8]); 2] = [
        (&single, &[0, 1, 0xac, 0x02, 1, 1]),
        (&split, &[1, 3, 0xac, 0x02, 1, 2, 3, 1, 1, 1]),
    ];
    for (map, bytes) in golden {
        assert_eq!(postcard::to_stdvec(map).unwrap(), bytes);
        assert_eq!(postcard::from_bytes::<DirMap>(bytes).unwrap(), *map);
    }
    assert!(postcard::from_bytes::<DirMap>(&[1, 3, 0xac, 0x02, 1, 2, 3, 1, 0, 1]).is_err());
}

#[test]
fn a_partition_merges_into_the_one_it_was_split_from() {
    let at = PartitionIndex;
    let mut map = DirMap::with_slots(shards(8), 4);
    // 0, 1, 2 and 3 at depth 2: 2 came from 0 and 3 from 1, and before that 1 from 0.
    let into = |map: &DirMap| (0..4).map(|i| map.merges_into(at(i))).collect::<Vec<_>>();
    assert_eq!(into(&map), [None, None, Some(at(0)), Some(at(1))]);
    assert_eq!(map.last_child(at(0)), Some(at(2)));
    assert_eq!(map.last_child(at(2)), None);
    map.activate(at(6));
    assert_eq!(map.merges_into(at(2)), None, "2 has split");
    map.deactivate(at(6));
    map.deactivate(at(2));
    assert_eq!(map.merges_into(at(1)), None, "3 is still there");
    map.deactivate(at(3));
    assert_eq!(map.merges_into(at(1)), Some(at(0)));
    map.deactivate(at(1));
    assert_eq!(active(&map), [at(0)]);
    assert_eq!(map.range_of(at(0)), (Position(0), Position::END));
    assert_eq!(map.partition_of(Position(u64::MAX)), at(0));
    assert_eq!(map.split_child(at(0), 8), Some(at(1)));
}

#[test]
fn the_later_change_wins_whatever_is_heard_first() {
    let made = DirMap::with_slots(shards(4), 2);
    let mut merged = made.clone();
    merged.deactivate(PartitionIndex(1));
    let mut made_again = merged.clone();
    made_again.activate(PartitionIndex(1));
    let mut stale = made.clone();
    assert!(stale.merge(&merged));
    assert!(!stale.merge(&made), "older");
    assert_eq!(stale, merged);
    assert!(stale.merge(&made_again));
    assert!(!stale.merge(&merged), "older");
    assert_eq!(stale, made_again);
}

/// Each partition is on a shard of its own, splits and merges by what that shard knows alone, and
/// tells others all that it knows, in any order. Each shard's map always tiles the positions, and
/// no two of them contradict one another.
#[test]
fn maps_fit_whoever_splits_merges_and_hears_of_it() {
    const SLOTS: u32 = 32;
    for seed in 0..400u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut random = |below: u32| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 33) as u32 % below
        };
        let mut known = vec![DirMap::with_slots(shards(SLOTS as u16), 1); SLOTS as usize];
        let mut truth = known[0].clone();
        for _ in 0..300 {
            let one = PartitionIndex(random(SLOTS));
            match random(4) {
                0 if truth.is_active(one) => {
                    let Some(child) = known[one.0 as usize].split_child(one, SLOTS) else {
                        continue;
                    };
                    known[one.0 as usize].activate(child);
                    truth.activate(child);
                    let told = known[one.0 as usize].clone();
                    known[child.0 as usize].merge(&told);
                }
                1 if truth.is_active(one) => {
                    let Some(into) = known[one.0 as usize].merges_into(one) else {
                        continue;
                    };
                    // The other one's shard has the last word.
                    let decides = known[into.0 as usize].clone();
                    if decides.last_child(into) != Some(one)
                        || !known[one.0 as usize].knows_children(into, &decides)
                    {
                        known[one.0 as usize].merge(&decides);
                        continue;
                    }
                    known[one.0 as usize].deactivate(one);
                    truth.deactivate(one);
                    let told = known[one.0 as usize].clone();
                    assert!(known[into.0 as usize].merge(&told), "seed {seed}");
                }
                _ => {
                    let other = random(SLOTS) as usize;
                    let told = known[other].clone();
                    let hears = &mut known[one.0 as usize];
                    hears.merge(&told);
                    assert!(!hears.merge(&told), "seed {seed}: all of it was learnt");
                    for (mine, theirs) in hears.changes.iter().zip(&told.changes) {
                        assert!(mine >= theirs, "seed {seed}: all of it was learnt");
                    }
                }
            }
            for map in &known {
                assert_eq!(map.check_predecessors(), Ok(()), "seed {seed}");
                let mut told = truth.clone();
                assert!(
                    !told.merge(map),
                    "seed {seed}: nobody knows what has not happened"
                );
                let mut end = Position(0);
                for (_, start, next) in map.in_order() {
                    assert_eq!(start, end, "seed {seed}");
                    end = next;
                }
                assert_eq!(end, Position::END, "seed {seed}");
            }
        }
    }
}

#[test]
#[should_panic(expected = "one was split from it")]
fn a_partition_that_has_split_does_not_merge() {
    DirMap::with_slots(shards(4), 4).deactivate(PartitionIndex(1));
}

#[test]
#[should_panic(expected = "slot 0 is not the home shard")]
fn the_home_never_moves() {
    DirMap::single(ShardId(1)).set_slots(shards(4));
}

#[test]
fn an_array_is_renewed_by_its_home_and_others_take_it_up() {
    let mut home = DirMap::with_slots(shards(2), 2);
    let mut other = home.clone();
    assert_eq!(home.split_child(PartitionIndex(0), 8), None);
    assert_eq!(
        home.next_child(PartitionIndex(0), 8),
        Some(PartitionIndex(2))
    );
    assert!(!home.has_slot(PartitionIndex(2)));
    // Nothing is taken away, and where active partitions are does not change.
    for same in [shards(2), shards(1), vec![ShardId(0), ShardId(7)]] {
        assert!(!home.renew_slots(same));
    }
    assert!(!DirMap::single(ShardId(0)).renew_slots(shards(2)));
    assert!(!home.renew_slots(vec![ShardId(0); MAX_PARTITIONS + 1]));
    let slots = |last: u16| [0, 1, 2, last].map(ShardId).to_vec();
    assert!(home.renew_slots(vec![ShardId(1), ShardId(0), ShardId(2), ShardId(3)]));
    assert_eq!((home.version(), home.slots()), (2, &slots(3)[..]));
    assert_eq!(
        home.split_child(PartitionIndex(0), 8),
        Some(PartitionIndex(2))
    );
    home.activate(PartitionIndex(2));
    assert!(other.merge(&home));
    assert_eq!(other, home);
    // A partition that no shard has yet may go elsewhere.
    assert!(home.renew_slots(slots(5)));
    assert_eq!((home.version(), home.slots()), (3, &slots(5)[..]));
    assert!(!home.merge(&other));
    assert!(other.merge(&home) && other == home);
    let old = DirMap::with_slots(shards(2), 2);
    assert!(!home.merge(&old));
}

#[test]
#[should_panic(expected = "active elsewhere")]
fn an_active_partition_stays_where_it_is() {
    DirMap::with_slots(shards(4), 4).activate_at(PartitionIndex(3), ShardId(0));
}

#[test]
#[should_panic(expected = "fixed at version 1")]
fn slots_are_fixed_once() {
    DirMap::with_slots(shards(4), 1).set_slots(shards(8));
}

#[test]
#[should_panic(expected = "no slot")]
fn a_partition_without_a_slot_has_no_shard() {
    DirMap::with_slots(shards(4), 4).shard_of_partition(PartitionIndex(4));
}

#[test]
#[should_panic(expected = "not active")]
fn an_inactive_partition_has_no_depth() {
    DirMap::with_slots(shards(4), 2).depth_of(PartitionIndex(2));
}
