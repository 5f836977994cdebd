//! First bytes of a new file, kept until the file is closed, synced or asked about.
//!
//! A program that makes a file writes it from the first byte on, as a rule in pieces, and closes it. Kept until then they
//! go to the shard in one request together with what the inode becomes by them, and the file is never seen with a part of
//! them.

use super::{File, Known};
use crate::cancellation;
use pandofs_api::Layout;
use pandofs_types::Credentials;
use pandofs_types::limits::MAX_NEW_FILE_BYTES;
use std::sync::MutexGuard;
use std::time::Instant;

/// All of a file, none of which a shard has.
#[derive(Debug)]
pub(crate) struct FirstBytes {
    pub data: Vec<u8>,
    /// The first writer.
    pub caller: Credentials,
    since: Instant,
}

impl FirstBytes {
    pub(super) fn end(&self) -> u64 {
        self.data.len() as u64
    }
}

impl Known {
    /// Whether nothing was ever written to the file, as far as is known.
    fn is_empty(&self) -> bool {
        let is_unwritten = self.pending.is_none() && self.writes_behind.is_empty();
        self.certain && self.size == 0 && is_unwritten
    }
}

impl File {
    /// Keeps bytes that are the first of the file or follow those that are kept; false if they are to be written.
    /// `is_new`: whether the file was made by this session and nobody else knows it.
    pub(crate) fn keep(
        &self,
        layout: &Layout,
        (offset, data): (u64, &[u8]),
        caller: &Credentials,
        is_new: impl FnOnce() -> bool,
    ) -> bool {
        let most = MAX_NEW_FILE_BYTES.min(layout.unit as usize);
        let mut known = self.known();
        match &mut known.first_bytes {
            Some(first) => {
                let follows = offset == first.end() && first.data.len() + data.len() <= most;
                if follows && first.caller == *caller {
                    first.data.extend_from_slice(data);
                    return true;
                }
                false
            }
            None => {
                let is_first = offset == 0 && data.len() <= most && known.is_empty();
                if !is_first || !is_new() {
                    return false;
                }
                known.first_bytes = Some(FirstBytes {
                    data: data.to_vec(),
                    caller: caller.clone(),
                    since: Instant::now(),
                });
                true
            }
        }
    }

    /// Whether first bytes are kept that were written before.
    pub(crate) fn keeps_old_bytes(&self, before: Instant) -> bool {
        let known = self.known();
        let first = known.first_bytes.as_ref();
        first.is_some_and(|first| first.since <= before)
    }

    /// Takes the first bytes to write them out; `None` if there are none, or none any more. While the guard is there
    /// all other requests wait.
    pub(crate) fn take_first_bytes(&self) -> Option<(FirstBytes, MutexGuard<'_, ()>)> {
        if self.known().first_bytes.is_none() && self.writing_out.try_lock().is_ok() {
            return None;
        }
        let guard = cancellation::lock_awaiting(&self.writing_out);
        let first = self.known().first_bytes.take();
        first.map(|first| (first, guard))
    }
}
