//! Quotas: the number of shards that each server leads, by its weight and as exactly as whole shards allow.
//!
//! A server's share is `shards * weight / all weights`. The largest remainders are rounded up and the others down, of
//! failure domains first and then of each domain's servers: a domain has its share rounded up or down, so has each of its
//! servers, and all quotas together are the number of shards.

use crate::cluster::ServerInfo;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Returns the number of shards of each of these servers, all with a weight above 0. Servers of one weight differ by one
/// at most.
///
/// If there are as many shards as servers, each has one at least: a server whose share is less than one has just one, and
/// the others share what is left by their weights. With fewer shards, those of the lower numbers come first where weights
/// are equal.
pub(super) fn quotas(shards: u16, servers: &[&ServerInfo]) -> Vec<u32> {
    let mut quotas = vec![0; servers.len()];
    let mut left = u64::from(shards);
    let mut sharing: Vec<usize> = (0..servers.len()).collect();
    if servers.len() <= usize::from(shards) {
        loop {
            let whole = sum(&sharing, servers);
            // The heaviest does not: there are as many shards left as servers that share them.
            let has_less_than_one =
                |server: &usize| u128::from(left) * weight(servers, *server) < whole;
            let (small, others): (Vec<usize>, _) = sharing.into_iter().partition(has_less_than_one);
            sharing = others;
            if small.is_empty() {
                break;
            }
            left -= small.len() as u64;
            for server in small {
                quotas[server] = 1;
            }
        }
    }
    for (server, quota) in rounded(left, &sharing, servers) {
        quotas[server] = quota;
    }
    let given: u64 = quotas.iter().map(|&quota| u64::from(quota)).sum();
    assert!(given == u64::from(shards), "{given} of {shards} shards");
    quotas
}

fn weight(servers: &[&ServerInfo], server: usize) -> u128 {
    u128::from(servers[server].weight)
}

fn sum(of: &[usize], servers: &[&ServerInfo]) -> u128 {
    of.iter().map(|&server| weight(servers, server)).sum()
}

/// An exact number of shards: the whole ones, and what remains of one in parts of the weight of all servers.
struct Share {
    whole: u64,
    remainder: u128,
}

/// Shares of all domains, and of their servers, rounded.
fn rounded(shards: u64, sharing: &[usize], servers: &[&ServerInfo]) -> Vec<(usize, u32)> {
    let all = sum(sharing, servers);
    let share = |weight: u128| Share {
        whole: (u128::from(shards) * weight / all) as u64,
        remainder: u128::from(shards) * weight % all,
    };
    let mut domains: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for &server in sharing {
        domains
            .entry(&servers[server].domain)
            .or_default()
            .push(server);
    }
    // By the first of their servers, so that the order of names, in which 10 is before 9, decides nothing.
    let mut domains: Vec<Vec<usize>> = domains.into_values().collect();
    domains.sort();
    let of_domains: Vec<Share> = domains
        .iter()
        .map(|domain| share(sum(domain, servers)))
        .collect();
    let of_domains = round(shards, &of_domains);
    let of_servers = domains
        .into_iter()
        .zip(of_domains)
        .flat_map(|(domain, quota)| {
            let shares = domain.iter().map(|&server| share(weight(servers, server)));
            let shares: Vec<Share> = shares.collect();
            let quotas = round(quota, &shares);
            domain.into_iter().zip(quotas)
        });
    of_servers
        .map(|(server, quota)| (server, quota as u32))
        .collect()
}

/// Rounds these shares to `shards` in all: the largest remainders up, of equal ones the first.
fn round(shards: u64, shares: &[Share]) -> Vec<u64> {
    let mut rounded: Vec<u64> = shares.iter().map(|share| share.whole).collect();
    let whole: u64 = rounded.iter().sum();
    let up = (shards - whole) as usize;
    let mut order: Vec<usize> = (0..shares.len()).collect();
    order.sort_by_key(|&at| Reverse(shares[at].remainder));
    // As many as remainders at most: a domain's share is the sum of those of its servers.
    assert!(up <= order.len(), "{up} shares of {} up", order.len());
    for at in &order[..up] {
        assert!(shares[*at].remainder > 0, "a whole share is rounded up");
        rounded[*at] += 1;
    }
    rounded
}

#[cfg(test)]
mod tests {
    use super::*;
    use pandofs_types::ServerId;
    use proptest::prelude::*;

    fn servers(of: &[(u32, u16)]) -> Vec<ServerInfo> {
        let all = (0..).zip(of);
        all.map(|(id, &(weight, domain))| ServerInfo {
            id: ServerId(id),
            addresses: vec![],
            weight,
            domain: format!("rack-{domain}"),
        })
        .collect()
    }

    fn quotas_of(shards: u16, of: &[(u32, u16)]) -> Vec<u32> {
        let servers = servers(of);
        quotas(shards, &servers.iter().collect::<Vec<_>>())
    }

