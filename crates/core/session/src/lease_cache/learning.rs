//! Taking answers into the lease cache.

use super::{DirLease, Entry, Found, Inode, Part, State, Table};
use crate::boottime::Boottime;
use pandofs_api::{DirPart, EntryReply, InodeReply};
use pandofs_types::{FileKind, Ino, LeaseKey, Leased, Name, ServerId, ShardId, Term};

/// A table with less than one in so many of what it may hold is small.
const SMALL_TABLE_FRACTION: usize = 16;

/// The inode of a name, with its attributes if the answer has them.
#[derive(Clone, Copy)]
pub(super) struct Named<'a> {
    pub leads_to: Found,
    pub inode: Option<&'a InodeReply>,
}

impl<'a> Named<'a> {
    pub(super) fn of(entry: &'a EntryReply) -> Named<'a> {
        let leads_to = Found {
            ino: entry.ino,
            kind: entry.kind,
            shard: entry.shard,
        };
        let inode = entry.inode.as_ref();
        Named { leads_to, inode }
    }
}

/// Makes room for one more in a table that will hold no more than `most`: one that grows beyond a
/// small part of it is given room for all of it, so that the old one and the new one are never both
/// large. Many clients of one process have small ones.
fn make_room<K, V>(table: &mut Table<K, V>, most: usize) {
    let len = table.len();
    if len == table.capacity() && len >= most / SMALL_TABLE_FRACTION {
        table.reserve_exact(most.saturating_sub(len));
    }
}

/// One answer to learn from.
pub(super) struct Learning<'a> {
    /// The time of the request.
    pub asked: Boottime,
    pub server: ServerId,
    /// Until the request was sent.
    pub events: u64,
    /// So much is cached already that all but directories are cached for a moment only: a look at
    /// many files, once, would else leave no room for more for as long as a lease lasts, and each
    /// of them would be asked for again, its attributes too.
    pub is_brief: bool,
    pub is_known: &'a dyn Fn(&State, LeaseKey) -> bool,
}

impl Learning<'_> {
    /// For how long the lease is made use of.
    fn term(&self, kind: Option<FileKind>, leased: Leased) -> Leased {
        match self.is_brief && kind != Some(FileKind::Dir) {
            true => leased.within(Term::Brief),
            false => leased,
        }
    }

    fn until(&self, leased: Leased) -> Boottime {
        self.asked + leased.believed_for()
    }

    /// An earlier lease of the same that lasts longer: nothing has recalled it, or it would not be
    /// cached any more, and its server keeps its word until it is over.
    fn longer(&self, earlier: Option<(Boottime, ServerId)>, until: Boottime) -> Option<Boottime> {
        let (earlier, server) = earlier?;
        (server == self.server && earlier >= until).then_some(earlier)
    }

    pub(super) fn dir(&self, state: &mut State, dir: Ino, shard: ShardId, leased: Leased) {
        let keys = [LeaseKey::Inode(dir), LeaseKey::Parts(dir)];
        let is_leased = keys.iter().all(|&key| state.is_leased(key, self.events));
        if is_leased && state.has_room(state.dirs.len()) {
            let (until, server) = (self.until(leased), self.server);
            state.lease_dir(
                dir,
                DirLease {
                    shard,
                    until,
                    server,
                },
            );
            state.ends(until, LeaseKey::Parts(dir), leased);
        }
    }

    pub(super) fn entry(
        &self,
        state: &mut State,
        key: LeaseKey,
        name: &Name,
        named: Option<Named<'_>>,
        leased: Leased,
    ) {
        if let Some(inode) = named.and_then(|named| named.inode) {
            self.inode(state, inode, leased);
        }
        let leased = self.term(named.map(|named| named.leads_to.kind), leased);
        let until = self.until(leased);
        let LeaseKey::Entry { dir, position } = key else {
            return;
        };
        let has_room = state.has_room(state.entries.len());
        if leased.has(Leased::ENTRY) && has_room && (self.is_known)(state, key) {
            let leads_to = named.map(|named| named.leads_to);
            let known = state.entries.get(&(dir, position));
            let longer = self.longer(known.map(|known| (known.until, known.server)), until);
            make_room(&mut state.entries, state.most);
            state.entries.insert(
                (dir, position),
                Entry {
                    name: name.clone(),
                    leads_to,
                    until: longer.unwrap_or(until),
                    server: self.server,
                },
            );
            if longer.is_none() {
                state.ends(until, key, leased);
            }
        }
    }

    pub(super) fn inode(&self, state: &mut State, inode: &InodeReply, leased: Leased) {
        let leased = self.term(Some(inode.attr.kind), leased);
        let until = self.until(leased);
        let ino = inode.attr.ino;
        let key = LeaseKey::Inode(ino);
        if inode.attr.kind == FileKind::Dir && leased.has(Leased::ATTRIBUTES) {
            self.dir(state, ino, ino.birth_shard(), leased);
        }
        let is_known = (self.is_known)(state, key)
            && (inode.attr.kind != FileKind::Dir || (self.is_known)(state, LeaseKey::Parts(ino)));
        if leased.has(Leased::ATTRIBUTES) && state.is_leased(key, self.events) {
            state.write_lease(ino, self.events, inode.truncations, until, self.server);
        }
        if leased.has(Leased::ATTRIBUTES) && state.has_room(state.inodes.len()) && is_known {
            let mut reply = inode.clone();
            // Never of any use here.
            if let pandofs_api::FileBody::Inline { data, .. } = &mut reply.body {
                *data = Vec::new();
            }
            let known = state.inodes.get(&ino);
            let longer = self.longer(known.map(|known| (known.until, known.server)), until);
            make_room(&mut state.inodes, state.most);
            state.inodes.insert(
                ino,
                Inode {
                    reply,
                    until: longer.unwrap_or(until),
                    server: self.server,
                },
            );
            if longer.is_none() {
                state.ends(until, key, leased);
            }
        }
    }

    pub(super) fn part(
        &self,
        state: &mut State,
        dir: Ino,
        shard: ShardId,
        part: &DirPart,
        leased: Leased,
    ) {
        let (key, until) = (LeaseKey::Parts(dir), self.until(leased));
        if leased.has(Leased::ATTRIBUTES) {
            self.dir(state, dir, shard, leased);
        }
        if leased.has(Leased::ATTRIBUTES)
            && state.has_room(state.parts.len())
            && (self.is_known)(state, key)
        {
            let parts = state.parts.entry(dir).or_default();
            parts.retain(|part| part.shard != shard);
            parts.push(Part {
                shard,
                part: part.clone(),
                until,
                server: self.server,
            });
            state.ends(until, key, leased);
        }
    }
}
