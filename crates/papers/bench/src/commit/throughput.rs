//! Creations, transactions as Postmark makes them, and deletions a second.

use super::cluster::{CALLER, Cluster, name};
use super::{Options, PROTOCOLS};
use crate::rounds::Rounds;
use anyhow::{Result, bail};
use pandofs_client::{Client, OpenHow};
use pandofs_model::report::Figure;
use pandofs_types::{Ino, Name};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::path::Path;
use std::sync::Barrier;
use std::time::Instant;

/// Bytes of a file are up to this; Postmark's are 500 to 9,770 by default.
const MOST_BYTES: usize = 9_770;
const LEAST_BYTES: usize = 500;
/// The measurements, in this order.
const PHASES: [&str; 4] = ["directories", "creations", "transactions", "deletions"];
/// Directories are so many times fewer than files: each may need both servers.
const FILES_PER_DIRECTORY: u64 = 20;

const HOW: OpenHow = OpenHow {
    access: 6,
    truncate: false,
    exclusive: true,
};

/// One client and its files.
struct Worker<'a> {
    client: Client,
    random: StdRng,
    rank: u64,
    files: u64,
    made: u64,
    dirs: Vec<Ino>,
    there: Vec<(Ino, Name, Ino)>,
    barrier: &'a Barrier,
}

impl Worker<'_> {
    fn create(&mut self) -> Result<()> {
        let name = name(&format!("file-{}-{}", self.rank, self.made))?;
        self.made += 1;
        let dir = self.dirs[self.random.random_range(0..self.dirs.len())];
        let made = self.client.create(&CALLER, dir, &name, 0o644, HOW)?;
        let bytes = self.random.random_range(LEAST_BYTES..MOST_BYTES);
        self.client
            .write(&CALLER, made.node.ino, 0, &vec![7; bytes])?;
        self.client.release(made.node.ino)?;
        self.there.push((dir, name, made.node.ino));
        Ok(())
    }

    fn delete(&mut self) -> Result<()> {
        let at = self.random.random_range(0..self.there.len());
        let (dir, name, _) = self.there.swap_remove(at);
        self.client.unlink(&CALLER, dir, &name)?;
        Ok(())
    }

    /// As Postmark: a file is read or made longer, and one is made or deleted.
    fn transaction(&mut self) -> Result<()> {
        let (_, _, ino) = self.there[self.random.random_range(0..self.there.len())];
        if self.random.random() {
            self.client.read(&CALLER, ino, 0, 2 * MOST_BYTES)?;
        } else {
            let bytes = self.random.random_range(LEAST_BYTES..MOST_BYTES);
            self.client
                .write(&CALLER, ino, MOST_BYTES as u64, &vec![8; bytes])?;
        }
        if self.random.random() || self.there.len() < 2 {
            self.create()
        } else {
            self.delete()
        }
    }

    fn phase(&mut self, phase: &str) -> Result<u64> {
        let count = match phase {
            "directories" => (self.files / FILES_PER_DIRECTORY).max(1),
            "creations" => self.files,
            "transactions" => 2 * self.files,
            _ => self.there.len() as u64,
        };
        for number in 0..count {
            match phase {
                "directories" => {
                    let name = name(&format!("dir-{}-{number}", self.rank))?;
                    let made = self.client.mkdir(&CALLER, Ino::ROOT, &name, 0o755)?;
                    self.dirs.push(made.ino);
                }
                "creations" => self.create()?,
                "transactions" => self.transaction()?,
                _ => self.delete()?,
            }
        }
        Ok(count)
    }

    /// Operations of each phase, and the time when it was over everywhere.
    fn run(mut self) -> Result<Vec<(u64, f64)>> {
        let mut all = Vec::new();
        for phase in PHASES {
            self.barrier.wait();
            let begun = Instant::now();
            let done = self.phase(phase);
            // Also after an error, for which the others would wait for ever.
            self.barrier.wait();
            all.push(done.map(|count| (count, begun.elapsed().as_secs_f64())));
        }
        all.into_iter().collect()
    }
}

