//! `pandofs up` as a person uses it, but for the mount, which the end-to-end tests have.

#![allow(clippy::unwrap_used)]

use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The longest that anything here may take.
const DEADLINE: Duration = Duration::from_secs(60);

fn pandofs(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pandofs"));
    command.args(arguments).stdin(Stdio::null());
    for variable in ["PANDOFS_CLUSTER", "PANDOFS_DATA", "PANDOFS_LOG"] {
        command.env_remove(variable);
    }
    command
}

fn run(arguments: &[&str]) -> Output {
    pandofs(arguments).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Calls `attempt` until it gives something.
fn wait_for<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what} did not happen");
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

/// A running `up`; killed if a test fails.
struct Up(Child);

impl Up {
    /// Starts it and waits until it says that it is up.
    fn start(data: &Path, more: &[&str]) -> Up {
        let arguments = [
            &["up", "--no-mount", "--data", data.to_str().unwrap()],
            more,
        ]
        .concat();
        let mut child = pandofs(&arguments).stderr(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stderr.take().unwrap());
        let up = Up(child);
        let mut lines = said.lines();
        let mut before = Vec::new();
        loop {
            let Some(Ok(line)) = lines.next() else {
                panic!("it did not come up: {before:#?}")
            };
            if line.ends_with(" are up") {
                break;
            }
            before.push(line);
        }
        // Its output must be read from now on.
        std::thread::spawn(move || lines.for_each(drop));
        up
    }

    /// Asks it to stop; its exit code.
    fn stop(mut self) -> Option<i32> {
        kill(self.0.id(), "TERM");
        wait_for("the end of up", || self.0.try_wait().unwrap()).code()
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn kill(pid: u32, signal: &str) {
    let done = Command::new("kill")
        .args(["-s", signal, &pid.to_string()])
        .status()
        .unwrap();
    assert!(done.success());
}

fn status(data: &Path) -> (Option<i32>, Value) {
    let output = run(&["status", "--json", "--data", data.to_str().unwrap()]);
    let json = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (output.status.code(), json)
}

#[test]
fn a_cluster_comes_back_with_its_data_and_restarts_killed_servers() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    let up = Up::start(&data, &["--servers", "2", "--shards", "8"]);
    let (code, before) = status(&data);
    assert_eq!(code, Some(0));
    let servers = before["servers"].as_array().unwrap();
    assert_eq!(servers.len(), 2);
    let shards: u64 = servers
        .iter()
        .map(|server| server["shards"].as_u64().unwrap())
        .sum();
    assert_eq!(shards, 8);
    for field in [
        "entries",
        "inodes",
        "splits",
        "requests",
        "redirected",
        "log_bytes",
    ] {
        assert!(servers[0][field].is_u64(), "{field}");
    }

    // No other process may have it, and what it is cannot be changed.
    let text = data.to_str().unwrap();
    let second = run(&["up", "--no-mount", "--data", text]);
    assert_eq!(second.status.code(), Some(1));
    assert!(
        stderr(&second).contains(&format!("(pid {}) runs on", up.0.id())),
        "{}",
        stderr(&second)
    );
    let offline = run(&["fsck", "--offline", "--data", text]);
    assert!(
        stderr(&offline).contains("stop it, or check without --offline"),
        "{}",
        stderr(&offline)
    );

    // A killed server is started again.
    let pid = fs::read_to_string(data.join("server-1/pid"))
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    assert_eq!(servers[1]["pid"], pid);
    kill(pid, "KILL");
    wait_for("a new server 1", || {
        let (code, now) = status(&data);
        (code == Some(0) && now["servers"][1]["pid"] != pid).then_some(())
    });
    let fsck = run(&["fsck", "--json", "--data", text]);
    let report: Value = serde_json::from_slice(&fsck.stdout).unwrap();
    assert_eq!(
        (fsck.status.code(), &report["clean"]),
        (Some(0), &Value::Bool(true)),
        "{report}"
    );

    assert_eq!(up.stop(), Some(0));
    let (code, away) = status(&data);
    assert_eq!(code, Some(3));
    assert_eq!(away["servers"][0]["state"], "away");
    assert!(!data.join("server-0/pid").exists());
    let online = run(&["fsck", "--data", text]);
    assert_eq!(online.status.code(), Some(3), "{}", stderr(&online));
    let offline = run(&["fsck", "--offline", "--data", text]);
    assert_eq!(offline.status.code(), Some(0), "{}", stderr(&offline));

    let wrong = run(&["up", "--no-mount", "--servers", "3", "--data", text]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(
        stderr(&wrong).contains("--servers 3: the cluster in"),
        "{}",
        stderr(&wrong)
    );
    let wrong = run(&["up", "--no-mount", "--shards", "16", "--data", text]);
    assert!(
        stderr(&wrong).contains("that is fixed when it is made"),
        "{}",
        stderr(&wrong)
    );

    // Moved, it is still the same file system.
    let moved = scratch.path().join("moved");
    fs::rename(&data, &moved).unwrap();
    let up = Up::start(&moved, &[]);
    let (code, after) = status(&moved);
    assert_eq!(code, Some(0));
    assert_eq!(after["file_system"], before["file_system"]);
    assert_eq!(up.stop(), Some(0));
}

#[test]
fn a_command_runs_while_the_cluster_does_and_its_exit_code_is_passed_on() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    let text = data.to_str().unwrap();
    let up = ["up", "--no-mount", "--servers", "1", "--data", text, "--"];
    let program = env!("CARGO_BIN_EXE_pandofs");
    let asked = run(&[&up[..], &[program, "status", "--json", "--data", text]].concat());
    assert_eq!(asked.status.code(), Some(0), "{}", stderr(&asked));
    let report: Value = serde_json::from_slice(&asked.stdout).unwrap();
    assert_eq!(report["servers"][0]["state"], "up");
    let failed = run(&[&up[..], &["sh", "-c", "exit 7"]].concat());
    assert_eq!(failed.status.code(), Some(7));
    let missing = run(&[&up[..], &["/no/such/program"]].concat());
    assert_eq!(missing.status.code(), Some(1));
    assert!(
        stderr(&missing).contains("cannot run /no/such/program"),
        "{}",
        stderr(&missing)
    );
}

#[test]
fn servers_end_with_an_up_that_was_killed() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    let up = Up::start(&data, &["--servers", "2", "--shards", "2"]);
    kill(up.0.id(), "KILL");
    drop(up);
    wait_for("the end of the servers", || {
        (status(&data).0 == Some(3)).then_some(())
    });
    // Each has let go of its directory, or will in a moment.
    wait_for("another start", || {
        let arguments = [
            "up",
            "--no-mount",
            "--data",
            data.to_str().unwrap(),
            "--",
            "true",
        ];
        (run(&arguments).status.code() == Some(0)).then_some(())
    });
}

