//! What the kernel is told unasked.

use fuser::{INodeNo, Notifier};
use pandofs_types::{Ino, Name};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, OnceLock};

/// What can be told to the kernel unasked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kernel {
    notifier: Arc<OnceLock<Notifier>>,
}

impl Kernel {
    pub fn set(&self, notifier: Notifier) {
        // It is set once, when the session is there.
        let _ = self.notifier.set(notifier);
    }

    /// These bytes of the file, and its attributes, are not to be believed any longer. Waits for reads of them
    /// that are under way, so whoever calls this has nothing that a read waits for.
    pub fn forget_content(&self, ino: Ino, offset: u64, length: u64) {
        self.tell(ino, |notifier| {
            notifier.inval_inode(INodeNo(ino.0), offset as i64, length as i64)
        });
    }

    /// The inode's attributes are not to be believed any longer.
    pub fn forget_attr(&self, ino: Ino) {
        // Not the contents as well: for that the kernel would wait for reads under way, which wait for threads of
        // this mount.
        const ATTRIBUTES_ALONE: i64 = -1;
        self.tell(ino, |notifier| {
            notifier.inval_inode(INodeNo(ino.0), ATTRIBUTES_ALONE, 0)
        });
    }

    /// The name is to be asked for before it is believed again; whoever has it open or works below it does not
    /// notice. Waits for whoever holds the directory's lock in the kernel.
    pub fn expire_name(&self, dir: Ino, name: &Name) {
        self.tell(dir, |notifier| {
            notifier.expire_entry(INodeNo(dir.0), OsStr::from_bytes(name.as_bytes()))
        });
    }

    /// The kernel is to know nothing of the name any more, as if it had been removed, and an answer that is on
    /// its way to somebody who asks for it again is not kept. Waits as [`Kernel::expire_name`].
    pub fn drop_name(&self, dir: Ino, name: &Name) {
        self.tell(dir, |notifier| {
            notifier.inval_entry(INodeNo(dir.0), OsStr::from_bytes(name.as_bytes()))
        });
    }

    fn tell(&self, ino: Ino, notice: impl FnOnce(&Notifier) -> io::Result<()>) {
        if let Some(notifier) = self.notifier.get()
            && let Err(error) = notice(notifier)
        {
            tracing::debug!(%error, "the kernel does not know inode {ino}");
        }
    }
}
