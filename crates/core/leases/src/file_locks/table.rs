//! The locks of many files, and who waits for them.

use crate::file_locks::file::{FileLocks, Owner};
use hashbrown::{HashMap, HashSet};
use pandofs_types::limits::{
    LOCK_PLACE_KEPT, MAX_DEADLOCK_OWNERS, MAX_LOCKS_PER_INODE, MAX_LOCKS_PER_SHARD,
    MAX_WAITING_LOCKS,
};
use pandofs_types::{FileLock, Ino, LockKind, LockRange, SessionId, SlotId, Steady};
use std::collections::{BTreeMap, BTreeSet};

/// A request for a lock, the same when it is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WaitId {
    /// The session that asks.
    pub session: SessionId,
    /// One wait at a time is under way on it.
    pub slot: SlotId,
    /// Of the request on the slot.
    pub sequence: u64,
}

/// Somebody asks for a lock. `T` is where the answer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked<T> {
    /// A request that is repeated takes the place of the one before.
    pub id: WaitId,
    /// The lock that it wants.
    pub lock: FileLock,
    /// Comes back with the answer.
    pub ticket: T,
    /// It waits if the lock is somebody else's.
    pub blocking: bool,
    /// It is never kept: where it would have to wait, although it does not want to, it is told so.
    pub at_once: bool,
    /// When it is to be told that it has to wait longer; or, if it does not want to wait, that the lock is
    /// somebody else's.
    pub until: Steady,
}

/// Answer to a request for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The owner has the lock.
    Granted,
    /// Somebody has a lock that is in the way.
    Busy,
    /// Its ticket comes back with an [`Event`].
    Parked,
    /// It has to ask again without `at_once`.
    NotYet,
    /// It would close a circle of owners that wait for one another.
    Deadlock,
    /// There are too many locks, or too many wait.
    Full,
}

/// Outcome for one that waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<T> {
    /// It is over: `Granted`, `Busy` or `Full`.
    Over {
        /// The request that waited.
        id: WaitId,
        /// As it was given with the request.
        ticket: T,
        /// How it ended.
        outcome: Outcome,
    },
    /// It has to ask again to go on waiting; its place is kept.
    NotYet {
        /// As it was given with the request.
        ticket: T,
    },
    /// The same request came again, or its session is gone: nobody waits for this answer.
    Dropped {
        /// As it was given with the request.
        ticket: T,
    },
}

#[derive(Clone, Copy, Debug)]
struct Waiter<T> {
    id: WaitId,
    lock: FileLock,
    blocking: bool,
    /// None while it is to ask again.
    ticket: Option<T>,
    until: Steady,
}

impl<T> Waiter<T> {
    fn owner(&self) -> Owner {
        Owner {
            session: self.id.session,
            number: self.lock.owner,
        }
    }
}

fn owner_of<T>(asked: &Asked<T>) -> Owner {
    Owner {
        session: asked.id.session,
        number: asked.lock.owner,
    }
}

#[derive(Debug)]
struct File<T> {
    locks: FileLocks,
    /// In the order in which they came.
    waiting: Vec<Waiter<T>>,
}

/// See the crate.
#[derive(Debug)]
pub struct LockTable<T> {
    files: HashMap<Ino, File<T>>,
    /// Files that somebody waits for.
    awaited: BTreeSet<Ino>,
    /// Owners that may be about to unlock a file, and until when they are waited for.
    closing: BTreeMap<Ino, BTreeMap<(LockKind, Owner), Steady>>,
    /// For which files each owner waits, once for each wait.
    waits: HashMap<Owner, Vec<Ino>>,
    held: usize,
    waiting: usize,
    /// Nothing is given to anybody.
    hold: bool,
    events: Vec<Event<T>>,
}

impl<T> Default for LockTable<T> {
    fn default() -> LockTable<T> {
        LockTable {
            files: HashMap::new(),
            awaited: BTreeSet::new(),
            closing: BTreeMap::new(),
            waits: HashMap::new(),
            held: 0,
            waiting: 0,
            hold: false,
            events: Vec::new(),
        }
    }
}

/// Whether a file with `count` ranges of the `held` on a shard may have this many more.
fn has_room(count: usize, held: usize, more: usize) -> bool {
    count + more <= MAX_LOCKS_PER_INODE && held + more <= MAX_LOCKS_PER_SHARD
}

impl<T: Copy> LockTable<T> {
    /// Locked ranges.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Requests that wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Outcomes for those that waited, since this was last called.
    pub fn take_events(&mut self) -> Vec<Event<T>> {
        std::mem::take(&mut self.events)
    }

    /// From now on nothing is given to anybody, and all that ask wait, also those that do not want to; or
    /// that is over, and [`LockTable::awaited`] are to be looked at by [`LockTable::wake`].
    pub fn hold(&mut self, hold: bool) {
        self.hold = hold;
    }

