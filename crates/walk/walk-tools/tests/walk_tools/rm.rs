//! Removal: what goes, and what stays.

use crate::common;

use common::{ALGORITHMS, make_tree, ours, run_in, sorted, stderr, tree};
use std::collections::HashSet;

#[test]
fn trees_are_removed_with_every_algorithm() {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    for algorithm in ALGORITHMS {
        make_tree(&tree);
        std::fs::write(dir.path().join("file"), "").unwrap();
        std::os::unix::fs::symlink("/usr", dir.path().join("link")).unwrap();
        let how = ["rm", "-r", "--algorithm", algorithm, "--threads", "3"];
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
    let output = ours(
        dir.path(),
        &["rm", "-r", "--dry-run", "--threads", "1", "tree"],
    );
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
    let verbose = ours(dir.path(), &["rm", "-rv", "tree"]);
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
        let output = ours(dir.path(), &["rm", "-rf", "tree", root]);
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
    for gone in ["missing", "tree/d0/e0/deeper/plain.c/missing"] {
        let output = ours(dir.path(), &["rm", "-f", gone]);
        assert_eq!(
            (stderr(&output), output.status.code()),
            (String::new(), Some(0))
        );
    }
    let output = ours(dir.path(), &["rm", "-r", "missing", "tree"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(!tree.exists());
}

/// `rm` with these answers.
fn answered(dir: &std::path::Path, answers: &str, words: &str) -> std::process::Output {
    let program = env!("CARGO_BIN_EXE_pandofs-walk");
    let line = format!("printf '{answers}' | {program} rm -r {words}");
    run_in(dir, "sh", &["-c", &line])
}

#[test]
fn it_asks_before_it_removes() {
    let dir = tempfile::tempdir().unwrap();
    let make = || {
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        std::fs::write(dir.path().join("a/b/c"), "").unwrap();
    };
    // Each with the question at which no comes, and what is left then.
    for (answers, left) in [
        ("n\\n", "a/b/c"),
        ("y\\nn\\n", "a/b/c"),
        ("y\\ny\\nn\\n", "a/b/c"),
        ("y\\ny\\ny\\nn\\n", "a/b"),
        ("y\\ny\\ny\\ny\\nno\\n", "a"),
        ("y\\nYes\\n", "a/b/c"),
    ] {
        make();
        let output = answered(dir.path(), answers, "-i a");
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(dir.path().join(left).exists(), "{answers}");
        let below = std::fs::read_dir(dir.path().join(left));
        assert!(below.map_or(0, Iterator::count) == 0, "{answers}");
    }
    make();
    let output = answered(dir.path(), "y\\ny\\ny\\ny\\ny\\n", "-i a");
    assert!(!dir.path().join("a").exists());
    assert_eq!(
        stderr(&output).matches("? ").count(),
        5,
        "{}",
        stderr(&output)
    );

    make();
    answered(dir.path(), "n\\n", "-I a");
    assert!(dir.path().join("a/b/c").exists());
    let once = answered(dir.path(), "y\\n", "-f -I a");
    assert!(!dir.path().join("a").exists());
    assert_eq!(stderr(&once).matches("? ").count(), 1);
    make();
    // The last of them counts.
    let forced = answered(dir.path(), "", "-i -f a");
    assert_eq!(
        (stderr(&forced), dir.path().join("a").exists()),
        (String::new(), false)
    );
}

#[test]
fn directories_go_only_if_that_is_wanted() {
    let (dir, tree) = tree();
    std::fs::write(dir.path().join("file"), "").unwrap();
    for words in [&["rm"][..], &["rm", "-f"], &["rm", "--dry-run"]] {
        let output = ours(dir.path(), &[words, &["tree"]].concat());
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        assert!(
            stderr(&output).contains("tree: it is a directory"),
            "{words:?}: {}",
            stderr(&output)
        );
        assert_eq!(output.stdout, b"");
    }
    assert!(tree.join("d0/e0/deeper/plain.c").exists());
    // Others are removed nevertheless.
    let output = ours(dir.path(), &["rm", "tree", "file"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(tree.exists() && !dir.path().join("file").exists());
}

#[test]
fn of_directories_only_empty_ones_if_wanted() {
    let (dir, tree) = tree();
    let full = ours(dir.path(), &["rm", "-d", "tree/d0"]);
    assert_eq!(full.status.code(), Some(1));
    assert!(stderr(&full).contains("not empty"), "{}", stderr(&full));
    let planned = ours(dir.path(), &["rm", "-d", "--dry-run", "tree/d0"]);
    assert_eq!(planned.status.code(), Some(1));
    assert!(tree.join("d0/e0/deeper/plain.c").exists());
    let some = [
        "rm",
        "-dv",
        "tree/d0/e0/deeper/empty",
        "tree/d0/e0/deeper/plain.c",
    ];
    assert_eq!(sorted(&ours(dir.path(), &some), b'\n').len(), 2);
    assert!(!tree.join("d0/e0/deeper/empty").exists());
    let all = ours(
        dir.path(),
        &["rm", "-rd", "--one-file-system", "--preserve-root", "tree"],
    );
    assert_eq!((stderr(&all), tree.exists()), (String::new(), false));
    let both = ours(
        dir.path(),
        &["rm", "-r", "--one-file-system", "--cross-mounts", "tree"],
    );
    assert_eq!(both.status.code(), Some(2));
}

/// Only where the test may mount.
#[test]
fn a_mount_point_stays_and_so_does_what_it_is_in() {
    let (dir, tree) = tree();
    let mount = tree.join("d0/e0/deeper/empty");
    let script = format!(
        "mount -t tmpfs none '{}' && touch '{0}/inside' && '{}' rm -r tree; echo $?; ls -d '{0}/inside'",
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

#[test]
fn nothing_to_remove_is_no_failure_if_forced() {
    let dir = tempfile::tempdir().unwrap();
    for (words, code) in [(&["-f"][..], 0), (&["-rf"], 0), (&[], 2), (&["-r"], 2)] {
        let output = ours(dir.path(), &[&["rm"], words].concat());
        assert_eq!(output.status.code(), Some(code), "{words:?}");
        assert_eq!(stderr(&output).is_empty(), code == 0, "{words:?}");
    }
}
