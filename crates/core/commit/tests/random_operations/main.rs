//! Random operations between one coordinator (now and then two) and one to five participants, over a
//! network that loses, repeats, delays and reorders messages, with crashes between any two records.
//! The same seed gives the same run. `PANDOFS_SEEDS=N` runs the first `N` seeds instead of
//! `DEFAULT_SEEDS`; a seed that fails is printed with its trace.
//!
//! The driver around the two step machines does what a shard does with them. The oracles are in
//! `oracle.rs`; `faults.rs` holds bugs that they must find.

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
use pandofs_types::CommitProtocol;
use stats::Stats;
use world::run;

const DEFAULT_SEEDS: u64 = 400;

fn seeds() -> u64 {
    match std::env::var("PANDOFS_SEEDS") {
        Ok(number) => number.parse().expect("PANDOFS_SEEDS is a number"),
        Err(_) => DEFAULT_SEEDS,
    }
}

/// Runs many seeds, and answers what happened in them.
fn all_are_atomic_and_end(protocol: CommitProtocol) -> Stats {
    let mut stats = Stats::default();
    for seed in 0..seeds() {
        let result = run(seed, protocol, Fault::None, false);
        if let Some(violation) = result.violation {
            let trace = run(seed, protocol, Fault::None, true).trace.join("\n");
            panic!("{trace}\n{protocol:?}, seed {seed}: {violation:?}");
        }
        stats.add(&result.stats);
    }
    println!("{stats:#?}");
    stats
}

/// The runs are worth something only if all of this happened, but for `never`.
fn expect_all(stats: &Stats, never: &[&str]) {
    for (name, count) in stats.each() {
        assert_eq!(
            count > 0,
            !never.contains(&name),
            "{count} {name} in all runs"
        );
    }
}

#[test]
fn operations_are_atomic_and_end() {
    expect_all(&all_are_atomic_and_end(CommitProtocol::S2pcMp), &[]);
}

/// Where no participant decides, none can be asked what it decided.
const BY_COORDINATORS: [&str; 2] = ["denials", "recovered_undecided"];

#[test]
fn two_phase_commit_keeps_them_atomic_too() {
    let stats = all_are_atomic_and_end(CommitProtocol::TwoPhase);
    expect_all(&stats, &BY_COORDINATORS);
}

#[test]
fn three_phase_commit_keeps_them_atomic_too() {
    let stats = all_are_atomic_and_end(CommitProtocol::ThreePhase);
    expect_all(&stats, &BY_COORDINATORS);
}

#[test]
fn a_seed_gives_one_run() {
    for seed in 0..10 {
        let run = || run(seed, CommitProtocol::S2pcMp, Fault::None, true);
        assert_eq!(run(), run(), "seed {seed}");
    }
}

/// The first seed that finds the bug, and what it finds.
fn find(fault: Fault, kinds: &[Kind]) -> (u64, Kind) {
    let most = 2_000;
    (0..most)
        .find_map(|seed| {
            let kind = run(seed, CommitProtocol::S2pcMp, fault, false)
                .violation?
                .kind();
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
            | Fault::SendsBeforeSyncing
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
