//! Activity of the server: for administrators who ask, and for the log where it is slow.

use super::{LaneThread, Pending, steady};
use crate::connection::{Connection, Role};
use crate::limits::{MAX_SLOW_LINES, SLOW_LINES_PERIOD};
use crate::slowest::{Ended, Slowest, microseconds};
use crate::times::DataKind;
use pandofs_api::{Activity, Cause, Request, SeenOperation};
use pandofs_lane::Delays;
use pandofs_metrics::LineLimit;
use pandofs_shard::Ticket;
use pandofs_spans::Span;
use pandofs_types::limits::MAX_OPERATIONS_TOLD;
use pandofs_types::{Ino, Name, SessionId};
use rustix::time::{ClockId, clock_gettime};
use slotmap::Key;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Watch over how long operations take.
#[derive(Debug)]
pub(super) struct Watch {
    pub slowest: Slowest,
    /// Operations that take longer are logged; 0: none is.
    slow: Duration,
    lines: LineLimit,
}

/// Subject of a request, for the log if it is slow.
#[derive(Clone, Debug)]
pub(super) struct About {
    session: SessionId,
    dir: Option<Ino>,
    name: Option<Name>,
    ino: Option<Ino>,
}

impl Watch {
    pub(super) fn new(now: Instant, slow: Duration) -> Watch {
        Watch {
            slowest: Slowest::new(now),
            slow,
            lines: LineLimit::new(MAX_SLOW_LINES, SLOW_LINES_PERIOD),
        }
    }

    fn is_slow(&self, took: Duration, parts: &[(Cause, Duration)]) -> bool {
        // A client that waits for a lock of a file wants to.
        let for_locks = |(cause, time): &(Cause, Duration)| match cause {
            Cause::FileLock { .. } => *time,
            _ => Duration::ZERO,
        };
        let wanted: Duration = parts.iter().map(for_locks).sum();
        !self.slow.is_zero() && took.saturating_sub(wanted) >= self.slow
    }
}

impl About {
    pub(super) fn of(session: SessionId, request: &Request) -> About {
        let operation = match request {
            Request::Batch(batch) => batch.early.first().map(|early| early.operation.operation()),
            other => Some(other.operation()),
        };
        let name = match request {
            Request::Unlink(unlink) => Some(&unlink.name),
            Request::Rmdir(rmdir) => Some(&rmdir.name),
            Request::Rename(rename) => Some(&rename.name),
            Request::Exchange(exchange) => Some(&exchange.name),
            _ => operation
                .and_then(|operation| operation.answers_name())
                .map(|(_, name)| name),
        };
        About {
            session,
            dir: operation.and_then(|operation| operation.dir()),
            name: name.cloned(),
            ino: operation.and_then(|operation| operation.inode()),
        }
    }

    /// Of a request to a data object.
    pub(super) fn of_data(session: SessionId, ino: Option<Ino>) -> About {
        About {
            session,
            dir: None,
            name: None,
            ino,
        }
    }

    /// Says so in a span.
    pub(super) fn tell(&self, span: &mut Span) {
        span.set("pandofs.session", self.session.to_string());
        if let Some(dir) = self.dir {
            span.set("pandofs.dir", dir.to_string());
        }
        if let Some(name) = &self.name {
            span.set("pandofs.name", name.to_string());
        }
        if let Some(ino) = self.ino {
            span.set("pandofs.ino", ino.to_string());
        }
    }

    fn seen(
        &self,
        kind: String,
        took: Duration,
        waits: Option<Cause>,
        parts: &[(Cause, Duration)],
    ) -> SeenOperation {
        let parts = parts.iter();
        SeenOperation {
            kind,
            dir: self.dir,
            name: self.name.clone(),
            ino: self.ino,
            session: self.session,
            ago: microseconds(took),
            took: microseconds(took),
            waits,
            parts: parts
                .map(|&(cause, time)| (cause, microseconds(time)))
                .collect(),
        }
    }

    /// `create of 'name' in directory 1.7 (client 0123456789abcdef, process 12)`
    fn text(&self, kind: &str, client: &str) -> String {
        let object = match (&self.name, self.dir, self.ino) {
            (Some(name), Some(dir), _) => format!(" of '{name}' in directory {dir}"),
            (None, Some(dir), _) => format!(" of directory {dir}"),
            (_, None, Some(ino)) => format!(" of inode {ino}"),
            _ => String::new(),
        };
        format!("{kind}{object} ({client})")
    }
}

impl LaneThread {
    /// A request to a shard is answered now.
    pub(super) fn ended(&mut self, pending: &Pending, took: Duration, delays: Option<&Delays>) {
        let now = self.answering;
        let at = steady(self.started, now);
        let parts = || delays.map_or(Vec::new(), |delays| delays.parts(at));
        let (kind, about) = (pending.kind, &pending.about);
        self.watch.slowest.add(now, took, || Ended {
            came: pending.came,
            took,
            seen: about.seen(kind.name(), took, None, &parts()),
        });
        if self.watch.is_slow(took, &[]) {
            let parts = parts();
            if self.watch.is_slow(took, &parts) {
                self.say_slow(about, &kind.name(), took, None, &parts, now);
            }
        }
    }

