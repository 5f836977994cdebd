//! The thread of a lane: sockets, time and helper threads around the state machine of `pandofs-lane`.
//!
//! It never waits for the log to be synced.
//!
//! Each round gives the lane what has arrived, has it run a batch, carries out its commands, and answers each
//! connection with one write. For what waits for the disk there are helper threads, which report by mail.

mod activity;
mod admin;
mod delivery;
mod intake;
mod links;
mod mail;
mod map;
mod rights;
mod sockets;
mod traces;

pub(crate) use map::MapSource;
pub(crate) use sockets::WAKER;

use crate::clock::Clock;
use crate::connection::{Connection, ConnectionKey};
use crate::data::Holdings;
use crate::data::pool::DataPool;
use crate::disk::Disks;
use crate::error::ServerError;
use crate::flusher::Flusher;
use crate::log_syncer::LogSyncer;
use crate::mailbox::Mailbox;
use crate::peers::Peers;
use crate::readers::{ReadJob, Readers};
use crate::scrub::{Schedule, Scrubber, Subject};
use crate::times::{Kind, Times};
use mio::{Events, Poll};
use pandofs_lane::limits::MAX_UNWRITTEN_BYTES;
use pandofs_lane::{Command, Lane, LaneError, Points, Shards, flush};
use pandofs_placement::ClusterMap;
use pandofs_shard::Environment;
use pandofs_spans::Spans;
use pandofs_storage::log::Log;
use pandofs_storage::store::Store;
use pandofs_types::limits::SESSION_TIMEOUT;
use pandofs_types::{ServerId, Steady};
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
/// How often to look for connections that do not say who they are, and for what is slow.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Parts of a [`LaneThread`].
pub(crate) struct ThreadParts {
    pub id: ServerId,
    pub map: Arc<ClusterMap>,
    pub map_source: MapSource,
    pub poll: Poll,
    pub mailbox: Mailbox,
    pub listeners: Vec<Listener>,
    pub shards: Shards,
    pub points: Points,
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
    pub times: Arc<Times>,
    /// Operations that take longer are logged; 0: none.
    pub slow: Duration,
    /// Makes spans of requests that come with a trace.
    pub spans: Option<Spans>,
}

/// See the module.
pub(crate) struct LaneThread {
    lane: Lane<Waiter>,
    /// Those to carry out next.
    commands: Vec<Command<Waiter>>,
    map_search: map::MapSearch,
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
    /// Connections that are not read while these are too many.
    held_up: Vec<ConnectionKey>,
    /// Connections that may have something to read; each once.
    ready: VecDeque<ConnectionKey>,
    /// Connections that have something to write; each once.
    dirty: Vec<ConnectionKey>,
    /// Requests that shards have not answered yet.
    pending: SlotMap<PendingKey, Pending>,
    peers: Peers,

    store: Arc<dyn Store>,
    log: Arc<dyn Log>,
    /// Looks at the whole store, to be ordered when it has everything.
    dumps: Vec<ReadJob>,

    log_syncer: LogSyncer,
    flusher: Flusher,
    readers: Readers,
    holdings: Arc<Holdings>,
    data: DataPool,
    scrubber: Scrubber,
    disks: Disks,

    next_look: Instant,
    stop: Option<Stop>,
    counters: Counters,
    times: Arc<Times>,
    watch: activity::Watch,
    traces: traces::Traces,
    /// The moment at which the commands at hand are carried out.
    answering: Instant,
    /// Damaged places of the store that the log names already.
    damage_told: BTreeSet<String>,
}

/// A moment of the monotonic clock. It begins where a server that recovers its shards has it begin.
fn steady(started: Instant, moment: Instant) -> Steady {
    let passed = moment.saturating_duration_since(started).as_nanos();
    Steady(i64::try_from(passed).unwrap_or(i64::MAX))
}

slotmap::new_key_type! {
    /// A request that a shard is dealing with; the shard knows it as its ticket.
    struct PendingKey;
}

/// A request that a shard is dealing with.
#[derive(Debug)]
struct Pending {
    connection: ConnectionKey,
    /// The client's number for it.
    id: u64,
    /// Bytes that the answer may have, if that is many.
    owed: usize,
    kind: Kind,
    /// When it was taken from its connection.
    came: Instant,
    about: activity::About,
    /// It is logged when it has taken so many times as long as a slow one.
    told_next: u32,
    followed: Option<Box<traces::Followed>>,
}

/// Where an answer goes that comes from no shard: a connection, and the number of the request there.
type Waiter = (ConnectionKey, u64);

/// How to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    Clean,
    /// As if the process were killed.
    Abandon,
}

/// Counts of [`pandofs_api::ServerStatus`] beside the lane's own.
#[derive(Debug, Default)]
struct Counters {
    redirected: u64,
    data_requests: u64,
    data_read: u64,
    data_written: u64,
    peer_messages: u64,
}

