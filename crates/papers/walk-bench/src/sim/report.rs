//! Results of a simulated run.

use pandofs_walk::RankId;
use std::collections::BTreeMap;

/// Time of all workers by what it went for, in nanoseconds (the paper's figure 3b).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Components {
    /// Nanoseconds in the user's callback.
    pub callback_ns: u64,
    /// Nanoseconds of asking for attributes.
    pub lstat_ns: u64,
    /// Nanoseconds of opening, reading and closing directories.
    pub readdir_ns: u64,
    /// Messages taken up.
    pub communication_ns: u64,
}

/// One rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankReport {
    /// Nodes visited.
    pub nodes: u64,
    /// To other ranks.
    pub sent_messages: u64,
    /// Of these messages.
    pub sent_bytes: u64,
    /// Most items that it had queued.
    pub longest_queue: u64,
}

/// The whole run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Until the last rank knew that all is done.
    pub elapsed_ns: u64,
    /// Summed over all workers.
    pub components: Components,
    /// By the ranks' numbers.
    pub ranks: Vec<RankReport>,
    /// From, to: the heat map of the paper's figure 5.
    pub bytes: BTreeMap<(RankId, RankId), u64>,
}

impl Report {
    /// Nodes visited by all ranks.
    pub fn nodes(&self) -> u64 {
        self.ranks.iter().map(|rank| rank.nodes).sum()
    }

    /// Messages between ranks.
    pub fn messages(&self) -> u64 {
        self.ranks.iter().map(|rank| rank.sent_messages).sum()
    }

    /// Bytes of all messages between ranks.
    pub fn sent_bytes(&self) -> u64 {
        self.ranks.iter().map(|rank| rank.sent_bytes).sum()
    }
}
