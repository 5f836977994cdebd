//! An operation on the contents of an open file, as the client library makes it: what it asks of the inode's shard, and
//! what of the servers that have data objects of the file.

use crate::history::{Contents, SECTOR_BYTES, SECTORS, Stamp, bytes_of, stamp_of};
use crate::scenario::Op;
use pandofs_api::{
    DataReply, DataRequest, Extent, FileBody, InodeReply, Layout, Reply, Request, op,
};
use pandofs_session::{Mark, ObjectChange, Place, Synced, Target, Unsynced};
use pandofs_types::{FsError, Ino, ServerId, SessionId, SetAttr, ShardId, Time};
use std::collections::VecDeque;
use std::ops::Range;

/// Bytes up to which a file of a scenario is kept inline.
const INLINE_BYTES: u64 = crate::scenario::UNIT_BYTES as u64;

/// Which start of a server's machine answered.
pub(crate) type Machine = u64;

/// The job's view of its client.
pub(crate) struct Surroundings<'a> {
    pub session: SessionId,
    pub contents: &'a mut Contents,
    pub unsynced: &'a mut Unsynced<Machine>,
    /// The time of what is written now.
    pub time: Time,
    /// The shard of the inode, and the first of each server, by what the client knows.
    pub shard: ShardId,
    pub shards: &'a dyn Fn(ServerId) -> ShardId,
    /// An answer may be believed that a server has forgotten.
    pub is_doubtful: bool,
    /// Only planted: a sync is taken for one of what a machine had before it was started anew.
    pub takes_late_syncs: bool,
}

/// Outcome of the last step.
#[derive(Debug)]
pub(crate) enum Heard {
    Nothing,
    /// From this server's machine, if it did not come from what is believed.
    Shard(Result<Reply, FsError>, Option<(ServerId, Machine)>),
    Data(DataReply, Machine),
}

/// Next step of the job.
#[derive(Debug)]
pub(crate) enum DataStep {
    Ask(Target, Request),
    AskData(ServerId, DataRequest),
    Done(String),
}

/// Operation on the contents.
#[derive(Clone, Debug)]
enum What {
    Read,
    Write(Range<usize>),
    Truncate(usize),
    Sync,
}

#[derive(Debug)]
enum State {
    Opening,
    /// Asks for the file's attributes.
    Looking,
    ReadingInline,
    WritingInline(usize),
    Striping,
    Reading(Reading),
    Writing(Writing),
    /// How often the file was truncated is asked for.
    Following(Writing),
    /// Reports the write.
    Reporting(Writing),
    Truncating(usize),
    Syncing(Syncing),
    Ended,
}

#[derive(Debug)]
struct Reading {
    size: u64,
    left: VecDeque<Extent>,
    bytes: Vec<u8>,
    is_short: bool,
    /// It is asked whether the file is still as long.
    is_checked: bool,
}

#[derive(Debug)]
struct Writing {
    change: ObjectChange,
    layout: Layout,
    size: u64,
    left: VecDeque<Extent>,
    /// In the history.
    place: usize,
}

#[derive(Debug)]
struct Syncing {
    begun: u64,
    mark: Mark,
    objects: VecDeque<ServerId>,
    shards: VecDeque<ShardId>,
    asked: Option<ServerId>,
    synced: Vec<Synced<Machine>>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct DataJob {
    ino: Ino,
    what: What,
    stamp: Stamp,
    state: State,
    /// When what is read began to be looked for.
    begun: u64,
    /// Something that is read may be believed that a server has forgotten.
    is_doubtful: bool,
    /// A server counts it as open.
    pub is_open: bool,
}

fn bytes(sectors: usize) -> u64 {
    (sectors * SECTOR_BYTES) as u64
}

impl DataJob {
    /// The job of an operation on this file, if it is one on contents.
    pub(crate) fn of(op: &Op, ino: Ino) -> Option<DataJob> {
        let what = match op {
            Op::ReadData(_) => What::Read,
            Op::WriteData { first, count, .. } => What::Write(*first..SECTORS.min(first + count)),
            Op::TruncateData(_, kept) => What::Truncate(*kept),
            Op::SyncData(_) => What::Sync,
            _ => return None,
        };
        Some(DataJob {
            ino,
            what,
            stamp: 0,
            state: State::Opening,
            begun: 0,
            is_doubtful: false,
            is_open: false,
        })
    }

