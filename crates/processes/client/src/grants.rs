//! Grants of the session, shared by its threads: the deputy and its errands behind a lock, and the threads that run these.
//!
//! A request is offered to the deputy before anything else is done with it. Operations that it executes are answered at once and go
//! to its shard within milliseconds, or as soon as somebody waits for it: `fsync`, a recall, a request that a server has
//! to decide. When that is [`Errands`] say. Each server has a thread that sends batches to it, so that none waits for
//! another server.

use crate::Client;
use crate::boottime;
use crate::call::Call;
use crate::cancellation;
use crate::core::Core;
use crate::error::{ClientError, Failure, Result};
use crate::limits::DRAIN_LOOK_INTERVAL;
use crate::route::reply_of;
use crate::threads;
use crate::unsynced::object_of;
use hashbrown::{HashMap, HashSet};
use pandofs_api::{Reply, Request, op};
use pandofs_deputy::{
    About, Asked, Deputy, Ended, Errand, Errands, Lost, Next, Offer, Opened, Taken,
};
use pandofs_placement::ClusterMap;
use pandofs_session::{Boottime, Target};
use pandofs_types::{Credentials, FsError, Ino, LeaseKey, ServerId, SessionId, ShardId, Time};
use pandofs_wire::message::{AnswerBody, RequestBody};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime};

/// See the module.
#[derive(Debug)]
pub(crate) struct Grants {
    is_on: AtomicBool,
    state: Mutex<State>,
    /// Something that was queued has ended, or a request that was asked.
    ended: Condvar,
    /// Condition on which the threads of servers wait: there is something to send, or somebody waits for it.
    senders: Mutex<HashMap<ServerId, Arc<Condvar>>>,
}

#[derive(Debug)]
struct State {
    errands: Errands,
    stopped: bool,
}

/// Next step with a call.
pub(crate) enum Offered {
    Answered(AnswerBody),
    Ask(Asked),
}

