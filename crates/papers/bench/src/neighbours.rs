//! Waiting times of other users while one lists, searches and removes a large directory.
//!
//! Two of them work meanwhile, each in a directory of its own: one on the mount that the tool runs
//! on, one on another. Each tool's figures stand beside those of idle time just before it.

use crate::report::machine;
use crate::running::Running;
use crate::target::{Kind, Setup, Target};
use anyhow::{Context, Result, bail};
use pandofs_client::{Client, OpenHow, Options as ClientOptions};
use pandofs_types::{Credentials, Ino, Name};
use serde::Serialize;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// From the beginning of one cycle of a neighbour to that of the next.
const CYCLE: Duration = Duration::from_millis(10);
/// Clients that fill the directory.
const FILLERS: u64 = 8;
/// Bytes that a neighbour writes into a file.
const FILE_BYTES: usize = 100;
/// The operations of a neighbour in a cycle, in this order.
const OPERATIONS: [&str; 5] = ["create", "stat", "read", "rename", "remove"];

/// Latencies of others while a large directory is listed, searched and removed.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    setup: Setup,
    /// Entries of the large directory.
    #[arg(long, default_value_t = 1_000_000)]
    entries: u64,
    /// Seconds of idle time that each tool is compared with.
    #[arg(long, default_value_t = 10.0)]
    idle: f64,
    /// Also write every figure here, a JSON object a line.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// The programs of a user of the large directory; each is given its path. The one that removes it
/// is the last.
const TOOLS: [(&str, &[&str]); 4] = [
    ("ls -f", &["ls", "-f"]),
    ("ls -l", &["ls", "-l"]),
    ("find", &["find"]),
    ("rm -rf", &["rm", "-rf"]),
];

/// One neighbour's waits for one operation.
#[derive(Serialize)]
struct Figures<'a> {
    commit: &'a str,
    machine: &'a str,
    entries: u64,
    /// `idle` before, or the tool that ran meanwhile, and how long that took.
    meanwhile: &'a str,
    seconds: f64,
    neighbour: &'static str,
    operation: &'static str,
    count: usize,
    median_us: u32,
    p99_us: u32,
    most_us: u32,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let scratch = options.setup.scratch()?;
    let first = Target::start_beside(Kind::Mount, &options.setup, scratch.path())?;
    let cluster = first
        .cluster
        .as_deref()
        .context("a mount of PandoFS has a cluster map")?;
    let mounts = [first.root.clone(), scratch.path().join("other")];
    fs::create_dir(&mounts[1])?;
    let mut mount = Command::new(&options.setup.pandofs);
    mount
        .args(["mount", "--foreground", "--cluster"])
        .arg(cluster)
        .arg(&mounts[1]);
    let mut second = Running::start(&mut mount)?;
    second.wait_for_mount(&mounts[1])?;

    let large = mounts[0].join("large");
    fs::create_dir(&large)?;
    let begun = Instant::now();
    fill(cluster, options.entries)?;
    eprintln!(
        "{} entries made in {:.1} s",
        options.entries,
        begun.elapsed().as_secs_f64()
    );
    for (at, path) in mounts.iter().enumerate() {
        fs::create_dir(path.join(directory_of(at)))?;
    }

    let mut report = Report::new(options)?;
    for (name, command) in TOOLS {
        let idle = Duration::from_secs_f64(options.idle);
        report.add("idle", &mounts, || {
            thread::sleep(idle);
            Ok(())
        })?;
        report.add(name, &mounts, || {
            let mut tool = Command::new(command[0]);
            tool.args(&command[1..]).arg(&large).stdout(Stdio::null());
            let status = tool.status()?;
            if !status.success() {
                bail!("{name} ended with {status}");
            }
            Ok(())
        })?;
    }
    if large.exists() {
        bail!("rm -rf left {}", large.display());
    }
    second.stop()?;
    first.stop()
}

fn directory_of(neighbour: usize) -> &'static str {
    ["neighbour-same", "neighbour-other"][neighbour]
}

/// Makes the entries through the library, which is faster than a mount and the same to the servers.
fn fill(cluster: &Path, entries: u64) -> Result<()> {
    thread::scope(|scope| {
        let fillers: Vec<_> = (0..FILLERS)
            .map(|rank| scope.spawn(move || fill_part(cluster, rank, entries)))
            .collect();
        for filler in fillers {
            match filler.join() {
                Ok(filled) => filled?,
                Err(_) => bail!("a thread that fills the directory panicked"),
            }
        }
        Ok(())
    })
}

