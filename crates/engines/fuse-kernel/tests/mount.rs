//! Real mounts of a file system whose answers the tests give, when and where they want.

#![allow(clippy::unwrap_used)]

mod enabled;

use enabled::Enabled;
use pandofs_fuse_kernel::mount::{Mount, unmount};
use pandofs_fuse_kernel::{
    Entry, Errno, FileAttr, FileHandle, FileType, Filesystem, Negotiation, Notifier, Operation,
    ROOT, Reply, Request, RequestId, Session, THREAD_NAMES, Threads, Timestamp, Transport,
    UseIoUring, abi,
};
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// So long that a test that waits for it has failed.
const PATIENCE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(5);
/// The kernel does not ask again within a test.
const LONG: Duration = Duration::from_secs(3_600);
const FILE: u64 = 2;
const CONTENT: &[u8] = b"content";

/// Has one file, `file`. Other names are for the test: each lookup is sent to it, and it answers.
struct Asked {
    lookups: Mutex<Sender<(String, Reply)>>,
    interrupts: Mutex<Sender<RequestId>>,
    reads: Arc<Reads>,
}

/// Reads of the file: each waits for so many at once.
#[derive(Default)]
struct Reads {
    together: usize,
    state: Mutex<(usize, HashSet<ThreadId>)>,
    all_there: Condvar,
}

impl Reads {
    fn wait_for_others(&self) {
        let mut state = self.state.lock().unwrap();
        state.0 += 1;
        state.1.insert(thread::current().id());
        self.all_there.notify_all();
        let (state, waited) = self
            .all_there
            .wait_timeout_while(state, PATIENCE, |state| state.0 < self.together)
            .unwrap();
        assert!(
            !waited.timed_out(),
            "{} reads of {}",
            state.0,
            self.together
        );
    }
}

fn attr(ino: u64) -> FileAttr {
    let is_root = ino == ROOT;
    let time = Timestamp::default();
    FileAttr {
        ino,
        size: if is_root { 0 } else { CONTENT.len() as u64 },
        blocks: 0,
        atime: time,
        mtime: time,
        ctime: time,
        btime: time,
        kind: if is_root {
            FileType::Directory
        } else {
            FileType::RegularFile
        },
        perm: if is_root { 0o755 } else { 0o644 },
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4_096,
    }
}

fn entry(ino: u64) -> Entry {
    Entry {
        attr: attr(ino),
        attr_timeout: LONG,
        entry_timeout: LONG,
    }
}

/// Lookups in one directory go on side by side.
fn want_parallel(kernel: &mut Negotiation) {
    assert!(kernel.want(abi::init::PARALLEL_DIROPS));
}

impl Filesystem for Asked {
    fn init(&mut self, kernel: &mut Negotiation) {
        want_parallel(kernel);
    }

    fn handle(&self, request: Request<'_>, reply: Reply) {
        match request.operation {
            Operation::Lookup { name } if name == "file" => reply.entry(&entry(FILE)),
            Operation::Lookup { name } => {
                let name = name.to_str().unwrap().to_owned();
                self.lookups.lock().unwrap().send((name, reply)).unwrap();
            }
            Operation::Getattr => reply.attr(&attr(request.header.node), LONG),
            Operation::Open(_) => reply.opened(FileHandle(7), abi::open::DIRECT_IO),
            Operation::Read(read) => {
                assert_eq!(read.handle, FileHandle(7));
                self.reads.wait_for_others();
                let start = (read.offset as usize).min(CONTENT.len());
                reply.data(&CONTENT[start..]);
            }
            Operation::Flush { .. } | Operation::Release { .. } => reply.ok(),
            Operation::Interrupt(request) => self.interrupts.lock().unwrap().send(request).unwrap(),
            _ => reply.error(Errno::ENOSYS),
        }
    }
}

struct Mounted {
    at: TempDir,
    notifier: Notifier,
    session: Option<JoinHandle<io::Result<()>>>,
    lookups: Receiver<(String, Reply)>,
    interrupts: Receiver<RequestId>,
    reads: Arc<Reads>,
    transport: Transport,
    /// Until it is unmounted.
    _enabled: Option<Enabled>,
}

