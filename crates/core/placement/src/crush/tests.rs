use super::*;
use proptest::prelude::*;

const ONE: u32 = ServerInfo::WEIGHT_ONE;
/// Shards: enough for fractions to be measured, far from where servers must be given any.
const MANY: u16 = 16_384;
/// Standard deviations by which a count of draws may be off: one in 500 million is.
const SLACK_DEVIATIONS: f64 = 6.0;

fn server(id: u16, weight: u32, domain: &str) -> ServerInfo {
    ServerInfo {
        id: ServerId(id),
        addresses: vec![],
        weight,
        domain: domain.into(),
    }
}

/// Each server a failure domain of its own.
fn flat(weights: &[u32]) -> Vec<ServerInfo> {
    let servers = weights.iter().enumerate();
    servers
        .map(|(id, &weight)| server(id as u16, weight, &format!("rack-{id}")))
        .collect()
}

/// The first server of the `n`th domain has number `16 * n`.
fn grouped(domains: &[Vec<u32>]) -> Vec<ServerInfo> {
    let mut servers = Vec::new();
    for (number, weights) in domains.iter().enumerate() {
        for (place, &weight) in weights.iter().enumerate() {
            servers.push(server(
                (16 * number + place) as u16,
                weight,
                &format!("rack-{number}"),
            ));
        }
    }
    servers
}

fn led(leaders: &[ServerId], server: ServerId) -> usize {
    leaders.iter().filter(|&&leader| leader == server).count()
}

/// The part of the shards whose server differs.
fn moved(before: &[ServerId], after: &[ServerId]) -> f64 {
    assert_eq!(before.len(), after.len());
    let moved = before
        .iter()
        .zip(after)
        .filter(|(before, after)| before != after)
        .count();
    moved as f64 / before.len() as f64
}

fn share(servers: &[ServerInfo], id: ServerId) -> f64 {
    let total: f64 = servers.iter().map(|server| f64::from(server.weight)).sum();
    let own = servers
        .iter()
        .filter(|server| server.id == id)
        .map(|server| f64::from(server.weight));
    own.sum::<f64>() / total
}

/// The part of the shards that has to move for every server to have its share.
fn least_movement(before: &[ServerInfo], after: &[ServerInfo]) -> f64 {
    let gain = |server: &ServerInfo| (share(after, server.id) - share(before, server.id)).max(0.0);
    after.iter().map(gain).sum()
}

fn assert_balanced(servers: &[ServerInfo]) {
    let leaders = crush_map(MANY, servers);
    for server in servers {
        let expected = share(servers, server.id) * f64::from(MANY);
        let slack = SLACK_DEVIATIONS * expected.sqrt() + 1.0;
        let led = led(&leaders, server.id) as f64;
        assert!(
            (led - expected).abs() <= slack,
            "{} leads {led}, not {expected}",
            server.id
        );
    }
}

/// No more moves than `times` the least, but for the slack of as many draws.
fn assert_little_moves(before: &[ServerInfo], after: &[ServerInfo], times: f64) {
    let least = least_movement(before, after);
    let moved = moved(&crush_map(MANY, before), &crush_map(MANY, after));
    let slack = SLACK_DEVIATIONS * (least / f64::from(MANY)).sqrt() + 1.0 / f64::from(MANY);
    assert!(
        moved <= times * least + slack,
        "{moved} moved, least {least}"
    );
}

#[test]
fn logarithms_are_right_to_a_millionth() {
    for exponent in 0..=32 {
        assert_eq!(log2(1 << exponent), exponent << LOG_FRACTION_BITS);
    }
    for value in (1..100_000).chain((1 << 32) - 1_000..1 << 32) {
        let expected = (value as f64).log2();
        let got = log2(value) as f64 / (1_u64 << LOG_FRACTION_BITS) as f64;
        assert!(
            (got - expected).abs() < 1e-6,
            "log2({value}) is {expected}, not {got}"
        );
        assert!(log2(value) <= log2(value + 1));
    }
    assert_eq!(shortfall(1 << STRAW_HASH_BITS), 0);
}

#[test]
fn equal_servers_lead_equal_parts() {
    for servers in [1, 2, 3, 4, 8, 17, 64] {
        assert_balanced(&flat(&vec![ONE; servers]));
    }
}

#[test]
fn servers_lead_by_weight() {
    assert_balanced(&flat(&[ONE, 2 * ONE, 3 * ONE, ONE / 2, 0]));
    assert_balanced(&flat(&[1, 2, 3, 4]));
    assert_balanced(&flat(&[u32::MAX, u32::MAX / 3, u32::MAX]));
    assert_balanced(&grouped(&[
        vec![ONE; 4],
        vec![ONE, 3 * ONE],
        vec![ONE / 2; 3],
    ]));
}

#[test]
fn a_server_of_weight_zero_leads_nothing() {
    let leaders = crush_map(64, &flat(&[ONE, 0, ONE]));
    assert_eq!(led(&leaders, ServerId(1)), 0);
}

#[test]
#[should_panic(expected = "no server may lead")]
fn somebody_must_lead() {
    crush_map(64, &flat(&[0, 0]));
}

/// With each server in its own domain, nothing moves but to a server that joins and from one that
/// leaves: the least that restores the balance.
#[test]
fn shards_move_only_to_the_one_that_joins_and_from_the_one_that_leaves() {
    let five = flat(&[ONE; 5]);
    let four = &five[..4];
    let (with, without) = (crush_map(MANY, &five), crush_map(MANY, four));
    for (with, without) in with.iter().zip(&without) {
        assert!(with == without || *with == ServerId(4));
    }
    assert_little_moves(four, &five, 1.0);
    assert_little_moves(&five, four, 1.0);
}

