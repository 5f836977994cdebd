//! One server: a lane, with the world around it in place of sockets, threads and clock.

mod data;
mod disk;
mod map;

use crate::client::Hearer;
use crate::disk::Disk;
use crate::plant;
use crate::scenario::{Leasing, Memory, Moment, Plant, SECOND, Scenario};
use crate::store::SimStore;
use data::DataDisk;
pub(crate) use data::{DataFrom, DataSync, DataTodo};
use map::Taken;
use pandofs_api::{PeerMessage, Refusal, ShardRequest};
use pandofs_check::ShardPairs;
use pandofs_lane::{Command, Heard, Lane, LaneError, LaneParts, Points, Shards, configs, recover};
use pandofs_placement::ClusterMap;
use pandofs_shard::{Environment, Input, Shard, ShardConfig, Ticket};
use pandofs_storage::log::{Log, LogError};
use pandofs_storage::store::{KvRead, MemoryStore, Overlay, Store};
use pandofs_testkit::rng::Rng;
use pandofs_types::limits::MAX_LANE_BATCH;
use pandofs_types::{Credentials, ServerId, SessionId, ShardId, Steady, Time};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// 2020-09-13, what the world's clock shows at the start.
pub(crate) const EPOCH: i64 = 1_600_000_000 * SECOND;

/// Address of an answer: a request of a client's worker, and which attempt at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asker {
    pub client: usize,
    /// Of the process that the client is.
    pub session: SessionId,
    pub worker: usize,
    pub attempt: u64,
}

/// A server as a client knows it: one of its processes, and how often that has let go of the client's session. Messages
/// over connections of another one are not heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Acquaintance {
    pub boot: u64,
    pub expired: u64,
}

/// A running process.
pub(crate) struct Process {
    lane: Lane<Hearer>,
    /// Appends not synced when the sync under way began.
    covered: usize,
    last_time: Time,
    random: Rng,
    /// With the number of times that it had let go of the session.
    pub tickets: BTreeMap<u64, (Asker, u64)>,
    last_ticket: u64,
    data: data::DataProcess,
    /// How often it has let go of a session.
    expired: BTreeMap<SessionId, u64>,
    /// A newer map is offered to the lane.
    is_offered_map: bool,
    /// Not before that it looks for a newer map again.
    next_look: Moment,
    /// It works until then.
    pub busy_until: Moment,
    pub is_scheduled: bool,
}

impl Process {
    pub(crate) fn shards(&self) -> &Shards {
        self.lane.shards()
    }
}

/// Why a process ended.
#[derive(Debug)]
pub(crate) enum Death {
    /// The scenario has it so.
    Planned,
    /// As it does when its disk is full.
    Full,
    /// It should not have.
    Broken(String),
}

/// Operations begun after one that has not ended before that one is named as a straggler: as a run has few.
const STRAGGLES_AFTER: u64 = 2;

pub(crate) struct Server {
    pub id: ServerId,
    /// The map that it keeps.
    map: Arc<ClusterMap>,
    /// The one that it was made by, and those that it has taken up since.
    first_map: Arc<ClusterMap>,
    taken: Vec<Taken>,
    store: Arc<SimStore>,
    pub log: Arc<Disk>,
    pub objects: DataDisk,
    pub process: Option<Process>,
    /// Tells its processes apart.
    pub boot: u64,
    /// Tells starts of its machine apart, each of which has followed a loss of power.
    pub machine: u64,
    seed: u64,
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
    memory: Memory,
    /// Bytes of records after which the store is flushed.
    flush_after: u64,
    session_timeout: Duration,
}

