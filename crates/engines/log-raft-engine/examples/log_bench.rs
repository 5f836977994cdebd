//! Benchmark of appending to the log.
//!
//! `cargo run --release -p pandofs-log-raft-engine --example log_bench -- [--ops N] [--dir DIR]`
//!
//! The log is made in a new directory under DIR (the current directory unless given, because the
//! system's temporary directory may be in memory, where syncing costs nothing) and removed again.

use pandofs_log_raft_engine::{Options, RaftEngineLog};
use pandofs_storage::log::{Entry, Log, LogError};
use std::error::Error;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

const PAYLOAD_BYTES: usize = 150;
const STREAMS: usize = 16;
const DEFAULT_OPS: usize = 20_000;
/// Synced appends for each hundred unsynced ones: they take a hundred times as long.
const SYNCED_PERCENT: usize = 5;

struct Arguments {
    ops: usize,
    dir: PathBuf,
}

fn arguments() -> Result<Arguments, Box<dyn Error>> {
    let mut parsed = Arguments {
        ops: DEFAULT_OPS,
        dir: PathBuf::from("."),
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let value = arguments
            .next()
            .ok_or_else(|| format!("{argument} needs a value"))?;
        match argument.as_str() {
            "--ops" => parsed.ops = value.parse()?,
            "--dir" => parsed.dir = value.into(),
            _ => return Err(format!("unknown argument {argument}").into()),
        }
    }
    if parsed.ops == 0 {
        return Err("--ops must be at least 1".into());
    }
    Ok(parsed)
}

/// Appends to one log with ever higher indexes.
struct Lane<'a> {
    log: &'a RaftEngineLog,
    next: [u64; STREAMS],
}

impl Lane<'_> {
    /// Appends `entries` entries, the same number to each stream as far as it comes out even.
    fn append(&mut self, entries: usize) -> Result<(), LogError> {
        let payload = [7; PAYLOAD_BYTES];
        let mut batch = Vec::with_capacity(entries);
        for i in 0..entries {
            let stream = i * STREAMS / entries.max(STREAMS);
            batch.push(Entry {
                stream: stream as u64,
                index: self.next[stream],
                payload: &payload,
            });
            self.next[stream] += 1;
        }
        self.log.append(&batch)
    }

    /// As a lane does when its store was flushed.
    fn prune(&self) -> Result<(), LogError> {
        for (stream, next) in self.next.iter().enumerate() {
            if *next > 1 {
                self.log.prune(stream as u64, next - 1)?;
            }
        }
        self.log.reclaim()
    }
}

/// Runs `work` `ops` times and prints how long one took.
fn measure(
    what: &str,
    ops: usize,
    mut work: impl FnMut() -> Result<(), LogError>,
) -> Result<(), LogError> {
    let mut micros = Vec::with_capacity(ops);
    for _ in 0..ops {
        let start = Instant::now();
        work()?;
        micros.push(start.elapsed().as_secs_f64() * 1e6);
    }
    micros.sort_by(f64::total_cmp);
    let at = |percent: usize| micros[(ops * percent / 100).min(ops - 1)];
    println!(
        "{what:<44} {:>9.2} {:>9.2} {:>9.2} {:>9.2}",
        at(50),
        at(10),
        at(99),
        at(100)
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let Arguments { ops, dir } = arguments()?;
    let dir = tempfile::tempdir_in(dir)?;
    let log = RaftEngineLog::open(dir.path(), Options::default())?;
    let mut lane = Lane {
        log: &log,
        next: [1; STREAMS],
    };
    let synced_ops = (ops * SYNCED_PERCENT / 100).max(1);
    println!(
        "{:<44} {:>9} {:>9} {:>9} {:>9}",
        "microseconds", "median", "10 %", "99 %", "slowest"
    );
    for entries in [1, 32] {
        let what = format!("append {entries} of {PAYLOAD_BYTES} bytes");
        measure(&what, ops, || lane.append(entries))?;
        lane.prune()?;
        measure(&format!("{what}, synced"), synced_ops, || {
            lane.append(entries)?;
            log.sync()
        })?;
        lane.prune()?;

        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let helper = scope.spawn(|| {
                let (mut syncs, mut synced_bytes) = (0, 0);
                while !done.load(Ordering::Acquire) {
                    let bytes = log.bytes();
                    if bytes == synced_bytes {
                        std::thread::yield_now();
                        continue;
                    }
                    log.sync()?;
                    (syncs, synced_bytes) = (syncs + 1, bytes);
                }
                Ok::<u64, LogError>(syncs)
            });
            let what = format!("{what} while a helper syncs");
            let measured = measure(&what, ops, || lane.append(entries));
            done.store(true, Ordering::Release);
            let syncs = helper.join().map_err(|_| "the helper panicked")??;
            println!("    ({syncs} syncs meanwhile)");
            measured.map_err(Box::<dyn Error>::from)
        })?;
        lane.prune()?;
    }
    Ok(())
}
