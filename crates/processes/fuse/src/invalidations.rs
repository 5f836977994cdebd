//! Invalidations of names in the kernel's cache, written by threads of their own.
//!
//! For an invalidation of a name the kernel locks its directory, which is locked while a program
//! makes, removes or renames something in it. That program may be waiting for a server that waits
//! for this mount to answer the recall, or for another mount of which the same is true. So
//! invalidations are written by threads that do nothing else, and none is waited for longer than
//! the kernel caches the name anyway: for [`NAME_AT_MOST`] from when it takes the answer in, which
//! is [`LATE`] after it was given at most; then the recall can be answered whether the invalidation
//! got through or not. Invalidations of names that this mount itself is changing (its program holds
//! that lock until the change is answered) are not waited for at all.
//!
//! One that *expires* a name has the kernel ask for it before it uses it again; if it leads to the
//! same inode as before no program notices. One that *drops* it does what a removal does: a program
//! whose working directory or executable is below would see it as deleted.
//!
//! But there is one answer that expiry does not reach. A kernel thread that asks for a name which
//! it knows to lead somewhere does so without the lock:
//!
//! ```text
//! kernel thread:  asks for NAME             (is woken)     caches NAME
//! mount:                        answers
//! invalidation:                          expires NAME
//! ```
//!
//! So a file's name that was answered a moment ago ([`SETTLED_AFTER`]) is dropped, which the answer
//! in that thread does not survive; a directory's, in which a program may be working, is expired
//! again when the thread has had time. So is a name that this mount itself is changing: when the
//! invalidation gets through it leads to something else, which was never answered and may be a
//! directory (a layer of an overlay, renamed to where a moment ago was nothing, would be taken for
//! removed). An answer that is noted and not sent is waited for: [`KernelCache::fence`]. The kernel
//! holds the lock when it asks for a name of which it has nothing or that is absent, and for
//! listings and new names.
//!
//! [`KernelCache::fence`]: crate::kernel_cache::KernelCache::fence

use crate::kernel::Kernel;
use pandofs_types::{FileKind, Ino, Name};
use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The time for which the kernel may cache a name after it took it in.
pub(crate) const NAME_AT_MOST: Duration = Duration::from_millis(500);

/// The longest time between a mount's answer and a kernel thread's taking it in, on however busy a
/// machine.
///
/// Names that are not invalidated in time are waited for so much longer, and the kernel gets so
/// much less than a lease: it counts from when it takes the answer in. With 0, a program on this
/// mount did not find a file which another mount had made and closed:
///
/// ```text
/// kernel thread:  asks for NAME                (is woken)  caches its absence ...................| for 1 s
/// program:        waits for a server, and holds the directory's lock ................
/// mount:                        answers NAME       is asked to take NAME back; 1 s after its answer says it has
/// other mount:                                     makes NAME ..................................|
/// ```
pub(crate) const LATE: Duration = Duration::from_millis(500);

/// The part of a lease for which the kernel may cache what is leased.
pub(crate) fn until_late(leased: Duration) -> Duration {
    leased.saturating_sub(LATE)
}

/// The time in which a kernel thread has as a rule taken an answer in.
const SETTLED_AFTER: Duration = Duration::from_millis(50);

/// Threads that write invalidations. Those of one directory are written by one, so that a directory
/// that is locked keeps few others waiting.
const THREADS: usize = 4;

/// Batches that wait for one thread. With more waiting names are left to end by themselves.
const MAX_WAITING_BATCHES: usize = 256;

/// A name in the kernel's cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CachedName {
    pub dir: Ino,
    pub name: Name,
    /// The kind of its inode; `None`: there is none.
    pub kind: Option<FileKind>,
    pub at: Instant,
    /// The end of its time in the cache, whatever happens.
    pub until: Instant,
}

/// The receiver of invalidations.
pub(crate) trait Invalidate: Send + Sync + 'static {
    fn expire(&self, name: &CachedName);
    fn drop(&self, name: &CachedName);
}

impl Invalidate for Kernel {
    fn expire(&self, name: &CachedName) {
        self.expire_name(name.dir, &name.name);
    }

    fn drop(&self, name: &CachedName) {
        self.drop_name(name.dir, &name.name);
    }
}

/// Names that are expired again without being waited for; with more of one thread the oldest are
/// left to end by themselves.
const MAX_EXPIRED_AGAIN: usize = 1 << 12;

/// Names of one thread that are invalidated together.
struct Batch {
    names: Vec<CachedName>,
    /// The count to lower, if the batch is waited for. Names that this mount is changing are not.
    pending: Option<Arc<Pending>>,
}

/// Batches that are waited for.
#[derive(Default)]
struct Pending {
    count: Mutex<usize>,
    changed: Condvar,
}

impl Pending {
    fn add(&self, count: isize) {
        let mut pending = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        *pending = pending
            .checked_add_signed(count)
            .expect("more batches are done than were sent");
        self.changed.notify_all();
    }

