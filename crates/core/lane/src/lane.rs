//! The lane itself: its state, and what comes in.

use crate::command::{Command, DataOrigin};
use crate::data_tickets::DataTickets;
use crate::delays::{DelayTable, Delays};
use crate::disk::{FlushState, Timers};
use crate::durable::Durable;
use crate::error::LaneError;
use crate::faults::{Points, Stage, Subject};
use crate::hot::HotDirs;
use crate::loads::Loads;
use crate::map::NextMap;
use crate::recalls::{Answer, Recalls, Said};
use crate::sessions::Sessions;
use crate::shards::Shards;
use pandofs_api::{DataReply, HotDir, PeerMessage, Refusal, Request, ShardRequest};
use pandofs_placement::{ClusterMap, ServerLoad};
use pandofs_shard::{Input, Misfit, Output, Ticket, validate};
use pandofs_storage::log::Log;
use pandofs_storage::store::{Overlay, Store, StoreError};
use pandofs_types::limits::{MAX_SHARDS, MAX_SLOTS};
use pandofs_types::{ServerId, SessionId, ShardId, Steady};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Parts of a [`Lane`].
pub struct LaneParts {
    /// The server that the lane is of.
    pub id: ServerId,
    /// Replaced by [`Lane::offer_map`] alone.
    pub map: Arc<ClusterMap>,
    /// As [`recover`](crate::recover) gives them.
    pub shards: Shards,
    /// Nobody else writes to it while the lane is there.
    pub store: Arc<dyn Store>,
    /// Shared with the thread that syncs it.
    pub log: Arc<dyn Log>,
    /// Told of each stage; for tests.
    pub points: Points,
    /// A random number.
    pub first_data_number: u64,
    /// Bytes of what was read lately that are kept.
    pub recent_reads: usize,
    /// Bytes of applied changes that are kept before the store gets them.
    pub unwritten_bytes: usize,
    /// Bytes of records that the store may not have flushed.
    pub unflushed_bytes: u64,
    /// Silence of a session after which it is let go of: that of the shards' grace.
    pub session_timeout: Duration,
}

/// The shards of a server with all that is between them and its surroundings. `W`: see [`Command`].
///
/// After whatever is called, [`Lane::take_commands`] gives what is to be done.
pub struct Lane<W> {
    pub(crate) id: ServerId,
    pub(crate) map: Arc<ClusterMap>,
    pub(crate) next_map: NextMap<W>,
    pub(crate) shards: Shards,
    pub(crate) points: Points,
    /// For the next batch.
    pub(crate) inbox: VecDeque<(ShardId, Input)>,
    pub(crate) durable: Durable<Held>,
    pub(crate) overlay: Overlay<'static>,
    pub(crate) unwritten_bytes: usize,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) log: Arc<dyn Log>,
    pub(crate) flush: FlushState<W>,
    pub(crate) timers: Timers,
    pub(crate) data_tickets: DataTickets,
    pub(crate) loads: Loads,
    pub(crate) hot: HotDirs,
    pub(crate) delays: DelayTable,
    recalls: Recalls<W>,
    sessions: Sessions,
    /// The last moment that was told.
    pub(crate) now: Steady,
    pub(crate) commands: Vec<Command<W>>,
    /// Buffers of a batch.
    pub(crate) inputs: Vec<(ShardId, Input)>,
    pub(crate) outputs: Vec<(ShardId, Output)>,
    pub(crate) counters: Counters,
    /// Only planted: nothing waits for the disk.
    pub(crate) keeps_nothing_back: bool,
    /// Only planted: sessions that are let go of keep what they have.
    pub(crate) keeps_expired: bool,
}

/// An output that waits for the disk.
#[derive(Debug)]
pub(crate) struct Held {
    pub shard: ShardId,
    /// The shard's last record when it was given.
    pub applied: u64,
    pub output: Output,
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Of clients, to shards.
    pub requests: u64,
    /// Ended syncs of the log.
    pub log_syncs: u64,
    /// Records appended for all shards.
    pub log_records: u64,
    /// Writes to the log.
    pub log_batches: u64,
    /// Bytes of the records.
    pub log_bytes: u64,
}

/// Result of [`Lane::hear`].
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    /// It is with its shard, or was answered.
    Taken,
    /// Dropped: sender and receiver go by different cluster maps.
    OtherMap {
        /// The sending shard, as the message says.
        from: ShardId,
        /// The shard that it is for, as the message says.
        to: ShardId,
        /// The sender's may be newer.
        may_be_newer: bool,
    },
    /// Dropped: no shard says that.
    Misfit {
        /// The sending shard, as the message says.
        from: ShardId,
        /// The shard that it is for, as the message says.
        to: ShardId,
        /// The fault in it.
        misfit: Misfit,
    },
}

