//! What the kernel is told to believe, and that it is to believe it no longer.
//!
//! With leases the kernel may believe an answer for the rest of the lease. When a lease is recalled the kernel
//! is told before the server is told that nobody believes it any more:
//!
//! - Entries all at once, by a new *epoch* (Linux 6.16): an entry that was asked for in an earlier one is asked
//!   for again, also if its answer comes after the epoch has begun. What is then asked the client library
//!   answers, as far as it is leased. A notice of one entry would not do: the kernel locks the directory for it,
//!   which is locked while a program makes a name in it. Two mounts that make names in each other's
//!   directories would wait for one another. To a kernel that knows no epochs entries are told to be believed
//!   not at all.
//! - Attributes one by one, for which the kernel locks nothing; an answer that is on its way is not taken for
//!   true after that.
//!
//! A listing with attributes (`READDIRPLUS`) is no question of one epoch: the kernel takes its entries for
//! ones of the epoch in which it looks at them, a moment after it was answered. They are told to be believed
//! for [`LISTED_AT_MOST`], so that if a recall comes in just that moment no more than that is lost.

use crate::dir_attrs::{Asked, DirAttrs};
use crate::locks::Kernel;
use crate::no_xattrs::NoXattrs;
use crate::ops::PandoFs;
use crate::options::Cache;
use fuser::KernelConfig;
use pandofs_client::{Client, ClientError, Recall};
use pandofs_types::limits::{LEASE, MAX_CACHED_LEASES};
use pandofs_types::{Attr, FileKind, Ino, LeaseKey, Name};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The protocol's version that has epochs.
const EPOCHS_SINCE: (u32, u32) = (7, 44);
/// How long the kernel may believe an entry that was listed.
const LISTED_AT_MOST: Duration = Duration::from_secs(1);

/// What the kernel was told of inodes, and when it has forgotten that by itself.
#[derive(Debug, Default)]
pub(crate) struct Told {
    inodes: Mutex<VecDeque<(Instant, Ino)>>,
    /// Entries can be taken back.
    epochs: AtomicBool,
}

impl Told {
    /// The kernel is about to be told to believe attributes for so long; false if it is not to be.
    fn note(&self, ino: Ino, how_long: Duration) -> bool {
        let now = Instant::now();
        let mut inodes = self.inodes.lock().unwrap_or_else(PoisonError::into_inner);
        // Nearly in order: none is believed for longer than a lease.
        while inodes.front().is_some_and(|(until, _)| *until <= now) {
            inodes.pop_front();
        }
        let has_room = inodes.len() < 2 * MAX_CACHED_LEASES;
        if has_room {
            inodes.push_back((now + how_long, ino));
        }
        has_room
    }

    fn take_all(&self) -> Vec<Ino> {
        let mut inodes = self.inodes.lock().unwrap_or_else(PoisonError::into_inner);
        inodes.drain(..).map(|(_, ino)| ino).collect()
    }

    /// Learns what the kernel can do.
    pub fn negotiate(&self, kernel: &KernelConfig) {
        let abi = kernel.kernel_abi();
        let has_epochs = (abi.0, abi.1) >= EPOCHS_SINCE;
        if !has_epochs {
            tracing::info!("this kernel knows no epochs: it asks for each name");
        }
        self.epochs.store(has_epochs, Ordering::SeqCst);
    }
}

/// Who is to hear of recalls.
pub(crate) struct Hearers {
    pub kernel: Kernel,
    pub told: Arc<Told>,
    pub dir_attrs: Arc<DirAttrs>,
    pub no_xattrs: Arc<NoXattrs>,
}

impl Hearers {
    /// Has the client take leases, and the kernel hear of recalls.
    ///
    /// # Errors
    /// The client's.
    pub fn listen(self, client: &Client, checks_rights: bool) -> Result<(), ClientError> {
        client.take_leases(checks_rights, move |recall| self.hear(&recall))
    }

