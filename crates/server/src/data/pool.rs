//! The threads that touch data objects.

use super::objects::{self, Objects, Outcome};
use super::syncer::{self, Work};
use crate::error::ServerError;
use crate::helper;
use crate::mailbox::{Mail, Mailbox};
use crate::slots::SlotKey;
use pandofs_api::DataRequest;
use pandofs_types::limits::{DATA_SYNC_THREADS, DATA_THREADS, MAX_OPEN_OBJECTS};
use pandofs_types::{Ino, ServerId};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;

/// Who asked, and what the lane needs to know to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataOrigin {
    /// The request `id` on a client's connection, which owes the client up to `owed` bytes.
    Client {
        connection: SlotKey,
        id: u64,
        owed: usize,
    },
    /// A shard of another server.
    Peer { server: ServerId, ticket: u64 },
    /// A shard of this server, under its number in [`DataTickets`](crate::data_tickets::DataTickets).
    Shard { number: u64 },
}

/// What a thread is to do.
#[derive(Debug)]
enum Job {
    Request {
        origin: DataOrigin,
        request: DataRequest,
    },
    List {
        connection: SlotKey,
        id: u64,
        after: u64,
        max: u32,
    },
}

/// The threads. Requests for one object are carried out in the order in which they came.
#[derive(Debug)]
pub(crate) struct DataPool {
    workers: Vec<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
}

impl DataPool {
    /// Threads for the data objects below `root`.
    ///
    /// # Errors
    /// The system's, when it has no threads to give.
    pub fn start(root: &Path, mailbox: &Mailbox) -> io::Result<DataPool> {
        let mut threads = Vec::new();
        let mut syncers = Vec::new();
        for _ in 0..DATA_SYNC_THREADS {
            let (orders, received) = mpsc::channel();
            let (root, reports) = (root.to_owned(), mailbox.clone());
            threads.push(helper::spawn("sync", mailbox, move || {
                syncer::run(&root, &received, &reports);
            })?);
            syncers.push(orders);
        }
        let mut workers = Vec::new();
        for _ in 0..DATA_THREADS {
            let (orders, received) = mpsc::channel();
            let (root, reports, syncers) = (root.to_owned(), mailbox.clone(), syncers.clone());
            threads.push(helper::spawn("data", mailbox, move || {
                work(root, &received, &reports, &syncers);
            })?);
            workers.push(orders);
        }
        Ok(DataPool { workers, threads })
    }

    /// Orders a request; [`Mail::DataDone`] tells what came of it.
    ///
    /// # Errors
    /// When the threads are gone.
    pub fn request(&self, origin: DataOrigin, request: DataRequest) -> Result<(), ServerError> {
        let thread = match request {
            DataRequest::Read { ino, .. }
            | DataRequest::Write { ino, .. }
            | DataRequest::Truncate { ino, .. }
            | DataRequest::Remove { ino }
            | DataRequest::Sync { ino }
            | DataRequest::Usage { ino }
            | DataRequest::Allocate { ino, .. }
            | DataRequest::Seek { ino, .. } => share(ino, self.workers.len()),
            DataRequest::Space => 0,
        };
        self.send(thread, Job::Request { origin, request })
    }

    /// Orders a listing for an administrator; [`Mail::AdminDone`] brings it.
    ///
    /// # Errors
    /// When the threads are gone.
    pub fn list(
        &self,
        connection: SlotKey,
        id: u64,
        after: u64,
        max: u32,
    ) -> Result<(), ServerError> {
        self.send(
            0,
            Job::List {
                connection,
                id,
                after,
                max,
            },
        )
    }

    fn send(&self, thread: usize, job: Job) -> Result<(), ServerError> {
        self.workers[thread]
            .send(job)
            .map_err(|_| ServerError::HelperEnded { name: "data" })
    }

    /// Ends the threads once they have done what was ordered.
    pub fn stop(self) {
        drop(self.workers);
        helper::join(self.threads);
    }
}

