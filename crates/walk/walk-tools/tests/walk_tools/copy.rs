//! Tests of cp, sync, cmp, sum, chmod and tar on ordinary trees, and of their messages.

use crate::common;

use common::{ALGORITHMS, killed, ours, ours_by_permissions, run_in, sorted, stderr, tree};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Output;

/// Returns the attributes of each entry that any user may set, as GNU find prints them.
fn listed(dir: &Path, root: &str) -> Vec<Vec<u8>> {
    // The room of a directory on disk depends on what was in it before.
    let (directory, other) = ("%P %y %m %U %G %T@\\0", "%P %y %s %m %n %U %G %T@ %l\\0");
    let directories = [root, "-type", "d", "-printf", directory];
    let output = run_in(
        dir,
        "find",
        &[&directories[..], &["-o", "-printf", other]].concat(),
    );
    common::sorted(&output, 0)
}

fn done(output: &Output) {
    assert!(output.status.success(), "{}", stderr(output));
    assert_eq!(stderr(output), "");
}

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_copy_is_what_it_was_copied_from() {
    let (dir, _) = tree();
    let dir = dir.path();
    let expected = listed(dir, "tree");
    for algorithm in ALGORITHMS {
        let how = ["--algorithm", algorithm, "--threads", "3", "tree", "copy"];
        done(&ours(dir, &[&["cp"], &how[..]].concat()));
        assert!(listed(dir, "copy") == expected, "{algorithm}");
        done(&ours(dir, &["cmp", "--attributes", "tree", "copy"]));
        done(&ours(dir, &["rm", "-r", "copy"]));
    }
    // Two names of a file in different roots.
    std::fs::hard_link(dir.join("tree/d0/e0/deeper/plain.c"), dir.join("name")).unwrap();
    std::fs::create_dir(dir.join("into")).unwrap();
    done(&ours(dir, &["cp", "tree", "name", "into"]));
    let inode = |path: &str| dir.join(path).metadata().unwrap().ino();
    assert_eq!(
        inode("into/name"),
        inode("into/tree/d0/e0/deeper/second name")
    );
}

#[test]
fn a_dry_run_changes_nothing_and_says_what_a_run_does() {
    let (dir, _) = tree();
    let dir = dir.path();
    let planned = ours(dir, &["cp", "--dry-run", "--json", "tree", "copy"]);
    assert!(!dir.join("copy").exists());
    // The report comes after the list.
    let text = String::from_utf8_lossy(&planned.stdout).into_owned();
    let report: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let real = json(&ours(dir, &["cp", "--json", "tree", "copy"]));
    for what in ["directories", "links", "others"] {
        assert_eq!(report[what], real[what], "{what}");
    }
    let before = listed(dir, "copy");
    std::fs::remove_dir_all(dir.join("tree/d0")).unwrap();
    std::fs::write(dir.join("tree/new"), "new").unwrap();
    let planned = ours(dir, &["sync", "-n", "--delete", "tree", "copy"]);
    let planned = String::from_utf8_lossy(&planned.stdout).into_owned();
    assert!(planned.lines().any(|line| line == "- copy/d0"), "{planned}");
    assert!(
        planned.lines().any(|line| line == "+ tree/new"),
        "{planned}"
    );
    assert!(listed(dir, "copy") == before);
    done(&ours(dir, &["sync", "--delete", "tree", "copy"]));
    assert!(listed(dir, "copy") == listed(dir, "tree"));
    let again = json(&ours(dir, &["sync", "--delete", "--json", "tree", "copy"]));
    assert_eq!(again["files"], 0);
    assert_eq!(again["removed"], 0);
    assert_eq!(again["bytes"], 0);
}

#[test]
fn excluded_entries_are_neither_copied_nor_removed() {
    let (dir, _) = tree();
    let dir = dir.path();
    std::fs::create_dir_all(dir.join("copy/.cache/kept")).unwrap();
    std::fs::create_dir_all(dir.join("tree/d2/.cache/left")).unwrap();
    let arguments = ["sync", "--delete", "--exclude", ".cache", "tree", "copy"];
    done(&ours(dir, &arguments));
    assert!(dir.join("copy/.cache/kept").is_dir());
    assert!(!dir.join("copy/d2/.cache").exists());
    assert!(dir.join("copy/d2/e0/deeper/link").is_symlink());
}

