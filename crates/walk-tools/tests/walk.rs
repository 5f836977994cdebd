//! Counts and lists.

#![allow(clippy::unwrap_used)]

mod common;

use bytes::Bytes;
use common::{ALGORITHMS, ours, run_in, sorted, stderr, tree};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;

#[test]
fn counts_are_those_of_find() {
    let (dir, _) = tree();
    let count = |expression: &[&str]| {
        let words = [&["tree"], expression, &["-print0"]].concat();
        sorted(&run_in(dir.path(), "find", &words), 0).len() as u64
    };
    let sizes = run_in(
        dir.path(),
        "find",
        &["tree", "-type", "f", "-printf", "%s\\n"],
    );
    let sizes: u64 = String::from_utf8(sizes.stdout)
        .unwrap()
        .lines()
        .map(|line| line.parse::<u64>().unwrap())
        .sum();
    for algorithm in ALGORITHMS {
        let how = [
            "walk",
            "--algorithm",
            algorithm,
            "--threads",
            "4",
            "--json",
            "tree",
        ];
        let output = ours(dir.path(), &how);
        let counts: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(counts["entries"], count(&[]), "{algorithm}");
        assert_eq!(counts["directories"], count(&["-type", "d"]));
        assert_eq!(counts["files"], count(&["-type", "f"]));
        assert_eq!(counts["links"], count(&["-type", "l"]));
        assert_eq!(counts["others"], 1);
        assert_eq!(counts["bytes"], sizes);
        assert_eq!(counts["deepest"], 4);
        assert_eq!(counts["problems"], 0);
    }
    let table = String::from_utf8(ours(dir.path(), &["walk", "tree"]).stdout).unwrap();
    assert!(table.contains("symbolic links"), "{table}");
}

#[test]
fn lists_hold_every_path() {
    let (dir, _) = tree();
    let all = sorted(&run_in(dir.path(), "find", &["tree", "-print0"]), 0);
    assert_eq!(
        sorted(&ours(dir.path(), &["walk", "-l", "nul", "tree"]), 0),
        all
    );

    let json = ours(dir.path(), &["walk", "-l", "json", "tree"]);
    let mut paths = Vec::new();
    for line in sorted(&json, b'\n') {
        let row: serde_json::Value = serde_json::from_slice(&line).unwrap();
        paths.push(match row.get("path_hex") {
            None => row["path"].as_str().unwrap().as_bytes().to_vec(),
            Some(hex) => {
                let hex = hex.as_str().unwrap();
                let bytes = (0..hex.len()).step_by(2);
                bytes
                    .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
                    .collect()
            }
        });
    }
    paths.sort_unstable();
    assert_eq!(paths, all);

    let parquet = ours(dir.path(), &["walk", "-l", "parquet", "tree"]).stdout;
    let reader = SerializedFileReader::new(Bytes::from(parquet)).unwrap();
    let mut paths: Vec<Vec<u8>> = Vec::new();
    let mut bytes = 0;
    for row in reader.get_row_iter(None).unwrap() {
        let row = row.unwrap();
        paths.push(row.get_bytes(0).unwrap().data().to_vec());
        bytes += row.get_long(2).unwrap();
    }
    paths.sort_unstable();
    assert_eq!(paths, all);
    let sizes = run_in(dir.path(), "find", &["tree", "-printf", "%s\\n"]).stdout;
    let sizes = String::from_utf8(sizes).unwrap();
    assert_eq!(
        bytes,
        sizes
            .lines()
            .map(|line| line.parse::<i64>().unwrap())
            .sum::<i64>()
    );

    let text = sorted(&ours(dir.path(), &["walk", "-l", "text", "tree"]), b'\n');
    assert_eq!(text.len(), all.len());
    assert!(text.iter().any(|line| line.ends_with(b"/new\\nline.txt")));
    assert!(text.iter().any(|line| line.ends_with(b"/\\xFF\\xFE.bin")));

    let csv = ours(
        dir.path(),
        &["walk", "-l", "csv", "tree/d0/e0/deeper/plain.c"],
    );
    let csv = String::from_utf8(csv.stdout).unwrap();
    let row: Vec<&str> = csv.lines().nth(1).unwrap().split(',').collect();
    assert_eq!(
        row[..4],
        ["\"tree/d0/e0/deeper/plain.c\"", "file", "0", "0"]
    );
    assert_eq!(row[4], "644");
}

#[test]
fn a_walk_goes_on_from_its_checkpoint() {
    let (dir, _) = tree();
    let all = sorted(&run_in(dir.path(), "find", &["tree", "-print0"]), 0);
    let arguments = [
        "walk",
        "--threads",
        "3",
        "--checkpoint",
        "state",
        "--list",
        "nul",
        "--output",
        "list",
        "tree",
    ];
    // No time at all between two interruptions: an item or some are done before the next one. A run that is
    // killed at any moment has a checkpoint to go on from.
    let mut kills = 0;
    let mut more: &[&str] = &["--checkpoint-interval", "0"];
    loop {
        let mut run = std::process::Command::new(env!("CARGO_BIN_EXE_pandofs-walk"))
            .args(arguments)
            .args(more)
            .current_dir(dir.path())
            .spawn()
            .unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        let before = std::fs::read(dir.path().join("state")).ok();
        let ended = loop {
            assert!(std::time::Instant::now() < deadline);
            if let Some(status) = run.try_wait().unwrap() {
                break Some(status);
            }
            // One more checkpoint than at the start of this run.
            let now = std::fs::read(dir.path().join("state")).ok();
            if now.is_some() && now != before && kills < 5 {
                run.kill().unwrap();
                run.wait().unwrap();
                kills += 1;
                break None;
            }
            std::thread::yield_now();
        };
        match ended {
            Some(status) => {
                assert!(status.success());
                break;
            }
            // Killed when it had just ended: the checkpoint goes last.
            None if !dir.path().join("state").exists() => break,
            None => more = &["--checkpoint-interval", "0", "--resume"],
        }
    }
    let list = std::fs::read(dir.path().join("list")).unwrap();
    let mut list: Vec<Vec<u8>> = list.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
    assert_eq!(list.pop(), Some(vec![]));
    list.sort_unstable();
    assert!(
        list == all,
        "{} of {} after {kills} kills",
        list.len(),
        all.len()
    );
    assert!(!dir.path().join("state").exists(), "nothing is left of it");
    let output = ours(
        dir.path(),
        &["walk", "--checkpoint", "state", "--resume", "tree"],
    );
    assert_eq!(output.status.code(), Some(1));
    let counts = ours(
        dir.path(),
        &[
            "walk",
            "--checkpoint",
            "state",
            "--checkpoint-interval",
            "0",
            "--json",
            "tree",
        ],
    );
    let counts: serde_json::Value = serde_json::from_slice(&counts.stdout).unwrap();
    assert_eq!(counts["entries"], all.len());
}

#[test]
fn what_fails_is_seen_in_the_exit_code() {
    let (dir, _) = tree();
    let output = ours(dir.path(), &["walk", "tree", "missing"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("missing: "), "{}", stderr(&output));
    assert_eq!(
        ours(dir.path(), &["walk", "--algorithm", "bfs", "tree"])
            .status
            .code(),
        Some(2)
    );
    // Nothing but the problem is on standard error: it is no terminal.
    assert_eq!(stderr(&output).lines().count(), 1);
    let full = format!(
        "{} walk -l text tree > /dev/full",
        env!("CARGO_BIN_EXE_pandofs-walk")
    );
    let output = run_in(dir.path(), "sh", &["-c", &full]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("standard output"),
        "{}",
        stderr(&output)
    );
}
