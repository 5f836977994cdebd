//! Ledger of early operations: what clients answered before a shard had it, and what became of each.
//!
//! It knows them by the random number that goes with each. An early operation is *done* when its shard says so to
//! anybody, and *told* when the client has said that it is lost; of a client that died it is neither.

use pandofs_api::{Request, op};
use pandofs_types::{Ino, Name, SessionId, ShardId};
use std::collections::{BTreeMap, BTreeSet};

/// End of an early operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Queued,
    Done,
    Told,
}

/// An early operation.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub request: Request,
    /// The directory that it makes or removes.
    dir: Option<Ino>,
    /// Instants of its beginning, of its answer, and of its end as far as the shard is concerned.
    pub begun: u64,
    pub answered: u64,
    pub settled: Option<u64>,
    pub fate: Fate,
    /// Changes of attributes that are sent with it as one.
    merged: Vec<Entry>,
}

/// Queue of a session for a shard, ever.
type Place = (SessionId, ShardId);

impl Entry {
    fn made(&self) -> Option<Ino> {
        self.dir
            .filter(|_| matches!(self.request, Request::Mkdir(_)))
    }

    fn removed(&self) -> Option<Ino> {
        self.dir
            .filter(|_| matches!(self.request, Request::Rmdir(_)))
    }

    /// It, and what is sent with it.
    fn all(&self) -> impl Iterator<Item = &Entry> {
        std::iter::once(self).chain(&self.merged)
    }

    fn settle(&mut self, fate: Fate, now: u64) {
        (self.fate, self.settled) = (fate, Some(now));
        self.merged.iter_mut().for_each(|of| of.settle(fate, now));
    }
}

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    queues: BTreeMap<Place, Vec<Entry>>,
    of: BTreeMap<u64, (Place, usize)>,
    /// Losses of which programs have not heard.
    untold: BTreeSet<(SessionId, Ino)>,
    /// When a server last came back without what it had not synced: what was done before may be lost all the same.
    forgot: u64,
}

impl Ledger {
    /// An operation that began then is answered early. `is_merged`: nothing was queued for it, as what is queued of its inode
    /// does what it does, too. (Where nothing does, it is left over at the end.)
    pub(crate) fn answered(
        &mut self,
        place: Place,
        (random, is_merged): (u64, bool),
        (request, dir): (&Request, Option<Ino>),
        (begun, answered): (u64, u64),
    ) {
        let queue = self.queues.entry(place).or_default();
        let entry = Entry {
            request: request.clone(),
            dir,
            begun,
            answered,
            settled: None,
            fate: Fate::Queued,
            merged: Vec::new(),
        };
        let about = request.operation().inode();
        let takes_up = |of: &&mut Entry| {
            let is_same = matches!(&of.request, Request::SetAttr(set) if Some(set.ino) == about);
            is_same && of.fate == Fate::Queued
        };
        match queue.iter_mut().rev().find(takes_up) {
            Some(before) if is_merged => before.merged.push(entry),
            _ => {
                self.of.insert(random, (place, queue.len()));
                queue.push(entry);
            }
        }
    }

    /// A shard says that it has done these.
    ///
    /// # Errors
    /// One that came earlier in its queue, that makes the directory in which it is done, or that was done in the directory
    /// which it removes, is neither done nor told to be lost; or one of them was told to be lost.
    pub(crate) fn done(&mut self, randoms: &[u64], now: u64) -> Result<(), String> {
        for random in randoms {
            let Some(&(place, at)) = self.of.get(random) else {
                return Err(format!("{random} was never answered early"));
            };
            let queue = self.queues.get_mut(&place).expect("it is in there");
            if queue[at].fate == Fate::Told {
                return Err(format!(
                    "{:?} is done and was told to be lost",
                    queue[at].request
                ));
            }
            if let Some(early) = queue[..at].iter().find(|of| of.fate == Fate::Queued) {
                let (session, shard) = place;
                return Err(format!(
                    "shard {shard} has done {:?} of session {session} and not {:?}, which came before",
                    queue[at].request, early.request
                ));
            }
            let (needed, removed) = (inos(&queue[at].request), queue[at].removed());
            let begun = queue[at].begun;
            let session = place.0;
            let of_session = self.queues.iter().filter(|((of, _), _)| *of == session);
            let mut queued = of_session
                .flat_map(|(_, queue)| queue)
                .filter(|of| of.fate == Fate::Queued);
            let goes_before = |of: &&Entry| {
                let is_of_removed = |dir| of.answered <= begun && inos(&of.request).contains(&dir);
                of.made().is_some_and(|dir| needed.contains(&dir))
                    || removed.is_some_and(is_of_removed)
            };
            if let Some(first) = queued.find(goes_before) {
                let text = format!(
                    "{random} of session {session} is done before {:?}",
                    first.request
                );
                return Err(text);
            }
            let queue = self.queues.get_mut(&place).expect("it is in there");
            let entry = &mut queue[at];
            if entry.fate == Fate::Queued {
                entry.settle(Fate::Done, now);
            }
        }
        Ok(())
    }

