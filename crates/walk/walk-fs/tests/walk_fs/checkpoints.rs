//! Walks of several processes that are interrupted, dropped, and continued by others.
//!
//! They are interrupted after a number of entries, not of seconds.

use crate::common::together::{root_of, together};
use crate::common::{make_chain, make_tree, remove};
use pandofs_walk::{Algorithm, Rng};
use pandofs_walk_fs::{
    DirState, Entry, FileType, Flow, Leaving, Merge, Options, Problem, Processes, Saved, Task,
    Unreadable, Visitor, WalkError, go_on, walk,
};
use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::fs::File;
use std::io::{Cursor, Read, Seek};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Entries below a directory, and what was claimed there.
#[derive(Debug)]
struct Below {
    entries: AtomicU64,
    claimed: AtomicU64,
}

impl Below {
    fn add_both(&self, entries: u64, claimed: u64) {
        self.entries.fetch_add(entries, Ordering::Relaxed);
        self.claimed.fetch_add(claimed, Ordering::Relaxed);
    }
    fn both(&self) -> (u64, u64) {
        let of = |it: &AtomicU64| it.load(Ordering::Relaxed);
        (of(&self.entries), of(&self.claimed))
    }
}

impl DirState for Below {
    /// Counts itself.
    fn new(seed: [u64; 2]) -> Below {
        Below {
            entries: AtomicU64::new(seed[0]),
            claimed: AtomicU64::new(0),
        }
    }
    fn elsewhere(_seed: [u64; 2]) -> Below {
        Below::new([0, 0])
    }
    fn gathered(&self) -> Vec<u8> {
        let (entries, claimed) = self.both();
        [entries.to_le_bytes(), claimed.to_le_bytes()].concat()
    }
    fn add(&self, gathered: &[u8]) -> Result<(), Unreadable> {
        let (entries, claimed) = gathered.split_first_chunk().ok_or(Unreadable)?;
        let claimed = claimed.try_into().map_err(|_| Unreadable)?;
        self.add_both(u64::from_le_bytes(*entries), u64::from_le_bytes(claimed));
        Ok(())
    }
    fn claimed(&self, amount: u64) {
        self.add_both(0, amount);
    }
}

/// Contents of a tree, found out by the standard library.
struct Tree {
    entries: HashSet<Vec<u8>>,
    /// Of each directory the entries below it and itself, and the directories in it.
    dirs: HashMap<Vec<u8>, (u64, Vec<Vec<u8>>)>,
    /// Files with several names.
    linked: HashSet<u64>,
}

impl Tree {
    fn of(root: &Path) -> Tree {
        let mut tree = Tree {
            entries: HashSet::new(),
            dirs: HashMap::new(),
            linked: HashSet::new(),
        };
        tree.add(root);
        tree
    }

    fn add(&mut self, path: &Path) -> u64 {
        let bytes = path.as_os_str().as_bytes().to_vec();
        self.entries.insert(bytes.clone());
        let stat = std::fs::symlink_metadata(path).unwrap();
        if !stat.is_dir() {
            if stat.nlink() > 1 {
                self.linked.insert(stat.ino());
            }
            return 1;
        }
        let (mut count, mut dirs) = (1, Vec::new());
        for entry in std::fs::read_dir(path).unwrap() {
            let entry = entry.unwrap();
            count += self.add(&entry.path());
            if entry.file_type().unwrap().is_dir() {
                dirs.push(entry.path().as_os_str().as_bytes().to_vec());
            }
        }
        self.dirs.insert(bytes, (count, dirs));
        count
    }
}

/// Entries that were seen, by all walks.
#[derive(Default)]
struct Seen {
    entries: HashSet<Vec<u8>>,
    tasks: HashSet<Vec<u8>>,
    left: HashSet<Vec<u8>>,
    /// Files with several names that were claimed.
    linked: HashSet<u64>,
    /// By those that have walked and are gone: they are not claimed any more.
    linked_before: HashSet<u64>,
    claimed: u64,
}

struct Seer<'s> {
    tree: &'s Tree,
    seen: &'s Mutex<Seen>,
    /// Entries until the walk is interrupted.
    until: &'s AtomicU64,
    saved: Option<Arc<Saved>>,
}

