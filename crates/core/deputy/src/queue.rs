//! Queue of what was executed on an image and is to be executed by its shard.

use crate::limits::{MAX_MERGE_LOOK, MAX_QUEUED_BYTES, MAX_QUEUED_OPERATIONS};
use crate::merge::merged;
use hashbrown::HashMap;
use pandofs_api::op::{Batch, Early, EarlyOperation, MkdirAway, RmdirAway};
use pandofs_api::{Refusal, Request};
use pandofs_placement::Placing;
use pandofs_types::limits::{MAX_BATCH_BYTES, MAX_BATCH_OPERATIONS};
use pandofs_types::{Credentials, Ino, ShardId};
use std::collections::VecDeque;
use std::ops::Range;

/// Bytes of an operation besides its names and data, about.
const OPERATION_BYTES: usize = 96;

/// An operation that was answered early and is not executed by its shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The shard of its queue.
    pub shard: ShardId,
    /// As it was answered.
    pub request: Request,
    /// `None`: one before it was refused.
    pub refusal: Option<Refusal>,
}

#[derive(Debug)]
struct Queued {
    /// Its number among all that were ever put into the queue.
    serial: u64,
    caller: Credentials,
    early: Early,
    bytes: usize,
    placing: Option<Placing>,
    /// Directories and inodes that it is about.
    about: Vec<Ino>,
    order: Order,
}

/// Place of an operation among those of other queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Order {
    /// It is not sent before this directory is made, by an operation of another queue.
    pub after: Option<Ino>,
    /// It is not sent before so many operations of another queue have ended, and is lost with them.
    pub after_queue: Option<(ShardId, u64)>,
    /// It is about a directory of another shard: it is sent by itself.
    pub away: Option<Away>,
}

/// Effect of an operation on a directory of another shard than the queue's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Away {
    Made(Ino),
    Removed {
        dir: Ino,
        /// Of the grants of its home.
        incarnation: u64,
    },
}

/// Operations that have left a queue.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Left {
    pub lost: Vec<Lost>,
    /// The queue of what is lost, and how many had been put into it before.
    pub lost_after: Option<(ShardId, u64)>,
    /// Changes of directories of other shards that are done.
    pub done: Vec<Away>,
    /// Those that will never be done.
    pub undone: Vec<Away>,
}

impl Left {
    fn lost_by(mut self, shard: ShardId, lost: Vec<Queued>, refusal: Option<Refusal>) -> Left {
        let mut refusal = refusal;
        self.lost_after = lost.first().map(|first| (shard, first.serial));
        for queued in lost {
            self.undone.extend(queued.order.away);
            self.lost.push(Lost {
                shard,
                request: queued.early.operation.into(),
                refusal: refusal.take(),
            });
        }
        self
    }
}

/// Something to send.
#[derive(Debug, PartialEq, Eq)]
pub enum ToSend {
    /// Operations of this shard alone.
    Batch(Batch),
    /// One that concerns another shard, too.
    Alone {
        /// Whose rights count.
        caller: Credentials,
        /// To the queue's shard.
        request: Request,
    },
}

/// Operations of one shard in their order. The first of them may be under way.
#[derive(Debug)]
pub(crate) struct Queue {
    shard: ShardId,
    queued: VecDeque<Queued>,
    bytes: usize,
    /// Operations that are under way, in a batch or one by itself.
    under_way: usize,
    /// Operations that were put into the queue, ever.
    begun: u64,
    /// Directories and inodes that operations are about, and how many.
    about: HashMap<Ino, u32>,
}