impl<W> Lane<W> {
    /// Before its first batch, which is [`Lane::begin`]'s.
    pub fn new(parts: LaneParts, now: Steady) -> Lane<W> {
        let LaneParts {
            id,
            map,
            shards,
            store,
            log,
            points,
            first_data_number,
            recent_reads,
            unwritten_bytes,
            unflushed_bytes,
            session_timeout,
        } = parts;
        let sync_interval = Duration::from_millis(map.settings.flush_interval_ms);
        Lane {
            id,
            map,
            next_map: NextMap::default(),
            shards,
            points,
            inbox: VecDeque::new(),
            durable: Durable::new(),
            overlay: Overlay::shared(Arc::clone(&store), recent_reads),
            unwritten_bytes,
            store,
            log,
            flush: FlushState::new(unflushed_bytes),
            timers: Timers::new(now, sync_interval),
            data_tickets: DataTickets::new(first_data_number),
            loads: Loads::default(),
            hot: HotDirs::default(),
            delays: DelayTable::default(),
            recalls: Recalls::default(),
            sessions: Sessions::new(session_timeout, now),
            now,
            commands: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            counters: Counters::default(),
            keeps_nothing_back: false,
            keeps_expired: false,
        }
    }

    /// The server's number in the cluster map.
    pub fn id(&self) -> ServerId {
        self.id
    }

    /// The map that the lane goes by now.
    pub fn map(&self) -> &Arc<ClusterMap> {
        &self.map
    }

    /// Those that it leads.
    pub fn shards(&self) -> &Shards {
        &self.shards
    }

