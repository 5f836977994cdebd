//! Traces: a span for each request that a client follows, and for each step of it on another server.
//!
//! A request comes with the context of the client's span; the server's span is a part of that. If the request is carried
//! out by an operation over several servers, each of them is told, before it is asked for its step, of which span the step
//! is a part. Nothing is begun here by itself, and nothing of this changes what is done.

use super::activity::About;
use super::{LaneThread, PendingKey, steady};
use crate::connection::ConnectionKey;
use crate::limits::{MAX_TRACED_STEPS, TRACED_STEP_TIME};
use crate::slowest::microseconds;
use pandofs_api::{Cause, CommitMessage, PeerMessage, Refusal, Reply, StepNumber};
use pandofs_lane::Delays;
use pandofs_shard::Ticket;
use pandofs_spans::{Kind, Span, Spans};
use pandofs_types::{FsError, ServerId, ShardId, TraceContext, TxId};
use slotmap::KeyData;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

type Key = (TxId, StepNumber);

/// Requests and steps that are followed now.
#[derive(Debug, Default)]
pub(super) struct Traces {
    /// `None`: nothing is.
    spans: Option<Spans>,
    /// Requests that wait for the next batch.
    taken: Vec<(PendingKey, Instant)>,
    /// Spans of the requests that these operations carry out.
    operations: BTreeMap<TxId, TraceContext>,
    /// Steps that other servers were asked for.
    asked: BTreeMap<Key, Span>,
    /// Steps that other servers ask for, each since it was told of.
    performed: BTreeMap<Key, (Performed, Instant)>,
    /// Requests to data objects.
    data: BTreeMap<(ConnectionKey, u64), Span>,
}

#[derive(Debug)]
enum Performed {
    /// It is to come, as a part of this.
    Announced(TraceContext),
    UnderWay(Box<Span>),
}

/// A request of a client that is followed.
#[derive(Debug)]
pub(super) struct Followed {
    span: Span,
    /// The operation that carries it out, if one does.
    tx: Option<TxId>,
}

impl Traces {
    pub(super) fn new(spans: Option<Spans>) -> Traces {
        Traces {
            spans,
            ..Traces::default()
        }
    }

    pub(super) fn are_on(&self) -> bool {
        self.spans.is_some()
    }

    fn begin(&self, parent: TraceContext, kind: Kind, name: String) -> Option<Span> {
        self.spans.as_ref()?.begin(Some(parent), kind, name)
    }

    /// A request to a shard has come, as a part of this.
    pub(super) fn request(
        &self,
        parent: TraceContext,
        kind: String,
        about: &About,
        shard: ShardId,
    ) -> Option<Box<Followed>> {
        let mut span = self.begin(parent, Kind::Answers, kind)?;
        span.set("pandofs.shard", shard.0);
        about.tell(&mut span);
        Some(Box::new(Followed { span, tx: None }))
    }

    /// It waits for the next batch.
    pub(super) fn waits_for_batch(&mut self, key: PendingKey, now: Instant) {
        self.taken.push((key, now));
    }

    /// A request to a data object has come, as a part of this.
    pub(super) fn data_request(
        &mut self,
        parent: TraceContext,
        kind: &str,
        about: &About,
        at: (ConnectionKey, u64),
    ) {
        if let Some(mut span) = self.begin(parent, Kind::Answers, format!("data_{kind}")) {
            about.tell(&mut span);
            self.data.insert(at, span);
        }
    }

    /// It is answered, or nobody is there for the answer any more.
    pub(super) fn data_done(&mut self, at: (ConnectionKey, u64)) {
        self.data.remove(&at);
    }

    /// A message is sent to another server. Returns the message to send before, if it asks for a step that is followed.
    pub(super) fn sends(&mut self, server: ServerId, message: &PeerMessage) -> Option<PeerMessage> {
        let PeerMessage::Commit { to, message, .. } = message else {
            return None;
        };
        match message {
            CommitMessage::Do {
                tx, number, step, ..
            } => {
                let (tx, number) = (*tx, *number);
                // One that is asked for again goes on.
                if self.asked.contains_key(&(tx, number)) {
                    return None;
                }
                let parent = *self.operations.get(&tx)?;
                let name = format!("step {}", step.name());
                let mut span = self.begin(parent, Kind::Asks, name)?;
                span.set("pandofs.peer", server.0);
                span.set("pandofs.shard", to.0);
                span.set("pandofs.transaction", tx.to_string());
                let context = span.context();
                self.asked.insert((tx, number), span);
                Some(PeerMessage::Trace {
                    tx,
                    number,
                    context,
                })
            }
            reply => {
                if let Some((key, outcome)) = outcome(reply)
                    && let Some((Performed::UnderWay(mut span), _)) = self.performed.remove(&key)
                {
                    span.set("pandofs.outcome", outcome);
                }
                None
            }
        }
    }

    /// Another server says this.
    pub(super) fn hears(&mut self, sender: ServerId, message: &PeerMessage, now: Instant) {
        match message {
            PeerMessage::Trace {
                tx,
                number,
                context,
            } if self.performed.len() < MAX_TRACED_STEPS => {
                let announced = Performed::Announced(*context);
                self.performed.insert((*tx, *number), (announced, now));
            }
            PeerMessage::Commit { to, message, .. } => self.hears_commit(sender, *to, message),
            _ => {}
        }
    }

