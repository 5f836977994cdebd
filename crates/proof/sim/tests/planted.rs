//! For each oracle something wrong that it must find, and in how many seeds it does.

#[path = "planted/away.rs"]
mod away;
#[path = "planted/merged.rs"]
mod merged;
#[path = "planted/written.rs"]
mod written;

use away::{away, away_and_early, away_and_restarted, away_and_synced, away_for_ever};
use merged::merged;
use pandofs_placement::DirPolicy;
use pandofs_sim::scenario::{
    AFTERWARDS, End, Fault, Leasing, Loss, MILLISECOND, Op, Path, Planned, Shape, User,
};
use pandofs_sim::{Plant, Scenario, Trace, run};
use pandofs_testkit::rng::Rng;
use std::collections::BTreeMap;
use written::{written, written_again, written_late, written_while_cut};

const SEEDS: u64 = 100;
/// Directories that are made, one after the other, where early names are looked at.
const ROUNDS: i64 = 6;
/// When the first of them is made, in milliseconds.
const FIRST_ROUND: i64 = 1_500;

/// Findings of a plant that are enough, in a part of [`SEEDS`] seeds that is as large as this is of its least.
const ENOUGH: u64 = 8;

/// Variable with which each plant has to be found as often as its least says: `make test-long` sets it.
const ALL: &str = "PANDOFS_PLANTED";

/// In place of an oracle: clients tell more of what they answered early to be lost than without the plant.
const LOSSES: &str = "losses";

/// Each plant, the oracle that is to find it, in how many of [`SEEDS`] seeds it did, and in how many it has to: about
/// half. So runs may come to be drawn otherwise, and it is seen when an oracle becomes nearly blind. To count anew, ask for
/// more than there are.
const FOUND: [(Plant, &str, u64, u64); 46] = [
    (Plant::KeepsPartition, "owners", 98, 50),
    (Plant::LosesEntry, "preserved", 97, 49),
    (Plant::Miscounts, "counts", 37, 16),
    (Plant::MiscountsLinks, "links", 56, 28),
    (Plant::LosesName, "inodes", 72, 36),
    (Plant::KeepsParent, "tree", 89, 44),
    (Plant::KeepsLocks, "locks", 100, 50),
    (Plant::Unsynced, "survives", 26, 16),
    (Plant::ForgetsDoubt, "once", 77, 38),
    (Plant::CachesEntries, "linearizable", 99, 49),
    (Plant::KeepsMapsFromHome, "routes", 59, 27),
    (Plant::KeepsForwarding, "forwarding", 73, 37),
    (Plant::ReusesNumbers, "numbers", 10, 3),
    (Plant::ForgetsOpens, "opens", 12, 6),
    (Plant::ForgetsFileLocks, "file-locks", 6, 3),
    (Plant::KeepsRecalledNames, "linearizable", 28, 15),
    (Plant::OutlivesLeases, "linearizable", 12, 7),
    (Plant::KeepsRecalledAttributes, "attributes", 100, 50),
    (Plant::NeverRepeats, "progress", 45, 22),
    (Plant::MistakesTime, "replayed", 100, 49),
    (Plant::AnswersRecallsAtOnce, "linearizable", 34, 17),
    (Plant::SyncsWithoutQueue, "early", 100, 50),
    (Plant::TellsNoLoss, "early", 61, 30),
    (Plant::SkipsBatches, "early", 67, 33),
    (Plant::BeginsAnewAtOnce, LOSSES, 9, 4),
    (Plant::KeepsOldMap, "maps", 100, 50),
    (Plant::LosesNewMap, "preserved", 36, 18),
    (Plant::AnswersAnybody, "rights", 14, 7),
    (Plant::KeepsRights, "rights", 28, 14),
    (Plant::KeepsValues, "xattr-values", 10, 5),
    (Plant::KeepsPaths, "paths", 10, 5),
    (Plant::KeepsSizes, "sizes", 35, 17),
    (Plant::TurnsTimesBack, "times", 91, 45),
    (Plant::BelievesWithoutQueue, "times", 79, 39),
    (Plant::TakesAnyCount, "contents", 10, 5),
    (Plant::TruncatesAgain, "contents", 3, 1),
    (Plant::LeavesStripe, "contents", 86, 43),
    (Plant::HearsAbandoned, "contents", 6, 3),
    (Plant::SyncsNothing, "synced-contents", 29, 14),
    (Plant::TakesLateSyncs, "synced-contents", 17, 8),
    (Plant::KeepsObjects, "objects", 99, 49),
    (Plant::StandsStill, "linearizable", 100, 50),
    (Plant::KeepsLostLocks, "file-locks", 100, 50),
    (Plant::KeepsExpired, "progress", 100, 50),
    (Plant::TakesLateBatches, "linearizable", 24, 12),
    (Plant::DropsMerged, "attributes", 100, 50),
];