#[test]
fn a_file_system_made_by_hand_is_served_and_checked() {
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name).to_str().unwrap().to_owned();
    let (map, dir) = (path("cluster.json"), path("0"));
    let address = format!("unix:{}", path("socket"));
    let made = run(&[
        "format",
        "--cluster",
        &map,
        "--servers",
        &address,
        "--shards",
        "2",
    ]);
    assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
    let again = run(&["format", "--cluster", &map, "--servers", &address]);
    assert!(
        stderr(&again).contains("never overwritten"),
        "{}",
        stderr(&again)
    );
    let serve = ["serve", "--cluster", &map, "--id", "0", "--data", &dir];
    let unprepared = run(&serve);
    assert_eq!(unprepared.status.code(), Some(78));
    assert!(
        stderr(&unprepared).contains(&dir),
        "{}",
        stderr(&unprepared)
    );
    let prepared = run(&["format", "--cluster", &map, "--id", "0", "--data", &dir]);
    assert_eq!(prepared.status.code(), Some(0), "{}", stderr(&prepared));
    let twice = run(&["format", "--cluster", &map, "--id", "0", "--data", &dir]);
    assert!(
        stderr(&twice).contains("is not empty"),
        "{}",
        stderr(&twice)
    );

    let mut server = Up(pandofs(&serve).stderr(Stdio::null()).spawn().unwrap());
    let waiting = run(&["status", "--cluster", &map, "--wait", "60s"]);
    assert_eq!(waiting.status.code(), Some(0), "{}", stderr(&waiting));
    let root = run(&["dir", "--cluster", &map, "--json", "/"]);
    let root: Value = serde_json::from_slice(&root.stdout).unwrap();
    assert_eq!(
        (&root["entries"], &root["partitions"]),
        (&Value::from(0), &Value::from(1))
    );
    let set = run(&[
        "dir",
        "--cluster",
        &map,
        "--threshold",
        "500",
        "--json",
        "/",
    ]);
    let set: Value = serde_json::from_slice(&set.stdout).unwrap();
    assert_eq!(set["threshold"], 500);
    let missing = run(&["dir", "--cluster", &map, "/missing"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(
        stderr(&missing).contains("/missing"),
        "{}",
        stderr(&missing)
    );
    kill(server.0.id(), "TERM");
    assert!(wait_for("the server's end", || server.0.try_wait().unwrap()).success());
    let offline = [
        "fsck",
        "--offline",
        "--cluster",
        &map,
        "--server-data",
        &dir,
    ];
    assert_eq!(run(&offline).status.code(), Some(0));
}

#[test]
fn a_command_without_a_file_system_says_how_to_name_one() {
    let nowhere = run(&["status", "--data", "/no/such/dir"]);
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(
        stderr(&nowhere).contains("--data /no/such/dir"),
        "{}",
        stderr(&nowhere)
    );
    let no_map = run(&["status", "--cluster", "/no/such/map"]);
    assert!(
        stderr(&no_map).contains("make one with 'pandofs format'"),
        "{}",
        stderr(&no_map)
    );
    let wrong = run(&["status", "--no-such-option"]);
    assert_eq!(wrong.status.code(), Some(2));
    for shell in ["bash", "zsh", "fish"] {
        let script = run(&["completions", shell]);
        assert_eq!(script.status.code(), Some(0));
        assert!(String::from_utf8_lossy(&script.stdout).contains("pandofs"));
    }
}

#[test]
fn scripts_are_told_what_was_started() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    let text = data.to_str().unwrap();
    let line = [
        "up",
        "--no-mount",
        "--quiet",
        "--json",
        "--servers",
        "2",
        "--data",
        text,
    ];
    let mut child = pandofs(&line).stdout(Stdio::piped()).spawn().unwrap();
    let said = BufReader::new(child.stdout.take().unwrap());
    let up = Up(child);
    let told = said.lines().next().unwrap().unwrap();
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["pid"], up.0.id());
    assert_eq!(told["servers"].as_array().unwrap().len(), 2);
    let server = &told["servers"][1];
    let address = server["addresses"][0].as_str().unwrap();
    assert!(Path::new(address.strip_prefix("unix:").unwrap()).exists());
    assert!(Path::new(server["log"].as_str().unwrap()).exists());
    let (code, status) = status(&data);
    assert_eq!(code, Some(0));
    assert_eq!(server["pid"], status["servers"][1]["pid"]);
    assert_eq!(up.stop(), Some(0));
}
