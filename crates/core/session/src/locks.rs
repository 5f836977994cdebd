//! File locks of a session.
//!
//! They are remembered, to register them again with a restarted server: a lock that is
//! about to be given up is forgotten before the server is asked to take it back, and one that was
//! given is remembered only if the server is still the one that gave it, so that registrations are
//! never more than what the server gave.
//! Of a lock that a server has given to others the open files are known through which it was made.

use hashbrown::{HashMap, HashSet};
use pandofs_leases::file_locks::{FileLocks, Owner};
use pandofs_types::{FileLock, Ino, LockKind, LockRange, SessionId};

/// Locks of one kind have owners of their own.
pub type LockOwner = (LockKind, u64);

/// The session's locks.
#[derive(Debug)]
pub struct Locks {
    session: SessionId,
    files: HashMap<Ino, Known>,
    /// There ever was a lock.
    is_used: bool,
}

/// The state of one file's locks.
#[derive(Debug, Default)]
struct Known {
    locks: FileLocks,
    /// Owners that may have locks at the server beyond `locks`: it was asked, without an answer.
    unclear: HashSet<LockOwner>,
    /// Through which open file each owner has locked.
    through: HashMap<u64, HashSet<LockOwner>>,
    /// Open files whose locks are lost.
    lost: HashSet<u64>,
}

impl Known {
    fn is_idle(&self) -> bool {
        self.locks.is_empty()
            && self.unclear.is_empty()
            && self.through.is_empty()
            && self.lost.is_empty()
    }
}

impl Locks {
    /// No locks; `session` stands in every request.
    pub fn new(session: SessionId) -> Locks {
        Locks {
            session,
            files: HashMap::new(),
            is_used: false,
        }
    }

    /// Returns whether servers may have locks of this session.
    pub fn is_used(&self) -> bool {
        self.is_used
    }

    fn owner(&self, number: u64) -> Owner {
        Owner {
            session: self.session,
            number,
        }
    }

    /// A lock is about to be asked for, through this open file.
    pub fn begin(&mut self, ino: Ino, handle: u64, lock: &FileLock) {
        self.is_used = true;
        let known = self.files.entry(ino).or_default();
        let through = known.through.entry(handle).or_default();
        through.insert((lock.kind, lock.owner));
    }

    /// It was given, by the process of the server that was registered with when `registration` was
    /// the count of its `registrations`; false if that is not the one any more.
    pub fn given(
        &mut self,
        ino: Ino,
        lock: &FileLock,
        registrations: u64,
        registration: u64,
    ) -> bool {
        if registrations != registration {
            return false;
        }
        let owner = self.owner(lock.owner);
        let known = self.files.entry(ino).or_default();
        known.locks.note(owner, lock);
        true
    }

    /// Forgets what the owner has of the range. Whether the server may have something of it.
    pub fn forget(&mut self, ino: Ino, kind: LockKind, number: u64, range: LockRange) -> bool {
        let owner = self.owner(number);
        let Some(known) = self.files.get_mut(&ino) else {
            return false;
        };
        let unclear = known.unclear.contains(&(kind, number));
        let cleared = known.locks.clear(owner, kind, range);
        if known.is_idle() {
            self.files.remove(&ino);
        }
        cleared || unclear
    }

    /// The lock of which unlocking this would take the middle out.
    pub fn split_by(
        &self,
        ino: Ino,
        kind: LockKind,
        number: u64,
        range: LockRange,
    ) -> Option<FileLock> {
        let locks = &self.files.get(&ino)?.locks;
        locks.split_by(self.owner(number), kind, range)
    }

    /// Takes a forgotten lock back in: it is locked still.
    pub fn keep(&mut self, ino: Ino, lock: &FileLock) {
        let owner = self.owner(lock.owner);
        let known = self.files.entry(ino).or_default();
        known.locks.note(owner, lock);
    }

    /// Whether a request for this owner may have been carried out without an answer. An owner of
    /// whom that is so is taken to have locks when a file is closed.
    pub fn unclear(&mut self, ino: Ino, kind: LockKind, number: u64, is_unclear: bool) {
        let known = self.files.entry(ino).or_default();
        if is_unclear {
            known.unclear.insert((kind, number));
        } else {
            known.unclear.remove(&(kind, number));
        }
        if known.is_idle() {
            self.files.remove(&ino);
        }
    }

    /// Returns whether there are locks that were made through this open file.
    pub fn has_locked(&self, ino: Ino, handle: u64) -> bool {
        self.files
            .get(&ino)
            .is_some_and(|known| !known.locks.is_empty() && known.through.contains_key(&handle))
    }

    /// The owners of locks that were made through this open file.
    pub fn owners_through(&self, ino: Ino, handle: u64) -> Vec<LockOwner> {
        let Some(known) = self.files.get(&ino) else {
            return Vec::new();
        };
        let through = known.through.get(&handle).into_iter().flatten();
        let has = |&(kind, number): &LockOwner| known.locks.has(kind, self.owner(number));
        through.copied().filter(has).collect()
    }

