//! Unpacking of archives that have a path more than once, or that end too early.

use crate::common::{ours, run_in, stderr};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};

fn shell(dir: &Path, script: &str) {
    let output = run_in(dir, "sh", &["-ec", script]);
    assert!(output.status.success(), "{script}: {}", stderr(&output));
}

/// Returns what is unpacked: kind, inode count and content or target of each path.
fn unpacked(dir: &Path, program: &str) -> String {
    let script = format!(
        "rm -rf out; mkdir out; {program} -xf x.tar -C out; cd out; \
         find . -type f -exec sh -c 'stat -c \"%n %h\" $1; cat $1' - {{}} ';' -o -printf '%p %y %l\\n' | sort"
    );
    let output = run_in(dir, "sh", &["-ec", &script]);
    assert!(output.status.success(), "{}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_last_member_of_a_path_counts() {
    for script in [
        // Many members that threads may take at once.
        "echo first >a; tar cf x.tar a; for n in $(seq 60); do echo $n >a; tar rf x.tar a; done",
        // A file, a link, a pipe, a directory and a file again.
        "echo 1 >a; tar cf x.tar a; rm a; ln -s to a; tar rf x.tar a; rm a; echo 2 >a; tar rf x.tar a",
        "ln -s to a; tar cf x.tar a; rm a; echo 1 >a; tar rf x.tar a; rm a; mkfifo a; tar rf x.tar a",
        "echo 1 >a; tar cf x.tar a; rm a; mkdir a; echo 2 >a/b; tar rf x.tar a",
        // A newer file in the place of another file's name, and one in the place of what a name is
        // of.
        "echo 1 >a; ln a b; tar cf x.tar a b; rm b; echo 2 >b; tar rf x.tar b",
        "echo 1 >a; ln a b; tar cf x.tar a b; rm a; echo 2 >a; tar rf x.tar a",
        "echo 1 >a; ln a b; tar cf x.tar a b; rm b; ln -s to b; tar rf x.tar ./b",
        "echo 1 >a; ln a b; tar cf x.tar a b; rm a b; echo 2 >a; ln a b; tar rf x.tar a b",
        // The last one is large.
        "echo 1 >a; tar cf x.tar a; truncate -s 3M a; echo 2 >>a; tar rf x.tar a; echo 3 >a; tar rf x.tar a",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        shell(dir, script);
        let theirs = unpacked(dir, "tar");
        let walk = env!("CARGO_BIN_EXE_pandofs-walk");
        let from_pipe = format!("cat x.tar | {walk} tar -xf - -C out; true");
        for program in [format!("{walk} tar"), from_pipe.to_string()] {
            // Threads come to it in another order each time.
            for _ in 0..5 {
                assert_eq!(unpacked(dir, &program), theirs, "{script}");
            }
        }
    }
}

/// An archive's beginning: a file of so many zeros, `large`.
fn header(dir: &Path, size: u64) -> Vec<u8> {
    std::fs::File::create(dir.join("large"))
        .unwrap()
        .set_len(size)
        .unwrap();
    let script = "tar -c --format=posix large | head -c 4096 >begun; rm large";
    shell(dir, script);
    std::fs::read(dir.join("begun")).unwrap()
}

#[test]
fn only_what_a_run_has_made_goes_when_the_archive_ends_too_early() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let mut bytes = header(dir, 5 << 20);
    bytes.resize(2 << 20, b'x');
    std::fs::write(dir.join("cut.tar"), bytes).unwrap();
    for (option, kept) in [("-x", false), ("-xk", true), ("-x", false)] {
        if kept {
            std::fs::write(dir.join("large"), "mine").unwrap();
        }
        let walk = env!("CARGO_BIN_EXE_pandofs-walk");
        let output = run_in(
            dir,
            "sh",
            &["-c", &format!("cat cut.tar | {walk} tar {option}")],
        );
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains("in the middle of a member"));
        let found = std::fs::read(dir.join("large")).ok();
        assert_eq!(found, kept.then(|| b"mine".to_vec()), "{option}");
    }
}

#[test]
fn an_interrupted_run_removes_nothing_that_it_has_not_made() {
    for option in ["-xk", "-x"] {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let mut bytes = header(dir, 1 << 40);
        bytes.resize(1 << 20, 0);
        std::fs::write(dir.join("large"), "mine").unwrap();
        let mut run = Command::new(env!("CARGO_BIN_EXE_pandofs-walk"))
            .args(["tar", option])
            .current_dir(dir)
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut pipe = run.stdin.take().unwrap();
        // More than the pipe holds: it is being read.
        pipe.write_all(&bytes).unwrap();
        pipe.write_all(&bytes).unwrap();
        let pid = rustix::process::Pid::from_child(&run);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        while pipe.write_all(&bytes).is_ok() {}
        assert_eq!(run.wait().unwrap().code(), Some(130));
        let left = std::fs::metadata(dir.join("large"));
        let expected = (option == "-xk").then_some(4);
        assert_eq!(left.ok().map(|it| it.size()), expected, "{option}");
    }
}

#[test]
fn a_piece_that_is_missing_leaves_no_file_of_full_length() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let mut bytes = header(dir, 1 << 30);
    bytes.resize(1 << 20, 0);
    std::fs::write(dir.join("cut.tar"), bytes).unwrap();
    let output = ours(dir, &["tar", "-xf", "cut.tar"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(!dir.join("large").exists());
}
