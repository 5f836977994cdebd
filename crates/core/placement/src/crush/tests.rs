use super::*;
use proptest::prelude::*;

const ONE: u32 = ServerInfo::WEIGHT_ONE;
/// Shards: enough for fractions to be measured.
const MANY: u16 = 16_384;

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

fn led(leaders: &[ServerId], server: ServerId) -> u32 {
    leaders.iter().filter(|&&leader| leader == server).count() as u32
}

fn quotas_of(shards: u16, servers: &[ServerInfo]) -> Vec<u32> {
    let mut leading: Vec<&ServerInfo> = servers.iter().filter(|server| server.weight > 0).collect();
    leading.sort_by_key(|server| server.id);
    let quotas = quotas(shards, &leading);
    let quota = |server: &ServerInfo| {
        let at = leading.iter().position(|leading| leading.id == server.id);
        at.map_or(0, |at| quotas[at])
    };
    servers.iter().map(quota).collect()
}

fn assert_dealt_by_quotas(shards: u16, servers: &[ServerInfo]) {
    let leaders = crush_map(shards, servers);
    assert_eq!(leaders.len(), usize::from(shards));
    for (server, quota) in servers.iter().zip(quotas_of(shards, servers)) {
        assert_eq!(led(&leaders, server.id), quota, "{}", server.id);
    }
}

/// Shards whose server differs, and the least with which each server comes to its quota.
fn moves(shards: u16, before: &[ServerInfo], after: &[ServerInfo]) -> (u32, u32) {
    let (was, is) = (crush_map(shards, before), crush_map(shards, after));
    let moved = was.iter().zip(&is).filter(|(was, is)| was != is).count();
    let gain = |server: &ServerInfo| led(&is, server.id).saturating_sub(led(&was, server.id));
    (moved as u32, after.iter().map(gain).sum())
}

#[test]
fn sixty_four_shards_on_four_servers_are_sixteen_each() {
    let leaders = crush_map(64, &flat(&[ONE; 4]));
    assert_eq!([0, 1, 2, 3].map(|id| led(&leaders, ServerId(id))), [16; 4]);
}

#[test]
fn servers_lead_by_weight() {
    for shards in [64, MANY] {
        assert_dealt_by_quotas(shards, &flat(&[ONE, 2 * ONE, 3 * ONE, ONE / 2, 0]));
        assert_dealt_by_quotas(shards, &flat(&[1, 2, 3, 4]));
        assert_dealt_by_quotas(shards, &flat(&[u32::MAX, u32::MAX / 3, u32::MAX, 1]));
        assert_dealt_by_quotas(
            shards,
            &grouped(&[vec![ONE; 4], vec![ONE, 3 * ONE], vec![ONE / 2; 3]]),
        );
    }
}

#[test]
fn a_server_of_weight_zero_leads_nothing() {
    let leaders = crush_map(64, &flat(&[ONE, 0, ONE]));
    assert_eq!([0, 1, 2].map(|id| led(&leaders, ServerId(id))), [32, 0, 32]);
}

#[test]
#[should_panic(expected = "no server may lead")]
fn somebody_must_lead() {
    crush_map(64, &flat(&[0, 0]));
}

