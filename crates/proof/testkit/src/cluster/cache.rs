//! Lease cache of a test client.
//!
//! Some recalls are
//! late, some are lost with the connection, and some clients do not answer at all.

use super::{Cluster, Hearer, Said, TO_CLIENTS};
use pandofs_api::op::Change;
use pandofs_api::{DirPart, EntryReply, InodeReply, Refusal, Reply, Request, op};
use pandofs_types::limits::LEASE;
use pandofs_types::{
    Credentials, FsError, HashKey, Ino, LeaseKey, Leased, Name, ServerId, ShardId, Time,
};
use std::collections::BTreeMap;

/// Choice whether clients take leases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leasing {
    /// Every question goes to a shard.
    #[default]
    Off,
    /// As production's clients do.
    On,
    /// Planted bug: what is recalled is answered, and believed all the same.
    Deaf,
}

/// Recalls that a server tells a client of.
#[derive(Debug)]
pub(super) struct ToldRecall {
    pub from: ServerId,
    pub to: Hearer,
    pub number: u64,
    pub keys: Vec<LeaseKey>,
}

type Until<T> = (T, Time, ShardId);

#[derive(Debug, Default)]
pub(super) struct Cache {
    entries: BTreeMap<(Ino, Name), Until<Option<EntryReply>>>,
    inodes: BTreeMap<Ino, Until<InodeReply>>,
    parts: BTreeMap<(Ino, ShardId), Until<DirPart>>,
    /// Questions that were answered from here.
    pub hits: u64,
}

impl Cache {
    /// The answer, if it is believed.
    pub(super) fn answer(
        &mut self,
        request: &Request,
        shard: ShardId,
        now: Time,
    ) -> Option<Result<Reply, Refusal>> {
        let answer = self.find(request, shard, now);
        self.hits += u64::from(answer.is_some());
        answer
    }

    fn find(&self, request: &Request, shard: ShardId, now: Time) -> Option<Result<Reply, Refusal>> {
        match request {
            Request::Lookup(op::Lookup { dir, name }) => {
                let (entry, until, _) = self.entries.get(&(*dir, name.clone()))?;
                if *until <= now {
                    return None;
                }
                Some(match entry {
                    Some(entry) => Ok(Reply::Entry(entry.clone())),
                    None => Err(FsError::NotFound.into()),
                })
            }
            Request::GetAttr(op::GetAttr { ino }) => {
                let (inode, until, _) = self.inodes.get(ino)?;
                (*until > now).then(|| Ok(Reply::Inode(inode.clone())))
            }
            Request::DirPart(op::DirPart { dir }) => {
                let (part, until, _) = self.parts.get(&(*dir, shard))?;
                (*until > now).then(|| Ok(Reply::Part(part.clone())))
            }
            _ => None,
        }
    }

    /// Takes in what an answer to a request that was sent at `asked` leases.
    pub(super) fn learn(
        &mut self,
        request: &Request,
        shard: ShardId,
        result: &Result<Reply, Refusal>,
        leased: &[Leased],
        asked: Time,
    ) {
        let until = |leased: Leased| Time(asked.0 + leased.believed_for().as_nanos() as i64);
        let first = leased.first().copied().unwrap_or_default();
        match (request, result) {
            (Request::Lookup(op::Lookup { dir, name }), Err(_)) if first.has(Leased::ENTRY) => {
                self.entries
                    .insert((*dir, name.clone()), (None, until(first), shard));
            }
            (request, Ok(Reply::Entry(entry))) => {
                if let Some((dir, name)) = request.operation().answers_name() {
                    self.learn_entry(dir, name, entry.clone(), first, until(first), shard);
                } else if let Some(inode) = &entry.inode
                    && first.has(Leased::ATTRIBUTES)
                {
                    self.inodes
                        .insert(entry.ino, (inode.clone(), until(first), shard));
                }
            }
            (_, Ok(Reply::Inode(inode))) if first.has(Leased::ATTRIBUTES) => {
                self.inodes
                    .insert(inode.attr.ino, (inode.clone(), until(first), shard));
            }
            (Request::DirPart(op::DirPart { dir }), Ok(Reply::Part(part)))
                if first.has(Leased::ATTRIBUTES) =>
            {
                self.parts
                    .insert((*dir, shard), (part.clone(), until(first), shard));
            }
            (Request::ReadDir(op::ReadDir { dir, .. }), Ok(Reply::Entries(listed))) => {
                for (entry, leased) in listed.entries.iter().zip(leased) {
                    let reply = EntryReply {
                        ino: entry.ino,
                        kind: entry.kind,
                        shard: entry.shard,
                        inode: entry.inode.clone(),
                    };
                    let until = until(*leased);
                    self.learn_entry(*dir, &entry.name, reply, *leased, until, shard);
                }
            }
            _ => {}
        }
    }

    fn learn_entry(
        &mut self,
        dir: Ino,
        name: &Name,
        mut entry: EntryReply,
        leased: Leased,
        until: Time,
        shard: ShardId,
    ) {
        if let Some(inode) = entry.inode.take()
            && leased.has(Leased::ATTRIBUTES)
        {
            self.inodes.insert(entry.ino, (inode, until, shard));
        }
        if leased.has(Leased::ENTRY) {
            self.entries
                .insert((dir, name.clone()), (Some(entry), until, shard));
        }
    }

