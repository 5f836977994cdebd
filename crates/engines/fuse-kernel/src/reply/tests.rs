use super::*;
use crate::attr::{FileType, Timestamp};
use crate::notify;
use crate::ring::RingEntry;
use pandofs_formats::check;
use std::cell::Cell;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/answers.txt");
const RULE: &str = "Answers and messages as the kernel takes them (include/uapi/linux/fuse.h), on a little-endian machine.\n\
    It never changes them: a difference is a mistake here.";

struct NoHost;

impl Host for NoHost {
    fn give_turn_away(&self, _: &Way) {}

    fn begin_wait(self: Arc<Self>, _: &Way) {}

    fn send_early(self: Arc<Self>, _: &Slot, _: RingEntry) {}
}

/// A request of this number of operation, and where its answer comes out.
fn request(code: u32) -> (Reply, UnixDatagram) {
    let (kernel, own) = UnixDatagram::pair().unwrap();
    kernel.set_nonblocking(true).unwrap();
    let header = Header {
        opcode: code,
        unique: RequestId(0xdead_beef),
        node: 1,
        uid: 0,
        gid: 0,
        pid: 0,
    };
    let way = Way::Device(Seat::of(Arc::new(Device::new(OwnedFd::from(own))), false));
    (Reply::new(&header, way, Weak::<NoHost>::new()), kernel)
}

/// The next answer, if there is one.
fn answer(kernel: &UnixDatagram) -> Option<Vec<u8>> {
    let mut bytes = vec![0; 4_096];
    let size = kernel.recv(&mut bytes).ok()?;
    bytes.truncate(size);
    Some(bytes)
}

fn error_of(kernel: &UnixDatagram) -> Option<i32> {
    let bytes = answer(kernel)?;
    Some(i32::from_ne_bytes(bytes[4..8].try_into().unwrap()))
}

fn attr() -> FileAttr {
    let time = |seconds, nanos| Timestamp { seconds, nanos };
    FileAttr {
        ino: 0x11,
        size: 0x22,
        blocks: 0x33,
        atime: time(0x1234, 0x5678),
        mtime: time(-2, 800_000_000),
        ctime: time(0x1235, 0x5679),
        btime: time(0x1236, 0x567a),
        kind: FileType::RegularFile,
        perm: 0o644,
        nlink: 0x55,
        uid: 0x66,
        gid: 0x77,
        // Major 0x103, minor 0x45678.
        rdev: 0x4561_0378,
        blksize: 0xbb,
    }
}

#[test]
fn answers_are_as_the_kernel_takes_them() {
    let entry = Entry {
        attr: attr(),
        attr_timeout: Duration::new(0x8765, 0x4321),
        entry_timeout: Duration::new(0x9876, 0x5432),
    };
    let timeout = Duration::new(7, 9);
    let mut listing = Listing::within(4_096);
    assert!(listing.add(0xaabb, 1, FileType::Directory, OsStr::new("hello")));
    assert!(listing.add(0xccdd, 2, FileType::RegularFile, OsStr::new("world.rs")));
    let mut plus = Listing::within(4_096);
    assert!(plus.add_plus(&entry, 3, OsStr::new("hello")));
    let space = Statfs {
        blocks: 1,
        free: 2,
        available: 3,
        inodes: 4,
        free_inodes: 5,
        block: 4_096,
        max_name_bytes: 255,
    };
    let handle = FileHandle(0x1122);
    type Give<'a> = Box<dyn FnOnce(Reply) + 'a>;
    let answers: Vec<(&str, Give)> = vec![
        ("ok", Box::new(|reply| reply.ok())),
        ("error", Box::new(|reply| reply.error(Errno::ENOENT))),
        ("data", Box::new(|reply| reply.data(b"bytes"))),
        ("entry", Box::new(|reply| reply.entry(&entry))),
        (
            "created",
            Box::new(|reply| reply.created(&entry, handle, 1)),
        ),
        ("opened", Box::new(|reply| reply.opened(handle, 0x20))),
        ("attr", Box::new(|reply| reply.attr(&attr(), timeout))),
        ("statx", Box::new(|reply| reply.statx(&attr(), timeout))),
        ("listing", Box::new(|reply| reply.listing(&listing))),
        ("listing plus", Box::new(|reply| reply.listing(&plus))),
        ("written", Box::new(|reply| reply.written(0x1122))),
        ("statfs", Box::new(|reply| reply.statfs(&space))),
        ("xattr size", Box::new(|reply| reply.xattr_size(0x1234))),
        (
            "lock",
            Box::new(|reply| reply.lock((3, 9), libc::F_WRLCK, 77)),
        ),
        ("offset", Box::new(|reply| reply.offset(1 << 40))),
        ("ioctl", Box::new(|reply| reply.ioctl(b"abc"))),
    ];
    check(GOLDEN, RULE, |golden| {
        for (name, give) in answers {
            let (reply, kernel) = request(opcode::GETATTR);
            give(reply);
            let bytes = answer(&kernel).unwrap();
            assert_eq!(bytes[..4], (bytes.len() as u32).to_ne_bytes(), "{name}");
            assert_eq!(answer(&kernel), None, "{name}");
            golden.bytes(name, &bytes);
        }
        for (name, bytes) in notify::samples::all() {
            golden.bytes(name, &bytes);
        }
    });
}

