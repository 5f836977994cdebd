//! Centralized walk (the paper's algorithm 1).
//!
//! The master has the queue, slaves get one item at a time.
//!
//! When it ends: the master has no items, every task that it gave out was answered by
//! [`Message::Results`], and every [`Message::Found`] that these tell of has arrived. Results alone
//! are not enough: a slave sends Found{a}, then Results{found_messages: 1}; the second overtakes
//! the first, no task is out, and the queue is empty, but `a` is under way.

use crate::command::{Command, Event};
use crate::message::Message;
use crate::queue::Queue;
use crate::topology::RankId;
use std::collections::VecDeque;

/// Rank 0. It does no work itself.
#[derive(Debug)]
pub(crate) struct Master<T> {
    queue: Queue<T>,
    ranks: u32,
    started: bool,
    /// Slaves that wait for an item.
    waiting: VecDeque<RankId>,
    /// Tasks that slaves have.
    out: u32,
    found_reported: u64,
    found_received: u64,
}

impl<T> Master<T> {
    pub(crate) fn new(queue: Queue<T>, ranks: u32) -> Master<T> {
        Master {
            queue,
            ranks,
            started: false,
            waiting: VecDeque::new(),
            out: 0,
            found_reported: 0,
            found_received: 0,
        }
    }

    /// Returns whether all is done.
    pub(crate) fn step(&mut self, event: Event<T>, out: &mut Vec<Command<T>>) -> bool {
        match event {
            Event::Start { roots } => {
                assert!(!self.started, "a rank starts once");
                self.started = true;
                self.queue.push(roots);
            }
            Event::Message { from, message } => match message {
                Message::Ask => self.waiting.push_back(from),
                Message::Found { items } => {
                    self.found_received += 1;
                    self.queue.push(items);
                }
                Message::Results {
                    items,
                    found_messages,
                } => {
                    assert!(self.out > 0, "rank {from} had no task");
                    self.out -= 1;
                    self.found_reported += found_messages;
                    self.queue.push(items);
                    self.waiting.push_back(from);
                }
                _ => unreachable!("a master gets requests and results"),
            },
            Event::Refilled { items } => self.queue.refilled(items),
            Event::Spilled { items } => {
                assert!(!self.started);
                self.queue.add_spilled(items);
                return false;
            }
            Event::Woken => {}
            Event::Found { .. } | Event::Done { .. } => unreachable!("a master does not work"),
            Event::Died { .. } => unreachable!("the rank takes it up itself"),
        }
        self.settle(out)
    }

    fn settle(&mut self, out: &mut Vec<Command<T>>) -> bool {
        while let Some(to) = self.waiting.pop_front() {
            // First in, first out, as in the paper, of those that are in memory. Items kept outside
            // are older, and come back last: each item is a message of its own, so that nothing is
            // saved by large ones first, and a walk by breadth alone would have all directories of
            // a level in the queue.
            let Some(item) = self.queue.pop_oldest() else {
                self.waiting.push_front(to);
                break;
            };
            self.out += 1;
            out.push(Command::Send {
                to,
                message: Message::Work { items: vec![item] },
            });
        }
        assert!(self.out + (self.waiting.len() as u32) < self.ranks);
        while let Some(items) = self.queue.spill() {
            out.push(Command::Spill { items });
        }
        if self.queue.wants_refill() {
            out.push(Command::Refill);
        }
        self.is_done()
    }

    pub(crate) fn is_done(&self) -> bool {
        self.started
            && self.queue.total() == 0
            && self.out == 0
            && self.found_reported == self.found_received
    }

    pub(crate) fn queued(&self) -> u64 {
        self.queue.total()
    }
}

/// Any other rank.
#[derive(Debug)]
pub(crate) struct Slave<T> {
    keep_one: bool,
    working: bool,
    /// Children of the item that were reported while it went on, if one is to be kept.
    kept: Option<T>,
    /// Messages with children since the task came.
    found_messages: u64,
}

impl<T> Slave<T> {
    pub(crate) fn new(keep_one: bool) -> Slave<T> {
        Slave {
            keep_one,
            working: false,
            kept: None,
            found_messages: 0,
        }
    }

    pub(crate) fn step(&mut self, event: Event<T>, out: &mut Vec<Command<T>>) {
        match event {
            Event::Start { roots } => {
                assert!(roots.is_empty(), "rank 0 has the roots");
                send(Message::Ask, out);
            }
            Event::Message {
                message: Message::Work { items },
                ..
            } => {
                assert!(!self.working, "one item at a time");
                assert_eq!(items.len(), 1);
                self.found_messages = 0;
                items.into_iter().for_each(|item| self.work(item, out));
            }
            Event::Message { .. } => unreachable!("a slave gets work"),
            Event::Found { children, .. } => {
                assert!(self.working);
                let children = self.keep(children);
                self.tell(children, out);
            }
            Event::Done { children, .. } => {
                assert!(self.working);
                self.working = false;
                let children = self.keep(children);
                if let Some(item) = self.kept.take() {
                    self.tell(children, out);
                    self.work(item, out);
                } else {
                    let found_messages = std::mem::take(&mut self.found_messages);
                    let items = children;
                    send(
                        Message::Results {
                            items,
                            found_messages,
                        },
                        out,
                    );
                }
            }
            Event::Woken => {}
            Event::Refilled { .. } | Event::Spilled { .. } => {
                unreachable!("a slave spills nothing")
            }
            Event::Died { .. } => unreachable!("the rank takes it up itself"),
        }
    }

    fn keep(&mut self, mut children: Vec<T>) -> Vec<T> {
        if self.keep_one && self.kept.is_none() {
            self.kept = children.pop();
        }
        children
    }

    fn tell(&mut self, items: Vec<T>, out: &mut Vec<Command<T>>) {
        if !items.is_empty() {
            self.found_messages += 1;
            send(Message::Found { items }, out);
        }
    }

    fn work(&mut self, item: T, out: &mut Vec<Command<T>>) {
        self.working = true;
        out.push(Command::Work { worker: 0, item });
    }

    pub(crate) fn is_idle(&self) -> bool {
        !self.working && self.kept.is_none()
    }
}

fn send<T>(message: Message<T>, out: &mut Vec<Command<T>>) {
    out.push(Command::Send {
        to: RankId::ROOT,
        message,
    });
}