fn finds(plant: Plant) {
    finds_in(plant, Scenario::from_seed);
}

fn finds_in(plant: Plant, make: impl Fn(u64) -> Scenario) {
    let row = FOUND.iter().find(|(known, ..)| *known == plant);
    let &(_, oracle, before, least) = row.expect("the table has every plant");
    let (seeds, least) = if least > ENOUGH && std::env::var_os(ALL).is_none() {
        ((SEEDS * ENOUGH).div_ceil(least), ENOUGH)
    } else {
        (SEEDS, least)
    };
    let mut found = 0;
    let mut others = BTreeMap::<String, u64>::new();
    for seed in 0..seeds {
        let scenario = Scenario {
            plant: Some(plant),
            ..make(seed)
        };
        match run(&scenario, Trace::none()).result {
            Err(finding) if finding.oracle == oracle => found += 1,
            Err(finding) => *others.entry(finding.oracle).or_default() += 1,
            Ok(planted) if oracle == LOSSES => {
                let plain = run(&make(seed), Trace::none()).result;
                let plain = plain.expect("nothing is planted").early_lost;
                found += u64::from(planted.early_lost > plain);
            }
            Ok(_) => {}
        }
        // Further seeds would not change what comes of it.
        if found >= least {
            return;
        }
    }
    panic!(
        "'{oracle}' finds {plant:?} in {found} of {seeds} seeds, where at least {least} are expected, as it did in {before} of \
         {SEEDS}; \
         others find it in {others:?}"
    );
}

#[test]
fn every_plant_is_to_be_found() {
    for plant in Plant::ALL {
        let is_of_it = |row: &&(Plant, &str, u64, u64)| row.0 == plant && row.3 > 0;
        assert_eq!(FOUND.iter().filter(is_of_it).count(), 1, "{plant:?}");
    }
}

#[test]
fn two_owners() {
    finds(Plant::KeepsPartition);
}

#[test]
fn entries_lost_on_their_way() {
    finds(Plant::LosesEntry);
}

#[test]
fn wrong_counts() {
    finds(Plant::Miscounts);
}

#[test]
fn wrong_numbers_of_links() {
    finds(Plant::MiscountsLinks);
}

#[test]
fn inodes_without_names() {
    finds(Plant::LosesName);
}

#[test]
fn two_parents() {
    finds(Plant::KeepsParent);
}

#[test]
fn locks_without_operations() {
    finds(Plant::KeepsLocks);
}

#[test]
fn promises_that_are_not_kept() {
    finds(Plant::Unsynced);
}

#[test]
fn requests_executed_twice() {
    finds_in(Plant::ForgetsDoubt, doubtful);
}

