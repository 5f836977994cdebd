//! First bytes of new files: kept, and written out with their inodes.

use crate::core::Core;
use crate::error::{ClientError, Result};
use crate::file::{Body, File};
use crate::inodes::inode_of;
use crate::limits::MAX_KEPT_BYTES;
use pandofs_api::{Request, op};
use pandofs_session::Target;
use pandofs_types::Credentials;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of bytes that are kept of all files.
#[derive(Debug, Default)]
pub(crate) struct KeptBytes(AtomicUsize);

impl KeptBytes {
    /// Counts so many more, if there may be.
    pub(crate) fn add(&self, bytes: usize) -> bool {
        let fits = |kept: usize| (kept + bytes <= MAX_KEPT_BYTES).then_some(kept + bytes);
        let added = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits);
        added.is_ok()
    }

    pub(crate) fn remove(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Core {
    /// Keeps what is written if it is the first of a file that this session has made under a grant, or goes on where that
    /// ends.
    pub(crate) fn keep(&self, caller: &Credentials, file: &File, offset: u64, data: &[u8]) -> bool {
        let Body::Inline(layout) = file.snapshot().body else {
            return false;
        };
        if !self.grants.is_on() || !self.kept_bytes.add(data.len()) {
            return false;
        }
        let is_new = || self.grants.is_exclusive(file.ino);
        let is_kept = file.keep(&layout, (offset, data), caller, is_new);
        if !is_kept {
            self.kept_bytes.remove(data.len());
        }
        is_kept
    }

    /// Has the shard know what is kept of the file, if anything is.
    ///
    /// # Errors
    /// The file system's, `NoSpace` among them; they are also told through the file's descriptors.
    pub(crate) fn write_out(&self, file: &File) -> Result<()> {
        let Some((first, _one_at_a_time)) = file.take_first_bytes() else {
            return Ok(());
        };
        self.kept_bytes.remove(first.data.len());
        let token = file.token();
        let request = Request::WriteNew(op::WriteNew {
            ino: file.ino,
            data: first.data.clone(),
        });
        let written = match self.ask(&first.caller, Target::Inode(file.ino), request) {
            Ok(reply) => inode_of(reply).map(|inode| file.learn(token, &inode)),
            // Somebody else has written to it or cut it meanwhile.
            Err(failure) => self
                .out_of_inode(&first.caller, file, failure)
                .and_then(|()| self.write_to(&first.caller, file, 0, &first.data)),
        };
        match written {
            Err(error) if error.is_gone() => {
                self.note_gone(file, &Err::<(), ClientError>(error));
                file.stay.check()
            }
            Err(error) => {
                file.fail(error.clone());
                Err(error)
            }
            Ok(()) => Ok(()),
        }
    }
}
