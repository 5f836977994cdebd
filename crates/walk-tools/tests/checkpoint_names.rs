//! What a checkpoint would be written over is left alone.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use common::{ours, stderr};

/// As tar's, another one than of others.
fn failure(tool: &[&str]) -> i32 {
    if tool[0] == "tar" { 2 } else { 1 }
}

const TOOLS: [&[&str]; 6] = [
    &["walk"],
    &["walk", "--list", "csv", "--output", "list"],
    &["find"],
    &["du"],
    &["sum"],
    &["tar", "-c", "-f", "archive"],
];

/// `--checkpoint FILE` emptied FILE.list and FILE.items and removed all three in the end, whatever they were.
#[test]
fn files_that_are_there_are_neither_written_over_nor_removed() {
    for tool in TOOLS {
        for ending in ["", ".new", ".items", ".list", ".links"] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path();
            std::fs::create_dir(path.join("tree")).unwrap();
            let name = format!("state{ending}");
            std::fs::write(path.join(&name), "important").unwrap();
            let output = ours(path, &[tool, &["--checkpoint", "state", "tree"]].concat());
            let what = format!("{tool:?}, {name}: {}", stderr(&output));
            assert_eq!(output.status.code(), Some(failure(tool)), "{what}");
            assert!(
                stderr(&output).contains(&format!("{name}: this is there")),
                "{what}"
            );
            let text = std::fs::read_to_string(path.join(&name)).unwrap();
            assert_eq!(text, "important", "{what}");
            let left = std::fs::read_dir(path).unwrap().count();
            assert_eq!(left, 2, "something was made: {what}");
        }
    }
}

#[test]
fn to_go_on_there_has_to_be_a_checkpoint() {
    for tool in TOOLS {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path();
        std::fs::create_dir(path.join("tree")).unwrap();
        let go_on = |expected: &str| {
            let arguments = [tool, &["--checkpoint", "state", "--resume", "tree"]].concat();
            let output = ours(path, &arguments);
            let what = format!("{tool:?}: {}", stderr(&output));
            assert_eq!(output.status.code(), Some(failure(tool)), "{what}");
            assert!(stderr(&output).contains(expected), "{what}");
        };
        go_on("state: there is no checkpoint to go on from");
        assert_eq!(std::fs::read_dir(path).unwrap().count(), 1);
        std::fs::create_dir(path.join("state")).unwrap();
        go_on("state is no checkpoint: no regular file");
        assert_eq!(std::fs::read_dir(path).unwrap().count(), 2);
    }
}
