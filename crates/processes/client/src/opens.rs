//! Open files of the session, shared by its threads, and the closes that are still to be sent to shards.
//!
//! The session's [tables](OpenFiles) behind locks: a close is taken off the count and put into the queue under one
//! lock, and a registration empties the queue under the same lock.

use crate::file::File;
pub(crate) use pandofs_session::Batch;
use pandofs_session::{Closes, OpenFiles};
use pandofs_types::limits::RELEASE_DELAY;
use pandofs_types::{Ino, ShardId};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Locks over which the open files are spread.
const STRIPES: u64 = 16;

#[derive(Debug, Default)]
struct Queue {
    closes: Closes,
    /// The time of the first of them.
    oldest: Option<Instant>,
    stopped: bool,
}

/// The next work of the background thread.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Send what is queued.
    Releases,
    /// The time that was asked for has come.
    Tick,
    Stop,
}

/// The open files, and a value for each of them.
#[derive(Debug)]
pub(crate) struct Opens<F> {
    tables: Vec<Mutex<OpenFiles<F>>>,
    /// Locked before any of the tables.
    queue: Mutex<Queue>,
    wake: Condvar,
}

impl<F> Default for Opens<F> {
    fn default() -> Opens<F> {
        Opens {
            tables: (0..STRIPES)
                .map(|_| Mutex::new(OpenFiles::default()))
                .collect(),
            queue: Mutex::new(Queue::default()),
            wake: Condvar::new(),
        }
    }
}

