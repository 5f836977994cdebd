//! Everything that servers have stored, gathered for `fsck`.

use crate::admin::{AdminConnection, AdminError, unexpected};
use anyhow::{Context, Result, bail};
use pandofs_api::{AdminReply, AdminRequest};
use pandofs_check::{ClusterDump, Problem, ShardPairs, Tables, check_tables};
use pandofs_placement::{ClusterMap, ServerInfo};
use pandofs_types::limits::MAX_DUMP_BYTES;
use pandofs_types::{Ino, ServerId, ShardId};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Data objects asked for at once.
const OBJECTS_AT_ONCE: u32 = 10_000;
/// Interval between two reports of progress.
const TELL_INTERVAL: Duration = Duration::from_millis(100);

/// A server whose part is missing.
#[derive(Debug, thiserror::Error)]
#[error("server {server} is away, and nothing can be said without it: {error}")]
pub(crate) struct ServerAway {
    pub server: ServerId,
    pub error: AdminError,
}

/// A server that cannot read what it has stored.
#[derive(Debug, thiserror::Error)]
#[error("server {server}: {why}")]
pub(crate) struct Unreadable {
    pub server: ServerId,
    /// In its words.
    pub why: String,
}

/// Contents of the servers' stores. They are decoded as they come: the bytes of millions of records
/// take several times as much memory as the decoded tables.
pub(crate) struct Picture {
    pub tables: Tables,
    /// Records that could not be decoded.
    pub unreadable: Vec<Problem>,
    pub records: u64,
}

impl Picture {
    fn empty(map: &Arc<ClusterMap>) -> Picture {
        Picture {
            tables: Tables::empty(Arc::clone(map)),
            unreadable: Vec::new(),
            records: 0,
        }
    }

    fn take(&mut self, shard: ShardId, key: &[u8], value: &[u8]) {
        self.tables.take(shard, key, value, &mut self.unreadable);
        self.records += 1;
    }

    fn take_objects(&mut self, server: ServerId, objects: &[(Ino, u64)]) {
        self.tables.take_objects(server, objects);
        self.records += objects.len() as u64;
    }

    fn join(&mut self, other: Picture) {
        self.tables.join(other.tables);
        self.unreadable.extend(other.unreadable);
        self.records += other.records;
    }

    /// All of them in one, each record moved about as often as their number can be halved.
    fn joined(map: &Arc<ClusterMap>, parts: impl IntoIterator<Item = Picture>) -> Picture {
        let mut parts: VecDeque<Picture> = parts.into_iter().collect();
        while let Some(mut one) = parts.pop_front() {
            match parts.pop_front() {
                Some(other) => {
                    one.join(other);
                    parts.push_back(one);
                }
                None => return one,
            }
        }
        Picture::empty(map)
    }

    /// All that is wrong with it.
    pub(crate) fn check(&self) -> Vec<Problem> {
        let mut problems = self.unreadable.clone();
        check_tables(&self.tables, &mut problems);
        problems
    }
}

/// Asks all servers at once.
///
/// # Errors
/// [`ServerAway`] and [`Unreadable`].
pub(crate) fn online(map: &ClusterMap, progress: &mut dyn FnMut(u64)) -> Result<Picture> {
    let records = AtomicU64::new(0);
    let map = &Arc::new(map.clone());
    let parts = std::thread::scope(|scope| {
        let asking: Vec<_> = map
            .servers
            .iter()
            .map(|server| scope.spawn(|| ask(map, server, &records)))
            .collect();
        while asking.iter().any(|thread| !thread.is_finished()) {
            progress(records.load(Ordering::Relaxed));
            std::thread::park_timeout(TELL_INTERVAL);
        }
        asking
            .into_iter()
            .map(|thread| thread.join())
            .collect::<Vec<_>>()
    });
    let mut pictures = Vec::new();
    for (server, part) in map.servers.iter().zip(parts) {
        match part {
            Ok(Ok(part)) => pictures.push(part),
            Ok(Err(AdminError::Failed(why))) => {
                let server = server.id;
                return Err(Unreadable { server, why }.into());
            }
            Ok(Err(error)) => {
                let server = server.id;
                return Err(ServerAway { server, error }.into());
            }
            Err(_) => bail!("the thread that asked server {} panicked", server.id),
        }
    }
    let picture = Picture::joined(map, pictures);
    progress(picture.records);
    Ok(picture)
}

