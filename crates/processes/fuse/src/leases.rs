//! Lease times for the kernel's cache, and recalls of them.
//!
//! With leases the kernel may cache an answer for the rest of the lease, names for at most half a
//! second of it. It counts from when a waiting thread takes the answer in, which on a busy machine
//! is later than the mount gave it: so it gets so much less ([`LATE`]), or it would use after the
//! lease, when another mount's change is made without waiting for this one (its network is down,
//! say), what that change has undone. When a lease is recalled the kernel's cache is cleared of it
//! before the recall is answered: of names by [invalidations](crate::invalidations), of attributes
//! one by one, for which the kernel locks nothing; an answer that is on its way is not cached after
//! that.

use crate::dead_dirs::DeadDirs;
use crate::dir_attrs::{Asked, DirAttrs};
use crate::invalidations::{CachedName, Invalidations, LATE, until_late};
use crate::kernel::Kernel;
use crate::kernel_cache::KernelCache;
use crate::no_xattrs::NoXattrs;
use crate::ops::PandoFs;
use crate::options::{Cache, Options};
use pandofs_client::trace::untraced;
use pandofs_client::{Client, ClientError, Entry, Recall};
use pandofs_fuse_kernel::Negotiation;
use pandofs_types::{Attr, Credentials, FileKind, Ino, LeaseKey, Name};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The protocol's version in which names can expire.
const EXPIRY_SINCE: (u32, u32) = (7, 38);