impl Queue {
    /// One after another of which so many operations have ended.
    pub(crate) fn after(shard: ShardId, ended: u64) -> Queue {
        Queue {
            shard,
            queued: VecDeque::new(),
            bytes: 0,
            under_way: 0,
            begun: ended,
            about: HashMap::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queued.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.queued.len() >= MAX_QUEUED_OPERATIONS || self.bytes >= MAX_QUEUED_BYTES
    }

    /// Operations that have left the queue with all that were put into it before them. (The end of the queue may be lost while
    /// its beginning is still to be sent.)
    pub(crate) fn ended(&self) -> u64 {
        let first = self.queued.front();
        first.map_or(self.begun, |first| first.serial)
    }

    /// Operations that were put into the queue, ever: all of them have ended when [`Queue::ended`] is as large.
    pub(crate) fn begun(&self) -> u64 {
        self.begun
    }

    /// Operations that are in the queue.
    pub(crate) fn len(&self) -> usize {
        self.queued.len()
    }

    /// Returns whether an operation is about it.
    pub(crate) fn is_about(&self, ino: Ino) -> bool {
        self.about.contains_key(&ino)
    }

    pub(crate) fn push(
        &mut self,
        caller: &Credentials,
        early: Early,
        placing: Option<Placing>,
        about: Vec<Ino>,
        order: Order,
    ) {
        for ino in &about {
            *self.about.entry(*ino).or_default() += 1;
        }
        let bytes = OPERATION_BYTES + bytes_of(&early.operation);
        self.bytes += bytes;
        let serial = self.begun;
        self.begun += 1;
        self.queued.push_back(Queued {
            serial,
            caller: caller.clone(),
            early,
            bytes,
            placing,
            about,
            order,
        });
    }

    /// Has the last operation about the same inode do what this one does, too, if it is not sent and one can be made of both.
    /// (What came in between is not about the inode, and so comes to the same after both as before the second.)
    pub(crate) fn take_up(
        &mut self,
        caller: &Credentials,
        early: &Early,
        placing: Option<Placing>,
    ) -> bool {
        let Some(ino) = early.operation.operation().inode() else {
            return false;
        };
        let unsent = self.queued.iter_mut().skip(self.under_way);
        let mut last = unsent.rev().take(MAX_MERGE_LOOK);
        let Some(before) = last.find(|queued| queued.about.contains(&ino)) else {
            return false;
        };
        if before.caller != *caller || before.placing != placing {
            return false;
        }
        match merged(caller, &before.early, early) {
            Some(merged) => {
                let bytes = OPERATION_BYTES + bytes_of(&merged.operation);
                self.bytes = self.bytes - before.bytes + bytes;
                before.bytes = bytes;
                before.early = merged;
                true
            }
            None => false,
        }
    }

    /// Whether something is to be sent, nothing is under way, and the first operation does not wait.
    pub(crate) fn is_ready(&self, waits: impl Fn(&Order) -> bool) -> bool {
        let first = self.queued.front();
        self.under_way == 0 && first.is_some_and(|first| !waits(&first.order))
    }

    /// Whether the first operation is sent by itself.
    pub(crate) fn is_alone(&self) -> bool {
        let first = self.queued.front();
        first.is_some_and(|first| first.order.away.is_some())
    }

    /// Place of the first operation among those of other queues.
    pub(crate) fn first(&self) -> Option<&Order> {
        self.queued.front().map(|first| &first.order)
    }

    /// How many operations may be sent, in one or more requests, if nothing is under way: none of them `waits`.
    pub(crate) fn ready(&self, waits: impl Fn(&Order) -> bool) -> usize {
        if self.under_way > 0 {
            return 0;
        }
        let first = self.queued.iter().take(MAX_BATCH_OPERATIONS);
        first.take_while(|queued| !waits(&queued.order)).count()
    }

    /// The next request, of as many operations as are [ready](Queue::ready) at most; they were executed under grants of
    /// this incarnation.
    pub(crate) fn next_to_send(&mut self, ready: usize, incarnation: u64) -> Option<ToSend> {
        let first = self.queued.front().filter(|_| ready > 0)?;
        if let Some(request) = first.alone(incarnation) {
            self.under_way = 1;
            let caller = first.caller.clone();
            return Some(ToSend::Alone { caller, request });
        }
        let placing = first.placing;
        let mut batch = Batch {
            incarnation,
            callers: Vec::new(),
            placing,
            early: Vec::new(),
        };
        let mut bytes = 0;
        for queued in self.queued.iter().take(ready) {
            bytes += queued.bytes;
            let is_large = bytes > MAX_BATCH_BYTES && !batch.early.is_empty();
            if is_large || queued.order.away.is_some() || queued.placing != placing {
                break;
            }
            let known = batch.callers.iter().position(|c| *c == queued.caller);
            let caller = known.unwrap_or_else(|| {
                batch.callers.push(queued.caller.clone());
                batch.callers.len() - 1
            });
            batch.early.push(Early {
                caller: u16::try_from(caller).expect("a batch has fewer operations"),
                ..queued.early.clone()
            });
        }
        self.under_way = batch.early.len();
        Some(ToSend::Batch(batch))
    }

    /// The shard executed the batch under way up to this operation, and refused the next if there was one; then the
    /// whole queue is lost.
    ///
    /// # Panics
    /// When nothing is under way.
    pub(crate) fn answered(&mut self, done: usize, refusal: Option<Refusal>) -> Left {
        assert!(
            self.under_way > 0,
            "something is answered that was not sent"
        );
        let done = done.min(self.under_way);
        let is_whole = done == self.under_way;
        let mut left = Left::default();
        for queued in self.take(0..done) {
            left.done.extend(queued.order.away);
        }
        self.under_way = 0;
        match is_whole {
            true => left,
            false => left.lost_by(self.shard, self.take(0..self.queued.len()), refusal),
        }
    }

    /// Loses the first operation that waits for what will not come about, and all that comes after it.
    pub(crate) fn lose_after(&mut self, is_vain: impl Fn(&Order) -> bool) -> Left {
        let left = Left::default();
        let Some(first) = self.queued.iter().position(|of| is_vain(&of.order)) else {
            return left;
        };
        assert!(first >= self.under_way, "something was sent too early");
        left.lost_by(self.shard, self.take(first..self.queued.len()), None)
    }

    /// Takes operations out, which have ended.
    fn take(&mut self, places: Range<usize>) -> Vec<Queued> {
        let taken: Vec<Queued> = self.queued.drain(places).collect();
        for queued in &taken {
            self.bytes -= queued.bytes;
            for ino in &queued.about {
                let Some(count) = self.about.get_mut(ino) else {
                    panic!("an operation about {ino} was not counted");
                };
                *count -= 1;
                if *count == 0 {
                    self.about.remove(ino);
                }
            }
        }
        taken
    }
}

impl Queued {
    /// The request of an operation that is sent by itself.
    fn alone(&self, incarnation: u64) -> Option<Request> {
        let (time, random) = (self.early.time, self.early.random);
        match (self.order.away?, &self.early.operation) {
            (Away::Made(ino), EarlyOperation::Mkdir(mkdir)) => {
                let mkdir = mkdir.clone();
                Some(Request::MkdirAway(MkdirAway {
                    incarnation,
                    mkdir,
                    time,
                    random,
                    placing: self.placing,
                    ino,
                }))
            }
            (
                Away::Removed {
                    dir,
                    incarnation: home_incarnation,
                },
                EarlyOperation::Rmdir(rmdir),
            ) => {
                let rmdir = rmdir.clone();
                Some(Request::RmdirAway(RmdirAway {
                    incarnation,
                    home_incarnation,
                    rmdir,
                    time,
                    random,
                    ino: dir,
                }))
            }
            (away, operation) => panic!("{away:?} is not what comes of {operation:?}"),
        }
    }
}

fn bytes_of(operation: &EarlyOperation) -> usize {
    match operation {
        EarlyOperation::WriteInline(write) => write.data.len(),
        EarlyOperation::WriteNew(write) => write.data.len(),
        EarlyOperation::SetXattr(set) => set.name.len() + set.value.len(),
        EarlyOperation::Create(create) => {
            create.name.as_bytes().len()
                + match &create.node {
                    pandofs_api::NewNode::Symlink { target } => target.len(),
                    _ => 0,
                }
        }
        EarlyOperation::Rename(rename) => {
            rename.name.as_bytes().len() + rename.new_name.as_bytes().len()
        }
        _ => 0,
    }
}
