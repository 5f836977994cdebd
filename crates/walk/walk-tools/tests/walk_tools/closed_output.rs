//! Tools whose output is not read, or cannot be written.

use crate::common::{ours, run_in, stderr};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs a tool whose standard output is a pipe without a reader, or a full disk.
fn unheard(dir: &Path, arguments: &[&str], is_full: bool) -> Output {
    let stdout: Stdio = if is_full {
        File::options()
            .write(true)
            .open("/dev/full")
            .unwrap()
            .into()
    } else {
        let (_, write) = std::io::pipe().unwrap();
        write.into()
    };
    Command::new(env!("CARGO_BIN_EXE_pandofs-walk"))
        .args(arguments)
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(stdout)
        .output()
        .unwrap()
}

/// More names than are written at once: some in a tree, some that its copy has besides.
fn make(dir: &Path) {
    for number in 0..1_000 {
        let below = dir.join(format!("tree/d{}", number % 10));
        std::fs::create_dir_all(&below).unwrap();
        std::fs::write(below.join(format!("{number:0100}")), "new").unwrap();
    }
    std::fs::create_dir_all(dir.join("copy/old")).unwrap();
    for number in 0..300 {
        std::fs::write(dir.join(format!("copy/old/{number:0100}")), "old").unwrap();
    }
}

fn is_same(dir: &Path, one: &str, other: &str) -> bool {
    run_in(dir, "diff", &["-r", one, other]).status.success()
}

/// Files of a tree that have these permissions.
fn with_mode(dir: &Path, tree: &str, mode: &str) -> usize {
    let found = run_in(dir, "find", &[tree, "-type", "f", "-perm", mode]);
    assert!(found.status.success(), "{}", stderr(&found));
    found.stdout.iter().filter(|byte| **byte == b'\n').count()
}

type Check = fn(&Path) -> bool;

#[test]
fn what_changes_something_does_all_of_it_though_nobody_reads_what_it_prints() {
    let cases: [(&[&str], Check); 8] = [
        (&["cp", "-v", "-T", "tree", "new"], |dir| {
            is_same(dir, "tree", "new")
        }),
        (&["sync", "-v", "--delete", "tree", "copy"], |dir| {
            is_same(dir, "tree", "copy")
        }),
        (&["chmod", "-v", "600", "tree"], |dir| {
            with_mode(dir, "tree", "600") == 1_000
        }),
        (&["rm", "-rv", "tree"], |dir| !dir.join("tree").exists()),
        (&["tar", "-cvf", "new.tar", "tree"], |dir| {
            std::fs::create_dir(dir.join("out")).unwrap();
            let unpacked = run_in(dir, "tar", &["-xf", "new.tar", "-C", "out"]);
            unpacked.status.success() && is_same(dir, "tree", "out/tree")
        }),
        (&["tar", "-xvf", "a.tar", "-C", "to"], |dir| {
            is_same(dir, "tree", "to/tree")
        }),
        (
            &["find", "tree", "-print", "-type", "f", "-delete"],
            |dir| {
                run_in(dir, "find", &["tree", "-type", "f"])
                    .stdout
                    .is_empty()
            },
        ),
        (&["find", "tree", "-print", "-fprint", "list"], |dir| {
            let list = std::fs::read_to_string(dir.join("list")).unwrap();
            list.lines().count() == 1_011
        }),
    ];
    for (arguments, is_done) in cases {
        for is_full in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let dir = dir.path();
            make(dir);
            std::fs::create_dir(dir.join("to")).unwrap();
            let packed = run_in(dir, "tar", &["-cf", "a.tar", "tree"]);
            assert!(packed.status.success(), "{}", stderr(&packed));
            let output = unheard(dir, arguments, is_full);
            let said = stderr(&output);
            assert!(is_done(dir), "{arguments:?}: not all was done: {said}");
            let code = match (is_full, arguments[0]) {
                (false, _) => 0,
                (true, "tar") => 2,
                (true, _) => 1,
            };
            assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
            assert_eq!(said.contains("No space left"), is_full, "{said}");
        }
    }
}

#[test]
fn what_only_lists_ends_when_nobody_reads_it() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    make(dir);
    for arguments in [
        &["find", "tree"][..],
        &["du", "-a", "tree"],
        &["rm", "-r", "--dry-run", "tree"],
        &["cp", "--dry-run", "-T", "tree", "new"],
        &["walk", "--list", "json", "tree"],
        &["walk", "--list", "parquet", "tree"],
        // Too little for more than one write, at the end.
        &["walk", "--list", "parquet", "tree/d0"],
    ] {
        let output = unheard(dir, arguments, false);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert_eq!(stderr(&output), "", "{arguments:?}");
        let output = unheard(dir, arguments, true);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    }
    assert!(!dir.join("new").exists());
    assert_eq!(with_mode(dir, "tree", "/777"), 1_000);
    // A reader that has seen enough.
    let mut child = Command::new(env!("CARGO_BIN_EXE_pandofs-walk"))
        .args(["cp", "-v", "-T", "tree", "new"])
        .current_dir(dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0];
    let mut read = child.stdout.take().unwrap();
    read.read_exact(&mut first).unwrap();
    drop(read);
    assert!(child.wait().unwrap().success());
    assert!(is_same(dir, "tree", "new"));
    let output = ours(dir, &["cmp", "tree", "new"]);
    assert!(output.status.success(), "{}", stderr(&output));
}
