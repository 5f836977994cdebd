//! View of two samples: rates, and what is hottest, slowest and waits longest over all servers.

use super::sample::{Sample, Told};
use pandofs_api::{Cause, SeenOperation};
use pandofs_types::{Ino, Name, ServerId, SessionId};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Rows of a list at most.
const MAX_ROWS: usize = 20;
/// Microseconds that a request has waited before it is shown.
const LEAST_WAIT: u64 = 5_000;
const MICROSECONDS: f64 = 1e6;

/// All that is shown. Of `--json`, fields may be added; none goes or changes its meaning.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct View {
    /// Of the file system.
    pub name: String,
    pub servers: Vec<ServerRow>,
    /// The hottest first.
    pub directories: Vec<DirRow>,
    /// Operations that have ended in the last ten seconds, the slowest first.
    pub slow: Vec<OperationRow>,
    /// Operations that are not answered yet, the longest first.
    pub waiting: Vec<OperationRow>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct ServerRow {
    pub id: u16,
    /// `up` or `away`.
    pub state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(flatten)]
    pub up: Option<UpRow>,
}

/// Missing while the server is away.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct UpRow {
    /// Of clients, to shards; missing before there are two samples of this process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_second: Option<f64>,
    /// To data objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_requests_per_second: Option<f64>,
    /// Part of its time that the metadata thread works: 1 is all that it can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<f64>,
    /// Processors that the process has in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processors: Option<f64>,
    /// Forces of the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_forces_per_second: Option<f64>,
    /// Requests that are not answered yet.
    pub queue: u64,
    /// Of these, those that wait for locks, leases or operations.
    pub waiting: u64,
    pub memory_bytes: u64,
    /// Not in the store yet.
    pub log_bytes: u64,
    /// The longest that a request had to wait for its turn in the last ten seconds.
    pub lag_ms: f64,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct DirRow {
    pub dir: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    pub requests_per_second: u64,
    /// Servers where it is asked for, and how often.
    pub servers: Vec<Share>,
    #[serde(skip)]
    pub ino: Ino,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Share {
    pub server: u16,
    pub requests_per_second: u64,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct OperationRow {
    pub server: u16,
    pub operation: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inode: Option<String>,
    pub client: String,
    /// Since it came.
    pub ago_ms: f64,
    pub took_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    pub parts: Vec<Part>,
    /// The rest: waiting for its turn, and work.
    pub own_ms: f64,
    #[serde(skip)]
    pub ino: Option<Ino>,
}

/// A part of its time for which it waited.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Part {
    pub waited_for: String,
    pub ms: f64,
}

/// Order of the servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Order {
    #[default]
    Number,
    Requests,
    Load,
    Queue,
}

impl Order {
    pub(crate) fn next(self) -> Order {
        match self {
            Order::Number => Order::Requests,
            Order::Requests => Order::Load,
            Order::Load => Order::Queue,
            Order::Queue => Order::Number,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Order::Number => "number",
            Order::Requests => "requests",
            Order::Load => "load",
            Order::Queue => "queue",
        }
    }
}

impl View {
    /// `before`: the sample before this one, for rates.
    pub(crate) fn new(name: &str, before: &[Sample], now: &[Sample]) -> View {
        let of_before = |id| before.iter().find(|sample| sample.id == id);
        let clients = clients(now);
        let up = || {
            let told = |sample: &Sample| Some((sample.id, sample.told.as_ref().ok()?.clone()));
            now.iter().filter_map(told)
        };
        let rows = |of: fn(Told) -> Vec<SeenOperation>| {
            let seen = up().flat_map(|(id, told)| of(told).into_iter().map(move |seen| (id, seen)));
            let mut seen: Vec<(ServerId, SeenOperation)> = seen.collect();
            seen.sort_by_key(|(_, seen)| Reverse(seen.took));
            seen.truncate(MAX_ROWS);
            let row =
                |(id, seen): &(ServerId, SeenOperation)| OperationRow::new(*id, seen, &clients);
            seen.iter().map(row).collect::<Vec<_>>()
        };
        View {
            name: name.to_owned(),
            servers: now
                .iter()
                .map(|sample| ServerRow::new(of_before(sample.id), sample))
                .collect(),
            directories: directories(now),
            slow: rows(|told| told.activity.slow),
            waiting: rows(|told| {
                let mut waiting = told.activity.waiting;
                waiting.retain(|seen| seen.took >= LEAST_WAIT);
                waiting
            }),
        }
    }

