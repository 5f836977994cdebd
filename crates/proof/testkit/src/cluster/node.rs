//! One shard with its store and its log.

use crate::rng::Rng;
use pandofs_api::ShardStatus;
use pandofs_check::ShardPairs;
use pandofs_placement::ClusterMap;
use pandofs_shard::{Environment, Input, Output, Shard, ShardConfig};
use pandofs_store::{Batch, KvRead, MemoryStore, Overlay, Store};
use pandofs_types::limits::SESSION_TIMEOUT;
use pandofs_types::{Credentials, ShardId, Steady, Time};
use std::ops::ControlFlow;
use std::sync::Arc;

pub(super) struct Node {
    store: MemoryStore,
    shard: Shard,
    /// Records since the store was flushed last, and a few before.
    log: Vec<(u64, Vec<u8>)>,
    id: ShardId,
}

fn config(shard: ShardId, map: &Arc<ClusterMap>) -> ShardConfig {
    ShardConfig {
        shard,
        map: Arc::clone(map),
        sync_every_batch: false,
        grace: SESSION_TIMEOUT,
    }
}

/// Records after which the store is flushed and the log cut.
const FLUSH_AFTER: usize = 500;

impl Node {
    /// The first state of a shard.
    pub(super) fn create(id: ShardId, map: &Arc<ClusterMap>, now: Time) -> Node {
        let store = MemoryStore::new();
        let mut overlay = Overlay::new(&store);
        Shard::create(&config(id, map), &mut overlay, now, &Credentials::ROOT)
            .expect("a shard can be made");
        let batch = overlay.take_batch();
        drop(overlay);
        store.write(&batch).expect("memory takes it");
        store.flush().expect("memory takes it");
        let shard = Shard::open(config(id, map), &store).expect("it was just made");
        Node {
            store,
            shard,
            log: Vec::new(),
            id,
        }
    }

    pub(super) fn id(&self) -> ShardId {
        self.id
    }

    pub(super) fn status(&self) -> ShardStatus {
        self.shard.status()
    }

    /// Works on a batch as a lane does.
    pub(super) fn run(&mut self, batch: Vec<Input>, now: Time, rng: &mut Rng) -> Vec<Output> {
        let mut random = || rng.next_u64();
        let mut env = Environment {
            now,
            steady: Steady(now.0),
            held: self.shard.objects(),
            random: &mut random,
        };
        let mut overlay = Overlay::new(&self.store);
        for input in batch {
            self.shard
                .submit(&overlay, &mut env, input)
                .expect("the state is sound");
        }
        apply(&mut self.shard, &mut self.log, &mut overlay, &mut env);
        let batch = overlay.take_batch();
        drop(overlay);
        self.write(&batch)
    }

    fn write(&mut self, batch: &Batch) -> Vec<Output> {
        self.store.write(batch).expect("memory takes it");
        if self.log.len() > FLUSH_AFTER {
            self.store.flush().expect("memory takes it");
            self.log.clear();
        }
        self.shard.take_outputs()
    }

    /// Dies, losing some of what the store did not flush, and starts again.
    pub(super) fn restart(
        &mut self,
        map: &Arc<ClusterMap>,
        now: Time,
        rng: &mut Rng,
    ) -> Vec<Output> {
        let keep = rng.below(self.store.unflushed() as u64 + 1) as usize;
        self.store = self.store.crash(keep);
        self.shard = Shard::open(config(self.id, map), &self.store).expect("the store is sound");
        let mut overlay = Overlay::new(&self.store);
        for (index, payload) in &self.log {
            if *index > self.shard.applied() {
                self.shard
                    .replay(&mut overlay, *index, payload)
                    .expect("the log is sound");
            }
        }
        let mut random = || rng.next_u64();
        let mut env = Environment {
            now,
            steady: Steady(now.0),
            held: self.shard.objects(),
            random: &mut random,
        };
        self.shard
            .recover(&mut overlay, &mut env)
            .expect("the state is sound");
        apply(&mut self.shard, &mut self.log, &mut overlay, &mut env);
        let batch = overlay.take_batch();
        drop(overlay);
        self.write(&batch)
    }

    /// All that is stored.
    pub(super) fn pairs(&self) -> ShardPairs {
        let mut pairs = Vec::new();
        let visit = &mut |key: &[u8], value: &[u8]| {
            pairs.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        };
        self.store
            .scan(&[], &[u8::MAX], visit)
            .expect("memory can be read");
        pairs
    }
}

/// Appends and applies until the shard proposes nothing more.
fn apply(
    shard: &mut Shard,
    log: &mut Vec<(u64, Vec<u8>)>,
    overlay: &mut Overlay<'_>,
    env: &mut Environment<'_>,
) {
    loop {
        let proposals = shard.take_proposals();
        if proposals.is_empty() {
            return;
        }
        for proposal in proposals {
            log.push((proposal.index, proposal.payload.clone()));
            let done = shard.apply(overlay, env, proposal.index, &proposal.payload);
            done.expect("the state is sound");
        }
    }
}