impl<F> Opens<F> {
    fn table(&self, ino: Ino) -> MutexGuard<'_, OpenFiles<F>> {
        lock(&self.tables[(ino.serial() % STRIPES) as usize])
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }

    /// As [`OpenFiles::opened`].
    pub(crate) fn opened(
        &self,
        ino: Ino,
        shard: ShardId,
        is_told: bool,
        make: impl FnOnce() -> F,
    ) -> Arc<F> {
        self.table(ino).opened(ino, shard, is_told, make)
    }

    /// As [`OpenFiles::untold`], of all files.
    pub(crate) fn untold(&self, shard: ShardId) -> Vec<(Ino, u32)> {
        let of = |table: &Mutex<OpenFiles<F>>| lock(table).untold(shard).collect::<Vec<_>>();
        self.tables.iter().flat_map(of).collect()
    }

    /// As [`OpenFiles::untold_of`].
    pub(crate) fn untold_of(&self, ino: Ino) -> u32 {
        self.table(ino).untold_of(ino)
    }

    /// As [`OpenFiles::told`].
    pub(crate) fn told(&self, ino: Ino, times: u32) {
        self.table(ino).told(ino, times);
    }

    /// The value of a file that is open.
    pub(crate) fn file(&self, ino: Ino) -> Option<Arc<F>> {
        self.table(ino).file(ino)
    }

    /// How many are open.
    pub(crate) fn len(&self) -> usize {
        self.tables.iter().map(|table| lock(table).len()).sum()
    }

    /// Returns how often it is open, and where it is; `None` when it is not.
    pub(crate) fn count(&self, ino: Ino) -> Option<(u32, ShardId)> {
        self.table(ino).count(ino)
    }

    /// As [`Closes::to_register`].
    pub(crate) fn to_register(&self, ino: Ino) -> Option<(u32, ShardId)> {
        let queue = self.queue();
        queue.closes.to_register(&self.table(ino), ino)
    }

    /// An inode was found on another shard.
    pub(crate) fn moved(&self, ino: Ino, shard: ShardId) {
        self.table(ino).moved(ino, shard);
    }

    /// Takes one open off the count and queues the close. False if it is not open.
    pub(crate) fn release(&self, ino: Ino) -> bool {
        let mut queue = self.queue();
        let was_full = queue.closes.is_full();
        if !queue.closes.release(&mut self.table(ino), ino) {
            return false;
        }
        let is_first = queue.oldest.is_none();
        if is_first {
            queue.oldest = Some(Instant::now());
        }
        if is_first || queue.closes.is_full() != was_full {
            self.wake.notify_one();
        }
        true
    }

    /// Returns whether anything is open, or a close is still to be sent.
    pub(crate) fn any(&self) -> bool {
        let queue = self.queue();
        !queue.closes.is_empty() || self.tables.iter().any(|table| !lock(table).is_empty())
    }

    /// As [`Closes::register`]; from then on `registrations` is one more.
    pub(crate) fn register(
        &self,
        shards: &[ShardId],
        registrations: &AtomicU64,
    ) -> Vec<(ShardId, Vec<(Ino, u32)>)> {
        let mut queue = self.queue();
        // Before any table is read.
        registrations.fetch_add(1, Ordering::SeqCst);
        let of = |table: &Mutex<OpenFiles<F>>| {
            let mut table = lock(table);
            let counts = table.counts().collect::<Vec<_>>();
            table.registered(shards);
            counts
        };
        queue
            .closes
            .register(shards, self.tables.iter().flat_map(of))
    }

    /// As [`Closes::take`].
    pub(crate) fn take_releases(&self, registration_of: impl Fn(ShardId) -> u64) -> Vec<Batch> {
        let mut queue = self.queue();
        queue.oldest = None;
        queue.closes.take(registration_of)
    }

    /// As [`Closes::sent`].
    pub(crate) fn sent(
        &self,
        batch: &Batch,
        left: &[(Ino, ShardId)],
        registrations: &AtomicU64,
        is_of_server: impl Fn(ShardId) -> bool,
    ) {
        let mut queue = self.queue();
        let registrations = registrations.load(Ordering::SeqCst);
        queue.closes.sent(batch, left, registrations, is_of_server);
        if queue.closes.is_due() {
            queue.oldest.get_or_insert_with(Instant::now);
        }
    }

    /// The batch is not sent, or nobody knows whether it arrived.
    pub(crate) fn given_up(&self, batch: &Batch) {
        self.queue().closes.given_up(batch);
    }

    /// Waits until closes are due, `tick` has come or the client stops.
    pub(crate) fn wait(&self, tick: Instant) -> Work {
        let mut queue = self.queue();
        loop {
            let now = Instant::now();
            if queue.stopped {
                return Work::Stop;
            }
            let due = queue.oldest.map(|oldest| oldest + RELEASE_DELAY);
            if queue.closes.is_full() || due.is_some_and(|due| due <= now) {
                return Work::Releases;
            }
            if tick <= now {
                return Work::Tick;
            }
            let until = due.map_or(tick, |due| due.min(tick));
            let waited = self.wake.wait_timeout(queue, until - now);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Makes [`Opens::wait`] answer `Stop`.
    pub(crate) fn stop(&self) {
        self.queue().stopped = true;
        self.wake.notify_all();
    }
}

impl Opens<File> {
    /// The files with writes to report that are older than `since`.
    pub(crate) fn unreported(&self, since: Instant) -> Vec<Arc<File>> {
        let mut files = Vec::new();
        for table in &self.tables {
            files.extend(lock(table).files().map(Arc::clone));
        }
        files.retain(|file| {
            let is_due = file.pending().is_some_and(|pending| pending.since <= since);
            is_due || file.keeps_old_bytes(since)
        });
        files
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::Written;
    use pandofs_api::{FileBody, InodeReply};
    use pandofs_types::limits::MAX_RELEASES_PER_MESSAGE;
    use pandofs_types::{Attr, Credentials, FileKind, Time};
    use std::time::Duration;

    fn file(ino: Ino) -> File {
        let time = Time(0);
        let attr = Attr {
            ino,
            kind: FileKind::File,
            mode: 0o644,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            size: 0,
            blocks: 0,
            atime: time,
            mtime: time,
            ctime: time,
            btime: time,
            has_xattrs: false,
        };
        File::new(
            ino,
            &InodeReply {
                attr,
                body: FileBody::None,
                dir: None,
                truncations: 0,
            },
        )
    }

    fn open(opens: &Opens<File>, ino: u64, shard: u16) -> Arc<File> {
        opens.opened(Ino(ino), ShardId(shard), true, || file(Ino(ino)))
    }

    #[test]
    fn closes_that_were_registered_are_not_queued_again() {
        let opens = Opens::default();
        let registrations = AtomicU64::new(1);
        open(&opens, 5, 1);
        opens.release(Ino(5));
        let batch = opens.take_releases(|_| 1).remove(0);
        opens.sent(&batch, &batch.whole(), &registrations, |_| true);
        let batch = opens.take_releases(|_| 1).remove(0);
        opens.register(&[ShardId(1)], &registrations);
        opens.sent(&batch, &batch.whole(), &registrations, |_| true);
        assert_eq!(opens.take_releases(|_| 2), []);
    }

    #[test]
    fn a_full_message_is_due_at_once() {
        let opens = Opens::default();
        let soon = Instant::now() + Duration::from_secs(3_600);
        for ino in 0..=MAX_RELEASES_PER_MESSAGE as u64 {
            open(&opens, ino, 1);
            opens.release(Ino(ino));
        }
        assert_eq!(opens.wait(soon), Work::Releases);
        let sizes: Vec<usize> = opens
            .take_releases(|_| 1)
            .iter()
            .map(|batch| batch.inos.len())
            .collect();
        assert_eq!(sizes, [MAX_RELEASES_PER_MESSAGE, 1]);
        assert_eq!(opens.wait(Instant::now()), Work::Tick);
    }

    #[test]
    fn a_single_close_is_due_after_the_delay() {
        let opens = Opens::default();
        let begun = Instant::now();
        open(&opens, 5, 1);
        opens.release(Ino(5));
        assert_eq!(
            opens.wait(begun + Duration::from_secs(3_600)),
            Work::Releases
        );
        assert!(begun.elapsed() >= RELEASE_DELAY);
        opens.stop();
        assert_eq!(opens.wait(Instant::now()), Work::Stop);
    }

    #[test]
    fn files_with_old_writes_are_found() {
        let opens = Opens::default();
        open(&opens, 5, 1);
        let written = open(&opens, 6, 1);
        written.wrote(Written::Bytes(0..10), 1, Time(1), &Credentials::ROOT);
        let found: Vec<Ino> = opens
            .unreported(Instant::now())
            .iter()
            .map(|file| file.ino)
            .collect();
        assert_eq!(found, [Ino(6)]);
        let before = Instant::now().checked_sub(Duration::from_secs(60)).unwrap();
        assert!(opens.unreported(before).is_empty());
    }
}
