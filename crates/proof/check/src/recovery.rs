//! Offline recovery: operations that stopped servers had under way, finished in memory.
//!
//! The shards do what they would do when their servers start again, so that `pandofs fsck
//! --offline` does not take half of an operation for damage.
//!
//! Between the moment in which a participant has decided and the one in which the coordinator has heard of it, the stored
//! state of the two contradicts itself, and rightly so: the record of the operation is part of that state (S2PC-MP,
//! recovery). A split whose target has adopted the moving half while the source still holds it is the plainest case: a
//! hundred names with two owners. No oracle can say what of it is meant without knowing the protocol, so the protocol itself
//! is run: the very shards of the servers, on copies of what they have stored.
//!
//! Invariant: nothing outside of the given dump is read and nothing is written; no clock and no random number is asked. Data
//! objects stay as they are: what shards want done to them remains undone, and its record is kept with the shard.

use crate::{ClusterDump, ShardPairs};
use pandofs_placement::ClusterMap;
use pandofs_shard::{Environment, Input, Output, Shard, ShardConfig, ShardError, validate};
use pandofs_store::{Batch, KvRead, MemoryStore, Overlay, Store, StoreError};
use pandofs_types::limits::{RESEND_INTERVAL, SESSION_TIMEOUT, TICK_INTERVAL};
use pandofs_types::{ShardId, Steady, Time};
use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;

/// How long, on the shards' own clock, operations may take to come to their end.
const MAX_TICKS: u128 = RESEND_INTERVAL.as_nanos() * 20 / TICK_INTERVAL.as_nanos();
/// Ticks in a row in which nothing happens, after which nothing will.
const QUIET_TICKS: u32 = 8;

/// Reasons why the operations under way cannot be finished.
#[derive(Debug, thiserror::Error)]
pub enum RecoveryError {
    /// The stored state cannot be recovered by its shard.
    #[error("shard {shard} cannot go on with what it has stored: {source}")]
    Shard {
        /// Its number.
        shard: ShardId,
        /// Why not.
        source: ShardError,
    },
    /// The copy in memory failed.
    #[error("shard {shard}: {source}")]
    Store {
        /// Its number.
        shard: ShardId,
        /// Why not.
        source: StoreError,
    },
    /// Messages went to and fro without an end.
    #[error("{undecided} operations did not come to an end")]
    Unending {
        /// How many are left.
        undecided: u64,
    },
}

/// Returns the same file system once its shards have finished what was under way, at a time not
/// before `now`.
///
/// # Errors
/// When a shard refuses its state, or operations do not end.
pub fn recover(dump: &ClusterDump, now: Time) -> Result<ClusterDump, RecoveryError> {
    let mut recovery = Recovery::open(dump, now)?;
    recovery.run()?;
    let shards = recovery
        .nodes
        .iter()
        .map(|(&shard, node)| Ok((shard, node.pairs().map_err(in_store(shard))?)))
        .collect::<Result<_, RecoveryError>>()?;
    Ok(ClusterDump {
        map: dump.map.clone(),
        shards,
        objects: dump.objects.clone(),
    })
}

fn in_store(shard: ShardId) -> impl Fn(StoreError) -> RecoveryError {
    move |source| RecoveryError::Store { shard, source }
}

fn in_shard(shard: ShardId) -> impl Fn(ShardError) -> RecoveryError {
    move |source| RecoveryError::Shard { shard, source }
}

struct Recovery {
    map: Arc<ClusterMap>,
    nodes: BTreeMap<ShardId, Node>,
    mail: VecDeque<(ShardId, Input)>,
    now: Time,
    drawn: u64,
}

struct Node {
    store: MemoryStore,
    shard: Shard,
}

impl Recovery {
    fn open(dump: &ClusterDump, now: Time) -> Result<Recovery, RecoveryError> {
        let map = Arc::new(dump.map.clone());
        let mut recovery = Recovery {
            map: Arc::clone(&map),
            nodes: BTreeMap::new(),
            mail: VecDeque::new(),
            now,
            drawn: 0,
        };
        for (&id, pairs) in &dump.shards {
            let mut batch = Batch::new();
            for (key, value) in pairs {
                batch.put(key.clone(), value.clone());
            }
            let store = MemoryStore::new();
            store.write(&batch).map_err(in_store(id))?;
            store.flush().map_err(in_store(id))?;
            let config = ShardConfig {
                shard: id,
                map: Arc::clone(&map),
                sync_every_batch: false,
                grace: SESSION_TIMEOUT,
            };
            let shard = Shard::open(config, &store).map_err(in_shard(id))?;
            recovery.nodes.insert(id, Node { store, shard });
        }
        for id in recovery.ids() {
            recovery.with(id, |shard, overlay, env| shard.recover(overlay, env))?;
        }
        Ok(recovery)
    }