    fn hears_commit(&mut self, sender: ServerId, to: ShardId, message: &CommitMessage) {
        if let CommitMessage::Do {
            tx, number, step, ..
        } = message
        {
            let key = (*tx, *number);
            let Some((Performed::Announced(parent), since)) = self.performed.get(&key) else {
                return;
            };
            let (parent, since) = (*parent, *since);
            let name = format!("step {}", step.name());
            match self.begin(parent, Kind::Answers, name) {
                Some(mut span) => {
                    span.set("pandofs.peer", sender.0);
                    span.set("pandofs.shard", to.0);
                    span.set("pandofs.transaction", tx.to_string());
                    let under_way = Performed::UnderWay(Box::new(span));
                    self.performed.insert(key, (under_way, since));
                }
                None => {
                    self.performed.remove(&key);
                }
            }
        } else if let Some((key, outcome)) = outcome(message)
            && let Some(mut span) = self.asked.remove(&key)
        {
            span.set("pandofs.outcome", outcome);
        }
    }

    /// No step of this operation is waited for any more.
    fn forget(&mut self, tx: TxId) {
        self.operations.remove(&tx);
        self.asked.retain(|(of, _), _| *of != tx);
    }

    /// Gives up steps of which nobody heard any more.
    pub(super) fn look(&mut self, now: Instant) {
        self.performed
            .retain(|_, (_, since)| now.saturating_duration_since(*since) < TRACED_STEP_TIME);
    }
}

/// The step that a participant's message to its coordinator ends, and with what.
fn outcome(message: &CommitMessage) -> Option<(Key, String)> {
    match message {
        CommitMessage::Prepared { tx, number, .. } => Some(((*tx, *number), "prepared".to_owned())),
        CommitMessage::Committed { tx, number, .. } => {
            Some(((*tx, *number), "committed".to_owned()))
        }
        CommitMessage::Refused { tx, number, why } => Some(((*tx, *number), why.text())),
        _ => None,
    }
}

/// The name that an attribute has for what is waited for.
fn cause_name(cause: Cause) -> &'static str {
    match cause {
        Cause::Operation(_) => "operation",
        Cause::Records => "records",
        Cause::Split(_) => "split",
        Cause::Recall { .. } => "recall",
        Cause::Returning => "returning",
        Cause::FileLock { .. } => "file_lock",
        Cause::Store => "store",
        Cause::Log => "log",
        Cause::Server { .. } => "server",
        Cause::Objects => "objects",
        Cause::Pause => "pause",
    }
}

impl LaneThread {
    /// A batch begins: what was taken since the last one has had to wait for it.
    pub(super) fn follow_into_batch(&mut self) {
        if self.traces.taken.is_empty() {
            return;
        }
        let now = Instant::now();
        for (key, came) in std::mem::take(&mut self.traces.taken) {
            let followed = self
                .pending
                .get_mut(key)
                .and_then(|it| it.followed.as_mut());
            if let Some(followed) = followed {
                let waited = now.saturating_duration_since(came);
                followed
                    .span
                    .set("pandofs.wait.turn_us", microseconds(waited));
            }
        }
    }

    /// A request is carried out by an operation over several shards.
    pub(super) fn follow_operation(&mut self, ticket: Ticket, tx: TxId) {
        let key = PendingKey::from(KeyData::from_ffi(ticket.0));
        let pending = self.pending.get_mut(key);
        let Some(followed) = pending.and_then(|pending| pending.followed.as_mut()) else {
            return;
        };
        if let Some(given_up) = followed.tx.replace(tx) {
            self.traces.forget(given_up);
        }
        followed.span.set("pandofs.transaction", tx.to_string());
        self.traces.operations.insert(tx, followed.span.context());
    }

    /// A request that was followed is answered, or its answer goes to another one: `None`.
    pub(super) fn followed(
        &mut self,
        followed: Box<Followed>,
        result: Option<&Result<Reply, Refusal>>,
        delays: Option<&Delays>,
    ) {
        let Followed { mut span, tx } = *followed;
        if let Some(tx) = tx {
            self.traces.forget(tx);
        }
        let at = steady(self.started, self.answering);
        let parts = delays.map_or(Vec::new(), |delays| delays.parts(at));
        let mut sums: BTreeMap<&'static str, Duration> = BTreeMap::new();
        for &(cause, time) in &parts {
            *sums.entry(cause_name(cause)).or_default() += time;
        }
        for (name, sum) in sums {
            span.set_by(format!("pandofs.wait.{name}_us"), microseconds(sum));
        }
        let waited: Vec<String> = parts
            .iter()
            .map(|(cause, time)| format!("{cause}: {} µs", microseconds(*time)))
            .collect();
        if !waited.is_empty() {
            span.set("pandofs.waited_for", waited.join(", "));
        }
        match result {
            Some(Ok(_)) => span.set("pandofs.outcome", "done"),
            Some(Err(refusal)) => {
                // That there is no such file is an answer as good as any.
                if matches!(refusal, Refusal::Fs(FsError::Io) | Refusal::Malformed(_)) {
                    span.fail(refusal.text());
                }
                span.set("pandofs.outcome", refusal.text());
            }
            None => span.set("pandofs.outcome", "it came again"),
        }
    }
}
