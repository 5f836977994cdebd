//! Directories that an undecided operation is making here, and who has to wait for them.
//!
//! The bad interleaving without it: the home of a new directory is prepared to make it; the coordinator commits and
//! answers; the client asks the home, which it knows from the answer, for something in the directory before the home
//! has heard of the outcome, and is told that there is no such directory. Where the home decides itself, as in S2PC-MP
//! between two shards, this cannot happen; where the coordinator decides it does, in most operations.

use crate::locks::Lock;
use crate::{Locks, Stop, steps};
use pandofs_api::{Request, Step};
use pandofs_types::TxId;

/// Fails with [`Stop::Locked`] if an operation is making a directory here that the request is about.
pub(crate) fn check_request(locks: &Locks, request: &Request) -> Result<(), Stop> {
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
pub(crate) fn check_step(locks: &Locks, own: Option<TxId>, step: &Step) -> Result<(), Stop> {
    match steps::of(step).dir() {
        Some(dir) => locks.check(&Lock::Made(dir), own),
        None => Ok(()),
    }
}
