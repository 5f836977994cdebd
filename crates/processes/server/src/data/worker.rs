//! One of the threads that read and change data objects.

use super::listing;
use super::objects::{Objects, Outcome};
use super::open::OpenObject;
use super::pool::{DataOrigin, object_of, share};
use super::syncer::{Purpose, Waiter, Work};
use crate::connection::ConnectionKey;
use crate::error::ServerError;
use crate::mailbox::{Mail, Mailbox};
use pandofs_api::{DataReply, DataRequest};
use pandofs_types::{FsError, Ino};
use std::collections::{HashMap, VecDeque};
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

/// Requests for one object that wait until that it is unsettled, or has followed a truncation, is on disk.
type Held = VecDeque<(DataOrigin, DataRequest)>;

#[derive(Debug)]
pub(super) struct Worker {
    objects: Objects,
    own_orders: Sender<Job>,
    syncers: Vec<Sender<(Waiter, Work)>>,
    mailbox: Mailbox,
    held: HashMap<Ino, Held>,
    /// Requests that are answered when an object has followed a truncation.
    following: HashMap<Ino, DataOrigin>,
    /// An object is being synced to be settled. One at a time: whoever waits for a sync of his own
    /// should not wait for many of these.
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
            held: HashMap::new(),
            following: HashMap::new(),
            is_settling: false,
        }
    }

    /// Runs until it is ordered to stop.
    pub(super) fn run(mut self, received: &Receiver<Job>) {
        let mut stops = false;
        while !(stops && self.held.is_empty() && !self.is_settling) {
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
                let held = object_of(&request).and_then(|ino| self.held.get_mut(&ino));
                match held {
                    Some(held) => held.push_back((origin, request)),
                    None => self.request(origin, request),
                }
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
                purpose: Purpose::Unsettle,
                result,
            } => self.unsettled(&object, result),
            Job::Synced {
                object,
                purpose: Purpose::Settle,
                result,
            } => {
                self.is_settling = false;
                // What went wrong has been logged; it is tried again in a while.
                match result {
                    Ok(()) => self.objects.settle(&object),
                    Err(_) => self.objects.unsettled.changed(object.ino, Instant::now()),
                }
            }
            Job::Synced {
                object,
                purpose: Purpose::Follow(truncations),
                result,
            } => self.follow(object, truncations, result),
            Job::Synced {
                object,
                purpose: Purpose::Followed { before },
                result,
            } => self.followed(&object, before, result),
            // Who asked may not wait any more.
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

    fn request(&mut self, origin: DataOrigin, request: DataRequest) {
        // A shard forgets what it wanted written or truncated once that is answered. A client says when.
        let synced = !matches!(origin, DataOrigin::Client { .. });
        match self.objects.execute(request, synced) {
            Outcome::Done(reply) => self.answer(origin, reply),
            Outcome::Sync(work) => self.sync(Waiter::Request(origin), work),
            Outcome::Unsettle(object, request) => {
                let held = self.held.insert(object.ino, [(origin, request)].into());
                assert!(held.is_none(), "{} is unsettled twice", object.ino);
                let waiter = Waiter::Thread(self.own_orders.clone(), Purpose::Unsettle);
                self.sync(waiter, Work::Header(object));
            }
            Outcome::Follow(object, truncations) => {
                let held = self.held.insert(object.ino, Held::new());
                assert!(
                    held.is_none(),
                    "{} follows two truncations at once",
                    object.ino
                );
                self.following.insert(object.ino, origin);
                let waiter = Waiter::Thread(self.own_orders.clone(), Purpose::Follow(truncations));
                self.sync(waiter, Work::Object(object));
            }
        }
    }

    /// Notes that the change of an object for a truncation is on disk: it says that it has followed.
    /// Nothing else is done to it before that is on disk too. (A write that comes after the truncation is
    /// carried out and synced, the machine loses power, and the truncation comes once more to an object
    /// that does not say that it has followed.)
    fn follow(&mut self, object: Arc<OpenObject>, truncations: u32, result: Result<(), FsError>) {
        let before = object.checked.truncations();
        let said = result.and_then(|()| {
            let said = object.checked.follow(truncations);
            said.map_err(|error| {
                self.objects
                    .failure("write the checksums of", object.ino, &error)
            })
        });
        match said {
            Ok(()) => {
                let purpose = Purpose::Followed { before };
                let waiter = Waiter::Thread(self.own_orders.clone(), purpose);
                self.sync(waiter, Work::Header(object));
            }
            Err(error) => self.followed(&object, before, Err(error)),
        }
    }

    fn followed(&mut self, object: &OpenObject, before: u32, result: Result<(), FsError>) {
        let ino = object.ino;
        let reply = match result {
            Ok(()) => DataReply::Done,
            Err(error) => {
                // So that the truncation is done whole when it comes again.
                if let Err(error) = object.checked.follow(before) {
                    self.objects.failure("write the checksums of", ino, &error);
                }
                DataReply::Failed(error)
            }
        };
        let (Some(origin), Some(held)) = (self.following.remove(&ino), self.held.remove(&ino))
        else {
            panic!("{ino} has followed for nobody");
        };
        self.answer(origin, reply);
        self.go_on(ino, held);
    }

    /// That an object is unsettled is on disk, or that failed: the requests that would change it go
    /// on or fail.
    fn unsettled(&mut self, object: &OpenObject, result: Result<(), FsError>) {
        let ino = object.ino;
        let Some(mut held) = self.held.remove(&ino) else {
            panic!("{ino} was synced for nobody");
        };
        if let Err(error) = result {
            // So that the next one who wants to change it tries again.
            if let Err(error) = object.checked.settle() {
                self.objects.failure("write the checksums of", ino, &error);
            }
            if let Some((origin, _)) = held.pop_front() {
                self.answer(origin, DataReply::Failed(error));
            }
        }
        self.go_on(ino, held);
    }

    /// Carries out what has waited, until something makes the rest wait again.
    fn go_on(&mut self, ino: Ino, mut held: Held) {
        while let Some((origin, request)) = held.pop_front() {
            self.request(origin, request);
            if let Some(again) = self.held.get_mut(&ino) {
                again.append(&mut held);
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

    fn answer(&self, origin: DataOrigin, reply: DataReply) {
        self.mailbox.post(Mail::DataDone { origin, reply });
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