#[test]
fn what_cannot_be_done_is_said_and_the_rest_is_done() {
    let (dir, _) = tree();
    let dir = dir.path();
    // Something else is where a directory and a file have to go.
    std::fs::create_dir_all(dir.join("copy/d1/f7")).unwrap();
    std::fs::write(dir.join("copy/d0"), "a file").unwrap();
    let output = ours(dir, &["cp", "-T", "tree", "copy"]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(
        said.contains("tree/d0: something else is in the place"),
        "{said}"
    );
    assert!(
        said.contains("tree/d1/f7: a directory is in the place"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 2, "{said}");
    assert_eq!(listed(dir, "copy/d2"), listed(dir, "tree/d2"));
    for arguments in [
        &["cp", "missing", "other"][..],
        &["cp", "tree", "missing/other"],
        &["cp", "tree", "tree/d1"],
        &["sync", "missing", "copy"],
        &["cmp", "tree", "missing"],
        &["sum", "missing"],
        &["chmod", "644", "missing"],
        &["chown", "0", "missing"],
        &["tar", "-xf", "missing"],
        &["tar", "-cf", "a.tar", "missing"],
        &["tar", "-xf", "copy/d0"],
    ] {
        let output = ours(dir, arguments);
        let code = output.status.code().unwrap();
        assert!(code == 1 || code == 2, "{arguments:?}: {code}");
        assert_ne!(stderr(&output), "", "{arguments:?}");
    }
}

#[test]
fn a_file_that_cannot_be_read_leaves_its_copy_as_it_is() {
    let (dir, _) = tree();
    let dir = dir.path();
    std::fs::create_dir(dir.join("s")).unwrap();
    std::fs::write(dir.join("s/a"), "good").unwrap();
    std::fs::hard_link(dir.join("s/a"), dir.join("s/b")).unwrap();
    done(&ours(dir, &["sync", "s", "t"]));
    std::fs::write(dir.join("s/a"), "newer").unwrap();
    std::fs::set_permissions(dir.join("s/a"), PermissionsExt::from_mode(0o000)).unwrap();
    for tool in [&["sync", "s", "t"][..], &["cp", "-T", "s", "t"]] {
        let output = ours_by_permissions(dir, tool);
        assert_eq!(output.status.code(), Some(1), "{tool:?}");
        assert_eq!(stderr(&output).lines().count(), 2, "{}", stderr(&output));
        for name in ["t/a", "t/b"] {
            assert_eq!(std::fs::read(dir.join(name)).unwrap(), b"good", "{tool:?}");
        }
    }
}

#[test]
fn digests_do_not_depend_on_where_or_how() {
    let (dir, _) = tree();
    let dir = dir.path();
    let digest = |arguments: &[&str]| {
        let output = ours(dir, &[&["sum"], arguments].concat());
        done(&output);
        String::from_utf8(output.stdout).unwrap()[..64].to_owned()
    };
    let whole = digest(&["tree"]);
    for algorithm in ALGORITHMS {
        assert_eq!(
            digest(&["--algorithm", algorithm, "--threads", "4", "tree"]),
            whole
        );
    }
    done(&ours(dir, &["cp", "tree", "elsewhere"]));
    assert_eq!(digest(&["elsewhere"]), whole);
    std::fs::rename(dir.join("elsewhere/d1/f1"), dir.join("elsewhere/d1/g1")).unwrap();
    assert_ne!(digest(&["elsewhere"]), whole, "a name");
    std::fs::rename(dir.join("elsewhere/d1/g1"), dir.join("elsewhere/d1/f1")).unwrap();
    assert_eq!(digest(&["elsewhere"]), whole);
    std::fs::write(dir.join("elsewhere/d1/f1"), "x").unwrap();
    assert_ne!(digest(&["elsewhere"]), whole, "a content");

    // The digest of a tree is a format: what is written down today is compared in ten years.
    let small = dir.join("small");
    std::fs::create_dir_all(small.join("dir")).unwrap();
    std::fs::write(small.join("dir/file"), "hello").unwrap();
    std::os::unix::fs::symlink("dir/file", small.join("link")).unwrap();
    assert_eq!(digest(&["small"]), GOLDEN);
    assert_eq!(
        digest(&["small/dir/file"]),
        "ea8f163db38682925e4491c5e58d4bb3506ef8c14eb78a86e908c5624a67200f",
        "BLAKE3 of 'hello'"
    );
}

const GOLDEN: &str = "0940d2c52083ecfc8366795d8a79161babc2a9ef97596c55383c7c576b6bcc2e";

#[test]
fn what_vanishes_is_not_missed() {
    let (dir, _) = tree();
    let dir = dir.path();
    // The first of the directories that is met removes all of them.
    let script = "rm -rf tree/d?";
    let expression = ["tree", "-name", "d?", "-exec", "sh", "-c", script, ";"];
    done(&ours(dir, &[&["find"], &expression[..]].concat()));
    assert!(!dir.join("tree/d1").exists());
}

#[test]
fn permissions_are_taken_away_after_what_is_below() {
    let (dir, _) = tree();
    let dir = dir.path();
    done(&ours(dir, &["chmod", "a-rwx", "tree/d0"]));
    let mode = dir.join("tree/d0").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0);
    done(&ours(dir, &["chmod", "u+rwX", "tree/d0"]));
    let left = run_in(
        dir,
        "find",
        &["tree/d0", "-type", "d", "!", "-perm", "-700"],
    );
    assert_eq!(left.stdout, b"");
}

#[test]
fn archives_go_to_and_fro() {
    let (dir, _) = tree();
    let dir = dir.path();
    let expected = listed(dir, "tree");
    done(&ours(
        dir,
        &["tar", "-cf", "a.tar", "--threads", "4", "tree"],
    ));
    for unpack in [
        "mkdir gnu && tar -C gnu -xf a.tar",
        "mkdir file && $OURS tar -C file -xf a.tar",
        "mkdir pipe && $OURS tar -c tree | $OURS tar -x -C pipe",
        "mkdir theirs && tar -c --format=posix tree | $OURS tar -x -C theirs",
    ] {
        let script = unpack.replace("$OURS", env!("CARGO_BIN_EXE_pandofs-walk"));
        done(&run_in(dir, "sh", &["-c", &script]));
        let name = unpack.split(' ').nth(1).unwrap();
        let unpacked = listed(dir, &format!("{name}/tree"));
        let differ = unpacked.iter().filter(|it| !expected.contains(it));
        let differ: Vec<_> = differ.map(|it| it.escape_ascii().to_string()).collect();
        assert!(unpacked == expected, "{unpack}: {differ:?}");
    }
}

#[test]
fn digests_and_comparisons_that_are_killed_go_on() {
    let (dir, _) = tree();
    for more in [&["--files"][..], &["--attributes"]] {
        let arguments = [&["sum"], more, &["tree"]].concat();
        let (whole, parts) = (
            ours(dir.path(), &arguments),
            killed(dir.path(), &arguments, 6),
        );
        done(&parts);
        assert_eq!(
            common::sorted(&parts, b'\n'),
            common::sorted(&whole, b'\n'),
            "{more:?}"
        );
    }
    done(&ours(dir.path(), &["cp", "tree", "other"]));
    done(&killed(dir.path(), &["cmp", "-a", "tree", "other"], 6));
    std::fs::write(dir.path().join("other/d1/f9"), "more").unwrap();
    std::fs::remove_file(dir.path().join("tree/d1/f8")).unwrap();
    std::fs::remove_file(dir.path().join("other/d1/f7")).unwrap();
    let differences = killed(dir.path(), &["cmp", "tree", "other"], 8);
    assert_eq!(
        differences.status.code(),
        Some(1),
        "{}",
        stderr(&differences)
    );
    let expected = [
        "only in other: other/d1/f8",
        "only in tree: tree/d1/f7",
        "size differs: tree/d1/f9",
    ];
    let found = common::sorted(&differences, b'\n');
    assert_eq!(found, expected.map(|line| line.as_bytes().to_vec()));
}

/// Killed at any moment, and gone on from the last checkpoint: GNU tar unpacks what was packed.
#[test]
fn an_archive_goes_on_from_its_checkpoint() {
    let (dir, tree) = tree();
    // Of several pieces, each of which is an item.
    let large = std::fs::File::create(tree.join("large")).unwrap();
    let bytes: Vec<u8> = (0..1_000_003_u32).map(|at| (at % 251) as u8).collect();
    for part in 0..150 {
        std::os::unix::fs::FileExt::write_all_at(&large, &bytes, part * 1_000_003).unwrap();
    }
    let packed = killed(dir.path(), &["tar", "-cf", "a.tar", "tree"], 6);
    assert_eq!(stderr(&packed), "");
    std::fs::create_dir(dir.path().join("out")).unwrap();
    let unpacked = run_in(dir.path(), "tar", &["-xf", "a.tar", "-C", "out"]);
    assert_eq!(stderr(&unpacked), "");
    let differences = [
        "-r",
        "--no-dereference",
        "--exclude=fifo",
        "tree",
        "out/tree",
    ];
    let differences = run_in(dir.path(), "diff", &differences);
    assert!(differences.stdout.is_empty() && differences.status.success());
    assert!(listed(dir.path(), "tree") == listed(dir.path(), "out/tree"));
    // Also in another directory.
    let there = ["tar", "-cf", "b.tar", "-C", "tree", "d0", "d1"];
    let packed = killed(dir.path(), &there, 2);
    assert_eq!(stderr(&packed), "");
    assert!(!tree.join("state").exists());
    let mut members = sorted(&run_in(dir.path(), "tar", &["-tf", "b.tar"]), b'\n');
    // Directories with links that lead out of them are in it before these as well.
    members.dedup();
    let of_two = run_in(&tree, "find", &["d0", "d1", "-print0"]);
    assert_eq!(members.len(), sorted(&of_two, 0).len());
    let other = [
        "tar",
        "--checkpoint",
        "state",
        "--resume",
        "-cf",
        "a.tar",
        "tree",
    ];
    assert_eq!(ours(dir.path(), &other).status.code(), Some(2));
    let pipe = ["tar", "--checkpoint", "state", "-c", "tree"];
    assert_eq!(ours(dir.path(), &pipe).status.code(), Some(2));
}

/// Each side is the directory that its name leads to.
#[test]
fn roots_that_are_links_are_made_alike() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for name in ["source", "target"] {
        std::fs::create_dir(dir.join(name)).unwrap();
        std::os::unix::fs::symlink(name, dir.join(format!("to-{name}"))).unwrap();
    }
    std::fs::write(dir.join("source/kept"), "new").unwrap();
    std::fs::write(dir.join("target/extra"), "").unwrap();
    done(&ours(dir, &["sync", "--delete", "to-source", "to-target"]));
    let names = |of: &str| {
        let names = std::fs::read_dir(dir.join(of)).unwrap();
        let names = names.map(|it| it.unwrap().file_name().into_string().unwrap());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names("target"), ["kept"]);
    assert!(dir.join("to-target").is_symlink());
    // A directory comes to be if there is nothing yet.
    done(&ours(dir, &["sync", "to-source", "backup"]));
    assert!(!dir.join("backup").is_symlink());
    assert_eq!(names("backup"), ["kept"]);
}

