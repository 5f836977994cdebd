//! Data objects of a server, in memory, with syncs that take a while.

use super::{Asker, Process, Server};
use crate::scenario::Plant;
use pandofs_api::{DataReply, DataRequest, FIRST_TRUNCATIONS};
use pandofs_lane::DataOrigin;
use pandofs_lane::data::{
    DataObjects, DataOrder, DataThread, Done, Mark, MemoryObjects, Purpose, Waiter, Work,
};
use pandofs_testkit::rng::Rng;
use pandofs_types::{FsError, Ino, ServerId, SessionId};
use std::collections::BTreeMap;

/// Source of a request to a data object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataFrom {
    Lane(DataOrigin),
    Client(Asker),
}

/// Work to do about a request.
#[derive(Debug)]
pub(crate) enum DataTodo {
    Answer(Asker, DataReply),
    /// Report to [`Server::ends_data_sync`] when it is done.
    Sync(DataSync),
}

/// A sync of a data object that is under way.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DataSync {
    Answers(Syncing, DataFrom),
    GoesOn(Syncing, Purpose),
}

/// The object that is synced, and its state at the beginning.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Syncing {
    work: Work<Ino>,
    mark: Mark,
}

/// The part of a process that looks after data objects.
#[derive(Debug, Default)]
pub(crate) struct DataProcess {
    thread: DataThread<DataFrom, Ino>,
    /// The newest connection of each client: one that comes to know of it has closed those before.
    connections: BTreeMap<SessionId, u64>,
}

/// Objects on a server's disk, which may be made to do something else than they are told.
#[derive(Debug)]
pub(crate) struct DataDisk {
    objects: MemoryObjects,
    id: ServerId,
    plant: Option<Plant>,
}

impl DataDisk {
    pub(crate) fn new(id: ServerId, plant: Option<Plant>) -> DataDisk {
        DataDisk {
            objects: MemoryObjects::default(),
            id,
            plant,
        }
    }

    /// The sizes of all objects.
    pub(crate) fn sizes(&self) -> Vec<(Ino, u64)> {
        let all = self.objects.all();
        all.map(|(ino, bytes)| (ino, bytes.len() as u64)).collect()
    }

    /// The machine loses power.
    pub(super) fn lose(&mut self, seed: u64) {
        let mut random = Rng::new(seed);
        self.objects = self.objects.crash(&mut |below| random.below(below));
    }

    fn sync(&mut self, syncing: Syncing, is_wanted_by_client: bool) {
        let is_skipped = self.plant == Some(Plant::SyncsNothing) && is_wanted_by_client;
        if !is_skipped {
            self.objects.sync(&syncing.work, syncing.mark);
        }
    }

    /// Only planted: has the request carried out that the object would refuse.
    fn tamper(&mut self, request: &mut DataRequest) {
        match (self.plant, request) {
            (
                Some(Plant::TakesAnyCount),
                DataRequest::Write {
                    ino, truncations, ..
                },
            ) => *truncations = self.objects.followed(ino).max(FIRST_TRUNCATIONS),
            (
                Some(Plant::TruncatesAgain),
                DataRequest::Truncate {
                    ino, truncations, ..
                },
            ) => {
                let before = self.objects.followed(ino).min(*truncations - 1);
                let done = self.objects.follow(ino, before);
                done.expect("memory takes it");
            }
            _ => {}
        }
    }
}

impl DataObjects for DataDisk {
    type Object = Ino;

    fn ino(&self, object: &Ino) -> Ino {
        self.objects.ino(object)
    }

    fn object(&mut self, ino: Ino) -> Result<Option<Ino>, FsError> {
        self.objects.object(ino)
    }

    fn followed(&self, object: &Ino) -> u32 {
        self.objects.followed(object)
    }

    fn follow(&mut self, object: &Ino, truncations: u32) -> Result<(), FsError> {
        self.objects.follow(object, truncations)
    }

    fn check_room(&mut self, request: &DataRequest, promised: bool) -> Result<(), FsError> {
        self.objects.check_room(request, promised)
    }