    fn wait_until(&self, deadline: Instant) {
        let pending = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let how_long = deadline.saturating_duration_since(Instant::now());
        let waited = self
            .changed
            .wait_timeout_while(pending, how_long, |pending| *pending > 0);
        drop(waited);
    }
}

/// The threads that write invalidations.
#[derive(Debug, Default)]
pub(crate) struct Invalidations {
    queues: OnceLock<Vec<SyncSender<Batch>>>,
}

impl Invalidations {
    /// Starts the threads; they end with this.
    ///
    /// # Errors
    /// When there are no more threads.
    pub(crate) fn begin(&self, kernel: impl Invalidate + Clone) -> io::Result<()> {
        let mut queues = Vec::with_capacity(THREADS);
        for number in 0..THREADS {
            let (sender, batches) = sync_channel(MAX_WAITING_BATCHES);
            let kernel = kernel.clone();
            thread::Builder::new()
                .name(format!("pandofs-inval-{number}"))
                .spawn(move || run(&kernel, &batches))?;
            queues.push(sender);
        }
        let is_first = self.queues.set(queues).is_ok();
        assert!(is_first, "the threads are started twice");
        Ok(())
    }

    /// Takes these out of the kernel's cache, and returns when that is done.
    pub(crate) fn invalidate(&self, names: Vec<CachedName>) {
        let deadline = names.iter().map(|name| name.until).max();
        let pending = Arc::new(Pending::default());
        self.send(names, Some(&pending));
        if let Some(deadline) = deadline {
            pending.wait_until(deadline);
        }
    }

    /// The same, some time soon, of names that this mount itself is changing or has changed.
    pub(crate) fn invalidate_later(&self, names: Vec<CachedName>) {
        self.send(names, None);
    }

    fn send(&self, names: Vec<CachedName>, pending: Option<&Arc<Pending>>) {
        let mut batches = vec![Vec::new(); THREADS];
        let now = Instant::now();
        for name in names.into_iter().filter(|name| name.until > now) {
            batches[(name.dir.0 % THREADS as u64) as usize].push(name);
        }
        for (names, queue) in batches
            .into_iter()
            .zip(self.queues.get().into_iter().flatten())
        {
            if names.is_empty() {
                continue;
            }
            // It stays so where the thread does not get to it: the wait ends when the names do.
            if let Some(pending) = pending {
                pending.add(1);
            }
            let pending = pending.cloned();
            match queue.try_send(Batch { names, pending }) {
                Ok(()) => {}
                Err(TrySendError::Full(_)) => {
                    tracing::debug!(
                        "the kernel is slow to take invalidations of names: they end by themselves"
                    );
                }
                Err(TrySendError::Disconnected(_)) => {
                    unreachable!("invalidation threads end with their queues")
                }
            }
        }
    }
}

