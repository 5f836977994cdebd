//! The simulator itself: it can be repeated, and it finds nothing.

use pandofs_sim::{Scenario, Trace, run};

/// Seeds that every run of the tests goes through; `cargo xtask sim` goes through more.
const SEEDS: u64 = 300;

/// Seeds that have found something, each another way to the same: whoever waited at the gate of a split waited for the
/// whole grace after a restart.
const FOUND: [u64; 3] = [7_002_512, 7_002_713, 500_001_159];

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

/// Where seeds that nobody has run begin: as many as [`NEW`]. CI takes it from the commit.
const BASE: &str = "PANDOFS_SEED_BASE";
const NEW: u64 = 100;

#[test]
fn nor_does_one_that_nobody_has_run() {
    let base = std::env::var(BASE).map_or(1 << 40, |base| {
        u64::from_str_radix(&base, 16).expect("a number to base 16") << 16
    });
    for seed in base..base + NEW {
        let result = run(&Scenario::from_seed(seed), Trace::none()).result;
        assert!(
            result.is_ok(),
            "'cargo xtask sim --seed {seed}' fails: {result:?}"
        );
    }
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
    let (mut crashes, mut splits, mut distributed) = (0, 0, 0);
    let (mut believed, mut recalled) = (0, 0);
    for seed in 0..SEEDS {
        match run(&Scenario::from_seed(seed), Trace::none()).result {
            Ok(counted) => {
                crashes += counted.crashes;
                splits += counted.splits;
                distributed += counted.distributed;
                believed += counted.believed;
                recalled += counted.recalled;
            }
            Err(finding) => panic!("'cargo xtask sim --seed {seed}' fails: {finding}"),
        }
    }
    // Of what the runs are about enough happened.
    assert!(2 * crashes >= 3 * SEEDS, "{crashes} crashes");
    assert!(splits >= 5 * SEEDS, "{splits} splits");
    assert!(
        distributed >= 20 * SEEDS,
        "{distributed} distributed operations"
    );
    assert!(believed >= 40 * SEEDS, "{believed} answers believed");
    assert!(recalled >= 40 * SEEDS, "{recalled} leases recalled");
}