    /// The file that it is about.
    pub(crate) fn ino(&self) -> Ino {
        self.ino
    }

    fn of_inode(&self, request: Request) -> DataStep {
        DataStep::Ask(Target::Inode(self.ino), request)
    }

    fn look(&mut self, at: &mut Surroundings<'_>) -> DataStep {
        self.begun = at.contents.tick();
        self.is_doubtful = false;
        self.state = State::Looking;
        self.of_inode(Request::GetAttr(op::GetAttr { ino: self.ino }))
    }

    /// Takes what has come of the last step, and goes on.
    pub(crate) fn next(&mut self, heard: Heard, at: &mut Surroundings<'_>) -> DataStep {
        self.is_doubtful |= at.is_doubtful;
        match heard {
            Heard::Nothing => self.of_inode(Request::Open(op::Open {
                ino: self.ino,
                access: 6,
                truncate: false,
                data: false,
            })),
            Heard::Shard(answer, from) => self.answered(answer, from, at),
            Heard::Data(reply, machine) => self.data_answered(reply, machine, at),
        }
    }

    fn answered(
        &mut self,
        answer: Result<Reply, FsError>,
        from: Option<(ServerId, Machine)>,
        at: &mut Surroundings<'_>,
    ) -> DataStep {
        let state = std::mem::replace(&mut self.state, State::Ended);
        let reply = match (answer, &state) {
            (Ok(reply), _) => reply,
            // It was striped meanwhile.
            (Err(FsError::NotSupported), State::WritingInline(_)) => return self.look(at),
            (Err(error), _) => return self.failed(error, state, at),
        };
        match (state, reply) {
            (State::Opening, _) => {
                self.is_open = true;
                self.look(at)
            }
            (State::Looking, Reply::Inode(inode)) => self.found(&inode, at),
            (State::ReadingInline, Reply::Inode(inode)) => match inode.body {
                FileBody::Inline { data, .. } => {
                    let mut whole = data;
                    whole.resize(inode.attr.size as usize, 0);
                    self.read(whole, at)
                }
                _ => self.look(at),
            },
            (State::WritingInline(place) | State::Truncating(place), _) => {
                at.contents.changed(self.ino, place);
                DataStep::Done("done".to_owned())
            }
            (State::Striping, Reply::Inode(_)) => self.look(at),
            (State::Reading(reading), Reply::Inode(inode)) if reading.is_checked => {
                match inode.attr.size == reading.size {
                    true => self.read(reading.bytes, at),
                    false => self.look(at),
                }
            }
            (State::Following(mut writing), Reply::Inode(inode)) => {
                match writing.change.begin_again(inode.truncations) {
                    Ok(()) => {
                        writing.size = inode.attr.size;
                        self.begin_writing(writing, at)
                    }
                    Err(out) => DataStep::Done(format!("{out:?}")),
                }
            }
            (State::Reporting(writing), Reply::Inode(_)) => {
                at.contents.changed(self.ino, writing.place);
                DataStep::Done(format!("{} is written", self.stamp))
            }
            (State::Syncing(mut syncing), _) => {
                if let Some((server, machine)) = from {
                    syncing.synced.push((Place::Log(server), machine));
                }
                self.sync_next(syncing, at)
            }
            (state, reply) => DataStep::Done(format!("{state:?} was answered with {reply:?}")),
        }
    }

    fn failed(&mut self, error: FsError, state: State, at: &mut Surroundings<'_>) -> DataStep {
        if let State::Syncing(syncing) = state {
            // Its answer says nothing of what was lost, and it may have been told.
            let (ino, session) = (self.ino, at.session);
            at.contents.synced(ino, session, syncing.begun, false);
        }
        DataStep::Done(format!("{error:?}"))
    }

