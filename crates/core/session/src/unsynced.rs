//! Unsynced changes, so that a sync that comes too late for one fails.
//!
//! Servers acknowledge changes before they are on disk: those of a data object are in the memory of
//! the server's *machine*, and so is the end of its log. A server that is killed loses nothing of
//! it. When its machine loses power it is gone, and a sync that is asked for afterwards finds
//! nothing to do: without this table it would succeed, and a program would take for safe what is
//! lost. (A client writes, the machine is started anew, the client's connection is made again as
//! after any restart, `fsync` has the server sync an object that it does not have.)
//!
//! So each connection knows in which start of the machine its server runs, an
//! acknowledged change is remembered with it, and a sync that is answered from another start has
//! come too late for that change. It fails, once through each open file, as `fsync` on Linux does
//! where pages were lost, and what is changed from then on counts anew.
//!
//! Changes are remembered by inode, a directory's entries as changes of the directory: `fsync` of a
//! file reports losses of its data, its attributes and the name that this client gave it last, as
//! with ext4, whose journal has all of them or none; that of a directory of its names. Of each
//! inode and place it is remembered which changes there were, counted over the whole client, not
//! how many. A sync of a log covers all that its server acknowledged before, whichever inode it
//! was of; one of a data object the object alone.
//!
//! It is bounded: servers sync their logs every few seconds and objects that are left alone for a
//! minute, so what is older than [`UNSYNCED_TERM`](pandofs_types::limits::UNSYNCED_TERM) is
//! forgotten, except for data of files that are open; and of files that are closed no more than
//! a number of them are known, and three quarters of these in any case.

use hashbrown::HashMap;
use pandofs_api::op::Change;
use pandofs_api::{DataRequest, Reply, Request};
use pandofs_types::{Ino, ServerId};
use std::hash::Hash;
use std::time::Duration;

/// The place of a change until it is synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// The inode's data object on this server.
    Object(ServerId),
    /// The log of this server.
    Log(ServerId),
}

impl Place {
    /// Whose log or object it is.
    pub fn server(self) -> ServerId {
        match self {
            Place::Object(server) | Place::Log(server) => server,
        }
    }
}

/// Changes of one inode at one place, acknowledged in one start of the server's machine.
#[derive(Clone, Copy, Debug)]
struct Changes<M> {
    place: Place,
    machine: M,
    /// The numbers of the first of them that is not known to be synced, and of the last one.
    first: u64,
    last: u64,
    /// The time of the last acknowledgement.
    at: Duration,
}

/// A sync that was answered: of what, and in which start of the server's machine.
pub type Synced<M> = (Place, M);

/// Tells the changes that were acknowledged before it was taken from later ones.
#[derive(Clone, Copy, Debug)]
pub struct Mark(u64);

/// Unsynced changes of one client. `M` tells one start of a server's machine from another; moments are counted from any
/// one on.
#[derive(Debug)]
pub struct Unsynced<M> {
    /// Changes so far, over all inodes.
    count: u64,
    inodes: HashMap<Ino, Vec<Changes<M>>>,
    /// Of each log, up to which change it was synced; one for each start of a machine.
    logs: HashMap<(ServerId, M), u64>,
    /// Inodes that are not open that are known at most.
    most: usize,
    /// Inodes from which on it is looked which of them may be forgotten.
    look_at: usize,
}

fn is_synced<M: Copy + Eq + Hash>(
    logs: &HashMap<(ServerId, M), u64>,
    changes: &Changes<M>,
) -> bool {
    match changes.place {
        Place::Log(server) => logs
            .get(&(server, changes.machine))
            .is_some_and(|&synced| changes.last <= synced),
        Place::Object(_) => false,
    }
}

impl<M: Copy + Eq + Hash> Unsynced<M> {
    /// Of no more than this many inodes that are not open.
    pub fn within(most: usize) -> Unsynced<M> {
        Unsynced {
            count: 0,
            inodes: HashMap::new(),
            logs: HashMap::new(),
            most,
            look_at: most,
        }
    }

