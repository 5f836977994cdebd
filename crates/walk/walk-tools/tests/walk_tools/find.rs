//! Comparison of find with GNU find, but for the order.

use crate::common;

use common::{ALGORITHMS, killed, ours, run_in, sorted, stderr, tree};
use std::path::Path;

/// Expressions, a word each; -print0 is added.
const EXPRESSIONS: &[&str] = &[
    "tree -xtype f",
    "tree -xtype l",
    "tree -xtype d -o -xtype p",
    "-L tree -xtype l",
    "tree -mmin -90.5",
    "tree -mtime -1.5",
    "tree -mtime +0.5",
    "tree -mtime 1.25",
    "tree -mmin 61.5",
    "tree -fstype proc",
    "tree ! -fstype nonsense",
    "tree -type f -used 0",
    "tree -type f -used +1",
    "tree -newermt 2020-01-01",
    "tree ! -newermt @1700000000.5",
    "tree -daystart -mtime 0",
    "tree -daystart -mtime +1",
    "tree -mtime -3 -daystart ! -mmin -3000",
    "tree -daystart -mmin +90",
    "tree",
    "tree/ tree/d0",
    "tree -name *.c",
    "tree -name *.[a-c] -o -name -*",
    "tree -iname *.rs",
    "tree -name star\\*\\[x*",
    "tree -name tree",
    "tree/ -name tree",
    "tree -path */e1/*",
    "tree -ipath *D1*E1*.C",
    "tree -regex .*/d[12]/.*\\.\\(c\\|txt\\)",
    "tree -iregex .*\\.RS",
    "tree -regextype posix-extended -regex .*/(e1|e2)/[^/]+",
    "tree -type f",
    "tree -type d",
    "tree -type l,p",
    "tree -lname */plain.c",
    "tree -size 0",
    "tree -size 1",
    "tree -size +1",
    "tree -size -2k",
    "tree -size +4096c",
    "tree -size -1M",
    "tree -size 512c",
    "tree -empty",
    "tree -empty -type d",
    "tree -mtime 0",
    "tree -mtime +0",
    "tree -mtime 1",
    "tree -mtime +1",
    "tree -mtime -2",
    "tree -mtime +100",
    "tree -mmin +60",
    "tree -mmin -60",
    "tree -atime +2",
    "tree -cmin -60",
    "tree -newer tree/d0/e0/deeper/plain.c",
    "tree -newermm tree/d0/e0/deeper/plain.c",
    "tree ! -newer tree/d0/e0/deeper/plain.c",
    "tree -user root",
    "tree -uid 0 -gid -5",
    "tree -group root -nouser",
    "tree -perm 644",
    "tree -perm -u+x",
    "tree -perm /222",
    "tree -perm -4000",
    "tree -perm u=rw,g=r,o=r",
    "tree -links 2",
    "tree -links +2 -type d",
    "tree -samefile tree/d2/e2/deeper/plain.c",
    "tree -maxdepth 2",
    "tree -mindepth 3",
    "tree -mindepth 2 -maxdepth 2 -type d",
    "tree -maxdepth 0",
    "tree -name e1 -prune -o -true",
    "tree -name deeper -prune",
    "tree -depth -name e*",
    "tree -xdev -type d",
    "tree -not ( -type f -o -type l ) -a -name *e*",
    "tree -type f , -name nothing",
    "tree -false -o -name link",
    "tree -readable -executable -type f",
    "-L tree -type f",
    "-L tree -type l",
    "-H tree/d0/e0/deeper/link -type f",
    "-P tree/d0/e0/deeper/link -type l",
    "tree -regex .*/\\(.\\)[^/]*\\1\\.c",
    "tree -regex .*/d\\([0-9]\\)/e\\1.*",
    "tree -regextype posix-extended -regex .*/d(.)/e\\1/?[^/]*",
    "tree -regextype posix-basic -iregex .*/D\\(.\\)/E\\1",
    "tree -regextype awk -regex .*/(d)\\1",
    "tree -samefile tree/d2/e2/deeper/link",
    "-L tree -samefile tree/d2/e2/deeper/link",
    "-H tree -samefile tree/d2/e2/deeper/link",
    "tree -newer tree/d0/e2/deeper/link",
    "-H tree -newer tree/d0/e2/deeper/link",
    "-L tree -newermm tree/d0/e2/deeper/link",
    "-L tree -newer tree/d0/e2/deeper/dangling",
    "tree -depth -name d1 -prune",
    "tree -prune -depth",
    "tree -depth -name nothing -prune -delete -o -type d",
    "-O3 tree -name *.c",
    "-O0 -H -D tree tree -name e1",
    "-D all -L tree -name e1",
    "tree -newermt 2020-01-01T12:30:00Z",
    "tree -size +0 -size -9M",
    "tree -size 9k -o -size 35b",
    "tree -perm /u=s,g=w",
    "tree -perm -644 ! -perm /1",
    "tree -perm 0",
    "tree -type d -links 3 -o -inum +0 -type p",
    "tree -mindepth 1 -name d* -prune -o -type f",
    "tree -path tree/d1 -prune -o -name *.c",
    "tree -wholename *e3* -iwholename *DEEPER",
    "tree -name [!a-z]*",
    "tree -name [^a-z]*",
    "tree -name ?????????",
    "tree -name .*",
    "tree -name \\-dash -o -name *\\]*",
    "tree -ilname *PLAIN*",
    "-L tree -lname *",
    "tree -noleaf -mount -ignore_readdir_race -type l",
    "tree -nowarn -type f -name *.c -follow",
    "tree -uid +0 -o -gid 0 -type d",
    "tree -nogroup -o -nouser -o -type p",
    "tree -anewer tree/d0/e2/deeper/plain.c",
    "tree -cnewer tree/d0/e2/deeper/plain.c",
    "tree -neweram tree/d3/e2/deeper/plain.c",
    "tree -newerac tree/d3/e2/deeper/plain.c",
    "tree -newermt 1970-01-01",
    "tree -newerat yesterday",
    "tree -amin +90 -amin -3000",
    "tree -cmin 0 -o -ctime 0 -type d",
    "tree ( -name e1 -prune , -type d )",
    "tree -type d -a ! ( -name e* -or -name d* )",
    "tree ! ! -type l",
    "tree -xtype l,d -type l",
    "tree -maxdepth 3 -mindepth 3 -depth",
];

