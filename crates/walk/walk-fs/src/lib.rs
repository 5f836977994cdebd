//! Parallel tree walk on real trees, by threads or processes.
//!
//! Every entry below some roots is shown to a [`Visitor`] exactly once.
//!
//! In the manner of [`ftw`](fn@ftw), or with a visitor for each thread:
//!
//! ```
//! use pandofs_walk_fs::{Entry, Flow, Options, Visitor, walk};
//!
//! struct Sizes(u64);
//!
//! impl Visitor for Sizes {
//!     type Dir = ();
//!
//!     fn entry(&mut self, entry: &mut Entry<'_, ()>) -> Flow {
//!         if let Ok(stat) = entry.stat() {
//!             self.0 += stat.size();
//!         }
//!         Flow::Descend([0, 0])
//!     }
//! }
//!
//! let walked = walk(&["src".into()], &Options::default(), |_| Sizes(0))?;
//! let sum: u64 = walked.visitors.iter().map(|visitor| visitor.0).sum();
//! assert!(sum > 0);
//! # Ok::<(), pandofs_walk_fs::WalkError>(())
//! ```
//!
//! How it is fast: directories are opened relative to their parents and read with large buffers;
//! entries are looked at relative to the open directory, with the fields that are wanted; nothing
//! is allocated for an entry, and path names are put together only on request. A directory too
//! large for one thread is cut into slices while it is read. Threads share locks that each takes a
//! few times a directory, not an entry.
//!
//! Invariant: no path name is ever given to the kernel but a root's, so neither depth nor the
//! length of paths has a limit; an item of work holds a name and its directory, or a slice of
//! names; memory and open files are bounded whatever the tree, but for names of directories on the
//! way to those that are open.

mod chmod;
mod claims;
mod collect;
mod descriptors;
mod dir;
mod entry;
mod ftw;
pub mod limits;
mod link;
mod merge;
mod message;
mod meter;
mod options;
mod outputs;
mod paths;
mod post_order;
mod processes;
mod rpc;
mod saved;
mod scheduler;
mod slice;
mod spill;
mod stat;
mod task;
mod threads;
mod visit;
mod work;
mod written;

pub use chmod::chmod_at;
pub use dir::{Dir, DirState, Unreadable};
pub use entry::Entry;
pub use ftw::ftw;
pub use link::Link;
pub use merge::Merge;
pub use meter::{Meter, SoFar};
pub use options::{Follow, Options};
pub use outputs::Outputs;
pub use post_order::Leaving;
pub use processes::Processes;
pub use rpc::Rpc;
pub use rustix::fs::{FileType, StatxFlags};
pub use saved::Saved;
pub use stat::{Stat, Time};
pub use task::Task;
pub use threads::{WalkError, Walked, go_on, walk};
pub use visit::{Flow, Problem, ProblemKind, Visitor};
