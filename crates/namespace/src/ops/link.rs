//! Link: a further name for a file.

use super::{Choices, Plan, PlanAnswer};
use crate::locks::Lock;
use crate::permission::{CHANGE, SEARCH, check_dir};
use crate::{Locks, Stop, View};
use pandofs_api::Step;
use pandofs_types::{Credentials, FileKind, FsError, Ino, Name, ShardId};

#[allow(clippy::too_many_arguments)]
pub fn plan(
    view: &View<'_>,
    locks: &Locks,
    caller: &Credentials,
    dir: Ino,
    name: &Name,
    ino: Ino,
    inode_shard: ShardId,
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
    if view.entry(dir, owned.position, name)?.is_some() {
        return Err(FsError::Exists.into());
    }
    check_dir(caller, CHANGE, &owned.parts)?;
    if inode_shard.0 >= view.map.shard_count() {
        return Err(FsError::Stale.into());
    }
    let insert = Step::Insert {
        dir,
        name: name.clone(),
        ino: None,
        kind: FileKind::File,
        shard: inode_shard,
        replace: false,
        caller: caller.clone(),
        time: choices.time,
    };
    Ok(Plan {
        steps: vec![
            (view.shard, insert),
            (
                inode_shard,
                Step::Link {
                    ino,
                    time: choices.time,
                },
            ),
        ],
        answer: PlanAnswer::Made { shard: inode_shard },
    })
}