impl LaneThread {
    /// Starts the helper threads and takes up listening.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn new(parts: ThreadParts) -> io::Result<LaneThread> {
        let ThreadParts {
            id,
            map,
            map_source,
            poll,
            mailbox,
            listeners,
            shards,
            points,
            store,
            log,
            holdings,
            disks,
            max_connections,
            max_owed,
            recent_reads,
            schedule,
            unflushed_bytes,
            times,
            slow,
            spans,
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
        let boot = random.random();
        let lane = pandofs_lane::LaneParts {
            id,
            map,
            shards,
            store: Arc::clone(&store),
            log: Arc::clone(&log),
            points,
            first_data_number: random.random(),
            recent_reads,
            unwritten_bytes: MAX_UNWRITTEN_BYTES,
            unflushed_bytes,
            session_timeout: SESSION_TIMEOUT,
        };
        let mut thread = LaneThread {
            lane: Lane::new(lane, steady(now, now)),
            commands: Vec::new(),
            map_search: map::MapSearch::new(map_source, now),
            boot,
            started: now,
            clock: Clock::default(),
            listeners,
            may_accept: false,
            accept_failed: false,
            connections: SlotMap::with_key(),
            max_connections,
            owed: 0,
            max_owed,
            held_up: Vec::new(),
            ready: VecDeque::new(),
            dirty: Vec::new(),
            pending: SlotMap::with_key(),
            peers,
            dumps: Vec::new(),
            log_syncer: LogSyncer::start(Arc::clone(&log), Arc::clone(&times), &mailbox)?,
            flusher: Flusher::start(
                Arc::clone(&store),
                Arc::clone(&log),
                Arc::clone(&times),
                &mailbox,
            )?,
            readers: Readers::start(&store, &mailbox)?,
            holdings,
            data,
            scrubber,
            disks,
            next_look: now + LOOK_INTERVAL,
            stop: None,
            counters: Counters::default(),
            times,
            watch: activity::Watch::new(now, slow),
            traces: traces::Traces::new(spans),
            answering: now,
            damage_told: BTreeSet::new(),
            random,
            poll,
            mailbox,
            store,
            log,
        };
        thread.listen()?;
        Ok(thread)
    }

    /// Serves until it is ordered to stop.
    ///
    /// # Errors
    /// When the lane cannot go on. Its writes stand; nothing else was done on the way out.
    pub(crate) fn run(mut self) -> Result<(), ServerError> {
        match self.serve() {
            Ok(Stop::Clean) => self.finish(),
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
    fn serve(&mut self) -> Result<Stop, ServerError> {
        let mut events = Events::with_capacity(EVENTS);
        self.look_at_disks();
        self.in_batch(|lane, environment| lane.begin(environment))?;
        self.carry_out_commands()?;
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
            // Helper threads begin with what they are to do while the batch runs.
            self.carry_out_commands()?;
            self.follow_into_batch();
            self.in_batch(|lane, environment| lane.run_batch(environment, usize::MAX))?;
            self.take_up_map()?;
            self.lane
                .begin_work(steady(self.started, now), self.disks.log_bytes())?;
            self.carry_out_commands()?;
            self.order_dumps()?;
            self.serve_links(now);
            self.write_dirty(now);
            let ended = Instant::now();
            let took = ended.saturating_duration_since(now);
            self.watch.slowest.round(ended, took);
            if let Some(stop) = self.stop {
                return Ok(stop);
            }
        }
    }

    fn time_to_next_work(&self) -> Duration {
        let now = Instant::now();
        if !self.ready.is_empty() || self.lane.has_inputs() {
            return Duration::ZERO;
        }
        let mut next = self.next_look;
        if let Some(due) = self.peers.next_due() {
            next = next.min(due);
        }
        let lane_is_due = self.lane.next_due().since(steady(self.started, now));
        lane_is_due.min(next.saturating_duration_since(now))
    }

    fn run_timers(&mut self, now: Instant) {
        if self.next_look <= now {
            self.next_look = now + LOOK_INTERVAL;
            self.drop_unknown(now);
            self.look_for_slow(now);
            self.traces.look(now);
            // After an error the system does not announce again that a connection waits.
            self.may_accept |= std::mem::take(&mut self.accept_failed);
        }
        self.lane.run_timers(steady(self.started, now));
    }

    /// Tells the shards whether there is room for what needs some, before they are given that.
    fn look_at_disks(&mut self) {
        // Once in the log and once in the store.
        let used = 2 * self.lane.take_appended_bytes();
        if let Some(low) = self.disks.look(used) {
            self.lane.space(low);
        }
    }

    /// Has the lane run a batch at this time.
    fn in_batch(
        &mut self,
        run: impl FnOnce(&mut Lane<Waiter>, &mut Environment<'_>) -> Result<(), LaneError>,
    ) -> Result<(), ServerError> {
        let random = &mut self.random;
        let mut draw = || random.random();
        let mut environment = Environment {
            now: self.clock.now(),
            steady: steady(self.started, Instant::now()),
            held: 0,
            random: &mut draw,
        };
        Ok(run(&mut self.lane, &mut environment)?)
    }

    /// Has the listings made that administrators asked for.
    fn order_dumps(&mut self) -> Result<(), ServerError> {
        if !self.dumps.is_empty() {
            self.lane.write_out()?;
            for job in std::mem::take(&mut self.dumps) {
                self.readers.order(job)?;
            }
        }
        Ok(())
    }

    /// Syncs and flushes everything and lets go of the whole log. Requests that wait for the disk
    /// are answered; those that wait for a lock are sent again after the next start.
    fn finish(mut self) -> Result<(), ServerError> {
        let (store, log) = (Arc::clone(&self.store), Arc::clone(&self.log));
        let answered = self.answer_all();
        let written = self.lane.shards().appended();
        self.stop_helpers();
        answered?;
        flush(&*store, &*log, &written)?;
        // So that what was pruned stays pruned.
        log.sync().map_err(LaneError::from)?;
        Ok(())
    }

    /// Syncs everything, and answers the requests that wait for that.
    fn answer_all(&mut self) -> Result<(), ServerError> {
        self.lane.sync_now()?;
        self.carry_out_commands()?;
        let now = Instant::now();
        self.serve_links(now);
        self.write_dirty(now);
        Ok(self.lane.write_out()?)
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
