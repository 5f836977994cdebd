//! The lane: one thread that owns sockets, shards, log and store handle.
//!
//! It never waits for the log to be synced.
//!
//! Each round takes what has arrived, gives it to the shards, appends what they propose with one
//! write, applies it to an overlay of the store, and answers each connection with one write. What
//! has to wait for the disk waits in a queue, and a helper thread reports when it need not wait any
//! more. The overlay is written to the store when it has become large, or when something other than
//! the lane is to read the store.

mod admin;
mod delivery;
mod intake;
mod links;
mod loads;
mod mail;
mod map;
mod recalls;
mod rights;
mod sockets;

pub(crate) use map::MapSource;
pub(crate) use sockets::WAKER;

use crate::clock::Clock;
use crate::connection::{Connection, ConnectionKey};
use crate::data::Holdings;
use crate::data::pool::DataPool;
use crate::data_tickets::DataTickets;
use crate::disk::Disks;
use crate::durable::Durable;
use crate::error::ServerError;
use crate::faults::{Faults, Stage, name_of_message};
use crate::flusher::{self, Flusher};
use crate::limits::MAX_UNWRITTEN_BYTES;
use crate::loads::Loads;
use crate::log_syncer::LogSyncer;
use crate::mailbox::Mailbox;
use crate::peers::Peers;
use crate::readers::{ReadJob, Readers};
use crate::recalls::Recalls;
use crate::scrub::{Schedule, Scrubber, Subject};
use crate::sessions::Sessions;
use crate::shards::Shards;
use mio::{Events, Poll};
use pandofs_log::Log;
use pandofs_placement::ClusterMap;
use pandofs_shard::{Environment, Input, Output};
use pandofs_store::{Overlay, Store};
use pandofs_types::limits::{LOADS_INTERVAL, MAX_LANE_BATCH, TICK_INTERVAL};
use pandofs_types::{ServerId, ShardId, Steady};
use pandofs_wire::address::Listener;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use slotmap::SlotMap;
use std::collections::{BTreeSet, VecDeque};
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Socket events taken at once.
const EVENTS: usize = 1_024;
/// Inputs that one batch may process, those that shards here sent one another included.
const MAX_BATCH_INPUTS: usize = 4 * MAX_LANE_BATCH;
/// How often to look for silent sessions and connections that do not say who they are.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Parts of a lane.
pub(crate) struct LaneParts {
    pub id: ServerId,
    pub map: Arc<ClusterMap>,
    pub map_source: MapSource,
    pub poll: Poll,
    pub mailbox: Mailbox,
    pub listeners: Vec<Listener>,
    pub shards: Shards,
    pub faults: Option<Faults>,
    pub store: Arc<dyn Store>,
    pub log: Arc<dyn Log>,
    pub holdings: Arc<Holdings>,
    /// Where log and store are.
    pub disks: Disks,
    pub max_connections: usize,
    /// Bytes of requests and answers that all connections together may have under way.
    pub max_owed: usize,
    /// Bytes of what was read lately that are kept.
    pub recent_reads: usize,
    pub schedule: Schedule,
    /// Bytes of records that the store may not have flushed.
    pub unflushed_bytes: u64,
}

/// See the module.
pub(crate) struct Lane {
    id: ServerId,
    map: Arc<ClusterMap>,
    next_map: map::NextMap,
    /// Tells this process from the server's earlier ones.
    boot: u64,
    started: Instant,
    clock: Clock,
    random: StdRng,