fn compare(dir: &Path, words: &[&str], end: u8, how: &[&str]) {
    let theirs = run_in(dir, "find", words);
    let mut all = vec!["find"];
    all.extend(how);
    all.extend(words);
    let mine = ours(dir, &all);
    assert_eq!(stderr(&mine), "", "{words:?}");
    assert_eq!(mine.status.code(), theirs.status.code(), "{words:?}");
    let (mine, theirs) = (sorted(&mine, end), sorted(&theirs, end));
    if mine != theirs {
        let show = |records: &[Vec<u8>], others: &[Vec<u8>]| -> Vec<String> {
            let only = records.iter().filter(|it| !others.contains(it)).take(5);
            only.map(|it| String::from_utf8_lossy(it).into_owned())
                .collect()
        };
        panic!(
            "{words:?}: only ours {:?}, only GNU's {:?}",
            show(&mine, &theirs),
            show(&theirs, &mine)
        );
    }
}

#[test]
fn expressions_find_the_same() {
    let (dir, _) = tree();
    for expression in EXPRESSIONS {
        let mut words: Vec<&str> = expression.split(' ').collect();
        words.push("-print0");
        compare(dir.path(), &words, 0, &["--threads", "3"]);
    }
    compare(dir.path(), &["tree"], b'\n', &[]);
    let alternative = ["tree", "-name", "*.c", "-o", "-name", "link"];
    compare(dir.path(), &alternative, b'\n', &[]);
}

#[test]
fn files_are_written_the_same() {
    let (dir, _) = tree();
    let expression = "-fprint0 FILE0 -name *.c -fprintf FILE1 %f:%s\\0 -o -type d -fprint FILE2";
    let mut written = Vec::new();
    for (program, prefix) in [("find", "gnu"), (env!("CARGO_BIN_EXE_pandofs-walk"), "our")] {
        let expression = expression.replace("FILE", prefix);
        let mut words = vec!["tree"];
        words.extend(expression.split(' '));
        if prefix == "our" {
            words.insert(0, "find");
        }
        let output = run_in(dir.path(), program, &words);
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(output.stdout.is_empty());
        for (file, end) in [("0", 0), ("1", 0), ("2", b'\n')] {
            let bytes = std::fs::read(dir.path().join([prefix, file].concat())).unwrap();
            let mut records: Vec<Vec<u8>> =
                bytes.split(|it| *it == end).map(<[u8]>::to_vec).collect();
            records.sort_unstable();
            assert!(records.len() > 10, "{file}");
            written.push(records);
        }
    }
    let (gnu, our) = written.split_at(3);
    assert!(gnu == our);
}

