//! A client: requests of several workers, where they go as the client library has it, and what is done about answers,
//! refusals and silence.

mod data;
mod early;
mod ended;
mod leases;
mod locks;
mod map;
mod opens;
mod places;

pub(crate) use early::early_of;
pub(crate) use leases::Hearer;
pub(crate) use opens::TELLERS;

use crate::history::{History, Open};
use crate::program::data::{DataJob, Heard, Machine};
use crate::program::{Job, Next};
use crate::scenario::{MILLISECOND, Moment, Op, Planned, Plant, Scenario, User};
use crate::server::{Acquaintance, Asker};
use early::{Early, Offered, Parked};
use leases::Conversation;
use map::AsksMap;
use opens::Tellers;
use pandofs_api::{DataRequest, Refusal, Reply, Request, RequestKey, ShardRequest, op};
use pandofs_deputy::{About, Asked};
use pandofs_placement::ClusterMap;
use pandofs_session::{
    Boottime, Change, Circumstances, Closes, End, Event, LeaseCache, Locks, Router, Sent, Step,
    Target, Wait,
};
use pandofs_testkit::rng::Rng;
use pandofs_types::limits::PING_INTERVAL;
use pandofs_types::{
    Credentials, Epoch, FsError, HashKey, Ino, Leased, Name, SessionId, ShardId, SlotId,
};
use places::Places;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// How long an answer is waited for. The library waits for its connection to break.
pub(crate) const PATIENCE: Moment = 300 * MILLISECOND;
/// Slots of requests made in the course of others.
const INNER_SLOTS: u16 = 100;

/// Work that a client wants done.
#[derive(Debug)]
pub(crate) enum Todo {
    /// Let [`Client::send`] send the worker's request after this pause.
    Send { worker: usize, pause: Moment },
    /// The worker has done its operation.
    Done { worker: usize, outcome: String },
    /// Contradiction that no server tells a client that keeps to the rules.
    Broken(String),
    /// An open file is gone.
    Gone(String),
    /// Tell a server what no operation waits for.
    Tell {
        server: usize,
        /// Whom it is for.
        known: Acquaintance,
        number: u64,
        request: Box<ShardRequest>,
    },
    /// Contradiction about early operations.
    Early(String),
    /// Let [`Client::wake`] look at what is due after this pause.
    Wake { pause: Moment },
    /// Let [`Client::look_at_recalls`] look at recalls of the server that wait.
    LookAtRecalls { server: usize, pause: Moment },
    /// Let [`Client::release`] tell what was closed after this pause.
    Release { pause: Moment },
    /// Say to the server that the client lives.
    Ping { server: usize },
    /// Ask the server for its cluster map.
    AskMap { server: usize, asker: Asker },
    /// Ask for a data object of the server, over this connection.
    AskData {
        server: usize,
        connection: u64,
        asker: Asker,
        request: DataRequest,
    },
    /// Let [`Client::listen`] connect to the server after this pause.
    Listen { server: usize, pause: Moment },
    /// Wait for recalls from a process of a server, and for no longer than this.
    Hear {
        hearer: Hearer,
        known: Acquaintance,
        done: Option<u64>,
        patience: Moment,
    },
}

/// A request on its way.
#[derive(Debug)]
struct Call {
    /// How far it has come.
    progress: pandofs_session::Call,
    asked: ShardRequest,
    is_inner: bool,
    open: Open,
    /// When it was sent last.
    sent_at: Moment,
    /// The server that was asked last, and the count of registrations with it then.
    server: usize,
    registration: u64,
    /// Times that it was told "not yet".
    waits: u32,
    /// Change of what is believed.
    change: Option<Change>,
    sent: Option<Sent>,
    leased: Vec<Leased>,
    /// The deputy's word for it.
    asked_of: Asked,
}

