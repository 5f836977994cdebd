//! One client's requests: where it believes things to be, and how it is put right. A small brother of
//! what the client library does over sockets.

use super::Cluster;
use super::cache::Cache;
use crate::inodes::Done;
use crate::op::Failure;
use pandofs_api::op::Places;
use pandofs_api::{Refusal, Reply, Request, RequestKey, ShardRequest, op};
use pandofs_placement::{ClusterMap, DirMap};
use pandofs_types::limits::{MAX_REDIRECTS, TICK_INTERVAL};
use pandofs_types::{
    Credentials, Epoch, FsError, HashKey, Ino, LeaseKey, Name, Position, SessionId, ShardId, SlotId,
};
use std::collections::{BTreeMap, HashMap};

/// Times that a request is made again because it is told to try again.
const MAX_TRIES: usize = 20_000;

pub(super) struct Session {
    id: SessionId,
    sequence: u64,
    hash_key: HashKey,
    maps: HashMap<Ino, DirMap>,
    inodes: HashMap<Ino, ShardId>,
    /// Number of times that each file is open.
    opens: BTreeMap<Ino, u32>,
    pub(super) cache: Cache,
}

/// Destination of a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    /// To the shard of this position of a directory.
    Place {
        dir: Ino,
        position: Position,
    },
    Inode(Ino),
    Shard(ShardId),
}

/// The end of a request that the operation itself reacts to.
#[derive(Debug)]
pub enum Refused {
    Failure(Failure),
    NotInline {
        striped: bool,
        layout: pandofs_api::Layout,
    },
    /// The shard has no part of the directory.
    NoPart,
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Failure {
        match refused {
            Refused::Failure(failure) => failure,
            other => Failure::Other(format!("refused: {other:?}")),
        }
    }
}

impl Session {
    pub(super) fn new(number: usize, map: &ClusterMap) -> Session {
        Session {
            id: SessionId(number as u64 + 1),
            sequence: 0,
            hash_key: map.hash_key,
            maps: HashMap::new(),
            inodes: HashMap::new(),
            opens: BTreeMap::new(),
            cache: Cache::default(),
        }
    }

    pub(super) fn id(&self) -> SessionId {
        self.id
    }

    pub(super) fn place(&self, dir: Ino, name: &Name) -> Target {
        Target::Place {
            dir,
            position: self.hash_key.position(name.as_bytes()),
        }
    }

    pub(super) fn map(&self, dir: Ino) -> DirMap {
        self.maps
            .get(&dir)
            .cloned()
            .unwrap_or_else(|| DirMap::single(dir.birth_shard()))
    }

    pub(super) fn shard_of_inode(&self, ino: Ino) -> ShardId {
        self.inodes.get(&ino).copied().unwrap_or(ino.birth_shard())
    }

    pub(super) fn learn_inode(&mut self, ino: Ino, shard: ShardId) {
        self.inodes.insert(ino, shard);
    }

    pub(super) fn learn_map(&mut self, dir: Ino, map: &DirMap) {
        if map.home() == dir.birth_shard() {
            self.maps
                .entry(dir)
                .or_insert_with(|| DirMap::single(dir.birth_shard()))
                .merge(map);
        }
    }

    fn shard_of(&self, target: Target) -> ShardId {
        match target {
            Target::Place { dir, position } => self.map(dir).shard_of(position),
            Target::Inode(ino) => self.shard_of_inode(ino),
            Target::Shard(shard) => shard,
        }
    }

    pub(super) fn opened(&mut self, ino: Ino) {
        *self.opens.entry(ino).or_default() += 1;
    }

    pub(super) fn closed(&mut self, ino: Ino) {
        let count = self.opens.get_mut(&ino).expect("what is closed was open");
        *count -= 1;
        if *count == 0 {
            self.opens.remove(&ino);
        }
    }

    /// All that is open, wherever it is believed to be: it may have moved without this client's having heard of it.
    pub(super) fn all_opens(&self) -> Vec<(Ino, u32)> {
        self.opens
            .iter()
            .map(|(ino, count)| (*ino, *count))
            .collect()
    }

    pub(super) fn reopen(&mut self, shard: ShardId, opens: Vec<(Ino, u32)>) -> ShardRequest {
        self.request(
            &Credentials::ROOT,
            shard,
            Request::Reopen(op::Reopen { opens }),
        )
    }

    fn request(&mut self, by: &Credentials, shard: ShardId, request: Request) -> ShardRequest {
        self.sequence += 1;
        let key = RequestKey {
            session: self.id,
            slot: SlotId(0),
            sequence: self.sequence,
        };
        ShardRequest {
            shard,
            epoch: Epoch(1),
            key,
            caller: by.clone(),
            request,
        }
    }
}

impl Places for Session {
    fn shard_of_name(&self, dir: Ino, name: &Name) -> ShardId {
        self.shard_of(self.place(dir, name))
    }

    fn shard_of_inode(&self, ino: Ino) -> ShardId {
        Session::shard_of_inode(self, ino)
    }
}

