//! Shards in one thread, without a network, a disk or a clock: what a cluster of servers does, decided
//! by one seed.

mod cache;
mod files;
mod inodes;
mod node;
mod session;
mod space;

pub use cache::Leasing;

use crate::bytes::Bytes;
use crate::rng::Rng;
use crate::subject::Census;
use node::Node;
use pandofs_api::{
    DataReply, DataRequest, FIRST_TRUNCATIONS, Refusal, Reply, ShardRequest, ShardStatus,
};
use pandofs_check::ClusterDump;
use pandofs_placement::{
    ClusterMap, DirBounds, DirPolicy, FileBounds, FilePolicy, ServerInfo, ServerLoad, Settings,
};
use pandofs_shard::{Input, Output, Recall, Ticket, validate};
use pandofs_types::limits::{RESEND_INTERVAL, SESSION_TIMEOUT, STAGING_TIMEOUT, TICK_INTERVAL};
use pandofs_types::{FsId, HashKey, Ino, Leased, ServerId, ShardId, Time};
use session::Session;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// Nanoseconds that pass with each batch.
const BATCH_TIME: i64 = 1_000;
/// A data object, and how many truncations of its file it has followed.
#[derive(Debug, Default)]
struct Object {
    bytes: Bytes,
    truncations: u32,
}

/// The connection of a shard with the data objects; those of clients follow.
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
    /// Batches, about, between two restarts of a shard; 0: none restarts.
    pub restart_every: u64,
    /// The same for all clients.
    pub leasing: Leasing,
}

/// Answer of a shard, and what it leases with it.
type Answered = (Result<Reply, Refusal>, Vec<Leased>);

/// Manner in which messages between shards travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// In the order in which they were sent.
    InOrder,
    /// Each pair of shards has a connection of its own. Now these, now those are slow: what is sent over
    /// them arrives when nothing else is on its way.
    Connections,
    /// As `Connections`, and of 1,000 messages this many are lost and as many come twice.
    Unreliable(u16),
}

