//! Servers in one thread, without a network, a disk or a clock: their lanes, with what goes between them decided by one
//! seed.

mod cache;
mod files;
mod inodes;
mod node;
mod objects;
mod session;
mod space;

pub use cache::Leasing;

use crate::rng::Rng;
use crate::subject::Census;
use cache::ToldRecall;
use node::Node;
use objects::Object;
use pandofs_api::{DataReply, PeerMessage, Refusal, Reply, ShardRequest, ShardStatus};
use pandofs_check::ClusterDump;
use pandofs_lane::{Command, DataOrigin, Heard};
use pandofs_placement::{
    ClusterMap, DirBounds, DirPolicy, FileBounds, FilePolicy, ServerInfo, Settings,
};
use pandofs_shard::Ticket;
use pandofs_types::limits::{RESEND_INTERVAL, SESSION_TIMEOUT, STAGING_TIMEOUT, TICK_INTERVAL};
use pandofs_types::{FsId, HashKey, Ino, Leased, ServerId, Steady, Time};
use session::Session;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// Nanoseconds that pass with each batch.
const BATCH_TIME: i64 = 1_000;
/// The connection of a server with its disks; those of clients follow.
const LOCAL: u32 = u32::MAX - 1;
const TO_CLIENTS: u32 = u32::MAX;
/// Time for which a request may go without an answer, or the background without coming to rest.
const PATIENCE: std::time::Duration = SESSION_TIMEOUT.saturating_mul(5);

/// Shape of a cluster.
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    /// Order of messages, losses and restarts follow from it.
    pub seed: u64,
    /// All there from the start.
    pub servers: u16,
    /// A power of two, led by the servers in turn.
    pub shards: u16,
    /// Of directories.
    pub policy: DirPolicy,
    /// Of the cluster map.
    pub settings: Settings,
    /// Clients, each of which remembers for itself where things are.
    pub clients: usize,
    /// Which messages are lost, repeated or late.
    pub network: Network,
    /// Batches, about, between two restarts of a server; 0: none restarts.
    pub restart_every: u64,
    /// The same for all clients.
    pub leasing: Leasing,
}

/// Answer of a shard, and what it leases with it.
type Answered = (Result<Reply, Refusal>, Vec<Leased>);

/// Manner in which messages between servers travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// In the order in which they were sent.
    InOrder,
    /// Each pair of servers has a connection of its own. Now these, now those are slow: what is sent over
    /// them arrives when nothing else is on its way.
    Connections,
    /// As `Connections`, and of 1,000 messages this many are lost and as many come twice.
    Unreliable(u16),
}

impl ClusterConfig {
    /// Every directory on another shard, or nearly, and as many splits as can be; in most clusters other files
    /// too.
    pub fn scattered(seed: u64, shards: u16) -> ClusterConfig {
        // One page is kept inline, by the setting or by the stripe unit, or four.
        let (stripe_unit, inline_bytes) = match seed / 3 % 3 {
            0 => (4_096, 4_096),
            1 => (4_096, 16_384),
            _ => (16_384, 16_384),
        };
        ClusterConfig {
            seed,
            servers: shards.min(4),
            shards,
            policy: match seed % 4 {
                3 => DirPolicy::Adaptive(DirBounds {
                    least_depth: 1,
                    most_depth: 2,
                    least_width: 1,
                    most_width: 2,
                }),
                _ => DirPolicy::Random,
            },
            settings: Settings {
                split_threshold: 4,
                max_partitions: Some(16),
                stripe_unit,
                inline_bytes,
                file_policy: match seed % 3 {
                    0 => FilePolicy::WithEntry,
                    1 => FilePolicy::Ddg { file_width: 1 },
                    _ => FilePolicy::Adaptive(FileBounds { least: 1, most: 2 }),
                },
                ..Settings::default()
            },
            clients: 2,
            network: Network::InOrder,
            restart_every: 0,
            leasing: Leasing::Off,
        }
    }

