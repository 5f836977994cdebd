//! Open files of the session, and the closes that are still to be sent to shards.
//!
//! A server keeps the session's opens in memory. When it was restarted they are registered with it
//! anew, from the counts in here, before it gets anything else. A close is taken off the count and
//! put into the queue under one lock, and a registration empties the queue under the same lock:
//! otherwise a close could be left out of the count that is registered and be sent afterwards as
//! well.

use crate::file::File;
use hashbrown::HashMap;
use pandofs_types::limits::{MAX_RELEASES_PER_MESSAGE, RELEASE_DELAY};
use pandofs_types::{Ino, ShardId};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Locks over which the open files are spread.
const STRIPES: u64 = 16;

#[derive(Debug)]
struct Open<F> {
    /// Times; never 0.
    count: u32,
    /// The inode's shard in the last answer.
    shard: ShardId,
    file: Arc<F>,
}

/// Closes for one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    pub shard: ShardId,
    /// An inode stands here once for each time it was closed.
    pub inos: Vec<Ino>,
    /// The server's count of registrations when the batch was taken: with another count the server
    /// knows of the closes.
    pub registration: u64,
}

#[derive(Debug, Default)]
struct Queue {
    closed: HashMap<ShardId, Vec<Ino>>,
    /// Closes that are on their way, to which shard and how often.
    sending: HashMap<(ShardId, Ino), u32>,
    /// The time of the first of them.
    oldest: Option<Instant>,
    /// A message is full.
    full: bool,
    stopped: bool,
}

/// The next work of the background thread.
#[derive(Debug, PartialEq, Eq)]
pub enum Work {
    /// Send what is queued.
    Releases,
    /// The time that was asked for has come.
    Tick,
    Stop,
}

/// The open files, and a value for each of them.
#[derive(Debug)]
pub struct Opens<F> {
    tables: Vec<Mutex<HashMap<Ino, Open<F>>>>,
    /// Locked before any of the tables.
    queue: Mutex<Queue>,
    wake: Condvar,
}

impl<F> Default for Opens<F> {
    fn default() -> Opens<F> {
        Opens {
            tables: (0..STRIPES).map(|_| Mutex::new(HashMap::new())).collect(),
            queue: Mutex::new(Queue::default()),
            wake: Condvar::new(),
        }
    }
}

