//! Scenarios in which a client stands still for longer than servers keep its session.

use super::{FIRST_ROUND, early};
use pandofs_placement::DirPolicy;
use pandofs_sim::Scenario;
use pandofs_sim::scenario::{
    Fault, Leasing, Loss, MILLISECOND, Moment, Op, Path, Planned, SECOND, Shape, User,
};
use pandofs_testkit::rng::Rng;
use pandofs_types::LockKind;
use pandofs_types::limits::LEASE;

/// When the client stands still, and goes on.
const STOPS: Moment = 2 * SECOND;
const GOES_ON: Moment = STOPS + 15 * SECOND;
/// Names that it knows, which another client changes meanwhile.
const NAMES: u64 = 4;

fn planned(at: Moment, client: usize, worker: usize, op: Op) -> Planned {
    Planned {
        at,
        client,
        worker,
        by: User::ROOT,
        op,
    }
}

fn stopped(seed: u64, mut ops: Vec<Planned>) -> Scenario {
    ops.sort_by_key(|planned| planned.at);
    let whole = Scenario::from_seed(seed);
    let shape = Shape {
        servers: 2,
        shards: 2,
        clients: 2,
        workers: 2,
        policy: DirPolicy::Random,
        initial_partitions: 1,
        sync_every_batch: false,
        skew: vec![0; 2],
        leases: Some(Leasing {
            room: (1_000, 1_500, 2_000),
            servers: vec![0; 2],
            clients: vec![0; 2],
        }),
        early: Vec::new(),
        session_timeout: LEASE + LEASE / 5,
        ..whole.shape.clone()
    };
    Scenario {
        shape,
        ops,
        faults: vec![Fault::Stopped {
            client: 0,
            start: STOPS,
            end: GOES_ON,
        }],
        healed: GOES_ON + SECOND,
        ..whole
    }
}

/// It has looked at names, and has files open and locked, that another one changes and locks; and looks at them and locks them
/// as soon as it goes on.
pub(crate) fn away(seed: u64) -> Scenario {
    let mut rng = Rng::new(seed ^ 0xa3a1);
    let file = |number: u64| Path(vec![format!("f{number}")]);
    let lock = |place| Op::Lock {
        place,
        kind: LockKind::Record,
        is_exclusive: true,
        range: None,
        waits: false,
    };
    let mut ops = Vec::new();
    for number in 0..NAMES {
        let place = number as usize;
        ops.push(planned(10 * MILLISECOND, 0, 0, Op::Create(file(number))));
        for (client, at) in [(0, STOPS - SECOND), (1, STOPS)] {
            let open = Op::Open {
                path: file(number),
                truncate: false,
            };
            ops.push(planned(at, client, 0, open));
        }
        ops.push(planned(STOPS - SECOND / 2, 0, 0, lock(place)));
        ops.push(planned(STOPS - SECOND / 10, 0, 0, Op::Lookup(file(number))));
        let meanwhile = GOES_ON - SECOND + rng.below(SECOND as u64 / 2) as Moment;
        ops.push(planned(meanwhile, 1, 0, lock(place)));
        let change = match rng.below(3) {
            0 => Op::Unlink(file(number)),
            1 => Op::Chmod(file(number), 0o700),
            _ => Op::Rename {
                from: file(number),
                to: file((number + 1) % NAMES),
                no_replace: false,
                whiteout: false,
            },
        };
        ops.push(planned(meanwhile, 1, 1, change));
        ops.push(planned(GOES_ON - 1, 0, 1, Op::Lookup(file(number))));
        ops.push(planned(GOES_ON + SECOND / 2, 0, 0, Op::StatOpen(place)));
    }
    stopped(seed, ops)
}

/// As [`away`], and it does not come back.
pub(crate) fn away_for_ever(seed: u64) -> Scenario {
    let mut scenario = away(seed);
    scenario.faults = vec![Fault::ClientGone {
        client: 0,
        at: STOPS,
    }];
    scenario
}

/// As [`early`], and it stands still in the middle of a round, before the other one comes in, which looks at names and changes
/// them before it goes on.
pub(crate) fn away_and_early(seed: u64) -> Scenario {
    let mut rng = Rng::new(seed ^ 0xa3a1_ea51);
    let mut scenario = early(seed);
    let round = FIRST_ROUND * MILLISECOND;
    let stops = round + (10 + rng.below(10) as i64) * MILLISECOND;
    let goes_on = stops + GOES_ON - STOPS;
    let is_kept = |planned: &Planned| planned.client == 0 && planned.at < round + SECOND / 10;
    scenario.ops.retain(is_kept);
    let path = |name: &str| Path(vec!["p0".to_owned(), name.to_owned()]);
    for name in ["f0", "f1"] {
        for _ in 0..6 {
            let at = goes_on - 1 - rng.below(2 * SECOND as u64) as Moment;
            let op = match rng.below(4) {
                0 => Op::Unlink(path(name)),
                1 => Op::Create(path(name)),
                _ => Op::Lookup(path(name)),
            };
            scenario.ops.push(planned(at, 1, 0, op));
        }
        for after in 0..3 {
            let at = goes_on + after * SECOND / 10;
            scenario.ops.push(planned(at, 0, 0, Op::Lookup(path(name))));
            scenario.ops.push(planned(at, 1, 0, Op::Lookup(path(name))));
        }
    }
    scenario.ops.sort_by_key(|planned| planned.at);
    scenario.faults = vec![Fault::Stopped {
        client: 0,
        start: stops,
        end: goes_on,
    }];
    scenario.healed = goes_on + SECOND;
    scenario.shape.session_timeout = LEASE + LEASE / 5;
    scenario
}

/// The same, and it syncs the directory after it went on, which is to tell what was lost meanwhile.
pub(crate) fn away_and_synced(seed: u64) -> Scenario {
    let mut scenario = away_and_early(seed);
    let path = Path(vec!["p0".to_owned()]);
    let at = scenario.healed - SECOND / 2;
    scenario.ops.push(planned(at, 0, 0, Op::Sync(path)));
    scenario.ops.sort_by_key(|planned| planned.at);
    scenario
}

/// As [`away_and_early`], and servers start again just before it goes on.
pub(crate) fn away_and_restarted(seed: u64) -> Scenario {
    let mut rng = Rng::new(seed ^ 0x4e57_a347);
    let mut scenario = away_and_early(seed);
    for server in 0..2 {
        scenario.faults.push(Fault::Crash {
            at: scenario.healed - SECOND - 1 - rng.below(SECOND as u64 / 2) as Moment,
            server,
            steps: 0,
            loss: Loss::Nothing,
            down: 10 * MILLISECOND,
        });
    }
    // Not so long that servers let go of the session before.
    scenario.shape.session_timeout = 4 * LEASE;
    scenario
}