impl Grants {
    pub(crate) fn new(session: SessionId, map: Arc<ClusterMap>) -> Grants {
        Grants {
            is_on: AtomicBool::new(false),
            state: Mutex::new(State {
                errands: Errands::new(Deputy::new(session, map)),
                stopped: false,
            }),
            ended: Condvar::new(),
            senders: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Operations that were executed here.
    pub(crate) fn executed(&self) -> u64 {
        self.state().errands.deputy.executed()
    }

    /// Directories that are granted, and operations that are queued.
    pub(crate) fn levels(&self) -> (usize, usize) {
        let deputy = &self.state().errands.deputy;
        let shards = deputy.all_queued().into_iter();
        let queued = shards.map(|(shard, _)| deputy.queued(shard)).sum();
        (deputy.granted_directories(), queued)
    }

    /// Grants are asked for from now on.
    pub(crate) fn begin(&self) {
        self.state().errands.deputy.begin();
        self.is_on.store(true, Ordering::SeqCst);
    }

    /// Recalls of what the server has granted of these shards are heard no more. (Also before grants are asked for: that may
    /// begin while they are not.)
    pub(crate) fn lost(&self, server: ServerId, shards: Vec<ShardId>) {
        self.state().errands.deputy.lost(server, shards);
    }

    /// Recalls of what the server grants are heard from now on.
    pub(crate) fn hears(&self, server: ServerId) {
        self.state().errands.deputy.hears(server);
    }

    /// Until when the name leads to the inode.
    pub(crate) fn entry_until(
        &self,
        key: LeaseKey,
        name: &pandofs_types::Name,
        ino: Ino,
    ) -> Option<Boottime> {
        let LeaseKey::Entry { dir, position } = key else {
            return None;
        };
        if !self.is_on() {
            return None;
        }
        self.state()
            .errands
            .deputy
            .entry_until(dir, position, name, ino)
    }

    /// Until when the directory is granted.
    pub(crate) fn granted_until(&self, dir: Ino) -> Option<Boottime> {
        match self.is_on() {
            true => self.state().errands.deputy.granted_until(dir),
            false => None,
        }
    }

    /// An exclusive inode as the deputy has it, and until when it is.
    pub(crate) fn exclusive(&self, ino: Ino) -> Option<(pandofs_api::InodeReply, Boottime)> {
        match self.is_on() {
            true => self.state().errands.deputy.exclusive(ino, boottime::now()),
            false => None,
        }
    }

    /// Returns whether nobody else changes or sees the inode.
    pub(crate) fn is_exclusive(&self, ino: Ino) -> bool {
        let until = || self.state().errands.deputy.exclusive_until(ino);
        self.is_on() && until().is_some_and(|until| until > boottime::now())
    }

    /// Those of these about which something is queued; it is sent soon.
    pub(crate) fn queued_among(&self, inos: &[Ino]) -> HashSet<Ino> {
        if !self.is_on() {
            return HashSet::new();
        }
        let state = self.state();
        let is_queued = |ino: &&Ino| state.errands.deputy.queued_of(**ino).is_some();
        inos.iter().filter(is_queued).copied().collect()
    }

    /// Takes the loss of something that was answered, to be told once.
    pub(crate) fn take_loss(&self, ino: Ino) -> bool {
        self.is_on() && self.state().errands.take_loss(ino)
    }

    /// Ends the threads.
    pub(crate) fn stop(&self) {
        self.state().stopped = true;
        self.wake_senders();
        self.ended.notify_all();
    }
}

impl Grants {
    /// Has every server's thread look for something to send.
    fn wake_senders(&self) {
        for work in lock(&self.senders).values() {
            work.notify_all();
        }
    }

    /// The same of one server.
    fn wake_sender(&self, server: ServerId) {
        if let Some(work) = lock(&self.senders).get(&server) {
            work.notify_all();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Requests that grants themselves are about.
fn is_of_grants(request: &Request) -> bool {
    matches!(
        request,
        Request::Batch(_)
            | Request::MkdirAway(_)
            | Request::RmdirAway(_)
            | Request::Grant(_)
            | Request::BeginGrants(_)
            | Request::Renew(_)
            | Request::TakeNumbers(_)
    )
}

impl Core {
    /// Offers a call to the deputy, and waits until it says what is to be done.
    pub(crate) fn offer(&self, call: &mut Call) -> std::result::Result<Offered, Failure> {
        let ask = Ok(Offered::Ask(Asked::default()));
        if !self.grants.is_on() || call.inner {
            return ask;
        }
        match &mut call.frame.body {
            RequestBody::Data(request) => {
                // Nobody would ever remove a data object of an inode that is not there yet, and it has what the shard fills
                // it with once the queue is sent.
                if let Some(ino) = object_of(request) {
                    self.settle(ino)?;
                }
                ask
            }
            RequestBody::Shard(asked) if !is_of_grants(&asked.request) => {
                self.router().aim_within(&mut asked.request);
                self.offer_request(&asked.caller, &asked.request)
            }
            _ => ask,
        }
    }

    fn offer_request(
        &self,
        caller: &Credentials,
        request: &Request,
    ) -> std::result::Result<Offered, Failure> {
        let opened = |ino| match (self.opens.count(ino), self.opens.untold_of(ino)) {
            (None, _) => Opened::No,
            (Some(_), 0) => Opened::Told,
            (Some(_), _) => Opened::Untold,
        };
        let random = rand::random();
        let cluster = self.clusters.current();
        loop {
            let mut state = self.grants.state();
            // At once: what is made meanwhile goes by the old one to none of the servers that have joined.
            state.errands.deputy.set_map(&cluster.map);
            let taken = state.errands.deputy.offer(Offer {
                caller,
                request,
                now: boottime::now(),
                clock: wall_clock(),
                random,
                opened: &opened,
            });
            match taken {
                Taken::Answered(answer) => {
                    if request.is_mutation() && answer.is_ok() {
                        let news = state.errands.take_news();
                        drop(state);
                        if let Some(shard) = news
                            && let Some(leader) = self.clusters.current().leader(shard)
                        {
                            self.grants.wake_sender(leader.id);
                        }
                        if let Some(change) = self.lease_cache.change(request) {
                            let now = boottime::now();
                            self.lease_cache.changed(change, None, None, now);
                        }
                    }
                    return Ok(Offered::Answered(AnswerBody::Shard(answer)));
                }
                Taken::Ask(asked) => return Ok(Offered::Ask(asked)),
                Taken::Drain { shard, until } => {
                    drop(state);
                    self.drain(shard, until)?;
                }
                Taken::Wait => {
                    cancellation::about_to_wait();
                    let waited = self.grants.ended.wait_timeout(state, DRAIN_LOOK_INTERVAL);
                    drop(waited.unwrap_or_else(PoisonError::into_inner));
                }
                Taken::WantsGrant { dir } => {
                    drop(state);
                    let errand = self.grants.state().errands.grant(dir);
                    // Without a grant a server is asked.
                    let _ = self.run_errand(errand);
                }
                Taken::WantsBeginning { shard } => {
                    let errand = state.errands.beginning(shard);
                    drop(state);
                    // Without it a server is asked.
                    let _ = self.run_errand(errand);
                }
                Taken::WantsOpens { ino } => {
                    drop(state);
                    self.settle(ino)?;
                    self.tell_opens(ino.birth_shard())?;
                }
                Taken::WantsNumbers { shard, unordered } => {
                    match state.errands.numbers(shard, unordered) {
                        Some(errand) => {
                            drop(state);
                            self.run_errand(errand)?;
                        }
                        None => {
                            cancellation::about_to_wait();
                            let waited = self.grants.ended.wait_timeout(state, DRAIN_LOOK_INTERVAL);
                            drop(waited.unwrap_or_else(PoisonError::into_inner));
                        }
                    }
                }
            }
        }
    }

    /// A call that a server was asked has ended.
    pub(crate) fn was_asked(
        &self,
        asked: Asked,
        request: Option<&Request>,
        answer: Option<&mut AnswerBody>,
    ) {
        if !self.grants.is_on() {
            return;
        }
        let reply = match answer {
            Some(AnswerBody::Shard(Ok(reply))) => Some(reply),
            _ => None,
        };
        let mut state = self.grants.state();
        let now = boottime::now();
        state.errands.deputy.was_asked(asked, reply.as_deref());
        self.grants.ended.notify_all();
        if let Some(reply) = reply {
            if let (Some(Request::Mkdir(_)), Reply::Entry(entry)) = (request, &*reply) {
                state.errands.deputy.made_elsewhere(entry.ino, now);
            }
            state.errands.deputy.correct(reply, now);
        }
    }

    /// Puts what the images know into an answer of the lease cache: what a server leased it said without what is queued.
    pub(crate) fn correct_by_images(&self, reply: &mut Reply) {
        if self.grants.is_on() {
            let state = self.grants.state();
            state.errands.deputy.correct(reply, boottime::now());
        }
    }

    /// Waits until so many operations of the shard's queue have ended.
    fn drain(&self, shard: ShardId, until: u64) -> Result<()> {
        cancellation::about_to_wait();
        let begun = Instant::now();
        let mut state = self.grants.state();
        state.errands.waits();
        self.grants.wake_senders();
        let mut done = Ok(());
        while !state.errands.deputy.has_ended(shard, until) {
            let waited = self.grants.ended.wait_timeout(state, DRAIN_LOOK_INTERVAL);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if state.stopped || !cancellation::may_wait(begun.elapsed()) {
                done = Err(ClientError::Abandoned);
                break;
            }
        }
        state.errands.has_waited();
        done
    }

    /// Waits until what is queued of the inode has ended.
    ///
    /// # Errors
    /// `Abandoned` if the caller does not want to wait any longer.
    pub(crate) fn settle(&self, ino: Ino) -> Result<()> {
        if !self.grants.is_on() {
            return Ok(());
        }
        let left = self.grants.state().errands.deputy.queued_of(ino);
        left.map_or(Ok(()), |(shard, until)| self.drain(shard, until))
    }

    /// Sends what is queued for these shards.
    pub(crate) fn settle_shards(&self, shards: &[ShardId]) {
        if !self.grants.is_on() {
            return;
        }
        let mut left = self.grants.state().errands.deputy.all_queued();
        left.retain(|(shard, _)| shards.contains(shard));
        for (shard, until) in left {
            // It ends early only when the session does.
            let _ = self.drain(shard, until);
        }
    }

    /// Sends all that is queued, for the end of the session.
    pub(crate) fn settle_all(&self) {
        if !self.grants.is_on() {
            return;
        }
        let left = self.grants.state().errands.deputy.all_queued();
        for (shard, until) in left {
            // A failure to send is told where it happens.
            let _ = cancellation::suppressed(|| self.drain(shard, until));
        }
    }

    /// Tells the shard of files that were opened under grants, as far as it has these files: from now on others may take
    /// their names.
    fn tell_opens(&self, shard: ShardId) -> Result<()> {
        let mut untold = self.opens.untold(shard);
        {
            let state = self.grants.state();
            untold.retain(|(ino, _)| state.errands.deputy.queued_of(*ino).is_none());
        }
        let counts = untold.iter().filter_map(|&(ino, _)| {
            let (count, _) = self.opens.to_register(ino)?;
            Some((ino, count))
        });
        let opens: Vec<(Ino, u32)> = counts.collect();
        if opens.is_empty() {
            return Ok(());
        }
        let request = Request::Reopen(op::Reopen { opens });
        self.ask(&Credentials::ROOT, Target::Shard(shard), request)?;
        for (ino, times) in untold {
            self.opens.told(ino, times);
        }
        Ok(())
    }

    /// Runs an errand and tells those who wait for its end.
    fn run_errand(&self, errand: Errand) -> Result<()> {
        let Errand {
            about,
            target,
            caller,
            request,
        } = errand;
        let sent = boottime::now();
        let mut call = Call::shard(target, &caller, request);
        if matches!(about, About::Renewal(..)) {
            call = call.within(Some(Duration::ZERO));
        }
        let answer = self.run(&mut call).and_then(reply_of);
        let answer = answer.map_err(ClientError::from);
        let told = match &answer {
            Ok(reply) => Some(Ok(reply.clone())),
            Err(ClientError::Fs(error)) => Some(Err(*error)),
            Err(_) => None,
        };
        if let (About::Batch(shard) | About::Alone(shard), Err(error)) = (about, &answer) {
            tracing::error!("shard {shard} did not do what was answered early: {error}");
        }
        let mut state = self.grants.state();
        let Ended { lost, forgot } = state.errands.ended(about, sent, told, boottime::now());
        self.grants.ended.notify_all();
        drop(state);
        if matches!(about, About::Alone(_) | About::Batch(_)) {
            // Another server's queue may have waited for it.
            self.grants.wake_senders();
        }
        self.tell_lost(&lost);
        if let Some(shard) = forgot
            && let Err(error) = self.tell_opens(shard)
        {
            tracing::warn!("shard {shard} does not know what is open there: {error}");
        }
        answer.map(drop)
    }

    /// Renews grants that were used of late, and drops what is over. To be called every second.
    pub(crate) fn renew_grants(&self) {
        if !self.grants.is_on() {
            return;
        }
        let now = boottime::now();
        let due = {
            let mut state = self.grants.state();
            let needed = |shard| !self.opens.untold(shard).is_empty();
            state.errands.renewals(now, needed)
        };
        for errand in due {
            // It is tried again, until they are over.
            let _ = self.run_errand(errand);
        }
    }

    /// Directories are recalled; whether they are let go of. Their queue is sent first; unless it `waits`, nothing
    /// more is executed in them meanwhile. Answers with the keys of what is cached of them.
    pub(crate) fn recall_grants(&self, keys: &[LeaseKey], waits: bool) -> Option<Vec<LeaseKey>> {
        let dirs: Vec<Ino> = keys
            .iter()
            .filter_map(|key| match key {
                LeaseKey::Grant(dir) => Some(*dir),
                _ => None,
            })
            .collect();
        if dirs.is_empty() {
            return Some(Vec::new());
        }
        let mut state = self.grants.state();
        let is_queued = |dir: &&Ino| state.errands.deputy.queued_of(**dir).is_some();
        for dir in dirs.iter().filter(|_| !waits).filter(is_queued) {
            tracing::debug!(
                "directory {dir} is wanted by others, and has changes that were answered and are not sent"
            );
        }
        let cached = state.errands.recall(&dirs, waits, boottime::now());
        drop(state);
        if cached.is_none() {
            self.grants.wake_senders();
        }
        let cached = cached?;
        let shards: HashSet<ShardId> = keys
            .iter()
            .filter_map(|key| match key {
                LeaseKey::Grant(dir) => Some(dir.birth_shard()),
                _ => None,
            })
            .collect();
        for shard in shards {
            if let Err(error) = cancellation::suppressed(|| self.tell_opens(shard)) {
                tracing::warn!("shard {shard} does not know what is open there: {error}");
            }
        }
        Some(cached)
    }

    /// Operations that were answered have not come about: each file and directory concerned says so once.
    fn tell_lost(&self, lost: &[Lost]) {
        for lost in lost {
            tracing::error!(
                "shard {} did not do what was answered as done: {:?} ({:?})",
                lost.shard,
                lost.request,
                lost.refusal
            );
        }
        // Their locks may be held by who asks for that of the deputy.
        let mut unopened: Vec<Ino> = lost.iter().flat_map(Lost::inos).collect();
        unopened.retain(|ino| match self.opens.file(*ino) {
            Some(file) => {
                file.fail(FsError::Io.into());
                false
            }
            None => true,
        });
        if !unopened.is_empty() {
            self.grants.state().errands.lose(unopened);
        }
    }
}

/// The machine's clock; the beginning of its time where that is set to before.
fn wall_clock() -> Time {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let nanos = since.map_or(0, |since| since.as_nanos());
    Time(i64::try_from(nanos).unwrap_or(i64::MAX))
}

/// Starts the threads of servers that have none, if grants are asked for.
pub(crate) fn listen(core: &Arc<Core>) -> Result<()> {
    if !core.grants.is_on() {
        return Ok(());
    }
    let mut senders = lock(&core.grants.senders);
    for server in core.clusters.current().servers() {
        if senders.contains_key(&server.id) {
            continue;
        }
        let (weak, id) = (Arc::downgrade(core), server.id);
        let work = Arc::new(Condvar::new());
        let wakes = Arc::clone(&work);
        let run = move || send_batches(&weak, id, &wakes);
        threads::start(format!("pandofs-batches-{id}"), run)?;
        senders.insert(id, work);
    }
    Ok(())
}

impl Client {
    /// Asks for grants of directories from now on, after [`Client::take_leases`]: what is done in them is answered before
    /// servers have it, and sent within milliseconds; [`Client::fsync`] and [`Client::fsyncdir`] wait for it.
    ///
    /// # Errors
    /// `Protocol` when there are no threads.
    pub fn take_grants(&self) -> Result<()> {
        let core = &self.session.core;
        core.grants.begin();
        listen(core)
    }
}

/// Sends batches to one server until the session ends.
fn send_batches(core: &Weak<Core>, server: ServerId, work: &Condvar) {
    while let Some(core) = core.upgrade() {
        let cluster = core.clusters.current();
        let is_led = |shard| {
            let leader = cluster.leader(shard);
            leader.is_some_and(|leader| leader.id == server)
        };
        let mut state = core.grants.state();
        if state.stopped {
            return;
        }
        let now = boottime::now();
        let pause = match state.errands.next(now, is_led) {
            Next::Now(errand) => {
                drop(state);
                if let Err(error) = core.run_errand(errand) {
                    tracing::debug!("server {server} did not do what it was asked: {error}");
                }
                continue;
            }
            Next::At(due) => due.saturating_duration_since(now),
            Next::Nothing => DRAIN_LOOK_INTERVAL,
        };
        let waited = work.wait_timeout(state, pause);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}