#[test]
fn with_every_algorithm() {
    let (dir, _) = tree();
    for algorithm in ALGORITHMS {
        for threads in ["1", "2", "4"] {
            let how = ["--algorithm", algorithm, "--threads", threads];
            compare(dir.path(), &["tree", "-size", "-3", "-print0"], 0, &how);
            compare(dir.path(), &["tree", "-depth", "-print0"], 0, &how);
        }
    }
}

#[test]
fn formats_are_the_same() {
    let (dir, _) = tree();
    for format in [
        "%p|%f|%h|%P|%H|%d\\0",
        "%y %Y %s %b %k %m %M %n %i %D %U:%G %u:%g %l\\0",
        "%T@ %TY-%Tm-%Td %TH:%TM:%TS %T+ %t %A@ %Tj %Ta %Tb\\0",
        "[%10s][%-10s][%010s][%05m][%03d][%.2f][%5.1f]%%\\t\\101\\\\\\0",
        "[%#m][%#9m][%-#9mx][%#09m][%.5m][%.2m][%09.5m][%#.5m][%+m][% m]\\0",
        "[%+d][% d][%+04d][%-+4dx][%.3d][%05.3d][%+ d][%.0d][%#d][%+s][%#i]\\0",
        "[%S][%#S][%+S][% S][%.2S][%.12S][%012S][%+012S][%-12Sx][%012.3S]\\0",
    ] {
        for root in ["tree", "tree/", "./tree/d1/"] {
            compare(dir.path(), &[root, "-printf", format], 0, &[]);
        }
    }
}

#[test]
fn commands_are_run() {
    let (dir, _) = tree();
    let each = ["tree", "-name", "e*", "-exec", "echo", "<{}>", ";"];
    compare(dir.path(), &each, b'\n', &["--threads", "2"]);
    let said = [
        "tree",
        "-type",
        "d",
        "-exec",
        "test",
        "-e",
        "{}/plain.c",
        ";",
        "-print0",
    ];
    compare(dir.path(), &said, 0, &[]);
    // In the directory: the names are found there, also those of roots.
    let there = [
        "tree", "-name", "*.c", "-execdir", "stat", "-c", "%i %n", "{}", ";",
    ];
    compare(dir.path(), &there, b'\n', &[]);
    let many = ["tree", "-type", "f", "-exec", "printf", "%s\\n", "{}", "+"];
    let mine = ours(dir.path(), &[&["find"], &many[..]].concat());
    assert_eq!(
        sorted(&mine, b'\n'),
        sorted(&run_in(dir.path(), "find", &many), b'\n')
    );
    assert!(mine.status.success());

    let fails = ours(dir.path(), &["find", "tree", "-exec", "false", "{}", "+"]);
    assert_eq!(fails.status.code(), Some(1));
    let missing = ours(
        dir.path(),
        &["find", "tree", "-exec", "/no/such/program", ";"],
    );
    assert_eq!(missing.status.code(), Some(1));
    assert!(stderr(&missing).contains("/no/such/program"));
}

#[test]
fn deleting_goes_from_the_bottom_up() {
    let (dir, tree) = tree();
    let some = ["find", "tree", "-path", "*/e1/*", "-delete"];
    let left = ["find", "tree", "!", "-path", "*/e1/*", "-print0"];
    let expected = sorted(&ours(dir.path(), &left), 0);
    assert!(ours(dir.path(), &some).status.success());
    assert_eq!(
        sorted(&run_in(dir.path(), "find", &["tree", "-print0"]), 0),
        expected
    );

    // A directory that is not empty cannot be deleted, which is reported.
    let kept = ours(dir.path(), &["find", "tree", "-name", "d1", "-delete"]);
    assert_eq!(kept.status.code(), Some(1));
    assert!(stderr(&kept).contains("tree/d1"), "{}", stderr(&kept));

    for algorithm in ALGORITHMS {
        common::make_tree(&tree.join(algorithm));
        let all = [
            "find",
            "--algorithm",
            algorithm,
            "--threads",
            "3",
            "tree",
            "-delete",
        ];
        let gone = ours(dir.path(), &all);
        assert_eq!(stderr(&gone), "");
        assert!(gone.status.success() && !tree.exists());
        std::fs::create_dir(&tree).unwrap();
    }
}