    fn map(&self) -> ClusterMap {
        let server = |id| ServerInfo {
            id: ServerId(id),
            addresses: Vec::new(),
            weight: ServerInfo::WEIGHT_ONE,
            domain: format!("rack {id}"),
        };
        ClusterMap::create(
            FsId(7),
            "test".to_owned(),
            HashKey(self.seed, 2),
            self.shards,
            (0..self.servers).map(server).collect(),
            self.policy,
            self.settings.clone(),
        )
        .expect("the configuration makes a cluster")
    }
}

/// A message on its way to a server.
#[derive(Clone, Debug)]
struct Letter {
    /// The connection it is on; letters of one connection stay in order.
    connection: u32,
    to: ServerId,
    said: Said,
}

#[derive(Clone, Debug)]
enum Said {
    Request {
        ticket: Ticket,
        request: ShardRequest,
    },
    /// A client waits for recalls, see [`Lane::await_recalls`](pandofs_lane::Lane::await_recalls).
    AwaitsRecalls { hearer: Hearer, done: Option<u64> },
    Peer {
        from: ServerId,
        message: PeerMessage,
    },
    DataDone {
        origin: DataOrigin,
        reply: DataReply,
    },
    /// The log can be synced.
    Sync,
}

/// Where recalls are told: a client, and when it connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hearer {
    client: usize,
    connected: Time,
}

/// A cluster and its clients.
pub struct Cluster {
    config: ClusterConfig,
    map: Arc<ClusterMap>,
    nodes: Vec<Node>,
    sessions: Vec<Session>,
    objects: BTreeMap<(ServerId, Ino), Object>,
    mail: VecDeque<Letter>,
    answers: HashMap<Ticket, Answered>,
    /// On their way to clients.
    recalls: VecDeque<ToldRecall>,
    /// When each client connected to each server to hear of recalls.
    hearing: BTreeMap<(usize, ServerId), Time>,
    /// Clients that do not answer a server until then.
    silent: Vec<(Time, usize, ServerId)>,
    /// Requests without an answer, to be asked again when their server restarts.
    asked: BTreeMap<Ticket, (ServerId, ShardRequest)>,
    now: Time,
    rng: Rng,
    /// Decides which connections are slow at the moment.
    slowness: u64,
    last_ticket: u64,
    /// Census from before the test's own tree.
    base: Option<Census>,
}

impl Cluster {
    /// With a root directory, and nothing under way.
    pub fn new(config: ClusterConfig) -> Cluster {
        let map = Arc::new(config.map());
        // 2020-09-13: after the past times that tests set, before the future ones.
        let now = Time(1_600_000_000_000_000_000);
        let mut rng = Rng::new(config.seed);
        let servers = (0..config.servers).map(ServerId);
        let nodes = servers
            .map(|server| Node::create(server, &map, now, &mut rng))
            .collect();
        let sessions = (0..config.clients)
            .map(|number| Session::new(number, &map))
            .collect();
        let mut cluster = Cluster {
            rng,
            config,
            map,
            nodes,
            sessions,
            objects: BTreeMap::new(),
            mail: VecDeque::new(),
            answers: HashMap::new(),
            recalls: VecDeque::new(),
            hearing: BTreeMap::new(),
            silent: Vec::new(),
            asked: BTreeMap::new(),
            slowness: 0,
            now,
            last_ticket: 0,
            base: None,
        };
        for server in cluster.servers() {
            cluster.obey(server);
        }
        if cluster.takes_leases() {
            for client in 0..cluster.sessions.len() {
                for server in cluster.servers() {
                    cluster.begin_anew(client, server);
                }
            }
        }
        cluster
    }

    fn servers(&self) -> impl Iterator<Item = ServerId> + use<> {
        (0..self.config.servers).map(ServerId)
    }