    pub(crate) fn is_any_away(&self) -> bool {
        self.servers.iter().any(|server| server.up.is_none())
    }

    pub(crate) fn sort(&mut self, order: Order) {
        let by = |row: &ServerRow| {
            let of = |number: fn(&UpRow) -> f64| row.up.as_ref().map_or(0.0, number);
            let key = match order {
                Order::Number => 0.0,
                Order::Requests => of(|up| up.requests_per_second.unwrap_or(0.0)),
                Order::Load => of(|up| up.load.unwrap_or(0.0)),
                Order::Queue => of(|up| up.queue as f64),
            };
            -key
        };
        self.servers
            .sort_by(|one, other| by(one).total_cmp(&by(other)).then(one.id.cmp(&other.id)));
    }

    /// Directories whose paths are wanted, the most interesting first.
    pub(crate) fn dirs(&self) -> Vec<Ino> {
        let operations = self.waiting.iter().chain(&self.slow);
        let hot = self.directories.iter().map(|row| row.ino);
        hot.chain(operations.filter_map(|row| row.ino)).collect()
    }

    /// Fills in paths of directories.
    pub(crate) fn name_dirs(&mut self, path: impl Fn(Ino) -> Option<String>) {
        for row in &mut self.directories {
            row.path = path(row.ino);
        }
        for row in self.slow.iter_mut().chain(&mut self.waiting) {
            row.path = row.ino.and_then(&path);
        }
    }
}

/// Clients that servers have told of, and where they are.
fn clients(samples: &[Sample]) -> BTreeMap<SessionId, String> {
    let told = samples
        .iter()
        .filter_map(|sample| sample.told.as_ref().ok());
    told.flat_map(|told| told.activity.clients.clone())
        .collect()
}

fn directories(samples: &[Sample]) -> Vec<DirRow> {
    let mut all: BTreeMap<Ino, Vec<Share>> = BTreeMap::new();
    for sample in samples {
        let Ok(told) = &sample.told else {
            continue;
        };
        for hot in &told.activity.hot {
            all.entry(hot.dir).or_default().push(Share {
                server: sample.id.0,
                requests_per_second: hot.per_second,
            });
        }
    }
    let row = |(dir, mut servers): (Ino, Vec<Share>)| {
        servers.sort_by_key(|share| Reverse(share.requests_per_second));
        DirRow {
            dir: dir.to_string(),
            path: None,
            requests_per_second: servers.iter().map(|share| share.requests_per_second).sum(),
            servers,
            ino: dir,
        }
    };
    let mut rows: Vec<DirRow> = all.into_iter().map(row).collect();
    rows.sort_by_key(|row| Reverse(row.requests_per_second));
    rows.truncate(MAX_ROWS);
    rows
}

impl ServerRow {
    fn new(before: Option<&Sample>, now: &Sample) -> ServerRow {
        let id = now.id.0;
        match &now.told {
            Err(error) => ServerRow {
                id,
                state: "away",
                error: Some(error.clone()),
                up: None,
            },
            Ok(told) => {
                let before = before.and_then(|sample| sample.told.as_ref().ok());
                ServerRow {
                    id,
                    state: "up",
                    error: None,
                    up: Some(UpRow::new(before, told)),
                }
            }
        }
    }
}

impl UpRow {
    fn new(before: Option<&Told>, now: &Told) -> UpRow {
        // A server that was started again counts from 0.
        let before = before.filter(|before| {
            before.status.pid == now.status.pid && before.activity.at < now.activity.at
        });
        let rate = |of: fn(&Told) -> u64| {
            let before = before?;
            let seconds = (now.activity.at - before.activity.at) as f64 / MICROSECONDS;
            Some(of(now).saturating_sub(of(before)) as f64 / seconds)
        };
        let work = |of: fn(&Told) -> u64| rate(of).map(|worked| worked / MICROSECONDS);
        UpRow {
            requests_per_second: rate(|told| told.status.requests),
            data_requests_per_second: rate(|told| told.status.data_requests),
            load: work(|told| told.activity.lane_cpu),
            processors: work(|told| told.activity.cpu),
            log_forces_per_second: rate(|told| told.status.log_syncs),
            queue: now.activity.under_way,
            waiting: now.status.shards.iter().map(|shard| shard.waiting).sum(),
            memory_bytes: now.activity.memory_bytes,
            log_bytes: now.status.log_bytes,
            lag_ms: milliseconds(now.activity.lag),
        }
    }
}

