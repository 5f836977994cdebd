//! The transport between threads of one process.
//!
//! Each rank is behind a lock; whoever has something to tell it, a worker of its own or another rank's, takes
//! the lock, lets it step, and carries out what it wants. So a thief is answered by the thief's own thread,
//! while the victim's goes on with its item. Messages leave after the lock is let go, one after the other:
//! two locks are never held at once. Workers without an item sleep until there is one.

use crate::descriptors::Descriptors;
use crate::dir::{Dir, DirState};
use crate::options::Options;
use crate::slice::{self, Item};
use crate::spill::Spill;
use crate::visit::Visitor;
use crate::work::{Desk, Worker};
use pandofs_walk::{Command, Config, Event, Failure, Rank, RankId, Topology};
use rustix::fs::FileType;
use std::collections::VecDeque;
use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Why a walk is not complete.
#[derive(Debug, thiserror::Error)]
pub enum WalkError {
    #[error("the root has a NUL in its name")]
    Root,
    #[error("items that do not fit in memory cannot be kept in a file: {0}")]
    Spill(#[source] io::Error),
    #[error("a thread cannot be started: {0}")]
    Thread(#[source] io::Error),
    #[error(transparent)]
    Failed(Failure),
}

/// A walk that came to its end, or was stopped by a visitor or through its meter. Entries that could not be
/// looked at do not keep it from its end: see [`crate::Meter::problems`].
#[derive(Debug)]
pub struct Walked<V> {
    /// One for each thread, in the order of their numbers.
    pub visitors: Vec<V>,
}

/// Shows every entry below the roots, and the roots, to a visitor. `make` is called for each thread with
/// its number.
///
/// # Errors
/// When some entries were not visited for another reason than that they could not be read.
///
/// # Panics
/// When a visitor panics; when several workers are to share the queue of a rank whose algorithm has none
/// to share.
pub fn walk<V: Visitor>(
    roots: &[OsString],
    options: &Options,
    mut make: impl FnMut(usize) -> V,
) -> Result<Walked<V>, WalkError> {
    let mut slice = Vec::new();
    for root in roots {
        let name = CString::new(root.as_bytes()).map_err(|_| WalkError::Root)?;
        slice::push(&mut slice, FileType::Unknown, 0, &name);
    }
    let floor = Floor::new(options);
    let mut items = vec![Item::Slice(Dir::top(), slice.into_boxed_slice())];
    for rank in 0..options.ranks {
        let roots = std::mem::take(&mut items);
        floor.deliver(RankId(rank), Event::Start { roots });
    }
    let visitors = run(&floor, options, &mut make)?;
    floor.outcome()?;
    Ok(Walked { visitors })
}

fn run<V: Visitor>(
    floor: &Floor<'_, V::Dir>,
    options: &Options,
    make: &mut impl FnMut(usize) -> V,
) -> Result<Vec<V>, WalkError> {
    let descriptors = Descriptors::new(options);
    let descriptors = &descriptors;
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for rank in 0..options.ranks {
            for worker in 0..options.workers {
                let visitor = make(threads.len());
                let desk = RankDesk {
                    floor,
                    rank: RankId(rank),
                    worker,
                };
                let thread = std::thread::Builder::new()
                    .name(format!("walk-{rank}-{worker}"))
                    .spawn_scoped(scope, move || {
                        desk.work(Worker::new(options, descriptors, visitor))
                    });
                match thread {
                    Ok(thread) => threads.push(thread),
                    Err(error) => {
                        floor.end(End::Broken);
                        return Err(WalkError::Thread(error));
                    }
                }
            }
        }
        let mut visitors = Vec::new();
        for thread in threads {
            match thread.join() {
                Ok(visitor) => visitors.push(visitor),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(visitors)
    })
}

/// Where all ranks are.
struct Floor<'f, D> {
    options: &'f Options,
    ranks: Vec<Shared<D>>,
}

/// One rank and its workers.
struct Shared<D> {
    state: Mutex<State<D>>,
    /// One for each worker.
    bells: Vec<Condvar>,
    /// Looked at without the lock.
    short_of_work: AtomicBool,
}

struct State<D> {
    machine: Rank<Item<D>>,
    desks: Vec<DeskState<D>>,
    /// When it wants to be woken.
    wake_at: Option<Instant>,
    spill: Spill<D>,
    end: Option<End>,
    commands: Vec<Command<Item<D>>>,
}

struct DeskState<D> {
    item: Option<Item<D>>,
    asleep: bool,
}

enum End {
    Finished,
    Failed(Failure),
    Spill(io::Error),
    /// A thread has died, which its panic tells of.
    Broken,
}

impl<'f, D: DirState> Floor<'f, D> {
    fn new(options: &'f Options) -> Floor<'f, D> {
        let topology = Topology::one_host(options.ranks);
        let config = Config {
            algorithm: options.algorithm,
            workers: options.workers,
            seed: options.seed,
            spill_above: options.spill_above,
            spill_chunk: options.spill_chunk,
        };
        let shared = |me| Shared {
            state: Mutex::new(State {
                machine: Rank::new(&config, &topology, me),
                desks: (0..options.workers)
                    .map(|_| DeskState {
                        item: None,
                        asleep: false,
                    })
                    .collect(),
                wake_at: None,
                spill: Spill::new(),
                end: None,
                commands: Vec::new(),
            }),
            bells: (0..options.workers).map(|_| Condvar::new()).collect(),
            short_of_work: AtomicBool::new(false),
        };
        Floor {
            options,
            ranks: (0..options.ranks).map(RankId).map(shared).collect(),
        }
    }

    /// Tells a rank of an event, carries out what it wants, tells others what it tells them, and so on.
    fn deliver(&self, rank: RankId, event: Event<Item<D>>) {
        let mut mail = VecDeque::new();
        mail.push_back((rank, event));
        while let Some((rank, event)) = mail.pop_front() {
            let shared = &self.ranks[rank.0 as usize];
            let mut state = shared.lock();
            self.step(rank, &mut state, event, &mut mail);
        }
    }

    fn step(
        &self,
        me: RankId,
        state: &mut State<D>,
        event: Event<Item<D>>,
        mail: &mut VecDeque<(RankId, Event<Item<D>>)>,
    ) {
        if state.end.is_some() {
            return;
        }
        let shared = &self.ranks[me.0 as usize];
        let mut commands = std::mem::take(&mut state.commands);
        state.machine.step(event, &mut commands);
        for command in commands.drain(..) {
            match command {
                Command::Send { to, message } => {
                    mail.push_back((to, Event::Message { from: me, message }));
                }
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
            // The items of this rank are lost, and nobody else knows.
            for other in (0..self.options.ranks).map(RankId).filter(|it| *it != me) {
                mail.push_back((other, Event::Died { rank: me }));
            }
        }
        let short = state.machine.is_short_of_work();
        shared.short_of_work.store(short, Ordering::Relaxed);
        self.options.meter.set_queued(state.machine.queued());
    }

    /// Ends it for all ranks.
    fn end(&self, end: End) {
        let mut end = Some(end);
        for shared in &self.ranks {
            let mut state = shared.lock();
            shared.end(&mut state, end.take().unwrap_or(End::Broken));
        }
    }

    /// How it ended.
    fn outcome(self) -> Result<(), WalkError> {
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
    fn lock(&self) -> MutexGuard<'_, State<D>> {
        // A thread that panics ends the walk (`Guard`); what it leaves behind is not used.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, state: &mut State<D>, end: End) {
        state.end.get_or_insert(end);
        for bell in &self.bells {
            bell.notify_one();
        }
    }
}

/// One worker's view of its rank.
struct RankDesk<'d, D: DirState> {
    floor: &'d Floor<'d, D>,
    rank: RankId,
    worker: u32,
}

impl<D: DirState> Desk<D> for RankDesk<'_, D> {
    fn is_short_of_work(&self) -> bool {
        let shared = &self.floor.ranks[self.rank.0 as usize];
        shared.short_of_work.load(Ordering::Relaxed)
    }