    fn node(&mut self, server: ServerId) -> &mut Node {
        &mut self.nodes[usize::from(server.0)]
    }

    /// Asks a shard and lets the cluster work until the answer is there.
    ///
    /// # Panics
    /// Panics if it does not come, or a shard finds its state broken.
    fn call(&mut self, request: ShardRequest) -> Answered {
        self.last_ticket += 1;
        let ticket = Ticket(self.last_ticket);
        let to = self.map.server_of(request.shard);
        self.asked.insert(ticket, (to, request.clone()));
        self.post(
            TO_CLIENTS,
            to,
            Said::Request {
                ticket,
                request: request.clone(),
            },
        );
        let deadline = Time(self.now.0 + PATIENCE.as_nanos() as i64);
        loop {
            if let Some(answer) = self.answers.remove(&ticket) {
                self.asked.remove(&ticket);
                return answer;
            }
            assert!(
                self.now < deadline,
                "no answer in {PATIENCE:?} to {request:?}"
            );
            self.work();
        }
    }

    fn post(&mut self, connection: u32, to: ServerId, said: Said) {
        self.mail.push_back(Letter {
            connection,
            to,
            said,
        });
    }

    /// Lets one server work on what has come in, or time pass if nothing is on its way.
    fn work(&mut self) {
        if self.config.restart_every > 0 && self.rng.chance(1, self.config.restart_every) {
            let server = ServerId(self.rng.below(self.nodes.len() as u64) as u16);
            self.restart(server);
        }
        if self.rng.chance(1, 4) {
            self.take_recall();
        }
        let Some(first) = self.take_letter() else {
            if self.take_recall() {
                return;
            }
            self.pass_time();
            return;
        };
        let server = first.to;
        self.take(first);
        // A lane takes up all that has come in; how much that is varies.
        while self.rng.chance(1, 2) {
            let Some(at) = self.mail.iter().position(|letter| letter.to == server) else {
                break;
            };
            if let Some(letter) = self.mail.remove(at) {
                self.take(letter);
            }
        }
        self.run_batches(server);
    }

    /// A server gets a letter.
    fn take(&mut self, letter: Letter) {
        let (now, server) = (Steady(self.now.0), letter.to);
        let node = &mut self.nodes[usize::from(server.0)];
        match letter.said {
            Said::Request { ticket, request } => match node.lane.admit(&request) {
                Ok(()) => node.lane.request(ticket, request),
                Err(refusal) => self.answered(ticket, Err(refusal), Vec::new()),
            },
            Said::AwaitsRecalls { hearer, done } => {
                let session = self.sessions[hearer.client].id();
                let connected = Steady(hearer.connected.0);
                node.lane
                    .await_recalls(session, connected, hearer, done, now);
            }
            Said::Peer { from, message } => {
                let said = format!("{message:?}");
                let heard = node.lane.hear(from, message).expect("no point is passed");
                assert_eq!(
                    heard,
                    Heard::Taken,
                    "what a shard sends is never found wrong: {said}"
                );
            }
            Said::DataDone { origin, reply } => node.lane.data_done(origin, reply),
            Said::Sync => node.sync(),
        }
    }

    /// Takes the next letter of some connection off the mail.
    fn take_letter(&mut self) -> Option<Letter> {
        if self.mail.is_empty() {
            return None;
        }
        let at = match self.config.network {
            Network::InOrder => 0,
            Network::Connections | Network::Unreliable(_) => {
                let is_fast = |connection: &u32| {
                    *connection >= LOCAL
                        || !Rng::new(self.slowness ^ u64::from(*connection)).chance(1, 3)
                };
                let all: Vec<u32> = self.mail.iter().map(|letter| letter.connection).collect();
                let fast: Vec<u32> = all.iter().copied().filter(is_fast).collect();
                let connection = *self.rng.pick(if fast.is_empty() { &all } else { &fast });
                let first = self
                    .mail
                    .iter()
                    .position(|letter| letter.connection == connection);
                first.expect("the chosen one is on it")
            }
        };
        let letter = self.mail.remove(at)?;
        if let Network::Unreliable(per_mille) = self.config.network
            && is_sent_again(&letter.said)
        {
            let fate = self.rng.below(1_000);
            if fate < u64::from(per_mille) {
                return self.take_letter();
            }
            if fate < u64::from(per_mille) * 2 {
                self.mail.push_back(letter.clone());
            }
        }
        Some(letter)
    }

