//! Comparison of du with GNU du, but for the order.

use crate::common::{ALGORITHMS, killed, ours, run_in, sorted, stderr, tree};
use std::collections::BTreeMap;

#[test]
fn roots_in_other_roots_count_once() {
    let (dir, _) = tree();
    let alone = run_in(dir.path(), "du", &["-s", "tree"]).stdout;
    let size = alone.split(|byte| *byte == b'\t').next().unwrap().to_vec();
    let total = [&size[..], b"\ttotal\n"].concat();
    for roots in [
        &["tree", "tree/d1"][..],
        &["tree/d1", "tree"],
        &["tree", "./tree"],
    ] {
        let ours = ours(dir.path(), &[&["du", "-s", "-c"], roots].concat()).stdout;
        assert!(ours.ends_with(&total), "{roots:?}: {ours:?}");
    }
}

#[test]
fn trees_have_the_same_sizes() {
    let (dir, _) = tree();
    std::fs::write(dir.path().join("patterns"), "e1\n\nf1*\ntree/d3/e*\n").unwrap();
    for options in [
        &[][..],
        &["-s"],
        &["-d", "1"],
        &["-d", "0"],
        &["-h"],
        &["-b"],
        &["-c", "-s"],
        &["-x"],
        &["--apparent-size"],
        &["-sh"],
        &["-k"],
        &["-m", "-d", "1"],
        &["-BM", "-s"],
        &["-B", "4K"],
        &["--block-size=1MB", "-s"],
        &["--si"],
        &["-b", "-h"],
        &["-S"],
        &["-S", "-c", "-s"],
        &["-l"],
        &["--inodes"],
        &["--inodes", "-l", "-d", "1"],
        &["-t", "50K"],
        &["-b", "--threshold=-300K"],
        &["--exclude", "*.c"],
        &["--exclude=tree/d1/e*", "--exclude", "fifo"],
        &["--time"],
        &["--time=atime", "--time-style=full-iso"],
        &["--time=ctime", "--time-style=+%s", "-d", "1"],
        &["--time", "--time-style=iso", "-s"],
        &["-L", "--exclude=dangling"],
        &["-D", "-s"],
        &["-X", "patterns"],
        &["--exclude-from=patterns", "--exclude=*.c", "-b"],
        &["-P"],
        &["-L", "--exclude=dangling", "-P"],
        &["-D", "-P", "-s"],
    ] {
        for roots in [&["tree"][..], &["tree/d0", "tree/d1/f7", "tree/d2/"]] {
            let theirs = run_in(dir.path(), "du", &[options, roots].concat());
            let mine = ours(dir.path(), &[&["du"], options, roots].concat());
            assert_eq!(stderr(&mine), "");
            assert_eq!(
                sorted(&mine, b'\n'),
                sorted(&theirs, b'\n'),
                "{options:?} {roots:?}"
            );
        }
    }
}

#[test]
fn with_every_algorithm_and_on_a_real_tree() {
    let root = "/usr/share";
    let theirs = sorted(&run_in("/".as_ref(), "du", &["-s", root]), b'\n');
    for algorithm in ALGORITHMS {
        let how = ["du", "--algorithm", algorithm, "--threads", "3", "-s", root];
        assert_eq!(
            sorted(&ours("/".as_ref(), &how), b'\n'),
            theirs,
            "{algorithm}"
        );
    }
}

#[test]
fn files_are_shown_with_a() {
    let (dir, _) = tree();
    // Without the files that have two names: which of them counts is a matter of order.
    let without = |output| -> Vec<Vec<u8>> {
        let mut records = sorted(&output, b'\n');
        records.retain(|line| {
            let line = String::from_utf8_lossy(line);
            !line.contains("plain.c") && !line.contains("second name")
        });
        records
    };
    assert_eq!(
        without(ours(dir.path(), &["du", "-a", "tree"])),
        without(run_in(dir.path(), "du", &["-a", "tree"]))
    );
}

