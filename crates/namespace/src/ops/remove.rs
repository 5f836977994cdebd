//! Unlink and rmdir: the entry goes here, the inode loses a name where it is.

use super::{Choices, Plan, PlanAnswer};
use crate::locks::Lock;
use crate::permission::{CHANGE, SEARCH, check_dir, must_own};
use crate::{Locks, Stop, View};
use pandofs_api::Step;
use pandofs_types::{Credentials, FileKind, FsError, Ino, Name};

/// `directory`: rmdir, otherwise unlink.
pub fn plan(
    view: &View<'_>,
    locks: &Locks,
    caller: &Credentials,
    dir: Ino,
    name: &Name,
    directory: bool,
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
    match (directory, entry.kind == FileKind::Dir) {
        (true, false) => return Err(FsError::NotDir.into()),
        (false, true) => return Err(FsError::IsDir.into()),
        _ => {}
    }
    let must_own = must_own(caller, &owned.parts);
    let time = choices.time;
    let remove = Step::Remove {
        dir,
        name: name.clone(),
        ino: entry.ino,
        caller: caller.clone(),
        time,
    };
    let free = if directory {
        Step::DropDir {
            dir: entry.ino,
            must_own,
        }
    } else {
        Step::Unlink {
            ino: entry.ino,
            must_own,
            time,
        }
    };
    Ok(Plan {
        steps: vec![(view.shard, remove), (entry.shard, free)],
        answer: PlanAnswer::Removed { ino: entry.ino },
    })
}
