//! Exchange (`RENAME_EXCHANGE`): two names change places. The first name is here; what the other one leads
//! to is found out where it is, and what follows from that with it.

use super::rename::To;
use super::{Choices, Plan, PlanAnswer};
use crate::locks::Lock;
use crate::permission::{CHANGE, SEARCH, check_dir, must_own};
use crate::steps::moved;
use crate::{Locks, Stop, View};
use pandofs_api::{Refusal, Step, Swap, SwappedEntry};
use pandofs_types::{Credentials, FsError, Ino, Name};

pub fn plan(
    view: &View<'_>,
    locks: &Locks,
    caller: &Credentials,
    dir: Ino,
    name: &Name,
    other: To<'_>,
    choices: &Choices,
) -> Result<Plan, Stop> {
    let owned = view.owned(dir, name)?;
    locks.check(
        &Lock::Entry {
            dir,
            position: owned.position,
            name: name.clone(),
        },
        None,
    )?;
    check_dir(caller, SEARCH, &owned.parts)?;
    let entry = view
        .entry(dir, owned.position, name)?
        .ok_or(FsError::NotFound)?;
    check_dir(caller, CHANGE, &owned.parts)?;
    if other.shard.0 >= view.map.shard_count() {
        return Err(Refusal::NewNameMisdirected(None).into());
    }
    // A number that no shard gave out names no directory.
    if other.dir.birth_shard().0 >= view.map.shard_count() {
        return Err(FsError::NotFound.into());
    }
    let comes = SwappedEntry {
        ino: entry.ino,
        kind: entry.kind,
        shard: entry.shard,
    };
    let swap = |dir, name: &Name, other, own| {
        let swap = Swap {
            dir,
            name: name.clone(),
            other,
            comes,
            own,
            caller: caller.clone(),
            time: choices.time,
        };
        Step::Swap {
            swap: Box::new(swap),
        }
    };
    let mut steps = vec![
        (view.shard, swap(dir, name, other.dir, true)),
        (other.shard, swap(other.dir, other.name, dir, false)),
    ];
    let must_own = must_own(caller, &owned.parts);
    steps.extend(moved(
        &comes,
        dir,
        other.dir,
        must_own,
        caller,
        choices.time,
    )?);
    Ok(Plan {
        steps,
        answer: PlanAnswer::Exchanged { ino: entry.ino },
    })
}