#[test]
fn tables_add_up() {
    let (dir, _) = tree();
    let all: u64 = {
        let output = run_in(dir.path(), "du", &["-s", "-B1", "tree"]);
        let text = String::from_utf8(output.stdout).unwrap();
        text.split('\t').next().unwrap().parse().unwrap()
    };
    for by in ["user", "group", "age"] {
        let output = ours(dir.path(), &["du", "--by", by, "--json", "tree"]);
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["bytes"], all, "{by}");
        assert_eq!(report["by"], by);
    }
    let output = ours(dir.path(), &["du", "--by", "size", "--json", "-b", "tree"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let groups: Vec<(&str, u64, u64)> = report["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| {
            let number = |key: &str| it[key].as_u64().unwrap();
            (
                it["name"].as_str().unwrap(),
                number("entries"),
                number("bytes"),
            )
        })
        .collect();
    // Thirty directories with one file of each of six sizes, and 3,000 empty ones.
    let expected = [
        ("empty", 3_030, 0),
        ("under 4 KiB", 90, 30 * (1 + 511 + 512)),
        ("under 64 KiB", 30, 30 * 4_097),
        ("under 1 MiB", 30, 30 * 70_000),
    ];
    assert_eq!(groups, expected);

    let chart = ours(dir.path(), &["du", "--by", "age", "tree"]);
    let text = String::from_utf8(chart.stdout).unwrap();
    assert!(text.contains("under two years"), "{text}");
    assert!(text.contains('█'), "{text}");
}

/// Groups by age, and days below which an entry belongs there if it does to none before.
const AGES: [(&str, f64); 7] = [
    ("under a day", 1.0),
    ("under a week", 7.0),
    ("under 30 days", 30.0),
    ("under 90 days", 90.0),
    ("under a year", 365.0),
    ("under two years", 730.0),
    ("older", f64::INFINITY),
];

