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
mod tests;
