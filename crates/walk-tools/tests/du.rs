//! The same as GNU du, but for the order.

#![allow(clippy::unwrap_used)]

mod common;

use common::{ALGORITHMS, killed, ours, run_in, sorted, stderr, tree};

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

#[test]
fn a_missing_root_is_told_and_seen_in_the_exit_code() {
    let (dir, _) = tree();
    let output = ours(dir.path(), &["du", "-s", "missing", "tree/d0"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("missing"));
    assert_eq!(sorted(&output, b'\n').len(), 1);
}

#[test]
fn lines_end_with_a_nul_if_wanted() {
    let (dir, _) = tree();
    let theirs = sorted(&run_in(dir.path(), "du", &["-0", "tree"]), 0);
    assert_eq!(sorted(&ours(dir.path(), &["du", "-0", "tree"]), 0), theirs);
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
        // A file with two names counts in the directory where one is met first; both are in one here.
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
