use super::event::Event;
use super::resolve::resolve;
use super::schedule::{Schedule, Step};
use super::*;
use crate::op::{Kind, Op};
use crate::target::{Kernel, Target};
use crate::{AnyTrace, summarize_recording};
use pandofs_client::Node;
use pandofs_client::trace::{self, Outcome, Tracer};
use pandofs_model::Rng;
use pandofs_types::{Attr, FileKind, FsError, Ino, Name, SetAttr, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Bytes that are kept as long as there is room.
#[derive(Clone)]
struct Disk {
    bytes: Arc<Mutex<Vec<u8>>>,
    room: usize,
}

impl Disk {
    fn new(room: usize) -> Disk {
        Disk {
            bytes: Arc::default(),
            room,
        }
    }

    fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().unwrap().clone()
    }
}

impl Write for Disk {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let mut bytes = self.bytes.lock().unwrap();
        let fits = data.len().min(self.room - bytes.len());
        if fits == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        bytes.extend(&data[..fits]);
        Ok(fits)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

fn node(ino: u64, kind: FileKind) -> Node {
    let time = Time(0);
    Node::from(Attr {
        ino: Ino(ino),
        kind,
        mode: 0o644,
        uid: 0,
        gid: 0,
        nlink: 1,
        size: 5,
        rdev: 0,
        blocks: 0,
        atime: time,
        mtime: time,
        ctime: time,
        btime: time,
        has_xattrs: false,
    })
}

fn record(
    recording: &Recording,
    client: u32,
    op: trace::Op<'_>,
    outcome: Result<Outcome<'_>, FsError>,
) {
    let now = Instant::now();
    recording.record(&trace::Event {
        op,
        begun: now,
        ended: now + Duration::from_nanos(10),
        caller: Some(client),
        outcome: outcome.map_err(|error| error.errno()),
        again: false,
    });
}

/// The recorded lines, without their times.
fn timeless(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let line = |line: &str| match line.split_once("\"client\"") {
        Some((_, rest)) => format!("\"client\"{rest}"),
        None => line.to_owned(),
    };
    text.lines().map(line).collect()
}

#[test]
fn lines_are_pinned() {
    let disk = Disk::new(usize::MAX);
    let recording = Recording::start(disk.clone()).unwrap();
    let (dir, a, b) = (Ino::ROOT, &name("a"), &Name::new(b"\xffb").unwrap());
    let made = node(7, FileKind::Dir);
    record(
        &recording,
        1,
        trace::Op::Lookup { dir, name: a },
        Err(FsError::NotFound),
    );
    record(
        &recording,
        1,
        trace::Op::Mkdir {
            dir,
            name: a,
            mode: 0o750,
        },
        Ok(Outcome::Node(&made)),
    );
    record(
        &recording,
        2,
        trace::Op::Lookup { dir, name: a },
        Ok(Outcome::Node(&made)),
    );
    let inside = Ino(7);
    let file = node(8, FileKind::File);
    let create = |truncate| trace::Op::Create {
        dir: inside,
        name: b,
        mode: 0o600,
        truncate,
    };
    record(&recording, 2, create(true), Ok(Outcome::Node(&file)));
    record(&recording, 2, create(true), Ok(Outcome::Found(&file)));
    let write = trace::Op::Write {
        ino: Ino(8),
        offset: None,
        bytes: 100,
    };
    record(&recording, 2, write, Ok(Outcome::Offset(5)));
    let set = SetAttr {
        size: Some(3),
        mode: Some(0o444),
        ..SetAttr::default()
    };
    record(
        &recording,
        2,
        trace::Op::Setattr {
            ino: Ino(8),
            set: &set,
        },
        Ok(Outcome::Done),
    );
    let rename = trace::Op::Rename {
        from: (inside, b),
        to: (dir, b),
        no_replace: true,
    };
    record(&recording, 2, rename, Ok(Outcome::Ino(Ino(8))));
    let xattr = trace::Op::Setxattr {
        ino: Ino(8),
        name: b"user.x",
        bytes: 4,
    };
    record(&recording, 3, xattr, Ok(Outcome::Done));
    record(
        &recording,
        3,
        trace::Op::Rmdir { dir, name: a },
        Ok(Outcome::Ino(inside)),
    );
    assert_eq!(recording.finish().unwrap(), Recorded { operations: 10 });
    assert!(recording.finish().is_err());
    let golden = include_str!("../../traces/golden.recording");
    let lines = timeless(&disk.bytes());
    assert_eq!(
        lines,
        golden.lines().collect::<Vec<_>>(),
        "{}",
        lines.join("\n")
    );

    let AnyTrace::Recording(read) = AnyTrace::read(&disk.bytes()[..]).unwrap() else {
        panic!("it is no recording");
    };
    assert!(!read.cut_short && read.left_out.is_empty() && read.prepare.is_empty());
    let done: Vec<String> = read
        .steps
        .iter()
        .map(|step| format!("{} {} {:?}", step.op.op, step.op.path, step.error))
        .collect();
    assert_eq!(
        done,
        [
            "lookup a Some(2)",
            "mkdir a None",
            "lookup a None",
            "create a/\\xffb None",
            "open a/\\xffb None",
            "write a/\\xffb None",
            "setattr a/\\xffb None",
            "rename a/\\xffb None",
            "setxattr \\xffb None",
            "rmdir a None",
        ]
    );
    assert_eq!(read.steps[5].op.offset, Some(5));
    assert_eq!(read.clients(), 3);
    let summary = summarize_recording(&read);
    assert_eq!(summary.operations[&Kind::Lookup], 2);
    assert_eq!(summary.failed[&Kind::Lookup], 1);
}

#[test]
fn a_full_disk_ends_the_recording_and_nothing_else() {
    const ROOM: usize = 100_000;
    let disk = Disk::new(ROOM);
    let recording = Recording::start(disk.clone()).unwrap();
    let a = &name("a");
    let deadline = Instant::now() + Duration::from_secs(60);
    // More than ever waits, so that a thread that had to wait for room would show.
    while !recording.shared_is_over() {
        assert!(Instant::now() < deadline, "it goes on with a full disk");
        record(
            &recording,
            1,
            trace::Op::Lookup {
                dir: Ino::ROOT,
                name: a,
            },
            Err(FsError::NotFound),
        );
    }
    record(
        &recording,
        1,
        trace::Op::Lookup {
            dir: Ino::ROOT,
            name: a,
        },
        Err(FsError::NotFound),
    );
    let error = recording.finish().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    let bytes = disk.bytes();
    assert_eq!(bytes.len(), ROOM);
    let AnyTrace::Recording(read) = AnyTrace::read(&bytes[..]).unwrap() else {
        panic!("it is no recording");
    };
    assert!(
        read.cut_short && read.steps.len() > 500,
        "{}",
        read.steps.len()
    );
}

#[test]
fn damage_within_a_recording_is_told_and_a_cut_end_is_not_an_error() {
    let first = "{\"format\":2,\"form\":\"recording\"}\n";
    let line = r#"{"start":1,"end":2,"client":1,"op":"stat","ino":1}"#;
    let read = |rest: &str| AnyTrace::read(format!("{first}{rest}").as_bytes());
    let cut = |rest: &str| match read(rest).unwrap() {
        AnyTrace::Recording(read) => (read.steps.len(), read.cut_short),
        AnyTrace::Trace(_) => panic!("it is no recording"),
    };
    assert_eq!(cut(&format!("{line}\n{{\"ended\":1}}\n")), (1, false));
    assert_eq!(cut(&format!("{line}\n")), (1, true));
    assert_eq!(cut(&format!("{line}\n{}", &line[..20])), (1, true));
    assert_eq!(cut(&format!("{line}\n{{\"ended\":2}}\n")), (1, true));
    let error = read(&format!("{}\n{line}\n", &line[..20])).unwrap_err();
    assert!(error.to_string().contains("line 2"), "{error}");
    let error = read(&line.replace("\"end\":2", "\"end\":0")).unwrap_err();
    assert!(error.to_string().contains("ends before"), "{error}");
}

/// An operation that succeeded; each takes 10 ns, and the next one begins 10 ns later.
fn events(all: Vec<Event>) -> Vec<Event> {
    let timed = (0_u64..).zip(all).map(|(number, event)| Event {
        start: 20 * number,
        end: 20 * number + 10,
        ..event
    });
    timed.collect()
}

fn by_name(op: Kind, dir: u64, name: &str, is: u64, kind: char) -> Event {
    Event {
        dir: Some(dir),
        name: Some(name.to_owned()),
        is: Some(is),
        kind: Some(kind),
        ..Event::new(op)
    }
}

fn by_number(op: Kind, ino: u64) -> Event {
    Event {
        ino: Some(ino),
        ..Event::new(op)
    }
}

fn rename(dir: u64, name: &str, new_dir: u64, new_name: &str, is: u64) -> Event {
    Event {
        new_dir: Some(new_dir),
        new_name: Some(new_name.to_owned()),
        kind: None,
        ..by_name(Kind::Rename, dir, name, is, 'f')
    }
}

fn paths(schedule: &Schedule) -> Vec<String> {
    let text = |op: &Op| match &op.to {
        Some(to) => format!("{} {} {to}", op.op, op.path),
        None => format!("{} {}", op.op, op.path),
    };
    schedule.steps.iter().map(|step| text(&step.op)).collect()
}

#[test]
fn paths_follow_what_is_renamed_linked_and_removed() {
    let schedule = resolve(events(vec![
        by_name(Kind::Mkdir, 1, "a", 2, 'd'),
        by_name(Kind::Create, 2, "x", 3, 'f'),
        rename(1, "a", 1, "b", 2),
        by_number(Kind::Stat, 3),
        Event {
            ino: Some(3),
            ..by_name(Kind::Link, 1, "y", 3, 'f')
        },
        by_name(Kind::Unlink, 2, "x", 3, 'f'),
        by_number(Kind::Write, 3),
        by_name(Kind::Create, 1, "z", 4, 'f'),
        rename(1, "z", 1, "y", 4),
        by_number(Kind::Read, 4),
        // It has no name any more.
        by_number(Kind::Read, 3),
    ]));
    assert_eq!(
        paths(&schedule),
        [
            "mkdir a",
            "create a/x",
            "renamedir a b",
            "stat b/x",
            "link b/x y",
            "unlink b/x",
            "write y",
            "create z",
            "rename z y",
            "read y",
        ]
    );
    assert_eq!(schedule.left_out, BTreeMap::from([(Kind::Read, 1)]));
    assert!(schedule.prepare.is_empty());
}

#[test]
fn what_was_there_before_is_made_before_under_the_name_that_it_had() {
    let mut listing = by_number(Kind::Readdir, 2);
    listing.told = vec![("x".to_owned(), 3, 'f', 9), ("l".to_owned(), 4, 'l', 6)];
    let schedule = resolve(events(vec![
        by_name(Kind::Lookup, 1, "a", 2, 'd'),
        rename(1, "a", 1, "b", 2),
        listing,
        by_number(Kind::Read, 3),
        by_name(Kind::Mkdir, 1, "new", 5, 'd'),
        // Somebody else has put it there.
        by_name(Kind::Lookup, 5, "y", 6, 'f'),
    ]));
    let prepare: Vec<_> = schedule
        .prepare
        .iter()
        .map(|op| (op.op, op.path.as_str(), op.size, op.bytes))
        .collect();
    assert_eq!(
        prepare,
        [
            (Kind::Mkdir, "a", None, 0),
            (Kind::Create, "a/x", Some(9), 0),
            (Kind::Symlink, "a/l", None, 6),
        ]
    );
    assert_eq!(
        paths(&schedule),
        [
            "lookup a",
            "renamedir a b",
            "readdir b",
            "read b/x",
            "mkdir new",
            "create new/y",
            "lookup new/y",
        ]
    );
}

#[test]
fn a_refused_attempt_is_replaced_and_what_made_a_name_comes_before_who_saw_it() {
    let refused = Event {
        error: Some(13),
        ..by_name(Kind::Mkdir, 1, "a", 2, 'd')
    };
    let again = Event {
        again: true,
        ..by_name(Kind::Mkdir, 1, "a", 2, 'd')
    };
    let mut other = by_name(Kind::Lookup, 1, "a", 2, 'd');
    other.client = 9;
    let mut all = events(vec![refused, other, again]);
    // The other client saw it before its maker got the answer.
    (all[1].start, all[1].end) = (22, 35);
    (all[2].start, all[2].end) = (15, 60);
    let schedule = resolve(all);
    assert_eq!(paths(&schedule), ["mkdir a", "lookup a"]);
    assert_eq!(
        (schedule.steps[0].start, schedule.steps[0].error),
        (0, None)
    );
}

fn step(op: Op, error: Option<i32>, start: u64, end: u64) -> Step {
    Step {
        client: 0,
        op,
        error,
        start,
        end,
        inode: None,
    }
}

/// Pairs of operations of which the second waits for the first, as a replay has it.
fn waits(schedule: &Schedule) -> BTreeSet<(usize, usize)> {
    let mut pairs = BTreeSet::new();
    for (later, own) in schedule.touches.iter().enumerate() {
        for &(row, group) in own {
            for before in &schedule.rows[row as usize][..group as usize] {
                pairs.extend(before.iter().map(|&before| (before as usize, later)));
            }
        }
    }
    pairs
}

#[test]
fn only_what_did_not_overlap_on_one_thing_is_ordered() {
    let op = |kind, path: &str| Op::new(kind, path);
    let schedule = Schedule::new(
        vec![
            step(op(Kind::Create, "a"), None, 0, 10),
            step(op(Kind::Create, "b"), None, 20, 30),
            // These two overlap.
            step(op(Kind::Write, "a"), None, 20, 40),
            step(op(Kind::Write, "a"), None, 30, 50),
            step(op(Kind::Stat, "a"), None, 60, 70),
            step(op(Kind::Stat, "a"), None, 80, 90),
            step(op(Kind::Write, "b"), None, 80, 90),
            step(op(Kind::Setattr, "a"), None, 100, 110),
        ],
        Vec::new(),
    );
    let wanted = [
        (0, 2),
        (0, 3),
        (0, 4),
        (0, 5),
        (0, 7),
        (1, 6),
        (2, 4),
        (3, 4),
        (2, 5),
        (3, 5),
        (2, 7),
        (3, 7),
        (4, 7),
        (5, 7),
    ];
    assert_eq!(waits(&schedule), BTreeSet::from(wanted));
}

#[test]
fn a_listing_comes_between_what_is_made_before_and_after_it() {
    let op = |kind, path: &str| Op::new(kind, path);
    let schedule = Schedule::new(
        vec![
            step(op(Kind::Create, "d/a"), None, 0, 10),
            step(op(Kind::Create, "d/b"), None, 20, 30),
            step(op(Kind::Readdir, "d"), None, 40, 50),
            // At the same time as the listing.
            step(op(Kind::Create, "d/e"), None, 45, 55),
            step(op(Kind::Unlink, "d/a"), None, 60, 70),
            // Not empty: what made it so comes before.
            step(op(Kind::Rmdir, "d"), Some(39), 80, 90),
            step(op(Kind::Unlink, "d/b"), None, 100, 110),
        ],
        Vec::new(),
    );
    let waits = waits(&schedule);
    for pair in [
        (0, 2),
        (1, 2),
        (2, 4),
        (3, 5),
        (4, 5),
        (5, 6),
        (0, 4),
        (1, 6),
    ] {
        assert!(waits.contains(&pair), "{pair:?}");
    }
    for pair in [(0, 1), (2, 3)] {
        assert!(!waits.contains(&pair), "{pair:?}");
    }
}

fn kernels(root: &Path, clients: u32) -> Vec<Box<dyn Target>> {
    let of = |_| Box::new(Kernel::that_asks(root)) as Box<dyn Target>;
    (0..clients).map(of).collect()
}

/// Paths with kinds and sizes of files.
fn tree(root: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let metadata = path.symlink_metadata().unwrap();
            let (kind, size) = (metadata.file_type(), metadata.len());
            let size = if kind.is_file() { size } else { 0 };
            found.insert(format!("{:?} {kind:?} {size}", path.strip_prefix(root)));
            if kind.is_dir() {
                dirs.push(path);
            }
        }
    }
    found
}

