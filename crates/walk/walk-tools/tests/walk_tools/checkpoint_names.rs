//! Protection of files that a checkpoint would be written over.

use crate::common::{ours, run_in, stderr};

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

/// `--checkpoint FILE` emptied FILE.list and FILE.items and removed all three in the end, whatever
/// they were.
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

/// The first checkpoint was written after five minutes: of a run that was killed before, files were
/// left that the next one would not write over.
#[test]
fn a_run_that_is_killed_before_it_has_done_anything_is_gone_on_with() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    for name in ["tree", "tree/a", "tree/b"] {
        std::fs::create_dir(path.join(name)).unwrap();
    }
    let once = "test -e once && exit; touch once; kill -KILL $PPID";
    let find = ["find", "--checkpoint", "state", "tree", "-print0"];
    let find = [
        &find[..],
        &["-fprint0", "printed", "-exec", "sh", "-c", once, ";"],
    ]
    .concat();
    let killed = ours(path, &find);
    assert_eq!(killed.status.code(), None, "{}", stderr(&killed));
    assert!(killed.stdout.is_empty());
    let state = std::fs::read(path.join("state")).unwrap();
    assert!(String::from_utf8_lossy(&state).contains("\"found\":null"));
    std::fs::write(path.join("state.list"), "half a na").unwrap();
    let output = ours(path, &[&find[..1], &["--resume"], &find[1..]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let all: Vec<Vec<u8>> = ["", "tree", "tree/a", "tree/b"].map(Vec::from).into();
    let sorted = |bytes: &[u8]| {
        let mut names: Vec<Vec<u8>> = bytes.split(|byte| *byte == 0).map(Vec::from).collect();
        names.sort();
        names
    };
    assert_eq!(sorted(&output.stdout), all);
    assert_eq!(sorted(&std::fs::read(path.join("printed")).unwrap()), all);
    let left = std::fs::read_dir(path).unwrap().count();
    assert_eq!(left, 3, "tree, once and printed");
}

/// The end of the connection that a walk of days was started from lost all since the last
/// checkpoint.
#[test]
fn the_end_of_the_terminal_is_as_ctrl_c_but_under_nohup() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    for name in ["tree", "tree/a", "tree/a/b"] {
        std::fs::create_dir(path.join(name)).unwrap();
    }
    let program = env!("CARGO_BIN_EXE_pandofs-walk");
    let find = ["find", "--threads", "1", "--checkpoint", "state", "tree"];
    let hang_up = [
        "-print",
        "-exec",
        "sh",
        "-c",
        "kill -HUP $PPID; sleep 0.1",
        ";",
    ];
    let names = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        let mut names: Vec<String> = text.lines().map(str::to_owned).collect();
        names.sort();
        names
    };
    // One more time where the signal comes too late.
    let interrupted = (0..100).any(|_| {
        let output = ours(path, &[&find[..], &hang_up[..]].concat());
        let is_left = path.join("state").exists();
        let code = output.status.code();
        assert_eq!(
            code,
            Some(if is_left { 130 } else { 0 }),
            "{}",
            stderr(&output)
        );
        is_left
    });
    assert!(interrupted, "it is not interrupted by SIGHUP");
    let mut resumed = 0;
    loop {
        let arguments = [&find[..1], &["--resume"], &find[1..], &hang_up[..]].concat();
        let output = ours(path, &arguments);
        resumed += 1;
        if !path.join("state").exists() {
            assert!(output.status.success(), "{}", stderr(&output));
            assert_eq!(names(&output.stdout), ["tree", "tree/a", "tree/a/b"]);
            break;
        }
        assert!(resumed < 100, "{}", stderr(&output));
    }
    let ignoring = ["--ignore-signal=HUP", program];
    let output = run_in(path, "env", &[&ignoring, &find[..], &hang_up[..]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(names(&output.stdout), ["tree", "tree/a", "tree/a/b"]);
}
