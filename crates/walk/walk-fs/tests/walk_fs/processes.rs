//! Walks by several processes, which are threads here, with queues between them.

use crate::common::together::{Mailbox, Post, root_of, together};
use crate::common::{Lister, find, lines, make_chain, make_tree, remove};
use pandofs_walk::Algorithm;
use pandofs_walk_fs::{
    Dir, DirState, Entry, Flow, Leaving, Meter, Options, Problem, Processes, Rpc, Task, Unreadable,
    Visitor,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[test]
fn every_algorithm_finds_what_find_does() {
    let dir = tempfile::tempdir().unwrap();
    make_tree(dir.path(), 300, 11);
    make_chain(dir.path(), 150, &"long".repeat(50));
    let expected = find(&[dir.path().as_os_str()]);
    assert!(expected.len() > 1_000);
    for algorithm in Algorithm::ALL {
        for ranks in [1, 2, 5] {
            let workers = if algorithm.shares_queue() { 2 } else { 1 };
            let (seen, written) = together(ranks, |processes| {
                let options = Options {
                    algorithm,
                    workers,
                    seed: u64::from(ranks),
                    leaves: ranks == 5,
                    spill_above: 64,
                    spill_chunk: 16,
                    ..Options::default()
                };
                let walked = processes
                    .walk(&root_of(dir.path()), &options, |_| Lister::default())
                    .unwrap();
                let out = processes.outputs();
                let mut seen = Vec::new();
                for visitor in walked.visitors {
                    assert!(visitor.problems.is_empty(), "{:?}", visitor.problems);
                    for line in &visitor.lines {
                        out.write([line, &b"\0"[..]].concat());
                    }
                    seen.push(visitor);
                }
                let entries = seen.iter().map(|it| it.lines.len() as u64).sum::<u64>();
                let all = processes
                    .finish(&entries.to_le_bytes(), &options.meter)
                    .unwrap();
                assert_eq!(all.is_some(), processes.rank() == 0);
                if let Some(all) = all {
                    let all = all
                        .iter()
                        .map(|it| u64::from_le_bytes(it[..].try_into().unwrap()));
                    assert_eq!(all.sum::<u64>(), options.meter.entries());
                }
                seen
            });
            let seen = lines(seen.into_iter().flatten().collect());
            assert!(seen == expected, "{algorithm} on {ranks} ranks");
            let mut written: Vec<_> = written.split(|byte| *byte == 0).collect();
            written.pop();
            written.sort_unstable();
            assert!(
                written == expected,
                "output of {algorithm} on {ranks} ranks"
            );
        }
    }
    remove(dir.path());
}

/// Sums sizes up, half of them in tasks.
struct Summer<'s> {
    roots: &'s Mutex<Vec<(Vec<u8>, u64)>>,
    left: &'s AtomicU64,
}

struct Below(AtomicU64);

impl DirState for Below {
    fn new(seed: [u64; 2]) -> Below {
        Below(AtomicU64::new(seed[0]))
    }
    fn elsewhere(_seed: [u64; 2]) -> Below {
        Below(AtomicU64::new(0))
    }
    fn gathered(&self) -> Vec<u8> {
        self.0.load(Ordering::Relaxed).to_le_bytes().to_vec()
    }
    fn add(&self, gathered: &[u8]) -> Result<(), Unreadable> {
        let bytes = gathered.try_into().map_err(|_| Unreadable)?;
        self.0
            .fetch_add(u64::from_le_bytes(bytes), Ordering::Relaxed);
        Ok(())
    }
}

fn add(dir: &Arc<Dir<Below>>, bytes: u64) {
    dir.state().0.fetch_add(bytes, Ordering::Relaxed);
}

impl Visitor for Summer<'_> {
    type Dir = Below;

    fn entry(&mut self, entry: &mut Entry<'_, Below>) -> Flow {
        let size = entry.stat().unwrap().size();
        if entry.kind() == pandofs_walk_fs::FileType::Directory {
            return Flow::Descend([size, 0]);
        }
        if entry.listed_ino().is_multiple_of(2) {
            let name = entry.name().to_bytes().to_vec();
            entry.later(name);
        } else {
            add(entry.holder(), size);
        }
        Flow::Skip
    }

    fn task(&mut self, task: &mut Task<'_, Below>) {
        let name = std::ffi::CString::new(task.what()).unwrap();
        let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
        let stat = rustix::fs::statat(task.dir_fd(), &name, flags).unwrap();
        add(task.holder(), stat.st_size as u64);
    }

    fn leave(&mut self, leaving: &mut Leaving<'_, Below>) {
        self.left.fetch_add(1, Ordering::Relaxed);
        let bytes = leaving.dir().state().0.load(Ordering::Relaxed);
        match leaving.dir().parent() {
            Some(parent) => add(parent, bytes),
            None => {
                let path = leaving.path().to_vec();
                self.roots.lock().unwrap().push((path, bytes));
            }
        }
    }

    fn problem(&mut self, problem: Problem<'_>) {
        panic!("{:?}", problem.kind);
    }
}

