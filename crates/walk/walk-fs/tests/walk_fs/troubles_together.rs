//! Failures, links and mounts in real trees when several processes walk; these are threads here.

use crate::common::together::{root_of, together};
use crate::common::{Lister, find, lines};
use pandofs_walk::Algorithm;
use pandofs_walk_fs::{Entry, Flow, Follow, Options, Problem, ProblemKind, Visitor};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Returns how several walk in these tests, by each algorithm.
fn settings() -> impl Iterator<Item = Options> {
    Algorithm::ALL.into_iter().map(|algorithm| Options {
        algorithm,
        workers: if algorithm.shares_queue() { 2 } else { 1 },
        ..Options::default()
    })
}

/// Lists of the threads of all processes, and their problems, both sorted; and entries and what had
/// vanished, as the first process knows it.
type Seen = (Vec<Vec<u8>>, Vec<(Vec<u8>, ProblemKind)>, [u64; 2]);

fn seen(ranks: u32, root: &Path, options: &Options, before: impl Fn() + Sync) -> Seen {
    let (seen, _) = together(ranks, |processes| {
        before();
        // Each process has its own.
        let options = Options {
            meter: std::sync::Arc::default(),
            ..options.clone()
        };
        let walked = processes.walk(&root_of(root), &options, |_| Lister::default());
        let walked = walked.unwrap();
        processes.finish(&[], &options.meter).unwrap();
        let meter = &options.meter;
        (walked.visitors, [meter.entries(), meter.vanished()])
    });
    let counted = seen[0].1;
    let mut visitors: Vec<Lister> = seen.into_iter().flat_map(|it| it.0).collect();
    let problems = visitors.iter_mut();
    let mut problems: Vec<_> = problems
        .flat_map(|it| std::mem::take(&mut it.problems))
        .collect();
    problems.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    (lines(visitors), problems, counted)
}

#[test]
fn links_are_followed_and_one_that_leads_back_is_not() {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..40 {
        let there = dir.path().join(format!("d{number}/inner"));
        std::fs::create_dir_all(&there).unwrap();
        std::fs::write(there.join("file"), vec![0; number]).unwrap();
        if number < 39 {
            // A chain of five, and then of none.
            let next = number + 1;
            if next % 5 > 0 {
                symlink(
                    format!("../d{next}"),
                    dir.path().join(format!("d{number}/next")),
                )
                .unwrap();
            }
            symlink("inner/file", dir.path().join(format!("d{number}/short"))).unwrap();
        }
    }
    let expected = find(&[OsStr::new("-L"), dir.path().as_os_str()]);
    for mut options in settings() {
        options.follow = Follow::Always;
        let (found, problems, counted) = seen(3, dir.path(), &options, || {});
        assert!(found == expected, "{}", options.algorithm);
        assert_eq!((problems, counted), (vec![], [expected.len() as u64, 0]));
    }
    let back = dir.path().join("d7/inner/back");
    symlink("../..", &back).unwrap();
    for mut options in settings() {
        options.follow = Follow::Always;
        let (found, problems, _) = seen(3, dir.path(), &options, || {});
        assert!(
            found == expected,
            "no visitor sees it: {}",
            options.algorithm
        );
        // Through each link to d7 it leads back as well.
        let of_it = problems
            .iter()
            .filter(|it| it.0 == back.as_os_str().as_bytes());
        assert_eq!(of_it.count(), 1, "{}: {problems:?}", options.algorithm);
        assert!(problems.iter().all(|it| it.1 == ProblemKind::Loop));
    }
}

#[test]
fn what_may_not_be_read_is_reported_once() {
    let dir = tempfile::tempdir().unwrap();
    let allow = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let mut shut = Vec::new();
    for number in 0..60 {
        let there = dir.path().join(format!("d{number}"));
        std::fs::create_dir_all(there.join("inner")).unwrap();
        if number % 3 == 0 {
            shut.push(there);
        }
    }
    allow(dir.path(), 0o755);
    for path in &shut {
        allow(path, 0o000);
    }
    let nobody = || {
        // Root may read anything. Threads become the user of the thread that makes them.
        if rustix::process::geteuid().is_root() {
            let nobody = rustix::process::Uid::from_raw(65_534);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        }
    };
    let mut expected: Vec<_> = shut
        .iter()
        .map(|path| {
            let path = path.as_os_str().as_bytes().to_vec();
            (path, ProblemKind::Open(Errno::ACCESS))
        })
        .collect();
    expected.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    for options in settings() {
        let (found, problems, counted) = seen(4, dir.path(), &options, nobody);
        assert_eq!(problems, expected, "{}", options.algorithm);
        assert_eq!((found.len(), counted), (101, [101, 0]));
    }
    for path in &shut {
        allow(path, 0o755);
    }
}

