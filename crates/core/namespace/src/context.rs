//! Caller, choices and locks under which an operation is executed.

use crate::locks::Lock;
use crate::ops::Choices;
use crate::permission::{CHANGE, SEARCH, check_dir};
use crate::records::{EntryRecord, InodeRecord};
use crate::{Locks, Owned, Stop, View};
use pandofs_types::{Credentials, FsError, Ino, Name, SessionId};

/// Context of an operation besides the stored state.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// Those of undecided operations on this shard.
    pub locks: &'a Locks,
    /// It has open what the operation opens.
    pub session: SessionId,
    /// Whose rights are checked.
    pub caller: &'a Credentials,
    /// Those of the record, or of the request before there is one.
    pub choices: &'a Choices,
}

impl Context<'_> {
    /// The partition of a name that no undecided operation holds, in a directory that the caller may search.
    pub fn name(&self, view: &View<'_>, dir: Ino, name: &Name) -> Result<Owned, Stop> {
        let owned = view.owned(dir, name)?;
        let lock = Lock::Entry {
            dir,
            position: owned.position,
            name: name.clone(),
        };
        self.locks.check(&lock, None)?;
        check_dir(self.caller, SEARCH, &owned.parts)?;
        Ok(owned)
    }

    /// The partition of a name that is not taken and that the caller may make.
    pub fn free_name(&self, view: &View<'_>, dir: Ino, name: &Name) -> Result<Owned, Stop> {
        let owned = self.name(view, dir, name)?;
        if view.entry(dir, owned.position, name)?.is_some() {
            return Err(FsError::Exists.into());
        }
        check_dir(self.caller, CHANGE, &owned.parts)?;
        Ok(owned)
    }

    /// The partition of a name that the caller may take away, and what it leads to.
    pub fn taken_name(
        &self,
        view: &View<'_>,
        dir: Ino,
        name: &Name,
    ) -> Result<(Owned, EntryRecord), Stop> {
        let owned = self.name(view, dir, name)?;
        let entry = view
            .entry(dir, owned.position, name)?
            .ok_or(FsError::NotFound)?;
        check_dir(self.caller, CHANGE, &owned.parts)?;
        Ok((owned, entry))
    }

    /// An inode that no undecided operation holds.
    pub fn inode(&self, view: &View<'_>, ino: Ino) -> Result<InodeRecord, Stop> {
        self.locks.check(&Lock::Inode(ino), None)?;
        view.inode(ino)
    }
}