#[test]
fn directories_are_left_once_with_all_that_other_processes_had_of_them() {
    let dir = tempfile::tempdir().unwrap();
    make_tree(dir.path(), 200, 5);
    for file in 0..2_000 {
        std::fs::write(dir.path().join(format!("f{file}")), "12345").unwrap();
    }
    let listed = find(&[dir.path().as_os_str()]);
    let (mut directories, mut bytes) = (0, 0);
    for line in &listed {
        let line = String::from_utf8_lossy(line);
        let mut words = line.split(' ').skip(1);
        directories += u64::from(words.next() == Some("d"));
        bytes += words.next().unwrap().parse::<u64>().unwrap();
    }
    for algorithm in Algorithm::ALL {
        let (roots, left) = (Mutex::default(), AtomicU64::new(0));
        together(4, |processes| {
            // Two walks, one after the other: no message of the first may reach the second.
            for _ in 0..2 {
                let options = Options {
                    algorithm,
                    workers: 1,
                    ..Options::default()
                };
                let walked = processes.walk(&root_of(dir.path()), &options, |_| Summer {
                    roots: &roots,
                    left: &left,
                });
                walked.unwrap();
            }
            processes.finish(&[], &Options::default().meter).unwrap();
        });
        let path = dir.path().as_os_str().as_encoded_bytes().to_vec();
        let expected = vec![(path.clone(), bytes), (path, bytes)];
        assert_eq!(roots.into_inner().unwrap(), expected, "{algorithm}");
        assert_eq!(left.into_inner(), 2 * directories, "{algorithm}");
    }
}

/// Counts what its rank gets of one large directory. Each entry takes a while and no processor, as
/// on a network file system, so that shares do not follow from how many processors there are.
struct Sharer<'s> {
    rank: usize,
    seen: &'s [AtomicU64],
}

impl Visitor for Sharer<'_> {
    type Dir = ();

    fn entry(&mut self, entry: &mut Entry<'_, ()>) -> Flow {
        if entry.depth() == 0 {
            return Flow::Descend([0, 0]);
        }
        self.seen[self.rank].fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_micros(50));
        Flow::Skip
    }
}

#[test]
fn all_processes_share_one_large_directory() {
    let dir = tempfile::tempdir().unwrap();
    let files = 20_000;
    for file in 0..files {
        std::fs::write(dir.path().join(format!("f{file}")), "").unwrap();
    }
    for algorithm in ["deqs", "drqs", "h-deqs", "pa-drqs"] {
        let algorithm: Algorithm = algorithm.parse().unwrap();
        let seen: Vec<AtomicU64> = (0..6).map(|_| AtomicU64::new(0)).collect();
        together(6, |processes| {
            let options = Options {
                algorithm,
                workers: 1,
                ..Options::default()
            };
            let rank = processes.rank() as usize;
            let walked = processes.walk(&root_of(dir.path()), &options, |_| Sharer {
                rank,
                seen: &seen,
            });
            walked.unwrap();
            processes.finish(&[], &options.meter).unwrap();
        });
        let seen: Vec<u64> = seen.into_iter().map(AtomicU64::into_inner).collect();
        assert_eq!(seen.iter().sum::<u64>(), files, "{algorithm}");
        // With directories as items one rank would do all of it, with 8 ranks on a tree of many
        // kinds 75 %. Of 6 each should do 17 %.
        assert!(seen.iter().all(|it| *it > 0), "{algorithm}: {seen:?}");
        let most = *seen.iter().max().unwrap();
        assert!(most < files * 2 / 5, "{algorithm}: {seen:?}");
    }
}

/// Asks for a number for each entry, and keeps those that it gets.
struct Asker<'a> {
    rpc: Rpc,
    given: &'a Mutex<Vec<u64>>,
}

impl Visitor for Asker<'_> {
    type Dir = ();

    fn entry(&mut self, entry: &mut Entry<'_, ()>) -> Flow {
        let answer = self.rpc.ask(entry.name().to_bytes()).unwrap();
        let (number, name) = answer.split_first_chunk().unwrap();
        assert_eq!(name, entry.name().to_bytes());
        self.given.lock().unwrap().push(u64::from_le_bytes(*number));
        Flow::Descend([0, 0])
    }
}

#[test]
fn each_question_has_an_answer_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    make_tree(dir.path(), 300, 3);
    let entries = find(&[dir.path().as_os_str()]).len() as u64;
    let given = Mutex::default();
    together(4, |processes| {
        let mut next = 0_u64;
        let rpc = processes.rpc(move |name| {
            next += 1;
            [&next.to_le_bytes()[..], name].concat()
        });
        // Two walks: the questions are those of both.
        for _ in 0..2 {
            let options = Options {
                workers: 2,
                ..Options::default()
            };
            let walked = processes.walk(&root_of(dir.path()), &options, |_| Asker {
                rpc: rpc.clone(),
                given: &given,
            });
            walked.unwrap();
        }
        processes.finish(&[], &Options::default().meter).unwrap();
    });
    let mut given = given.into_inner().unwrap();
    given.sort_unstable();
    assert!(given.into_iter().eq(1..=2 * entries));
}

