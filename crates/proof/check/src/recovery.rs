//! Offline recovery: operations that stopped servers had under way, finished in memory.
//!
//! The shards do what they would do when their servers start again, so that `pandofs fsck
//! --offline` does not take half of an operation for damage.
//!
//! Between the moment in which a participant has decided and the one in which the coordinator has heard of it, the stored
//! state of the two contradicts itself, and rightly so: the record of the operation is part of that state (S2PC-MP,
//! recovery). A split whose target has adopted the moving half while the source still holds it is the plainest case: a
//! hundred names with two owners. No oracle can say what of it is meant without knowing the protocol, so the protocol itself
//! is run: the very lanes of the servers, on copies of what they have stored.
//!
//! Invariant: nothing outside of the given dump is read and nothing is written; no clock and no random number is asked. Data
//! objects stay as they are: what shards want done to them remains undone, and its record is kept with the shard.

use crate::ClusterDump;
use pandofs_api::PeerMessage;
use pandofs_lane::{
    Command, Lane, LaneError, LaneParts, Points, RecoverError, Shards, configs, recover as open,
};
use pandofs_placement::ClusterMap;
use pandofs_shard::Environment;
use pandofs_storage::log::{Log, MemoryLog};
use pandofs_storage::store::{Batch, KvRead, MemoryStore, Store, StoreError};
use pandofs_types::limits::{RESEND_INTERVAL, SESSION_TIMEOUT, TICK_INTERVAL};
use pandofs_types::{ServerId, ShardId, Steady, Time};
use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;

/// How long, on the servers' own clock, operations may take to come to their end.
const MAX_TICKS: u128 = RESEND_INTERVAL.as_nanos() * 20 / TICK_INTERVAL.as_nanos();
/// Ticks in a row in which nothing happens, after which nothing will.
const QUIET_TICKS: u32 = 8;

/// Reasons why the operations under way cannot be finished.
#[derive(Debug, thiserror::Error)]
pub enum RecoveryError {
    /// A server refuses its stored state as it starts.
    #[error("server {server} cannot start on what it has stored: {source}")]
    Start {
        /// Its number.
        server: ServerId,
        /// Why not.
        source: RecoverError,
    },
    /// The stored state contradicts itself.
    #[error("server {server} cannot go on with what it has stored: {source}")]
    Lane {
        /// Its number.
        server: ServerId,
        /// Why not.
        source: LaneError,
    },
    /// Messages went to and fro without an end.
    #[error("{undecided} operations did not come to an end")]
    Unending {
        /// How many are left.
        undecided: u64,
    },
}

/// Returns the same file system once its servers have finished what was under way, at a time not
/// before `now`. Those of which the dump lacks a shard take no part in it.
///
/// # Errors
/// When a server refuses its state, or operations do not end.
pub fn recover(dump: &ClusterDump, now: Time) -> Result<ClusterDump, RecoveryError> {
    let mut recovery = Recovery::open(dump, now)?;
    recovery.run()?;
    let mut shards = BTreeMap::new();
    for (&server, lane) in &recovery.lanes {
        let led = lane.shards().ids().into_iter();
        shards.extend(led.map(|shard| (shard, Vec::new())));
        let visit = &mut |key: &[u8], value: &[u8]| {
            let pairs = shard_of(key).and_then(|shard| shards.get_mut(&shard));
            if let Some(pairs) = pairs {
                pairs.push((key.to_vec(), value.to_vec()));
            }
            ControlFlow::Continue(())
        };
        let read = lane.stored().scan(&[], &[u8::MAX], visit);
        read.map_err(|error| stopped(server, error.into()))?;
    }
    for (&shard, pairs) in &dump.shards {
        shards.entry(shard).or_insert_with(|| pairs.clone());
    }
    Ok(ClusterDump {
        map: dump.map.clone(),
        shards,
        objects: dump.objects.clone(),
    })
}

/// The shard to which a key belongs: it comes after the kind.
fn shard_of(key: &[u8]) -> Option<ShardId> {
    let number = key.get(1..3)?;
    Some(ShardId(u16::from_be_bytes([number[0], number[1]])))
}

fn stopped(server: ServerId, source: LaneError) -> RecoveryError {
    RecoveryError::Lane { server, source }
}

/// Nobody waits for anything.
type ServerLane = Lane<()>;

struct Recovery {
    lanes: BTreeMap<ServerId, ServerLane>,
    /// Sender, receiver and message.
    mail: VecDeque<(ServerId, ServerId, PeerMessage)>,
    now: Time,
    drawn: u64,
}

impl Recovery {
    fn open(dump: &ClusterDump, now: Time) -> Result<Recovery, RecoveryError> {
        let map = Arc::new(dump.map.clone());
        let mut recovery = Recovery {
            lanes: BTreeMap::new(),
            mail: VecDeque::new(),
            now,
            drawn: 0,
        };
        for server in map.leading_servers() {
            let shards = map.shards_of(server);
            if shards.iter().all(|shard| dump.shards.contains_key(shard)) {
                let lane = recovery.open_lane(dump, &map, server)?;
                recovery.lanes.insert(server, lane);
                recovery.in_batch(server, |lane, environment| lane.begin(environment))?;
                recovery.obey(server)?;
            }
        }
        Ok(recovery)
    }