#[derive(Debug, Default)]
struct Worker {
    sequence: u64,
    inner_sequence: u64,
    queue: VecDeque<(User, Op)>,
    job: Option<Job>,
    /// The client has lapsed since the job began.
    has_lapsed: bool,
    /// A call, and above it one made in its course.
    calls: Vec<Call>,
    /// Of the last request sent.
    attempt: u64,
    /// Message to be sent when the pause is over.
    pause: u64,
    /// A server is asked for its cluster map.
    asks_map: Option<AsksMap>,
    /// A request that waits for the deputy.
    parked: Option<Parked>,
    /// Errand that it runs, and since when, if it runs errands.
    errand: Option<(About, Boottime)>,
    /// The job, if it is about contents, and what that has asked of a data object.
    data: Option<DataJob>,
    asked_data: Option<data::Asked>,
}

pub(crate) struct Client {
    number: usize,
    pub session: SessionId,
    hash_key: HashKey,
    places: Places,
    workers: Vec<Worker>,
    /// Workers of programs; those after them run errands.
    programs: usize,
    early: Option<Early>,
    random: Rng,
    data: data::Data,
    /// Which start of its server's machine the answer came from that is taken in now: whoever drives the client says so.
    pub machine: Machine,
    plant: Option<Plant>,
    map: Arc<ClusterMap>,
    maps_learnt: u64,
    last_asked: Moment,
    closes: Closes,
    tellers: Tellers,
    locks: Locks,
    pings: u64,
    /// Files that were opened and are not closed, once for each time.
    held: Vec<Ino>,
    takes_leases: bool,
    lease_cache: LeaseCache,
    /// By server.
    hearings: BTreeMap<usize, Conversation>,
    /// Inodes that it has open and that may be gone, as it has not been heard of for long.
    pub lapsed: BTreeSet<Ino>,
    /// How often it says that it lives.
    ping_interval: Duration,
    /// Simulated time, and whom it knows each server as: whoever drives the client keeps them as they are.
    pub now: Moment,
    pub known: Vec<Acquaintance>,
    /// Only planted: time that it stood still, by which its clock is behind.
    pub stood_still: Moment,
    /// The cluster map in the file that it reads.
    pub file: Arc<ClusterMap>,
    /// By how many thousandths its clock is too fast.
    drift: i64,
    /// Only planted.
    cached: BTreeMap<(Ino, Name), Reply>,
}

impl Client {
    pub(crate) fn new(
        number: usize,
        session: u64,
        scenario: &Scenario,
        map: &Arc<ClusterMap>,
    ) -> Client {
        let workers = scenario.shape.workers;
        let leases = scenario.shape.leases.as_ref();
        let mut lease_cache = LeaseCache::new(map.hash_key);
        if leases.is_some() {
            // Names are looked up for anybody where the kernel checks rights, and nobody else.
            let for_all = !scenario.has_users() || scenario.plant == Some(Plant::AnswersAnybody);
            lease_cache.begin(for_all);
        }
        let mut client = Client {
            number,
            session: SessionId(session),
            hash_key: map.hash_key,
            places: Places::default(),
            workers: (0..workers).map(|_| Worker::default()).collect(),
            programs: workers,
            early: None,
            random: Rng::new(session),
            data: data::Data::new(scenario.has_contents(), scenario.shape.sync_every_batch),
            machine: 0,
            plant: scenario.plant,
            map: Arc::clone(map),
            maps_learnt: 0,
            last_asked: 0,
            closes: Closes::default(),
            tellers: Tellers::default(),
            locks: Locks::new(SessionId(session)),
            pings: 0,
            held: Vec::new(),
            takes_leases: leases.is_some(),
            lease_cache,
            hearings: BTreeMap::new(),
            lapsed: BTreeSet::new(),
            ping_interval: PING_INTERVAL.min(scenario.shape.session_timeout / 4),
            now: 0,
            known: Vec::new(),
            stood_still: 0,
            file: Arc::clone(map),
            drift: match scenario.plant {
                Some(Plant::OutlivesLeases) => -800,
                _ => leases.map_or(0, |leases| leases.clients[number]),
            },
            cached: BTreeMap::new(),
        };
        if leases.is_some() && scenario.shape.early.get(number) == Some(&true) {
            client.begin_early();
        }
        client
    }

    /// Time that its clock shows.
    fn clock(&self) -> Boottime {
        let now = self.now - self.stood_still;
        let passed = now + now / 1_000 * self.drift;
        Boottime::after_start(Duration::from_nanos(passed as u64))
    }

