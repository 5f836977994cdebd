//! A rank with a queue of its own, which it shares: all algorithms but the centralized one.

use crate::algorithm::Split;
use crate::command::{Command, Event};
use crate::limits::{
    DENIALS_BEFORE_PAUSE, ITEMS_BETWEEN_ASKERS, LONGEST_PAUSE, READY_ITEMS_FOR_OTHERS,
    READY_ITEMS_PER_WORKER, SHORTEST_PAUSE,
};
use crate::message::Message;
use crate::order::Order;
use crate::queue::Queue;
use crate::rng::Rng;
use crate::token::{Detector, Verdict};
use crate::topology::RankId;
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Sharer<T> {
    me: RankId,
    ranks: u32,
    split: Split,
    order: Order,
    rng: Rng,
    queue: Queue<T>,
    workers: u32,
    /// Workers without an item; the last one that became idle is the first to get one, its memory
    /// is still in the caches.
    idle: Vec<u32>,
    started: bool,
    asking: Asking,
    /// Refusals since there was work.
    denials: u32,
    pause: Duration,
    /// Another rank asked, and since then its own workers have taken fewer items than would let
    /// that be forgotten. So many are left.
    asked: usize,
    detector: Detector,
}

/// At most one request is under way, so that two answers cannot both bring work to one idle worker
/// while others have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asking {
    Idle,
    Waiting,
    /// Not before [`Event::Woken`].
    Paused,
}

impl<T> Sharer<T> {
    pub(crate) fn new(
        me: RankId,
        ranks: u32,
        workers: u32,
        split: Split,
        order: Order,
        queue: Queue<T>,
        rng: Rng,
    ) -> Sharer<T> {
        Sharer {
            me,
            ranks,
            split,
            order,
            rng,
            queue,
            workers,
            idle: (0..workers).rev().collect(),
            started: false,
            asking: Asking::Idle,
            denials: 0,
            pause: SHORTEST_PAUSE,
            asked: 0,
            detector: Detector::new(),
        }
    }

    /// Returns whether rank 0 has found that all is done.
    pub(crate) fn step(&mut self, event: Event<T>, out: &mut Vec<Command<T>>) -> bool {
        match event {
            Event::Start { roots } => {
                assert!(!self.started, "a rank starts once");
                assert!(roots.is_empty() || self.me == RankId::ROOT);
                self.started = true;
                self.queue.push(roots);
            }
            Event::Found { worker, children } => {
                assert!(!self.idle.contains(&worker), "worker {worker} has no item");
                self.queue.push(children);
            }
            Event::Done { worker, children } => {
                assert!(worker < self.workers && !self.idle.contains(&worker));
                self.idle.push(worker);
                self.queue.push(children);
            }
            Event::Refilled { items } => self.queue.refilled(items),
            Event::Spilled { items } => {
                assert!(!self.started && self.me == RankId::ROOT);
                self.queue.add_spilled(items);
                return false;
            }
            Event::Woken => {
                if self.asking == Asking::Paused {
                    self.asking = Asking::Idle;
                }
            }
            Event::Message { from, message } => self.message(from, message, out),
            Event::Died { .. } => unreachable!("the rank takes it up itself"),
        }
        self.settle(out)
    }

    fn message(&mut self, from: RankId, message: Message<T>, out: &mut Vec<Command<T>>) {
        match message {
            Message::Ask => {
                self.asked = ITEMS_BETWEEN_ASKERS;
                // A piece goes as it is, whatever part would have been drawn: there is a multiple
                // of it, or little else.
                if self.queue.give_spilled() {
                    self.detector.work_sent();
                    out.push(Command::GiveSpilled { to: from });
                    return;
                }
                let items = self.queue.split(self.split, &mut self.rng);
                let message = if items.is_empty() {
                    Message::Deny
                } else {
                    self.detector.work_sent();
                    Message::Work { items }
                };
                out.push(Command::Send { to: from, message });
            }
            Message::Work { items } => {
                assert_eq!(self.asking, Asking::Waiting, "work that was not asked for");
                assert!(!items.is_empty());
                self.detector.work_received();
                self.asking = Asking::Idle;
                self.order.restart();
                self.queue.push(items);
            }
            Message::Deny => {
                assert_eq!(self.asking, Asking::Waiting);
                self.asking = Asking::Idle;
                self.denials += 1;
                if self.denials >= DENIALS_BEFORE_PAUSE.min(self.ranks - 1) {
                    self.denials = 0;
                    self.asking = Asking::Paused;
                    out.push(Command::Wake { after: self.pause });
                    self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                }
            }
            Message::Token(token) => self.detector.token_arrived(token),
            Message::Found { .. } | Message::Results { .. } => {
                unreachable!("only a centralized walk has it")
            }
            Message::Finish | Message::Abort { .. } => {
                unreachable!("the rank takes it up itself")
            }
        }
    }

    /// Does what can be done now.
    fn settle(&mut self, out: &mut Vec<Command<T>>) -> bool {
        if self.queue.len() > 0 {
            self.denials = 0;
            self.pause = SHORTEST_PAUSE;
            if self.asking == Asking::Paused {
                self.asking = Asking::Idle;
            }
        }
        while let Some(worker) = self.idle.pop() {
            let Some(item) = self.queue.pop_newest() else {
                self.idle.push(worker);
                break;
            };
            self.asked = self.asked.saturating_sub(1);
            out.push(Command::Work { worker, item });
        }
        while let Some(items) = self.queue.spill() {
            out.push(Command::Spill { items });
        }
        if self.queue.wants_refill() {
            out.push(Command::Refill);
        }
        // A rank that has nothing to start with asks once it gets the event to start: before that
        // others may not listen yet.
        if self.started
            && !self.idle.is_empty()
            && self.queue.total() == 0
            && self.asking == Asking::Idle
            && let Some(to) = self.order.next(&mut self.rng)
        {
            self.asking = Asking::Waiting;
            out.push(Command::Send {
                to,
                message: Message::Ask,
            });
        }
        self.started && self.is_passive() && self.detect(out)
    }

    /// The part of an idle rank in termination detection.
    fn detect(&mut self, out: &mut Vec<Command<T>>) -> bool {
        if self.ranks == 1 {
            return true;
        }
        let token = if self.me == RankId::ROOT {
            match self.detector.judge() {
                Verdict::AllDone => return true,
                Verdict::Wait => None,
                Verdict::Send(token) => Some(token),
            }
        } else {
            self.detector.hand_on()
        };
        if let Some(token) = token {
            out.push(Command::Send {
                to: RankId((self.me.0 + 1) % self.ranks),
                message: Message::Token(token),
            });
        }
        false
    }

    /// Nothing is to be done here, unless a message with work comes.
    pub(crate) fn is_passive(&self) -> bool {
        self.idle.len() == self.workers as usize && self.queue.total() == 0
    }

    /// While one worker reads a directory with nearly all entries of a tree, the other ranks live
    /// on the slices that it leaves here. One for each that is refused would not do: a rank that
    /// gets so little is idle again before the next one is answered, and this rank does nearly all
    /// of the work.
    pub(crate) fn wanted(&self) -> usize {
        let for_workers = match self.workers {
            1 => 0,
            workers => READY_ITEMS_PER_WORKER * workers as usize,
        };
        let for_others = match self.asked {
            0 => 0,
            _ => READY_ITEMS_FOR_OTHERS,
        };
        for_workers.max(for_others).saturating_sub(self.queue.len())
    }

    pub(crate) fn queued(&self) -> u64 {
        self.queue.total()
    }
}