/// Of another user's file a copy is one's own, and lets no one act as its owner.
#[test]
fn a_copy_that_has_another_owner_is_not_set_id() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::write(dir.join("program"), "").unwrap();
    let chown = run_in(dir, "chown", &["65533:65533", "program"]);
    if !chown.status.success() {
        eprintln!("only root makes files of others");
        return;
    }
    let mode = |name: &str| std::fs::metadata(dir.join(name)).unwrap().mode() & 0o7777;
    std::fs::set_permissions(dir.join("program"), PermissionsExt::from_mode(0o6755)).unwrap();
    done(&ours(dir, &["cp", "program", "kept"]));
    assert_eq!(mode("kept"), 0o6755);
    // Root that may not give files away is as everybody else there.
    let program = env!("CARGO_BIN_EXE_pandofs-walk");
    let line = ["--bounding-set=-chown", program, "cp", "program", "own"];
    let copied = run_in(dir, "setpriv", &line);
    assert!(stderr(&copied).contains("owner"), "{}", stderr(&copied));
    assert_eq!(mode("own"), 0o755);
}

/// It was reported twice that it cannot be read, and its copy had other permissions than with `cp
/// -a`.
#[test]
fn an_unreadable_directory_is_told_once_and_its_copy_is_like_it() {
    let (dir, tree) = tree();
    let closed = std::fs::Permissions::from_mode(0o311);
    std::fs::set_permissions(tree.join("d2"), closed).unwrap();
    let copied = ours_by_permissions(dir.path(), &["cp", "-r", "tree", "copy"]);
    assert_eq!(copied.status.code(), Some(1));
    let said = stderr(&copied);
    let lines: Vec<_> = said
        .lines()
        .filter(|line| line.contains("tree/d2"))
        .collect();
    assert_eq!(
        lines,
        ["pandofs cp: tree/d2: cannot open the directory: Permission denied (os error 13)"]
    );
    let mode = |path: &str| {
        std::fs::metadata(dir.path().join(path))
            .unwrap()
            .permissions()
            .mode()
    };
    assert_eq!(mode("copy/d2"), mode("tree/d2"));
}
