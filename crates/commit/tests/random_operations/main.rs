//! Random operations between one coordinator (now and then two) and one to five participants, over a
//! network that loses, repeats, delays and reorders messages, with crashes between any two records.
//! The same seed gives the same run. `PANDOFS_SEEDS=N` runs the first `N` seeds instead of
//! `DEFAULT_SEEDS`; a seed that fails is printed with its trace.
//!
//! The driver around the two step machines does what a shard does with them. What must hold is in
//! `oracle.rs`; `faults.rs` holds bugs that the oracles must find.

mod coordinator;
mod faults;
mod locks;
mod network;
mod node;
mod oracle;
mod participant;
mod plan;
mod random;
mod stats;
mod world;

use faults::Fault;
use oracle::Kind;
use stats::Stats;
use world::run;

const DEFAULT_SEEDS: u64 = 400;

fn seeds() -> u64 {
    match std::env::var("PANDOFS_SEEDS") {
        Ok(number) => number.parse().expect("PANDOFS_SEEDS is a number"),
        Err(_) => DEFAULT_SEEDS,
    }
}

#[test]
fn operations_are_atomic_and_end() {
    let mut stats = Stats::default();
    for seed in 0..seeds() {
        let result = run(seed, Fault::None, false);
        if let Some(violation) = result.violation {
            let trace = run(seed, Fault::None, true).trace.join("\n");
            panic!("{trace}\nseed {seed}: {violation:?}");
        }
        stats.add(&result.stats);
    }
    println!("{stats:#?}");
    // The runs are worth something only if all of this happened.
    for (name, count) in stats.each() {
        assert!(count > 0, "no run has {name}");
    }
}

#[test]
fn a_seed_gives_one_run() {
    for seed in 0..10 {
        assert_eq!(
            run(seed, Fault::None, true),
            run(seed, Fault::None, true),
            "seed {seed}"
        );
    }
}

/// The first seed that finds the bug, and what it finds.
fn find(fault: Fault, kinds: &[Kind]) -> (u64, Kind) {
    let most = 2_000;
    (0..most)
        .find_map(|seed| {
            let kind = run(seed, fault, false).violation?.kind();
            kinds.contains(&kind).then_some((seed, kind))
        })
        .unwrap_or_else(|| panic!("{fault:?} is not found by {most} seeds"))
}

#[test]
fn planted_bugs_are_found() {
    for fault in Fault::ALL {
        let kinds: &[Kind] = match fault {
            Fault::None => unreachable!("not a bug"),
            Fault::AbortsWhileDeciding
            | Fault::RecoversByAborting
            | Fault::ForgetsCommitted
            | Fault::ForgetsAtOnce
            | Fault::HorizonNotStored
            | Fault::SendsBeforeForcing
            | Fault::DeniesWithoutRecord
            | Fault::PerformsRepeated => &[Kind::Atomicity],
            Fault::LosesLocks | Fault::KeepsLocks => &[Kind::Locks],
            Fault::NeverResends => &[Kind::Liveness],
            Fault::KeepsTombstones => &[Kind::Forgetting],
            Fault::AnswersEarly => &[Kind::Answer],
        };
        let (seed, kind) = find(fault, kinds);
        println!("{fault:?}: {kind:?} by seed {seed}");
    }
}