impl OperationRow {
    fn new(
        server: ServerId,
        seen: &SeenOperation,
        clients: &BTreeMap<SessionId, String>,
    ) -> OperationRow {
        let waited: u64 = seen.parts.iter().map(|(_, time)| *time).sum();
        let part = |(cause, time): &(Cause, u64)| Part {
            waited_for: cause_text(*cause, clients),
            ms: milliseconds(*time),
        };
        OperationRow {
            server: server.0,
            operation: seen.kind.clone(),
            dir: seen.dir.map(|dir| dir.to_string()),
            path: None,
            name: seen.name.as_ref().map(Name::to_string),
            inode: seen.ino.map(|ino| ino.to_string()),
            client: client_text(seen.session, clients),
            ago_ms: milliseconds(seen.ago),
            took_ms: milliseconds(seen.took),
            waits_for: seen.waits.map(|cause| cause_text(cause, clients)),
            parts: seen.parts.iter().map(part).collect(),
            own_ms: milliseconds(seen.took.saturating_sub(waited)),
            ino: seen.dir,
        }
    }

    /// `/dir/name`, `directory 1.7`, `inode 1.8`
    pub(crate) fn object(&self) -> String {
        let dir = match (&self.path, &self.dir) {
            (Some(path), _) => Some(path.clone()),
            (None, Some(dir)) => Some(format!("directory {dir}")),
            (None, None) => None,
        };
        match (dir, &self.name, &self.inode) {
            (Some(dir), Some(name), _) if dir.ends_with('/') => format!("{dir}{name}"),
            (Some(dir), Some(name), _) => format!("{dir}/{name}"),
            (Some(dir), None, _) => dir,
            (None, _, Some(inode)) => format!("inode {inode}"),
            (None, _, None) => String::new(),
        }
    }

    /// `12.0 ms for server 2, 1.5 ms own`
    pub(crate) fn time_text(&self) -> String {
        let parts = self.parts.iter();
        let mut texts: Vec<String> = parts
            .map(|part| format!("{:.1} ms for {}", part.ms, part.waited_for))
            .collect();
        texts.push(format!("{:.1} ms own", self.own_ms));
        texts.join(", ")
    }
}

fn client_text(session: SessionId, clients: &BTreeMap<SessionId, String>) -> String {
    match clients.get(&session) {
        Some(place) => format!("{session} ({place})"),
        None => session.to_string(),
    }
}

fn cause_text(cause: Cause, clients: &BTreeMap<SessionId, String>) -> String {
    let text = cause.to_string();
    let place = cause.session().and_then(|session| clients.get(&session));
    match place {
        Some(place) => format!("{text} ({place})"),
        None => text,
    }
}

