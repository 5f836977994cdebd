//! Counts and lists.

use crate::common::{ALGORITHMS, killed, ours, run_in, sorted, stderr, tree};
use bytes::Bytes;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use std::process::Output;

#[test]
fn counts_are_those_of_find() {
    let (dir, _) = tree();
    let count = |expression: &[&str]| {
        let words = [&["tree"], expression, &["-print0"]].concat();
        sorted(&run_in(dir.path(), "find", &words), 0).len() as u64
    };
    // A line for each inode: files with several names count once.
    let sum = |expression: &[&str], what| {
        let format = format!("%i %D {what}\\n");
        let words = [&["tree"], expression, &["-printf", &format]].concat();
        let mut lines = sorted(&run_in(dir.path(), "find", &words), b'\n');
        lines.dedup();
        let numbers = lines.iter().map(|line| {
            let line = std::str::from_utf8(line).unwrap();
            line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()
        });
        numbers.sum::<u64>()
    };
    let (sizes, blocks) = (sum(&["-type", "f"], "%s"), sum(&[], "%b"));
    let hard_links = count(&["!", "-type", "d", "-links", "+1"]);
    assert_eq!(hard_links, 60);
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
        assert_eq!(counts["hard_links"], hard_links);
        assert_eq!(counts["disk_bytes"], blocks * 512);
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
    // No time at all between two interruptions: an item or some are done before the next one. A run
    // that is killed at any moment has a checkpoint to go on from.
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
    let whole = ours(dir.path(), &["walk", "--json", "tree"]);
    let whole: serde_json::Value = serde_json::from_slice(&whole.stdout).unwrap();
    for what in ["hard_links", "bytes", "disk_bytes"] {
        assert_eq!(counts[what], whole[what], "{what}");
    }
}

#[test]
fn a_walk_goes_on_only_where_it_began() {
    let (dir, tree) = tree();
    let state = dir.path().join("state");
    let begin = ["walk", "--checkpoint", state.to_str().unwrap(), "."];
    // The roots are the same words, but not the same directories.
    let mut run = std::process::Command::new(env!("CARGO_BIN_EXE_pandofs-walk"));
    run.args(begin)
        .args(["--checkpoint-interval", "0"])
        .current_dir(&tree);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !state.exists() {
        assert!(std::time::Instant::now() < deadline);
        let mut started = run.stdout(std::process::Stdio::null()).spawn().unwrap();
        while !state.exists() && started.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        started.kill().unwrap();
        started.wait().unwrap();
    }
    let go_on = [&begin[..], &["--resume"]].concat();
    let elsewhere = ours(&tree.join("d0"), &go_on);
    assert_eq!(elsewhere.status.code(), Some(1), "{}", stderr(&elsewhere));
    assert!(state.exists());
    let there = ours(&tree, &go_on);
    assert!(there.status.success(), "{}", stderr(&there));
}