/// Entries and bytes on disk of each group of a table.
fn groups(dir: &std::path::Path, by: &str) -> BTreeMap<String, (u64, u64)> {
    let output = ours(dir, &["du", "--threads", "3", "--by", by, "--json", "tree"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let groups = report["groups"].as_array().unwrap().iter().map(|it| {
        let number = |key: &str| it[key].as_u64().unwrap();
        let name = it["name"].as_str().unwrap().to_owned();
        (name, (number("entries"), number("bytes")))
    });
    groups.collect()
}

/// The same from what find says of each inode.
fn groups_of_find(
    dir: &std::path::Path,
    what: &str,
    name: impl Fn(&str) -> String,
) -> BTreeMap<String, (u64, u64)> {
    let format = format!("%i %D {what} %b\\0");
    let mut lines = sorted(&run_in(dir, "find", &["tree", "-printf", &format]), 0);
    lines.dedup();
    let mut groups = BTreeMap::<String, (u64, u64)>::new();
    for line in lines {
        let line = String::from_utf8(line).unwrap();
        let fields: Vec<&str> = line.split(' ').collect();
        let group = groups.entry(name(fields[2])).or_default();
        group.0 += 1;
        group.1 += fields[3].parse::<u64>().unwrap() * 512;
    }
    groups
}

#[test]
fn every_group_has_what_find_finds_in_it() {
    let (dir, tree) = tree();
    if rustix::process::geteuid().is_root() {
        // Some of another owner, and of owners without a name.
        for (path, owner) in [
            ("d0/e1", "1:0"),
            ("d0/e2", "3999999999:1"),
            ("d3", "0:3999999998"),
        ] {
            let path = tree.join(path);
            let words = ["-R", owner, path.to_str().unwrap()];
            assert!(run_in(dir.path(), "chown", &words).status.success());
        }
    }
    let by_name = |what| groups_of_find(dir.path(), what, str::to_owned);
    assert_eq!(groups(dir.path(), "user"), by_name("%u"));
    assert_eq!(groups(dir.path(), "group"), by_name("%g"));
    let now = std::time::SystemTime::now();
    let now = now
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs_f64();
    // The ages of the tree's files are far from these bounds.
    let age = |time: &str| {
        let days = (now - time.parse::<f64>().unwrap()) / 86_400.0;
        let bounds = AGES.iter().find(|(_, bound)| days < *bound);
        bounds.unwrap().0.to_owned()
    };
    assert_eq!(
        groups(dir.path(), "age"),
        groups_of_find(dir.path(), "%T@", age)
    );
}

#[test]
fn a_missing_root_is_told_and_seen_in_the_exit_code() {
    let (dir, _) = tree();
    let output = ours(dir.path(), &["du", "-s", "missing", "tree/d0"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("missing"));
    assert_eq!(sorted(&output, b'\n').len(), 1);
}

#[test]
fn roots_come_from_a_file() {
    let (dir, _) = tree();
    std::fs::write(dir.path().join("roots"), b"tree/d0\0tree/d2/e1\0").unwrap();
    let theirs = run_in(dir.path(), "du", &["-c", "--files0-from=roots"]);
    let mine = ours(dir.path(), &["du", "-c", "--files0-from=roots"]);
    assert_eq!(stderr(&mine), "");
    assert_eq!(sorted(&mine, b'\n'), sorted(&theirs, b'\n'));
    let shell = format!(
        "{} du -c --files0-from - < roots",
        env!("CARGO_BIN_EXE_pandofs-walk")
    );
    let piped = run_in(dir.path(), "sh", &["-c", &shell]);
    assert_eq!(sorted(&piped, b'\n'), sorted(&theirs, b'\n'));
    let both = ours(dir.path(), &["du", "--files0-from=roots", "tree"]);
    assert_eq!(both.status.code(), Some(2));
    let missing = ours(dir.path(), &["du", "--files0-from=missing"]);
    assert_eq!(missing.status.code(), Some(1));
    let patterns = ours(dir.path(), &["du", "-X", "missing", "tree"]);
    assert_eq!(patterns.status.code(), Some(1));
}

#[test]
fn lines_end_with_a_nul_if_wanted() {
    let (dir, _) = tree();
    let theirs = sorted(&run_in(dir.path(), "du", &["-0", "tree"]), 0);
    assert_eq!(sorted(&ours(dir.path(), &["du", "-0", "tree"]), 0), theirs);
}

#[test]
fn a_directory_alone_has_times_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    std::fs::create_dir_all(path.join("tree/a/b")).unwrap();
    std::fs::write(path.join("tree/a/file"), "x").unwrap();
    std::fs::write(path.join("other"), "x").unwrap();
    // The deeper, the later; and a directory that is later than what is in it.
    for (name, date) in [
        ("tree/a/file", "2004-04-04"),
        ("tree/a/b", "2005-05-05"),
        ("tree/a", "2003-03-03"),
        ("tree", "2002-02-02"),
        ("other", "2001-01-01"),
    ] {
        let touched = run_in(path, "touch", &["-d", date, name]);
        assert!(touched.status.success());
    }
    for options in [
        &["-S", "--time"][..],
        &["-S", "--time", "-c"],
        &["--time", "-c"],
        &["-S", "--time", "-c", "-a"],
    ] {
        for roots in [&["tree"][..], &["tree", "other"], &["other"]] {
            let words = [options, roots].concat();
            let theirs = run_in(path, "du", &words);
            let mine = ours(path, &[&["du"], &words[..]].concat());
            assert_eq!(sorted(&mine, b'\n'), sorted(&theirs, b'\n'), "{words:?}");
        }
    }
}

#[test]
fn a_run_that_is_killed_goes_on() {
    let (dir, _) = tree();
    for options in [
        &["-b", "-c"][..],
        &["-S", "--time"],
        &["--inodes"],
        &["-l", "-d", "1"],
    ] {
        let theirs = run_in(dir.path(), "du", &[options, &["tree"]].concat());
        let mine = killed(dir.path(), &[&["du"], options, &["tree"]].concat(), 6);
        assert_eq!(stderr(&mine), "");
        // A file with two names counts in the directory where one is met first; both are in one
        // here.
        assert_eq!(sorted(&mine, b'\n'), sorted(&theirs, b'\n'), "{options:?}");
    }
    let by = ["du", "--by", "size", "--json", "tree"];
    let (whole, parts) = (ours(dir.path(), &by), killed(dir.path(), &by, 6));
    assert_eq!(parts.stdout, whole.stdout);
}

#[test]
fn a_page_shows_directories_and_tables() {
    let (dir, _) = tree();
    let output = ours(dir.path(), &["du", "--html", "page.html", "tree"]);
    assert_eq!((stderr(&output), output.stdout.len()), (String::new(), 0));
    let page = std::fs::read_to_string(dir.path().join("page.html")).unwrap();
    for wanted in [
        "<title>tree: ",
        "<title>tree/d1: ",
        "<title>tree/d0/e3/deeper: ",
        "<h2>By user</h2>",
        "<td>root</td>",
        "under 64 KiB",
        "under two years",
    ] {
        assert!(page.contains(wanted), "{wanted}");
    }
    // It needs nothing from elsewhere.
    assert!(!page.contains("http") && !page.contains("<script"));
    let bytes = run_in(dir.path(), "du", &["-s", "-B1", "tree"]).stdout;
    let bytes: u64 = String::from_utf8(bytes)
        .unwrap()
        .split('\t')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    let plain: String = page.chars().filter(|letter| *letter != ',').collect();
    assert!(plain.contains(&format!("({bytes} bytes")), "{bytes}");
}
