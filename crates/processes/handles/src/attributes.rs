//! Calls about attributes and rights, by paths.

use crate::failure::{Failure, Result};
use crate::mount::Mount;
use pandofs_types::{Attr, FileKind, FsError, SetAttr};
use std::ffi::c_int;

impl Mount {
    /// As stat(2), or as lstat(2) unless `follow`.
    ///
    /// # Errors
    /// As stat(2).
    pub fn stat(&self, path: &[u8], follow: bool) -> Result<Attr> {
        Ok(self.resolve(path, follow)?.attr)
    }

    /// As access(2), by the caller: any of `R_OK`, `W_OK` and `X_OK`, or `F_OK`.
    ///
    /// # Errors
    /// As access(2).
    pub fn access(&self, path: &[u8], rights: c_int) -> Result<()> {
        if rights & !(libc::R_OK | libc::W_OK | libc::X_OK) != 0 {
            return Err(Failure::Invalid("rights other than R_OK, W_OK and X_OK"));
        }
        self.with_node(path, true, |node| {
            // The numbers are those of permission bits.
            let rights = rights as u16;
            Ok(self.client().access(&self.caller, node.ino, rights)?)
        })
    }

    /// Sets what is `Some`, of a symbolic link itself unless `follow`.
    ///
    /// # Errors
    /// As chmod(2), chown(2) and utimensat(2).
    pub fn set(&self, path: &[u8], follow: bool, attributes: &SetAttr) -> Result<()> {
        self.with_node(path, follow, |node| {
            let set = attributes.clone();
            self.client().setattr(&self.caller, node.ino, set)?;
            Ok(())
        })
    }

    /// As truncate(2).
    ///
    /// # Errors
    /// As truncate(2).
    pub fn truncate(&self, path: &[u8], size: u64) -> Result<()> {
        self.with_node(path, true, |node| {
            match node.kind {
                FileKind::File => {}
                FileKind::Dir => return Err(FsError::IsDir.into()),
                _ => return Err(FsError::Invalid.into()),
            }
            let set = of_size(size);
            self.client().setattr(&self.caller, node.ino, set)?;
            Ok(())
        })
    }
}

/// A change of permission bits.
pub fn of_mode(mode: u32) -> SetAttr {
    SetAttr {
        mode: Some((mode & 0o7777) as u16),
        ..SetAttr::default()
    }
}

/// A change of user and group; either stays where it is `None`.
pub fn of_owner(uid: Option<u32>, gid: Option<u32>) -> SetAttr {
    SetAttr {
        uid,
        gid,
        ..SetAttr::default()
    }
}

/// A change of a file's length.
pub(crate) fn of_size(size: u64) -> SetAttr {
    SetAttr {
        size: Some(size),
        ..SetAttr::default()
    }
}
