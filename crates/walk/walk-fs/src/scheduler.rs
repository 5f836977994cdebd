//! The ranks of one process, and what happens to them.
//!
//! Each rank is behind a lock; a thread with an event for it, a worker of its own or another
//! rank's, takes the lock, lets it step, and carries out what it wants. Messages to other ranks of
//! this process leave after the lock is let go, one after the other: two locks are never held at
//! once. Those to other processes become messages, which the thread that speaks with these sends.

use crate::claims::{self, Claim, Decided, Key, Open};
use crate::dir::{Dir, DirState, Origin, Unreadable};
use crate::message::{self, Body, Envelope, Loans};
use crate::options::Options;
use crate::slice::Item;
use crate::spill::Spill;
use crate::threads::WalkError;
use pandofs_walk::{Command, Config, Event, Failure, Message, Rank, RankId, Topology};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Scheduler of the ranks of this process.
pub(crate) struct Scheduler<'f, D> {
    options: &'f Options,
    /// The first of them.
    first: u32,
    ranks: Vec<Shared<D>>,
    /// For ranks in other processes, of which each has one.
    away: Option<Away>,
    decided: Arc<Decided>,
}

/// Letters that are to be sent.
pub(crate) struct Away {
    walk: u32,
    /// The walk that it goes on with, for what is claimed.
    since: u32,
    ranks: u32,
    outbox: Arc<Outbox>,
}

/// Queue of messages until they are sent.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    messages: Mutex<VecDeque<(RankId, Vec<u8>)>>,
    /// Rung when there are messages, or a worker has ended.
    pub bell: Condvar,
}

/// One rank and its workers.
pub(crate) struct Shared<D> {
    state: Mutex<State<D>>,
    /// One for each worker.
    pub bells: Vec<Condvar>,
    /// Items that would be of use to others. Looked at without the lock.
    pub wanted: AtomicUsize,
}

pub(crate) struct State<D> {
    machine: Rank<Item<D>>,
    pub desks: Vec<DeskState<D>>,
    /// When it wants to be woken.
    pub wake_at: Option<Instant>,
    spill: Spill<D>,
    pub end: Option<End>,
    /// Parts of directories that other processes have.
    loans: Loans<D>,
    /// Claims that other processes have not answered.
    claims: Open<D>,
    /// Parts that are done elsewhere.
    pub returned: Vec<(Arc<Dir<D>>, usize)>,
    commands: Vec<Command<Item<D>>>,
}

pub(crate) struct DeskState<D> {
    pub item: Option<Item<D>>,
    pub asleep: bool,
}

impl<D> State<D> {
    /// Returns whether its workers have nothing to do any more.
    pub(crate) fn is_over(&self) -> bool {
        match &self.end {
            None => false,
            // Directories of which others have parts are not done.
            Some(End::Finished) => {
                self.loans.is_empty() && self.returned.is_empty() && self.claims.is_empty()
            }
            Some(_) => true,
        }
    }
}

pub(crate) enum End {
    Finished,
    Failed(Failure),
    Spill(io::Error),
    /// A thread has died, which its panic tells of.
    Broken,
}

impl<'f, D: DirState> Scheduler<'f, D> {
    /// All ranks are here.
    pub(crate) fn alone(options: &'f Options) -> Scheduler<'f, D> {
        let topology = Topology::one_host(options.ranks);
        let all = 0..options.ranks;
        Scheduler::new(options, &topology, all, None, Arc::default())
    }

    /// One is here, the others in other processes.
    pub(crate) fn among(
        options: &'f Options,
        topology: &Topology,
        me: RankId,
        (walk, since): (u32, u32),
        decided: Arc<Decided>,
        outbox: Arc<Outbox>,
    ) -> Scheduler<'f, D> {
        let away = Away {
            walk,
            since,
            ranks: topology.ranks(),
            outbox,
        };
        Scheduler::new(options, topology, me.0..me.0 + 1, Some(away), decided)
    }

