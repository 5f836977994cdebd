//! Events of a rank, and the commands that it answers with.

use crate::{Message, RankId};
use std::time::Duration;

/// An event that a transport gives to a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<T> {
    /// Before the first event of rank 0, any number of times: so many items of a walk that goes on
    /// are kept outside of memory, as if [`Command::Spill`] had been for them.
    Spilled {
        /// Items in all pieces together.
        items: usize,
    },
    /// The first event of each other rank. Only rank 0 gets roots.
    Start {
        /// Items to begin with; empty but for rank 0.
        roots: Vec<T>,
    },
    /// From another rank of the walk.
    Message {
        /// The other rank.
        from: RankId,
        /// As the other rank's [`Command::Send`] had it.
        message: Message<T>,
    },
    /// A worker found children and goes on with its item.
    Found {
        /// Number of the worker, below [`Config::workers`](crate::Config::workers).
        worker: u32,
        /// Items that the rank has not heard of yet.
        children: Vec<T>,
    },
    /// A worker has done its item; with the children that it has not reported yet.
    Done {
        /// Number of the worker, below [`Config::workers`](crate::Config::workers).
        worker: u32,
        /// Items that the rank has not heard of yet.
        children: Vec<T>,
    },
    /// The items that [`Command::Refill`] asked for, in the order in which they were spilled.
    Refilled {
        /// One piece.
        items: Vec<T>,
    },
    /// The time of [`Command::Wake`] has passed.
    Woken,
    /// Another rank does not live any more.
    Died {
        /// The walk fails, as its items are lost.
        rank: RankId,
    },
}

/// A command of a rank to its transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command<T> {
    /// In any order with other messages, but not lost.
    Send {
        /// The other rank.
        to: RankId,
        /// Given to that rank as [`Event::Message`].
        message: Message<T>,
    },
    /// Hand the item to a worker that has none.
    Work {
        /// Number of a worker that has no item, below [`Config::workers`](crate::Config::workers).
        worker: u32,
        /// To be answered by [`Event::Done`].
        item: T,
    },
    /// Keep these outside of memory, as one piece.
    Spill {
        /// At least one.
        items: Vec<T>,
    },
    /// Bring back the piece that was spilled last, with [`Event::Refilled`].
    Refill,
    /// Send the piece that was spilled first with [`Message::Work`]: it was asked for.
    GiveSpilled {
        /// The rank that asked.
        to: RankId,
    },
    /// Give [`Event::Woken`] after this time, unless something else happens before: a wake-up that
    /// is not needed any more does no harm.
    Wake {
        /// From now on.
        after: Duration,
    },
    /// All items of all ranks are done. The last command of a rank.
    Finished,
    /// The walk is not complete and will not be. The last command of a rank.
    Failed(Failure),
}

/// Why a walk cannot be completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Another process or thread is gone.
    #[error("rank {rank} has died, and the items it had with it: the walk is not complete")]
    RankDied {
        /// The first of which that was heard.
        rank: RankId,
    },
}
