//! History of names: requests and answers of clients, one list for each name of each directory.

use crate::early::{Entry, Ledger, names};
use pandofs_api::{Refusal, Reply, Request, op};
use pandofs_types::{FsError, HashKey, Ino, Name, Position, SessionId, ShardId};
use std::collections::{BTreeMap, BTreeSet};

/// A name of a directory.
pub(crate) type Key = (Ino, Name);

/// Effect of an operation on a name, or its finding about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    /// It leads there, or nowhere.
    Read(Option<Ino>),
    /// It was free and leads there now.
    Insert(Ino),
    /// It was not free.
    Taken,
    /// It led there and is free now.
    Remove(Ino),
    /// It led there and may be free now: a rename to another name of the same file does nothing.
    MayLeave(Ino),
    /// It led there, and leads to a white-out now that nobody was told of.
    Hide(Ino),
    /// It leads there now.
    Set(Ino),
    /// It led to the first and leads to the second now.
    Swap(Ino, Ino),
    /// Not known to have been done: it may lead somewhere now if it was free.
    MayInsert,
    MayRemove,
    MaySet,
    /// A server forgot what had not been synced: anything may be true now.
    Forget,
}

/// An operation on a name. Instants are counted, not timed: no two things happen at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    pub begun: u64,
    /// `None` if it was never answered.
    pub ended: Option<u64>,
    pub deed: Deed,
}

/// Effect of an operation on an inode's mode, or its finding about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ModeDeed {
    Read(u16),
    /// If it was not answered it was done at some time or not at all.
    Write(u16),
    /// A server forgot what had not been synced.
    Forget,
}

/// Beginning, end and deed of an operation.
pub(crate) type ModeOperation = (u64, Option<u64>, ModeDeed);

/// An operation as it is noted: when it began and ended, and what it did, if it was told that it did anything.
type Noted = (u64, Option<u64>, Option<Deed>);

/// The same of a mode.
type NotedMode = (u64, Option<u64>, Option<ModeDeed>);

/// Operations under way with one request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Open {
    begun: u64,
    names: Vec<(Key, usize)>,
    mode: Option<(Ino, usize)>,
}

/// All that clients know.
pub(crate) struct History {
    hash_key: HashKey,
    now: u64,
    names: Vec<Name>,
    /// Answers that say nothing leave an operation without a deed.
    operations: BTreeMap<Key, Vec<Noted>>,
    modes: BTreeMap<Ino, Vec<NotedMode>>,
    linked: BTreeSet<Ino>,
    /// Names and modes of which a server forgot something.
    forgotten: (BTreeSet<Key>, BTreeSet<Ino>),
    /// Inodes that a server may have lost with what it had not synced.
    lost: BTreeSet<Ino>,
    early: Ledger,
}

impl History {
    /// `names` are all that there are.
    pub(crate) fn new(hash_key: HashKey, names: Vec<Name>) -> History {
        History {
            hash_key,
            now: 0,
            names,
            operations: BTreeMap::new(),
            modes: BTreeMap::new(),
            forgotten: (BTreeSet::new(), BTreeSet::new()),
            linked: BTreeSet::new(),
            lost: BTreeSet::new(),
            early: Ledger::default(),
        }
    }

    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    fn add(&mut self, key: Key, deed: Option<Deed>) -> (Key, usize) {
        let begun = self.tick();
        let operations = self.operations.entry(key.clone()).or_default();
        operations.push((begun, None, deed));
        (key, operations.len() - 1)
    }

