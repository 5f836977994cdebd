use super::*;
use pandofs_formats::check;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/requests.txt");
const RULE: &str = "Requests as the kernel sends them (include/uapi/linux/fuse.h), on a little-endian machine.\n\
    It never changes them: a difference is a mistake here.";

/// A body in the making.
#[derive(Clone, Default)]
struct Body(Vec<u8>);

impl Body {
    fn u32s(mut self, fields: &[u32]) -> Body {
        for field in fields {
            self.0.extend_from_slice(&field.to_ne_bytes());
        }
        self
    }

    fn u64s(mut self, fields: &[u64]) -> Body {
        for field in fields {
            self.0.extend_from_slice(&field.to_ne_bytes());
        }
        self
    }

    fn bytes(mut self, bytes: &[u8]) -> Body {
        self.0.extend_from_slice(bytes);
        self
    }
}

fn message(code: u32, body: &[u8]) -> Vec<u8> {
    let length = (HEADER_BYTES + body.len()) as u32;
    let head = Body::default()
        .u32s(&[length, code])
        .u64s(&[0x0102_0304_0506_0708, 0x2a])
        .u32s(&[1_000, 100, 4_321, 0]);
    head.bytes(body).0
}

fn name(text: &'static str) -> &'static OsStr {
    OsStr::new(text)
}

const HANDLE: FileHandle = FileHandle(0x8000_0000_0000_0007);
const READ: Read = Read {
    handle: HANDLE,
    offset: 8_192,
    size: 4_096,
    flags: OpenFlags(0x8002),
};
const LOCK: Lock = Lock {
    handle: HANDLE,
    owner: LockOwner(0xfeed),
    first: 3,
    last: u64::MAX >> 1,
    typ: libc::F_WRLCK,
    pid: 77,
    flock: true,
};

/// Every operation: its name, the bytes, and what they mean.
fn samples() -> Vec<(&'static str, Vec<u8>, Operation<'static>)> {
    let mut all = Vec::new();
    let body = Body::default;
    let mut add =
        |called, code, body: Body, means| all.push((called, message(code, &body.0), means));
    add_names(&mut add);
    add_files(&mut add);
    add(
        "Forget",
        opcode::FORGET,
        body().u64s(&[3]),
        Operation::Forget { lookups: 3 },
    );
    add(
        "BatchForget",
        opcode::BATCH_FORGET,
        body().u32s(&[2, 0]).u64s(&[7, 1, 9, 2]),
        Operation::BatchForget(Forgotten(FORGOTTEN)),
    );
    add(
        "Getattr",
        opcode::GETATTR,
        body().u32s(&[1, 0]).u64s(&[HANDLE.0]),
        Operation::Getattr,
    );
    add(
        "Statx",
        opcode::STATX,
        body().u32s(&[0, 0]).u64s(&[0]).u32s(&[0, 0xfff]),
        Operation::Statx,
    );
    add(
        "Setattr",
        opcode::SETATTR,
        setattr_body(0xfff & !(1 << 7 | 1 << 9 | 1 << 10)),
        Operation::Setattr(SetAttr {
            mode: Some(0o4755),
            uid: Some(5),
            gid: Some(6),
            size: Some(1 << 40),
            atime: Some(SetTime::At(Timestamp {
                seconds: -2,
                nanos: 500_000_000,
            })),
            mtime: Some(SetTime::Now),
            handle: Some(HANDLE),
            kill_suidgid: true,
        }),
    );
    add(
        "Setattr of nothing",
        opcode::SETATTR,
        setattr_body(0),
        Operation::Setattr(SetAttr {
            mode: None,
            uid: None,
            gid: None,
            size: None,
            atime: None,
            mtime: None,
            handle: None,
            kill_suidgid: false,
        }),
    );
    add("Statfs", opcode::STATFS, body(), Operation::Statfs);
    add(
        "Access",
        opcode::ACCESS,
        body().u32s(&[6, 0]),
        Operation::Access { mask: 6 },
    );
    add(
        "Ioctl",
        opcode::IOCTL,
        body()
            .u64s(&[HANDLE.0])
            .u32s(&[16, 0xdf01])
            .u64s(&[0x7fff])
            .u32s(&[3, 8])
            .bytes(b"abc"),
        Operation::Ioctl {
            command: 0xdf01,
            data: Data(b"abc"),
        },
    );
    add(
        "Interrupt",
        opcode::INTERRUPT,
        body().u64s(&[99]),
        Operation::Interrupt(RequestId(99)),
    );
    add("Destroy", opcode::DESTROY, body(), Operation::Destroy);
    add("Other", 47, body().u64s(&[1; 7]), Operation::Other(47));
    let init = body()
        .u32s(&[7, 45, 131_072, 1 << 30 | 1, 1 << 4])
        .u32s(&[0; 11]);
    add(
        "Init",
        opcode::INIT,
        init,
        Operation::Init(Init {
            major: 7,
            minor: 45,
            max_readahead: 131_072,
            features: 1 << 36 | 1 << 30 | 1,
        }),
    );
    add(
        "Init of an old kernel",
        opcode::INIT,
        body().u32s(&[7, 31, 4_096, 9]),
        Operation::Init(Init {
            major: 7,
            minor: 31,
            max_readahead: 4_096,
            features: 9,
        }),
    );
    all
}

/// Nodes 7 and 9, looked up once and twice.
const FORGOTTEN: &[u8] =
    b"\x07\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0";

type Add<'a> = &'a mut dyn FnMut(&'static str, u32, Body, Operation<'static>);

fn add_names(add: Add) {
    let body = Body::default;
    let made = Make {
        name: name("leaf"),
        mode: 0o100_644,
        umask: 0o22,
    };
    add(
        "Lookup",
        opcode::LOOKUP,
        body().bytes(b"leaf\0"),
        Operation::Lookup { name: name("leaf") },
    );
    add("Readlink", opcode::READLINK, body(), Operation::Readlink);
    add(
        "Symlink",
        opcode::SYMLINK,
        body().bytes(b"leaf\0../target\0"),
        Operation::Symlink {
            name: name("leaf"),
            target: name("../target"),
        },
    );
    add(
        "Mknod",
        opcode::MKNOD,
        body().u32s(&[0o100_644, 0x103, 0o22, 0]).bytes(b"leaf\0"),
        Operation::Mknod(made, 0x103),
    );
    add(
        "Mkdir",
        opcode::MKDIR,
        body().u32s(&[0o100_644, 0o22]).bytes(b"leaf\0"),
        Operation::Mkdir(made),
    );
    add(
        "Unlink",
        opcode::UNLINK,
        body().bytes(b"leaf\0"),
        Operation::Unlink { name: name("leaf") },
    );
    add(
        "Rmdir",
        opcode::RMDIR,
        body().bytes(b"leaf\0"),
        Operation::Rmdir { name: name("leaf") },
    );
    let renamed = |flags| {
        Operation::Rename(Rename {
            name: name("old"),
            new_dir: 9,
            new_name: name("new"),
            flags,
        })
    };
    add(
        "Rename",
        opcode::RENAME,
        body().u64s(&[9]).bytes(b"old\0new\0"),
        renamed(0),
    );
    add(
        "Rename2",
        opcode::RENAME2,
        body().u64s(&[9]).u32s(&[2, 0]).bytes(b"old\0new\0"),
        renamed(2),
    );
    add(
        "Link",
        opcode::LINK,
        body().u64s(&[77]).bytes(b"leaf\0"),
        Operation::Link {
            node: 77,
            name: name("leaf"),
        },
    );
    add(
        "Create",
        opcode::CREATE,
        body().u32s(&[0x8041, 0o100_644, 0o22, 0]).bytes(b"leaf\0"),
        Operation::Create(made, OpenFlags(0x8041)),
    );
    add(
        "Tmpfile",
        opcode::TMPFILE,
        body().u32s(&[0x41_0002, 0o100_600, 0o77, 0]).bytes(b"/\0"),
        Operation::Tmpfile {
            mode: 0o100_600,
            umask: 0o77,
            flags: OpenFlags(0x41_0002),
        },
    );
    add(
        "Setxattr",
        opcode::SETXATTR,
        body().u32s(&[5, 1]).bytes(b"user.a\0value"),
        Operation::Setxattr {
            name: name("user.a"),
            value: Data(b"value"),
            flags: 1,
        },
    );
    add(
        "Getxattr",
        opcode::GETXATTR,
        body().u32s(&[64, 0]).bytes(b"user.a\0"),
        Operation::Getxattr {
            name: name("user.a"),
            room: 64,
        },
    );
    add(
        "Listxattr",
        opcode::LISTXATTR,
        body().u32s(&[0, 0]),
        Operation::Listxattr { room: 0 },
    );
    add(
        "Removexattr",
        opcode::REMOVEXATTR,
        body().bytes(b"user.a\0"),
        Operation::Removexattr {
            name: name("user.a"),
        },
    );
}

fn add_files(add: Add) {
    let body = || Body::default().u64s(&[HANDLE.0]);
    let (handle, owner) = (HANDLE, LockOwner(0xfeed));
    add(
        "Open",
        opcode::OPEN,
        Body::default().u32s(&[0x8002, 0]),
        Operation::Open(OpenFlags(0x8002)),
    );
    let read = || {
        body()
            .u64s(&[8_192])
            .u32s(&[4_096, 2])
            .u64s(&[5])
            .u32s(&[0x8002, 0])
    };
    add("Read", opcode::READ, read(), Operation::Read(READ));
    add(
        "Write",
        opcode::WRITE,
        body()
            .u64s(&[8_192])
            .u32s(&[4, 1 << 2])
            .u64s(&[5])
            .u32s(&[0x8002, 0])
            .bytes(b"data"),
        Operation::Write(Write {
            handle,
            offset: 8_192,
            data: Data(b"data"),
            flags: OpenFlags(0x8002),
            kill_suidgid: true,
        }),
    );
    add(
        "Release",
        opcode::RELEASE,
        body().u32s(&[0x8002, 0]).u64s(&[5]),
        Operation::Release { handle },
    );
    add(
        "Fsync",
        opcode::FSYNC,
        body().u32s(&[1, 0]),
        Operation::Fsync { handle },
    );
    add(
        "Flush",
        opcode::FLUSH,
        body().u32s(&[0, 0]).u64s(&[owner.0]),
        Operation::Flush { handle, owner },
    );
    add(
        "Opendir",
        opcode::OPENDIR,
        Body::default().u32s(&[0x18000, 0]),
        Operation::Opendir,
    );
    add("Readdir", opcode::READDIR, read(), Operation::Readdir(READ));
    add(
        "Readdirplus",
        opcode::READDIRPLUS,
        read(),
        Operation::Readdirplus(READ),
    );
    add(
        "Releasedir",
        opcode::RELEASEDIR,
        body().u32s(&[0x18000, 0]).u64s(&[0]),
        Operation::Releasedir { handle },
    );
    add(
        "Fsyncdir",
        opcode::FSYNCDIR,
        body().u32s(&[1, 0]),
        Operation::Fsyncdir { handle },
    );
    let lock = || {
        body()
            .u64s(&[owner.0, 3, u64::MAX >> 1])
            .u32s(&[libc::F_WRLCK as u32, 77, 1, 0])
    };
    add("Getlk", opcode::GETLK, lock(), Operation::Getlk(LOCK));
    add(
        "Setlk",
        opcode::SETLK,
        lock(),
        Operation::Setlk {
            lock: LOCK,
            waits: false,
        },
    );
    add(
        "Setlkw",
        opcode::SETLKW,
        lock(),
        Operation::Setlk {
            lock: LOCK,
            waits: true,
        },
    );
    add(
        "Fallocate",
        opcode::FALLOCATE,
        body().u64s(&[4_096, 512]).u32s(&[3, 0]),
        Operation::Fallocate {
            offset: 4_096,
            length: 512,
            mode: 3,
        },
    );
    add(
        "Lseek",
        opcode::LSEEK,
        body().u64s(&[-5_i64 as u64]).u32s(&[4, 0]),
        Operation::Lseek {
            offset: -5,
            whence: 4,
        },
    );
}

fn setattr_body(valid: u32) -> Body {
    Body::default()
        .u32s(&[valid, 0])
        .u64s(&[HANDLE.0, 1 << 40, 5])
        .u64s(&[-2_i64 as u64, 8, 9])
        .u32s(&[500_000_000, 1, 2])
        .u32s(&[0o4755, 0, 5, 6, 0])
}

#[test]
fn every_operation_is_read_as_the_kernel_writes_it() {
    let samples = samples();
    check(GOLDEN, RULE, |golden| {
        for (called, bytes, _) in &samples {
            golden.bytes(called, bytes);
        }
    });
    for (called, bytes, means) in &samples {
        let request = Request::decode(bytes).unwrap();
        assert_eq!(&request.operation, means, "{called}");
        let Header {
            unique,
            node,
            uid,
            gid,
            pid,
            ..
        } = request.header;
        assert_eq!((unique.0, node), (0x0102_0304_0506_0708, 0x2a));
        assert_eq!((uid, gid, pid), (1_000, 100, 4_321));
    }
}

/// As it would be if the kernel had sent less.
fn cut(bytes: &[u8], length: usize) -> Vec<u8> {
    let mut bytes = bytes[..length].to_vec();
    bytes[..4].copy_from_slice(&(length as u32).to_ne_bytes());
    bytes
}

#[test]
fn what_is_cut_off_is_missed() {
    for (called, bytes, _) in samples() {
        for length in HEADER_BYTES..bytes.len() {
            let cut = cut(&bytes, length);
            let is_whole = match called {
                "Init" => length >= HEADER_BYTES + 20,
                // Nothing but the numbers counts.
                "Tmpfile" => length >= HEADER_BYTES + 16,
                "Other" => true,
                _ => false,
            };
            let decoded = Request::decode(&cut);
            match is_whole {
                true => assert!(decoded.is_ok(), "{called} of {length}"),
                false => assert_eq!(decoded, Err(Malformed::TooShort), "{called} of {length}"),
            }
        }
    }
}

#[test]
fn a_header_is_as_long_as_it_says() {
    let bytes = message(opcode::STATFS, &[]);
    for length in 0..bytes.len() {
        assert_eq!(Header::decode(&bytes[..length]), Err(Malformed::TooShort));
    }
    let longer = [&bytes[..], &[0]].concat();
    assert_eq!(Header::decode(&longer), Err(Malformed::WrongLength));
    assert_eq!(Header::decode(&[0; 40]), Err(Malformed::WrongLength));
}

#[test]
fn numbers_out_of_range_are_no_request() {
    let body = || Body::default().u64s(&[HANDLE.0, 1 << 63]);
    let out_of_range = |code, body: Body| {
        let bytes = message(code, &body.0);
        assert_eq!(
            Request::decode(&bytes),
            Err(Malformed::OutOfRange),
            "{code}"
        );
    };
    out_of_range(opcode::READ, body().u32s(&[0; 6]));
    out_of_range(opcode::WRITE, body().u32s(&[0; 6]));
    out_of_range(opcode::FALLOCATE, body().u64s(&[0, 0]));
    let mut late = setattr_body(1 << 4);
    late.0[56..60].copy_from_slice(&1_000_000_000_u32.to_ne_bytes());
    out_of_range(opcode::SETATTR, late);
    // A listing goes on after any cookie.
    let listed = message(opcode::READDIR, &body().u32s(&[0; 6]).0);
    assert!(Request::decode(&listed).is_ok());
    // More than there can be.
    let forgotten = message(
        opcode::BATCH_FORGET,
        &Body::default().u32s(&[u32::MAX, 0]).0,
    );
    assert_eq!(Request::decode(&forgotten), Err(Malformed::TooShort));
}

#[test]
fn nodes_are_forgotten_one_by_one() {
    assert_eq!(Forgotten(FORGOTTEN).nodes().collect::<Vec<_>>(), [7, 9]);
    assert_eq!(Forgotten(&[]).nodes().count(), 0);
}