impl ClusterConfig {
    /// Every directory on another shard, or nearly, and as many splits as can be; in most clusters other files
    /// too.
    pub fn scattered(seed: u64, shards: u16) -> ClusterConfig {
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
                stripe_unit: 4_096,
                inline_bytes: 4_096,
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

/// A message on its way to a shard.
#[derive(Clone, Debug)]
struct Letter {
    /// The connection it is on; letters of one connection stay in order.
    connection: u32,
    to: ShardId,
    input: Input,
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
    recalls: VecDeque<(usize, ShardId, Recall)>,
    /// Requests without an answer, to be asked again when their shard restarts.
    asked: BTreeMap<Ticket, (ShardId, ShardRequest)>,
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
        let shards = (0..config.shards).map(ShardId);
        let nodes = shards.map(|shard| Node::create(shard, &map, now)).collect();
        let sessions = (0..config.clients)
            .map(|number| Session::new(number, &map))
            .collect();
        let mut cluster = Cluster {
            rng: Rng::new(config.seed),
            config,
            map,
            nodes,
            sessions,
            objects: BTreeMap::new(),
            mail: VecDeque::new(),
            answers: HashMap::new(),
            recalls: VecDeque::new(),
            asked: BTreeMap::new(),
            slowness: 0,
            now,
            last_ticket: 0,
            base: None,
        };
        if cluster.takes_leases() {
            for client in 0..cluster.sessions.len() {
                for shard in 0..cluster.nodes.len() as u16 {
                    cluster.begin_anew(client, ShardId(shard));
                }
            }
        }
        cluster
    }

    /// Asks a shard and lets the cluster work until the answer is there.
    ///
    /// # Panics
    /// Panics if it does not come, or a shard finds its state broken.
    fn call(&mut self, request: ShardRequest) -> Answered {
        self.last_ticket += 1;
        let ticket = Ticket(self.last_ticket);
        let to = request.shard;
        self.asked.insert(ticket, (to, request.clone()));
        self.post(
            TO_CLIENTS,
            to,
            Input::Request {
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

    fn post(&mut self, connection: u32, to: ShardId, input: Input) {
        self.mail.push_back(Letter {
            connection,
            to,
            input,
        });
    }

    /// Lets one shard work on what has come in, or time pass if nothing is on its way.
    fn work(&mut self) {
        if self.config.restart_every > 0 && self.rng.chance(1, self.config.restart_every) {
            let shard = ShardId(self.rng.below(self.nodes.len() as u64) as u16);
            self.restart(shard);
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
        let shard = first.to;
        let mut batch = vec![first.input];
        // A lane takes up all that has come in; how much that is varies.
        while self.rng.chance(1, 2) {
            let Some(at) = self.mail.iter().position(|letter| letter.to == shard) else {
                break;
            };
            batch.extend(self.mail.remove(at).map(|letter| letter.input));
        }
        self.run_batch(shard, batch);
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
            && is_sent_again(&letter.input)
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
        let told = Arc::new(self.loads());
        for shard in 0..self.nodes.len() as u16 {
            let inputs = vec![Input::Loads(Arc::clone(&told)), Input::Tick];
            self.run_batch(ShardId(shard), inputs);
        }
    }

    /// Returns the load of each server.
    fn loads(&self) -> BTreeMap<ServerId, ServerLoad> {
        let mut loads: BTreeMap<ServerId, ServerLoad> = BTreeMap::new();
        for node in &self.nodes {
            let server = self.map.server_of(node.id());
            loads.entry(server).or_default().objects += node.status().inodes;
        }
        loads
    }

    fn run_batch(&mut self, shard: ShardId, batch: Vec<Input>) {
        self.now.0 += BATCH_TIME;
        let outputs = self.nodes[usize::from(shard.0)].run(batch, self.now, &mut self.rng);
        for output in outputs {
            self.carry_out(shard, output);
        }
    }

    fn carry_out(&mut self, from: ShardId, output: Output) {
        match output {
            Output::Answer {
                ticket,
                result,
                leased,
                ..
            } => {
                // The asker may have had an answer from before a restart.
                if self.asked.contains_key(&ticket) {
                    self.answers.insert(ticket, (result, leased));
                }
            }
            Output::Send { to, message, .. } => {
                assert_eq!(
                    validate(&self.map, &message),
                    Ok(()),
                    "what a shard sends is never found wrong: {message:?}"
                );
                let connection = u32::from(from.0) << 16 | u32::from(to.0);
                self.post(connection, to, Input::Peer(message));
            }
            Output::WhenDurable { shard, input } => self.post(LOCAL, shard, input),
            Output::Data {
                server,
                ticket,
                request,
                ..
            } => {
                let reply = self.data(server, request);
                self.post(LOCAL, from, Input::DataDone { ticket, reply });
            }
            Output::Warm { keys, .. } => unreachable!("in memory nothing is cold: {keys:02x?}"),
            Output::Watch { .. } | Output::Replaced { .. } => {}
            Output::Recall(recall) => self.send_recall(from, recall),
            Output::Unreadable { error, .. } => unreachable!("memory is sound: {error}"),
        }
    }

    /// Does this to a data object.
    fn data(&mut self, server: ServerId, request: DataRequest) -> DataReply {
        match request {
            DataRequest::Read {
                ino,
                offset,
                length,
            } => {
                let object = self.objects.get(&(server, ino));
                let data = object.map(|object| object.bytes.read(offset, u64::from(length)));
                return DataReply::Data(data.unwrap_or_default());
            }
            DataRequest::Write {
                ino,
                truncations,
                offset,
                data,
            } => {
                if let Some(others) = self.other_truncations(server, ino, truncations) {
                    return others;
                }
                let object = self.objects.entry((server, ino)).or_default();
                object.bytes.write(offset, &data);
            }
            DataRequest::Fill {
                ino,
                truncations,
                data,
            } => {
                let object = self.objects.entry((server, ino)).or_default();
                if object.truncations < truncations {
                    object.bytes.write(0, &data);
                    object.truncations = truncations;
                }
            }
            DataRequest::Truncate {
                ino,
                truncations,
                length,
            } => {
                let object = self.objects.entry((server, ino)).or_default();
                if object.truncations < truncations {
                    let size = object.bytes.size().min(length);
                    object.bytes.set_size(size);
                    object.truncations = truncations;
                }
            }
            DataRequest::Remove { ino } => {
                self.objects.remove(&(server, ino));
            }
            DataRequest::Sync { .. } => {}
            DataRequest::Usage { .. } | DataRequest::Space => {
                unreachable!("shards do not ask for {request:?}")
            }
            DataRequest::Allocate {
                ino,
                truncations,
                offset,
                length,
                allocation,
            } => {
                if let Some(others) = self.other_truncations(server, ino, truncations) {
                    return others;
                }
                let end = offset + length;
                if allocation.extends() {
                    let object = self.objects.entry((server, ino)).or_default();
                    let size = object.bytes.size().max(end);
                    object.bytes.set_size(size);
                }
                if allocation.zeroes()
                    && let Some(object) = self.objects.get_mut(&(server, ino))
                {
                    object.bytes.zero(offset, end);
                }
            }
            DataRequest::Seek { ino, offset, data } => {
                let object = self.objects.get(&(server, ino));
                let found = match object.filter(|object| offset < object.bytes.size()) {
                    None => (!data).then_some(offset),
                    Some(object) if data => object.bytes.next_nonzero(offset),
                    Some(object) => Some(object.bytes.next_zero(offset)),
                };
                return DataReply::Found { offset: found };
            }
        }
        DataReply::Done
    }

    /// Returns the answer to a change that goes by another number of truncations than the object.
    fn other_truncations(&self, server: ServerId, ino: Ino, truncations: u32) -> Option<DataReply> {
        let object = self.objects.get(&(server, ino));
        let followed = object
            .map_or(0, |object| object.truncations)
            .max(FIRST_TRUNCATIONS);
        (followed != truncations).then_some(DataReply::OtherTruncations {
            truncations: followed,
        })
    }

    /// A shard's process dies and starts again: the store has what was flushed and some of the rest,
    /// the log everything. What was on its way to it is lost, and clients ask again.
    fn restart(&mut self, shard: ShardId) {
        self.mail.retain(|letter| letter.to != shard);
        let outputs = self.nodes[usize::from(shard.0)].restart(&self.map, self.now, &mut self.rng);
        for output in outputs {
            self.carry_out(shard, output);
        }
        // Before anything else of a client comes what it has open.
        for session in 0..self.sessions.len() {
            if self.takes_leases() {
                self.begin_anew(session, shard);
            }
            let opens = self.sessions[session].all_opens();
            if !opens.is_empty() {
                let request = self.sessions[session].reopen(shard, opens);
                self.last_ticket += 1;
                self.post(
                    TO_CLIENTS,
                    shard,
                    Input::Request {
                        ticket: Ticket(self.last_ticket),
                        request,
                    },
                );
            }
        }
        let again: Vec<_> = self
            .asked
            .iter()
            .filter(|(_, (to, _))| *to == shard)
            .collect();
        let again: Vec<_> = again
            .into_iter()
            .map(|(ticket, (_, r))| (*ticket, r.clone()))
            .collect();
        for (ticket, request) in again {
            self.post(TO_CLIENTS, shard, Input::Request { ticket, request });
        }
    }

    /// Lets the background come to rest, has all oracles of `fsck` look at what is stored, and counts it.
    fn come_to_rest(&mut self) -> Result<Census, String> {
        self.quiesce(|status| status.undecided + status.waiting + status.reclaiming > 0)?;
        self.ask_oracles()?;
        let statuses: Vec<_> = self.nodes.iter().map(Node::status).collect();
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
                let busy: Vec<_> = self
                    .nodes
                    .iter()
                    .map(Node::status)
                    .filter(is_busy)
                    .collect();
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
            if !self.mail.is_empty() || self.nodes.iter().any(|node| is_busy(&node.status())) {
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
        let shards = self
            .nodes
            .iter()
            .map(|node| (node.id(), node.pairs()))
            .collect();
        ClusterDump {
            map: (*self.map).clone(),
            shards,
            objects,
        }
    }
}

/// Returns whether its sender sends it again until it is answered.
fn is_sent_again(input: &Input) -> bool {
    matches!(input, Input::Peer(_))
}