    /// A request is sent for the first time.
    pub(crate) fn begin(&mut self, request: &Request) -> Open {
        let begun = self.tick();
        let mut open = Vec::new();
        let mut mode = None;
        match request {
            Request::Lookup(op::Lookup { dir, name }) => {
                open.push(self.add((*dir, name.clone()), None))
            }
            Request::Create(op::Create { dir, name, .. })
            | Request::Mkdir(op::Mkdir { dir, name, .. }) => {
                open.push(self.add((*dir, name.clone()), Some(Deed::MayInsert)));
            }
            Request::Link(op::Link { dir, name, ino, .. }) => {
                self.linked.insert(*ino);
                open.push(self.add((*dir, name.clone()), Some(Deed::MayInsert)));
            }
            Request::Unlink(op::Unlink { dir, name }) | Request::Rmdir(op::Rmdir { dir, name }) => {
                open.push(self.add((*dir, name.clone()), Some(Deed::MayRemove)));
            }
            Request::Rename(op::Rename {
                dir,
                name,
                new_dir,
                new_name,
                whiteout,
                ..
            }) => {
                let (from, to) = ((*dir, name.clone()), (*new_dir, new_name.clone()));
                if from != to {
                    let deed = if *whiteout {
                        Deed::MaySet
                    } else {
                        Deed::MayRemove
                    };
                    open.push(self.add(from, Some(deed)));
                    open.push(self.add(to, Some(Deed::MaySet)));
                }
            }
            Request::Exchange(op::Exchange {
                dir,
                name,
                new_dir,
                new_name,
                ..
            }) => {
                let (from, to) = ((*dir, name.clone()), (*new_dir, new_name.clone()));
                if from != to {
                    open.push(self.add(from, Some(Deed::MaySet)));
                    open.push(self.add(to, Some(Deed::MaySet)));
                }
            }
            Request::ReadDir(op::ReadDir { dir, .. }) => {
                for name in self.names.clone() {
                    open.push(self.add((*dir, name), None));
                }
            }
            Request::SetAttr(op::SetAttr { ino, set }) => {
                if let Some(set) = set.mode {
                    let operations = self.modes.entry(*ino).or_default();
                    operations.push((begun, None, Some(ModeDeed::Write(set))));
                    mode = Some((*ino, operations.len() - 1));
                }
            }
            _ => {}
        }
        Open {
            begun,
            names: open,
            mode,
        }
    }

    /// It was answered at once from what is believed. What `may_be_lost`, as a server has just forgotten it, says nothing
    /// until the client has heard of that.
    pub(crate) fn believed(
        &mut self,
        open: Open,
        request: &Request,
        answer: &Result<Reply, Refusal>,
        may_be_lost: bool,
    ) {
        self.answered(open, request, answer, may_be_lost);
    }

    /// It was answered for good.
    pub(crate) fn end(&mut self, open: Open, request: &Request, result: &Result<Reply, Refusal>) {
        self.answered(open, request, result, false);
    }

    fn answered(
        &mut self,
        open: Open,
        request: &Request,
        result: &Result<Reply, Refusal>,
        may_be_lost: bool,
    ) {
        let ended = self.tick();
        if let Some((ino, place)) = open.mode {
            let operations = self.modes.get_mut(&ino).expect("it was begun");
            operations[place].1 = Some(ended);
            if result.is_err() {
                operations[place].2 = None;
            }
        }
        if let Some((ino, mode)) = attributes(request, result)
            && !(may_be_lost && self.forgotten.1.contains(&ino))
        {
            let read = (open.begun, Some(ended), Some(ModeDeed::Read(mode)));
            self.modes.entry(ino).or_default().push(read);
        }
        for (number, (key, place)) in open.names.into_iter().enumerate() {
            let is_lost = may_be_lost && self.forgotten.0.contains(&key);
            let deed = self.deed(&key, number, request, result);
            let operations = self.operations.get_mut(&key).expect("it was begun");
            operations[place].1 = Some(ended);
            operations[place].2 = deed.filter(|_| !is_lost);
        }
    }

