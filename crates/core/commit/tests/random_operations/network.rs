//! Messages on their way: lost, repeated, late, and in any order.

use crate::node::Envelope;
use crate::random::Random;
use crate::stats::Stats;

#[derive(Default)]
pub(crate) struct Network {
    on_the_way: Vec<Envelope>,
    /// Copies that arrive when nobody expects them any more.
    late: Vec<Envelope>,
}

/// Late copies that are kept; enough for some to outlive their operation and its tombstones.
const LATE: usize = 64;

impl Network {
    pub(crate) fn send(&mut self, envelope: Envelope) {
        self.on_the_way.push(envelope);
    }

    /// Takes a message out; while there is trouble it may be lost or come again.
    pub(crate) fn deliver(&mut self, random: &mut Random, stats: &mut Stats) -> Option<Envelope> {
        if !self.late.is_empty() && random.percent(15) {
            return Some(self.late.swap_remove(random.below(self.late.len())));
        }
        if self.on_the_way.is_empty() {
            return None;
        }
        let envelope = self
            .on_the_way
            .swap_remove(random.below(self.on_the_way.len()));
        match random.below(10) {
            0 => {
                stats.messages_lost += 1;
                return None;
            }
            1 => {
                stats.messages_repeated += 1;
                self.on_the_way.push(envelope.clone());
            }
            2 | 3 if self.late.len() < LATE => {
                stats.messages_repeated += 1;
                self.late.push(envelope.clone());
            }
            _ => {}
        }
        Some(envelope)
    }

    /// Takes everything out, in random order.
    pub(crate) fn drain(&mut self, random: &mut Random) -> Vec<Envelope> {
        let mut all: Vec<Envelope> = self
            .on_the_way
            .drain(..)
            .chain(self.late.drain(..))
            .collect();
        for last in (1..all.len()).rev() {
            all.swap(last, random.below(last + 1));
        }
        all
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.on_the_way.is_empty() && self.late.is_empty()
    }
}