    /// Returns whether the open file's locks are lost.
    pub fn is_lost(&self, ino: Ino, handle: u64) -> bool {
        self.files
            .get(&ino)
            .is_some_and(|known| known.lost.contains(&handle))
    }

    /// The process closes one of its descriptors of the file.
    pub fn closed_by(&mut self, ino: Ino, number: u64) {
        if let Some(known) = self.files.get_mut(&ino) {
            for owners in known.through.values_mut() {
                owners.remove(&(LockKind::Record, number));
            }
            known.through.retain(|_, owners| !owners.is_empty());
            if known.is_idle() {
                self.files.remove(&ino);
            }
        }
    }

    /// An open file is closed for good; returns the owners of its locks.
    pub fn closed(&mut self, ino: Ino, handle: u64) -> Vec<LockOwner> {
        let Some(known) = self.files.get_mut(&ino) else {
            return Vec::new();
        };
        known.lost.remove(&handle);
        let owners = known.through.remove(&handle).unwrap_or_default();
        if known.is_idle() {
            self.files.remove(&ino);
        }
        owners.into_iter().collect()
    }

    /// Locks that the session has for certain, in no particular order.
    pub fn all(&self) -> Vec<(Ino, FileLock)> {
        let of = |(&ino, known): (&Ino, &Known)| {
            let locks: Vec<_> = known.locks.iter().map(|(_, lock)| (ino, lock)).collect();
            locks
        };
        self.files.iter().flat_map(of).collect()
    }