    fn ids(&self) -> Vec<ShardId> {
        self.nodes.keys().copied().collect()
    }

    /// Until nothing is on its way and nothing is undecided.
    fn run(&mut self) -> Result<(), RecoveryError> {
        let mut quiet = 0;
        for _ in 0..MAX_TICKS {
            let delivered = self.deliver_all()?;
            quiet = if delivered == 0 && self.undecided() == 0 {
                quiet + 1
            } else {
                0
            };
            if quiet > QUIET_TICKS {
                return Ok(());
            }
            self.now.0 = self.now.0.saturating_add(TICK_INTERVAL.as_nanos() as i64);
            for id in self.ids() {
                self.submit(id, Input::Tick)?;
            }
        }
        match self.undecided() {
            // Splits may go on for long; each of their last steps is an operation of its own.
            0 => Ok(()),
            undecided => Err(RecoveryError::Unending { undecided }),
        }
    }

    fn undecided(&self) -> u64 {
        let of = |node: &Node| node.shard.status().undecided;
        self.nodes.values().map(of).sum()
    }

    fn deliver_all(&mut self) -> Result<u64, RecoveryError> {
        let mut delivered = 0;
        while let Some((to, input)) = self.mail.pop_front() {
            delivered += 1;
            self.submit(to, input)?;
        }
        Ok(delivered)
    }

    fn submit(&mut self, to: ShardId, input: Input) -> Result<(), RecoveryError> {
        self.with(to, |shard, overlay, env| shard.submit(overlay, env, input))
    }

    /// Has a shard do something as a lane does: what it proposes is applied and written, what it says is posted.
    fn with(
        &mut self,
        id: ShardId,
        work: impl FnOnce(&mut Shard, &mut Overlay<'_>, &mut Environment<'_>) -> Result<(), ShardError>,
    ) -> Result<(), RecoveryError> {
        let Some(node) = self.nodes.get_mut(&id) else {
            // `validate` lets no message through for a shard that is not on the map, but the dump may lack one.
            return Ok(());
        };
        let drawn = &mut self.drawn;
        // The choice does not matter, only that it is not always the same.
        let mut random = || {
            *drawn = drawn.wrapping_add(0x9e37_79b9_7f4a_7c15);
            *drawn
        };
        let mut env = Environment {
            now: self.now,
            steady: Steady(self.now.0),
            held: 0,
            random: &mut random,
        };
        let mut overlay = Overlay::new(&node.store);
        work(&mut node.shard, &mut overlay, &mut env).map_err(in_shard(id))?;
        loop {
            let proposals = node.shard.take_proposals();
            if proposals.is_empty() {
                break;
            }
            for proposal in proposals {
                node.shard
                    .apply(&mut overlay, &mut env, proposal.index, &proposal.payload)
                    .map_err(in_shard(id))?;
            }
        }
        let batch = overlay.take_batch();
        drop(overlay);
        node.store.write(&batch).map_err(in_store(id))?;
        node.store.flush().map_err(in_store(id))?;
        for output in node.shard.take_outputs() {
            match output {
                Output::Send { to, message, .. } if validate(&self.map, &message).is_ok() => {
                    self.mail.push_back((to, Input::Peer(message)));
                }
                Output::Warm { keys, input } => {
                    let input = Box::new(input);
                    self.mail.push_back((id, Input::Warmed { input, keys }));
                }
                Output::WhenDurable { shard, input } => self.mail.push_back((shard, input)),
                // Clients and data objects are not here.
                Output::Send { .. }
                | Output::Answer { .. }
                | Output::Data { .. }
                | Output::Replaced { .. }
                | Output::Watch { .. }
                | Output::Recall(_)
                | Output::Unreadable { .. } => {}
            }
        }
        Ok(())
    }
}

impl Node {
    fn pairs(&self) -> Result<ShardPairs, StoreError> {
        let mut pairs = Vec::new();
        self.store.scan(&[], &[u8::MAX], &mut |key, value| {
            pairs.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        })?;
        Ok(pairs)
    }
}