/// Two names are exchanged and the answer is lost; before it is asked for again, the client learns that one of the names
/// has gone to another shard.
fn doubtful(seed: u64) -> Scenario {
    let file = |number: u64| Path(vec![format!("f{number}")]);
    let planned = |at: i64, worker, op| Planned {
        at: at * MILLISECOND,
        client: 0,
        worker,
        by: User::ROOT,
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

/// One client looks at the modes of a few files, which another one changes, all the time. Leases are long and many, and
/// nothing but those changes takes them away.
fn attentive(seed: u64) -> Scenario {
    let file = |number: u64| Path(vec![format!("f{number}")]);
    let mut rng = Rng::new(seed ^ 0xa77e_4d1e);
    let planned = |at: i64, client, op| Planned {
        at: at * MILLISECOND,
        client,
        worker: 0,
        by: User::ROOT,
        op,
    };
    let mut ops: Vec<Planned> = (0..4)
        .map(|number| planned(10, 0, Op::Create(file(number))))
        .collect();
    for round in 0..100 {
        let at = 50 + 10 * round;
        ops.push(planned(at, 0, Op::Stat(file(rng.below(4)))));
        if rng.chance(1, 3) {
            let mode = *rng.pick(&[0o700, 0o755, 0o777]);
            ops.push(planned(at + 5, 1, Op::Chmod(file(rng.below(4)), mode)));
        }
    }
    let whole = Scenario::from_seed(seed);
    let servers = usize::from(whole.shape.servers);
    let shape = Shape {
        clients: 2,
        workers: 1,
        leases: Some(Leasing {
            room: (1_000, 1_500, 2_000),
            servers: vec![0; servers],
            clients: vec![0; 2],
        }),
        ..whole.shape.clone()
    };
    Scenario {
        shape,
        ops,
        faults: Vec::new(),
        healed: 1_100 * MILLISECOND,
        ..whole
    }
}

/// As [`newcomers`], and one of the first servers is killed once it has made some directories by the newer map.
fn newcomers_and_killed(seed: u64) -> Scenario {
    let mut scenario = newcomers(seed);
    scenario.faults.push(Fault::Crash {
        at: 1_500 * MILLISECOND,
        server: (seed % 2) as u16,
        steps: 0,
        loss: Loss::Nothing,
        down: 50 * MILLISECOND,
    });
    scenario
}

/// A server of four times the weight of two others joins, and directories are made before that and after it.
fn newcomers(seed: u64) -> Scenario {
    let made = |number: i64, at: i64| Planned {
        at: at * MILLISECOND,
        client: 0,
        worker: 0,
        by: User::ROOT,
        op: Op::Mkdir(Path(vec![format!("d{number}")])),
    };
    let mut ops: Vec<Planned> = (0..10).map(|number| made(number, 10)).collect();
    ops.extend((10..50).map(|number| made(number, 1_200 + 5 * number)));
    let healed = 2_000 * MILLISECOND;
    let afterwards = (healed + AFTERWARDS) / MILLISECOND;
    ops.extend((50..110).map(|number| made(number, afterwards + number)));
    let joins = Fault::Joins {
        at: 100 * MILLISECOND,
        weight: 4,
        starts: 0,
        told: u16::MAX,
        is_in_file: true,
    };
    let whole = Scenario::from_seed(seed);
    let shape = Shape {
        servers: 2,
        shards: 4,
        clients: 1,
        workers: 1,
        policy: DirPolicy::Random,
        skew: vec![0; 2],
        flush_after: 1_000_000,
        leases: None,
        ..whole.shape.clone()
    };
    Scenario {
        shape,
        ops,
        faults: vec![joins],
        healed,
        ..whole
    }
}

/// One client has early names. It makes directories, changes names in them and syncs them, and another one comes in just
/// then.
fn early(seed: u64) -> Scenario {
    let mut rng = Rng::new(seed ^ 0xea51_b12d);
    let mut ops = Vec::new();
    // So that both shards have on their disks, a second later, that the session may have grants.
    for number in 0..6 {
        let planned = |op| Planned {
            at: 20 * MILLISECOND,
            client: 0,
            worker: 0,
            by: User::ROOT,
            op,
        };
        let dir = format!("w{number}");
        ops.push(planned(Op::Mkdir(Path(vec![dir.clone()]))));
        for file in ["f0", "f1"] {
            let path = vec![dir.clone(), file.to_owned()];
            ops.push(planned(Op::Create(Path(path))));
        }
    }
    for round in 0..ROUNDS {
        let at = (FIRST_ROUND + 100 * round) * MILLISECOND;
        let path = |name: Option<&str>| {
            let dir = format!("p{round}");
            Path(
                [Some(dir), name.map(str::to_owned)]
                    .into_iter()
                    .flatten()
                    .collect(),
            )
        };
        let planned = |after: u64, client, op| Planned {
            at: at + after as i64 * MILLISECOND / 2,
            client,
            worker: 0,
            by: User::ROOT,
            op,
        };
        ops.push(planned(0, 0, Op::Mkdir(path(None))));
        ops.push(planned(0, 0, Op::Create(path(Some("f0")))));
        for after in 0..30 {
            let name = *rng.pick(&["f0", "f1"]);
            let op = match rng.below(8) {
                0..3 => Op::Unlink(path(Some(name))),
                3 => Op::Sync(path(None)),
                _ => Op::Create(path(Some(name))),
            };
            ops.push(planned(10 + after, 0, op));
        }
        for _ in 0..3 {
            let name = *rng.pick(&["f0", "f1"]);
            let after = 20 + rng.below(30);
            ops.push(planned(after, 1, Op::Lookup(path(Some(name)))));
        }
    }
    ops.sort_by_key(|planned| planned.at);
    let whole = Scenario::from_seed(seed);
    let shape = Shape {
        servers: 2,
        shards: 2,
        clients: 2,
        workers: 1,
        initial_partitions: 1,
        sync_every_batch: false,
        skew: vec![0; 2],
        leases: Some(Leasing {
            room: (1_000, 1_500, 2_000),
            servers: vec![0; 2],
            clients: vec![0; 2],
        }),
        early: vec![true, false],
        ..whole.shape.clone()
    };
    Scenario {
        shape,
        ops,
        faults: Vec::new(),
        healed: (FIRST_ROUND + 100 * ROUNDS) * MILLISECOND,
        ..whole
    }
}

/// As [`early`], and another worker of the same client looks up the directory while something in it is queued: it asks a
/// server, as it has just changed the name in vain, and believes what that said a moment later.
fn early_and_looked_up(seed: u64) -> Scenario {
    let mut rng = Rng::new(seed ^ 0x10c4_ed0b);
    let mut scenario = early(seed);
    scenario.shape.workers = 2;
    for round in 0..ROUNDS {
        for _ in 0..3 {
            let after = FIRST_ROUND + 100 * round + 5 + rng.below(20) as i64;
            let path = || Path(vec![format!("p{round}")]);
            for op in [Op::Create(path()), Op::Lookup(path()), Op::Lookup(path())] {
                scenario.ops.push(Planned {
                    at: after * MILLISECOND,
                    client: 0,
                    worker: 1,
                    by: User::ROOT,
                    op,
                });
            }
        }
    }
    scenario.ops.sort_by_key(|planned| planned.at);
    scenario
}

/// Workers of the client that looks at what the other one changes early.
const LOOKERS: usize = 4;

/// As [`early`], and servers die while names are changed, before others look: by loss of power, or else they are killed.
fn early_and_killed(seed: u64) -> Scenario {
    let mut rng = Rng::new(seed ^ 0x4b11_1ed0);
    let mut scenario = early(seed);
    scenario.shape.workers = LOOKERS;
    for round in 0..ROUNDS {
        let begins = FIRST_ROUND + 100 * round;
        let after = begins + 5 + rng.below(20) as i64;
        let of_round = begins * MILLISECOND..(begins + 100) * MILLISECOND;
        let looks = |planned: &&mut Planned| planned.client == 1 && of_round.contains(&planned.at);
        for planned in scenario.ops.iter_mut().filter(looks) {
            planned.at = (after + 1 + rng.below(14) as i64) * MILLISECOND;
        }
        for worker in 1..LOOKERS {
            let path = vec![format!("p{round}"), format!("f{}", rng.below(2))];
            scenario.ops.push(Planned {
                at: (after + 1 + rng.below(14) as i64) * MILLISECOND,
                client: 1,
                worker,
                by: User::ROOT,
                op: Op::Lookup(Path(path)),
            });
        }
        let all = Loss::Unsynced {
            kept: 0,
            torn: false,
        };
        scenario.faults.push(Fault::Crash {
            at: after * MILLISECOND,
            server: rng.below(2) as u16,
            steps: 0,
            loss: if rng.chance(1, 2) { all } else { Loss::Nothing },
            down: 10 * MILLISECOND,
        });
    }
    scenario.ops.sort_by_key(|planned| planned.at);
    scenario
}

#[test]
fn what_is_planted_is_what_is_found() {
    for seed in 0..SEEDS {
        for scenario in [
            doubtful(seed),
            attentive(seed),
            newcomers(seed),
            newcomers_and_killed(seed),
            early(seed),
            early_and_killed(seed),
            early_and_looked_up(seed),
            written(seed),
            written_late(seed),
            written_again(seed),
            written_while_cut(seed),
            away(seed),
            away_and_early(seed),
            away_and_synced(seed),
            away_and_restarted(seed),
            away_for_ever(seed),
            merged(seed),
        ] {
            let outcome = run(&scenario, Trace::none());
            assert!(outcome.result.is_ok(), "{:?}", outcome.result);
        }
    }
}

#[test]
fn answers_that_fit_no_order() {
    finds(Plant::CachesEntries);
}

#[test]
fn homes_that_do_not_know() {
    finds(Plant::KeepsMapsFromHome);
}

#[test]
fn forwarding_records_that_leak() {
    finds(Plant::KeepsForwarding);
}

#[test]
fn numbers_given_out_twice() {
    finds(Plant::ReusesNumbers);
}

#[test]
fn open_files_that_are_reclaimed() {
    finds(Plant::ForgetsOpens);
}

#[test]
fn locks_of_files_that_two_have() {
    finds(Plant::ForgetsFileLocks);
}

#[test]
fn names_that_are_believed_after_their_recall() {
    finds(Plant::KeepsRecalledNames);
}

#[test]
fn names_that_are_believed_after_the_end_of_their_lease() {
    finds(Plant::OutlivesLeases);
}

#[test]
fn attributes_that_are_believed_after_their_recall() {
    finds_in(Plant::KeepsRecalledAttributes, attentive);
}

#[test]
fn names_that_are_told_to_anybody() {
    finds(Plant::AnswersAnybody);
}

#[test]
fn rights_that_do_not_reach_names() {
    finds(Plant::KeepsRights);
}

#[test]
fn values_of_attributes_that_stay() {
    finds(Plant::KeepsValues);
}

#[test]
fn path_records_that_changes_pass_by() {
    finds(Plant::KeepsPaths);
}

#[test]
fn files_that_are_not_cut() {
    finds(Plant::KeepsSizes);
}

#[test]
fn times_that_go_back() {
    finds(Plant::TurnsTimesBack);
}

#[test]
fn attributes_that_are_believed_without_what_is_queued() {
    finds_in(Plant::BelievesWithoutQueue, early_and_looked_up);
}

#[test]
fn leases_that_are_believed_by_who_stood_still() {
    finds_in(Plant::StandsStill, away);
}

#[test]
fn lost_locks_that_are_believed() {
    finds_in(Plant::KeepsLostLocks, away);
}

#[test]
fn sessions_that_keep_what_they_have() {
    finds_in(Plant::KeepsExpired, away_for_ever);
}

#[test]
fn what_was_executed_under_grants_that_are_over() {
    finds_in(Plant::TakesLateBatches, away_and_early);
}

#[test]
fn merged_changes_of_which_a_part_is_left_out() {
    finds_in(Plant::DropsMerged, merged);
}

#[test]
fn operations_without_an_end() {
    finds(Plant::NeverRepeats);
}

#[test]
fn shards_that_go_on_by_an_old_map() {
    finds_in(Plant::KeepsOldMap, newcomers);
}

#[test]
fn maps_that_are_lost_at_a_restart() {
    finds_in(Plant::LosesNewMap, newcomers_and_killed);
}

#[test]
fn what_is_stored_otherwise_than_records_say() {
    finds(Plant::MistakesTime);
}

#[test]
fn granted_directories_that_are_let_go_of_too_early() {
    finds_in(Plant::AnswersRecallsAtOnce, early);
}

#[test]
fn syncs_that_do_not_wait_for_early_operations() {
    finds_in(Plant::SyncsWithoutQueue, early);
}

#[test]
fn losses_that_nobody_is_told_of() {
    finds_in(Plant::TellsNoLoss, away_and_synced);
}

#[test]
fn batches_without_those_before_them() {
    finds_in(Plant::SkipsBatches, early);
}

#[test]
fn sessions_that_begin_anew_too_early() {
    finds_in(Plant::BeginsAnewAtOnce, early_and_killed);
}

#[test]
fn writes_from_before_a_truncation() {
    finds_in(Plant::TakesAnyCount, written_late);
}

#[test]
fn truncations_that_are_carried_out_twice() {
    finds_in(Plant::TruncatesAgain, written);
}

#[test]
fn stripes_that_are_not_truncated() {
    finds_in(Plant::LeavesStripe, written);
}

#[test]
fn writes_over_connections_that_were_given_up() {
    finds_in(Plant::HearsAbandoned, written_again);
}

#[test]
fn syncs_that_sync_nothing() {
    finds_in(Plant::SyncsNothing, written);
}

#[test]
fn syncs_that_come_too_late() {
    finds_in(Plant::TakesLateSyncs, written);
}

#[test]
fn data_objects_that_are_left_behind() {
    finds_in(Plant::KeepsObjects, written);
}