    /// The last `count` of the queue are lost, says the client. Returns them.
    ///
    /// # Errors
    /// It has said so before, or one of them is done.
    pub(crate) fn told(
        &mut self,
        place: Place,
        count: usize,
        now: u64,
    ) -> Result<Vec<Entry>, String> {
        let queue = self.queues.entry(place).or_default();
        let from = queue.len().saturating_sub(count);
        for entry in &mut queue[from..] {
            if entry.fate == Fate::Told {
                return Err(format!("{:?} is told to be lost twice", entry.request));
            }
            if entry.fate == Fate::Done && entry.settled > Some(self.forgot) {
                return Err(format!(
                    "{:?} is told to be lost and is done",
                    entry.request
                ));
            }
            entry.settle(Fate::Told, now);
        }
        let lost: Vec<Entry> = queue[from..].iter().flat_map(Entry::all).cloned().collect();
        for entry in &lost {
            let inos = inos(&entry.request).into_iter();
            self.untold.extend(inos.map(|ino| (place.0, ino)));
        }
        Ok(lost)
    }

    /// Operations that were told to be lost.
    pub(crate) fn lost(&self) -> u64 {
        let entries = self.queues.values().flatten().flat_map(Entry::all);
        entries.filter(|entry| entry.fate == Fate::Told).count() as u64
    }

    /// A server came back without what it had not synced.
    pub(crate) fn forget(&mut self, now: u64) {
        self.forgot = now;
    }

    /// Those of a session that its shards have not done.
    pub(crate) fn left(&self, session: SessionId) -> Vec<Entry> {
        let queues = self.queues.iter().filter(|((of, _), _)| *of == session);
        let left = queues.flat_map(|(_, queue)| queue);
        left.flat_map(Entry::all)
            .filter(|entry| entry.fate == Fate::Queued)
            .cloned()
            .collect()
    }

    /// Operations about the inode that were answered before that and are neither done nor told to be lost. (One that had
    /// begun, and waited for its answer, no sync has to wait for.)
    pub(crate) fn left_of(&self, session: SessionId, ino: Ino, before: u64) -> Option<Entry> {
        let mut left = self.left(session).into_iter();
        left.find(|entry| entry.answered < before && inos(&entry.request).contains(&ino))
    }

    /// A sync of the inode was answered; `fails`: by the loss of something.
    ///
    /// # Errors
    /// There was something to tell and it was not told, or the other way round.
    pub(crate) fn synced(
        &mut self,
        session: SessionId,
        ino: Ino,
        fails: bool,
    ) -> Result<(), String> {
        match (self.untold.remove(&(session, ino)), fails) {
            (true, false) => Err(format!("a loss of {ino} is not told to session {session}")),
            (false, true) => Err(format!(
                "a loss of {ino} is told to session {session} twice"
            )),
            _ => Ok(()),
        }
    }

    /// Inodes of which the session is still to tell a loss.
    pub(crate) fn untold(&self, session: SessionId) -> Vec<Ino> {
        let of = self.untold.iter().filter(|(of, _)| *of == session);
        of.map(|(_, ino)| *ino).collect()
    }

    /// Returns whether an operation on the name was to be done at some time from `since` on.
    pub(crate) fn is_touched(&self, (dir, name): &(Ino, Name), since: u64) -> bool {
        let mut entries = self.queues.values().flatten();
        entries.any(|entry| {
            entry.settled.is_none_or(|settled| settled >= since)
                && names(&entry.request).contains(&(*dir, name.clone()))
        })
    }

    /// All that are not done yet, nor told to be lost.
    pub(crate) fn queued(&self) -> impl Iterator<Item = &Entry> {
        let entries = self.queues.values().flatten().flat_map(Entry::all);
        entries.filter(|entry| entry.settled.is_none())
    }
}

/// Names that an operation changes.
pub(crate) fn names(request: &Request) -> Vec<(Ino, Name)> {
    match request {
        Request::Create(op::Create { dir, name, .. })
        | Request::Mkdir(op::Mkdir { dir, name, .. })
        | Request::Unlink(op::Unlink { dir, name })
        | Request::Rmdir(op::Rmdir { dir, name })
        | Request::Link(op::Link { dir, name, .. }) => vec![(*dir, name.clone())],
        Request::Rename(op::Rename {
            dir,
            name,
            new_dir,
            new_name,
            ..
        })
        | Request::Exchange(op::Exchange {
            dir,
            name,
            new_dir,
            new_name,
            ..
        }) => vec![(*dir, name.clone()), (*new_dir, new_name.clone())],
        Request::MkdirAway(op::MkdirAway { mkdir, .. }) => vec![(mkdir.dir, mkdir.name.clone())],
        Request::RmdirAway(op::RmdirAway { rmdir, .. }) => vec![(rmdir.dir, rmdir.name.clone())],
        Request::Batch(batch) => {
            let operations = batch.early.iter();
            operations
                .flat_map(|early| names(&early.operation.clone().into()))
                .collect()
        }
        _ => Vec::new(),
    }
}

/// Directories and inodes that an operation changes as far as its request tells: those that tell of its loss.
fn inos(request: &Request) -> Vec<Ino> {
    let lost = pandofs_deputy::Lost {
        shard: ShardId(0),
        request: request.clone(),
        refusal: None,
    };
    lost.inos()
}
