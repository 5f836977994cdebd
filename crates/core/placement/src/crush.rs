//! Leading servers of shards: quotas by weight, dealt by the straws of CRUSH.
//!
//! Straw2 is from S. Weil et al., "CRUSH: Controlled, Scalable, Decentralized Placement of Replicated Data", SC 2006, as
//! Ceph has documented it since its release "Hammer": a shard draws a straw for each server, and goes to the longest.
//! Draws are even on the average only, and a cluster has few shards. So each server has a quota (`quotas`), and shards
//! and servers are matched as in D. Gale and L. Shapley, "College Admissions and the Stability of Marriage", 1962: a
//! shard asks for the server of its longest straw, a server keeps as many as its quota of those that drew the longest
//! straws for it, and a rejected shard asks for the server of the next longest.
//!
//! Both sides go by the same straws, so only one matching is stable: that which deals the longest of all straws first,
//! and goes on with the longest of shards without a server for servers with room. When a server joins, others lose the
//! shards that drew the shortest straws for them, most of them to it; a server from which it takes a shard in the place
//! of another one takes that from a third, so a few more move than have to.

use crate::cluster::ServerInfo;
use pandofs_types::{ServerId, ShardId};
use quotas::quotas;
use std::cmp::Reverse;
use straws::{Key, Straw, draw, least_drawn};

/// Straws of each shard that are sorted at first, on the average. Each time that shards are left twice as many are.
const STRAWS_AT_FIRST: u64 = 8;
/// Straws that are sorted at once, however short: a few megabytes.
const STRAWS_AT_ONCE: usize = 1 << 16;

/// The server of each of `shards` shards.
///
/// The order of `servers` makes no difference. A server of weight 0 leads no shard.
///
/// # Panics
/// When no server has a positive weight.
pub fn crush_map(shards: u16, servers: &[ServerInfo]) -> Vec<ServerId> {
    let mut leading: Vec<&ServerInfo> = servers.iter().filter(|server| server.weight > 0).collect();
    assert!(!leading.is_empty(), "no server may lead shards");
    leading.sort_by_key(|server| server.id);
    let quotas = quotas(shards, &leading);
    let with_quota = leading.into_iter().zip(quotas);
    deal(
        shards,
        with_quota
            .map(|(server, room)| Seat {
                server: server.id,
                key: Key::of_server(server.id),
                weight: server.weight,
                room,
            })
            .collect(),
    )
}

/// A server, and the number of shards that it may still be given.
struct Seat {
    server: ServerId,
    key: Key,
    weight: u32,
    room: u32,
}

/// Deals shards by the longest straw. Those of 10,000 servers are hundreds of millions, of which most are too short to
/// count, so only the longest are kept and sorted, and shorter ones of what is left then.
fn deal(shards: u16, mut seats: Vec<Seat>) -> Vec<ServerId> {
    let mut leaders: Vec<Option<ServerId>> = vec![None; usize::from(shards)];
    let mut waiting: Vec<(u16, Key)> = (0..shards)
        .map(|shard| (shard, Key::of_shard(ShardId(shard))))
        .collect();
    let mut wanted = STRAWS_AT_FIRST;
    loop {
        seats.retain(|seat| seat.room > 0);
        waiting.retain(|(shard, _)| leaders[usize::from(*shard)].is_none());
        if waiting.is_empty() {
            break;
        }
        let mut straws = longest(&waiting, &seats, wanted);
        straws.sort_by_key(|&(straw, shard, seat)| (Reverse(straw), shard, seat));
        for (_, shard, seat) in straws {
            let (leader, seat) = (&mut leaders[usize::from(shard)], &mut seats[seat]);
            if leader.is_none() && seat.room > 0 {
                *leader = Some(seat.server);
                seat.room -= 1;
            }
        }
        wanted *= 2;
    }
    let all = leaders.into_iter().flatten().collect::<Vec<_>>();
    assert!(all.len() == usize::from(shards), "a shard without a server");
    all
}

/// The longest straws of these shards for these servers, `wanted` of each shard on the average, or all of few.
fn longest(waiting: &[(u16, Key)], seats: &[Seat], wanted: u64) -> Vec<(Straw, u16, usize)> {
    let whole = seats.iter().map(|seat| u64::from(seat.weight)).sum();
    let all = waiting.len().saturating_mul(seats.len()) <= STRAWS_AT_ONCE;
    let mut longest = Vec::new();
    for (at, seat) in seats.iter().enumerate() {
        let least = if all {
            0
        } else {
            least_drawn(wanted, seat.weight, whole)
        };
        for &(shard, key) in waiting {
            let drawn = draw(key, seat.key);
            if drawn >= least {
                longest.push((Straw::new(drawn, seat.weight), shard, at));
            }
        }
    }
    longest
}

mod quotas;
mod straws;
#[cfg(test)]
mod tests;