    /// A change of these inodes was acknowledged. True when they have become many:
    /// [`Unsynced::forget`] is to be called.
    #[must_use]
    pub fn changed(
        &mut self,
        inos: impl IntoIterator<Item = Ino>,
        place: Place,
        machine: M,
        now: Duration,
    ) -> bool {
        self.count += 1;
        let number = self.count;
        for ino in inos {
            let all = self.inodes.entry(ino).or_default();
            let same =
                |changes: &&mut Changes<M>| changes.place == place && changes.machine == machine;
            match all.iter_mut().find(same) {
                Some(changes) => (changes.last, changes.at) = (number, now),
                None => {
                    // Nearly every inode has one, and a vector would begin with room for four.
                    all.reserve_exact(1);
                    all.push(Changes {
                        place,
                        machine,
                        first: number,
                        last: number,
                        at: now,
                    });
                }
            }
        }
        self.inodes.len() >= self.look_at
    }

    /// To be taken before the servers are asked to sync anything.
    pub fn mark(&self) -> Mark {
        Mark(self.count)
    }

    /// The places of changes of the inode that are to be synced.
    pub fn places(&self, ino: Ino) -> Vec<Place> {
        let changes = self.inodes.get(&ino).into_iter().flatten();
        let mut places = Vec::new();
        for changes in changes.filter(|changes| !is_synced(&self.logs, changes)) {
            if !places.contains(&changes.place) {
                places.push(changes.place);
            }
        }
        places
    }

    /// Servers have synced this for the inode, asked after `mark` was taken. Answers with those
    /// that had lost something of it by then, once, and calls `lose` if there are any before
    /// another caller finds that there are none.
    pub fn synced(
        &mut self,
        ino: Ino,
        mark: Mark,
        syncs: &[Synced<M>],
        lose: impl FnOnce(),
    ) -> Vec<ServerId> {
        for &(place, machine) in syncs {
            if let Place::Log(server) = place {
                let synced = self.logs.entry((server, machine)).or_default();
                *synced = mark.0.max(*synced);
            }
        }
        let Unsynced { inodes, logs, .. } = self;
        let Some(all) = inodes.get_mut(&ino) else {
            return Vec::new();
        };
        let mut lost = Vec::new();
        all.retain_mut(|changes| {
            if is_synced(logs, changes) {
                return false;
            }
            let of_it = |&&(place, _): &&Synced<M>| place == changes.place;
            let mut answered = syncs.iter().filter(of_it).peekable();
            if changes.first > mark.0 || answered.peek().is_none() {
                return true;
            }
            // Asked over several connections, it may have been synced just before the machine was
            // started anew.
            if answered.all(|&(_, machine)| machine != changes.machine)
                && !lost.contains(&changes.place.server())
            {
                lost.push(changes.place.server());
            }
            changes.first = mark.0 + 1;
            changes.last > mark.0
        });
        if all.is_empty() {
            inodes.remove(&ino);
        }
        if !lost.is_empty() {
            lose();
        }
        lost
    }

    /// Forgets what is synced by now for sure, within `term`, and of what is left the oldest
    /// changes of files that are not open as far as there are too many.
    pub fn forget(&mut self, now: Duration, term: Duration, is_open: impl Fn(Ino) -> bool) {
        let Unsynced {
            inodes, logs, most, ..
        } = self;
        let most = *most;
        let mut closed = Vec::new();
        inodes.retain(|&ino, all| {
            let is_open = is_open(ino);
            all.retain(|changes| {
                let may_stay = is_open && matches!(changes.place, Place::Object(_));
                let is_old = now.saturating_sub(changes.at) >= term;
                !is_synced(logs, changes) && (may_stay || !is_old)
            });
            if !is_open && let Some(last) = all.iter().map(|changes| changes.last).max() {
                closed.push((last, ino));
            }
            !all.is_empty()
        });
        // A quarter, so that it is not done for each single one.
        let kept = most / 4 * 3;
        if inodes.len() >= most && closed.len() > kept {
            let too_many = closed.len() - kept;
            // Where nothing may be kept, all of them go.
            if too_many < closed.len() {
                closed.select_nth_unstable(too_many);
            }
            for (_, ino) in &closed[..too_many] {
                inodes.remove(ino);
            }
        }
        self.look_at = most.max(self.inodes.len() + most / 4);
    }
}

