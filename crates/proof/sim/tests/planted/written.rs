//! Scenarios in which files with contents are written, cut, read and synced.

use pandofs_sim::Scenario;
use pandofs_sim::scenario::{Fault, Leasing, Loss, MILLISECOND, Op, Path, Planned, Shape, User};
use pandofs_testkit::rng::Rng;

/// Sectors of a file, and files that are written to.
const SECTORS: u64 = 24;
const FILES: u64 = 2;
/// Milliseconds in which that is done.
const WRITTEN: i64 = 2_500;

/// Two files are written, truncated, read and synced all the time, while servers lose power and what is sent comes late or,
/// between servers, twice.
pub(crate) fn written(seed: u64) -> Scenario {
    let mut rng = Rng::new(seed ^ 0xda7a_9e57);
    let planned = |at: i64, client, worker, op| Planned {
        at: at * MILLISECOND,
        client,
        worker,
        by: User::ROOT,
        op,
    };
    let file = |number: u64| Path(vec![format!("x{number}")]);
    let mut ops: Vec<Planned> = (0..FILES)
        .map(|number| planned(20, 0, 0, Op::Create(file(number))))
        .collect();
    for _ in 0..300 {
        let path = file(rng.below(FILES));
        let op = match rng.below(20) {
            0..8 => Op::WriteData {
                path,
                first: rng.below(SECTORS) as usize,
                count: 1 + rng.below(SECTORS) as usize,
            },
            8..13 => Op::ReadData(path),
            13..15 => Op::TruncateData(path, *rng.pick(&[1, 4, 12])),
            15..19 => Op::SyncData(path),
            _ if rng.chance(1, 4) => Op::Unlink(path),
            _ => Op::Create(path),
        };
        let at = 100 + rng.below(WRITTEN as u64 - 100) as i64;
        let client = rng.below(2) as usize;
        ops.push(planned(at, client, rng.below(2) as usize, op));
    }
    for number in 0..FILES {
        let read = Op::ReadData(file(number));
        ops.push(planned(WRITTEN + 1_000, 1, 0, read));
    }
    ops.sort_by_key(|planned| planned.at);
    let mut faults = Vec::new();
    for _ in 0..5 {
        let at = (200 + rng.below(WRITTEN as u64 - 300) as i64) * MILLISECOND;
        faults.push(Fault::Crash {
            at,
            server: rng.below(3) as u16,
            steps: 0,
            loss: Loss::Unsynced {
                kept: *rng.pick(&[0, 500, 1_000]),
                torn: false,
            },
            down: rng.below(30) as i64 * MILLISECOND,
        });
        let start = (100 + rng.below(WRITTEN as u64 - 300) as i64) * MILLISECOND;
        faults.push(Fault::Noise {
            start,
            end: start + 200 * MILLISECOND,
            lost: 10,
            twice: 300,
            delay: *rng.pick(&[5, 600]) * MILLISECOND,
        });
    }
    faults.sort_by_key(Fault::span);
    let whole = Scenario::from_seed(seed);
    let shape = Shape {
        servers: 3,
        shards: 4,
        clients: 2,
        workers: 2,
        skew: vec![0; 3],
        leases: Some(Leasing {
            room: (1_000, 1_500, 2_000),
            servers: vec![0; 3],
            clients: vec![0; 2],
        }),
        early: Vec::new(),
        ..whole.shape.clone()
    };
    Scenario {
        shape,
        ops,
        faults,
        healed: WRITTEN * MILLISECOND,
        ..whole
    }
}

/// As [`written`], and no server loses power: what is sent comes late all the time, so that much of it crosses a truncation.
pub(crate) fn written_late(seed: u64) -> Scenario {
    let mut scenario = written(seed);
    scenario.faults = vec![Fault::Noise {
        start: 100 * MILLISECOND,
        end: WRITTEN * MILLISECOND,
        lost: 0,
        twice: 0,
        delay: 20 * MILLISECOND,
    }];
    scenario
}

/// As [`written`], and no server loses power: some of what is sent takes longer than clients wait, so that they give the connection up
/// and write something else before it comes.
pub(crate) fn written_again(seed: u64) -> Scenario {
    written_slowly(seed, 15)
}

/// As [`written_again`], and much is late: a truncation is done by some objects long before it is by others.
pub(crate) fn written_while_cut(seed: u64) -> Scenario {
    written_slowly(seed, 40)
}

/// Messages sent in so many of each 100 ms are late.
fn written_slowly(seed: u64, late: i64) -> Scenario {
    let mut scenario = written(seed);
    let slow = (100..WRITTEN).step_by(100).map(|start| Fault::Noise {
        start: start * MILLISECOND,
        end: (start + late) * MILLISECOND,
        lost: 0,
        twice: 0,
        delay: 1_200 * MILLISECOND,
    });
    scenario.faults = slow.collect();
    scenario
}