impl Visitor for Seer<'_> {
    type Dir = Below;

    fn entry(&mut self, entry: &mut Entry<'_, Below>) -> Flow {
        let path = entry.path().to_vec();
        if self.until.fetch_sub(1, Ordering::Relaxed) == 1
            && let Some(saved) = &self.saved
        {
            saved.ask();
        }
        let mut seen = self.seen.lock().unwrap();
        assert!(seen.entries.insert(path), "an entry was shown twice");
        if entry.kind() == FileType::Directory {
            return Flow::Descend([1, 0]);
        }
        let stat = *entry.stat().unwrap();
        if stat.links() > 1 && !seen.linked_before.contains(&stat.ino()) {
            seen.linked.insert(stat.ino());
            entry.claim(stat.identity(), 1);
        }
        // Half of them count later.
        if entry.listed_ino().is_multiple_of(2) {
            entry.later(entry.name().to_bytes());
        } else {
            entry.holder().state().add_both(1, 0);
        }
        Flow::Skip
    }

    fn task(&mut self, task: &mut Task<'_, Below>) {
        let name = CString::new(task.what()).unwrap();
        let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::statat(task.dir_fd(), &name, flags).unwrap();
        let path = task.path(name.to_bytes()).to_vec();
        let mut seen = self.seen.lock().unwrap();
        assert!(seen.tasks.insert(path), "a task was done twice");
        task.holder().state().add_both(1, 0);
    }

    fn leave(&mut self, leaving: &mut Leaving<'_, Below>) {
        let path = leaving.path().to_vec();
        let (entries, claimed) = leaving.dir().state().both();
        let (expected, dirs) = &self.tree.dirs[&path];
        assert_eq!(entries, *expected, "{}", path.escape_ascii());
        let mut seen = self.seen.lock().unwrap();
        assert!(seen.entries.contains(&path));
        assert!(dirs.iter().all(|dir| seen.left.contains(dir)));
        assert!(seen.left.insert(path), "a directory was left twice");
        match leaving.dir().parent() {
            Some(parent) => parent.state().add_both(entries, claimed),
            None => seen.claimed += claimed,
        }
    }

    fn problem(&mut self, problem: Problem<'_>) {
        panic!("{:?}", problem.kind);
    }
}

fn content(mut file: File) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    bytes
}

/// Returns what all processes have saved, at the first one; everywhere whether it is something.
fn collected<D: DirState>(
    processes: &mut Processes<'_>,
    saved: &Saved,
    mut own: File,
    options: &Options,
) -> Option<Vec<u8>> {
    saved.finish::<D>().unwrap();
    own.rewind().unwrap();
    let is_first = processes.rank() == 0;
    let merged = tempfile::tempfile().unwrap();
    let mut merge = Merge::<D>::new(merged.try_clone().unwrap());
    if is_first {
        merge.add(&mut own).unwrap();
        own = tempfile::tempfile().unwrap();
    }
    let take = |_: u32, file: &mut File| -> Result<(), WalkError> {
        merge.add(file).unwrap();
        Ok(())
    };
    processes.collect(own, &options.meter, take).unwrap();
    let items = merge.finish().unwrap();
    let answer = processes.broadcast(&items.to_le_bytes(), &options.meter);
    let is_some = answer.unwrap() != 0_u64.to_le_bytes();
    is_some.then(|| content(merged))
}

/// A tree with everything in it.
fn make(root: &Path) -> Tree {
    make_tree(root, 120, 17);
    make_chain(root, 20, "down");
    let large = root.join("large");
    std::fs::create_dir(&large).unwrap();
    for file in 0..1_500 {
        std::fs::write(large.join(format!("f{file}")), "").unwrap();
    }
    for file in 0..40 {
        let other = root.join(format!("second{file}"));
        std::fs::hard_link(large.join(format!("f{file}")), other).unwrap();
    }
    Tree::of(root)
}

