//! Everything that servers have stored, gathered for `fsck`.

use crate::admin::{AdminConnection, AdminError, unexpected};
use anyhow::{Context, Result, bail};
use pandofs_api::{AdminReply, AdminRequest};
use pandofs_check::{ClusterDump, ShardPairs};
use pandofs_placement::{ClusterMap, ServerInfo};
use pandofs_types::limits::MAX_DUMP_BYTES;
use pandofs_types::{Ino, ServerId, ShardId};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Data objects asked for at once.
const OBJECTS_AT_ONCE: u32 = 10_000;
/// How often the progress is told.
const TELL_INTERVAL: Duration = Duration::from_millis(100);

/// A server whose part is missing.
#[derive(Debug, thiserror::Error)]
#[error("server {server} is away, and nothing can be said without it: {error}")]
pub struct ServerAway {
    pub server: ServerId,
    pub error: AdminError,
}

/// A server that cannot read what it has stored.
#[derive(Debug, thiserror::Error)]
#[error("server {server}: {why}")]
pub struct Unreadable {
    pub server: ServerId,
    /// In its words.
    pub why: String,
}

/// One server's part.
struct Part {
    shards: Vec<(ShardId, ShardPairs)>,
    objects: Vec<(Ino, u64)>,
}

/// Asks all servers at once. The dump, and how many records it has.
///
/// # Errors
/// [`ServerAway`] and [`Unreadable`].
pub fn online(map: &ClusterMap, progress: &mut dyn FnMut(u64)) -> Result<(ClusterDump, u64)> {
    let records = AtomicU64::new(0);
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
    let mut dump = ClusterDump {
        map: map.clone(),
        shards: Default::default(),
        objects: Default::default(),
    };
    for (server, part) in map.servers.iter().zip(parts) {
        let part = match part {
            Ok(Ok(part)) => part,
            Ok(Err(AdminError::Failed(why))) => {
                let server = server.id;
                return Err(Unreadable { server, why }.into());
            }
            Ok(Err(error)) => {
                let server = server.id;
                return Err(ServerAway { server, error }.into());
            }
            Err(_) => bail!("the thread that asked server {} panicked", server.id),
        };
        dump.shards.extend(part.shards);
        dump.objects.insert(server.id, part.objects);
    }
    let records = records.into_inner();
    progress(records);
    Ok((dump, records))
}

/// The servers' processes, by which it shows that one was started again.
///
/// # Errors
/// [`ServerAway`].
pub fn pids(map: &ClusterMap) -> Result<Vec<u32>> {
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

fn ask(map: &ClusterMap, server: &ServerInfo, records: &AtomicU64) -> Result<Part, AdminError> {
    let mut connection = AdminConnection::open(map.fs, server)?;
    let mut shards = Vec::new();
    for shard in map.shards_of(server.id) {
        shards.push((shard, ask_shard(&mut connection, shard, records)?));
    }
    let objects = ask_objects(&mut connection, records)?;
    Ok(Part { shards, objects })
}

fn ask_shard(
    connection: &mut AdminConnection,
    shard: ShardId,
    records: &AtomicU64,
) -> Result<ShardPairs, AdminError> {
    let mut all = ShardPairs::new();
    loop {
        let after = all.last().map(|(key, _)| key.clone()).unwrap_or_default();
        let max_bytes = MAX_DUMP_BYTES as u32;
        match connection.ask(AdminRequest::Dump {
            shard,
            after,
            max_bytes,
        })? {
            AdminReply::Pairs { pairs, more } => {
                records.fetch_add(pairs.len() as u64, Ordering::Relaxed);
                let stuck = more && pairs.is_empty();
                all.extend(
                    pairs
                        .into_iter()
                        .map(|(key, value)| (key.into_vec(), value.into_vec())),
                );
                if stuck {
                    return Err(AdminError::Protocol(
                        "there is more, and nothing came".into(),
                    ));
                }
                if !more {
                    return Ok(all);
                }
            }
            other => return Err(unexpected("Dump", &other)),
        }
    }
}

fn ask_objects(
    connection: &mut AdminConnection,
    records: &AtomicU64,
) -> Result<Vec<(Ino, u64)>, AdminError> {
    let mut all: Vec<(Ino, u64)> = Vec::new();
    loop {
        let after = all.last().map_or(0, |(ino, _)| ino.0);
        match connection.ask(AdminRequest::Objects {
            after,
            max: OBJECTS_AT_ONCE,
        })? {
            AdminReply::Objects { objects, more } => {
                records.fetch_add(objects.len() as u64, Ordering::Relaxed);
                let stuck = more && objects.is_empty();
                all.extend(objects.into_iter().map(|(ino, bytes)| (Ino(ino), bytes)));
                if stuck {
                    return Err(AdminError::Protocol(
                        "there is more, and nothing came".into(),
                    ));
                }
                if !more {
                    return Ok(all);
                }
            }
            other => return Err(unexpected("Objects", &other)),
        }
    }
}

/// Reads the directories of stopped servers, in the order of the map.
///
/// # Errors
/// When one cannot be read, or is in use.
pub fn offline(map: &ClusterMap, directories: &[PathBuf]) -> Result<(ClusterDump, u64)> {
    let mut dump = ClusterDump {
        map: map.clone(),
        shards: Default::default(),
        objects: Default::default(),
    };
    let mut records = 0;
    for (server, directory) in map.servers.iter().zip(directories) {
        let stored = pandofs_server::stored(directory, map, server.id)
            .with_context(|| format!("cannot read server {}", server.id))?;
        records += stored
            .shards
            .iter()
            .map(|(_, pairs)| pairs.len() as u64)
            .sum::<u64>();
        records += stored.objects.len() as u64;
        dump.shards.extend(stored.shards);
        dump.objects.insert(server.id, stored.objects);
    }
    Ok((dump, records))
}
