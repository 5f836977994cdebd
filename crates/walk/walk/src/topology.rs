//! The ranks of a walk, and which of them share a host.

use std::collections::BTreeMap;

/// A rank's number, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RankId(pub u32);

impl RankId {
    /// The rank that begins, and that finds out when all is done.
    pub const ROOT: RankId = RankId(0);

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

impl std::fmt::Display for RankId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The ranks, grouped by host. The hosts, which the paper finds with a gather of network numbers
/// (section IV.C), come in as an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    group_of: Vec<u32>,
    /// Ranks of each host, ascending; the first is its *local root*.
    groups: Vec<Vec<RankId>>,
}

impl Topology {
    /// One host number for each rank, in the order of the ranks. Hosts with the same number are the
    /// same.
    ///
    /// # Panics
    /// When there is no rank.
    pub fn new(hosts: &[u64]) -> Topology {
        assert!(!hosts.is_empty(), "a walk has a rank");
        let mut numbers = BTreeMap::new();
        let mut groups: Vec<Vec<RankId>> = Vec::new();
        let mut group_of = Vec::with_capacity(hosts.len());
        for (rank, host) in (0..).zip(hosts) {
            let group = *numbers.entry(host).or_insert_with(|| {
                groups.push(Vec::new());
                groups.len() - 1
            });
            groups[group].push(RankId(rank));
            group_of.push(group as u32);
        }
        Topology { group_of, groups }
    }

    /// All ranks on one host.
    pub fn one_host(ranks: u32) -> Topology {
        Topology::new(&vec![0; ranks as usize])
    }

    /// Ranks of the walk.
    pub fn ranks(&self) -> u32 {
        self.group_of.len() as u32
    }

    /// Hosts of the walk.
    pub fn hosts(&self) -> usize {
        self.groups.len()
    }

    /// Returns the host of a rank, counted from 0 in the order of their first ranks.
    pub fn host_of(&self, rank: RankId) -> usize {
        self.group_of[rank.index()] as usize
    }

    /// The ranks on the host of a rank, itself included, ascending.
    pub fn colocated(&self, rank: RankId) -> &[RankId] {
        &self.groups[self.host_of(rank)]
    }

    /// Returns whether it is the first rank of its host.
    pub fn is_local_root(&self, rank: RankId) -> bool {
        self.colocated(rank).first() == Some(&rank)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_grouped_by_host() {
        let topology = Topology::new(&[9, 4, 9, 4, 7]);
        assert_eq!(topology.ranks(), 5);
        assert_eq!(topology.hosts(), 3);
        assert_eq!(topology.colocated(RankId(2)), [RankId(0), RankId(2)]);
        assert_eq!(topology.colocated(RankId(1)), [RankId(1), RankId(3)]);
        let roots: Vec<u32> = (0..5)
            .filter(|rank| topology.is_local_root(RankId(*rank)))
            .collect();
        assert_eq!(roots, [0, 1, 4]);
        assert_eq!(Topology::one_host(3).hosts(), 1);
    }
}
