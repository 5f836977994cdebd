//! Contents of a stopped server's directory, for `fsck`.

use crate::data;
use crate::directory::ServerDirectory;
use crate::error::StartError;
use crate::faults;
use crate::limits::MAX_OBJECTS_LISTED;
use crate::server::{check_map, log_options};
use crate::store;
use pandofs_api::AdminReply;
use pandofs_log_raft_engine::RaftEngineLog;
use pandofs_placement::ClusterMap;
use pandofs_shard::{Shard, ShardConfig};
use pandofs_storage::log::{Log, LogError};
use pandofs_storage::store::{KvRead, Overlay, Store};
use pandofs_types::{Ino, ServerId, ShardId};
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

/// Keys and values in the order of the keys.
pub type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// Reads all that the stopped server in `dir` has stored: gives the keys and values of each of its shards to `take`, with
/// what the log has and the store has not, and answers with its data objects and their bytes. Its directory is held
/// meanwhile; records that the log has beyond the store are applied in memory only.
///
/// # Errors
/// [`StartError::InUse`] while the server runs; whatever else would keep it from starting.
pub fn stored(
    dir: &Path,
    map: &ClusterMap,
    id: ServerId,
    take: &mut dyn FnMut(ShardId, Pairs),
) -> Result<Vec<(Ino, u64)>, StartError> {
    check_map(map, id)?;
    let directory = ServerDirectory::open(dir, map.fs, id)?;
    // In the order of `Server::start`.
    let log = RaftEngineLog::open(&directory.log(), log_options(&directory.log())?)?;
    // The log's records were made by the map that the server went by.
    let by = directory.kept_map()?.unwrap_or_else(|| map.clone());
    let kind = by.settings.store;
    let store = store::open(kind, &directory.store(), store::Options::default())?;
    let objects = objects(&directory.data())?;
    for config in pandofs_lane::configs(&Arc::new(by), id, faults::grace()) {
        let shard = config.shard;
        take(shard, pairs(config, &*store, &log)?);
    }
    Ok(objects)
}

/// All keys of a shard as they are after the last record of the log.
fn pairs(config: ShardConfig, store: &dyn Store, log: &dyn Log) -> Result<Pairs, StartError> {
    let id = config.shard;
    let failed = |source| StartError::Shard { shard: id, source };
    let mut overlay = Overlay::new(store);
    let mut shard = Shard::open(config, store).map_err(failed)?;
    let stream = u64::from(id.0);
    let mut failure = None;
    if log
        .next_index(stream)
        .is_some_and(|next| next > shard.applied() + 1)
    {
        let read = log.read(stream, shard.applied() + 1, &mut |index, payload| {
            shard.replay(&mut overlay, index, payload).map_err(|error| {
                failure = Some(error);
                LogError::BadEntry {
                    stream,
                    index,
                    what: "it cannot be applied".to_owned(),
                }
            })
        });
        match failure {
            Some(error) => return Err(failed(error)),
            None => read?,
        }
    }
    let mut pairs = Vec::new();
    for kind in 0..u8::MAX {
        let start = keys_of(kind, id);
        let end =
            id.0.checked_add(1)
                .map_or([kind + 1, 0, 0], |next| keys_of(kind, ShardId(next)));
        overlay.scan(&start, &end, &mut |key, value| {
            pairs.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        })?;
    }
    Ok(pairs)
}

/// Prefix of every key of that kind, see `docs/data-layout.md`.
fn keys_of(kind: u8, shard: ShardId) -> [u8; 3] {
    let [high, low] = shard.0.to_be_bytes();
    [kind, high, low]
}

fn objects(data: &Path) -> Result<Vec<(Ino, u64)>, StartError> {
    let mut all: Vec<(Ino, u64)> = Vec::new();
    loop {
        let after = all.last().map_or(0, |(ino, _)| ino.0);
        match data::list(data, after, MAX_OBJECTS_LISTED as u32) {
            AdminReply::Objects { objects, more } => {
                all.extend(objects.into_iter().map(|(ino, bytes)| (Ino(ino), bytes)));
                if !more {
                    return Ok(all);
                }
            }
            AdminReply::Failed(why) => {
                return Err(StartError::io(data, io::Error::other(why)));
            }
            other => unreachable!("a list of data objects is no {other:?}"),
        }
    }
}
