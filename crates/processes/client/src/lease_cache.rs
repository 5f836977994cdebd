//! Lease cache of the session, shared by the client's threads.
//!
//! Every request reads two things of it without its lock: whether leases are taken, and the events until it is sent.
//! The number of events that is read so may be too small, never too large; an answer then counts as older than it
//! is.

#[cfg(test)]
mod interleaved;

use crate::dirs::Entry;
use pandofs_api::{DirPart, InodeReply, Refusal, Reply, Request, ShardRequest, op};
use pandofs_session::{
    Begun, Boottime, Change, Hold, LeaseGrant, Listed, ListedUntil, Sent, Target, searches_all,
};
use pandofs_types::{AtimeRule, Attr, HashKey, Ino, LeaseKey, Name, ServerId, ShardId, Time};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The leased entries, attributes and parts of the session.
#[derive(Debug)]
pub(crate) struct LeaseCache {
    hash_key: HashKey,
    is_on: AtomicBool,
    /// Names may be answered for any caller.
    for_all: AtomicBool,
    /// Those that were there when the lock was last given back.
    events: AtomicU64,
    cache: Mutex<pandofs_session::LeaseCache>,
}

impl LeaseCache {
    /// Caches no more than this many entries, and as many attributes, and knows the leases of no
    /// more files that are written to.
    pub(crate) fn within(hash_key: HashKey, leases: usize, write_leases: usize) -> LeaseCache {
        let cache = pandofs_session::LeaseCache::within(hash_key, leases, write_leases);
        LeaseCache {
            hash_key,
            is_on: AtomicBool::new(false),
            for_all: AtomicBool::new(false),
            events: AtomicU64::new(cache.events()),
            cache: Mutex::new(cache),
        }
    }

    /// With the lock.
    fn with<R>(&self, act: impl FnOnce(&mut pandofs_session::LeaseCache) -> R) -> R {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let result = act(&mut cache);
        if self.events.load(Ordering::Relaxed) != cache.events() {
            self.events.store(cache.events(), Ordering::Release);
        }
        result
    }

