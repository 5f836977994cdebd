use super::*;
use crate::cluster::tests::cluster;
use crate::ddg::{GrainState, place_file};
use crate::policy::{DirPolicy, FilePolicy};

const DRAW: u64 = 1 << 32;

/// A cluster whose servers lead as many shards each, shard `n` of `servers` and all that follow by server `n`.
fn even(servers: u16) -> ClusterMap {
    let mut map = cluster(64, servers);
    for (shard, leader) in (0..).zip(&mut map.shards) {
        *leader = ServerId(shard % servers);
    }
    map.policy = DirPolicy::Adaptive(crate::DirBounds::default());
    map.settings.file_policy = FilePolicy::Adaptive(crate::FileBounds::default());
    map
}

fn told(objects: &[u64]) -> BTreeMap<ServerId, ServerLoad> {
    let load = |&objects| ServerLoad {
        objects,
        requests: 0,
    };
    (0..).map(ServerId).zip(objects.iter().map(load)).collect()
}

/// The one of shard 0 of a new file system.
fn first(map: &ClusterMap) -> Placer {
    Placer::new(map, ShardId(0), OBJECTS_OF_A_DIRECTORY)
}

fn size(dir_depth: u32, dir_width: u32, file_width: u32) -> Granularity {
    Granularity {
        dir_depth,
        dir_width,
        file_width,
    }
}

const LARGE: (u32, u32) = (6, 256);
const SMALL: (u32, u32) = (1, 1);

/// Choice where the server has so many objects: depth and width, and the shard of a new unit.
fn placing(
    placer: &mut Placer,
    map: &ClusterMap,
    held: u64,
    random: u64,
    near: u16,
) -> ((u32, u32), ShardId) {
    placer.holds(held);
    let placing = placer.placing(map, random, Some(ShardId(near)));
    let size = placing.granularity;
    ((size.dir_depth, size.dir_width), placing.shard)
}

/// How many objects server 0 has when shard 0 begins to give.
fn gives_from(placer: &mut Placer, map: &ClusterMap) -> u64 {
    let mut gives = |&held: &u64| placing(placer, map, held, DRAW, 0).0 == SMALL;
    let from = (OBJECTS_OF_THE_TOP..1_000_000).find(&mut gives).unwrap();
    assert_eq!(placing(placer, map, from, 1, 0), (SMALL, ShardId(1)));
    assert_eq!(placing(placer, map, from - 1, 1, 0), (LARGE, ShardId(0)));
    from
}

#[test]
fn a_directory_counts_as_what_will_be_in_it() {
    assert_eq!(objects(1, 1), OBJECTS_OF_A_DIRECTORY);
    assert_eq!(objects(7 + 100, 7), 7 * OBJECTS_OF_A_DIRECTORY + 100);
    assert_eq!(objects(u64::MAX, u64::MAX), u64::MAX);
}

#[test]
fn what_is_made_stays_until_a_server_has_too_much() {
    let map = even(4);
    let mut placer = first(&map);
    // The others count as having a directory each: 1,382 are 1,024 and more over the mean of 357, of which 30 % would be less.
    assert_eq!(gives_from(&mut placer, &map), 1_382);
    placer.hear(&map, &told(&[0, 10_000, 10_000, 10_000]));
    // 14,445 of 44,445 are 30 % over the mean of 11,111.
    assert_eq!(gives_from(&mut placer, &map), 14_445);
}

#[test]
fn what_is_made_first_is_spread() {
    let map = even(4);
    let mut placer = first(&map);
    let last = OBJECTS_OF_THE_TOP - 1;
    for held in [16, last] {
        // The first that is drawn if they have as much, and never another shard of the same server.
        assert_eq!(
            placing(&mut placer, &map, held, 1 | 2 << 32, 0),
            (SMALL, ShardId(1))
        );
        assert_eq!(
            placing(&mut placer, &map, held, 4 | 4 << 32, 0),
            (SMALL, ShardId(0))
        );
    }
    assert_eq!(
        placing(&mut placer, &map, last + 1, 1 | 2 << 32, 0),
        (LARGE, ShardId(0))
    );
    // Files are with their directories all the same.
    placer.holds(16);
    assert_eq!(placer.placing(&map, 1 | 2 << 32, None).shard, ShardId(0));
    // The less loaded has it.
    placer.hear(&map, &told(&[0, 7, 5, 0]));
    assert_eq!(
        placing(&mut placer, &map, last, 1 | 2 << 32, 0).1,
        ShardId(2)
    );
    // A server alone has no other to give anything to.
    let alone = even(1);
    let mut placer = first(&alone);
    assert_eq!(
        placing(&mut placer, &alone, 16, 1 | 2 << 32, 0).1,
        ShardId(0)
    );
}