/// A mount for each way by which requests come; none when tests that need FUSE are switched off.
fn mounts(threads: Threads, together: usize) -> Vec<Mounted> {
    if std::env::var_os("PANDOFS_NO_FUSE").is_some_and(|value| value == "1") {
        eprintln!("PANDOFS_NO_FUSE=1: not mounting anything");
        return Vec::new();
    }
    let by_device = mount(threads, together, None);
    let over_io_uring = Enabled::take().map(|enabled| mount(threads, together, Some(enabled)));
    [Some(by_device), over_io_uring]
        .into_iter()
        .flatten()
        .collect()
}

/// Mounts, over io_uring if that was enabled.
fn mount(threads: Threads, together: usize, enabled: Option<Enabled>) -> Mounted {
    let (use_it, expected) = match enabled {
        Some(_) => (UseIoUring::Wanted, Transport::IoUring),
        None => (UseIoUring::No, Transport::Device),
    };
    let at = tempfile::tempdir().unwrap();
    let mut mounted = mount_at(at, threads, together, use_it);
    assert_eq!(mounted.transport, expected);
    mounted._enabled = enabled;
    mounted
}

fn mount_at(at: TempDir, threads: Threads, together: usize, io_uring: UseIoUring) -> Mounted {
    let mount = Mount {
        source: "asked".to_owned(),
        subtype: "asked".to_owned(),
        flags: MountFlags::NOSUID | MountFlags::NODEV,
        helper_options: Vec::new(),
        allow_other: false,
        default_permissions: false,
        data: Vec::new(),
    };
    let device = mount.at(at.path()).unwrap();
    let (lookups, of_lookups) = channel();
    let (interrupts, of_interrupts) = channel();
    let reads = Arc::new(Reads {
        together,
        ..Reads::default()
    });
    let asked = Asked {
        lookups: Mutex::new(lookups),
        interrupts: Mutex::new(interrupts),
        reads: Arc::clone(&reads),
    };
    let session = Session::begin(asked, device, threads, io_uring).unwrap();
    Mounted {
        at,
        transport: session.transport(),
        notifier: session.notifier(),
        session: Some(thread::spawn(move || session.run())),
        lookups: of_lookups,
        interrupts: of_interrupts,
        reads,
        _enabled: None,
    }
}

const FEW: Threads = Threads {
    regular: 2,
    spare: 200,
};

impl Mounted {
    fn path(&self, name: &str) -> PathBuf {
        self.at.path().join(name)
    }

    /// Has another thread look for a name that the test is asked about.
    fn look_for(&self, name: &str) -> JoinHandle<io::Result<u64>> {
        let path = self.path(name);
        thread::spawn(move || fs::metadata(path).map(|found| found.len()))
    }

    /// The next lookup that this is asked for, which has to be of this name.
    fn asked(&self, name: &str) -> Reply {
        let (asked, reply) = self.lookups.recv_timeout(PATIENCE).unwrap();
        assert_eq!(asked, name);
        reply
    }

    /// Unmounts, and waits for the end of the session.
    fn end(mut self) {
        unmount_when_free(self.at.path());
        self.session.take().unwrap().join().unwrap().unwrap();
    }
}

/// A close may still be under way, and children that other tests start have this process's files
/// open until they execute their programs.
fn unmount_when_free(path: &Path) {
    let begun = Instant::now();
    while let Err(error) = unmount(path, UnmountFlags::empty()) {
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
        assert!(begun.elapsed() < PATIENCE, "it stays in use");
        thread::sleep(PAUSE);
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.session.is_some() {
            let _ = unmount(self.at.path(), UnmountFlags::DETACH);
        }
    }
}

fn error_of(result: io::Result<u64>) -> Option<i32> {
    result.unwrap_err().raw_os_error()
}

