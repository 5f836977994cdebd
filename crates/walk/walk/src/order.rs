//! Order in which an idle rank asks the others for work.

use crate::Algorithm;
use crate::rng::Rng;
use crate::topology::{RankId, Topology};

/// The order of requests of one rank.
#[derive(Debug)]
pub(crate) enum Order {
    /// There is no other rank.
    NoOther,
    /// Any other rank, each time a random one.
    Random { me: RankId, ranks: u32 },
    /// One after the other, around and around.
    Listed { ranks: Vec<RankId>, next: usize },
}

impl Order {
    /// The paper's request vector (section IV.C): a host's first rank asks remote ranks before
    /// those on its host, the others ask only those on their host. Remote ranks are in a random
    /// order, since with the same order everywhere the first of the list is asked by all.
    pub(crate) fn new(
        algorithm: Algorithm,
        me: RankId,
        topology: &Topology,
        rng: &mut Rng,
    ) -> Order {
        if topology.ranks() == 1 {
            return Order::NoOther;
        }
        if algorithm != Algorithm::Proximity {
            return Order::Random {
                me,
                ranks: topology.ranks(),
            };
        }
        let mut ranks: Vec<RankId> = Vec::new();
        if topology.is_local_root(me) {
            let host = topology.host_of(me);
            ranks.extend(
                (0..topology.ranks())
                    .map(RankId)
                    .filter(|rank| topology.host_of(*rank) != host),
            );
            for at in (1..ranks.len()).rev() {
                ranks.swap(at, rng.below(at as u64 + 1) as usize);
            }
        }
        ranks.extend(topology.colocated(me).iter().filter(|rank| **rank != me));
        Order::Listed { ranks, next: 0 }
    }

    pub(crate) fn next(&mut self, rng: &mut Rng) -> Option<RankId> {
        match self {
            Order::NoOther => None,
            Order::Random { me, ranks } => {
                let other = rng.below(u64::from(*ranks) - 1) as u32;
                Some(RankId(if other < me.0 { other } else { other + 1 }))
            }
            Order::Listed { ranks, next } => {
                let rank = ranks[*next % ranks.len()];
                *next = (*next + 1) % ranks.len();
                Some(rank)
            }
        }
    }

    /// Work came from here: begin at the top of the list the next time, where the nearest are.
    pub(crate) fn restart(&mut self) {
        if let Order::Listed { next, .. } = self {
            *next = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_random_victim_is_never_oneself() {
        let mut rng = Rng::new(3);
        let topology = Topology::one_host(4);
        let drqs = Algorithm::ALL[2];
        let mut order = Order::new(drqs, RankId(2), &topology, &mut rng);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..100 {
            seen.extend(order.next(&mut rng));
        }
        assert_eq!(
            seen.into_iter().collect::<Vec<_>>(),
            [RankId(0), RankId(1), RankId(3)]
        );
    }

    #[test]
    fn the_nearest_come_first_but_for_the_local_root() {
        let mut rng = Rng::new(3);
        // Two hosts of three ranks.
        let topology = Topology::new(&[0, 1, 0, 1, 0, 1]);
        let mut asked = |rank, count| -> Vec<u32> {
            let mut order = Order::new(Algorithm::Proximity, RankId(rank), &topology, &mut rng);
            (0..count)
                .filter_map(|_| order.next(&mut Rng::new(0)))
                .map(|rank| rank.0)
                .collect()
        };
        assert_eq!(asked(4, 5), [0, 2, 0, 2, 0], "only its own host");
        let mut root = asked(0, 5);
        assert_eq!(root[3..], [2, 4], "its host last");
        root.truncate(3);
        root.sort_unstable();
        assert_eq!(root, [1, 3, 5]);
    }

    #[test]
    fn alone_there_is_nobody_to_ask() {
        let mut rng = Rng::new(3);
        let topology = Topology::one_host(1);
        for algorithm in Algorithm::ALL {
            let mut order = Order::new(algorithm, RankId(0), &topology, &mut rng);
            assert_eq!(order.next(&mut rng), None);
        }
    }
}
