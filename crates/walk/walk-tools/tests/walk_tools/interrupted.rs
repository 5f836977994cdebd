//! Tools that are interrupted, or whose tree changes meanwhile: what they leave and say.

use crate::common::{
    LARGE_BYTES, becomes, begin, long_ago, names, ours, run_in, send, stderr, write_large,
};
use rustix::process::Signal;
use std::fs::{File, FileTimes};
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// Returns whether a file is there, by whatever name, that is not done: it has not got its time
/// yet.
fn is_being_written(dir: &Path) -> bool {
    names(dir).iter().any(|name| {
        std::fs::metadata(dir.join(name))
            .is_ok_and(|it| it.is_file() && it.modified().unwrap() != long_ago())
    })
}

/// Begins a copy, and sends a signal when a large file is half copied. Copies that are faster than
/// that are made again.
fn caught(dir: &Path, arguments: &[&str], again: impl Fn(), signal: Signal) -> Child {
    let to = dir.join("to");
    for _ in 0..100 {
        let mut child = begin(dir, arguments);
        if becomes(&mut child, || is_being_written(&to)) {
            send(&child, signal);
            return child;
        }
        assert!(child.wait().unwrap().success());
        again();
    }
    panic!("each copy was too fast");
}

/// Of a program that was stopped, and has not ended before.
fn is_stopped(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    stat.rsplit(") ").next().unwrap().starts_with('T')
}

/// Tries again and again what depends on when a signal comes, until it has come in time.
fn until<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    for _ in 0..1_000 {
        if let Some(got) = attempt() {
            return got;
        }
    }
    panic!("each signal came too late");
}

#[test]
fn what_changes_while_it_is_copied_is_told_and_copied_again() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (from, to) = (dir.join("from"), dir.join("to"));
    std::fs::create_dir(&from).unwrap();
    let again = || std::fs::remove_dir_all(&to).unwrap();
    let arguments = ["cp", "--no-reflink", "--threads", "1", "-T", "from", "to"];
    for changed in ["in it", "longer", "another"] {
        write_large(&from.join("large"), 1);
        let output = until(|| {
            let mut child = caught(dir, &arguments, again, Signal::STOP);
            // It may have been done, or have ended, between the look and the signal.
            let process = child.id();
            let is_caught = becomes(&mut child, || is_stopped(process)) && is_being_written(&to);
            if is_caught {
                let path = from.join("large");
                match changed {
                    "in it" => {
                        let file = File::options().write(true).open(path).unwrap();
                        std::os::unix::fs::FileExt::write_all_at(&file, b"new", 0).unwrap();
                    }
                    "longer" => {
                        let file = File::options().append(true).open(path).unwrap();
                        std::io::Write::write_all(&mut &file, b"new").unwrap();
                    }
                    _ => {
                        std::fs::write(from.join("other"), vec![2; LARGE_BYTES]).unwrap();
                        std::fs::rename(from.join("other"), path).unwrap();
                    }
                }
            }
            if child.try_wait().unwrap().is_none() {
                send(&child, Signal::CONT);
            }
            let output = child.wait_with_output().unwrap();
            if is_caught {
                return Some(output);
            }
            again();
            None
        });
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{changed}: {said}");
        assert!(
            said.contains("from/large: it was changed while it was copied"),
            "{changed}: {said}"
        );
        let output = ours(dir, &["cp", "--resume", "-T", "from", "to"]);
        assert!(output.status.success(), "{}", stderr(&output));
        let same =
            std::fs::read(from.join("large")).unwrap() == std::fs::read(to.join("large")).unwrap();
        assert!(same, "{changed}: what is new is not in the copy");
        again();
    }
}

