//! Cache of entries, attributes and parts of directories' attributes under leases.
//!
//! Each stays until its lease is over or it is recalled. Questions that are answered from here are
//! not asked.
//!
//! An answer is taken in only if nothing has come since its request was sent that makes it old:
//! neither a recall of what it is about, nor a change by this session, nor the loss of a
//! connection. A server may send a recall over one connection before the answer that it is about
//! has come over another.
//!
//! A change by this session clears its keys: from before the request is sent until it is answered
//! they are not cached, and afterwards as the answer says.
//!
//! Invariant: no I/O and no clock, and nothing is waited for; `now` is never earlier than it was.

mod answering;
mod changes;
mod learning;
mod listed;
mod recall;
#[cfg(test)]
mod tests;
mod write_leases;

use crate::atime::touch;
use crate::boottime::Boottime;
use crate::lease_grant::{LeaseGrant, Sent};
use crate::limits::{LEASE_ENDS_PER_LEASE, MANY_LEASES_FRACTION, MAX_WRITE_LEASES};
pub use answering::searches_all;
use hashbrown::{DefaultHashBuilder, HashMap};
use indexmap::IndexMap;
use learning::{Learning, Named};
pub use listed::{Listed, ListedUntil};
use pandofs_api::{DirPart, InodeReply, Refusal, Reply, Request, op};
use pandofs_types::limits::MAX_CACHED_LEASES;
use pandofs_types::{
    AtimeRule, Attr, FileKind, FsError, HashKey, Ino, LeaseKey, Leased, Name, Position, ServerId,
    ShardId, Term, Time,
};
use std::collections::VecDeque;
use write_leases::WriteLease;
pub use write_leases::{Begun, Hold};

/// Keys with the time of the last news of each; that of others is taken to be as old as the last
/// that is forgotten. Half of what a hash table with 32,768 places holds: one that is fuller, and
/// in which much comes and goes, doubles.
const REMEMBERED_EVENTS: usize = 32_768 / 8 * 7 / 2;

/// A table whose values stand side by side, and whose memory is not touched before they come, so
/// that there can be room for all of them early. A table whose places are spread has the old and
/// the new one at once while it grows, and doubles when it is nearly full and much comes and goes:
/// three times the memory of what it holds.
type Table<K, V> = IndexMap<K, V, DefaultHashBuilder>;

/// The leased entries, attributes and parts of a session.
#[derive(Debug)]
pub struct LeaseCache {
    hash_key: HashKey,
    is_on: bool,
    /// Names may be answered for any caller: the kernel checks who may search which directory.
    for_all: bool,
    /// Number of events that make answers old.
    events: u64,
    answered: u64,
    recalled: u64,
    state: State,
    /// Most entries, and most attributes.
    most: usize,
}

#[derive(Debug)]
struct Entry {
    name: Name,
    /// `None`: there is none.
    leads_to: Option<Found>,
    until: Boottime,
    server: ServerId,
}

/// The inode of a name. Its attributes are kept with the inode's, once.
#[derive(Clone, Copy, Debug)]
struct Found {
    ino: Ino,
    kind: FileKind,
    shard: ShardId,
}

#[derive(Debug)]
struct Inode {
    reply: InodeReply,
    until: Boottime,
    server: ServerId,
}

#[derive(Debug)]
struct Part {
    shard: ShardId,
    part: DirPart,
    until: Boottime,
    server: ServerId,
}

/// A lease of what one shard has of a directory's attributes.
#[derive(Clone, Copy, Debug)]
struct DirLease {
    shard: ShardId,
    until: Boottime,
    server: ServerId,
}

#[derive(Debug, Default)]
struct State {
    entries: Table<(Ino, Position), Entry>,
    inodes: Table<Ino, Inode>,
    parts: HashMap<Ino, Vec<Part>>,
    /// Those of each term in the order in which they end; what was learnt again stands here more
    /// than once.
    ends: [VecDeque<(Boottime, LeaseKey)>; Term::COUNT],
    /// Of directories what is leased, whether it is known or not: this session may be changing it.
    dirs: HashMap<Ino, Vec<DirLease>>,
    /// Entries, attributes and parts that there may be of each.
    most: usize,
    /// Of files that are written to.
    write_leases: HashMap<Ino, WriteLease>,
    most_write_leases: usize,
    /// Until then it is not looked again for write leases that make room for others.
    full_until: Option<Boottime>,
    /// The last recalls.
    recalled: HashMap<LeaseKey, u64>,
    heard: HashMap<LeaseKey, u64>,
    heard_order: VecDeque<(u64, LeaseKey)>,
    /// The last event that is forgotten.
    floor: u64,
    /// Keys that this session is changing, and the number of requests that do.
    changing: HashMap<LeaseKey, u32>,
    /// Servers that give leases, and since when.
    servers: HashMap<ServerId, Boottime>,
}

