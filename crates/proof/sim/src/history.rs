//! History: requests and answers of clients, one list for each name of each directory and for each attribute of each inode.

mod asked;
mod attributes;
mod contents;
mod deed;
mod logs;
mod xattrs;

pub(crate) use asked::{Asked, Outcome};
pub(crate) use attributes::{Field, Told};
pub(crate) use contents::{
    Changed, Contents, FileLog, Read, SECTOR_BYTES, SECTORS, Stamp, bytes_of, stamp_of,
};
pub(crate) use deed::Deed;
pub(crate) use logs::{Logs, Operation};
pub(crate) use xattrs::NAMES as XATTRS;

use crate::early::{Entry, Ledger, names};
use attributes::Attribute;
use pandofs_api::{Refusal, Reply, Request, op};
use pandofs_types::{Credentials, FsError, HashKey, Ino, Name, Position, SessionId, ShardId};
use std::collections::BTreeSet;
use xattrs::Xattr;

/// A name of a directory.
pub(crate) type Key = (Ino, Name);

/// Operations under way with one request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Open {
    begun: u64,
    names: Vec<(Key, usize)>,
    attributes: Vec<(Attribute, usize)>,
    xattrs: Vec<(Xattr, usize)>,
    caller: Credentials,
}

/// All that clients know.
pub(crate) struct History {
    hash_key: HashKey,
    now: u64,
    names: Vec<Name>,
    /// Times are what they are said to be.
    tells_times: bool,
    operations: Logs<Key, Deed<Ino>>,
    attributes: Logs<Attribute, Told>,
    xattrs: Logs<Xattr, Deed<u8>>,
    asked: Vec<Asked>,
    linked: BTreeSet<Ino>,
    /// Inodes that a server may have lost with what it had not synced.
    lost: BTreeSet<Ino>,
    early: Ledger,
    /// Contents of files.
    pub contents: Contents,
}

impl History {
    /// `names` are all that there are. With `tells_times` no time is brought back that was told.
    pub(crate) fn new(hash_key: HashKey, names: Vec<Name>, tells_times: bool) -> History {
        History {
            hash_key,
            now: 0,
            names,
            tells_times,
            operations: Logs::default(),
            attributes: Logs::default(),
            xattrs: Logs::default(),
            asked: Vec::new(),
            linked: BTreeSet::new(),
            lost: BTreeSet::new(),
            early: Ledger::default(),
            contents: Contents::default(),
        }
    }

    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    fn add(&mut self, key: Key, deed: Option<Deed<Ino>>) -> (Key, usize) {
        let begun = self.tick();
        self.operations.begin(key, begun, deed)
    }

    /// A request is sent for the first time, in the name of its caller.
    pub(crate) fn begin(&mut self, caller: &Credentials, request: &Request) -> Open {
        let begun = self.tick();
        Open {
            begun,
            names: self.begin_names(request),
            attributes: self.begin_attributes(request, begun),
            xattrs: self.begin_xattrs(request, begun),
            caller: caller.clone(),
        }
    }

    fn begin_attributes(&mut self, request: &Request, begun: u64) -> Vec<(Attribute, usize)> {
        let changes = attributes::changes(request).into_iter();
        let tells_times = self.tells_times;
        changes
            .filter(|((_, field), _)| tells_times || !field.is_time())
            .map(|(key, may)| self.attributes.begin(key, begun, Some(may)))
            .collect()
    }

    fn begin_xattrs(&mut self, request: &Request, begun: u64) -> Vec<(Xattr, usize)> {
        let about = xattrs::about(request).into_iter();
        about
            .map(|(xattr, may)| self.xattrs.begin(xattr, begun, may))
            .collect()
    }