#[test]
fn unmounting_ends_the_session() {
    for mounted in mounts(FEW, 1) {
        assert_eq!(fs::read(mounted.path("file")).unwrap(), CONTENT);
        let at = mounted.at.path().to_owned();
        assert!(fs::metadata(&at).unwrap().is_dir());
        mounted.end();
        assert!(!at.exists(), "the scratch directory is gone with the mount");
    }
}

#[test]
fn another_thread_answers_late() {
    for mounted in mounts(FEW, 1) {
        let looks = mounted.look_for("late");
        let reply = mounted.asked("late");
        // Meanwhile others are answered.
        assert_eq!(fs::read(mounted.path("file")).unwrap(), CONTENT);
        assert!(!looks.is_finished());
        thread::spawn(move || reply.entry(&entry(FILE)))
            .join()
            .unwrap();
        assert_eq!(looks.join().unwrap().unwrap(), CONTENT.len() as u64);
        mounted.end();
    }
}

#[test]
fn an_early_answer_is_the_only_one() {
    for mounted in mounts(FEW, 1) {
        let looks = mounted.look_for("early");
        let reply = mounted.asked("early");
        let pending = reply.pending();
        assert!(pending.answer_early(Errno::EINTR, || true));
        assert_eq!(error_of(looks.join().unwrap()), Some(libc::EINTR));
        assert!(pending.is_answered_early());
        reply.entry(&entry(FILE));
        // The kernel has kept nothing of it.
        let looks = mounted.look_for("early");
        mounted.asked("early").error(Errno::ENOENT);
        assert_eq!(error_of(looks.join().unwrap()), Some(libc::ENOENT));
        mounted.end();
    }
}

#[test]
fn a_reply_that_is_dropped_is_an_io_error() {
    for mounted in mounts(FEW, 1) {
        let looks = mounted.look_for("dropped");
        drop(mounted.asked("dropped"));
        assert_eq!(error_of(looks.join().unwrap()), Some(libc::EIO));
        mounted.end();
    }
}

#[test]
fn who_is_killed_interrupts_its_request() {
    for mounted in mounts(FEW, 1) {
        let mut child = Command::new("stat")
            .arg(mounted.path("waited-for"))
            .spawn()
            .unwrap();
        let reply = mounted.asked("waited-for");
        child.kill().unwrap();
        let interrupted = mounted.interrupts.recv_timeout(PATIENCE).unwrap();
        assert_eq!(interrupted, reply.pending().request());
        assert_eq!(child.try_wait().unwrap(), None, "it waits for its answer");
        reply.error(Errno::EINTR);
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
        mounted.end();
    }
}

#[test]
fn what_is_invalidated_is_asked_for_again() {
    for mounted in mounts(FEW, 1) {
        let found = |name: &str| {
            let looks = mounted.look_for(name);
            mounted.asked(name).entry(&entry(FILE));
            looks.join().unwrap().unwrap();
        };
        found("name");
        // Out of the kernel's memory: nobody answers.
        fs::metadata(mounted.path("name")).unwrap();
        mounted.notifier.inval_entry(ROOT, "name".as_ref()).unwrap();
        found("name");
        mounted
            .notifier
            .expire_entry(ROOT, "name".as_ref())
            .unwrap();
        found("name");
        fs::metadata(mounted.path("name")).unwrap();
        mounted.notifier.inval_inode(FILE, -1, 0).unwrap();
        fs::metadata(mounted.path("name")).unwrap();
        // The kernel knows neither.
        mounted.notifier.inval_inode(99, 0, 0).unwrap();
        mounted
            .notifier
            .inval_entry(ROOT, "missing".as_ref())
            .unwrap();
        mounted.end();
    }
}

/// Has so many programs' reads meet in the file system.
fn read_together(mounted: &Mounted, count: usize) {
    let file = Arc::new(File::open(mounted.path("file")).unwrap());
    let readers = (0..count).map(|_| {
        let file = Arc::clone(&file);
        thread::spawn(move || {
            let mut bytes = [0; 64];
            file.read_at(&mut bytes, 0)
                .map(|read| bytes[..read].to_vec())
        })
    });
    let readers: Vec<_> = readers.collect();
    for reader in readers {
        assert_eq!(reader.join().unwrap().unwrap(), CONTENT);
    }
}

