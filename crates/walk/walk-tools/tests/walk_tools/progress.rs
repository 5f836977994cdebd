//! Tests of the progress line.

use crate::common::tree;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

/// A search that lists a file, after it has waited for another one to appear; not for ever.
fn slow(options: &str) -> String {
    let program = env!("CARGO_BIN_EXE_pandofs-walk");
    let wait = "sleep 0.3; for i in $(seq 600); do [ -e go ] && break; sleep 0.1; done";
    format!("{program} find --threads 1 {options} tree/d0/fifo -exec sh -c '{wait}' ';' -print")
}

/// Returns what this command of a shell prints, standard error too. The file that it waits for
/// appears once a line was drawn, or at once if none is to be: then it still takes long enough for
/// one to be seen.
fn shown(dir: &Path, program: &str, arguments: &[&str], is_drawn: bool, patience: &str) -> String {
    let go = dir.join("go");
    let _ = std::fs::remove_file(&go);
    if !is_drawn {
        std::fs::write(&go, "").unwrap();
    }
    let mut run = Command::new(program)
        .args(arguments)
        .current_dir(dir)
        .env("PANDOFS_PROGRESS_AFTER", patience)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = run.stdout.take().unwrap();
    let mut all = Vec::new();
    let mut buffer = [0; 4_096];
    loop {
        let count = out.read(&mut buffer).unwrap();
        if count == 0 {
            break;
        }
        all.extend_from_slice(&buffer[..count]);
        if String::from_utf8_lossy(&all).contains(" entries, ") {
            std::fs::write(&go, "").unwrap();
        }
    }
    assert!(run.wait().unwrap().success());
    String::from_utf8_lossy(&all).into_owned()
}

/// On a terminal of its own.
fn on_terminal(dir: &Path, command: &str, is_drawn: bool, patience: &str) -> String {
    let words = ["--quiet", "--return", "--command", command, "/dev/null"];
    shown(dir, "script", &words, is_drawn, patience)
}

#[test]
fn a_terminal_shows_how_far_it_is() {
    let (dir, _) = tree();
    let elsewhere = slow("") + " > list";
    let shown = on_terminal(dir.path(), &elsewhere, true, "0");
    assert!(
        shown.contains(" entries, ") && shown.contains(" queued"),
        "{shown:?}"
    );
    // It is gone at the end.
    assert!(shown.trim_end().ends_with("\r\u{1b}[K"), "{shown:?}");
    let list = std::fs::read_to_string(dir.path().join("list")).unwrap();
    assert_eq!(list, "tree/d0/fifo\n");
    // Patience: nothing is drawn before.
    assert_eq!(on_terminal(dir.path(), &elsewhere, false, "3600"), "");
    // Output of commands to the same terminal would be torn apart.
    let list = on_terminal(dir.path(), &slow(""), false, "0");
    assert_eq!(list, "tree/d0/fifo\r\n");
    // The tool's own list there is not: the line goes before.
    let both = on_terminal(dir.path(), &slow("--progress"), true, "0");
    let (line, list) = both.split_once("tree").unwrap();
    assert!(
        line.contains(" queued") && line.ends_with("\r\u{1b}[K"),
        "{both:?}"
    );
    assert!(list.starts_with("/d0/fifo\r\n"), "{both:?}");
}

#[test]
fn a_pipe_shows_nothing_unless_asked_to() {
    let (dir, _) = tree();
    let in_pipe = |options: &str, is_drawn| {
        let command = slow(options) + " 2>&1 >list";
        shown(dir.path(), "sh", &["-c", &command], is_drawn, "0")
    };
    assert_eq!(in_pipe("", false), "");
    let asked = in_pipe("--progress", true);
    assert!(asked.contains(" entries, "), "{asked:?}");
}
