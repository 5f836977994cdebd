//! Contents: files that are written, truncated, read and synced, in some runs.

use super::{MILLISECOND, Moment, Op, POPULATED, Path, Planned, SECOND, Shape, TROUBLED, User};
use crate::history::SECTORS;
use pandofs_testkit::rng::Rng;

const OPERATIONS: u64 = 70;
/// Files that they are about, so few that they meet.
const FILES: u64 = 3;
/// When all is healed, and before servers that joined are looked at.
const LOOK: Moment = TROUBLED + SECOND;

fn file(rng: &mut Rng) -> Path {
    Path(vec![format!("x{}", rng.below(FILES))])
}

/// In one of two runs without early names, a third of all; by numbers of its own, as [`memory`](super::memory).
pub(crate) fn contents(rng: &mut Rng, shape: &Shape, ops: &mut Vec<Planned>) {
    if shape.early.contains(&true) || !rng.chance(1, 2) {
        return;
    }
    let planned = |at, client, worker, op| Planned {
        at,
        client,
        worker,
        by: User::ROOT,
        op,
    };
    let mut added = Vec::new();
    for number in 0..FILES {
        let path = Path(vec![format!("x{number}")]);
        added.push(planned(POPULATED / 2, 0, 0, Op::Create(path)));
    }
    for _ in 0..OPERATIONS {
        // When others do something.
        let near = rng.pick(ops).at;
        if !(POPULATED..TROUBLED).contains(&near) {
            continue;
        }
        let at = near + rng.below(20 * MILLISECOND as u64) as Moment;
        let path = file(rng);
        let op = match rng.below(24) {
            0..9 => Op::WriteData {
                path,
                first: rng.below(SECTORS as u64) as usize,
                count: 1 + rng.below(SECTORS as u64) as usize,
            },
            9..15 => Op::ReadData(path),
            15..18 => Op::TruncateData(path, *rng.pick(&[1, 1, 4, 12])),
            18..21 => Op::SyncData(path),
            21 => Op::Create(path),
            22 => Op::Unlink(path),
            _ => Op::Rename {
                from: path,
                to: file(rng),
                no_replace: false,
                whiteout: false,
            },
        };
        let client = rng.below(shape.clients as u64) as usize;
        let worker = rng.below(shape.workers as u64) as usize;
        added.push(planned(at, client, worker, op));
    }
    for client in 0..shape.clients {
        for number in 0..FILES {
            let path = Path(vec![format!("x{number}")]);
            added.push(planned(LOOK, client, 0, Op::ReadData(path)));
        }
    }
    ops.extend(added);
    ops.sort_by_key(|planned| planned.at);
}
