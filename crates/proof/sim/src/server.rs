//! One server: what a lane is made of, with the world around it in place of sockets, threads and clock.

mod disk;
mod loads;

use crate::client::Hearer;
use crate::disk::Disk;
use crate::plant;
use crate::scenario::{Leasing, Moment, Plant, SECOND, Scenario};
use pandofs_api::{DataReply, DataRequest, PeerMessage, Refusal, Reply};
use pandofs_check::ShardPairs;
use pandofs_log::Log;
use pandofs_placement::ClusterMap;
use pandofs_server::parts::{
    Answer, Asked, DataTickets, Durable, Loads, Recalls, Removed, Said, Shards,
};
use pandofs_server::{ServerError, parts};
use pandofs_shard::{Environment, Input, Output, Shard, ShardConfig, Ticket};
use pandofs_store::{KvRead, MemoryStore, Overlay, Store};
use pandofs_testkit::rng::Rng;
use pandofs_types::limits::MAX_LANE_BATCH;
use pandofs_types::{
    Credentials, Ino, LeaseKey, Leased, ServerId, SessionId, ShardId, Steady, Time,
};
use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// 2020-09-13, what the world's clock shows at the start.
const EPOCH: i64 = 1_600_000_000 * SECOND;

/// Address of an answer: a request of a client's worker, and which attempt at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asker {
    pub client: usize,
    /// Of the process that the client is.
    pub session: SessionId,
    pub worker: usize,
    pub attempt: u64,
}

/// A wish of a server to the network.
#[derive(Clone, Debug)]
pub enum Act {
    Answer {
        asker: Asker,
        result: Result<Reply, Refusal>,
        leased: Vec<Leased>,
    },
    /// Tell a client what is recalled; `None`: that it is to begin anew.
    Recall {
        hearer: Hearer,
        told: Option<(u64, Vec<LeaseKey>)>,
    },
    Send {
        server: ServerId,
        message: PeerMessage,
    },
    /// The session may never be heard of here.
    Watch { session: SessionId },
}

/// Something that waits for the disk, and the record after which it was said.
struct Held {
    shard: ShardId,
    applied: u64,
    output: Output,
}

/// A running process.
pub struct Process {
    pub shards: Shards,
    durable: Durable<Held>,
    /// Appends not synced when the sync under way began.
    covered: Option<usize>,
    flushing: Option<Vec<(ShardId, u64)>>,
    unflushed_bytes: u64,
    synced_at: Moment,
    last_time: Time,
    random: Rng,
    pub tickets: BTreeMap<u64, Asker>,
    last_ticket: u64,
    data_tickets: DataTickets,
    removed: Removed,
    inbox: VecDeque<(ShardId, Input)>,
    recalls: Recalls<Hearer>,
    loads: Loads,
    /// Moment at which the loads are looked at next.
    next_loads: Moment,
    /// It works until then.
    pub busy_until: Moment,
    pub is_scheduled: bool,
}

/// Why a process ended.
#[derive(Debug)]
pub enum Death {
    /// The scenario has it so.
    Planned,
    /// As it does when its disk is full.
    Full,
    /// It should not have.
    Broken(String),
}

/// A data object.
#[derive(Debug, Default)]
pub struct Object {
    pub size: u64,
    /// Of its file, that it has followed.
    truncations: u32,
}

/// Operations begun after one that has not ended before that one is named as a straggler: as a run has few.
const STRAGGLES_AFTER: u64 = 2;

pub struct Server {
    pub id: ServerId,
    map: Arc<ClusterMap>,
    pub store: MemoryStore,
    pub log: Disk,
    pub objects: BTreeMap<Ino, Object>,
    pub process: Option<Process>,
    /// Tells its processes apart.
    pub boot: u64,
    pub skew: i64,
    /// Only the reserve is left of its disk.
    pub is_low: bool,
    /// Records that are promised to survive any crash: the last one of each shard after which something was said that had
    /// waited for the disk.
    pub promised: BTreeMap<ShardId, u64>,
    /// The fault by which it is about to die.
    pub dies_by: Option<usize>,
    plant: Option<Plant>,
    leases: Option<Leasing>,
    /// Some instant, from which the clock of leases counts.
    start: Instant,
    acts: Vec<Act>,
}

/// A server's store as it is at first.
fn new_store(map: &Arc<ClusterMap>, id: ServerId) -> MemoryStore {
    let store = MemoryStore::new();
    for config in parts::configs(map, id) {
        let mut overlay = Overlay::new(&store);
        let now = Time(EPOCH);
        Shard::create(&config, &mut overlay, now, &Credentials::ROOT).expect("a shard can be made");
        let batch = overlay.take_batch();
        drop(overlay);
        store.write(&batch).expect("memory takes it");
    }
    store.flush().expect("memory takes it");
    store
}

