//! Time until a killed coordinator's undecided operations have ended, by their number.
//!
//! The other server, the participant, is stopped (SIGSTOP) while directories are made whose entries
//! are on the coordinator: each whose inode would be on the participant stays undecided. Then the
//! coordinator is killed and the participant goes on.

use super::Options;
use super::cluster::{CALLER, Cluster, name, signal, status_of, statuses, undecided};
use super::recovery::{BACK_LIMIT, Killed, MIB, PAUSE, fill_log, seconds};
use crate::report::spread;
use anyhow::{Context, Result, bail, ensure};
use pandofs_api::ServerStatus;
use pandofs_client::Client;
use pandofs_model::report::{Axis, Figure};
use pandofs_types::{Ino, ServerId};
use rustix::process::Signal;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The paper's table 5: undecided operations and seconds, in a log of 10 MB.
const PAPER: [(f64, f64); 7] = [
    (0.0, 4.12),
    (720.0, 4.14),
    (1446.0, 4.39),
    (2178.0, 4.64),
    (2912.0, 4.89),
    (3655.0, 5.33),
    (7440.0, 9.26),
];
/// Requests that one client waits for, each in a thread: less than a session may have in flight.
const REQUESTS_PER_CLIENT: u64 = 256;
/// Bytes.
const STACK: usize = 512 << 10;
/// Directories that are made to find one on the coordinator.
const MOST_TRIES: u32 = 1_000;

struct Recovery {
    mib: f64,
    /// Until the coordinator answers.
    answered: Duration,
    /// Until it has nothing undecided, nor has the participant.
    ended: Duration,
}

/// A server that does nothing; it goes on, and those that wait for it begin nothing new, when this
/// is dropped.
struct Stopped<'a> {
    server: ServerStatus,
    is_over: &'a AtomicBool,
}

impl<'a> Stopped<'a> {
    fn new(server: ServerStatus, is_over: &'a AtomicBool) -> Result<Stopped<'a>> {
        signal(&server, Signal::STOP)?;
        Ok(Stopped { server, is_over })
    }
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        if let Err(error) = signal(&self.server, Signal::CONT) {
            eprintln!("server {} does not go on: {error:#}", self.server.id);
        }
    }
}

/// A directory whose entries are on that server.
fn directory_on(client: &Client, server: ServerId, number: u64) -> Result<Ino> {
    let map = client.cluster_map();
    for attempt in 0..MOST_TRIES {
        let name = name(&format!("parent-{number}-{attempt}"))?;
        let made = client.mkdir(&CALLER, Ino::ROOT, &name, 0o755)?;
        if map.server_of(made.ino.birth_shard()) == server {
            return Ok(made.ino);
        }
    }
    bail!("none of {MOST_TRIES} directories is on server {server}")
}

/// Makes directories until it is over; the one that the participant is needed for waits until then.
fn make(client: &Client, dir: Ino, thread: u64, is_over: &AtomicBool) -> Result<()> {
    let mut number = 0_u64;
    while !is_over.load(Ordering::SeqCst) {
        let name = name(&format!("dir-{thread}-{number}"))?;
        client.mkdir(&CALLER, dir, &name, 0o755)?;
        number += 1;
    }
    Ok(())
}

/// The coordinator's status once so many operations are undecided and nothing else goes on: what it
/// does over two of its own shards is undecided for a moment too, twice.
fn all_wait(observer: &Client, coordinator: ServerId, number: u64) -> Result<ServerStatus> {
    let begun = Instant::now();
    let mut last = status_of(observer, coordinator)?;
    loop {
        std::thread::sleep(5 * PAUSE);
        let status = status_of(observer, coordinator)?;
        let found = undecided(&status);
        // More where a split had begun: its last step needs the participant too.
        if found >= number && status.log_records == last.log_records {
            return Ok(status);
        }
        ensure!(
            begun.elapsed() < BACK_LIMIT,
            "{found} operations are undecided after {} s, not {number}",
            BACK_LIMIT.as_secs()
        );
        last = status;
    }
}

