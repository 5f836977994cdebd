//! Real mounts of a file system whose answers the tests give, when and where they want.

#![allow(clippy::unwrap_used)]

use pandofs_fuse_kernel::mount::{Mount, unmount};
use pandofs_fuse_kernel::{
    Entry, Errno, FileAttr, FileHandle, FileType, Filesystem, Negotiation, Notifier, Operation,
    ROOT, Reply, Request, RequestId, Session, THREAD_NAMES, Threads, Timestamp, abi,
};
use rustix::mount::{MountFlags, UnmountFlags};
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
}

/// Mounts; `None` when tests that need FUSE are switched off.
fn mount(threads: Threads, together: usize) -> Option<Mounted> {
    if std::env::var_os("PANDOFS_NO_FUSE").is_some_and(|value| value == "1") {
        eprintln!("PANDOFS_NO_FUSE=1: not mounting anything");
        return None;
    }
    let at = tempfile::tempdir().unwrap();
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
    let session = Session::begin(asked, device, threads).unwrap();
    Some(Mounted {
        at,
        notifier: session.notifier(),
        session: Some(thread::spawn(move || session.run())),
        lookups: of_lookups,
        interrupts: of_interrupts,
        reads,
    })
}

const FEW: Threads = Threads {
    regular: 2,
    spare: 0,
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
    let Some(mounted) = mount(FEW, 1) else { return };
    assert_eq!(fs::read(mounted.path("file")).unwrap(), CONTENT);
    let at = mounted.at.path().to_owned();
    assert!(fs::metadata(&at).unwrap().is_dir());
    mounted.end();
    assert!(!at.exists(), "the scratch directory is gone with the mount");
}

#[test]
fn another_thread_answers_late() {
    let Some(mounted) = mount(FEW, 1) else { return };
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

#[test]
fn an_early_answer_is_the_only_one() {
    let Some(mounted) = mount(FEW, 1) else { return };
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

#[test]
fn a_reply_that_is_dropped_is_an_io_error() {
    let Some(mounted) = mount(FEW, 1) else { return };
    let looks = mounted.look_for("dropped");
    drop(mounted.asked("dropped"));
    assert_eq!(error_of(looks.join().unwrap()), Some(libc::EIO));
    mounted.end();
}

#[test]
fn who_is_killed_interrupts_its_request() {
    let Some(mounted) = mount(FEW, 1) else { return };
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

#[test]
fn what_is_invalidated_is_asked_for_again() {
    let Some(mounted) = mount(FEW, 1) else { return };
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
    let threads = Threads {
        regular: 4,
        spare: 0,
    };
    let Some(mounted) = mount(threads, 4) else {
        return;
    };
    read_together(&mounted, 4);
    assert_eq!(mounted.reads.state.lock().unwrap().1.len(), 4);
    mounted.end();
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
    let session = Session::begin(Shared(Arc::clone(&filesystem)), device, threads).unwrap();
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
