//! Bringing the shards to where the log ends.

use crate::error::RecoverError;
use crate::limits::REPLAY_BATCH_BYTES;
use pandofs_placement::ClusterMap;
use pandofs_shard::{Environment, Shard, ShardConfig, ShardError};
use pandofs_storage::log::{Log, LogError};
use pandofs_storage::store::{Overlay, Store, StoreError};
use pandofs_types::{ServerId, ShardId};
use std::sync::Arc;
use std::time::Duration;

/// Counts of what was applied again at start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Records of all shards.
    pub records: u64,
    /// Of their payloads.
    pub bytes: u64,
    /// Shards whose log had lost records that the store has.
    pub behind: Vec<LogBehind>,
}

/// A shard whose log ended before its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogBehind {
    /// The shard.
    pub shard: ShardId,
    /// The last record that the store has.
    pub applied: u64,
    /// The record that the log would have gone on with.
    pub next: u64,
}

/// Configurations of a server's shards; `grace` as in [`ShardConfig`].
pub fn configs(map: &Arc<ClusterMap>, server: ServerId, grace: Duration) -> Vec<ShardConfig> {
    let sync_every_batch = map.settings.flush_interval_ms == 0;
    let config = |shard| ShardConfig {
        shard,
        map: Arc::clone(map),
        sync_every_batch,
        grace,
    };
    map.shards_of(server).into_iter().map(config).collect()
}

/// Opens the shards, applies what the log has and the store has not, and lets each shard begin its
/// own recovery. The log is synced: what it holds may be acted on.
///
/// # Errors
/// Contents that the store, the log or a shard cannot make sense of, or a failure of one.
pub fn recover(
    configs: Vec<ShardConfig>,
    environment: &mut Environment<'_>,
    store: &dyn Store,
    log: &dyn Log,
) -> Result<(Vec<(ShardId, Shard)>, Replayed), RecoverError> {
    let mut replayed = Replayed::default();
    let mut shards = Vec::with_capacity(configs.len());
    let mut overlay = Overlay::new(store);
    for config in configs {
        let id = config.shard;
        let mut shard = Shard::open(config, store)
            .map_err(|source| RecoverError::Shard { shard: id, source })?;
        replayed.behind.extend(align(log, id, shard.applied())?);
        replay(&mut shard, id, &mut overlay, store, log, &mut replayed)?;
        shards.push((id, shard));
    }
    // A record that was only written when the last process ended would otherwise count as synced.
    log.sync()?;
    for (id, shard) in &mut shards {
        shard
            .recover(&mut overlay, environment)
            .map_err(|source| RecoverError::Shard { shard: *id, source })?;
    }
    write(&mut overlay, store)?;
    Ok((shards, replayed))
}

/// Makes the log go on where the store is, if it lost records that the store has: they were not
/// synced, but their effects had reached the disk with a flush. They were not acknowledged as
/// durable, and all of the store is of one moment, so they may stand.
fn align(log: &dyn Log, shard: ShardId, applied: u64) -> Result<Option<LogBehind>, RecoverError> {
    let stream = u64::from(shard.0);
    let Some(next) = log.next_index(stream) else {
        return Ok(None);
    };
    if next <= applied {
        log.prune(stream, applied)?;
        return Ok(Some(LogBehind {
            shard,
            applied,
            next,
        }));
    }
    let first = log.span(stream).map_or(next, |(first, _)| first);
    if first > applied + 1 {
        return Err(RecoverError::LogGap {
            shard,
            missing_from: applied + 1,
            missing_to: first - 1,
        });
    }
    Ok(None)
}

fn replay(
    shard: &mut Shard,
    id: ShardId,
    overlay: &mut Overlay<'_>,
    store: &dyn Store,
    log: &dyn Log,
    replayed: &mut Replayed,
) -> Result<(), RecoverError> {
    enum Failure {
        Shard(ShardError),
        Store(StoreError),
    }
    let stream = u64::from(id.0);
    let mut unwritten = 0;
    let mut failure = None;
    let read = log.read(stream, shard.applied() + 1, &mut |index, payload| {
        let mut apply = || {
            shard
                .replay(overlay, index, payload)
                .map_err(Failure::Shard)?;
            replayed.records += 1;
            replayed.bytes += payload.len() as u64;
            unwritten += payload.len();
            if unwritten >= REPLAY_BATCH_BYTES {
                unwritten = 0;
                write(overlay, store).map_err(Failure::Store)?;
            }
            Ok(())
        };
        apply().map_err(|error| {
            failure = Some(error);
            LogError::BadEntry {
                stream,
                index,
                what: "it cannot be applied".to_owned(),
            }
        })
    });
    match failure {
        Some(Failure::Shard(source)) => Err(RecoverError::Shard { shard: id, source }),
        Some(Failure::Store(error)) => Err(error.into()),
        None => {
            read?;
            Ok(write(overlay, store)?)
        }
    }
}

fn write(overlay: &mut Overlay<'_>, store: &dyn Store) -> Result<(), StoreError> {
    if overlay.is_empty() {
        Ok(())
    } else {
        store.write(&overlay.take_batch())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pandofs_storage::log::{Entry, MemoryLog};

    const SHARD: ShardId = ShardId(3);

    fn log_with(indexes: std::ops::RangeInclusive<u64>) -> MemoryLog {
        let log = MemoryLog::new();
        for index in indexes {
            log.append(&[Entry {
                stream: 3,
                index,
                payload: b"x",
            }])
            .unwrap();
        }
        log
    }

    #[test]
    fn a_log_behind_its_store_goes_on_where_the_store_is() {
        let log = log_with(1..=5);
        let behind = LogBehind {
            shard: SHARD,
            applied: 9,
            next: 6,
        };
        assert_eq!(align(&log, SHARD, 9).unwrap(), Some(behind));
        assert_eq!((log.span(3), log.next_index(3)), (None, Some(10)));
        log.append(&[Entry {
            stream: 3,
            index: 10,
            payload: b"x",
        }])
        .unwrap();
    }

    #[test]
    fn a_log_that_reaches_beyond_its_store_is_left_alone() {
        for applied in [0, 3, 5] {
            let log = log_with(1..=5);
            assert_eq!(align(&log, SHARD, applied).unwrap(), None);
            assert_eq!((log.span(3), log.next_index(3)), (Some((1, 5)), Some(6)));
        }
        align(&MemoryLog::new(), SHARD, 7).unwrap();
    }

    #[test]
    fn records_that_neither_has_are_missed() {
        let log = log_with(1..=5);
        log.prune(3, 3).unwrap();
        align(&log, SHARD, 3).unwrap();
        let error = align(&log, SHARD, 1).unwrap_err();
        assert!(
            matches!(
                error,
                RecoverError::LogGap {
                    missing_from: 2,
                    missing_to: 3,
                    ..
                }
            ),
            "{error}"
        );
        log.prune(3, 5).unwrap();
        let error = align(&log, SHARD, 4).unwrap_err();
        assert!(
            matches!(
                error,
                RecoverError::LogGap {
                    missing_from: 5,
                    missing_to: 5,
                    ..
                }
            ),
            "{error}"
        );
        align(&log, SHARD, 5).unwrap();
    }
}
