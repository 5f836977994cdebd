//! A machine of one server loses its power under load, again and again, and what it had not synced.
//!
//! Synced data is there, and programs get an error for the rest.

mod machine;
mod model;
mod worker;

use anyhow::{Context, Result, bail, ensure};
use machine::{Cluster, PATIENCE};
use pandofs_client::{Client, Options as ClientOptions};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use worker::{Tally, Worker};

/// Problems that are printed at most, one a line.
const SHOWN: usize = 20;
/// Ends of checks that tell of what is wrong: it failed, a server is away, something in the file system is wrong.
const HONEST: [&str; 3] = ["exit status: 1", "exit status: 3", "exit status: 4"];

/// Loses the power of a server's machine: what was synced is there, and programs get errors for the
/// rest
#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// The `pandofs` program
    #[arg(long, value_name = "PATH")]
    pandofs: PathBuf,
    /// The `pandofs-lossy` program
    #[arg(long, value_name = "PATH")]
    lossy: PathBuf,
    /// An empty folder, where a cluster is made
    #[arg(long, value_name = "DIR")]
    folder: PathBuf,
    /// Seed of random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Losses of power
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Programs at work
    #[arg(long, default_value_t = 4)]
    workers: usize,
    /// The disk answers syncs and forgets some of what was synced: nothing may hang or crash, and nothing be read that was
    /// never written; what is lost is not asked for
    #[arg(long)]
    lie: bool,
    /// Print the outcome as JSON
    #[arg(long)]
    json: bool,
}

/// # Errors
/// Anything that was lost or wrong, with the seed.
pub(crate) fn run(options: &Options) -> Result<()> {
    let begun = Instant::now();
    let mut rounds = 0;
    let tally = rounds_of(options, &mut rounds)
        .with_context(|| format!("round {rounds} of --seed {}", options.seed))?;
    let seconds = begun.elapsed().as_secs_f64();
    if options.json {
        println!(
            "{{\"seed\":{},\"rounds\":{rounds},\"operations\":{},\"syncs\":{},\"told\":{},\"looked_at\":{},\"seconds\":{seconds:.1}}}",
            options.seed, tally.operations, tally.syncs, tally.told, tally.looked_at
        );
    } else {
        println!(
            "power-cut: {rounds} losses of power in {seconds:.0} s; {} operations, {} syncs, {} told of a loss; {} looks at files and directories",
            tally.operations, tally.syncs, tally.told, tally.looked_at
        );
    }
    Ok(())
}

fn rounds_of(options: &Options, round: &mut u32) -> Result<Tally> {
    let mut random = StdRng::seed_from_u64(options.seed);
    let mut cluster = Cluster::start(
        &options.folder,
        &options.pandofs,
        &options.lossy,
        random.random(),
        options.lie,
    )?;
    cluster.up()?;
    let mut workers = (0..options.workers)
        .map(|number| {
            let random = StdRng::seed_from_u64(random.random());
            Worker::prepare(&cluster.mount(), number, random, !options.lie)
        })
        .collect::<Result<Vec<Worker>>>()?;
    let mut total = Tally::default();
    while *round < options.rounds {
        let time = Duration::from_millis(random.random_range(200..2_500));
        let met = match lose_power(&cluster, &mut workers, time, options.lie)? {
            Lost::Served(met) => met,
            Lost::Refused(why) => {
                *round += 1;
                eprintln!("the server does not start, and says why: {why}");
                let panics = cluster.panics()?;
                ensure!(panics.is_empty(), "{panics:?}");
                return Ok(total);
            }
        };
        let client = client(&cluster.data())?;
        let (mut wrong, mut tally) = (cluster.panics()?, Tally::default());
        for worker in &mut workers {
            match worker.look(&client) {
                Ok(found) => wrong.extend(found),
                Err(error) if options.lie => eprintln!("not looked at: {error:#}"),
                Err(error) => wrong.push(format!("{error:#}")),
            }
            tally.add(&worker.tally);
        }
        for sentence in wrong.iter().take(SHOWN) {
            eprintln!("{sentence}");
        }
        ensure!(wrong.is_empty(), "{} things are wrong", wrong.len());
        // Every other time all objects are looked at, after which none is in doubt.
        if *round % 2 == 1 {
            expect(options, cluster.check(&["scrub", "--rate", "0"]))?;
        }
        expect(options, cluster.check(&["fsck"]))?;
        eprintln!("round {round}: {met}; {tally:?}");
        total = tally;
        *round += 1;
    }
    cluster.stop()?;
    expect(options, cluster.check(&["fsck", "--offline"]))?;
    Ok(total)
}

/// Checks the trial of a disk that lies: its faults must be found, and are reported and no reason
/// to end.
fn expect(options: &Options, checked: Result<()>) -> Result<()> {
    match checked {
        Err(error) if options.lie => {
            let said = format!("{error:#}");
            let honest = HONEST.iter().any(|status| said.contains(status));
            ensure!(honest, "{said}");
            eprintln!("found: {said}");
            Ok(())
        }
        checked => checked,
    }
}

fn client(data: &Path) -> Result<Client> {
    let options = ClientOptions {
        soft: Some(PATIENCE),
        ..ClientOptions::default()
    };
    Ok(Client::open(&data.join("cluster.json"), options)?)
}

/// Outcome of a loss of power for the server.
enum Lost {
    /// It serves again; what the disk lost.
    Served(String),
    /// It says why it does not start. The workers still wait for it.
    Refused(String),
}

/// Lets the workers loose, takes the power away and gives it back, and waits until they have ended.
fn lose_power(
    cluster: &Cluster,
    workers: &mut Vec<Worker>,
    time: Duration,
    may_refuse: bool,
) -> Result<Lost> {
    let lost = Arc::new(AtomicBool::new(false));
    let (ended, endings) = mpsc::channel();
    let count = workers.len();
    for (number, mut worker) in workers.drain(..).enumerate() {
        let (lost, ended) = (Arc::clone(&lost), ended.clone());
        std::thread::Builder::new()
            .name(format!("worker-{number}"))
            .spawn(move || {
                let result = worker.run(&lost);
                // The channel has no receiver: the trial has failed.
                let _ = ended.send((number, worker, result));
            })?;
    }
    std::thread::sleep(time);
    let met = cluster.cut(&lost);
    lost.store(true, Ordering::SeqCst);
    let met = met?;
    if let Some(refusal) = cluster.wait(may_refuse)? {
        return Ok(Lost::Refused(refusal));
    }
    let mut back = Vec::new();
    while back.len() < count {
        let Ok((number, worker, result)) = endings.recv_timeout(PATIENCE) else {
            bail!("an operation hangs, or a worker panicked");
        };
        result?;
        back.push((number, worker));
    }
    back.sort_by_key(|(number, _)| *number);
    workers.extend(back.into_iter().map(|(_, worker)| worker));
    Ok(Lost::Served(met))
}