    /// A server does not have this lock any more. False if it was unlocked meanwhile.
    pub fn lost(&mut self, ino: Ino, lock: &FileLock) -> bool {
        let owner = self.owner(lock.owner);
        let Some(known) = self.files.get_mut(&ino) else {
            return false;
        };
        if !known.locks.clear(owner, lock.kind, lock.range) {
            return false;
        }
        let through: Vec<u64> = known
            .through
            .iter()
            .filter(|(_, owners)| owners.contains(&(lock.kind, lock.owner)))
            .map(|(handle, _)| *handle)
            .collect();
        known.lost.extend(through);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pandofs_types::LockMode;

    const FILE: Ino = Ino(5);

    fn lock(kind: LockKind, owner: u64) -> FileLock {
        FileLock {
            kind,
            owner,
            pid: 1,
            mode: LockMode::Exclusive,
            range: LockRange::WHOLE,
        }
    }

    /// As if a server had given it.
    fn given(locks: &mut Locks, handle: u64, lock: &FileLock) {
        locks.begin(FILE, handle, lock);
        assert!(locks.given(FILE, lock, 1, 1));
    }

    #[test]
    fn a_lost_lock_spoils_the_open_files_through_which_it_was_made() {
        let mut locks = Locks::new(SessionId(1));
        let (mine, other) = (lock(LockKind::Record, 7), lock(LockKind::Flock, 8));
        given(&mut locks, 1, &mine);
        given(&mut locks, 2, &other);
        assert!(locks.lost(FILE, &mine));
        assert!(locks.is_lost(FILE, 1) && !locks.is_lost(FILE, 2));
        assert_eq!(locks.all(), [(FILE, other)]);
        assert_eq!(locks.closed(FILE, 1), [(LockKind::Record, 7)]);
        assert!(!locks.is_lost(FILE, 1));
    }

    #[test]
    fn a_lock_that_was_unlocked_meanwhile_is_not_lost() {
        let mut locks = Locks::new(SessionId(1));
        let mine = lock(LockKind::Record, 7);
        given(&mut locks, 1, &mine);
        assert!(locks.forget(FILE, mine.kind, 7, LockRange::WHOLE));
        assert!(!locks.lost(FILE, &mine));
        assert!(!locks.is_lost(FILE, 1));
    }

    #[test]
    fn nothing_is_left_of_a_file_that_is_closed() {
        let mut locks = Locks::new(SessionId(1));
        let process = lock(LockKind::Record, 7);
        let open_file = lock(LockKind::Flock, 8);
        given(&mut locks, 1, &process);
        given(&mut locks, 1, &open_file);
        assert!(locks.forget(FILE, LockKind::Record, 7, LockRange::WHOLE));
        locks.closed_by(FILE, 7);
        assert_eq!(locks.closed(FILE, 1), [(LockKind::Flock, 8)]);
        assert!(locks.forget(FILE, LockKind::Flock, 8, LockRange::WHOLE));
        assert!(!locks.forget(FILE, LockKind::Flock, 8, LockRange::WHOLE));
        assert!(locks.files.is_empty());
    }

    #[test]
    fn what_a_process_gave_that_is_gone_is_not_remembered() {
        let mut locks = Locks::new(SessionId(1));
        let mine = lock(LockKind::Record, 7);
        locks.begin(FILE, 1, &mine);
        assert!(!locks.given(FILE, &mine, 2, 1));
        assert!(locks.is_used() && locks.all().is_empty());
        assert!(locks.given(FILE, &mine, 2, 2));
        assert_eq!(locks.all(), [(FILE, mine)]);
    }

    #[test]
    fn owners_of_an_open_file_are_those_who_still_have_what_they_locked_through_it() {
        let mut locks = Locks::new(SessionId(1));
        assert!(!locks.is_used() && !locks.has_locked(FILE, 1));
        let (mine, other) = (lock(LockKind::Record, 7), lock(LockKind::Flock, 8));
        given(&mut locks, 1, &mine);
        locks.begin(FILE, 1, &other);
        given(&mut locks, 2, &other);
        let through = |locks: &Locks| [1, 2, 3].map(|handle| locks.has_locked(FILE, handle));
        assert_eq!(through(&locks), [true, true, false]);
        assert!(!locks.has_locked(Ino(6), 1));
        let mut owners = locks.owners_through(FILE, 1);
        owners.sort_unstable();
        assert_eq!(owners, [(LockKind::Flock, 8), (LockKind::Record, 7)]);
        assert_eq!(locks.owners_through(FILE, 2), [(LockKind::Flock, 8)]);
        assert_eq!(locks.owners_through(FILE, 3), []);
        assert_eq!(locks.owners_through(Ino(6), 1), []);
        assert!(locks.forget(FILE, LockKind::Flock, 8, LockRange::WHOLE));
        assert_eq!(locks.owners_through(FILE, 1), [(LockKind::Record, 7)]);
        assert_eq!(locks.owners_through(FILE, 2), []);
        assert!(locks.forget(FILE, LockKind::Record, 7, LockRange::WHOLE));
        assert_eq!(through(&locks), [false; 3]);
    }

    #[test]
    fn an_owner_of_whom_nobody_knows_is_taken_to_have_locks() {
        let mut locks = Locks::new(SessionId(1));
        let forget = |locks: &mut Locks, number| {
            locks.forget(FILE, LockKind::Record, number, LockRange::WHOLE)
        };
        locks.unclear(FILE, LockKind::Record, 7, true);
        assert!(forget(&mut locks, 7) && forget(&mut locks, 7), "still");
        assert!(!forget(&mut locks, 8));
        locks.unclear(FILE, LockKind::Record, 7, false);
        assert!(locks.files.is_empty());
        assert!(!forget(&mut locks, 7));
    }

    #[test]
    fn a_lock_that_the_server_has_not_taken_back_is_remembered_again() {
        let mut locks = Locks::new(SessionId(1));
        let mine = FileLock {
            range: LockRange { first: 0, last: 9 },
            ..lock(LockKind::Record, 7)
        };
        given(&mut locks, 1, &mine);
        let (middle, end) = (
            LockRange { first: 3, last: 4 },
            LockRange { first: 3, last: 9 },
        );
        let split_by = |range| locks.split_by(FILE, LockKind::Record, 7, range);
        assert_eq!((split_by(middle), split_by(end)), (Some(mine), None));
        assert_eq!(locks.split_by(FILE, LockKind::Record, 8, middle), None);
        assert_eq!(locks.split_by(Ino(6), LockKind::Record, 7, middle), None);
        assert!(locks.forget(FILE, LockKind::Record, 7, LockRange::WHOLE));
        assert_eq!(locks.all(), []);
        locks.keep(FILE, &mine);
        assert_eq!(locks.all(), [(FILE, mine)]);
    }

    /// A file of which anything is known stays known, until the last of it is gone.
    #[test]
    fn a_file_is_forgotten_when_nothing_of_it_is_left() {
        let mut locks = Locks::new(SessionId(1));
        let mine = lock(LockKind::Record, 7);
        given(&mut locks, 1, &mine);
        given(&mut locks, 2, &mine);
        assert!(locks.lost(FILE, &mine));
        assert!(!locks.lost(FILE, &mine), "it is not locked any more");
        // Another owner has locked through the first open file, too.
        locks.begin(FILE, 1, &lock(LockKind::Record, 9));
        locks.closed_by(FILE, 7);
        assert!(locks.is_lost(FILE, 1) && locks.is_lost(FILE, 2));
        assert_eq!(locks.closed(FILE, 2), []);
        assert!(locks.is_lost(FILE, 1) && !locks.is_lost(FILE, 2));
        assert_eq!(locks.closed(FILE, 1), [(LockKind::Record, 9)]);
        assert!(locks.files.is_empty());
        // A process that closes a descriptor leaves the locks of open files.
        given(&mut locks, 1, &lock(LockKind::Flock, 7));
        locks.closed_by(FILE, 7);
        assert_eq!(locks.closed(FILE, 1), [(LockKind::Flock, 7)]);
        assert_eq!(locks.all().len(), 1, "the server has not taken it back yet");
    }
}