#[test]
fn several_threads_take_requests() {
    // As many for each processor: all may ask on the same.
    let threads = Threads {
        regular: 4 * thread::available_parallelism().unwrap().get(),
        spare: 200,
    };
    for mounted in mounts(threads, 4) {
        read_together(&mounted, 4);
        assert_eq!(mounted.reads.state.lock().unwrap().1.len(), 4);
        mounted.end();
    }
}

#[test]
fn what_comes_in_turn_is_handled_by_few_threads() {
    const THREADS: usize = 16;
    let threads = Threads {
        regular: THREADS,
        spare: 0,
    };
    for mounted in mounts(threads, 1) {
        let file = File::open(mounted.path("file")).unwrap();
        for _ in 0..50 * THREADS {
            assert_eq!(file.read_at(&mut [0; 64], 0).unwrap(), CONTENT.len());
        }
        drop(file);
        // One, unless the machine has so much else to do that it is held up.
        let used = mounted.reads.state.lock().unwrap().1.len();
        assert!(used <= THREADS / 2, "{used} threads");
        mounted.end();
    }
}

/// Answers lookups when all have been asked, and says that they wait for long.
struct AllAtOnce {
    together: usize,
    waiting: Mutex<usize>,
    all_there: Condvar,
    names: Mutex<Vec<String>>,
}

impl AllAtOnce {
    fn handle(&self, request: Request<'_>, reply: Reply) {
        match request.operation {
            Operation::Lookup { .. } => {
                reply.pending().waits_long();
                let name = thread::current().name().unwrap().to_owned();
                self.names.lock().unwrap().push(name);
                let mut waiting = self.waiting.lock().unwrap();
                *waiting += 1;
                self.all_there.notify_all();
                let (waiting, waited) = self
                    .all_there
                    .wait_timeout_while(waiting, PATIENCE, |waiting| *waiting < self.together)
                    .unwrap();
                assert!(!waited.timed_out(), "{waiting} of {}", self.together);
                reply.error(Errno::ENOENT);
            }
            Operation::Getattr => reply.attr(&attr(request.header.node), LONG),
            _ => reply.error(Errno::ENOSYS),
        }
    }
}

struct Shared(Arc<AllAtOnce>);

impl Filesystem for Shared {
    fn init(&mut self, kernel: &mut Negotiation) {
        want_parallel(kernel);
    }

    fn handle(&self, request: Request<'_>, reply: Reply) {
        self.0.handle(request, reply);
    }
}

#[test]
fn spare_threads_take_requests_while_others_wait_for_long() {
    if std::env::var_os("PANDOFS_NO_FUSE").is_some_and(|value| value == "1") {
        return;
    }
    const TOGETHER: usize = 4;
    let filesystem = Arc::new(AllAtOnce {
        together: TOGETHER,
        waiting: Mutex::new(0),
        all_there: Condvar::new(),
        names: Mutex::default(),
    });
    let at = tempfile::tempdir().unwrap();
    let mount = Mount {
        source: "waits".to_owned(),
        subtype: "waits".to_owned(),
        flags: MountFlags::empty(),
        helper_options: Vec::new(),
        allow_other: false,
        default_permissions: false,
        data: Vec::new(),
    };
    let threads = Threads {
        regular: 1,
        spare: TOGETHER - 1,
    };
    let device = mount.at(at.path()).unwrap();
    let session = Session::begin(
        Shared(Arc::clone(&filesystem)),
        device,
        threads,
        UseIoUring::No,
    );
    let session = session.unwrap();
    let session = thread::spawn(move || session.run());
    let looks = (0..TOGETHER).map(|number| {
        let path = at.path().join(number.to_string());
        thread::spawn(move || fs::metadata(path).map(|found| found.len()))
    });
    let looks: Vec<_> = looks.collect();
    for look in looks {
        assert_eq!(error_of(look.join().unwrap()), Some(libc::ENOENT));
    }
    unmount_when_free(at.path());
    session.join().unwrap().unwrap();
    let names = filesystem.names.lock().unwrap();
    let spare = names
        .iter()
        .filter(|name| **name == format!("{THREAD_NAMES}-spare"));
    assert_eq!(spare.count(), TOGETHER - 1, "{names:?}");
}