    /// Asks for a lock. A request that waits already keeps its place.
    pub fn ask(&mut self, ino: Ino, asked: Asked<T>) -> Outcome {
        let place = self.take_waiter(ino, asked.id);
        // It is in use.
        self.not_closing(ino, |of| *of == (asked.lock.kind, owner_of(&asked)));
        let outcome = if self.hold {
            Outcome::Parked
        } else {
            self.give(ino, &asked)
        };
        let outcome = match outcome {
            Outcome::Parked if asked.at_once && !asked.blocking => Outcome::NotYet,
            outcome => outcome,
        };
        if outcome != Outcome::Parked {
            self.forget_if_unused(ino);
            return outcome;
        }
        if self.waiting >= MAX_WAITING_LOCKS {
            self.forget_if_unused(ino);
            return Outcome::Full;
        }
        let waiter = Waiter {
            id: asked.id,
            lock: asked.lock,
            blocking: asked.blocking,
            ticket: Some(asked.ticket),
            until: asked.until,
        };
        self.waits.entry(waiter.owner()).or_default().push(ino);
        let file = self.file(ino);
        let place = place.unwrap_or(file.waiting.len()).min(file.waiting.len());
        file.waiting.insert(place, waiter);
        self.awaited.insert(ino);
        self.waiting += 1;
        Outcome::Parked
    }

    /// Gives the lock if nothing is in the way; `Parked` if it is to wait.
    fn give(&mut self, ino: Ino, asked: &Asked<T>) -> Outcome {
        let lock = &asked.lock;
        let owner = owner_of(asked);
        if self.conflicts(ino, owner, lock) && lock.kind == LockKind::Flock {
            self.unlock(ino, owner, lock.kind, LockRange::WHOLE);
        }
        if !self.conflicts(ino, owner, lock) {
            let outcome = self.set(ino, owner, lock);
            // It may have had more before.
            self.wake(ino);
            return outcome;
        }
        if !asked.blocking && self.may_be_unlocked(ino, owner, lock) {
            Outcome::Parked
        } else if !asked.blocking {
            Outcome::Busy
        } else if lock.kind == LockKind::Record && self.closes_circle(ino, owner, lock) {
            Outcome::Deadlock
        } else {
            Outcome::Parked
        }
    }

    fn set(&mut self, ino: Ino, owner: Owner, lock: &FileLock) -> Outcome {
        let held = self.held;
        let file = self.file(ino);
        let before = file.locks.count();
        // One that takes the middle out of another one makes three of it.
        if !has_room(before, held, 2) {
            let mut with_it = file.locks.clone();
            with_it.set(owner, lock);
            let more = with_it.count().saturating_sub(before);
            if more > 0 && !has_room(before, held, more) {
                return Outcome::Full;
            }
        }
        file.locks.set(owner, lock);
        let now = file.locks.count();
        self.held = held + now - before;
        Outcome::Granted
    }

    fn file(&mut self, ino: Ino) -> &mut File<T> {
        self.files.entry(ino).or_insert_with(|| File {
            locks: FileLocks::default(),
            waiting: Vec::new(),
        })
    }

    fn conflicts(&self, ino: Ino, owner: Owner, lock: &FileLock) -> bool {
        self.conflict(ino, owner, lock).is_some()
    }

    /// A lock of somebody else that is in the way of this one.
    pub fn conflict(&self, ino: Ino, owner: Owner, lock: &FileLock) -> Option<FileLock> {
        let file = self.files.get(&ino)?;
        file.locks.conflict(owner, lock).map(|(_, found)| found)
    }

    /// The session of somebody else whose lock is in the way of this one.
    pub fn in_the_way(&self, ino: Ino, owner: Owner, lock: &FileLock) -> Option<SessionId> {
        let found = self.files.get(&ino)?.locks.conflict(owner, lock);
        found.map(|(of, _)| of.session)
    }

    /// Whether the owner has all of this lock, or a stronger one.
    pub fn holds(&self, ino: Ino, owner: Owner, lock: &FileLock) -> bool {
        self.files
            .get(&ino)
            .is_some_and(|file| file.locks.holds(owner, lock))
    }

    /// Takes a lock over from elsewhere. False if somebody's is in the way.
    pub fn adopt(&mut self, ino: Ino, owner: Owner, lock: &FileLock) -> bool {
        if self.conflicts(ino, owner, lock) {
            return false;
        }
        let file = self.file(ino);
        let before = file.locks.count();
        file.locks.set(owner, lock);
        let now = file.locks.count();
        self.held = self.held + now - before;
        true
    }