/// Visits nothing below the children of the root until all ranks have come there; and rank 0 not
/// then either, until others have sent of what they have visited. So each has a part of the walk,
/// and none of it depends on who is fast.
struct Watcher<'w> {
    meter: Arc<Meter>,
    arrived: &'w AtomicU64,
    is_first: bool,
    has_arrived: bool,
}

impl Visitor for Watcher<'_> {
    type Dir = ();

    fn entry(&mut self, entry: &mut Entry<'_, ()>) -> Flow {
        if entry.depth() == 2 && !self.has_arrived {
            self.has_arrived = true;
            self.arrived.fetch_add(1, Ordering::Relaxed);
            wait_until("all have a part", || {
                self.arrived.load(Ordering::Relaxed) == 3
            });
            if self.is_first {
                let meter = &self.meter;
                wait_until("rank 0 knows how far others are", || {
                    meter.so_far_of_all().counted[0] > meter.entries()
                });
            }
        }
        Flow::Descend([0, 0])
    }
}

/// Waits, without a processor, for what will be in any case. The limit is for a test that fails.
fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(120);
    while !holds() {
        assert!(Instant::now() < end, "it never came that {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn rank_0_knows_how_far_all_are() {
    let dir = tempfile::tempdir().unwrap();
    // Wide, so that there is a part for each when the root has been listed.
    for directory in 0..300 {
        let path = dir.path().join(format!("d{directory}"));
        std::fs::create_dir(&path).unwrap();
        for file in 0..3 {
            std::fs::write(path.join(format!("f{file}")), "").unwrap();
        }
    }
    let entries = find(&[dir.path().as_os_str()]).len() as u64;
    let arrived = AtomicU64::new(0);
    together(3, |processes| {
        let options = Options {
            workers: 1,
            ..Options::default()
        };
        let is_first = processes.rank() == 0;
        if is_first {
            // As the progress line does; the others are asked.
            options.meter.watch();
        }
        let walked = processes.walk(&root_of(dir.path()), &options, |_| Watcher {
            meter: Arc::clone(&options.meter),
            arrived: &arrived,
            is_first,
            has_arrived: false,
        });
        walked.unwrap();
        let others = options.meter.so_far_of_all().counted[0] - options.meter.entries();
        assert_eq!(others > 0, is_first);
        processes.finish(&[], &options.meter).unwrap();
        if is_first {
            assert_eq!(options.meter.entries(), entries);
        }
    });
}

/// Ends the walk at the hundredth entry.
struct Quitter<'q>(&'q AtomicU64);

impl Visitor for Quitter<'_> {
    type Dir = ();

    fn entry(&mut self, _entry: &mut Entry<'_, ()>) -> Flow {
        if self.0.fetch_add(1, Ordering::Relaxed) == 100 {
            return Flow::Quit;
        }
        Flow::Descend([0, 0])
    }
}

#[test]
fn who_ends_the_walk_ends_it_for_all() {
    let dir = tempfile::tempdir().unwrap();
    make_tree(dir.path(), 400, 9);
    for algorithm in Algorithm::ALL {
        let seen = AtomicU64::new(0);
        together(3, |processes| {
            let options = Options {
                algorithm,
                workers: 1,
                ..Options::default()
            };
            let walked = processes.walk(&root_of(dir.path()), &options, |_| Quitter(&seen));
            walked.unwrap();
            assert!(options.meter.is_stopped());
            processes.finish(&[], &options.meter).unwrap();
        });
        assert!(seen.into_inner() > 100);
    }
}

/// Processes that were started with other arguments get the number of the one that differs, by a
/// few bytes of each however long arguments are.
#[test]
fn who_was_started_otherwise_is_named_and_nobody_tells_all_arguments() {
    let arguments = "x".repeat(1 << 20);
    let post = Post::new(3);
    let begun: Vec<Result<(), String>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3)
            .map(|me| {
                let (arguments, mut link) = (&arguments, Mailbox::new(me, &post));
                scope.spawn(move || {
                    let same = format!("v1 {arguments}{}", if me == 1 { "y" } else { "" });
                    let host = format!("host{me}");
                    let begun = Processes::new(&mut link, &host, &same, |_| Ok(()));
                    begun.map(|_| ()).map_err(|error| error.to_string())
                })
            })
            .collect();
        threads.into_iter().map(|it| it.join().unwrap()).collect()
    });
    let says = |rank| {
        format!(
            "rank {rank} on host{rank} runs another version, or was started with other arguments"
        )
    };
    assert_eq!(begun, [Err(says(1)), Err(says(0)), Err(says(1))]);
    assert!(post.most_sent() < 100, "{}", post.most_sent());
}
