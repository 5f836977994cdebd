//! Fault points: steps of a lane's work that a test hears of, so that it can end the process there.

use crate::error::LaneError;
use pandofs_api::{DataRequest, PeerMessage};
use pandofs_shard::Input;
use std::error::Error;
use std::fmt;

/// When in the life of a record or a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The record is proposed, and nowhere but in memory.
    Appending,
    /// The log has it; the store and other processes do not.
    Appended,
    /// It is applied; its answers and messages have not left.
    Applied,
    /// The message is about to leave.
    Sending,
    /// It has come, and nothing was done about it.
    Received,
    /// The log is about to be synced, or was, and those that wait for it have no answer.
    Syncing,
    /// The other end of `Syncing`.
    Synced,
    /// The store is about to be flushed, or was, and the log still has what it has now.
    Flushing,
    /// The other end of `Flushing`.
    Flushed,
}

/// Something at a [`Stage`].
#[derive(Clone, Copy, Debug)]
pub enum Subject<'a> {
    /// As it is in the log.
    Record(&'a [u8]),
    /// Between servers.
    Message(&'a PeerMessage),
    /// Of a shard to itself.
    Input(&'a Input),
    /// Of a client or a server.
    Data(&'a DataRequest),
    /// A sync of all shards' log.
    Log,
    /// A flush of all shards' store.
    Store,
}

/// Reason why a point cannot be noted.
pub type FaultError = Box<dyn Error + Send + Sync>;

/// Listener for the points.
pub trait FaultPoints: fmt::Debug + Send {
    /// A batch begins.
    ///
    /// # Errors
    /// The lane does not go on after one.
    fn begin_batch(&mut self) -> Result<(), FaultError>;

    /// The lane passes a point.
    ///
    /// # Errors
    /// The lane does not go on after one.
    fn pass(&mut self, stage: Stage, subject: Subject<'_>) -> Result<(), FaultError>;
}

/// A listener for the points, or none, which costs one comparison for each point.
#[derive(Debug, Default)]
pub struct Points(pub Option<Box<dyn FaultPoints>>);

impl Points {
    /// Whether there is a listener.
    pub fn are_on(&self) -> bool {
        self.0.is_some()
    }

    /// # Errors
    /// [`LaneError::FaultPoint`].
    pub fn begin_batch(&mut self) -> Result<(), LaneError> {
        match &mut self.0 {
            Some(points) => points.begin_batch().map_err(LaneError::FaultPoint),
            None => Ok(()),
        }
    }

    /// # Errors
    /// [`LaneError::FaultPoint`].
    pub fn pass(&mut self, stage: Stage, subject: Subject<'_>) -> Result<(), LaneError> {
        match &mut self.0 {
            Some(points) => points.pass(stage, subject).map_err(LaneError::FaultPoint),
            None => Ok(()),
        }
    }
}