    /// Unlocks what the owner has of the range, and gives it to those who wait. False, and nothing is done, when that
    /// would take the middle out of one lock and there are too many: of a file locked whole, unlocking every other byte
    /// makes as many as it has bytes.
    pub fn unlock(&mut self, ino: Ino, owner: Owner, kind: LockKind, range: LockRange) -> bool {
        let Some(file) = self.files.get_mut(&ino) else {
            return true;
        };
        let before = file.locks.count();
        let splits = file.locks.split_by(owner, kind, range).is_some();
        if splits && !has_room(before, self.held, 1) {
            return false;
        }
        let cleared = file.locks.clear(owner, kind, range);
        let now = file.locks.count();
        self.held = self.held + now - before;
        if cleared {
            self.wake(ino);
        }
        self.forget_if_unused(ino);
        true
    }

    /// These owners may be about to unlock the file: one of the descriptors through which they locked was
    /// closed, and until `until` it is not known whether it was the last one.
    pub fn closing(
        &mut self,
        ino: Ino,
        owners: impl Iterator<Item = (LockKind, Owner)>,
        until: Steady,
    ) {
        let Some(file) = self.files.get(&ino) else {
            return;
        };
        for of in owners.filter(|&(kind, owner)| file.locks.has(kind, owner)) {
            self.closing.entry(ino).or_default().insert(of, until);
        }
    }

    fn not_closing(&mut self, ino: Ino, which: impl Fn(&(LockKind, Owner)) -> bool) {
        if let Some(closing) = self.closing.get_mut(&ino) {
            closing.retain(|of, _| !which(of));
            if closing.is_empty() {
                self.closing.remove(&ino);
            }
        }
    }

    /// Whether all who are in the way of this lock may be about to unlock.
    fn may_be_unlocked(&self, ino: Ino, owner: Owner, lock: &FileLock) -> bool {
        self.closing.get(&ino).is_some_and(|closing| {
            self.files.get(&ino).is_some_and(|file| {
                let mut blockers = file.locks.blockers(owner, lock);
                blockers.all(|other| closing.contains_key(&(lock.kind, other)))
            })
        })
    }

    /// Gives locks to those who wait for this file, as far as nothing is in the way. An owner that does
    /// not want to wait is told.
    pub fn wake(&mut self, ino: Ino) {
        let mut from = 0;
        while !self.hold
            && let Some(waiter) = self
                .files
                .get(&ino)
                .and_then(|file| file.waiting.get(from))
                .copied()
        {
            let free = !self.conflicts(ino, waiter.owner(), &waiter.lock);
            let waits = waiter.blocking || self.may_be_unlocked(ino, waiter.owner(), &waiter.lock);
            let over = waiter.ticket.filter(|_| free || !waits);
            let Some(ticket) = over else {
                from += 1;
                continue;
            };
            self.remove_waiter(ino, from);
            let outcome = match free {
                true => self.set(ino, waiter.owner(), &waiter.lock),
                false => Outcome::Busy,
            };
            let id = waiter.id;
            self.events.push(Event::Over {
                id,
                ticket,
                outcome,
            });
            if outcome == Outcome::Granted {
                // It may have had more before: somebody in front may go on.
                from = 0;
            }
        }
        self.forget_if_unused(ino);
    }

    /// Files that somebody waits for.
    pub fn awaited(&self) -> Vec<Ino> {
        self.awaited.iter().copied().collect()
    }

    /// Whether there is anything for [`LockTable::tick`] to do.
    pub fn needs_ticks(&self) -> bool {
        self.waiting > 0 || !self.closing.is_empty()
    }

    /// Tells those whose time has come to ask again, and gives up the places of those who have not.
    pub fn tick(&mut self, now: Steady) {
        let passed = |closing: &BTreeMap<_, Steady>| closing.values().any(|until| *until <= now);
        let of: Vec<Ino> = self
            .closing
            .iter()
            .filter(|(_, c)| passed(c))
            .map(|(ino, _)| *ino)
            .collect();
        for ino in of {
            if let Some(closing) = self.closing.get_mut(&ino) {
                closing.retain(|_, until| *until > now);
            }
            self.not_closing(ino, |_| false);
            self.wake(ino);
        }
        for ino in self.awaited() {
            let mut at = 0;
            while let Some(waiter) = self
                .files
                .get_mut(&ino)
                .and_then(|file| file.waiting.get_mut(at))
            {
                if waiter.until > now {
                    at += 1;
                    continue;
                }
                match waiter.ticket.take() {
                    Some(ticket) if !waiter.blocking && !self.hold => {
                        let id = waiter.id;
                        let outcome = Outcome::Busy;
                        self.events.push(Event::Over {
                            id,
                            ticket,
                            outcome,
                        });
                        self.remove_waiter(ino, at);
                    }
                    Some(ticket) => {
                        waiter.until = now.after(LOCK_PLACE_KEPT);
                        self.events.push(Event::NotYet { ticket });
                        at += 1;
                    }
                    None => self.remove_waiter(ino, at),
                }
            }
            self.forget_if_unused(ino);
        }
    }

