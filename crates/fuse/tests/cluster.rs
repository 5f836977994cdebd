//! PandoFS itself, mounted: four servers in this process, whose stores and logs are in memory, a client
//! and the kernel.

#![allow(clippy::unwrap_used)]

use pandofs_client::Client;
use pandofs_fuse::{Mounted, Options, mount};
use pandofs_log::MemoryLog;
use pandofs_placement::{ClusterMap, DirPolicy, ServerInfo, Settings};
use pandofs_server::{Server, ServerHandle};
use pandofs_store::MemoryStore;
use pandofs_testkit::op::callers;
use pandofs_testkit::{Config, Traits, check};
use pandofs_types::{FsId, HashKey, ServerId};
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

const SERVERS: u16 = 4;

struct Cluster {
    dir: TempDir,
    map: ClusterMap,
    _servers: Vec<ServerHandle>,
}

impl Cluster {
    fn start(settings: Settings) -> Cluster {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let info = |id| ServerInfo {
            id: ServerId(id),
            addresses: vec![format!("unix:{}/server-{id}.sock", dir.path().display())],
            weight: ServerInfo::WEIGHT_ONE,
            domain: format!("host-{id}"),
        };
        let servers = (0..SERVERS).map(info).collect();
        let policy = DirPolicy::default();
        let (fs, key) = (FsId(7), HashKey(1, 2));
        let map =
            ClusterMap::create(fs, "test".to_owned(), key, 16, servers, policy, settings).unwrap();
        let start = |id| {
            let (store, log) = (Arc::new(MemoryStore::new()), Arc::new(MemoryLog::new()));
            Server::format_store(&map, id, &*store).unwrap();
            let data = dir.path().join(format!("data-{id}"));
            fs::create_dir(&data).unwrap();
            Server::start_on(map.clone(), id, store, log, &data).unwrap()
        };
        let servers = (0..SERVERS).map(|id| start(ServerId(id))).collect();
        Cluster {
            dir,
            map,
            _servers: servers,
        }
    }

    fn client(&self) -> Client {
        Client::connect(self.map.clone(), pandofs_client::Options::default()).unwrap()
    }

    fn mount(&self, client: Client, options: Options) -> Mounted {
        let at = tempfile::tempdir_in(self.dir.path()).unwrap().keep();
        let options = Options {
            fs_name: "pandofs-test".to_owned(),
            ..options
        };
        mount(client, &at, options).unwrap()
    }
}

/// Whether tests that need FUSE are switched off.
fn no_fuse() -> bool {
    if std::env::var_os("PANDOFS_NO_FUSE").is_some_and(|value| value == "1") {
        eprintln!("PANDOFS_NO_FUSE=1: not mounting anything");
        return true;
    }
    assert!(
        Path::new("/dev/fuse").exists(),
        "there is no /dev/fuse: load the kernel's module (modprobe fuse), give the container the \
         device, or set PANDOFS_NO_FUSE=1 to go without the tests of the mount"
    );
    false
}

#[test]
fn a_mount_does_what_the_model_says() {
    if no_fuse() {
        return;
    }
    let cluster = Cluster::start(Settings {
        split_threshold: 8,
        ..Settings::default()
    });
    let mounted = cluster.mount(cluster.client(), Options::default());
    let traits = Traits {
        callers: callers().len(),
        dir_size_is_entries: true,
        protected_hardlinks: true,
        clock_slack: Duration::from_millis(500),
        max_file_size: pandofs_types::limits::MAX_FILE_BYTES,
        times_only_advance: true,
        inos_are_reused: false,
    };
    let place = mounted.mountpoint().to_owned();
    fs::set_permissions(&place, PermissionsExt::from_mode(0o777)).unwrap();
    check(Config::from_environment(5_000), || {
        pandofs_testkit::mount::Mounted::new(&place, traits.clone())
    });
    mounted.unmount().unwrap();
    mounted.join().unwrap();
}

fn small_partitions() -> Settings {
    Settings {
        split_threshold: 8,
        ..Settings::default()
    }
}