    poll: Poll,
    mailbox: Mailbox,
    listeners: Vec<Listener>,
    /// A listener may have connections waiting.
    may_accept: bool,
    /// The last attempt to take a connection failed, and is to be repeated.
    accept_failed: bool,
    connections: SlotMap<ConnectionKey, Connection>,
    max_connections: usize,
    /// Bytes of data that requests have brought and that are to be answered, over all connections.
    owed: usize,
    max_owed: usize,
    recent_reads: usize,
    /// Connections that are not read while these are too many.
    held_up: Vec<ConnectionKey>,
    /// Connections that may have something to read; each once.
    ready: VecDeque<ConnectionKey>,
    /// Connections that have something to write; each once.
    dirty: Vec<ConnectionKey>,
    /// Requests that shards have not answered yet.
    pending: SlotMap<PendingKey, Pending>,
    sessions: Sessions,
    recalls: Recalls<recalls::Waiter>,
    peers: Peers,
    data_tickets: DataTickets,

    shards: Shards,
    faults: Option<Faults>,
    /// For the next batch.
    inbox: Vec<(ShardId, Input)>,
    durable: Durable<(ShardId, Output)>,
    store: Arc<dyn Store>,
    log: Arc<dyn Log>,
    flush: FlushState,
    /// Looks at the whole store, to be ordered when it has everything.
    dumps: Vec<ReadJob>,

    log_syncer: LogSyncer,
    flusher: Flusher,
    readers: Readers,
    holdings: Arc<Holdings>,
    data: DataPool,
    scrubber: Scrubber,
    disks: Disks,
    /// Bytes of records appended since the disks were last asked about.
    unasked_bytes: u64,

    next_tick: Instant,
    next_look: Instant,
    /// When to look at the loads.
    next_loads: Instant,
    loads: Loads,
    /// When changes that no request waits for are synced, if there are any.
    next_sync: Instant,
    /// How long that may wait; 0 for not at all.
    sync_interval: Duration,
    stop: Option<Stop>,
    counters: Counters,
    /// Damaged places of the store that the log names already.
    damage_told: BTreeSet<String>,
}

/// The time of the monotonic clock. It begins where a server that recovers its shards has it begin.
fn steady(started: Instant) -> Steady {
    Steady(i64::try_from(started.elapsed().as_nanos()).unwrap_or(i64::MAX))
}

slotmap::new_key_type! {
    /// A request that a shard is dealing with; the shard knows it as its ticket.
    struct PendingKey;
}

/// A request that a shard is dealing with.
#[derive(Clone, Copy, Debug)]
struct Pending {
    connection: ConnectionKey,
    /// The client's number for it.
    id: u64,
    /// Bytes that the answer may have, if that is many.
    owed: usize,
}

/// Someone who asked for a flush: connection and request.
type FlushWaiter = (ConnectionKey, u64);

#[derive(Debug, Default)]
struct FlushState {
    /// Bytes of records appended and not known to be flushed.
    unflushed_bytes: u64,
    /// Of these, what the flush under way covers.
    under_way: Option<u64>,
    /// A disk has become low.
    for_room: bool,
    /// Requests that wait for the flush under way.
    waiting: Vec<FlushWaiter>,
    /// Requests that wait for one that begins from now on.
    wanted: Vec<FlushWaiter>,
}

/// How to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    Clean,
    /// As if the process were killed.
    Abandon,
}

/// Counts of [`pandofs_api::ServerStatus`].
#[derive(Debug, Default)]
struct Counters {
    requests: u64,
    redirected: u64,
    data_requests: u64,
    data_read: u64,
    data_written: u64,
    peer_messages: u64,
    log_syncs: u64,
    log_records: u64,
    log_batches: u64,
}

