//! The simulator itself: it can be repeated, and it finds nothing.

use pandofs_sim::{Counted, Scenario, Trace, run};
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{available_parallelism, scope};

/// Seeds that every run of the tests goes through; `cargo xtask sim` goes through more.
const SEEDS: u64 = 300;

/// Seeds that have found something.
const FOUND: [u64; 7] = [
    // Requests at the gate of a split waited for the whole grace after a restart, each another way.
    7_002_512,
    7_002_713,
    500_001_159,
    // Of two holders of a lock another one was told when a record was applied again.
    30_000_017_215,
    // A cut of a data object came after the object's removal, and made an empty one.
    30_000_022_763,
    // A file was closed and opened again around a restart and a split, and the close counted against the second opening.
    70_000_019_523,
    // A late answer had an inode counted anew without a close that was still to come, which took that count off.
    230_000_013_027,
];

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in [1, 2, 3, 5, 8, 13] {
        let scenario = Scenario::from_seed(seed);
        let first = run(&scenario, Trace::kept());
        let second = run(&scenario, Trace::kept());
        assert!(first.trace.len() > 10_000, "a run says what happens");
        assert!(
            first.trace == second.trace,
            "two runs of seed {seed} differ"
        );
    }
}

/// Variable with the first of the seeds that nobody has run: as many as [`NEW`]. CI takes it from the commit.
const BASE: &str = "PANDOFS_SEED_BASE";
/// With [`SEEDS`] 2,000, which take two minutes of a processor.
const NEW: u64 = 1_700;
/// Of these, seeds that are run twice.
const TWICE: u64 = 100;

#[test]
fn nor_does_one_that_nobody_has_run() {
    let base = std::env::var(BASE).map_or(1 << 40, |base| {
        u64::from_str_radix(&base, 16).expect("a number to base 16") << 16
    });
    let next = AtomicU64::new(0);
    let next = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&number| number < NEW);
    let work = || {
        while let Some(number) = next() {
            let seed = base + number;
            let again = || run(&Scenario::from_seed(seed), Trace::none()).result;
            let result = again();
            assert!(
                result.is_ok(),
                "'cargo xtask sim --seed {seed}' fails: {result:?}"
            );
            if number < TWICE {
                assert_eq!(result, again(), "two runs of seed {seed} differ");
            }
        }
    };
    let threads = available_parallelism().map_or(1, NonZero::get);
    scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
}

#[test]
fn what_was_found_once_is_not_found_again() {
    for seed in FOUND {
        let result = run(&Scenario::from_seed(seed), Trace::none()).result;
        assert!(result.is_ok(), "seed {seed}: {result:?}");
    }
}

#[test]
fn no_seed_finds_anything() {
    let mut runs = Vec::new();
    for seed in 0..SEEDS {
        match run(&Scenario::from_seed(seed), Trace::none()).result {
            Ok(counted) => runs.push(counted),
            Err(finding) => panic!("'cargo xtask sim --seed {seed}' fails: {finding}"),
        }
    }
    // Of what the runs are about enough happened, and in enough of them.
    let mut rare = Vec::new();
    for (what, of, least_share, least_median) in EXPECTED {
        let mut counts: Vec<u64> = runs.iter().map(of).collect();
        counts.sort_unstable();
        let share = 100 * counts.iter().filter(|&&count| count > 0).count() / counts.len();
        let (median, tenth) = (counts[counts.len() / 2], counts[counts.len() / 10]);
        let line = format!(
            "{what}: in {share} % of {SEEDS} runs (at least {least_share} expected), median {median} (at least \
             {least_median}), tenth percentile {tenth}"
        );
        println!("{line}");
        if share < least_share || median < least_median {
            rare.push(line);
        }
    }
    assert!(rare.is_empty(), "too rare: {rare:#?}");
}

/// Each event, its share of the runs at least, in hundredths, and its number in the median run: half as often as
/// it did, about. In half of the runs and more no server dies in the middle of something.
const EXPECTED: [(&str, Count, usize, u64); 15] = [
    ("crashes", |run| run.crashes, 60, 1),
    ("crashes in a split", |run| run.crashes_in_splits, 10, 0),
    (
        "crashes in an operation",
        |run| run.crashes_in_operations,
        25,
        0,
    ),
    ("splits", |run| run.splits, 90, 5),
    ("distributed operations", |run| run.distributed, 90, 20),
    ("answers believed", |run| run.believed, 50, 26),
    ("leases recalled", |run| run.recalled, 50, 25),
    ("keys warmed", |run| run.warmed, 30, 1),
    ("servers that joined", |run| run.joins, 16, 0),
    ("maps taken up by servers", |run| run.maps_taken, 16, 0),
    ("maps taken up by clients", |run| run.maps_learnt, 16, 0),
    (
        "crashes before all had the newest map",
        |run| run.crashes_in_joins,
        9,
        0,
    ),
    (
        "directories on servers that joined",
        |run| run.placed_on_joined,
        12,
        0,
    ),
    ("files read whole", |run| run.contents_read, 15, 0),
    ("losses told by syncs", |run| run.losses_told, 5, 0),
];

type Count = fn(&Counted) -> u64;