impl Server {
    pub fn create(
        id: ServerId,
        map: &Arc<ClusterMap>,
        scenario: &Scenario,
        start: Instant,
    ) -> Server {
        Server {
            id,
            map: Arc::clone(map),
            store: new_store(map, id),
            log: Disk::new(),
            objects: BTreeMap::new(),
            process: None,
            boot: 0,
            skew: scenario.shape.skew[usize::from(id.0)],
            is_low: false,
            promised: BTreeMap::new(),
            dies_by: None,
            plant: scenario.plant,
            leases: scenario.shape.leases.clone(),
            start,
            acts: Vec::new(),
        }
    }

    pub fn configs(&self) -> Vec<ShardConfig> {
        parts::configs(&self.map, self.id)
    }

    fn clock(&mut self, now: Moment) -> Time {
        let read = Time(EPOCH + now + self.skew);
        match &mut self.process {
            None => read,
            Some(process) => {
                process.last_time = process.last_time.max(read);
                process.last_time
            }
        }
    }

    /// The clock that nobody sets.
    fn steady(&self, now: Moment) -> Steady {
        let drift = self.leases.as_ref();
        let drift = drift.map_or(0, |leases| leases.servers[usize::from(self.id.0)]);
        Steady(now + now / 1_000 * drift)
    }

    fn instant(&self, now: Moment) -> Instant {
        self.start + Duration::from_nanos(now as u64)
    }

    /// Starts a process, which recovers and runs its first batch.
    pub fn start(&mut self, now: Moment, seed: u64) -> Result<(), Death> {
        self.boot += 1;
        let (time, steady) = (self.clock(now), self.steady(now));
        let mut random = Rng::new(seed ^ u64::from(self.id.0) << 32 ^ self.boot << 48);
        let mut draw = || random.next_u64();
        let mut environment = Environment {
            now: time,
            steady,
            held: 0,
            random: &mut draw,
        };
        let configs = self.configs();
        let (shards, _) = parts::recover(configs, &mut environment, &self.store, &self.log)
            .map_err(|error| Death::Broken(format!("server {} cannot start: {error}", self.id)))?;
        for (id, shard) in &shards {
            let stream = u64::from(id.0);
            self.log.goes_on_after(stream, shard.applied());
        }
        let mut shards = Shards::new(shards);
        shards.touch_all();
        for shard in shards.ids() {
            shards.shard_mut(shard).set_straggles_after(STRAGGLES_AFTER);
        }
        if let Some(leases) = &self.leases {
            for shard in shards.ids() {
                shards.shard_mut(shard).set_lease_room(leases.room);
            }
        }
        let first_ticket = random.next_u64();
        self.process = Some(Process {
            shards,
            durable: Durable::new(),
            covered: None,
            flushing: None,
            unflushed_bytes: 0,
            synced_at: now,
            last_time: time,
            random,
            tickets: BTreeMap::new(),
            last_ticket: 0,
            data_tickets: DataTickets::new(first_ticket),
            removed: Removed::default(),
            inbox: VecDeque::new(),
            recalls: Recalls::default(),
            loads: Loads::default(),
            next_loads: now,
            busy_until: now,
            is_scheduled: false,
        });
        // Recovery's messages are sent before anything new is taken up.
        self.run(now, 0)?;
        self.log.sync().expect("memory is synced at once");
        if self.plant == Some(Plant::ReusesNumbers)
            && let Some(process) = &mut self.process
        {
            for shard in process.shards.ids() {
                process.shards.shard_mut(shard).plant_serials();
            }
        }
        Ok(())
    }

    /// Puts something into the inbox; whether there was a process to take it.
    pub fn receive(&mut self, shard: ShardId, input: Input) -> bool {
        match &mut self.process {
            Some(process) => {
                process.inbox.push_back((shard, input));
                true
            }
            None => false,
        }
    }

    pub fn ticket(&mut self, asker: Asker) -> Ticket {
        let process = self.process.as_mut().expect("it runs");
        process.last_ticket += 1;
        process.tickets.insert(process.last_ticket, asker);
        Ticket(process.last_ticket)
    }

    pub fn has_work(&self) -> bool {
        self.process
            .as_ref()
            .is_some_and(|process| !process.inbox.is_empty())
    }

    pub fn take_acts(&mut self) -> Vec<Act> {
        std::mem::take(&mut self.acts)
    }

    /// Works on a batch of at most `limit` inputs, as a lane does.
    pub fn run(&mut self, now: Moment, limit: usize) -> Result<(), Death> {
        let (time, steady) = (self.clock(now), self.steady(now));
        let Some(mut process) = self.process.take() else {
            return Ok(());
        };
        let done = self.run_batch(&mut process, (time, steady), limit);
        self.process = Some(process);
        done.map_err(|error| self.death(&error))
    }

