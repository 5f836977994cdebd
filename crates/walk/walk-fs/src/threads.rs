//! The transport between threads of one process.
//!
//! A thread with an event for a rank lets it step (`scheduler.rs`). So a thief is answered by the
//! thief's own thread, while the victim's goes on with its item. Workers without an item sleep
//! until there is one.

use crate::claims::Claim;
use crate::descriptors::Descriptors;
use crate::dir::{Dir, DirState, Origin, Unreadable};
use crate::options::Options;
use crate::saved;
use crate::scheduler::{End, Scheduler, State};
use crate::slice::{self, Item};
use crate::visit::Visitor;
use crate::work::{Desk, Worker};
use pandofs_walk::{Event, Failure, RankId};
use rustix::fs::FileType;
use std::collections::VecDeque;
use std::ffi::{CString, OsString};
use std::io::{self, Read, Seek};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread::ScopedJoinHandle;
use std::time::Instant;

/// Why a walk is not complete.
#[derive(Debug, thiserror::Error)]
pub enum WalkError {
    /// No path that the system takes.
    #[error("the root has a NUL in its name")]
    Root,
    /// The disk of the spill directory is full, or failed.
    #[error("items that do not fit in memory cannot be kept in a file: {0}")]
    Spill(#[source] io::Error),
    /// A limit of the system is reached.
    #[error("a thread cannot be started: {0}")]
    Thread(#[source] io::Error),
    /// A rank is lost.
    #[error(transparent)]
    Failed(Failure),
    /// Bytes of another process make no message.
    #[error(transparent)]
    Unreadable(Unreadable),
    /// The reader is gone, or the disk is full.
    #[error("output cannot be written: {0}")]
    Output(#[source] io::Error),
    /// The file, or its disk.
    #[error("a checkpoint cannot be read or written: {0}")]
    Checkpoint(#[source] io::Error),
}

/// A walk that came to its end, or was stopped by a visitor or through its meter. Entries that
/// could not be looked at do not keep it from its end: see [`crate::Meter::problems`].
#[derive(Debug)]
pub struct Walked<V: Visitor> {
    /// One for each thread, in the order of their numbers.
    pub visitors: Vec<V>,
    /// The directory that all roots are in: the holder of entries that are roots.
    pub top: Arc<Dir<V::Dir>>,
}

/// Shows every entry below the roots, and the roots, to a visitor. `make` is called for each thread
/// with its number.
///
/// # Errors
/// When some entries were not visited for another reason than that they could not be read.
///
/// # Panics
/// When a visitor panics; when several workers are to share the queue of a rank whose algorithm has
/// none to share.
pub fn walk<V: Visitor>(
    roots: &[OsString],
    options: &Options,
    mut make: impl FnMut(usize) -> V,
) -> Result<Walked<V>, WalkError> {
    begin(options, &mut make, |_| {
        let top = Dir::top();
        let items = vec![first(&top, roots)?];
        Ok((top, items))
    })
}

/// Goes on with what a walk has [saved](crate::Saved) when it was interrupted: entries that it has
/// not shown. It is read from where the file is to its end.
///
/// # Errors
/// As [`walk`]; and when the file holds something else.
///
/// # Panics
/// As [`walk`].
pub fn go_on<V: Visitor>(
    saved: &mut (impl Read + Seek + ?Sized),
    options: &Options,
    mut make: impl FnMut(usize) -> V,
) -> Result<Walked<V>, WalkError> {
    begin(options, &mut make, |scheduler| {
        saved::load(saved, options.spill_chunk, |items| {
            scheduler.keep(RankId::ROOT, items)
        })
    })
}

/// `fill` gives what all roots are in, and the first items; it may keep others before.
fn begin<V: Visitor>(
    options: &Options,
    make: &mut impl FnMut(usize) -> V,
    fill: impl FnOnce(&Scheduler<'_, V::Dir>) -> Result<saved::Loaded<V::Dir>, WalkError>,
) -> Result<Walked<V>, WalkError> {
    let scheduler = Scheduler::alone(options);
    let (top, mut items) = fill(&scheduler)?;
    for rank in scheduler.here() {
        let roots = std::mem::take(&mut items);
        scheduler.deliver(rank, Event::Start { roots });
    }
    let visitors = run(&scheduler, options, make, |_| Ok(()))?;
    scheduler.outcome()?;
    Ok(Walked { visitors, top })
}

/// The first item of a walk.
pub(crate) fn first<D: DirState>(
    top: &Arc<Dir<D>>,
    roots: &[OsString],
) -> Result<Item<D>, WalkError> {
    let mut slice = Vec::new();
    for root in roots {
        let name = CString::new(root.as_bytes()).map_err(|_| WalkError::Root)?;
        slice::push(&mut slice, FileType::Unknown, 0, &name);
    }
    Ok(Item::Slice(Arc::clone(top), slice.into_boxed_slice()))
}

/// Lets the workers of all ranks of this process work. `meanwhile` gets whether all of them have
/// ended.
pub(crate) fn run<V: Visitor>(
    scheduler: &Scheduler<'_, V::Dir>,
    options: &Options,
    make: &mut impl FnMut(usize) -> V,
    meanwhile: impl FnOnce(&dyn Fn() -> bool) -> Result<(), WalkError>,
) -> Result<Vec<V>, WalkError> {
    let descriptors = Descriptors::new(options);
    let descriptors = &descriptors;
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for rank in scheduler.here() {
            for worker in 0..options.workers {
                let visitor = make(threads.len());
                let desk = RankDesk {
                    scheduler,
                    rank,
                    worker,
                };
                let thread = std::thread::Builder::new()
                    .name(format!("walk-{}-{worker}", rank.0))
                    .spawn_scoped(scope, move || {
                        desk.work(Worker::new(options, descriptors, visitor))
                    });
                match thread {
                    Ok(thread) => threads.push(thread),
                    Err(error) => {
                        scheduler.end(End::Broken);
                        return Err(WalkError::Thread(error));
                    }
                }
            }
        }
        // If `meanwhile` panics: the scope waits for workers, and they for what no longer comes.
        let _guard = Guard(scheduler);
        let spoken = meanwhile(&|| threads.iter().all(ScopedJoinHandle::is_finished));
        if spoken.is_err() {
            scheduler.end(End::Broken);
        }
        let mut visitors = Vec::new();
        for thread in threads {
            match thread.join() {
                Ok(visitor) => visitors.push(visitor),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        spoken.map(|()| visitors)
    })
}

/// One worker's view of its rank.
struct RankDesk<'d, D: DirState> {
    scheduler: &'d Scheduler<'d, D>,
    rank: RankId,
    worker: u32,
}

impl<D: DirState> Desk<D> for RankDesk<'_, D> {
    fn wanted(&self) -> usize {
        self.scheduler
            .shared(self.rank)
            .wanted
            .load(Ordering::Relaxed)
    }

    fn hand_over(&mut self, items: Vec<Item<D>>) {
        if !items.is_empty() {
            let (worker, children) = (self.worker, items);
            self.scheduler
                .deliver(self.rank, Event::Found { worker, children });
        }
    }

    fn claim(&mut self, claims: Vec<Claim<D>>) {
        self.scheduler.claim(self.rank, claims);
    }

    fn give_back(&mut self, origin: Origin, gathered: Vec<u8>, unfinished: bool) {
        self.scheduler.give_back(origin, &gathered, unfinished);
    }
}

/// Job of a worker.
enum Job<D> {
    Item(Item<D>),
    /// Parts of a directory that another process had are done.
    Returned(Arc<Dir<D>>, usize),
}

fn take_job<D>(state: &mut State<D>, worker: usize) -> Option<Job<D>> {
    if let Some((dir, parts)) = state.returned.pop() {
        return Some(Job::Returned(dir, parts));
    }
    state.desks[worker].item.take().map(Job::Item)
}

impl<D: DirState> RankDesk<'_, D> {
    /// Does items until the walk ends.
    fn work<V: Visitor<Dir = D>>(mut self, mut worker: Worker<'_, V>) -> V {
        let guard = Guard(self.scheduler);
        let mut next = self.wait(&mut worker);
        while let Some(job) = next {
            next = match job {
                Job::Item(item) => {
                    let children = worker.run(item, &mut self);
                    self.done(children)
                }
                Job::Returned(dir, parts) => {
                    worker.parts_done(dir, parts, &mut self);
                    None
                }
            };
            if next.is_none() {
                next = self.wait(&mut worker);
            }
        }
        drop(guard);
        worker.into_visitor()
    }

    /// Tells that the item is done, and takes the next one if it is there at once.
    fn done(&self, children: Vec<Item<D>>) -> Option<Job<D>> {
        let worker = self.worker;
        let event = Event::Done { worker, children };
        let mut mail = VecDeque::new();
        let next = {
            let mut state = self.scheduler.shared(self.rank).lock();
            self.scheduler.step(self.rank, &mut state, event, &mut mail);
            if state.is_over() {
                None
            } else {
                take_job(&mut state, worker as usize)
            }
        };
        while let Some((rank, event)) = mail.pop_front() {
            self.scheduler.deliver(rank, event);
        }
        next
    }

    /// Sleeps until there is an item. None when the walk has ended.
    fn wait<V: Visitor<Dir = D>>(&self, worker: &mut Worker<'_, V>) -> Option<Job<D>> {
        worker.rest();
        let shared = self.scheduler.shared(self.rank);
        let (me, bell) = (self.worker as usize, &shared.bells[self.worker as usize]);
        let mut state = shared.lock();
        loop {
            if state.is_over() {
                return None;
            }
            if let Some(job) = take_job(&mut state, me) {
                return Some(job);
            }
            let now = Instant::now();
            match state.wake_at {
                Some(at) if at <= now => {
                    state.wake_at = None;
                    drop(state);
                    self.scheduler.deliver(self.rank, Event::Woken);
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

/// Ends the walk when its thread panics, the others would wait for its items for ever; and tells
/// that its thread ends.
struct Guard<'g, D: DirState>(&'g Scheduler<'g, D>);

impl<D: DirState> Drop for Guard<'_, D> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.end(End::Broken);
        }
        self.0.worker_ended();
    }
}

/// Everything that threads share can be shared.
const _: fn() = || {
    fn shareable<T: Send + Sync>() {}
    shareable::<Arc<Dir<()>>>();
};
