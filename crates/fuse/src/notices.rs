//! Has the kernel believe names no longer.
//!
//! For a notice of a name the kernel locks its directory, which is locked while a program makes, removes or
//! renames something in it. That program may be waiting for a server that waits for this mount to answer the
//! recall, or for another mount of which the same is true. So notices are written by threads that do nothing
//! else, and nobody waits for one longer than the kernel believes the name anyway: it is told to believe names
//! for [`NAME_AT_MOST`] from when it takes the answer in, which is [`LATE`] after it was given at most; then the recall
//! can be answered whether the notice got through or not. For names that this mount itself is changing (it holds that
//! lock until the change is answered) nobody waits at all.
//!
//! A notice *expires* a name: the kernel asks for it before it believes it again, and if it leads to the same
//! inode as before nobody notices. A notice that *drops* it would do what a removal does: a program whose working
//! directory or executable is below would be told that it has been deleted.
//!
//! But there is one answer that expiry does not reach. A kernel thread that asks for a name which it knows to lead
//! somewhere does so without the lock:
//!
//! ```text
//! kernel thread:  asks for NAME             (is woken)     believes NAME
//! mount:                        answers
//! notices:                               expires NAME
//! ```
//!
//! So a file's name that the kernel was told a moment ago ([`SETTLED_AFTER`]) is dropped, which that thread's belief
//! does not survive; a directory's, in which somebody may be working, is expired again when the thread has had time.
//! So is a name that this mount itself is changing: when the notice gets through it leads to something else, which was
//! never told and may be a directory (a layer of an overlay, renamed to where a moment ago was nothing, would be taken
//! for removed). An answer that is noted and not sent is waited for: [`KernelCache::fence`]. What asks for a name of which the
//! kernel knows nothing, or that there is nothing, lists a directory or makes a name does so with the lock.
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

/// The time for which the kernel may believe a name after it took it in.
pub(crate) const NAME_AT_MOST: Duration = Duration::from_millis(500);

/// The longest time between a mount's answer and a kernel thread's taking it in, on however busy a machine.
///
/// Names that are not taken back in time are waited for so much longer, and the kernel is told so much less than a lease:
/// it counts from when it takes the answer in. With 0, a program on this mount was
/// told that there is no file which another mount had made and closed:
///
/// ```text
/// kernel thread:  asks for NAME                (is woken)  believes there is none ...............| for 1 s
/// program:        waits for a server, and holds the directory's lock ................
/// mount:                        answers NAME       is asked to take NAME back; 1 s after its answer says it has
/// other mount:                                     makes NAME ..................................|
/// ```
pub(crate) const LATE: Duration = Duration::from_millis(500);

/// The part of a lease for which the kernel may be told to believe what is leased.
pub(crate) fn until_late(leased: Duration) -> Duration {
    leased.saturating_sub(LATE)
}

/// A thread that was given an answer this long ago has as a rule taken it in.
const SETTLED_AFTER: Duration = Duration::from_millis(50);

/// Threads that write notices. Those of one directory are written by one, so that a directory that is locked
/// keeps few others waiting.
const THREADS: usize = 4;

/// Batches of notices that wait for one thread. With more waiting names are left to be forgotten by themselves.
const MAX_WAITING_BATCHES: usize = 256;

/// A name that the kernel was told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CachedName {
    pub dir: Ino,
    pub name: Name,
    /// What it leads to; `None`: nothing.
    pub kind: Option<FileKind>,
    pub at: Instant,
    /// When the kernel believes it no longer, whatever happens.
    pub until: Instant,
}

/// Who is given the notices.
pub(crate) trait Hearer: Send + Sync + 'static {
    fn expire(&self, name: &CachedName);
    fn drop(&self, name: &CachedName);
}

impl Hearer for Kernel {
    fn expire(&self, name: &CachedName) {
        self.expire_name(name.dir, &name.name);
    }

    fn drop(&self, name: &CachedName) {
        self.drop_name(name.dir, &name.name);
    }
}

/// Names that are expired again and for which nobody waits; with more of one thread the oldest are left to be
/// forgotten by themselves.
const MAX_EXPIRED_AGAIN: usize = 1 << 12;

/// Names of one thread that are taken back together.
struct Batch {
    names: Vec<CachedName>,
    /// Whom to tell, if somebody waits. Nobody does for names that this mount is changing.
    left: Option<Arc<Left>>,
}

/// Batches that somebody waits for.
#[derive(Default)]
struct Left {
    count: Mutex<usize>,
    changed: Condvar,
}

impl Left {
    fn add(&self, count: isize) {
        let mut left = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        *left = left
            .checked_add_signed(count)
            .expect("a batch is done that nobody has given");
        self.changed.notify_all();
    }

    fn wait_until(&self, deadline: Instant) {
        let left = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let how_long = deadline.saturating_duration_since(Instant::now());
        let waited = self
            .changed
            .wait_timeout_while(left, how_long, |left| *left > 0);
        drop(waited);
    }
}

/// The threads that write notices.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    queues: OnceLock<Vec<SyncSender<Batch>>>,
}

impl Notices {
    /// Starts the threads; they end with this.
    ///
    /// # Errors
    /// When there are no more threads.
    pub fn begin(&self, hearer: impl Hearer + Clone) -> io::Result<()> {
        let mut queues = Vec::with_capacity(THREADS);
        for number in 0..THREADS {
            let (sender, batches) = sync_channel(MAX_WAITING_BATCHES);
            let hearer = hearer.clone();
            thread::Builder::new()
                .name(format!("pandofs-notices-{number}"))
                .spawn(move || run(&hearer, &batches))?;
            queues.push(sender);
        }
        let is_first = self.queues.set(queues).is_ok();
        assert!(is_first, "notices begin twice");
        Ok(())
    }

