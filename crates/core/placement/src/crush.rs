//! Leading servers of shards: CRUSH with straw2 buckets.
//!
//! From the published algorithm: S. Weil et al., "CRUSH: Controlled, Scalable, Decentralized
//! Placement of Replicated Data", SC 2006, for the hierarchy; straw2 as Ceph has documented it
//! since its release "Hammer". Every item of a bucket draws a straw, `ln(u) / weight` with `u`
//! uniform in (0, 1] by a hash of the shard and the item, and the longest wins. The straw of an
//! item depends on nothing but the shard, the item and its weight, so when a weight changes, shards
//! move only to or from that item: no fewer can restore the balance.
//!
//! The hierarchy has two levels: the root holds the failure domains, each with the sum of its
//! servers' weights, and a domain holds its servers. Across levels the movement is bounded by the
//! number of levels times the least: a server that joins draws shards into its domain, of which its
//! neighbours get a part, and draws others from those neighbours.
//!
//! The hash is SipHash-2-4 with the key 0 over the level (`d` or `s`), the shard number and the
//! item (the domain's name, or the server's number; numbers are 16 bits, little-endian); its upper
//! 32 bits, plus 1, over 2^32 are `u`. Logarithms are to the base 2, which changes no comparison,
//! in integer arithmetic: the result is the same on every machine.

use crate::cluster::ServerInfo;
use pandofs_types::{ServerId, ShardId};
use siphasher::sip::SipHasher24;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::hash::Hasher;

/// Bits after the point of a logarithm.
const LOG_FRACTION_BITS: u32 = 40;
/// Bits of the hash that make a straw.
const STRAW_HASH_BITS: u32 = 32;

/// The server of each of `shards` shards.
///
/// The order of `servers` makes no difference. A server of weight 0 leads no shard. With few shards
/// straw2 alone can leave a server without any, so each server of a positive weight that got none
/// is given one afterwards, as long as there are as many shards as such servers: in the order of
/// server numbers, from the server that leads the most, the shard for which its own straw is the
/// longest. Nothing else is evened out, for that would move shards when servers join or leave.
///
/// # Panics
/// When no server has a positive weight.
pub fn crush_map(shards: u16, servers: &[ServerInfo]) -> Vec<ServerId> {
    let domains = domains(servers);
    assert!(!domains.is_empty(), "no server may lead shards");
    let mut leaders: Vec<ServerId> = (0..shards)
        .map(|shard| choose_server(ShardId(shard), &domains))
        .collect();
    give_each_server_a_shard(&mut leaders, &domains);
    leaders
}

/// A failure domain: the servers that may lead shards, in the order of their numbers.
struct Domain<'a> {
    name: &'a str,
    weight: u64,
    servers: Vec<Item>,
}

#[derive(Clone, Copy)]
struct Item {
    id: ServerId,
    weight: u64,
}

fn domains(servers: &[ServerInfo]) -> Vec<Domain<'_>> {
    let mut by_name: BTreeMap<&str, Vec<Item>> = BTreeMap::new();
    for server in servers.iter().filter(|server| server.weight > 0) {
        let item = Item {
            id: server.id,
            weight: u64::from(server.weight),
        };
        by_name.entry(&server.domain).or_default().push(item);
    }
    by_name
        .into_iter()
        .map(|(name, mut servers)| {
            servers.sort_by_key(|server| server.id);
            let weight = servers.iter().map(|server| server.weight).sum();
            Domain {
                name,
                weight,
                servers,
            }
        })
        .collect()
}

fn choose_server(shard: ShardId, domains: &[Domain]) -> ServerId {
    let domain_straw =
        |domain: &Domain| Straw::draw(b'd', shard, domain.name.as_bytes(), domain.weight);
    let server_straw = |server: &Item| Straw::of_server(shard, *server);
    let domain = longest(domains, domain_straw);
    longest(&domain.servers, server_straw).id
}

