//! Renewed slots: the home proposes other shards for partitions to come.
//!
//! Meanwhile shards split and merge by what was proposed before, and clients go by maps of any age:
//! none is led to a partition that is not where it is asked for.

use pandofs_placement::{DirMap, PartitionIndex};
use pandofs_types::{Position, ShardId};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const SHARDS: u16 = 7;
const MOST: u32 = 24;

#[derive(Clone, Debug)]
enum Act {
    /// The shard of a partition begins to split it, to where its map proposes.
    Begin(u16),
    /// The split that was begun comes to its end, or is given up.
    End(bool),
    Merge(u16),
    /// The home makes another array of the slots.
    Renew(Vec<u16>),
    /// One shard tells another all that it knows.
    Tell(u16, u16),
    /// A client asks for a name.
    Ask(u8, u64),
    /// A client takes up what a shard knows now.
    Fetch(u8, u16),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        5 => any::<u16>().prop_map(Act::Begin),
        6 => prop::bool::weighted(0.8).prop_map(Act::End),
        2 => any::<u16>().prop_map(Act::Merge),
        2 => prop::collection::vec(0..SHARDS, 1..=MOST as usize).prop_map(Act::Renew),
        4 => (0..SHARDS, 0..SHARDS).prop_map(|(from, to)| Act::Tell(from, to)),
        6 => (0..3_u8, Position::FIRST.0..Position::END.0)
            .prop_map(|(client, position)| Act::Ask(client, position)),
        1 => (0..3_u8, 0..SHARDS).prop_map(|(client, shard)| Act::Fetch(client, shard)),
    ];
    prop::collection::vec(act, 0..200)
}

struct Directory {
    /// All that is the case and that was proposed; no one has it.
    truth: DirMap,
    /// Maps of the shards that ever had a partition.
    known: BTreeMap<ShardId, DirMap>,
    /// The partitions that each has.
    has: BTreeMap<ShardId, BTreeSet<PartitionIndex>>,
    split: Option<(PartitionIndex, PartitionIndex, ShardId)>,
    clients: Vec<DirMap>,
}