    /// Has the kernel believe none of these any longer, and returns when that is so.
    pub fn take_back(&self, names: Vec<CachedName>) {
        let deadline = names.iter().map(|name| name.until).max();
        let left = Arc::new(Left::default());
        self.send(names, Some(&left));
        if let Some(deadline) = deadline {
            left.wait_until(deadline);
        }
    }

    /// The same, some time soon, of names that this mount itself is changing or has changed.
    pub fn take_back_later(&self, names: Vec<CachedName>) {
        self.send(names, None);
    }

    fn send(&self, names: Vec<CachedName>, left: Option<&Arc<Left>>) {
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
            if let Some(left) = left {
                left.add(1);
            }
            let left = left.cloned();
            match queue.try_send(Batch { names, left }) {
                Ok(()) => {}
                Err(TrySendError::Full(_)) => {
                    tracing::debug!("the kernel is slow to hear of names: they end by themselves");
                }
                Err(TrySendError::Disconnected(_)) => {
                    unreachable!("threads of notices end when nobody is left to give them any")
                }
            }
        }
    }
}

fn run(hearer: &impl Hearer, batches: &Receiver<Batch>) {
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
            Ok(batch) => match batch.left {
                Some(left) => {
                    take_back(hearer, &batch.names);
                    left.add(-1);
                }
                None => {
                    again.extend(expire_first(hearer, batch.names));
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
            hearer.expire(&name);
        }
    }
}

/// Has the kernel believe none of these any longer.
fn take_back(hearer: &impl Hearer, names: &[CachedName]) {
    let mut again = Vec::new();
    for name in names {
        let now = Instant::now();
        if name.until <= now {
            continue;
        }
        let settled = name.at + SETTLED_AFTER;
        match name.kind {
            Some(FileKind::Dir) if settled > now => {
                hearer.expire(name);
                again.push((settled, name));
            }
            Some(_) if settled > now => hearer.drop(name),
            Some(_) | None => hearer.expire(name),
        }
    }
    for (settled, name) in again {
        thread::sleep(settled.saturating_duration_since(Instant::now()));
        hearer.expire(name);
    }
}

/// Expires these; which are to be expired again, and when.
fn expire_first(hearer: &impl Hearer, names: Vec<CachedName>) -> Vec<(Instant, CachedName)> {
    let mut again = Vec::new();
    for name in names {
        let now = Instant::now();
        if name.until <= now {
            continue;
        }
        hearer.expire(&name);
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

    /// What is told, and a directory whose notices do not get through while somebody holds its lock.
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

    impl Hearer for Recorder {
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
        let (notices, recorder) = (Notices::default(), Recorder::default());
        notices.begin(recorder.clone()).unwrap();
        let dir = Ino(4);
        // However long this thread is held up here, it is still new then.
        let mut new_dir = told(dir, "new directory", DIR, LONG, LONG);
        new_dir.at = Instant::now() + Duration::from_secs(1);
        notices.take_back(vec![
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
        notices.take_back(vec![new, nothing]);
        let heard = recorder.heard.lock().unwrap().clone();
        let expected = [("drop", named("new file")), ("expire", named("nothing"))];
        assert_eq!(heard, expected);
    }

    /// `rmdir` on an overlay ended with `EIO`: a directory had been renamed to a name that a moment ago had led to
    /// nothing, and was dropped with it.
    #[test]
    fn what_this_mount_changes_is_never_dropped() {
        let (notices, recorder) = (Notices::default(), Recorder::default());
        notices.begin(recorder.clone()).unwrap();
        let dir = Ino(4);
        let mut new = told(dir, "new", FILE, LONG, LONG);
        new.at = Instant::now() + Duration::from_secs(1);
        notices.take_back_later(vec![new, told(dir, "old", FILE, LONG, LONG)]);
        // Of the same thread, and so after these.
        notices.take_back(vec![told(dir, "last", FILE, LONG, LONG)]);
        let heard = std::mem::take(&mut *recorder.heard.lock().unwrap());
        let expected = ["new", "old", "last"];
        assert_eq!(heard, expected.map(|name| ("expire", named(name))));
        // And again when who asked for it has had time.
        while recorder.heard.lock().unwrap().is_empty() {
            thread::sleep(Duration::from_millis(1));
        }
        let heard = recorder.heard.lock().unwrap().clone();
        assert_eq!(heard, [("expire", named("new"))]);
    }

    #[test]
    fn nobody_waits_longer_than_a_name_is_believed() {
        let (notices, recorder) = (Notices::default(), Recorder::default());
        notices.begin(recorder.clone()).unwrap();
        let lock = recorder.locked.lock().unwrap();
        let (little, other) = (Duration::from_millis(20), Ino(6));
        notices.take_back(vec![told(Recorder::LOCKED, "a", FILE, LONG, little)]);
        // Others are written by other threads meanwhile.
        notices.take_back(vec![told(other, "b", FILE, LONG, LONG)]);
        assert_eq!(*recorder.heard.lock().unwrap(), [("expire", named("b"))]);
        // What is not waited for is not lost.
        notices.take_back_later(vec![told(Recorder::LOCKED, "c", FILE, LONG, LONG)]);
        drop(lock);
        notices.take_back(vec![told(Recorder::LOCKED, "d", FILE, LONG, LONG)]);
        let heard = recorder.heard.lock().unwrap().clone();
        let last: Vec<_> = heard.iter().rev().take(2).collect();
        assert_eq!(last, [&("expire", named("d")), &("expire", named("c"))]);
    }
}