impl Lane {
    /// Starts the helper threads and takes up listening.
    ///
    /// # Errors
    /// The system's.
    pub fn new(parts: LaneParts) -> io::Result<Lane> {
        let LaneParts {
            id,
            map,
            map_source,
            poll,
            mailbox,
            listeners,
            shards,
            faults,
            store,
            log,
            holdings,
            disks,
            max_connections,
            max_owed,
            recent_reads,
            schedule,
            unflushed_bytes,
        } = parts;
        let now = Instant::now();
        let mut random = StdRng::from_os_rng();
        let others = map
            .servers
            .iter()
            .map(|server| server.id)
            .filter(|&other| other != id);
        let peers = Peers::new(others, now);
        let data = DataPool::start(&holdings, &mailbox)?;
        let subject = Subject {
            holdings: Arc::clone(&holdings),
            workers: data.workers(),
            store: Arc::clone(&store),
            log: Arc::clone(&log),
            streams: shards
                .ids()
                .into_iter()
                .map(|shard| u64::from(shard.0))
                .collect(),
        };
        let scrubber = Scrubber::start(subject, schedule, &mailbox)?;
        let mut lane = Lane {
            id,
            boot: random.random(),
            started: now,
            clock: Clock::default(),
            listeners,
            may_accept: false,
            accept_failed: false,
            connections: SlotMap::with_key(),
            max_connections,
            owed: 0,
            max_owed,
            recent_reads,
            held_up: Vec::new(),
            ready: VecDeque::new(),
            dirty: Vec::new(),
            pending: SlotMap::with_key(),
            sessions: Sessions::new(now),
            recalls: Recalls::default(),
            peers,
            data_tickets: DataTickets::new(random.random()),
            shards,
            faults,
            inbox: Vec::new(),
            durable: Durable::new(),
            dumps: Vec::new(),
            flush: FlushState {
                unflushed_bytes,
                ..FlushState::default()
            },
            log_syncer: LogSyncer::start(Arc::clone(&log), &mailbox)?,
            flusher: Flusher::start(Arc::clone(&store), Arc::clone(&log), &mailbox)?,
            readers: Readers::start(&store, &mailbox)?,
            holdings,
            data,
            scrubber,
            disks,
            unasked_bytes: 0,
            next_tick: now,
            next_look: now + LOOK_INTERVAL,
            next_loads: now,
            loads: Loads::default(),
            next_sync: now,
            sync_interval: Duration::from_millis(map.settings.flush_interval_ms),
            stop: None,
            counters: Counters::default(),
            damage_told: BTreeSet::new(),
            map,
            next_map: map::NextMap::new(map_source, now),
            random,
            poll,
            mailbox,
            store,
            log,
        };
        lane.listen()?;
        Ok(lane)
    }

    /// Serves until it is ordered to stop.
    ///
    /// # Errors
    /// When the lane cannot go on. What it had written stands; nothing else was done on the way out.
    pub fn run(mut self) -> Result<(), ServerError> {
        let store = Arc::clone(&self.store);
        let mut overlay = Overlay::with_room(&*store, self.recent_reads);
        match self.serve(&mut overlay) {
            Ok(Stop::Clean) => self.finish(&mut overlay),
            Ok(Stop::Abandon) => {
                self.stop_helpers();
                Ok(())
            }
            Err(error) => {
                // They would go on with a store that is taken down while the process ends. One that is no more may have
                // left another one waiting for it.
                if !error.is_of_a_helper() {
                    self.stop_helpers();
                }
                Err(error)
            }
        }
    }

    /// Runs until it is ordered to stop; returns how.
    fn serve(&mut self, overlay: &mut Overlay<'_>) -> Result<Stop, ServerError> {
        let mut events = Events::with_capacity(EVENTS);
        self.look_at_disks();
        // What recovery wants sent, before anything new is taken up.
        self.shards.touch_all();
        self.run_batch(overlay)?;
        // Numbers of inodes are left out at each start; were that lost, they would be given out twice. Nobody is kept
        // waiting yet.
        self.shards.sync_begins();
        self.log.sync()?;
        self.shards.sync_ended();
        for (shard, output) in self.durable.finish_all() {
            self.carry_out(shard, output)?;
        }
        loop {
            let timeout = self.time_to_next_work();
            match self.poll.poll(&mut events, Some(timeout)) {
                Err(error) if error.kind() != ErrorKind::Interrupted => {
                    return Err(ServerError::Poll(error));
                }
                _ => {}
            }
            let now = Instant::now();
            self.take_events(&events);
            self.take_mail(now)?;
            self.look_at_disks();
            self.accept(now);
            self.take_requests(now)?;
            self.run_timers(now);
            self.run_batch(overlay)?;
            self.take_up_map(overlay)?;
            self.begin_helpers_work(overlay, now)?;
            self.serve_links(now);
            self.write_dirty(now);
            if let Some(stop) = self.stop {
                return Ok(stop);
            }
        }
    }