fn fill_part(cluster: &Path, rank: u64, entries: u64) -> Result<()> {
    let client = Client::open(cluster, ClientOptions::default())?;
    let caller = Credentials::ROOT;
    let directory = client
        .lookup(&caller, Ino::ROOT, &Name::new(b"large")?)?
        .ino;
    let how = OpenHow {
        access: 2,
        truncate: false,
        exclusive: true,
    };
    for number in (rank..entries).step_by(FILLERS as usize) {
        let name = Name::new(format!("file-{number:09}").as_bytes())?;
        let made = client.create(&caller, directory, &name, 0o644, how)?;
        client.release(made.node.ino)?;
    }
    Ok(())
}

/// Works in `directory` until it is stopped. Returns the microseconds of each operation.
fn neighbour(directory: &Path, stop: &AtomicBool) -> Result<[Vec<u32>; OPERATIONS.len()]> {
    let mut waits: [Vec<u32>; OPERATIONS.len()] = Default::default();
    let (file, renamed) = (directory.join("file"), directory.join("renamed"));
    let contents = [7; FILE_BYTES];
    let mut due = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        for (wait, operation) in waits.iter_mut().zip(OPERATIONS) {
            let begun = Instant::now();
            match operation {
                "create" => fs::write(&file, contents)?,
                "stat" => {
                    fs::metadata(&file)?;
                }
                "read" => {
                    if fs::read(&file)? != contents {
                        bail!("{} has not what was written", file.display());
                    }
                }
                "rename" => fs::rename(&file, &renamed)?,
                _ => fs::remove_file(&renamed)?,
            }
            wait.push(u32::try_from(begun.elapsed().as_micros()).unwrap_or(u32::MAX));
        }
        due += CYCLE;
        // After a long wait it does not catch up: no user works so.
        due = due.max(Instant::now());
    }
    Ok(waits)
}

struct Report<'a> {
    options: &'a Options,
    machine: String,
    json: Option<fs::File>,
}

impl<'a> Report<'a> {
    fn new(options: &'a Options) -> Result<Report<'a>> {
        let json = options.json.as_ref().map(|path| {
            fs::File::create(path).with_context(|| format!("cannot write {}", path.display()))
        });
        let report = Report {
            options,
            machine: machine(),
            json: json.transpose()?,
        };
        println!(
            "commit {}, {}; a directory of {} entries, {} servers; two neighbours, a cycle every {} ms; \
             milliseconds: median / 99 of 100 / longest",
            options.setup.commit,
            report.machine,
            options.entries,
            options.setup.servers,
            CYCLE.as_millis(),
        );
        print!("{:<10} {:>8}  {:<8}", "meanwhile", "seconds", "mount");
        for operation in OPERATIONS {
            print!("  {operation:<23}");
        }
        println!();
        Ok(report)
    }

    /// The waiting times of the neighbours while `work` runs.
    fn add(
        &mut self,
        meanwhile: &str,
        mounts: &[PathBuf],
        work: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let stop = AtomicBool::new(false);
        let begun = Instant::now();
        let (worked, waits) = thread::scope(|scope| {
            let neighbours: Vec<_> = mounts
                .iter()
                .enumerate()
                .map(|(at, path)| {
                    let directory = path.join(directory_of(at));
                    let stop = &stop;
                    scope.spawn(move || neighbour(&directory, stop))
                })
                .collect();
            let worked = work().map(|()| begun.elapsed());
            stop.store(true, Ordering::Relaxed);
            let waits: Vec<_> = neighbours.into_iter().map(|one| one.join()).collect();
            (worked, waits)
        });
        let seconds = worked?.as_secs_f64();
        for (waits, name) in waits.into_iter().zip(["same", "other"]) {
            let Ok(waits) = waits else {
                bail!("a neighbour panicked");
            };
            print!("{meanwhile:<10} {seconds:>8.2}  {name:<8}");
            for (mut of_one, operation) in waits?.into_iter().zip(OPERATIONS) {
                of_one.sort_unstable();
                let Some(&most_us) = of_one.last() else {
                    bail!("nothing was measured during {meanwhile}");
                };
                let figures = Figures {
                    commit: &self.options.setup.commit,
                    machine: &self.machine,
                    entries: self.options.entries,
                    meanwhile,
                    seconds,
                    neighbour: name,
                    operation,
                    count: of_one.len(),
                    median_us: of_one[of_one.len() / 2],
                    p99_us: of_one[of_one.len() * 99 / 100],
                    most_us,
                };
                let shown = [figures.median_us, figures.p99_us, figures.most_us]
                    .map(|wait| format!("{:.2}", f64::from(wait) / 1000.0))
                    .join(" / ");
                print!("  {shown:<23}");
                if let Some(file) = &mut self.json {
                    writeln!(file, "{}", serde_json::to_string(&figures)?)?;
                }
            }
            println!();
        }
        Ok(())
    }
}
