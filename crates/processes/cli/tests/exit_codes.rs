//! Exit codes of servers and mounts that cannot start, by which a service manager knows whether to try again.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// `EX_CONFIG`.
const MISCONFIGURED: i32 = 78;

/// The exit code of the command with such arguments, and what it said.
fn ended(arguments: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pandofs"));
    command.args(arguments).stdin(Stdio::null());
    for variable in ["PANDOFS_CLUSTER", "PANDOFS_DATA", "PANDOFS_LOG"] {
        command.env_remove(variable);
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code().unwrap(), said)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A folder with a cluster map `map` of one server and the server's directory `0`.
fn formatted() -> TempDir {
    let scratch = tempfile::tempdir().unwrap();
    let address = format!("unix:{}", text(&scratch.path().join("socket")));
    let map = scratch.path().join("map");
    let (code, said) = ended(&[
        "format",
        "--cluster",
        text(&map),
        "--servers",
        &address,
        "--data",
        text(scratch.path()),
    ]);
    assert_eq!(code, 0, "{said}");
    scratch
}

#[test]
fn a_server_that_is_given_the_wrong_things_says_that_it_is_of_no_use_to_start_it_again() {
    let (scratch, other) = (formatted(), formatted());
    let map = scratch.path().join("map");
    let bad_map = scratch.path().join("bad");
    fs::write(&bad_map, "{").unwrap();
    let no_text = scratch.path().join("no-text");
    fs::write(&no_text, [0xff]).unwrap();
    let empty = scratch.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let data = scratch.path().join("0");
    let serve = |map: &Path, id: &str, data: &Path, more: &[&str]| {
        let line = [
            "serve",
            "--cluster",
            text(map),
            "--id",
            id,
            "--data",
            text(data),
        ];
        ended(&[&line, more].concat())
    };
    for (map, id, data, wanted) in [
        (
            &scratch.path().join("none"),
            "0",
            &data,
            "there is no cluster map",
        ),
        (&bad_map, "0", &data, "cannot be used"),
        (&no_text, "0", &data, "cannot read the cluster map"),
        (&empty, "0", &data, "cannot read the cluster map"),
        (&map, "1", &data, "has no server 1"),
        (&map, "0", &empty, "holds no server"),
        (
            &map,
            "0",
            &other.path().join("0"),
            "belongs to the file system",
        ),
    ] {
        let (code, said) = serve(map, id, data, &[]);
        assert_eq!(code, MISCONFIGURED, "{said}");
        assert!(said.contains(wanted), "{said}");
    }
    let (code, said) = serve(&map, "0", &data, &["--memory", "1M"]);
    assert_eq!(code, 2, "{said}");
    // Somebody else is in the way, and may be gone the next time.
    fs::create_dir(scratch.path().join("socket")).unwrap();
    let (code, said) = serve(&map, "0", &data, &[]);
    assert_eq!(code, 1, "{said}");
}

#[test]
fn a_mount_that_is_given_the_wrong_things_says_so_but_to_mount8() {
    let scratch = formatted();
    let (map, none) = (scratch.path().join("map"), scratch.path().join("none"));
    for (map, point) in [
        (&none, scratch.path()),
        (&map, none.as_path()),
        (&map, map.as_path()),
        // It would hide the map.
        (&map, scratch.path()),
    ] {
        let line = ["mount", "--cluster", text(map), text(point)];
        let (code, said) = ended(&line);
        assert_eq!(code, MISCONFIGURED, "{said}");
        let by_mount = ended(&[&line[..], &["--by-mount"]].concat());
        assert_eq!(by_mount, (1, said));
    }
}

#[test]
fn a_cluster_map_that_cannot_be_read_this_time_is_worth_another_start() {
    let (scratch, point) = (formatted(), tempfile::tempdir().unwrap());
    // Nothing is at the first address of a process: EIO, as from a disk or a file server in trouble.
    let map = ["--cluster", "/proc/self/mem"];
    let data = scratch.path().join("0");
    let serve = ["serve", "--id", "0", "--data", text(&data)];
    for line in [&serve[..], &["mount", text(point.path())]] {
        let (code, said) = ended(&[line, &map].concat());
        assert!(said.contains("Input/output error"), "{said}");
        assert_eq!(code, 1, "{said}");
    }
}

#[test]
fn the_help_tells_them() {
    let output = Command::new(env!("CARGO_BIN_EXE_pandofs"))
        .arg("--help")
        .output()
        .unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    assert!(help.contains(&format!("\n  {MISCONFIGURED} ")), "{help}");
}