#[test]
fn copies_that_are_killed_leave_nothing_that_the_next_one_does_not_find() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (from, to) = (dir.join("from"), dir.join("to"));
    std::fs::create_dir(&from).unwrap();
    write_large(&from.join("large"), 1);
    std::fs::write(from.join("small"), "small").unwrap();
    let arguments = ["cp", "--no-reflink", "--resume", "-T", "from", "to"];
    // The copy is new, and then there is an old one.
    for byte in [1, 2] {
        let again = || {
            std::fs::remove_dir_all(&to).unwrap();
            if byte == 2 {
                std::fs::create_dir(&to).unwrap();
                write_large(&to.join("large"), 9);
                // So that it is not taken to be the same.
                File::options()
                    .append(true)
                    .open(to.join("large"))
                    .unwrap()
                    .set_len(LARGE_BYTES as u64 - 1)
                    .unwrap();
                let file = File::options().write(true).open(to.join("large")).unwrap();
                file.set_times(FileTimes::new().set_modified(long_ago()))
                    .unwrap();
            }
        };
        write_large(&from.join("large"), byte);
        if byte == 2 {
            again();
        }
        for _ in 0..4 {
            let mut child = caught(dir, &arguments, again, Signal::KILL);
            child.wait().unwrap();
        }
        let output = ours(dir, &arguments);
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(names(&to), ["large", "small"]);
        let copied = std::fs::read(to.join("large")).unwrap();
        assert!(copied == vec![byte; LARGE_BYTES]);
    }
}

#[test]
fn a_copy_that_is_interrupted_leaves_no_part_of_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (from, to) = (dir.join("from"), dir.join("to"));
    std::fs::create_dir(&from).unwrap();
    std::fs::create_dir(&to).unwrap();
    write_large(&from.join("large"), 1);
    let again = || std::fs::remove_file(to.join("large")).unwrap();
    // In a directory, and as a root.
    for source in [["-T", "from", "to"], ["-a", "from/large", "to"]] {
        let arguments = [&["cp", "--no-reflink", "--threads", "1"], &source[..]].concat();
        until(|| {
            let child = caught(dir, &arguments, again, Signal::INT);
            let output = child.wait_with_output().unwrap();
            let said = stderr(&output);
            let Ok(copied) = std::fs::metadata(to.join("large")) else {
                assert_eq!(output.status.code(), Some(130), "{said}");
                assert!(said.contains("0 files"), "{said}");
                return Some(());
            };
            // It was done between the look and the signal.
            let is_whole = copied.modified().unwrap() == long_ago();
            assert!(is_whole, "a part of a file has its name");
            again();
            None
        });
        assert_eq!(names(&to), Vec::<String>::new());
    }
}

/// Files with names so long that a list of them does not fit in a pipe.
const LONG_NAMES: usize = 4_000;

/// A tree with them, and its copy, in which each file has another size.
fn long_names(dir: &Path) {
    for (tree, content) in [("tree", "one"), ("other", "another")] {
        for number in 0..LONG_NAMES {
            let below = dir.join(tree).join(format!("d{}", number % 40));
            std::fs::create_dir_all(&below).unwrap();
            std::fs::write(below.join(format!("{number:0100}")), content).unwrap();
        }
    }
}

/// Begins a program that lists more than a pipe holds, and sends SIGINT when it has listed
/// something. One that has done all before it heard of it, though that may be before its end,
/// begins again, after what is given.
fn interrupted_listing(dir: &Path, arguments: &[&str], again: impl Fn()) -> Output {
    until(|| {
        let mut child = begin(dir, arguments);
        let mut first = [0];
        child
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut first)
            .unwrap();
        send(&child, Signal::INT);
        let output = child.wait_with_output().unwrap();
        let lines = output.stdout.iter().filter(|byte| **byte == b'\n').count();
        // The first byte was taken from the pipe, not the line; an archive has no lines.
        if output.status.code() == Some(130) && (arguments[1] == "-c" || lines < LONG_NAMES) {
            return Some(output);
        }
        let code = output.status.code();
        let is_whole = matches!(code, Some(0 | 130)) || arguments[0] == "cmp" && code == Some(1);
        assert!(is_whole, "{arguments:?}: {}", stderr(&output));
        again();
        None
    })
}

