//! Users: in whose name things are done, in some runs, and rights and owners that change meanwhile.

use super::{MILLISECOND, Moment, Op, POPULATED, Path, Planned, Shape, TROUBLED, User};
use pandofs_testkit::rng::Rng;

/// Changes of rights and owners, of whatever other operations are about.
const CHANGES: u64 = 80;
/// Rights with which somebody else comes in.
const WIDE: [u16; 3] = [0o777, 0o1777, 0o775];
const MODES: [u16; 13] = [
    0o777, 0o777, 0o777, 0o1777, 0o1777, 0o775, 0o755, 0o711, 0o733, 0o750, 0o700, 0o070, 0o555,
];

fn anybody(rng: &mut Rng) -> User {
    User(1 + rng.below(u64::from(User::OTHERS)) as u8)
}

/// In one of three runs; by numbers of its own, as [`memory`](super::memory).
pub(crate) fn users(rng: &mut Rng, shape: &Shape, ops: &mut Vec<Planned>) {
    if !rng.chance(1, 3) {
        return;
    }
    let mut changes = vec![Planned {
        at: 0,
        client: 0,
        worker: 0,
        by: User::ROOT,
        op: Op::Chmod(Path(Vec::new()), *rng.pick(&WIDE)),
    }];
    let troubled = ops.iter_mut().filter(|planned| planned.at < TROUBLED);
    for planned in troubled {
        if planned.at > POPULATED && rng.chance(1, 2) {
            planned.by = anybody(rng);
        }
        if let Op::Mkdir(path) = &planned.op
            && planned.by == User::ROOT
            && rng.chance(2, 3)
        {
            changes.push(Planned {
                at: planned.at + 1,
                op: Op::Chmod(path.clone(), *rng.pick(&WIDE)),
                ..planned.clone()
            });
        }
    }
    for _ in 0..CHANGES {
        let paths = rng.pick(ops).op.paths();
        let Some(path) = paths.first().copied() else {
            continue;
        };
        let mut path = path.clone();
        if rng.chance(2, 3) {
            path.0.pop();
        }
        let op = match rng.below(4) {
            0 => Op::Chown {
                path,
                uid: rng.chance(2, 3).then(|| anybody(rng).0.into()),
                gid: rng.chance(1, 2).then(|| *rng.pick(&[0, 1, 2, User::GROUP])),
            },
            _ => Op::Chmod(path, *rng.pick(&MODES)),
        };
        let span = (TROUBLED - POPULATED) as u64 * 9 / 10;
        changes.push(Planned {
            at: POPULATED + MILLISECOND + rng.below(span) as Moment,
            client: rng.below(shape.clients as u64) as usize,
            worker: rng.below(shape.workers as u64) as usize,
            by: match rng.chance(1, 3) {
                true => anybody(rng),
                false => User::ROOT,
            },
            op,
        });
    }
    ops.extend(changes);
    ops.sort_by_key(|planned| planned.at);
}
