//! Objects that a sync failed for.
//!
//! Linux tells of a write-back that failed once: the next sync through the same open file, of
//! pages that have not been changed since, finds nothing to do and succeeds, and so it does for a
//! file opened later. Their bytes are in memory only, and gone as soon as memory is needed. So a
//! sync that failed, whatever it was for (a client, a shard, or this server, to settle the
//! object), is remembered here, and the object's bytes are written once more, all of them, before
//! they are acknowledged as on disk. Memory may have given them up by then: what comes back from
//! the disk does not fit its checksum, and no error is reported.

use super::objects::{self, Objects};
use super::open::OpenObject;
use super::sums::SumsError;
use crate::limits::MAX_REWRITES_KNOWN;
use pandofs_types::{FsError, Ino};
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Which objects are to be written once more before they may count as synced.
#[derive(Debug, Default)]
pub(crate) struct Rewrites(Mutex<Wanted>);

#[derive(Debug, Default)]
struct Wanted {
    objects: BTreeSet<Ino>,
    /// More of them than are kept apart: all are, until the server is started again.
    any: bool,
}

impl Rewrites {
    fn wanted(&self) -> MutexGuard<'_, Wanted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A sync of the object failed.
    pub(crate) fn want(&self, ino: Ino) {
        let mut wanted = self.wanted();
        if wanted.objects.len() < MAX_REWRITES_KNOWN {
            wanted.objects.insert(ino);
        } else {
            wanted.any = true;
        }
    }

    /// Whether a sync that succeeds says nothing of what was changed before.
    pub(crate) fn is_wanted(&self, ino: Ino) -> bool {
        let wanted = self.wanted();
        wanted.any || wanted.objects.contains(&ino)
    }

    /// Of one that is known to be wanted.
    pub(crate) fn is_still_wanted(&self, ino: Ino) -> bool {
        self.wanted().objects.contains(&ino)
    }

    /// It has been written once more, or is gone.
    pub(crate) fn done(&self, ino: Ino) {
        self.wanted().objects.remove(&ino);
    }
}

impl Objects {
    /// Writes all of the object once more if a sync of it failed.
    pub(super) fn write_whole_again(&mut self, object: &OpenObject) -> Result<(), FsError> {
        let (ino, rewrites) = (object.ino, &self.holdings.rewrites);
        if !rewrites.is_wanted(ino) {
            return Ok(());
        }
        let written = object.checked.write_again();
        written.map_err(|error: SumsError| self.refusal("write once more", ino, error))?;
        self.holdings.rewrites.done(ino);
        tracing::info!(
            "{} (inode {ino}) is written once more, as a sync of it had failed",
            objects::path(&self.holdings.root, ino).display()
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_bounded_and_nothing_that_failed_is_forgotten() {
        let rewrites = Rewrites::default();
        for ino in 0..MAX_REWRITES_KNOWN as u64 {
            rewrites.want(Ino(ino));
        }
        let beyond = Ino(1 << 40);
        assert!(rewrites.is_wanted(Ino(5)) && !rewrites.is_wanted(beyond));
        rewrites.done(Ino(5));
        assert!(!rewrites.is_wanted(Ino(5)));
        rewrites.want(Ino(5));
        rewrites.want(beyond);
        assert!(rewrites.is_wanted(beyond));
        rewrites.done(beyond);
        assert!(rewrites.is_wanted(beyond));
        assert_eq!(rewrites.wanted().objects.len(), MAX_REWRITES_KNOWN);
    }
}