    fn death(&self, error: &ServerError) -> Death {
        match error {
            _ if self.log.is_dying() && self.log.dies_here() => Death::Planned,
            ServerError::Log(pandofs_log::LogError::Full { .. }) => Death::Full,
            other => Death::Broken(format!("server {}: {other}", self.id)),
        }
    }

    fn run_batch(
        &mut self,
        process: &mut Process,
        (time, steady): (Time, Steady),
        limit: usize,
    ) -> Result<(), ServerError> {
        let Process {
            shards,
            durable,
            random,
            inbox,
            unflushed_bytes,
            data_tickets,
            ..
        } = process;
        let mut draw = || random.next_u64();
        let mut environment = Environment {
            now: time,
            steady,
            held: 0,
            random: &mut draw,
        };
        let mut overlay = Overlay::new(&self.store);
        let taken = inbox.len().min(limit).min(MAX_LANE_BATCH);
        let mut inputs: Vec<_> = inbox.drain(..taken).collect();
        let mut outputs = Vec::new();
        loop {
            for (shard, input) in inputs.drain(..) {
                shards.submit(&overlay, &mut environment, shard, input)?;
            }
            let appended = shards.append_and_apply(&mut overlay, &mut environment, &self.log)?;
            if appended.records > 0 {
                durable.appended();
                *unflushed_bytes += appended.bytes;
            }
            for (shard, output) in shards.take_outputs() {
                match output {
                    Output::Send {
                        to,
                        message,
                        durable: false,
                    } if self.map.server_of(to) == self.id => {
                        inputs.push((to, Input::Peer(message)));
                    }
                    other => outputs.push((shard, other)),
                }
            }
            if inputs.is_empty() {
                break;
            }
        }
        if self.plant == Some(Plant::KeepsLocks) {
            plant::keep_lock(shards, time);
        }
        let batch = overlay.take_batch();
        drop(overlay);
        if !batch.is_empty() {
            let batch = plant::tamper(self.plant, &self.store, batch);
            self.store.write(&batch)?;
        }
        let mut due = Vec::with_capacity(outputs.len());
        for (shard, output) in outputs {
            let waits = match &output {
                Output::Answer { durable, .. } | Output::Send { durable, .. } => *durable,
                Output::Data {
                    ticket, durable, ..
                } => match data_tickets.ask(shard, *ticket) {
                    Asked::First => *durable,
                    Asked::Unsent => continue,
                    Asked::Again => false,
                },
                Output::Warm { .. }
                | Output::Replaced { .. }
                | Output::Watch { .. }
                | Output::Recall(_)
                | Output::Unreadable { .. } => false,
                Output::WhenDurable { .. } => true,
            };
            let applied = shards.shard(shard).applied();
            due.push((
                waits,
                Held {
                    shard,
                    applied,
                    output,
                },
            ));
        }
        for (waits, held) in due {
            if !waits {
                self.carry_out(process, held.shard, held.output);
            } else if self.plant == Some(Plant::Unsynced) {
                self.let_go(process, held);
            } else if let Some(held) = process.durable.hold(held) {
                self.let_go(process, held);
            }
        }
        Ok(())
    }

    fn let_go(&mut self, process: &mut Process, held: Held) {
        let promised = self.promised.entry(held.shard).or_default();
        *promised = held.applied.max(*promised);
        self.carry_out(process, held.shard, held.output);
    }

    fn carry_out(&mut self, process: &mut Process, shard: ShardId, output: Output) {
        match output {
            Output::Answer {
                ticket,
                result,
                leased,
                ..
            } => {
                let asker = process.tickets.remove(&ticket.0);
                let asker = asker.expect("a ticket is answered once");
                self.acts.push(Act::Answer {
                    asker,
                    result,
                    leased,
                });
            }
            Output::Send { to, message, .. } => {
                let server = self.map.server_of(to);
                if server == self.id {
                    process.inbox.push_back((to, Input::Peer(message)));
                } else {
                    self.acts.push(Act::Send { server, message });
                }
            }
            Output::WhenDurable { shard, input } => process.inbox.push_back((shard, input)),
            Output::Data {
                server,
                ticket,
                request,
                ..
            } => {
                let (number, is_first) = process.data_tickets.send(shard, ticket);
                if server != self.id {
                    let ticket = number;
                    let message = PeerMessage::Data { ticket, request };
                    self.acts.push(Act::Send { server, message });
                } else if is_first {
                    let reply = self.data(process, request);
                    self.data_done(process, number, reply);
                }
            }
            Output::Replaced { ticket } => {
                let replaced = process.tickets.remove(&ticket.0);
                assert!(replaced.is_some(), "a ticket is replaced once");
            }
            Output::Watch { session } => self.acts.push(Act::Watch { session }),
            Output::Recall(recall) => {
                let answer = process.recalls.tell(shard, recall);
                self.acts.extend(answer.map(told));
            }
            Output::Warm { keys, .. } => unreachable!("in memory nothing is cold: {keys:02x?}"),
            Output::Unreadable { error, .. } => unreachable!("memory is sound: {error}"),
        }
    }

