//! The thread that flushes the store and drops from the log what the store then holds.

use crate::error::ServerError;
use crate::helper;
use crate::mailbox::{Mail, Mailbox};
use crate::times::Times;
use pandofs_lane::{Written, flush};
use pandofs_storage::log::Log;
use pandofs_storage::store::Store;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::Instant;

/// Flushes the store once for each [`Flusher::begin`], and posts [`Mail::Flushed`].
#[derive(Debug)]
pub(crate) struct Flusher {
    orders: Sender<Written>,
    thread: JoinHandle<()>,
}

impl Flusher {
    /// # Errors
    /// The system's, when it has no thread to give.
    pub(crate) fn start(
        store: Arc<dyn Store>,
        log: Arc<dyn Log>,
        times: Arc<Times>,
        mailbox: &Mailbox,
    ) -> io::Result<Flusher> {
        let (orders, received) = mpsc::channel::<Written>();
        let reports = mailbox.clone();
        let thread = helper::spawn("flusher", mailbox, move || {
            for written in received {
                let begun = Instant::now();
                let flushed = flush(&*store, &*log, &written);
                times.flushes.add_since(begun);
                reports.post(Mail::Flushed(flushed));
            }
        })?;
        Ok(Flusher { orders, thread })
    }

    /// Begins a flush. `written` is what is in the store now; more may be there when the flush is
    /// done, but only this much is pruned from the log.
    ///
    /// # Errors
    /// When the thread is gone.
    pub(crate) fn begin(&self, written: Written) -> Result<(), ServerError> {
        self.orders
            .send(written)
            .map_err(|_| ServerError::HelperEnded { name: "flusher" })
    }

    /// Ends the thread once it has done what was ordered.
    pub(crate) fn stop(self) {
        drop(self.orders);
        helper::join(vec![self.thread]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Inbox;
    use pandofs_storage::log::{Entry, MemoryLog};
    use pandofs_storage::store::{Batch, KvRead, MemoryStore};
    use pandofs_types::ShardId;

    fn append(log: &MemoryLog, stream: u64, indexes: std::ops::RangeInclusive<u64>) {
        for index in indexes {
            log.append(&[Entry {
                stream,
                index,
                payload: b"record",
            }])
            .unwrap();
        }
    }

    #[test]
    fn it_never_prunes_beyond_what_was_written_before_the_flush() {
        let inbox = Inbox::new();
        let store = Arc::new(MemoryStore::new());
        let log = Arc::new(MemoryLog::new());
        append(&log, 3, 1..=10);
        append(&log, 4, 1..=2);
        let mut batch = Batch::new();
        batch.put(b"key".to_vec(), b"value".to_vec());
        store.write(&batch).unwrap();

        let times = Arc::new(Times::default());
        let flusher =
            Flusher::start(store.clone(), log.clone(), times.clone(), &inbox.mailbox).unwrap();
        flusher
            .begin(vec![(ShardId(3), 7), (ShardId(4), 2), (ShardId(5), 0)])
            .unwrap();
        let mail = inbox.next();
        assert!(matches!(mail, Mail::Flushed(Ok(()))), "{mail:?}");
        assert_eq!(times.flushes.count(), 1);
        assert_eq!(log.span(3), Some((8, 10)));
        assert_eq!(log.span(4), None);
        assert_eq!(log.next_index(4), Some(3));
        assert_eq!(log.next_index(5), None);
        assert_eq!(store.crash(0).get(b"key").unwrap(), Some(b"value".to_vec()));
        flusher.stop();
    }
}
