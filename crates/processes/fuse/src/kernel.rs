//! Messages to the kernel that answer no request: invalidations of its caches.

use pandofs_fuse_kernel::Notifier;
use pandofs_types::{Ino, Name};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, OnceLock};

/// The sender of such messages.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kernel {
    notifier: Arc<OnceLock<Notifier>>,
}

impl Kernel {
    pub(crate) fn set(&self, notifier: Notifier) {
        // It is set once, when the session is there.
        let _ = self.notifier.set(notifier);
    }

    /// Invalidates these bytes of the file, and its attributes. Waits for reads of them that are
    /// under way, so the caller must have nothing that a read waits for.
    pub(crate) fn forget_content(&self, ino: Ino, offset: u64, length: u64) {
        self.send(ino, |notifier| {
            notifier.inval_inode(ino.0, offset as i64, length as i64)
        });
    }

    /// Invalidates the inode's attributes.
    pub(crate) fn forget_attr(&self, ino: Ino) {
        // Not the contents as well: for that the kernel would wait for reads under way, which wait
        // for threads of this mount.
        const ATTRIBUTES_ALONE: i64 = -1;
        self.send(ino, |notifier| {
            notifier.inval_inode(ino.0, ATTRIBUTES_ALONE, 0)
        });
    }

    /// Has the kernel ask for the name before it uses it again; programs that have it open or work
    /// below it do not notice. Waits for the directory's lock in the kernel.
    pub(crate) fn expire_name(&self, dir: Ino, name: &Name) {
        self.send(dir, |notifier| {
            notifier.expire_entry(dir.0, OsStr::from_bytes(name.as_bytes()))
        });
    }

    /// Has the kernel forget the name, as if it had been removed, and not cache an answer about it
    /// that is on its way. Waits as [`Kernel::expire_name`].
    pub(crate) fn drop_name(&self, dir: Ino, name: &Name) {
        self.send(dir, |notifier| {
            notifier.inval_entry(dir.0, OsStr::from_bytes(name.as_bytes()))
        });
    }

    fn send(&self, ino: Ino, invalidate: impl FnOnce(&Notifier) -> io::Result<()>) {
        if let Some(notifier) = self.notifier.get()
            && let Err(error) = invalidate(notifier)
        {
            tracing::debug!(%error, "the kernel does not know inode {ino}");
        }
    }
}
