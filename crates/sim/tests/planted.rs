//! For each oracle something wrong that it must find.

use pandofs_sim::scenario::{End, Fault, MILLISECOND, Op, Path, Planned, Shape};
use pandofs_sim::{Plant, Scenario, Trace, run};

/// Seeds in one of which the oracle has to find it.
const SEEDS: u64 = 400;

fn finds(plant: Plant, oracle: &str) {
    finds_in(plant, oracle, Scenario::from_seed);
}

fn finds_in(plant: Plant, oracle: &str, make: impl Fn(u64) -> Scenario) {
    let mut others = Vec::new();
    for seed in 0..SEEDS {
        let scenario = Scenario {
            plant: Some(plant),
            ..make(seed)
        };
        match run(&scenario, Trace::none()).result {
            Err(finding) if finding.oracle == oracle => return,
            Err(finding) => others.push(finding.to_string()),
            Ok(_) => {}
        }
    }
    panic!("'{oracle}' does not find {plant:?}; others do: {others:.200?}");
}

#[test]
fn two_owners() {
    finds(Plant::KeepsPartition, "owners");
}

#[test]
fn entries_lost_on_their_way() {
    finds(Plant::LosesEntry, "preserved");
}

#[test]
fn wrong_counts() {
    finds(Plant::Miscounts, "counts");
}

#[test]
fn wrong_numbers_of_links() {
    finds(Plant::MiscountsLinks, "links");
}

#[test]
fn inodes_without_names() {
    finds(Plant::LosesName, "inodes");
}

#[test]
fn two_parents() {
    finds(Plant::KeepsParent, "tree");
}

#[test]
fn locks_without_operations() {
    finds(Plant::KeepsLocks, "locks");
}

#[test]
fn promises_that_are_not_kept() {
    finds(Plant::Unforced, "survives");
}

#[test]
fn requests_executed_twice() {
    finds_in(Plant::ForgetsDoubt, "once", doubtful);
}

/// Two names are exchanged and the answer is lost; before it is asked for again, the client learns that one of the names
/// has gone to another shard.
fn doubtful(seed: u64) -> Scenario {
    let file = |number: u64| Path(vec![format!("f{number}")]);
    let planned = |at: i64, worker, op| Planned {
        at: at * MILLISECOND,
        client: 0,
        worker,
        op,
    };
    let mut ops: Vec<Planned> = (0..4)
        .map(|number| planned(10, 0, Op::Create(file(number))))
        .collect();
    ops.push(planned(50, 0, Op::Exchange(file(0), file(1))));
    ops.extend((4..20).map(|number| planned(80, 1, Op::Create(file(number)))));
    ops.extend((0..20).map(|number| planned(120, 1, Op::Lookup(file(number)))));
    let cut = |server| Fault::Cut {
        from: End::Server(server),
        to: End::Client(0),
        start: 50 * MILLISECOND,
        end: 70 * MILLISECOND,
    };
    let whole = Scenario::from_seed(seed);
    let shape = Shape {
        servers: 3,
        shards: 4,
        clients: 1,
        workers: 2,
        skew: vec![0; 3],
        leases: None,
        ..whole.shape.clone()
    };
    Scenario {
        shape,
        ops,
        faults: (0..3).map(cut).collect(),
        healed: 1_000 * MILLISECOND,
        ..whole
    }
}

#[test]
fn what_is_planted_is_what_is_found() {
    for seed in 0..SEEDS {
        let outcome = run(&doubtful(seed), Trace::none());
        assert!(outcome.result.is_ok(), "{:?}", outcome.result);
    }
}

#[test]
fn answers_that_fit_no_order() {
    finds(Plant::CachesEntries, "linearizable");
}

#[test]
fn homes_that_do_not_know() {
    finds(Plant::KeepsMapsFromHome, "routes");
}

#[test]
fn forwarding_records_that_leak() {
    finds(Plant::KeepsForwarding, "forwarding");
}

#[test]
fn numbers_given_out_twice() {
    finds(Plant::ReusesNumbers, "numbers");
}

#[test]
fn open_files_that_are_reclaimed() {
    finds(Plant::ForgetsOpens, "opens");
}

#[test]
fn locks_of_files_that_two_have() {
    finds(Plant::ForgetsFileLocks, "file-locks");
}

#[test]
fn names_that_are_believed_after_their_recall() {
    finds(Plant::KeepsRecalledNames, "linearizable");
}

#[test]
fn names_that_are_believed_after_the_end_of_their_lease() {
    finds(Plant::OutlivesLeases, "linearizable");
}

#[test]
fn attributes_that_are_believed_after_their_recall() {
    finds(Plant::KeepsRecalledAttributes, "attributes");
}

#[test]
fn operations_without_an_end() {
    finds(Plant::NeverRepeats, "progress");
}

#[test]
fn what_is_stored_otherwise_than_records_say() {
    finds(Plant::MistakesTime, "replayed");
}
