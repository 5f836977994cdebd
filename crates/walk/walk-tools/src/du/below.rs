//! State of a directory that is summed up.

use pandofs_walk_fs::{DirState, Unreadable};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// A directory and what is below it.
#[derive(Debug)]
pub(crate) struct Below {
    pub bytes: AtomicU64,
    /// The latest time, nanoseconds since 1970.
    pub moment: AtomicI64,
}

impl Below {
    pub(crate) fn add_both(&self, bytes: u64, moment: i64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.moment.fetch_max(moment, Ordering::Relaxed);
    }
}

impl DirState for Below {
    fn new(seed: [u64; 2]) -> Below {
        Below {
            bytes: AtomicU64::new(seed[0]),
            moment: AtomicI64::new(seed[1] as i64),
        }
    }

    fn elsewhere(seed: [u64; 2]) -> Below {
        Below::new([0, seed[1]])
    }

    fn gathered(&self) -> Vec<u8> {
        let bytes = self.bytes.load(Ordering::Relaxed).to_le_bytes();
        let moment = self.moment.load(Ordering::Relaxed).to_le_bytes();
        [bytes, moment].concat()
    }

    fn add(&self, gathered: &[u8]) -> std::result::Result<(), Unreadable> {
        let (bytes, moment) = gathered.split_first_chunk::<8>().ok_or(Unreadable)?;
        let moment = moment.try_into().map_err(|_| Unreadable)?;
        self.add_both(u64::from_le_bytes(*bytes), i64::from_le_bytes(moment));
        Ok(())
    }

    fn claimed(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}