    /// All that is applied, whether the store has it or not.
    pub fn stored(&self) -> &Overlay<'static> {
        &self.overlay
    }

    /// Since the lane was made.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Whether a batch would have something to do.
    pub fn has_inputs(&self) -> bool {
        !self.inbox.is_empty()
    }

    /// Inputs for the next batches.
    pub fn inputs(&self) -> usize {
        self.inbox.len()
    }

    /// Gives what is to be done, in order, for an empty buffer.
    pub fn take_commands(&mut self, into: &mut Vec<Command<W>>) {
        assert!(into.is_empty(), "commands would be left out");
        std::mem::swap(&mut self.commands, into);
    }

    /// Whether the server takes a request, which counts as one either way.
    ///
    /// # Errors
    /// The answer to one that it does not.
    pub fn admit(&mut self, request: &ShardRequest) -> Result<(), Refusal> {
        self.counters.requests += 1;
        if request.key.slot.0 >= MAX_SLOTS {
            return Err(Refusal::Malformed(format!(
                "a session has {MAX_SLOTS} slots"
            )));
        }
        if request.epoch > self.map.epoch {
            // It may speak of shards that this server has not heard of.
            return Err(Refusal::TryAgain);
        }
        let is_older = request.epoch < self.map.epoch;
        if !self.shards.leads(request.shard) || is_older && request.request.operation().needs_map()
        {
            let epoch = self.map.epoch;
            return Err(Refusal::WrongServer { epoch });
        }
        Ok(())
    }

    /// Takes a request that was admitted.
    pub fn request(&mut self, ticket: Ticket, request: ShardRequest) {
        self.count_dirs(&request.request);
        self.give(request.shard, Input::Request { ticket, request });
    }

    fn count_dirs(&mut self, request: &Request) {
        let Request::Batch(batch) = request else {
            if let Some(dir) = request.operation().dir() {
                self.hot.count(dir, 1);
            }
            return;
        };
        let dirs = batch.early.iter();
        let mut dirs = dirs.filter_map(|early| early.operation.operation().dir());
        // Nearly always all are of one.
        let Some(mut dir) = dirs.next() else {
            return;
        };
        let mut times = 1;
        for next in dirs {
            if next == dir {
                times += 1;
            } else {
                self.hot.count(dir, times);
                (dir, times) = (next, 1);
            }
        }
        self.hot.count(dir, times);
    }

    /// Directories that are asked for most of late, the hottest first.
    pub fn hottest(&mut self, now: Steady) -> Vec<HotDir> {
        self.hot.tick(now);
        self.hot.hottest(now)
    }

    /// The causes that a request under way has waited for, if any.
    pub fn delays(&self, ticket: Ticket) -> Option<&Delays> {
        self.delays.get(ticket)
    }

    /// Whether the disk of the log or of the store is low: said before what needs space.
    pub fn space(&mut self, low: bool) {
        self.give_all(|| Input::Space { low });
        // The log may forget the records that the store holds.
        self.flush.for_room |= low;
    }

    /// A session has sent something. Returns the number of when it became known here, which is another one whenever it
    /// had been let go of in between: never 0.
    pub fn heard(&mut self, session: SessionId, now: Steady) -> u64 {
        self.sessions.heard(session, now)
    }

    /// Whether the session may open a connection of this generation: it has opened none of a larger one.
    pub fn is_current(&self, session: SessionId, generation: u64) -> bool {
        self.sessions.is_current(session, generation)
    }

    /// The session opens a connection of this generation, which is current.
    pub fn begin_generation(&mut self, session: SessionId, generation: u64, now: Steady) {
        self.sessions.begin_generation(session, generation, now);
    }

    /// Sessions that are known.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// The session ends, and says so.
    pub fn goodbye(&mut self, session: SessionId) {
        if self.sessions.remove(session) {
            self.session_gone(session, true);
        }
    }

    /// The session may have something here, and may never send anything: it counts as if it had sent something now.
    pub(crate) fn expect(&mut self, session: SessionId) {
        self.sessions.expect(session, self.now);
    }

    /// Lets go of sessions that have been silent for too long.
    pub(crate) fn expire_sessions(&mut self, now: Steady) {
        for session in self.sessions.expire(now) {
            if !self.keeps_expired {
                self.session_gone(session, false);
            }
            self.commands.push(Command::Expired { session });
        }
    }

    /// The session said goodbye (`ended`), or was silent for too long.
    fn session_gone(&mut self, session: SessionId, ended: bool) {
        let answer = self.recalls.forget(session);
        self.tell_recalls(answer);
        self.give_all(|| Input::SessionGone { session, ended });
    }

    /// A client waits for recalls; as [`Recalls::wait`].
    pub fn await_recalls(
        &mut self,
        session: SessionId,
        connected: Steady,
        to: W,
        done: Option<u64>,
        now: Steady,
    ) where
        W: Copy,
    {
        match self.recalls.wait(session, connected, to, done, now) {
            Said::Begins => {
                self.give_all(|| Input::TakesLeases { session });
                let (number, keys) = (0, Vec::new());
                self.commands.push(Command::Recall { to, number, keys });
            }
            Said::LetGo { recalls, answer } => {
                for (shard, number) in recalls {
                    self.give(shard, Input::Recalled { session, number });
                }
                self.tell_recalls(answer);
            }
            Said::Late => self.commands.push(Command::BeginAnew { to }),
        }
    }

    pub(crate) fn recall(&mut self, shard: ShardId, recall: pandofs_shard::Recall) {
        let answer = self.recalls.tell(shard, recall);
        self.tell_recalls(answer);
    }

    /// Answers those who have waited for recalls for long.
    pub(crate) fn answer_waiting(&mut self, now: Steady) {
        for answer in self.recalls.overdue(now) {
            self.tell_recalls(Some(answer));
        }
    }

    fn tell_recalls(&mut self, answer: Option<Answer<W>>) {
        if let Some(Answer { to, number, keys }) = answer {
            self.commands.push(Command::Recall { to, number, keys });
        }
    }

    /// A server says something.
    ///
    /// # Errors
    /// [`LaneError::FaultPoint`].
    pub fn hear(&mut self, sender: ServerId, message: PeerMessage) -> Result<Heard, LaneError> {
        self.points
            .pass(Stage::Received, Subject::Message(&message))?;
        match message {
            PeerMessage::Data { ticket, request } => {
                let origin = DataOrigin::Server {
                    server: sender,
                    ticket,
                };
                self.commands.push(Command::Data { origin, request });
            }
            PeerMessage::DataDone { ticket, reply } => self.shard_data_done(ticket, reply),
            PeerMessage::Load { load, wanted } => {
                self.loads.report(sender, load);
                if wanted {
                    let (load, wanted) = (self.own_load(), false);
                    let message = PeerMessage::Load { load, wanted };
                    let server = sender;
                    self.commands.push(Command::Send { server, message });
                }
            }
            // Of those who make spans around the lane.
            PeerMessage::Trace { .. } => {}
            between_shards => return Ok(self.hear_shard(sender, between_shards)),
        }
        Ok(Heard::Taken)
    }

    fn hear_shard(&mut self, sender: ServerId, message: PeerMessage) -> Heard {
        let Some((from, to)) = ends(&message) else {
            panic!("a message between servers taken for one between shards");
        };
        let is_its_own = self.map.has_shard(from) && self.map.server_of(from) == sender;
        if !is_its_own || !self.shards.leads(to) {
            return Heard::OtherMap {
                from,
                to,
                may_be_newer: !self.map.has_shard(from) && from.0 < MAX_SHARDS,
            };
        }
        if let Err(misfit) = validate(&self.map, &message) {
            return Heard::Misfit { from, to, misfit };
        }
        self.give(to, Input::Peer(message));
        Heard::Taken
    }

    /// A request to a data object is done, or cannot be.
    pub fn data_done(&mut self, origin: DataOrigin, reply: DataReply) {
        match origin {
            DataOrigin::Shard { number } => self.shard_data_done(number, reply),
            DataOrigin::Server { server, ticket } => {
                let message = PeerMessage::DataDone { ticket, reply };
                self.commands.push(Command::Send { server, message });
            }
        }
    }

    fn shard_data_done(&mut self, number: u64, reply: DataReply) {
        if let Some((shard, ticket)) = self.data_tickets.done(number) {
            self.give(shard, Input::DataDone { ticket, reply });
        }
    }

    /// The key that the input waits for is in memory.
    pub fn warmed(&mut self, shard: ShardId, keys: Vec<Vec<u8>>, input: Input) {
        let input = Box::new(input);
        self.give(shard, Input::Warmed { input, keys });
    }

    /// The key that the input waits for cannot be read.
    ///
    /// # Errors
    /// The store's, unless it is damaged in one place and a client can be told. Other servers, and operations that are
    /// under way, go by what has been decided: there is nothing that they could be told.
    pub fn unreadable(
        &mut self,
        shard: ShardId,
        input: &Input,
        error: StoreError,
    ) -> Result<(), LaneError> {
        match input {
            Input::Request { ticket, .. } if error.is_of_the_place() => {
                let ticket = *ticket;
                self.delays.take(ticket);
                self.commands.push(Command::Unreadable {
                    shard,
                    ticket,
                    error,
                });
                Ok(())
            }
            _ => Err(error.into()),
        }
    }

    pub(crate) fn own_load(&self) -> ServerLoad {
        ServerLoad {
            objects: self.shards.objects(),
            requests: self.loads.of_late(),
        }
    }

    pub(crate) fn give(&mut self, shard: ShardId, input: Input) {
        self.inbox.push_back((shard, input));
    }

    pub(crate) fn give_all(&mut self, input: impl Fn() -> Input) {
        for shard in self.shards.ids() {
            self.give(shard, input());
        }
    }
}