    fn unsettle(&mut self, object: &Ino) -> Result<bool, FsError> {
        self.objects.unsettle(object)
    }

    fn settle_again(&mut self, object: &Ino) {
        self.objects.settle_again(object);
    }

    fn write_again(&mut self, object: &Ino) -> Result<(), FsError> {
        self.objects.write_again(object)
    }

    fn carry_out(&mut self, request: DataRequest) -> Result<Done<Ino>, FsError> {
        match (self.plant, &request) {
            (Some(Plant::KeepsObjects), DataRequest::Remove { ino }) => Ok(Done::Removed(*ino)),
            (Some(Plant::LeavesStripe), DataRequest::Truncate { ino, .. })
                if self.id.0 % 2 == 1 && self.objects.object(*ino)?.is_some() =>
            {
                Ok(Done::Object(*ino))
            }
            _ => self.objects.carry_out(request),
        }
    }
}

impl Server {
    /// A client asks for a data object. Nothing comes of it over a connection that it has given up.
    pub(crate) fn client_data(
        &mut self,
        asker: Asker,
        connection: u64,
        request: DataRequest,
    ) -> Vec<DataTodo> {
        let Some(process) = &mut self.process else {
            return Vec::new();
        };
        let newest = process.data.connections.entry(asker.session).or_default();
        if connection < *newest && self.plant != Some(Plant::HearsAbandoned) {
            return Vec::new();
        }
        *newest = connection.max(*newest);
        self.data(DataFrom::Client(asker), request)
    }

    /// Does what is wanted of a data object.
    pub(crate) fn data(&mut self, from: DataFrom, mut request: DataRequest) -> Vec<DataTodo> {
        let Some(process) = &mut self.process else {
            return Vec::new();
        };
        self.objects.tamper(&mut request);
        let durable = matches!(from, DataFrom::Lane(_));
        let thread = &mut process.data.thread;
        thread.request(&mut self.objects, from, request, durable);
        self.obey_data()
    }

    /// A sync has ended: the object is on disk.
    pub(crate) fn ends_data_sync(&mut self, sync: DataSync) -> Vec<DataTodo> {
        let Some(process) = &mut self.process else {
            return Vec::new();
        };
        match sync {
            DataSync::Answers(syncing, from) => {
                let is_wanted_by_client = matches!(from, DataFrom::Client(_));
                self.objects.sync(syncing, is_wanted_by_client);
                match from {
                    DataFrom::Lane(origin) => process.lane.data_done(origin, DataReply::Done),
                    DataFrom::Client(asker) => {
                        return vec![DataTodo::Answer(asker, DataReply::Done)];
                    }
                }
                Vec::new()
            }
            DataSync::GoesOn(syncing, purpose) => {
                self.objects.sync(syncing, false);
                let (Work::Object(ino) | Work::Header(ino) | Work::Removal(ino)) = syncing.work;
                let thread = &mut process.data.thread;
                thread.synced(&mut self.objects, &ino, purpose, Ok(()));
                self.obey_data()
            }
        }
    }

    fn obey_data(&mut self) -> Vec<DataTodo> {
        let Some(process) = &mut self.process else {
            return Vec::new();
        };
        let Process { data, lane, .. } = process;
        let mut todo = Vec::new();
        for order in data.thread.take_orders() {
            match order {
                DataOrder::Answer { origin, reply } => match origin {
                    DataFrom::Lane(origin) => lane.data_done(origin, reply),
                    DataFrom::Client(asker) => todo.push(DataTodo::Answer(asker, reply)),
                },
                DataOrder::Sync { work, waiter } => {
                    let syncing = Syncing {
                        mark: self.objects.objects.mark(&work),
                        work,
                    };
                    todo.push(DataTodo::Sync(match waiter {
                        Waiter::Request(from) => DataSync::Answers(syncing, from),
                        Waiter::Thread(purpose) => DataSync::GoesOn(syncing, purpose),
                    }));
                }
            }
        }
        todo
    }
}
