//! Failures in real trees, and the ends of walks.

use crate::common::{Lister, lines, make_tree, settings};
use pandofs_walk_fs::{
    DirState, Entry, Flow, Follow, Leaving, Options, ProblemKind, Visitor, WalkError, walk,
};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

fn problems(root: &Path, options: &Options) -> Vec<(OsString, ProblemKind)> {
    let walked = walk(&[root.into()], options, |_| Lister::default()).unwrap();
    let problems: Vec<_> = walked
        .visitors
        .into_iter()
        .flat_map(|it| it.problems)
        .map(|(path, kind)| (OsString::from_vec(path), kind))
        .collect();
    assert_eq!(options.meter.problems(), problems.len() as u64);
    problems
}

#[test]
fn a_missing_root_is_a_problem_and_others_are_walked() {
    let dir = tempfile::tempdir().unwrap();
    make_tree(dir.path(), 10, 1);
    for options in settings() {
        let missing = dir.path().join("missing");
        let roots = [missing.clone().into(), dir.path().into()];
        let walked = walk(&roots, &options, |_| Lister::default()).unwrap();
        assert_eq!(options.meter.problems(), 1);
        let problems: Vec<_> = walked.visitors.iter().flat_map(|it| &it.problems).collect();
        assert_eq!(problems[0].0, missing.as_os_str().as_bytes());
        assert_eq!(problems[0].1, ProblemKind::Stat(rustix::io::Errno::NOENT));
        assert!(lines(walked.visitors).len() > 10);
    }
}

/// Walks in a thread of the user `nobody`, as root may read anything.
#[test]
fn an_unreadable_directory_is_a_problem_and_others_are_walked() {
    let dir = tempfile::tempdir().unwrap();
    let shut = dir.path().join("shut");
    std::fs::create_dir_all(shut.join("inner")).unwrap();
    std::fs::create_dir(dir.path().join("other")).unwrap();
    let allow = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    allow(dir.path(), 0o755);
    allow(&shut, 0o000);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            if rustix::process::geteuid().is_root() {
                let nobody = rustix::process::Uid::from_raw(65_534);
                rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            }
            let options = Options::default();
            let kind = ProblemKind::Open(rustix::io::Errno::ACCESS);
            assert_eq!(
                problems(dir.path(), &options),
                [(shut.clone().into_os_string(), kind)]
            );
            assert_eq!(options.meter.entries(), 3);
        });
    });
    allow(&shut, 0o755);
}

/// Removes, or replaces by a link, what it is shown, just before it is entered.
struct Spoiler {
    replace: bool,
    problems: Vec<ProblemKind>,
}

impl Visitor for Spoiler {
    type Dir = ();

    fn entry(&mut self, entry: &mut Entry<'_, ()>) -> Flow {
        if entry.depth() == 1 {
            let path = Path::new(std::ffi::OsStr::from_bytes(entry.path())).to_path_buf();
            std::fs::remove_dir_all(&path).unwrap();
            if self.replace {
                std::os::unix::fs::symlink("/", &path).unwrap();
            }
        }
        Flow::Descend([0, 0])
    }

    fn problem(&mut self, problem: pandofs_walk_fs::Problem<'_>) {
        self.problems.push(problem.kind);
    }
}

#[test]
fn what_vanishes_is_counted_and_what_is_replaced_is_not_entered() {
    for replace in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            std::fs::create_dir_all(dir.path().join(name).join("deep")).unwrap();
        }
        let options = Options::default();
        let walked = walk(&[dir.path().into()], &options, |_| Spoiler {
            replace,
            problems: vec![],
        })
        .unwrap();
        assert_eq!(options.meter.entries(), 4);
        let problems: Vec<_> = walked
            .visitors
            .into_iter()
            .flat_map(|it| it.problems)
            .collect();
        let errno = rustix::io::Errno::NOTDIR;
        if replace {
            assert_eq!(problems, [ProblemKind::Open(errno); 3]);
        } else {
            assert_eq!(problems, []);
            assert_eq!(options.meter.vanished(), 3);
        }
    }
}

#[test]
fn a_link_that_leads_back_is_not_followed_around() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
    std::os::unix::fs::symlink("../..", dir.path().join("a/b/back")).unwrap();
    for mut options in settings() {
        options.follow = Follow::Always;
        let back = dir.path().join("a/b/back").into_os_string();
        assert_eq!(problems(dir.path(), &options), [(back, ProblemKind::Loop)]);
        assert_eq!(options.meter.entries(), 3, "it is not seen");
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
        if entry.depth() == 1 {
            assert!(entry.is_elsewhere());
        }
        Flow::Descend([0, 0])
    }
}

#[test]
fn another_file_system_is_shown_and_not_entered() {
    for (one_file_system, least, most) in [(true, 2, 60), (false, 100, u64::MAX)] {
        let options = Options {
            one_file_system,
            ..Options::default()
        };
        let walked = walk(&["/".into()], &options, |_| IntoProc(vec![])).unwrap();
        let mut entered: Vec<_> = walked.visitors.into_iter().flat_map(|it| it.0).collect();
        entered.sort_unstable();
        assert_eq!(entered, [&b"/"[..], b"/proc"]);
        assert!(
            (least..most).contains(&options.meter.entries()),
            "{}",
            options.meter.entries()
        );
    }
}

