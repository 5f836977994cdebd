//! The shard itself: what it knows, and how it starts.

use crate::by_path::PathRequests;
use crate::commands::Commands;
use crate::file_locks::FileLocks;
use crate::grace::Grace;
use crate::leases::Leases;
use crate::notes::Note;
use crate::operations::{Finished, Operations};
use crate::placing::Loads;
use crate::port::{Environment, Input, Output, Proposal, ShardConfig};
use crate::reclaim::Reclaims;
use crate::record::Record;
use crate::sessions::Sessions;
use crate::splits::Splits;
use crate::stripings::Stripings;
use crate::waiting::Until;
use pandofs_api::{Cause, DirSettings, PathName, PeerMessage, ShardStatus};
use pandofs_commit::{Decision, Participation, ParticipationState, StepState};
use pandofs_namespace::locks::Lock;
use pandofs_namespace::records::{Body, InodeRecord, Part, PartsRecord, ReclaimRecord, decode};
use pandofs_namespace::{Meta, Stop, Txn, View, keys, steps};
use pandofs_placement::{
    ClusterMap, DirMap, DirPolicy, FilePolicy, GrainState, Granularity, PartitionIndex, Placer,
    objects,
};
use pandofs_storage::store::{Overlay, Store, StoreError};
use pandofs_types::limits::SERIALS_SKIPPED_AT_START;
use pandofs_types::{Acls, Credentials, FileKind, Ino, Name, ShardId, Steady, Time, TxId};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Why a shard cannot go on. The process stops: what it would do from here on would be a guess.
#[derive(Debug, thiserror::Error)]
pub enum ShardError {
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The stored state contradicts itself or cannot be decoded.
    #[error("shard {shard}: what is stored is broken: {what}")]
    Broken {
        /// The shard.
        shard: ShardId,
        /// The contradiction, in words.
        what: String,
    },
    /// A record that cannot be decoded.
    #[error("the log holds {0}")]
    BrokenLog(String),
    /// Written by another version of the program.
    #[error("shard {shard}: the store is of format {found}, this program knows {expected}")]
    WrongFormat {
        /// The shard.
        shard: ShardId,
        /// The version in the store.
        found: u16,
        /// The version of this program.
        expected: u16,
    },
    /// The data directory is another file system's.
    #[error(
        "shard {shard}: the store belongs to file system {found}, the cluster map says {expected}"
    )]
    WrongFileSystem {
        /// The shard.
        shard: ShardId,
        /// The number in the store.
        found: pandofs_types::FsId,
        /// The number in the map.
        expected: pandofs_types::FsId,
    },
    /// It was never made here.
    #[error("shard {shard} has no state in this store")]
    Missing {
        /// The shard.
        shard: ShardId,
    },
    /// A record is missing or came twice.
    #[error("shard {shard}: record {found} came where {expected} was due")]
    OutOfOrder {
        /// The shard.
        shard: ShardId,
        /// Its index.
        found: u64,
        /// One more than that of the last applied record.
        expected: u64,
    },
}

/// One shard.
pub struct Shard {
    pub(crate) config: ShardConfig,
    /// Stored as well; changed by records alone.
    pub(crate) meta: Meta,
    pub(crate) operations: Operations,
    pub(crate) sessions: Sessions,
    pub(crate) splits: Splits,
    pub(crate) reclaims: Reclaims,
    pub(crate) stripings: Stripings,
    /// Locks of files; those of operations are in `operations`.
    pub(crate) file_locks: FileLocks,
    pub(crate) leases: Leases,
    pub(crate) loads: Loads,
    pub(crate) commands: Commands,
    pub(crate) path_requests: PathRequests,
}

