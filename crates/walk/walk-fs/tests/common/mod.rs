//! Trees to walk, and GNU find to compare with.
#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod together;

use pandofs_walk::{Algorithm, Rng};
use pandofs_walk_fs::{Entry, FileType, Flow, Options, Problem, ProblemKind, Visitor};
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat, symlinkat};
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

/// Names that break what was not made for them.
const NAMES: [&[u8]; 8] = [
    b"plain",
    b"with space",
    b"new\nline",
    b"\xff\xfe not UTF-8",
    b"-name",
    b"tab\tand\\backslash",
    "gr\u{fc}n".as_bytes(),
    b"*?[x]",
];

/// Makes a tree with this many directories, and some files, links and fifos.
pub(crate) fn make_tree(root: &Path, directories: usize, seed: u64) {
    let mut rng = Rng::new(seed);
    let mut made = vec![root.to_path_buf()];
    for number in 0..directories {
        let parent = &made[rng.below(made.len() as u64) as usize];
        let mut name = NAMES[rng.below(8) as usize].to_vec();
        name.extend_from_slice(format!("{number}").as_bytes());
        let dir = parent.join(OsStr::from_bytes(&name));
        std::fs::create_dir(&dir).unwrap();
        for file in 0..rng.below(12) {
            let mut name = NAMES[rng.below(8) as usize].to_vec();
            name.extend_from_slice(format!("_{file}").as_bytes());
            let path = dir.join(OsStr::from_bytes(&name));
            match rng.below(8) {
                0 => std::os::unix::fs::symlink("..", &path).unwrap(),
                1 => std::os::unix::fs::symlink("nowhere", &path).unwrap(),
                2 => rustix::fs::mkfifoat(CWD, &path, Mode::RUSR).unwrap(),
                size => std::fs::write(&path, vec![b'x'; size as usize * 1_000]).unwrap(),
            }
        }
        made.push(dir);
    }
}

/// A chain of directories whose path is longer than any call takes; in each a file and a directory
/// that is not on the chain.
pub(crate) fn make_chain(root: &Path, levels: usize, name: &str) {
    let mut at = openat(CWD, root, OFlags::DIRECTORY, Mode::empty()).unwrap();
    let name = CString::new(name).unwrap();
    for _ in 0..levels {
        mkdirat(&at, &*name, Mode::RWXU).unwrap();
        mkdirat(&at, c"beside", Mode::RWXU).unwrap();
        symlinkat(c"x", &at, c"link").unwrap();
        at = openat(&at, &*name, OFlags::DIRECTORY, Mode::empty()).unwrap();
    }
}

/// Removes what `remove_dir_all` of the standard library would take one file descriptor a level
/// for.
pub(crate) fn remove(root: &Path) {
    let status = Command::new("rm").arg("-rf").arg(root).status().unwrap();
    assert!(status.success());
}

/// Returns what GNU find prints for each entry, sorted.
pub(crate) fn find(arguments: &[&OsStr]) -> Vec<Vec<u8>> {
    let output = Command::new("find")
        .args(arguments)
        .args(["-printf", "%d %y %s %i %p\\0"])
        .output()
        .unwrap();
    let mut lines: Vec<Vec<u8>> = output
        .stdout
        .split(|byte| *byte == 0)
        .map(<[u8]>::to_vec)
        .collect();
    assert_eq!(lines.pop(), Some(vec![]));
    lines.sort_unstable();
    lines
}

/// A visitor that writes the same.
#[derive(Default)]
pub(crate) struct Lister {
    pub lines: Vec<Vec<u8>>,
    pub problems: Vec<(Vec<u8>, ProblemKind)>,
}

impl Visitor for Lister {
    type Dir = ();

    fn entry(&mut self, entry: &mut Entry<'_, ()>) -> Flow {
        let kind = match entry.kind() {
            FileType::Directory => "d",
            FileType::RegularFile => "f",
            FileType::Symlink => "l",
            FileType::Fifo => "p",
            FileType::Socket => "s",
            FileType::CharacterDevice => "c",
            FileType::BlockDevice => "b",
            FileType::Unknown => "U",
        };
        let depth = entry.depth();
        if let Ok(stat) = entry.stat() {
            let head = format!("{depth} {kind} {} {} ", stat.size(), stat.ino());
            self.lines.push([head.as_bytes(), entry.path()].concat());
        }
        Flow::Descend([0, 0])
    }

    fn problem(&mut self, problem: Problem<'_>) {
        self.problems.push((problem.path.to_vec(), problem.kind));
    }
}

/// All that the threads have listed, sorted.
pub(crate) fn lines(visitors: Vec<Lister>) -> Vec<Vec<u8>> {
    let mut lines: Vec<Vec<u8>> = visitors.into_iter().flat_map(|it| it.lines).collect();
    lines.sort_unstable();
    lines
}

/// Each algorithm with some numbers of ranks and threads.
pub(crate) fn settings() -> Vec<Options> {
    let mut all = Vec::new();
    for algorithm in Algorithm::ALL {
        for ranks in [1, 2, 5] {
            let workers = if algorithm.shares_queue() { 3 } else { 1 };
            all.push(Options {
                algorithm,
                ranks,
                workers,
                seed: u64::from(ranks),
                ..Options::default()
            });
        }
    }
    all
}