/// The shards that a domain has drawn for itself, so the shards of the others, and which of their
/// servers leads each, depend on it in nothing else.
#[test]
fn of_a_domain_that_joins_or_leaves_only_its_own_shards_move() {
    let two = [vec![ONE, 2 * ONE], vec![ONE, ONE, ONE]];
    let mut three = two.to_vec();
    three.push(vec![ONE / 2, 3 * ONE]);
    let (before, after) = (grouped(&two), grouped(&three));
    assert_little_moves(&before, &after, 1.0);
    assert_little_moves(&after, &before, 1.0);
    let (was, is) = (crush_map(MANY, &before), crush_map(MANY, &after));
    for (was, is) in was.iter().zip(&is).filter(|(was, is)| was != is) {
        assert!(is.0 >= 32, "shard of {was} went to {is}");
    }
}

#[test]
fn the_order_of_the_servers_makes_no_difference() {
    let mut servers = grouped(&[vec![ONE; 3], vec![ONE, 2 * ONE], vec![ONE]]);
    let before = crush_map(512, &servers);
    servers.reverse();
    assert_eq!(crush_map(512, &servers), before);
}

#[test]
fn every_server_leads_a_shard_while_there_are_enough() {
    for servers in 1..=64 {
        for shards in [servers as u16, 64, 128] {
            let leaders = crush_map(shards, &flat(&vec![ONE; servers]));
            for id in 0..servers {
                assert!(
                    led(&leaders, ServerId(id as u16)) >= 1,
                    "{servers} servers, {shards} shards"
                );
            }
        }
    }
    // A weight that would hardly ever win is enough.
    let leaders = crush_map(8, &flat(&[1, u32::MAX, u32::MAX, u32::MAX]));
    assert_eq!(led(&leaders, ServerId(0)), 1);
}

#[test]
fn with_fewer_shards_than_servers_nothing_is_changed() {
    let servers = flat(&[ONE; 64]);
    let domains = domains(&servers);
    let drawn: Vec<ServerId> = (0..32)
        .map(|shard| choose_server(ShardId(shard), &domains))
        .collect();
    assert_eq!(crush_map(32, &servers), drawn);
}

/// Giving servers their first shard moves as many shards as there were servers without.
#[test]
fn the_repair_is_minimal() {
    let mut repaired = 0;
    for servers in 2..=64_usize {
        let servers = flat(&vec![ONE; servers]);
        let domains = domains(&servers);
        let drawn: Vec<ServerId> = (0..64)
            .map(|shard| choose_server(ShardId(shard), &domains))
            .collect();
        let without = servers
            .iter()
            .filter(|server| led(&drawn, server.id) == 0)
            .count();
        let leaders = crush_map(64, &servers);
        let changed = drawn
            .iter()
            .zip(&leaders)
            .filter(|(drawn, leader)| drawn != leader)
            .count();
        assert_eq!(changed, without);
        repaired += without;
    }
    assert!(repaired > 0);
}

/// A cluster map keeps the result, but two programs that make one from the same servers must agree.
#[test]
fn the_mapping_is_pinned() {
    let leaders: Vec<u16> = crush_map(32, &flat(&[ONE; 4]))
        .iter()
        .map(|leader| leader.0)
        .collect();
    assert_eq!(leaders, PINNED_FLAT);
    let leaders = crush_map(16, &grouped(&[vec![ONE, 2 * ONE], vec![ONE]]));
    assert_eq!(
        leaders.iter().map(|leader| leader.0).collect::<Vec<_>>(),
        PINNED_GROUPED
    );
}

const PINNED_FLAT: [u16; 32] = [
    1, 1, 1, 1, 3, 1, 1, 2, 1, 1, 0, 2, 1, 1, 1, 3, 1, 1, 3, 2, 3, 3, 1, 3, 0, 0, 1, 1, 0, 0, 1, 0,
];
const PINNED_GROUPED: [u16; 16] = [16, 16, 16, 1, 0, 0, 16, 1, 1, 16, 1, 1, 1, 16, 1, 1];

fn weights(max: usize) -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(ONE / 4..4 * ONE, 2..=max)
}

fn hierarchies() -> impl Strategy<Value = Vec<Vec<u32>>> {
    prop::collection::vec(prop::collection::vec(ONE / 4..4 * ONE, 1..=4), 2..=4)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn any_servers_are_balanced(hierarchy in hierarchies()) {
        assert_balanced(&grouped(&hierarchy));
    }

    #[test]
    fn little_moves_when_a_server_changes(
        weights in weights(10),
        which: prop::sample::Index,
        weight in 0..8 * ONE,
    ) {
        let before = flat(&weights);
        let mut after = before.clone();
        let last = after.len() - 1;
        after[which.index(last)].weight = weight;
        assert_little_moves(&before, &after, 1.0);
        assert_little_moves(&before, &before[..last], 1.0);
    }

    #[test]
    fn in_a_hierarchy_no_more_moves_than_its_levels_allow(
        hierarchy in hierarchies(),
        which: prop::sample::Index,
        weight in ONE / 4..4 * ONE,
    ) {
        let before = grouped(&hierarchy);
        let mut joined = hierarchy.clone();
        joined[which.index(hierarchy.len())].push(weight);
        let after = grouped(&joined);
        assert_little_moves(&before, &after, 2.0);
        assert_little_moves(&after, &before, 2.0);
    }
}
