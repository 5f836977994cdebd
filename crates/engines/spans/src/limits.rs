//! Limits of what is kept and how long is waited for a collector.

use std::time::Duration;

/// Spans that have ended and wait to be sent. Further ones are dropped, and counted.
pub const MAX_QUEUED_SPANS: usize = 4_096;
/// Spans of one request to the collector.
pub const MAX_SENT_SPANS: usize = 512;
/// From the first span that waits to the request that takes it along, unless so many come that it is full before.
pub const SEND_DELAY: Duration = Duration::from_secs(1);
/// Time for one request to the collector, where `OTEL_EXPORTER_OTLP_TIMEOUT` says nothing else.
pub const REQUEST_TIME: Duration = Duration::from_secs(10);
/// Bytes of an answer of the collector that are read.
pub const MAX_ANSWER_BYTES: usize = 64 << 10;
/// Time that the end of a process waits for its last spans to be sent.
pub const LAST_TIME: Duration = Duration::from_secs(2);
/// Part of the traces that are recorded, where nobody says how many.
pub const DEFAULT_RATIO: f64 = 0.01;
/// Attributes of one span.
pub const MAX_ATTRIBUTES: u32 = 32;
/// Bytes of a text that is an attribute; longer ones are cut.
pub const MAX_TEXT_BYTES: usize = 1 << 10;

const _: () = assert!(MAX_SENT_SPANS <= MAX_QUEUED_SPANS);