    /// Takes over what another one was still to begin.
    pub(crate) fn take_queues(&mut self, dead: &mut Client) {
        for (worker, dead) in self.workers.iter_mut().zip(&mut dead.workers) {
            worker.queue = std::mem::take(&mut dead.queue);
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        let idle = |worker: &Worker| worker.job.is_none() && worker.queue.is_empty();
        self.workers.iter().all(idle) && self.has_sent_all()
    }

    /// Operations that it is still at.
    pub(crate) fn under_way(&self) -> Vec<String> {
        let jobs = self.workers.iter().filter(|worker| worker.job.is_some());
        jobs.map(|worker| {
            let asked = worker.calls.iter().map(|call| &call.asked);
            format!("client {}: {:?}", self.number, asked.collect::<Vec<_>>())
        })
        .collect()
    }

    fn router(&self) -> Router<'_, Places> {
        Router {
            hash_key: self.hash_key,
            places: &self.places,
        }
    }

    /// Another operation for the worker.
    pub(crate) fn enqueue(&mut self, history: &mut History, planned: Planned) -> Vec<Todo> {
        let worker = planned.worker;
        let queue = &mut self.workers[worker].queue;
        queue.push_back((planned.by, planned.op));
        let mut todo = Vec::new();
        self.begin_next(history, worker, &mut todo);
        todo
    }

    /// Begins what is waiting if the worker has nothing to do; a new client's first chance.
    pub(crate) fn begin_next(
        &mut self,
        history: &mut History,
        worker: usize,
        todo: &mut Vec<Todo>,
    ) {
        while self.workers[worker].job.is_none() {
            let Some(op) = self.workers[worker].queue.pop_front() else {
                return;
            };
            let job = Job::new(op, self.hash_key, &self.held, worker as u64);
            self.close(&job, todo);
            self.workers[worker].job = Some(job);
            self.workers[worker].has_lapsed = false;
            self.go_on(history, worker, None, todo);
        }
    }

    /// The worker's job takes its next step.
    fn go_on(
        &mut self,
        history: &mut History,
        worker: usize,
        mut result: Option<Result<Reply, FsError>>,
        todo: &mut Vec<Todo>,
    ) {
        loop {
            let job = self.workers[worker].job.as_mut().expect("it has one");
            match job.next(result.take(), &self.places) {
                Next::Done(outcome) => {
                    self.workers[worker].job = None;
                    todo.push(Todo::Done { worker, outcome });
                    return;
                }
                Next::Data(job) => {
                    self.workers[worker].data = Some(*job);
                    return self.go_on_with_data(history, worker, Heard::Nothing, todo);
                }
                Next::Ask(target, request) => {
                    if let Some(known) = self.cached(&request) {
                        let open = history.begin(&self.caller(worker), &request);
                        let known = Ok(known);
                        history.end(open, &request, &known);
                        result = known.ok().map(Ok);
                        continue;
                    }
                    result = self.ask(history, worker, target, request, None, todo);
                    if result.is_none() {
                        return;
                    }
                }
            }
        }
    }

    /// Asks for it; the answer, if it is known at once. `open`: it waited for the deputy.
    fn ask(
        &mut self,
        history: &mut History,
        worker: usize,
        target: Target,
        request: Request,
        open: Option<Open>,
        todo: &mut Vec<Todo>,
    ) -> Option<Result<Reply, FsError>> {
        let (asked_of, open) =
            match self.offer(history, worker, target, request.clone(), open, todo) {
                Offered::Answered(answer) => return Some(answer),
                Offered::Parked => return None,
                Offered::Ask(asked_of, open) => (asked_of, open),
            };
        if let Some(known) = self.believed(history, worker, target, &request) {
            self.was_asked(asked_of, &request, None);
            return Some(known);
        }
        if self.begins(&request) {
            self.was_asked(asked_of, &request, None);
            history.end(open, &request, &Ok(Reply::Done));
            return Some(Ok(Reply::Done));
        }
        self.call(worker, target, request, open, false);
        if let Some(call) = self.workers[worker].calls.last_mut() {
            call.asked_of = asked_of;
        }
        todo.push(Todo::Send { worker, pause: 0 });
        None
    }