    pub(super) fn forget(&mut self, key: LeaseKey, hash_key: HashKey) {
        match key {
            LeaseKey::Entry { dir, position } => self.entries.retain(|(of, name), _| {
                *of != dir || hash_key.position(name.as_bytes()) != position
            }),
            LeaseKey::Inode(ino) => {
                self.inodes.remove(&ino);
            }
            LeaseKey::Parts(dir) => {
                self.inodes.remove(&dir);
                self.parts.retain(|(of, _), _| *of != dir);
            }
            // These clients ask for none.
            LeaseKey::Grant(_) => {}
        }
    }

    /// All that this shard leased.
    pub(super) fn forget_all_of(&mut self, shard: ShardId) {
        self.entries.retain(|_, (_, _, of)| *of != shard);
        self.inodes.retain(|_, (_, _, of)| *of != shard);
        self.parts.retain(|_, (_, _, of)| *of != shard);
    }

    /// The client itself changes something: what it knows of that by the request and the answer.
    pub(super) fn changes(&mut self, request: &Request, result: Option<&Result<Reply, Refusal>>) {
        let mut inos = Vec::new();
        for change in request.operation().changes() {
            match change {
                Change::Name(dir, name) => {
                    self.entries.remove(&(dir, name.clone()));
                    inos.push(dir);
                }
                Change::Inode(ino) | Change::Dir(ino) => inos.push(ino),
            }
        }
        if let Request::Accessed(op::Accessed { inos: read, .. }) = request {
            inos.extend(read.iter().map(|(ino, _)| *ino));
        }
        match result {
            Some(Ok(Reply::Removed { ino } | Reply::Renamed { ino })) => inos.push(*ino),
            Some(Ok(Reply::Exchanged { ino, other })) => inos.extend([*ino, *other]),
            _ => {}
        }
        for ino in inos {
            self.inodes.remove(&ino);
            self.parts.retain(|(of, _), _| *of != ino);
        }
    }
}

impl Cluster {
    pub(super) fn takes_leases(&self) -> bool {
        self.config.leasing != Leasing::Off
    }

    /// Answers the request if the client does so itself. Leases do not say what a caller may look up.
    pub(super) fn believed(
        &mut self,
        client: usize,
        by: &Credentials,
        shard: ShardId,
        request: &Request,
    ) -> Option<Result<Reply, Refusal>> {
        if matches!(request, Request::Lookup(_)) && *by != Credentials::ROOT {
            return None;
        }
        self.sessions[client].cache.answer(request, shard, self.now)
    }

    /// The client takes leases of this server anew.
    pub(super) fn begin_anew(&mut self, client: usize, server: ServerId) {
        // No two connections are of the same moment.
        self.now.0 += 1;
        for shard in self.map.shards_of(server) {
            self.sessions[client].cache.forget_all_of(shard);
        }
        let connected = self.now;
        self.hearing.insert((client, server), connected);
        self.silent
            .retain(|(_, who, to)| (*who, *to) != (client, server));
        self.await_recalls(client, server, None);
    }

    fn await_recalls(&mut self, client: usize, server: ServerId, done: Option<u64>) {
        let connected = self.hearing[&(client, server)];
        let hearer = Hearer { client, connected };
        self.post(TO_CLIENTS, server, Said::AwaitsRecalls { hearer, done });
    }

    /// Clients that have been silent for long enough take leases anew.
    pub(super) fn end_silence(&mut self) {
        let now = self.now;
        let over = self.silent.iter().filter(|(until, ..)| *until <= now);
        for (_, client, server) in over.copied().collect::<Vec<_>>() {
            self.begin_anew(client, server);
        }
    }

    /// A recall arrives, or does not; whether there was one.
    pub(super) fn take_recall(&mut self) -> bool {
        let Some(told) = self.recalls.pop_front() else {
            return false;
        };
        let (client, server) = (told.to.client, told.from);
        if self.hearing.get(&(client, server)) != Some(&told.to.connected) {
            return true;
        }
        match self.rng.below(200) {
            // The answer that tells of nothing.
            _ if told.keys.is_empty() => self.await_recalls(client, server, Some(told.number)),
            // Nobody answers before all that is leased has ended.
            0 => {
                let until = Time(self.now.0 + LEASE.as_nanos() as i64);
                self.silent.push((until, client, server));
            }
            1..=9 => self.begin_anew(client, server),
            _ => {
                let hash_key = self.map.hash_key;
                if self.config.leasing != Leasing::Deaf {
                    for key in told.keys {
                        self.sessions[client].cache.forget(key, hash_key);
                    }
                }
                self.await_recalls(client, server, Some(told.number));
            }
        }
        true
    }

    /// Questions that clients answered themselves.
    pub fn hits(&self) -> u64 {
        self.sessions.iter().map(|session| session.cache.hits).sum()
    }
}
