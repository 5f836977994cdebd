//! A process killed with SIGKILL while it appends, prunes, syncs and reclaims.
//!
//! All that it said was appended is there when the log is opened again.

// Test code throughout.
#![allow(clippy::unwrap_used)]

mod common;

use common::open_with;
use pandofs_log_raft_engine::RaftEngineLog;
use pandofs_storage::log::Log;
use pandofs_storage::log::suite::{append_one_each, assert_holds};
use std::env;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

const STREAMS: [u64; 3] = [1, 2, 3];
/// Written only in the beginning: its entries move from file to file.
const IDLE: u64 = 9;
const IDLE_ENTRIES: u64 = 10;
const FILE_BYTES: u64 = 8 << 10;
/// Entries of stream 1 that are left when it is pruned.
const KEPT: u64 = 15;
/// Appends between two prunes.
const PRUNE_INTERVAL: u64 = 40;
const ROUNDS: u64 = 25;

fn main() {
    let arguments: Vec<String> = env::args().collect();
    if let [_, role, dir] = &arguments[..]
        && role == "victim"
    {
        return victim(&open_with(Path::new(dir), FILE_BYTES).unwrap());
    }
    let dir = tempfile::tempdir().unwrap();
    let log = open_with(dir.path(), FILE_BYTES).unwrap();
    for index in 1..=IDLE_ENTRIES {
        append_one_each(&log, &[IDLE], index);
    }
    drop(log);
    let mut last = 0;
    for round in 0..ROUNDS {
        let said = kill_after(dir.path(), 20 + round * 37 % 300);
        let log = open_with(dir.path(), FILE_BYTES).unwrap();
        last = check(&log, said.max(last), round);
    }
    println!("killed {ROUNDS} times, nothing was lost of {last} appends");
}

/// Says each append's index when it has returned.
fn victim(log: &RaftEngineLog) {
    let begin = log.next_index(STREAMS[0]).unwrap_or(1);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            loop {
                log.sync().unwrap();
            }
        });
        scope.spawn(|| {
            loop {
                log.reclaim().unwrap();
            }
        });
        for index in begin.. {
            append_one_each(log, &STREAMS, index);
            println!("{index}");
            if index % PRUNE_INTERVAL == 0 {
                log.prune(1, index - KEPT).unwrap();
                log.prune(2, index).unwrap();
                log.prune(3, index + 1 - PRUNE_INTERVAL).unwrap();
            }
        }
    });
}

/// Kills a victim that works in `dir` once it has said `lines` appends, and gives the last append
/// that it said.
fn kill_after(dir: &Path, lines: u64) -> u64 {
    let mut victim = Command::new(env::current_exe().unwrap())
        .arg("victim")
        .arg(dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(victim.stdout.take().unwrap());
    let mut last = 0;
    let mut read = 0;
    let mut line = String::new();
    loop {
        line.clear();
        output.read_line(&mut line).unwrap();
        // The last line may be cut short: it is not counted.
        let Some(said) = line.strip_suffix('\n') else {
            break;
        };
        last = said.parse().unwrap();
        read += 1;
        if read == lines {
            victim.kill().unwrap();
        }
    }
    assert!(read >= lines, "the victim ended by itself");
    victim.wait().unwrap();
    last
}

/// Checks that `said` appends are there, or one more that was not said, and gives their number.
fn check(log: &RaftEngineLog, said: u64, round: u64) -> u64 {
    assert_holds(log, IDLE, 1, IDLE_ENTRIES);
    let last = log.next_index(STREAMS[0]).unwrap() - 1;
    assert!(
        last == said || last == said + 1,
        "round {round}: {last} of {said} appends"
    );
    for stream in STREAMS {
        assert_eq!(
            log.next_index(stream),
            Some(last + 1),
            "round {round}, stream {stream}"
        );
        if let Some((first, _)) = log.span(stream) {
            assert_holds(log, stream, first, last);
            let unpruned = last - first + 1;
            assert!(
                unpruned <= 2 * PRUNE_INTERVAL,
                "round {round}, stream {stream}: {unpruned}"
            );
        }
    }
    last
}
