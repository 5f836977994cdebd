//! Events of a rank, and the commands that it answers with.

use crate::{Message, RankId};
use std::time::Duration;

/// An event that a transport gives to a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<T> {
    /// Before the first event of rank 0, any number of times: so many items of a walk that goes on
    /// are kept outside of memory, as if [`Command::Spill`] had been for them.
    Spilled {
        items: usize,
    },
    /// The first event of each other rank. Only rank 0 gets roots.
    Start {
        roots: Vec<T>,
    },
    Message {
        from: RankId,
        message: Message<T>,
    },
    /// A worker found children and goes on with its item.
    Found {
        worker: u32,
        children: Vec<T>,
    },
    /// A worker has done its item; with the children that it has not reported yet.
    Done {
        worker: u32,
        children: Vec<T>,
    },
    /// The items that [`Command::Refill`] asked for, in the order in which they were spilled.
    Refilled {
        items: Vec<T>,
    },
    /// The time of [`Command::Wake`] has passed.
    Woken,
    /// Another rank does not live any more.
    Died {
        rank: RankId,
    },
}

/// A command of a rank to its transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command<T> {
    Send {
        to: RankId,
        message: Message<T>,
    },
    /// Hand the item to a worker that has none.
    Work {
        worker: u32,
        item: T,
    },
    /// Keep these outside of memory, as one piece.
    Spill {
        items: Vec<T>,
    },
    /// Bring back the piece that was spilled last, with [`Event::Refilled`].
    Refill,
    /// Send the piece that was spilled first with [`Message::Work`]: it was asked for.
    GiveSpilled {
        to: RankId,
    },
    /// Give [`Event::Woken`] after this time, unless something else happens before: a wake-up that
    /// is not needed any more does no harm.
    Wake {
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
    #[error("rank {rank} has died, and the items it had with it: the walk is not complete")]
    RankDied { rank: RankId },
}
