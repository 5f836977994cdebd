//! A server killed with `kill -9` while clients work, again and again: nothing may be missing.

mod disk;
mod files;
mod filler;
mod worker;

use crate::cluster::{CALLER, Common, fresh_directory, fsck, ms};
use anyhow::{Context, Result, bail, ensure};
use disk::DiskWatch;
use filler::{Filler, Grain};
use pandofs_api::{AdminReply, AdminRequest, DirSettings, NewNode, ServerStatus};
use pandofs_client::Client;
use pandofs_placement::DirPolicy;
use pandofs_types::limits::MAX_LOG_BYTES;
use pandofs_types::{Ino, ServerId};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use worker::{Tally, Worker};

/// Time that a killed server may take until it serves again, not counting the time in which the disk held
/// up whatever was synced.
const AWAY_LIMIT: Duration = Duration::from_secs(10);
/// Time that the log may take to grow as far as a round wants it.
const FILL_LIMIT: Duration = Duration::from_secs(600);
/// Time that the clients may take to go on after a kill.
const GO_ON_LIMIT: Duration = Duration::from_secs(60);
/// Between two questions to a server.
const ASK_INTERVAL: Duration = Duration::from_millis(5);
/// Operations that each client still does once the server is back.
const OPERATIONS_AFTER: u64 = 200;
/// Entries of a partition of the shared directories: so few that they also split while servers die.
const THRESHOLD: u32 = 500;
/// Directories that all clients work in.
const SHARED_DIRECTORIES: usize = 3;
/// Attempts to get a directory on a certain server.
const PLACEMENTS: usize = 400;
/// Problems that are printed at most, one a line.
const SHOWN: usize = 20;

/// Nothing acknowledged is lost when a server is killed under load, and it is back soon
#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    common: Common,
    /// Kills. Of each four two come when the log is almost as long as it gets, one when it has just
    /// become too long, and one at a random moment
    #[arg(long, default_value_t = 8)]
    rounds: u32,
    /// Kills at random moments for so many minutes, however many that are; instead of --rounds
    #[arg(long, conflicts_with = "rounds")]
    minutes: Option<f64>,
    /// All kills at random moments, without making logs grow
    #[arg(long)]
    random_moments: bool,
    /// Clients with all kinds of work
    #[arg(long, default_value_t = 6)]
    clients: u32,
    /// Clients that make the log of the server grow that will be killed
    #[arg(long, default_value_t = 6)]
    fillers: u32,
    /// The `pandofs` program, to check the file system with after each round
    #[arg(long)]
    pandofs: Option<PathBuf>,
}

impl Options {
    fn has_random_moments(&self) -> bool {
        self.random_moments || self.minutes.is_some()
    }
}

/// Condition under which a round's kill is due.
#[derive(Clone, Copy, Debug)]
enum Due {
    /// Bytes of log.
    Log(u64),
    After(Duration),
}

/// Result of a round.
#[derive(Debug)]
struct Kill {
    server: ServerId,
    log_bytes: u64,
    /// From the kill until the new process answered with its status.
    answers: Duration,
    /// From the kill until it had carried out a change.
    serves: Duration,
    /// Processor time of the new process until then, if the system tells.
    busy: Option<Duration>,
    /// Time for which it was ready to run and did not.
    crowded: Duration,
    /// In which synced writes were held up.
    disk: Duration,
}

/// Signals between the threads of a round.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    /// All threads are to stop after the operation at hand.
    stop: AtomicBool,
    /// The fillers are to stop.
    full: AtomicBool,
    /// Operations of each worker so far.
    operations: Vec<AtomicU64>,
}

impl Signals {
    pub(crate) fn is_over(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.full.load(Ordering::SeqCst) || self.is_over()
    }

    pub(crate) fn count(&self, worker: usize) {
        self.operations[worker].fetch_add(1, Ordering::SeqCst);
    }
}

