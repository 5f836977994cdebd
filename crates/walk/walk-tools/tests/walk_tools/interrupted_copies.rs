//! Large copies that something ends in the middle, and what the next run makes of them.

use crate::common::{
    LARGE_BYTES, becomes, begin, long_ago, names, ours, send, stderr, write_large,
};
use rustix::process::Signal;
use std::fs::{File, FileTimes};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

const PIECE_BYTES: usize = 64 << 20;
const RESUME: [&str; 4] = ["cp", "--no-reflink", "--resume", "-T"];

/// A large file whose pieces differ from one another.
fn write_pieces(path: &Path) {
    write_large(path, 1);
    let file = File::options().write(true).open(path).unwrap();
    for at in (0..LARGE_BYTES as u64).step_by(1 << 20) {
        std::os::unix::fs::FileExt::write_all_at(&file, &at.to_le_bytes(), at).unwrap();
    }
    file.set_times(FileTimes::new().set_modified(long_ago()))
        .unwrap();
}

fn is_copied(dir: &Path) {
    let read = |tree: &str| std::fs::read(dir.join(tree).join("large")).unwrap();
    assert!(read("from") == read("to"), "the copy is another file");
}

/// Returns how many pieces of the only large copy in a directory are known to be on disk.
fn known_pieces(dir: &Path) -> usize {
    let names = names(dir);
    let known = names.iter().find(|it| it.ends_with(".pieces"));
    let known = known.and_then(|name| std::fs::read(dir.join(name)).ok());
    // After 80 bytes one of each piece.
    let pieces = known.as_deref().and_then(|it| it.get(80..));
    pieces
        .unwrap_or_default()
        .iter()
        .filter(|it| **it == 1)
        .count()
}

/// Bytes that a copy took, and what it was.
fn copied(dir: &Path, command: &[&str]) -> usize {
    let output = ours(dir, &[command, &["--json", "from", "to"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(names(&dir.join("to")), ["large"]);
    report["bytes"].as_u64().unwrap() as usize
}

#[test]
fn a_large_copy_that_was_killed_goes_on_in_the_middle_unless_the_file_was_changed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (from, to) = (dir.join("from"), dir.join("to"));
    std::fs::create_dir(&from).unwrap();
    write_pieces(&from.join("large"));
    let killed = || {
        for _ in 0..100 {
            let mut child = Command::new(env!("CARGO_BIN_EXE_pandofs-walk"))
                .args(["cp", "--no-reflink", "--threads", "1", "-T", "from", "to"])
                .env("PANDOFS_COPY_FORCED_AFTER_MS", "0")
                .current_dir(dir)
                .spawn()
                .unwrap();
            let is_caught = becomes(&mut child, || known_pieces(&to) >= 2);
            child.kill().unwrap();
            child.wait().unwrap();
            let known = known_pieces(&to);
            if is_caught && known > 0 {
                return known;
            }
            std::fs::remove_dir_all(&to).unwrap();
        }
        panic!("each copy was too fast");
    };
    let known = killed();
    assert!(
        copied(dir, &RESUME) <= LARGE_BYTES - known * PIECE_BYTES + PIECE_BYTES,
        "{known} pieces"
    );
    is_copied(dir);
    std::fs::remove_dir_all(&to).unwrap();
    killed();
    // As large, and as old.
    write_large(&from.join("large"), 2);
    assert_eq!(copied(dir, &RESUME), LARGE_BYTES);
    is_copied(dir);
}

/// Ends a copy by Ctrl-C when two pieces of it are there, of which nothing was written down by
/// then; what is left of it. None if it was too fast.
fn interrupted(dir: &Path, command: &[&str]) -> Option<Vec<String>> {
    let to = dir.join("to");
    let arguments = [command, &["--threads", "1", "from", "to"]].concat();
    let mut child = begin(dir, &arguments);
    let has_pieces = || {
        let copies = names(&to).into_iter();
        let mut copies = copies.filter_map(|it| std::fs::metadata(to.join(it)).ok());
        copies.any(|it| it.blocks() * 512 > 2 * PIECE_BYTES as u64)
    };
    if becomes(&mut child, has_pieces) {
        send(&child, Signal::INT);
    }
    let output = child.wait_with_output().unwrap();
    let left = names(&to);
    if left == ["large"] {
        std::fs::remove_dir_all(&to).unwrap();
        return None;
    }
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    Some(left)
}

#[test]
fn what_was_copied_before_ctrl_c_is_not_copied_again_by_what_can_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (from, to) = (dir.join("from"), dir.join("to"));
    std::fs::create_dir(&from).unwrap();
    write_pieces(&from.join("large"));
    let commands = [
        &RESUME[..],
        &["sync", "--no-reflink"],
        &["sync", "--no-reflink", "--delete"],
    ];
    let until = |command: &[&str]| {
        let mut attempts = (0..100).filter_map(|_| interrupted(dir, command));
        attempts.next().expect("each copy was too fast")
    };
    for command in commands {
        until(command);
        let known = known_pieces(&to);
        assert!(known >= 1, "{command:?}");
        let bytes = copied(dir, command);
        assert!(
            bytes <= LARGE_BYTES - known * PIECE_BYTES + PIECE_BYTES,
            "{command:?}: {known} pieces, {bytes} bytes"
        );
        is_copied(dir);
        std::fs::remove_dir_all(&to).unwrap();
    }
    assert_eq!(until(&["cp", "--no-reflink", "-T"]), [""; 0]);
    // The rest of a file that is another one by now is no part of a tree.
    until(&["sync", "--no-reflink"]);
    std::fs::rename(from.join("large"), from.join("new")).unwrap();
    let output = ours(dir, &["sync", "--delete", "from", "to"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(names(&to), ["new"]);
}