fn milliseconds(microseconds: u64) -> f64 {
    microseconds as f64 / 1e3
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use pandofs_api::{Activity, HotDir, ServerStatus, ShardStatus};
    use pandofs_types::{Epoch, FsId, ShardId};

    pub(crate) const CLIENT: SessionId = SessionId(0xa1);
    const OTHER: SessionId = SessionId(0xb2);

    fn status(id: u16, pid: u32, requests: u64) -> ServerStatus {
        ServerStatus {
            id: ServerId(id),
            fs: FsId(1),
            epoch: Epoch(1),
            pid,
            uptime_ms: 1,
            shards: vec![ShardStatus {
                waiting: 2,
                ..ShardStatus::default()
            }],
            connections: 0,
            sessions: 0,
            requests,
            redirected: 0,
            data_requests: 0,
            data_read: 0,
            data_written: 0,
            peer_messages: 0,
            distributed: 0,
            aborted: 0,
            log_bytes: 4_096,
            log_syncs: 0,
            log_records: 0,
            log_batches: 0,
            store_bytes: 0,
            granularity: None,
        }
    }

    fn operation(took: u64, cause: Cause) -> SeenOperation {
        SeenOperation {
            kind: "create".to_owned(),
            dir: Some(Ino::ROOT),
            name: Name::new(b"leaf").ok(),
            ino: None,
            session: CLIENT,
            ago: took,
            took,
            waits: Some(cause),
            parts: vec![(cause, took - 1_000)],
        }
    }

    fn told(id: u16, at: u64, requests: u64, hot: &[(u64, u64)]) -> Sample {
        let server = Cause::Server {
            server: ServerId(1),
            shard: ShardId(1),
        };
        let session = OTHER;
        let recall = Cause::Recall { session, others: 0 };
        let activity = Activity {
            at,
            cpu: at / 2,
            lane_cpu: at / 4,
            memory_bytes: 1 << 20,
            under_way: 3,
            lag: 2_500,
            hot: hot
                .iter()
                .map(|&(dir, per_second)| HotDir {
                    dir: Ino(dir),
                    per_second,
                })
                .collect(),
            waiting: vec![operation(20_000, recall), operation(1_500, server)],
            slow: vec![operation(u64::from(id) * 1_000 + 2_000, server)],
            clients: vec![
                (CLIENT, "process 7".to_owned()),
                (OTHER, "10.0.0.9".to_owned()),
            ],
        };
        Sample {
            id: ServerId(id),
            told: Ok(Told {
                status: status(id, 5, requests),
                activity,
            }),
        }
    }

    /// Two servers, and a third that is away.
    pub(crate) fn view() -> View {
        let away = || Sample {
            id: ServerId(2),
            told: Err("no answer within 1 s".to_owned()),
        };
        let before = [
            told(0, 1_000_000, 100, &[]),
            told(1, 1_000_000, 50, &[]),
            away(),
        ];
        let now = [
            told(0, 3_000_000, 700, &[(1, 200), (9, 10)]),
            told(1, 3_000_000, 50, &[(1, 100)]),
            away(),
        ];
        View::new("grove", &before, &now)
    }

    #[test]
    fn rates_are_of_the_time_between_two_samples() {
        let view = view();
        let up = view.servers[0].up.unwrap();
        assert_eq!(up.requests_per_second, Some(300.0));
        assert_eq!((up.load, up.processors), (Some(0.25), Some(0.5)));
        assert_eq!((up.queue, up.waiting, up.lag_ms), (3, 2, 2.5));
        assert_eq!(view.servers[2].state, "away");
        assert!(view.is_any_away());
        // Started again in between.
        let mut again = told(0, 500_000, 5, &[]);
        if let Ok(told) = &mut again.told {
            told.status.pid = 6;
        }
        let view = View::new("grove", &[told(0, 1_000_000, 100, &[])], &[again]);
        assert_eq!(view.servers[0].up.unwrap().requests_per_second, None);
    }

    #[test]
    fn a_directory_on_several_servers_is_one_and_the_hottest_is_first() {
        let mut view = view();
        assert_eq!(view.dirs()[..2], [Ino(1), Ino(9)]);
        view.name_dirs(|dir| (dir == Ino::ROOT).then(|| "/".to_owned()));
        let root = &view.directories[0];
        assert_eq!(
            (root.path.as_deref(), root.requests_per_second),
            (Some("/"), 300)
        );
        let shares: Vec<_> = root.servers.iter().map(|share| share.server).collect();
        assert_eq!(shares, [0, 1]);
        assert_eq!(view.directories[1].path, None);
        assert_eq!(view.slow[0].object(), "/leaf");
    }

    #[test]
    fn operations_say_where_their_time_went_and_who_is_in_the_way() {
        let view = view();
        assert_eq!(view.slow[0].server, 1, "the slowest first");
        assert_eq!(view.slow[0].time_text(), "2.0 ms for server 1, 1.0 ms own");
        assert_eq!(view.waiting.len(), 2, "what is quick does not wait");
        let waiting = &view.waiting[0];
        assert_eq!(
            waiting.waits_for.as_deref(),
            Some("leases of client 00000000000000b2 (10.0.0.9)")
        );
        assert_eq!(waiting.client, "00000000000000a1 (process 7)");
        assert_eq!(waiting.object(), "directory 0.1/leaf");
    }

    #[test]
    fn servers_are_sorted_by_what_is_asked_for() {
        let mut view = view();
        let ids = |view: &View| view.servers.iter().map(|row| row.id).collect::<Vec<_>>();
        let mut order = Order::Number;
        view.sort(order);
        assert_eq!(ids(&view), [0, 1, 2]);
        view.servers.reverse();
        order = order.next();
        assert_eq!(order.name(), "requests");
        view.sort(order);
        assert_eq!(ids(&view), [0, 1, 2]);
        assert_eq!(order.next().next().next(), Order::Number);
    }

    #[test]
    fn json_has_the_promised_fields() {
        let json = serde_json::to_value(view()).unwrap();
        assert_eq!(json["servers"][0]["requests_per_second"], 300.0);
        assert_eq!(json["servers"][2]["error"], "no answer within 1 s");
        assert!(json["servers"][2].get("queue").is_none());
        assert_eq!(
            json["directories"][0]["servers"][1]["requests_per_second"],
            100
        );
        assert_eq!(json["waiting"][0]["parts"][0]["ms"], 19.0);
        assert_eq!(json["slow"][0]["waits_for"], "server 1");
    }
}
