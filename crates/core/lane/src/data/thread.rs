//! Order of requests for data objects: what waits for a truncation that is being followed, and what for a sync.

use super::port::{DataObjects, Done};
use crate::removed::Removed;
use pandofs_api::{DataReply, DataRequest, FIRST_TRUNCATIONS};
use pandofs_types::{FsError, Ino};
use std::collections::{HashMap, VecDeque};

/// Object or directory that is to be synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work<O> {
    /// An object's data, and its name if that may not be on disk.
    Object(O),
    /// The object's header.
    Header(O),
    /// That the object of this file is gone.
    Removal(Ino),
}

/// Purpose for which the thread has something synced that goes on with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To change an object that was settled.
    Unsettle,
    /// To say that it has followed this truncation, whose changes were made.
    Follow(u32),
    /// That it has followed a truncation, after so many before.
    Followed {
        /// As it said before.
        before: u32,
    },
}

/// The one that waits for a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiter<T> {
    /// A request, which is answered with it: `Done`, or `Failed`.
    Request(T),
    /// [`DataThread::synced`].
    Thread(Purpose),
}

/// One thing to do, in the order in which they are given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataOrder<T, O> {
    /// Answer a request.
    Answer {
        /// As it was given with the request.
        origin: T,
        /// For the requester.
        reply: DataReply,
    },
    /// Sync this where that holds up nobody.
    Sync {
        /// The object or directory to sync.
        work: Work<O>,
        /// Told when it is, or when that failed.
        waiter: Waiter<T>,
    },
}

/// A request, and whether it is answered only once it is on disk.
#[derive(Debug)]
struct Asked<T> {
    origin: T,
    request: DataRequest,
    durable: bool,
}

/// Requests for one object that wait until that it is unsettled, or has followed a truncation, is on disk.
type Held<T> = VecDeque<Asked<T>>;

/// One thread that changes data objects: all requests for one object come to the same one, and are carried out in the
/// order in which they came. `T` is where an answer goes, `O` the handle of an object.
#[derive(Debug)]
pub struct DataThread<T, O> {
    removed: Removed,
    held: HashMap<Ino, Held<T>>,
    /// Requests that are answered when an object has followed a truncation.
    following: HashMap<Ino, T>,
    orders: Vec<DataOrder<T, O>>,
}

impl<T, O> Default for DataThread<T, O> {
    fn default() -> DataThread<T, O> {
        DataThread {
            removed: Removed::default(),
            held: HashMap::new(),
            following: HashMap::new(),
            orders: Vec::new(),
        }
    }
}

/// Outcome of a request.
enum Outcome<O> {
    Done(DataReply),
    /// Answered once this is synced.
    Sync(Work<O>),
    /// To be carried out once that it is unsettled is synced.
    Unsettle(O, DataRequest),
    /// Done to the object for this truncation: once that is synced, that it has followed is written and synced, then
    /// answered.
    Follow(O, u32),
}

impl<T, O: Clone> DataThread<T, O> {
    /// Returns whether nothing waits for a sync that goes on here.
    pub fn is_idle(&self) -> bool {
        self.held.is_empty()
    }

    /// The orders since the last call, each once.
    pub fn take_orders(&mut self) -> Vec<DataOrder<T, O>> {
        std::mem::take(&mut self.orders)
    }

    /// Takes a request. `durable`: what is written or truncated is answered once it is on disk, as a shard wants it, which
    /// forgets then that it has promised somebody that it will be done. A client says when.
    pub fn request(
        &mut self,
        objects: &mut impl DataObjects<Object = O>,
        origin: T,
        request: DataRequest,
        durable: bool,
    ) {
        let asked = Asked {
            origin,
            request,
            durable,
        };
        let held = asked.request.ino().and_then(|ino| self.held.get_mut(&ino));
        match held {
            Some(held) => held.push_back(asked),
            None => self.begin(objects, asked),
        }
    }

