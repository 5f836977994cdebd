//! Clients that stand still for a while, or are cut off from one server, and go on afterwards; by numbers of its own, as
//! [`memory`](super::memory).

use super::{DIRS, POPULATED};
use crate::scenario::{
    End, Fault, MILLISECOND, Moment, Op, Path, Planned, SECOND, Shape, TROUBLED, User,
};
use pandofs_testkit::rng::Rng;
use pandofs_types::LockKind;
use pandofs_types::limits::LEASE;
use std::time::Duration;

/// Sessions are kept for longer than leases last, as servers have it.
const KEPT: Duration = Duration::from_secs(LEASE.as_secs() + 2);
/// Operations of others while a client is away, and of that client as soon as it goes on.
const OPS: u64 = 60;
/// From this much before a client is away, and for as long after it is back, what it knows is what others change.
const AROUND: Moment = 150 * MILLISECOND;
/// After the last client is back faults end.
const BACK: Moment = SECOND;

/// Returns when all is healed.
pub(in crate::scenario) fn stopped(
    rng: &mut Rng,
    shape: &mut Shape,
    ops: &mut Vec<Planned>,
    faults: &mut Vec<Fault>,
) -> Moment {
    if shape.clients < 2 || !rng.chance(1, 4) {
        return TROUBLED;
    }
    shape.session_timeout = KEPT;
    let kept = KEPT.as_nanos() as Moment;
    let mut healed = TROUBLED;
    let first = rng.below(shape.clients as u64) as usize;
    for away in 0..=rng.below(3) / 2 {
        let client = (first + away as usize) % shape.clients;
        let span = (TROUBLED - POPULATED) as u64 * 9 / 10;
        let start = POPULATED + AROUND + rng.below(span) as Moment;
        let lasts = match rng.below(6) {
            0 => rng.below(SECOND as u64) as Moment,
            // About when its leases end.
            1 => LEASE.as_nanos() as Moment - SECOND + rng.below(2 * SECOND as u64) as Moment,
            _ => kept + SECOND + rng.below(2 * SECOND as u64) as Moment,
        };
        let end = start + lasts;
        if rng.chance(2, 3) {
            faults.push(Fault::Stopped { client, start, end });
        } else {
            let server = End::Server(rng.below(u64::from(shape.servers)) as u16);
            let client = End::Client(client);
            for (from, to) in [(client, server), (server, client)] {
                faults.push(Fault::Cut {
                    from,
                    to,
                    start,
                    end,
                });
            }
        }
        around(rng, shape, ops, (client, start, end));
        healed = healed.max(end + BACK);
    }
    // Operations that come once all is healed come that much later.
    for planned in ops
        .iter_mut()
        .filter(|planned| planned.at > TROUBLED + BACK)
    {
        let is_afterwards = matches!(&planned.op, Op::Mkdir(path) if is_afterwards(path));
        if is_afterwards {
            planned.at += healed - TROUBLED;
        }
    }
    ops.sort_by_key(|planned| planned.at);
    faults.sort_by_key(Fault::span);
    healed
}

fn is_afterwards(path: &Path) -> bool {
    path.0.first().is_some_and(|name| name.starts_with("after"))
}

/// Names that the client comes to know, or changes, right before it is away; which others change while it is; and which it
/// asks for, and changes, once it is back.
fn around(
    rng: &mut Rng,
    shape: &Shape,
    ops: &mut Vec<Planned>,
    (client, start, end): (usize, Moment, Moment),
) {
    let own = match shape.early.is_empty() {
        true => *rng.pick(&DIRS),
        false => ["p0", "p1", "p2"][client % 3],
    };
    for number in 0..OPS {
        let (at, by) = match number % 3 {
            0 => (start - rng.below(AROUND as u64) as Moment, client),
            // Half of it when all is over that the client had; the rest as it happens.
            1 => {
                let within = (end - start).min(2 * SECOND) as u64;
                let at = match rng.chance(1, 2) {
                    true => end - rng.below(within.max(1)) as Moment,
                    false => start + rng.below((end - start).max(1) as u64) as Moment,
                };
                let others = shape.clients - 1;
                (
                    at,
                    (client + 1 + rng.below(others as u64) as usize) % shape.clients,
                )
            }
            // Half of it is what its programs want as soon as it goes on.
            _ => (
                end - MILLISECOND + rng.below(2) as Moment * rng.below(AROUND as u64) as Moment,
                client,
            ),
        };
        let file = |rng: &mut Rng| Path(vec![own.to_owned(), format!("f{}", rng.below(3))]);
        let place = rng.below(4) as usize;
        let kind = *rng.pick(&[LockKind::Flock, LockKind::Record]);
        let op = match rng.below(16) {
            0..3 => Op::Create(file(rng)),
            3..5 => Op::Unlink(file(rng)),
            5 => Op::Rename {
                from: file(rng),
                to: file(rng),
                no_replace: false,
                whiteout: false,
            },
            6..9 => Op::Lookup(file(rng)),
            9 => Op::Stat(file(rng)),
            10 => Op::Chmod(file(rng), *rng.pick(&[0o700, 0o755, 0o777])),
            11 => Op::Sync(Path(vec![own.to_owned()])),
            12 => Op::Open {
                path: file(rng),
                truncate: false,
            },
            13 => Op::StatOpen(place),
            _ => Op::Lock {
                place,
                kind,
                is_exclusive: rng.chance(2, 3),
                range: None,
                waits: rng.chance(1, 2),
            },
        };
        ops.push(Planned {
            at,
            client: by,
            worker: rng.below(shape.workers as u64) as usize,
            by: User::ROOT,
            op,
        });
    }
}