fn run(kernel: &impl Invalidate, batches: &Receiver<Batch>) {
    // To be expired again, and when; nearly in order.
    let mut again: VecDeque<(Instant, CachedName)> = VecDeque::new();
    loop {
        let batch = match again.front() {
            None => batches.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some((settled, _)) => {
                batches.recv_timeout(settled.saturating_duration_since(Instant::now()))
            }
        };
        match batch {
            Ok(batch) => match batch.pending {
                Some(pending) => {
                    invalidate(kernel, &batch.names);
                    pending.add(-1);
                }
                None => {
                    again.extend(expire_first(kernel, batch.names));
                    let room = again.len().saturating_sub(MAX_EXPIRED_AGAIN);
                    again.drain(..room);
                }
            },
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        while let Some((settled, _)) = again.front()
            && *settled <= Instant::now()
            && let Some((_, name)) = again.pop_front()
        {
            kernel.expire(&name);
        }
    }
}

/// Takes these out of the kernel's cache.
fn invalidate(kernel: &impl Invalidate, names: &[CachedName]) {
    let mut again = Vec::new();
    for name in names {
        let now = Instant::now();
        if name.until <= now {
            continue;
        }
        let settled = name.at + SETTLED_AFTER;
        match name.kind {
            Some(FileKind::Dir) if settled > now => {
                kernel.expire(name);
                again.push((settled, name));
            }
            Some(_) if settled > now => kernel.drop(name),
            Some(_) | None => kernel.expire(name),
        }
    }
    for (settled, name) in again {
        thread::sleep(settled.saturating_duration_since(Instant::now()));
        kernel.expire(name);
    }
}

/// Expires these. Returns those that are to be expired again, and when.
fn expire_first(kernel: &impl Invalidate, names: Vec<CachedName>) -> Vec<(Instant, CachedName)> {
    let mut again = Vec::new();
    for name in names {
        let now = Instant::now();
        if name.until <= now {
            continue;
        }
        kernel.expire(&name);
        let settled = name.at + SETTLED_AFTER;
        if settled > now {
            again.push((settled, name));
        }
    }
    again
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record of invalidations, and a directory whose ones do not get through while its lock is
    /// held.
    #[derive(Clone, Default)]
    struct Recorder {
        heard: Arc<Mutex<Vec<(&'static str, Name)>>>,
        locked: Arc<Mutex<()>>,
    }

    impl Recorder {
        const LOCKED: Ino = Ino(5);

        fn note(&self, what: &'static str, name: &CachedName) {
            if name.dir == Recorder::LOCKED {
                drop(self.locked.lock().unwrap());
            }
            self.heard.lock().unwrap().push((what, name.name.clone()));
        }
    }

    impl Invalidate for Recorder {
        fn expire(&self, name: &CachedName) {
            self.note("expire", name);
        }

        fn drop(&self, name: &CachedName) {
            self.note("drop", name);
        }
    }

    fn named(name: &str) -> Name {
        Name::new(name.as_bytes()).unwrap()
    }

    const FILE: Option<FileKind> = Some(FileKind::File);
    const DIR: Option<FileKind> = Some(FileKind::Dir);

    fn told(
        dir: Ino,
        name: &str,
        kind: Option<FileKind>,
        ago: Duration,
        left: Duration,
    ) -> CachedName {
        let now = Instant::now();
        let at = now
            .checked_sub(ago)
            .expect("the machine has run for a while");
        let (name, until) = (named(name), now + left);
        CachedName {
            dir,
            name,
            kind,
            at,
            until,
        }
    }

    const LONG: Duration = Duration::from_secs(3_600);

    #[test]
    fn what_is_settled_expires_and_what_is_not_is_dropped_or_expires_twice() {
        let (invalidations, recorder) = (Invalidations::default(), Recorder::default());
        invalidations.begin(recorder.clone()).unwrap();
        let dir = Ino(4);
        // However long this thread is held up here, it is still new then.
        let mut new_dir = told(dir, "new directory", DIR, LONG, LONG);
        new_dir.at = Instant::now() + Duration::from_secs(1);
        invalidations.invalidate(vec![
            told(dir, "old file", FILE, LONG, LONG),
            told(dir, "old directory", DIR, LONG, LONG),
            told(dir, "over", FILE, LONG, Duration::ZERO),
            new_dir,
        ]);
        let heard = std::mem::take(&mut *recorder.heard.lock().unwrap());
        let expected = [
            "old file",
            "old directory",
            "new directory",
            "new directory",
        ];
        assert_eq!(heard, expected.map(|name| ("expire", named(name))));

        let mut new = told(dir, "new file", FILE, LONG, LONG);
        let mut nothing = told(dir, "nothing", None, LONG, LONG);
        (new.at, nothing.at) = (new.until, nothing.until);
        invalidations.invalidate(vec![new, nothing]);
        let heard = recorder.heard.lock().unwrap().clone();
        let expected = [("drop", named("new file")), ("expire", named("nothing"))];
        assert_eq!(heard, expected);
    }

    /// `rmdir` on an overlay ended with `EIO`: a directory had been renamed to a name that a moment
    /// ago had led to nothing, and was dropped with it.
    #[test]
    fn what_this_mount_changes_is_never_dropped() {
        let (invalidations, recorder) = (Invalidations::default(), Recorder::default());
        invalidations.begin(recorder.clone()).unwrap();
        let dir = Ino(4);
        let mut new = told(dir, "new", FILE, LONG, LONG);
        new.at = Instant::now() + Duration::from_secs(1);
        invalidations.invalidate_later(vec![new, told(dir, "old", FILE, LONG, LONG)]);
        // Of the same thread, and so after these.
        invalidations.invalidate(vec![told(dir, "last", FILE, LONG, LONG)]);
        let heard = std::mem::take(&mut *recorder.heard.lock().unwrap());
        let expected = ["new", "old", "last"];
        assert_eq!(heard, expected.map(|name| ("expire", named(name))));
        // And again when the thread that asked for it has had time.
        while recorder.heard.lock().unwrap().is_empty() {
            thread::sleep(Duration::from_millis(1));
        }
        let heard = recorder.heard.lock().unwrap().clone();
        assert_eq!(heard, [("expire", named("new"))]);
    }

    #[test]
    fn no_wait_is_longer_than_a_name_is_cached() {
        let (invalidations, recorder) = (Invalidations::default(), Recorder::default());
        invalidations.begin(recorder.clone()).unwrap();
        let lock = recorder.locked.lock().unwrap();
        let (little, other) = (Duration::from_millis(20), Ino(6));
        invalidations.invalidate(vec![told(Recorder::LOCKED, "a", FILE, LONG, little)]);
        // Others are written by other threads meanwhile.
        invalidations.invalidate(vec![told(other, "b", FILE, LONG, LONG)]);
        assert_eq!(*recorder.heard.lock().unwrap(), [("expire", named("b"))]);
        // An invalidation that is not waited for is not lost.
        invalidations.invalidate_later(vec![told(Recorder::LOCKED, "c", FILE, LONG, LONG)]);
        drop(lock);
        invalidations.invalidate(vec![told(Recorder::LOCKED, "d", FILE, LONG, LONG)]);
        let heard = recorder.heard.lock().unwrap().clone();
        let last: Vec<_> = heard.iter().rev().take(2).collect();
        assert_eq!(last, [&("expire", named("d")), &("expire", named("c"))]);
    }
}