    /// Returns the deed on the `number`-th name of the request, if the answer tells.
    fn deed(
        &self,
        key: &Key,
        number: usize,
        request: &Request,
        result: &Result<Reply, Refusal>,
    ) -> Option<Deed> {
        let error = match result {
            Err(Refusal::Fs(error)) => Some(*error),
            Err(_) => return None,
            Ok(_) => None,
        };
        match (request, result) {
            (Request::Lookup(_), Ok(Reply::Entry(entry))) => Some(Deed::Read(Some(entry.ino))),
            (Request::Lookup(_), _) => matches!(error, Some(FsError::NotFound | FsError::Stale))
                .then_some(Deed::Read(None)),
            (
                Request::Create(_) | Request::Mkdir(_) | Request::Link(_),
                Ok(Reply::Entry(entry)),
            ) => Some(Deed::Insert(entry.ino)),
            (Request::Create(_) | Request::Mkdir(_) | Request::Link(_), _) => {
                (error == Some(FsError::Exists)).then_some(Deed::Taken)
            }
            (Request::Unlink(_) | Request::Rmdir(_), Ok(Reply::Removed { ino })) => {
                Some(Deed::Remove(*ino))
            }
            (Request::Unlink(_) | Request::Rmdir(_), _) => match error {
                Some(FsError::NotFound) => Some(Deed::Read(None)),
                Some(FsError::IsDir | FsError::NotDir | FsError::NotEmpty) => Some(Deed::Taken),
                _ => None,
            },
            (Request::Rename(op::Rename { whiteout, .. }), Ok(Reply::Renamed { ino })) => {
                Some(match number {
                    0 if *whiteout => Deed::Hide(*ino),
                    0 if self.linked.contains(ino) => Deed::MayLeave(*ino),
                    0 => Deed::Remove(*ino),
                    _ => Deed::Set(*ino),
                })
            }
            (Request::Rename(_), _) => {
                (number == 1 && error == Some(FsError::Exists)).then_some(Deed::Taken)
            }
            (Request::Exchange(_), Ok(Reply::Exchanged { ino, other })) => Some(match number {
                0 => Deed::Swap(*ino, *other),
                _ => Deed::Swap(*other, *ino),
            }),
            (Request::ReadDir(op::ReadDir { from, .. }), Ok(Reply::Entries(page))) => {
                let found = page.entries.iter().find(|entry| entry.name == key.1);
                let position = self.hash_key.position(key.1.as_bytes());
                // A page ends between two names of the same hash at most in a listing that goes on.
                let covered = position.hash() >= from.hash()
                    && (page.next == Position::END || position.hash() < page.next.hash());
                match found {
                    Some(entry) => Some(Deed::Read(Some(entry.ino))),
                    None => covered.then_some(Deed::Read(None)),
                }
            }
            _ => None,
        }
    }

    /// A server came back without all that it had done to this name. What is under way may have been done before, been
    /// seen, and be done again.
    pub(crate) fn forget(&mut self, key: Key) {
        self.forgotten.0.insert(key.clone());
        let operations = self.operations.entry(key.clone()).or_default();
        let under_way = operations
            .iter()
            .filter(|(_, ended, deed)| ended.is_none() && deed.is_some())
            .copied();
        operations.extend(under_way.collect::<Vec<_>>());
        // A batch may have been done, and be done again.
        let queued = self
            .early
            .queued()
            .filter(|early| names(&early.request).contains(&key));
        let again: Vec<Request> = queued.map(|early| early.request.clone()).collect();
        for request in again {
            self.begin(&request);
        }
        let (key, place) = self.add(key, Some(Deed::Forget));
        let ended = self.tick();
        if let Some(operations) = self.operations.get_mut(&key) {
            operations[place].1 = Some(ended);
        }
    }

    /// The same of what had been done to this inode's attributes.
    pub(crate) fn forget_mode(&mut self, ino: Ino) {
        let begun = self.tick();
        let ended = self.tick();
        let Some(operations) = self.modes.get_mut(&ino) else {
            return;
        };
        let under_way = operations
            .iter()
            .filter(|(_, ended, deed)| ended.is_none() && deed.is_some())
            .copied();
        operations.extend(under_way.collect::<Vec<_>>());
        operations.push((begun, Some(ended), Some(ModeDeed::Forget)));
        self.forgotten.1.insert(ino);
    }

    /// Returns all deeds on modes.
    pub(crate) fn modes(&self) -> Vec<(Ino, Vec<ModeOperation>)> {
        let of = |(ino, operations): (&Ino, &Vec<NotedMode>)| {
            let known = operations.iter();
            let known = known.filter_map(|&(begun, ended, deed)| Some((begun, ended, deed?)));
            (*ino, known.collect())
        };
        self.modes.iter().map(of).collect()
    }

    /// A server came back without this inode.
    pub(crate) fn forget_inode(&mut self, ino: Ino) {
        self.lost.insert(ino);
    }

    pub(crate) fn may_be_lost(&self, ino: Ino) -> bool {
        self.lost.contains(&ino)
    }

    /// Notes the inode that the name leads to at the end.
    pub(crate) fn end_of(&mut self, key: Key, ino: Option<Ino>) {
        let (key, place) = self.add(key, Some(Deed::Read(ino)));
        let ended = self.tick();
        if let Some(operations) = self.operations.get_mut(&key) {
            operations[place].1 = Some(ended);
        }
    }