    fn begin_names(&mut self, request: &Request) -> Vec<(Key, usize)> {
        let mut open = Vec::new();
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
            _ => {}
        }
        open
    }

    /// It was answered at once from what is believed. An answer that `may_be_lost`, as a server has just forgotten it,
    /// says nothing until the client has heard of that.
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
        // Rights that somebody believes may be lost as well.
        if !may_be_lost {
            self.asked(open.begun, ended, &open.caller, request, result);
        }
        let attr = attributes::told(result);
        let changed: BTreeSet<Attribute> = open.attributes.iter().map(|(key, _)| *key).collect();
        for place in open.attributes {
            let may = self.attributes.deed(&place).filter(|_| result.is_ok());
            let field = place.0.1;
            let told = may.map(|may| attributes::changed(field, may, attr));
            // Bytes that a truncation took away since make a file no longer, so that its size is all that is known.
            let told = match (told, attr, request) {
                (Some(_), Some(attr), Request::WroteData(_)) => Some(Told::Write(field.of(attr))),
                (told, ..) => told,
            };
            self.attributes.end(place, ended, told);
        }
        for (key, told) in attr.into_iter().flat_map(attributes::reads) {
            let is_told = self.tells_times || !key.1.is_time();
            if is_told
                && !changed.contains(&key)
                && !(may_be_lost && self.attributes.is_forgotten(&key))
            {
                self.attributes.add(key, (open.begun, ended), told);
            }
        }
        for place in open.xattrs {
            let deed = xattrs::deed(&place.0, request, result);
            self.xattrs.end(place, ended, deed);
        }
        for (number, place) in open.names.into_iter().enumerate() {
            let is_lost = may_be_lost && self.operations.is_forgotten(&place.0);
            let deed = self.deed(&place.0, number, request, result);
            let deed = deed.filter(|_| !is_lost);
            self.operations.end(place, ended, deed);
        }
    }

    /// Returns the deed on the `number`-th name of the request, if the answer tells.
    fn deed(
        &self,
        key: &Key,
        number: usize,
        request: &Request,
        result: &Result<Reply, Refusal>,
    ) -> Option<Deed<Ino>> {
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

    /// A server came back without all that it had done to this name. An operation under way may have been done before,
    /// been seen, and be done again.
    pub(crate) fn forget(&mut self, key: Key) {
        self.operations.forget(key.clone());
        // A batch may have been done, and be done again.
        let queued = self
            .early
            .queued()
            .filter(|early| names(&early.request).contains(&key));
        let again: Vec<Request> = queued.map(|early| early.request.clone()).collect();
        for request in again {
            self.begin_names(&request);
        }
        let place = self.add(key, Some(Deed::Forget));
        let ended = self.tick();
        self.operations.end(place, ended, Some(Deed::Forget));
    }

    /// The same of what had been done to this inode's attributes.
    pub(crate) fn forget_attributes(&mut self, ino: Ino) {
        let (begun, ended) = (self.tick(), self.tick());
        self.early.forget(ended);
        let of = self.attributes.keys().filter(|(of, _)| *of == ino);
        for key in of.copied().collect::<Vec<_>>() {
            self.attributes.forget(key);
            self.attributes.add(key, (begun, ended), Told::Forget);
        }
        let of = self.xattrs.keys().filter(|(of, _)| *of == ino);
        for key in of.cloned().collect::<Vec<_>>() {
            self.xattrs.forget(key.clone());
            self.xattrs.add(key, (begun, ended), Deed::Forget);
        }
        // A batch may have been done, and be done again.
        for early in self.early.queued() {
            let again = attributes::changes(&early.request).into_iter();
            for (key, may) in again.filter(|((of, _), _)| *of == ino) {
                self.attributes.begin(key, begun, Some(may));
            }
            let again = xattrs::about(&early.request).into_iter();
            for (key, may) in again.filter(|((of, _), _)| *of == ino) {
                self.xattrs.begin(key, begun, may);
            }
        }
    }

    /// All that is told of extended attributes.
    pub(crate) fn xattrs(&self) -> &Logs<Xattr, Deed<u8>> {
        &self.xattrs
    }

    /// All that is told of attributes.
    pub(crate) fn attributes(&self) -> &Logs<Attribute, Told> {
        &self.attributes
    }

    /// A server came back without this inode.
    pub(crate) fn forget_inode(&mut self, ino: Ino) {
        self.lost.insert(ino);
    }

    /// Whether somebody wanted further names of it.
    pub(crate) fn may_have_links(&self, ino: Ino) -> bool {
        self.linked.contains(&ino)
    }

    pub(crate) fn may_be_lost(&self, ino: Ino) -> bool {
        self.lost.contains(&ino)
    }

    /// Notes the inode that the name leads to at the end.
    pub(crate) fn end_of(&mut self, key: Key, ino: Option<Ino>) {
        let place = self.add(key, None);
        let ended = self.tick();
        self.operations.end(place, ended, Some(Deed::Read(ino)));
    }

    /// An operation is answered that no shard has yet.
    pub(crate) fn answered_early(
        &mut self,
        place: (SessionId, ShardId),
        sent: (u64, bool),
        (request, made): (&Request, Option<Ino>),
        open: &Open,
    ) {
        let instants = (open.begun, self.tick());
        self.early.answered(place, sent, (request, made), instants);
    }

    /// A shard says that it has done these.
    pub(crate) fn done_early(&mut self, randoms: &[u64]) -> Result<(), String> {
        let now = self.tick();
        self.early.done(randoms, now)
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

    /// Early operations that clients have told to be lost.
    pub(crate) fn early_lost(&self) -> u64 {
        self.early.lost()
    }

    /// A client has died.
    pub(crate) fn died(&mut self, session: SessionId) {
        let left = self.early.left(session);
        left.iter().for_each(|early| self.unsure(early));
    }

    /// An early operation may come later, or never, and others may have seen it at any time since.
    fn unsure(&mut self, early: &Entry) {
        for key in names(&early.request) {
            let ended = self.tick();
            self.operations.add(key, (early.begun, ended), Deed::Forget);
        }
        for (key, _) in attributes::changes(&early.request) {
            let ended = self.tick();
            self.attributes.add(key, (early.begun, ended), Told::Forget);
        }
        // Names tell the inodes that it would have changed besides.
        let ended = self.tick();
        let ctimes = self.attributes.keys().filter(|(_, of)| *of == Field::Ctime);
        for key in ctimes.copied().collect::<Vec<_>>() {
            self.attributes.add(key, (early.begun, ended), Told::Forget);
        }
        for (xattr, _) in xattrs::about(&early.request) {
            let ended = self.tick();
            self.xattrs.add(xattr, (early.begun, ended), Deed::Forget);
        }
        let begun = self.tick();
        self.begin_names(&early.request);
        self.begin_attributes(&early.request, begun);
        self.begin_xattrs(&early.request, begun);
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
            || self.operations.noted(key).iter().any(|(_, ended, deed)| {
                ended.is_none_or(|ended| ended >= since)
                    && !matches!(deed, Some(Deed::Read(_)) | Some(Deed::Taken))
                    && (deed.is_some() || ended.is_some())
            })
    }

    /// The instant it is.
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// The operations on a name that tell something, in the order in which they began.
    pub(crate) fn of(&self, key: &Key) -> Vec<Operation<Deed<Ino>>> {
        self.operations.known(key)
    }
}
