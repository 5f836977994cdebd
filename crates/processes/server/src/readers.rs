//! Threads that read the store where the lane would have to wait for the disk.

use crate::connection::ConnectionKey;
use crate::dump;
use crate::error::ServerError;
use crate::helper;
use crate::limits::READ_THREADS;
use crate::mailbox::{Mail, Mailbox};
use pandofs_shard::Input;
use pandofs_storage::store::Store;
use pandofs_types::ShardId;
use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Something to read.
#[derive(Debug)]
pub(crate) enum ReadJob {
    /// Bring the last of these keys into memory, then give the input back with all of them.
    Warm {
        keys: Vec<Vec<u8>>,
        shard: ShardId,
        input: Box<Input>,
    },
    /// List a shard's stored pairs for an administrator.
    Dump {
        connection: ConnectionKey,
        id: u64,
        shard: ShardId,
        after: Vec<u8>,
        max_bytes: u32,
    },
}

/// The threads; whichever is free takes the next job.
#[derive(Debug)]
pub(crate) struct Readers {
    jobs: Sender<ReadJob>,
    threads: Vec<JoinHandle<()>>,
}

impl Readers {
    /// # Errors
    /// The system's, when it has no threads to give.
    pub(crate) fn start(store: &Arc<dyn Store>, mailbox: &Mailbox) -> io::Result<Readers> {
        let (jobs, received) = mpsc::channel();
        let received = Arc::new(Mutex::new(received));
        let mut threads = Vec::new();
        for _ in 0..READ_THREADS {
            let (store, received) = (Arc::clone(store), Arc::clone(&received));
            let reports = mailbox.clone();
            threads.push(helper::spawn("read", mailbox, move || {
                while let Some(job) = next(&received) {
                    reports.post(perform(&*store, job));
                }
            })?);
        }
        Ok(Readers { jobs, threads })
    }

    /// Orders a job; [`Mail::Warmed`] or [`Mail::AdminDone`] tells that it is done.
    ///
    /// # Errors
    /// When the threads are gone.
    pub(crate) fn order(&self, job: ReadJob) -> Result<(), ServerError> {
        self.jobs
            .send(job)
            .map_err(|_| ServerError::HelperEnded { name: "read" })
    }

    /// Ends the threads once they have done what was ordered.
    pub(crate) fn stop(self) {
        drop(self.jobs);
        helper::join(self.threads);
    }
}

fn next(received: &Mutex<Receiver<ReadJob>>) -> Option<ReadJob> {
    received
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .recv()
        .ok()
}

fn perform(store: &dyn Store, job: ReadJob) -> Mail {
    match job {
        ReadJob::Warm { keys, shard, input } => {
            let Some(key) = keys.last() else {
                panic!("shard {shard} waits for no key: {input:?}");
            };
            match store.get(key) {
                Ok(_) => Mail::Warmed { shard, keys, input },
                Err(error) => Mail::Unreadable {
                    shard,
                    input,
                    error,
                },
            }
        }
        ReadJob::Dump {
            connection,
            id,
            shard,
            after,
            max_bytes,
        } => Mail::AdminDone {
            connection,
            id,
            reply: dump::dump(store, shard, &after, max_bytes),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Inbox;
    use pandofs_storage::store::MemoryStore;

    #[test]
    fn an_input_comes_back_when_its_key_was_read() {
        let inbox = Inbox::new();
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let readers = Readers::start(&store, &inbox.mailbox).unwrap();
        for shard in 0..10 {
            let job = ReadJob::Warm {
                keys: vec![vec![1]],
                shard: ShardId(shard),
                input: Box::new(Input::Tick),
            };
            readers.order(job).unwrap();
        }
        let mut shards: Vec<_> = (0..10)
            .map(|_| match inbox.next() {
                Mail::Warmed { shard, keys, input } => {
                    assert_eq!((*input, keys), (Input::Tick, vec![vec![1]]));
                    shard.0
                }
                other => panic!("{other:?}"),
            })
            .collect();
        shards.sort_unstable();
        assert!(shards.into_iter().eq(0..10));
        readers.stop();
    }
}