    fn new(
        options: &'f Options,
        topology: &Topology,
        here: Range<u32>,
        away: Option<Away>,
        decided: Arc<Decided>,
    ) -> Scheduler<'f, D> {
        let config = Config {
            algorithm: options.algorithm,
            workers: options.workers,
            seed: options.seed,
            spill_above: options.spill_above,
            spill_chunk: options.spill_chunk,
        };
        let shared = |me| Shared {
            state: Mutex::new(State {
                machine: Rank::new(&config, topology, me),
                desks: (0..options.workers)
                    .map(|_| DeskState {
                        item: None,
                        asleep: false,
                    })
                    .collect(),
                wake_at: None,
                spill: Spill::new(),
                end: None,
                loans: Loans::new(options.leaves),
                claims: Open::new(),
                returned: Vec::new(),
                commands: Vec::new(),
            }),
            bells: (0..options.workers).map(|_| Condvar::new()).collect(),
            wanted: AtomicUsize::new(0),
        };
        Scheduler {
            options,
            first: here.start,
            ranks: here.map(RankId).map(shared).collect(),
            away,
            decided,
        }
    }

    /// A rank of this process.
    pub(crate) fn shared(&self, rank: RankId) -> &Shared<D> {
        &self.ranks[(rank.0 - self.first) as usize]
    }

    fn is_here(&self, rank: RankId) -> bool {
        (self.first..self.first + self.ranks.len() as u32).contains(&rank.0)
    }

    /// All ranks of this process.
    pub(crate) fn here(&self) -> impl Iterator<Item = RankId> {
        (self.first..).take(self.ranks.len()).map(RankId)
    }

    /// Tells a rank of an event, carries out what it wants, tells others what it tells them, and so
    /// on.
    pub(crate) fn deliver(&self, rank: RankId, event: Event<Item<D>>) {
        let mut mail = VecDeque::new();
        mail.push_back((rank, event));
        while let Some((rank, event)) = mail.pop_front() {
            let mut state = self.shared(rank).lock();
            self.step(rank, &mut state, event, &mut mail);
        }
    }

    pub(crate) fn step(
        &self,
        me: RankId,
        state: &mut State<D>,
        event: Event<Item<D>>,
        mail: &mut VecDeque<(RankId, Event<Item<D>>)>,
    ) {
        if state.end.is_some() {
            return;
        }
        let shared = self.shared(me);
        let mut commands = std::mem::take(&mut state.commands);
        state.machine.step(event, &mut commands);
        for command in commands.drain(..) {
            match command {
                Command::Send { to, message } => self.send(me, to, message, state, mail),
                Command::Work { worker, item } => {
                    let desk = &mut state.desks[worker as usize];
                    assert!(desk.item.is_none(), "worker {worker} has an item");
                    desk.item = Some(item);
                    if desk.asleep {
                        shared.bells[worker as usize].notify_one();
                    }
                }
                Command::Spill { items } => {
                    if let Err(error) = state.spill.push(items, &self.options.spill_directory) {
                        shared.end(state, End::Spill(error));
                    }
                }
                Command::Refill => match state.spill.pop() {
                    Ok(items) => mail.push_back((me, Event::Refilled { items })),
                    Err(error) => shared.end(state, End::Spill(error)),
                },
                Command::GiveSpilled { to } => match state.spill.pop_first() {
                    Ok(items) => self.send(me, to, Message::Work { items }, state, mail),
                    Err(error) => shared.end(state, End::Spill(error)),
                },
                Command::Wake { after } => {
                    state.wake_at = Some(Instant::now() + after);
                    // Somebody has to look at the clock.
                    if let Some(asleep) = state.desks.iter().position(|desk| desk.asleep) {
                        shared.bells[asleep].notify_one();
                    }
                }
                Command::Finished => shared.end(state, End::Finished),
                Command::Failed(failure) => shared.end(state, End::Failed(failure)),
            }
        }
        state.commands = commands;
        if let Some(End::Spill(_)) = &state.end {
            // The items of this rank are lost, and no other rank knows. Other processes are ended
            // by the one that gets the error.
            for other in self.here().filter(|it| *it != me) {
                mail.push_back((other, Event::Died { rank: me }));
            }
        }
        let wanted = state.machine.wanted();
        shared.wanted.store(wanted, Ordering::Relaxed);
        self.options.meter.set_queued(state.machine.queued());
    }

    fn send(
        &self,
        from: RankId,
        to: RankId,
        message: Message<Item<D>>,
        state: &mut State<D>,
        mail: &mut VecDeque<(RankId, Event<Item<D>>)>,
    ) {
        if self.is_here(to) {
            mail.push_back((to, Event::Message { from, message }));
        } else if let Some(away) = &self.away {
            let envelope = message::pack(away.walk, &message, &mut state.loans);
            away.outbox.post(to, envelope);
        }
    }

    /// Keeps items of a walk that goes on outside of memory, before it begins.
    ///
    /// # Errors
    /// When they cannot be written.
    pub(crate) fn keep(&self, rank: RankId, items: Vec<Item<D>>) -> Result<(), WalkError> {
        let mut state = self.shared(rank).lock();
        let count = items.len();
        let kept = state.spill.push(items, &self.options.spill_directory);
        kept.map_err(WalkError::Spill)?;
        let mut commands = Vec::new();
        let event = Event::Spilled { items: count };
        state.machine.step(event, &mut commands);
        assert!(commands.is_empty(), "nothing begins before the start");
        Ok(())
    }

    /// Ends it for all ranks.
    pub(crate) fn end(&self, end: End) {
        let mut end = Some(end);
        for shared in &self.ranks {
            let mut state = shared.lock();
            shared.end(&mut state, end.take().unwrap_or(End::Broken));
        }
    }

    /// Parts that another process had are done.
    pub(crate) fn back(
        &self,
        loan: u64,
        place: u32,
        gathered: &[u8],
        unfinished: bool,
    ) -> Result<(), Unreadable> {
        if unfinished && self.options.saved.is_none() {
            return Err(Unreadable);
        }
        for shared in &self.ranks {
            let mut state = shared.lock();
            let (dir, parts) = state.loans.back(loan, place)?;
            dir.state().add(gathered)?;
            if unfinished {
                dir.set_unfinished();
            }
            state.returned.push((dir, parts));
            for bell in &shared.bells {
                bell.notify_one();
            }
        }
        Ok(())
    }

    /// Decides on what was claimed, or asks those who do.
    pub(crate) fn claim(&self, rank: RankId, claims: Vec<Claim<D>>) {
        let away = self.away.as_ref();
        let (walk, since, ranks) = away.map_or((0, 0, 1), |it| (it.walk, it.since, it.ranks));
        let mut asked: BTreeMap<u32, Vec<(u64, Key)>> = BTreeMap::new();
        let mut answered = Vec::new();
        let mut state = self.shared(rank).lock();
        for claim in claims {
            let decider = claims::decider(claim.key, ranks);
            if ranks == 1 || decider == rank.0 {
                let first = self.decided.is_first(since, claim.key);
                answered.push((claim, first));
            } else {
                let key = claim.key;
                let number = state.claims.add(claim);
                asked.entry(decider).or_default().push((number, key));
            }
        }
        self.shared(rank).take_answers(&mut state, answered);
        drop(state);
        if let Some(away) = &self.away {
            for (decider, claims) in asked {
                let body = Body::Claim {
                    since,
                    keys: claims,
                };
                away.outbox
                    .post(RankId(decider), message::write(&Envelope { walk, body }));
            }
        }
    }

    /// Another process has decided.
    pub(crate) fn claimed(&self, answers: Vec<(u64, bool)>) -> Result<(), Unreadable> {
        for shared in &self.ranks {
            let mut state = shared.lock();
            let mut answered = Vec::new();
            for (number, first) in &answers {
                let claim = state.claims.answered(*number).ok_or(Unreadable)?;
                answered.push((claim, *first));
            }
            shared.take_answers(&mut state, answered);
        }
        Ok(())
    }

    /// Gives back a part of another process's directory: it is done, or was written in place of
    /// that if it is unfinished.
    pub(crate) fn give_back(&self, origin: Origin, gathered: &[u8], unfinished: bool) {
        if let Some(away) = &self.away {
            let envelope = Envelope {
                walk: away.walk,
                body: Body::Back {
                    loan: origin.loan,
                    place: origin.place,
                    gathered,
                    unfinished,
                },
            };
            away.outbox.post(origin.rank, message::write(&envelope));
        }
    }

    /// A worker has ended: the thread that waits for messages may be waiting for that.
    pub(crate) fn worker_ended(&self) {
        if let Some(away) = &self.away {
            let _letters = away.outbox.lock();
            away.outbox.bell.notify_one();
        }
    }

    /// Letters to other processes; none if all ranks are here.
    pub(crate) fn outbox(&self) -> Option<&Outbox> {
        self.away.as_ref().map(|away| &*away.outbox)
    }

    /// Returns how it ended.
    pub(crate) fn outcome(self) -> Result<(), WalkError> {
        let mut failed = None;
        for shared in self.ranks {
            let state = shared.state.into_inner();
            match state.unwrap_or_else(PoisonError::into_inner).end {
                Some(End::Spill(error)) => return Err(WalkError::Spill(error)),
                Some(End::Failed(failure)) => failed = Some(failure),
                Some(End::Finished | End::Broken) | None => {}
            }
        }
        failed.map_or(Ok(()), |failure| Err(WalkError::Failed(failure)))
    }
}

impl<D> Shared<D> {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State<D>> {
        // A thread that panics ends the walk (`Guard`); what it leaves behind is not used.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_answers(&self, state: &mut State<D>, answered: Vec<(Claim<D>, bool)>)
    where
        D: DirState,
    {
        for (claim, first) in answered {
            if first {
                claim.dir.state().claimed(claim.amount);
            }
            // A worker takes it up: the directory may be left now, which is for a visitor.
            match state.returned.last_mut() {
                Some((dir, parts)) if Arc::ptr_eq(dir, &claim.dir) => *parts += 1,
                _ => state.returned.push((claim.dir, 1)),
            }
        }
        for bell in &self.bells {
            bell.notify_one();
        }
    }

    fn end(&self, state: &mut State<D>, end: End) {
        state.end.get_or_insert(end);
        for bell in &self.bells {
            bell.notify_one();
        }
    }
}

impl Outbox {
    pub(crate) fn post(&self, to: RankId, envelope: Vec<u8>) {
        self.lock().push_back((to, envelope));
        self.bell.notify_one();
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, VecDeque<(RankId, Vec<u8>)>> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