/// Returns how a walk is done in this test: work of one rank does not fit in memory.
fn how(algorithm: Algorithm, seed: u64, leaves: bool) -> Options {
    Options {
        algorithm,
        workers: if algorithm.shares_queue() { 2 } else { 1 },
        seed,
        leaves,
        spill_above: 64,
        spill_chunk: 16,
        ..Options::default()
    }
}

/// Walks by so many processes, with some checkpoints after each of which they go on, and at last
/// one after which they are gone; what is left then. Points are numbers of entries, with 0 before
/// the first.
fn run(
    ranks: u32,
    options: &Options,
    roots: &[std::ffi::OsString],
    rest: Option<Vec<u8>>,
    (tree, seen): (&Tree, &Mutex<Seen>),
    points: &[u64],
) -> Option<Vec<u8>> {
    let untils: Vec<AtomicU64> = points.iter().map(|it| AtomicU64::new(*it)).collect();
    let (results, _) = together(ranks, |processes| {
        let mut rest = rest.clone();
        for until in &untils {
            let file = tempfile::tempfile().unwrap();
            let saved = Arc::new(Saved::new(file.try_clone().unwrap()));
            let options = Options {
                saved: Some(Arc::clone(&saved)),
                ..options.clone()
            };
            if until.load(Ordering::Relaxed) == 0 && processes.rank() == 0 {
                saved.ask();
            }
            let make = |_| Seer {
                tree,
                seen,
                until,
                saved: Some(Arc::clone(&saved)),
            };
            match &rest {
                Some(rest) => processes
                    .go_on(&mut Cursor::new(&rest[..]), &options, make)
                    .unwrap(),
                None => processes.walk(roots, &options, make).unwrap(),
            };
            rest = collected::<Below>(processes, &saved, file, &options);
            if rest.is_none() {
                break;
            }
        }
        processes.finish(&[], &options.meter).unwrap();
        rest
    });
    let mut seen = seen.lock().unwrap();
    let Seen {
        linked,
        linked_before,
        ..
    } = &mut *seen;
    linked_before.extend(linked.iter());
    drop(seen);
    results.into_iter().next().unwrap()
}

#[test]
fn whoever_goes_on_sees_the_rest_and_leaves_each_directory_once() {
    let dir = tempfile::tempdir().unwrap();
    let tree = make(dir.path());
    let mut interrupted = 0;
    for algorithm in Algorithm::ALL {
        for seed in 0..4 {
            let mut rng = Rng::new(seed);
            let options = how(algorithm, seed, true);
            let seen = Mutex::default();
            let roots = root_of(dir.path());
            let mut rest = None;
            loop {
                let ranks = [3, 1, 5, 2][rng.below(4) as usize];
                let points: Vec<u64> = (0..=rng.below(3)).map(|_| 1 + rng.below(400)).collect();
                rest = run(ranks, &options, &roots, rest, (&tree, &seen), &points);
                if rest.is_none() {
                    break;
                }
                interrupted += 1;
            }
            let seen = seen.into_inner().unwrap();
            assert!(seen.entries == tree.entries, "{algorithm}, seed {seed}");
            assert_eq!(seen.left.len(), tree.dirs.len(), "{algorithm}, seed {seed}");
            assert_eq!(seen.linked, tree.linked);
            assert_eq!(seen.claimed, tree.linked.len() as u64);
        }
    }
    assert!(interrupted > 28, "{interrupted} times");
}

/// No visitor hears that directories are done; what is in them comes once all the same.
#[test]
fn a_walk_that_leaves_nothing_goes_on_too() {
    let dir = tempfile::tempdir().unwrap();
    let tree = make(dir.path());
    for algorithm in Algorithm::ALL {
        let options = how(algorithm, 3, false);
        let seen = Mutex::default();
        let (mut rest, mut rounds) = (None, 0);
        for ranks in [4, 2, 3, 1, 5].into_iter().cycle() {
            rounds += 1;
            rest = run(
                ranks,
                &options,
                &root_of(dir.path()),
                rest,
                (&tree, &seen),
                &[150],
            );
            if rest.is_none() {
                break;
            }
        }
        let seen = seen.into_inner().unwrap();
        assert!(seen.entries == tree.entries && seen.left.is_empty());
        assert!(rounds > 2, "{algorithm}: {rounds} rounds");
    }
}