/// The servers' processes, by which it shows that one was started again.
///
/// # Errors
/// [`ServerAway`].
pub(crate) fn pids(map: &ClusterMap) -> Result<Vec<u32>> {
    let pid = |server: &ServerInfo| {
        let status = AdminConnection::open(map.fs, server)
            .and_then(|mut connection| connection.status())
            .map_err(|error| ServerAway {
                server: server.id,
                error,
            })?;
        Ok(status.pid)
    };
    map.servers.iter().map(pid).collect()
}

fn ask(
    map: &Arc<ClusterMap>,
    server: &ServerInfo,
    records: &AtomicU64,
) -> Result<Picture, AdminError> {
    let mut connection = AdminConnection::open(map.fs, server)?;
    let mut of_shards = Vec::new();
    for shard in map.shards_of(server.id) {
        let mut picture = Picture::empty(map);
        ask_shard(&mut connection, shard, records, &mut picture)?;
        of_shards.push(picture);
    }
    let mut picture = Picture::joined(map, of_shards);
    ask_objects(&mut connection, server.id, records, &mut picture)?;
    Ok(picture)
}

fn ask_shard(
    connection: &mut AdminConnection,
    shard: ShardId,
    records: &AtomicU64,
    picture: &mut Picture,
) -> Result<(), AdminError> {
    let mut after = Vec::new();
    loop {
        let max_bytes = MAX_DUMP_BYTES as u32;
        match connection.ask(AdminRequest::Dump {
            shard,
            after: std::mem::take(&mut after),
            max_bytes,
        })? {
            AdminReply::Pairs { pairs, more } => {
                records.fetch_add(pairs.len() as u64, Ordering::Relaxed);
                for (key, value) in &pairs {
                    picture.take(shard, key, value);
                }
                if !more {
                    return Ok(());
                }
                let Some((last, _)) = pairs.into_iter().next_back() else {
                    return Err(AdminError::Protocol(
                        "there is more, and nothing came".into(),
                    ));
                };
                after = last.into_vec();
            }
            other => return Err(unexpected("Dump", &other)),
        }
    }
}

fn ask_objects(
    connection: &mut AdminConnection,
    server: ServerId,
    records: &AtomicU64,
    picture: &mut Picture,
) -> Result<(), AdminError> {
    let mut after = 0;
    loop {
        match connection.ask(AdminRequest::Objects {
            after,
            max: OBJECTS_AT_ONCE,
        })? {
            AdminReply::Objects { objects, more } => {
                records.fetch_add(objects.len() as u64, Ordering::Relaxed);
                let objects: Vec<(Ino, u64)> = objects
                    .into_iter()
                    .map(|(ino, bytes)| (Ino(ino), bytes))
                    .collect();
                picture.take_objects(server, &objects);
                if !more {
                    return Ok(());
                }
                let Some((last, _)) = objects.last() else {
                    return Err(AdminError::Protocol(
                        "there is more, and nothing came".into(),
                    ));
                };
                after = last.0;
            }
            other => return Err(unexpected("Objects", &other)),
        }
    }
}

/// Reads the directories of stopped servers, in the order of the map.
///
/// # Errors
/// When one cannot be read, or is in use.
pub(crate) fn offline(map: &ClusterMap, directories: &[PathBuf]) -> Result<Picture> {
    let map = &Arc::new(map.clone());
    let mut parts = Vec::new();
    for (server, directory) in map.servers.iter().zip(directories) {
        let mut take = |shard, pairs: ShardPairs| {
            let mut picture = Picture::empty(map);
            for (key, value) in &pairs {
                picture.take(shard, key, value);
            }
            parts.push(picture);
        };
        let objects = pandofs_server::stored(directory, map, server.id, &mut take)
            .with_context(|| format!("cannot read server {}", server.id))?;
        let mut picture = Picture::empty(map);
        picture.take_objects(server.id, &objects);
        parts.push(picture);
    }
    Ok(Picture::joined(map, parts))
}

/// The same as it is stored, all of it in memory, for a caller that goes on from there.
///
/// # Errors
/// As [`offline`].
pub(crate) fn offline_as_stored(map: &ClusterMap, directories: &[PathBuf]) -> Result<ClusterDump> {
    let mut dump = ClusterDump {
        map: map.clone(),
        shards: Default::default(),
        objects: Default::default(),
    };
    for (server, directory) in map.servers.iter().zip(directories) {
        let mut take = |shard, pairs| drop(dump.shards.insert(shard, pairs));
        let objects = pandofs_server::stored(directory, map, server.id, &mut take)
            .with_context(|| format!("cannot read server {}", server.id))?;
        dump.objects.insert(server.id, objects);
    }
    Ok(dump)
}