    /// Leases are taken from now on.
    pub(crate) fn begin(&self, for_all: bool) {
        self.with(|cache| cache.begin(for_all));
        self.for_all.store(for_all, Ordering::SeqCst);
        self.is_on.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Questions that were answered from here.
    pub(crate) fn answered(&self) -> u64 {
        self.with(|cache| cache.answered())
    }

    /// Leases that were recalled.
    pub(crate) fn recalled(&self) -> u64 {
        self.with(|cache| cache.recalled())
    }

    /// Names and attributes that are kept.
    pub(crate) fn kept(&self) -> usize {
        self.with(|cache| cache.kept())
    }

    /// A request is about to be sent.
    pub(crate) fn sent(&self, now: Boottime) -> Sent {
        Sent::after(self.events.load(Ordering::Acquire), now)
    }

    pub(crate) fn entry_key(&self, dir: Ino, name: &Name) -> LeaseKey {
        pandofs_session::entry_key(self.hash_key, dir, name)
    }

    /// The server gives leases with what is asked from now on.
    pub(crate) fn subscribed(&self, server: ServerId, now: Boottime) {
        self.with(|cache| cache.subscribed(server, now));
    }

    /// Drops all that this server leased.
    pub(crate) fn lost(&self, server: ServerId) {
        self.with(|cache| cache.lost(server));
    }

    /// The answer to a question, if it is cached.
    pub(crate) fn answer(
        &self,
        target: Target,
        asked: &ShardRequest,
        now: Boottime,
    ) -> Option<Result<Reply, Refusal>> {
        if !self.is_on() {
            return None;
        }
        match &asked.request {
            Request::Lookup(op::Lookup { .. })
                if !self.for_all.load(Ordering::Relaxed) && !searches_all(&asked.caller) =>
            {
                None
            }
            Request::Lookup(_) | Request::GetAttr(_) | Request::DirPart(_) => {
                self.with(|cache| cache.answer(target, asked, now))
            }
            _ => None,
        }
    }

    /// As [`pandofs_session::LeaseCache::entry_until`].
    pub(crate) fn entry_until(
        &self,
        key: LeaseKey,
        name: &Name,
        ino: Option<Ino>,
    ) -> Option<Boottime> {
        self.with(|cache| cache.entry_until(key, name, ino))
    }

    /// As [`pandofs_session::LeaseCache::dir_until`].
    pub(crate) fn dir_until(&self, dir: Ino, shards: &[ShardId]) -> Option<Boottime> {
        self.with(|cache| cache.dir_until(dir, shards))
    }

    /// As [`pandofs_session::LeaseCache::inode`].
    pub(crate) fn inode(
        &self,
        ino: Ino,
        shards: &[ShardId],
    ) -> Option<(InodeReply, Vec<DirPart>, Boottime)> {
        self.with(|cache| cache.inode(ino, shards))
    }

    /// As [`pandofs_session::LeaseCache::attr`].
    pub(crate) fn attr(&self, ino: Ino) -> Option<(Attr, Boottime)> {
        self.with(|cache| cache.attr(ino))
    }

    /// The ends of the leases of each entry of a listing, a key for each, read under one lock.
    pub(crate) fn listed_until(&self, keys: &[LeaseKey], entries: &[Entry]) -> Vec<ListedUntil> {
        self.with(|cache| {
            let until = |(key, entry): (&LeaseKey, &Entry)| {
                cache.listed_until(Listed {
                    key: *key,
                    name: &entry.name,
                    ino: entry.ino,
                    attr: entry.attr.as_ref(),
                })
            };
            keys.iter().zip(entries).map(until).collect()
        })
    }

    /// A change is about to be asked for.
    pub(crate) fn change(&self, request: &Request) -> Option<Change> {
        if !self.is_on() || !request.is_mutation() {
            return None;
        }
        self.with(|cache| cache.change(request))
    }

    /// As [`pandofs_session::LeaseCache::changed`].
    pub(crate) fn changed(
        &self,
        change: Change,
        reply: Option<&Reply>,
        grant: Option<LeaseGrant<'_>>,
        now: Boottime,
    ) {
        self.with(|cache| cache.changed(change, reply, grant, now));
    }

    /// Takes in the answer to a question.
    pub(crate) fn learn(
        &self,
        grant: LeaseGrant<'_>,
        answer: &Result<Reply, Refusal>,
        now: Boottime,
    ) {
        if self.is_on() && !grant.leased.is_empty() {
            self.with(|cache| cache.learn(grant, answer, now));
        }
    }

    /// Notes that reads of these were reported to shards.
    pub(crate) fn accessed(&self, inos: &[(Ino, Time)], rule: AtimeRule) {
        if self.is_on() {
            self.with(|cache| cache.accessed(inos, rule));
        }
    }

    /// As [`pandofs_session::LeaseCache::recall`].
    pub(crate) fn recall(&self, keys: &[LeaseKey], waits: bool) -> Option<Vec<LeaseKey>> {
        self.with(|cache| cache.recall(keys, waits))
    }

    /// Begins a write to data objects of an inode that this client has open.
    pub(crate) fn begin_write(&self, ino: Ino, now: Boottime) -> Begun {
        match self.is_on() {
            true => self.with(|cache| cache.begin_write(ino, now)),
            false => Begun::Without,
        }
    }

    /// It has ended.
    pub(crate) fn end_write(&self, ino: Ino, hold: Hold) {
        self.with(|cache| cache.end_write(ino, hold));
    }

    /// No lease was given, although one was asked for.
    pub(crate) fn asked_in_vain(&self, ino: Ino, now: Boottime) {
        self.with(|cache| cache.asked_in_vain(ino, now));
    }

    /// The file is written to no more.
    pub(crate) fn forget_write_lease(&self, ino: Ino) {
        self.with(|cache| cache.forget_write_lease(ino));
    }
}