#[test]
fn at_an_interrupt_each_tool_says_what_was_done() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    long_names(dir);
    for (arguments, said) in [
        (
            &["walk", "--list", "text", "tree"][..],
            "pandofs walk: interrupted: ",
        ),
        (&["find", "tree"], "pandofs find: interrupted: "),
        (
            &["du", "-ac", "tree"],
            "pandofs du: interrupted: sums are of ",
        ),
        (
            &["rm", "-r", "--dry-run", "tree"],
            "entries would have been removed",
        ),
        (
            &["chmod", "--dry-run", "go-rwx", "tree"],
            "entries were changed",
        ),
        (
            &["chown", "--dry-run", "12345", "tree"],
            "entries were changed",
        ),
        (&["sum", "--files", "tree"], "0 of 1 digests are known"),
        (&["cmp", "tree", "other"], "entries were compared"),
        (
            &["cp", "--dry-run", "tree", "new"],
            "pandofs cp: interrupted: ",
        ),
        (
            &["sync", "--dry-run", "tree", "new"],
            "pandofs sync: interrupted: ",
        ),
        (
            &["tar", "-c", "tree"],
            "members were packed; there is no archive",
        ),
    ] {
        let output = interrupted_listing(dir, arguments, || ());
        let says = stderr(&output);
        assert!(says.contains(said), "{arguments:?}: {says}");
        if arguments[0] == "tar" {
            std::fs::write(dir.join("cut.tar"), &output.stdout).unwrap();
            let read = run_in(dir, "tar", &["-tf", "cut.tar"]);
            assert!(
                !read.status.success(),
                "a part of an archive looks like a whole one"
            );
            continue;
        }
        if arguments[0] == "du" {
            let text = String::from_utf8(output.stdout).unwrap();
            let tells = |what: &str| text.lines().any(|line| line.ends_with(what));
            assert!(tells("\ttree") && tells("\ttotal"), "{text}");
        }
    }
    // Its work, compared with its report.
    let again = || {
        let _ = std::fs::remove_dir_all(dir.join("other"));
        long_names(dir);
    };
    let output = interrupted_listing(dir, &["rm", "-rv", "other"], again);
    let removed = output.stdout.iter().filter(|byte| **byte == b'\n').count();
    // The first byte was taken from the pipe, not the line.
    let said = stderr(&output).replace(',', "");
    assert!(
        said.contains(&format!(": {removed} entries were removed")),
        "{said}"
    );
    let whole = run_in(dir, "tar", &["-cf", "whole.tar", "tree"]);
    assert!(whole.status.success());
    let unpack = ["tar", "-xvf", "whole.tar", "-C", "out"];
    std::fs::create_dir(dir.join("out")).unwrap();
    let again = || {
        std::fs::remove_dir_all(dir.join("out")).unwrap();
        std::fs::create_dir(dir.join("out")).unwrap();
    };
    let output = interrupted_listing(dir, &unpack, again);
    assert!(
        stderr(&output).contains("members were unpacked, not all"),
        "{}",
        stderr(&output)
    );
    let closed = run_in(dir, "find", &["out", "-type", "d", "-perm", "700"]);
    assert_eq!(stderr(&closed), "");
    assert_eq!(
        String::from_utf8_lossy(&closed.stdout),
        "",
        "directories that no process finished"
    );
}

/// Sends SIGINT as soon as a program looks at the tree; until that comes before the end, as what it
/// says of itself shows.
fn interrupted_early(dir: &Path, arguments: &[&str], is_early: impl Fn(&Output) -> bool) -> Output {
    until(|| {
        let mut child = begin(dir, arguments);
        let open = format!("/proc/{}/fd", child.id());
        becomes(&mut child, || {
            std::fs::read_dir(&open).is_ok_and(|mut all| {
                all.any(|fd| {
                    let to = fd.and_then(|fd| std::fs::read_link(fd.path()));
                    to.is_ok_and(|to| to.starts_with(dir.join("tree")))
                })
            })
        });
        if child.try_wait().unwrap().is_none() {
            send(&child, Signal::INT);
        }
        let output = child.wait_with_output().unwrap();
        let is_interrupted = output.status.code() == Some(130);
        (is_interrupted && is_early(&output)).then_some(output)
    })
}

