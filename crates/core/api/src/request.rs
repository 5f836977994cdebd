//! Requests of clients to one shard.

use crate::LayoutChoice;
use crate::names::snake_case;
use crate::op::{self, Operation};
use pandofs_placement::{DirPolicy, FilePolicy};
use pandofs_types::limits::{MAX_PARTITIONS, MIN_SPLIT_THRESHOLD};
use pandofs_types::{Credentials, Epoch, SessionId, ShardId, SlotId};
use serde::{Deserialize, Serialize};

/// Identifies a request for ever, so that a repeated one gets the first one's answer: the slot's
/// sequence number grows by one or more with each new request on it, over all shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RequestKey {
    /// The client.
    pub session: SessionId,
    /// One request at a time is under way on it.
    pub slot: SlotId,
    /// Of the slot; gaps are allowed.
    pub sequence: u64,
}

/// A request with what every request carries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardRequest {
    /// The shard that the client takes to be the right one.
    pub shard: ShardId,
    /// The cluster map by which the client chose the server.
    pub epoch: Epoch,
    /// Kept over repetitions, so that it is done once.
    pub key: RequestKey,
    /// Whose rights are checked.
    pub caller: Credentials,
    /// The operation with its arguments.
    pub request: Request,
}

/// Settings of a directory that its new subdirectories inherit. `None` is the file system's default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirSettings {
    /// Entries of a partition before it splits.
    pub threshold: Option<u32>,
    /// Partitions beyond which it does not split.
    pub max_partitions: Option<u32>,
    /// Partitions a directory is made with.
    pub initial_partitions: Option<u32>,
    /// Where new subdirectories go.
    pub policy: Option<DirPolicy>,
    /// Where the inodes of new files go.
    pub file_policy: Option<FilePolicy>,
    /// How files that are made in it are striped. Set as a whole.
    pub layout: Option<LayoutChoice>,
}

impl DirSettings {
    /// Whether every setting is in its range (they come from the network).
    pub fn is_valid(&self) -> bool {
        let partitions = 1..=MAX_PARTITIONS as u32;
        let fits = |wanted: Option<u32>| wanted.is_none_or(|wanted| partitions.contains(&wanted));
        self.threshold
            .is_none_or(|threshold| threshold >= MIN_SPLIT_THRESHOLD)
            && fits(self.max_partitions)
            && fits(self.initial_partitions)
            && self.policy.is_none_or(DirPolicy::is_valid)
            && self.file_policy.is_none_or(FilePolicy::is_valid)
            && self.layout.is_none_or(|layout| layout.is_valid())
    }
}

/// Condition of `setxattr`: whether the attribute may, must or must not be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum XattrMode {
    /// It is set in either case.
    Either,
    /// XATTR_CREATE
    Create,
    /// XATTR_REPLACE
    Replace,
}

macro_rules! requests {
    ($($name:ident),+ $(,)?) => {
        /// An operation that a client asks a shard for. Those about names are sent to the shard that holds the partition of
        /// `(dir, name)`, those about an inode to the shard that holds it, the others to all shards of a directory.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum Request {
            $(
                #[doc = concat!("See [`op::", stringify!($name), "`].")]
                $name(op::$name)
            ),+
        }

        impl Request {
            /// Its variant, as metrics and traces have it: `get_attr`.
            pub fn name(&self) -> String {
                snake_case(match self {
                    $(Request::$name(_) => stringify!($name)),+
                })
            }

            /// Facts that follow from the request alone.
            pub fn operation(&self) -> &dyn Operation {
                match self {
                    $(Request::$name(operation) => operation),+
                }
            }

            /// The same, to fill in places that were found to be others ([`Operation::aim`]).
            pub fn operation_mut(&mut self) -> &mut dyn Operation {
                match self {
                    $(Request::$name(operation) => operation),+
                }
            }
        }
    };
}

crate::operations!(requests);

/// Node that [`op::Create`] makes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NewNode {
    /// A regular file, empty.
    File,
    /// A symbolic link.
    Symlink {
        /// Bytes in no particular encoding, at most `MAX_SYMLINK_BYTES`, not looked into.
        #[serde(with = "serde_bytes")]
        target: Vec<u8>,
    },
    /// A named pipe.
    Fifo,
    /// The name of a Unix domain socket.
    Socket,
    /// A character device; needs `MKNOD`.
    Char {
        /// Device number, in Linux's encoding.
        rdev: u32,
    },
    /// A block device; needs `MKNOD`.
    Block {
        /// Device number, in Linux's encoding.
        rdev: u32,
    },
}

impl Request {
    /// Whether it can change the shard's state and is therefore logged and answered exactly once.
    pub fn is_mutation(&self) -> bool {
        self.operation().is_mutation()
    }
}
