//! Traces of the kernel's requests: one for each, with the requests to servers as its parts.

use crate::request_times::kind_name;
use crate::slow::name_of;
use pandofs_client::spans::{self, Asked, OpenSpan, SpanMaker};
use pandofs_fuse_kernel::{Header, Operation};
use pandofs_spans::{Kind, Span, Spans};
use pandofs_types::{Ino, TraceContext};

/// The spans of one mount.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traces(Option<Spans>);

/// A request that a thread has, and that is followed while this is there.
#[derive(Debug)]
pub(crate) struct Followed(#[allow(dead_code, reason = "it ends the span")] Span);

impl Traces {
    pub(crate) fn new(spans: Option<Spans>) -> Traces {
        Traces(spans)
    }

    /// To be called on the thread that has the request, when it takes it; `None` if it is not followed.
    pub(crate) fn begin(&self, header: &Header, operation: &Operation<'_>) -> Option<Followed> {
        let spans = self.0.as_ref()?;
        // Nobody waits for the inodes that the kernel lets go of, and for words between it and the mount.
        if matches!(
            operation,
            Operation::Forget { .. }
                | Operation::BatchForget(_)
                | Operation::Interrupt(_)
                | Operation::Init { .. }
                | Operation::Destroy
        ) {
            return None;
        }
        let name = kind_name(operation).to_ascii_lowercase();
        let mut span = spans.begin(None, Kind::Inside, name)?;
        let node = Ino(header.node).to_string();
        match name_of(operation) {
            Some(name) => {
                span.set("pandofs.dir", node);
                span.set("pandofs.name", name.escape_ascii().to_string());
            }
            None => span.set("pandofs.ino", node),
        }
        span.set("pandofs.caller.pid", header.pid);
        span.set("pandofs.caller.uid", header.uid);
        spans::follow(Some(span.context()));
        Some(Followed(span))
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        spans::follow(None);
    }
}

/// Spans of the client library's requests, by the same maker.
#[derive(Debug)]
pub(crate) struct RequestSpans(pub Spans);

impl SpanMaker for RequestSpans {
    fn begin(&self, parent: Option<TraceContext>, asked: &Asked) -> Option<Box<dyn OpenSpan>> {
        let name = format!("request {}", asked.name);
        let mut span = self.0.begin(parent, Kind::Asks, name)?;
        span.set("pandofs.server", asked.server.0);
        if let Some(shard) = asked.shard {
            span.set("pandofs.shard", shard.0);
        }
        if let Some(ino) = asked.ino {
            span.set("pandofs.ino", ino.to_string());
        }
        Some(Box::new(RequestSpan(span)))
    }
}

#[derive(Debug)]
struct RequestSpan(Span);

impl OpenSpan for RequestSpan {
    fn context(&self) -> TraceContext {
        self.0.context()
    }

    fn end(mut self: Box<Self>, outcome: &str) {
        self.0.set("pandofs.outcome", outcome);
    }
}
