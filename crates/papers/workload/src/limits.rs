//! Limits of traces and replays that nothing else uses, and their relations.

use pandofs_types::limits::MAX_TRACE_WAITING_BYTES;
use std::time::Duration;

/// Bytes of a recording that are written at once, if there are as many within
/// [`TRACE_WRITE_INTERVAL`].
pub(crate) const TRACE_WRITE_BYTES: usize = 256 << 10;
/// Time after which an operation's record is in the file.
pub(crate) const TRACE_WRITE_INTERVAL: Duration = Duration::from_millis(100);
/// Bytes of a line of a trace that is imported.
pub(crate) const MAX_IMPORT_LINE_BYTES: usize = 1 << 20;
/// Names that a trace that is imported has at a time, and file handles in all: some 200 bytes of memory each.
pub(crate) const MAX_IMPORTED_NAMES: usize = 4 << 20;
/// Processes of a trace at a time.
pub(crate) const MAX_IMPORTED_PROCESSES: usize = 32_768;
/// Descriptors of a process.
pub(crate) const MAX_IMPORTED_DESCRIPTORS: usize = 65_536;
/// Bytes of lines of processes of which it is not known yet who made them.
pub(crate) const MAX_IMPORTED_HELD_BYTES: usize = 64 << 20;
/// Calls of NFS that wait for their replies.
pub(crate) const MAX_IMPORTED_CALLS: usize = 1 << 20;
/// Names of calls that are counted as left out, each for each reason.
pub(crate) const MAX_IMPORTED_CALL_NAMES: usize = 4_096;
/// Directories above something in a recording: what is deeper is not replayed.
pub(crate) const MAX_TRACE_DEPTH: usize = 512;

const _: () = {
    assert!(TRACE_WRITE_BYTES <= MAX_TRACE_WAITING_BYTES);
    assert!(MAX_IMPORT_LINE_BYTES <= MAX_IMPORTED_HELD_BYTES);
};
