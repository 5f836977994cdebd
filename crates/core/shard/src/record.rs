//! Records of the log: what changes a shard's state. `docs/data-layout.md` gives them byte by byte: a
//! version byte, then the postcard encoding of [`Record`].

use crate::ShardError;
use pandofs_api::{Age, CommitMessage, Horizon, ShardRequest, SplitChunk, SplitId};
use pandofs_namespace::Choices;
use pandofs_namespace::records::ReclaimRecord;
use pandofs_placement::{DirMap, PartitionIndex};
use pandofs_types::{Ino, SessionId, ShardId, TxId};
use serde::{Deserialize, Serialize};

/// The first byte of a record.
pub const LOG_FORMAT_VERSION: u8 = 1;

/// One change of a shard's state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// A client's mutation. `age` is given when the operation had to start again.
    Request {
        /// Checked once more when it is applied.
        request: Box<ShardRequest>,
        /// Time, random numbers and what else the state does not determine.
        choices: Choices,
        /// `None`: as old as the record.
        age: Option<Age>,
    },
    /// A message of a distributed operation that changes what this shard knows of it.
    Commit {
        /// The sending shard.
        from: ShardId,
        /// The operations coordinated by `from` that have ended everywhere.
        horizon: Horizon,
        /// From the coordinator or a participant of the operation.
        message: Box<CommitMessage>,
        /// Time, random numbers and what else the state does not determine.
        choices: Choices,
    },
    /// This shard restarted while it coordinated the operation.
    Recover {
        /// The operation, which is aborted if it is not decided.
        tx: TxId,
    },
    /// A partition starts to split.
    SplitBegin {
        /// The directory.
        dir: Ino,
        /// The partition that splits.
        index: PartitionIndex,
        /// The slot array, if the directory has to have a longer one.
        slots: Vec<ShardId>,
    },
    /// All is copied: the last step of a split starts.
    SplitHand {
        /// The directory.
        dir: Ino,
        /// The attempt that ends with this.
        split: SplitId,
        /// All that the target has to have staged.
        chunks: u32,
        /// Time, random numbers and what else the state does not determine.
        choices: Choices,
    },
    /// A split is given up at its source.
    SplitAbandon {
        /// The directory.
        dir: Ino,
        /// The attempt.
        split: SplitId,
    },
    /// Copied entries arrive.
    SplitStage {
        /// As it came from the source.
        chunk: Box<SplitChunk>,
    },
    /// A split is given up at its target.
    SplitDrop {
        /// The attempt.
        split: SplitId,
    },
    /// The home learns of splits.
    LearnMap {
        /// The directory.
        dir: Ino,
        /// As the sender knows it; what this shard knows besides stays.
        map: DirMap,
    },
    /// Inodes that this shard forwards have moved on.
    Forwarded {
        /// Their numbers.
        inos: Vec<Ino>,
        /// The shard that has them now.
        now_at: ShardId,
    },
    /// Inodes that this shard forwards have died.
    ForgetForwarding {
        /// Their numbers.
        inos: Vec<Ino>,
    },
    /// Nobody has the orphan open any more.
    Reclaim {
        /// The inode.
        ino: Ino,
    },
    /// Data objects and forwarding records of a reclaim item are done.
    Reclaimed {
        /// The inode.
        ino: Ino,
        /// The work that is done: the record is dropped if it is still the same.
        done: ReclaimRecord,
    },
    /// The session is over, or has been silent for too long.
    ExpireSession {
        /// The client.
        session: SessionId,
    },
    /// The session may have locks here from now on, or has none any more.
    LockHolder {
        /// The client.
        session: SessionId,
        /// False: nothing is left.
        has: bool,
    },
    /// A partition that is nearly empty is to be merged into the one it was split from, whose shard knows
    /// `map`.
    MergeBegin {
        /// The directory.
        dir: Ino,
        /// The partition that is to be merged.
        child: PartitionIndex,
        /// Without it this shard might not know where the names go.
        map: DirMap,
    },
    /// The home knows that no partition of the directory is here any more.
    ForgetParts {
        /// The directory.
        dir: Ino,
    },
    /// The session may have leases of this shard from now on, or has none any more.
    Leaseholder {
        /// The client.
        session: SessionId,
        /// False: nothing is left.
        has: bool,
    },
    /// The server has started: the serials below may have been given out in records that were lost.
    SkipSerials {
        /// The first number that is certain to be free.
        next: u64,
    },
    /// The session may have grants of this shard from now on, or has none any more.
    Grantholder {
        /// The client.
        session: SessionId,
        /// Of the grants that it may have; `None`: nothing is left.
        incarnation: Option<u64>,
    },
}

impl Record {
    /// With the version byte before it.
    pub fn encode(&self) -> Vec<u8> {
        let bytes = Vec::with_capacity(256);
        postcard::to_extend(&(LOG_FORMAT_VERSION, self), bytes)
            .expect("a record in memory has an encoding")
    }

    /// # Errors
    /// For a record of another version, or bytes that are none.
    pub fn decode(bytes: &[u8]) -> Result<Record, ShardError> {
        let broken = |what: String| ShardError::BrokenLog(what);
        match bytes.first() {
            Some(&LOG_FORMAT_VERSION) => {}
            Some(version) => {
                return Err(broken(format!(
                    "a record of version {version}, this program knows {LOG_FORMAT_VERSION}"
                )));
            }
            None => return Err(broken("an empty record".to_string())),
        }
        match postcard::take_from_bytes(&bytes[1..]) {
            Ok((record, [])) => Ok(record),
            Ok((_, rest)) => Err(broken(format!(
                "a record with {} bytes too many",
                rest.len()
            ))),
            Err(error) => Err(broken(format!("a record that cannot be decoded: {error}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_other_versions_are_refused() {
        let mut bytes = Record::Reclaim { ino: Ino(5) }.encode();
        assert_eq!(
            Record::decode(&bytes).unwrap(),
            Record::Reclaim { ino: Ino(5) }
        );
        bytes.push(0);
        assert!(Record::decode(&bytes).is_err());
        bytes.pop();
        bytes[0] = 2;
        let error = Record::decode(&bytes).unwrap_err().to_string();
        assert!(error.contains("version 2"), "{error}");
        assert!(Record::decode(&[]).is_err());
    }
}