/// # Errors
/// Anything that was lost, wrong or late, with the seed; or the file system's errors.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mut trial = Trial::prepare(options)?;
    let mut longest = Duration::ZERO;
    let begun = Instant::now();
    let is_over = |round| match options.minutes {
        Some(minutes) => begun.elapsed().as_secs_f64() >= 60.0 * minutes,
        None => round == options.rounds,
    };
    let mut round = 0;
    while !is_over(round) {
        let context = || format!("round {round} of --seed {}", options.common.seed);
        let kill = trial.round(round).with_context(context)?;
        longest = longest.max(kill.serves);
        round += 1;
    }
    println!(
        "kill: {round} kills in {:.0} s, the longest {} away; {}",
        begun.elapsed().as_secs_f64(),
        ms(longest),
        trial.tally()
    );
    Ok(())
}

struct Trial<'o> {
    options: &'o Options,
    client: Client,
    random: StdRng,
    above: Ino,
    workers: Vec<Worker>,
    /// Acknowledged work of the fillers in the rounds so far.
    filled: Tally,
}

impl<'o> Trial<'o> {
    fn prepare(options: &'o Options) -> Result<Trial<'o>> {
        let client = options.common.client()?;
        let mut random = StdRng::seed_from_u64(options.common.seed);
        let (_, above) = fresh_directory(&client, Ino::ROOT, "kill")?;
        // So that a directory can be had on any server.
        let settings = DirSettings {
            policy: Some(DirPolicy::Random),
            ..DirSettings::default()
        };
        client.set_dir_settings(&CALLER, above, settings)?;
        let shared = (0..SHARED_DIRECTORIES)
            .map(|_| {
                let (_, dir) = fresh_directory(&client, above, "shared")?;
                let settings = DirSettings {
                    threshold: Some(THRESHOLD),
                    max_partitions: Some(16),
                    ..DirSettings::default()
                };
                client.set_dir_settings(&CALLER, dir, settings)?;
                Ok(dir)
            })
            .collect::<Result<Vec<Ino>>>()?;
        let workers = (0..options.clients as usize)
            .map(|number| {
                let random = StdRng::seed_from_u64(random.random());
                let client = options.common.client()?;
                Ok(Worker::new(client, random, number, shared.clone()))
            })
            .collect::<Result<Vec<Worker>>>()?;
        Ok(Trial {
            options,
            client,
            random,
            above,
            workers,
            filled: Tally::default(),
        })
    }

    fn round(&mut self, round: u32) -> Result<Kill> {
        let map = self.client.cluster_map();
        let victim = map.servers[self.random.random_range(0..map.servers.len())].id;
        let mut part = |range| (MAX_LOG_BYTES as f64 * self.random.random_range(range)) as u64;
        let (due, grain) = match round % 4 {
            _ if self.options.has_random_moments() => {
                let time = Duration::from_millis(self.random.random_range(50..2_000));
                (Due::After(time), Grain::Small)
            }
            0 => (Due::Log(part(0.94..0.98)), Grain::Small),
            1 => (Due::Log(part(0.94..0.98)), Grain::Large),
            // The server writes its store to disk now, and then shortens the log.
            2 => (Due::Log(part(1.0..1.02)), Grain::Large),
            _ => {
                let time = Duration::from_millis(self.random.random_range(50..5_000));
                (Due::After(time), Grain::Small)
            }
        };
        let home = self.directory_on(victim)?;
        let fillers = match self.options.has_random_moments() {
            true => 0,
            false => self.options.fillers,
        };
        let fillers = (0..fillers)
            .map(|number| {
                let random = StdRng::seed_from_u64(self.random.random());
                let client = self.options.common.client()?;
                Ok(Filler::new(client, random, home, number, grain))
            })
            .collect::<Result<Vec<Filler>>>()?;
        let begun = Instant::now();
        let (kill, fillers) = self.work(victim, home, due, fillers)?;
        let worked = begun.elapsed();
        self.verify(home, &fillers)?;
        self.fsck()?;
        println!(
            "kill round {round}: server {} with {:.1} MiB of log ({grain:?} records, {due:?}): answers \
             again after {}, changes things after {} ({:?} of it processor time, {:?} waiting for a processor, {:?} a disk that was held up); {:.1} s of work, {:.1} s of checks; {}",
            kill.server,
            kill.log_bytes as f64 / f64::from(1 << 20),
            ms(kill.answers),
            ms(kill.serves),
            kill.busy.unwrap_or_default(),
            kill.crowded,
            kill.disk,
            worked.as_secs_f64(),
            (begun.elapsed() - worked).as_secs_f64(),
            self.tally(),
        );
        ensure!(
            kill.serves < AWAY_LIMIT + kill.crowded + kill.disk,
            "server {} was away for {}, of which it worked for {:?} and waited for a processor for {:?}; \
             synced writes were held up for {:?}",
            kill.server,
            ms(kill.serves),
            kill.busy.unwrap_or_default(),
            kill.crowded,
            kill.disk,
        );
        Ok(kill)
    }

    /// A directory that is all on one server, files and their inodes included.
    fn directory_on(&self, server: ServerId) -> Result<Ino> {
        let map = self.client.cluster_map();
        for _ in 0..PLACEMENTS {
            let (_, dir) = fresh_directory(&self.client, self.above, "filled")?;
            if map.server_of(dir.birth_shard()) == server {
                let settings = DirSettings {
                    max_partitions: Some(1),
                    ..DirSettings::default()
                };
                self.client.set_dir_settings(&CALLER, dir, settings)?;
                return Ok(dir);
            }
        }
        bail!("no directory came to be on server {server}")
    }

    /// Lets all loose, kills the server when it is due, and waits until all have gone on.
    fn work(
        &mut self,
        victim: ServerId,
        home: Ino,
        due: Due,
        fillers: Vec<Filler>,
    ) -> Result<(Kill, Vec<Filler>)> {
        let signals = Signals {
            operations: self.workers.iter().map(|_| AtomicU64::new(0)).collect(),
            ..Signals::default()
        };
        let signals = &signals;
        let observer = self.options.common.client()?;
        let data = match self.options.common.cluster.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let workers = std::mem::take(&mut self.workers);
        std::thread::scope(|scope| {
            let working: Vec<_> = workers
                .into_iter()
                .map(|worker| scope.spawn(move || ending(signals, worker.run(signals))))
                .collect();
            let filling: Vec<_> = fillers
                .into_iter()
                .map(|filler| scope.spawn(move || ending(signals, filler.run(signals))))
                .collect();
            let killed = kill_when_due(&observer, data, victim, home, due, signals)
                .and_then(|kill| wait_until_all_went_on(signals).map(|()| kill));
            signals.stop.store(true, Ordering::SeqCst);
            let mut failed = None;
            let mut fillers = Vec::new();
            for thread in working {
                match joined(thread) {
                    Ok(worker) => self.workers.push(worker),
                    Err(error) => failed = failed.or(Some(error)),
                }
            }
            for thread in filling {
                match joined(thread) {
                    Ok(filler) => fillers.push(filler),
                    Err(error) => failed = failed.or(Some(error)),
                }
            }
            failed.map_or(killed, Err).map(|kill| (kill, fillers))
        })
    }

    /// Compares everything with the answers that clients got, all at once.
    fn verify(&mut self, home: Ino, fillers: &[Filler]) -> Result<()> {
        let mut wrong: Vec<String> = Vec::new();
        let client = &self.client;
        std::thread::scope(|scope| {
            let mut threads: Vec<_> = self
                .workers
                .iter()
                .map(|worker| scope.spawn(move || worker.verify()))
                .collect();
            threads.push(scope.spawn(move || filler::verify(client, home, fillers)));
            for thread in threads {
                wrong.extend(joined(thread)?);
            }
            anyhow::Ok(())
        })?;
        wrong.extend(worker::verify_listings(client, &self.workers)?);
        for sentence in wrong.iter().take(SHOWN) {
            eprintln!("{sentence}");
        }
        ensure!(wrong.is_empty(), "{} things are wrong", wrong.len());
        for filler in fillers {
            self.filled.add(&filler.tally());
        }
        Ok(())
    }

    fn tally(&self) -> Tally {
        let mut sum = self.filled;
        for worker in &self.workers {
            sum.add(&worker.tally());
        }
        sum
    }

    fn fsck(&self) -> Result<()> {
        let Some(pandofs) = &self.options.pandofs else {
            return Ok(());
        };
        fsck(pandofs, &self.options.common.cluster, None)
    }
}

fn kill_when_due(
    client: &Client,
    data: &Path,
    victim: ServerId,
    home: Ino,
    due: Due,
    signals: &Signals,
) -> Result<Kill> {
    let begun = Instant::now();
    let before = loop {
        let status = ask(client, victim).with_context(|| format!("server {victim}"))?;
        let is_due = match due {
            Due::Log(bytes) => status.log_bytes >= bytes,
            Due::After(time) => begun.elapsed() >= time,
        };
        if is_due {
            break status;
        }
        ensure!(
            begun.elapsed() < FILL_LIMIT,
            "the log of server {victim} has {} bytes after {} s",
            status.log_bytes,
            FILL_LIMIT.as_secs()
        );
        ensure!(!signals.is_over(), "a client failed");
        std::thread::sleep(ASK_INTERVAL);
    };
    let pid = Pid::from_raw(before.pid.cast_signed()).context("a server without a process")?;
    kill_process(pid, Signal::KILL)
        .with_context(|| format!("cannot kill server {victim} (pid {})", before.pid))?;
    let killed = Instant::now();
    let disk = DiskWatch::start(data)?;
    signals.full.store(true, Ordering::SeqCst);
    let (answers, new_pid) = loop {
        if let Ok(status) = ask(client, victim)
            && status.pid != before.pid
        {
            break (killed.elapsed(), status.pid);
        }
        ensure!(
            killed.elapsed() < GO_ON_LIMIT,
            "server {victim} does not answer {} s after it was killed",
            GO_ON_LIMIT.as_secs()
        );
        std::thread::sleep(ASK_INTERVAL);
    };
    let probe = crate::cluster::name("probe")?;
    client.mknod(&CALLER, home, &probe, NewNode::File, 0o644)?;
    client.unlink(&CALLER, home, &probe)?;
    Ok(Kill {
        server: victim,
        log_bytes: before.log_bytes,
        answers,
        serves: killed.elapsed(),
        disk: disk.stop()?,
        busy: processor_time(new_pid),
        crowded: crowded(new_pid),
    })
}

/// Returns for how long that thread of a process that waited longest was ready to run while the processors did other
/// things. Where the kernel does not count it, not at all.
fn crowded(pid: u32) -> Duration {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return Duration::ZERO;
    };
    tasks
        .flatten()
        .filter_map(|task| std::fs::read_to_string(task.path().join("schedstat")).ok())
        .filter_map(|counts| counts.split_whitespace().nth(1)?.parse().ok())
        .map(Duration::from_nanos)
        .max()
        .unwrap_or_default()
}

