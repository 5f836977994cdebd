//! The client library against the model: four servers in this process, whose stores and logs are in
//! memory, and two clients over sockets, with directories on all shards that split all the time.

use pandofs_client::{Client, Options};
use pandofs_placement::{ClusterMap, DirPolicy, ServerInfo, Settings};
use pandofs_server::{Server, ServerHandle};
use pandofs_storage::log::MemoryLog;
use pandofs_storage::store::MemoryStore;
use pandofs_testkit::client::Clients;
use pandofs_testkit::inodes::{Paths, pandofs_traits};
use pandofs_testkit::{Config, Traits, check};
use pandofs_types::{FsId, HashKey, ServerId};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const SERVERS: u16 = 4;
const SHARDS: u16 = 16;

fn map(dir: &Path, policy: DirPolicy) -> ClusterMap {
    let info = |id| ServerInfo {
        id: ServerId(id),
        addresses: vec![format!("unix:{}/server-{id}.sock", dir.display())],
        weight: ServerInfo::WEIGHT_ONE,
        domain: format!("host-{id}"),
    };
    let settings = Settings {
        split_threshold: 4,
        max_partitions: Some(16),
        stripe_unit: 4_096,
        ..Settings::default()
    };
    let servers = (0..SERVERS).map(info).collect();
    let (fs, key) = (FsId(7), HashKey(1, 2));
    ClusterMap::create(
        fs,
        "test".to_owned(),
        key,
        SHARDS,
        servers,
        policy,
        settings,
    )
    .unwrap()
}

fn start(dir: &Path, map: &ClusterMap, id: ServerId) -> ServerHandle {
    let (store, log) = (Arc::new(MemoryStore::new()), Arc::new(MemoryLog::new()));
    Server::format_store(map, id, &*store).unwrap();
    let data = dir.join(format!("data-{id}"));
    std::fs::create_dir(&data).unwrap();
    Server::start_on(map.clone(), id, store, log, &data).unwrap()
}

#[test]
fn the_client_library_does_what_the_model_says() {
    does_what_the_model_says(DirPolicy::Random, 5_000);
}

#[test]
fn so_it_does_where_directories_are_placed_by_their_paths() {
    does_what_the_model_says(DirPolicy::CrushPath, 2_000);
}

fn does_what_the_model_says(policy: DirPolicy, operations: usize) {
    let dir = tempfile::tempdir().unwrap();
    let map = map(dir.path(), policy);
    let servers: Vec<ServerHandle> = (0..SERVERS)
        .map(|id| start(dir.path(), &map, ServerId(id)))
        .collect();
    let traits = Traits {
        // Servers read the clock once for each batch.
        clock_slack: Duration::from_millis(500),
        ..pandofs_traits()
    };
    let mut trees = 0;
    check(Config::from_environment(operations), || {
        trees += 1;
        let clients = (0..2).map(|_| Client::connect(map.clone(), Options::default()).unwrap());
        Paths::new(
            Clients::new(clients.collect()),
            &format!("tree-{trees}"),
            traits.clone(),
        )
    });
    drop(servers);
}