/// Hooks by which a test plants what an oracle must find.
#[cfg(feature = "planted")]
impl<W> Lane<W> {
    /// From here on nothing waits for the disk.
    pub fn plant_unsynced(&mut self) {
        self.keeps_nothing_back = true;
    }

    /// From here on sessions that are let go of keep what they have.
    pub fn plant_keeps_expired(&mut self) {
        self.keeps_expired = true;
    }

    /// The shards, to be changed behind the lane's back.
    pub fn shards_mut(&mut self) -> &mut Shards {
        &mut self.shards
    }
}

/// The shards a message goes from and to; `None` when it is between servers.
fn ends(message: &PeerMessage) -> Option<(ShardId, ShardId)> {
    match *message {
        PeerMessage::Commit { from, to, .. }
        | PeerMessage::SplitChunk { from, to, .. }
        | PeerMessage::SplitChunkDone { from, to, .. }
        | PeerMessage::SplitAbandoned { from, to, .. }
        | PeerMessage::MapNotice { from, to, .. }
        | PeerMessage::MapNoticeDone { from, to, .. }
        | PeerMessage::Forwarded { from, to, .. }
        | PeerMessage::ForgetForwarding { from, to, .. }
        | PeerMessage::ForgetForwardingDone { from, to, .. }
        | PeerMessage::SlotsAsk { from, to, .. }
        | PeerMessage::SlotsTold { from, to, .. }
        | PeerMessage::MergeAsk { from, to, .. }
        | PeerMessage::MergeGo { from, to, .. } => Some((from, to)),
        PeerMessage::Data { .. }
        | PeerMessage::DataDone { .. }
        | PeerMessage::Load { .. }
        | PeerMessage::Trace { .. } => None,
    }
}
