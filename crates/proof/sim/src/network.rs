//! Network: delay, loss, doubling and order of messages.

use crate::scenario::{End, Fault, MICROSECOND, MILLISECOND, Moment};
use pandofs_testkit::rng::Rng;
use std::collections::BTreeMap;

/// A way is fast as a rule.
const FASTEST: Moment = 30 * MICROSECOND;
const SLOWEST: Moment = 300 * MICROSECOND;

/// The network between servers and clients.
pub(crate) struct Network {
    seed: u64,
    faults: Vec<Fault>,
    /// Messages sent so far from one end to the other: what becomes of the next follows from the number, and stays the
    /// same when messages elsewhere are left out.
    sent: BTreeMap<(End, End), u64>,
    /// Arrival of the last message on this way that was not late: they stay in order.
    arrives: BTreeMap<(End, End), Moment>,
}

impl Network {
    pub(crate) fn new(seed: u64, faults: &[Fault]) -> Network {
        Network {
            seed,
            faults: faults.to_vec(),
            sent: BTreeMap::new(),
            arrives: BTreeMap::new(),
        }
    }

    /// Whether nothing gets from one end to the other now.
    pub(crate) fn is_cut(&self, now: Moment, from: End, to: End) -> bool {
        self.faults.iter().any(|fault| match *fault {
            Fault::Cut {
                from: other_from,
                to: other_to,
                start,
                end,
            } => (other_from, other_to) == (from, to) && (start..end).contains(&now),
            _ => false,
        })
    }

    /// Arrivals of copies of a message that is sent now: none, one or two.
    pub(crate) fn send(&mut self, now: Moment, from: End, to: End) -> Vec<Moment> {
        let number = self.sent.entry((from, to)).or_default();
        *number += 1;
        let mut rng = Rng::new(
            self.seed ^ hash(from).rotate_left(20) ^ hash(to).rotate_left(40) ^ *number << 7,
        );
        // The first numbers of neighbouring seeds are alike.
        rng.next_u64();
        let way = FASTEST + rng.below((SLOWEST - FASTEST) as u64) as Moment;
        let in_order = self.arrives.entry((from, to)).or_default();
        let mut at = (now + way).max(*in_order + 1);
        let mut copies = Vec::new();
        let (mut is_lost, mut is_late) = (false, false);
        for fault in &self.faults {
            match *fault {
                Fault::Cut {
                    from: truncated_from,
                    to: truncated_to,
                    start,
                    end,
                } => {
                    is_lost |=
                        (truncated_from, truncated_to) == (from, to) && (start..end).contains(&now);
                }
                Fault::Noise {
                    start,
                    end,
                    lost,
                    twice,
                    delay,
                } if (start..end).contains(&now) => {
                    is_lost |= rng.chance(u64::from(lost), 1_000);
                    if rng.chance(u64::from(twice), 1_000) {
                        copies.push(at + rng.below((delay + MILLISECOND) as u64) as Moment);
                    }
                    if delay > 0 && rng.chance(1, 4) {
                        is_late = true;
                        at += rng.below(delay as u64) as Moment;
                    }
                }
                _ => {}
            }
        }
        if is_lost {
            return Vec::new();
        }
        if !is_late {
            *in_order = at;
        }
        copies.push(at);
        copies.sort();
        copies
    }
}

fn hash(end: End) -> u64 {
    match end {
        End::Server(id) => u64::from(id) + 1,
        End::Client(id) => (id as u64 + 1) << 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: End = End::Server(0);
    const B: End = End::Server(1);

    #[test]
    fn without_faults_messages_arrive_once_and_in_order() {
        let mut network = Network::new(7, &[]);
        let mut last = 0;
        for now in 0..1_000 {
            let copies = network.send(now * MICROSECOND, A, B);
            assert_eq!(copies.len(), 1);
            assert!(copies[0] > last);
            last = copies[0];
        }
    }

    #[test]
    fn a_cut_has_one_direction_and_an_end() {
        let cut = Fault::Cut {
            from: A,
            to: B,
            start: 10,
            end: 20,
        };
        let mut network = Network::new(7, &[cut]);
        assert_eq!(network.send(9, A, B).len(), 1);
        assert_eq!(network.send(10, A, B).len(), 0);
        assert_eq!(network.send(10, B, A).len(), 1);
        assert_eq!(network.send(20, A, B).len(), 1);
    }

    #[test]
    fn noise_loses_repeats_and_delays() {
        let noise = Fault::Noise {
            start: 0,
            end: MILLISECOND,
            lost: 300,
            twice: 300,
            delay: MILLISECOND,
        };
        let mut network = Network::new(7, &[noise]);
        let arrivals: Vec<Vec<Moment>> = (0..1_000)
            .map(|now| network.send(now * 1_000, A, B))
            .collect();
        assert!(arrivals.iter().any(Vec::is_empty));
        assert!(arrivals.iter().any(|copies| copies.len() == 2));
        let first: Vec<Moment> = arrivals.concat();
        assert!(!first.is_sorted());
    }
}
