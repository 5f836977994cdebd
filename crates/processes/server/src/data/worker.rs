//! One of the threads that read and change data objects.

use super::listing;
use super::objects::{Objects, last_byte};
use super::open::OpenObject;
use super::pool::{DataOrigin, share};
use super::syncer::{Purpose, Waiter, Work};
use crate::connection::ConnectionKey;
use crate::error::ServerError;
use crate::mailbox::{Mail, Mailbox};
use pandofs_api::DataRequest;
use pandofs_lane::data::{self, DataOrder, DataThread};
use pandofs_types::{FsError, Ino};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Instant;

/// Job of the thread.
#[derive(Debug)]
pub(crate) enum Job {
    Request {
        origin: DataOrigin,
        request: DataRequest,
    },
    List {
        connection: ConnectionKey,
        id: u64,
        after: u64,
        max: u32,
    },
    /// Result of a sync that the thread wanted for itself.
    Synced {
        object: Arc<OpenObject>,
        purpose: Purpose,
        result: Result<(), FsError>,
    },
    /// Look at blocks as the disk has them, from `first` on.
    Judge {
        ino: Ino,
        first: u64,
        count: u64,
        reply: Sender<Judged>,
    },
    /// All blocks of the object have been looked at.
    LookedAt { ino: Ino, reply: Sender<Judged> },
    /// There were checksums without this object.
    SumsAlone { ino: Ino },
    /// To end when nothing is under way any more.
    Stop,
}

/// Whether that could be done; damage is made known otherwise.
pub(crate) type Judged = Result<(), FsError>;

#[derive(Debug)]
pub(super) struct Worker {
    objects: Objects,
    own_orders: Sender<Job>,
    syncers: Vec<Sender<(Waiter, Work)>>,
    mailbox: Mailbox,
    thread: DataThread<DataOrigin, Arc<OpenObject>>,
    /// An object is being synced to be settled. One at a time: a client that waits for a sync of
    /// its own should not wait for many of these.
    is_settling: bool,
}

impl Worker {
    pub(super) fn new(
        objects: Objects,
        own_orders: Sender<Job>,
        syncers: Vec<Sender<(Waiter, Work)>>,
        mailbox: Mailbox,
    ) -> Worker {
        Worker {
            objects,
            own_orders,
            syncers,
            mailbox,
            thread: DataThread::default(),
            is_settling: false,
        }
    }

    /// Runs until it is ordered to stop.
    pub(super) fn run(mut self, received: &Receiver<Job>) {
        let mut stops = false;
        while !(stops && self.thread.is_idle() && !self.is_settling) {
            match self.next(received) {
                Some(Job::Stop) => stops = true,
                Some(job) => self.perform(job),
                None => self.settle_next(),
            }
        }
    }

    /// The next job; `None` when it is time to settle an object.
    fn next(&self, received: &Receiver<Job>) -> Option<Job> {
        let due = self.objects.unsettled.next_due();
        match due.filter(|_| !self.is_settling) {
            // This thread has the other end.
            None => received.recv().ok(),
            Some(due) => {
                let wait = due.saturating_duration_since(Instant::now());
                received.recv_timeout(wait).ok()
            }
        }
    }

    fn perform(&mut self, job: Job) {
        match job {
            Job::Request { origin, request } => {
                // A shard forgets what it wanted written or truncated once that is answered. A client says when.
                let durable = !matches!(origin, DataOrigin::Client { .. });
                let objects = &mut self.objects;
                self.thread.request(objects, origin, request, durable);
                self.obey();
            }
            Job::List {
                connection,
                id,
                after,
                max,
            } => {
                let reply = listing::list(&self.objects.holdings.root, after, max);
                self.mailbox.post(Mail::AdminDone {
                    connection,
                    id,
                    reply,
                });
            }
            Job::Synced {
                object,
                purpose: Purpose::Settle,
                result,
            } => {
                self.is_settling = false;
                // The error has been logged; it is tried again in a while.
                match result {
                    Ok(()) => self.objects.settle(&object),
                    Err(_) => self.objects.unsettled.changed(object.ino, Instant::now()),
                }
            }
            Job::Synced {
                object,
                purpose: Purpose::Requests(purpose),
                result,
            } => {
                let objects = &mut self.objects;
                self.thread.synced(objects, &object, purpose, result);
                self.obey();
            }
            // The thread that asked may not wait any more.
            Job::Judge {
                ino,
                first,
                count,
                reply,
            } => drop(reply.send(self.objects.judge(ino, first, count))),
            Job::LookedAt { ino, reply } => drop(reply.send(self.objects.looked_at(ino))),
            Job::SumsAlone { ino } => self.objects.remove_alone(ino),
            Job::Stop => {}
        }
    }

    /// Does what came of a request or a sync.
    fn obey(&mut self) {
        for order in self.thread.take_orders() {
            match order {
                DataOrder::Answer { origin, reply } => {
                    self.mailbox.post(Mail::DataDone { origin, reply });
                }
                DataOrder::Sync { work, waiter } => {
                    let work = match work {
                        data::Work::Object(object) => Work::Object(object),
                        data::Work::Header(object) => Work::Header(object),
                        data::Work::Removal(ino) => Work::Removal {
                            last_byte: last_byte(ino),
                        },
                    };
                    let waiter = match waiter {
                        data::Waiter::Request(origin) => Waiter::Request(origin),
                        data::Waiter::Thread(purpose) => {
                            let orders = self.own_orders.clone();
                            Waiter::Thread(orders, Purpose::Requests(purpose))
                        }
                    };
                    self.sync(waiter, work);
                }
            }
        }
    }

    fn settle_next(&mut self) {
        let Some(ino) = self.objects.unsettled.take_due(Instant::now()) else {
            return;
        };
        if let Some(object) = self.objects.object_to_settle(ino) {
            self.is_settling = true;
            let waiter = Waiter::Thread(self.own_orders.clone(), Purpose::Settle);
            self.sync(waiter, Work::Settling(object));
        }
    }

    fn sync(&self, waiter: Waiter, work: Work) {
        let syncer = match &work {
            Work::Object(object) | Work::Settling(object) | Work::Header(object) => {
                share(object.ino, self.syncers.len())
            }
            Work::Removal { last_byte } => usize::from(*last_byte) % self.syncers.len(),
        };
        if self.syncers[syncer].send((waiter, work)).is_err() {
            self.mailbox
                .post(Mail::Failed(ServerError::HelperEnded { name: "sync" }));
        }
    }
}