    fn hand_over(&mut self, items: Vec<Item<D>>) {
        if !items.is_empty() {
            let (worker, children) = (self.worker, items);
            self.floor
                .deliver(self.rank, Event::Found { worker, children });
        }
    }
}

impl<D: DirState> RankDesk<'_, D> {
    /// Does items until the walk ends.
    fn work<V: Visitor<Dir = D>>(mut self, mut worker: Worker<'_, V>) -> V {
        let guard = Guard(self.floor);
        let mut next = self.wait(&mut worker);
        while let Some(item) = next {
            let children = worker.run(item, &mut self);
            next = self.done(children);
            if next.is_none() {
                next = self.wait(&mut worker);
            }
        }
        drop(guard);
        worker.into_visitor()
    }

    /// Tells that the item is done, and takes the next one if it is there at once.
    fn done(&self, children: Vec<Item<D>>) -> Option<Item<D>> {
        let worker = self.worker;
        let event = Event::Done { worker, children };
        let mut mail = VecDeque::new();
        let next = {
            let mut state = self.floor.ranks[self.rank.0 as usize].lock();
            self.floor.step(self.rank, &mut state, event, &mut mail);
            if state.end.is_some() {
                None
            } else {
                state.desks[worker as usize].item.take()
            }
        };
        while let Some((rank, event)) = mail.pop_front() {
            self.floor.deliver(rank, event);
        }
        next
    }

    /// Sleeps until there is an item. None when the walk has ended.
    fn wait<V: Visitor<Dir = D>>(&self, worker: &mut Worker<'_, V>) -> Option<Item<D>> {
        worker.rest();
        let shared = &self.floor.ranks[self.rank.0 as usize];
        let (me, bell) = (self.worker as usize, &shared.bells[self.worker as usize]);
        let mut state = shared.lock();
        loop {
            if state.end.is_some() {
                return None;
            }
            if let Some(item) = state.desks[me].item.take() {
                return Some(item);
            }
            let now = Instant::now();
            match state.wake_at {
                Some(at) if at <= now => {
                    state.wake_at = None;
                    drop(state);
                    self.floor.deliver(self.rank, Event::Woken);
                    state = shared.lock();
                }
                wake_at => {
                    state.desks[me].asleep = true;
                    state = match wake_at {
                        Some(at) => {
                            let woken = bell.wait_timeout(state, at - now);
                            woken.unwrap_or_else(PoisonError::into_inner).0
                        }
                        None => bell.wait(state).unwrap_or_else(PoisonError::into_inner),
                    };
                    state.desks[me].asleep = false;
                }
            }
        }
    }
}

/// Ends the walk when its thread panics: the others would wait for its items for ever.
struct Guard<'g, D: DirState>(&'g Floor<'g, D>);

impl<D: DirState> Drop for Guard<'_, D> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.end(End::Broken);
        }
    }
}

/// Everything that threads share can be shared.
const _: fn() = || {
    fn shareable<T: Send + Sync>() {}
    shareable::<Arc<Dir<()>>>();
};