    fn pass_time(&mut self) {
        self.now.0 += TICK_INTERVAL.as_nanos() as i64;
        self.end_silence();
        for server in self.servers() {
            let now = Steady(self.now.0);
            self.node(server).lane.run_timers(now);
            self.run_batches(server);
        }
    }

    /// Has a server do all that it can without hearing anything.
    fn run_batches(&mut self, server: ServerId) {
        loop {
            self.now.0 += BATCH_TIME;
            self.nodes[usize::from(server.0)].run(self.now, &mut self.rng);
            self.obey(server);
            if !self.node(server).lane.has_inputs() {
                return;
            }
        }
    }

    /// Does what a server's lane wants done.
    fn obey(&mut self, server: ServerId) {
        loop {
            let now = self.now;
            let commands = self.node(server).take_commands(now);
            if commands.is_empty() {
                return;
            }
            for command in commands {
                self.carry_out(server, command);
            }
        }
    }

    fn carry_out(&mut self, server: ServerId, command: Command<Hearer>) {
        match command {
            Command::Answer {
                ticket,
                result,
                leased,
                ..
            } => self.answered(ticket, result, leased),
            Command::Send {
                server: to,
                message,
            } => {
                let connection = u32::from(server.0) << 16 | u32::from(to.0);
                let from = server;
                self.post(connection, to, Said::Peer { from, message });
            }
            Command::Data { origin, request } => {
                let reply = self.data(server, request);
                self.post(LOCAL, server, Said::DataDone { origin, reply });
            }
            Command::Sync => self.post(LOCAL, server, Said::Sync),
            Command::Flush { written } => self.node(server).flush(&written),
            Command::Recall { to, number, keys } => {
                self.recalls.push_back(ToldRecall {
                    from: server,
                    to,
                    number,
                    keys,
                });
            }
            // It has begun anew since.
            Command::BeginAnew { .. } | Command::Expired { .. } | Command::Replaced { .. } => {}
            Command::Coordinates { .. } => {}
            Command::Warm { keys, .. } => unreachable!("in memory nothing is cold: {keys:02x?}"),
            Command::Unreadable { error, .. } => unreachable!("memory is sound: {error}"),
            Command::UnknownServer { server, .. } => unreachable!("{server} is on no map"),
            Command::FlushDone { to } => unreachable!("{to:?} wants no flush"),
        }
    }

    fn answered(&mut self, ticket: Ticket, result: Result<Reply, Refusal>, leased: Vec<Leased>) {
        // The asker may have had an answer from before a restart.
        if self.asked.contains_key(&ticket) {
            self.answers.insert(ticket, (result, leased));
        }
    }

    /// A server dies and starts again: the store has what was flushed and some of the rest,
    /// the log everything. Messages on their way to it are lost, and clients ask again.
    fn restart(&mut self, server: ServerId) {
        self.mail.retain(|letter| letter.to != server);
        self.nodes[usize::from(server.0)].restart(self.now, &mut self.rng);
        self.obey(server);
        // Before anything else of a client comes what it has open.
        for session in 0..self.sessions.len() {
            if self.takes_leases() {
                self.begin_anew(session, server);
            }
            let opens = self.sessions[session].all_opens();
            if opens.is_empty() {
                continue;
            }
            for shard in self.map.shards_of(server) {
                let request = self.sessions[session].reopen(shard, opens.clone());
                self.last_ticket += 1;
                let ticket = Ticket(self.last_ticket);
                self.post(TO_CLIENTS, server, Said::Request { ticket, request });
            }
        }
        let again: Vec<_> = self
            .asked
            .iter()
            .filter(|(_, (to, _))| *to == server)
            .collect();
        let again: Vec<_> = again
            .into_iter()
            .map(|(ticket, (_, r))| (*ticket, r.clone()))
            .collect();
        for (ticket, request) in again {
            self.post(TO_CLIENTS, server, Said::Request { ticket, request });
        }
    }