    /// The same of a request to a data object.
    pub(super) fn data_ended(
        &mut self,
        session: Option<SessionId>,
        kind: DataKind,
        ino: Option<Ino>,
        came: Instant,
        now: Instant,
    ) {
        let took = now.saturating_duration_since(came);
        let about = About::of_data(session.unwrap_or(SessionId(0)), ino);
        let name = || format!("data_{}", kind.name());
        self.watch.slowest.add(now, took, || Ended {
            came,
            took,
            seen: about.seen(name(), took, None, &[]),
        });
        if self.watch.is_slow(took, &[]) {
            self.say_slow(&about, &name(), took, None, &[], now);
        }
    }

    /// Tells the log of requests that have been under way for long.
    pub(super) fn look_for_slow(&mut self, now: Instant) {
        if let Some(left_out) = self.watch.lines.take_left_out(now) {
            tracing::warn!("slow: {left_out} more slow operations were not named here");
        }
        if self.watch.slow.is_zero() {
            return;
        }
        let mut found = Vec::new();
        for (key, pending) in &mut self.pending {
            let took = now.saturating_duration_since(pending.came);
            if took < self.watch.slow * pending.told_next {
                continue;
            }
            let delays = self.lane.delays(Ticket(key.data().as_ffi()));
            let parts = delays.map_or(Vec::new(), |delays| delays.parts(steady(self.started, now)));
            if self.watch.is_slow(took, &parts) {
                pending.told_next = pending.told_next.saturating_mul(2);
                let waits = delays.and_then(Delays::waits_for);
                found.push((pending.about.clone(), pending.kind, took, waits, parts));
            }
        }
        for (about, kind, took, waits, parts) in found {
            self.say_slow(&about, &kind.name(), took, Some(waits), &parts, now);
        }
    }

    /// `waits`: what it waits for, if it is not answered yet.
    fn say_slow(
        &mut self,
        about: &About,
        kind: &str,
        took: Duration,
        waits: Option<Option<Cause>>,
        parts: &[(Cause, Duration)],
        now: Instant,
    ) {
        if !self.watch.lines.may_say(now) {
            return;
        }
        let client = self.client_name(about.session);
        let what = about.text(kind, &client);
        let all = seconds(took);
        let state = match waits {
            None => format!("took {all}"),
            Some(None) => format!("is under way for {all}"),
            Some(Some(cause)) => format!("is under way for {all} and waits for {cause}"),
        };
        let parts: Vec<String> = parts
            .iter()
            .map(|(cause, time)| format!("{} for {cause}", seconds(*time)))
            .collect();
        let rest = match parts.is_empty() {
            true => "all of it for its turn and its work".to_owned(),
            false => format!("of it {}", parts.join(", ")),
        };
        tracing::warn!("slow: {what} {state}: {rest}");
    }

    fn client_name(&self, session: SessionId) -> String {
        let mut connections = self.connections.iter();
        let found = connections.find(|(_, connection)| connection.is_of(session));
        match found.and_then(|(_, connection)| whereabouts(connection)) {
            Some(place) => format!("client {session}, {place}"),
            None => format!("client {session}"),
        }
    }

    pub(super) fn activity(&mut self) -> Activity {
        let now = Instant::now();
        let at = steady(self.started, now);
        let mut waiting: Vec<_> = self.pending.iter().collect();
        waiting.sort_by_key(|(_, pending)| pending.came);
        waiting.truncate(MAX_OPERATIONS_TOLD);
        let told = waiting.into_iter().map(|(key, pending)| {
            let delays = self.lane.delays(Ticket(key.data().as_ffi()));
            let parts = delays.map_or(Vec::new(), |delays| delays.parts(at));
            let waits = delays.and_then(Delays::waits_for);
            let took = now.saturating_duration_since(pending.came);
            pending.about.seen(pending.kind.name(), took, waits, &parts)
        });
        let waiting: Vec<SeenOperation> = told.collect();
        let slow = self.watch.slowest.read(now);
        let mut spoken_of = BTreeSet::new();
        for seen in waiting.iter().chain(&slow) {
            spoken_of.insert(seen.session);
            let causes = seen.parts.iter().map(|(cause, _)| *cause);
            spoken_of.extend(causes.chain(seen.waits).filter_map(Cause::session));
        }
        let mut clients = Vec::new();
        for (_, connection) in &self.connections {
            if let Role::Client { session, .. } = connection.role
                && spoken_of.remove(&session)
                && let Some(place) = whereabouts(connection)
            {
                clients.push((session, place));
            }
        }
        Activity {
            at: microseconds(now.saturating_duration_since(self.started)),
            cpu: worked(ClockId::ProcessCPUTime),
            lane_cpu: worked(ClockId::ThreadCPUTime),
            memory_bytes: pandofs_metrics::resident_bytes().unwrap_or(0),
            under_way: self.pending.len() as u64,
            lag: microseconds(self.watch.slowest.lag()),
            hot: self.lane.hottest(at),
            waiting,
            slow,
            clients,
        }
    }
}

/// `process 12`, of a client on this machine, or the address of another one.
fn whereabouts(connection: &Connection) -> Option<String> {
    match connection.stream.peer_process() {
        Some(process) => Some(format!("process {process}")),
        None => connection.stream.peer_ip().map(|ip| ip.to_string()),
    }
}

fn worked(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0) / 1_000
}

fn seconds(time: Duration) -> String {
    format!("{:.3} s", time.as_secs_f64())
}
