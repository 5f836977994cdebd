//! The threads that touch data objects.

use super::objects::{Holdings, Objects};
use super::syncer;
use super::worker::{Job, Worker};
use crate::connection::ConnectionKey;
use crate::error::ServerError;
use crate::helper;
use crate::limits::{DATA_SYNC_THREADS, DATA_THREADS, SETTLE_AFTER};
use crate::mailbox::Mailbox;
use crate::times::DataKind;
use pandofs_api::DataRequest;
use pandofs_types::Ino;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Origin of a request, with what the lane needs to answer it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataOrigin {
    /// The request `id` on a client's connection, which owes the client up to `owed` bytes.
    Client {
        connection: ConnectionKey,
        id: u64,
        owed: usize,
        kind: DataKind,
        ino: Option<Ino>,
        came: Instant,
    },
    /// A shard, of this server or another one.
    Lane(pandofs_lane::DataOrigin),
}

/// The threads. Requests for one object are carried out in the order in which they came.
#[derive(Debug)]
pub(crate) struct DataPool {
    workers: Workers,
    threads: Vec<JoinHandle<()>>,
}

/// Where the threads that change objects get their orders.
#[derive(Clone, Debug)]
pub(crate) struct Workers(Vec<Sender<Job>>);

impl Workers {
    /// To the thread of this object.
    ///
    /// # Errors
    /// When the thread is gone.
    pub(crate) fn order(&self, ino: Ino, job: Job) -> Result<(), ServerError> {
        self.send(share(ino, self.0.len()), job)
    }

    fn send(&self, thread: usize, job: Job) -> Result<(), ServerError> {
        self.0[thread]
            .send(job)
            .map_err(|_| ServerError::HelperEnded { name: "data" })
    }
}

impl DataPool {
    /// Threads for these data objects.
    ///
    /// # Errors
    /// The system's, when it has no threads to give.
    pub(crate) fn start(holdings: &Arc<Holdings>, mailbox: &Mailbox) -> io::Result<DataPool> {
        DataPool::start_settling(holdings, mailbox, SETTLE_AFTER)
    }

    /// The same, with another time after which an object that is not changed is settled.
    fn start_settling(
        holdings: &Arc<Holdings>,
        mailbox: &Mailbox,
        settle_after: Duration,
    ) -> io::Result<DataPool> {
        let mut threads = Vec::new();
        let mut syncers = Vec::new();
        for _ in 0..DATA_SYNC_THREADS {
            let (orders, received) = mpsc::channel();
            let (holdings, reports) = (Arc::clone(holdings), mailbox.clone());
            threads.push(helper::spawn("sync", mailbox, move || {
                syncer::run(&holdings, &received, &reports);
            })?);
            syncers.push(orders);
        }
        let mut workers = Vec::new();
        for _ in 0..DATA_THREADS {
            let (orders, received) = mpsc::channel();
            let most_open = (holdings.most_open / DATA_THREADS).max(1);
            let objects = Objects::new(Arc::clone(holdings), most_open, settle_after);
            let worker = Worker::new(objects, orders.clone(), syncers.clone(), mailbox.clone());
            threads.push(helper::spawn("data", mailbox, move || {
                worker.run(&received);
            })?);
            workers.push(orders);
        }
        Ok(DataPool {
            workers: Workers(workers),
            threads,
        })
    }

    /// Handle to the data threads, for whatever looks after the objects.
    pub(crate) fn workers(&self) -> Workers {
        self.workers.clone()
    }

    /// Orders a request; [`Mail::DataDone`](crate::mailbox::Mail::DataDone) tells what came of it.
    ///
    /// # Errors
    /// When the threads are gone.
    pub(crate) fn request(
        &self,
        origin: DataOrigin,
        request: DataRequest,
    ) -> Result<(), ServerError> {
        let job = |request| Job::Request { origin, request };
        match request.ino() {
            Some(ino) => self.workers.order(ino, job(request)),
            None => self.workers.send(0, job(request)),
        }
    }

    /// Orders a listing for an administrator; [`Mail::AdminDone`](crate::mailbox::Mail::AdminDone) brings it.
    ///
    /// # Errors
    /// When the threads are gone.
    pub(crate) fn list(
        &self,
        connection: ConnectionKey,
        id: u64,
        after: u64,
        max: u32,
    ) -> Result<(), ServerError> {
        self.workers.send(
            0,
            Job::List {
                connection,
                id,
                after,
                max,
            },
        )
    }

    /// Ends the threads once they have done what was ordered.
    pub(crate) fn stop(mut self) {
        self.end();
        helper::join(std::mem::take(&mut self.threads));
    }

    fn end(&self) {
        for worker in &self.workers.0 {
            // One that is gone has ended.
            let _ = worker.send(Job::Stop);
        }
    }
}

/// Threads have their own way to give themselves orders, so they do not end when all others are
/// dropped.
impl Drop for DataPool {
    fn drop(&mut self) {
        self.end();
    }
}

