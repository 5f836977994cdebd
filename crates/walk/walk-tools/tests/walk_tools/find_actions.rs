//! Actions of find, compared with those of GNU find.

use crate::common::{ALGORITHMS, make_tree, ours, run_in, sorted, stderr, tree};
use std::path::Path;

/// Both print the same records and end the same way.
fn same(dir: &Path, words: &[&str], end: u8) {
    let theirs = run_in(dir, "find", words);
    let mine = ours(dir, &[&["find"], words].concat());
    let show = |records: Vec<Vec<u8>>| -> Vec<String> {
        let texts = records.iter().map(|it| String::from_utf8_lossy(it));
        texts.map(|it| it.into_owned()).collect()
    };
    assert_eq!(stderr(&mine), "", "{words:?}");
    assert_eq!(mine.status.code(), theirs.status.code(), "{words:?}");
    assert_eq!(
        show(sorted(&mine, end)),
        show(sorted(&theirs, end)),
        "{words:?}"
    );
}

#[test]
fn dates_are_those_of_gnu() {
    let (dir, _) = tree();
    for text in [
        "2020-01-01",
        "2020-01-01 12:30",
        "2020-01-01 12:30:15.25",
        "2020-01-01T12:30:00Z",
        "2020-01-01 12:30 +0200",
        "20200101",
        "1/2/2025",
        "1 Jan 2025",
        "Jan 1, 2025",
        "@1700000000",
        "@1700000000.5",
        "now",
        "today",
        "yesterday",
        "2 days ago",
        "45 days ago",
        "3 hours ago",
        "-40 hours",
        "last month",
        "1 week ago",
        "1 year ago",
        "90 minutes ago",
        "last monday",
        "tomorrow",
    ] {
        same(dir.path(), &["tree", "-newermt", text, "-print0"], 0);
    }
    let wrong = ours(dir.path(), &["find", "tree", "-newermt", "no such day"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("no such day"), "{}", stderr(&wrong));
}

#[test]
fn times_are_written_in_every_way() {
    let (dir, _) = tree();
    for field in "@+aAbBcCdDeFgGhHIjklmMnpPrRsStTuUVwWxXyYzZ".chars() {
        for which in ['A', 'C', 'T'] {
            let format = format!("%{which}{field}|%p\\0");
            // Reading a directory is an access: of those the times change meanwhile.
            same(
                dir.path(),
                &["tree/d0", "-type", "f", "-printf", &format],
                0,
            );
        }
    }
    same(
        dir.path(),
        &["tree/d0", "-type", "f", "-printf", "%a|%c|%t|%30Tc|%p\\0"],
        0,
    );
}

/// Commands that print where they run and what they get: a line for each name.
const SAYS: [&str; 4] = [
    "sh",
    "-c",
    "for name; do echo \"$(pwd)|$name|$(test -e \"$name\" -o -L \"$name\" && echo there)\"; done",
    "sh",
];

#[test]
fn commands_run_in_the_directory_of_what_is_found() {
    let (dir, _) = tree();
    for roots in [
        &["tree/d0/e1/deeper/plain.c", "tree/d0"][..],
        &["tree/d2/e1/", "./tree/d2/e2"],
        &[".", "./", "tree/d0/e0/.."],
        &["/"],
    ] {
        for (kind, end) in [("-execdir", ";"), ("-execdir", "+")] {
            let depth = if roots.contains(&"tree/d0") { "3" } else { "0" };
            let words = [roots, &["-maxdepth", depth, kind], &SAYS[..], &["{}", end]].concat();
            same(dir.path(), &words, b'\n');
        }
    }
    for end in [";", "+"] {
        let fails = ["tree/d2", "-execdir", "false", "{}", end];
        same(dir.path(), &fails, b'\n');
    }
}

#[test]
fn names_of_a_directory_go_together() {
    let (dir, _) = tree();
    let counts = [
        "find",
        "--threads",
        "2",
        "tree/d1",
        "-maxdepth",
        "1",
        "-execdir",
        "sh",
        "-c",
        "echo $#",
        "sh",
        "{}",
        "+",
    ];
    let mine = ours(dir.path(), &counts);
    let lines = sorted(&mine, b'\n');
    let texts = lines
        .iter()
        .map(|line| String::from_utf8_lossy(line).into_owned());
    let numbers: Vec<usize> = texts.map(|text| text.parse().unwrap()).collect();
    // The root, and 3,005 entries in as many runs as the directory had slices.
    assert_eq!(numbers.iter().sum::<usize>(), 3_006);
    assert!(numbers.len() < 1_000, "{}", numbers.len());
    let one = [&counts[..1], &["--threads", "1"], &counts[3..]].concat();
    assert_eq!(sorted(&ours(dir.path(), &one), b'\n').len(), 2);
}

/// A directory can be removed by a command once the commands that removed what was in it have run.
#[test]
fn commands_of_a_directory_run_before_it_is_left() {
    let (dir, tree) = tree();
    for algorithm in ALGORITHMS {
        let words = [
            "find",
            "--algorithm",
            algorithm,
            "--threads",
            "3",
            "tree",
            "-depth",
            "-execdir",
            "rm",
            "-d",
            "--",
            "{}",
            "+",
        ];
        let gone = ours(dir.path(), &words);
        assert_eq!(stderr(&gone), "", "{algorithm}");
        assert!(gone.status.success() && !tree.exists(), "{algorithm}");
        std::fs::create_dir(&tree).unwrap();
        make_tree(&tree);
    }
}

#[test]
fn nothing_happens_after_quit() {
    let (dir, _) = tree();
    for algorithm in ALGORITHMS {
        for action in [
            &["-print"][..],
            &["-exec", "echo", "{}", ";"],
            &["-execdir", "echo", "{}", "+"],
            &["-fprint", "/dev/stdout"],
        ] {
            let words = [
                &[
                    "find",
                    "--algorithm",
                    algorithm,
                    "--threads",
                    "4",
                    "tree",
                    // Names without a line's end in them.
                    "-name",
                    "*.c",
                ],
                action,
                &["-quit"],
            ]
            .concat();
            let mine = ours(dir.path(), &words);
            assert_eq!(
                (stderr(&mine), mine.status.code()),
                (String::new(), Some(0))
            );
            let lines = String::from_utf8_lossy(&mine.stdout).into_owned();
            assert_eq!(lines.lines().count(), 1, "{algorithm} {action:?}: {lines}");
        }
    }
}

#[test]
fn files_can_be_devices() {
    let (dir, _) = tree();
    let names = ["tree", "-name", "*.c"];
    let expected = sorted(&run_in(dir.path(), "find", &names), b'\n');
    let into = |file| [&["find"], &names[..], &["-fprint", file]].concat();
    assert_eq!(
        sorted(&ours(dir.path(), &into("/dev/stdout")), b'\n'),
        expected
    );
    let mut errors = ours(dir.path(), &into("/dev/stderr"));
    assert!(errors.status.success() && errors.stdout.is_empty());
    std::mem::swap(&mut errors.stdout, &mut errors.stderr);
    assert_eq!(sorted(&errors, b'\n'), expected);
    let nothing = ours(dir.path(), &into("/dev/null"));
    assert!(nothing.status.success() && nothing.stdout.is_empty());
    assert_eq!(stderr(&nothing), "");
    let full = ours(dir.path(), &into("/dev/full"));
    assert_eq!(full.status.code(), Some(1));
    assert!(stderr(&full).contains("/dev/full"));

    let program = env!("CARGO_BIN_EXE_pandofs-walk");
    // An existing file stays, as with GNU find.
    let shell =
        format!("(echo before; {program} find tree -name '*.c' -fprint /dev/stdout) > list");
    assert!(run_in(dir.path(), "sh", &["-c", &shell]).status.success());
    let list = std::fs::read_to_string(dir.path().join("list")).unwrap();
    assert!(list.starts_with("before\n") && list.lines().count() == expected.len() + 1);
    // Through a pipe that is no pipe of this process.
    assert!(run_in(dir.path(), "mkfifo", &["pipe"]).status.success());
    let shell = format!("{program} find tree -name '*.c' -fprint pipe & cat pipe; wait");
    assert_eq!(
        sorted(&run_in(dir.path(), "sh", &["-c", &shell]), b'\n'),
        expected
    );
    // Of a list, too.
    for list in ["/dev/stdout", "/dev/stderr", "/dev/null"] {
        let walk = ours(
            dir.path(),
            &["walk", "--list", "text", "--output", list, "tree/d0"],
        );
        assert!(walk.status.success(), "{list}");
        assert_eq!(walk.stdout.is_empty(), list != "/dev/stdout");
        assert_eq!(walk.stderr.is_empty(), list != "/dev/stderr");
    }
    // Nothing can be cut off those.
    for device in ["/dev/null", "/dev/stderr"] {
        let words = ["find", "--checkpoint", "state", "tree", "-fprint", device];
        let refused = ours(dir.path(), &words);
        assert_eq!(
            refused.status.code() == Some(0),
            device == "/dev/stderr",
            "{}",
            stderr(&refused)
        );
    }
}

#[test]
fn contexts_need_selinux() {
    let (dir, _) = tree();
    let here = Path::new("/sys/fs/selinux/enforce").exists();
    let words = ["find", "tree/d0", "-context", "*"];
    let all = ours(dir.path(), &words);
    assert_eq!(all.status.success(), here, "{}", stderr(&all));
    let written = ours(
        dir.path(),
        &["find", "tree/d0", "-maxdepth", "0", "-printf", "[%Z]\\n"],
    );
    assert_eq!(String::from_utf8_lossy(&written.stdout) == "[]\n", !here);
    assert!(written.status.success());
}

#[test]
fn what_somebody_else_has_removed_is_deleted() {
    let (dir, _) = tree();
    let line = "find tree/d0 -name plain.c -exec rm {} ; -delete -print";
    let words: Vec<_> = line.split(' ').collect();
    let output = ours(dir.path(), &words);
    assert_eq!(
        (output.status.code(), stderr(&output)),
        (Some(0), String::new())
    );
    assert_eq!(sorted(&output, b'\n').len(), 5);
}