    /// In whose name the worker asks; an errand says so itself.
    fn caller(&self, worker: usize) -> Credentials {
        let job = self.workers[worker].job.as_ref();
        job.map_or(Credentials::ROOT, Job::caller)
    }

    fn cached(&self, request: &Request) -> Option<Reply> {
        match request {
            Request::Lookup(op::Lookup { dir, name }) => {
                self.cached.get(&(*dir, name.clone())).cloned()
            }
            _ => None,
        }
    }

    fn call(
        &mut self,
        worker: usize,
        target: Target,
        request: Request,
        open: Open,
        is_inner: bool,
    ) {
        let number = worker as u16;
        let caller = self.caller(usize::from(number));
        let change = match is_inner {
            true => None,
            false => self.lease_cache.change(&request),
        };
        let worker = &mut self.workers[worker];
        let (slot, sequence) = if is_inner {
            worker.inner_sequence += 1;
            (INNER_SLOTS + number, worker.inner_sequence)
        } else {
            worker.sequence += 1;
            (number, worker.sequence)
        };
        let asked = ShardRequest {
            // Filled in when it is sent.
            shard: ShardId(0),
            epoch: Epoch(0),
            key: RequestKey {
                session: self.session,
                slot: SlotId(slot),
                sequence,
            },
            caller,
            request,
        };
        worker.calls.push(Call {
            progress: pandofs_session::Call::new(target, asked.request.is_mutation()),
            asked,
            is_inner,
            open,
            sent_at: 0,
            server: 0,
            registration: 0,
            waits: 0,
            change,
            sent: None,
            leased: Vec::new(),
            asked_of: Asked::default(),
        });
    }

    /// The number of the pause that begins now: a later one makes it void.
    pub(crate) fn pause(&mut self, worker: usize) -> u64 {
        self.workers[worker].pause += 1;
        self.workers[worker].pause
    }

    /// The worker's request, to be sent now to a server that it knows as `known` tells; `None` if something else has
    /// happened since the pause began, or the server is to be told something first.
    pub(crate) fn send(
        &mut self,
        worker: usize,
        pause: u64,
        known: &[Acquaintance],
        todo: &mut Vec<Todo>,
    ) -> Option<(ShardRequest, Asker)> {
        if self.workers[worker].pause != pause {
            return None;
        }
        let mut call = self.workers[worker].calls.pop()?;
        if self.plant == Some(Plant::ForgetsDoubt) {
            call.progress.forget_doubt();
        }
        let shard = call.progress.aim(&self.router(), &mut call.asked);
        // A server that joined, of which this client may not have heard.
        if self.server_of(shard).is_none() {
            self.reread(todo);
        }
        let Some(server) = self.server_of(shard) else {
            self.workers[worker].calls.push(call);
            self.ask_any_for_map(worker, todo);
            return None;
        };
        call.asked.epoch = self.map.epoch;
        call.sent_at = self.now;
        self.last_asked = self.now;
        call.server = server;
        if !self.is_registered(call.server, known[call.server], Some(worker), todo) {
            self.workers[worker].calls.push(call);
            return None;
        }
        call.registration = self.link(call.server).registrations;
        call.sent = Some(self.lease_cache.sent(self.clock()));
        let asked = call.asked.clone();
        let worker_state = &mut self.workers[worker];
        worker_state.calls.push(call);
        worker_state.attempt += 1;
        let asker = Asker {
            client: self.number,
            session: self.session,
            worker,
            attempt: worker_state.attempt,
        };
        Some((asked, asker))
    }

