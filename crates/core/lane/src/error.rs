//! Errors of a lane.

use crate::faults::FaultError;
use pandofs_shard::ShardError;
use pandofs_storage::log::LogError;
use pandofs_storage::store::StoreError;
use pandofs_types::ShardId;

/// Why a lane cannot go on: what it holds in memory is in doubt. Started again, it goes by what its log and store hold.
#[derive(Debug, thiserror::Error)]
pub enum LaneError {
    /// A shard cannot go on.
    #[error("shard {shard}: {source}")]
    Shard {
        /// The shard.
        shard: ShardId,
        /// Why it stopped.
        source: ShardError,
    },
    /// The store cannot be read or written.
    #[error("the store failed: {0}")]
    Store(#[from] StoreError),
    /// The log cannot be read, appended to or synced.
    #[error("the log failed: {0}")]
    Log(#[from] LogError),
    /// The test that asked for the point is not told of it.
    #[error("a fault point cannot be noted: {0}")]
    FaultPoint(FaultError),
}

/// Why shards cannot be brought to where their log ends.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// The store cannot be read or written, or is damaged.
    #[error("the store cannot be used: {0}")]
    Store(#[from] StoreError),
    /// The log cannot be read, or is damaged.
    #[error("the log cannot be used: {0}")]
    Log(#[from] LogError),
    /// Log and store are not from the same moment.
    #[error(
        "shard {shard}: records {missing_from} to {missing_to} are neither in the store nor in the \
         log; restore both from the same moment"
    )]
    LogGap {
        /// The shard.
        shard: ShardId,
        /// Index of the first record that neither has.
        missing_from: u64,
        /// Index of the last record that neither has.
        missing_to: u64,
    },
    /// A record cannot be applied.
    #[error("shard {shard}: {source}")]
    Shard {
        /// The shard.
        shard: ShardId,
        /// Why it stopped.
        source: ShardError,
    },
}
