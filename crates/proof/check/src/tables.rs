//! A dump, decoded: all at once, or pair by pair as it is read.

use crate::dump::ClusterDump;
use crate::inode::Inode;
use crate::problem::Problem;
use pandofs_api::{SplitId, Step, step};
use pandofs_commit::{Coordination, Decision, Participation, ParticipationState};
use pandofs_namespace::keys::{self, Kind};
use pandofs_namespace::records::{
    EntryRecord, InodeRecord, PartsRecord, PathLineRecord, PathRecord, ReclaimRecord, SlotRecord,
    SplitRecord, StagingRecord, decode,
};
use pandofs_namespace::{Meta, Stop};
use pandofs_placement::ClusterMap;
use pandofs_types::{Ino, Name, Position, ServerId, SessionId, ShardId, SlotId, TxId};
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// The stored state of all shards, by what it is about and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tables {
    /// The one that all servers go by.
    pub map: Arc<ClusterMap>,
    /// Each shard's own figures.
    pub metas: BTreeMap<ShardId, Meta>,
    /// By the shard that has them.
    pub inodes: BTreeMap<(ShardId, Ino), Inode>,
    /// Of all shards; the key says of which.
    pub entries: BTreeMap<EntryKey, EntryRecord>,
    /// Partitions of directories, by the shard that has them.
    pub parts: BTreeMap<(ShardId, Ino), PartsRecord>,
    /// By the shard that keeps the record: where the inode is said to be.
    pub forwarding: BTreeMap<(ShardId, Ino), ShardId>,
    /// Number and bytes (of names and values) of an inode's extended attributes.
    pub xattrs: BTreeMap<(ShardId, Ino), (u64, u64)>,
    /// Bytes that are kept inline of files, by the shard that has them.
    pub data: BTreeMap<(ShardId, Ino), u32>,
    /// Inodes with work to be done, by their shard.
    pub reclaim: BTreeMap<(ShardId, Ino), ReclaimRecord>,
    /// Splits under way, by the shard that gives entries away.
    pub splits: BTreeMap<(ShardId, Ino), SplitRecord>,
    /// Splits under way, by the shard that takes entries.
    pub staging: BTreeMap<(ShardId, SplitId), StagingRecord>,
    /// How many entries are staged.
    pub staged: BTreeMap<(ShardId, SplitId), u64>,
    /// Distributed operations, of coordinators and participants.
    pub transactions: Vec<Transaction>,
    /// Directories of which a shard is handing names over, and does not know yet whether that is decided.
    pub handing: BTreeSet<(ShardId, Ino)>,
    /// The last request of each slot that a shard executed.
    pub slots: BTreeMap<(ShardId, SessionId, SlotId), u64>,
    /// Path records of shards.
    pub paths: BTreeMap<PathKey, PathRecord>,
    /// The last change in each line of a shard's path log.
    pub path_lines: BTreeMap<(ShardId, u16), u64>,
    /// Bytes of each data object.
    pub objects: BTreeMap<(ServerId, Ino), u64>,
}

/// Where an entry is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryKey {
    pub shard: ShardId,
    pub dir: Ino,
    pub position: Position,
    pub name: Name,
}

/// Where a path record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathKey {
    /// Of a directory that was placed there by the path with this hash.
    Placed(ShardId, u64),
    /// Of one that was found elsewhere.
    Pointer(ShardId, u16),
}

impl PathKey {
    /// The shard that has the record.
    pub fn shard(self) -> ShardId {
        match self {
            PathKey::Placed(shard, _) | PathKey::Pointer(shard, _) => shard,
        }
    }
}

/// A record of a distributed operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Transaction {
    pub shard: ShardId,
    pub coordinates: bool,
    pub tx: TxId,
    pub step: u16,
    /// Of a participant: kept only so that a delayed message is not taken for a new one.
    pub ended: bool,
}

impl Tables {
    /// No shard has anything.
    pub fn empty(map: Arc<ClusterMap>) -> Tables {
        Tables {
            map,
            metas: BTreeMap::new(),
            inodes: BTreeMap::new(),
            entries: BTreeMap::new(),
            parts: BTreeMap::new(),
            forwarding: BTreeMap::new(),
            xattrs: BTreeMap::new(),
            data: BTreeMap::new(),
            reclaim: BTreeMap::new(),
            splits: BTreeMap::new(),
            staging: BTreeMap::new(),
            staged: BTreeMap::new(),
            transactions: Vec::new(),
            handing: BTreeSet::new(),
            slots: BTreeMap::new(),
            paths: BTreeMap::new(),
            path_lines: BTreeMap::new(),
            objects: BTreeMap::new(),
        }
    }