/// Returns what find says of each entry, as the columns of a list have it.
fn columns(dir: &std::path::Path) -> Vec<[String; 10]> {
    // The path comes last: it may hold anything.
    let format = "%y\\t%s\\t%b\\t%m\\t%U\\t%G\\t%n\\t%T@\\t%i\\t%p\\0";
    let all = sorted(&run_in(dir, "find", &["tree", "-printf", format]), 0);
    let rows = all.into_iter().map(|row| {
        let mut fields = row.splitn(10, |byte| *byte == b'\t').map(<[u8]>::to_vec);
        let mut next = || fields.next().unwrap();
        let kind = match next()[..] {
            [b'd'] => "directory",
            [b'f'] => "file",
            [b'l'] => "link",
            [b'p'] => "fifo",
            ref other => panic!("{other:?}"),
        };
        let mut text = || String::from_utf8(next()).unwrap();
        let [size, blocks, mode, uid, gid, links, mtime, ino] = std::array::from_fn(|_| text());
        // Find has ten digits of nanoseconds.
        let mtime = mtime.strip_suffix('0').unwrap().to_owned();
        let path = next();
        let path = path.iter().map(|byte| format!("{byte:02x}")).collect();
        [
            path,
            kind.to_owned(),
            size,
            blocks,
            mode,
            uid,
            gid,
            links,
            mtime,
            ino,
        ]
    });
    let mut rows: Vec<_> = rows.collect();
    rows.sort_unstable();
    rows
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of a path as the text list has it.
fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        let length = match rest.as_bytes()[at + 1] {
            b'x' => {
                bytes.push(u8::from_str_radix(&rest[at + 2..at + 4], 16).unwrap());
                4
            }
            letter => {
                bytes.push(match letter {
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'r' => b'\r',
                    other => other,
                });
                2
            }
        };
        rest = &rest[at + length..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

/// A tree with names that are hard to quote as well.
fn odd_tree() -> (tempfile::TempDir, std::path::PathBuf) {
    let (dir, tree) = tree();
    for name in [
        "a \"quoted\" one",
        "a,comma",
        "\"",
        "back\\slash",
        "cr\r",
        "tab\t",
        "grün",
        "'",
        "",
    ] {
        std::fs::write(tree.join(format!("d5/{name}.txt")), name).unwrap();
    }
    (dir, tree)
}

#[test]
fn every_column_of_csv_is_that_of_find() {
    let (dir, _) = odd_tree();
    let csv = ours(dir.path(), &["walk", "--threads", "3", "-l", "csv", "tree"]);
    let text = String::from_utf8(csv.stdout).unwrap();
    let (head, rows) = text.split_once('\n').unwrap();
    assert_eq!(head, "path,kind,size,blocks,mode,uid,gid,links,mtime,ino");
    let mut found: Vec<[String; 10]> = Vec::new();
    for line in rows.lines() {
        // Only the path is quoted, and has no newline of its own.
        let quoted = line.strip_prefix('"').unwrap();
        let end = (0..quoted.len())
            .find(|at| {
                let (before, after) = quoted.as_bytes().split_at(*at);
                let quotes = before.iter().rev().take_while(|it| **it == b'"').count();
                after.starts_with(b"\",") && quotes % 2 == 0
            })
            .unwrap();
        let path = unescaped(&quoted[..end].replace("\"\"", "\""));
        let rest: Vec<&str> = quoted[end + 2..].split(',').collect();
        let mut row = vec![hex(&path)];
        row.extend(rest.iter().map(|field| (*field).to_owned()));
        found.push(row.try_into().unwrap());
    }
    compare_rows(found, &dir);
    // As others read it.
    let script = "import csv,sys; print(sum(1 for row in csv.reader(open('list', newline='')) if len(row) == 10))";
    std::fs::write(dir.path().join("list"), &text).unwrap();
    if let Ok(output) = std::process::Command::new("python3")
        .args(["-c", script])
        .current_dir(dir.path())
        .output()
        && output.status.success()
    {
        let count = String::from_utf8(output.stdout).unwrap();
        assert_eq!(count.trim(), text.lines().count().to_string());
    }
}

/// Times are numbers with as many digits as a double has, so they are compared to a microsecond.
fn compare_rows(mut found: Vec<[String; 10]>, dir: &tempfile::TempDir) {
    found.sort_unstable();
    let wanted = columns(dir.path());
    assert_eq!(found.len(), wanted.len());
    for (mut found, mut wanted) in found.into_iter().zip(wanted) {
        let number = |text: &str| text.parse::<f64>().unwrap();
        let apart = number(&found[8]) - number(&wanted[8]);
        assert!(apart.abs() < 1e-6, "{found:?} {wanted:?}");
        (found[8], wanted[8]) = (String::new(), String::new());
        assert_eq!(found, wanted);
    }
}

#[test]
fn every_column_of_json_is_that_of_find() {
    let (dir, _) = odd_tree();
    let json = ours(
        dir.path(),
        &["walk", "--threads", "3", "-l", "json", "tree"],
    );
    let rows = sorted(&json, b'\n').into_iter().map(|line| {
        let row: serde_json::Value = serde_json::from_slice(&line).unwrap();
        let path = row["path"].as_str().unwrap();
        let path = match row.get("path_hex") {
            Some(hex) => hex.as_str().unwrap().to_owned(),
            None => hex(path.as_bytes()),
        };
        let text = |name: &str| row[name].to_string();
        let mode = format!("{:o}", row["mode"].as_u64().unwrap());
        let exact = row["mtime_ns"].as_i64().unwrap();
        assert!((row["mtime"].as_f64().unwrap() - exact as f64 / 1e9).abs() < 1e-6);
        [
            path,
            row["kind"].as_str().unwrap().to_owned(),
            text("size"),
            text("blocks"),
            mode,
            text("uid"),
            text("gid"),
            text("links"),
            format!(
                "{}.{:09}",
                exact.div_euclid(1_000_000_000),
                exact.rem_euclid(1_000_000_000)
            ),
            text("ino"),
        ]
    });
    let mut found: Vec<_> = rows.collect();
    found.sort_unstable();
    // To the nanosecond.
    assert_eq!(found, columns(dir.path()));
}

#[test]
fn every_column_of_parquet_is_that_of_find() {
    let (dir, _) = odd_tree();
    let parquet = ours(
        dir.path(),
        &["walk", "--threads", "3", "-l", "parquet", "tree"],
    )
    .stdout;
    let reader = SerializedFileReader::new(Bytes::from(parquet)).unwrap();
    let schema = reader.metadata().file_metadata().schema();
    let names: Vec<&str> = schema.get_fields().iter().map(|it| it.name()).collect();
    let expected = [
        "path", "kind", "size", "blocks", "mode", "uid", "gid", "links", "mtime", "ino",
    ];
    assert_eq!(names, expected);
    let rows = reader.get_row_iter(None).unwrap().map(|row| {
        let row = row.unwrap();
        let number = |at| row.get_long(at).unwrap();
        let moment = number(8);
        [
            hex(row.get_bytes(0).unwrap().data()),
            row.get_string(1).unwrap().clone(),
            number(2).to_string(),
            number(3).to_string(),
            format!("{:o}", number(4)),
            number(5).to_string(),
            number(6).to_string(),
            number(7).to_string(),
            format!(
                "{}.{:09}",
                moment.div_euclid(1_000_000_000),
                moment.rem_euclid(1_000_000_000)
            ),
            number(9).to_string(),
        ]
    });
    let mut found: Vec<_> = rows.collect();
    found.sort_unstable();
    // To the nanosecond.
    assert_eq!(found, columns(dir.path()));
}

#[test]
fn a_list_as_parquet_goes_to_a_file_too() {
    let (dir, _) = tree();
    let list = ["walk", "-l", "parquet", "--output", "list", "tree"];
    // An existing file is replaced.
    std::fs::write(dir.path().join("list"), vec![b'x'; 10 << 20]).unwrap();
    let output = ours(dir.path(), &list);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(output.stdout.is_empty());
    let file = std::fs::File::open(dir.path().join("list")).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let rows = reader.metadata().file_metadata().num_rows();
    let all = sorted(&run_in(dir.path(), "find", &["tree", "-print0"]), 0);
    assert_eq!(rows, all.len() as i64);
    // No part of one can be gone on with.
    let checkpoint = [&list[..5], &["--checkpoint", "state", "tree"]].concat();
    let output = ours(dir.path(), &checkpoint);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("no checkpoints"));
    let full = ["walk", "-l", "parquet", "--output", "/dev/full", "tree"];
    let output = ours(dir.path(), &full);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("/dev/full"), "{}", stderr(&output));
}

/// Names of one file in several runs and processes: its bytes count once.
#[test]
fn files_with_several_names_count_once_though_the_walk_was_killed() {
    let (dir, tree) = tree();
    for name in 0..200 {
        let there = tree.join(format!("d{}/linked{name}", name % 6));
        std::fs::hard_link(tree.join("d0/e4/deeper/plain.c"), there).unwrap();
    }
    let counted = |output: &Output| -> Vec<u64> {
        assert!(output.status.success(), "{}", stderr(output));
        let counts: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        ["entries", "hard_links", "bytes", "disk_bytes"]
            .map(|it| counts[it].as_u64().unwrap())
            .into()
    };
    let at_once = counted(&ours(dir.path(), &["walk", "--json", "tree"]));
    let killed = killed(dir.path(), &["walk", "--json", "tree"], 4);
    assert_eq!(counted(&killed), at_once);
    assert!(!dir.path().join("state.links").exists());
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
