//! Steps of operations, one a file.
//!
//! `prepare` checks a step against the state and says which locks make the result of the check last;
//! `execute` performs it and cannot be refused any more. For an operation whose steps are all here both
//! run in one record without locks. The steps are the sub-operations of Xiong et al., table 1, and what
//! rename, link and splits need beside them.

mod adopt;
mod drop_dir;
mod drop_part;
mod free;
mod give_up;
mod hold_ancestors;
mod insert;
mod link;
mod new_dir;
pub mod new_file;
mod new_part;
mod path_line;
mod remove;
mod set_acl;
mod set_dir;
mod set_parent;
mod swap;
mod touch;
mod unlink;
mod whiteout;

use crate::made;
use crate::ops::Choices;
use crate::{LockSet, Locks, Stop, Txn, View};
use pandofs_api::{Step, StepResult};
use pandofs_types::{Ino, LeaseKey, Name, ShardId, TxId};

pub use free::forget_inode;
pub use swap::{lines_of, moved};

/// A step that can be performed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prepared {
    /// Its result for the other steps.
    pub result: StepResult,
    /// Steps that the operation needs besides.
    pub follow: Vec<(ShardId, Step)>,
    /// Locks on all that must not change until the operation is decided.
    pub locks: LockSet,
}

/// Locks and choices under which a step is prepared.
#[derive(Clone, Copy)]
pub struct Held<'a> {
    /// Those of undecided operations on this shard.
    pub locks: &'a Locks,
    /// The operation that the step belongs to, whose own locks are in nobody's way.
    pub own: Option<TxId>,
    /// Those of the record.
    pub choices: &'a Choices,
}

/// Results and choices by which a step is executed.
#[derive(Clone, Copy)]
pub struct Given<'a> {
    /// Its own result.
    pub own: &'a StepResult,
    /// The results of every step of the operation.
    pub all: &'a [StepResult],
    /// Those of the record.
    pub choices: &'a Choices,
}

/// A name whose inode is changed by steps that follow.
#[derive(Clone, Copy, Debug)]
pub struct Follows<'a> {
    /// The directory that the name is in.
    pub dir: Ino,
    /// An entry of this shard.
    pub name: &'a Name,
    /// Whether the answer tells which inode that is.
    pub is_known: bool,
}

/// One shard's part of an operation.
pub trait Perform {
    /// Checks that it can be performed, and says which locks make that last.
    fn prepare(&self, txn: &mut Txn<'_, '_>, cx: &Held<'_>) -> Result<Prepared, Stop>;

    /// Performs it after it was prepared.
    fn execute(&self, txn: &mut Txn<'_, '_>, given: &Given<'_>) -> Result<(), Stop>;

    /// Its locks if it was prepared before a restart with the result `own`, from the state, which has not changed in what
    /// they guard.
    fn locks(&self, view: &View<'_>, own: &StepResult) -> Result<LockSet, Stop>;

    /// Leased keys that it changes here.
    fn touches(&self, _view: &View<'_>) -> Vec<LeaseKey> {
        Vec::new()
    }

    /// A directory that it is about, and that another operation may be making.
    fn dir(&self) -> Option<Ino> {
        None
    }

    /// Whether it takes up space that this shard's operations did not have before. A step that gives some back at the
    /// same time, as an exchange does, is not counted, nor one whose coordinator has looked for room.
    fn needs_space(&self) -> bool {
        false
    }

    /// The inode that gives way if it is performed as things are.
    fn victim(&self, _view: &View<'_>) -> Result<Option<Ino>, Stop> {
        Ok(None)
    }

    /// The name whose inode steps that follow from this one change.
    fn follows(&self) -> Option<Follows<'_>> {
        None
    }
}

/// The one dispatch.
pub fn of(step: &Step) -> &dyn Perform {
    match step {
        Step::Insert(step) => step,
        Step::Remove(step) => step,
        Step::NewDir(step) => &**step,
        Step::NewPart(step) => &**step,
        Step::Link(step) => step,
        Step::Unlink(step) => step,
        Step::Touch(step) => step,
        Step::DropDir(step) => step,
        Step::DropPart(step) => step,
        Step::SetParent(step) => step,
        Step::HoldAncestors(step) => step,
        Step::SetDir(step) => step,
        Step::Adopt(step) => &**step,
        Step::GiveUp(step) => step,
        Step::Swap(step) => &**step,
        Step::SetAcl(step) => &**step,
        Step::NewFile(step) => &**step,
        Step::Whiteout(step) => &**step,
        Step::PathLine(step) => step,
    }
}

/// Checks a step.
pub fn prepare(txn: &mut Txn<'_, '_>, cx: &Held<'_>, step: &Step) -> Result<Prepared, Stop> {
    made::check_step(cx.locks, cx.own, step)?;
    of(step).prepare(txn, cx)
}

fn entry_lock(view: &View<'_>, dir: Ino, name: &Name) -> crate::locks::Lock {
    crate::locks::Lock::Entry {
        dir,
        position: view.map.hash_key.position(name.as_bytes()),
        name: name.clone(),
    }
}
