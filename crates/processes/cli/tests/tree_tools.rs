//! Hand-over of `pandofs find` and its like to `pandofs-walk`, which is a stub here.

#![allow(clippy::unwrap_used)]

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// Prints its name and its arguments, each with a zero byte behind it, then its input, and ends with 7.
const STUB: &str = "#!/bin/sh\nprintf '%s\\0' \"$0\" \"$@\"\ncat\nexit 7\n";

/// A folder with the command and nothing else.
fn installed() -> TempDir {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let built = env!("CARGO_BIN_EXE_pandofs");
    let command = dir.path().join("pandofs");
    fs::hard_link(built, &command)
        .or_else(|_| fs::copy(built, &command).map(|_| ()))
        .unwrap();
    dir
}

/// Puts a stub of `pandofs-walk` into a folder. Another process writes it: a test beside this one that forked meanwhile would
/// have the file open for writing, so that it could not be run.
fn put_stub(folder: &Path) {
    let mut shell = Command::new("sh")
        .args(["-c", "cat >pandofs-walk && chmod +x pandofs-walk"])
        .current_dir(folder)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = shell.stdin.take().unwrap();
    input.write_all(STUB.as_bytes()).unwrap();
    drop(input);
    assert!(shell.wait().unwrap().success());
}

/// Runs the command of a folder, with such a `PATH` before the system's.
fn run(folder: &Path, path: &Path, arguments: &[&OsStr]) -> Output {
    let mut child = Command::new(folder.join("pandofs"))
        .args(arguments)
        .env("PATH", format!("{}:/usr/bin:/bin", path.display()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    // A program that does not read it may have ended already.
    let _ = input.write_all(b"input");
    drop(input);
    child.wait_with_output().unwrap()
}

/// The output of the stub in a folder that was given such arguments.
fn expected(folder: &Path, arguments: &[&OsStr]) -> Vec<u8> {
    let program = folder.join("pandofs-walk");
    let words = [&[program.as_os_str()], arguments].concat();
    let mut output = Vec::new();
    for word in words {
        output.extend(word.as_bytes());
        output.push(0);
    }
    output.extend(b"input");
    output
}

#[test]
fn every_tool_gets_its_arguments_and_gives_its_exit_code() {
    let dir = installed();
    put_stub(dir.path());
    let tools = [
        "walk", "find", "du", "rm", "cp", "sync", "cmp", "sum", "tar", "chmod", "chown",
    ];
    for tool in tools {
        let odd = OsStr::from_bytes(b"\xff\n $x");
        let arguments = [tool, "xf", "--help", "-e", "", "--", "-"].map(OsStr::new);
        let arguments = [&arguments[..], &[odd]].concat();
        let output = run(dir.path(), Path::new("/nowhere"), &arguments);
        assert_eq!(output.status.code(), Some(7), "{output:?}");
        assert_eq!(output.stdout, expected(dir.path(), &arguments), "{tool}");
        assert!(output.stderr.is_empty(), "{output:?}");
    }
}

#[test]
fn the_program_beside_the_command_goes_before_that_of_the_path() {
    let dir = installed();
    let elsewhere = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    put_stub(elsewhere.path());
    let arguments = ["du", "-s"].map(OsStr::new);
    let output = run(dir.path(), elsewhere.path(), &arguments);
    assert_eq!(output.stdout, expected(elsewhere.path(), &arguments));
    assert_eq!(output.status.code(), Some(7));
    put_stub(dir.path());
    let output = run(dir.path(), elsewhere.path(), &arguments);
    assert_eq!(output.stdout, expected(dir.path(), &arguments));
}

#[test]
fn without_the_program_an_error_says_how_to_install_it() {
    let dir = installed();
    let output = run(
        dir.path(),
        Path::new("/nowhere"),
        &["find", "."].map(OsStr::new),
    );
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty(), "{output:?}");
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.starts_with("pandofs: "), "{error}");
    for part in ["pandofs-walk", "PATH", "make install"] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn the_help_lists_the_tools_beside_the_other_commands() {
    let dir = installed();
    put_stub(dir.path());
    let output = run(dir.path(), Path::new("/nowhere"), &[OsStr::new("--help")]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let help = String::from_utf8(output.stdout).unwrap();
    for name in ["up", "fsck", "walk", "find", "chown"] {
        let is_listed = help
            .lines()
            .any(|line| line.split_whitespace().next() == Some(name) && line.starts_with("  "));
        assert!(is_listed, "{name}: {help}");
    }
}
