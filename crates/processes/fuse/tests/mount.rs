//! A real mount, of the in-memory file system: the session works, and unmounting does.

#![allow(clippy::unwrap_used)]

#[path = "../examples/memfs/filesystem.rs"]
mod memfs;

use memfs::MemFs;
use pandofs_fuse::{MountError, Mounted, Options, serve};
use pandofs_fuse_kernel::{Filesystem, Negotiation, Operation, Reply, Request};
use rustix::fs::{AtFlags, Timespec, Timestamps, utimensat};
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Held for writing while a child is being started. Until it executes its program it has all files
/// open that are open in this process, and a mount with an open file is busy: a file of one test,
/// opened and closed while another test forks, would keep the first from unmounting.
static STARTING: RwLock<()> = RwLock::new(());

/// For as long as a test has files open in a mount that it unmounts.
fn no_child_starts() -> RwLockReadGuard<'static, ()> {
    STARTING.read().unwrap_or_else(PoisonError::into_inner)
}

fn start(command: &mut Command) -> Child {
    let _starting = STARTING.write().unwrap_or_else(PoisonError::into_inner);
    command.spawn().unwrap()
}

/// A scratch directory to mount on; `None` when tests that need FUSE are switched off.
fn mountpoint() -> Option<TempDir> {
    if std::env::var_os("PANDOFS_NO_FUSE").is_some_and(|value| value == "1") {
        eprintln!("PANDOFS_NO_FUSE=1: not mounting anything");
        return None;
    }
    assert!(
        Path::new("/dev/fuse").exists(),
        "there is no /dev/fuse: load the kernel's module (modprobe fuse), give the container the \
         device, or set PANDOFS_NO_FUSE=1 to go without the tests of the mount"
    );
    Some(tempfile::tempdir().unwrap())
}

fn mount(at: &TempDir) -> Mounted {
    let options = Options {
        fs_name: "memfs-test".to_owned(),
        ..Options::default()
    };
    serve(MemFs::new(), at.path(), &options).unwrap()
}

