//! Queue of what was executed on an image and is to be executed by its shard.

use crate::limits::{MAX_QUEUED_BYTES, MAX_QUEUED_OPERATIONS};
use hashbrown::HashMap;
use pandofs_api::op::{Batch, Early, EarlyOperation};
use pandofs_api::{Refusal, Request};
use pandofs_placement::Placing;
use pandofs_types::limits::{MAX_BATCH_BYTES, MAX_BATCH_OPERATIONS};
use pandofs_types::{Credentials, Ino};
use std::collections::VecDeque;

/// Bytes of an operation besides its names and data, about.
const OPERATION_BYTES: usize = 96;

/// An operation that was answered early and is not executed by its shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// As it was answered.
    pub request: Request,
    /// `None`: one before it was refused.
    pub refusal: Option<Refusal>,
}

#[derive(Debug)]
struct Queued {
    caller: Credentials,
    early: Early,
    bytes: usize,
    placing: Option<Placing>,
    /// Directories and inodes that it is about.
    about: Vec<Ino>,
}

/// Operations in their order. The first of them may be under way.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    queued: VecDeque<Queued>,
    bytes: usize,
    /// Operations of the batch that is under way.
    under_way: usize,
    /// Operations that have left the queue, ever.
    ended: u64,
    /// Directories and inodes that operations are about, and how many.
    about: HashMap<Ino, u32>,
}

impl Queue {
    /// One after another of which so many operations have ended.
    pub(crate) fn after(ended: u64) -> Queue {
        Queue {
            ended,
            ..Queue::default()
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queued.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.queued.len() >= MAX_QUEUED_OPERATIONS || self.bytes >= MAX_QUEUED_BYTES
    }

    /// Operations that have left the queue, ever.
    pub(crate) fn ended(&self) -> u64 {
        self.ended
    }

    /// Operations that were put into the queue, ever: all of them have ended when [`Queue::ended`] is as large.
    pub(crate) fn begun(&self) -> u64 {
        self.ended + self.queued.len() as u64
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
    ) {
        for ino in &about {
            *self.about.entry(*ino).or_default() += 1;
        }
        let bytes = OPERATION_BYTES + bytes_of(&early.operation);
        self.bytes += bytes;
        self.queued.push_back(Queued {
            caller: caller.clone(),
            early,
            bytes,
            placing,
            about,
        });
    }

    /// Returns whether a batch is under way.
    pub(crate) fn is_under_way(&self) -> bool {
        self.under_way > 0
    }

    /// The next batch, if none is under way and there is something to send.
    pub(crate) fn next_batch(&mut self) -> Option<Batch> {
        if self.under_way > 0 {
            return None;
        }
        let placing = self.queued.front()?.placing;
        let mut batch = Batch {
            callers: Vec::new(),
            placing,
            early: Vec::new(),
        };
        let mut bytes = 0;
        for queued in &self.queued {
            bytes += queued.bytes;
            let is_large = bytes > MAX_BATCH_BYTES && !batch.early.is_empty();
            if is_large || batch.early.len() == MAX_BATCH_OPERATIONS || queued.placing != placing {
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
        Some(batch)
    }

    /// The batch that was under way was executed up to this operation, and the next was refused if there was one; then the
    /// whole queue is lost, and returned.
    ///
    /// # Panics
    /// When none is under way.
    pub(crate) fn answered(&mut self, done: usize, refusal: Option<Refusal>) -> Vec<Lost> {
        assert!(self.under_way > 0, "a batch is answered that was not sent");
        let done = done.min(self.under_way);
        let is_whole = done == self.under_way;
        for queued in self.queued.drain(..done) {
            self.bytes -= queued.bytes;
            self.ended += 1;
            for ino in queued.about {
                let Some(count) = self.about.get_mut(&ino) else {
                    panic!("an operation about {ino} was not counted");
                };
                *count -= 1;
                if *count == 0 {
                    self.about.remove(&ino);
                }
            }
        }
        self.under_way = 0;
        if is_whole {
            return Vec::new();
        }
        let mut refusal = refusal;
        self.ended += self.queued.len() as u64;
        self.bytes = 0;
        self.about.clear();
        let lost = self.queued.drain(..).map(|queued| Lost {
            request: queued.early.operation.into(),
            refusal: refusal.take(),
        });
        lost.collect()
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
