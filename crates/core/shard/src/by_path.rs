//! Requests by path within the shard.

use crate::port::Ticket;
use crate::shard::{Shard, view_of};
use pandofs_api::{Reply, ShardRequest, op};
use pandofs_namespace::{Stop, ops};
use pandofs_storage::store::Overlay;

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

impl Shard {
    /// A lookup by path. The directory that it is in follows from the state, so it is found anew each time that the
    /// request has waited: the answer is as everything is at one moment.
    pub(crate) fn lookup_path(
        &mut self,
        overlay: &Overlay<'_>,
        ticket: Ticket,
        request: ShardRequest,
        lookup: &op::LookupPath,
    ) -> Result<(), Stop> {
        let view = view_of(&self.config, overlay, self.goes_by_memory());
        let dir = match ops::by_path::dir_here(&view, &self.operations.locks, lookup) {
            Ok(dir) => dir,
            Err(stop) => return self.put_off(ticket, request, stop),
        };
        // Others may have changed it, and told nobody yet.
        if !self.end_grants_of(dir.into_iter(), ticket, &request) {
            return Ok(());
        }
        self.answer_in(overlay, ticket, request)
    }

    /// Counts a request by path that is answered.
    pub(crate) fn count_by_path(&mut self, reply: Option<&Reply>) {
        let counted = &mut self.path_requests;
        match reply {
            Some(Reply::ByPath(pandofs_api::PathReply::Unknown { .. })) => counted.unknown += 1,
            Some(Reply::ByPath(pandofs_api::PathReply::LeadsTo { .. })) => counted.led_on += 1,
            _ => counted.answered += 1,
        }
    }
}
