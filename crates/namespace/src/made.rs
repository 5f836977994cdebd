//! Directories that an undecided operation is making here, and who has to wait for them.
//!
//! The bad interleaving without it: the home of a new directory is prepared to make it; the coordinator commits and
//! answers; the client asks the home, which it knows from the answer, for something in the directory before the home
//! has heard of the outcome, and is told that there is no such directory. Where the home decides itself, as in S2PC-MP
//! between two shards, this cannot happen; where the coordinator decides it does, in most operations.

use crate::locks::Lock;
use crate::{Locks, Stop};
use pandofs_api::{Request, Step};
use pandofs_types::{Ino, TxId};

/// Fails with [`Stop::Locked`] if an operation is making a directory here that the request is about.
pub fn check_request(locks: &Locks, request: &Request) -> Result<(), Stop> {
    if locks.is_empty() {
        return Ok(());
    }
    // Times of access that come too early are lost, which harms nothing; other operations that name none are about files.
    for dir in request.operation().dirs().into_iter().flatten() {
        locks.check(&Lock::Made(dir), None)?;
    }
    Ok(())
}

/// Fails with [`Stop::Locked`] if another operation than `own` is making a directory here that the step is about.
pub fn check_step(locks: &Locks, own: Option<TxId>, step: &Step) -> Result<(), Stop> {
    match dir_of_step(step) {
        Some(dir) => locks.check(&Lock::Made(dir), own),
        None => Ok(()),
    }
}

fn dir_of_step(step: &Step) -> Option<Ino> {
    match step {
        Step::Insert { dir, .. }
        | Step::Remove { dir, .. }
        | Step::DropDir { dir, .. }
        | Step::DropPart { dir }
        | Step::SetParent { dir, .. }
        | Step::SetDir { dir, .. }
        | Step::GiveUp { dir, .. }
        // A new directory may be renamed or exchanged at once, and who would link to it is told what it is.
        | Step::Touch { ino: dir, .. }
        | Step::Link { ino: dir, .. } => Some(*dir),
        Step::Swap { swap } => Some(swap.dir),
        Step::Whiteout { whiteout } => Some(whiteout.dir),
        Step::SetAcl { set } => Some(set.dir),
        // It goes up from directory to directory, and looks at each.
        Step::HoldAncestors { .. }
        | Step::NewDir { .. }
        | Step::NewFile { .. }
        | Step::NewPart { .. }
        | Step::Adopt { .. }
        | Step::Unlink { .. } => None,
    }
}
