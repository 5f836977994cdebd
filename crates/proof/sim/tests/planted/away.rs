//! Scenarios in which a client stands still for longer than servers keep its session.

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

fn stopped(seed: u64, mut ops: Vec<Planned>, early: bool) -> Scenario {
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
        early: vec![early, false],
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
    stopped(seed, ops, false)
}

/// It has changed names early when it stands still, which another one looks at and changes before it goes on.
pub(crate) fn away_and_early(seed: u64) -> Scenario {
    let mut rng = Rng::new(seed ^ 0xa3a1_ea51);
    let path = |name: Option<&str>| {
        let names = [Some("p"), name].into_iter().flatten();
        Path(names.map(str::to_owned).collect())
    };
    let mut ops = vec![planned(20 * MILLISECOND, 0, 0, Op::Mkdir(path(None)))];
    for number in 0..6 {
        let name = format!("g{number}");
        ops.push(planned(
            20 * MILLISECOND,
            0,
            0,
            Op::Create(path(Some(&name))),
        ));
        ops.push(planned(
            STOPS - SECOND / 2,
            0,
            0,
            Op::Unlink(path(Some(&name))),
        ));
    }
    let change = |rng: &mut Rng| {
        let name = *rng.pick(&["f0", "f1"]);
        match rng.below(2) {
            0 => Op::Unlink(path(Some(name))),
            _ => Op::Create(path(Some(name))),
        }
    };
    for _ in 0..30 {
        let at = STOPS - 1 - rng.below(30 * MILLISECOND as u64) as Moment;
        ops.push(planned(at, 0, 0, change(&mut rng)));
    }
    for _ in 0..8 {
        let at = GOES_ON - 1 - rng.below(2 * SECOND as u64) as Moment;
        ops.push(planned(at, 1, 0, change(&mut rng)));
        let name = *rng.pick(&["f0", "f1"]);
        ops.push(planned(at, 1, 0, Op::Lookup(path(Some(name)))));
    }
    for after in 0..3 {
        let at = GOES_ON + after * SECOND / 10;
        for (client, name) in [(0, "f0"), (0, "f1"), (1, "f0"), (1, "f1")] {
            ops.push(planned(at, client, 1, Op::Lookup(path(Some(name)))));
        }
        ops.push(planned(at, 0, 0, Op::Sync(path(None))));
    }
    stopped(seed, ops, true)
}

/// The same, and servers start again just before it goes on.
pub(crate) fn away_and_restarted(seed: u64) -> Scenario {
    let mut rng = Rng::new(seed ^ 0x4e57_a347);
    let mut scenario = away_and_early(seed);
    for server in 0..2 {
        scenario.faults.push(Fault::Crash {
            at: GOES_ON - 1 - rng.below(SECOND as u64 / 2) as Moment,
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