#[test]
fn it_can_end_early_and_leave_out() {
    let (dir, _) = tree();
    let first = ours(
        dir.path(),
        &["find", "tree", "-name", "e*", "-print", "-quit"],
    );
    assert!(first.status.success());
    assert!(
        (1..=2).contains(&sorted(&first, b'\n').len()),
        "one a thread at most"
    );
    let one = [
        "find",
        "--threads",
        "1",
        "tree",
        // A name without a line's end in it.
        "-name",
        "*.c",
        "-print",
        "-quit",
    ];
    assert_eq!(
        ours(dir.path(), &one)
            .stdout
            .iter()
            .filter(|byte| **byte == b'\n')
            .count(),
        1
    );

    let without = [
        "find",
        "tree",
        "--exclude",
        "e1",
        "--exclude",
        "*/d1/f*",
        "-print0",
    ];
    let theirs = [
        "tree", "(", "-name", "e1", "-o", "-path", "*/d1/f*", ")", "-prune", "-o", "-print0",
    ];
    assert_eq!(
        sorted(&ours(dir.path(), &without), 0),
        sorted(&run_in(dir.path(), "find", &theirs), 0)
    );
}

#[test]
fn what_fails_is_seen_in_the_exit_code() {
    let (dir, _) = tree();
    let missing = ours(dir.path(), &["find", "tree/d0", "missing", "-name", "link"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(stderr(&missing).contains("missing"));
    assert!(!missing.stdout.is_empty(), "the other root is searched");
    let wrong = ours(dir.path(), &["find", "tree", "-nonsense"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("-nonsense"));
    // A reader that goes away is no failure.
    let shell = format!(
        "{} find tree -print | head -n 1",
        env!("CARGO_BIN_EXE_pandofs-walk")
    );
    let head = run_in(dir.path(), "bash", &["-o", "pipefail", "-c", &shell]);
    assert_eq!(
        (head.status.code(), stderr(&head)),
        (Some(0), String::new())
    );
}

#[test]
fn ls_is_the_same_but_for_spaces() {
    let (dir, _) = tree();
    // GNU find widens columns as it goes, and quotes names its own way.
    let words = [
        "tree", "-name", "link", "-o", "-name", "plain.c", "-o", "-type", "d",
    ];
    let words = [&words[..], &["-ls"]].concat();
    let normal = |output| -> Vec<Vec<String>> {
        sorted(&output, b'\n')
            .iter()
            .map(|line| {
                let line = String::from_utf8_lossy(line).into_owned();
                line.split_whitespace().map(str::to_owned).collect()
            })
            .collect()
    };
    let grouped = ["tree", "(", "-name", "link", "-o", "-type", "d", ")", "-ls"];
    let mut mine = normal(ours(dir.path(), &[&["find"], &grouped[..]].concat()));
    let mut theirs = normal(run_in(dir.path(), "find", &grouped));
    mine.sort_unstable();
    theirs.sort_unstable();
    assert_eq!(mine, theirs);
    assert!(
        ours(dir.path(), &[&["find"], &words[..]].concat())
            .status
            .success()
    );
}

#[test]
fn formats_say_more_of_files() {
    let (dir, _) = tree();
    for format in ["%S %p\\0", "%F %p\\0"] {
        let arguments = ["tree", "-printf", format];
        let theirs = sorted(&run_in(dir.path(), "find", &arguments), 0);
        let mine = ours(dir.path(), &[&["find"], &arguments[..]].concat());
        assert_eq!(sorted(&mine, 0), theirs, "{format}");
    }
}

#[test]
fn an_unknown_directive_is_printed_and_warned_of() {
    let (dir, _) = tree();
    let arguments = ["tree", "-maxdepth", "0", "-printf", "%q|%-5q|%.3q|%f\\n"];
    let theirs = run_in(dir.path(), "find", &arguments);
    let mine = ours(dir.path(), &[&["find"], &arguments[..]].concat());
    assert_eq!(mine.stdout, theirs.stdout);
    assert_eq!(
        (mine.status.code(), theirs.status.code()),
        (Some(0), Some(0))
    );
    assert_eq!(
        stderr(&mine)
            .matches("-printf: warning: there is no %q")
            .count(),
        3
    );
}

#[test]
fn roots_come_from_a_file() {
    let (dir, _) = tree();
    std::fs::write(dir.path().join("roots"), b"tree/d0\0tree/d1/e1\0").unwrap();
    let expected = sorted(
        &run_in(dir.path(), "find", &["tree/d0", "tree/d1/e1", "-print0"]),
        0,
    );
    let mine = ours(dir.path(), &["find", "-files0-from", "roots", "-print0"]);
    assert_eq!(sorted(&mine, 0), expected);
    let both = ours(dir.path(), &["find", "tree", "-files0-from", "roots"]);
    assert_eq!(both.status.code(), Some(2));
    std::fs::write(dir.path().join("roots"), b"tree\0\0tree").unwrap();
    let empty = ours(dir.path(), &["find", "-files0-from", "roots"]);
    assert_eq!(empty.status.code(), Some(2));
}

#[test]
fn ok_asks_before_it_runs() {
    let (dir, _) = tree();
    let answers = "printf 'y\\nn\\nYes\\n' | ";
    for (action, name) in [("-ok", "tree/d0/e"), ("-okdir", "./e")] {
        let line = format!(
            "{answers} {} find --threads 1 tree/d0/e0 tree/d0/e1 tree/d0/e2 tree/d0/e3 -maxdepth 0 {action} echo {{}} ';'",
            env!("CARGO_BIN_EXE_pandofs-walk")
        );
        let output = run_in(dir.path(), "sh", &["-c", &line]);
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(printed, format!("{name}0\n{name}2\n"), "{action}");
        assert_eq!(stderr(&output).matches("< echo ... tree/d0/e").count(), 4);
    }
}

#[test]
fn a_search_that_is_killed_goes_on() {
    let (dir, _) = tree();
    for expression in [
        &["tree", "-print0"][..],
        &["tree", "-depth", "-print0"],
        &["tree", "-type", "f", "-size", "+1", "-printf", "%s %p\\0"],
    ] {
        let theirs = sorted(&run_in(dir.path(), "find", expression), 0);
        let mine = killed(dir.path(), &[&["find"], expression].concat(), 6);
        assert_eq!(stderr(&mine), "");
        assert_eq!(sorted(&mine, 0), theirs, "{expression:?}");
    }
    let to_file = ["find", "tree", "-name", "*.c", "-fprint0", "found"];
    let mine = killed(dir.path(), &to_file, 6);
    assert_eq!(stderr(&mine), "");
    let found = std::fs::read(dir.path().join("found")).unwrap();
    let mut found: Vec<&[u8]> = found.split(|byte| *byte == 0).collect();
    found.pop();
    found.sort_unstable();
    let theirs = run_in(dir.path(), "find", &["tree", "-name", "*.c", "-print0"]);
    assert_eq!(found, sorted(&theirs, 0));
    let other = ours(
        dir.path(),
        &["find", "--checkpoint", "state", "--resume", "tree"],
    );
    assert_eq!(other.status.code(), Some(1));
}

/// GNU find knows this only where it was built for it.
#[test]
fn times_of_birth_are_those_of_stat() {
    let (dir, _) = tree();
    let stat = run_in(dir.path(), "stat", &["-c", "%W", "tree/d0/fifo"]);
    let seconds = String::from_utf8(stat.stdout).unwrap();
    let seconds = seconds.trim();
    let all = sorted(&run_in(dir.path(), "find", &["tree", "-print0"]), 0);
    let born = |expression: &[&str]| {
        let words = [&["find", "tree"], expression, &["-print0"]].concat();
        sorted(&ours(dir.path(), &words), 0)
    };
    let since_2020 = born(&["-newerBt", "2020-01-01"]);
    let fifo = ["find", "tree/d0/fifo", "-printf", "%B@"];
    let printed = String::from_utf8(ours(dir.path(), &fifo).stdout).unwrap();
    if matches!(seconds, "0" | "-") {
        assert_eq!((since_2020.len(), &*printed), (0, ""), "nobody knows here");
        return;
    }
    assert!(since_2020 == all);
    assert!(printed.starts_with(&format!("{seconds}.")), "{printed}");
    assert_eq!(born(&["-newerBt", "2099-01-01"]).len(), 0);
    // Its files are said to be hours or years older than they were made, or just now.
    let later = born(&["-type", "f", "-newermB", "tree/d0"]);
    assert!(later.len() < all.len());
}
