//! Counts of what happened in a run, by which tests see that runs are about something.

use crate::client::Client;
use crate::history::History;
use crate::server::Server;

/// Events of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Things that happened at a moment: messages, ends of waits, faults.
    pub events: u64,
    /// Servers that died.
    pub crashes: u64,
    /// Of these, those that were splitting or merging a partition just then.
    pub crashes_in_splits: u64,
    /// Of these, those that coordinated or had prepared an operation with others that was not decided there.
    pub crashes_in_operations: u64,
    /// Operations of clients that were begun.
    pub operations: u64,
    /// Partitions that servers split, as far as they lived to tell.
    pub splits: u64,
    /// Operations of more than one shard that ended, on servers that did not die after.
    pub distributed: u64,
    /// Questions that clients answered from what they believed.
    pub believed: u64,
    /// Leases that were recalled.
    pub recalled: u64,
    /// Servers that joined.
    pub joins: u64,
    /// Newer cluster maps that running servers took up.
    pub maps_taken: u64,
    /// Servers that died while they or others went by an older map than the newest.
    pub crashes_in_joins: u64,
    /// Newer maps that clients took up.
    pub maps_learnt: u64,
    /// Directories on servers that joined, made since all went by the newest map.
    pub placed_on_joined: u64,
    /// Requests that clients answered under grants.
    pub early: u64,
    /// Of these, those that clients told to be lost.
    pub early_lost: u64,
    /// Clients that stood still.
    pub stopped: u64,
    /// Sessions that servers let go of, each server by itself.
    pub expired: u64,
    /// Of these, those of clients that went on.
    pub expired_alive: u64,
    /// Keys that were read for an input that waited for them.
    pub warmed: u64,
    /// Reads of whole files.
    pub contents_read: u64,
    /// Syncs that told a client of a loss of contents.
    pub losses_told: u64,
}

impl Counted {
    /// The server dies now.
    pub(super) fn crash_of(&mut self, server: &Server) {
        self.crashes += 1;
        let Some(process) = &server.process else {
            return;
        };
        let shards = process.shards();
        let splits = |&shard: &_| shards.shard(shard).is_splitting();
        self.crashes_in_splits += u64::from(shards.ids().iter().any(splits));
        let is_undecided = shards.status().iter().any(|status| status.undecided > 0);
        self.crashes_in_operations += u64::from(is_undecided);
    }

    /// The client has ended.
    pub(super) fn end_of(&mut self, client: &Client) {
        self.maps_learnt += client.maps_learnt();
        let (believed, recalled) = client.believed_and_recalled();
        self.believed += believed;
        self.recalled += recalled;
        self.early += client.executed();
    }

    /// Takes up the counts of contents, and of early operations that were lost.
    pub(super) fn contents_of(&mut self, history: &History) {
        self.early_lost = history.early_lost();
        (self.contents_read, self.losses_told) = history.contents.counts();
    }

    /// The run has ended.
    pub(super) fn work_of(&mut self, server: &Server) {
        if let Some(process) = &server.process {
            let finished = process.shards().finished();
            self.distributed += finished.committed + finished.aborted;
            let statuses = process.shards().status();
            self.splits += statuses.iter().map(|status| status.splits).sum::<u64>();
        }
    }
}
