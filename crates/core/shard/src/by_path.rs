//! Requests by path within the shard.

use crate::shard::{Shard, view_of};
use pandofs_api::op::PathOperation;
use pandofs_api::{EntryReply, PathReply, Refusal, Reply, Request, ShardRequest, op};
use pandofs_namespace::{Stop, ops};
use pandofs_storage::store::Overlay;
use pandofs_types::{Ino, SessionId};

/// Requests by path since the shard was opened, by what came of them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PathRequests {
    /// Answered here.
    pub answered: u64,
    /// Answered with the directory, of which the name is on another shard.
    pub led_on: u64,
    /// Of paths that were not known to be right.
    pub unknown: u64,
}

/// The file that a read has opened by its answer.
pub(crate) fn opened_by(request: &Request, reply: &Reply) -> Option<Ino> {
    match (request, reply) {
        (Request::Open(op::Open { ino, .. }), _) => Some(*ino),
        (
            Request::ByPath(op::ByPath {
                operation: PathOperation::OpenName(_),
                ..
            }),
            Reply::Entry(EntryReply {
                ino,
                inode: Some(_),
                ..
            }),
        ) => Some(*ino),
        _ => None,
    }
}

/// The session that knows by a request and its answer which keys the request changes.
pub(crate) fn knowing(request: &ShardRequest) -> Option<SessionId> {
    match request.request {
        // By the path it does not know the directory's number.
        Request::ByPath(_) => None,
        _ => Some(request.key.session),
    }
}

/// The refusal as the sender of the request understands it.
pub(crate) fn told(request: &Request, refusal: Refusal) -> Refusal {
    match request {
        Request::ByPath(by_path) => ops::by_path::told(by_path, refusal),
        _ => refusal,
    }
}

impl Shard {
    /// Fills in the directories of a request by path. They follow from the state, so they are found anew each time that
    /// the request has waited: it is decided as everything is at one moment.
    pub(crate) fn fill_in(
        &self,
        overlay: &Overlay<'_>,
        request: &mut ShardRequest,
    ) -> Result<(), Stop> {
        let Request::ByPath(by_path) = &mut request.request else {
            return Ok(());
        };
        let view = view_of(&self.config, overlay, self.goes_by_memory());
        ops::by_path::fill(&view, &self.operations.locks, &request.caller, by_path)
    }

    /// Counts a request by path that is answered.
    pub(crate) fn count_by_path(&mut self, request: &Request, result: &Result<Reply, Refusal>) {
        let Request::ByPath(_) = request else {
            return;
        };
        let counted = &mut self.path_requests;
        match result {
            Err(Refusal::ByPath(PathReply::Unknown { .. })) => counted.unknown += 1,
            Err(Refusal::ByPath(PathReply::LeadsTo { .. })) => counted.led_on += 1,
            Err(Refusal::TryAgain) => {}
            _ => counted.answered += 1,
        }
    }
}