/// The item with the longest straw, or whatever else is to be largest; the first if there are
/// several.
fn longest<T, L: Ord>(items: &[T], length: impl Fn(&T) -> L) -> &T {
    assert!(!items.is_empty(), "nothing to choose from");
    let mut best = (&items[0], length(&items[0]));
    for item in &items[1..] {
        let candidate = length(item);
        if candidate > best.1 {
            best = (item, candidate);
        }
    }
    best.0
}

fn give_each_server_a_shard(leaders: &mut [ServerId], domains: &[Domain]) {
    let mut servers: Vec<Item> = domains
        .iter()
        .flat_map(|domain| domain.servers.iter().copied())
        .collect();
    if servers.len() > leaders.len() {
        return;
    }
    servers.sort_by_key(|server| server.id);
    let mut led: BTreeMap<ServerId, usize> = servers.iter().map(|server| (server.id, 0)).collect();
    for leader in leaders.iter() {
        *led.entry(*leader).or_default() += 1;
    }
    for &server in &servers {
        if led.get(&server.id) != Some(&0) {
            continue;
        }
        // It leads two at least: there are as many shards as servers, and one server has none.
        let richest = longest(&servers, |server| led.get(&server.id).copied().unwrap_or(0)).id;
        let candidates: Vec<u16> = (0..leaders.len())
            .filter(|&shard| leaders[shard] == richest)
            .map(|shard| shard as u16)
            .collect();
        let shard = *longest(&candidates, |&shard| {
            Straw::of_server(ShardId(shard), server)
        });
        leaders[usize::from(shard)] = server.id;
        *led.entry(richest).or_default() -= 1;
        *led.entry(server.id).or_default() += 1;
    }
}

/// The length of a straw: `-shortfall / weight`, never over 0. Lengths are compared as fractions,
/// so no weight is too small or too large to count.
#[derive(Clone, Copy)]
struct Straw {
    /// `-log2(u)`, with `LOG_FRACTION_BITS` bits after the point.
    shortfall: u64,
    weight: u64,
}

impl Straw {
    fn draw(level: u8, shard: ShardId, item: &[u8], weight: u64) -> Straw {
        let mut hasher = SipHasher24::new_with_keys(0, 0);
        hasher.write(&[level]);
        hasher.write(&shard.0.to_le_bytes());
        hasher.write(item);
        let drawn = (hasher.finish() >> (64 - STRAW_HASH_BITS)) + 1;
        Straw {
            shortfall: shortfall(drawn),
            weight,
        }
    }

    fn of_server(shard: ShardId, server: Item) -> Straw {
        Straw::draw(b's', shard, &server.id.0.to_le_bytes(), server.weight)
    }
}

impl Ord for Straw {
    fn cmp(&self, other: &Straw) -> Ordering {
        let mine = u128::from(self.shortfall) * u128::from(other.weight);
        let theirs = u128::from(other.shortfall) * u128::from(self.weight);
        theirs.cmp(&mine)
    }
}

impl PartialOrd for Straw {
    fn partial_cmp(&self, other: &Straw) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Straw {
    fn eq(&self, other: &Straw) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Straw {}

/// `-log2(drawn / 2^STRAW_HASH_BITS)`, with `LOG_FRACTION_BITS` bits after the point.
fn shortfall(drawn: u64) -> u64 {
    (u64::from(STRAW_HASH_BITS) << LOG_FRACTION_BITS) - log2(drawn)
}

/// The logarithm of `value` to the base 2, with `LOG_FRACTION_BITS` bits after the point, by
/// repeated squaring: the square of a number in [1, 2) reaches 2 when the next bit of its logarithm
/// is 1.
fn log2(value: u64) -> u64 {
    assert!(value > 0, "no logarithm of 0");
    const POINT: u32 = u64::BITS - 1;
    let whole = value.ilog2();
    let mut mantissa = value << (POINT - whole);
    let mut log = u64::from(whole);
    for _ in 0..LOG_FRACTION_BITS {
        let square = u128::from(mantissa) * u128::from(mantissa);
        let carry = (square >> (2 * POINT + 1)) as u32;
        mantissa = (square >> (POINT + carry)) as u64;
        log = log << 1 | u64::from(carry);
    }
    log
}

#[cfg(test)]
mod tests;
