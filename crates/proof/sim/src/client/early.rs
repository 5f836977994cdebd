//! Early names of a client: the library's deputy and errands, which workers of their own run.

use super::{Client, Todo, Worker};
use crate::history::{History, Open};
use crate::scenario::{MILLISECOND, Moment, Plant};
use pandofs_api::op::EarlyOperation;
use pandofs_api::{BatchReply, GrantTerms, Refusal, Reply, Request};
use pandofs_deputy::{About, Asked, Deputy, Errand, Errands, Next, Offer, Opened, Taken};
use pandofs_session::{Boottime, Target};
use pandofs_types::{FsError, Ino, LeaseKey, ServerId, ShardId, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Pause after which a recall that waits is looked at again; the library's are from 1 ms to 32 ms.
const LOOK_PAUSE: Moment = 8 * MILLISECOND;

/// A request that is to be offered once more when something has ended.
#[derive(Debug)]
pub(super) struct Parked {
    target: Target,
    request: Request,
    open: Open,
    /// It waits for the end of something that is queued.
    waits: bool,
    /// It waits for inode numbers, or a grant, that this worker asks for.
    errand: Option<usize>,
}

/// Next step with a request.
pub(super) enum Offered {
    Answered(Result<Reply, FsError>),
    Parked,
    /// A server is asked.
    Ask(Asked, Open),
}

/// Early names of a client that has them.
#[derive(Debug)]
pub(super) struct Early {
    pub(super) errands: Errands,
    /// The next look at what is due.
    wakes_at: Option<Boottime>,
    /// Servers that are connected to once what is queued for them is sent.
    listens: Vec<usize>,
}

impl Early {
    /// Operations in the queue that the request belongs into.
    fn queued_beside(&self, request: &Request) -> usize {
        let operation = request.operation();
        let ino = operation.dir().or(operation.inode());
        ino.map_or(0, |ino| self.errands.deputy.queued(ino.birth_shard()))
    }
}

impl Client {
    pub(super) fn begin_early(&mut self) {
        let mut deputy = Deputy::new(self.session, Arc::clone(&self.map));
        deputy.begin();
        self.early = Some(Early {
            errands: Errands::new(deputy),
            wakes_at: None,
            listens: Vec::new(),
        });
    }

    fn errands(&mut self) -> Option<&mut Errands> {
        self.early.as_mut().map(|early| &mut early.errands)
    }

    /// Operations that were answered early.
    pub(crate) fn executed(&self) -> u64 {
        let early = self.early.as_ref();
        early.map_or(0, |early| early.errands.deputy.executed())
    }

    /// Whether nothing is queued.
    pub(super) fn has_sent_all(&self) -> bool {
        let early = self.early.as_ref();
        early.is_none_or(|early| early.errands.deputy.all_queued().is_empty())
    }

    /// Offers a request, or offers it again, to the deputy.
    pub(super) fn offer(
        &mut self,
        history: &mut History,
        worker: usize,
        target: Target,
        mut request: Request,
        open: Option<Open>,
        todo: &mut Vec<Todo>,
    ) -> Offered {
        self.router().aim_within(&mut request);
        let caller = self.caller(worker);
        let open = open.unwrap_or_else(|| history.begin(&caller, &request));
        let now = self.clock();
        let random = self.random.next_u64();
        let syncs = self.workers[worker]
            .job
            .as_ref()
            .and_then(|job| job.syncs());
        let session = self.session;
        let plant = self.plant;
        let Some(early) = &mut self.early else {
            return Offered::Ask(Asked::default(), open);
        };
        let queued = early.queued_beside(&request);
        if let (Request::Sync(_), Some(ino)) = (&request, syncs) {
            let queued = early.errands.deputy.queued_of(ino);
            if queued.is_some() && plant != Some(Plant::SyncsWithoutQueue) {
                self.park(worker, target, request, open, true, None);
                self.run_errands(todo);
                return Offered::Parked;
            }
            let is_lost = early.errands.take_loss(ino);
            if let Err(what) = history.lost_and_synced(session, ino, is_lost) {
                todo.push(Todo::Early(what));
            }
            if is_lost {
                return Offered::Answered(Err(FsError::Io));
            }
        }
        let taken = {
            let files = self.places.files.borrow();
            let opened = |ino| match (files.count(ino), files.untold_of(ino)) {
                (None, _) => Opened::No,
                (Some(_), 0) => Opened::Told,
                (Some(_), _) => Opened::Untold,
            };
            early.errands.deputy.set_map(&self.map);
            early.errands.deputy.offer(Offer {
                caller: &caller,
                request: &request,
                now,
                // It is not asked: in a run it is far from every server's.
                clock: Time(0),
                random,
                opened: &opened,
            })
        };
        match taken {
            Taken::Answered(answer) => {
                let is_merged = early.queued_beside(&request) == queued;
                let sent = (random, is_merged);
                self.answered_early(history, sent, &request, &answer, open, todo);
                self.run_errands(todo);
                Offered::Answered(answer.map_err(|refusal| match refusal {
                    Refusal::Fs(error) => error,
                    other => unreachable!("{other:?} is no early answer"),
                }))
            }
            Taken::Ask(asked) => Offered::Ask(asked, open),
            Taken::Drain { .. } => {
                self.park(worker, target, request, open, true, None);
                self.run_errands(todo);
                Offered::Parked
            }
            Taken::Wait => {
                self.park(worker, target, request, open, false, None);
                Offered::Parked
            }
            Taken::WantsGrant { dir } => {
                let errand = early.errands.grant(dir);
                let by = self.run_errand(errand, todo);
                self.park(worker, target, request, open, false, Some(by));
                Offered::Parked
            }
            Taken::WantsBeginning { shard } => {
                let errand = early.errands.beginning(shard);
                let by = self.run_errand(errand, todo);
                self.park(worker, target, request, open, false, Some(by));
                Offered::Parked
            }
            Taken::WantsNumbers { shard, unordered } => {
                let errand = early.errands.numbers(shard, unordered);
                let by = errand.map(|errand| self.run_errand(errand, todo));
                self.park(worker, target, request, open, false, by);
                Offered::Parked
            }
            // Files are opened by servers here.
            Taken::WantsOpens { ino } => unreachable!("{ino} was opened without a server"),
        }
    }

    fn answered_early(
        &mut self,
        history: &mut History,
        sent: (u64, bool),
        request: &Request,
        answer: &Result<Reply, Refusal>,
        open: Open,
        todo: &mut Vec<Todo>,
    ) {
        let is_gone = matches!(answer, Err(Refusal::Fs(FsError::Stale | FsError::NotFound)));
        if let Err(what) = self.check_open(history, request, is_gone) {
            todo.push(Todo::Gone(what));
        }
        if let Ok(reply) = answer {
            self.learn_reply(request, reply);
        }
        if answer.is_err() || !request.is_mutation() {
            // A shard may have forgotten what is still believed.
            let may_be_lost = self.may_believe_what_is_lost();
            return history.believed(open, request, answer, may_be_lost);
        }
        if let Some(dir) = request.operation().dir().or(request.operation().inode()) {
            let place = (self.session, dir.birth_shard());
            assert!(EarlyOperation::of(request).is_some(), "it can be sent");
            let dir = match (request, answer) {
                (Request::Mkdir(_), Ok(Reply::Entry(entry))) => Some(entry.ino),
                (Request::Rmdir(_), Ok(Reply::Removed { ino })) => Some(*ino),
                _ => None,
            };
            history.answered_early(place, sent, (request, dir), &open);
        }
        history.end(open, request, answer);
        let now = self.clock();
        if let Some(change) = self.lease_cache.change(request) {
            self.lease_cache.changed(change, None, None, now);
        }
    }

    fn park(
        &mut self,
        worker: usize,
        target: Target,
        request: Request,
        open: Open,
        waits: bool,
        errand: Option<usize>,
    ) {
        if waits && let Some(errands) = self.errands() {
            errands.waits();
        }
        self.workers[worker].parked = Some(Parked {
            target,
            request,
            open,
            waits,
            errand,
        });
    }

    /// A worker that has nothing to do runs the errand; which one.
    fn run_errand(&mut self, mut errand: Errand, todo: &mut Vec<Todo>) -> usize {
        if self.plant == Some(Plant::DropsMerged) {
            drop_merged(&mut errand.request);
        }
        let is_free = |worker: &Worker| worker.errand.is_none();
        let free = self.workers[self.programs..].iter().position(is_free);
        let worker = free.map_or(self.workers.len(), |at| self.programs + at);
        if worker == self.workers.len() {
            self.workers.push(Worker::default());
        }
        assert!(worker < usize::from(super::INNER_SLOTS), "slots are few");
        self.workers[worker].errand = Some((errand.about, self.clock()));
        self.call(
            worker,
            errand.target,
            errand.request,
            Open::default(),
            false,
        );
        if let Some(call) = self.workers[worker].calls.last_mut() {
            call.asked.caller = errand.caller;
        }
        todo.push(Todo::Send { worker, pause: 0 });
        worker
    }

    /// Runs what is due.
    pub(super) fn run_errands(&mut self, todo: &mut Vec<Todo>) {
        let now = self.clock();
        loop {
            let Some(early) = &mut self.early else {
                return;
            };
            match early.errands.next(now, |_| true) {
                Next::Now(errand) => {
                    if let Some(left_out) = self.left_out(&errand) {
                        let Some(early) = &mut self.early else {
                            return;
                        };
                        early
                            .errands
                            .ended(errand.about, now, Some(Ok(left_out)), now);
                        continue;
                    }
                    self.run_errand(errand, todo);
                }
                Next::At(due) => {
                    if early.wakes_at.is_none_or(|at| due < at) {
                        early.wakes_at = Some(due);
                        let left = due.saturating_duration_since(now);
                        let pause = left.as_nanos() as Moment + MILLISECOND / 100;
                        todo.push(Todo::Wake { pause });
                    }
                    return;
                }
                Next::Nothing => return,
            }
        }
    }

    /// Only planted: the answer that early operations might get.
    fn left_out(&mut self, errand: &Errand) -> Option<Reply> {
        let left_out = match &errand.request {
            Request::Batch(batch) => Reply::Batch(Box::new(BatchReply {
                done: batch.early.len() as u32,
                refused: None,
                incarnation: None,
                terms: GrantTerms {
                    time: Time(0),
                    placing: None,
                    is_low: false,
                },
            })),
            Request::MkdirAway(_) | Request::RmdirAway(_) => Reply::Done,
            _ => return None,
        };
        let is_left_out = self.plant == Some(Plant::SkipsBatches) && self.random.chance(1, 8);
        is_left_out.then_some(left_out)
    }

    /// Looks at what is due, and at recalls that wait.
    pub(crate) fn wake(&mut self, todo: &mut Vec<Todo>) {
        if let Some(early) = &mut self.early {
            early.wakes_at = None;
        }
        self.run_errands(todo);
    }

    /// Asks for renewals. Every second.
    pub(super) fn renew(&mut self, todo: &mut Vec<Todo>) {
        let now = self.clock();
        let Some(errands) = self.errands() else {
            return;
        };
        for errand in errands.renewals(now, |_| false) {
            self.run_errand(errand, todo);
        }
    }

    /// The worker's errand has ended.
    pub(super) fn errand_ended(
        &mut self,
        history: &mut History,
        worker: usize,
        answer: Option<Result<Reply, FsError>>,
        todo: &mut Vec<Todo>,
    ) {
        let Some((about, sent)) = self.workers[worker].errand.take() else {
            unreachable!("worker {worker} has an errand");
        };
        let (now, session, plant) = (self.clock(), self.session, self.plant);
        let refusal = match (&answer, about) {
            (Some(Err(error)), About::Numbers(_)) => Some(*error),
            _ => None,
        };
        let Some(errands) = self.errands() else {
            return;
        };
        let ended = errands.ended(about, sent, answer, now);
        if !ended.lost.is_empty() {
            if plant != Some(Plant::TellsNoLoss) {
                errands.lose(ended.lost.iter().flat_map(pandofs_deputy::Lost::inos));
            }
            // The last ones of each queue that has lost some.
            let mut lost: BTreeMap<ShardId, usize> = BTreeMap::new();
            for of in &ended.lost {
                *lost.entry(of.shard).or_default() += 1;
            }
            for (shard, count) in lost {
                if let Err(what) = history.told_lost((session, shard), count) {
                    todo.push(Todo::Early(what));
                }
            }
        }
        if let Some(error) = refusal {
            self.refuse(history, worker, error, todo);
        }
        self.resume(history, todo);
        self.run_errands(todo);
    }

    /// Requests that wait for the errand of this worker are refused, as the errand was.
    fn refuse(
        &mut self,
        history: &mut History,
        errand: usize,
        error: FsError,
        todo: &mut Vec<Todo>,
    ) {
        for worker in 0..self.programs {
            let is_for_it = |parked: &mut Parked| parked.errand == Some(errand);
            if let Some(parked) = self.workers[worker].parked.take_if(is_for_it) {
                history.end(parked.open, &parked.request, &Err(Refusal::Fs(error)));
                self.go_on(history, worker, Some(Err(error)), todo);
                self.begin_next(history, worker, todo);
            }
        }
    }

    /// Something has ended: those who wait look whether it was that.
    pub(super) fn resume(&mut self, history: &mut History, todo: &mut Vec<Todo>) {
        for worker in 0..self.programs {
            let workers = &self.workers;
            let runs = |by: usize| workers[by].errand.is_some();
            let parked = self.workers[worker].parked.as_ref();
            let errand = parked.and_then(|parked| parked.errand);
            if errand.is_some_and(runs) {
                continue;
            }
            let Some(parked) = self.workers[worker].parked.take() else {
                continue;
            };
            if parked.waits
                && let Some(errands) = self.errands()
            {
                errands.has_waited();
            }
            let (target, request, open) = (parked.target, parked.request, parked.open);
            if let Some(result) = self.ask(history, worker, target, request, Some(open), todo) {
                self.go_on(history, worker, Some(result), todo);
                self.begin_next(history, worker, todo);
            }
        }
        let listens = self
            .early
            .as_mut()
            .map(|early| std::mem::take(&mut early.listens));
        for server in listens.into_iter().flatten() {
            if let Some(errands) = self.errands() {
                errands.has_waited();
            }
            self.listen(server, todo);
        }
    }

    /// A server that was restarted has others wait until this session has begun anew: what it has executed under grants
    /// from before comes first. Whether it does.
    pub(super) fn sends_first(&mut self, server: usize, todo: &mut Vec<Todo>) -> bool {
        let shards = self.shards_of(server);
        let is_planted = self.plant == Some(Plant::BeginsAnewAtOnce);
        let Some(early) = self.early.as_mut().filter(|_| !is_planted) else {
            return false;
        };
        let queued = early.errands.deputy.all_queued();
        let is_queued = queued.iter().any(|(shard, _)| shards.contains(shard));
        if is_queued {
            early.listens.push(server);
            early.errands.waits();
            self.run_errands(todo);
        }
        is_queued
    }

    /// Recalls of what the server has granted are heard no more.
    pub(super) fn lose_grants(&mut self, server: usize) {
        let shards = self.shards_of(server);
        if let Some(errands) = self.errands() {
            errands.deputy.lost(ServerId(server as u16), shards);
        }
    }

    /// Lets go of directories that are recalled, if it can be; the keys of what is believed of them.
    pub(super) fn let_go_of(
        early: &mut Option<Early>,
        keys: &[LeaseKey],
        waits: bool,
        now: Boottime,
        plant: Option<Plant>,
    ) -> Option<Vec<LeaseKey>> {
        let dirs = keys.iter().filter_map(|key| match key {
            LeaseKey::Grant(dir) => Some(*dir),
            _ => None,
        });
        let dirs: Vec<Ino> = dirs.collect();
        let Some(early) = early.as_mut().filter(|_| !dirs.is_empty()) else {
            return Some(Vec::new());
        };
        let recalled = early.errands.recall(&dirs, waits, now);
        match plant {
            Some(Plant::AnswersRecallsAtOnce) => Some(recalled.unwrap_or_default()),
            _ => recalled,
        }
    }

    /// Asks the deputy what it makes of an answer.
    pub(super) fn was_asked(&mut self, asked: Asked, request: &Request, reply: Option<&mut Reply>) {
        let now = self.clock();
        let Some(errands) = self.errands() else {
            return;
        };
        errands.deputy.was_asked(asked, reply.as_deref());
        if let Some(reply) = reply {
            if let (Request::Mkdir(_), Reply::Entry(entry)) = (request, &*reply) {
                errands.deputy.made_elsewhere(entry.ino, now);
            }
            errands.deputy.correct(reply, now);
        }
    }

    /// At the end: each loss is told once, whoever asks.
    pub(crate) fn tell_losses(&mut self, history: &mut History) -> Result<(), String> {
        let session = self.session;
        for ino in history.untold(session) {
            let is_told = self.errands().is_some_and(|errands| errands.take_loss(ino));
            history.lost_and_synced(session, ino, is_told)?;
        }
        Ok(())
    }
}

/// Only planted: of changes that were merged to one that of the mode is left out.
fn drop_merged(request: &mut Request) {
    let Request::Batch(batch) = request else {
        return;
    };
    for early in &mut batch.early {
        if let EarlyOperation::SetAttr(change) = &mut early.operation
            && (change.set.uid.is_some() || change.set.mtime.is_some())
        {
            change.set.mode = None;
        }
    }
}

/// Pause until a recall that waits is looked at again.
pub(super) fn look_again(server: usize) -> Todo {
    Todo::LookAtRecalls {
        server,
        pause: LOOK_PAUSE,
    }
}

/// Numbers that tell early operations apart, if the request is to have some executed.
pub(crate) fn early_of(request: &Request) -> Option<Vec<u64>> {
    match request {
        Request::Batch(batch) => {
            let randoms = batch.early.iter().map(|early| early.random);
            Some(randoms.collect())
        }
        Request::MkdirAway(away) => Some(vec![away.random]),
        Request::RmdirAway(away) => Some(vec![away.random]),
        _ => None,
    }
}
