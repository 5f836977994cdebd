//! Vocabulary of clients, servers and shards: what may be asked, and what is answered.
//!
//! Invariant: types only; no behaviour beyond looking into them, no encoding, no I/O.

pub mod activity;
pub mod admin;
pub mod allocation;
pub mod data;
pub mod horizon;
pub mod layout;
mod names;
pub mod op;
pub mod path;
pub mod peer;
pub mod reply;
pub mod request;
pub mod step;

pub use activity::{Activity, Cause, HotDir, SeenOperation};
pub use admin::{AdminReply, AdminRequest, ServerStatus, ShardStatus};
pub use admin::{ScrubOrder, ScrubReport, ScrubState};
pub use allocation::Allocation;
pub use data::Extent;
pub use data::{DataReply, DataRequest, FIRST_TRUNCATIONS, Layout};
pub use horizon::Horizon;
pub use layout::LayoutChoice;
pub use names::snake_case;
pub use path::{Above, AboveSeen, PathName, SearchCondition};
pub use peer::{Age, Ask, CommitMessage, PeerMessage, Refused};
pub use reply::{BatchReply, DirReply, EntriesReply, GrantTerms, Granted};
pub use reply::{DirEntry, DirPart, EntryReply, FileBody, InodeReply, PathReply, Refusal, Reply};
pub use request::{DirSettings, NewNode, Request, RequestKey, ShardRequest, XattrMode};
pub use step::{
    Adopt, MovedInode, NewDir, NewFile, NewPart, SetAcl, SplitChunk, SplitId, SplitItem, Step,
    StepNumber, StepResult, Swap, SwappedEntry, Whiteout,
};
