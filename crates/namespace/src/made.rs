//! Directories that an undecided operation is making here, and who has to wait for them.
//!
//! The bad interleaving without it: the home of a new directory is prepared to make it; the coordinator commits and
//! answers; the client asks the home, which it knows from the answer, for something in the directory before the home
//! has heard of the outcome, and is told that there is no such directory. Where the home decides itself, as in S2PC-MP
//! between two shards, this cannot happen; where the coordinator decides it does, in most operations.

use crate::locks::Lock;
use crate::{Locks, Stop};
use pandofs_api::{Request, Step, op};
use pandofs_types::{Ino, TxId};

/// Fails with [`Stop::Locked`] if an operation is making a directory here that the request is about.
pub fn check_request(locks: &Locks, request: &Request) -> Result<(), Stop> {
    if locks.is_empty() {
        return Ok(());
    }
    let (first, second) = dirs_of_request(request);
    for dir in first.into_iter().chain(second) {
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

/// What may be directories.
fn dirs_of_request(request: &Request) -> (Option<Ino>, Option<Ino>) {
    match request {
        Request::Lookup(op::Lookup { dir, .. })
        | Request::Create(op::Create { dir, .. })
        | Request::CreateUnnamed(op::CreateUnnamed { dir, .. })
        | Request::Mkdir(op::Mkdir { dir, .. })
        | Request::Unlink(op::Unlink { dir, .. })
        | Request::Rmdir(op::Rmdir { dir, .. })
        | Request::Link(op::Link { dir, .. })
        | Request::ReadDir(op::ReadDir { dir, .. })
        | Request::DirPart(op::DirPart { dir })
        | Request::SetDirSettings(op::SetDirSettings { dir, .. })
        | Request::GetAttr(op::GetAttr { ino: dir })
        | Request::SetAttr(op::SetAttr { ino: dir, .. })
        | Request::SetLayout(op::SetLayout { ino: dir, .. })
        | Request::GetXattr(op::GetXattr { ino: dir, .. })
        | Request::ListXattr(op::ListXattr { ino: dir })
        | Request::SetXattr(op::SetXattr { ino: dir, .. })
        | Request::RemoveXattr(op::RemoveXattr { ino: dir, .. })
        | Request::ReadLink(op::ReadLink { ino: dir })
        | Request::Open(op::Open { ino: dir, .. }) => (Some(*dir), None),
        Request::Rename(op::Rename { dir, new_dir, .. })
        | Request::Exchange(op::Exchange { dir, new_dir, .. }) => (Some(*dir), Some(*new_dir)),
        // Times of access that are told too early are told in vain; the others are about files.
        _ => (None, None),
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
