//! The words every other crate speaks: identifiers, names, attributes, errors and limits.
//!
//! Invariant: nothing in here does I/O, reads a clock, draws a random number, or knows how anything
//! is placed, stored or sent.

pub mod acl;
pub mod atime;
pub mod attr;
pub mod capabilities;
mod commit_protocol;
pub mod error;
pub mod id;
pub mod lease;
pub mod limits;
pub mod lock;
pub mod name;
pub mod position;
mod steady;
mod store_kind;
mod trace;

pub use acl::{Acl, AclEntry, AclKind, Acls};
pub use atime::AtimeRule;
pub use attr::{Attr, Credentials, FileKind, NewMode, SetAttr, SetTime, Time};
pub use capabilities::Capabilities;
pub use commit_protocol::CommitProtocol;
pub use error::{FsError, FsResult};
pub use id::{Epoch, FsId, Ino, ServerId, SessionId, ShardId, SlotId, TxId};
pub use lease::{LeaseKey, Leased, Term};
pub use lock::{FileLock, LockKind, LockMode, LockRange};
pub use name::{Name, NameError};
pub use position::{HashKey, Position};
pub use steady::Steady;
pub use store_kind::StoreKind;
pub use trace::TraceContext;
