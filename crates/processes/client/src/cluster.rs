//! Cluster map in force, its servers, and the source of newer maps.

use crate::error::{ClientError, Result};
use crate::first_contact;
use crate::limits::{MAP_PATIENCE, SERVERS_ASKED_FOR_MAPS};
use crate::pool::Server;
use hashbrown::HashMap;
use pandofs_placement::ClusterMap;
use pandofs_types::{ServerId, ShardId};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// One version of the cluster map with the servers it names.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub map: Arc<ClusterMap>,
    servers: HashMap<ServerId, Arc<Server>>,
    /// The server that leads each shard.
    leaders: Vec<Arc<Server>>,
}

impl Cluster {
    /// Servers that were there keep their connections. So many idle connections keep their buffers.
    fn new(map: ClusterMap, before: Option<&Cluster>, buffered: usize) -> Result<Cluster> {
        let mut servers = HashMap::new();
        for info in &map.servers {
            let known = before.and_then(|before| before.servers.get(&info.id));
            let server = match known {
                Some(server) => Arc::clone(server),
                None => Arc::new(Server::new(info).map_err(ClientError::Protocol)?),
            };
            server.keep_buffers(buffered / map.servers.len());
            servers.insert(info.id, server);
        }
        let leader = |id: &ServerId| {
            servers.get(id).cloned().ok_or_else(|| {
                ClientError::Protocol(format!("server {id} leads shards and is not in the map"))
            })
        };
        let leaders = map.shards.iter().map(leader).collect::<Result<Vec<_>>>()?;
        Ok(Cluster {
            map: Arc::new(map),
            servers,
            leaders,
        })
    }

    /// The server that leads the shard; none if there is no such shard.
    pub(crate) fn leader(&self, shard: ShardId) -> Option<&Arc<Server>> {
        self.leaders.get(usize::from(shard.0))
    }

    /// The shards that the server leads.
    pub(crate) fn led_by(&self, id: ServerId) -> Vec<ShardId> {
        let shards = (0..self.map.shard_count()).map(ShardId);
        let is_led = |shard: &ShardId| self.leader(*shard).is_some_and(|leader| leader.id == id);
        shards.filter(is_led).collect()
    }

    pub(crate) fn server(&self, id: ServerId) -> Option<&Arc<Server>> {
        self.servers.get(&id)
    }

    pub(crate) fn servers(&self) -> impl Iterator<Item = &Arc<Server>> {
        self.servers.values()
    }
}

/// Where newer maps are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Nowhere,
    File(PathBuf),
    /// With the servers of the map in force.
    Servers,
}

/// The current [`Cluster`], replaced as a whole.
#[derive(Debug)]
pub(crate) struct Clusters {
    current: RwLock<Arc<Cluster>>,
    source: Source,
    /// Idle connections that keep their buffers.
    buffered: usize,
    replacing: Mutex<()>,
}

impl Clusters {
    pub(crate) fn new(map: ClusterMap, source: Source, buffered: usize) -> Result<Clusters> {
        let current = RwLock::new(Arc::new(Cluster::new(map, None, buffered)?));
        Ok(Clusters {
            current,
            source,
            buffered,
            replacing: Mutex::new(()),
        })
    }

    pub(crate) fn current(&self) -> Arc<Cluster> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Looks where the map came from, if it came from somewhere; true when there was a newer one.
    /// A file that cannot be read at the moment (it may just be replaced) is passed over, and so
    /// are servers that do not answer.
    pub(crate) fn reread(&self) -> bool {
        let map = match &self.source {
            Source::Nowhere => return false,
            Source::File(file) => read_map(file),
            Source::Servers => {
                let cluster = self.current();
                // Those that are known to be there first: the others may take all the time they are given.
                let (away, there): (Vec<_>, Vec<_>) =
                    cluster.servers().partition(|server| server.is_away());
                let asked = there.into_iter().chain(away).take(SERVERS_ASKED_FOR_MAPS);
                let addresses = asked.flat_map(|server| server.addresses());
                first_contact::map_of_any(addresses, MAP_PATIENCE)
            }
        };
        match map.and_then(|map| self.replace(map)) {
            Ok(newer) => newer,
            Err(error) => {
                tracing::warn!("{error}");
                false
            }
        }
    }

