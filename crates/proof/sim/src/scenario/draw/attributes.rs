//! Attributes: operations on a few inodes' own, in some runs.

use super::{MILLISECOND, Moment, Op, Path, Planned, Shape, TROUBLED};
use pandofs_api::XattrMode;
use pandofs_testkit::rng::Rng;

const OPERATIONS: u64 = 120;
/// Paths that they are about, so few that they meet.
const PATHS: u64 = 5;
/// Bytes of a file that is cut or written to, about.
const LONGEST: u64 = 100;

/// In one of two runs; by numbers of its own, as [`memory`](super::memory).
pub(crate) fn attributes(rng: &mut Rng, shape: &Shape, ops: &mut Vec<Planned>) {
    if !rng.chance(1, 2) {
        return;
    }
    let made: Vec<&Path> = ops
        .iter()
        .filter_map(|planned| match &planned.op {
            Op::Create(path) | Op::Mkdir(path) => Some(path),
            _ => None,
        })
        .collect();
    let hot: Vec<Path> = (0..PATHS).map(|_| (*rng.pick(&made)).clone()).collect();
    let mut added = Vec::new();
    for _ in 0..OPERATIONS {
        // When others do something, often the same client.
        let near = rng.pick(ops).clone();
        if near.at >= TROUBLED {
            continue;
        }
        let client = match rng.chance(1, 2) {
            true => near.client,
            false => rng.below(shape.clients as u64) as usize,
        };
        let path = rng.pick(&hot).clone();
        added.push(Planned {
            at: near.at + rng.below(20 * MILLISECOND as u64) as Moment,
            client,
            worker: rng.below(shape.workers as u64) as usize,
            op: match rng.below(5) {
                0..2 => of_xattrs(rng, path),
                2..4 => of_contents(rng, path),
                _ => Op::Stat(path),
            },
            ..near
        });
    }
    ops.extend(added);
    ops.sort_by_key(|planned| planned.at);
}

fn of_contents(rng: &mut Rng, path: Path) -> Op {
    match rng.below(8) {
        0..3 => Op::Truncate(path, rng.below(LONGEST)),
        3..6 => Op::Write {
            path,
            offset: rng.below(LONGEST),
            length: 1 + rng.below(LONGEST) as usize,
        },
        _ => Op::Utimens(path, rng.below(1 << 40) as i64),
    }
}

fn of_xattrs(rng: &mut Rng, path: Path) -> Op {
    let name = rng.below(2) as usize;
    match rng.below(10) {
        0..4 => Op::SetXattr {
            path,
            name,
            value: rng.below(256) as u8,
            mode: *rng.pick(&[
                XattrMode::Either,
                XattrMode::Either,
                XattrMode::Create,
                XattrMode::Replace,
            ]),
        },
        4 => Op::RemoveXattr(path, name),
        5..9 => Op::GetXattr(path, name),
        _ => Op::ListXattr(path),
    }
}
