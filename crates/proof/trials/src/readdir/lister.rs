//! Threads that list the directory.

use super::Signals;
use crate::cluster::CALLER;
use crate::history::{Clock, Listed, Listing, Span};
use anyhow::{Context, Result, ensure};
use pandofs_client::Client;
use pandofs_types::{Ino, Position};
use rand::Rng;
use rand::rngs::StdRng;
use std::fmt;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The longest pause between two pages of a listing at its own pace.
const MOST_PAUSE: Duration = Duration::from_millis(4);
/// Time for which a listing that keeps step with the splits waits for one.
const STEP_LIMIT: Duration = Duration::from_secs(60);
/// Entries of its pages.
const STEP_PAGE: usize = 16;

/// Pace of a listing.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pace {
    /// Page by page as the directory gets partitions, up to so many; one listing.
    WithTheSplits { partitions: u32 },
    /// Pages and pauses as drawn, again and again.
    Own,
}

/// One client that lists.
pub(super) struct Lister {
    pub client: Client,
    pub dir: Ino,
    pub clock: Clock,
    pub random: StdRng,
    pub pace: Pace,
}

/// A listing and how it was made.
#[derive(Debug)]
pub(super) struct Done {
    pub listing: Listing,
    pub partitions_before: u32,
    pub partitions_after: u32,
    pub pages: u64,
    page: usize,
    plus: bool,
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Span { begun, ended } = self.listing.span;
        write!(
            f,
            "listing of {} names in {} pages of {}{} from {begun:?} to {ended:?}, partitions {} to {}",
            self.listing.entries.len(),
            self.pages,
            self.page,
            if self.plus { " with attributes" } else { "" },
            self.partitions_before,
            self.partitions_after
        )
    }
}

impl Lister {
    /// Lists until the directory has grown and is merged again.
    ///
    /// # Errors
    /// The file system's.
    pub(super) fn run(mut self, signals: &Signals) -> Result<Vec<Done>> {
        let mut all = Vec::new();
        loop {
            all.push(self.list(signals, all.is_empty())?);
            let is_over = signals.over.load(Ordering::SeqCst);
            if is_over || matches!(self.pace, Pace::WithTheSplits { .. }) {
                return Ok(all);
            }
        }
    }

    fn list(&mut self, signals: &Signals, is_first: bool) -> Result<Done> {
        let partitions_before = self.partitions()?;
        let page = match self.pace {
            Pace::WithTheSplits { .. } => STEP_PAGE,
            Pace::Own => self.random.random_range(1..=8_usize).pow(3),
        };
        let most_pause = match self.random.random() {
            true => MOST_PAUSE,
            false => Duration::ZERO,
        };
        let plus = self.random.random();
        let begun = self.clock.now();
        let mut entries = Vec::new();
        let mut from = Position::FIRST;
        let mut pages = 0;
        while from < Position::END {
            let read = self
                .client
                .readdir(&CALLER, self.dir, from, plus, page)
                .with_context(|| format!("readdir from {from:?}"))?;
            entries.extend(read.entries.into_iter().map(|entry| Listed {
                name: entry.name,
                ino: entry.ino,
                is_complete: entry.attr.is_some() || !plus,
            }));
            from = read.next;
            pages += 1;
            if is_first && pages == 1 {
                signals.listers_begun.fetch_add(1, Ordering::SeqCst);
            }
            match self.pace {
                Pace::WithTheSplits { partitions } => {
                    let due = partitions.min(pages as u32 + 1);
                    if from < Position::END {
                        wait_for_partitions(signals, due)?;
                    }
                }
                Pace::Own if signals.over.load(Ordering::SeqCst) => {}
                Pace::Own => std::thread::sleep(most_pause.mul_f64(self.random.random())),
            }
        }
        if let Pace::WithTheSplits { partitions } = self.pace {
            // A small directory is at its end before it has them all.
            ensure!(
                signals.over.load(Ordering::SeqCst)
                    || signals.partitions.load(Ordering::SeqCst) >= partitions,
                "the listing that keeps step was over too early"
            );
        }
        let ended = self.clock.now();
        Ok(Done {
            listing: Listing {
                span: Span { begun, ended },
                entries,
            },
            partitions_before,
            partitions_after: self.partitions()?,
            pages,
            page,
            plus,
        })
    }

    fn partitions(&self) -> Result<u32> {
        Ok(self.client.dir_info(&CALLER, self.dir)?.map.active_count())
    }
}

/// Or until there will not be so many.
fn wait_for_partitions(signals: &Signals, partitions: u32) -> Result<()> {
    let deadline = Instant::now() + STEP_LIMIT;
    while signals.partitions.load(Ordering::SeqCst) < partitions
        && !signals.over.load(Ordering::SeqCst)
    {
        ensure!(
            Instant::now() < deadline,
            "no split within {} s: {} partitions, {partitions} awaited",
            STEP_LIMIT.as_secs(),
            signals.partitions.load(Ordering::SeqCst)
        );
        std::thread::sleep(super::LOOK_INTERVAL);
    }
    Ok(())
}
