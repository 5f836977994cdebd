//! The cluster map: the servers of a file system and the shards that each leads.
//!
//! It also has the settings that all of them share.

use crate::cluster_file::{CURRENT_FORMAT, ClusterFile};
use crate::crush::crush_map;
use crate::policy::{DirPolicy, FilePolicy, crush_path_shard};
use crate::slots::default_max_partitions;
use pandofs_types::limits::{
    DEFAULT_FLUSH_INTERVAL, DEFAULT_INLINE_BYTES, DEFAULT_SPLIT_THRESHOLD,
    DEFAULT_STRIPE_UNIT_BYTES, MAX_INLINE_BYTES, MAX_NAME_BYTES, MAX_PARTITIONS, MAX_SERVERS,
    MAX_SHARDS, MIN_SPLIT_THRESHOLD, MIN_STRIPE_UNIT_BYTES,
};
use pandofs_types::{CommitProtocol, Epoch, FsId, HashKey, ServerId, ShardId, StoreKind};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashSet};
use std::sync::OnceLock;

/// One version of a file system's cluster map. As a file: [`ClusterMap::to_json`].
///
/// A map that was decoded, or made by [`ClusterMap::create`], is valid. A caller that changes a
/// field calls [`ClusterMap::validate`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "ClusterFile", into = "ClusterFile")]
pub struct ClusterMap {
    /// Version of the format, 1.
    pub format: u32,
    /// Drawn when the file system is made; servers and clients of another one refuse the map.
    pub fs: FsId,
    /// The file system's name, for people.
    pub name: String,
    /// Version of the map; every change makes it larger.
    pub epoch: Epoch,
    /// The key under which names are hashed. Somebody who has it can overload a partition.
    pub hash_key: HashKey,
    /// In the order of their numbers, which begin at 0 and have no gap.
    pub servers: Vec<ServerInfo>,
    /// The server that leads each shard.
    pub shards: Vec<ServerId>,
    /// Where new directories go.
    pub policy: DirPolicy,
    /// Those that every server and client goes by.
    pub settings: Settings,
    pub(crate) default_partitions: Derived,
}

/// [`default_max_partitions`] of a map, once somebody has asked. Every creation in a directory that has
/// spread as far as it may asks, and with a thousand servers the answer is a long computation. It follows
/// from the leaders alone, so it is no part of what makes maps equal; a copy works it out anew, as copies are
/// what gets changed.
#[derive(Debug, Default)]
pub(crate) struct Derived(OnceLock<u32>);

impl Clone for Derived {
    fn clone(&self) -> Derived {
        Derived::default()
    }
}

impl PartialEq for Derived {
    fn eq(&self, _: &Derived) -> bool {
        true
    }
}

impl Eq for Derived {}

/// One server of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerInfo {
    /// Its index in `ClusterMap::servers`.
    pub id: ServerId,
    /// Where it listens: `tcp:HOST:PORT` or `unix:/PATH`. None: only a simulation can reach it.
    pub addresses: Vec<String>,
    /// Its part of the shards relative to the others', in units of 1/65,536 (as in CRUSH); 0 means
    /// that it is given none.
    pub weight: u32,
    /// The failure domain: servers of one name may fail together.
    pub domain: String,
}

impl ServerInfo {
    /// The weight 1.0.
    pub const WEIGHT_ONE: u32 = 1 << 16;
}

/// Settings of a file system that every server and client goes by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Entries of a partition before it splits.
    pub split_threshold: u32,
    /// Partitions of one directory; `None` for [`default_max_partitions`].
    pub max_partitions: Option<u32>,
    /// Partitions a new directory starts with.
    pub initial_partitions: u32,
    /// Bytes of one stripe unit.
    pub stripe_unit: u32,
    /// Servers over which a file is striped; 0 for all.
    pub stripe_count: u16,
    /// Bytes of a file kept beside its inode, if its stripe unit is not smaller.
    pub inline_bytes: u32,
    /// Milliseconds that records of ordinary operations may stay unsynced; 0 to sync every batch.
    pub flush_interval_ms: u64,
    /// How operations of several shards are decided.
    #[serde(default)]
    pub commit_protocol: CommitProtocol,
    /// Where the inodes of new files go.
    #[serde(default)]
    pub file_policy: FilePolicy,
    /// Shards that paths lead to: those that a file system of the policy `crush-path` was made with. Servers that
    /// join do not change it, so that each path keeps its shard. `None` under another policy.
    #[serde(default)]
    pub path_shards: Option<u16>,
    /// What servers keep their metadata in.
    #[serde(default)]
    pub store: StoreKind,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            split_threshold: DEFAULT_SPLIT_THRESHOLD,
            max_partitions: None,
            initial_partitions: 1,
            stripe_unit: DEFAULT_STRIPE_UNIT_BYTES,
            stripe_count: 0,
            inline_bytes: DEFAULT_INLINE_BYTES,
            flush_interval_ms: DEFAULT_FLUSH_INTERVAL.as_millis() as u64,
            commit_protocol: CommitProtocol::default(),
            file_policy: FilePolicy::default(),
            path_shards: None,
            store: StoreKind::default(),
        }
    }
}

