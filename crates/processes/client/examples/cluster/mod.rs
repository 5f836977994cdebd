// A cluster in this process, for the examples of the guide: two servers, whose stores and logs are in memory. They include
// this file, so that its header is no documentation.

use pandofs_storage::log::MemoryLog;
use pandofs_placement::{ClusterMap, DirPolicy, ServerInfo, Settings};
use pandofs_server::{Server, ServerHandle};
use pandofs_storage::store::MemoryStore;
use pandofs_types::{FsId, HashKey, ServerId};
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

/// It is gone when this is dropped.
pub struct Cluster {
    folder: tempfile::TempDir,
    _servers: Vec<ServerHandle>,
}

impl Cluster {
    /// Starts it.
    pub fn start() -> Result<Cluster, Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        let info = |id| ServerInfo {
            id: ServerId(id),
            addresses: vec![format!("unix:{}/server-{id}.sock", folder.path().display())],
            weight: ServerInfo::WEIGHT_ONE,
            domain: format!("host-{id}"),
        };
        let map = ClusterMap::create(
            FsId(7),
            "guide".to_owned(),
            HashKey(1, 2),
            4,
            vec![info(0), info(1)],
            DirPolicy::default(),
            Settings::default(),
        )?;
        std::fs::write(folder.path().join("cluster.json"), map.to_json())?;
        let mut servers = Vec::new();
        for id in [0, 1].map(ServerId) {
            let (store, log) = (Arc::new(MemoryStore::new()), Arc::new(MemoryLog::new()));
            Server::format_store(&map, id, &*store)?;
            let data = folder.path().join(format!("data-{id}"));
            std::fs::create_dir(&data)?;
            servers.push(Server::start_on(map.clone(), id, store, log, &data)?);
        }
        Ok(Cluster {
            folder,
            _servers: servers,
        })
    }

    /// The file of its map.
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("cluster.json")
    }

    /// The address of a server.
    pub fn address(&self) -> String {
        format!("unix:{}/server-0.sock", self.folder.path().display())
    }
}
