//! Errors of a lane.

use crate::faults::FaultError;
use pandofs_log::LogError;
use pandofs_shard::ShardError;
use pandofs_store::StoreError;
use pandofs_types::ShardId;

/// Why a lane cannot go on: what it holds in memory is in doubt. Started again, it goes by what its log and store hold.
#[derive(Debug, thiserror::Error)]
pub enum LaneError {
    #[error("shard {shard}: {source}")]
    Shard { shard: ShardId, source: ShardError },
    #[error("the store failed: {0}")]
    Store(#[from] StoreError),
    #[error("the log failed: {0}")]
    Log(#[from] LogError),
    #[error("a fault point cannot be noted: {0}")]
    FaultPoint(FaultError),
}

/// Why shards cannot be brought to where their log ends.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    #[error("the store cannot be used: {0}")]
    Store(#[from] StoreError),
    #[error("the log cannot be used: {0}")]
    Log(#[from] LogError),
    #[error(
        "shard {shard}: records {missing_from} to {missing_to} are neither in the store nor in the \
         log; restore both from the same moment"
    )]
    LogGap {
        shard: ShardId,
        missing_from: u64,
        missing_to: u64,
    },
    #[error("shard {shard}: {source}")]
    Shard { shard: ShardId, source: ShardError },
}