fn recover(options: &Options, scratch: &Path, number: u64) -> Result<Recovery> {
    let cluster = Cluster::start(&options.setup, scratch, &[], true)?;
    let observer = cluster.client()?;
    let coordinator = fill_log(options, &cluster, &observer, options.undecided_log)?;
    let participant = statuses(&observer)?
        .into_iter()
        .find(|status| status.id != coordinator.id)
        .context("there is no other server")?;
    let mut clients = Vec::new();
    for client_number in 0..number.div_ceil(REQUESTS_PER_CLIENT) {
        let client = cluster.client()?;
        let dir = directory_on(&client, coordinator.id, client_number)?;
        clients.push((client, dir));
    }
    let is_over = AtomicBool::new(false);
    let recovery = std::thread::scope(|scope| {
        let stopped = Stopped::new(participant.clone(), &is_over)?;
        let mut threads = Vec::new();
        for thread in 0..number {
            let (client, dir) = &clients[(thread / REQUESTS_PER_CLIENT) as usize];
            let is_over = &is_over;
            let builder = std::thread::Builder::new().stack_size(STACK);
            threads.push(builder.spawn_scoped(scope, move || make(client, *dir, thread, is_over))?);
        }
        let before = all_wait(&observer, coordinator.id, number)?;
        let killed = Killed::now(&before)?;
        drop(stopped);
        let answered = killed.until(&observer, |_| true)?;
        let ended = killed.until(&observer, |status| {
            let other = status_of(&observer, participant.id);
            undecided(status) == 0 && other.is_ok_and(|other| undecided(&other) == 0)
        })?;
        for thread in threads {
            match thread.join() {
                Ok(made) => made?,
                Err(_) => bail!("a client panicked"),
            }
        }
        Ok(Recovery {
            mib: before.log_bytes as f64 / MIB,
            answered,
            ended,
        })
    })?;
    cluster.stop()?;
    Ok(recovery)
}

/// Table 5 of the paper.
pub(super) fn by_number(options: &Options, scratch: &Path) -> Result<Figure> {
    let mut figure = Figure::new(
        "commit-recovery-undecided",
        "Recovery of a killed coordinator by its undecided operations",
        Axis::linear("undecided operations"),
        Axis::linear("seconds"),
    );
    let (mut answered, mut ended) = (Vec::new(), Vec::new());
    for &number in &options.undecided {
        eprintln!("recovery of {number} undecided operations");
        let rounds = (0..options.recoveries)
            .map(|_| recover(options, scratch, number))
            .collect::<Result<Vec<_>>>()?;
        let of_answer = seconds(&rounds, |round| round.answered);
        let of_end = seconds(&rounds, |round| round.ended);
        let lengths = spread(rounds.iter().map(|round| round.mib).collect());
        figure.note(format!(
            "{number} undecided in {:.1} to {:.1} MiB: {:.2} to {:.2} s until it answers, {:.2} to {:.2} s until all have ended",
            lengths.0, lengths.2, of_answer.0, of_answer.2, of_end.0, of_end.2
        ));
        answered.push((number as f64, of_answer.1));
        ended.push((number as f64, of_end.1));
    }
    let growth = |points: &[(f64, f64)]| {
        let of = |number: f64| points.iter().find(|point| point.0 == number);
        Some(of(7440.0)?.1 / of(720.0)?.1)
    };
    if let (Some(found), Some(paper)) = (growth(&ended), growth(&PAPER)) {
        figure.claim(
            "ten times as many take about twice as long (5.2.2)",
            found <= paper,
            format!("{found:.2} times, the paper {paper:.2}"),
        );
    }
    figure.add("until it answers", answered);
    figure.add("until all have ended", ended);
    figure.add("Xiong et al., table 5", PAPER.to_vec());
    figure.note(format!(
        "from the kill on, the start of the process included: the median of {}; every operation succeeded",
        options.recoveries
    ));
    Ok(figure)
}
