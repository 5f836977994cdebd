//! State of a directory that is being copied.

use crate::mirror::{Mirrored, Slot};
use pandofs_walk_fs::{DirState, Stat, Time, Unreadable};
use rustix::fs::{Timespec, Timestamps};
use serde::{Deserialize, Serialize};
use std::ffi::CString;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A directory that is being copied.
#[derive(Debug)]
pub(crate) struct Twin {
    slot: Slot,
    /// The counterpart does not exist, and is not made: nothing is, in a dry run.
    pub missing: bool,
    large: Mutex<Larges>,
}

/// Files that are copied piece by piece, and are finished when their directory is left.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Larges {
    pub files: Vec<Large>,
    /// Names of copies of which a piece failed.
    pub failed: Vec<CString>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Large {
    pub name: CString,
    /// Temporary name of the copy, unless it has its own at once, as a file with several names
    /// does.
    pub temporary: Option<CString>,
    /// Of one with several names: by which others find it.
    pub key: Option<CString>,
    pub seen: Seen,
}

/// A file as it was before any of it was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Seen {
    pub size: u64,
    /// Seconds and nanoseconds.
    pub modified: (i64, u32),
    accessed: (i64, u32),
}

impl Seen {
    pub(crate) fn of(stat: &Stat) -> Seen {
        let pair = |time: Time| (time.seconds, time.nanoseconds);
        Seen {
            size: stat.size(),
            modified: pair(stat.modified()),
            accessed: pair(stat.accessed()),
        }
    }

    /// The times of access and modification.
    pub(crate) fn times(&self) -> Timestamps {
        let timespec = |(seconds, nanoseconds): (i64, u32)| Timespec {
            tv_sec: seconds,
            tv_nsec: i64::from(nanoseconds),
        };
        Timestamps {
            last_access: timespec(self.accessed),
            last_modification: timespec(self.modified),
        }
    }
}

impl Twin {
    pub(crate) fn larges(&self) -> MutexGuard<'_, Larges> {
        self.large.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DirState for Twin {
    fn new(seed: [u64; 2]) -> Twin {
        Twin {
            slot: Slot::default(),
            missing: seed[0] != 0,
            large: Mutex::default(),
        }
    }

    fn gathered(&self) -> Vec<u8> {
        match postcard::to_stdvec(&*self.larges()) {
            Ok(bytes) => bytes,
            Err(error) => unreachable!("a vector takes everything: {error}"),
        }
    }

    fn add(&self, gathered: &[u8]) -> Result<(), Unreadable> {
        let other: Larges = postcard::from_bytes(gathered).map_err(|_| Unreadable)?;
        let mut all = self.larges();
        all.files.extend(other.files);
        all.failed.extend(other.failed);
        Ok(())
    }
}

impl Mirrored for Twin {
    fn slot(&self) -> &Slot {
        &self.slot
    }
}
