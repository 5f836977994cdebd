//! A tree with everything in it, and programs run on it.

use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use std::fs::{File, FileTimes, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime};

pub(crate) const ALGORITHMS: [&str; 7] = [
    "h-deqs",
    "h-drqs",
    "drqs",
    "deqs",
    "pa-drqs",
    "cp",
    "cp-keep-one",
];

/// Files of all kinds, sizes, ages, permissions and names; directories that are empty, deep and
/// wide.
pub(crate) fn make_tree(root: &Path) {
    let names: [&[u8]; 6] = [
        b"plain.c",
        b"with space.RS",
        b"new\nline.txt",
        b"\xff\xfe.bin",
        b"-dash",
        b"star*[x].rs",
    ];
    let now = SystemTime::now();
    for outer in 0..6_u32 {
        for inner in 0..5_u32 {
            let dir = root.join(format!("d{outer}/e{inner}/deeper"));
            std::fs::create_dir_all(dir.join("empty")).unwrap();
            for (number, name) in (0..).zip(names) {
                let path = dir.join(OsStr::from_bytes(name));
                let size = [0, 1, 511, 512, 4_097, 70_000][(number + inner as usize) % 6];
                std::fs::write(&path, vec![b'x'; size]).unwrap();
                let hours = [0, 1, 30, 50, 24 * 40, 24 * 500][(number + outer as usize) % 6];
                let file = File::options().write(true).open(&path).unwrap();
                let time = now - Duration::from_secs(hours * 3_600 + 90);
                file.set_times(FileTimes::new().set_modified(time).set_accessed(time))
                    .unwrap();
                let mode =
                    [0o644, 0o600, 0o755, 0o4711, 0o666, 0o440][(number + inner as usize) % 6];
                std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            }
            std::os::unix::fs::symlink("../deeper/plain.c", dir.join("link")).unwrap();
            std::os::unix::fs::symlink("/nowhere", dir.join("dangling")).unwrap();
            std::fs::hard_link(dir.join("plain.c"), dir.join("second name")).unwrap();
        }
    }
    let fifo = root.join("d0/fifo");
    assert!(Command::new("mkfifo").arg(fifo).status().unwrap().success());
    for file in 0..3_000 {
        std::fs::write(root.join(format!("d1/f{file}")), "").unwrap();
    }
}

pub(crate) fn tree() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    make_tree(&tree);
    (dir, tree)
}

/// A program run in a directory.
/// In one locale, wherever the test runs: GNU's expressions match a byte that is no character in that of C alone.
pub(crate) fn run_in(dir: &Path, program: &str, arguments: &[&str]) -> Output {
    Command::new(program)
        .args(arguments)
        .env("LC_ALL", "C.UTF-8")
        .current_dir(dir)
        .output()
        .unwrap()
}

/// One of our tools.
pub(crate) fn ours(dir: &Path, arguments: &[&str]) -> Output {
    run_in(dir, env!("CARGO_BIN_EXE_pandofs-walk"), arguments)
}

/// The same by somebody who may do no more than permissions say, as root may not without these
/// capabilities.
pub(crate) fn ours_by_permissions(dir: &Path, arguments: &[&str]) -> Output {
    if !rustix::process::geteuid().is_root() {
        return ours(dir, arguments);
    }
    let without = [
        "--bounding-set=-dac_override,-dac_read_search",
        env!("CARGO_BIN_EXE_pandofs-walk"),
    ];
    run_in(dir, "setpriv", &[&without, arguments].concat())
}

/// Records, sorted.
pub(crate) fn sorted(output: &Output, end: u8) -> Vec<Vec<u8>> {
    let mut records: Vec<Vec<u8>> = output
        .stdout
        .split(|byte| *byte == end)
        .map(<[u8]>::to_vec)
        .collect();
    assert_eq!(records.pop(), Some(vec![]), "the last record has no end");
    records.sort_unstable();
    records
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs a tool with a checkpoint at every moment and kills it again and again, each time once it
/// has written one, until it comes to its end; what that prints. One that comes to its end before
/// it was killed begins again.
pub(crate) fn killed(dir: &Path, arguments: &[&str], kills: u32) -> Output {
    let state = dir.join("state");
    let mut left = kills;
    let mut resume: &[&str] = &[];
    let end = std::time::Instant::now() + Duration::from_secs(120);
    let mut too_fast = 0;
    loop {
        let mut run = Command::new(env!("CARGO_BIN_EXE_pandofs-walk"))
            .arg(arguments[0])
            .args(["--checkpoint", "state", "--checkpoint-interval", "0"])
            .args(resume)
            .args(&arguments[1..])
            .current_dir(dir)
            .stdout(File::create(dir.join("printed")).unwrap())
            .stderr(File::create(dir.join("said")).unwrap())
            .spawn()
            .unwrap();
        let before = std::fs::read(&state).ok();
        loop {
            assert!(std::time::Instant::now() < end);
            if let Some(status) = run.try_wait().unwrap() {
                assert!(!state.exists(), "nothing is left of it");
                assert!(!dir.join("state.list").exists());
                let stdout = std::fs::read(dir.join("printed")).unwrap();
                let stderr = std::fs::read(dir.join("said")).unwrap();
                if left == kills {
                    too_fast += 1;
                    assert!(too_fast < 100, "{arguments:?} was too fast each time");
                    break;
                }
                return Output {
                    status,
                    stdout,
                    stderr,
                };
            }
            // One more checkpoint than at the start of this run.
            let now = std::fs::read(&state).ok();
            if left > 0 && now.is_some() && now != before {
                left -= 1;
                run.kill().unwrap();
                run.wait().unwrap();
                if !state.exists() {
                    // It had; from the beginning.
                    let _ = std::fs::remove_file(dir.join("state.list"));
                    resume = &[];
                } else {
                    resume = &["--resume"];
                }
                break;
            }
            std::thread::yield_now();
        }
    }
}

/// More than two pieces of a large file.
pub(crate) const LARGE_BYTES: usize = 300 << 20;

pub(crate) fn begin(dir: &Path, arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_pandofs-walk"))
        .args(arguments)
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

pub(crate) fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Waits for a condition; or until the program has ended, then it is false.
pub(crate) fn becomes(child: &mut Child, condition: impl Fn() -> bool) -> bool {
    let end = Instant::now() + Duration::from_secs(120);
    loop {
        if condition() {
            return true;
        }
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        assert!(Instant::now() < end, "nothing happens");
        std::thread::yield_now();
    }
}

/// A time long ago, so that nothing that is written now has it.
pub(crate) fn long_ago() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000)
}

pub(crate) fn write_large(path: &Path, byte: u8) {
    std::fs::write(path, vec![byte; LARGE_BYTES]).unwrap();
    let file = File::options().write(true).open(path).unwrap();
    file.set_times(FileTimes::new().set_modified(long_ago()))
        .unwrap();
}

pub(crate) fn names(dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return Vec::new();
    };
    let names = entries.map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    names.sort_unstable();
    names
}
