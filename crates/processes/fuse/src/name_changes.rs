//! Changes of the names in directories: made, removed, moved, and on disk where the mount is synchronous.

use crate::abandoned::Changed;
use crate::call::Call;
use crate::convert;
use crate::dir_attrs::Outcome;
use crate::errno::{Result, errno};
use crate::ops::PandoFs;
use crate::options::Cache;
use pandofs_client::{ClientError, Found, Node, OpenHow, RenameHow};
use pandofs_fuse_kernel::{Errno, OpenFlags};
use pandofs_types::{Attr, Credentials, FileKind, FsError, Ino, Name, NewMode};
use std::time::Instant;

impl PandoFs {
    /// As [`Self::ask`] for something that changes the entries of `dir`; `outcome` says how.
    pub(crate) fn change<T>(
        &self,
        call: &Call,
        dir: Ino,
        outcome: impl FnOnce(&T) -> Outcome,
        ask: impl FnMut(&Credentials) -> Result<T, ClientError>,
    ) -> Result<T> {
        let value = self.change_unsynced(call, dir, outcome, ask)?;
        self.sync_names(dir)?;
        Ok(value)
    }

    fn change_unsynced<T>(
        &self,
        call: &Call,
        dir: Ino,
        outcome: impl FnOnce(&T) -> Outcome,
        ask: impl FnMut(&Credentials) -> Result<T, ClientError>,
    ) -> Result<T> {
        let change = self.dir_attrs.change(dir);
        let result = self.callers.ask(|| call.caller(), ask);
        change.ended(match &result {
            Ok(value) => outcome(value),
            Err(ClientError::Fs(_)) => Outcome::Nothing,
            Err(_) => Outcome::Unclear,
        });
        result.map_err(errno)
    }

    /// Names in the directory have changed: with `dirsync` and `sync` that is on disk before it is
    /// answered.
    fn sync_names(&self, dir: Ino) -> Result<()> {
        let flags = self.flags.get();
        if !flags.synced_names && !flags.synced_writes {
            return Ok(());
        }
        match self.sync_dir(dir, None) {
            // It has been removed since, and what was in it.
            Err(Errno::ESTALE) => Ok(()),
            result => result,
        }
    }

    /// Has what was acknowledged of the directory's names on disk; `handle`: the open directory
    /// that it is asked through.
    pub(crate) fn sync_dir(&self, dir: Ino, handle: Option<u64>) -> Result<()> {
        let synced = self.client.fsyncdir(&Credentials::ROOT, dir);
        self.open_dirs.synced(dir, handle, synced.map_err(errno))
    }

    fn sync_both(&self, dir: Ino, other: Ino) -> Result<()> {
        self.sync_names(dir)?;
        if dir == other {
            Ok(())
        } else {
            self.sync_names(other)
        }
    }

    /// A further name for what the caller has looked up.
    pub(crate) fn link_to(
        &self,
        call: &Call,
        caller: &Credentials,
        ino: Ino,
        dir: Ino,
        name: &Name,
    ) -> Result<Node, ClientError> {
        let linked = self.client.link(caller, ino, dir, name);
        if matches!(linked, Err(ClientError::Fs(FsError::Stale))) {
            self.stale.tells(call.thread(), Instant::now());
        }
        linked
    }

    /// Removes a directory.
    pub(crate) fn remove_dir(&self, call: &Call, dir: Ino, name: &Name) -> Result<()> {
        // Where nothing is remembered it has to be asked before it is gone.
        let before = if self.options.attr_timeout.is_zero() || self.options.cache == Cache::Leases {
            pandofs_client::trace::untraced(|| self.client.lookup(&Credentials::ROOT, dir, name))
                .ok()
        } else {
            None
        };
        call.changes(vec![Changed::Name(dir, name.clone())])?;
        let removed = Outcome::Removed { directory: true };
        let ino =
            self.change_unsynced(call, dir, |_| removed, |c| self.client.rmdir(c, dir, name))?;
        let attr = before.map(|node| node.attr).filter(|attr| attr.ino == ino);
        if let Some(attr) = attr.or_else(|| self.dir_attrs.last_told(ino)) {
            self.dead_dirs.removed(attr);
        }
        self.dir_attrs.forget(ino);
        self.sync_names(dir)
    }