/// The inodes that a request to a shard has changed, which was answered with this. An inode that has lost a name needs no
/// disk for that, and programs do not sync times of access.
pub fn changed_by(request: &Request, reply: &Reply) -> Vec<Ino> {
    let operation = request.operation();
    if !operation.is_mutation() {
        return Vec::new();
    }
    let changes = operation.changes().into_iter().map(|change| match change {
        Change::Name(dir, _) => dir,
        Change::Inode(ino) | Change::Dir(ino) => ino,
    });
    let mut inos: Vec<Ino> = changes.collect();
    if let Request::Batch(batch) = request {
        inos.extend(batch.early.iter().filter_map(|early| early.ino));
    }
    match reply {
        Reply::Entry(entry) => inos.push(entry.ino),
        Reply::Renamed { ino } => inos.push(*ino),
        Reply::Exchanged { ino, other } => inos.extend([*ino, *other]),
        _ => {}
    }
    inos
}

/// The inode whose data object a request reads or changes.
pub fn object_of(request: &DataRequest) -> Option<Ino> {
    match request {
        DataRequest::Read { ino, .. } => Some(*ino),
        other => object_changed_by(other),
    }
}

/// The inode whose data object a request has changed.
pub fn object_changed_by(request: &DataRequest) -> Option<Ino> {
    match request {
        DataRequest::Write { ino, .. }
        | DataRequest::Truncate { ino, .. }
        | DataRequest::Fill { ino, .. }
        | DataRequest::Allocate { ino, .. } => Some(*ino),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pandofs_api::op;
    use pandofs_types::limits::UNSYNCED_TERM;

    const FILE: Ino = Ino(50);
    const OTHER: Ino = Ino(51);
    const OBJECT: Place = Place::Object(ServerId(1));
    const LOG: Place = Place::Log(ServerId(0));
    /// Starts of a machine.
    const FIRST: u8 = 1;
    const SECOND: u8 = 2;
    const MOST: usize = 1_000;
    const NOW: Duration = Duration::from_secs(7);

    fn changed(unsynced: &mut Unsynced<u8>, ino: Ino, place: Place, machine: u8) {
        assert!(!unsynced.changed([ino], place, machine, NOW));
    }

    fn synced_of(
        unsynced: &mut Unsynced<u8>,
        ino: Ino,
        mark: Mark,
        syncs: &[Synced<u8>],
    ) -> Vec<ServerId> {
        let mut is_told = false;
        let lost = unsynced.synced(ino, mark, syncs, || is_told = true);
        assert_eq!(is_told, !lost.is_empty());
        lost
    }

    /// Of all that was changed so far.
    fn synced_now(unsynced: &mut Unsynced<u8>, ino: Ino, syncs: &[Synced<u8>]) -> Vec<ServerId> {
        let mark = unsynced.mark();
        synced_of(unsynced, ino, mark, syncs)
    }

    fn known(unsynced: &Unsynced<u8>) -> usize {
        unsynced.inodes.len()
    }

    #[test]
    fn nothing_is_remembered_where_there_is_no_room() {
        for most in 0..4 {
            let mut unsynced = Unsynced::within(most);
            let now = NOW;
            for ino in 1..10 {
                if unsynced.changed([Ino(ino)], OBJECT, FIRST, now) {
                    unsynced.forget(now, UNSYNCED_TERM, |_| false);
                }
                assert!(known(&unsynced) <= most, "{most}");
            }
        }
    }

    #[test]
    fn what_was_synced_in_time_is_not_lost() {
        let mut unsynced = Unsynced::within(MOST);
        changed(&mut unsynced, FILE, OBJECT, FIRST);
        changed(&mut unsynced, FILE, LOG, FIRST);
        let mark = unsynced.mark();
        assert_eq!(unsynced.places(FILE), [OBJECT, LOG]);
        let syncs = [(OBJECT, FIRST), (LOG, FIRST)];
        assert_eq!(synced_of(&mut unsynced, FILE, mark, &syncs), []);
        assert_eq!(known(&unsynced), 0);
        let syncs = [(OBJECT, SECOND), (LOG, SECOND)];
        assert_eq!(synced_now(&mut unsynced, FILE, &syncs), []);
    }

    #[test]
    fn a_sync_after_another_start_of_the_machine_fails_once() {
        let mut unsynced = Unsynced::within(MOST);
        changed(&mut unsynced, FILE, OBJECT, FIRST);
        // Only this is there.
        changed(&mut unsynced, FILE, OBJECT, SECOND);
        changed(&mut unsynced, OTHER, OBJECT, FIRST);
        let synced = |unsynced: &mut _, ino| synced_now(unsynced, ino, &[(OBJECT, SECOND)]);
        assert_eq!(synced(&mut unsynced, FILE), [ServerId(1)]);
        assert_eq!(synced(&mut unsynced, FILE), []);
        changed(&mut unsynced, FILE, OBJECT, SECOND);
        assert_eq!(synced(&mut unsynced, FILE), []);
        // The loss of another file is reported, too.
        assert_eq!(synced(&mut unsynced, OTHER), [ServerId(1)]);
        assert_eq!(known(&unsynced), 0);
    }

    #[test]
    fn a_sync_that_was_not_answered_tells_nothing() {
        let mut unsynced = Unsynced::within(MOST);
        changed(&mut unsynced, FILE, OBJECT, FIRST);
        changed(&mut unsynced, FILE, LOG, FIRST);
        let mark = unsynced.mark();
        assert_eq!(synced_of(&mut unsynced, FILE, mark, &[(LOG, FIRST)]), []);
        assert_eq!(unsynced.places(FILE), [OBJECT]);
        assert_eq!(
            synced_now(&mut unsynced, FILE, &[(OBJECT, SECOND)]),
            [ServerId(1)]
        );
    }

    #[test]
    fn what_is_changed_while_a_sync_is_under_way_is_not_covered_by_it() {
        let mut unsynced = Unsynced::within(MOST);
        changed(&mut unsynced, FILE, OBJECT, FIRST);
        let mark = unsynced.mark();
        changed(&mut unsynced, FILE, OBJECT, FIRST);
        assert_eq!(synced_of(&mut unsynced, FILE, mark, &[(OBJECT, FIRST)]), []);
        let mark = unsynced.mark();
        changed(&mut unsynced, FILE, OBJECT, SECOND);
        let lost = synced_of(&mut unsynced, FILE, mark, &[(OBJECT, SECOND)]);
        assert_eq!(lost, [ServerId(1)]);
        assert_eq!(synced_now(&mut unsynced, FILE, &[(OBJECT, SECOND)]), []);
        assert_eq!(known(&unsynced), 0);
        // A loss after the request is reported to the next one.
        changed(&mut unsynced, FILE, OBJECT, FIRST);
        let mark = unsynced.mark();
        changed(&mut unsynced, FILE, OBJECT, FIRST);
        let late = [(OBJECT, SECOND)];
        assert_eq!(synced_of(&mut unsynced, FILE, mark, &late), [ServerId(1)]);
        assert_eq!(synced_now(&mut unsynced, FILE, &late), [ServerId(1)]);
        assert_eq!(synced_now(&mut unsynced, FILE, &late), []);
    }

    #[test]
    fn a_sync_of_a_log_is_one_of_all_that_it_has() {
        let mut unsynced = Unsynced::within(MOST);
        changed(&mut unsynced, FILE, LOG, FIRST);
        changed(&mut unsynced, OTHER, LOG, FIRST);
        assert_eq!(synced_now(&mut unsynced, OTHER, &[(LOG, FIRST)]), []);
        assert_eq!(unsynced.places(FILE), []);
        assert_eq!(synced_now(&mut unsynced, FILE, &[(LOG, SECOND)]), []);
        // But not of what comes after it, nor of what another server has.
        changed(&mut unsynced, FILE, LOG, FIRST);
        changed(&mut unsynced, FILE, Place::Log(ServerId(7)), FIRST);
        let syncs = [(LOG, SECOND), (Place::Log(ServerId(7)), FIRST)];
        let lost = synced_now(&mut unsynced, FILE, &syncs);
        assert_eq!(lost, [ServerId(0)]);
    }

    #[test]
    fn one_of_several_syncs_of_a_log_suffices() {
        let mut unsynced = Unsynced::within(MOST);
        changed(&mut unsynced, FILE, LOG, FIRST);
        let syncs = [(LOG, FIRST), (LOG, SECOND)];
        assert_eq!(synced_now(&mut unsynced, FILE, &syncs), []);
    }

    #[test]
    fn what_is_old_is_forgotten_but_for_data_of_open_files() {
        let mut unsynced = Unsynced::within(MOST);
        changed(&mut unsynced, FILE, OBJECT, FIRST);
        changed(&mut unsynced, FILE, LOG, FIRST);
        changed(&mut unsynced, OTHER, OBJECT, FIRST);
        let is_open = |ino| ino == FILE;
        unsynced.forget(NOW, UNSYNCED_TERM, is_open);
        assert_eq!(known(&unsynced), 2);
        unsynced.forget(NOW + UNSYNCED_TERM, UNSYNCED_TERM, is_open);
        assert_eq!(known(&unsynced), 1);
        assert_eq!(unsynced.places(FILE), [OBJECT]);
    }

    #[test]
    fn of_too_many_the_oldest_are_forgotten() {
        let mut unsynced = Unsynced::within(MOST);
        let most = MOST as u64;
        let now = NOW;
        for ino in 1..most {
            assert!(!unsynced.changed([Ino(ino)], OBJECT, FIRST, now));
        }
        // It has been there for long, and is changed anew.
        changed(&mut unsynced, Ino(1), OBJECT, FIRST);
        assert!(unsynced.changed([Ino(most)], OBJECT, FIRST, now));
        unsynced.forget(now, UNSYNCED_TERM, |ino| ino == Ino(2));
        assert!(known(&unsynced) <= MOST / 4 * 3 + 1);
        for (ino, is_known) in [(1, true), (2, true), (3, false), (most, true)] {
            assert_eq!(!unsynced.places(Ino(ino)).is_empty(), is_known, "{ino}");
        }
        // Those that are open stay, and do not have it looked through each time.
        unsynced.forget(now, UNSYNCED_TERM, |_| true);
        assert!(!unsynced.changed([Ino(most + 1)], OBJECT, FIRST, now));
    }

    #[test]
    fn names_are_changes_of_their_directories_and_of_what_they_lead_to() {
        let (dir, new_dir) = (Ino(7), Ino(8));
        let name = || pandofs_types::Name::new(b"leaf").unwrap();
        let rename = Request::Rename(op::Rename {
            dir,
            name: name(),
            new_dir,
            new_name: name(),
            new_shard: pandofs_types::ShardId(0),
            no_replace: false,
            whiteout: false,
        });
        let changed = changed_by(&rename, &Reply::Renamed { ino: FILE });
        assert_eq!(changed, [dir, new_dir, FILE]);
        let unlink = Request::Unlink(op::Unlink { dir, name: name() });
        let changed = changed_by(&unlink, &Reply::Removed { ino: FILE });
        assert_eq!(changed, [dir]);
        let read = Request::ReadInline(op::ReadInline { ino: FILE });
        assert_eq!(changed_by(&read, &Reply::Done), []);
    }
}