/// Which of `count` threads an object belongs to. Multiplying by the golden ratio (Knuth, TAOCP 6.4)
/// spreads numbers that have a step in common.
fn share(ino: Ino, count: usize) -> usize {
    (ino.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % count
}

fn work(
    root: PathBuf,
    received: &Receiver<Job>,
    mailbox: &Mailbox,
    syncers: &[Sender<(DataOrigin, Work)>],
) {
    let mut own = Objects::new(root.clone(), MAX_OPEN_OBJECTS / DATA_THREADS);
    for job in received {
        match job {
            // A shard forgets what it wanted written or cut once that is answered. A client says when.
            Job::Request { origin, request } => {
                match own.execute(request, !matches!(origin, DataOrigin::Client { .. })) {
                    Outcome::Done(reply) => mailbox.post(Mail::DataDone { origin, reply }),
                    Outcome::Force(work) => {
                        let syncer = match &work {
                            Work::Object(object) => share(object.ino, syncers.len()),
                            Work::Removal { last_byte } => usize::from(*last_byte) % syncers.len(),
                        };
                        if syncers[syncer].send((origin, work)).is_err() {
                            mailbox.post(Mail::Failed(ServerError::HelperEnded { name: "sync" }));
                        }
                    }
                }
            }
            Job::List {
                connection,
                id,
                after,
                max,
            } => {
                let reply = objects::list(&root, after, max);
                mailbox.post(Mail::AdminDone {
                    connection,
                    id,
                    reply,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Inbox;
    use pandofs_api::DataReply;
    use pandofs_types::ShardId;
    use tempfile::TempDir;

    #[test]
    fn requests_for_one_object_keep_their_order() {
        const WRITES: u64 = 200;
        let inbox = Inbox::new();
        let dir = TempDir::new().unwrap();
        objects::prepare(dir.path()).unwrap();
        let pool = DataPool::start(dir.path(), &inbox.mailbox).unwrap();
        for round in 0..WRITES {
            for ino in 1..=8 {
                let data = round.to_le_bytes().to_vec();
                let origin = DataOrigin::Shard { number: round };
                pool.request(
                    origin,
                    DataRequest::Write {
                        ino: Ino(ino),
                        offset: 0,
                        data,
                    },
                )
                .unwrap();
            }
        }
        for ino in 1..=8 {
            let origin = DataOrigin::Peer {
                server: ServerId(1),
                ticket: ino,
            };
            pool.request(origin, DataRequest::Sync { ino: Ino(ino) })
                .unwrap();
            let origin = DataOrigin::Peer {
                server: ServerId(2),
                ticket: ino,
            };
            let read = DataRequest::Read {
                ino: Ino(ino),
                offset: 0,
                length: 100,
            };
            pool.request(origin, read).unwrap();
        }
        let (mut written, mut forced, mut read) = (0, 0, 0);
        while (written, forced, read) != (8 * WRITES, 8, 8) {
            match inbox.next() {
                Mail::DataDone {
                    origin: DataOrigin::Shard { .. },
                    reply: DataReply::Done,
                } => {
                    written += 1;
                }
                Mail::DataDone {
                    origin:
                        DataOrigin::Peer {
                            server: ServerId(1),
                            ..
                        },
                    reply: DataReply::Done,
                } => forced += 1,
                Mail::DataDone {
                    origin: DataOrigin::Peer { .. },
                    reply: DataReply::Data(data),
                } => {
                    assert_eq!(data, (WRITES - 1).to_le_bytes());
                    read += 1;
                }
                other => panic!("{other:?}"),
            }
        }
        pool.stop();
    }

    #[test]
    fn removals_are_answered_when_they_are_forced_whatever_number_there_is() {
        let inbox = Inbox::new();
        let dir = TempDir::new().unwrap();
        objects::prepare(dir.path()).unwrap();
        let pool = DataPool::start(dir.path(), &inbox.mailbox).unwrap();
        let origin = |number| DataOrigin::Shard { number };
        for ino in 1..=100 {
            let write = DataRequest::Write {
                ino: Ino(ino),
                offset: 0,
                data: vec![1],
            };
            pool.request(origin(ino), write).unwrap();
            pool.request(origin(100 + ino), DataRequest::Remove { ino: Ino(ino) })
                .unwrap();
        }
        let mut numbers: Vec<_> = (0..200)
            .map(|_| match inbox.next() {
                Mail::DataDone {
                    origin: DataOrigin::Shard { number },
                    reply: DataReply::Done,
                } => number,
                other => panic!("{other:?}"),
            })
            .collect();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(1..=200));
        let left = objects::list(dir.path(), 0, 10);
        assert_eq!(
            left,
            pandofs_api::AdminReply::Objects {
                objects: Vec::new(),
                more: false
            }
        );
        pool.stop();
    }

    #[test]
    fn objects_are_shared_out_evenly() {
        let mut counts = [0_usize; DATA_THREADS];
        for serial in 1..=4_000 {
            counts[share(
                Ino::new(ShardId(serial as u16 % 64), serial * 16),
                DATA_THREADS,
            )] += 1;
        }
        assert!(
            counts.iter().all(|&count| count > 4_000 / DATA_THREADS / 2),
            "{counts:?}"
        );
    }
}