    fn open_lane(
        &mut self,
        dump: &ClusterDump,
        map: &Arc<ClusterMap>,
        server: ServerId,
    ) -> Result<ServerLane, RecoveryError> {
        let copied = |error: StoreError| stopped(server, error.into());
        let mut batch = Batch::new();
        for shard in map.shards_of(server) {
            for (key, value) in dump.shards.get(&shard).into_iter().flatten() {
                batch.put(key.clone(), value.clone());
            }
        }
        let (store, log) = (Arc::new(MemoryStore::new()), Arc::new(MemoryLog::new()));
        store.write(&batch).map_err(copied)?;
        store.flush().map_err(copied)?;
        let configs = configs(map, server, SESSION_TIMEOUT);
        let steady = Steady(self.now.0);
        let opened =
            self.with_environment(|environment| open(configs, environment, &*store, &*log));
        let (shards, _) = opened.map_err(|source| RecoveryError::Start { server, source })?;
        let parts = LaneParts {
            id: server,
            map: Arc::clone(map),
            shards: Shards::new(shards),
            store,
            log: log as Arc<dyn Log>,
            points: Points::default(),
            first_data_number: 0,
            recent_reads: 0,
            // The check reads through what is applied.
            unwritten_bytes: usize::MAX,
            unflushed_bytes: 0,
            session_timeout: SESSION_TIMEOUT,
        };
        Ok(Lane::new(parts, steady))
    }

    fn with_environment<T>(&mut self, work: impl FnOnce(&mut Environment<'_>) -> T) -> T {
        let drawn = &mut self.drawn;
        // The choice does not matter, only that it is not always the same.
        let mut random = || {
            *drawn = drawn.wrapping_add(0x9e37_79b9_7f4a_7c15);
            *drawn
        };
        work(&mut Environment {
            now: self.now,
            steady: Steady(self.now.0),
            held: 0,
            random: &mut random,
        })
    }

    fn in_batch(
        &mut self,
        server: ServerId,
        run: impl FnOnce(&mut ServerLane, &mut Environment<'_>) -> Result<(), LaneError>,
    ) -> Result<(), RecoveryError> {
        let Some(mut lane) = self.lanes.remove(&server) else {
            return Ok(());
        };
        let done = self.with_environment(|environment| run(&mut lane, environment));
        self.lanes.insert(server, lane);
        done.map_err(|error| stopped(server, error))
    }

    /// Until nothing is on its way and nothing is undecided.
    fn run(&mut self) -> Result<(), RecoveryError> {
        let servers: Vec<ServerId> = self.lanes.keys().copied().collect();
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
            let now = Steady(self.now.0);
            for &server in &servers {
                if let Some(lane) = self.lanes.get_mut(&server) {
                    lane.run_timers(now);
                }
                self.work(server)?;
            }
        }
        match self.undecided() {
            // Splits may go on for long; each of their last steps is an operation of its own.
            0 => Ok(()),
            undecided => Err(RecoveryError::Unending { undecided }),
        }
    }

    fn undecided(&self) -> u64 {
        let of = |lane: &ServerLane| -> u64 {
            let statuses = lane.shards().status();
            statuses.iter().map(|status| status.undecided).sum()
        };
        self.lanes.values().map(of).sum()
    }

    fn deliver_all(&mut self) -> Result<u64, RecoveryError> {
        let mut delivered = 0;
        while let Some((from, to, message)) = self.mail.pop_front() {
            let Some(lane) = self.lanes.get_mut(&to) else {
                continue;
            };
            delivered += 1;
            // Messages that no shard sends are dropped: the stored state may be damaged.
            lane.hear(from, message)
                .map_err(|error| stopped(to, error))?;
            self.work(to)?;
        }
        Ok(delivered)
    }

    /// Has a lane do all that it has to do.
    fn work(&mut self, server: ServerId) -> Result<(), RecoveryError> {
        loop {
            self.in_batch(server, |lane, environment| {
                lane.run_batch(environment, usize::MAX)
            })?;
            self.obey(server)?;
            if !self.lanes.get(&server).is_some_and(Lane::has_inputs) {
                return Ok(());
            }
        }
    }

    /// Does what a lane wants done, as far as it can be done here.
    fn obey(&mut self, server: ServerId) -> Result<(), RecoveryError> {
        let now = Steady(self.now.0);
        let Some(lane) = self.lanes.get_mut(&server) else {
            return Ok(());
        };
        let mut commands = Vec::new();
        loop {
            let begun = lane.begin_work(now, u64::MAX);
            begun.map_err(|error| stopped(server, error))?;
            lane.take_commands(&mut commands);
            if commands.is_empty() {
                return Ok(());
            }
            for command in commands.drain(..) {
                match command {
                    Command::Send {
                        server: to,
                        message,
                    } => self.mail.push_back((server, to, message)),
                    Command::Warm { shard, keys, input } => lane.warmed(shard, keys, input),
                    // Memory is synced at once.
                    Command::Sync => lane.synced().map_err(|error| stopped(server, error))?,
                    // Clients and data objects are not here, and nothing is kept.
                    Command::Answer { .. }
                    | Command::Replaced { .. }
                    | Command::Coordinates { .. }
                    | Command::Unreadable { .. }
                    | Command::Data { .. }
                    | Command::UnknownServer { .. }
                    | Command::Expired { .. }
                    | Command::Recall { .. }
                    | Command::BeginAnew { .. }
                    | Command::Flush { .. }
                    | Command::FlushDone { .. } => {}
                }
            }
        }
    }
}