    /// A client waits for recalls.
    pub fn await_recalls(&mut self, hearer: Hearer, done: Option<u64>, now: Moment) {
        let (connected, now) = (self.instant(hearer.connected), self.instant(now));
        let shards: Vec<ShardId> = self.configs().iter().map(|config| config.shard).collect();
        let Some(process) = &mut self.process else {
            return;
        };
        let session = hearer.session;
        let told_of = |told| Act::Recall { hearer, told };
        match process.recalls.wait(session, connected, hearer, done, now) {
            Said::Begins => {
                let takes = |shard| (shard, Input::TakesLeases { session });
                process.inbox.extend(shards.into_iter().map(takes));
                self.acts.push(told_of(Some((0, Vec::new()))));
            }
            Said::LetGo { recalls, answer } => {
                for (shard, number) in recalls {
                    let input = Input::Recalled { session, number };
                    process.inbox.push_back((shard, input));
                }
                self.acts.extend(answer.map(told));
            }
            Said::Late => self.acts.push(told_of(None)),
        }
    }

    /// Answers clients that have waited for recalls for long.
    pub fn answer_waiting(&mut self, now: Moment) {
        let now = self.instant(now);
        if let Some(process) = &mut self.process {
            self.acts
                .extend(process.recalls.overdue(now).into_iter().map(told));
        }
    }

    /// The session is gone.
    pub fn forget_recalls(&mut self, session: SessionId) {
        if let Some(process) = &mut self.process {
            self.acts.extend(process.recalls.forget(session).map(told));
        }
    }

    fn data_done(&mut self, process: &mut Process, number: u64, reply: DataReply) {
        if let Some((shard, ticket)) = process.data_tickets.done(number) {
            process
                .inbox
                .push_back((shard, Input::DataDone { ticket, reply }));
        }
    }

    /// A message between servers, not between shards.
    pub fn server_message(&mut self, sender: ServerId, message: PeerMessage) {
        let Some(mut process) = self.process.take() else {
            return;
        };
        match message {
            PeerMessage::Data { ticket, request } => {
                let reply = self.data(&mut process, request);
                self.acts.push(Act::Send {
                    server: sender,
                    message: PeerMessage::DataDone { ticket, reply },
                });
            }
            PeerMessage::DataDone { ticket, reply } => self.data_done(&mut process, ticket, reply),
            PeerMessage::Load { load, wanted } => {
                let told = loads::take(&mut process, sender, load, wanted);
                self.acts.extend(told);
            }
            other => unreachable!("{other:?} is between shards"),
        }
        self.process = Some(process);
    }

    fn data(&mut self, process: &mut Process, request: DataRequest) -> DataReply {
        match request {
            DataRequest::Fill { ino, .. } | DataRequest::Truncate { ino, .. }
                if process.removed.has(ino) => {}
            DataRequest::Fill {
                ino,
                truncations,
                data,
            } => {
                let object = self.objects.entry(ino).or_default();
                if object.truncations < truncations {
                    object.truncations = truncations;
                    object.size = object.size.max(data.len() as u64);
                }
            }
            DataRequest::Truncate {
                ino,
                truncations,
                length,
            } => {
                let object = self.objects.entry(ino).or_default();
                if object.truncations < truncations {
                    object.truncations = truncations;
                    object.size = object.size.min(length);
                }
            }
            DataRequest::Remove { ino } => {
                self.objects.remove(&ino);
                process.removed.note(ino);
            }
            other => unreachable!("shards do not ask for {other:?}"),
        }
        DataReply::Done
    }

    /// All that is stored, by shard.
    pub fn pairs(&self) -> BTreeMap<ShardId, ShardPairs> {
        let mut pairs: BTreeMap<ShardId, ShardPairs> = self
            .configs()
            .iter()
            .map(|config| (config.shard, Vec::new()))
            .collect();
        let visit = &mut |key: &[u8], value: &[u8]| {
            if let Some(shard) = key.get(1..3) {
                let shard = ShardId(u16::from_be_bytes([shard[0], shard[1]]));
                let pair = (key.to_vec(), value.to_vec());
                pairs.entry(shard).or_default().push(pair);
            }
            ControlFlow::Continue(())
        };
        self.store
            .scan(&[], &[u8::MAX], visit)
            .expect("memory can be read");
        pairs
    }
}

fn told(answer: Answer<Hearer>) -> Act {
    Act::Recall {
        hearer: answer.to,
        told: Some((answer.number, answer.keys)),
    }
}