    /// The sync for this purpose is done, or failed.
    ///
    /// # Panics
    /// When nothing waits for it.
    pub fn synced(
        &mut self,
        objects: &mut impl DataObjects<Object = O>,
        object: &O,
        purpose: Purpose,
        result: Result<(), FsError>,
    ) {
        match purpose {
            Purpose::Unsettle => self.unsettled(objects, object, result),
            Purpose::Follow(truncations) => self.follow(objects, object, truncations, result),
            Purpose::Followed { before } => self.followed(objects, object, before, result),
        }
    }

    fn begin(&mut self, objects: &mut impl DataObjects<Object = O>, asked: Asked<T>) {
        let Asked {
            origin,
            request,
            durable,
        } = asked;
        let outcome = self.execute(objects, request, durable);
        match outcome.unwrap_or_else(|error| Outcome::Done(DataReply::Failed(error))) {
            Outcome::Done(reply) => self.answer(origin, reply),
            Outcome::Sync(work) => self.sync(work, Waiter::Request(origin)),
            Outcome::Unsettle(object, request) => {
                let ino = objects.ino(&object);
                let again = Asked {
                    origin,
                    request,
                    durable,
                };
                let held = self.held.insert(ino, [again].into());
                assert!(held.is_none(), "{ino} is unsettled twice");
                self.sync(Work::Header(object), Waiter::Thread(Purpose::Unsettle));
            }
            Outcome::Follow(object, truncations) => {
                let ino = objects.ino(&object);
                let held = self.held.insert(ino, Held::new());
                assert!(held.is_none(), "{ino} follows two truncations at once");
                self.following.insert(ino, origin);
                let purpose = Purpose::Follow(truncations);
                self.sync(Work::Object(object), Waiter::Thread(purpose));
            }
        }
    }

    fn execute(
        &mut self,
        objects: &mut impl DataObjects<Object = O>,
        request: DataRequest,
        durable: bool,
    ) -> Result<Outcome<O>, FsError> {
        if let Some(reply) = self.comes_too_late(&request) {
            return Ok(Outcome::Done(reply));
        }
        if let Some(outcome) = outdated(objects, &request)? {
            return Ok(outcome);
        }
        objects.check_room(&request, durable)?;
        if let Some((ino, _)) = truncations_of(&request)
            && let Some(object) = objects.object(ino)?
            && objects.unsettle(&object)?
        {
            return Ok(Outcome::Unsettle(object, request));
        }
        let truncations = followed_by(&request);
        let is_synced = durable || matches!(request, DataRequest::Sync { .. });
        Ok(match (objects.carry_out(request)?, truncations) {
            (Done::Reply(reply), _) => Outcome::Done(reply),
            (Done::Object(object), Some(truncations)) => {
                objects.write_again(&object)?;
                Outcome::Follow(object, truncations)
            }
            (Done::Object(object), None) if is_synced => {
                objects.write_again(&object)?;
                Outcome::Sync(Work::Object(object))
            }
            (Done::Object(_), None) => Outcome::Done(DataReply::Done),
            (Done::Removed(ino), _) => {
                self.removed.note(ino);
                Outcome::Sync(Work::Removal(ino))
            }
        })
    }

    /// The answer to a change of an object that was removed.
    fn comes_too_late(&self, request: &DataRequest) -> Option<DataReply> {
        let (ino, _) = truncations_of(request)?;
        let reply = match followed_by(request) {
            Some(_) => DataReply::Done,
            None => DataReply::Failed(FsError::Stale),
        };
        self.removed.has(ino).then_some(reply)
    }

    /// Notes that the change of an object for a truncation is on disk: it says that it has followed. Nothing else is done
    /// to it before that is on disk too. (A write that comes after the truncation is carried out and synced, the machine
    /// loses power, and the truncation comes once more to an object that does not say that it has followed.)
    fn follow(
        &mut self,
        objects: &mut impl DataObjects<Object = O>,
        object: &O,
        truncations: u32,
        result: Result<(), FsError>,
    ) {
        let before = objects.followed(object);
        match result.and_then(|()| objects.follow(object, truncations)) {
            Ok(()) => {
                let purpose = Purpose::Followed { before };
                self.sync(Work::Header(object.clone()), Waiter::Thread(purpose));
            }
            Err(error) => self.followed(objects, object, before, Err(error)),
        }
    }