/// Removes directories below the root as they are shown, before anybody can enter them.
struct Remover;

impl Visitor for Remover {
    type Dir = ();

    fn entry(&mut self, entry: &mut Entry<'_, ()>) -> Flow {
        if entry.depth() == 1 {
            std::fs::remove_dir_all(OsStr::from_bytes(entry.path())).unwrap();
        }
        Flow::Descend([0, 0])
    }

    fn problem(&mut self, problem: Problem<'_>) {
        panic!("{:?}", problem.kind);
    }
}

#[test]
fn what_vanishes_is_counted_by_whoever_misses_it() {
    for options in settings() {
        let dir = tempfile::tempdir().unwrap();
        for number in 0..200 {
            std::fs::create_dir_all(dir.path().join(format!("d{number}/inner"))).unwrap();
        }
        let (counted, _) = together(3, |processes| {
            let options = Options {
                meter: std::sync::Arc::default(),
                ..options.clone()
            };
            let walked = processes.walk(&root_of(dir.path()), &options, |_| Remover);
            walked.unwrap();
            processes.finish(&[], &options.meter).unwrap();
            let meter = &options.meter;
            [meter.entries(), meter.vanished(), meter.problems()]
        });
        assert_eq!(counted[0], [201, 200, 0], "{}", options.algorithm);
    }
}

/// Enters /proc only, which is a mount.
struct IntoProc(Vec<Vec<u8>>);

impl Visitor for IntoProc {
    type Dir = ();

    fn entry(&mut self, entry: &mut Entry<'_, ()>) -> Flow {
        if entry.depth() > 0 && entry.path() != b"/proc" {
            return Flow::Skip;
        }
        self.0.push(entry.path().to_vec());
        Flow::Descend([0, 0])
    }
}

#[test]
fn other_file_systems_are_not_entered() {
    for options in settings() {
        for (one_file_system, least, most) in [(true, 2, 60), (false, 100, u64::MAX)] {
            let (seen, _) = together(3, |processes| {
                let options = Options {
                    one_file_system,
                    meter: std::sync::Arc::default(),
                    ..options.clone()
                };
                let walked = processes.walk(&["/".into()], &options, |_| IntoProc(vec![]));
                let visitors = walked.unwrap().visitors;
                processes.finish(&[], &options.meter).unwrap();
                (visitors, options.meter.entries())
            });
            let entries = seen[0].1;
            let visitors = seen.into_iter().flat_map(|it| it.0);
            let mut entered: Vec<_> = visitors.flat_map(|it| it.0).collect();
            entered.sort_unstable();
            assert_eq!(entered, [&b"/"[..], b"/proc"], "{}", options.algorithm);
            assert!((least..most).contains(&entries), "{entries}");
        }
    }
}

/// The first process stands still in the first file that it meets, until the others have seen all
/// other files.
struct Blocked<'b> {
    blocks: bool,
    others: &'b AtomicU64,
    files: u64,
}

impl Visitor for Blocked<'_> {
    type Dir = ();

    fn entry(&mut self, entry: &mut Entry<'_, ()>) -> Flow {
        if entry.depth() == 2 {
            if self.blocks {
                let end = Instant::now() + Duration::from_secs(60);
                while self.others.load(Ordering::SeqCst) < self.files - 1 {
                    assert!(Instant::now() < end, "others wait for a visitor");
                    std::thread::yield_now();
                }
            }
            self.others.fetch_add(1, Ordering::SeqCst);
        }
        Flow::Descend([0, 0])
    }
}

#[test]
fn a_visitor_that_stands_still_keeps_nobody_from_work() {
    let dir = tempfile::tempdir().unwrap();
    let files = 100;
    for number in 0..files {
        let there = dir.path().join(format!("d{number}"));
        std::fs::create_dir(&there).unwrap();
        std::fs::write(there.join("file"), "").unwrap();
    }
    // A master visits nothing.
    let distributed = |it: &Options| !matches!(it.algorithm, Algorithm::Cp { .. });
    for mut options in settings().filter(distributed) {
        options.workers = 1;
        let others = AtomicU64::new(0);
        together(3, |processes| {
            let options = Options {
                meter: std::sync::Arc::default(),
                ..options.clone()
            };
            let blocks = processes.rank() == 0;
            let make = |_| Blocked {
                blocks,
                others: &others,
                files,
            };
            processes
                .walk(&root_of(dir.path()), &options, make)
                .unwrap();
            processes.finish(&[], &options.meter).unwrap();
        });
        assert_eq!(others.into_inner(), files, "{}", options.algorithm);
    }
}
