//! Objects of `--json`, one in each line of standard output, for `jq` and the like.

use crate::common::{ours, run_in, stderr};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Output;

/// Returns the lines before the last one, sorted, and that.
fn lines(bytes: &[u8]) -> (Vec<Value>, Value) {
    let text = std::str::from_utf8(bytes).unwrap();
    let mut lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let last = lines.pop().unwrap();
    lines.sort_by_key(|line| line["path"].as_str().unwrap().to_owned());
    (lines, last)
}

fn code(output: &Output) -> (String, Option<i32>) {
    (stderr(output), output.status.code())
}

fn made(dir: &Path) {
    for tree in ["one", "other"] {
        std::fs::create_dir(dir.join(tree)).unwrap();
        std::fs::write(dir.join(tree).join("same"), "").unwrap();
        std::fs::write(dir.join(tree).join("size"), tree).unwrap();
    }
    std::fs::write(dir.join("one").join(OsStr::from_bytes(b"\xff\n")), "").unwrap();
    std::fs::write(dir.join("other/new"), "").unwrap();
}

#[test]
fn differences_come_before_what_was_counted() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    made(dir);
    let output = ours(dir, &["cmp", "--json", "one", "other"]);
    assert_eq!(code(&output), (String::new(), Some(1)));
    let (found, counts) = lines(&output.stdout);
    assert_eq!(
        found,
        [
            json!({"path": "one/size", "differs": "size"}),
            json!({"path": "one/\u{fffd}\n", "path_hex": "6f6e652fff0a", "only_in": "one"}),
            json!({"path": "other/new", "only_in": "other"}),
        ]
    );
    for (name, number) in [
        ("only_one", 1),
        ("only_other", 1),
        ("differ", 1),
        ("problems", 0),
    ] {
        assert_eq!(counts[name], number, "{name}");
    }
}

#[test]
fn changes_come_before_what_was_counted() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    made(dir);
    for name in ["one/same", "one/size"] {
        assert!(run_in(dir, "chmod", &["640", name]).status.success());
    }
    let me = rustix::process::geteuid().as_raw();
    let mut words = vec![
        "chmod",
        "--json",
        "--dry-run",
        "600",
        "one/same",
        "one/size",
    ];
    for option in ["--dry-run", "-v"] {
        words[2] = option;
        let output = ours(dir, &words);
        assert_eq!(code(&output), (String::new(), Some(0)));
        let (found, counts) = lines(&output.stdout);
        let wanted = ["one/same", "one/size"].map(|path| json!({"path": path, "mode": "0600"}));
        assert_eq!(found, wanted, "{option}");
        assert_eq!(counts["changed"], 2);
    }
    let owner = format!("{}:4321", me + 1);
    let output = ours(dir, &["chown", "--json", "--dry-run", &owner, "one/same"]);
    assert_eq!(code(&output), (String::new(), Some(0)));
    let (found, _) = lines(&output.stdout);
    assert_eq!(found, [json!({"path": "one/same", "owner": owner})]);
}

#[test]
fn members_come_before_what_was_counted() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    made(dir);
    std::os::unix::fs::symlink("size", dir.join("one/link")).unwrap();
    std::fs::create_dir(dir.join("out")).unwrap();
    for words in [
        &["tar", "--json", "-cvf", "a.tar", "one"][..],
        &["tar", "--json", "-tf", "a.tar"],
        &["tar", "--json", "-xvf", "a.tar", "-C", "out"],
    ] {
        let output = ours(dir, words);
        assert_eq!(code(&output), (String::new(), Some(0)), "{words:?}");
        let (found, counts) = lines(&output.stdout);
        assert_eq!(counts["members"], 5, "{words:?}");
        let paths: Vec<_> = found
            .iter()
            .map(|it| it["path"].as_str().unwrap())
            .collect();
        let wanted = ["one/", "one/link", "one/same", "one/size", "one/\u{fffd}\n"];
        assert_eq!(paths, wanted, "{words:?}");
        assert_eq!(found[1]["target"], "size");
        assert_eq!(
            (&found[3]["size"], &found[3]["kind"]),
            (&json!(3), &json!("file"))
        );
        assert_eq!(found[4]["path_hex"], "6f6e652fff0a");
        let time = std::fs::metadata(dir.join("one/size"))
            .unwrap()
            .modified()
            .unwrap();
        let time = time
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap()
            .as_nanos();
        assert_eq!(u128::from(found[3]["mtime_ns"].as_u64().unwrap()), time);
    }
    // Without -v it is what was counted alone.
    let output = ours(dir, &["tar", "--json", "-cf", "a.tar", "one"]);
    assert_eq!(lines(&output.stdout).0, Vec::<Value>::new());
    // With an archive, or data, on standard output it is on standard error.
    let output = ours(dir, &["tar", "--json", "-cv", "one"]);
    assert_eq!(lines(&output.stderr).0.len(), 5);
    assert_eq!(output.stdout.len() % 512, 0);
    let output = ours(dir, &["tar", "--json", "-xOf", "a.tar", "one/size"]);
    assert_eq!(
        (&output.stdout[..], lines(&output.stderr).0.len()),
        (&b"one"[..], 0)
    );
}

