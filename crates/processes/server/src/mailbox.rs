//! Mailbox of a lane, for reports of helper threads and commands of the server's handle.

use crate::connection::ConnectionKey;
use crate::data::pool::DataOrigin;
use crate::error::ServerError;
use crate::observer::Seen;
use crate::peers::Opened;
use pandofs_api::{AdminReply, DataReply};
use pandofs_lane::LaneError;
use pandofs_placement::ClusterMap;
use pandofs_shard::Input;
use pandofs_storage::store::StoreError;
use pandofs_types::{ServerId, ShardId};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

/// One piece of news.
#[derive(Debug)]
pub(crate) enum Mail {
    /// A request to a data object has been carried out.
    DataDone {
        origin: DataOrigin,
        reply: DataReply,
    },
    /// An administrator's listing or dump is ready.
    AdminDone {
        connection: ConnectionKey,
        id: u64,
        reply: AdminReply,
    },
    /// The key that the input needs is in memory now.
    Warmed {
        shard: ShardId,
        keys: Vec<Vec<u8>>,
        input: Box<Input>,
    },
    /// The key that the input needs cannot be read.
    Unreadable {
        shard: ShardId,
        input: Box<Input>,
        error: StoreError,
    },
    /// The sync that the lane asked for has finished.
    Synced(Result<(), LaneError>),
    /// The flush that the lane asked for has finished.
    Flushed(Result<(), LaneError>),
    /// The other server has welcomed us, or the reason why there is no connection.
    LinkOpened {
        server: ServerId,
        result: Result<Opened, String>,
    },
    /// The newest cluster map that was found in the file and at the other servers, if it is newer than ours.
    MapFound(Option<Box<ClusterMap>>),
    /// Somebody in this process wants to know how the server is.
    Observe(Sender<Seen>),
    /// A helper thread cannot go on; neither can the lane.
    Failed(ServerError),
    /// Stop: sync and flush everything first, or (`Abandon`) nothing.
    Stop,
    Abandon,
}

/// Where mail is put; wakes the lane.
#[derive(Clone, Debug)]
pub(crate) struct Mailbox {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    mail: Mutex<Vec<Mail>>,
    waker: mio::Waker,
}

impl Mailbox {
    pub(crate) fn new(waker: mio::Waker) -> Mailbox {
        Mailbox {
            shared: Arc::new(Shared {
                mail: Mutex::new(Vec::new()),
                waker,
            }),
        }
    }

    pub(crate) fn post(&self, mail: Mail) {
        let was_empty = {
            let mut waiting = self
                .shared
                .mail
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            waiting.push(mail);
            waiting.len() == 1
        };
        // A sender that finds the box full leaves the waking to the one that filled it: the lane takes all.
        if was_empty && let Err(error) = self.shared.waker.wake() {
            // It looks into the box by itself when its next timer runs out.
            tracing::error!("cannot wake the lane: {error}");
        }
    }

    /// Takes all mail in the order in which it was posted.
    pub(crate) fn take(&self) -> Vec<Mail> {
        std::mem::take(
            &mut *self
                .shared
                .mail
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }
}
