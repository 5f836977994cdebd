//! Batch: operations that a session has executed under grants.

use super::{
    Change, Create, Link, Mkdir, Operation, RemoveXattr, Rename, Rmdir, SetAttr, SetXattr, Stripe,
    Unlink, WriteInline, WriteNew, WroteData,
};
use crate::request::Request;
use pandofs_placement::Placing;
use pandofs_types::{Credentials, Ino, Time};
use serde::{Deserialize, Serialize};

/// Executes in this order, in one record, what the session has executed already on its image of what it was granted.
/// The first that is refused ends it, and nothing after it is executed. Answers `Batch`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// Of the grants under which they were executed: nothing is done if these are over.
    pub incarnation: u64,
    /// Callers of the operations, each once.
    pub callers: Vec<Credentials>,
    /// Placement by which the session went where the policy follows the load.
    pub placing: Option<Placing>,
    /// At least one, at most [`MAX_BATCH_OPERATIONS`](pandofs_types::limits::MAX_BATCH_OPERATIONS).
    pub early: Vec<Early>,
}

/// An operation that the session has executed, and what it has chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Early {
    /// Place in the batch's callers.
    pub caller: u16,
    /// By the server's clock, as far as the session knows it.
    pub time: Time,
    /// Drawn by the session, as a shard draws one for each record.
    pub random: u64,
    /// Number of the inode that it makes, out of a block that the session has taken.
    pub ino: Option<Ino>,
    /// As it was executed.
    pub operation: EarlyOperation,
}

macro_rules! early {
    ($($name:ident),+ $(,)?) => {
        /// Operation that a session may execute under a grant. (A format: numbered in this order.)
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum EarlyOperation {
            $(#[allow(missing_docs, reason = "each is the operation of its name")] $name($name)),+
        }

        impl EarlyOperation {
            /// The operation of a request; `None` if it is none that may be executed early.
            pub fn of(request: &Request) -> Option<EarlyOperation> {
                match request {
                    $(Request::$name(operation) => Some(EarlyOperation::$name(operation.clone())),)+
                    _ => None,
                }
            }

            /// Facts that follow from the operation alone.
            pub fn operation(&self) -> &dyn Operation {
                match self {
                    $(EarlyOperation::$name(operation) => operation),+
                }
            }
        }

        impl From<EarlyOperation> for Request {
            fn from(early: EarlyOperation) -> Request {
                match early {
                    $(EarlyOperation::$name(operation) => Request::$name(operation)),+
                }
            }
        }
    };
}

early! {
    Create, Mkdir, Unlink, Rmdir, Rename, Link, SetAttr, WriteInline, SetXattr, RemoveXattr, Stripe, WroteData, WriteNew
}

impl Operation for Batch {
    fn is_mutation(&self) -> bool {
        true
    }

    fn changes(&self) -> Vec<Change<'_>> {
        let operations = self.early.iter().map(|early| early.operation.operation());
        operations.flat_map(Operation::changes).collect()
    }
}