    fn followed(
        &mut self,
        objects: &mut impl DataObjects<Object = O>,
        object: &O,
        before: u32,
        result: Result<(), FsError>,
    ) {
        let ino = objects.ino(object);
        let reply = match result {
            Ok(()) => DataReply::Done,
            Err(error) => {
                // So that the truncation is done whole when it comes again. The disk's error was logged where it came up.
                let _ = objects.follow(object, before);
                DataReply::Failed(error)
            }
        };
        let (Some(origin), Some(held)) = (self.following.remove(&ino), self.held.remove(&ino))
        else {
            panic!("{ino} has followed for nobody");
        };
        self.answer(origin, reply);
        self.go_on(objects, ino, held);
    }

    /// That an object is unsettled is on disk, or that failed: the requests that would change it go on or fail.
    fn unsettled(
        &mut self,
        objects: &mut impl DataObjects<Object = O>,
        object: &O,
        result: Result<(), FsError>,
    ) {
        let ino = objects.ino(object);
        let Some(mut held) = self.held.remove(&ino) else {
            panic!("{ino} was synced for nobody");
        };
        if let Err(error) = result {
            // So that the next one who wants to change it tries again.
            objects.settle_again(object);
            if let Some(asked) = held.pop_front() {
                self.answer(asked.origin, DataReply::Failed(error));
            }
        }
        self.go_on(objects, ino, held);
    }

    /// Carries out what has waited, until something makes the rest wait again.
    fn go_on(&mut self, objects: &mut impl DataObjects<Object = O>, ino: Ino, mut held: Held<T>) {
        while let Some(asked) = held.pop_front() {
            self.begin(objects, asked);
            if let Some(again) = self.held.get_mut(&ino) {
                again.append(&mut held);
            }
        }
    }

    fn answer(&mut self, origin: T, reply: DataReply) {
        self.orders.push(DataOrder::Answer { origin, reply });
    }

    fn sync(&mut self, work: Work<O>, waiter: Waiter<T>) {
        self.orders.push(DataOrder::Sync { work, waiter });
    }
}

/// Returns what comes of a change that goes by another number of truncations than the object has followed; `None` if it
/// may be carried out.
fn outdated<O>(
    objects: &mut impl DataObjects<Object = O>,
    request: &DataRequest,
) -> Result<Option<Outcome<O>>, FsError> {
    let Some((ino, wanted)) = truncations_of(request) else {
        return Ok(None);
    };
    let object = objects.object(ino)?;
    let followed = object.as_ref().map_or(0, |object| objects.followed(object));
    if followed_by(request).is_some() {
        // The header that says so may not be on disk yet: a process that wrote it may have been killed before the sync.
        return Ok(object
            .filter(|_| followed >= wanted)
            .map(|object| Outcome::Sync(Work::Header(object))));
    }
    // That was not said of an object that was made by a write.
    let truncations = followed.max(FIRST_TRUNCATIONS);
    let other = DataReply::OtherTruncations { truncations };
    Ok((truncations != wanted).then_some(Outcome::Done(other)))
}

/// The truncation that an object has followed by this.
fn followed_by(request: &DataRequest) -> Option<u32> {
    match *request {
        DataRequest::Truncate { truncations, .. } | DataRequest::Fill { truncations, .. } => {
            Some(truncations)
        }
        _ => None,
    }
}

/// The object that a request changes, and the number of truncations that it goes by.
fn truncations_of(request: &DataRequest) -> Option<(Ino, u32)> {
    match *request {
        DataRequest::Write {
            ino, truncations, ..
        }
        | DataRequest::Truncate {
            ino, truncations, ..
        }
        | DataRequest::Fill {
            ino, truncations, ..
        }
        | DataRequest::Allocate {
            ino, truncations, ..
        } => Some((ino, truncations)),
        DataRequest::Read { .. }
        | DataRequest::Remove { .. }
        | DataRequest::Sync { .. }
        | DataRequest::Usage { .. }
        | DataRequest::Space
        | DataRequest::Seek { .. } => None,
    }
}