/// A change by this session, while it is under way.
#[derive(Debug)]
pub struct Change {
    keys: Vec<LeaseKey>,
    /// The event of its beginning.
    begun: u64,
}

impl State {
    fn forget(&mut self, key: LeaseKey) {
        match key {
            LeaseKey::Entry { dir, position } => {
                self.entries.swap_remove(&(dir, position));
            }
            LeaseKey::Inode(ino) => {
                self.inodes.swap_remove(&ino);
            }
            LeaseKey::Parts(dir) => {
                // The home's part is in its inode.
                self.inodes.swap_remove(&dir);
                self.parts.remove(&dir);
            }
            LeaseKey::Grant(_) => {}
        }
    }

    fn note(&mut self, key: LeaseKey, event: u64) {
        while self.heard_order.len() >= REMEMBERED_EVENTS {
            if let Some((event, key)) = self.heard_order.pop_front() {
                self.floor = self.floor.max(event);
                if self.heard.get(&key) == Some(&event) {
                    self.heard.remove(&key);
                }
                if self.recalled.get(&key) == Some(&event) {
                    self.recalled.remove(&key);
                }
            }
        }
        self.heard.insert(key, event);
        self.heard_order.push_back((event, key));
    }

    /// Returns whether the key was not recalled since then.
    fn is_leased(&self, key: LeaseKey, events: u64) -> bool {
        events >= self.floor
            && self
                .recalled
                .get(&key)
                .is_none_or(|recalled| *recalled <= events)
    }

    /// Returns whether there was no news of the key since then.
    fn is_current(&self, key: LeaseKey, events: u64) -> bool {
        events >= self.floor
            && self.heard.get(&key).is_none_or(|heard| *heard <= events)
            && !self.changing.contains_key(&key)
    }

    fn len(&self) -> usize {
        self.entries.len().max(self.inodes.len())
    }

    /// Returns whether one more may be learnt where there are so many.
    fn has_room(&self, len: usize) -> bool {
        let ends: usize = self.ends.iter().map(VecDeque::len).sum();
        len < self.most && ends < LEASE_ENDS_PER_LEASE * self.most
    }

    fn ends(&mut self, until: Boottime, key: LeaseKey, leased: Leased) {
        self.ends[leased.term() as usize].push_back((until, key));
    }

    fn take_ended(&mut self, now: Boottime) -> Option<LeaseKey> {
        let ends = self.ends.iter_mut();
        let mut ended = ends.filter(|ends| ends.front().is_some_and(|(until, _)| *until <= now));
        ended.next()?.pop_front().map(|(_, key)| key)
    }

    fn drop_ended(&mut self, now: Boottime) {
        while let Some(key) = self.take_ended(now) {
            match key {
                LeaseKey::Entry { dir, position } => {
                    if self
                        .entries
                        .get(&(dir, position))
                        .is_some_and(|e| e.until <= now)
                    {
                        self.entries.swap_remove(&(dir, position));
                    }
                }
                LeaseKey::Inode(ino) => {
                    if self
                        .inodes
                        .get(&ino)
                        .is_some_and(|inode| inode.until <= now)
                    {
                        self.inodes.swap_remove(&ino);
                    }
                    self.drop_ended_dir(ino, now);
                }
                LeaseKey::Parts(dir) => {
                    if let Some(parts) = self.parts.get_mut(&dir) {
                        parts.retain(|part| part.until > now);
                        if parts.is_empty() {
                            self.parts.remove(&dir);
                        }
                    }
                    self.drop_ended_dir(dir, now);
                }
                LeaseKey::Grant(_) => {}
            }
        }
    }

    fn drop_ended_dir(&mut self, dir: Ino, now: Boottime) {
        if let Some(leases) = self.dirs.get_mut(&dir) {
            leases.retain(|lease| lease.until > now);
            if leases.is_empty() {
                self.dirs.remove(&dir);
            }
        }
    }

    fn lease_dir(&mut self, dir: Ino, lease: DirLease) {
        let leases = self.dirs.entry(dir).or_default();
        leases.retain(|other| other.shard != lease.shard);
        leases.push(lease);
    }
}