/// Time-outs that do not pass during a test.
fn patient() -> Options {
    let long = Duration::from_secs(3_600);
    Options {
        entry_timeout: long,
        attr_timeout: long,
        negative_timeout: long,
        ..Options::default()
    }
}

/// Were the directory's attributes gathered for every creation, as the kernel asks for, this would
/// take some ten times as many requests.
#[test]
fn a_creation_asks_servers_twice_and_a_removal_once() {
    if no_fuse() {
        return;
    }
    const FILES: u64 = 200;
    let cluster = Cluster::start(small_partitions());
    let client = cluster.client();
    let mounted = cluster.mount(client.clone(), patient());
    let dir = mounted.mountpoint().join("dir");
    fs::create_dir(&dir).unwrap();
    // Some partitions, and their map.
    for number in 0..100 {
        File::create_new(dir.join(format!("early-{number}"))).unwrap();
    }

    let sent = || {
        let counters = client.counters();
        counters.requests - counters.redirects - counters.busy
    };
    let before = sent();
    for number in 0..FILES {
        File::create_new(dir.join(format!("{number}"))).unwrap();
    }
    let made = sent() - before;
    // Besides: closes, several in a message, and attributes asked for during a split.
    assert!(
        (2 * FILES..2 * FILES + 100).contains(&made),
        "{made} requests for {FILES} files"
    );
    let metadata = fs::metadata(&dir).unwrap();
    assert_eq!(metadata.len(), 100 + FILES);

    let before = sent();
    for number in 0..FILES {
        fs::remove_file(dir.join(format!("{number}"))).unwrap();
    }
    let removed = sent() - before;
    assert!(
        (FILES..FILES + 100).contains(&removed),
        "{removed} requests for {FILES} removals"
    );
    assert_eq!(fs::metadata(&dir).unwrap().len(), 100);
    mounted.unmount().unwrap();
    mounted.join().unwrap();
}

#[test]
fn every_entry_of_a_split_directory_is_listed_once() {
    if no_fuse() {
        return;
    }
    let cluster = Cluster::start(small_partitions());
    let mounted = cluster.mount(cluster.client(), patient());
    let dir = mounted.mountpoint().join("dir");
    fs::create_dir(&dir).unwrap();
    let mut wanted: Vec<String> = (0..3_000).map(|number| format!("file-{number}")).collect();
    for name in &wanted {
        File::create_new(dir.join(name)).unwrap();
    }
    let list = || -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(&dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    wanted.sort();
    assert_eq!(list(), wanted);
    // With attributes this time: the kernel asks for them once a program looked at some.
    let sizes: u64 = fs::read_dir(&dir)
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum();
    assert_eq!(sizes, 0);
    assert_eq!(list(), wanted);
    mounted.unmount().unwrap();
    mounted.join().unwrap();
}

/// The kernel of the first mount believes in the names' absence, for as long as it may.
#[test]
fn what_another_mount_made_is_found_when_it_is_to_be_made_again() {
    if no_fuse() {
        return;
    }
    let cluster = Cluster::start(Settings::default());
    let first = cluster.mount(cluster.client(), patient());
    let second = cluster.mount(cluster.client(), patient());
    let (here, there) = (first.mountpoint(), second.mountpoint());
    for name in ["file", "link", "target", "dir"] {
        assert_eq!(
            fs::metadata(here.join(name)).unwrap_err().kind(),
            ErrorKind::NotFound
        );
    }
    fs::write(there.join("file"), "from there").unwrap();
    fs::write(there.join("target"), "to follow").unwrap();
    symlink("target", there.join("link")).unwrap();
    fs::create_dir(there.join("dir")).unwrap();

    let error = File::create_new(here.join("file")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    let error = fs::create_dir(here.join("dir")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);

    let mut text = String::new();
    let mut open = File::options();
    open.read(true).write(true).create(true);
    open.open(here.join("file"))
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(text, "from there");
    text.clear();
    open.open(here.join("link"))
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(text, "to follow");
    File::create(here.join("file")).unwrap();
    assert_eq!(fs::metadata(here.join("file")).unwrap().len(), 0);
    for mounted in [first, second] {
        mounted.unmount().unwrap();
        mounted.join().unwrap();
    }
}
