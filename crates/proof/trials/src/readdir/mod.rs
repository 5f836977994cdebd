//! Listings of a directory while it splits from 1 to 16 partitions and is merged again.
//!
//! Others work in it meanwhile.

mod churn;
mod lister;

use crate::cluster::{CALLER, Common, fresh_directory, name};
use crate::history::{Clock, History, Life, Listing, Span};
use anyhow::{Context, Result, bail, ensure};
use churn::Churner;
use lister::{Lister, Pace};
use pandofs_api::{DirSettings, NewNode};
use pandofs_client::Client;
use pandofs_types::limits::MERGE_FRACTION;
use pandofs_types::{Ino, Name};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::thread::Scope;
use std::time::{Duration, Instant};

/// Partitions the directory is to reach.
const PARTITIONS: u32 = 16;
/// Thresholds that runs draw from, entries.
const THRESHOLDS: std::ops::RangeInclusive<u32> = 100..=200;
/// Time that growing to all partitions may take, and getting back to one.
const GROWTH_LIMIT: Duration = Duration::from_secs(60);
/// Interval at which the number of partitions is asked for.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);
/// Threads that remove a run's files at its end.
const REMOVERS: usize = 8;
/// Problems of a run that are printed at most, one a line.
const SHOWN: usize = 20;

/// Every name that stands throughout is listed exactly once while the directory splits and is merged
#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    common: Common,
    /// Runs, each in a directory of its own
    #[arg(long, default_value_t = 50)]
    runs: u32,
    /// Files that stand throughout a run
    #[arg(long, default_value_t = 1_000)]
    standing: u32,
    /// Clients that create, rename and remove other names
    #[arg(long, default_value_t = 8)]
    churners: u32,
    /// Clients that list, besides one that lists once, from the first split to the last
    #[arg(long, default_value_t = 3)]
    listers: u32,
}

/// Counts of what was seen in one run, or in all.
#[derive(Debug, Default)]
struct Seen {
    listings: usize,
    /// Of these, those during which the directory got more partitions.
    during_splits: usize,
    /// And those during which it got fewer.
    during_merges: usize,
    pages: u64,
    names: u64,
    splits: u32,
    merges: u32,
    changes: usize,
}

impl Seen {
    fn add(&mut self, other: &Seen) {
        self.listings += other.listings;
        self.during_splits += other.during_splits;
        self.during_merges += other.during_merges;
        self.pages += other.pages;
        self.names += other.names;
        self.splits += other.splits;
        self.merges += other.merges;
        self.changes += other.changes;
    }
}

/// # Errors
/// The first run that was not right, with its seed.
pub(crate) fn run(options: &Options) -> Result<()> {
    let client = options.common.client()?;
    let (_, parent) = fresh_directory(&client, Ino::ROOT, "readdir-through-splits")?;
    let begun = Instant::now();
    let mut all = Seen::default();
    for run in 0..options.runs {
        let seed = options.common.seed.wrapping_add(u64::from(run));
        let mut trial = Trial::prepare(options, &client, parent, seed)
            .with_context(|| format!("run {run} (--seed {seed}): cannot begin"))?;
        let seen = trial
            .run()
            .with_context(|| format!("run {run} (--runs 1 --seed {seed})"))?;
        all.add(&seen);
    }
    ensure!(
        all.during_merges > 0,
        "no listing saw partitions being merged, so this shows nothing of it"
    );
    println!(
        "readdir-through-splits: {} runs in {:.1} s: {} splits, {} merges; {} listings ({} while \
         partitions split, {} while they were merged), {} pages, {} names; {} creations, renames and \
         removals meanwhile; every standing name exactly once in every listing",
        options.runs,
        begun.elapsed().as_secs_f64(),
        all.splits,
        all.merges,
        all.listings,
        all.during_splits,
        all.during_merges,
        all.pages,
        all.names,
        all.changes,
    );
    Ok(())
}