impl Shard {
    /// The first state of a shard of a new file system; shard 0 gets the root directory, which belongs
    /// to `owner` and which only they may write to: mode 0755.
    pub fn create(
        config: &ShardConfig,
        overlay: &mut Overlay<'_>,
        now: Time,
        owner: &Credentials,
    ) -> Result<(), ShardError> {
        let mut meta = Meta {
            format: keys::FORMAT_VERSION,
            fs: config.map.fs,
            applied: 0,
            next_serial: 1,
            next_sequence: 1,
            entries: 0,
            inodes: 0,
            partitions: 0,
            splits: 0,
        };
        let mut effects = Vec::new();
        let mut txn = Txn {
            overlay,
            shard: config.shard,
            map: &config.map,
            meta: &mut meta,
            effects: &mut effects,
        };
        if config.shard == Ino::ROOT.birth_shard() {
            let ino = txn.new_ino(None);
            assert!(ino == Ino::ROOT);
            let inode = InodeRecord {
                kind: FileKind::Dir,
                mode: 0o755,
                uid: owner.uid,
                gid: owner.gid,
                nlink: 1,
                rdev: 0,
                size: 0,
                atime: now,
                mtime: now,
                ctime: now,
                btime: now,
                body: Body::Dir { parent: Ino::ROOT },
                xattrs: 0,
                xattr_bytes: 0,
                trail: Vec::new(),
                acls: Acls::default(),
                may_be_named: false,
                truncations: 0,
            };
            txn.add_inode(ino, &inode);
            let parts = PartsRecord {
                map: DirMap::single(config.shard),
                mode: inode.mode,
                uid: owner.uid,
                gid: owner.gid,
                settings: DirSettings::default(),
                grain: GrainState::root(config.shard),
                mtime: now,
                ctime: now,
                parts: vec![Part {
                    index: PartitionIndex::ZERO,
                    entries: 0,
                    subdirs: 0,
                }],
                acls: Acls::default(),
                path: config.map.settings.path_shards.map(|_| PathName::ROOT),
            };
            txn.meta.partitions += 1;
            txn.put_parts(ino, &parts);
        }
        txn.put_meta();
        Ok(())
    }

    /// The shard as the store has it.
    ///
    /// # Errors
    /// When the store has no state of this shard, or one of another format or file system.
    pub fn open(config: ShardConfig, store: &dyn Store) -> Result<Shard, ShardError> {
        let shard = config.shard;
        let bytes = store
            .get(&keys::meta(shard))?
            .ok_or(ShardError::Missing { shard })?;
        // The format stands first, so that it can be read whatever follows.
        let (format, _) =
            postcard::take_from_bytes::<u16>(&bytes).map_err(|error| ShardError::Broken {
                shard,
                what: format!("meta: {error}"),
            })?;
        if format != keys::FORMAT_VERSION {
            let expected = keys::FORMAT_VERSION;
            return Err(ShardError::WrongFormat {
                shard,
                found: format,
                expected,
            });
        }
        let broken = |stop: Stop| broken(shard, stop);
        let meta: Meta = decode("meta", &bytes).map_err(broken)?;
        if meta.fs != config.map.fs {
            let expected = config.map.fs;
            return Err(ShardError::WrongFileSystem {
                shard,
                found: meta.fs,
                expected,
            });
        }
        let (policy, file_policy) = (config.map.policy, config.map.settings.file_policy);
        let adapts = matches!(policy, DirPolicy::Adaptive(_))
            || matches!(file_policy, FilePolicy::Adaptive(_));
        let placer = Placer::new(&config.map, shard, objects(meta.inodes, meta.partitions));
        let mut this = Shard {
            commands: Commands::after(shard, meta.applied),
            path_requests: PathRequests::default(),
            meta,
            config,
            operations: Operations::default(),
            sessions: Sessions::default(),
            splits: Splits::default(),
            reclaims: Reclaims::default(),
            stripings: Stripings::default(),
            file_locks: FileLocks::default(),
            leases: Leases::default(),
            loads: Loads {
                placer,
                adapts,
                disk_low: false,
            },
        };
        this.load(store).map_err(broken)?;
        Ok(this)
    }