#[test]
fn a_parent_that_had_something_elsewhere_has_its_next_child_here_again() {
    let map = even(4);
    let mut placer = first(&map);
    assert_eq!(
        placing(&mut placer, &map, 200, DRAW, 7),
        (SMALL, ShardId(0))
    );
    // So has a parent on another shard of the same server, which is a border as well.
    assert_eq!(
        placing(&mut placer, &map, 200, DRAW, 4),
        (SMALL, ShardId(0))
    );
    // A file has no unit but its directory's.
    let of_file = placer.placing(&map, DRAW, None);
    assert_eq!(
        of_file,
        Placing {
            granularity: size(6, 256, 8_000),
            shard: ShardId(0)
        }
    );
}

#[test]
fn of_two_that_are_drawn_the_less_loaded_if_it_has_less() {
    let map = even(4);
    let mut placer = first(&map);
    placer.hear(&map, &told(&[0, 1_000, 2_000, 6_000]));
    let mut drawn =
        |one: u64, other: u64| placing(&mut placer, &map, 9_000, one | other << 32, 0).1;
    assert_eq!(drawn(1, 2), ShardId(1));
    assert_eq!(drawn(2, 1), ShardId(1));
    assert_eq!(drawn(2, 5), ShardId(5), "of the same server as 1");
    assert_eq!(drawn(2, 6), ShardId(2), "the first of equals");
    assert_eq!(drawn(3, 7), ShardId(3));
    assert_eq!(drawn(0, 4), ShardId(0), "nobody has less than this one");
}

#[test]
fn what_a_message_says_of_its_server_counts() {
    let map = even(4);
    let mut placer = first(&map);
    let alone = gives_from(&mut placer, &map);
    placer.learn(&map, ShardId(1), 316);
    assert_eq!(gives_from(&mut placer, &map), alone + 100);
    // So it does from another of its shards, and if it is less; later reports count as well.
    placer.learn(&map, ShardId(5), 616);
    assert_eq!(gives_from(&mut placer, &map), alone + 200);
    placer.learn(&map, ShardId(9), 16);
    assert_eq!(gives_from(&mut placer, &map), alone);
    placer.learn(&map, ShardId(1), 316);
    placer.hear(&map, &told(&[0, 16, 16, 16]));
    assert_eq!(gives_from(&mut placer, &map), alone);
    // Of another shard of the own server the placer knows better.
    placer.learn(&map, ShardId(4), 100_000);
    assert_eq!(gives_from(&mut placer, &map), alone);
}

/// Servers without reports: what the messages say that making something takes is enough.
#[test]
fn a_tree_spreads_by_what_its_own_messages_say() {
    let map = even(16);
    let own = |shard: u16| u64::from(shard == 0) * OBJECTS_OF_A_DIRECTORY;
    let mut placers: Vec<Placer> = (0..16)
        .map(|shard| Placer::new(&map, ShardId(shard), own(shard)))
        .collect();
    let mut held: Vec<u64> = (0..16).map(own).collect();
    let (mut state, mut given) = (1_u64, 0);
    let mut draw = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state ^ (state >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 3
    };
    // Each directory is made in one of the latest.
    let mut made = vec![0_usize];
    for _ in 0..32_000 {
        let latest = made.len().min(8) as u64;
        let here = made[made.len() - 1 - (draw() % latest) as usize];
        let near = Some(ShardId(here as u16));
        placers[here].holds(held[here]);
        let there = placers[here].placing(&map, draw(), near).shard;
        let there = usize::from(map.server_of(there).0);
        held[there] += OBJECTS_OF_A_DIRECTORY;
        if here != there {
            given += 1;
            placers[there].learn(&map, ShardId(here as u16), held[here]);
            placers[here].learn(&map, ShardId(there as u16), held[there]);
        }
        made.push(there);
    }
    let mean = held.iter().sum::<u64>() / 16;
    let most = held.iter().max().unwrap();
    assert!(*most <= mean * 3 / 2, "{held:?}");
    assert!(given < 1_600, "{given} borders");
}

#[test]
fn files_are_kept_together_up_to_a_part_of_what_a_server_has() {
    let map = even(2);
    let mut placer = first(&map);
    placer.hear(&map, &told(&[0, 639_984]));
    assert_eq!(placer.granularity(), size(6, 256, 20_000));
    placer.hear(&map, &told(&[u64::MAX, u64::MAX]));
    assert_eq!(placer.granularity().file_width, 1 << 20);
    let parent = GrainState {
        file_num: 20_000,
        ..GrainState::root(ShardId(0))
    };
    assert_eq!(place_file(20_000, &parent, ShardId(9)).shard, ShardId(9));
}

#[test]
fn the_bounds_are_those_of_the_file_system() {
    let mut map = even(2);
    map.policy = DirPolicy::Adaptive(crate::DirBounds {
        least_depth: 2,
        most_depth: 3,
        least_width: 5,
        most_width: 7,
    });
    map.settings.file_policy = FilePolicy::Adaptive(crate::FileBounds { least: 3, most: 4 });
    let mut placer = first(&map);
    assert_eq!(placer.granularity(), size(3, 7, 3));
    placer.holds(10_000);
    assert_eq!(placer.granularity(), size(2, 5, 4));
}