    /// Takes up a map if it is newer than the current one.
    ///
    /// # Errors
    /// `Protocol` when it is another file system's, or differs in more than servers that joined.
    pub(crate) fn replace(&self, map: ClusterMap) -> Result<bool> {
        let _one_at_a_time = self
            .replacing
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let before = self.current();
        let same = map.fs == before.map.fs && map.hash_key == before.map.hash_key;
        if same && map.epoch <= before.map.epoch {
            return Ok(false);
        }
        before
            .map
            .check_successor(&map)
            .map_err(|error| ClientError::Protocol(error.to_string()))?;
        tracing::info!("going by epoch {} of the cluster map", map.epoch);
        let after = Cluster::new(map, Some(&before), self.buffered)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(after);
        Ok(true)
    }
}

/// Reads a cluster map from its file.
///
/// # Errors
/// `Protocol`, with the path and what is wrong.
pub(crate) fn read_map(file: &Path) -> Result<ClusterMap> {
    let wrong = |error: &dyn std::fmt::Display| {
        ClientError::Protocol(format!("the cluster map {}: {error}", file.display()))
    };
    let text = fs::read_to_string(file).map_err(|error| wrong(&error))?;
    ClusterMap::from_json(&text).map_err(|error| wrong(&error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pandofs_placement::{DirPolicy, ServerInfo, Settings};
    use pandofs_types::{Epoch, FsId, HashKey};

    fn map(fs: u128) -> ClusterMap {
        let mut map = ClusterMap::create(
            FsId(fs),
            "grove".to_owned(),
            HashKey(1, 2),
            2,
            vec![server(0), server(1)],
            DirPolicy::default(),
            Settings::default(),
        )
        .unwrap();
        map.shards = [0, 1].map(ServerId).to_vec();
        map
    }

    fn server(id: u16) -> ServerInfo {
        ServerInfo {
            id: ServerId(id),
            addresses: vec![format!("unix:/run/pandofs/{id}")],
            weight: ServerInfo::WEIGHT_ONE,
            domain: format!("rack {id}"),
        }
    }

    /// As it is when one more server joined.
    fn next(map: &ClusterMap) -> ClusterMap {
        map.with_servers(vec![server(map.servers.len() as u16)])
            .unwrap()
    }

    #[test]
    fn a_newer_map_replaces_the_old_one_and_keeps_the_servers() {
        let first = map(7);
        let clusters = Clusters::new(first.clone(), Source::Nowhere, 8).unwrap();
        let before = clusters.current();
        assert!(before.leader(ShardId(2)).is_none());
        assert!(!clusters.replace(first.clone()).unwrap());
        assert!(clusters.replace(next(&first)).unwrap());
        assert!(!clusters.replace(first).unwrap());
        let after = clusters.current();
        assert_eq!(after.map.epoch, Epoch(2));
        assert_eq!(after.leader(ShardId(2)).unwrap().id, ServerId(2));
        for id in [0, 1].map(ServerId) {
            assert!(Arc::ptr_eq(
                before.server(id).unwrap(),
                after.server(id).unwrap()
            ));
        }
    }

    #[test]
    fn a_map_that_does_not_follow_is_refused() {
        let clusters = Clusters::new(map(7), Source::Nowhere, 8).unwrap();
        let refused = |map: ClusterMap, why| {
            let error = clusters.replace(map).unwrap_err();
            assert!(matches!(error, ClientError::Protocol(_)), "{error}");
            assert!(error.to_string().contains(why), "{error}");
        };
        refused(map(8), "another file system's");
        refused(next(&map(8)), "another file system's");
        let mut moved = next(&map(7));
        moved.shards[0] = ServerId(1);
        refused(moved, "a shard has gone or has another server");
        let mut elsewhere = next(&map(7));
        elsewhere.servers[0].addresses[0].push('x');
        refused(elsewhere, "has another address");
        let mut others = next(&map(7));
        others.settings.inline_bytes = 0;
        refused(others, "settings are others");
        let mut last = next(&map(7));
        last.epoch = Epoch(u64::MAX);
        refused(last, "more epochs ahead");
        assert_eq!(clusters.current().map.epoch, Epoch(1));
    }

    #[test]
    fn the_file_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cluster.json");
        let first = map(7);
        fs::write(&file, first.to_json()).unwrap();
        let clusters =
            Clusters::new(read_map(&file).unwrap(), Source::File(file.clone()), 8).unwrap();
        assert!(!clusters.reread());
        fs::write(&file, next(&next(&first)).to_json()).unwrap();
        assert!(clusters.reread());
        assert_eq!(clusters.current().map.epoch, Epoch(3));
        fs::write(&file, "half a").unwrap();
        assert!(!clusters.reread());
        let error = read_map(&file).unwrap_err().to_string();
        assert!(error.contains("cluster.json"), "{error}");
    }
}