/// One run.
struct Trial<'o> {
    options: &'o Options,
    client: Client,
    /// Parent of its directory, and the directory.
    parent: Ino,
    name: Name,
    dir: Ino,
    random: StdRng,
    threshold: u32,
    /// Says that the threshold is lowered at the start; the other runs have inherited it.
    lowered: bool,
    clock: Clock,
    history: History,
}

/// Signals between the threads of a run.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    /// The most partitions seen so far.
    pub partitions: AtomicU32,
    /// Listers that have the first page of their first listing.
    pub listers_begun: AtomicUsize,
    /// The directory has had all partitions and has one again, or a thread failed: begin no new
    /// listing.
    pub over: AtomicBool,
    /// The churners are to stop.
    pub enough: AtomicBool,
}

impl<'o> Trial<'o> {
    fn prepare(options: &'o Options, client: &Client, parent: Ino, seed: u64) -> Result<Trial<'o>> {
        let mut random = StdRng::seed_from_u64(seed);
        let threshold = random.random_range(THRESHOLDS);
        let lowered: bool = random.random();
        let settings = DirSettings {
            threshold: (!lowered).then_some(threshold),
            max_partitions: Some(PARTITIONS),
            initial_partitions: Some(1),
            policy: None,
            layout: None,
            file_policy: None,
        };
        // Inherited by the run's directory.
        let (parent_name, above) = fresh_directory(client, parent, "run")?;
        client
            .set_dir_settings(&CALLER, above, settings)
            .with_context(|| format!("settings of {parent_name}"))?;
        let (name, dir) = fresh_directory(client, above, "listed")?;
        let mut trial = Trial {
            options,
            client: client.clone(),
            parent: above,
            name,
            dir,
            random,
            threshold,
            lowered,
            clock: Clock::start(),
            history: History::default(),
        };
        trial.make_standing()?;
        Ok(trial)
    }

    fn make_standing(&mut self) -> Result<()> {
        // With the small threshold as many as one partition holds.
        let count = match self.lowered {
            true => self.options.standing,
            false => self.options.standing.min(self.threshold * 9 / 10),
        };
        for number in 0..count {
            let name = name(&format!("standing-{number:05}"))?;
            let begun = self.clock.now();
            let node = self
                .client
                .mknod(&CALLER, self.dir, &name, NewNode::File, 0o644)
                .with_context(|| format!("cannot make {name}"))?;
            let ended = self.clock.now();
            let life = Life {
                ino: node.ino,
                made: Span { begun, ended },
                removed: None,
            };
            self.history.add(name, life);
        }
        Ok(())
    }

    fn partitions(&self) -> Result<u32> {
        Ok(self.client.dir_info(&CALLER, self.dir)?.map.active_count())
    }

    fn run(&mut self) -> Result<Seen> {
        let signals = Signals::default();
        let before = self.partitions()?;
        ensure!(before == 1, "it had {before} partitions before it began");
        signals.partitions.store(before, Ordering::SeqCst);
        let churners = self.churners()?;
        let listers = self.listers()?;
        let (listings, churners) =
            std::thread::scope(|scope| self.work(scope, &signals, churners, listers))?;
        let most = signals.partitions.load(Ordering::SeqCst);
        let mut seen = Seen {
            splits: most - before,
            merges: most - self.partitions()?,
            ..Seen::default()
        };
        let mut left = Vec::new();
        for churner in churners {
            seen.changes += churner.changes;
            left.extend(churner.finish(&mut self.history));
        }
        self.judge(&listings, &mut seen)?;
        self.judge_the_end()?;
        self.remove(left)?;
        Ok(seen)
    }

    fn churners(&mut self) -> Result<Vec<Churner>> {
        let names = 16 * self.threshold / self.options.churners.max(1);
        (0..self.options.churners)
            .map(|number| {
                let client = self.options.common.client()?;
                let random = StdRng::seed_from_u64(self.random.random());
                Ok(Churner::new(
                    client, self.dir, self.clock, random, number, names,
                ))
            })
            .collect()
    }

    /// The first lists but once and keeps step with the splits, the others again and again.
    fn listers(&mut self) -> Result<Vec<Lister>> {
        (0..=self.options.listers)
            .map(|number| {
                let random = StdRng::seed_from_u64(self.random.random());
                Ok(Lister {
                    client: self.options.common.client()?,
                    dir: self.dir,
                    clock: self.clock,
                    random,
                    pace: match number {
                        0 => Pace::WithTheSplits {
                            partitions: PARTITIONS,
                        },
                        _ => Pace::Own,
                    },
                })
            })
            .collect()
    }

    /// Lets all loose, and waits until the directory has grown and the last listing has ended.
    fn work<'scope>(
        &self,
        scope: &'scope Scope<'scope, '_>,
        signals: &'scope Signals,
        churners: Vec<Churner>,
        listers: Vec<Lister>,
    ) -> Result<(Vec<lister::Done>, Vec<Churner>)> {
        let count = listers.len();
        let listing: Vec<_> = listers
            .into_iter()
            .map(|lister| scope.spawn(move || ending(signals, lister.run(signals))))
            .collect();
        // All of them are in the midst of a listing when the first partition splits.
        let mut grown = wait_until(signals, || {
            Ok(signals.listers_begun.load(Ordering::SeqCst) == count)
        });
        if grown.is_ok() {
            grown = self.lower_threshold();
        }
        let churning: Vec<_> = churners
            .into_iter()
            .map(|churner| scope.spawn(move || ending(signals, churner.run(signals))))
            .collect();
        if grown.is_ok() {
            grown = wait_until(signals, || {
                let partitions = self.partitions()?;
                signals.partitions.store(partitions, Ordering::SeqCst);
                Ok(partitions >= PARTITIONS)
            });
        }
        // The listing that keeps step ends with the last split; the others go on until all are merged.
        if grown.is_ok() {
            grown = wait_until(signals, || Ok(listing[0].is_finished()))
                .and_then(|()| self.set_threshold(self.merging_threshold()))
                .and_then(|()| wait_until(signals, || Ok(self.partitions()? == 1)));
        }
        signals.over.store(true, Ordering::SeqCst);
        let mut listings = Ok(Vec::new());
        for thread in listing {
            add(&mut listings, joined(thread));
        }
        signals.enough.store(true, Ordering::SeqCst);
        let mut churners = Ok(Vec::new());
        for thread in churning {
            add(&mut churners, joined(thread).map(|churner| vec![churner]));
        }
        let (listings, churners) = (listings?, churners?);
        grown?;
        Ok((listings, churners))
    }

