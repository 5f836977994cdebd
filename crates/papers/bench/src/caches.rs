//! Costs and gains of a mount's caching under leases.
//!
//! The other mount caches names and attributes for a second.
//!
//! Two mounts of one cluster take turns, each in a directory of its own. A single use pays for a
//! lease that is not used again; what is looked at again is where caching counts.

use crate::rounds::{Rounds, print};
use crate::running::Running;
use crate::target::{Kind, Setup, Target};
use anyhow::{Context, Result};
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The kinds of mounts; ratios are taken to the first.
const CACHES: [&str; 2] = ["timeouts", "leases"];
/// The measurements, in this order.
const PHASES: [&str; 7] = ["create", "write", "stat", "later", "read", "list", "remove"];
/// Longer than what is cached without a lease counts (`attr_timeout` and `entry_timeout` of a
/// mount, 1 s).
const LATER: Duration = Duration::from_millis(1300);
/// Of so many files one is written and read.
const FILES_PER_WRITTEN: u64 = 3;
/// Bytes of a file that is written.
const FILE_BYTES: usize = 100;

/// Leases beside time-outs.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    setup: Setup,
    /// Files of one round.
    #[arg(long, default_value_t = 6_000, value_parser = clap::value_parser!(u64).range(1..))]
    files: u64,
    /// Rounds that count; one more comes first to warm up.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Also write every figure here, a JSON object a line.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// # Errors
/// When something does not start, or a call on a mount fails.
pub(crate) fn run(options: &Options) -> Result<()> {
    let scratch = options.setup.scratch()?;
    let target = Target::start_beside(Kind::Library, &options.setup, scratch.path())?;
    let cluster = target.cluster.as_deref().context("no cluster map")?;
    let mut mounts = Vec::new();
    for cache in CACHES {
        let at = scratch.path().join(cache);
        fs::create_dir(&at)?;
        let mut mount = Command::new(&options.setup.pandofs);
        mount
            .args(["mount", "--foreground", "--cache", cache, "--cluster"])
            .arg(cluster)
            .arg(&at);
        let mut mount = Running::start(&mut mount)?;
        mount.wait_for_mount(&at)?;
        mounts.push((mount, at));
    }
    let mut rounds = Rounds::new(CACHES.to_vec(), &PHASES);
    for round in 0..=options.rounds {
        for turn in 0..CACHES.len() {
            // The order changes, so that none always runs after the same neighbour.
            let which = (turn + round as usize) % CACHES.len();
            let directory = mounts[which].1.join(format!("{}-{round}", CACHES[which]));
            let rates = measure(&directory, options.files)
                .with_context(|| format!("{} in round {round}", CACHES[which]))?;
            if round > 0 {
                rounds.add(which, rates);
            }
        }
        eprintln!("round {round} of {} done", options.rounds);
    }
    for (mount, _) in mounts {
        mount.stop()?;
    }
    target.stop()?;

    let mut figure = rounds.figure(
        "caches",
        "A mount that caches under leases beside one that caches for a second",
        "calls a second",
    );
    figure.note(format!(
        "one process, {} files in one directory, one in {FILES_PER_WRITTEN} with {FILE_BYTES} bytes, {} servers; 'later' \
         and 'list' come {} ms after the last look, 'list' looks at each entry",
        options.files,
        options.setup.servers,
        LATER.as_millis()
    ));
    let ratios = rounds.ratios("caches-ratios", "The same, compared");
    print(
        &options.setup.commit,
        options.json.as_deref(),
        &[figure, ratios],
    )
}

/// Calls a second of each phase, in a new directory that is gone afterwards.
fn measure(directory: &Path, files: u64) -> Result<Vec<f64>> {
    fs::create_dir(directory)?;
    let rates = PHASES
        .iter()
        .map(|phase| {
            if matches!(*phase, "later" | "list") {
                std::thread::sleep(LATER);
            }
            let begun = Instant::now();
            let calls = work(phase, directory, files)?;
            Ok(calls as f64 / begun.elapsed().as_secs_f64())
        })
        .collect::<Result<Vec<f64>>>()?;
    fs::remove_dir(directory)?;
    Ok(rates)
}

/// Number of files that it went over.
fn work(phase: &str, directory: &Path, files: u64) -> Result<u64> {
    let written = files.div_ceil(FILES_PER_WRITTEN);
    let empty = |number: u64| directory.join(format!("empty-{number:06}"));
    let full = |number: u64| directory.join(format!("full-{number:06}"));
    match phase {
        "create" => {
            for number in 0..files {
                let mut how = OpenOptions::new();
                how.write(true).create_new(true).open(empty(number))?;
            }
        }
        "write" => {
            for number in 0..written {
                fs::write(full(number), [7; FILE_BYTES])?;
            }
            return Ok(written);
        }
        "stat" | "later" => {
            for number in 0..files {
                fs::metadata(empty(number))?;
            }
        }
        "read" => {
            for number in 0..written {
                let found = fs::read(full(number))?;
                anyhow::ensure!(found == [7; FILE_BYTES], "not what was written");
            }
            return Ok(written);
        }
        "list" => {
            let mut found = 0;
            for entry in fs::read_dir(directory)? {
                entry?.metadata()?;
                found += 1;
            }
            anyhow::ensure!(found == files + written, "{found} entries");
            return Ok(found);
        }
        _ => {
            for number in 0..files {
                fs::remove_file(empty(number))?;
            }
            for number in 0..written {
                fs::remove_file(full(number))?;
            }
            return Ok(files + written);
        }
    }
    Ok(files)
}
