//! Notes of what requests wait for, for a driver that measures that. Nothing goes by them.

use crate::port::Ticket;
use pandofs_api::Cause;
use pandofs_types::TxId;
use pandofs_types::limits::MAX_WAITING_REQUESTS;

/// A turn in the life of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// From here on it waits for this.
    Waits(Ticket, Cause),
    /// It waits no longer.
    GoesOn(Ticket),
    /// It has come again: what was noted of the first is of the second from here on.
    Again(Ticket, Ticket),
    /// It is carried out by this operation over several shards from here on.
    Coordinates(Ticket, TxId),
}

/// Those since they were last taken; where nobody takes them, the first of them.
#[derive(Debug, Default)]
pub(crate) struct Notes(Vec<Note>);

impl Notes {
    pub(crate) fn add(&mut self, note: Note) {
        if self.0.len() < MAX_WAITING_REQUESTS {
            self.0.push(note);
        }
    }

    pub(crate) fn take(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.0)
    }
}