    /// Makes and opens a file under a name that the kernel found free, or opens the one that
    /// another mount has made there since.
    pub(crate) fn create_or_open(
        &self,
        call: &Call,
        dir: Ino,
        name: &Name,
        mode: NewMode,
        flags: OpenFlags,
    ) -> Result<Attr> {
        call.changes(vec![Changed::Name(dir, name.clone())])?;
        let how = OpenHow {
            access: convert::access(flags),
            truncate: convert::truncates(flags),
            exclusive: flags.0 & libc::O_EXCL != 0,
        };
        let outcome = |found: &Found| {
            if found.created {
                added(&found.node)
            } else {
                Outcome::Nothing
            }
        };
        let found = self.change_unsynced(call, dir, outcome, |c| {
            with_groups_for(mode, call, c, |c| {
                self.client.create_masked(c, dir, name, mode, how)
            })
        });
        if let Ok(found) = &found
            && found.created
            && let Err(error) = self.sync_names(dir)
        {
            self.client.release(found.node.ino).map_err(errno)?;
            return Err(error);
        }
        // A link to follow or a device to open is the kernel's business: once it learns that its
        // cache is stale, it looks again and goes on from what it finds.
        match found {
            Ok(found) if found.node.kind == FileKind::File => Ok(found.node.attr),
            Ok(found) => {
                self.client.release(found.node.ino).map_err(errno)?;
                Err(Errno::ESTALE)
            }
            Err(Errno::EEXIST) if !how.exclusive => Err(Errno::ESTALE),
            Err(error) => Err(error),
        }
    }

    /// Renames. Servers have to be asked for the directories' attributes after that.
    pub(crate) fn rename(
        &self,
        call: &Call,
        (dir, name): (Ino, &Name),
        (new_dir, new_name): (Ino, &Name),
        how: RenameHow,
    ) -> Result<()> {
        call.changes(vec![
            Changed::Name(dir, name.clone()),
            Changed::Name(new_dir, new_name.clone()),
        ])?;
        let elsewhere = (dir != new_dir).then(|| self.dir_attrs.change(new_dir));
        let moved = self.change_unsynced(
            call,
            dir,
            |_| Outcome::Unclear,
            |c| {
                self.client
                    .rename_how(c, (dir, name), (new_dir, new_name), how)
            },
        );
        drop(elsewhere);
        // A directory may have given way; the answer does not say which. It matters to programs
        // that have it open.
        for open in self.dead_dirs.open() {
            self.dir_attrs.forget(open);
        }
        let moved = moved?;
        // Its own change time, if it is a directory.
        self.dir_attrs.forget(moved);
        self.names_moved(&[((dir, name), (new_dir, new_name), moved)]);
        self.sync_both(dir, new_dir)
    }

    /// Has two names change places. Servers have to be asked for the directories' attributes after
    /// that.
    pub(crate) fn exchange(
        &self,
        call: &Call,
        (dir, name): (Ino, &Name),
        (new_dir, new_name): (Ino, &Name),
    ) -> Result<()> {
        call.changes(vec![
            Changed::Name(dir, name.clone()),
            Changed::Name(new_dir, new_name.clone()),
        ])?;
        let elsewhere = (dir != new_dir).then(|| self.dir_attrs.change(new_dir));
        let exchanged = self.change_unsynced(
            call,
            dir,
            |_| Outcome::Unclear,
            |c| self.client.exchange(c, dir, name, new_dir, new_name),
        );
        drop(elsewhere);
        let (ino, other) = exchanged?;
        // Their own change times, if they are directories.
        self.dir_attrs.forget(ino);
        self.dir_attrs.forget(other);
        let (one, two) = ((dir, name), (new_dir, new_name));
        self.names_moved(&[(one, two, ino), (two, one, other)]);
        self.sync_both(dir, new_dir)
    }
}

/// Makes a file of this mode in the name of `credentials`, or with all of the caller's groups and
/// capabilities if they decide what becomes of the mode.
pub(crate) fn with_groups_for<T>(
    mode: NewMode,
    call: &Call,
    credentials: &Credentials,
    make: impl FnOnce(&Credentials) -> T,
) -> T {
    if convert::depends_on_groups(mode.mode) {
        make(&call.caller().complete())
    } else {
        make(credentials)
    }
}

/// The change of a directory in which this node was made.
pub(crate) fn added(node: &Node) -> Outcome {
    Outcome::Added {
        directory: node.kind == FileKind::Dir,
        at: node.attr.ctime,
    }
}