    fn lower_threshold(&self) -> Result<()> {
        if !self.lowered {
            return Ok(());
        }
        self.set_threshold(self.threshold)
    }

    fn set_threshold(&self, threshold: u32) -> Result<()> {
        let settings = DirSettings {
            threshold: Some(threshold),
            ..DirSettings::default()
        };
        self.client
            .set_dir_settings(&CALLER, self.dir, settings)
            .with_context(|| format!("cannot set the threshold to {threshold}"))
    }

    /// One of which all names together are so small a part that any two partitions are merged.
    fn merging_threshold(&self) -> u32 {
        (self.options.standing + 16 * self.threshold) * MERGE_FRACTION as u32
    }

    fn judge(&self, listings: &[lister::Done], seen: &mut Seen) -> Result<()> {
        let mut wrong = Vec::new();
        for done in listings {
            seen.listings += 1;
            seen.pages += done.pages;
            seen.names += done.listing.entries.len() as u64;
            seen.during_splits += usize::from(done.partitions_after > done.partitions_before);
            seen.during_merges += usize::from(done.partitions_after < done.partitions_before);
            let found = self.history.judge(&done.listing);
            wrong.extend(found.iter().map(|sentence| format!("{sentence}; {done}")));
        }
        report(&wrong)?;
        let whole = listings
            .iter()
            .any(|done| done.partitions_before == 1 && done.partitions_after == PARTITIONS);
        ensure!(
            whole && seen.during_splits > 0,
            "no listing lasted from the first split to the last, so this shows nothing"
        );
        Ok(())
    }

