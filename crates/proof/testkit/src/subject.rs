//! Subject of a test: what is compared with the model.

use crate::op::{Outcome, Step};
use pandofs_types::Time;
use std::time::Duration;

/// Properties of a subject that POSIX leaves open and the model has to know.
#[derive(Clone, Debug)]
pub struct Traits {
    /// Number of [`crate::op::callers`] that it can act for: the first ones.
    pub callers: usize,
    /// A directory's size is the number of its entries.
    pub dir_size_is_entries: bool,
    /// A user may only link files that are his own or that he may read and write (Linux's
    /// `fs.protected_hardlinks`).
    pub protected_hardlinks: bool,
    /// Distance that the times it sets may be off the clock of [`Subject::now`].
    pub clock_slack: Duration,
    /// Bytes of the largest file.
    pub max_file_size: u64,
    /// A time that was set to the future stays when the file or directory is written to.
    pub times_only_advance: bool,
    /// It knows [`Op::Allocate`](crate::op::Op::Allocate).
    pub allocates: bool,
    /// It knows [`Op::CreateUnnamed`](crate::op::Op::CreateUnnamed).
    pub makes_unnamed: bool,
    /// It knows [`Op::Rename`](crate::op::Op::Rename) that leaves a white-out.
    pub makes_whiteouts: bool,
    /// One that is refused as there is a directory with entries at the new name may set the times of the old name's
    /// directory (ext4 puts the white-out in, and the old entry back).
    pub refused_whiteouts_touch: bool,
    /// The inode number of what is gone may be given to something else.
    pub inos_are_reused: bool,
}

/// Entries and inodes that there are, below the root and with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Census {
    /// Names below the root.
    pub entries: u64,
    /// The root included.
    pub inodes: u64,
}

/// A file system, or a part of one, that is worked on through paths. It begins with an empty root
/// directory that belongs to the superuser (user and group 0) and has the permission bits 0o777.
pub trait Subject {
    /// Does the operation, waits for its end and gives the answer.
    fn run(&mut self, step: &Step) -> Outcome;

    /// The clock that its times come from.
    fn now(&mut self) -> Time;

    /// Operations that it has; the same throughout a run.
    fn traits(&self) -> Traits;

    /// Called now and then: checks what can be checked from inside while files are open.
    ///
    /// # Errors
    /// The fault that was found.
    fn look_inside(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// Called when nothing is open any more: lets all that goes on in the background end, checks what
    /// can be checked from inside, and counts what is there, if it can.
    ///
    /// # Errors
    /// The fault that was found.
    fn settle(&mut self) -> Result<Option<Census>, String> {
        Ok(None)
    }
}
