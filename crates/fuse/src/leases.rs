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
//!   An epoch has a price: the kernel takes away what is mounted on a directory of an earlier one, as if it had
//!   been removed. So while something is mounted below this mount (that this process can see) no epoch
//!   begins, and entries are told to be believed not at all; a recall waits until those that were told before
//!   are believed no more.
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
use pandofs_types::limits::MAX_CACHED_LEASES;
use pandofs_types::{Attr, FileKind, Ino, LeaseKey, Name};
use std::collections::VecDeque;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The protocol's version that has epochs.
const EPOCHS_SINCE: (u32, u32) = (7, 44);
/// How long the kernel may believe an entry that was listed.
const LISTED_AT_MOST: Duration = Duration::from_secs(1);

/// How often to look what is mounted where.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// What the kernel was told of inodes, and when it has forgotten that by itself.
#[derive(Debug, Default)]
pub(crate) struct Told {
    inodes: Mutex<VecDeque<(Instant, Ino)>>,
    /// The kernel knows epochs.
    epochs: AtomicBool,
    entries: Mutex<Entries>,
    mountpoint: OnceLock<PathBuf>,
}

/// What the kernel was told of entries.
#[derive(Debug, Default)]
struct Entries {
    /// Until when it believes any.
    until: Option<Instant>,
    /// When it was last looked whether something is mounted below.
    looked: Option<Instant>,
    is_mounted_on: bool,
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

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the file system is mounted.
    pub fn mounted_at(&self, mountpoint: &Path) {
        // It is set once, before the first request is taken.
        let _ = self.mountpoint.set(mountpoint.to_owned());
    }

    fn look(&self, entries: &mut Entries, now: Instant) {
        entries.looked = Some(now);
        let table = fs::read("/proc/self/mountinfo");
        entries.is_mounted_on = match (self.mountpoint.get(), table) {
            (Some(mountpoint), Ok(table)) => is_mounted_on(&table, mountpoint),
            _ => true,
        };
    }

    /// The kernel is about to be told to believe an entry for so long; for how long it may.
    fn note_entry(&self, how_long: Duration) -> Duration {
        if how_long.is_zero() || !self.epochs.load(Ordering::Relaxed) {
            return Duration::ZERO;
        }
        let now = Instant::now();
        let mut entries = self.entries();
        let is_due = |looked| now.saturating_duration_since(looked) >= LOOK_INTERVAL;
        if entries.looked.is_none_or(is_due) {
            self.look(&mut entries, now);
        }
        if entries.is_mounted_on {
            return Duration::ZERO;
        }
        entries.until = entries.until.max(Some(now + how_long));
        how_long
    }

    /// Has the kernel believe no entry that it was told of.
    fn take_entries_back(&self, kernel: &Kernel) {
        let now = Instant::now();
        let until = {
            let mut entries = self.entries();
            if entries.until.is_none_or(|until| until <= now) {
                return;
            }
            self.look(&mut entries, now);
            if !entries.is_mounted_on && self.epochs.load(Ordering::SeqCst) {
                match kernel.forget_entries() {
                    Ok(()) => return,
                    Err(error) => {
                        tracing::error!(%error, "the kernel begins no epoch: it is to ask for each name");
                        self.epochs.store(false, Ordering::SeqCst);
                    }
                }
            }
            entries.until
        };
        // None are told any more.
        if let Some(until) = until {
            thread::sleep(until.saturating_duration_since(now));
        }
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
        if has_entries {
            self.told.take_entries_back(&self.kernel);
        }
    }

    fn forget(&self, ino: Ino) {
        self.dir_attrs.forget(ino);
        self.no_xattrs.forget(ino);
        self.kernel.forget_attr(ino);
    }
}

/// Whether the table (proc_pid_mountinfo(5)) has anything that is mounted below this mount point.
fn is_mounted_on(table: &[u8], mountpoint: &Path) -> bool {
    let above = mountpoint.as_os_str().as_bytes();
    let is_below = |line: &[u8]| {
        let point = line.split(|&byte| byte == b' ').nth(4).map(unescaped);
        point.is_some_and(|point| {
            let below = point.strip_prefix(above);
            below.is_some_and(|below| below.first() == Some(&b'/') || above == b"/")
        })
    };
    table.split(|&byte| byte == b'\n').any(is_below)
}

/// A path of the table: blanks and the like are written as three octal digits.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, after)) = rest.split_first() {
        let digits = after
            .get(..3)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let code = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) if first == b'\\' => {
                bytes.push(code);
                rest = &after[3..];
            }
            _ => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    bytes
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
            (Cache::Leases, _) => {
                let leased = self.client.entry_believed(dir, name, ino);
                let timeout = self.told.note_entry(leased);
                // Again: who hears of a recall takes back what was noted before.
                if timeout.is_zero() || self.client.entry_believed(dir, name, ino).is_zero() {
                    return Duration::ZERO;
                }
                timeout
            }
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
        self.note_dir(attr.ino, timeout)
    }

    /// Notes that the kernel is told to believe a directory's attributes for so long; for how long it may.
    pub fn note_dir(&self, dir: Ino, how_long: Duration) -> Duration {
        if self.options.cache == Cache::Timeouts || how_long.is_zero() {
            return how_long;
        }
        match self.told.note(dir, how_long) && !self.client.dir_believed(dir).is_zero() {
            true => how_long,
            false => Duration::ZERO,
        }
    }

    /// The same of what is no directory, or is no more.
    pub fn attr_timeout(&self, attr: &Attr) -> Duration {
        match self.options.cache {
            Cache::Timeouts => self.options.attr_timeout,
            Cache::Leases => {
                let timeout = self.client.attr_believed(attr);
                // As with entries.
                let may = !timeout.is_zero()
                    && self.told.note(attr.ino, timeout)
                    && !self.client.attr_believed(attr).is_zero();
                if may { timeout } else { Duration::ZERO }
            }
        }
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
    fn what_is_mounted_below_is_found() {
        let table = b"36 35 98:0 / /mnt/pan\\040do rw master:1 - fuse.pandofs x rw\n\
            37 36 0:5 / /mnt/pan\\040do-2/x rw - tmpfs none rw\n";
        let here = Path::new("/mnt/pan do");
        assert!(!is_mounted_on(table, here));
        let below = [
            &table[..],
            b"38 36 0:6 / /mnt/pan\\040do/sub rw - tmpfs none rw\n",
        ]
        .concat();
        assert!(is_mounted_on(&below, here));
        assert!(!is_mounted_on(&below, Path::new("/mnt/pan do/sub")));
        assert!(is_mounted_on(&below, Path::new("/")));
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