    /// Forgets all of a session. The files to be looked at by [`LockTable::wake`] are given.
    pub fn drop_session(&mut self, session: SessionId) -> Vec<Ino> {
        let mut changed = Vec::new();
        for (&ino, file) in &mut self.files {
            let before = file.locks.count();
            if file.locks.drop_session(session) {
                self.held -= before - file.locks.count();
                changed.push(ino);
            }
        }
        for ino in self.awaited() {
            let mut at = 0;
            while let Some(waiter) = self.files.get(&ino).and_then(|file| file.waiting.get(at)) {
                if waiter.id.session != session {
                    at += 1;
                    continue;
                }
                if let Some(ticket) = waiter.ticket {
                    self.events.push(Event::Dropped { ticket });
                }
                self.remove_waiter(ino, at);
            }
            self.forget_if_unused(ino);
        }
        changed.sort();
        for &ino in &changed {
            self.forget_if_unused(ino);
        }
        changed
    }

    /// Forgets a file that is elsewhere now; gives the requests that waited for it.
    pub fn take(&mut self, ino: Ino) -> Vec<T> {
        let mut tickets = Vec::new();
        while let Some(waiter) = self.files.get(&ino).and_then(|file| file.waiting.first()) {
            tickets.extend(waiter.ticket);
            self.remove_waiter(ino, 0);
        }
        self.closing.remove(&ino);
        if let Some(file) = self.files.remove(&ino) {
            self.held -= file.locks.count();
        }
        tickets
    }

    /// Locked ranges of these files.
    pub fn count<'a>(&self, inos: impl Iterator<Item = &'a Ino>) -> usize {
        inos.filter_map(|ino| self.files.get(ino))
            .map(|file| file.locks.count())
            .sum()
    }

    /// Whether anything is known of the file.
    pub fn knows(&self, ino: Ino) -> bool {
        self.files.contains_key(&ino)
    }

    /// Locks on the file, with their owners.
    pub fn of(&self, ino: Ino) -> impl Iterator<Item = (Ino, SessionId, FileLock)> {
        self.files
            .get(&ino)
            .into_iter()
            .flat_map(|file| file.locks.iter())
            .map(move |(owner, lock)| (ino, owner.session, lock))
    }

    fn take_waiter(&mut self, ino: Ino, id: WaitId) -> Option<usize> {
        let file = self.files.get(&ino)?;
        let place = file.waiting.iter().position(|waiter| waiter.id == id)?;
        if let Some(ticket) = file.waiting[place].ticket {
            self.events.push(Event::Dropped { ticket });
        }
        self.remove_waiter(ino, place);
        Some(place)
    }

    fn remove_waiter(&mut self, ino: Ino, place: usize) {
        let Some(file) = self.files.get_mut(&ino) else {
            return;
        };
        let waiter = file.waiting.remove(place);
        if file.waiting.is_empty() {
            self.awaited.remove(&ino);
        }
        self.waiting -= 1;
        let owner = waiter.owner();
        if let Some(waits) = self.waits.get_mut(&owner) {
            if let Some(at) = waits.iter().position(|&other| other == ino) {
                waits.swap_remove(at);
            }
            if waits.is_empty() {
                self.waits.remove(&owner);
            }
        }
    }

    fn forget_if_unused(&mut self, ino: Ino) {
        let unused = |file: &File<T>| file.locks.is_empty() && file.waiting.is_empty();
        if self.files.get(&ino).is_some_and(unused) {
            self.files.remove(&ino);
            self.closing.remove(&ino);
        }
    }

    /// Whether somebody whom `owner` would wait for waits for `owner`, perhaps through others.
    fn closes_circle(&self, ino: Ino, owner: Owner, lock: &FileLock) -> bool {
        let Some(file) = self.files.get(&ino) else {
            return false;
        };
        let mut seen = HashSet::new();
        let mut next: Vec<Owner> = file.locks.blockers(owner, lock).collect();
        while let Some(other) = next.pop() {
            if other == owner {
                return true;
            }
            if seen.len() >= MAX_DEADLOCK_OWNERS || !seen.insert(other) {
                continue;
            }
            for file in self.waits.get(&other).into_iter().flatten() {
                let Some(file) = self.files.get(file) else {
                    continue;
                };
                for waiter in &file.waiting {
                    // A waiter that is to ask again is looked at when it does.
                    if waiter.owner() == other
                        && waiter.ticket.is_some()
                        && waiter.lock.kind == LockKind::Record
                    {
                        next.extend(file.locks.blockers(other, &waiter.lock));
                    }
                }
            }
        }
        false
    }
}
