//! One rank: which half of which algorithm it runs, and what all of them have in common.

use crate::Algorithm;
use crate::central::{Master, Slave};
use crate::command::{Command, Event, Failure};
use crate::limits::{READY_ITEMS_PER_WORKER, SPILL_ABOVE_ITEMS, SPILL_CHUNK_ITEMS};
use crate::message::Message;
use crate::order::Order;
use crate::queue::Queue;
use crate::rng::Rng;
use crate::share::Sharer;
use crate::topology::{RankId, Topology};

/// Configuration of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The same on all ranks of a walk.
    pub algorithm: Algorithm,
    /// Workers that share the rank's queue, numbered from 0. More than one only with
    /// [`Algorithm::Hybrid`].
    pub workers: u32,
    /// Of the walk; each rank draws other numbers from it.
    pub seed: u64,
    /// Items of one rank in memory, above which some are spilled.
    pub spill_above: usize,
    /// Items that are spilled as one piece.
    pub spill_chunk: usize,
}

impl Config {
    /// One worker a rank, and the usual limits.
    pub fn new(algorithm: Algorithm, seed: u64) -> Config {
        Config {
            algorithm,
            workers: 1,
            seed,
            spill_above: SPILL_ABOVE_ITEMS,
            spill_chunk: SPILL_CHUNK_ITEMS,
        }
    }
}

/// One rank of a walk. `T` is an item of work.
#[derive(Debug)]
pub struct Rank<T> {
    me: RankId,
    ranks: u32,
    /// Nothing happens any more.
    ended: bool,
    role: Role<T>,
}

#[derive(Debug)]
enum Role<T> {
    Sharer(Sharer<T>),
    Master(Master<T>),
    Slave(Slave<T>),
}

impl<T> Rank<T> {
    /// # Panics
    /// When `me` is not in the topology, there is no worker, several workers are to share a queue
    /// that the algorithm does not share, or the limits of spilling contradict one another.
    pub fn new(config: &Config, topology: &Topology, me: RankId) -> Rank<T> {
        let ranks = topology.ranks();
        assert!(me.0 < ranks, "rank {me} of {ranks}");
        assert!(config.workers > 0);
        assert!(config.workers == 1 || config.algorithm.shares_queue());
        let mut rng = Rng::new(config.seed ^ (u64::from(me.0) << 32));
        let queue = Queue::new(config.spill_above, config.spill_chunk);
        let role = match config.algorithm {
            // A centralized walk by one rank has no slave: the rank works itself.
            Algorithm::Cp { keep_one } if ranks > 1 => {
                if me == RankId::ROOT {
                    Role::Master(Master::new(queue, ranks))
                } else {
                    Role::Slave(Slave::new(keep_one))
                }
            }
            algorithm => {
                let order = Order::new(algorithm, me, topology, &mut rng);
                let (split, workers) = (algorithm.split(), config.workers);
                Role::Sharer(Sharer::new(me, ranks, workers, split, order, queue, rng))
            }
        };
        Rank {
            me,
            ranks,
            ended: false,
            role,
        }
    }

    /// Takes up one event; what is to be done now, in this order, is appended to `out`.
    ///
    /// # Panics
    /// When the transport tells what cannot be: a worker without an item has done it, roots
    /// elsewhere than at rank 0, a message that the algorithm does not have.
    pub fn step(&mut self, event: Event<T>, out: &mut Vec<Command<T>>) {
        if self.ended {
            return;
        }
        match event {
            Event::Message {
                message: Message::Finish,
                ..
            } => self.finish(out),
            Event::Message {
                message: Message::Abort { dead },
                ..
            } => self.fail(dead, out),
            Event::Died { rank } => {
                // The rank that notices tells all: others may have nothing to do with the dead one
                // and would wait for ever.
                for to in (0..self.ranks).map(RankId) {
                    if to != self.me && to != rank {
                        out.push(Command::Send {
                            to,
                            message: Message::Abort { dead: rank },
                        });
                    }
                }
                self.fail(rank, out);
            }
            event => {
                let done = match &mut self.role {
                    Role::Sharer(sharer) => sharer.step(event, out),
                    Role::Master(master) => master.step(event, out),
                    Role::Slave(slave) => {
                        slave.step(event, out);
                        false
                    }
                };
                if done {
                    self.finish(out);
                }
            }
        }
    }

    /// Returns how many items would be of use to others at once: a worker that reads a large
    /// directory then tells of what it has found so far, and makes items of parts of it.
    pub fn wanted(&self) -> usize {
        match &self.role {
            Role::Sharer(sharer) => sharer.wanted(),
            Role::Master(_) => 0,
            // It has no queue, and the master does not say how long its own is.
            Role::Slave(_) => READY_ITEMS_PER_WORKER,
        }
    }

    /// Items that wait here, spilled ones included.
    pub fn queued(&self) -> u64 {
        match &self.role {
            Role::Sharer(sharer) => sharer.queued(),
            Role::Master(master) => master.queued(),
            Role::Slave(_) => 0,
        }
    }

    /// Returns whether the walk has ended for this rank, well or not.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    fn finish(&mut self, out: &mut Vec<Command<T>>) {
        assert!(
            self.is_idle(),
            "the walk ended with work at rank {}",
            self.me
        );
        self.ended = true;
        let (me, ranks) = (u64::from(self.me.0), u64::from(self.ranks));
        let receivers = match self.role {
            Role::Sharer(_) => me * 2 + 1..me * 2 + 3,
            // Slaves talk to the master alone.
            Role::Master(_) => 1..ranks,
            Role::Slave(_) => 0..0,
        };
        for to in receivers.start..receivers.end.min(ranks) {
            out.push(Command::Send {
                to: RankId(to as u32),
                message: Message::Finish,
            });
        }
        out.push(Command::Finished);
    }

    fn fail(&mut self, dead: RankId, out: &mut Vec<Command<T>>) {
        self.ended = true;
        out.push(Command::Failed(Failure::RankDied { rank: dead }));
    }

    fn is_idle(&self) -> bool {
        match &self.role {
            Role::Sharer(sharer) => sharer.is_passive(),
            Role::Master(master) => master.is_done(),
            Role::Slave(slave) => slave.is_idle(),
        }
    }
}