/// A rename in a directory: the old name, the new one and the inode.
pub(crate) type Move<'a> = ((Ino, &'a Name), (Ino, &'a Name), Ino);

/// The kernel's cache under leases.
#[derive(Debug)]
pub(crate) struct Cached {
    pub kernel_cache: KernelCache,
    pub invalidations: Invalidations,
    /// The kernel knows that names can expire; another one may cache no names at all.
    can_expire: AtomicBool,
}

impl Cached {
    /// With a client that caches so many names and attributes.
    pub(crate) fn within(leases: usize) -> Cached {
        Cached {
            kernel_cache: KernelCache::within(leases),
            invalidations: Invalidations::default(),
            can_expire: AtomicBool::new(false),
        }
    }

    /// Learns what the kernel can do.
    pub(crate) fn negotiate(&self, kernel: &Negotiation) {
        let can_expire = kernel.version() >= EXPIRY_SINCE;
        if !can_expire {
            tracing::info!("this kernel cannot expire names: it caches none and asks for each");
        }
        self.can_expire.store(can_expire, Ordering::SeqCst);
    }
}

/// The parts of a mount that recalls concern.
pub(crate) struct RecallListeners {
    pub kernel: Kernel,
    pub cached: Arc<Cached>,
    pub dir_attrs: Arc<DirAttrs>,
    pub dead_dirs: Arc<DeadDirs>,
    pub no_xattrs: Arc<NoXattrs>,
}

impl RecallListeners {
    /// Has the client take leases, and the kernel hear of recalls.
    ///
    /// # Errors
    /// The client's; `Protocol` when there are no threads.
    pub(crate) fn listen(self, client: &Client, options: &Options) -> Result<(), ClientError> {
        let begun = self.cached.invalidations.begin(self.kernel.clone());
        begun.map_err(|error| {
            ClientError::Protocol(format!("no thread for invalidations: {error}"))
        })?;
        let checks_rights = options.default_permissions;
        client.take_leases(checks_rights, move |recall| self.hear(&recall))?;
        match options.early_names {
            true => client.take_grants(),
            false => Ok(()),
        }
    }

    fn hear(&self, recall: &Recall<'_>) {
        let kernel_cache = &self.cached.kernel_cache;
        match recall {
            Recall::Keys { keys, own } => {
                for ino in keys.iter().chain(*own).filter_map(inode) {
                    self.forget(ino);
                }
                // They stay known: a renamed one is still cached, by another name.
                let own = kernel_cache.look_up_names(own.iter().copied());
                self.cached.invalidations.invalidate_later(own);
                let names = kernel_cache.take_names(keys.iter().copied());
                if !names.is_empty() {
                    kernel_cache.fence();
                    self.cached.invalidations.invalidate(names);
                }
            }
            Recall::Everything => {
                for ino in kernel_cache.take_all_inodes() {
                    self.forget(ino);
                }
                let names = kernel_cache.take_all_names();
                kernel_cache.fence();
                self.cached.invalidations.invalidate(names);
            }
        }
    }

    fn forget(&self, ino: Ino) {
        // The change may be its removal, and a program may work in it.
        if let Some(attr) = self.dir_attrs.last_told(ino) {
            self.dead_dirs.removed(attr);
        }
        self.dir_attrs.forget(ino);
        self.no_xattrs.forget(ino);
        self.kernel.forget_attr(ino);
    }
}

fn inode(key: &LeaseKey) -> Option<Ino> {
    match *key {
        LeaseKey::Entry { .. } | LeaseKey::Grant(_) => None,
        LeaseKey::Inode(ino) | LeaseKey::Parts(ino) => Some(ino),
    }
}

impl PandoFs {
    fn has_leases(&self) -> bool {
        self.options.cache == Cache::Leases
    }

    /// The time for which the kernel may cache that the name leads to an inode of this kind, or to
    /// nothing.
    pub(crate) fn entry_timeout(
        &self,
        dir: Ino,
        name: &Name,
        leads_to: Option<(Ino, FileKind)>,
    ) -> Duration {
        match (self.options.cache, leads_to) {
            (Cache::Timeouts, Some(_)) => self.options.entry_timeout,
            (Cache::Timeouts, None) => self.options.negative_timeout,
            (Cache::Leases, _) => {
                let (ino, kind) = leads_to.unzip();
                if !self.cached.can_expire.load(Ordering::Relaxed) {
                    return Duration::ZERO;
                }
                let key = self.client.entry_key(dir, name);
                let leased = self.client.entry_cached_for(key, name, ino);
                let timeout = (self.cached.kernel_cache).note_name(key, (dir, name), kind, leased);
                // Again: the thread that hears of a recall takes back what was noted before.
                if timeout.is_zero() || self.client.entry_cached_for(key, name, ino).is_zero() {
                    return Duration::ZERO;
                }
                timeout
            }
        }
    }

    /// The time for which the kernel may cache each entry of a listing: the name and, as it takes
    /// one time for both, the attributes.
    pub(crate) fn listed_timeouts(
        &self,
        dir: Ino,
        entries: &[Entry],
        asked: Asked,
    ) -> Vec<Duration> {
        match self.options.cache {
            Cache::Timeouts => {
                let timeout = |entry: &Entry| {
                    let attr = entry.attr.as_ref();
                    attr.map_or(Duration::ZERO, |attr| {
                        self.believable(attr, asked).min(self.options.entry_timeout)
                    })
                };
                entries.iter().map(timeout).collect()
            }
            Cache::Leases => self.leased_timeouts(dir, entries, asked),
        }
    }

    fn leased_timeouts(&self, dir: Ino, entries: &[Entry], asked: Asked) -> Vec<Duration> {
        if !self.cached.can_expire.load(Ordering::Relaxed) {
            return vec![Duration::ZERO; entries.len()];
        }
        let kernel_cache = &self.cached.kernel_cache;
        let key = |entry: &Entry| self.client.entry_key(dir, &entry.name);
        let keys: Vec<_> = entries.iter().map(key).collect();
        let cached = self.client.listed_cached_for(&keys, entries);
        let names = keys.iter().zip(entries).zip(&cached);
        let names =
            names.map(|((&key, entry), &(name, _))| (key, &entry.name, Some(entry.kind), name));
        let names = kernel_cache.note_names(dir, names);
        let attrs = entries.iter().zip(&cached);
        let attrs = attrs.map(|(entry, &(_, attr))| (entry.ino, until_late(attr)));
        let mut noted = kernel_cache.note_all(attrs.filter(|(_, attr)| !attr.is_zero()));
        // Again: the thread that hears of a recall takes back what was noted before.
        let still = self.client.listed_cached_for(&keys, entries);
        let mut timeouts = Vec::with_capacity(entries.len());
        let mut without = Vec::with_capacity(entries.len());
        for (at, entry) in entries.iter().enumerate() {
            let attr = until_late(cached[at].1);
            let is_noted = !attr.is_zero() && noted > 0;
            noted -= usize::from(is_noted);
            let attr_timeout = match &entry.attr {
                None => Duration::ZERO,
                Some(known) if known.kind == FileKind::Dir => self.believable(known, asked),
                Some(known) => {
                    let may = is_noted && !still[at].1.is_zero();
                    let timeout = if may { attr } else { Duration::ZERO };
                    without.push((known, timeout));
                    timeout
                }
            };
            let name = if still[at].0.is_zero() {
                Duration::ZERO
            } else {
                names[at]
            };
            timeouts.push(name.min(attr_timeout));
        }
        self.no_xattrs.learn_all(without.into_iter());
        timeouts
    }

    /// Notes renames, of which the program is about to get the answer. The kernel takes what it
    /// caches of the old name, and for how long, for the new one: as if it had got that with a
    /// lease.
    pub(crate) fn names_moved(&self, moves: &[Move<'_>]) {
        if !self.has_leases() {
            return;
        }
        let kernel_cache = &self.cached.kernel_cache;
        let key = |(dir, name): (Ino, &Name)| self.client.entry_key(dir, name);
        let mut cached = Vec::new();
        for (from, to, ino) in moves {
            let known = kernel_cache.take_names(std::iter::once(key(*from)));
            cached.extend(known.into_iter().map(|known| (known, *to, *ino)));
        }
        for (known, to, ino) in cached {
            kernel_cache.take_names(std::iter::once(key(to)));
            let (dir, name) = to;
            // It may be leased to another mount, or gone, by now.
            let asked = untraced(|| self.client.lookup(&Credentials::ROOT, dir, name));
            let timeout = match (asked, known.kind) {
                (Ok(_), Some(kind)) => self.entry_timeout(dir, name, Some((ino, kind))),
                _ => Duration::ZERO,
            };
            let is_shorter = timeout.is_zero() || Instant::now() + timeout + LATE < known.until;
            if is_shorter {
                // It gets through when the kernel has been answered and has let go of both
                // directories.
                let name = name.clone();
                let moved = CachedName { dir, name, ..known };
                self.cached.invalidations.invalidate_later(vec![moved]);
            }
        }
    }

    /// The time for which the kernel may cache attributes that servers gave in answer to a
    /// question.
    pub(crate) fn believable(&self, attr: &Attr, asked: Asked) -> Duration {
        let exact = self.attr_timeout(attr);
        self.no_xattrs.learn(attr, exact);
        if attr.kind != FileKind::Dir {
            return exact;
        }
        if !self.has_leases() {
            return self.dir_attrs.learn(attr, asked, exact);
        }
        // Attributes that this mount itself is changing are not known for sure, but leased all the
        // same.
        let leased = exact.max(until_late(self.client.dir_cached_for(attr.ino)));
        let timeout = self.dir_attrs.learn(attr, asked, leased);
        self.note_dir(attr.ino, timeout)
    }

    /// Notes that the kernel gets a directory's attributes for so long. Returns the time for which
    /// it may have them.
    pub(crate) fn note_dir(&self, dir: Ino, how_long: Duration) -> Duration {
        if self.options.cache == Cache::Timeouts || how_long.is_zero() {
            return how_long;
        }
        match self.cached.kernel_cache.note(dir, how_long)
            && !self.client.dir_cached_for(dir).is_zero()
        {
            true => how_long,
            false => Duration::ZERO,
        }
    }

    /// The same of what is no directory, or is no more.
    pub(crate) fn attr_timeout(&self, attr: &Attr) -> Duration {
        match self.options.cache {
            Cache::Timeouts => self.options.attr_timeout,
            Cache::Leases => {
                let timeout = until_late(self.client.attr_cached_for(attr));
                // As with entries.
                let may = !timeout.is_zero()
                    && self.cached.kernel_cache.note(attr.ino, timeout)
                    && !self.client.attr_cached_for(attr).is_zero();
                if may { timeout } else { Duration::ZERO }
            }
        }
    }
}