impl<F> Opens<F> {
    fn table(&self, ino: Ino) -> MutexGuard<'_, HashMap<Ino, Open<F>>> {
        lock(&self.tables[(ino.serial() % STRIPES) as usize])
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }

    /// Counts one more open; the file is made by `make` if it was not open before.
    pub fn opened(&self, ino: Ino, shard: ShardId, make: impl FnOnce() -> F) -> Arc<F> {
        let mut table = self.table(ino);
        let open = table.entry(ino).or_insert_with(|| Open {
            count: 0,
            shard,
            file: Arc::new(make()),
        });
        open.count += 1;
        open.shard = shard;
        Arc::clone(&open.file)
    }

    /// The value of a file that is open.
    pub fn file(&self, ino: Ino) -> Option<Arc<F>> {
        self.table(ino).get(&ino).map(|open| Arc::clone(&open.file))
    }

    /// Returns how often it is open, and where it is; `None` when it is not.
    pub fn count(&self, ino: Ino) -> Option<(u32, ShardId)> {
        self.table(ino)
            .get(&ino)
            .map(|open| (open.count, open.shard))
    }

    /// Returns how often its shard is to count it, and where it is; `None` when it is not open.
    ///
    /// Closes that the shard has not heard of are in it, as they are counted off when they come. (A
    /// file is opened and closed, and opened once more by a request whose answer comes late: told of
    /// one open, the shard keeps the one that it has, the close takes that off, and with its last
    /// name the file is gone.) One that is on its way may have arrived: then the shard keeps the file
    /// until the session ends or the server is restarted.
    pub fn to_register(&self, ino: Ino) -> Option<(u32, ShardId)> {
        let queue = self.queue();
        let (count, shard) = self.count(ino)?;
        let queued = queue.closed.values().flatten();
        let queued = queued.filter(|&&closed| closed == ino).count() as u32;
        let sending = queue.sending.iter().filter(|((_, of), _)| *of == ino);
        let sending: u32 = sending.map(|(_, times)| *times).sum();
        Some((count.saturating_add(queued).saturating_add(sending), shard))
    }

    /// An inode was found on another shard.
    pub fn moved(&self, ino: Ino, shard: ShardId) {
        if let Some(open) = self.table(ino).get_mut(&ino) {
            open.shard = shard;
        }
    }

    /// Takes one open off the count and queues the close. False if it is not open.
    pub fn release(&self, ino: Ino) -> bool {
        let mut queue = self.queue();
        let mut table = self.table(ino);
        let Some(open) = table.get_mut(&ino) else {
            return false;
        };
        let shard = open.shard;
        open.count -= 1;
        if open.count == 0 {
            table.remove(&ino);
        }
        drop(table);
        if queue.push(shard, ino) {
            self.wake.notify_one();
        }
        true
    }

    /// Returns whether anything is open, or a close is still to be sent.
    pub fn any(&self) -> bool {
        let queue = self.queue();
        !queue.closed.is_empty()
            || !queue.sending.is_empty()
            || self.tables.iter().any(|table| !lock(table).is_empty())
    }

    /// All opens to register with each of `shards`, which one server leads that was restarted: what
    /// is open there, and what is open elsewhere as far as known, on others of them too, as an
    /// inode may have moved there without this client having heard of it. Of what is not there
    /// nothing is counted. The closes queued for these shards are in the counts and therefore
    /// dropped; from then on `registrations` is one more.
    ///
    /// Closes that are queued for or on their way to other shards are not taken off: should the
    /// inode be on one of these, they come from there, and are counted then. Also of an inode that
    /// is not open any more: it may be opened once more before they come, and would be taken for
    /// closed.
    pub fn register(
        &self,
        shards: &[ShardId],
        registrations: &AtomicU64,
    ) -> Vec<(ShardId, Vec<(Ino, u32)>)> {
        let mut queue = self.queue();
        // Before any table is read: who opens a file and finds this count unchanged after putting
        // it into its table knows that it is among those that are registered, or was opened later.
        registrations.fetch_add(1, Ordering::SeqCst);
        queue.closed.retain(|shard, _| !shards.contains(shard));
        let mut counts: BTreeMap<Ino, u32> = BTreeMap::new();
        for (&(shard, ino), &times) in &queue.sending {
            if !shards.contains(&shard) {
                *counts.entry(ino).or_default() += times;
            }
        }
        for &ino in queue.closed.values().flatten() {
            *counts.entry(ino).or_default() += 1;
        }
        for table in &self.tables {
            for (&ino, open) in lock(table).iter() {
                let count = counts.entry(ino).or_default();
                *count = count.saturating_add(open.count);
            }
        }
        if counts.is_empty() {
            return Vec::new();
        }
        let told: Vec<(Ino, u32)> = counts.into_iter().collect();
        shards.iter().map(|&shard| (shard, told.clone())).collect()
    }

    /// Takes all queued closes; `registration_of` gives the count of registrations of the server
    /// that leads the shard. They are on their way until they are [sent](Opens::sent) or [given up](Opens::given_up).
    pub fn take_releases(&self, registration_of: impl Fn(ShardId) -> u64) -> Vec<Batch> {
        let mut queue = self.queue();
        queue.oldest = None;
        queue.full = false;
        let closed = std::mem::take(&mut queue.closed);
        for (&shard, inos) in &closed {
            for &ino in inos {
                *queue.sending.entry((shard, ino)).or_default() += 1;
            }
        }
        let mut batches = Vec::new();
        for (shard, inos) in closed {
            let registration = registration_of(shard);
            let messages = inos.chunks(MAX_RELEASES_PER_MESSAGE);
            batches.extend(messages.map(|inos| Batch {
                shard,
                inos: inos.to_vec(),
                registration,
            }));
        }
        batches
    }

    /// The batch is not on its way any more. Those of its closes that did not count are `left`, and are queued for the
    /// shards that are to be told.
    ///
    /// A shard that the batch's server leads as well (`is_of_server`) is not told if the session was registered there
    /// anew meanwhile: that was counted without these closes. Any other server counts them in until they come. Both are
    /// done under one lock: a registration in between would miss them.
    pub fn sent(
        &self,
        batch: &Batch,
        left: &[(Ino, ShardId)],
        registrations: &AtomicU64,
        is_of_server: impl Fn(ShardId) -> bool,
    ) {
        let mut queue = self.queue();
        queue.arrived(batch);
        let is_known = registrations.load(Ordering::SeqCst) != batch.registration;
        for &(ino, shard) in left {
            if !is_known || !is_of_server(shard) {
                queue.push(shard, ino);
            }
        }
    }

    /// The batch is not sent, or nobody knows whether it arrived.
    pub fn given_up(&self, batch: &Batch) {
        self.queue().arrived(batch);
    }

    /// Waits until closes are due, `tick` has come or the client stops.
    pub fn wait(&self, tick: Instant) -> Work {
        let mut queue = self.queue();
        loop {
            let now = Instant::now();
            if queue.stopped {
                return Work::Stop;
            }
            let due = queue.oldest.map(|oldest| oldest + RELEASE_DELAY);
            if queue.full || due.is_some_and(|due| due <= now) {
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
    pub fn stop(&self) {
        self.queue().stopped = true;
        self.wake.notify_all();
    }
}

impl Opens<File> {
    /// The files with writes to report that are older than `since`.
    pub fn unreported(&self, since: Instant) -> Vec<Arc<File>> {
        let mut files = Vec::new();
        for table in &self.tables {
            files.extend(lock(table).values().map(|open| Arc::clone(&open.file)));
        }
        files.retain(|file| file.pending().is_some_and(|pending| pending.since <= since));
        files
    }
}

impl Batch {
    /// Closes of the batch that are to be sent once more, to the same shard.
    pub fn whole(&self) -> Vec<(Ino, ShardId)> {
        self.inos.iter().map(|&ino| (ino, self.shard)).collect()
    }

    /// Those among what a shard says that it has not counted which the batch has.
    pub fn left(&self, not_closed: Vec<(Ino, ShardId)>) -> Vec<(Ino, ShardId)> {
        let mut times: HashMap<Ino, u32> = HashMap::new();
        for &ino in &self.inos {
            *times.entry(ino).or_default() += 1;
        }
        let mut is_one = |ino| {
            let Some(times) = times.get_mut(&ino).filter(|times| **times > 0) else {
                return false;
            };
            *times -= 1;
            true
        };
        not_closed
            .into_iter()
            .filter(|&(ino, _)| is_one(ino))
            .collect()
    }
}

impl Queue {
    /// The closes of the batch are not on their way any more.
    fn arrived(&mut self, batch: &Batch) {
        for &ino in &batch.inos {
            if let Some(times) = self.sending.get_mut(&(batch.shard, ino)) {
                *times -= 1;
                if *times == 0 {
                    self.sending.remove(&(batch.shard, ino));
                }
            }
        }
    }

    /// True when the background thread is to look.
    fn push(&mut self, shard: ShardId, ino: Ino) -> bool {
        let inos = self.closed.entry(shard).or_default();
        inos.push(ino);
        let was_full = self.full;
        self.full |= inos.len() >= MAX_RELEASES_PER_MESSAGE;
        let is_first = self.oldest.is_none();
        if is_first {
            self.oldest = Some(Instant::now());
        }
        is_first || self.full != was_full
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
        opens.opened(Ino(ino), ShardId(shard), || file(Ino(ino)))
    }

    #[test]
    fn opens_are_counted_and_closes_are_queued() {
        let opens = Opens::default();
        open(&opens, 5, 1);
        open(&opens, 5, 1);
        assert_eq!(opens.count(Ino(5)), Some((2, ShardId(1))));
        opens.moved(Ino(5), ShardId(3));
        assert!(opens.release(Ino(5)));
        assert!(opens.release(Ino(5)));
        assert!(!opens.release(Ino(5)));
        assert_eq!(opens.count(Ino(5)), None);
        assert!(opens.file(Ino(5)).is_none());
        let batch = Batch {
            shard: ShardId(3),
            inos: vec![Ino(5); 2],
            registration: 7,
        };
        assert_eq!(opens.take_releases(|_| 7), [batch]);
        assert_eq!(opens.take_releases(|_| 7), []);
    }

    #[test]
    fn an_inode_is_registered_with_the_closes_that_are_still_to_come() {
        let opens = Opens::default();
        open(&opens, 5, 1);
        open(&opens, 6, 1);
        assert!(opens.release(Ino(5)));
        assert!(opens.release(Ino(6)));
        assert_eq!(opens.to_register(Ino(5)), None);
        open(&opens, 5, 1);
        assert_eq!(opens.to_register(Ino(5)), Some((2, ShardId(1))));
        let batches = opens.take_releases(|_| 1);
        assert_eq!(opens.to_register(Ino(5)), Some((2, ShardId(1))));
        opens.given_up(&batches[0]);
        assert_eq!(opens.to_register(Ino(5)), Some((1, ShardId(1))));
        assert_eq!(opens.count(Ino(5)), Some((1, ShardId(1))));
    }

    #[test]
    fn a_registration_counts_the_queued_closes() {
        let opens = Opens::default();
        let registrations = AtomicU64::new(1);
        for (ino, shard) in [(5, 1), (5, 1), (6, 1), (7, 2)] {
            open(&opens, ino, shard);
        }
        for ino in [5, 6, 7] {
            opens.release(Ino(ino));
        }
        let opened = opens.register(&[ShardId(1)], &registrations);
        assert_eq!(opened, [(ShardId(1), vec![(Ino(5), 1), (Ino(7), 1)])]);
        assert_eq!(registrations.load(Ordering::SeqCst), 2);
        let left = opens.take_releases(|_| 1);
        assert_eq!(
            left,
            [Batch {
                shard: ShardId(2),
                inos: vec![Ino(7)],
                registration: 1
            }]
        );
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

    /// A server that is registered with while a close is told to another one counts it in.
    #[test]
    fn closes_of_what_has_moved_are_queued_for_the_shard_that_has_it() {
        let opens = Opens::default();
        let registrations = AtomicU64::new(1);
        let others = AtomicU64::new(1);
        for ino in [5, 5, 6] {
            open(&opens, ino, 1);
        }
        for ino in [5, 5, 6] {
            opens.release(Ino(ino));
        }
        let batch = opens.take_releases(|_| 1).remove(0);
        let told = opens.register(&[ShardId(2)], &others);
        assert_eq!(told, [(ShardId(2), vec![(Ino(5), 2), (Ino(6), 1)])]);
        // The first is not among the closes of the batch, nor is the last of inode 6.
        let not_closed = [(9, 2), (6, 1), (5, 2), (6, 1)];
        let left = batch.left(
            not_closed
                .map(|(ino, shard)| (Ino(ino), ShardId(shard)))
                .to_vec(),
        );
        assert_eq!(left, [(Ino(6), ShardId(1)), (Ino(5), ShardId(2))]);
        opens.register(&[ShardId(1)], &registrations);
        opens.sent(&batch, &left, &registrations, |shard| shard == ShardId(1));
        let batch = Batch {
            shard: ShardId(2),
            inos: vec![Ino(5)],
            registration: 2,
        };
        assert_eq!(opens.take_releases(|_| 2), [batch]);
    }

    #[test]
    fn a_restarted_server_is_told_of_what_may_have_moved_there() {
        let opens = Opens::default();
        let registrations = AtomicU64::new(1);
        for (ino, shard) in [(5, 1), (6, 2), (6, 2), (6, 2), (7, 2)] {
            open(&opens, ino, shard);
        }
        // A close that another shard is still to get comes from there if the inode is not
        // there any more.
        for ino in [6, 7] {
            opens.release(Ino(ino));
        }
        // Also if it was opened anew there before the close came.
        let told = |opens: &Opens<File>| opens.register(&[ShardId(1), ShardId(3)], &registrations);
        let all = [
            (ShardId(1), vec![(Ino(5), 1), (Ino(6), 3), (Ino(7), 1)]),
            (ShardId(3), vec![(Ino(5), 1), (Ino(6), 3), (Ino(7), 1)]),
        ];
        assert_eq!(told(&opens), all);
        let batch = opens.take_releases(|_| 1).remove(0);
        assert_eq!(told(&opens), all);
        opens.given_up(&batch);
        assert_eq!(told(&opens)[1].1, [(Ino(5), 1), (Ino(6), 2)]);
        assert!(opens.any());
    }

    #[test]
    fn a_full_message_is_due_at_once_and_longer_queues_are_cut() {
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