/// From several processes to the threads of one, and from there to several.
#[test]
fn one_process_goes_on_with_what_several_began_and_they_with_what_it_began() {
    let dir = tempfile::tempdir().unwrap();
    let tree = make(dir.path());
    let roots = root_of(dir.path());
    for algorithm in Algorithm::ALL {
        let options = how(algorithm, 1, true);
        let seen = Mutex::default();
        let by_threads = |rest: Option<Vec<u8>>, point: u64| {
            let file = tempfile::tempfile().unwrap();
            let saved = Arc::new(Saved::new(file.try_clone().unwrap()));
            let until = AtomicU64::new(point);
            let options = Options {
                ranks: 3,
                saved: Some(Arc::clone(&saved)),
                ..options.clone()
            };
            let make = |_| Seer {
                tree: &tree,
                seen: &seen,
                until: &until,
                saved: Some(Arc::clone(&saved)),
            };
            match rest {
                None => walk(&roots, &options, make).unwrap(),
                Some(rest) => go_on(&mut Cursor::new(&rest[..]), &options, make).unwrap(),
            };
            let mut seen = seen.lock().unwrap();
            seen.linked_before = seen.linked.clone();
            assert!(saved.finish::<Below>().unwrap() > 0, "{algorithm}");
            Some(content(file))
        };
        let several = |rest, point| run(4, &options, &roots, rest, (&tree, &seen), &[point]);
        let rest = by_threads(None, 100);
        let rest = several(rest, 300);
        assert!(rest.is_some(), "{algorithm}");
        let rest = by_threads(rest, 300);
        assert!(several(rest, 1_000_000).is_none());
        let seen = seen.into_inner().unwrap();
        assert!(seen.entries == tree.entries && seen.left.len() == tree.dirs.len());
        assert_eq!(seen.claimed, tree.linked.len() as u64, "{algorithm}");
    }
}

/// It is asked before anything was done, each time: one that wrote everything down again would
/// never come to an end.
#[test]
fn a_walk_that_is_always_interrupted_comes_to_its_end() {
    let dir = tempfile::tempdir().unwrap();
    make_tree(dir.path(), 20, 5);
    let tree = Tree::of(dir.path());
    for algorithm in Algorithm::ALL {
        let options = how(algorithm, 2, true);
        let (seen, mut rest) = (Mutex::default(), None);
        for _ in 0..2 * tree.entries.len() {
            let roots = root_of(dir.path());
            rest = run(3, &options, &roots, rest, (&tree, &seen), &[0, 0]);
            if rest.is_none() {
                break;
            }
        }
        assert!(rest.is_none(), "{algorithm}");
        assert!(seen.into_inner().unwrap().entries == tree.entries);
    }
}

/// A visitor of directories whose paths are longer than any call takes.
struct Deep<'d> {
    seen: &'d AtomicU64,
    until: &'d AtomicU64,
    saved: Arc<Saved>,
}

impl Visitor for Deep<'_> {
    type Dir = Below;

    fn entry(&mut self, entry: &mut Entry<'_, Below>) -> Flow {
        self.seen.fetch_add(1, Ordering::Relaxed);
        if self.until.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.saved.ask();
        }
        entry.holder().state().add_both(1, 0);
        Flow::Descend([0, 0])
    }

    fn leave(&mut self, leaving: &mut Leaving<'_, Below>) {
        let (entries, _) = leaving.dir().state().both();
        if let Some(parent) = leaving.dir().parent() {
            parent.state().add_both(entries, 0);
        } else {
            self.seen.fetch_add(1_000_000 * entries, Ordering::Relaxed);
        }
    }
}

