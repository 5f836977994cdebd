//! Limits of the endpoint.

use std::time::Duration;

/// Connections that are served at once. Others wait in the system's queue.
pub const MAX_CONNECTIONS: usize = 8;
/// Bytes of a request's line and headers.
pub const MAX_REQUEST_BYTES: usize = 16 << 10;
/// Headers of a request.
pub const MAX_HEADERS: usize = 64;
/// Time in which a request has to be there.
pub const REQUEST_TIME: Duration = Duration::from_secs(5);
/// Time in which the figures have to be read.
pub const READ_TIME: Duration = Duration::from_secs(5);
/// Time that a connection may take in all: a reader that takes its answer byte by byte is let go.
pub const CONNECTION_TIME: Duration = Duration::from_secs(20);
/// Time for which figures that were read are given to others, too, so that no number of readers has them read more
/// often.
pub const KEEP_TIME: Duration = Duration::from_millis(100);

const _: () = assert!(
    CONNECTION_TIME.as_millis() > REQUEST_TIME.as_millis() + READ_TIME.as_millis(),
    "a slow reader gets an error rather than a closed connection"
);