/// Operations on few names, so that they have much to do with one another, many of which fail.
fn random_op(rng: &mut Rng) -> Op {
    let names = ["a", "b", "a/a", "a/b", "b/a", "a/a/a", "b/a/b"];
    let mut path = || names[rng.below(names.len() as u64) as usize];
    let (path, to) = (path(), path());
    match rng.below(14) {
        0 | 1 => Op::new(Kind::Mkdir, path),
        2 | 3 => Op::new(Kind::Create, path),
        4 => Op::new(Kind::Unlink, path),
        5 => Op::new(Kind::Rmdir, path),
        6 | 7 => Op::rename(path, to),
        8 => Op::with_two(Kind::Link, path, to),
        9 => Op::new(Kind::Stat, path),
        10 => Op::new(Kind::Readdir, path),
        11 => Op::with_bytes(Kind::Write, path, 10),
        12 => Op {
            size: Some(rng.below(30)),
            ..Op::new(Kind::Setattr, path)
        },
        _ => Op::new(Kind::Open, path),
    }
}

/// Each of many histories of operations on few names, whose results are what they depend on, comes
/// to the same by four clients.
#[test]
fn any_history_comes_to_the_same_when_replayed_by_many() {
    let mut failed = 0;
    for seed in 0..60 {
        let mut rng = Rng::new(seed, 0x7ace);
        let first = tempfile::tempdir().unwrap();
        let mut target = Kernel::that_asks(first.path());
        let mut steps = Vec::new();
        for at in 0..200 {
            let op = random_op(&mut rng);
            // The file is known of a recording, as any inode with several names is.
            let inode = first.path().join(&op.path).symlink_metadata().ok();
            let inode = inode.map(|metadata| std::os::unix::fs::MetadataExt::ino(&metadata));
            let error = target
                .perform(&op)
                .err()
                .map(|error| error.errno().unwrap());
            failed += u32::from(error.is_some());
            steps.push(Step {
                inode,
                ..step(op, error, 2 * at, 2 * at + 1)
            });
        }
        let schedule = Schedule::new(steps, Vec::new());
        let second = tempfile::tempdir().unwrap();
        let replayed = replay_recording(&schedule, &mut kernels(second.path(), 4)).unwrap();
        assert_eq!(replayed.examples, [] as [String; 0], "seed {seed}");
        assert_eq!(tree(second.path()), tree(first.path()), "seed {seed}");
    }
    assert!(failed > 1_000, "{failed}");
}