    /// An operation is answered that no shard has yet.
    pub(crate) fn answered_early(
        &mut self,
        place: (SessionId, ShardId),
        random: u64,
        (request, made): (&Request, Option<Ino>),
        open: &Open,
    ) {
        let instants = (open.begun, self.tick());
        self.early
            .answered(place, random, (request, made), instants);
    }

    /// A shard says that it has done these; `late`: when their session had not been heard of for so long that its grants
    /// may have been over, and others may have seen what was before.
    pub(crate) fn done_early(&mut self, randoms: &[u64], late: bool) -> Result<(), String> {
        let now = self.tick();
        let done = self.early.done(randoms, now)?;
        if late {
            done.iter().for_each(|early| self.unsure(early));
        }
        Ok(())
    }

    /// A client says that the last `count` of its queue are lost.
    pub(crate) fn told_lost(
        &mut self,
        place: (SessionId, ShardId),
        count: usize,
    ) -> Result<(), String> {
        let now = self.tick();
        let lost = self.early.told(place, count, now)?;
        lost.iter().for_each(|early| self.unsure(early));
        Ok(())
    }

    /// A client has died.
    pub(crate) fn died(&mut self, session: SessionId) {
        let left = self.early.left(session);
        left.iter().for_each(|early| self.unsure(early));
    }

    /// What was answered early may come later, or never, and others may have seen that at any time since.
    fn unsure(&mut self, early: &Entry) {
        for key in names(&early.request) {
            let ended = self.tick();
            let operations = self.operations.entry(key).or_default();
            operations.push((early.begun, Some(ended), Some(Deed::Forget)));
        }
        if let Request::SetAttr(op::SetAttr { ino, .. }) = &early.request {
            let ended = self.tick();
            let operations = self.modes.entry(*ino).or_default();
            operations.push((early.begun, Some(ended), Some(ModeDeed::Forget)));
        }
        self.begin(&early.request);
    }

    /// A sync of the inode begins, or fails, by the loss of something that was answered early.
    pub(crate) fn lost_and_synced(
        &mut self,
        session: SessionId,
        ino: Ino,
        fails: bool,
    ) -> Result<(), String> {
        self.early.synced(session, ino, fails)
    }

    /// A sync of the inode was answered.
    pub(crate) fn synced(&self, session: SessionId, ino: Ino, open: &Open) -> Result<(), String> {
        match self.early.left_of(session, ino, open.begun) {
            None => Ok(()),
            Some(left) => Err(format!(
                "session {session} has synced {ino}, and {:?} is not done",
                left.request
            )),
        }
    }

    /// Inodes of which the session has not told a loss.
    pub(crate) fn untold(&self, session: SessionId) -> Vec<Ino> {
        self.early.untold(session)
    }

    /// An operation of the session that was answered early and is neither done nor told to be lost.
    pub(crate) fn left_early(&self, session: SessionId) -> Option<Request> {
        let left = self.early.left(session).into_iter().next();
        left.map(|early| early.request)
    }

    /// Every name that was spoken of.
    pub(crate) fn keys(&self) -> Vec<Key> {
        self.operations.keys().cloned().collect()
    }

    /// Returns whether an operation on the name was under way at some time from `since` on.
    pub(crate) fn is_touched(&self, key: &Key, since: u64) -> bool {
        self.early.is_touched(key, since)
            || self.operations.get(key).is_some_and(|operations| {
                operations.iter().any(|(_, ended, deed)| {
                    ended.is_none_or(|ended| ended >= since)
                        && !matches!(deed, Some(Deed::Read(_)) | Some(Deed::Taken))
                        && (deed.is_some() || ended.is_some())
                })
            })
    }

    /// The instant it is.
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// The operations on a name that tell something, in the order in which they began.
    pub(crate) fn of(&self, key: &Key) -> Vec<Operation> {
        let operations = self.operations.get(key).into_iter().flatten();
        operations
            .filter_map(|&(begun, ended, deed)| deed.map(|deed| Operation { begun, ended, deed }))
            .collect()
    }
}

/// The mode that an answer tells.
fn attributes(request: &Request, answer: &Result<Reply, Refusal>) -> Option<(Ino, u16)> {
    let inode = match (request, answer) {
        (Request::GetAttr(_), Ok(Reply::Inode(inode))) => Some(inode),
        (Request::Lookup(_), Ok(Reply::Entry(entry))) => entry.inode.as_ref(),
        _ => None,
    }?;
    Some((inode.attr.ino, inode.attr.mode))
}
