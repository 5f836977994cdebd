//! Lists of digests that are compared with what is there.

use crate::common::{ours, ours_by_permissions, run_in, stderr, tree};
use std::os::unix::fs::PermissionsExt;
use std::process::Output;

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn what_is_not_as_it_was_is_told() {
    let (dir, tree) = tree();
    let sums = ours(dir.path(), &["sum", "--files", "tree"]);
    std::fs::write(dir.path().join("sums"), &sums.stdout).unwrap();
    let check = || ours(dir.path(), &["sum", "--check", "sums"]);
    let same = check();
    assert_eq!(
        (stderr(&same), same.status.code()),
        (String::new(), Some(0))
    );
    let lines = text(&same).lines().count();
    assert_eq!(lines, text(&sums).lines().count());
    assert_eq!(text(&same).matches(": OK\n").count(), lines);

    // A byte of one, one that is gone, one that is a directory now; and with them the tree's.
    let deeper = tree.join("d2/e2/deeper");
    std::fs::write(deeper.join("-dash"), "y").unwrap();
    std::fs::remove_file(deeper.join("star*[x].rs")).unwrap();
    std::fs::remove_file(tree.join("d1/f7")).unwrap();
    std::fs::create_dir(tree.join("d1/f7")).unwrap();
    let differs = check();
    assert_eq!(differs.status.code(), Some(1));
    let told = text(&differs);
    for line in [
        "tree/d2/e2/deeper/-dash: FAILED\n",
        "tree/d2/e2/deeper/star*[x].rs: FAILED: cannot be read\n",
        "tree/d1/f7: FAILED\n",
        "tree: FAILED",
    ] {
        assert!(told.contains(line), "{line}: {told}");
    }
    assert_eq!(told.matches(": OK\n").count(), lines - 4);
    assert!(
        stderr(&differs).contains("star*[x].rs"),
        "{}",
        stderr(&differs)
    );
}

#[test]
fn a_tree_without_a_file_differs_and_can_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::create_dir(dir.join("t")).unwrap();
    for name in ["a", "b", "c"] {
        std::fs::write(dir.join("t").join(name), name).unwrap();
    }
    let sums = ours(dir, &["sum", "--files", "t"]);
    std::fs::write(dir.join("sums"), &sums.stdout).unwrap();
    std::fs::remove_file(dir.join("t/a")).unwrap();
    let check = ours(dir, &["sum", "--check", "sums"]);
    assert_eq!(check.status.code(), Some(1));
    let told = "t: FAILED\nt/a: FAILED: cannot be read\nt/b: OK\nt/c: OK\n";
    assert_eq!(text(&check), told);
    let warned = "pandofs sum: WARNING: 1 listed path could not be read\n\
                  pandofs sum: WARNING: 1 computed digest did NOT match\n";
    assert!(stderr(&check).ends_with(warned), "{}", stderr(&check));
    // From standard input it is the same.
    let line = "exec \"$0\" sum --check - <sums";
    let program = env!("CARGO_BIN_EXE_pandofs-walk");
    let piped = run_in(dir, "sh", &["-c", line, program]);
    assert_eq!(
        (text(&piped), piped.status.code()),
        (told.to_owned(), Some(1))
    );
}

#[test]
fn more_than_there_was_is_seen_in_the_digest_of_the_tree() {
    let (dir, tree) = tree();
    let sum = ours(dir.path(), &["sum", "tree/d2", "tree/d3"]);
    std::fs::write(dir.path().join("sums"), &sum.stdout).unwrap();
    std::fs::write(tree.join("d2/new"), "").unwrap();
    let checked = ours(dir.path(), &["sum", "--check", "sums"]);
    assert_eq!(checked.status.code(), Some(1));
    assert_eq!(text(&checked), "tree/d2: FAILED\ntree/d3: OK\n");
}

#[test]
fn no_root_has_a_digest_of_which_something_is_missing() {
    let (dir, tree) = tree();
    let closed = tree.join("d2/e2/deeper/plain.c");
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o000)).unwrap();
    let roots = [
        "sum",
        "tree",
        "tree/d2",
        "tree/d3",
        "tree/d2/e2",
        "tree/d2/e3",
    ];
    let sum = ours_by_permissions(dir.path(), &roots);
    assert_eq!(sum.status.code(), Some(1));
    let told = text(&sum);
    let told: Vec<&str> = told.lines().map(|line| &line[66..]).collect();
    assert_eq!(told, ["tree/d3", "tree/d2/e3"], "{}", stderr(&sum));
}

#[test]
fn lists_that_are_none_are_refused() {
    let (dir, _) = tree();
    let digest = "0".repeat(64);
    for (list, why) in [
        (String::new(), "no digests"),
        (format!("{digest}  tree/d0/fifo\nnonsense\n"), "line 2"),
        (format!("{}  tree\n", &digest[1..]), "line 1"),
        (format!("{digest} tree\n"), "line 1"),
        (format!("{digest}  \n"), "line 1"),
        (format!("\\{digest}  a\\q\n"), "line 1"),
    ] {
        std::fs::write(dir.path().join("sums"), &list).unwrap();
        let refused = ours(dir.path(), &["sum", "--check", "sums"]);
        assert_eq!(refused.status.code(), Some(1), "{list:?}");
        assert!(
            stderr(&refused).contains(why),
            "{list:?}: {}",
            stderr(&refused)
        );
        assert!(refused.stdout.is_empty());
    }
    let missing = ours(dir.path(), &["sum", "--check", "nowhere"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(stderr(&missing).contains("nowhere"));
}
