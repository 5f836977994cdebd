//! A mount of PandoFS itself, with four servers in this process and the kernel.
//!
//! Their stores and logs are in memory.

#![allow(clippy::unwrap_used)]

use pandofs_client::Client;
use pandofs_fuse::{Atime, Cache, KernelFlags, Mounted, Options, mount};
use pandofs_placement::{ClusterMap, DirPolicy, ServerInfo, Settings};
use pandofs_server::{Server, ServerHandle};
use pandofs_storage::log::MemoryLog;
use pandofs_storage::store::MemoryStore;
use pandofs_testkit::op::callers;
use pandofs_testkit::{Config, Traits, check};
use pandofs_types::{FsId, HashKey, ServerId};
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
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

/// Returns whether tests that need FUSE are switched off.
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
        allocates: true,
        makes_unnamed: true,
        makes_whiteouts: true,
        refused_whiteouts_touch: false,
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
        cache: Cache::Timeouts,
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

    // Closes that servers hear of only now are none of the removals'.
    let opens = || -> u64 {
        let status = client
            .status()
            .into_iter()
            .map(|(_, status)| status.unwrap());
        status
            .flat_map(|status| status.shards)
            .map(|shard| shard.opens)
            .sum()
    };
    let begun = Instant::now();
    while opens() > 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "it stays open");
        std::thread::sleep(Duration::from_millis(10));
    }
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

/// Requests for reading 1,000 small files, until another mount sees their times of access, or those
/// that they had if `atime` keeps them.
fn cost_of_reading(atime: Atime) -> u64 {
    const FILES: u64 = 1_000;
    let cluster = Cluster::start(Settings::default());
    let caching_nothing = Options {
        cache: Cache::Timeouts,
        attr_timeout: Duration::ZERO,
        ..patient()
    };
    let writer = cluster.mount(cluster.client(), caching_nothing);
    for number in 0..FILES {
        fs::write(writer.mountpoint().join(format!("{number}")), b"small").unwrap();
    }
    let client = cluster.client();
    let kernel = KernelFlags {
        atime,
        ..KernelFlags::default()
    };
    let options = Options {
        kernel,
        ..patient()
    };
    let mounted = cluster.mount(client.clone(), options);
    let start = SystemTime::now();
    for number in 0..FILES {
        let read = fs::read(mounted.mountpoint().join(format!("{number}"))).unwrap();
        assert_eq!(read, b"small");
    }
    let accessed = || {
        let accessed = |number: &u64| {
            let path = writer.mountpoint().join(format!("{number}"));
            fs::metadata(path).unwrap().accessed().unwrap() >= start
        };
        (0..FILES).filter(accessed).count() as u64
    };
    let deadline = Instant::now() + Duration::from_secs(30);
    if atime == Atime::Kept {
        assert_eq!(accessed(), 0);
    } else {
        while accessed() < FILES {
            assert!(Instant::now() < deadline, "{} times", accessed());
        }
    }
    let counters = client.counters();
    for mounted in [mounted, writer] {
        mounted.unmount().unwrap();
        mounted.join().unwrap();
    }
    counters.requests - counters.redirects - counters.busy
}