    fn time_to_next_work(&self) -> Duration {
        let now = Instant::now();
        if !self.ready.is_empty() || !self.inbox.is_empty() {
            return Duration::ZERO;
        }
        let mut next = self.next_tick.min(self.next_look).min(self.next_loads);
        if self.durable.is_behind() && !self.durable.is_under_way() {
            next = next.min(self.next_sync);
        }
        if let Some(due) = self.peers.next_due() {
            next = next.min(due);
        }
        next.saturating_duration_since(now)
    }

    fn run_timers(&mut self, now: Instant) {
        if self.next_tick <= now {
            self.next_tick = now + TICK_INTERVAL;
            self.tell_all_shards(|| Input::Tick);
        }
        if self.next_look <= now {
            self.next_look = now + LOOK_INTERVAL;
            self.drop_silent(now);
            self.answer_waiting(now);
            // After an error the system does not announce again that a connection waits.
            self.may_accept |= std::mem::take(&mut self.accept_failed);
        }
        if self.next_loads <= now {
            self.next_loads = now + LOADS_INTERVAL;
            self.look_at_loads();
        }
    }

    /// Tells the shards whether there is room for what needs some, before they are given that.
    fn look_at_disks(&mut self) {
        let used = std::mem::take(&mut self.unasked_bytes);
        if let Some(low) = self.disks.look(used) {
            self.tell_all_shards(|| Input::Space { low });
            // What the store holds need not be in the log as well.
            self.flush.for_room |= low;
        }
    }

    fn tell_all_shards(&mut self, input: impl Fn() -> Input) {
        for shard in self.shards.ids() {
            self.inbox.push((shard, input()));
        }
    }

    /// Takes the inbox through the shards, log and store, and carries out what comes of it. Messages
    /// between shards of this lane that need not wait for the disk stay within the batch.
    fn run_batch(&mut self, overlay: &mut Overlay<'_>) -> Result<(), ServerError> {
        if let Some(faults) = &mut self.faults {
            faults.look().map_err(ServerError::FaultPoints)?;
        }
        let now = self.clock.now();
        let random = &mut self.random;
        let mut draw = || random.random();
        let mut environment = Environment {
            now,
            steady: steady(self.started),
            held: 0,
            random: &mut draw,
        };
        let mut outputs = Vec::new();
        let mut taken = 0;
        loop {
            let inputs = std::mem::take(&mut self.inbox);
            taken += inputs.len();
            for (shard, input) in inputs {
                self.shards
                    .submit(overlay, &mut environment, shard, input)?;
            }
            let appended = self.shards.append_and_apply_past(
                overlay,
                &mut environment,
                &*self.log,
                &mut self.faults,
            )?;
            if appended.records > 0 {
                if !self.durable.is_behind() {
                    self.next_sync = Instant::now() + self.sync_interval;
                }
                self.durable.appended();
                self.flush.unflushed_bytes += appended.bytes;
                // Once in the log and once in the store.
                self.unasked_bytes += 2 * appended.bytes;
                self.counters.log_records += appended.records;
                self.counters.log_batches += appended.batches;
            }
            for (shard, output) in self.shards.take_outputs() {
                match output {
                    Output::Send {
                        to,
                        message,
                        durable: false,
                    } if self.map.server_of(to) == self.id => {
                        pass(&mut self.faults, Stage::Sending, || {
                            name_of_message(&message)
                        })?;
                        self.inbox.push((to, Input::Peer(message)));
                    }
                    other => outputs.push((shard, other)),
                }
            }
            if self.inbox.is_empty() || taken >= MAX_BATCH_INPUTS {
                break;
            }
        }
        if overlay.bytes() >= MAX_UNWRITTEN_BYTES {
            self.write_to_store(overlay)?;
        }
        self.deliver(outputs)
    }

