//! Completeness of copies.
//!
//! A part has no name that the next run takes for the copy. Nothing leads to a copy that failed.

use crate::common::{ours, run_in, stderr};
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Output;

/// More than a run may write that is ended by `LIMIT`.
const BYTES: usize = 6 << 20;
/// In a shell: no file gets longer than 2 MiB, or 4 MiB where its unit is not that of POSIX, and no
/// core is left.
const LIMIT: &str = "ulimit -c 0; ulimit -f 4096";

fn limited(dir: &Path, before: &str, arguments: &str) -> Output {
    let program = env!("CARGO_BIN_EXE_pandofs-walk");
    let line = format!("{before}; {LIMIT}; exec '{program}' {arguments}");
    run_in(dir, "sh", &["-c", &line])
}

fn content() -> Vec<u8> {
    (0..BYTES).map(|at| (at % 251) as u8).collect()
}

#[test]
fn runs_that_go_by_names_leave_no_part_of_a_file_when_they_are_killed() {
    for arguments in [
        "cp -n --no-reflink -T from to",
        "cp -u --no-reflink -T from to",
        "cp -n -T from to",
        "sync --size-only --no-reflink from to",
    ] {
        for names in [1, 2] {
            let dir = tempfile::tempdir().unwrap();
            let dir = dir.path();
            std::fs::create_dir(dir.join("from")).unwrap();
            std::fs::write(dir.join("from/a"), content()).unwrap();
            if names == 2 {
                std::fs::hard_link(dir.join("from/a"), dir.join("from/b")).unwrap();
            }
            // The kernel ends it by a signal in the middle of the file, where nothing can be
            // shared.
            let killed = limited(dir, ":", arguments);
            if arguments.contains("--no-reflink") {
                assert_eq!(killed.status.code(), None, "{}", stderr(&killed));
            }
            for name in ["a", "b"] {
                let is_there = dir.join("to").join(name).exists();
                assert!(!is_there || killed.status.success(), "{arguments}");
            }
            let words: Vec<&str> = arguments.split(' ').collect();
            let again = ours(dir, &words);
            assert!(again.status.success(), "{}", stderr(&again));
            let same = run_in(dir, "diff", &["-r", "from", "to"]);
            assert!(same.status.success(), "{arguments}: a part stayed");
            let links = std::fs::metadata(dir.join("to/a")).unwrap().nlink();
            assert_eq!(links, names, "{arguments}");
            let left = std::fs::read_dir(dir.join("to")).unwrap().count();
            assert_eq!(left as u64, names, "something is left of the first run");
        }
    }
}

#[test]
fn each_name_of_a_file_that_cannot_be_copied_is_told_and_none_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::create_dir(dir.join("from")).unwrap();
    std::fs::write(dir.join("from/first"), content()).unwrap();
    for name in ["second", "third"] {
        std::fs::hard_link(dir.join("from/first"), dir.join("from").join(name)).unwrap();
    }
    let output = limited(dir, "trap '' XFSZ", "cp --no-reflink -T from to");
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for name in ["first", "second", "third"] {
        assert!(
            said.contains(&format!("from/{name}: cannot write")),
            "{said}"
        );
    }
    assert_eq!(std::fs::read_dir(dir.join("to")).unwrap().count(), 0);
}

#[test]
fn a_name_whose_place_is_taken_leaves_the_others_their_data() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::create_dir(dir.join("from")).unwrap();
    std::fs::write(dir.join("from/0"), "data").unwrap();
    // Whichever of them is met first, but for one in 30 there is a directory in the place of its
    // copy.
    for number in 1..30 {
        let name = dir.join(format!("from/{number}"));
        std::fs::hard_link(dir.join("from/0"), name).unwrap();
        std::fs::create_dir_all(dir.join(format!("to/{number}"))).unwrap();
    }
    let output = ours(dir, &["cp", "--threads", "1", "-T", "from", "to"]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said.matches("a directory is in the place").count(), 29);
    assert_eq!(std::fs::read(dir.join("to/0")).unwrap(), b"data");
}

/// As large files have their data in pieces, their other names are made before these are there.
#[test]
fn a_large_file_whose_place_is_taken_leaves_the_others_their_data() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::create_dir(dir.join("from")).unwrap();
    let large = File::create(dir.join("from/0")).unwrap();
    large.set_len(200 << 20).unwrap();
    large.write_all_at(b"data", 150 << 20).unwrap();
    for number in 1..10 {
        let name = dir.join(format!("from/{number}"));
        std::fs::hard_link(dir.join("from/0"), name).unwrap();
        std::fs::create_dir_all(dir.join(format!("to/{number}"))).unwrap();
    }
    let output = ours(
        dir,
        &["cp", "--threads", "1", "--no-reflink", "-T", "from", "to"],
    );
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let same = run_in(dir, "cmp", &["from/0", "to/0"]);
    assert!(same.status.success(), "{}", stderr(&same));
}

#[test]
fn what_has_no_size_is_copied_with_what_is_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let output = ours(dir, &["cp", "/proc/version", "version"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let copied = std::fs::read(dir.join("version")).unwrap();
    assert_eq!(copied, std::fs::read("/proc/version").unwrap());
    std::fs::write(dir.join("empty"), "").unwrap();
    let output = ours(dir, &["cp", "--json", "empty", "copy"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["files"], &report["bytes"]), (&1.into(), &0.into()));
}

#[test]
fn a_large_file_that_is_named_is_told_by_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let large = File::create(dir.join("large")).unwrap();
    large.set_len(200 << 20).unwrap();
    std::fs::create_dir(dir.join("to")).unwrap();
    // All others may take over attributes and no other user's ownership, which it says when the
    // file is finished.
    let chown = run_in(dir, "chown", &["65533:65533", "large"]);
    if !chown.status.success() {
        eprintln!("only root makes files of others");
        return;
    }
    let program = env!("CARGO_BIN_EXE_pandofs-walk");
    let line = [
        "--bounding-set=-chown",
        program,
        "cp",
        "--no-reflink",
        "large",
        "to",
    ];
    let output = run_in(dir, "setpriv", &line);
    let said = stderr(&output);
    assert!(said.contains("pandofs cp: large: "), "{said}");
}

/// Only where the test may mount.
#[test]
fn names_of_a_large_file_that_fails_in_the_middle_lead_to_nothing_and_each_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for name in ["from/1", "from/2", "to"] {
        std::fs::create_dir_all(dir.join(name)).unwrap();
    }
    std::fs::write(dir.join("from/1/large"), vec![1; 200 << 20]).unwrap();
    std::fs::hard_link(dir.join("from/1/large"), dir.join("from/2/large")).unwrap();
    std::fs::hard_link(dir.join("from/1/large"), dir.join("from/2/again")).unwrap();
    // One directory after the other, and what was put off in one before the other.
    let script = format!(
        "mount -t tmpfs -o size=20m none to || exit 9
         '{}' cp --no-reflink --threads 1 -T from to/copy; echo $?; find to -type f -printf '%s\\n'",
        env!("CARGO_BIN_EXE_pandofs-walk"),
    );
    let output = run_in(dir, "unshare", &["-m", "sh", "-c", &script]);
    let said = stderr(&output);
    if said.contains("not permitted") || said.contains("permission denied") {
        return;
    }
    let text = String::from_utf8_lossy(&output.stdout);
    // The other name in the same directory was there already when the first piece failed.
    assert_eq!(text, "1\n0\n", "{said}");
    let failed = said.matches("No space left").count();
    assert_eq!(failed, 2, "{said}");
    assert_eq!(
        said.matches("other names of its copy (1) lead").count(),
        1,
        "{said}"
    );
}
