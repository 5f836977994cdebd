//! What is removed, and what is not.

#![allow(clippy::unwrap_used)]

mod common;

use common::{ALGORITHMS, make_tree, ours, sorted, stderr, tree};
use std::collections::HashSet;

#[test]
fn trees_are_removed_with_every_algorithm() {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    for algorithm in ALGORITHMS {
        make_tree(&tree);
        std::fs::write(dir.path().join("file"), "").unwrap();
        std::os::unix::fs::symlink("/usr", dir.path().join("link")).unwrap();
        let how = ["rm", "--algorithm", algorithm, "--threads", "3"];
        let output = ours(dir.path(), &[&how[..], &["tree", "file", "link"]].concat());
        assert_eq!(
            (stderr(&output), output.status.code()),
            (String::new(), Some(0))
        );
        assert_eq!(
            std::fs::read_dir(dir.path()).unwrap().count(),
            0,
            "{algorithm}"
        );
    }
    assert!(std::path::Path::new("/usr/bin").exists());
}

#[test]
fn a_dry_run_tells_everything_and_removes_nothing() {
    let (dir, tree) = tree();
    let all = sorted(
        &ours(dir.path(), &["walk", "--list", "text", "tree"]),
        b'\n',
    );
    let output = ours(dir.path(), &["rm", "--dry-run", "--threads", "1", "tree"]);
    assert_eq!(sorted(&output, b'\n'), all);
    assert!(tree.join("d0/e0/deeper/plain.c").exists());
    // From the bottom up.
    let mut gone = HashSet::new();
    for line in output.stdout.split(|byte| *byte == b'\n') {
        let line = String::from_utf8(line.to_vec()).unwrap();
        if let Some((above, _)) = line.rsplit_once('/') {
            assert!(!gone.contains(above), "{above} before {line}");
        }
        gone.insert(line);
    }
    let verbose = ours(dir.path(), &["rm", "-v", "tree"]);
    assert_eq!(sorted(&verbose, b'\n'), all);
    assert!(!tree.exists());
}

#[test]
fn what_must_not_go_is_refused_before_anything_goes() {
    let (dir, tree) = tree();
    for root in [
        "/",
        "//",
        ".",
        "..",
        "tree/.",
        "tree/d0/..",
        "/proc/self/root/",
    ] {
        let output = ours(dir.path(), &["rm", "-f", "tree", root]);
        assert_eq!(output.status.code(), Some(1), "{root}");
        assert!(
            stderr(&output).contains("refusing"),
            "{root}: {}",
            stderr(&output)
        );
        assert!(tree.exists());
    }
}

#[test]
fn missing_roots_matter_unless_forced() {
    let (dir, tree) = tree();
    let output = ours(dir.path(), &["rm", "missing"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("missing"));
    let output = ours(dir.path(), &["rm", "-f", "missing"]);
    assert_eq!(
        (stderr(&output), output.status.code()),
        (String::new(), Some(0))
    );
    let output = ours(dir.path(), &["rm", "missing", "tree"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(!tree.exists());
}

/// Only where the test may mount.
#[test]
fn a_mount_point_stays_and_so_does_what_it_is_in() {
    let (dir, tree) = tree();
    let mount = tree.join("d0/e0/deeper/empty");
    let script = format!(
        "mount -t tmpfs none '{}' && touch '{0}/inside' && '{}' rm tree; echo $?; ls -d '{0}/inside'",
        mount.display(),
        env!("CARGO_BIN_EXE_pandofs-walk"),
    );
    let output = common::run_in(dir.path(), "unshare", &["-m", "sh", "-c", &script]);
    if stderr(&output).contains("not permitted") || stderr(&output).contains("permission denied") {
        return;
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let expected = format!("1\n{}/inside\n", mount.display());
    assert_eq!(text, expected, "{}", stderr(&output));
    assert!(stderr(&output).contains("mounted"), "{}", stderr(&output));
    let left = sorted(
        &ours(dir.path(), &["walk", "--list", "text", "tree"]),
        b'\n',
    );
    let expected = [
        "tree",
        "tree/d0",
        "tree/d0/e0",
        "tree/d0/e0/deeper",
        "tree/d0/e0/deeper/empty",
    ];
    assert_eq!(left, expected.map(|it| it.as_bytes().to_vec()));
}