impl Directory {
    fn new() -> Directory {
        let slots = (0..8).map(|slot| ShardId(slot % 3)).collect();
        let truth = DirMap::with_slots(slots, 1);
        let home = truth.home();
        Directory {
            known: BTreeMap::from([(home, truth.clone())]),
            has: BTreeMap::from([(home, BTreeSet::from([PartitionIndex::ZERO]))]),
            split: None,
            clients: vec![DirMap::single(home); 3],
            truth,
        }
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Begin(choice) => self.begin(choice),
            Act::End(true) => self.end(),
            Act::End(false) => self.split = None,
            Act::Merge(choice) => self.merge(choice),
            Act::Renew(slots) => self.renew(slots),
            Act::Tell(from, to) => {
                let told = self.known.get(&ShardId(from)).cloned();
                if let (Some(told), Some(known)) = (told, self.known.get_mut(&ShardId(to))) {
                    known.merge(&told);
                    assert!(!known.merge(&told), "all of it was learnt");
                }
            }
            Act::Ask(client, position) => self.ask(usize::from(client), Position(position)),
            Act::Fetch(client, shard) => {
                if let Some(known) = self.known.get(&ShardId(shard)) {
                    self.clients[usize::from(client)].merge(known);
                }
            }
        }
    }

    fn chosen(&self, choice: u16) -> (PartitionIndex, ShardId) {
        let active: Vec<PartitionIndex> = self.truth.active().collect();
        let index = active[usize::from(choice) % active.len()];
        (index, self.truth.shard_of_partition(index))
    }

    fn begin(&mut self, choice: u16) {
        let (index, shard) = self.chosen(choice);
        let known = &self.known[&shard];
        assert_eq!(known.depth_of(index), self.truth.depth_of(index));
        if self.split.is_none()
            && let Some(child) = known.split_child(index, MOST)
        {
            self.split = Some((index, child, known.shard_of_partition(child)));
        }
    }

    /// The target has the last word, and then knows what the source does.
    fn end(&mut self) {
        let Some((index, child, target)) = self.split.take() else {
            return;
        };
        let source = self.truth.shard_of_partition(index);
        let mut told = self.known[&source].clone();
        told.activate_at(child, target);
        self.known
            .entry(target)
            .or_insert_with(|| told.clone())
            .merge(&told);
        let known = self.known.get_mut(&source).expect("it has a partition");
        known.merge(&told);
        assert_eq!(known.shard_of_partition(child), target);
        self.truth.activate_at(child, target);
        self.has.entry(target).or_default().insert(child);
    }

    fn merge(&mut self, choice: u16) {
        let (index, shard) = self.chosen(choice);
        if self.split.is_some() || self.known[&shard].merges_into(index).is_none() {
            return;
        }
        let into = index.parent().expect("it merges into its parent");
        let at = self.truth.shard_of_partition(into);
        assert_eq!(
            self.known[&shard].shard_of_partition(into),
            at,
            "a partition knows where that is which it was split from"
        );
        let decides = self.known[&at].clone();
        if decides.last_child(into) != Some(index)
            || !self.known[&shard].knows_children(into, &decides)
        {
            return;
        }
        let known = self.known.get_mut(&shard).expect("it has a partition");
        known.deactivate(index);
        let told = known.clone();
        let known = self.known.get_mut(&at).expect("it has a partition");
        known.merge(&told);
        assert!(!known.is_active(index));
        self.truth.deactivate(index);
        self.has.entry(shard).or_default().remove(&index);
    }

    fn renew(&mut self, mut slots: Vec<u16>) {
        let home = self.truth.home();
        let known = self.known.get_mut(&home).expect("the home has partition 0");
        let length = slots.len().max(known.slots().len());
        slots.resize(length, 0);
        let before = known.clone();
        if known.renew_slots(slots.into_iter().map(ShardId).collect()) {
            assert_eq!(known.version(), before.version() + 1);
        }
        for index in before.active() {
            assert_eq!(
                known.shard_of_partition(index),
                before.shard_of_partition(index)
            );
        }
        self.truth.merge(known);
    }

    /// Asks the shard that the map says, and those that it leads to.
    fn ask(&mut self, client: usize, position: Position) {
        let owner = self.truth.partition_of(position);
        for _ in 0..64 {
            let map = &mut self.clients[client];
            let shard = map.shard_of(position);
            let known = &self.known[&shard];
            let index = known.partition_of(position);
            if self.has[&shard].contains(&index) {
                assert_eq!(index, owner, "two shards take themselves for the owner");
                return;
            }
            assert!(map.merge(known), "a wrong shard taught nothing");
        }
        panic!("{position:?} is nowhere");
    }

    fn check(&self) {
        for map in self.known.values().chain(&self.clients) {
            let mut truth = self.truth.clone();
            assert!(!truth.merge(map), "somebody knows what was not so: {map:?}");
            assert!(!self.truth.contradicts(map));
            let mut end = Position(0);
            for (_, start, next) in map.in_order() {
                assert_eq!(start, end);
                end = next;
            }
            assert_eq!(end, Position::END);
        }
        for (shard, has) in &self.has {
            for &index in has {
                assert_eq!(self.truth.shard_of_partition(index), *shard);
                assert_eq!(self.known[shard].shard_of_partition(index), *shard);
            }
        }
        assert_eq!(
            self.has.values().map(BTreeSet::len).sum::<usize>(),
            self.truth.active().count()
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn nobody_is_led_astray_by_slots_that_were_made_anew(acts in acts()) {
        let mut directory = Directory::new();
        for act in acts {
            directory.act(act);
            directory.check();
        }
        // A client that has heard of all knows all, in whatever order it came.
        let mut all = directory.known[&directory.truth.home()].clone();
        for known in directory.known.values().rev() {
            all.merge(known);
        }
        let mut reversed = DirMap::single(directory.truth.home());
        for known in directory.known.values() {
            reversed.merge(known);
        }
        prop_assert_eq!(&all, &directory.truth);
        prop_assert_eq!(&reversed, &directory.truth);
    }
}

#[test]
fn a_shard_that_has_not_heard_of_new_slots_splits_to_the_old_ones() {
    let slots = |numbers: &[u16]| numbers.iter().copied().map(ShardId).collect::<Vec<_>>();
    let mut home = DirMap::with_slots(slots(&[0, 1, 0, 1]), 2);
    let mut late = home.clone();
    assert!(home.renew_slots(slots(&[0, 1, 2, 2])));
    // Partition 1 splits without having heard of it: where 3 is follows from its having been made.
    late.activate_at(PartitionIndex(3), ShardId(1));
    assert!(home.merge(&late) && late.merge(&home));
    assert_eq!(home, late);
    assert_eq!(home.slots(), slots(&[0, 1, 2, 1]));
    // Slots made anew after that leave it where it is.
    assert!(home.renew_slots(slots(&[0, 2, 1, 2])));
    assert_eq!(home.slots(), slots(&[0, 1, 1, 1]));
    assert_eq!(home.version(), 3);
    // Merged and made once more, it goes where is proposed now.
    home.deactivate(PartitionIndex(3));
    assert!(home.renew_slots(slots(&[0, 1, 1, 2])));
    home.activate(PartitionIndex(3));
    assert!(late.merge(&home));
    assert_eq!(late.shard_of_partition(PartitionIndex(3)), ShardId(2));
}

#[test]
fn one_partition_on_two_shards_is_a_contradiction() {
    let map = |last| DirMap::with_slots(vec![ShardId(0), ShardId(last)], 2);
    let mut known = map(1);
    assert!(known.contradicts(&map(2)) && !known.merge(&map(2)));
    assert_eq!(known, map(1));
    // Slots that were only proposed may differ.
    let proposed = DirMap::with_slots(vec![ShardId(0), ShardId(2)], 1);
    assert!(!known.contradicts(&proposed) && !known.merge(&proposed));
}