    fn statuses(&self) -> Vec<ShardStatus> {
        let of = |node: &Node| node.lane.shards().status();
        self.nodes.iter().flat_map(of).collect()
    }

    /// Lets the background come to rest, has all oracles of `fsck` look at what is stored, and counts it.
    fn come_to_rest(&mut self) -> Result<Census, String> {
        self.quiesce(|status| status.undecided + status.waiting + status.reclaiming > 0)?;
        self.ask_oracles()?;
        let statuses = self.statuses();
        Ok(Census {
            entries: statuses.iter().map(|status| status.entries).sum(),
            inodes: statuses.iter().map(|status| status.inodes).sum(),
        })
    }

    /// Works until nothing is on its way and no shard is busy.
    fn quiesce(&mut self, is_busy: fn(&ShardStatus) -> bool) -> Result<(), String> {
        let restarts = std::mem::take(&mut self.config.restart_every);
        let deadline = Time(self.now.0 + PATIENCE.as_nanos() as i64);
        while !self.is_at_rest(is_busy) {
            if self.now >= deadline {
                let mut busy = self.statuses();
                busy.retain(is_busy);
                return Err(format!("it did not come to rest in {PATIENCE:?}: {busy:?}"));
            }
            self.work();
        }
        self.config.restart_every = restarts;
        Ok(())
    }

    /// Seen several times, since what begins by itself begins with a tick.
    fn is_at_rest(&mut self, is_busy: fn(&ShardStatus) -> bool) -> bool {
        for _ in 0..8 {
            if !self.mail.is_empty() || self.statuses().iter().any(is_busy) {
                return false;
            }
            self.pass_time();
        }
        true
    }

    /// Remains of a restart (a split that was given up, an end that was not heard of) go by
    /// themselves after a while.
    fn ask_oracles(&mut self) -> Result<(), String> {
        let deadline = Time(self.now.0 + (2 * STAGING_TIMEOUT).as_nanos() as i64);
        loop {
            let problems = pandofs_check::check(&self.dump());
            if problems.is_empty() {
                return Ok(());
            }
            if self.now >= deadline {
                let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
                return Err(format!("the oracles say:\n    {}", lines.join("\n    ")));
            }
            let next = self.now.0 + RESEND_INTERVAL.as_nanos() as i64;
            let restarts = std::mem::take(&mut self.config.restart_every);
            while self.now.0 < next {
                self.work();
            }
            self.config.restart_every = restarts;
        }
    }

    /// The moment that every shard is told; it grows with each batch.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns all that is stored at this moment, of operations under way too.
    pub fn dump(&self) -> ClusterDump {
        let mut objects: BTreeMap<ServerId, Vec<(Ino, u64)>> = self
            .map
            .servers
            .iter()
            .map(|server| (server.id, Vec::new()))
            .collect();
        for ((server, ino), object) in &self.objects {
            objects
                .entry(*server)
                .or_default()
                .push((*ino, object.bytes.size()));
        }
        let shards = self.nodes.iter().flat_map(Node::pairs).collect();
        ClusterDump {
            map: (*self.map).clone(),
            shards,
            objects,
        }
    }
}

/// Returns whether its sender sends it again until it is answered.
fn is_sent_again(said: &Said) -> bool {
    matches!(said, Said::Peer { .. })
}
