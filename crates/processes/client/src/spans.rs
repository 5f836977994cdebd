//! Spans of requests to servers, for traces of operations through all that they cause.
//!
//! Code that does something for a program begins a span of its own and says so with [`follow`]; each request that this thread
//! sends from then on is a part of that, and takes its context along to the server. Without a [`SpanMaker`] a request looks at
//! one word.

use crate::Client;
use crate::call::Call;
use crate::core::Core;
use pandofs_api::{DataReply, Request};
use pandofs_types::{Ino, ServerId, ShardId, TraceContext};
use pandofs_wire::message::{AnswerBody, RequestBody};
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

/// A maker of spans. It is called by the threads that make requests, and keeps them waiting.
pub trait SpanMaker: fmt::Debug + Send + Sync {
    /// Begins the span of a request that is about to be sent, as a part of `parent`; without one, of a trace of its own.
    /// `None` if it is not recorded.
    fn begin(&self, parent: Option<TraceContext>, asked: &Asked) -> Option<Box<dyn OpenSpan>>;
}

/// A span that has begun. One that is dropped ends without an outcome.
pub trait OpenSpan: fmt::Debug + Send {
    /// For the server.
    fn context(&self) -> TraceContext;

    /// The request was answered, or was not, with this.
    fn end(self: Box<Self>, outcome: &str);
}

/// A request that is about to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Its kind: `mkdir`, and `data_read` of one to a data object.
    pub name: String,
    /// To this server.
    pub server: ServerId,
    /// To this shard, if it is for one.
    pub shard: Option<ShardId>,
    /// The inode that it is about, if it is about one by its number.
    pub ino: Option<Ino>,
}

thread_local! {
    static FOLLOWED: Cell<Option<TraceContext>> = const { Cell::new(None) };
}

/// Has what this thread asks for from now on be a part of this span, or of none.
pub fn follow(span: Option<TraceContext>) {
    FOLLOWED.set(span);
}

impl Client {
    /// Makes spans of this session's requests from now on.
    ///
    /// # Errors
    /// The maker, when the session has one already.
    pub fn make_spans(&self, maker: Arc<dyn SpanMaker>) -> Result<(), Arc<dyn SpanMaker>> {
        self.core().spans.set(maker)
    }
}

impl Core {
    /// A call is about to be sent to this server.
    pub(crate) fn begin_span(&self, call: &mut Call, server: ServerId) {
        let Some(maker) = self.spans.get() else {
            return;
        };
        let parent = FOLLOWED.get();
        // A thread of the library sends batches of early operations, long after their callers have gone on.
        if parent.is_none() && !is_batch(call) {
            return;
        }
        if let Some(asked) = asked(call, server) {
            call.span = maker.begin(parent, &asked);
        }
    }
}

impl Call<'_> {
    /// The span of its last sending, if there is one, is over.
    pub(crate) fn end_span(&mut self, outcome: impl FnOnce() -> String) {
        if let Some(span) = self.span.take() {
            span.end(&outcome());
        }
    }

    /// The context that goes to the server before it.
    pub(crate) fn trace(&self) -> Option<TraceContext> {
        self.span.as_ref().map(|span| span.context())
    }
}

fn is_batch(call: &Call) -> bool {
    call.shard_request()
        .is_some_and(|asked| matches!(asked.request, Request::Batch(_)))
}

fn asked(call: &Call, server: ServerId) -> Option<Asked> {
    match &call.frame.body {
        RequestBody::Shard(asked) => Some(Asked {
            name: asked.request.name(),
            server,
            shard: Some(asked.shard),
            ino: asked.request.operation().inode(),
        }),
        RequestBody::Data(request) => Some(Asked {
            name: format!("data_{}", request.name()),
            server,
            shard: None,
            ino: request.ino(),
        }),
        _ => None,
    }
}

/// A server's answer, in a word.
pub(crate) fn outcome_of(answer: &AnswerBody) -> String {
    match answer {
        AnswerBody::Shard(Err(refusal))
        | AnswerBody::Leased {
            result: Err(refusal),
            ..
        } => refusal.text(),
        AnswerBody::Data(DataReply::Failed(error)) => error.to_string(),
        _ => "done".to_owned(),
    }
}
