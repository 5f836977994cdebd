//! A scenario in which a client changes owner, permission bits and times of each file that it makes, all early, as `tar` does.

use super::{FIRST_ROUND, ROUNDS, early};
use pandofs_sim::Scenario;
use pandofs_sim::scenario::{MILLISECOND, Op, Path, Planned, User};
use pandofs_testkit::rng::Rng;

/// As [`early`], and another one looks at the files a moment later.
pub(crate) fn merged(seed: u64) -> Scenario {
    let mut rng = Rng::new(seed ^ 0x3e46_ed00);
    let mut scenario = early(seed);
    for round in 0..ROUNDS {
        let at = FIRST_ROUND + 100 * round + 2;
        for number in 0..3 {
            let path = || Path(vec![format!("p{round}"), format!("m{number}")]);
            let planned = |at: i64, client, op| Planned {
                at: at * MILLISECOND,
                client,
                worker: 0,
                by: User::ROOT,
                op,
            };
            let mode = *rng.pick(&[0o700, 0o755, 0o777]);
            let chown = Op::Chown {
                path: path(),
                uid: Some(1 + rng.below(3) as u32),
                gid: None,
            };
            for op in [
                Op::Create(path()),
                Op::Chmod(path(), mode),
                chown,
                Op::Utimens(path(), 1_000 + rng.below(9) as i64),
            ] {
                scenario.ops.push(planned(at, 0, op));
            }
            scenario.ops.push(planned(at + 60, 1, Op::Stat(path())));
        }
    }
    scenario.ops.sort_by_key(|planned| planned.at);
    scenario
}