#[test]
fn a_server_that_starts_takes_the_others_to_have_as_much() {
    let map = even(4);
    let mut placer = Placer::new(&map, ShardId(0), 10_000);
    // 160,000 on its 16 shards, and all others. With 71,000 more here, and then 72,000, the mean is 177,750 and 178,000.
    assert_eq!(placer.held(), 160_000);
    for (held, depth) in [(231_000, LARGE.0), (232_000, SMALL.0)] {
        placer.holds(held);
        assert_eq!(placer.granularity().dir_depth, depth);
    }
    let mut heavy = even(4);
    heavy.servers[0].weight *= 3;
    let placer = Placer::new(&heavy, ShardId(0), 10_000);
    assert_eq!(placer.granularity().dir_depth, LARGE.0);
}

#[test]
fn who_has_told_nothing_has_what_is_known() {
    let map = even(2);
    let mut placer = first(&map);
    placer.hear(&map, &told(&[0, 5_000]));
    let before = gives_from(&mut placer, &map);
    placer.hear(&map, &told(&[0]));
    assert_eq!(gives_from(&mut placer, &map), before);
}

#[test]
fn what_is_told_of_the_own_server_is_known_better() {
    let map = even(4);
    let mut placer = first(&map);
    placer.hear(&map, &told(&[0, 10_000, 10_000, 10_000]));
    let before = gives_from(&mut placer, &map);
    placer.hear(&map, &told(&[15_000, 10_000, 10_000, 10_000]));
    assert_eq!(gives_from(&mut placer, &map), before);
}

#[test]
fn a_server_of_more_weight_is_to_have_more_however_many_shards_it_leads() {
    let mut map = even(2);
    map.servers[0].weight *= 3;
    let mut placer = first(&map);
    placer.hear(&map, &told(&[30_000, 10_000]));
    assert_eq!(
        placing(&mut placer, &map, 30_000, DRAW, 0),
        (LARGE, ShardId(0))
    );
    let mut placer = Placer::new(&map, ShardId(1), OBJECTS_OF_A_DIRECTORY);
    placer.hear(&map, &told(&[30_000, 10_000]));
    assert_eq!(
        placing(&mut placer, &map, 10_000, DRAW, 1),
        (LARGE, ShardId(1))
    );
    // Its part is a quarter: this is 30 % more, and then some.
    assert_eq!(
        placing(&mut placer, &map, 19_000, 0, 1),
        (SMALL, ShardId(0))
    );
}

#[test]
fn requests_count_beside_objects_when_there_are_many() {
    let map = even(2);
    let mut placer = first(&map);
    placer.holds(10_000);
    for (requests, expected) in [(1_999, LARGE), (200_000, SMALL)] {
        let mut loads = told(&[10_000, 10_000]);
        loads.get_mut(&ServerId(0)).unwrap().requests = requests;
        placer.hear(&map, &loads);
        let there = u16::from(expected == SMALL);
        let placed = placing(&mut placer, &map, 10_001, 1, 0);
        assert_eq!(placed, (expected, ShardId(there)), "{requests}");
    }
}

/// Requests are added to objects, and are no reason to have more of those.
#[test]
fn a_server_that_nobody_asks_has_its_part_of_the_objects() {
    let map = even(2);
    let mut placer = first(&map);
    for (requests, busy_elsewhere) in [([0, 0], false), ([0, 200_000], true)] {
        let mut loads = told(&[0, 100_000]);
        for (server, requests) in (0..).zip(requests) {
            loads.get_mut(&ServerId(server)).unwrap().requests = requests;
        }
        placer.hear(&map, &loads);
        // 186,000 of 286,000 are 30 % over the mean.
        assert_eq!(
            placing(&mut placer, &map, 185_000, 1, 0),
            (LARGE, ShardId(0))
        );
        // Where the other is the busier one it is not given anything.
        let there = ShardId(u16::from(!busy_elsewhere));
        assert_eq!(placing(&mut placer, &map, 187_000, 1, 0), (SMALL, there));
    }
}

#[test]
fn no_load_is_too_large() {
    let mut map = even(2);
    map.servers[0].weight = u32::MAX;
    let largest = ServerLoad {
        objects: u64::MAX,
        requests: u64::MAX,
    };
    let all = [(ServerId(0), largest), (ServerId(1), largest)];
    for objects in [0, u64::MAX] {
        let mut placer = Placer::new(&map, ShardId(1), objects);
        placer.hear(&map, &all.into_iter().collect());
        placer.learn(&map, ShardId(0), u64::MAX);
        placer.holds(u64::MAX);
        let _ = placer.placing(&map, u64::MAX, Some(ShardId(0)));
    }
}