    /// No answer has come to this attempt for long.
    pub(crate) fn silence(
        &mut self,
        history: &mut History,
        worker: usize,
        attempt: u64,
    ) -> Vec<Todo> {
        if worker == TELLERS {
            let mut todo = Vec::new();
            self.told(attempt, None, &mut todo);
            return todo;
        }
        let state = &mut self.workers[worker];
        if state.attempt != attempt {
            return Vec::new();
        }
        let mut todo = Vec::new();
        if state.asks_map.is_some() {
            self.map_looked_for(history, worker, false, &mut todo);
            return todo;
        }
        if self.data_silence(worker, &mut todo) {
            return todo;
        }
        let state = &mut self.workers[worker];
        let Some(call) = state.calls.pop() else {
            return Vec::new();
        };
        // Its connection is closed: what comes now is not heard.
        state.attempt += 1;
        self.react(history, worker, call, Event::Lost { sent: true }, &mut todo);
        todo
    }

    /// An answer has come.
    pub(crate) fn answer(
        &mut self,
        history: &mut History,
        asker: Asker,
        result: Result<Reply, Refusal>,
        leased: Vec<Leased>,
    ) -> Vec<Todo> {
        let worker = asker.worker;
        let mut todo = Vec::new();
        if worker == TELLERS {
            self.told(asker.attempt, Some(result), &mut todo);
            return todo;
        }
        let state = &mut self.workers[worker];
        // An answer to an earlier attempt came over a connection that was closed.
        if state.attempt != asker.attempt {
            return todo;
        }
        let Some(mut call) = state.calls.pop() else {
            return todo;
        };
        state.attempt += 1;
        self.take_leased(&mut call, leased, &result);
        match result {
            Ok(reply) => {
                call.progress.answered();
                self.learn(&call, &reply);
                self.finished(history, worker, call, Ok(reply), &mut todo);
            }
            Err(refusal) => {
                if refusal == Refusal::NotYet
                    && let Err(what) = call.waits_once_more()
                {
                    todo.push(Todo::Broken(what));
                    return todo;
                }
                self.react(history, worker, call, Event::Refused(refusal), &mut todo);
            }
        }
        todo
    }

    /// Does what comes next after this.
    fn react(
        &mut self,
        history: &mut History,
        worker: usize,
        mut call: Call,
        event: Event,
        todo: &mut Vec<Todo>,
    ) {
        let router = Router {
            hash_key: self.hash_key,
            places: &self.places,
        };
        let mut at = Circumstances {
            now: Duration::from_nanos(self.now as u64),
            began: Duration::from_nanos(call.sent_at as u64),
            patience: match self.workers[worker].errand {
                Some((About::Renewal(..), _)) => Some(Duration::ZERO),
                _ => None,
            },
            is_closed: false,
            draw: &mut |most| self.random.below(most + 1),
        };
        let step = call.progress.on(event, &router, Some(&call.asked), &mut at);
        let end = match step {
            Step::Again { after } | Step::Wait(Wait { after, .. }) => {
                self.workers[worker].calls.push(call);
                let pause = after.as_nanos() as Moment;
                return todo.push(Todo::Send { worker, pause });
            }
            Step::AskHome(dir) => {
                self.workers[worker].calls.push(call);
                let request = Request::GetAttr(op::GetAttr { ino: dir });
                self.call(worker, Target::Inode(dir), request, Open::default(), true);
                return todo.push(Todo::Send { worker, pause: 0 });
            }
            Step::FindMap { used, asks_server } => {
                let is_newer = self.map.epoch > used || self.reread(todo);
                if !is_newer && asks_server {
                    let server = call.server;
                    self.workers[worker].calls.push(call);
                    return self.ask_map(worker, server, AsksMap::ForCall, todo);
                }
                let event = Event::MapLookedFor { is_newer };
                return self.react(history, worker, call, event, todo);
            }
            Step::Ended(end) => end,
        };
        if self.workers[worker].errand.is_some() && matches!(end, End::Away { .. } | End::Busy) {
            return self.errand_ended(history, worker, None, todo);
        }
        let result = match end {
            End::Fs(error) => Err(error),
            End::NotInline { .. } | End::NoPart | End::ByPath(_) => Err(FsError::NotSupported),
            End::NotYet => Err(FsError::Interrupted),
            End::SentAround | End::Broken(_) | End::Away { .. } | End::Busy => {
                return todo.push(Todo::Broken(format!("{end:?}: {:?}", call.asked)));
            }
        };
        self.finished(history, worker, call, result, todo);
    }
}