    /// Reads what is kept in memory: operations under way, and from them the locks.
    fn load(&mut self, store: &dyn Store) -> Result<(), Stop> {
        let config = self.config.clone();
        let view = View {
            kv: store,
            shard: config.shard,
            map: &config.map,
            cached_only: false,
        };
        let role_at = keys::PREFIX_BYTES;
        view.scan_prefix(
            &keys::prefix(keys::Kind::Transaction, config.shard),
            &mut |key, value| {
                if key.get(role_at) == Some(&(keys::Role::Coordinator as u8)) {
                    let coordinated: crate::coordinate::Coordinated =
                        decode("coordination", value)?;
                    self.operations
                        .coordinations
                        .insert(coordinated.coordination.tx.sequence, coordinated);
                } else {
                    let part: Participation = decode("participation", value)?;
                    self.operations.keep(part);
                }
                Ok(ControlFlow::Continue(()))
            },
        )?;
        view.scan_prefix(
            &keys::prefix(keys::Kind::Horizon, config.shard),
            &mut |key, value| {
                let coordinator = key
                    .get(role_at..)
                    .and_then(|rest| rest.first_chunk::<2>())
                    .map(|bytes| ShardId(u16::from_be_bytes(*bytes)))
                    .ok_or_else(|| Stop::Broken("a horizon's key is short".to_string()))?;
                self.operations
                    .horizons
                    .insert(coordinator, decode("horizon", value)?);
                Ok(ControlFlow::Continue(()))
            },
        )?;
        let mut held = Vec::new();
        for coordinated in self.operations.coordinations.values() {
            let coordination = &coordinated.coordination;
            if coordination.decision == Decision::Open {
                for entry in coordination
                    .steps
                    .iter()
                    .filter(|e| e.state == StepState::Own)
                {
                    held.push((
                        coordination.tx,
                        steps::of(&entry.step).locks(&view, &entry.result)?,
                    ));
                }
            }
        }
        for key in &self.operations.active {
            let part = &self.operations.participations[key];
            if let ParticipationState::Prepared { step, result, .. } = &part.state {
                held.push((part.tx, steps::of(step).locks(&view, result)?));
            }
        }
        let prefix = keys::prefix(keys::Kind::Reclaim, config.shard);
        view.scan_prefix(&prefix, &mut |key, value| {
            if let ReclaimRecord::Fill { tx, .. } = decode("reclaim record", value)? {
                let ino = keys::parse_ino(key)
                    .ok_or_else(|| Stop::Broken("a reclaim key is short".to_string()))?;
                held.push((tx, vec![Lock::Inode(ino)]));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        for (tx, locks) in held {
            self.operations.locks.acquire(tx, &locks);
        }
        Ok(())
    }

    /// Index of the last record that the stored state includes.
    pub fn applied(&self) -> u64 {
        self.meta.applied
    }

    /// Applies a record that the log holds beyond the stored state; in order, before `recover`.
    pub fn replay(
        &mut self,
        overlay: &mut Overlay<'_>,
        index: u64,
        payload: &[u8],
    ) -> Result<(), ShardError> {
        self.commands.replaying = true;
        self.commands.proposed = index;
        let mut random = || unreachable!("a record holds every choice");
        let mut env = Environment {
            now: Time(0),
            steady: Steady(0),
            held: 0,
            random: &mut random,
        };
        let done = self.apply(overlay, &mut env, index, payload);
        self.commands.replaying = false;
        self.commands.outputs.clear();
        self.commands.effects.clear();
        self.commands.notes.take();
        done
    }

    /// Takes up after the replay what a restart interrupted. Proposals and outputs follow as after a
    /// `submit`. The proposals must be on disk before anything else is submitted: see
    /// [`Record::SkipSerials`].
    pub fn recover(
        &mut self,
        overlay: &mut Overlay<'_>,
        env: &mut Environment<'_>,
    ) -> Result<(), ShardError> {
        assert!(self.commands.proposals.is_empty() && self.commands.outputs.is_empty());
        self.commands.now = env.steady;
        self.operations.inherited = self
            .operations
            .coordinations
            .values()
            .map(|c| c.coordination.tx)
            .collect();
        // Without this a file could get the number of another one, which a loss of power took away and which a client
        // still has open, or whose data objects are still there.
        let next = self
            .meta
            .next_serial
            .saturating_add(SERIALS_SKIPPED_AT_START);
        self.propose(&Record::SkipSerials { next });
        for tx in self.operations.inherited.clone() {
            self.propose(&Record::Recover { tx });
        }
        let shard = self.config.shard;
        self.sessions.grace = Grace::new(self.config.grace, env.steady);
        let done = self
            .recover_splits(overlay)
            .and_then(|()| self.recover_reclaims(overlay, Ino::new(shard, next)))
            .and_then(|()| self.recover_sessions(overlay, env.steady))
            .and_then(|()| self.recover_lock_holders(overlay, env.steady))
            .and_then(|()| self.recover_leases(overlay, env.steady))
            .and_then(|()| self.recover_partitions(overlay));
        done.map_err(|stop| broken(shard, stop))?;
        self.resend_commits(env.steady, true);
        Ok(())
    }

    /// Partitions that want to split or to be merged, and maps that their home may not have heard of.
    fn recover_partitions(&mut self, overlay: &Overlay<'_>) -> Result<(), Stop> {
        let config = self.config.clone();
        let view = view_of(&config, overlay, false);
        let prefix = keys::prefix(keys::Kind::Parts, config.shard);
        let mut found = Vec::new();
        view.scan_prefix(&prefix, &mut |key, value| {
            let dir = keys::parse_ino(key)
                .ok_or_else(|| Stop::Broken("a partitions key is short".to_string()))?;
            found.push((dir, decode::<PartsRecord>("partitions", value)?));
            Ok(ControlFlow::Continue(()))
        })?;
        for (dir, parts) in found {
            for part in &parts.parts {
                self.consider_split(overlay, dir, part.index)?;
                self.consider_merge(overlay, dir, part.index)?;
            }
            if dir.birth_shard() != config.shard && parts.map.has_slots() {
                self.splits.map_notices.add(dir, parts.map);
            }
        }
        Ok(())
    }

    /// Goes on by a newer cluster map, which has every shard where it was.
    ///
    /// The effect of a record may follow from the map, so none that was applied before is to be applied again after this,
    /// when the log is replayed neither: the caller has the store hold all of them. Records proposed and not applied yet
    /// are applied by the new map, as they will be replayed.
    pub fn set_map(&mut self, map: Arc<ClusterMap>) {
        self.config.map = map;
    }

    /// Records to append to the log, in order.
    pub fn take_proposals(&mut self) -> Vec<Proposal> {
        std::mem::take(&mut self.commands.proposals)
    }

    /// Takes the outputs.
    pub fn take_outputs(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.commands.outputs)
    }

    /// Takes the notes of what requests wait for.
    pub fn take_notes(&mut self) -> Vec<Note> {
        self.commands.notes.take()
    }

    /// Whether an operation under way holds this name: another shard may know already what it will lead to.
    pub fn is_held(&self, dir: Ino, name: &Name) -> bool {
        let position = self.config.map.hash_key.position(name.as_bytes());
        let name = name.clone();
        let lock = Lock::Entry {
            dir,
            position,
            name,
        };
        self.operations.locks.check(&lock, None).is_err()
    }

    /// Operations that hold locks although nothing here waits for their outcome: none, between two batches. For
    /// monitoring.
    pub fn forgotten_locks(&self) -> Vec<TxId> {
        let mut left = self.operations.locks.holders();
        left.retain(|tx| !self.operations.await_outcome(*tx) && !self.reclaims.is_filling(*tx));
        left
    }

    /// Forgets the numbers that were left out at the start.
    #[cfg(feature = "planted")]
    pub fn plant_serials(&mut self) {
        self.meta.next_serial -= SERIALS_SKIPPED_AT_START;
    }

    /// Locks an inode for an operation that there is not: for tests of monitoring.
    #[cfg(feature = "planted")]
    pub fn plant_lock(&mut self, tx: TxId, ino: Ino) {
        self.operations.locks.acquire(tx, &[Lock::Inode(ino)]);
    }

    /// Executes what was answered early under grants that are over.
    #[cfg(feature = "planted")]
    pub fn plant_late_batches(&mut self) {
        self.leases.take_late();
    }

    /// Names operations as stragglers so early that it is seen what comes of it.
    #[cfg(feature = "planted")]
    pub fn set_straggles_after(&mut self, operations: u64) {
        self.operations.straggles_after = operations;
    }

    /// Gives fewer leases, so that it is seen what happens when there are many: from so many on short ones,
    /// from so many on brief ones, and no more than so many.
    #[cfg(feature = "planted")]
    pub fn set_lease_room(&mut self, (many, very_many, all): (usize, usize, usize)) {
        let room = pandofs_leases::Room {
            many,
            very_many,
            all,
        };
        self.leases.set_room(room);
    }

    /// Objects here, as policies that adapt count them.
    pub fn objects(&self) -> u64 {
        objects(self.meta.inodes, self.meta.partitions)
    }

    /// Granularity of placement here, if something is placed by the loads of all servers: then [`Input::Loads`] is wanted now and then.
    pub fn granularity(&self) -> Option<Granularity> {
        self.loads.adapts.then(|| self.loads.placer.granularity())
    }

    /// Counts of operations that were coordinated here and have ended.
    pub fn finished(&self) -> Finished {
        self.operations.finished
    }

    /// Partitions that went from here back to those they were split from, since the start.
    pub fn merged(&self) -> u64 {
        self.splits.merged
    }

    /// Directories that sessions are granted here.
    pub fn granted(&self) -> usize {
        self.leases.granted()
    }

    /// Steps of others' operations of which something is kept here, and those of them that a tick looks at.
    pub fn kept_steps(&self) -> (usize, usize) {
        (
            self.operations.participations.len(),
            self.operations.active.len(),
        )
    }

    /// Figures as they are now; `synced` is the lane's to fill in.
    pub fn status(&self) -> ShardStatus {
        ShardStatus {
            shard: self.config.shard.0,
            entries: self.meta.entries,
            inodes: self.meta.inodes,
            partitions: self.meta.partitions,
            splits: self.meta.splits,
            applied: self.meta.applied,
            synced: 0,
            undecided: self.operations.undecided() as u64,
            waiting: self.commands.waiting.len() as u64,
            reclaiming: self.reclaims.len() as u64,
            opens: self.sessions.opens.len() as u64,
            locks: self.file_locks.held() as u64,
            lock_waiters: self.file_locks.waiting() as u64,
            leases: self.leases.held() as u64,
            recalled: self.leases.recalled(),
            paths_answered: self.path_requests.answered,
            paths_led_on: self.path_requests.led_on,
            paths_unknown: self.path_requests.unknown,
        }
    }

    pub(crate) fn propose(&mut self, record: &Record) {
        self.commands.propose(record);
    }

    pub(crate) fn send(&mut self, to: ShardId, message: PeerMessage, durable: bool) {
        self.commands.send(to, message, durable);
    }

    /// Puts an input aside until the operation `tx` ends.
    pub(crate) fn wait_for(&mut self, tx: TxId, input: Input) {
        self.wait(Until::Operation(tx), input);
    }

    /// Puts an input aside. If too many wait a request is told to come again; a message of another shard is sent again.
    pub(crate) fn wait(&mut self, until: Until, input: Input) {
        if let Input::Request { ticket, request } = &input {
            let ticket = self.sessions.answers.ticket(request.key).unwrap_or(*ticket);
            self.commands.waits(ticket, self.cause(until));
        }
        if let Some(Input::Request { ticket, request }) = self.commands.waiting.wait(until, input) {
            self.operations.unseen.remove(&ticket);
            // It may have come again since, if it changes something.
            let ticket = self.sessions.answers.forget(request.key).unwrap_or(ticket);
            self.answer(ticket, Err(pandofs_api::Refusal::TryAgain), false);
        }
    }

    fn cause(&self, until: Until) -> Cause {
        match until {
            Until::Operation(tx) => Cause::Operation(tx),
            Until::Applied => Cause::Records,
            Until::Gate(dir) => Cause::Split(dir),
            Until::LockHolder(_) | Until::Grantholder(_) => Cause::Log,
            Until::Leaseholders => Cause::Returning,
            Until::Clear(id) => match self.leases.in_the_way(id) {
                Some((session, others)) => Cause::Recall { session, others },
                None => Cause::Records,
            },
        }
    }

    /// Lets go of an operation's locks, and of those who waited for it.
    pub(crate) fn release(&mut self, tx: TxId) {
        self.operations.locks.release(tx);
        self.commands.waiting.release(Until::Operation(tx));
    }
}

/// The shard's state under the overlay.
pub(crate) fn view_of<'a>(
    config: &'a ShardConfig,
    overlay: &'a Overlay<'_>,
    cached_only: bool,
) -> View<'a> {
    View {
        kv: overlay,
        shard: config.shard,
        map: &config.map,
        cached_only,
    }
}

pub(crate) fn broken(shard: ShardId, stop: Stop) -> ShardError {
    match stop {
        Stop::Store(error) => ShardError::Store(error),
        other => ShardError::Broken {
            shard,
            what: other.to_string(),
        },
    }
}