/// Has another thread, on the first processor of this process, look for a name.
fn look_for_on_one_processor(mounted: &Mounted, name: &str) -> JoinHandle<io::Result<u64>> {
    let path = mounted.path(name);
    thread::spawn(move || {
        let allowed = rustix::thread::sched_getaffinity(None).unwrap();
        let mut only = CpuSet::new();
        only.set((0..CpuSet::MAX_CPU).find(|&at| allowed.is_set(at)).unwrap());
        sched_setaffinity(None, &only).unwrap();
        fs::metadata(path).map(|found| found.len())
    })
}

#[test]
fn requests_that_wait_leave_room_for_others_of_the_same_processor() {
    /// More than there are threads for one.
    const WAITING: usize = 20;
    for mounted in mounts(FEW, 1) {
        // A regular file that the kernel knows, as there is where something is locked.
        fs::metadata(mounted.path("file")).unwrap();
        // The second time there are threads already.
        for _ in 0..2 {
            let names = (0..WAITING).map(|number| number.to_string());
            let looks: Vec<_> = names
                .map(|name| look_for_on_one_processor(&mounted, &name))
                .collect();
            let receive = |_| mounted.lookups.recv_timeout(PATIENCE).unwrap().1;
            let waiting: Vec<Reply> = (0..WAITING).map(receive).collect();
            // The request that they wait for.
            let look = look_for_on_one_processor(&mounted, "awaited");
            mounted.asked("awaited").error(Errno::ENOENT);
            assert_eq!(error_of(look.join().unwrap()), Some(libc::ENOENT));
            assert!(looks.iter().all(|look| !look.is_finished()));
            // One is let go before its time.
            assert!(waiting[3].pending().answer_early(Errno::ENOENT, || true));
            for reply in waiting {
                reply.error(Errno::ENOENT);
            }
            for look in looks {
                assert_eq!(error_of(look.join().unwrap()), Some(libc::ENOENT));
            }
        }
        mounted.end();
    }
}

#[test]
fn a_session_ends_though_requests_wait() {
    for mut mounted in mounts(FEW, 1) {
        let looks = mounted.look_for("never");
        let reply = mounted.asked("never");
        // The kernel's number of the file system.
        let root = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let path = mounted.at.path().to_str().unwrap();
        let line = root
            .lines()
            .find(|line| line.split(' ').nth(4) == Some(path))
            .unwrap();
        let number = line.split(' ').nth(2).unwrap().split_once(':').unwrap().1;
        let abort = format!("/sys/fs/fuse/connections/{number}/abort");
        if let Err(error) = fs::write(&abort, "1") {
            eprintln!("{abort}: {error}: not aborting a mount");
            reply.error(Errno::ENOENT);
            assert_eq!(error_of(looks.join().unwrap()), Some(libc::ENOENT));
            mounted.end();
            continue;
        }
        assert_eq!(error_of(looks.join().unwrap()), Some(libc::ECONNABORTED));
        mounted.session.take().unwrap().join().unwrap().unwrap();
        unmount(mounted.at.path(), UnmountFlags::DETACH).unwrap();
        reply.error(Errno::ENOENT);
    }
}

#[test]
fn without_the_kernels_offer_requests_come_by_the_device() {
    if std::env::var_os("PANDOFS_NO_FUSE").is_some_and(|value| value == "1") {
        return;
    }
    // Too few threads for the processors: as if it had not been offered.
    let at = tempfile::tempdir().unwrap();
    let mounted = mount_at(
        at,
        Threads {
            regular: 1,
            spare: 0,
        },
        1,
        UseIoUring::Wanted,
    );
    assert_eq!(mounted.transport, Transport::Device);
    assert_eq!(fs::read(mounted.path("file")).unwrap(), CONTENT);
    mounted.end();
}
