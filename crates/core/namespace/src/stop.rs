//! Why an operation goes no further.

use pandofs_api::Refusal;
use pandofs_storage::store::StoreError;
use pandofs_types::{FsError, TxId};

/// Nothing was changed. Each variant is one reaction of the shard.
#[derive(Debug, thiserror::Error)]
pub enum Stop {
    /// Tell the client.
    #[error("refused: {0:?}")]
    Refuse(Refusal),
    /// An undecided operation holds a key that this one needs: wait for its end.
    #[error("a key is locked by operation {0}")]
    Locked(TxId),
    /// The key is not in memory, and this read may not wait for the disk.
    #[error("key {0:02x?} is not in memory")]
    Cold(Vec<u8>),
    /// The old and the new name of a rename lead to the same file.
    #[error("both names lead to the same file")]
    SameFile,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The stored state contradicts itself or cannot be decoded: the shard must not go on.
    #[error("stored state is broken: {0}")]
    Broken(String),
}

impl From<FsError> for Stop {
    fn from(error: FsError) -> Stop {
        Stop::Refuse(Refusal::Fs(error))
    }
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Stop {
        Stop::Refuse(refusal)
    }
}
