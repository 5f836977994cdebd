//! The cluster map in force, the servers in it, and where a newer map comes from.

use crate::error::{ClientError, Result};
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
    /// Servers that stay the same keep their connections. So many connections keep their buffers though nobody uses them.
    fn new(map: ClusterMap, before: Option<&Cluster>, buffered: usize) -> Result<Cluster> {
        let mut servers = HashMap::new();
        for info in &map.servers {
            let known = before.and_then(|before| before.servers.get(&info.id));
            let server = match known.filter(|server| server.is_still(info)) {
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
    pub fn leader(&self, shard: ShardId) -> Option<&Arc<Server>> {
        self.leaders.get(usize::from(shard.0))
    }

    /// The shards that the server leads.
    pub fn led_by(&self, id: ServerId) -> Vec<ShardId> {
        let shards = (0..self.map.shard_count()).map(ShardId);
        let is_led = |shard: &ShardId| self.leader(*shard).is_some_and(|leader| leader.id == id);
        shards.filter(is_led).collect()
    }

    pub fn server(&self, id: ServerId) -> Option<&Arc<Server>> {
        self.servers.get(&id)
    }

    pub fn servers(&self) -> impl Iterator<Item = &Arc<Server>> {
        self.servers.values()
    }
}

/// The current [`Cluster`], replaced as a whole.
#[derive(Debug)]
pub(crate) struct Clusters {
    current: RwLock<Arc<Cluster>>,
    file: Option<PathBuf>,
    /// Connections that keep their buffers though nobody uses them.
    buffered: usize,
    replacing: Mutex<()>,
}

impl Clusters {
    pub fn new(map: ClusterMap, file: Option<PathBuf>, buffered: usize) -> Result<Clusters> {
        let current = RwLock::new(Arc::new(Cluster::new(map, None, buffered)?));
        Ok(Clusters {
            current,
            file,
            buffered,
            replacing: Mutex::new(()),
        })
    }

    pub fn current(&self) -> Arc<Cluster> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the cluster file again, if there is one; true when it held a newer map. A file that
    /// cannot be read at the moment (it may just be replaced) is passed over.
    pub fn reread(&self) -> bool {
        let Some(file) = &self.file else {
            return false;
        };
        match read_map(file).and_then(|map| self.replace(map)) {
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
    /// `Protocol` when it is another file system's.
    pub fn replace(&self, map: ClusterMap) -> Result<bool> {
        let _one_at_a_time = self
            .replacing
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let before = self.current();
        let same = map.fs == before.map.fs && map.hash_key == before.map.hash_key;
        if !same {
            return Err(ClientError::Protocol(format!(
                "a cluster map of the file system {} was found where one of {} was expected",
                map.fs, before.map.fs
            )));
        }
        if map.epoch <= before.map.epoch {
            return Ok(false);
        }
        // Servers that join bring shards; none ever goes.
        if map.shards.len() < before.map.shards.len() {
            return Err(ClientError::Protocol(format!(
                "epoch {} of the cluster map has fewer shards than epoch {}",
                map.epoch, before.map.epoch
            )));
        }
        tracing::info!("going by epoch {} of the cluster map", map.epoch);
        let after = Cluster::new(map, Some(&before), self.buffered)?;
        let moved: Vec<Arc<Server>> = after
            .leaders
            .iter()
            .zip(&before.leaders)
            .filter(|(new, old)| new.id != old.id)
            .map(|(new, _)| Arc::clone(new))
            .collect();
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(after);
        // A server that took over a shard does not know what the session has open there.
        for server in moved {
            server.forget_registration();
        }
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

    fn map(fs: u128, epoch: u64, leaders: [u16; 2]) -> ClusterMap {
        let server = |id: u16| ServerInfo {
            id: ServerId(id),
            addresses: vec![format!("unix:/run/pandofs/{id}")],
            weight: ServerInfo::WEIGHT_ONE,
            domain: format!("rack {id}"),
        };
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
        map.epoch = Epoch(epoch);
        map.shards = leaders.map(ServerId).to_vec();
        map
    }

    #[test]
    fn a_newer_map_replaces_the_old_one_and_keeps_the_servers() {
        let clusters = Clusters::new(map(7, 3, [0, 1]), None, 8).unwrap();
        let before = clusters.current();
        for server in before.servers() {
            *server.registered.lock().unwrap() = Some(99);
        }
        assert!(!clusters.replace(map(7, 3, [1, 1])).unwrap());
        assert!(clusters.replace(map(7, 4, [1, 1])).unwrap());
        let after = clusters.current();
        assert_eq!(after.map.epoch, Epoch(4));
        assert_eq!(after.leader(ShardId(0)).unwrap().id, ServerId(1));
        assert!(after.leader(ShardId(2)).is_none());
        for id in [0, 1].map(ServerId) {
            assert!(Arc::ptr_eq(
                before.server(id).unwrap(),
                after.server(id).unwrap()
            ));
        }
        // Server 1 took over shard 0.
        assert_eq!(
            *after
                .server(ServerId(0))
                .unwrap()
                .registered
                .lock()
                .unwrap(),
            Some(99)
        );
        assert_eq!(
            *after
                .server(ServerId(1))
                .unwrap()
                .registered
                .lock()
                .unwrap(),
            None
        );
    }

    #[test]
    fn servers_and_shards_may_join_and_no_shard_goes() {
        let clusters = Clusters::new(map(7, 3, [0, 1]), None, 8).unwrap();
        let joins = ServerInfo {
            id: ServerId(2),
            addresses: vec!["unix:/run/pandofs/2".to_owned()],
            weight: ServerInfo::WEIGHT_ONE,
            domain: "rack 2".to_owned(),
        };
        let next = map(7, 3, [0, 1]).with_servers(vec![joins]).unwrap();
        assert!(clusters.replace(next).unwrap());
        let after = clusters.current();
        assert_eq!(after.leader(ShardId(2)).unwrap().id, ServerId(2));
        let error = clusters.replace(map(7, 9, [0, 1])).unwrap_err();
        assert!(error.to_string().contains("fewer shards"), "{error}");
    }

    #[test]
    fn another_file_systems_map_is_refused() {
        let clusters = Clusters::new(map(7, 3, [0, 1]), None, 8).unwrap();
        let error = clusters.replace(map(8, 4, [0, 1])).unwrap_err();
        assert!(matches!(error, ClientError::Protocol(_)), "{error}");
        assert_eq!(clusters.current().map.epoch, Epoch(3));
    }

    #[test]
    fn the_file_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cluster.json");
        fs::write(&file, map(7, 3, [0, 1]).to_json()).unwrap();
        let clusters = Clusters::new(read_map(&file).unwrap(), Some(file.clone()), 8).unwrap();
        assert!(!clusters.reread());
        fs::write(&file, map(7, 5, [0, 1]).to_json()).unwrap();
        assert!(clusters.reread());
        assert_eq!(clusters.current().map.epoch, Epoch(5));
        fs::write(&file, "half a").unwrap();
        assert!(!clusters.reread());
        let error = read_map(&file).unwrap_err().to_string();
        assert!(error.contains("cluster.json"), "{error}");
    }
}
