//! Walks with a checkpoint whose list cannot be written, or was lost.

use crate::common::{ours, run_in, stderr, tree};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Room that a list of the tree exceeds, and a checkpoint of it does not.
const ROOM_BYTES: u64 = 160 << 10;

const LIST: [&str; 9] = [
    "walk",
    "--threads",
    "2",
    "--checkpoint",
    "state",
    "--list",
    "csv",
    "--output",
    "all.csv",
];

/// The lines of a list, sorted.
fn lines(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

/// The lines of the whole tree.
fn expected(dir: &Path) -> Vec<String> {
    let output = ours(
        dir,
        &["walk", "--list", "csv", "--output", "expected.csv", "tree"],
    );
    assert!(output.status.success(), "{}", stderr(&output));
    let path = dir.join("expected.csv");
    assert!(std::fs::metadata(&path).unwrap().len() > ROOM_BYTES);
    lines(&path)
}

/// Runs a tool that cannot make any file larger than that.
fn without_room(dir: &Path, arguments: &[&str]) -> Output {
    let limit = format!("trap '' XFSZ; exec prlimit --fsize={ROOM_BYTES} \"$0\" \"$@\"");
    let program = env!("CARGO_BIN_EXE_pandofs-walk");
    run_in(dir, "sh", &[&["-c", &limit, program], arguments].concat())
}

/// Returns how much the checkpoint says there is in the list.
fn listed(dir: &Path) -> Option<u64> {
    let bytes = std::fs::read(dir.join("state")).ok()?;
    let line = bytes.split(|byte| *byte == b'\n').next()?;
    let head: serde_json::Value = serde_json::from_slice(line).ok()?;
    head["found"]["lengths"][0].as_u64()
}

/// Kills a walk when it has written a checkpoint with more than the header of a list.
fn kill_one(dir: &Path) {
    let mut run = Command::new(env!("CARGO_BIN_EXE_pandofs-walk"))
        .args(LIST)
        .args(["--checkpoint-interval", "0", "tree"])
        .current_dir(dir)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let end = Instant::now() + Duration::from_secs(120);
    while listed(dir).is_none_or(|length| length < 1_000) {
        assert!(run.try_wait().unwrap().is_none(), "it was too fast");
        assert!(Instant::now() < end, "no checkpoint");
        std::thread::yield_now();
    }
    run.kill().unwrap();
    run.wait().unwrap();
}

#[test]
fn a_checkpoint_stays_when_the_disk_is_full_and_the_walk_goes_on_when_it_is_not() {
    let (dir, _) = tree();
    let dir = dir.path();
    let expected = expected(dir);
    // None is written after the one that was there when the last walk was killed.
    kill_one(dir);
    let output = without_room(dir, &[&LIST[..], &["--resume", "tree"]].concat());
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("all.csv"), "{}", stderr(&output));
    assert!(dir.join("state").exists(), "the checkpoint is gone");
    let output = ours(dir, &[&LIST[..], &["--resume", "tree"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(!dir.join("state").exists());
    assert_eq!(lines(&dir.join("all.csv")), expected);
}

#[test]
fn no_checkpoint_claims_lines_that_were_not_written() {
    let (dir, _) = tree();
    let dir = dir.path();
    let expected = expected(dir);
    // One after every item: most of what is listed is written only then, until it cannot be any
    // more.
    let arguments = [&LIST[..], &["--checkpoint-interval", "0"]].concat();
    let output = without_room(dir, &[&arguments[..], &["tree"]].concat());
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let (said, there) = (listed(dir).unwrap(), dir.join("all.csv"));
    assert!(said <= std::fs::metadata(&there).unwrap().len());
    let output = ours(dir, &[&LIST[..], &["--resume", "tree"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(lines(&there), expected);
}

#[test]
fn a_walk_that_got_to_no_checkpoint_begins_anew() {
    let (dir, _) = tree();
    let dir = dir.path();
    let expected = expected(dir);
    let output = without_room(dir, &[&LIST[..], &["tree"]].concat());
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert_eq!(listed(dir), None);
    let there = dir.join("all.csv");
    assert!(std::fs::metadata(&there).unwrap().len() > 0);
    let output = ours(dir, &[&LIST[..], &["--resume", "tree"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(lines(&there), expected);
}

#[test]
fn a_list_that_is_gone_or_shorter_than_the_checkpoint_says_is_refused() {
    let (dir, _) = tree();
    let dir = dir.path();
    kill_one(dir);
    let resume = [&LIST[..], &["--resume", "tree"]].concat();
    let (list, state) = (dir.join("all.csv"), dir.join("state"));
    let whole = std::fs::read(&list).unwrap();
    let before = std::fs::read(&state).unwrap();
    let shorter = listed(dir).unwrap() as usize - 1;
    std::fs::write(&list, &whole[..shorter]).unwrap();
    let output = ours(dir, &resume);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(
        stderr(&output).contains(&format!("all.csv has {shorter} bytes, but had")),
        "{}",
        stderr(&output)
    );
    assert_eq!(std::fs::read(&list).unwrap(), &whole[..shorter]);
    std::fs::remove_file(&list).unwrap();
    let output = ours(dir, &resume);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("all.csv"), "{}", stderr(&output));
    assert!(!list.exists(), "another one was made");
    assert_eq!(std::fs::read(&state).unwrap(), before);
    // With what there was it goes on.
    std::fs::write(&list, &whole).unwrap();
    let output = ours(dir, &resume);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(lines(&list), expected(dir));
}