impl Cluster {
    /// Asks until there is an answer.
    pub(super) fn ask(
        &mut self,
        client: usize,
        by: &Credentials,
        target: Target,
        request: Request,
    ) -> Result<Reply, Refused> {
        let mut request = request;
        let (mut redirects, mut tries) = (0, 0);
        loop {
            let session = &mut self.sessions[client];
            request.operation_mut().aim(session);
            let shard = session.shard_of(target);
            let result = match self.believed(client, by, shard, &request) {
                Some(result) => result,
                None => self.ask_shard(client, by, shard, &request),
            };
            let refusal = match result {
                Ok(reply) => return Ok(reply),
                Err(refusal) => refusal,
            };
            assert!(
                redirects < MAX_REDIRECTS,
                "sent elsewhere {redirects} times, now with {refusal:?} by {shard}: {request:?}"
            );
            match refusal {
                Refusal::Fs(error) => return Err(Refused::Failure(error.into())),
                Refusal::NotInline { layout, striped } => {
                    return Err(Refused::NotInline { layout, striped });
                }
                Refusal::TryAgain => {
                    tries += 1;
                    assert!(
                        tries < MAX_TRIES,
                        "told to try again {tries} times: {request:?}"
                    );
                    if self.rng.chance(1, 4) {
                        self.now.0 += TICK_INTERVAL.as_nanos() as i64 / 5;
                    }
                    self.work();
                    continue;
                }
                Refusal::Misdirected(map) => {
                    if let Target::Shard(_) = target {
                        return Err(Refused::NoPart);
                    }
                    let dir = request.operation().dir();
                    let dir = dir.unwrap_or_else(|| panic!("{request:?} names no directory"));
                    self.learn(client, by, dir, map)?;
                }
                Refusal::NewNameMisdirected(map) => {
                    let new = request.operation().new_name();
                    let new = new.unwrap_or_else(|| panic!("{request:?} has no new name"));
                    self.learn(client, by, new.dir, map)?;
                }
                Refusal::Moved { ino, shard } => self.sessions[client].learn_inode(ino, shard),
                other => panic!("{request:?} was refused with {other:?}"),
            }
            redirects += 1;
        }
    }

    /// Asks a shard once.
    fn ask_shard(
        &mut self,
        client: usize,
        by: &Credentials,
        shard: ShardId,
        request: &Request,
    ) -> Result<Reply, Refusal> {
        let session = &mut self.sessions[client];
        session.cache.changes(request, None);
        let asked = session.request(by, shard, request.clone());
        let at = self.now;
        let hears = (client, self.map.server_of(shard));
        let connected = self.hearing.get(&hears).copied();
        let (result, leased) = self.call(asked);
        let cache = &mut self.sessions[client].cache;
        cache.changes(request, Some(&result));
        // The server has forgotten what it leased over an older connection.
        if connected == self.hearing.get(&hears).copied() {
            cache.learn(request, shard, &result, &leased, at);
        }
        result
    }

    /// Learns a directory's map from a shard that was asked wrongly, or from the directory's home.
    fn learn(
        &mut self,
        client: usize,
        by: &Credentials,
        dir: Ino,
        map: Option<DirMap>,
    ) -> Result<(), Refused> {
        let before = self.sessions[client].map(dir);
        if let Some(map) = map {
            self.sessions[client].learn_map(dir, &map);
        }
        if self.sessions[client].map(dir) != before {
            return Ok(());
        }
        // Leases say nothing of maps.
        self.sessions[client]
            .cache
            .forget(LeaseKey::Inode(dir), self.map.hash_key);
        let asked = self.ask(
            client,
            by,
            Target::Inode(dir),
            Request::GetAttr(op::GetAttr { ino: dir }),
        );
        match asked {
            Ok(Reply::Inode(inode)) => match inode.dir {
                Some(home) => {
                    self.sessions[client].learn_map(dir, &home.map);
                    Ok(())
                }
                None => Err(Refused::Failure(FsError::NotDir.into())),
            },
            Ok(other) => Err(unexpected(&other).into()),
            Err(Refused::Failure(Failure::Fs(FsError::Stale))) => {
                Err(Refused::Failure(FsError::NotFound.into()))
            }
            Err(other) => Err(other),
        }
    }

    /// As [`Cluster::ask`], for operations that are refused with errors alone.
    pub(super) fn expect(
        &mut self,
        client: usize,
        by: &Credentials,
        target: Target,
        request: Request,
    ) -> Done<Reply> {
        self.ask(client, by, target, request).map_err(Failure::from)
    }

    pub(super) fn at_name(
        &mut self,
        client: usize,
        by: &Credentials,
        dir: Ino,
        name: &Name,
        request: Request,
    ) -> Done<Reply> {
        let target = self.sessions[client].place(dir, name);
        self.expect(client, by, target, request)
    }
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Refused {
        Refused::Failure(failure)
    }
}

pub(super) fn unexpected(reply: &Reply) -> Failure {
    Failure::Other(format!("answered {reply:?}"))
}