#[test]
fn a_time_of_access_costs_no_request_of_its_own() {
    if no_fuse() {
        return;
    }
    let kept = cost_of_reading(Atime::Kept);
    let changed = cost_of_reading(Atime::default());
    eprintln!("{kept} requests without times of access, {changed} with");
    // One for each shard and second.
    assert!(changed < kept + 50, "{changed} instead of {kept}");
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

/// The kernel of the first mount caches the names' absence, for as long as it may.
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

/// Two mounts that append to one file, each believing that it ends where it left it.
#[test]
fn what_two_mounts_append_is_all_there() {
    if no_fuse() {
        return;
    }
    const LINES: usize = 400;
    let cluster = Cluster::start(Settings::default());
    let mounts = [(); 2].map(|()| cluster.mount(cluster.client(), patient()));
    let path = |mount: usize| mounts[mount].mountpoint().join("log");
    // Of lengths that take it out of its inode on the way, and over stripe units.
    let line = |mount: usize, number: usize| {
        let mut line = format!("{mount} {number} ").into_bytes();
        line.resize(line.len() + 7 * number, b'x');
        line.push(b'\n');
        line
    };
    std::thread::scope(|scope| {
        for mount in 0..2 {
            let (path, line) = (&path, &line);
            scope.spawn(move || {
                let mut options = File::options();
                options.append(true).create(true);
                let mut log = options.open(path(mount)).unwrap();
                for number in 0..LINES {
                    log.write_all(&line(mount, number)).unwrap();
                }
            });
        }
    });
    let wanted: usize = (0..2)
        .flat_map(|mount| (0..LINES).map(move |number| (mount, number)))
        .map(|(mount, number)| line(mount, number).len())
        .sum();
    for mount in 0..2 {
        let content = fs::read(path(mount)).unwrap();
        assert_eq!(content.len(), wanted);
        let mut next = [0; 2];
        for found in content.split_inclusive(|&byte| byte == b'\n') {
            let of = usize::from(found[0] - b'0');
            assert_eq!(found, line(of, next[of]));
            next[of] += 1;
        }
        assert_eq!(next, [LINES; 2]);
    }
    for mounted in mounts {
        mounted.unmount().unwrap();
        mounted.join().unwrap();
    }
}

/// A file opened to append is read, mapped and asked for its size like any other.
#[test]
fn a_file_that_is_appended_to_is_read_by_every_way() {
    if no_fuse() {
        return;
    }
    let cluster = Cluster::start(Settings::default());
    let mounted = cluster.mount(cluster.client(), patient());
    let other = cluster.mount(cluster.client(), Options::default());
    // Kept inline, and striped.
    for size in [10_000_u64, 30_000] {
        let name = format!("log-{size}");
        let path = mounted.mountpoint().join(&name);
        fs::write(&path, vec![b'a'; size as usize]).unwrap();
        let mut reader = File::open(&path).unwrap();
        let mut seen = Vec::new();
        reader.read_to_end(&mut seen).unwrap();

        let mut options = File::options();
        let mut log = options.read(true).append(true).open(&path).unwrap();
        log.write_all(&[b'b'; 10]).unwrap();
        assert_eq!(log.stream_position().unwrap(), size + 10);
        assert_eq!(log.metadata().unwrap().len(), size + 10);
        fs::OpenOptions::new()
            .append(true)
            .open(other.mountpoint().join(&name))
            .unwrap()
            .write_all(&[b'c'; 10])
            .unwrap();
        log.write_all(&[b'd'; 10]).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), size + 30);
        // The bytes after those that were read, as `tail -f` reads them.
        seen.clear();
        reader.read_to_end(&mut seen).unwrap();
        assert_eq!(seen, b"bbbbbbbbbbccccccccccdddddddddd");

        // SAFETY: a new mapping of 8,192 bytes of a file that is longer; it is read before it is unmapped.
        let mapped = unsafe {
            let map = libc::mmap(
                std::ptr::null_mut(),
                8_192,
                libc::PROT_READ,
                libc::MAP_SHARED,
                log.as_raw_fd(),
                0,
            );
            assert_ne!(map, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
            let bytes = std::slice::from_raw_parts(map.cast::<u8>(), 8_192).to_vec();
            libc::munmap(map, 8_192);
            bytes
        };
        assert_eq!(mapped, vec![b'a'; 8_192]);
        drop((log, reader));
    }
    for mounted in [mounted, other] {
        mounted.unmount().unwrap();
        mounted.join().unwrap();
    }
}

/// A file with holes as `du` and `cp --sparse` see it.
#[test]
fn holes_are_found_and_not_counted() {
    if no_fuse() {
        return;
    }
    const MIB: u64 = 1 << 20;
    let cluster = Cluster::start(Settings::default());
    let mounted = cluster.mount(cluster.client(), Options::default());
    let path = mounted.mountpoint().join("sparse");
    let file = File::create_new(&path).unwrap();
    let blocks = || fs::metadata(&path).unwrap().blocks();
    file.write_all_at(&[1; 65_536], 10 * MIB).unwrap();
    assert!((128..1_024).contains(&blocks()), "{} blocks", blocks());
    file.set_len(1 << 40).unwrap();
    assert!(blocks() < 1_024, "{} blocks", blocks());
    let find = |from| rustix::fs::seek(&file, from).map(|found| found / MIB);
    use rustix::fs::SeekFrom::{Data, Hole};
    assert_eq!(find(Data(0)), Ok(10));
    assert_eq!(find(Hole(5)), Ok(0));
    assert_eq!(find(Data(11 * MIB)), Err(rustix::io::Errno::NXIO));
    assert_eq!(find(Hole((1 << 40) - 1)), Ok((MIB) - 1));
    assert_eq!(find(Hole(1 << 40)), Err(rustix::io::Errno::NXIO));

    use rustix::fs::{FallocateFlags, fallocate};
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(&file, punch, 10 * MIB, MIB).unwrap();
    assert_eq!(find(Data(0)), Err(rustix::io::Errno::NXIO));
    assert!(blocks() < 128, "{} blocks", blocks());
    file.set_len(0).unwrap();
    assert_eq!(blocks(), 0);
    fallocate(&file, FallocateFlags::KEEP_SIZE, 0, 3 * MIB).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 0);
    assert!(blocks() >= 3 * MIB / 512, "{} blocks", blocks());
    // Space reserved beyond the end goes when the file is truncated to where it ends.
    file.set_len(0).unwrap();
    assert_eq!(blocks(), 0);
    fallocate(&file, FallocateFlags::empty(), 0, 3 * MIB + 5).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 3 * MIB + 5);
    assert_eq!(fs::read(&path).unwrap(), vec![0; 3 * MIB as usize + 5]);
    drop(file);
    mounted.unmount().unwrap();
    mounted.join().unwrap();
}
