//! Clients of the library beside each other, on servers in this process whose requests are counted: they share nothing.

#![allow(clippy::unwrap_used, clippy::panic)]

use pandofs_client::{Client, Options};
use pandofs_placement::{ClusterMap, DirPolicy, ServerInfo, Settings};
use pandofs_server::{Server, ServerHandle};
use pandofs_storage::log::MemoryLog;
use pandofs_storage::store::MemoryStore;
use pandofs_types::{Credentials, FsId, HashKey, ServerId};
use pandofs_workload::{Kind, Library, Op, Target};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

const SERVERS: u16 = 3;
const SHARDS: u16 = 8;
const PATIENCE: Duration = Duration::from_secs(30);
/// Directories above the file that is asked for.
const DEPTH: u64 = 10;

struct Cluster {
    folder: tempfile::TempDir,
    /// Of the client that counts.
    counting: Client,
    _servers: Vec<ServerHandle>,
}

impl Cluster {
    fn start(policy: DirPolicy) -> Cluster {
        let folder = tempfile::tempdir().unwrap();
        let info = |id| ServerInfo {
            id: ServerId(id),
            addresses: vec![format!("unix:{}/server-{id}.sock", folder.path().display())],
            weight: ServerInfo::WEIGHT_ONE,
            domain: format!("host-{id}"),
        };
        let servers = (0..SERVERS).map(info).collect();
        let map = ClusterMap::create(
            FsId(7),
            "clients".to_owned(),
            HashKey(1, 2),
            SHARDS,
            servers,
            policy,
            Settings::default(),
        )
        .unwrap();
        std::fs::write(folder.path().join("cluster.json"), map.to_json()).unwrap();
        let start = |id: u16| {
            let (store, log) = (Arc::new(MemoryStore::new()), Arc::new(MemoryLog::new()));
            let id = ServerId(id);
            Server::format_store(&map, id, &*store).unwrap();
            let data = folder.path().join(format!("data-{id}"));
            std::fs::create_dir(&data).unwrap();
            Server::start_on(map.clone(), id, store, log, &data).unwrap()
        };
        let servers = (0..SERVERS).map(start).collect();
        let counting = Client::connect(map.clone(), Options::default()).unwrap();
        Cluster {
            folder,
            counting,
            _servers: servers,
        }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("cluster.json")
    }

    fn client(&self) -> Library {
        Library::open(&self.file(), Credentials::user(0, 0, Vec::new()), "/").unwrap()
    }

    /// Of all clients, at all servers, so far.
    fn requests(&self) -> u64 {
        let statuses = self.counting.status().into_iter();
        statuses.map(|(_, status)| status.unwrap().requests).sum()
    }

    /// The requests of this work.
    fn counted(&self, work: impl FnOnce()) -> u64 {
        let before = self.requests();
        work();
        self.requests() - before
    }
}

/// The path of a directory at this depth.
fn deep(depth: u64) -> String {
    let names: Vec<String> = (0..depth).map(|level| format!("d{level}")).collect();
    names.join("/")
}

fn perform(client: &mut Library, op: Op) {
    client.perform(&op).unwrap();
}

/// Makes the directories and a file in the deepest.
fn make_deep(client: &mut Library) -> String {
    for depth in 1..=DEPTH {
        perform(client, Op::new(Kind::Mkdir, deep(depth)));
    }
    let file = format!("{}/file", deep(DEPTH));
    perform(client, Op::new(Kind::Create, &file));
    file
}

/// The requests of a stat by a client that knows nothing, and of one when it has leases of all names on the way, for several
/// clients one after the other. Servers give leases from when a client listens to them, which it begins as it starts.
fn stats(policy: DirPolicy) -> Vec<(u64, u64)> {
    let cluster = Cluster::start(policy);
    let mut first = cluster.client();
    let file = make_deep(&mut first);
    let stat = || Op::new(Kind::Stat, &file);
    let mut clients: Vec<Library> = (0..5).map(|_| cluster.client()).collect();
    let of = |client: &mut Library| {
        let cold = cluster.counted(|| perform(client, stat()));
        let deadline = Instant::now() + PATIENCE;
        let mut warm = cold;
        while warm > 1 && Instant::now() < deadline {
            warm = cluster.counted(|| perform(client, stat()));
        }
        (cold, warm)
    };
    clients.iter_mut().map(of).collect()
}

#[test]
fn each_cold_client_walks_all_of_a_path_whatever_others_have_asked() {
    assert_eq!(stats(DirPolicy::Random), [(DEPTH + 1, 1); 5]);
}

#[test]
fn each_cold_client_asks_by_path_where_directories_are_placed_so() {
    assert_eq!(stats(DirPolicy::CrushPath), [(1, 1); 5]);
}

#[test]
fn clients_beside_one_another_cost_what_they_cost_one_after_the_other() {
    let cluster = Cluster::start(DirPolicy::Random);
    let file = make_deep(&mut cluster.client());
    let mut clients: Vec<Library> = (0..8).map(|_| cluster.client()).collect();
    let requests = cluster.counted(|| {
        std::thread::scope(|scope| {
            for client in &mut clients {
                scope.spawn(|| perform(client, Op::new(Kind::Stat, &file)));
            }
        });
    });
    assert_eq!(requests, 8 * (DEPTH + 1));
}

#[test]
fn what_one_client_moves_another_one_does_not_find_where_it_was() {
    let cluster = Cluster::start(DirPolicy::Random);
    let (mut one, mut other) = (cluster.client(), cluster.client());
    let file = make_deep(&mut one);
    perform(&mut other, Op::new(Kind::Stat, &file));
    // Another directory has the name, with another file in it.
    perform(&mut one, Op::with_two(Kind::Renamedir, deep(1), "moved"));
    for depth in 1..=DEPTH {
        perform(&mut one, Op::new(Kind::Mkdir, deep(depth)));
    }
    let error = other.perform(&Op::new(Kind::Stat, &file)).unwrap_err();
    assert_eq!(error.errno(), Some(2), "{error}");
    perform(
        &mut other,
        Op::new(Kind::Create, format!("{}/new", deep(DEPTH))),
    );
    let moved = |name: &str| format!("moved/{}/{name}", &deep(DEPTH)["d0/".len()..]);
    perform(&mut one, Op::new(Kind::Stat, moved("file")));
    let error = one.perform(&Op::new(Kind::Stat, moved("new"))).unwrap_err();
    assert_eq!(error.errno(), Some(2), "{error}");
}