    /// The file is like this.
    fn found(&mut self, inode: &InodeReply, at: &mut Surroundings<'_>) -> DataStep {
        let ino = self.ino;
        let size = inode.attr.size;
        match (&self.what, &inode.body) {
            (What::Read, FileBody::Inline { .. }) => {
                self.state = State::ReadingInline;
                self.of_inode(Request::ReadInline(op::ReadInline { ino }))
            }
            (What::Read, FileBody::Striped(layout) | FileBody::Sparse(layout)) => {
                let reading = Reading {
                    size,
                    left: layout.extents(0, size).into(),
                    bytes: vec![0; size as usize],
                    is_short: false,
                    is_checked: false,
                };
                self.read_next(reading, at)
            }
            (What::Write(sectors), FileBody::Inline { .. }) => {
                let sectors = sectors.clone();
                if bytes(sectors.end) > INLINE_BYTES {
                    self.state = State::Striping;
                    return self.of_inode(Request::Stripe(op::Stripe { ino }));
                }
                let (offset, count) = (bytes(sectors.start), sectors.len());
                let place = self.begin_change(sectors, at);
                self.state = State::WritingInline(place);
                self.of_inode(Request::WriteInline(op::WriteInline {
                    ino,
                    offset,
                    data: bytes_of(self.stamp, count),
                }))
            }
            (What::Write(_), FileBody::Striped(layout) | FileBody::Sparse(layout)) => {
                let writing = Writing {
                    change: ObjectChange::new(inode.truncations),
                    layout: *layout,
                    size,
                    left: VecDeque::new(),
                    place: 0,
                };
                self.begin_writing(writing, at)
            }
            (What::Truncate(_), _) if size == 0 => DataStep::Done("it is empty".to_owned()),
            (What::Truncate(kept), _) => {
                let (session, kept) = (at.session, *kept);
                let place = at.contents.change(ino, session, kept..SECTORS, 0);
                self.state = State::Truncating(place);
                let set = SetAttr {
                    size: Some(bytes(kept)),
                    ..SetAttr::default()
                };
                self.of_inode(Request::SetAttr(op::SetAttr { ino, set }))
            }
            (What::Sync, body) => self.begin_sync(body, at),
            (what, body) => DataStep::Done(format!("{what:?} of {body:?}")),
        }
    }

    fn begin_change(&mut self, sectors: Range<usize>, at: &mut Surroundings<'_>) -> usize {
        if self.stamp == 0 {
            self.stamp = at.contents.next_stamp();
        }
        at.contents
            .change(self.ino, at.session, sectors, self.stamp)
    }

    fn read_next(&mut self, mut reading: Reading, at: &mut Surroundings<'_>) -> DataStep {
        if let Some(extent) = reading.left.front() {
            let (server, ino) = (extent.server, self.ino);
            let (offset, length) = (extent.object_offset, extent.length as u32);
            self.state = State::Reading(reading);
            return DataStep::AskData(
                server,
                DataRequest::Read {
                    ino,
                    offset,
                    length,
                },
            );
        }
        if !reading.is_short {
            return self.read(reading.bytes, at);
        }
        // Either there is a hole, or the file was truncated.
        reading.is_checked = true;
        self.state = State::Reading(reading);
        self.of_inode(Request::GetAttr(op::GetAttr { ino: self.ino }))
    }

    /// All of it was read.
    fn read(&mut self, mut whole: Vec<u8>, at: &mut Surroundings<'_>) -> DataStep {
        if self.is_doubtful {
            return DataStep::Done("read what may be lost".to_owned());
        }
        whole.resize(SECTORS * SECTOR_BYTES, 0);
        let sectors = whole.chunks(SECTOR_BYTES);
        // Bytes that no write has left are no number of one.
        let stamps: Vec<Stamp> = sectors
            .map(|sector| stamp_of(sector).unwrap_or(Stamp::MAX))
            .collect();
        let what = format!("{stamps:?}");
        at.contents.read(self.ino, self.begun, stamps);
        DataStep::Done(what)
    }

    /// All of the write is made, once or once more.
    fn begin_writing(&mut self, mut writing: Writing, at: &mut Surroundings<'_>) -> DataStep {
        let What::Write(sectors) = self.what.clone() else {
            unreachable!("only writes write");
        };
        let (offset, length) = (bytes(sectors.start), bytes(sectors.len()));
        writing.left = writing.layout.extents(offset, length).into();
        writing.place = self.begin_change(sectors, at);
        self.write_next(writing)
    }