#[test]
fn the_order_of_the_servers_makes_no_difference() {
    let mut servers = grouped(&[vec![ONE; 3], vec![ONE, 2 * ONE], vec![ONE]]);
    let before = crush_map(512, &servers);
    servers.reverse();
    assert_eq!(crush_map(512, &servers), before);
    servers.swap(1, 3);
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
fn with_fewer_shards_than_servers_each_goes_to_another_one() {
    let leaders = crush_map(32, &flat(&[ONE; 64]));
    for id in 0..64 {
        assert!(led(&leaders, ServerId(id)) <= 1);
    }
}

/// As many as the formats allow, and each a domain of its own, so that nothing narrows down whom a shard may go to.
#[test]
fn ten_thousand_servers_share_all_shards_there_may_be() {
    use pandofs_types::limits::MAX_SHARDS;
    let servers = flat(&[ONE; 10_000]);
    let leaders = crush_map(MAX_SHARDS, &servers);
    let mut counts = vec![0_u32; servers.len()];
    for leader in leaders {
        counts[usize::from(leader.0)] += 1;
    }
    // 3.2768 each.
    assert_eq!(counts.iter().filter(|&&count| count == 4).count(), 2_768);
    assert_eq!(counts.iter().filter(|&&count| count == 3).count(), 7_232);
}

/// One server more of the same weight. The bounds are those of what was seen, with a fifth more; the least is what
/// quotas alone demand.
#[test]
fn few_more_shards_move_than_have_to_when_a_server_joins() {
    for (shards, servers, bound) in MOVES {
        let after = flat(&vec![ONE; servers + 1]);
        let (moved, least) = moves(shards, &after[..servers], &after);
        let times = f64::from(moved) / f64::from(least);
        assert!(times <= bound, "{shards} on {servers}: {times}");
        println!("{shards} shards, from {servers} servers: {times:.2} times the least");
    }
}

/// Shards, servers before, and the bound of moves over the least.
const MOVES: [(u16, usize, f64); 7] = [
    (64, 1, 1.0),
    (64, 4, 1.6),
    (64, 8, 1.6),
    (64, 16, 3.6),
    (1_024, 4, 1.25),
    (1_024, 16, 1.6),
    (MANY, 4, 1.2),
];

/// A cluster map keeps the result, but two programs that make one from the same servers must agree.
#[test]
fn the_mapping_is_pinned() {
    let leaders = |shards, servers: &[ServerInfo]| -> Vec<u16> {
        let leaders = crush_map(shards, servers);
        leaders.iter().map(|leader| leader.0).collect()
    };
    assert_eq!(leaders(32, &flat(&[ONE; 4])), PINNED_FLAT);
    let racks = grouped(&[vec![ONE, 2 * ONE], vec![ONE]]);
    assert_eq!(leaders(16, &racks), PINNED_GROUPED);
}

const PINNED_FLAT: [u16; 32] = [
    0, 3, 2, 1, 1, 3, 3, 0, 3, 0, 0, 1, 3, 0, 2, 2, 3, 1, 2, 2, 0, 3, 0, 0, 2, 3, 2, 2, 1, 1, 1, 1,
];
const PINNED_GROUPED: [u16; 16] = [16, 1, 1, 1, 16, 1, 1, 1, 0, 0, 0, 1, 1, 16, 16, 0];

fn hierarchies() -> impl Strategy<Value = Vec<Vec<u32>>> {
    prop::collection::vec(prop::collection::vec(ONE / 4..4 * ONE, 1..=4), 2..=4)
}

/// Equal weights and all there are, so that some straws are far shorter than others of the same length of hash.
fn weights() -> impl Strategy<Value = Vec<u32>> {
    let weight = prop_oneof![Just(ONE), 1..8_u32, 1..=u32::MAX];
    prop::collection::vec(weight, 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn any_servers_have_their_quotas(hierarchy in hierarchies(), shards in 1..3_000_u16) {
        assert_dealt_by_quotas(shards, &grouped(&hierarchy));
    }

    /// No shard and server have a longer straw for each other than for what they have. Thousands of shards make more
    /// straws than are sorted at once, so that this holds across the rounds, too.
    #[test]
    fn the_matching_is_stable(weights in weights(), shards in 1..4_000_u16) {
        let servers = flat(&weights);
        let leaders = crush_map(shards, &servers);
        let straw = |shard: u16, server: ServerId| {
            let (shard_key, server_key) = (Key::of_shard(ShardId(shard)), Key::of_server(server));
            Straw::new(draw(shard_key, server_key), weights[usize::from(server.0)])
        };
        let own: Vec<Straw> = (0..).zip(&leaders).map(|(shard, &of)| straw(shard, of)).collect();
        let mut shortest: Vec<Option<Straw>> = vec![None; servers.len()];
        for (&leader, &straw) in leaders.iter().zip(&own) {
            let shortest = &mut shortest[usize::from(leader.0)];
            *shortest = Some(shortest.map_or(straw, |before| before.min(straw)));
        }
        for (shard, &own) in (0..).zip(&own) {
            for (server, shortest) in servers.iter().zip(&shortest) {
                let Some(shortest) = *shortest else { continue };
                let this = straw(shard, server.id);
                prop_assert!(this <= own || this <= shortest, "{shard} and {}", server.id);
            }
        }
    }

    #[test]
    fn little_moves_when_a_server_changes(
        weights in prop::collection::vec(ONE / 4..4 * ONE, 2..=10),
        which: prop::sample::Index,
        weight in 0..8 * ONE,
    ) {
        let before = flat(&weights);
        let mut after = before.clone();
        let last = after.len() - 1;
        after[which.index(last)].weight = weight;
        for (before, after) in [(&before[..], &after[..]), (&before, &before[..last])] {
            let (moved, least) = moves(MANY, before, after);
            prop_assert!(moved <= least + least / 2 + 16, "{moved} moved, least {least}");
        }
    }

    #[test]
    fn in_a_hierarchy_little_moves_when_a_server_joins(
        hierarchy in hierarchies(),
        which: prop::sample::Index,
        weight in ONE / 4..4 * ONE,
    ) {
        let before = grouped(&hierarchy);
        let mut joined = hierarchy.clone();
        joined[which.index(hierarchy.len())].push(weight);
        let after = grouped(&joined);
        for (before, after) in [(&before, &after), (&after, &before)] {
            let (moved, least) = moves(MANY, before, after);
            prop_assert!(moved <= least + least / 2 + 16, "{moved} moved, least {least}");
        }
    }
}