    /// No thread works there any more: everything is exactly known.
    fn judge_the_end(&self) -> Result<()> {
        let begun = self.clock.now();
        let mut entries = Vec::new();
        for entry in self.client.list(&CALLER, self.dir) {
            let entry = entry?;
            entries.push(crate::history::Listed {
                name: entry.name,
                ino: entry.ino,
                is_complete: true,
            });
        }
        let ended = self.clock.now();
        let span = Span { begun, ended };
        let listing = Listing { span, entries };
        report(&self.history.judge(&listing)).context("in the listing at the end")?;
        let standing = self.history.standing_during(span).count();
        let size = self.client.getattr(&CALLER, self.dir)?.size;
        ensure!(
            size == standing as u64,
            "the directory counts {size} entries and has {standing}"
        );
        for (name, life) in self.history.standing_during(span) {
            let found = self
                .client
                .lookup(&CALLER, self.dir, name)
                .with_context(|| format!("lookup of {name}"))?;
            ensure!(
                found.ino == life.ino,
                "{name} leads to inode {} instead of {}",
                found.ino,
                life.ino
            );
        }
        Ok(())
    }

    /// Also shows that what was listed can be removed, and that the directory is empty then.
    fn remove(&self, left: Vec<Name>) -> Result<()> {
        let standing = Span {
            begun: self.clock.now(),
            ended: self.clock.now(),
        };
        let names: Vec<&Name> = self
            .history
            .standing_during(standing)
            .map(|(name, _)| name)
            .collect();
        ensure!(
            left.iter().all(|name| names.contains(&name)),
            "the churners left other names than the history says"
        );
        // At once, because removing what was renamed to another shard waits for the disk.
        let each = names.len().div_ceil(REMOVERS).max(1);
        std::thread::scope(|scope| {
            let threads: Vec<_> = names
                .chunks(each)
                .map(|names| scope.spawn(|| self.unlink(names)))
                .collect();
            threads.into_iter().try_for_each(joined)
        })?;
        self.client
            .rmdir(&CALLER, self.parent, &self.name)
            .context("cannot remove the directory")?;
        Ok(())
    }
}

impl Trial<'_> {
    fn unlink(&self, names: &[&Name]) -> Result<()> {
        for name in names {
            self.client
                .unlink(&CALLER, self.dir, name)
                .with_context(|| format!("cannot remove {name}"))?;
        }
        Ok(())
    }
}

/// Lets the others stop when a thread fails.
fn ending<T>(signals: &Signals, result: Result<T>) -> Result<T> {
    if result.is_err() {
        signals.over.store(true, Ordering::SeqCst);
        signals.enough.store(true, Ordering::SeqCst);
    }
    result
}

/// Until it is so, or a thread has failed, which its own error then says.
fn wait_until(signals: &Signals, so: impl Fn() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + GROWTH_LIMIT;
    while !so()? && !signals.over.load(Ordering::SeqCst) {
        if Instant::now() > deadline {
            bail!(
                "after {} s it has {} partitions",
                GROWTH_LIMIT.as_secs(),
                signals.partitions.load(Ordering::SeqCst)
            );
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
    Ok(())
}

fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    match thread.join() {
        Ok(result) => result,
        Err(_) => bail!("a thread panicked"),
    }
}

/// Keeps the first error.
fn add<T>(all: &mut Result<Vec<T>>, more: Result<Vec<T>>) {
    match (all.as_mut(), more) {
        (Ok(all), Ok(more)) => all.extend(more),
        (Ok(_), Err(error)) => *all = Err(error),
        (Err(_), _) => {}
    }
}

fn report(wrong: &[String]) -> Result<()> {
    for sentence in wrong.iter().take(SHOWN) {
        eprintln!("{sentence}");
    }
    ensure!(wrong.is_empty(), "{} things are wrong", wrong.len());
    Ok(())
}