#[test]
fn a_reply_that_is_dropped_is_an_error() {
    let (reply, kernel) = request(opcode::LOOKUP);
    drop(reply);
    assert_eq!(error_of(&kernel), Some(-libc::EIO));
    assert_eq!(error_of(&kernel), None);
    let (reply, kernel) = request(opcode::LOOKUP);
    reply.ok();
    assert_eq!(error_of(&kernel), Some(0));
    assert_eq!(error_of(&kernel), None);
}

#[test]
fn what_wants_no_answer_gets_none() {
    for code in [opcode::FORGET, opcode::BATCH_FORGET] {
        let (reply, kernel) = request(code);
        reply.error(Errno::ENOSYS);
        assert_eq!(error_of(&kernel), None);
        let (reply, kernel) = request(code);
        assert!(!reply.pending().answer_early(Errno::EINTR, || true));
        drop(reply);
        assert_eq!(error_of(&kernel), None);
    }
    let (reply, kernel) = request(opcode::INTERRUPT);
    reply.ok();
    assert_eq!(error_of(&kernel), None);
    let (reply, kernel) = request(opcode::INTERRUPT);
    drop(reply);
    assert_eq!(error_of(&kernel), None);
    let (reply, kernel) = request(opcode::INTERRUPT);
    reply.error(Errno::ENOSYS);
    assert_eq!(error_of(&kernel), Some(-libc::ENOSYS));
}

#[test]
fn what_is_answered_early_is_answered_once() {
    let (reply, kernel) = request(opcode::UNLINK);
    let pending = reply.pending();
    assert!(!pending.answer_early(Errno::EINTR, || false));
    assert!(!pending.is_answered_early());
    assert_eq!(error_of(&kernel), None);
    assert!(pending.answer_early(Errno::EINTR, || true));
    assert!(pending.is_answered_early());
    assert_eq!(error_of(&kernel), Some(-libc::EINTR));
    let is_asked = Cell::new(false);
    assert!(!pending.answer_early(Errno::EINTR, || {
        is_asked.set(true);
        true
    }));
    assert!(!is_asked.get(), "it is answered");
    reply.ok();
    assert_eq!(error_of(&kernel), None);
    assert!(pending.is_answered_early());
}

#[test]
fn what_is_answered_is_not_answered_early() {
    let (reply, kernel) = request(opcode::UNLINK);
    let pending = reply.pending();
    std::thread::spawn(move || reply.ok()).join().unwrap();
    assert_eq!(error_of(&kernel), Some(0));
    assert!(!pending.answer_early(Errno::EINTR, || true));
    assert!(!pending.is_answered_early());
    assert_eq!(error_of(&kernel), None);
}

/// Counts turns that are given away, and the waits that begin.
#[derive(Default)]
struct Counting {
    turns: AtomicUsize,
    waits: AtomicUsize,
}

impl Host for Counting {
    fn give_turn_away(&self, _: &Way) {
        self.turns.fetch_add(1, SeqCst);
    }

    fn begin_wait(self: Arc<Self>, _: &Way) {
        self.waits.fetch_add(1, SeqCst);
    }

    fn send_early(self: Arc<Self>, _: &Slot, _: RingEntry) {}
}

#[test]
fn a_wait_begins_and_ends_once() {
    let host = Arc::new(Counting::default());
    let (_, own) = UnixDatagram::pair().unwrap();
    let way = Way::Device(Seat::of(Arc::new(Device::new(OwnedFd::from(own))), false));
    let header = Header {
        opcode: opcode::FORGET,
        unique: RequestId(1),
        node: 1,
        uid: 0,
        gid: 0,
        pid: 0,
    };
    let weak = Arc::downgrade(&host);
    let pending = || Reply::new(&header, way.clone(), weak.clone()).pending();
    let counts = || (host.turns.load(SeqCst), host.waits.load(SeqCst));
    let waiting = pending();
    waiting.waits_long();
    waiting.waits_long();
    waiting.waits();
    assert!(waiting.ends());
    assert!(!waiting.ends());
    waiting.waits_long();
    waiting.waits();
    assert_eq!(counts(), (0, 1), "the thread is done with it");
    assert!(!pending().ends(), "it did not wait");
    let waiting = pending();
    waiting.waits();
    waiting.waits();
    assert_eq!(counts(), (1, 1));
    waiting.waits_long();
    assert_eq!(counts(), (1, 2));
    assert!(waiting.ends());
    let waiting = pending();
    waiting.waits();
    assert!(!waiting.ends(), "not for long");
    waiting.waits();
    assert_eq!(counts(), (2, 2));
}