/// Which of `count` threads an object belongs to. Multiplying by the golden ratio (Knuth, TAOCP 6.4)
/// spreads numbers that have a step in common.
pub(super) fn share(ino: Ino, count: usize) -> usize {
    (ino.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mailbox::Mail;
    use crate::testing::Inbox;
    use pandofs_api::{AdminReply, DataReply, FIRST_TRUNCATIONS};
    use pandofs_lane::DataOrigin as Origin;
    use pandofs_types::{FsError, ServerId, ShardId};
    use tempfile::TempDir;

    #[test]
    fn requests_for_one_object_keep_their_order() {
        const WRITES: u64 = 200;
        let inbox = Inbox::new();
        let dir = TempDir::new().unwrap();
        let holdings = Arc::new(Holdings::prepare(dir.path()).unwrap());
        let pool = DataPool::start(&holdings, &inbox.mailbox).unwrap();
        for round in 0..WRITES {
            for ino in 1..=8 {
                let data = round.to_le_bytes().to_vec();
                let origin = DataOrigin::Lane(Origin::Shard { number: round });
                pool.request(
                    origin,
                    DataRequest::Write {
                        truncations: FIRST_TRUNCATIONS,
                        ino: Ino(ino),
                        offset: 0,
                        data,
                    },
                )
                .unwrap();
            }
        }
        for ino in 1..=8 {
            let origin = DataOrigin::Lane(Origin::Server {
                server: ServerId(1),
                ticket: ino,
            });
            pool.request(origin, DataRequest::Sync { ino: Ino(ino) })
                .unwrap();
            let origin = DataOrigin::Lane(Origin::Server {
                server: ServerId(2),
                ticket: ino,
            });
            let read = DataRequest::Read {
                ino: Ino(ino),
                offset: 0,
                length: 100,
            };
            pool.request(origin, read).unwrap();
        }
        let (mut written, mut synced, mut read) = (0, 0, 0);
        while (written, synced, read) != (8 * WRITES, 8, 8) {
            match inbox.next() {
                Mail::DataDone {
                    origin: DataOrigin::Lane(Origin::Shard { .. }),
                    reply: DataReply::Done,
                } => {
                    written += 1;
                }
                Mail::DataDone {
                    origin:
                        DataOrigin::Lane(Origin::Server {
                            server: ServerId(1),
                            ..
                        }),
                    reply: DataReply::Done,
                } => synced += 1,
                Mail::DataDone {
                    origin: DataOrigin::Lane(Origin::Server { .. }),
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
    fn removals_are_answered_when_they_are_synced_whatever_number_there_is() {
        let inbox = Inbox::new();
        let dir = TempDir::new().unwrap();
        let holdings = Arc::new(Holdings::prepare(dir.path()).unwrap());
        let pool = DataPool::start(&holdings, &inbox.mailbox).unwrap();
        let origin = |number| DataOrigin::Lane(Origin::Shard { number });
        for ino in 1..=100 {
            let write = DataRequest::Write {
                truncations: FIRST_TRUNCATIONS,
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
                    origin: DataOrigin::Lane(Origin::Shard { number }),
                    reply: DataReply::Done,
                } => number,
                other => panic!("{other:?}"),
            })
            .collect();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(1..=200));
        let left = crate::data::list(dir.path(), 0, 10);
        assert_eq!(
            left,
            pandofs_api::AdminReply::Objects {
                objects: Vec::new(),
                more: false
            }
        );
        pool.stop();
    }

    /// A pool's one client, which waits for each answer.
    struct Client {
        dir: TempDir,
        inbox: Inbox,
        pool: DataPool,
    }

    const INO: Ino = Ino(0x1_0007);

    impl Client {
        fn new(settle_after: Duration) -> Client {
            let (dir, inbox) = (TempDir::new().unwrap(), Inbox::new());
            let holdings = Arc::new(Holdings::prepare(dir.path()).unwrap());
            let pool = DataPool::start_settling(&holdings, &inbox.mailbox, settle_after).unwrap();
            Client { dir, inbox, pool }
        }

        fn ask(&self, requests: Vec<DataRequest>) -> Vec<DataReply> {
            let count = requests.len();
            for request in requests {
                let origin = DataOrigin::Lane(Origin::Shard { number: 1 });
                self.pool.request(origin, request).unwrap();
            }
            let replies = (0..count).map(|_| match self.inbox.next() {
                Mail::DataDone { reply, .. } => reply,
                other => panic!("{other:?}"),
            });
            replies.collect()
        }

        /// The byte of the checksums' header that says whether the object is settled.
        fn state(&self) -> u8 {
            let path = self.dir.path().join("07/0000000000010007.sums");
            std::fs::read(path).unwrap()[10]
        }

        fn wait_until_settled(&self) {
            let deadline = std::time::Instant::now() + crate::testing::DEADLINE;
            while self.state() != 1 {
                assert!(std::time::Instant::now() < deadline, "it is not settled");
                std::thread::yield_now();
            }
        }
    }

    fn write(offset: u64, data: &[u8]) -> DataRequest {
        write_by(FIRST_TRUNCATIONS, offset, data)
    }

    fn write_by(truncations: u32, offset: u64, data: &[u8]) -> DataRequest {
        DataRequest::Write {
            ino: INO,
            truncations,
            offset,
            data: data.to_vec(),
        }
    }

    const READ: DataRequest = DataRequest::Read {
        ino: INO,
        offset: 0,
        length: 20_000,
    };

    #[test]
    fn an_object_that_is_left_alone_is_settled_and_unsettled_before_it_is_changed() {
        let client = Client::new(Duration::from_millis(1));
        assert_eq!(client.ask(vec![write(0, b"first")]), [DataReply::Done]);
        client.wait_until_settled();
        // All of them wait, in their order, for the first one's sync.
        let requests = vec![
            write(1, b"abc"),
            READ,
            write(2, b"x"),
            DataRequest::Truncate {
                truncations: FIRST_TRUNCATIONS + 1,
                ino: INO,
                length: 4,
            },
        ];
        let mut replies = client.ask(requests);
        replies.sort_by_key(|reply| *reply == DataReply::Done);
        assert_eq!(replies[0], DataReply::Data(b"fabct".to_vec()));
        assert_eq!(
            replies[1..],
            [DataReply::Done, DataReply::Done, DataReply::Done]
        );
        client.wait_until_settled();
        assert_eq!(client.ask(vec![READ]), [DataReply::Data(b"faxc".to_vec())]);
        // Removed while it is known as one that may have to be settled; nothing makes it anew.
        let after = write_by(FIRST_TRUNCATIONS + 1, 0, b"y");
        let replies = client.ask(vec![after, DataRequest::Remove { ino: INO }]);
        assert_eq!(replies, [DataReply::Done, DataReply::Done]);
        let late = DataRequest::Truncate {
            ino: INO,
            truncations: FIRST_TRUNCATIONS + 2,
            length: 0,
        };
        let replies = client.ask(vec![write(1, b"z"), late]);
        let stale = DataReply::Failed(FsError::Stale);
        assert!(replies.contains(&stale) && replies.contains(&DataReply::Done));
        let none = AdminReply::Objects {
            objects: Vec::new(),
            more: false,
        };
        assert_eq!(crate::data::list(client.dir.path(), 0, 10), none);
        client.pool.stop();
    }

    #[test]
    fn what_comes_while_an_object_follows_a_cut_waits_for_that() {
        let client = Client::new(SETTLE_AFTER);
        client.ask(vec![write(0, b"old contents")]);
        let cut = |length| DataRequest::Truncate {
            ino: INO,
            truncations: FIRST_TRUNCATIONS + 1,
            length,
        };
        let requests = vec![
            cut(3),
            write_by(FIRST_TRUNCATIONS + 1, 3, b"new"),
            READ,
            write(0, b"held up"),
            cut(0),
        ];
        let mut replies = client.ask(requests);
        replies.sort_by_key(|reply| *reply == DataReply::Done);
        let late = DataReply::OtherTruncations {
            truncations: FIRST_TRUNCATIONS + 1,
        };
        let read = DataReply::Data(b"oldnew".to_vec());
        assert_eq!(replies.len(), 5);
        assert!(replies[..2].contains(&late) && replies[..2].contains(&read));
        assert_eq!(replies[2..], [const { DataReply::Done }; 3]);
        client.pool.stop();
    }

    #[test]
    fn an_object_in_use_is_not_settled() {
        let client = Client::new(SETTLE_AFTER);
        client.ask(vec![write(0, b"first"), DataRequest::Sync { ino: INO }]);
        assert_eq!(client.state(), 0);
        client.pool.stop();
    }

    #[test]
    fn damage_is_an_error_where_it_is_and_nowhere_else() {
        let client = Client::new(SETTLE_AFTER);
        client.ask(vec![write(0, &[5; 20_000])]);
        let path = client.dir.path().join("07/0000000000010007");
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[5_000] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let damaged = [DataReply::Failed(FsError::Io)];
        assert_eq!(client.ask(vec![READ]), damaged);
        assert_eq!(client.ask(vec![write(8_000, &[1; 1_000])]), damaged);
        let read = |offset| DataRequest::Read {
            ino: INO,
            offset,
            length: 4_096,
        };
        let good = [DataReply::Data(vec![5; 4_096])];
        assert_eq!(client.ask(vec![read(0)]), good);
        assert_eq!(client.ask(vec![read(8_192)]), good);
        assert_eq!(
            client.ask(vec![write(4_096, &[5; 4_096])]),
            [DataReply::Done]
        );
        assert_eq!(client.ask(vec![READ]), [DataReply::Data(vec![5; 20_000])]);
        client.pool.stop();
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