    fn hear(&self, recall: &Recall<'_>) {
        let mut has_entries = false;
        match recall {
            Recall::Keys(keys) => {
                for key in *keys {
                    match key {
                        LeaseKey::Entry { .. } => has_entries = true,
                        LeaseKey::Inode(ino) | LeaseKey::Parts(ino) => self.forget(*ino),
                    }
                }
            }
            Recall::Everything => {
                has_entries = true;
                for ino in self.told.take_all() {
                    self.forget(ino);
                }
            }
        }
        if has_entries
            && self.told.epochs.load(Ordering::SeqCst)
            && let Err(error) = self.kernel.forget_entries()
        {
            tracing::error!(%error, "the kernel begins no epoch: from now on it asks for each name");
            self.told.epochs.store(false, Ordering::SeqCst);
            // What it was told before it believes until then.
            thread::sleep(LEASE);
        }
    }

    fn forget(&self, ino: Ino) {
        self.dir_attrs.forget(ino);
        self.no_xattrs.forget(ino);
        self.kernel.forget_attr(ino);
    }
}

impl PandoFs {
    fn has_leases(&self) -> bool {
        self.options.cache == Cache::Leases
    }

    /// How long the kernel may believe that the name leads to the inode, or to nothing.
    pub fn entry_timeout(&self, dir: Ino, name: &Name, ino: Option<Ino>) -> Duration {
        match (self.options.cache, ino) {
            (Cache::Timeouts, Some(_)) => self.options.entry_timeout,
            (Cache::Timeouts, None) => self.options.negative_timeout,
            (Cache::Leases, _) if self.told.epochs.load(Ordering::Relaxed) => {
                self.client.entry_believed(dir, name, ino)
            }
            (Cache::Leases, _) => Duration::ZERO,
        }
    }

    /// The same of an entry that is listed.
    pub fn listed_entry_timeout(&self, dir: Ino, name: &[u8], ino: Ino) -> Duration {
        let timeout = match Name::new(name) {
            Ok(name) => self.entry_timeout(dir, &name, Some(ino)),
            Err(_) => Duration::ZERO,
        };
        match self.has_leases() {
            true => timeout.min(LISTED_AT_MOST),
            false => timeout,
        }
    }

    /// How long the kernel may believe attributes that servers gave in answer to a question.
    pub fn believable(&self, attr: &Attr, asked: Asked) -> Duration {
        let exact = self.attr_timeout(attr);
        self.no_xattrs.told(attr, exact);
        if attr.kind != FileKind::Dir {
            return exact;
        }
        if !self.has_leases() {
            return self.dir_attrs.told(attr, asked, exact);
        }
        // What this mount itself is changing is not known for sure, but leased all the same.
        let leased = exact.max(self.client.dir_believed(attr.ino));
        let timeout = self.dir_attrs.told(attr, asked, leased);
        self.note(attr.ino, timeout)
    }

    /// The same of what is no directory, or is no more.
    pub fn attr_timeout(&self, attr: &Attr) -> Duration {
        match self.options.cache {
            Cache::Timeouts => self.options.attr_timeout,
            Cache::Leases => self.note(attr.ino, self.client.attr_believed(attr)),
        }
    }

    /// Notes that the kernel is told to believe attributes for so long, or, if it may not, for how long then.
    pub fn note(&self, ino: Ino, how_long: Duration) -> Duration {
        let may = how_long.is_zero() || !self.has_leases() || self.told.note(ino, how_long);
        if may { how_long } else { Duration::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_was_told_is_remembered_as_long_as_it_believes_it() {
        let told = Told::default();
        assert!(told.note(Ino(1), Duration::ZERO));
        assert!(told.note(Ino(2), Duration::from_secs(3_600)));
        assert!(told.note(Ino(3), Duration::from_secs(3_600)));
        assert_eq!(told.take_all(), [Ino(2), Ino(3)]);
        assert_eq!(told.take_all(), []);
    }

    #[test]
    fn no_more_is_told_than_can_be_taken_back() {
        let told = Told::default();
        let noted = (0..3 * MAX_CACHED_LEASES as u64)
            .filter(|&number| told.note(Ino(number), Duration::from_secs(3_600)))
            .count();
        assert_eq!(noted, 2 * MAX_CACHED_LEASES);
    }
}
