//! Servers killed at each of their fault points, and started again, while a client works.
//!
//! Each of its operations succeeds, and after each kill the tree is what it must be and nothing is
//! inconsistent.
//!
//! All servers are ordered to die at the next point at which none has died yet. When one has, all
//! are ordered again, so that the others and the first one itself, while it starts again, may die
//! at what comes up only in a recovery. When everything is at rest none may die any more;
//! everything is looked at, and they are ordered again. So one round of work sees many kills, and a
//! point that comes up once in a while is met when it does. In each round one server is killed at a
//! random moment besides.
//!
//! Which points there are is found out by working. A message has one point at its sender and one at
//! its receiver, so that both sides of a distributed operation have theirs. A server that is
//! ordered to die never passes a point at which none has died; what came up for the first time
//! while none was to die is provoked by the same deaths, for some rounds.

mod hunt;
mod mirror;
mod points;
mod round;

use crate::cluster::Common;
use anyhow::{Result, bail, ensure};
use hunt::Hunt;
use pandofs_client::Client;
use points::Points;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Rounds in a row that nothing new comes of, after which all is done.
const QUIET: u32 = 3;
/// And after which it is given up to provoke what came up while no server was to die.
const TRIES: u32 = 12;
/// Points of a round at the least: there are some 250.
const FEWEST: usize = 200;
/// Time from the start of a round within which a server is killed from outside.
const KILL_WITHIN: Duration = Duration::from_millis(800);

/// Servers are killed at each of their fault points, and nothing is lost or torn
#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    common: Common,
    /// The folder that the servers were started with in PANDOFS_FAULT_POINTS
    #[arg(long)]
    points: PathBuf,
    /// The `pandofs` program, to check the file system with after each kill
    #[arg(long)]
    pandofs: PathBuf,
    /// Stop in the round that kills at that many points
    #[arg(long)]
    most: Option<usize>,
    /// Only at points with this in their name
    #[arg(long, default_value = "")]
    only: String,
}

/// # Errors
/// Anything that was lost, torn or refused, and at which point; or the file system's errors.
pub(crate) fn run(options: &Options) -> Result<()> {
    let client = options.common.client()?;
    let points = Points::new(&options.points);
    let hunt = Hunt::new(
        &client,
        &points,
        &options.pandofs,
        &options.common.cluster,
        &options.only,
    );
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let watching = scope.spawn(|| hunt.watch(&over));
        let hunted = kill_everywhere(options, &client, &hunt);
        over.store(true, Ordering::SeqCst);
        match watching.join() {
            Ok(watched) => hunted.and(watched),
            Err(_) => bail!("the thread that watches panicked"),
        }
    })
}

fn kill_everywhere(options: &Options, client: &Client, hunt: &Hunt<'_>) -> Result<()> {
    let mut random = StdRng::seed_from_u64(options.common.seed);
    let begun = Instant::now();
    let (mut round, mut quiet) = (0, 0);
    let left = loop {
        let before = hunt.done().len();
        let victim = hunt.servers()[random.random_range(0..hunt.servers().len())];
        let after = random.random_range(Duration::ZERO..KILL_WITHIN);
        hunt.begin_round()?;
        thread::scope(|scope| {
            let killer = scope.spawn(move || {
                thread::sleep(after);
                hunt.kill(victim)
            });
            round::play(client, hunt)?;
            match killer.join() {
                Ok(killed) => killed?,
                Err(_) => bail!("the thread that kills panicked"),
            }
            // It may have been after the round's last change.
            hunt.check(|| Ok(()))
        })?;
        let (now, left) = (hunt.done().len(), hunt.left()?);
        round += 1;
        println!(
            "round {round}: {} more points of {}, {:.1} s",
            now - before,
            now + left.len(),
            begun.elapsed().as_secs_f64()
        );
        quiet = if now > before { 0 } else { quiet + 1 };
        let is_enough = options.most.is_some_and(|most| now >= most);
        if is_enough || quiet >= if left.is_empty() { QUIET } else { TRIES } {
            break left;
        }
    };
    hunt.end()?;
    let done = hunt.done();
    ensure!(
        !done.is_empty(),
        "the servers pass no points: were they started with PANDOFS_FAULT_POINTS={}?",
        options.points.display()
    );
    println!(
        "fault-points: servers were killed at {} points and came back, in {:.1} s",
        done.len(),
        begun.elapsed().as_secs_f64()
    );
    for point in &done {
        println!("  {point}");
    }
    for point in left {
        println!("  not at {point}, which came up while nobody was to die");
    }
    ensure!(
        options.most.is_some() || !options.only.is_empty() || done.len() >= FEWEST,
        "that is too few"
    );
    Ok(())
}