#[test]
fn a_chain_is_gone_on_with_at_any_depth() {
    let dir = tempfile::tempdir().unwrap();
    make_chain(dir.path(), 300, &"long".repeat(50));
    let seen = AtomicU64::new(0);
    let mut rest: Option<Vec<u8>> = None;
    for (round, ranks) in (0..).zip([2, 3, 1, 4].into_iter().cycle()) {
        let until = AtomicU64::new(if round < 12 { 40 } else { u64::MAX });
        let (results, _) = together(ranks, |processes| {
            let file = tempfile::tempfile().unwrap();
            let saved = Arc::new(Saved::new(file.try_clone().unwrap()));
            let options = Options {
                workers: 1,
                seed: round,
                saved: Some(Arc::clone(&saved)),
                ..Options::default()
            };
            let make = |_| Deep {
                seen: &seen,
                until: &until,
                saved: Arc::clone(&saved),
            };
            match &rest {
                Some(rest) => processes
                    .go_on(&mut Cursor::new(&rest[..]), &options, make)
                    .unwrap(),
                None => processes
                    .walk(&root_of(dir.path()), &options, make)
                    .unwrap(),
            };
            let rest = collected::<Below>(processes, &saved, file, &options);
            processes.finish(&[], &options.meter).unwrap();
            rest
        });
        rest = results.into_iter().next().unwrap();
        if rest.is_none() {
            assert!(round > 3, "{round} rounds");
            break;
        }
    }
    // The root, and of each level a directory of the chain, one beside it and a link.
    assert_eq!(seen.into_inner(), 901 + 900 * 1_000_000);
    remove(dir.path());
}

/// Files of processes arrive whole, whatever their length, and after all that they have printed.
#[test]
fn files_of_any_length_come_to_the_first_process_after_its_output() {
    let piece = 1 << 20;
    let lengths = [0, 1, piece - 1, piece, 5 * piece + 17];
    let of = |rank: u32| -> Vec<u8> {
        let length = lengths[rank as usize];
        (0..length).map(|at| (at as u32 * 7 + rank) as u8).collect()
    };
    let (_, written) = together(5, |processes| {
        let options = Options {
            workers: 1,
            ..Options::default()
        };
        struct Idle;
        impl Visitor for Idle {
            type Dir = ();
            fn entry(&mut self, _entry: &mut Entry<'_, ()>) -> Flow {
                Flow::Skip
            }
        }
        let output = tempfile::tempfile().unwrap();
        if processes.rank() == 0 {
            processes.redirect(output.try_clone().unwrap());
        }
        for round in 0..2 {
            processes.walk(&[], &options, |_| Idle).unwrap();
            let outputs = processes.outputs();
            (0..40).for_each(|_| outputs.write(vec![b'x'; 100]));
            let mut file = tempfile::tempfile().unwrap();
            if processes.rank() > 0 {
                std::io::Write::write_all(&mut file, &of(processes.rank())).unwrap();
                file.rewind().unwrap();
            }
            let mut next = 1;
            let take = |rank: u32, file: &mut File| -> Result<(), WalkError> {
                assert_eq!(rank, next);
                next += 1;
                let mut bytes = Vec::new();
                file.read_to_end(&mut bytes).unwrap();
                assert!(bytes == of(rank), "what rank {rank} gives");
                Ok(())
            };
            processes.collect(file, &options.meter, take).unwrap();
            if processes.rank() == 0 {
                assert_eq!(next, 5);
                let length = output.metadata().unwrap().len();
                assert_eq!(length, (round + 1) * 5 * 40 * 100);
            }
            let answer = processes.broadcast(b"go on", &options.meter).unwrap();
            assert_eq!(answer, b"go on");
        }
        processes.finish(&[], &options.meter).unwrap();
    });
    assert!(written.is_empty(), "it was redirected");
}

/// Files that are no checkpoint are refused, by several as by one.
#[test]
fn what_is_no_checkpoint_is_refused() {
    for bytes in [&b""[..], b"something else", &[0; 64], &[0xff; 64]] {
        let (results, _) = together(1, |processes| {
            let until = AtomicU64::new(0);
            let make = |_| Deep {
                seen: &until,
                until: &until,
                saved: Arc::new(Saved::new(tempfile::tempfile().unwrap())),
            };
            let options = how(Algorithm::ALL[0], 0, true);
            let ended = processes.go_on(&mut Cursor::new(bytes), &options, make);
            processes.finish(&[], &options.meter).unwrap();
            ended.is_err()
        });
        assert_eq!(results, [true], "{bytes:?}");
    }
}
