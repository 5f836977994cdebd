//! Request executed on an image.

use crate::covers;
use crate::deputy::Offer;
use crate::image::Image;
use pandofs_api::{Refusal, Reply, Request, Step, op};
use pandofs_namespace::keys::{self, Kind};
use pandofs_namespace::ops::{self, Mutation, here};
use pandofs_namespace::records::EntryRecord;
use pandofs_namespace::{Choices, Context, Effect, Locks, Meta, Stop, Txn};
use pandofs_placement::ClusterMap;
use pandofs_storage::store::{Batch, Overlay};
use pandofs_types::{Credentials, FileKind, FsError, Ino, Name, SessionId, ShardId};

/// Figures that an image does not have are counted from here, so that none falls below 0.
const COUNTED_FROM: u64 = 1 << 40;

/// Outcome of a request.
#[derive(Debug)]
pub(crate) enum Executed {
    /// It is answered, and changes nothing.
    Read(Result<Reply, FsError>),
    /// It is answered, and changes this of each image.
    Changed { reply: Reply, batches: Vec<Batch> },
    /// The image does not say.
    Undecided,
}

/// Caller and choices of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chosen<'a> {
    pub session: SessionId,
    pub caller: &'a Credentials,
    pub choices: &'a Choices,
}

impl<'a> Chosen<'a> {
    pub(crate) fn of(session: SessionId, offer: &Offer<'a>, choices: &'a Choices) -> Chosen<'a> {
        Chosen {
            session,
            caller: offer.caller,
            choices,
        }
    }

    fn context(self, locks: &'a Locks) -> Context<'a> {
        Context {
            locks,
            session: self.session,
            caller: self.caller,
            choices: self.choices,
        }
    }
}

/// Executes a request on the image of its shard and, where a directory of another one is made or removed, on that one's; unless the
/// images do not say all that it goes by.
pub(crate) fn execute(
    image: &Image,
    other: Option<&Image>,
    map: &ClusterMap,
    chosen: Chosen<'_>,
    request: &Request,
) -> Executed {
    match covers::decides(image, other, &image.view(map), request) {
        Ok(true) => {}
        Ok(false) | Err(_) => return Executed::Undecided,
    }
    let locks = Locks::default();
    let cx = chosen.context(&locks);
    if !request.is_mutation() {
        return read(ops::read(&image.view(map), &cx, request));
    }
    let images: Vec<&Image> = std::iter::once(image).chain(other).collect();
    let mut overlays: Vec<Overlay<'_>> = images
        .iter()
        .map(|image| Overlay::with_room(*image, 0))
        .collect();
    let mut metas: Vec<Meta> = images.iter().map(|_| meta(map)).collect();
    let mut effects: Vec<Vec<Effect>> = images.iter().map(|_| Vec::new()).collect();
    let parts = images.iter().zip(&mut overlays);
    let parts = parts.zip(metas.iter_mut().zip(&mut effects));
    let mut txns: Vec<Txn<'_, '_>> = parts
        .map(|((image, overlay), (meta, effects))| Txn {
            overlay,
            shard: image.shard,
            map,
            meta,
            effects,
        })
        .collect();
    let done = ops::mutate(&mut txns[0], &cx, request).and_then(|mutation| match mutation {
        Mutation::Done(reply) => Ok(Some(reply)),
        Mutation::Plan(plan) => here::perform(&mut txns, &locks, plan, chosen.choices),
    });
    drop(txns);
    match done {
        Ok(Some(reply)) => Executed::Changed {
            reply,
            batches: overlays.iter_mut().map(Overlay::take_batch).collect(),
        },
        Ok(None) => Executed::Undecided,
        Err(stop) => read(Err(stop)),
    }
}

/// The home of the directory that a request would make; `None` if it would make none.
pub(crate) fn home_of_new(
    image: &Image,
    map: &ClusterMap,
    chosen: Chosen<'_>,
    request: &Request,
) -> Option<ShardId> {
    let locks = Locks::default();
    let cx = chosen.context(&locks);
    let plan = ops::check(&image.view(map), &cx, request).ok()?.plan?;
    let made = plan
        .steps
        .iter()
        .find(|(_, step)| matches!(step, Step::NewDir(_)));
    made.map(|(shard, _)| *shard)
}