/// Operations a second of each phase, once.
fn once(
    options: &Options,
    scratch: &Path,
    protocol: &str,
    is_logged: bool,
    seed: u64,
) -> Result<Vec<f64>> {
    let flags = ["--commit-protocol", protocol];
    let cluster = Cluster::start(&options.setup, scratch, &flags, is_logged)?;
    let barrier = Barrier::new(options.clients as usize);
    let mut random = StdRng::seed_from_u64(seed);
    let workers = (0..options.clients)
        .map(|rank| {
            Ok(Worker {
                client: cluster.client()?,
                random: StdRng::seed_from_u64(random.random()),
                rank,
                files: (options.files / options.clients).max(1),
                made: 0,
                dirs: Vec::new(),
                there: Vec::new(),
                barrier: &barrier,
            })
        })
        .collect::<Result<Vec<_>>>()?;
    let ran = std::thread::scope(|scope| {
        let threads: Vec<_> = workers
            .into_iter()
            .map(|worker| scope.spawn(move || worker.run()))
            .collect();
        let joined = threads.into_iter().map(|thread| match thread.join() {
            Ok(ran) => ran,
            Err(_) => bail!("a client panicked"),
        });
        joined.collect::<Result<Vec<_>>>()
    })?;
    cluster.stop()?;
    Ok((0..PHASES.len())
        .map(|phase| {
            let count: u64 = ran.iter().map(|worker| worker[phase].0).sum();
            let longest = ran.iter().map(|worker| worker[phase].1).fold(0.0, f64::max);
            count as f64 / longest
        })
        .collect())
}

/// A kind of cluster: its name, the commit protocol, and whether there is a log.
type Kind = (&'static str, &'static str, bool);

fn measure(options: &Options, scratch: &Path, kinds: &[Kind]) -> Result<Rounds<'static>> {
    let mut rounds = Rounds::new(kinds.iter().map(|kind| kind.0).collect(), &PHASES);
    for round in 0..options.rounds {
        for (number, &(kind, protocol, is_logged)) in kinds.iter().enumerate() {
            eprintln!("throughput of {kind}, round {}", round + 1);
            let seed = options.seed.wrapping_add(u64::from(round));
            rounds.add(number, once(options, scratch, protocol, is_logged, seed)?);
        }
    }
    Ok(rounds)
}

fn note(figure: &mut Figure, options: &Options) {
    figure.note(format!(
        "2 servers, {} clients of the library on the same machine, {} files of {LEAST_BYTES} to {MOST_BYTES} bytes",
        options.clients, options.files
    ));
}

/// Figure 15 of the paper.
pub(super) fn with_and_without_log(options: &Options, scratch: &Path) -> Result<[Figure; 2]> {
    let kinds = [
        ("without a log", "s2pc-mp", false),
        ("with the log", "s2pc-mp", true),
    ];
    let rounds = measure(options, scratch, &kinds)?;
    let mut figure = rounds.figure(
        "commit-log-cost",
        "Throughput with and without the log",
        "operations a second",
    );
    note(&mut figure, options);
    for (phase, claim, most) in [
        (
            1,
            "the log costs creations 10 % (Xiong et al., 5.2.1)",
            15.0,
        ),
        (3, "the log costs deletions 10 %", 15.0),
        (2, "the log costs transactions nothing to speak of", 5.0),
    ] {
        let lost = 100.0 * (1.0 - rounds.ratio(1, phase).1);
        figure.claim(claim, lost <= most, format!("{lost:.1} %"));
    }
    let ratios = rounds.ratios("commit-log-cost-ratios", "The same, compared");
    Ok([figure, ratios])
}

pub(super) fn of_protocols(options: &Options, scratch: &Path) -> Result<[Figure; 2]> {
    let rounds = measure(options, scratch, &PROTOCOLS.map(|name| (name, name, true)))?;
    let mut figure = rounds.figure(
        "commit-throughput",
        "Throughput with each commit protocol",
        "operations a second",
    );
    note(&mut figure, options);
    figure.note("half of the directories need both servers, no file does: only directories tell the protocols apart");
    let ratios = rounds.ratios("commit-throughput-ratios", "The same, compared");
    Ok([figure, ratios])
}