/// Time that a process on this machine has used of its processors.
fn processor_time(pid: u32) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // After the name, which is in parentheses and may hold anything: the state is the first.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(str::parse::<u64>)
        .sum::<Result<u64, _>>()
        .ok()?;
    let per_second = rustix::param::clock_ticks_per_second();
    Some(Duration::from_millis(ticks * 1_000 / per_second))
}

fn ask(client: &Client, server: ServerId) -> Result<ServerStatus> {
    match client.admin(server, AdminRequest::Status)? {
        AdminReply::Status(status) => Ok(*status),
        other => bail!("server {server} answered {other:?}"),
    }
}

/// Until each worker has done some more.
fn wait_until_all_went_on(signals: &Signals) -> Result<()> {
    let count = |operations: &AtomicU64| operations.load(Ordering::SeqCst);
    let before: Vec<u64> = signals.operations.iter().map(count).collect();
    let deadline = Instant::now() + GO_ON_LIMIT;
    loop {
        let behind = signals
            .operations
            .iter()
            .zip(&before)
            .filter(|(now, before)| count(now) < *before + OPERATIONS_AFTER)
            .count();
        if behind == 0 || signals.is_over() {
            return Ok(());
        }
        ensure!(
            Instant::now() < deadline,
            "{behind} clients do not go on after the kill"
        );
        std::thread::sleep(ASK_INTERVAL);
    }
}

/// Lets the others stop when a thread fails.
fn ending<T>(signals: &Signals, result: Result<T>) -> Result<T> {
    if result.is_err() {
        signals.stop.store(true, Ordering::SeqCst);
    }
    result
}

fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    match thread.join() {
        Ok(result) => result,
        Err(_) => bail!("a thread panicked"),
    }
}