/// Fault of a cluster map.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// It is no JSON of the right shape; the text is the parser's.
    #[error("not a cluster map: {0}")]
    Malformed(String),
    /// Written by another version of the program.
    #[error("the cluster map has format {found}, this program reads format {expected}")]
    Format {
        /// The number in the file.
        found: u32,
        /// The number that this program writes and reads.
        expected: u32,
    },
    /// A key or number of the file system is no hexadecimal number of 16 bytes.
    #[error("{field} is to be 32 hexadecimal digits, not {found:?}")]
    NotHex {
        /// Name of the JSON member.
        field: &'static str,
        /// The text in its place.
        found: String,
    },
    /// The name is empty, too long or has control characters.
    #[error(
        "the file system's name is to be 1 to {MAX_NAME_BYTES} bytes without control characters, not {0:?}"
    )]
    Name(String),
    /// The number of servers is out of range.
    #[error("a cluster has 1 to {MAX_SERVERS} servers, this one has {0}")]
    ServerCount(usize),
    /// The numbers of the servers have a gap or one is there twice.
    #[error("there are {servers} servers, numbered from 0, and one is called {server}")]
    ServerId {
        /// The number that does not fit.
        server: ServerId,
        /// Servers in the map.
        servers: usize,
    },
    /// A map with more servers was asked for and none was given.
    #[error("there are no servers to add")]
    NothingToAdd,
    /// The map cannot take the place of the one that is in force.
    #[error("map {next} of the file system does not follow from map {epoch}: {why}")]
    NoSuccessor {
        /// Epoch of the map in force.
        epoch: Epoch,
        /// Epoch of the map that was offered.
        next: Epoch,
        /// The part of the map that may not change so.
        why: &'static str,
    },
    /// Two servers have this number.
    #[error("there are two servers {0}")]
    DuplicateServer(ServerId),
    /// No transport is known that has such addresses.
    #[error("server {server}: the address {address:?} is neither tcp:HOST:PORT nor unix:/PATH")]
    Address {
        /// The server that has the address.
        server: ServerId,
        /// The address as it was written.
        address: String,
    },
    /// Two servers, or one twice, listen at the same address.
    #[error("server {server}: the address {address:?} is there already")]
    DuplicateAddress {
        /// The second server with it.
        server: ServerId,
        /// The address as it was written.
        address: String,
    },
    /// All weights are 0.
    #[error("no server has a weight above 0, so none may lead shards")]
    NoWeight,
    /// The number of shards of a new file system is no power of two, or too large.
    #[error("a new file system has a power of two of shards up to {MAX_SHARDS}, not {0}")]
    ShardCount(usize),
    /// The number of shards in the map is out of range.
    #[error("a file system has 1 to {MAX_SHARDS} shards, this one has {0}")]
    Shards(usize),
    /// New servers would bring more shards than a file system may have.
    #[error(
        "the servers to be added would lead {joining} shards by their weights, and a file system has {MAX_SHARDS} at most, \
         of which {there} are there: add fewer servers, or give them less weight"
    )]
    TooManyShards {
        /// Shards in the map.
        there: usize,
        /// Shards that the new servers would bring.
        joining: u64,
    },
    /// A shard's leader is no server of the map.
    #[error("shard {shard} is led by server {server}, which is not in the map")]
    UnknownLeader {
        /// The shard without a leader.
        shard: ShardId,
        /// The number that no server has.
        server: ServerId,
    },
    /// A placement policy of files is out of its range.
    #[error("the policies of files need widths of 1 or more, the least one before the largest")]
    FilePolicy,
    /// A placement policy of directories is out of its range.
    #[error(
        "the policies ddg and adaptive need depths and widths of 1 or more, the least before the largest"
    )]
    Policy,
    /// Paths lead to shards that are not there, or to none under `crush-path`, or to some under another policy.
    #[error(
        "path_shards is to be a number of shards that the file system has, for the policy crush-path and no other"
    )]
    PathShards,
    /// A setting is out of its range.
    #[error("{setting} is to be {allowed}, not {found}")]
    Setting {
        /// Name of the JSON member.
        setting: &'static str,
        /// The range, in words, with its unit.
        allowed: String,
        /// The value in the map.
        found: u64,
    },
}