impl LeaseCache {
    /// Off until [`LeaseCache::begin`], with the default limits.
    pub fn new(hash_key: HashKey) -> LeaseCache {
        LeaseCache::within(hash_key, MAX_CACHED_LEASES, MAX_WRITE_LEASES)
    }

    /// Caches no more than this many entries, and as many attributes, and knows the leases of no
    /// more files that are written to.
    pub fn within(hash_key: HashKey, leases: usize, write_leases: usize) -> LeaseCache {
        let state = State {
            most: leases,
            most_write_leases: write_leases,
            ..State::default()
        };
        LeaseCache {
            hash_key,
            is_on: false,
            for_all: false,
            events: 1,
            answered: 0,
            recalled: 0,
            state,
            most: leases,
        }
    }

    /// Leases are taken from now on.
    pub fn begin(&mut self, for_all: bool) {
        self.for_all = for_all;
        self.is_on = true;
    }

    /// Questions that were answered from here.
    pub fn answered(&self) -> u64 {
        self.answered
    }

    /// Names and attributes that are kept.
    pub fn kept(&self) -> usize {
        self.state.entries.len() + self.state.inodes.len()
    }

    /// Leases that were recalled.
    pub fn recalled(&self) -> u64 {
        self.recalled
    }

    fn event(&mut self) -> u64 {
        self.events += 1;
        self.events
    }

    /// Events so far that make answers old.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// A request is about to be sent.
    pub fn sent(&self, now: Boottime) -> Sent {
        Sent::after(self.events, now)
    }

    /// The lease of the name, whatever it leads to.
    pub fn entry_key(&self, dir: Ino, name: &Name) -> LeaseKey {
        entry_key(self.hash_key, dir, name)
    }

    /// The server gives leases with what is asked from now on.
    pub fn subscribed(&mut self, server: ServerId, now: Boottime) {
        self.state.servers.insert(server, now);
    }

    /// Drops all that this server leased.
    pub fn lost(&mut self, server: ServerId) {
        let event = self.event();
        let state = &mut self.state;
        state.servers.remove(&server);
        state.entries.retain(|_, entry| entry.server != server);
        state.inodes.retain(|_, inode| inode.server != server);
        state.parts.retain(|_, parts| {
            parts.retain(|part| part.server != server);
            !parts.is_empty()
        });
        state.dirs.retain(|_, leases| {
            leases.retain(|lease| lease.server != server);
            !leases.is_empty()
        });
        state.lose_write_leases(server);
        state.floor = state.floor.max(event);
    }

    /// A change is about to be asked for.
    pub fn change(&mut self, request: &Request) -> Option<Change> {
        if !self.is_on || !request.is_mutation() {
            return None;
        }
        let mut keys = self.changed_by(request);
        let state = &self.state;
        // The inode of a name changes as well.
        let names: Vec<_> = keys.clone();
        for key in names {
            if let LeaseKey::Entry { dir, position } = key
                && let Some(entry) = state.entries.get(&(dir, position))
                && let Some(found) = &entry.leads_to
                && request.operation().takes_names()
            {
                keys.push(LeaseKey::Inode(found.ino));
            }
        }
        if keys.is_empty() {
            return None;
        }
        keys.sort_unstable();
        keys.dedup();
        let begun = self.event();
        let state = &mut self.state;
        for &key in &keys {
            state.forget(key);
            state.note(key, begun);
            *state.changing.entry(key).or_default() += 1;
        }
        Some(Change { keys, begun })
    }

    /// It was answered with this; `None` if it was refused or given up. `grant`: its leases, if
    /// any.
    pub fn changed(
        &mut self,
        change: Change,
        reply: Option<&Reply>,
        grant: Option<LeaseGrant<'_>>,
        now: Boottime,
    ) {
        let event = self.event();
        let state = &mut self.state;
        // Keys that others have changed, or that another thread here is changing, are not known.
        let mut unknown = Vec::new();
        for &key in &change.keys {
            let others = state.changing.get(&key).is_some_and(|count| *count > 1);
            let heard = state
                .heard
                .get(&key)
                .is_some_and(|heard| *heard > change.begun);
            if others || heard || change.begun < state.floor {
                unknown.push(key);
            }
            if let Some(count) = state.changing.get_mut(&key) {
                *count -= 1;
                if *count == 0 {
                    state.changing.remove(&key);
                }
            }
            state.forget(key);
            state.note(key, event);
            if let LeaseKey::Inode(ino) = key {
                state.own_change(ino, event, reply);
            }
        }
        let also = match reply {
            Some(Reply::Removed { ino } | Reply::Renamed { ino }) => vec![*ino],
            Some(Reply::Exchanged { ino, other }) => vec![*ino, *other],
            _ => Vec::new(),
        };
        for ino in also {
            for key in [LeaseKey::Inode(ino), LeaseKey::Parts(ino)] {
                state.forget(key);
                state.note(key, event);
            }
        }
        if let Some(reply) = reply
            && let Some(grant) = grant
        {
            let is_known = |state: &State, key| match change.keys.contains(&key) {
                true => !unknown.contains(&key),
                // A new inode may have been changed by another client since.
                false => state.is_current(key, change.begun),
            };
            self.learn_reply(grant, Ok(reply), &is_known, now);
        }
    }

