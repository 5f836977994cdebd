//! A server that goes away for minutes in the middle of operations that need it.
//!
//! The work of the others among themselves goes on at its rate, and their memory stays as it is.

use crate::cluster::{CALLER, fresh_directory, memory, name};
use anyhow::{Context, Result, ensure};
use pandofs_api::ServerStatus;
use pandofs_client::{Client, Options as ClientOptions};
use pandofs_placement::ClusterMap;
use pandofs_types::{Ino, Name, ServerId};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Operations that cannot end.
const STUCK: usize = 8;
/// Directories to look through for one on a server.
const MAX_DIRECTORIES: usize = 1_000;
/// The share of the rate that has to be reached, in thousandths.
const LEAST_RATE: u64 = 900;
/// The most memory that a server may take in the end, in thousandths of that which takes least. (The memory of all
/// grows while the buffers of their stores fill; operations that cannot end are with some of them.)
const MOST_MEMORY: u64 = 1_250;
/// The time for which a call goes on asking a server that does not answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// While a server is away with operations that need it under way, the others work as before
#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// The directory of a cluster made by `pandofs up --no-mount --no-restart`, which runs
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Seconds for which the server is away
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// Distributed operations a second among the others
    #[arg(long, default_value_t = 1_000)]
    rate: u64,
    /// Programs at work
    #[arg(long, default_value_t = 8)]
    workers: u64,
    /// Reports on the way
    #[arg(long, default_value_t = 10)]
    reports: u64,
    /// Only report: a cluster that does it wrong is shown as one that does it right
    #[arg(long)]
    lenient: bool,
}

/// A directory on each server.
struct Places {
    live: Vec<Ino>,
    away: Ino,
}

struct Report {
    /// A second.
    operations: u64,
    /// MiB of each server that is there.
    memory: Vec<u64>,
}

/// # Errors
/// Anything that was slower or larger at the end, or the file system's errors.
pub(crate) fn run(options: &Options) -> Result<()> {
    let path = options.data.join("cluster.json");
    let map = ClusterMap::from_json(&fs::read_to_string(&path)?)?;
    let servers = map.leading_servers();
    ensure!(servers.len() >= 3, "this takes three servers or more");
    let (away, live) = servers.split_last().context("no server")?;
    let client = client(options)?;
    let places = places(&client, &map, live, *away)?;
    let clients = (0..options.workers)
        .map(|_| self::client(options))
        .collect::<Result<Vec<Client>>>()?;
    for worker in 0..options.workers {
        let from = places.live[worker as usize % live.len()];
        client.create(&CALLER, from, &file(worker)?, 0o644, exclusive())?;
    }
    for number in 0..STUCK {
        let from = [places.live[0], places.away][number % 2];
        client.create(&CALLER, from, &stuck(number)?, 0o644, exclusive())?;
    }
    let ends = AtomicBool::new(false);
    let done = AtomicU64::new(0);
    let wrong = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (ends, done, wrong, places) = (&ends, &done, &wrong, &places);
        for (worker, client) in clients.iter().enumerate() {
            scope.spawn(move || {
                if let Err(error) = work(options, client, places, worker as u64, ends, done) {
                    eprintln!("worker {worker}: {error:#}");
                    wrong.store(true, Ordering::SeqCst);
                }
            });
        }
        let reported = reports(options, live, *away, places, done);
        ends.store(true, Ordering::SeqCst);
        let reported = reported?;
        ensure!(!wrong.load(Ordering::SeqCst), "a worker has failed");
        judge(options, &reported)
    })?;
    // The workers have ended: what is under way now is what cannot end.
    let shards = client
        .status()
        .into_iter()
        .filter_map(|(_, status)| status.ok());
    let undecided: u64 = shards.map(|server| undecided(&server)).sum();
    ensure!(undecided > 0, "nothing that needs the server was under way");
    println!("{undecided} operations cannot end");
    Ok(())
}

fn undecided(server: &ServerStatus) -> u64 {
    server.shards.iter().map(|shard| shard.undecided).sum()
}

fn exclusive() -> pandofs_client::OpenHow {
    pandofs_client::OpenHow {
        exclusive: true,
        ..pandofs_client::OpenHow::default()
    }
}

fn client(options: &Options) -> Result<Client> {
    let soft = ClientOptions {
        soft: Some(PATIENCE),
        ..ClientOptions::default()
    };
    Ok(Client::open(&options.data.join("cluster.json"), soft)?)
}

fn file(worker: u64) -> Result<Name> {
    name(&format!("file-{worker}"))
}