#[test]
fn what_a_copy_does_comes_before_what_was_counted() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    made(dir);
    assert!(
        run_in(dir, "touch", &["-r", "one/same", "other/same"])
            .status
            .success()
    );
    assert!(
        run_in(dir, "chmod", &["600", "other/same"])
            .status
            .success()
    );
    let sync = ["sync", "--json", "--delete", "one", "other"];
    for option in ["--dry-run", "-v"] {
        let output = ours(dir, &[&sync[..], &[option]].concat());
        assert_eq!(code(&output), (String::new(), Some(0)));
        let (found, counts) = lines(&output.stdout);
        assert_eq!(
            found,
            [
                json!({"path": "one/same", "done": "="}),
                json!({"path": "one/size", "done": "~"}),
                json!({"path": "one/\u{fffd}\n", "path_hex": "6f6e652fff0a", "done": "+"}),
                json!({"path": "other/new", "done": "-"}),
            ],
            "{option}"
        );
        assert_eq!(counts["attributes"], 1, "{option}");
        assert_eq!(counts["interrupted"], false, "{option}");
    }
    let output = ours(dir, &["cp", "-rv", "--json", "one", "copy"]);
    assert_eq!(code(&output), (String::new(), Some(0)));
    let (found, _) = lines(&output.stdout);
    assert!(found.iter().all(|line| line["done"] == "+"), "{found:?}");
    assert_eq!(found.len(), 4);
}

#[test]
fn du_tells_bytes_of_each_directory_and_of_all() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for name in ["tree", "tree/a", "tree/a/b"] {
        std::fs::create_dir(dir.join(name)).unwrap();
    }
    std::fs::write(dir.join("tree/a/b/large"), [1; 5_000]).unwrap();
    let du = |options: &[&str]| {
        let output = ours(dir, &[&["du", "--json", "-c"], options, &["tree"]].concat());
        assert_eq!(code(&output), (String::new(), Some(0)));
        lines(&output.stdout)
    };
    let (found, total) = du(&["--inodes"]);
    let inodes = |path, inodes| json!({"path": path, "inodes": inodes});
    assert_eq!(
        found,
        [
            inodes("tree", 4),
            inodes("tree/a", 3),
            inodes("tree/a/b", 2)
        ]
    );
    assert_eq!(total, json!({"inodes": 4}));
    // As GNU du has it, whatever unit is asked for.
    let (found, total) = du(&["-d", "1", "-h", "--time"]);
    let gnu = run_in(dir, "du", &["-B1", "-d", "1", "tree"]);
    let gnu = String::from_utf8(gnu.stdout).unwrap();
    for line in &found {
        let told = format!("{}\t{}\n", line["bytes"], line["path"].as_str().unwrap());
        assert!(gnu.contains(&told), "{told}");
        assert!(line["mtime_ns"].as_i64().unwrap() > 1_000_000_000_000_000_000);
    }
    assert_eq!((found.len(), &total["bytes"]), (2, &found[0]["bytes"]));
    assert_eq!(total.get("path"), None);
}

#[test]
fn rm_tells_what_is_removed_and_how_much() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    made(dir);
    let rm = |options: &[&str]| {
        let output = ours(dir, &[&["rm", "--json"], options, &["one"]].concat());
        assert_eq!(code(&output), (String::new(), Some(0)));
        lines(&output.stdout)
    };
    let (would, counts) = rm(&["-r", "--dry-run"]);
    assert_eq!(would.len(), 4);
    assert_eq!(would[0], json!({"path": "one"}));
    assert_eq!(
        (&counts["removed"], &counts["dry_run"]),
        (&json!(4), &json!(true))
    );
    let (said, counts) = rm(&["-r"]);
    assert_eq!(said, [] as [Value; 0]);
    for (name, value) in [
        ("removed", json!(4)),
        ("kept", json!(0)),
        ("problems", json!(0)),
        ("dry_run", json!(false)),
        ("interrupted", json!(false)),
    ] {
        assert_eq!(counts[name], value, "{name}");
    }
    assert!(!dir.join("one").exists());
}
