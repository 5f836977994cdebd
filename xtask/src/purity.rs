//! The sources of pure crates name nothing of the outside world.

use crate::finding::Finding;
use crate::source::{Source, WrittenPath, paths, without_tests};

/// Code of a pure crate. Tests are free: they may write files, spawn threads and look at the clock.
pub(crate) fn check(source: &Source) -> Vec<Finding> {
    paths(&without_tests(&source.tokens))
        .iter()
        .filter_map(|path| {
            let reason = forbidden(path)?;
            let why = format!(
                "`{}` {reason}; a pure crate gets such things as arguments",
                path.segments.join("::")
            );
            Some(Finding::new(&source.path, path.line, "pure-source", why))
        })
        .collect()
}

/// Reason why it must not be named.
fn forbidden(path: &WrittenPath) -> Option<&'static str> {
    let segments: Vec<&str> = path.segments.iter().map(String::as_str).collect();
    let has = |wanted: &[&str]| {
        segments
            .windows(wanted.len())
            .any(|window| window == wanted)
    };
    if has(&["std", "net"]) {
        Some("opens connections")
    } else if has(&["std", "fs"]) {
        Some("touches files")
    } else if has(&["std", "thread"]) {
        Some("starts or stops threads")
    } else if has(&["std", "env"]) {
        Some("reads the environment")
    } else if has(&["std", "process"]) {
        Some("deals with processes")
    } else if has(&["SystemTime"]) || has(&["Instant", "now"]) {
        Some("reads a clock")
    } else if has(&["std", "time", "Instant"]) {
        Some("is a clock's time")
    } else if segments.len() > 1 && segments[0] == "rand" {
        Some("draws random numbers")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn lines(text: &str) -> Vec<usize> {
        let source = Source::parse(Path::new("crates/core/types/src/a.rs"), text)
            .unwrap_or_else(|finding| panic!("{finding}"));
        check(&source)
            .into_iter()
            .map(|finding| finding.line)
            .collect()
    }

    #[test]
    fn each_way_out_is_found() {
        for text in [
            "use std::net::TcpStream;",
            "use std::{fmt, net};",
            "fn f() { std::fs::read(\"x\"); }",
            "use std::fs;",
            "use std::fs as files;",
            "use ::std::fs::File;",
            "fn f() { std::thread::sleep(d); }",
            "use std::thread;",
            "use std::time::SystemTime;",
            "use std::time::{Duration, SystemTime};",
            "fn f() -> std::time::SystemTime { g() }",
            "fn f() { let a = Instant::now(); }",
            "use std::time::Instant;",
            "fn f() { std::env::var(\"HOME\"); }",
            "fn f() { env!(\"A\"); std::env::args(); }",
            "fn f() { std::process::exit(1); }",
            "use rand::Rng;",
            "fn f() -> u64 { rand::random() }",
            "mod a { fn f() { if g() { vec![std::thread::current()]; } } }",
        ] {
            assert_eq!(lines(text), [1], "{text}");
        }
    }

    #[test]
    fn the_line_is_that_of_the_name() {
        assert_eq!(
            lines("fn f() {}\n\nuse std::{\n    fmt,\n    fs,\n};\n"),
            [5]
        );
    }

    #[test]
    fn what_is_pure_passes() {
        for text in [
            "use std::time::Duration;",
            "// std::fs\n/// std::net\nfn f() { g(\"std::thread\"); }",
            "mod net { } fn f() { net::g(); fs(); thread(); }",
            "fn f(rand: &mut dyn FnMut() -> u64) { rand(); }",
            "#[cfg(test)]\nmod tests { use std::fs; }",
            "#[test]\nfn f() { std::thread::spawn(g); }",
        ] {
            assert_eq!(lines(text), [0; 0], "{text}");
        }
    }
}