    /// Decodes a dump; what cannot be decoded is a problem, and left out.
    pub fn decode(dump: &ClusterDump, problems: &mut Vec<Problem>) -> Tables {
        let mut tables = Tables::empty(Arc::new(dump.map.clone()));
        for (&shard, pairs) in &dump.shards {
            for (key, value) in pairs {
                tables.take(shard, key, value, problems);
            }
        }
        for (&server, objects) in &dump.objects {
            tables.take_objects(server, objects);
        }
        tables
    }

    /// Takes in one stored pair of a shard; one that cannot be decoded is a problem, and left out.
    pub fn take(&mut self, shard: ShardId, key: &[u8], value: &[u8], problems: &mut Vec<Problem>) {
        if let Err(text) = self.add(shard, key, value) {
            let subject = format!("shard {shard}, key {}", hex(key));
            problems.push(Problem {
                oracle: "readable",
                subject,
                text,
                patience: Duration::ZERO,
            });
        }
    }

    /// Takes in data objects of a server, and their bytes.
    pub fn take_objects(&mut self, server: ServerId, objects: &[(Ino, u64)]) {
        let objects = objects.iter();
        self.objects
            .extend(objects.map(|&(ino, bytes)| ((server, ino), bytes)));
    }

    /// Takes in all that `other` has, which is of other shards and servers. Maps that are joined are packed anew: they
    /// take half of what those do that were filled in the order of their keys.
    pub fn join(&mut self, mut other: Tables) {
        self.metas.append(&mut other.metas);
        self.inodes.append(&mut other.inodes);
        self.entries.append(&mut other.entries);
        self.parts.append(&mut other.parts);
        self.forwarding.append(&mut other.forwarding);
        self.xattrs.append(&mut other.xattrs);
        self.data.append(&mut other.data);
        self.reclaim.append(&mut other.reclaim);
        self.splits.append(&mut other.splits);
        self.staging.append(&mut other.staging);
        self.staged.append(&mut other.staged);
        self.transactions.append(&mut other.transactions);
        self.handing.append(&mut other.handing);
        self.slots.append(&mut other.slots);
        self.paths.append(&mut other.paths);
        self.path_lines.append(&mut other.path_lines);
        self.objects.append(&mut other.objects);
    }

    fn add(&mut self, shard: ShardId, key: &[u8], value: &[u8]) -> Result<(), String> {
        let kind = key.first().copied().and_then(Kind::from_byte);
        let kind = kind.ok_or("it begins with no known kind")?;
        if key.get(1..keys::PREFIX_BYTES) != Some(shard.0.to_be_bytes().as_slice()) {
            return Err("it is a key of another shard".into());
        }
        let rest = &key[keys::PREFIX_BYTES..];
        match kind {
            Kind::Meta => {
                self.metas
                    .insert(shard, read("the shard's figures", value)?);
            }
            Kind::Inode => {
                let record: InodeRecord = read("an inode", value)?;
                self.inodes.insert((shard, ino(rest)?), record.into());
            }
            Kind::Entry => {
                let (dir, position, name) = keys::parse_entry(key).ok_or(SHORT)?;
                let key = EntryKey {
                    shard,
                    dir,
                    position,
                    name,
                };
                self.entries.insert(key, read("an entry", value)?);
            }
            Kind::Parts => {
                self.parts
                    .insert((shard, ino(rest)?), read("partitions", value)?);
            }
            Kind::Forwarding => {
                self.forwarding
                    .insert((shard, ino(rest)?), read("a forwarding record", value)?);
            }
            Kind::Xattr => {
                let sums = self.xattrs.entry((shard, ino(rest)?)).or_default();
                sums.0 += 1;
                sums.1 += (rest.len() - INO_BYTES + value.len()) as u64;
            }
            Kind::Data => {
                let bytes = u32::try_from(value.len()).map_err(|_| "too many bytes of a file")?;
                self.data.insert((shard, ino(rest)?), bytes);
            }
            Kind::Reclaim => {
                self.reclaim
                    .insert((shard, ino(rest)?), read("a reclaim record", value)?);
            }
            Kind::Split => {
                self.splits
                    .insert((shard, ino(rest)?), read("a split", value)?);
            }
            Kind::Staging => {
                let (split, _) = split_id(rest)?;
                self.staging
                    .insert((shard, split), read("a staged split", value)?);
            }
            Kind::Staged => {
                let (split, _) = split_id(rest)?;
                *self.staged.entry((shard, split)).or_default() += 1;
            }
            Kind::Transaction => {
                let transaction = transaction(shard, rest, value)?;
                if transaction.coordinates {
                    self.add_handing(shard, value)?;
                }
                self.transactions.push(transaction);
            }
            Kind::Slot => {
                let (session, rest) = rest.split_first_chunk::<8>().ok_or(SHORT)?;
                let slot = rest.first_chunk::<2>().ok_or(SHORT)?;
                let session = SessionId(u64::from_be_bytes(*session));
                let slot = SlotId(u16::from_be_bytes(*slot));
                let kept: SlotRecord = read("an answer", value)?;
                if kept.result.is_ok() {
                    self.slots.insert((shard, session, slot), kept.sequence);
                }
            }
            Kind::Path => {
                let hash = rest.first_chunk::<8>().ok_or(SHORT)?;
                let key = PathKey::Placed(shard, u64::from_be_bytes(*hash));
                self.paths.insert(key, read("a path", value)?);
            }
            Kind::PathPointer => {
                let key = PathKey::Pointer(shard, number(rest)?);
                self.paths.insert(key, read("a path", value)?);
            }
            Kind::PathLine => {
                let line: PathLineRecord = read("a line of the path log", value)?;
                self.path_lines.insert((shard, number(rest)?), line.last);
            }
            // Protection against repeated and delayed messages, rights of sessions, and the length of the path log;
            // nothing refers to them.
            Kind::Horizon
            | Kind::LockHolder
            | Kind::Leaseholder
            | Kind::Grantholder
            | Kind::Numbers
            | Kind::PathLog => {}
        }
        Ok(())
    }

