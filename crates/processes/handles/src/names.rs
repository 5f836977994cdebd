//! Calls that make, remove and rename, by paths.

use crate::failure::{Failure, Result};
use crate::mount::{Ending, Mount};
use pandofs_client::{NewNode, RenameHow};
use pandofs_types::{FileKind, FsError};
use std::sync::Arc;

impl Mount {
    /// As mkdir(2).
    ///
    /// # Errors
    /// As mkdir(2).
    pub fn mkdir(&self, path: &[u8], mode: u32) -> Result<()> {
        let mode = self.new_mode(mode);
        let made = self.by_path(path, |client, caller| {
            client.mkdir_by_path(caller, path, mode)
        })?;
        if made.is_some() {
            return Ok(());
        }
        let (dir, name) = self.new_leaf(path, Ending::Dir)?;
        self.client().mkdir_masked(&self.caller, dir, &name, mode)?;
        Ok(())
    }

    /// As rmdir(2).
    ///
    /// # Errors
    /// As rmdir(2).
    pub fn rmdir(&self, path: &[u8]) -> Result<()> {
        let removed = self.by_path(path, |client, caller| client.rmdir_by_path(caller, path))?;
        if removed.is_some() {
            return Ok(());
        }
        let (dir, name) = self.leaf(self.base, path, Ending::Dir)?;
        self.client().rmdir(&self.caller, dir, &name)?;
        Ok(())
    }

    /// As unlink(2).
    ///
    /// # Errors
    /// As unlink(2).
    pub fn unlink(&self, path: &[u8]) -> Result<()> {
        let removed = self.by_path(path, |client, caller| client.unlink_by_path(caller, path))?;
        if removed.is_some() {
            return Ok(());
        }
        let (dir, name) = match self.leaf(self.base, path, Ending::NoDir) {
            Err(Failure::InUse) => return Err(FsError::IsDir.into()),
            leaf => leaf?,
        };
        self.client().unlink(&self.caller, dir, &name)?;
        Ok(())
    }

    /// As renameat2(2), to a path of the other one, which belongs to the same connection; this one's caller asks. Flags: 0,
    /// `RENAME_NOREPLACE` or `RENAME_EXCHANGE`.
    ///
    /// # Errors
    /// As renameat2(2).
    pub fn rename(&self, path: &[u8], other: &Mount, new_path: &[u8], flags: u32) -> Result<()> {
        let other = self.of_one_session(other)?;
        if self.renamed_by_path(path, &other, new_path, flags)? {
            return Ok(());
        }
        let (dir, name) = self.leaf(self.base, path, Ending::Dir)?;
        let (new_dir, new_name) = other.leaf(other.base, new_path, Ending::Dir)?;
        for path in [path, new_path] {
            if path.ends_with(b"/") {
                let node = self.client().lookup(&self.caller, dir, &name)?;
                if node.kind != FileKind::Dir {
                    return Err(FsError::NotDir.into());
                }
            }
        }
        let how = match flags {
            0 => RenameHow::default(),
            libc::RENAME_NOREPLACE => RenameHow {
                no_replace: true,
                ..RenameHow::default()
            },
            libc::RENAME_EXCHANGE => {
                let client = self.client();
                client.exchange(&self.caller, dir, &name, new_dir, &new_name)?;
                return Ok(());
            }
            _ => {
                return Err(Failure::Invalid(
                    "flags other than RENAME_NOREPLACE or RENAME_EXCHANGE",
                ));
            }
        };
        let (from, to) = ((dir, &name), (new_dir, &new_name));
        self.client().rename_how(&self.caller, from, to, how)?;
        Ok(())
    }

    /// As link(2), with a path of the other one as the new name: [`Mount::rename`].
    ///
    /// # Errors
    /// As link(2).
    pub fn link(&self, path: &[u8], other: &Mount, new_path: &[u8]) -> Result<()> {
        let other = self.of_one_session(other)?;
        let (dir, name) = other.new_leaf(new_path, Ending::NoDir)?;
        self.with_node(path, false, |node| {
            self.client().link(&self.caller, node.ino, dir, &name)?;
            Ok(())
        })
    }

    /// As symlink(2).
    ///
    /// # Errors
    /// As symlink(2).
    pub fn symlink(&self, target: &[u8], path: &[u8]) -> Result<()> {
        let node = NewNode::Symlink {
            target: target.to_vec(),
        };
        let made = self.by_path(path, |client, caller| {
            client.mknod_by_path(caller, path, node, 0o777.into())
        })?;
        if made.is_some() {
            return Ok(());
        }
        let (dir, name) = self.new_leaf(path, Ending::NoDir)?;
        self.client().symlink(&self.caller, dir, &name, target)?;
        Ok(())
    }

    /// As readlink(2).
    ///
    /// # Errors
    /// As readlink(2).
    pub fn readlink(&self, path: &[u8]) -> Result<Vec<u8>> {
        self.with_node(path, false, |node| {
            Ok(self.client().readlink(&self.caller, node.ino)?)
        })
    }

    /// Whether it is done by the paths alone.
    fn renamed_by_path(
        &self,
        path: &[u8],
        other: &Mount,
        new_path: &[u8],
        flags: u32,
    ) -> Result<bool> {
        let how = RenameHow {
            no_replace: flags == libc::RENAME_NOREPLACE,
            ..RenameHow::default()
        };
        let is_rename = flags == 0 || how.no_replace;
        if !is_rename || !other.begins_at_root(new_path) {
            return Ok(false);
        }
        let renamed = self.by_path(path, |client, caller| {
            client.rename_by_path(caller, path, new_path, how)
        })?;
        Ok(renamed.is_some())
    }

    /// The directory of the other one with this one's caller, whose rights count also on the way through it.
    fn of_one_session(&self, other: &Mount) -> Result<Mount> {
        if self.session.number != other.session.number {
            return Err(Failure::Invalid(
                "the handles belong to different connections",
            ));
        }
        Ok(Mount {
            session: Arc::clone(&other.session),
            caller: self.caller.clone(),
            umask: self.umask,
            base: other.base,
        })
    }
}
