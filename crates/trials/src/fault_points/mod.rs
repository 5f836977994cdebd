//! Servers are killed at each of their fault points in turn, and started again, while a client works: each of
//! its operations succeeds, the tree is what it must be, and nothing is inconsistent.
//!
//! Which points there are is found out by working. A message has one point at its sender and one at its receiver,
//! so that both sides of a distributed operation have theirs.

mod mirror;
mod points;
mod round;

use crate::cluster::{Common, fsck, status};
use anyhow::{Context, Result, bail, ensure};
use pandofs_client::Client;
use pandofs_types::ServerId;
use points::Points;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// Rounds without a new point after which all are taken to be known.
const QUIET_ROUNDS: u32 = 3;
/// Rounds in which a point may come again before it is left alone.
const TRIES: u32 = 8;
/// From this one on another server is killed as well, as some points come only while something is recovered.
const TRY_WITH_KILL: u32 = 1;
/// When in a round that is.
const KILL_WITHIN: Duration = Duration::from_millis(400);
/// How long servers may take until all are back.
const BACK_LIMIT: Duration = Duration::from_secs(60);
const ASK_INTERVAL: Duration = Duration::from_millis(5);

/// Each server is killed at each of its fault points, and nothing is lost or torn
#[derive(clap::Args, Debug)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// The folder that the servers were started with in PANDOFS_FAULT_POINTS
    #[arg(long)]
    points: PathBuf,
    /// The `pandofs` program, to check the file system with after each kill
    #[arg(long)]
    pandofs: PathBuf,
    /// Kill at no more points than that, drawn by the seed
    #[arg(long)]
    most: Option<usize>,
    /// Only at points with this in their name
    #[arg(long)]
    only: Option<String>,
}

/// # Errors
/// What was lost, torn or refused, and at which point; or the file system's.
pub fn run(options: &Options) -> Result<()> {
    let client = options.common.client()?;
    let mut random = StdRng::seed_from_u64(options.common.seed);
    let points = Points::new(&options.points);
    let begun = Instant::now();
    let mut known = BTreeSet::new();
    let (mut rounds, mut quiet) = (0, 0);
    while quiet < QUIET_ROUNDS {
        round::play(&client)?;
        rounds += 1;
        let now = points.seen(&status(&client)?)?;
        quiet = if now.len() > known.len() {
            0
        } else {
            quiet + 1
        };
        known = now;
    }
    ensure!(
        !known.is_empty(),
        "the servers note no points: were they started with PANDOFS_FAULT_POINTS={}?",
        options.points.display()
    );
    println!(
        "{} points in {rounds} rounds, {:.1} s",
        known.len(),
        begun.elapsed().as_secs_f64()
    );

    let (mut done, mut missed) = (BTreeSet::new(), Vec::new());
    loop {
        // Recovery has points of its own, which come up by and by.
        let mut left: Vec<String> = points
            .seen(&status(&client)?)?
            .into_iter()
            .filter(|point| !done.contains(point))
            .filter(|point| {
                options
                    .only
                    .as_ref()
                    .is_none_or(|part| point.contains(part))
            })
            .collect();
        if left.is_empty() || options.most.is_some_and(|most| done.len() >= most) {
            break;
        }
        left.shuffle(&mut random);
        let point = left.swap_remove(0);
        let trial = Trial {
            options,
            client: &client,
            points: &points,
        };
        let met = trial
            .kill_at(&point, &mut random)
            .with_context(|| format!("with a server killed at '{point}'"))?;
        if !met {
            missed.push(point.clone());
        }
        done.insert(point);
    }
    println!(
        "fault-points: servers were killed at {} points and came back, in {:.1} s; {} points did not come again",
        done.len() - missed.len(),
        begun.elapsed().as_secs_f64(),
        missed.len(),
    );
    for point in &missed {
        println!("  {point}");
    }
    ensure!(
        missed.len() * 5 <= done.len(),
        "too many points did not come again for this to say much"
    );
    Ok(())
}

struct Trial<'a> {
    options: &'a Options,
    client: &'a Client,
    points: &'a Points,
}

impl Trial<'_> {
    /// Lets whichever server comes to the point die there; answers whether one did. Who comes to it is chance,
    /// as directories are placed at random.
    fn kill_at(&self, point: &str, random: &mut StdRng) -> Result<bool> {
        let servers: Vec<ServerId> = self.client.status().iter().map(|(id, _)| *id).collect();
        for attempt in 0..TRIES {
            for &server in &servers {
                self.points.arm(server, point)?;
            }
            let other = (attempt >= TRY_WITH_KILL).then(|| {
                let victim = servers[random.random_range(0..servers.len())];
                (victim, random.random_range(Duration::ZERO..KILL_WITHIN))
            });
            self.play(other)?;
            // What comes late may be the point as well, and nobody is to die while everything is looked at.
            self.disarm(&servers)?;
            self.wait_until_all_answer()?;
            fsck(&self.options.pandofs, &self.options.common.cluster)?;
            if self.points.died_at(point, &servers)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// One round, in which another server may be killed from outside.
    fn play(&self, other: Option<(ServerId, Duration)>) -> Result<()> {
        thread::scope(|scope| {
            let killer = other.map(|(victim, after)| {
                scope.spawn(move || {
                    thread::sleep(after);
                    self.kill(victim)
                })
            });
            round::play(self.client)?;
            match killer.map(thread::ScopedJoinHandle::join) {
                Some(Ok(killed)) => killed,
                Some(Err(_)) => bail!("the thread that kills panicked"),
                None => Ok(()),
            }
        })
    }

    /// Takes the order back, and waits until every server knows.
    fn disarm(&self, servers: &[ServerId]) -> Result<()> {
        for &server in servers {
            self.points.arm(server, "")?;
        }
        let begun = Instant::now();
        while servers.iter().any(|&server| self.points.is_armed(server)) {
            ensure!(
                begun.elapsed() < BACK_LIMIT,
                "a server has not taken its order after {} s",
                BACK_LIMIT.as_secs()
            );
            thread::sleep(ASK_INTERVAL);
        }
        Ok(())
    }

    fn kill(&self, victim: ServerId) -> Result<()> {
        let pid = Pid::from_raw(self.pid(victim)?.cast_signed()).context("no process")?;
        // It may just have died by itself.
        match kill_process(pid, Signal::KILL) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(error).with_context(|| format!("cannot kill server {victim}")),
        }
    }

    fn pid(&self, server: ServerId) -> Result<u32> {
        let begun = Instant::now();
        loop {
            let found = self
                .client
                .status()
                .into_iter()
                .find(|(id, _)| *id == server);
            match found {
                Some((_, Ok(status))) => return Ok(status.pid),
                Some((_, Err(error))) if begun.elapsed() > BACK_LIMIT => {
                    return Err(error).with_context(|| format!("server {server} is not back"));
                }
                Some(_) => thread::sleep(ASK_INTERVAL),
                None => bail!("there is no server {server}"),
            }
        }
    }

    fn wait_until_all_answer(&self) -> Result<()> {
        let begun = Instant::now();
        while self
            .client
            .status()
            .iter()
            .any(|(_, status)| status.is_err())
        {
            ensure!(
                begun.elapsed() < BACK_LIMIT,
                "not all servers answer {} s after a kill",
                BACK_LIMIT.as_secs()
            );
            thread::sleep(ASK_INTERVAL);
        }
        Ok(())
    }
}
