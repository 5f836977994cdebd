//! What one shard does of an operation, one step a file.
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
use pandofs_types::{Ino, Name, ShardId, TxId};

pub use free::forget_inode;
pub use insert::victim;
pub use swap::moved;

/// A step that can be performed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prepared {
    /// What it hands to the other steps.
    pub result: StepResult,
    /// Steps that the operation needs besides.
    pub follow: Vec<(ShardId, Step)>,
    /// What must not change until the operation is decided.
    pub locks: LockSet,
}

/// Checks a step. `own` is the operation it belongs to, whose own locks are in nobody's way.
pub fn prepare(
    txn: &mut Txn<'_, '_>,
    locks: &Locks,
    own: Option<TxId>,
    step: &Step,
    choices: &Choices,
) -> Result<Prepared, Stop> {
    made::check_step(locks, own, step)?;
    match step {
        Step::Insert { .. } => insert::prepare(&txn.view(), locks, own, step),
        Step::Remove {
            dir,
            name,
            ino,
            caller,
            ..
        } => remove::prepare(&txn.view(), locks, own, *dir, name, *ino, caller),
        Step::NewDir { new } => new_dir::prepare(txn, new, choices),
        Step::NewFile { new } => new_file::prepare(txn, new),
        Step::NewPart { part } => new_part::prepare(&txn.view(), locks, own, part),
        Step::Link { ino, time } => link::prepare(&txn.view(), locks, own, *ino, *time),
        Step::Unlink { ino, must_own, .. } => {
            unlink::prepare(&txn.view(), locks, own, *ino, *must_own)
        }
        Step::Touch { ino, must_own, .. } => {
            touch::prepare(&txn.view(), locks, own, *ino, *must_own)
        }
        Step::DropDir { dir, must_own } => {
            drop_dir::prepare(&txn.view(), locks, own, *dir, *must_own)
        }
        Step::DropPart { dir } => drop_part::prepare(&txn.view(), locks, own, *dir),
        Step::SetParent {
            dir,
            must_own,
            caller,
            ..
        } => set_parent::prepare(&txn.view(), locks, own, *dir, *must_own, caller),
        Step::HoldAncestors {
            from,
            moving,
            depth,
        } => hold_ancestors::prepare(&txn.view(), locks, own, *from, *moving, *depth),
        Step::SetDir {
            dir,
            set,
            settings,
            caller,
            time,
        } => set_dir::prepare(&txn.view(), locks, own, *dir, set, settings, caller, *time),
        Step::Adopt { adopt } => adopt::prepare(&txn.view(), locks, own, adopt),
        Step::GiveUp { dir, split } => give_up::prepare(&txn.view(), locks, own, *dir, *split),
        Step::Swap { swap } => swap::prepare(&txn.view(), locks, own, swap),
        Step::SetAcl { set } => set_acl::prepare(&txn.view(), locks, own, set),
        Step::Whiteout { whiteout } => whiteout::prepare(txn, locks, own, whiteout),
    }
}

/// Performs a step that was prepared. `own` is its result, `all` the results of every step.
pub fn execute(
    txn: &mut Txn<'_, '_>,
    step: &Step,
    own: &StepResult,
    all: &[StepResult],
    choices: &Choices,
) -> Result<(), Stop> {
    match step {
        Step::Insert { .. } => insert::execute(txn, step, all),
        Step::Remove {
            dir, name, time, ..
        } => remove::execute(txn, *dir, name, *time),
        Step::NewDir { new } => new_dir::execute(txn, new, own),
        Step::NewFile { new } => new_file::execute(txn, new, own),
        Step::NewPart { part } => new_part::execute(txn, part),
        Step::Link { ino, time } => link::execute(txn, *ino, *time),
        Step::Unlink { ino, time, .. } => unlink::execute(txn, *ino, *time, choices),
        Step::Touch { ino, time, .. } => touch::execute(txn, *ino, *time),
        Step::DropDir { dir, .. } => drop_dir::execute(txn, *dir),
        Step::DropPart { dir } => drop_part::execute(txn, *dir),
        Step::SetParent {
            dir, parent, time, ..
        } => set_parent::execute(txn, *dir, *parent, *time),
        Step::HoldAncestors { .. } => Ok(()),
        Step::SetDir {
            dir,
            set,
            settings,
            caller,
            time,
        } => set_dir::execute(txn, *dir, set, settings, caller, *time),
        Step::Adopt { adopt } => adopt::execute(txn, adopt),
        Step::GiveUp { dir, .. } => give_up::execute(txn, *dir),
        Step::Swap { swap } => swap::execute(txn, swap, all),
        Step::SetAcl { set } => set_acl::execute(txn, set),
        Step::Whiteout { whiteout } => whiteout::execute(txn, whiteout, own),
    }
}

/// Whether a step that another shard asks for takes up space that this shard's operations did not have
/// before. What gives some back at the same time, as an exchange does, is not counted.
pub fn needs_space(step: &Step) -> bool {
    match step {
        Step::Insert { .. } | Step::NewDir { .. } | Step::NewPart { .. } | Step::NewFile { .. } => {
            true
        }
        Step::Remove { .. }
        | Step::Link { .. }
        | Step::Unlink { .. }
        | Step::Touch { .. }
        | Step::DropDir { .. }
        | Step::DropPart { .. }
        | Step::SetParent { .. }
        | Step::HoldAncestors { .. }
        | Step::SetDir { .. }
        | Step::Adopt { .. }
        | Step::GiveUp { .. }
        | Step::Swap { .. }
        | Step::SetAcl { .. }
        // Its coordinator has looked when it took the request.
        | Step::Whiteout { .. } => false,
    }
}

/// The locks of a step that was prepared before a restart with the result `own`, from the state, which has not
/// changed in what they guard.
pub fn locks_of(view: &View<'_>, step: &Step, own: &StepResult) -> Result<LockSet, Stop> {
    use crate::locks::Lock;
    Ok(match step {
        Step::Insert { dir, name, .. } | Step::Remove { dir, name, .. } => {
            vec![entry_lock(view, *dir, name)]
        }
        Step::Whiteout { whiteout } => vec![entry_lock(view, whiteout.dir, &whiteout.name)],
        Step::Adopt { .. } => vec![],
        Step::NewDir { .. } => new_dir::locks(own),
        Step::NewFile { .. } => new_file::locks(own),
        Step::NewPart { part } => new_part::locks(part),
        Step::Link { ino, .. } | Step::Unlink { ino, .. } | Step::Touch { ino, .. } => {
            vec![Lock::Inode(*ino)]
        }
        Step::DropDir { dir, .. } => drop_dir::locks(*dir),
        Step::DropPart { dir } => drop_part::locks(*dir),
        Step::SetParent { dir, .. } => vec![Lock::Parent(*dir)],
        Step::HoldAncestors {
            from,
            moving,
            depth,
        } => hold_ancestors::walk(view, *from, *moving, *depth, &|_| Ok(()))?.0,
        Step::SetDir { dir, .. } => vec![Lock::Inode(*dir)],
        Step::GiveUp { dir, .. } => give_up::locks(view, *dir)?,
        Step::Swap { swap } => swap::locks(view, swap),
        Step::SetAcl { set } => vec![Lock::Inode(set.dir)],
    })
}

fn entry_lock(view: &View<'_>, dir: Ino, name: &Name) -> crate::locks::Lock {
    crate::locks::Lock::Entry {
        dir,
        position: view.map.hash_key.position(name.as_bytes()),
        name: name.clone(),
    }
}