fn stuck(number: usize) -> Result<Name> {
    name(&format!("stuck-{number}"))
}

fn places(client: &Client, map: &ClusterMap, live: &[ServerId], away: ServerId) -> Result<Places> {
    let mut found: Vec<(ServerId, Ino)> = Vec::new();
    for _ in 0..MAX_DIRECTORIES {
        if found.len() > live.len() {
            break;
        }
        let (_, ino) = fresh_directory(client, Ino::ROOT, "away")?;
        let server = map.server_of(ino.birth_shard());
        if found.iter().all(|(other, _)| *other != server) {
            found.push((server, ino));
        }
    }
    let of = |server: &ServerId| {
        let at = found.iter().find(|(other, _)| other == server);
        at.map(|(_, ino)| *ino)
            .with_context(|| format!("no directory is on server {server}"))
    };
    Ok(Places {
        live: live.iter().map(of).collect::<Result<_>>()?,
        away: of(&away)?,
    })
}

/// Renames a file from server to server, so often a second.
fn work(
    options: &Options,
    client: &Client,
    places: &Places,
    worker: u64,
    ends: &AtomicBool,
    done: &AtomicU64,
) -> Result<()> {
    let pause = Duration::from_secs(options.workers).div_f64(options.rate as f64);
    let file = file(worker)?;
    let mut at = worker as usize % places.live.len();
    let mut next = Instant::now();
    while !ends.load(Ordering::SeqCst) {
        let to = (at + 1) % places.live.len();
        client.rename(
            &CALLER,
            places.live[at],
            &file,
            places.live[to],
            &file,
            true,
        )?;
        at = to;
        done.fetch_add(1, Ordering::Relaxed);
        // A loop that is late does not catch up for long.
        next = (next + pause).max(Instant::now() - Duration::from_secs(1));
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    Ok(())
}

fn reports(
    options: &Options,
    live: &[ServerId],
    away: ServerId,
    places: &Places,
    done: &AtomicU64,
) -> Result<Vec<Report>> {
    let pid = |server: ServerId| -> Result<Pid> {
        let path = options.data.join(format!("server-{server}/pid"));
        let pid = fs::read_to_string(&path)?.trim().parse()?;
        Pid::from_raw(pid).with_context(|| format!("{} has no process", path.display()))
    };
    let length = Duration::from_secs(options.seconds).div_f64(options.reports as f64);
    let report = |what: &str| -> Result<Report> {
        let (begun, before) = (Instant::now(), done.load(Ordering::Relaxed));
        std::thread::sleep(length);
        let operations = done.load(Ordering::Relaxed) - before;
        let operations = (operations as f64 / begun.elapsed().as_secs_f64()) as u64;
        let memory = live
            .iter()
            .map(|server| {
                Ok(memory(
                    pid(*server)?.as_raw_nonzero().get().cast_unsigned(),
                    "RssAnon:",
                )? >> 20)
            })
            .collect::<Result<Vec<_>>>()?;
        println!("{what}: {operations} operations a second; MiB of each server: {memory:?}");
        Ok(Report { operations, memory })
    };
    report("all servers are there")?;
    // It stands still for a moment, so that operations begin that need it, and then it dies.
    kill_process(pid(away)?, Signal::STOP)?;
    for number in 0..STUCK {
        let client = self::client(options)?;
        let (from, to) = match number % 2 {
            0 => (places.live[0], places.away),
            _ => (places.away, places.live[0]),
        };
        let name = stuck(number)?;
        std::thread::spawn(move || client.rename(&CALLER, from, &name, to, &name, true));
    }
    std::thread::sleep(Duration::from_secs(1));
    kill_process(pid(away)?, Signal::KILL)?;
    let begun = Instant::now();
    let mut reports = Vec::new();
    for _ in 0..options.reports {
        let seconds = begun.elapsed().as_secs();
        reports.push(report(&format!("server {away} is away for {seconds} s"))?);
    }
    Ok(reports)
}

fn judge(options: &Options, reports: &[Report]) -> Result<()> {
    if options.lenient {
        return Ok(());
    }
    let (first, last) = (
        reports.first().context("no report")?,
        reports.last().context("no report")?,
    );
    ensure!(
        last.operations * 1_000 >= first.operations.min(options.rate) * LEAST_RATE,
        "{} operations a second at first, {} at last",
        first.operations,
        last.operations
    );
    let least = last.memory.iter().min().context("no server")?;
    let most = last.memory.iter().max().context("no server")?;
    ensure!(
        most * 1_000 <= least * MOST_MEMORY,
        "one server takes {most} MiB in the end, another one {least} MiB"
    );
    Ok(())
}