/// Counts what is below a directory, in the directory.
#[derive(Debug)]
struct Below(AtomicU64, u64);

impl DirState for Below {
    fn new(seed: [u64; 2]) -> Below {
        Below(AtomicU64::new(0), seed[1])
    }
}

struct Counter {
    left: Vec<(u32, u64)>,
}

impl Visitor for Counter {
    type Dir = Below;

    fn entry(&mut self, entry: &mut Entry<'_, Below>) -> Flow {
        if let Some(dir) = entry.dir() {
            dir.state().0.fetch_add(1, Ordering::Relaxed);
        }
        Flow::Descend([0, u64::from(entry.depth())])
    }

    fn leave(&mut self, leaving: &mut Leaving<'_, Below>) {
        let dir = leaving.dir();
        let below = dir.state().0.load(Ordering::Relaxed);
        assert_eq!(
            dir.state().1,
            u64::from(dir.depth()),
            "the seed came with it"
        );
        self.left.push((dir.depth(), below));
        if let Some(parent) = dir.parent() {
            parent.state().0.fetch_add(below, Ordering::Relaxed);
        }
        let name = leaving.in_parent(|above, name| {
            rustix::fs::statat(above, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
        });
        assert!(name.unwrap().is_ok());
    }
}

#[test]
fn directories_are_left_once_and_after_all_in_them() {
    let dir = tempfile::tempdir().unwrap();
    make_tree(dir.path(), 200, 6);
    for mut options in settings() {
        options.spill_above = 20;
        options.spill_chunk = 10;
        options.open_directories = 4;
        let walked = walk(&[dir.path().into()], &options, |_| Counter { left: vec![] }).unwrap();
        let left: Vec<_> = walked.visitors.into_iter().flat_map(|it| it.left).collect();
        assert_eq!(left.len(), 201);
        let root: Vec<_> = left.iter().filter(|(depth, _)| *depth == 0).collect();
        assert_eq!(root, [&(0, options.meter.entries() - 1)]);
    }
}

/// The first thread to be shown anything waits until another one was, too.
struct Sharer<'s>(&'s AtomicU64, bool);

impl Visitor for Sharer<'_> {
    type Dir = ();

    fn entry(&mut self, entry: &mut Entry<'_, ()>) -> Flow {
        if entry.depth() == 1 && !self.1 {
            self.1 = true;
            self.0.fetch_add(1, Ordering::SeqCst);
        }
        let deadline = Instant::now() + Duration::from_secs(20);
        // After a while: parts are cut off between entries.
        while entry.name() == c"f9999" && self.0.load(Ordering::SeqCst) < 2 {
            assert!(Instant::now() < deadline, "one thread had all");
            std::thread::yield_now();
        }
        Flow::Descend([0, 0])
    }
}

#[test]
fn one_large_directory_is_shared() {
    let dir = tempfile::tempdir().unwrap();
    for file in 0..10_000 {
        std::fs::write(dir.path().join(format!("f{file:04}")), "").unwrap();
    }
    for mut options in settings() {
        if options.ranks == 1 && !options.algorithm.shares_queue() {
            continue;
        }
        // A master does not visit.
        options.ranks = options.ranks.max(3);
        let seen = AtomicU64::new(0);
        walk(&[dir.path().into()], &options, |_| Sharer(&seen, false)).unwrap();
        assert!(seen.into_inner() >= 2);
        assert_eq!(options.meter.entries(), 10_001);
    }
}

struct Quitter;

impl Visitor for Quitter {
    type Dir = ();

    fn entry(&mut self, entry: &mut Entry<'_, ()>) -> Flow {
        if entry.depth() == 2 {
            return Flow::Quit;
        }
        Flow::Descend([0, 0])
    }

    fn leave(&mut self, leaving: &mut Leaving<'_, ()>) {
        assert_ne!(leaving.dir().depth(), 0, "the root is not done");
    }
}

#[test]
fn a_visitor_ends_the_walk() {
    let dir = tempfile::tempdir().unwrap();
    make_tree(dir.path(), 200, 6);
    for options in settings() {
        walk(&[dir.path().into()], &options, |_| Quitter).unwrap();
        assert!(options.meter.is_stopped());
    }
}

struct Panics;

impl Visitor for Panics {
    type Dir = ();

    fn entry(&mut self, entry: &mut Entry<'_, ()>) -> Flow {
        assert!(entry.depth() < 2, "as the test wants it");
        Flow::Descend([0, 0])
    }
}

#[test]
fn a_visitor_that_panics_ends_it_for_all() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
    for options in settings() {
        let outcome = std::panic::catch_unwind(|| {
            walk(&[dir.path().into()], &options, |_| Panics).map(|_| ())
        });
        assert!(outcome.is_err(), "{}", options.algorithm);
    }
}

#[test]
fn no_place_to_spill_is_an_error_for_all() {
    let dir = tempfile::tempdir().unwrap();
    for name in 0..200 {
        std::fs::create_dir(dir.path().join(format!("{name}"))).unwrap();
    }
    for mut options in settings() {
        options.spill_above = 4;
        options.spill_chunk = 4;
        options.spill_directory = dir.path().join("missing");
        let outcome = walk(&[dir.path().into()], &options, |_| Lister::default());
        assert!(
            matches!(outcome, Err(WalkError::Spill(_))),
            "{} x {}",
            options.algorithm,
            options.ranks
        );
    }
}
