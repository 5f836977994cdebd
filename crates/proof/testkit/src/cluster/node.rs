//! One server: a lane with its store and its log.

use super::Hearer;
use crate::rng::Rng;
use pandofs_check::ShardPairs;
use pandofs_lane::{Command, Lane, LaneParts, Points, Removed, Shards, configs, flush, recover};
use pandofs_placement::ClusterMap;
use pandofs_shard::{Environment, Shard};
use pandofs_storage::log::{Log, MemoryLog};
use pandofs_storage::store::{KvRead, MemoryStore, Overlay, Store};
use pandofs_types::limits::SESSION_TIMEOUT;
use pandofs_types::{Credentials, ServerId, ShardId, Steady, Time};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct Node {
    pub lane: Lane<Hearer>,
    pub removed: Removed,
    store: Arc<MemoryStore>,
    log: Arc<MemoryLog>,
}

/// Bytes of records after which the store is flushed and the log cut.
const FLUSH_AFTER: u64 = 50_000;
/// Bytes of applied changes that are kept before the store gets them.
const UNWRITTEN_BYTES: usize = 2_000;
/// Bytes of what was read lately that are kept.
const RECENT_READS: usize = 4_000;

impl Node {
    /// The first state of a server.
    pub(crate) fn create(id: ServerId, map: &Arc<ClusterMap>, now: Time, rng: &mut Rng) -> Node {
        let store = MemoryStore::new();
        for config in configs(map, id, SESSION_TIMEOUT) {
            let mut overlay = Overlay::new(&store);
            Shard::create(&config, &mut overlay, now, &Credentials::ROOT)
                .expect("a shard can be made");
            let batch = overlay.take_batch();
            drop(overlay);
            store.write(&batch).expect("memory takes it");
        }
        store.flush().expect("memory takes it");
        let (store, log) = (Arc::new(store), Arc::new(MemoryLog::new()));
        Node {
            lane: start(id, map, (&store, &log), now, rng),
            removed: Removed::default(),
            store,
            log,
        }
    }

    /// Works on a batch.
    pub(crate) fn run(&mut self, now: Time, rng: &mut Rng) {
        let mut random = || rng.next_u64();
        let done = self
            .lane
            .run_batch(&mut environment(now, &mut random), usize::MAX);
        done.expect("the state is sound");
    }

    /// The orders of the lane, those included that are due by now.
    pub(crate) fn take_commands(&mut self, now: Time) -> Vec<Command<Hearer>> {
        let begun = self.lane.begin_work(Steady(now.0), FLUSH_AFTER);
        begun.expect("the state is sound");
        let mut commands = Vec::new();
        self.lane.take_commands(&mut commands);
        commands
    }

    pub(crate) fn sync(&mut self) {
        self.log.sync().expect("memory takes it");
        self.lane.synced().expect("the state is sound");
    }

    pub(crate) fn flush(&mut self, written: &[(ShardId, u64)]) {
        flush(&*self.store, &*self.log, written).expect("memory takes it");
        self.lane.flushed().expect("the state is sound");
    }

    /// Dies, losing some of what the store did not flush, and starts again.
    pub(crate) fn restart(&mut self, now: Time, rng: &mut Rng) {
        let keep = rng.below(self.store.unflushed() as u64 + 1) as usize;
        self.store = Arc::new(self.store.crash(keep));
        let (id, map) = (self.lane.id(), Arc::clone(self.lane.map()));
        self.lane = start(id, &map, (&self.store, &self.log), now, rng);
        self.removed = Removed::default();
    }

    /// All that is stored, by shard.
    pub(crate) fn pairs(&self) -> BTreeMap<ShardId, ShardPairs> {
        let ids = self.lane.shards().ids().into_iter();
        let mut pairs: BTreeMap<ShardId, ShardPairs> = ids.map(|id| (id, Vec::new())).collect();
        let visit = &mut |key: &[u8], value: &[u8]| {
            if let Some(shard) = key.get(1..3) {
                let shard = ShardId(u16::from_be_bytes([shard[0], shard[1]]));
                let pair = (key.to_vec(), value.to_vec());
                pairs.entry(shard).or_default().push(pair);
            }
            ControlFlow::Continue(())
        };
        self.lane
            .stored()
            .scan(&[], &[u8::MAX], visit)
            .expect("memory can be read");
        pairs
    }
}

fn environment(now: Time, random: &mut dyn FnMut() -> u64) -> Environment<'_> {
    Environment {
        now,
        steady: Steady(now.0),
        held: 0,
        random,
    }
}

/// Starts a server on what it has stored, and runs its first batch.
fn start(
    id: ServerId,
    map: &Arc<ClusterMap>,
    (store, log): (&Arc<MemoryStore>, &Arc<MemoryLog>),
    now: Time,
    rng: &mut Rng,
) -> Lane<Hearer> {
    let mut random = || rng.next_u64();
    let mut environment = environment(now, &mut random);
    let configs = configs(map, id, SESSION_TIMEOUT);
    let (shards, replayed) =
        recover(configs, &mut environment, &**store, &**log).expect("the store is sound");
    let parts = LaneParts {
        id,
        map: Arc::clone(map),
        shards: Shards::new(shards),
        store: Arc::clone(store) as Arc<dyn Store>,
        log: Arc::clone(log) as Arc<dyn Log>,
        points: Points::default(),
        first_data_number: (environment.random)(),
        recent_reads: RECENT_READS,
        unwritten_bytes: UNWRITTEN_BYTES,
        unflushed_bytes: replayed.bytes,
        // Nobody is silent here.
        session_timeout: Duration::MAX,
    };
    let mut lane = Lane::new(parts, environment.steady);
    lane.begin(&mut environment).expect("the state is sound");
    lane
}