#[test]
fn results_that_differ_are_counted_and_told() {
    let op = |kind, path: &str| Op::new(kind, path);
    let steps = vec![
        step(op(Kind::Stat, "missing"), None, 0, 1),
        step(op(Kind::Stat, "missing"), Some(2), 2, 3),
        step(op(Kind::Mkdir, "a"), Some(17), 4, 5),
        step(op(Kind::Rmdir, "a"), Some(39), 6, 7),
        step(op(Kind::Create, "b"), None, 8, 9),
    ];
    let directory = tempfile::tempdir().unwrap();
    let prepare = vec![op(Kind::Mkdir, "before")];
    let schedule = Schedule::new(steps, prepare);
    let replayed = replay_recording(&schedule, &mut kernels(directory.path(), 2)).unwrap();
    assert_eq!(replayed.operations, 5);
    let wanted = BTreeMap::from([(Kind::Stat, 1), (Kind::Mkdir, 1), (Kind::Rmdir, 1)]);
    assert_eq!(replayed.differing, wanted);
    let told = replayed.examples.join("\n");
    assert!(
        told.contains("mkdir of a went well; when it was recorded: File exists"),
        "{told}"
    );
    assert!(told.contains("when it was recorded it went well"), "{told}");
    assert!(directory.path().join("before").is_dir());
}
