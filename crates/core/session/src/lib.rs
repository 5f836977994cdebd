//! Session: the client's side of the protocol as step machines.
//!
//! Answers, refusals, losses and moments go in; what is to be sent, learnt and waited for comes out. The client
//! library drives it with sockets and threads, the simulator with events from a seed.
//!
//! Invariant: no I/O, clock, randomness or threads; nothing that is kept here is taken for current, but what servers
//! have leased, which they recall before they change it.
//!
//! | file | job |
//! | --- | --- |
//! | `call` | one request: its way to an answer, pauses, doubt, giving up |
//! | `router` | the shard of a request and the meaning of a refusal |
//! | `maps` | places of directories and inodes, as far as they are known |
//! | `lease_cache`, `lease_grant`, `boottime` | leased entries and attributes, and moments of their clock |
//! | `hearing` | recalls of leases, and those that wait for writes |
//! | `opens`, `locks` | open files, closes and file locks |
//! | `registration` | what a server is told of them that was restarted |
//! | `unsynced` | acknowledged changes that may not be on disk, and syncs that come too late for them |
//! | `object_change` | a change of data objects until all of them have followed as many truncations |
//! | `atime` | times of access as reads change them |
//! | `limits` | limits of all that |

mod atime;
mod boottime;
mod call;
mod hearing;
mod lease_cache;
mod lease_grant;
pub mod limits;
mod locks;
mod maps;
mod object_change;
mod opens;
mod registration;
mod router;
mod unsynced;

pub use crate::atime::touch;
pub use crate::boottime::Boottime;
pub use crate::call::{Call, Circumstances, End, Event, Step, Wait};
pub use crate::hearing::Hearing;
pub use crate::lease_cache::{
    Begun, Change, Hold, LeaseCache, Listed, ListedUntil, entry_key, is_same, searches_all,
};
pub use crate::lease_grant::{LeaseGrant, Sent};
pub use crate::locks::{LockOwner, Locks};
pub use crate::maps::{DirMaps, InodeShards};
pub use crate::object_change::{ObjectChange, OutOfStep};
pub use crate::opens::{Batch, Closes, OpenFiles};
pub use crate::registration::{NotTaken, Registration};
pub use crate::router::{KnownPlaces, Reaction, Router, Target, leaves_doubt};
pub use crate::unsynced::{
    Mark, Place, Synced, Unsynced, changed_by, object_changed_by, object_of,
};