    fn write_to_store(&self, overlay: &mut Overlay<'_>) -> Result<(), ServerError> {
        if !overlay.is_empty() {
            self.store.write(&overlay.take_batch())?;
        }
        Ok(())
    }

    /// Lets the helper threads sync, flush and list what is due.
    fn begin_helpers_work(
        &mut self,
        overlay: &mut Overlay<'_>,
        now: Instant,
    ) -> Result<(), ServerError> {
        let is_due =
            self.durable.is_behind() && (self.sync_interval.is_zero() || self.next_sync <= now);
        if (is_due || self.durable.is_wanted()) && !self.durable.is_under_way() {
            pass(&mut self.faults, Stage::Syncing, || "the log".to_string())?;
            self.durable.begin();
            self.shards.sync_begins();
            self.log_syncer.begin()?;
            self.next_sync = now + self.sync_interval;
        }
        let is_wanted = self.flush.unflushed_bytes > self.disks.log_bytes()
            || self.flush.for_room
            || !self.flush.wanted.is_empty();
        if is_wanted && self.flush.under_way.is_none() {
            self.flush.for_room = false;
            self.flush.under_way = Some(self.flush.unflushed_bytes);
            self.flush.waiting = std::mem::take(&mut self.flush.wanted);
            self.write_to_store(overlay)?;
            pass(&mut self.faults, Stage::Flushing, || {
                "the store".to_string()
            })?;
            self.flusher.begin(self.shards.appended())?;
        }
        if !self.dumps.is_empty() {
            self.write_to_store(overlay)?;
            for job in std::mem::take(&mut self.dumps) {
                self.readers.order(job)?;
            }
        }
        Ok(())
    }

    /// Syncs and flushes everything and lets go of the whole log. Requests that wait for the disk
    /// are answered; those that wait for a lock are sent again after the next start.
    fn finish(mut self, overlay: &mut Overlay<'_>) -> Result<(), ServerError> {
        let (store, log) = (Arc::clone(&self.store), Arc::clone(&self.log));
        let answered = self.answer_all(overlay);
        let written = self.shards.appended();
        self.stop_helpers();
        answered?;
        flusher::flush(&*store, &*log, &written)?;
        // So that what was pruned stays pruned.
        log.sync()?;
        Ok(())
    }

    /// Syncs everything, and answers the requests that wait for that.
    fn answer_all(&mut self, overlay: &mut Overlay<'_>) -> Result<(), ServerError> {
        // A sync under way covers less than this one; its report is not needed.
        self.log.sync()?;
        for (shard, output) in self.durable.finish_all() {
            self.carry_out(shard, output)?;
        }
        let now = Instant::now();
        self.serve_links(now);
        self.write_dirty(now);
        self.write_to_store(overlay)
    }

    /// Waits for the helper threads: as long as one of them is there, store and log are in use.
    fn stop_helpers(self) {
        self.log_syncer.stop();
        self.flusher.stop();
        self.readers.stop();
        // It gives orders to the threads of the data objects.
        self.scrubber.stop();
        self.data.stop();
    }
}

/// Passes a fault point; its name is only made when fault points are in use.
///
/// # Errors
/// When it cannot be noted.
fn pass(
    faults: &mut Option<Faults>,
    stage: Stage,
    what: impl FnOnce() -> String,
) -> Result<(), ServerError> {
    match faults {
        Some(faults) => faults
            .pass(stage, &what())
            .map_err(ServerError::FaultPoints),
        None => Ok(()),
    }
}
