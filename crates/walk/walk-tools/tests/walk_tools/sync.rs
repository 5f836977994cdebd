//! Entries that `sync --delete` does not remove.

use crate::common::{ours, run_in, stderr};
use std::path::Path;

fn write(path: &Path) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, "").unwrap();
}

#[test]
fn a_directory_stays_with_what_is_excluded_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::create_dir(dir.join("source")).unwrap();
    for name in [
        "old/keep.db",
        "old/other",
        "old/deep/er/keep.db",
        "old/deep/other",
        "gone/a",
    ] {
        write(&dir.join("target").join(name));
    }
    let arguments = ["sync", "--delete", "--exclude", "*.db", "source", "target"];
    let dry = ours(dir, &[&arguments[..], &["-n"]].concat());
    let run = ours(dir, &arguments);
    for output in [&dry, &run] {
        assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
        let mut said: Vec<String> = stderr(output).lines().map(str::to_owned).collect();
        said.sort_unstable();
        let stays = "stays: what is excluded is in it";
        assert_eq!(
            said,
            [
                format!("pandofs sync: target/old/deep/er: {stays}"),
                format!("pandofs sync: target/old: {stays}"),
            ]
        );
    }
    let left = run_in(dir, "find", &["target", "-type", "f"]);
    let mut left: Vec<&[u8]> = left.stdout.split(|byte| *byte == b'\n').collect();
    left.sort_unstable();
    let expected = ["", "target/old/deep/er/keep.db", "target/old/keep.db"];
    assert_eq!(left, expected.map(str::as_bytes));
    assert!(!dir.join("target/gone").exists());
}

#[test]
fn a_pattern_of_paths_is_of_the_same_entries_in_both_trees() {
    for (source, target) in [
        ("source", "target"),
        ("source/", "./target/"),
        ("./source", "target"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        write(&dir.join("source/cache/new"));
        write(&dir.join("source/kept"));
        write(&dir.join("target/cache/old"));
        write(&dir.join("target/other/cache/old"));
        let pattern = format!("{}/cache", source.trim_end_matches('/'));
        let more = ["--delete", "--exclude", &pattern, source, target];
        let output = ours(dir, &[&["sync"], &more[..]].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(dir.join("target/cache/old").exists(), "{pattern}");
        assert!(!dir.join("target/cache/new").exists(), "{pattern}");
        assert!(!dir.join("target/other").exists(), "{pattern}");
        assert!(dir.join("target/kept").exists());
        // cmp goes there and back, by the same names.
        let more = ["--exclude", &pattern, source, target];
        let output = ours(dir, &[&["cmp"], &more[..]].concat());
        assert_eq!(output.stdout, b"", "{pattern}");
        assert!(output.status.success());
    }
}

#[test]
fn a_source_in_the_target_is_refused_by_whatever_name() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().canonicalize().unwrap();
    write(&dir.join("target/below/source/a"));
    write(&dir.join("target/other"));
    for (from, to) in [
        ("target/below/source", "to-source"),
        ("target", "to-target"),
    ] {
        std::os::unix::fs::symlink(from, dir.join(to)).unwrap();
    }
    let absolute = dir.join("target/below/source").into_os_string();
    let absolute = absolute.to_str().unwrap();
    for source in [
        "target/below/source",
        "to-source",
        "target/below/../below/source/",
        absolute,
    ] {
        for target in ["target", "to-target", "./target/.", "target/below"] {
            let output = ours(&dir, &["sync", "--delete", source, target]);
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(1), "{source} {target}: {said}");
            assert!(said.contains("--delete would remove it"), "{said}");
            assert!(dir.join("target/below/source/a").exists());
            assert!(dir.join("target/other").exists());
        }
    }
    // The other way round nothing of the source goes.
    let output = ours(&dir, &["sync", "--delete", "target", "target/below"]);
    let said = stderr(&output);
    assert!(
        said.contains("target/below: it is what is copied to"),
        "{said}"
    );
    assert!(dir.join("target/below/other").exists());
    // One that only begins with the same letters is another one.
    write(&dir.join("target-2/b"));
    let output = ours(&dir, &["sync", "--delete", "target-2", "target"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(dir.join("target/b").exists() && !dir.join("target/other").exists());
}

/// Copies that had other permissions, extended attributes or times alone were brought up to date
/// without a word, and a dry run did not tell that they would be.
#[test]
fn attributes_that_change_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for name in [
        "same",
        "mode",
        "attribute",
        "data",
        "sub/mode",
        "private/same",
    ] {
        write(&dir.join("source").join(name));
    }
    assert!(
        run_in(dir, "cp", &["-a", "source", "target"])
            .status
            .success()
    );
    let change = |program: &str, arguments: &[&str]| {
        let output = run_in(dir, program, arguments);
        assert!(output.status.success(), "{}", stderr(&output));
    };
    change("chmod", &["600", "target/mode", "target/sub/mode"]);
    change("chmod", &["700", "target/private"]);
    change("setfattr", &["-n", "user.a", "-v", "b", "source/attribute"]);
    std::fs::write(dir.join("source/data"), "more").unwrap();
    let told = |arguments: &[&str]| {
        let output = ours(dir, &[&["sync", "source", "target"], arguments].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let mut lines: Vec<_> = String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect();
        lines.sort();
        lines
    };
    let wanted = [
        "= source/attribute",
        "= source/mode",
        "= source/private",
        "= source/sub/mode",
        "~ source/data",
    ];
    assert_eq!(told(&["--dry-run"]), wanted);
    assert_eq!(told(&["-v"]), wanted);
    let nothing: [&str; 0] = [];
    assert_eq!(told(&["-v"]), nothing, "all is as it should be");
}