#[test]
fn a_thousand_files_are_made_listed_and_removed() {
    let Some(at) = mountpoint() else { return };
    let _quiet = no_child_starts();
    let mounted = mount(&at);
    let dir = at.path().join("shared");
    fs::create_dir(&dir).unwrap();

    thread::scope(|scope| {
        for worker in 0..4 {
            let dir = &dir;
            scope.spawn(move || {
                for number in 0..250 {
                    File::create_new(dir.join(format!("{worker}.{number}"))).unwrap();
                }
            });
        }
    });
    let wanted: HashSet<String> = (0..4)
        .flat_map(|worker| (0..250).map(move |number| format!("{worker}.{number}")))
        .collect();
    let listed: Vec<String> = fs::read_dir(&dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(listed.len(), 1_000);
    assert_eq!(listed.into_iter().collect::<HashSet<_>>(), wanted);
    assert!(File::create_new(dir.join("0.0")).is_err());

    for name in &wanted {
        assert!(fs::metadata(dir.join(name)).unwrap().is_file());
        fs::remove_file(dir.join(name)).unwrap();
    }
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
    fs::remove_dir(&dir).unwrap();
    mounted.unmount().unwrap();
    mounted.join().unwrap();
    assert_eq!(fs::read_dir(at.path()).unwrap().count(), 0);
}

#[test]
fn what_is_written_is_read() {
    let Some(at) = mountpoint() else { return };
    let _quiet = no_child_starts();
    let mounted = mount(&at);
    let path = at.path().join("file");
    // Larger than one request.
    let data: Vec<u8> = (0..3_000_000u32).map(|i| (i % 251) as u8).collect();
    let mut file = File::create(&path).unwrap();
    file.write_all(&data).unwrap();
    file.seek(SeekFrom::Start(10)).unwrap();
    file.write_all(b"pando").unwrap();
    drop(file);
    let mut read = Vec::new();
    File::open(&path).unwrap().read_to_end(&mut read).unwrap();
    assert_eq!(read.len(), data.len());
    assert_eq!(&read[10..15], b"pando");
    assert_eq!(&read[15..], &data[15..]);
    assert_eq!(fs::metadata(&path).unwrap().len(), 3_000_000);
    mounted.unmount().unwrap();
    mounted.join().unwrap();
}

#[test]
fn a_mount_in_use_stays_and_can_be_detached() {
    let Some(at) = mountpoint() else { return };
    let _quiet = no_child_starts();
    let mounted = mount(&at);
    let mut file = File::create(at.path().join("open")).unwrap();
    assert!(matches!(mounted.unmount(), Err(MountError::Busy(_))));
    assert!(!mounted.is_over());
    mounted.detach().unwrap();
    assert_eq!(
        fs::read_dir(at.path()).unwrap().count(),
        0,
        "it is out of the tree"
    );
    file.write_all(b"still served").unwrap();
    drop(file);
    mounted.join().unwrap();
}

#[test]
fn what_is_unmounted_by_another_is_over() {
    let Some(at) = mountpoint() else { return };
    let mounted = mount(&at);
    let done = start(Command::new("fusermount3").arg("-u").arg(at.path()))
        .wait()
        .unwrap();
    assert!(done.success());
    mounted.join().unwrap();
}

/// The end of a session must not unmount what came to its mount point after it.
#[test]
fn a_mount_point_can_be_used_again_at_once() {
    let Some(at) = mountpoint() else { return };
    let _quiet = no_child_starts();
    let mut ending = Vec::new();
    for round in 0..20 {
        let mounted = mount(&at);
        assert_eq!(fs::read_dir(at.path()).unwrap().count(), 0);
        File::create(at.path().join(format!("{round}"))).unwrap();
        mounted.unmount().unwrap();
        // Not joined before the next is mounted.
        ending.push(mounted);
    }
    let last = mount(&at);
    for mounted in ending {
        mounted.join().unwrap();
    }
    File::create(at.path().join("last")).unwrap();
    assert!(!last.is_over());
    last.unmount().unwrap();
    last.join().unwrap();
}

#[test]
fn a_dropped_mount_is_unmounted() {
    let Some(at) = mountpoint() else { return };
    let mounted = mount(&at);
    File::create(at.path().join("inside")).unwrap();
    drop(mounted);
    assert_eq!(fs::read_dir(at.path()).unwrap().count(), 0);
}

#[test]
fn a_mount_point_that_is_none_is_refused() {
    let Some(at) = mountpoint() else { return };
    let options = Options::default();
    let missing = at.path().join("missing");
    let refusal = serve(MemFs::new(), &missing, &options).unwrap_err();
    assert!(matches!(refusal, MountError::NoMountpoint(path) if path == missing));
    let file = at.path().join("file");
    File::create(&file).unwrap();
    let refusal = serve(MemFs::new(), &file, &options).unwrap_err();
    assert!(matches!(refusal, MountError::NotADirectory(path) if path == file));
}

#[test]
fn times_before_1970_are_kept() {
    let Some(at) = mountpoint() else { return };
    let _quiet = no_child_starts();
    let mounted = mount(&at);
    let path = at.path().join("old");
    File::create(&path).unwrap();
    let time = Timespec {
        tv_sec: -2,
        tv_nsec: 500_000_000,
    };
    let times = Timestamps {
        last_access: time,
        last_modification: time,
    };
    utimensat(rustix::fs::CWD, &path, &times, AtFlags::empty()).unwrap();
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!((metadata.mtime(), metadata.mtime_nsec()), (-2, 500_000_000));
    mounted.unmount().unwrap();
    mounted.join().unwrap();
}

/// Panics when it is asked for anything but its root.
struct Faulty(MemFs);

impl Filesystem for Faulty {
    fn init(&mut self, kernel: &mut Negotiation) {
        self.0.init(kernel);
    }

    fn handle(&self, request: Request<'_>, reply: Reply) {
        if let Operation::Lookup { name } = request.operation {
            panic!("asked for {name:?}");
        }
        self.0.handle(request, reply);
    }
}

const FAULTY_MOUNTPOINT: &str = "PANDOFS_TEST_FAULTY_MOUNTPOINT";

/// Runs itself again as a process of its own, which mounts, panics and dies.
#[test]
fn a_panic_ends_the_process_and_the_dead_mount_can_be_replaced() {
    if let Some(at) = std::env::var_os(FAULTY_MOUNTPOINT) {
        let faulty = Faulty(MemFs::new());
        let mounted = serve(faulty, Path::new(&at), &Options::default()).unwrap();
        mounted.join().unwrap();
        panic!("it was unmounted, and nothing had panicked");
    }
    let Some(at) = mountpoint() else { return };
    let mut child = start(
        Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "a_panic_ends_the_process_and_the_dead_mount_can_be_replaced",
            ])
            .env(FAULTY_MOUNTPOINT, at.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null()),
    );
    let path = at.path().to_str().unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while !fs::read_to_string("/proc/self/mounts")
        .unwrap()
        .contains(path)
    {
        assert!(Instant::now() < deadline, "it was never mounted");
        assert!(
            child.try_wait().unwrap().is_none(),
            "it died before it was asked anything"
        );
        thread::yield_now();
    }
    assert!(fs::metadata(at.path().join("x")).is_err());
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGABRT));

    let _quiet = no_child_starts();
    let mounted = mount(&at);
    File::create(at.path().join("x")).unwrap();
    mounted.unmount().unwrap();
    mounted.join().unwrap();
}