impl ClusterMap {
    /// The first map of a new file system, at epoch 1, with its shards given to the servers by
    /// [`crush_map`].
    ///
    /// # Errors
    /// As [`ClusterMap::validate`], and when no server may lead shards.
    pub fn create(
        fs: FsId,
        name: String,
        hash_key: HashKey,
        shards: u16,
        servers: Vec<ServerInfo>,
        policy: DirPolicy,
        mut settings: Settings,
    ) -> Result<ClusterMap, MapError> {
        check_servers(&servers)?;
        check_shard_count(usize::from(shards))?;
        settings.path_shards = (policy == DirPolicy::CrushPath).then_some(shards);
        if servers.iter().all(|server| server.weight == 0) {
            return Err(MapError::NoWeight);
        }
        let shards = crush_map(shards, &servers);
        let map = ClusterMap {
            format: CURRENT_FORMAT,
            fs,
            name,
            epoch: Epoch(1),
            hash_key,
            servers,
            shards,
            policy,
            settings,
            default_partitions: Derived::default(),
        };
        map.validate()?;
        Ok(map)
    }

    /// Checks all that the rest of the system relies on.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn validate(&self) -> Result<(), MapError> {
        if self.format != CURRENT_FORMAT {
            return Err(MapError::Format {
                found: self.format,
                expected: CURRENT_FORMAT,
            });
        }
        let name_fits = (1..=MAX_NAME_BYTES).contains(&self.name.len());
        if !name_fits || self.name.contains(char::is_control) {
            return Err(MapError::Name(self.name.clone()));
        }
        check_servers(&self.servers)?;
        // Servers that were added brought shards of their own: it need not be a power of two any more.
        if !(1..=usize::from(MAX_SHARDS)).contains(&self.shards.len()) {
            return Err(MapError::Shards(self.shards.len()));
        }
        let known: HashSet<ServerId> = self.servers.iter().map(|server| server.id).collect();
        for (shard, &server) in self.shards.iter().enumerate() {
            if !known.contains(&server) {
                return Err(MapError::UnknownLeader {
                    shard: ShardId(shard as u16),
                    server,
                });
            }
        }
        if !self.policy.is_valid() {
            return Err(MapError::Policy);
        }
        let all = 1..=self.shards.len();
        let fits = match self.settings.path_shards {
            Some(shards) => {
                self.policy == DirPolicy::CrushPath && all.contains(&usize::from(shards))
            }
            None => self.policy != DirPolicy::CrushPath,
        };
        if !fits {
            return Err(MapError::PathShards);
        }
        self.settings.validate()
    }

    /// Whether the file system has such a shard: to be asked before [`ClusterMap::server_of`] about
    /// one that came from the network or from disk.
    pub fn has_shard(&self, shard: ShardId) -> bool {
        usize::from(shard.0) < self.shards.len()
    }

    /// The server that leads the shard.
    ///
    /// # Panics
    /// When the file system has no such shard.
    pub fn server_of(&self, shard: ShardId) -> ServerId {
        assert!(
            self.has_shard(shard),
            "no shard {shard} of {}",
            self.shards.len()
        );
        self.shards[usize::from(shard.0)]
    }

    /// The server of this number, if there is one.
    pub fn server(&self, id: ServerId) -> Option<&ServerInfo> {
        self.servers.iter().find(|server| server.id == id)
    }

    /// The shards the server leads, in the order of their numbers.
    pub fn shards_of(&self, id: ServerId) -> Vec<ShardId> {
        let all = self.shards.iter().zip(0..);
        all.filter(|&(&leader, _)| leader == id)
            .map(|(_, shard)| ShardId(shard))
            .collect()
    }

    /// The number of shards. It grows when servers are added, and a shard keeps its number and its server.
    pub fn shard_count(&self) -> u16 {
        self.shards.len() as u16
    }

    /// The shard that a path of a directory leads to; `None` if paths lead to no shards here.
    pub fn path_shard(&self, path: &[u8]) -> Option<ShardId> {
        let shards = self.settings.path_shards?;
        Some(crush_path_shard(
            self.hash_key.position(path).hash(),
            shards,
        ))
    }

    /// The shards that paths may lead to, in the order of their numbers.
    pub fn path_shards(&self) -> impl Iterator<Item = ShardId> + use<> {
        (0..self.settings.path_shards.unwrap_or(0)).map(ShardId)
    }

    /// The servers that lead a shard, in the order of their numbers.
    pub fn leading_servers(&self) -> Vec<ServerId> {
        let distinct: BTreeSet<ServerId> = self.shards.iter().copied().collect();
        distinct.into_iter().collect()
    }

    /// Partitions of one directory: as set, or [`default_max_partitions`].
    pub fn max_partitions(&self) -> u32 {
        let default = || {
            let derived = &self.default_partitions.0;
            *derived.get_or_init(|| default_max_partitions(self))
        };
        self.settings.max_partitions.unwrap_or_else(default)
    }
}

