//! Contents of files: what a client has under way with data objects, and what it knows to be unsynced.

use super::opens::release_later;
use super::{Client, Todo};
use crate::history::History;
use crate::program::data::{DataJob, DataStep, Heard, Machine, Surroundings};
use crate::scenario::Plant;
use crate::server::Asker;
use pandofs_api::{DataReply, DataRequest, Reply, Request};
use pandofs_session::{KnownPlaces, Place, Unsynced, changed_by, object_changed_by};
use pandofs_types::{FsError, ServerId, ShardId, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// Inodes of which unsynced changes are remembered: as many as there are in a run.
const MAX_UNSYNCED: usize = 10_000;

/// Dealings of a client with data objects.
#[derive(Debug)]
pub(super) struct Data {
    pub unsynced: Unsynced<Machine>,
    /// Connections to each server so far: one on which an answer did not come is given up.
    connections: BTreeMap<usize, u64>,
    /// Some scenarios are about contents.
    is_used: bool,
    /// Shards acknowledge nothing before it is synced.
    shards_sync_each: bool,
}

/// A request for a data object that is under way.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    server: usize,
    request: DataRequest,
}

impl Data {
    pub(super) fn new(is_used: bool, shards_sync_each: bool) -> Data {
        Data {
            unsynced: Unsynced::within(MAX_UNSYNCED),
            connections: BTreeMap::new(),
            is_used,
            shards_sync_each,
        }
    }
}

impl Client {
    /// The worker's job on contents takes its next step.
    pub(super) fn go_on_with_data(
        &mut self,
        history: &mut History,
        worker: usize,
        mut heard: Heard,
        todo: &mut Vec<Todo>,
    ) {
        loop {
            let Some(mut job) = self.workers[worker].data.take() else {
                return;
            };
            match self.next_of(history, &mut job, heard) {
                DataStep::Ask(target, request) => {
                    self.workers[worker].data = Some(job);
                    match self.ask(history, worker, target, request, None, todo) {
                        Some(answer) => heard = Heard::Shard(answer, None),
                        None => return,
                    }
                }
                DataStep::AskData(server, request) => {
                    self.workers[worker].data = Some(job);
                    let server = usize::from(server.0);
                    self.workers[worker].asked_data = Some(Asked { server, request });
                    return self.send_data(worker, todo);
                }
                DataStep::Done(outcome) => {
                    if job.is_open {
                        let files = self.places.files.get_mut();
                        let is_open = self.closes.release(files, job.ino());
                        assert!(is_open, "what a job has open is open");
                        todo.push(release_later());
                    }
                    self.workers[worker].job = None;
                    return todo.push(Todo::Done { worker, outcome });
                }
            }
        }
    }

    fn next_of(&mut self, history: &mut History, job: &mut DataJob, heard: Heard) -> DataStep {
        let is_believed = matches!(heard, Heard::Shard(_, None));
        let is_doubtful = is_believed && self.may_believe_what_is_lost();
        let shard = self.places.inode_shard(job.ino());
        let map = &self.map;
        let shards = |server: ServerId| {
            let led = map.shards_of(server).first().copied();
            led.unwrap_or(ShardId(0))
        };
        let mut surroundings = Surroundings {
            session: self.session,
            contents: &mut history.contents,
            unsynced: &mut self.data.unsynced,
            time: Time(crate::server::EPOCH + self.now),
            shard,
            shards: &shards,
            is_doubtful,
            takes_late_syncs: self.plant == Some(Plant::TakesLateSyncs),
        };
        job.next(heard, &mut surroundings)
    }

    /// Sends what the worker asks of a data object, over the newest connection.
    fn send_data(&mut self, worker: usize, todo: &mut Vec<Todo>) {
        let state = &mut self.workers[worker];
        let Some(asked) = state.asked_data.clone() else {
            return;
        };
        state.attempt += 1;
        let asker = Asker {
            client: self.number,
            session: self.session,
            worker,
            attempt: state.attempt,
        };
        let connection = self.data.connections.entry(asked.server).or_default();
        todo.push(Todo::AskData {
            server: asked.server,
            connection: *connection,
            asker,
            request: asked.request,
        });
    }

    /// No answer has come for long: the connection is given up. True if the worker has asked something of a data object.
    pub(super) fn data_silence(&mut self, worker: usize, todo: &mut Vec<Todo>) -> bool {
        let Some(asked) = &self.workers[worker].asked_data else {
            return false;
        };
        *self.data.connections.entry(asked.server).or_default() += 1;
        self.send_data(worker, todo);
        true
    }

    /// A server has answered about a data object.
    pub(crate) fn data_answered(
        &mut self,
        history: &mut History,
        asker: Asker,
        reply: DataReply,
        machine: Machine,
    ) -> Vec<Todo> {
        let (worker, mut todo) = (asker.worker, Vec::new());
        let state = &mut self.workers[worker];
        // To an earlier attempt, over a connection that was given up.
        if state.attempt != asker.attempt {
            return todo;
        }
        let Some(asked) = state.asked_data.take() else {
            return todo;
        };
        state.attempt += 1;
        if reply == DataReply::Done {
            let place = Place::Object(ServerId(asked.server as u16));
            let now = self.passed();
            let changed = object_changed_by(&asked.request);
            let are_many = self.data.unsynced.changed(changed, place, machine, now);
            assert!(!are_many, "a run has fewer files");
        }
        let heard = Heard::Data(reply, machine);
        self.go_on_with_data(history, worker, heard, &mut todo);
        self.begin_next(history, worker, &mut todo);
        todo
    }

    /// A shard has acknowledged a change.
    pub(super) fn acknowledged(&mut self, server: usize, request: &Request, reply: &Reply) {
        if !self.data.is_used || self.data.shards_sync_each {
            return;
        }
        let place = Place::Log(ServerId(server as u16));
        let (now, machine) = (self.passed(), self.machine);
        let changed = changed_by(request, reply);
        let are_many = self.data.unsynced.changed(changed, place, machine, now);
        assert!(!are_many, "a run has fewer files");
    }

    /// As [`Heard::Shard`] has it.
    pub(super) fn heard(&self, result: Result<Reply, FsError>, server: usize) -> Heard {
        Heard::Shard(result, Some((ServerId(server as u16), self.machine)))
    }

    fn passed(&self) -> Duration {
        Duration::from_nanos(self.now as u64)
    }
}