#[test]
fn sums_of_an_interrupted_du_are_told_and_are_not_taken_for_all() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().canonicalize().unwrap();
    long_names(&dir);
    let bytes = |output: &Output| {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let sizes: Vec<u64> = text
            .lines()
            .map(|line| line.split('\t').next().unwrap().parse().unwrap())
            .collect();
        assert_eq!(sizes.len(), 2, "{text}");
        assert_eq!(sizes[0], sizes[1]);
        sizes[0]
    };
    let whole = bytes(&ours(&dir, &["du", "-sc", "--inodes", "tree"]));
    let arguments = ["du", "-sc", "--inodes", "--threads", "1", "tree"];
    let output = interrupted_early(&dir, &arguments, |output| bytes(output) < whole);
    let said = stderr(&output).replace(',', "");
    assert!(
        said.contains(&format!("sums are of {} entries", bytes(&output))),
        "{said}"
    );
    interrupted_early(
        &dir,
        &["du", "--html", "page.html", "--threads", "1", "tree"],
        |_| true,
    );
    let page = std::fs::read_to_string(dir.join("page.html")).unwrap();
    assert!(page.contains("It was interrupted"), "{page}");
    // A walk tells what it has counted.
    let arguments = ["walk", "--json", "--threads", "1", "tree"];
    let counted = |output: &Output| {
        let counted: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        counted["entries"].as_u64().unwrap()
    };
    interrupted_early(&dir, &arguments, |output| counted(output) < whole);
}

#[test]
fn an_archive_that_is_interrupted_is_none_and_no_part_of_a_file_is_unpacked() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::create_dir(dir.join("tree")).unwrap();
    write_large(&dir.join("tree/large"), 1);
    until(|| {
        let mut child = begin(dir, &["tar", "-cf", "a.tar", "tree"]);
        becomes(&mut child, || {
            std::fs::metadata(dir.join("a.tar")).is_ok_and(|it| it.len() > 0)
        });
        if child.try_wait().unwrap().is_none() {
            send(&child, Signal::INT);
        }
        let output = child.wait_with_output().unwrap();
        if output.status.code() == Some(130) {
            return Some(());
        }
        std::fs::remove_file(dir.join("a.tar")).unwrap();
        None
    });
    assert!(!dir.join("a.tar").exists());
    let packed = ours(dir, &["tar", "-cf", "a.tar", "tree"]);
    assert!(packed.status.success());
    // From a file, in pieces, and from a pipe.
    for input in ["a.tar", "-"] {
        let out = dir.join("out");
        until(|| {
            std::fs::create_dir(&out).unwrap();
            let mut child = Command::new(env!("CARGO_BIN_EXE_pandofs-walk"))
                .args(["tar", "-xf", input, "-C", "out"])
                .current_dir(dir)
                .stdin(File::open(dir.join("a.tar")).unwrap())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            becomes(&mut child, || out.join("tree/large").exists());
            if child.try_wait().unwrap().is_none() {
                send(&child, Signal::INT);
            }
            let output = child.wait_with_output().unwrap();
            if output.status.code() == Some(130) && !out.join("tree/large").exists() {
                let said = stderr(&output);
                // The directory may be done, the file is not.
                let is_said =
                    (0..2).any(|it| said.contains(&format!(": {it} members were unpacked")));
                assert!(is_said, "{said}");
                return Some(());
            }
            let unpacked = std::fs::metadata(out.join("tree/large")).unwrap();
            assert_eq!(unpacked.modified().unwrap(), long_ago(), "a part of a file");
            std::fs::remove_dir_all(&out).unwrap();
            None
        });
        std::fs::remove_dir_all(&out).unwrap();
    }
}

#[test]
fn unpacking_takes_no_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::create_dir_all(dir.join("tree")).unwrap();
    assert!(ours(dir, &["tar", "-cf", "a.tar", "tree"]).status.success());
    for more in [
        &["--checkpoint", "state"][..],
        &["--checkpoint", "state", "--resume"],
    ] {
        let output = ours(dir, &[&["tar"], more, &["-xf", "a.tar"]].concat());
        assert_eq!(output.status.code(), Some(2));
        assert!(
            stderr(&output).contains("unpacking has no checkpoints"),
            "{}",
            stderr(&output)
        );
    }
}