    fn write_next(&mut self, writing: Writing) -> DataStep {
        let ino = self.ino;
        if let Some(extent) = writing.left.front() {
            let write = DataRequest::Write {
                ino,
                truncations: writing.change.truncations(),
                offset: extent.object_offset,
                data: bytes_of(self.stamp, extent.length as usize / SECTOR_BYTES),
            };
            let server = extent.server;
            self.state = State::Writing(writing);
            return DataStep::AskData(server, write);
        }
        self.state = State::Following(writing);
        self.of_inode(Request::Followed(op::Followed { ino }))
    }

    fn report(&mut self, writing: Writing, at: &Surroundings<'_>) -> DataStep {
        let What::Write(sectors) = self.what.clone() else {
            unreachable!("only writes are reported");
        };
        let start = bytes(sectors.start);
        let wrote = op::WroteData {
            ino: self.ino,
            start,
            end: bytes(sectors.end),
            mtime: at.time,
            sparse: start > writing.size,
            truncations: writing.change.truncations(),
        };
        self.state = State::Reporting(writing);
        self.of_inode(Request::WroteData(wrote))
    }

    fn begin_sync(&mut self, body: &FileBody, at: &mut Surroundings<'_>) -> DataStep {
        let mark = at.unsynced.mark();
        let mut objects: VecDeque<ServerId> = match body {
            FileBody::Striped(layout) | FileBody::Sparse(layout) => layout.servers().collect(),
            _ => VecDeque::new(),
        };
        let mut shards = VecDeque::from([at.shard]);
        for place in at.unsynced.places(self.ino) {
            match place {
                Place::Object(server) if !objects.contains(&server) => objects.push_back(server),
                Place::Object(_) => {}
                Place::Log(server) => shards.push_back((at.shards)(server)),
            }
        }
        let syncing = Syncing {
            begun: at.contents.tick(),
            mark,
            objects,
            shards,
            asked: None,
            synced: Vec::new(),
        };
        self.sync_next(syncing, at)
    }

    fn sync_next(&mut self, mut syncing: Syncing, at: &mut Surroundings<'_>) -> DataStep {
        let ino = self.ino;
        if let Some(server) = syncing.objects.pop_front() {
            syncing.asked = Some(server);
            self.state = State::Syncing(syncing);
            return DataStep::AskData(server, DataRequest::Sync { ino });
        }
        if let Some(shard) = syncing.shards.pop_front() {
            self.state = State::Syncing(syncing);
            return DataStep::Ask(Target::Shard(shard), Request::Sync(op::Sync));
        }
        let synced = &syncing.synced;
        let lost = at.unsynced.synced(ino, syncing.mark, synced, || ());
        let is_ok = lost.is_empty() || at.takes_late_syncs;
        at.contents.synced(ino, at.session, syncing.begun, is_ok);
        DataStep::Done(format!("synced, and lost on {lost:?}"))
    }

    fn data_answered(
        &mut self,
        reply: DataReply,
        machine: Machine,
        at: &mut Surroundings<'_>,
    ) -> DataStep {
        let state = std::mem::replace(&mut self.state, State::Ended);
        match (state, reply) {
            (State::Reading(mut reading), DataReply::Data(data)) => {
                if let Some(extent) = reading.left.pop_front() {
                    let from = extent.file_offset as usize;
                    reading.bytes[from..from + data.len()].copy_from_slice(&data);
                    reading.is_short |= (data.len() as u64) < extent.length;
                }
                self.read_next(reading, at)
            }
            (State::Writing(mut writing), reply) => {
                match reply {
                    DataReply::Done => {}
                    DataReply::OtherTruncations { truncations } => {
                        writing.change.refused(truncations);
                    }
                    other => return DataStep::Done(format!("{other:?}")),
                }
                writing.left.pop_front();
                match writing.left.is_empty() && writing.change.is_made() {
                    true => self.report(writing, at),
                    false => self.write_next(writing),
                }
            }
            (State::Syncing(mut syncing), DataReply::Done) => {
                if let Some(server) = syncing.asked.take() {
                    syncing.synced.push((Place::Object(server), machine));
                }
                self.sync_next(syncing, at)
            }
            (state, reply) => DataStep::Done(format!("{state:?} was answered with {reply:?}")),
        }
    }
}
