//! Limits of the loop to the kernel, and their relations.

use std::time::Duration;

/// Bytes of file data that one request may write, and those asked for if a file system says
/// nothing. The kernel has a limit of its own (`fs.fuse.max_pages_limit`).
pub const MAX_WRITE_BYTES: usize = 1 << 20;
/// Bytes of a request besides what it writes: headers, and all of a request that writes nothing but
/// has names or an attribute.
pub(crate) const REQUEST_HEAD_BYTES: usize = 4_096;
/// The smallest buffer that the kernel puts a request in (`FUSE_MIN_READ_BUFFER`).
pub(crate) const MIN_REQUEST_BYTES: usize = 8_192;
/// Bytes of the buffer for the first request, before the size of others is agreed on.
pub(crate) const HANDSHAKE_BYTES: usize = 64 << 10;
/// Bytes of memory that a buffer keeps when it is given back: more than small requests need.
pub(crate) const KEPT_BUFFER_BYTES: usize = 64 << 10;
/// Buffers of threads that have ended which are kept for the next ones.
pub(crate) const MAX_POOLED_BUFFERS: usize = 16;
/// Bytes of a request that is copied from a ring's entry before it is handled, so that it can be
/// answered before its time.
pub(crate) const COPIED_REQUEST_BYTES: usize = 64 << 10;
/// Threads of each of the kernel's queues of requests over io_uring, at least: while one waits for
/// a server, another one takes requests of the same processor.
pub(crate) const MIN_QUEUE_THREADS: usize = 2;
/// Requests that no program waits for (read-ahead, closes) and the kernel has under way, if a file
/// system says nothing.
pub(crate) const DEFAULT_BACKGROUND_REQUESTS: u16 = 16;
/// A read that takes no longer than this has found a request that was there before it. A thread that
/// has to be woken for one takes longer.
pub(crate) const QUEUED_READ: Duration = Duration::from_micros(4);
/// Such reads of one thread, each for another program than the request before, until another thread is
/// to help it.
pub(crate) const QUEUED_READS: u32 = 8;
/// Times in a row that no thread is left to take requests, because each request waits, until one
/// more thread is to.
pub(crate) const WAITS_IN_A_ROW: u32 = 4;
/// Requests of one thread that neither waited nor were there before it, until one thread fewer is to
/// take requests.
pub(crate) const CALM_REQUESTS: u32 = 16;
/// A thread that has a request for longer than this, and up to twice as long, is taken to wait.
pub(crate) const MAX_TURN: Duration = Duration::from_millis(5);
/// Bytes of the stack of the thread that watches the others: it does not do much.
pub(crate) const WATCH_STACK_BYTES: usize = 256 << 10;
/// Nanoseconds of a second.
pub(crate) const SECOND_NANOS: u32 = 1_000_000_000;

const _: () = {
    assert!(MIN_REQUEST_BYTES <= HANDSHAKE_BYTES);
    assert!(2 * REQUEST_HEAD_BYTES >= MIN_REQUEST_BYTES);
    assert!(KEPT_BUFFER_BYTES < MAX_WRITE_BYTES);
    assert!(COPIED_REQUEST_BYTES < MAX_WRITE_BYTES);
};
