//! The log on disk, kept by `raft-engine`.
//!
//! Invariant: this is the only crate that names `raft-engine`. It passes the suite of `pandofs_storage::log`.
//!
//! # In a log's directory
//!
//! | name | holds |
//! | --- | --- |
//! | `FORMAT` | `pandofs-log 1` and a line feed; a directory that says anything else is not opened |
//! | `SYNCED` | how far the files below were synced, see below |
//! | `LOCK` | nothing; raft-engine's own lock. The directory itself is locked (`flock`) before anything is read |
//! | `0000000000000001.raftlog`, ... | appends, prunes; rotated at [`Options::target_file_bytes`] |
//! | `0000000000000001.rewrite`, ... | entries that were moved out of old files so that those could go |
//!
//! A stream is a raft-engine region. An entry is a `google.protobuf.BytesValue` whose value is
//! `index (u64, big-endian) | payload`; raft-engine wants a protobuf message that knows its index, and
//! this one exists. Each region has one key, `first`, whose value is the index (u64, big-endian)
//! of the first entry that was not pruned. One append is one raft-engine batch, uncompressed. Files are
//! raft-engine's format version 2.
//!
//! # What is detected when a log is opened
//!
//! Every byte of every file is read and checked before raft-engine sees it.
//!
//! - A broken header or checksum in any file but the last of its kind: [`LogError::Corrupt`] with
//!   the file and the byte. These files were synced when the next one was begun.
//! - The same in the last file, at a place that is known to have been synced: `Corrupt`, whether
//!   good appends follow or not.
//! - A missing file: a gap in the numbers, or the last one when something in it was known to have
//!   been synced: `Corrupt`, with the name of the missing file.
//! - A stream whose first entries are not there although they were not pruned: `Corrupt`.
//! - Anything else that is broken in the last file is the end of the log: this append was not
//!   synced and was torn, or raft-engine had reserved space for it. It is dropped whole, and so is
//!   what follows, which was not synced either.
//!
//! How far a file is known to have been synced is in `SYNCED`. It is written after each sync
//! and not synced itself, so that a sync costs one write to the disk and not two. After a kill of
//! the process it is exact. After a loss of power it may be some syncs old; corruption in the part
//! that was synced since then looks like the end of the log, and is not detected.
//! (`SYNCED`: `append file (u64) | its bytes (u64) | rewrite file (u64) | its bytes (u64) |
//! CRC-32 of these 32 bytes (u32)`, big-endian. When the checksum is wrong, nothing is known.)
//!
//! # Where raft-engine 0.4.2 has to be used with care
//!
//! - `Engine::sync` does nothing (tikv/raft-engine issue 395), and `Engine::write` with `sync`
//!   makes appends of other threads wait for the disk. The files are synced here instead, through
//!   the file system that raft-engine is given, see `files.rs`.
//! - It answers a failed sync with a panic. Here the log is closed to further appends,
//!   [`LogError::Failed`]. It still panics if it cannot sync the directory when it begins a file.
//! - In its most tolerant useful mode it drops all that follows the first broken byte of the last
//!   file, synced or not, and elsewhere it does not look at the entries of any batch but a
//!   file's last. That is why the files are checked here first.
//! - It forgets that entries were pruned when the file goes that said so, and they come back from
//!   the rewritten files. The key `first` tells.
//! - It rewrites and removes files on the strength of prunes that are not synced yet, and drops the
//!   entries of a stream before a gap. Here the appends are synced before either, see `files.rs`.
//! - It keeps the block it read last for each thread, not for each engine: an engine is given the
//!   bytes of another one that was read on the same thread. Here every use that reads has a
//!   thread of its own.
//! - Beginning the next file syncs the last one in the middle of an append: 9 ms for 8 MiB on the
//!   disk this was measured on, where other appends take microseconds. Syncing the log every few MiB
//!   from a helper thread keeps that short.

mod engine;
mod errors;
mod files;
mod format;
mod names;
mod scan;
mod streams;
mod synced;

pub use engine::{Options, RaftEngineLog};
pub use pandofs_storage::log::LogError;