    /// Takes note of what an undecided operation hands over.
    fn add_handing(&mut self, shard: ShardId, value: &[u8]) -> Result<(), String> {
        // The rest of the value is the shard's own business.
        let (coordination, _) = postcard::take_from_bytes::<Coordination>(value)
            .map_err(|error| format!("a coordinator's record: {error}"))?;
        if coordination.decision == Decision::Open {
            for entry in &coordination.steps {
                if let Step::GiveUp(step::GiveUp { dir, .. }) = entry.step {
                    self.handing.insert((shard, dir));
                }
            }
        }
        Ok(())
    }

    /// All inodes in the order of their numbers, with the shards that have a record of each.
    pub fn whereabouts(&self) -> Vec<(Ino, ShardId)> {
        let keys = self.inodes.keys();
        let mut all: Vec<_> = keys.map(|&(shard, ino)| (ino, shard)).collect();
        all.sort_unstable();
        all
    }

    /// Returns the partitions that shards have of each directory.
    pub fn holders(&self) -> BTreeMap<Ino, Vec<(ShardId, &PartsRecord)>> {
        let mut holders: BTreeMap<Ino, Vec<(ShardId, &PartsRecord)>> = BTreeMap::new();
        for (&(shard, dir), parts) in &self.parts {
            holders.entry(dir).or_default().push((shard, parts));
        }
        holders
    }

    /// A readable name for an entry.
    pub fn describe(key: &EntryKey) -> String {
        format!(
            "entry '{}' of directory {} on shard {}",
            key.name, key.dir, key.shard
        )
    }
}

const SHORT: &str = "the key is too short";
const INO_BYTES: usize = 8;

fn read<T: DeserializeOwned>(what: &'static str, value: &[u8]) -> Result<T, String> {
    decode(what, value).map_err(|stop| match stop {
        Stop::Broken(text) => text,
        other => format!("{what}: {other:?}"),
    })
}

fn ino(rest: &[u8]) -> Result<Ino, &'static str> {
    let bytes = rest.first_chunk::<INO_BYTES>().ok_or(SHORT)?;
    Ok(Ino(u64::from_be_bytes(*bytes)))
}

fn number(rest: &[u8]) -> Result<u16, &'static str> {
    let bytes = rest.first_chunk::<2>().ok_or(SHORT)?;
    Ok(u16::from_be_bytes(*bytes))
}

/// `source(2) sequence(8)` and what follows.
fn split_id(rest: &[u8]) -> Result<(SplitId, &[u8]), &'static str> {
    let (source, rest) = rest.split_first_chunk::<2>().ok_or(SHORT)?;
    let (sequence, rest) = rest.split_first_chunk::<8>().ok_or(SHORT)?;
    let source = ShardId(u16::from_be_bytes(*source));
    Ok((
        SplitId {
            source,
            sequence: u64::from_be_bytes(*sequence),
        },
        rest,
    ))
}

/// `role(1) coordinator(2) sequence(8) step(2)`
fn transaction(shard: ShardId, rest: &[u8], value: &[u8]) -> Result<Transaction, String> {
    let (&role, rest) = rest.split_first().ok_or(SHORT)?;
    let (id, rest) = split_id(rest)?;
    let step = rest.first_chunk::<2>().ok_or(SHORT)?;
    let coordinates = role == keys::Role::Coordinator as u8;
    let ended = !coordinates
        && read::<Participation>("a participant's record", value)?.state
            == ParticipationState::Ended;
    Ok(Transaction {
        shard,
        coordinates,
        tx: TxId {
            coordinator: id.source,
            sequence: id.sequence,
        },
        step: u16::from_be_bytes(*step),
        ended,
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
