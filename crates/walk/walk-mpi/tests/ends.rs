//! Ends of runs of several processes, other than that all is done.

#![cfg(feature = "mpi")]
#![allow(clippy::unwrap_used)]

mod common;

use common::{Reads, mpirun, mpirun_read};
use std::path::Path;
use std::time::{Duration, Instant};

/// So many directories with ten files each.
fn make_files(dir: &Path, directories: usize) {
    for number in 0..directories {
        let dir = dir.join(number.to_string());
        std::fs::create_dir(&dir).unwrap();
        for file in 0..10 {
            std::fs::write(dir.join(file.to_string()), "").unwrap();
        }
    }
}

#[test]
fn a_rank_that_dies_ends_it_for_all_at_once() {
    let dir = tempfile::tempdir().unwrap();
    make_files(dir.path(), 40);
    let started = Instant::now();
    // Rank 2 kills itself at its first file; the others would take half an hour.
    let script =
        "if [ ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} = 2 ]; then kill -9 $PPID; fi; exec sleep 20";
    let expression = [".", "-type", "f", "-exec", "sh", "-c", script, ";"];
    let output = mpirun(4, dir.path(), &[&["find"], &expression[..]].concat());
    assert!(!output.status.success());
    assert!(started.elapsed() < Duration::from_secs(15));
}

#[test]
fn a_rank_that_is_not_heard_of_ends_it_and_is_named() {
    let dir = tempfile::tempdir().unwrap();
    make_files(dir.path(), 40);
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    for (rank, silence) in [(2, 2), (0, 1)] {
        let started = Instant::now();
        // It stops at its first file.
        let script = format!(
            "if [ ${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}} = {rank} ]; then kill -STOP $PPID; fi; exec sleep 20"
        );
        let silence = silence.to_string();
        let expression = [".", "-type", "f", "-exec", "sh", "-c", &script, ";"];
        let words = [&["find", "--silence", &silence], &expression[..]].concat();
        let output = mpirun(4, dir.path(), &words);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{error}");
        let said = format!("nothing has been heard of rank {rank} on {}", host.trim());
        assert!(error.contains(&said), "{error}");
        assert!(started.elapsed() < Duration::from_secs(15));
    }
}

#[test]
fn a_rank_that_waits_for_something_else_is_not_missed() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "").unwrap();
    let words = ["find", "--silence", "1", ".", "-type", "f"];
    let waits = ["-exec", "sleep", "4", ";", "-print0"];
    let output = mpirun(3, dir.path(), &[&words[..], &waits].concat());
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{error}");
    assert_eq!(output.stdout, b"./file\0");
}

/// As behind `| head`: what only lists ends, all else is done to its end, without a message.
#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    // More than a pipe holds, and than a launcher keeps.
    for file in 0..10_000 {
        std::fs::write(tree.join(format!("{file:0100}")), "").unwrap();
    }
    for words in [&["find", "tree"][..], &["rm", "-rv", "tree"]] {
        let output = mpirun_read(3, dir.path(), words, Reads::First);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), &*error), (Some(0), ""), "{words:?}");
    }
    assert!(!tree.exists(), "nothing but a part of it is gone");
}
