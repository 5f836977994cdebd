//! Spans of traces, by OpenTelemetry: what a process did for a request and how long, sent to a collector by OTLP over HTTP.
//!
//! Invariant: a thread that begins or ends a span waits for nobody: ended spans go into a queue with an end
//! ([`limits::MAX_QUEUED_SPANS`]), which one thread empties; a collector that is slow or away costs spans, which are counted,
//! and one line in the log. The crate knows nothing of servers, mounts or files.
//!
//! It stands on `opentelemetry` for ids, sampling and the format, and on `hyper` for HTTP.

mod collector;
mod config;
pub mod limits;
mod queue;
mod span;

pub use config::{Config, WrongConfig};
pub use queue::Counts;
pub use span::{Kind, Span, Spans, Value};
