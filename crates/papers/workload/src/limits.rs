//! Limits of traces and replays that nothing else uses, and their relations.

use pandofs_types::limits::MAX_TRACE_WAITING_BYTES;
use std::time::Duration;

/// Bytes of a recording that are written at once, if there are as many within
/// [`TRACE_WRITE_INTERVAL`].
pub(crate) const TRACE_WRITE_BYTES: usize = 256 << 10;
/// Time after which an operation's record is in the file.
pub(crate) const TRACE_WRITE_INTERVAL: Duration = Duration::from_millis(100);
/// Directories above something in a recording: what is deeper is not replayed.
pub(crate) const MAX_TRACE_DEPTH: usize = 512;

const _: () = {
    assert!(TRACE_WRITE_BYTES <= MAX_TRACE_WAITING_BYTES);
};