    fn alone(weights: &[u32]) -> Vec<(u32, u16)> {
        weights.iter().copied().zip(0..).collect()
    }

    #[test]
    fn equal_servers_differ_by_one_at_most() {
        assert_eq!(quotas_of(64, &alone(&[7; 4])), [16; 4]);
        assert_eq!(quotas_of(64, &alone(&[7; 5])), [13, 13, 13, 13, 12]);
        for count in 1..=200 {
            for shards in [1, 32, 64, 256] {
                let quotas = quotas_of(shards, &alone(&vec![3; count]));
                let (least, most) = (quotas.iter().min(), quotas.iter().max());
                assert!(most <= least.map(|least| least + 1).as_ref());
            }
        }
    }

    #[test]
    fn shares_are_by_weight_and_the_largest_remainders_are_rounded_up() {
        assert_eq!(quotas_of(16, &alone(&[1, 1, 2])), [4, 4, 8]);
        // 10 2/3, 21 1/3, 32.
        assert_eq!(quotas_of(64, &alone(&[1, 2, 3])), [11, 21, 32]);
        // Each 10 2/3, a domain 21 1/3 or 42 2/3.
        let racks = [(1, 1), (1, 0), (1, 0), (1, 0), (1, 0), (1, 1)];
        assert_eq!(quotas_of(64, &racks), [11, 11, 11, 11, 10, 10]);
    }

    #[test]
    fn who_has_less_than_one_has_one_and_the_others_share_the_rest() {
        assert_eq!(quotas_of(8, &alone(&[1, u32::MAX, u32::MAX])), [1, 4, 3]);
        // 0.9, 0.9, 1.05 and 1.15: the third has less than one of what is left of the first two.
        assert_eq!(quotas_of(4, &alone(&[90, 90, 105, 115])), [1, 1, 1, 1]);
    }

    #[test]
    fn with_fewer_shards_than_servers_the_first_of_each_domain_have_them() {
        assert_eq!(quotas_of(2, &alone(&[1; 4])), [1, 1, 0, 0]);
        assert_eq!(
            quotas_of(2, &[(1, 0), (1, 0), (1, 1), (1, 1)]),
            [1, 0, 1, 0]
        );
        assert_eq!(quotas_of(1, &alone(&[1, 2])), [0, 1]);
    }

    fn clusters() -> impl Strategy<Value = Vec<(u32, u16)>> {
        let weight = prop_oneof![1..=8_u32, 1..=1_000_000_u32, 1..=u32::MAX];
        prop::collection::vec((weight, 0..6_u16), 1..40)
    }

    proptest! {
        /// Of those that share by weight; a share of less than one is one, if there are enough.
        #[test]
        fn quotas_are_shares_rounded(of in clusters(), shards in 1..2_000_u16) {
            let quotas = quotas_of(shards, &of);
            prop_assert_eq!(quotas.iter().sum::<u32>(), u32::from(shards));
            let enough = of.len() <= usize::from(shards);
            prop_assert!(!enough || quotas.iter().all(|&quota| quota > 0));
            // A server that was given one has too much; the others share what is left of all shards.
            let mut given = vec![false; of.len()];
            let (mut left, mut whole): (u128, u128) = (0, 0);
            for _ in 0..=of.len() {
                let sharing = || (0..of.len()).filter(|&at| !given[at]);
                left = u128::from(shards) - (of.len() - sharing().count()) as u128;
                whole = sharing().map(|at| u128::from(of[at].0)).sum();
                let small = |at: &usize| enough && left * u128::from(of[*at].0) < whole;
                let Some(at) = sharing().find(small) else { break };
                given[at] = true;
            }
            for (at, &(weight, _)) in of.iter().enumerate() {
                let exact = left * u128::from(weight);
                let quota = u128::from(quotas[at]);
                if given[at] {
                    prop_assert_eq!(quota, 1);
                } else {
                    prop_assert!((exact / whole..=exact.div_ceil(whole)).contains(&quota));
                }
            }
            for domain in 0..6 {
                let own = || (0..of.len()).filter(|&at| of[at].1 == domain && !given[at]);
                let quota: u128 = own().map(|at| u128::from(quotas[at])).sum();
                let exact = left * own().map(|at| u128::from(of[at].0)).sum::<u128>();
                prop_assert!((exact / whole..=exact.div_ceil(whole)).contains(&quota));
            }
        }

        #[test]
        fn more_weight_is_no_fewer_shards_within_a_domain(of in clusters(), shards in 1..2_000_u16) {
            let quotas = quotas_of(shards, &of);
            for (at, &(weight, domain)) in of.iter().enumerate() {
                for (other, &(others, its)) in of.iter().enumerate() {
                    if domain == its && weight >= others {
                        let slack = u32::from(weight == others);
                        prop_assert!(quotas[at] + slack >= quotas[other]);
                    }
                }
            }
        }
    }
}
