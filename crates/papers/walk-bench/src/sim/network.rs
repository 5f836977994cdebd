//! Durations of messages.

use pandofs_walk::{RankId, Topology};

/// Hosts in a cube whose opposite faces are joined, as in the paper's machine (Cielo, a 3D torus).
/// Times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Network {
    /// Between ranks of one host.
    pub local_ns: u64,
    /// Between hosts, before the first hop.
    pub remote_ns: u64,
    /// For each hop.
    pub hop_ns: u64,
    /// Bytes a nanosecond.
    pub bytes_per_ns: f64,
    /// Time of a message at its receiver, one after the other.
    pub handling_ns: u64,
}

impl Network {
    /// Of the order of a large machine's interconnect: 1.5 µs between hosts and 0.1 µs for each
    /// hop, 5 GB/s, 0.5 µs in shared memory, 1 µs to take a message up.
    pub const CLUSTER: Network = Network {
        local_ns: 500,
        remote_ns: 1_500,
        hop_ns: 100,
        bytes_per_ns: 5.0,
        handling_ns: 1_000,
    };

    /// From sending to arrival, in nanoseconds.
    pub fn travel_ns(&self, topology: &Topology, from: RankId, to: RankId, bytes: u64) -> u64 {
        let (a, b) = (topology.host_of(from), topology.host_of(to));
        let wire = if a == b {
            self.local_ns
        } else {
            self.remote_ns + self.hop_ns * hops(topology.hosts(), a, b)
        };
        wire + (bytes as f64 / self.bytes_per_ns) as u64
    }
}

/// Steps along the three axes, the shorter way around on each.
fn hops(hosts: usize, a: usize, b: usize) -> u64 {
    let mut side = 1;
    while side * side * side < hosts {
        side += 1;
    }
    let along = |a: usize, b: usize| {
        let distance = a.abs_diff(b);
        distance.min(side - distance) as u64
    };
    along(a % side, b % side)
        + along(a / side % side, b / side % side)
        + along(a / side / side, b / side / side)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_is_the_shorter_way_around() {
        // 4 x 4 x 4.
        assert_eq!(hops(64, 0, 0), 0);
        assert_eq!(hops(64, 0, 3), 1);
        assert_eq!(hops(64, 0, 2), 2);
        assert_eq!(hops(64, 0, 2 + 2 * 4 + 2 * 16), 6);
        assert_eq!(hops(64, 63, 0), 3);
    }

    #[test]
    fn near_is_faster_than_far_and_short_than_long() {
        let topology = Topology::new(&[0, 0, 1, 2]);
        let time = |to, bytes| Network::CLUSTER.travel_ns(&topology, RankId(0), RankId(to), bytes);
        assert_eq!(time(1, 0), 500);
        assert_eq!(time(2, 0), 1_600);
        assert_eq!(time(3, 5_000), 2_600);
    }
}