/// A server's store as it is at first.
fn new_store(map: &Arc<ClusterMap>, id: ServerId, session_timeout: Duration) -> MemoryStore {
    let store = MemoryStore::new();
    for config in configs(map, id, session_timeout) {
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
    pub(crate) fn create(id: ServerId, map: &Arc<ClusterMap>, scenario: &Scenario) -> Server {
        let (plant, skew) = (scenario.plant, &scenario.shape.skew);
        // Nothing covers a wrong write: what is stored is what is read.
        let memory = match plant {
            Some(_) => Memory::default(),
            None => scenario.shape.memory,
        };
        Server {
            id,
            map: Arc::clone(map),
            first_map: Arc::clone(map),
            taken: Vec::new(),
            store: Arc::new(SimStore::new(
                new_store(map, id, scenario.shape.session_timeout),
                memory.cold,
                scenario.seed,
                plant,
            )),
            log: Arc::new(Disk::new()),
            objects: DataDisk::new(id, plant),
            process: None,
            boot: 0,
            machine: 0,
            seed: scenario.seed,
            // One that joined has the right time.
            skew: skew.get(usize::from(id.0)).copied().unwrap_or_default(),
            is_low: false,
            promised: BTreeMap::new(),
            dies_by: None,
            plant,
            leases: scenario.shape.leases.clone(),
            memory,
            flush_after: scenario.shape.flush_after,
            session_timeout: scenario.shape.session_timeout,
        }
    }

    pub(crate) fn configs(&self) -> Vec<ShardConfig> {
        configs(&self.map, self.id, self.session_timeout)
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

    /// By how many thousandths the clock that nobody sets goes too fast.
    fn drift(&self) -> i64 {
        let leases = self.leases.as_ref();
        let drift = leases.and_then(|leases| leases.servers.get(usize::from(self.id.0)));
        drift.copied().unwrap_or_default()
    }

    /// The clock that nobody sets.
    fn steady(&self, now: Moment) -> Steady {
        Steady(now + now / 1_000 * self.drift())
    }

    /// The first moment at which that clock shows as much.
    fn moment(&self, steady: Steady) -> Moment {
        let mut moment = steady.0 / (1_000 + self.drift()) * 1_000;
        while self.steady(moment) < steady {
            moment += 1;
        }
        moment
    }

    /// Starts a process, which recovers, goes by the map in the file if that is newer, and runs its first batch.
    pub(crate) fn start(
        &mut self,
        now: Moment,
        seed: u64,
        file: &Arc<ClusterMap>,
    ) -> Result<(), Death> {
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
        let recovered = recover(self.configs(), &mut environment, &*self.store, &*self.log);
        let (shards, replayed) = recovered
            .map_err(|error| Death::Broken(format!("server {} cannot start: {error}", self.id)))?;
        for (id, shard) in &shards {
            let stream = u64::from(id.0);
            self.log.goes_on_after(stream, shard.applied());
        }
        let mut shards = Shards::new(shards);
        for shard in shards.ids() {
            shards.shard_mut(shard).set_straggles_after(STRAGGLES_AFTER);
            if let Some(leases) = &self.leases {
                shards.shard_mut(shard).set_lease_room(leases.room);
            }
            if self.plant == Some(Plant::TakesLateBatches) {
                shards.shard_mut(shard).plant_late_batches();
            }
        }
        self.read_at_start(file, &mut shards);
        self.store.serve();
        let parts = LaneParts {
            id: self.id,
            map: Arc::clone(&self.map),
            shards,
            store: Arc::clone(&self.store) as Arc<dyn Store>,
            log: Arc::clone(&self.log) as Arc<dyn Log>,
            points: Points::default(),
            first_data_number: random.next_u64(),
            recent_reads: self.memory.recent_reads,
            unwritten_bytes: self.memory.unwritten_bytes,
            unflushed_bytes: replayed.bytes,
            session_timeout: self.session_timeout,
        };
        let mut lane = Lane::new(parts, steady);
        if self.plant == Some(Plant::Unsynced) {
            lane.plant_unsynced();
        }
        if self.plant == Some(Plant::KeepsExpired) {
            lane.plant_keeps_expired();
        }
        self.process = Some(Process {
            lane,
            covered: 0,
            last_time: time,
            random,
            tickets: BTreeMap::new(),
            last_ticket: 0,
            data: data::DataProcess::default(),
            expired: BTreeMap::new(),
            is_offered_map: false,
            next_look: now,
            busy_until: now,
            is_scheduled: false,
        });
        self.in_batch(now, |lane, environment| lane.begin(environment))?;
        if self.plant == Some(Plant::ReusesNumbers)
            && let Some(process) = &mut self.process
        {
            let shards = process.lane.shards_mut();
            for shard in shards.ids() {
                shards.shard_mut(shard).plant_serials();
            }
        }
        Ok(())
    }

    /// Works on a batch of at most `limit` inputs.
    pub(crate) fn run(&mut self, now: Moment, limit: usize) -> Result<(), Death> {
        let limit = limit.min(MAX_LANE_BATCH);
        self.in_batch(now, |lane, environment| lane.run_batch(environment, limit))
    }

    fn in_batch(
        &mut self,
        now: Moment,
        run: impl FnOnce(&mut Lane<Hearer>, &mut Environment<'_>) -> Result<(), LaneError>,
    ) -> Result<(), Death> {
        let (time, steady) = (self.clock(now), self.steady(now));
        let Some(process) = &mut self.process else {
            return Ok(());
        };
        let random = &mut process.random;
        let mut draw = || random.next_u64();
        let mut environment = Environment {
            now: time,
            steady,
            held: 0,
            random: &mut draw,
        };
        let done = run(&mut process.lane, &mut environment);
        if self.plant == Some(Plant::KeepsLocks) {
            plant::keep_lock(process.lane.shards_mut(), time);
        }
        done.map_err(|error| self.death(&error))
    }

    fn death(&self, error: &LaneError) -> Death {
        match error {
            _ if self.log.is_dying() && self.log.dies_here() => Death::Planned,
            LaneError::Log(LogError::Full { .. }) => Death::Full,
            other => Death::Broken(format!("server {}: {other}", self.id)),
        }
    }

    /// A client asks.
    ///
    /// # Errors
    /// The answer, if it is not taken.
    pub(crate) fn ask(&mut self, asker: Asker, request: ShardRequest) -> Result<(), Refusal> {
        let process = self.process.as_mut().expect("it runs");
        process.lane.admit(&request)?;
        process.last_ticket += 1;
        let expired = process.expired.get(&asker.session);
        let expired = expired.copied().unwrap_or_default();
        process
            .tickets
            .insert(process.last_ticket, (asker, expired));
        process.lane.request(Ticket(process.last_ticket), request);
        Ok(())
    }

    /// Where an answer goes, or would have gone: nowhere, if the session was let go of meanwhile, and its connections closed.
    pub(crate) fn take_ticket(&mut self, ticket: Ticket) -> Option<Asker> {
        let process = self.process.as_mut().expect("it runs");
        let asker = process.tickets.remove(&ticket.0);
        let (asker, expired) = asker.expect("a ticket is answered or replaced once");
        (self.acquaintance(asker.session).expired == expired).then_some(asker)
    }

    /// The acquaintance of a client that connects now.
    pub(crate) fn acquaintance(&self, session: SessionId) -> Acquaintance {
        let process = self.process.as_ref();
        let expired = process.and_then(|process| process.expired.get(&session));
        Acquaintance {
            boot: self.boot,
            expired: expired.copied().unwrap_or_default(),
        }
    }

    /// The session has sent something.
    pub(crate) fn heard(&mut self, session: SessionId, now: Moment) {
        let now = self.steady(now);
        if let Some(process) = &mut self.process {
            process.lane.heard(session, now);
        }
    }

    /// It has let go of the session.
    pub(crate) fn expired(&mut self, session: SessionId) {
        if let Some(process) = &mut self.process {
            *process.expired.entry(session).or_default() += 1;
        }
    }

    /// A server says something, if there is a process to hear it.
    pub(crate) fn hear(
        &mut self,
        sender: ServerId,
        message: PeerMessage,
    ) -> Option<Result<Heard, LaneError>> {
        let process = self.process.as_mut()?;
        Some(process.lane.hear(sender, message))
    }

    /// A client waits for recalls.
    pub(crate) fn await_recalls(&mut self, hearer: Hearer, done: Option<u64>, now: Moment) {
        if let Some(process) = &mut self.process {
            // By the world's clock, as nothing else compares these.
            let (session, connected) = (hearer.session, Steady(hearer.connected));
            let now = Steady(now);
            process
                .lane
                .await_recalls(session, connected, hearer, done, now);
        }
    }

    /// The session ends.
    pub(crate) fn goodbye(&mut self, session: SessionId) {
        if let Some(process) = &mut self.process {
            process.lane.goodbye(session);
        }
    }

    /// It has looked at its disk.
    pub(crate) fn look_at_disk(&mut self) {
        if let Some(process) = &mut self.process {
            process.lane.space(self.is_low);
        }
    }

    /// The keys that the input waited for have been read.
    pub(crate) fn warmed(&mut self, shard: ShardId, keys: Vec<Vec<u8>>, input: Input) {
        if let Some(process) = &mut self.process {
            process.lane.warmed(shard, keys, input);
        }
    }

    /// Does what is due by the clock.
    pub(crate) fn run_timers(&mut self, now: Moment) {
        let now = self.steady(now);
        if let Some(process) = &mut self.process {
            process.lane.run_timers(now);
        }
    }

    /// When something is due by the clock.
    pub(crate) fn next_due(&self) -> Option<Moment> {
        let process = self.process.as_ref()?;
        Some(self.moment(process.lane.next_due()))
    }

    pub(crate) fn has_work(&self) -> bool {
        self.process
            .as_ref()
            .is_some_and(|process| process.lane.has_inputs() || process.is_offered_map)
    }

    /// Commands of the lane.
    pub(crate) fn take_commands(&mut self, now: Moment) -> Result<Vec<Command<Hearer>>, Death> {
        let mut commands = Vec::new();
        let (now, flush_after) = (self.steady(now), self.flush_after);
        if let Some(process) = &mut self.process {
            let begun = process.lane.begin_work(now, flush_after);
            process.lane.take_commands(&mut commands);
            let shards = process.lane.shards();
            for shard in shards.ids() {
                let promised = self.promised.entry(shard).or_default();
                *promised = shards.promised(shard).max(*promised);
            }
            begun.map_err(|error| self.death(&error))?;
        }
        Ok(commands)
    }

    /// All that it has stored: what is in memory alone included, while it runs.
    pub(crate) fn stored(&self) -> &dyn KvRead {
        match &self.process {
            Some(process) => process.lane.stored(),
            None => self.store.memory(),
        }
    }

    /// All that is stored, by shard.
    pub(crate) fn pairs(&self) -> BTreeMap<ShardId, ShardPairs> {
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
        self.stored()
            .scan(&[], &[u8::MAX], visit)
            .expect("memory can be read");
        pairs
    }
}