    /// Takes in the answer to a question.
    pub fn learn(&mut self, grant: LeaseGrant<'_>, answer: &Result<Reply, Refusal>, now: Boottime) {
        if !self.is_on || grant.leased.is_empty() {
            return;
        }
        let is_known = |state: &State, key| state.is_current(key, grant.sent.events);
        self.learn_reply(grant, answer.as_ref(), &is_known, now);
    }

    fn learn_reply(
        &mut self,
        grant: LeaseGrant<'_>,
        answer: Result<&Reply, &Refusal>,
        is_known: &dyn Fn(&State, LeaseKey) -> bool,
        now: Boottime,
    ) {
        let LeaseGrant {
            asked,
            sent,
            server,
            leased,
        } = grant;
        let (hash_key, most, state) = (self.hash_key, self.most, &mut self.state);
        let since = state.servers.get(&server);
        if leased.is_empty() || since.is_none_or(|since| sent.at < *since) {
            return;
        }
        state.drop_ended(now);
        let learning = Learning {
            asked: sent.at,
            server,
            events: sent.events,
            is_brief: state.len() >= most / MANY_LEASES_FRACTION,
            is_known,
        };
        let first = leased[0];
        match (&asked.request, answer) {
            (Request::Lookup(op::Lookup { dir, name }), Err(Refusal::Fs(FsError::NotFound))) => {
                let key = entry_key(hash_key, *dir, name);
                learning.entry(state, key, name, None, first);
            }
            (request, Ok(Reply::Entry(entry))) => {
                if let Some((dir, name)) = request.operation().answers_name() {
                    let key = entry_key(hash_key, dir, name);
                    learning.entry(state, key, name, Some(Named::of(entry)), first);
                } else if let Some(inode) = &entry.inode {
                    learning.inode(state, inode, first);
                }
            }
            (_, Ok(Reply::Inode(inode))) => learning.inode(state, inode, first),
            (Request::DirPart(op::DirPart { dir }), Ok(Reply::Part(part))) => {
                learning.part(state, *dir, asked.shard, part, first);
            }
            (Request::ReadDir(op::ReadDir { dir, .. }), Ok(Reply::Entries(listed))) => {
                for (entry, leased) in listed.entries.iter().zip(leased) {
                    let key = entry_key(hash_key, *dir, &entry.name);
                    let named = Named {
                        leads_to: Found {
                            ino: entry.ino,
                            kind: entry.kind,
                            shard: entry.shard,
                        },
                        inode: entry.inode.as_ref(),
                    };
                    learning.entry(state, key, &entry.name, Some(named), *leased);
                }
            }
            _ => {}
        }
    }

    /// Notes that reads of these were reported to shards.
    pub fn accessed(&mut self, inos: &[(Ino, Time)], rule: AtimeRule) {
        if self.is_on {
            for (ino, at) in inos {
                if let Some(inode) = self.state.inodes.get_mut(ino) {
                    touch(&mut inode.reply.attr, *at, rule);
                }
            }
        }
    }
}

/// Returns whether two answers say the same of an inode, but for the times of reading and the space
/// it takes, which are found out besides.
pub fn is_same(one: &Attr, other: &Attr) -> bool {
    let comparable = Attr {
        atime: other.atime,
        blocks: other.blocks,
        ..one.clone()
    };
    comparable == *other
}

/// The key of an entry.
pub fn entry_key(hash_key: HashKey, dir: Ino, name: &Name) -> LeaseKey {
    let position = hash_key.position(name.as_bytes());
    LeaseKey::Entry { dir, position }
}