/// Figures of a shard that its image does not have.
fn meta(map: &ClusterMap) -> Meta {
    Meta {
        format: 0,
        fs: map.fs,
        applied: 0,
        next_serial: 1,
        next_sequence: 1,
        entries: COUNTED_FROM,
        inodes: COUNTED_FROM,
        partitions: COUNTED_FROM,
        splits: 0,
    }
}

/// Only what is final for the program is an answer: of anything else the shard knows more.
fn read(done: Result<Reply, Stop>) -> Executed {
    match done {
        Ok(reply) => Executed::Read(Ok(reply)),
        Err(Stop::Refuse(Refusal::Fs(error))) => Executed::Read(Err(error)),
        Err(_) => Executed::Undecided,
    }
}

impl Image {
    /// Takes in what a request has changed.
    pub(crate) fn changed(&mut self, request: &Request, reply: &Reply, batch: &Batch) {
        self.apply(batch);
        match (request, reply) {
            (Request::Mkdir(_), Reply::Entry(entry)) => {
                self.granted.insert(entry.ino);
            }
            (Request::Create(_), Reply::Entry(entry)) => {
                self.made.insert(entry.ino);
            }
            (Request::Rmdir(_), Reply::Removed { ino }) => {
                self.granted.remove(ino);
            }
            _ => {}
        }
        self.forget_the_dead(batch);
    }

    /// The entry of a name, as far as it is known.
    fn entry_of(&self, map: &ClusterMap, dir: Ino, name: &Name) -> Option<EntryRecord> {
        let position = map.hash_key.position(name.as_bytes());
        let entry = self.view(map).entry(dir, position, name);
        entry.ok().flatten()
    }

    /// The write that an append comes to here: nobody else can append to an inode that the session has made, so that its shard
    /// writes where this one is answered to have been written.
    pub(crate) fn located(&self, map: &ClusterMap, request: &Request) -> Option<Request> {
        let Request::AppendInline(append) = request else {
            return None;
        };
        if !self.made.contains(&append.ino) {
            return None;
        }
        let inode = self.view(map).inode(append.ino).ok()?;
        Some(Request::WriteInline(op::WriteInline {
            ino: append.ino,
            offset: inode.size,
            data: append.data.clone(),
        }))
    }

    /// The directory that a name leads to, and its home, if that is another shard.
    pub(crate) fn removed_elsewhere(
        &self,
        map: &ClusterMap,
        rmdir: &op::Rmdir,
    ) -> Option<(ShardId, Ino)> {
        let entry = self.entry_of(map, rmdir.dir, &rmdir.name)?;
        let is_elsewhere = entry.kind == FileKind::Dir && entry.shard != self.shard;
        is_elsewhere.then_some((entry.shard, entry.ino))
    }

    /// Inodes and directories whose records are gone.
    fn forget_the_dead(&mut self, batch: &Batch) {
        for (key, _) in batch.iter().filter(|(_, value)| value.is_none()) {
            if key.first() == Some(&(Kind::Inode as u8))
                && let Some(ino) = keys::parse_ino(key)
            {
                self.made.remove(&ino);
                self.granted.remove(&ino);
            }
        }
    }
}

/// The inode that the request takes a name from, as far as the image knows, if it is no directory.
pub(crate) fn victims(image: &Image, map: &ClusterMap, request: &Request) -> Vec<Ino> {
    let taken = match request {
        Request::Unlink(unlink) => Some((unlink.dir, &unlink.name)),
        Request::Rename(rename) => Some((rename.new_dir, &rename.new_name)),
        _ => None,
    };
    let Some((dir, name)) = taken else {
        return Vec::new();
    };
    match image.entry_of(map, dir, name) {
        Some(entry) if entry.kind != FileKind::Dir => vec![entry.ino],
        _ => Vec::new(),
    }
}