fn check_servers(servers: &[ServerInfo]) -> Result<(), MapError> {
    if !(1..=MAX_SERVERS).contains(&servers.len()) {
        return Err(MapError::ServerCount(servers.len()));
    }
    let mut ids = HashSet::new();
    let mut addresses = HashSet::new();
    for server in servers {
        if !ids.insert(server.id) {
            return Err(MapError::DuplicateServer(server.id));
        }
        // Layouts of files count servers from 0.
        if usize::from(server.id.0) >= servers.len() {
            return Err(MapError::ServerId {
                server: server.id,
                servers: servers.len(),
            });
        }
        for address in &server.addresses {
            if !is_address(address) {
                return Err(MapError::Address {
                    server: server.id,
                    address: address.clone(),
                });
            }
            if !addresses.insert(address) {
                let address = address.clone();
                return Err(MapError::DuplicateAddress {
                    server: server.id,
                    address,
                });
            }
        }
    }
    Ok(())
}

fn is_address(address: &str) -> bool {
    if let Some(path) = address.strip_prefix("unix:") {
        return path.starts_with('/') && !path.contains('\0');
    }
    let host_and_port = address
        .strip_prefix("tcp:")
        .and_then(|rest| rest.rsplit_once(':'));
    host_and_port.is_some_and(|(host, port)| {
        !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
    })
}

fn check_shard_count(shards: usize) -> Result<(), MapError> {
    if shards.is_power_of_two() && shards <= usize::from(MAX_SHARDS) {
        Ok(())
    } else {
        Err(MapError::ShardCount(shards))
    }
}

impl Settings {
    /// Checks each setting against its limit, and the initial partitions against the largest number
    /// where that is set. (The default depends on the number of servers; a directory starts with
    /// the smaller of the two.)
    ///
    /// # Errors
    /// The first setting that is out of its range.
    pub fn validate(&self) -> Result<(), MapError> {
        if !self.file_policy.is_valid() {
            return Err(MapError::FilePolicy);
        }
        let partitions = MAX_PARTITIONS as u32;
        let largest = self.max_partitions.unwrap_or(partitions);
        within(
            "split_threshold",
            self.split_threshold,
            MIN_SPLIT_THRESHOLD,
            u32::MAX,
        )?;
        within("max_partitions", largest, 1, partitions)?;
        within("initial_partitions", self.initial_partitions, 1, largest)?;
        within(
            "stripe_unit",
            self.stripe_unit,
            MIN_STRIPE_UNIT_BYTES,
            u32::MAX,
        )?;
        within(
            "inline_bytes",
            self.inline_bytes,
            0,
            MAX_INLINE_BYTES as u32,
        )
    }
}

fn within(setting: &'static str, found: u32, least: u32, most: u32) -> Result<(), MapError> {
    if (least..=most).contains(&found) {
        return Ok(());
    }
    let allowed = format!("{least} to {most}");
    Err(MapError::Setting {
        setting,
        allowed,
        found: u64::from(found),
    })
}

mod grow;
#[cfg(test)]
pub(crate) mod tests;
