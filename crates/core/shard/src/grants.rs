//! Grants within the shard: what is granted, to whom, and requests that wait until a grant has ended.

use crate::leases::Cleared;
use crate::port::{Environment, Input, Ticket};
use crate::shard::{Shard, view_of};
use crate::waiting::Until;
use pandofs_api::{
    EntryReply, GrantTerms, Granted, Refusal, Reply, Request, RequestKey, ShardRequest, op,
};
use pandofs_namespace::locks::Lock;
use pandofs_namespace::records::{EntryRecord, InodeRecord, PartsRecord, decode, encode};
use pandofs_namespace::{Stop, View, keys, split};
use pandofs_storage::store::Overlay;
use pandofs_types::limits::{MAX_GRANTED_BYTES, MAX_GRANTED_ENTRIES};
use pandofs_types::{FileKind, FsError, Ino, LeaseKey, SessionId};
use std::ops::ControlFlow;

/// Answer to who asks for a grant.
enum Offer {
    Nothing,
    /// It is looked at again when it is on disk that the session may have grants.
    WhenKept,
    /// It is looked at again when all that is proposed is applied.
    Later,
    Directory {
        image: Image,
        parts: Box<PartsRecord>,
        /// Of the grants that the session has or may have.
        incarnation: u64,
    },
}

/// A directory as the store has it.
#[derive(Default)]
struct Image {
    pairs: Vec<(Vec<u8>, Vec<u8>)>,
    bytes: usize,
    /// Inodes of this shard that its entries lead to.
    inodes: Vec<Ino>,
}

impl Image {
    fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.bytes += key.len() + value.len();
        self.pairs.push((key, value));
    }

    fn is_too_large(&self) -> bool {
        self.bytes > MAX_GRANTED_BYTES
    }

    /// Adds an inode with its extended attributes.
    fn put_inode(&mut self, view: &View<'_>, ino: Ino, inode: &InodeRecord) -> Result<(), Stop> {
        self.put(keys::inode(view.shard, ino), encode(inode));
        if inode.xattrs > 0 {
            let prefix = keys::xattrs(view.shard, ino);
            view.scan_prefix(&prefix, &mut |key, value| {
                self.put(key.to_vec(), value.to_vec());
                Ok(flow(self.is_too_large()))
            })?;
        }
        Ok(())
    }
}

fn flow(ends: bool) -> ControlFlow<()> {
    match ends {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    }
}

/// The directory with all that is in it and here; `None` if it is too large, or an operation under way has changed a part
/// of it only.
fn image_of(
    view: &View<'_>,
    dir: Ino,
    inode: &InodeRecord,
    parts: &PartsRecord,
) -> Result<Option<Image>, Stop> {
    let mut image = Image::default();
    image.put_inode(view, dir, inode)?;
    image.put(keys::parts(view.shard, dir), encode(parts));
    let mut entries = Vec::new();
    let start = keys::entry_from(view.shard, dir, pandofs_types::Position::FIRST);
    let end = keys::entry_from(view.shard, dir, pandofs_types::Position::END);
    view.scan(&start, &end, &mut |key, value| {
        image.put(key.to_vec(), value.to_vec());
        entries.push(decode::<EntryRecord>("entry", value)?);
        Ok(flow(image.is_too_large()))
    })?;
    for entry in entries {
        if image.is_too_large() {
            return Ok(None);
        }
        if entry.shard != view.shard {
            continue;
        }
        let Some(inode) = view.stored_inode(entry.ino)? else {
            return Ok(None);
        };
        image.inodes.push(entry.ino);
        image.put_inode(view, entry.ino, &inode)?;
        if entry.kind == FileKind::Dir {
            let Some(parts) = view.parts(entry.ino)? else {
                return Ok(None);
            };
            image.put(keys::parts(view.shard, entry.ino), encode(&parts));
        }
    }
    Ok((!image.is_too_large()).then_some(image))
}

/// Whether all of the directory is in one partition, which is at its home, here.
pub(crate) fn is_whole(view: &View<'_>, dir: Ino, parts: &PartsRecord) -> bool {
    dir.birth_shard() == view.shard && parts.parts.len() == 1 && parts.map.active().count() == 1
}

/// Directories that a request names, by which their grants are told. (Files have none.)
fn named(request: &Request) -> impl Iterator<Item = Ino> {
    let dirs = match request {
        // Requests under grants have those of others end by the keys that they change.
        Request::Grant(_)
        | Request::Renew(_)
        | Request::Batch(_)
        | Request::MkdirAway(_)
        | Request::RmdirAway(_) => [None, None],
        Request::Followed(op::Followed { ino }) => [Some(*ino), None],
        other => other.operation().dirs(),
    };
    dirs.into_iter().flatten()
}

impl Shard {
    /// Whether there is no room for what needs space: on this server's disk, or on one that has just refused data of a file
    /// from here.
    pub(crate) fn is_low(&self) -> bool {
        self.loads.disk_low || self.reclaims.is_any_full(self.commands.now)
    }

    /// Has grants that others have of what the request names end; whether it can go on. If not it is put aside.
    pub(crate) fn end_grants(&mut self, ticket: Ticket, request: &ShardRequest) -> bool {
        let dirs = named(&request.request);
        self.end_grants_of(dirs, ticket, request)
    }

    pub(crate) fn end_grants_of(
        &mut self,
        dirs: impl Iterator<Item = Ino>,
        ticket: Ticket,
        request: &ShardRequest,
    ) -> bool {
        let cleared = self.leases.end_grants(dirs, request.key.session);
        let is_clear = cleared == Cleared::Yes;
        if !is_clear {
            let request = request.clone();
            self.put_aside(&cleared, Input::Request { ticket, request });
        }
        is_clear
    }

    /// Sees to it that an answer says nothing of directories that others have: whether it can be given. If not the request
    /// is put aside. In a listing their attributes are left for the client to ask for.
    pub(crate) fn end_grants_in(
        &mut self,
        ticket: Ticket,
        request: &ShardRequest,
        reply: &mut Reply,
    ) -> bool {
        let session = request.key.session;
        match reply {
            Reply::Entry(EntryReply {
                ino,
                kind: FileKind::Dir,
                inode: Some(_),
                ..
            }) => self.end_grants_of([*ino].into_iter(), ticket, request),
            Reply::Entries(listed) => {
                for entry in &mut listed.entries {
                    if entry.kind == FileKind::Dir
                        && self.leases.is_granted_to_others(entry.ino, session)
                    {
                        entry.inode = None;
                    }
                }
                true
            }
            _ => true,
        }
    }

    /// A request for a grant.
    pub(crate) fn grant(
        &mut self,
        overlay: &Overlay<'_>,
        env: &mut Environment<'_>,
        ticket: Ticket,
        request: ShardRequest,
        dir: Ino,
    ) -> Result<(), Stop> {
        let config = self.config.clone();
        let view = view_of(&config, overlay, self.goes_by_memory());
        let session = request.key.session;
        let fresh = (env.random)();
        let granted = match self.offer(&view, session, dir, fresh) {
            Ok(Offer::Nothing) => None,
            Ok(Offer::WhenKept) => {
                self.wait_until_kept(ticket, request);
                return Ok(());
            }
            Ok(Offer::Later) => {
                self.wait(Until::Applied, Input::Request { ticket, request });
                return Ok(());
            }
            Ok(Offer::Directory {
                image,
                parts,
                incarnation,
            }) => {
                let random = (env.random)();
                let terms = GrantTerms {
                    time: env.now,
                    placing: self.placing_in(&parts, random),
                    is_low: self.is_low(),
                };
                let pairs = image.pairs.into_iter();
                let pairs = pairs.map(|(key, value)| (key.into(), value.into()));
                let incarnation = self.leases.grant_dir(session, dir, incarnation);
                incarnation.map(|incarnation| Granted {
                    incarnation,
                    terms,
                    pairs: pairs.collect(),
                })
            }
            Err(Stop::Refuse(refusal)) => {
                self.answer(ticket, Err(refusal), false);
                return Ok(());
            }
            Err(stop) => return self.put_off(ticket, request, stop),
        };
        let answer = Ok(Reply::Granted(granted.map(Box::new)));
        let durable = self.stripings.are_told(&request.request, &answer);
        self.answer(ticket, answer, durable);
        Ok(())
    }

    fn offer(
        &mut self,
        view: &View<'_>,
        session: SessionId,
        dir: Ino,
        fresh: u64,
    ) -> Result<Offer, Stop> {
        self.operations.locks.check(&Lock::Made(dir), None)?;
        let inode = view.inode(dir)?;
        if inode.kind != FileKind::Dir {
            return Err(FsError::NotDir.into());
        }
        let applied = self.meta.applied;
        let Some(incarnation) =
            self.leases
                .takes_grants(&mut self.commands, applied, session, fresh)
        else {
            return Ok(match self.leases.is_being_kept(session) {
                true => Offer::WhenKept,
                false => Offer::Nothing,
            });
        };
        let parts = view
            .parts(dir)?
            .ok_or_else(|| Stop::Broken(format!("directory {dir} has no partition at home")))?;
        let locks = &self.operations.locks;
        if !is_whole(view, dir, &parts)
            || parts.entries() > MAX_GRANTED_ENTRIES
            || self.splits.concern(dir)
            || view.split(dir)?.is_some()
            || split::child_wanted(view.map, &parts, parts.parts[0].index).is_some()
            || locks.covers(LeaseKey::Grant(dir))
            || self.leases.is_of_others(dir, session)
        {
            return Ok(Offer::Nothing);
        }
        let own = [LeaseKey::Inode(dir), LeaseKey::Parts(dir)];
        if self.leases.are_changing(own.into_iter()) {
            return Ok(Offer::Later);
        }
        let Some(image) = image_of(view, dir, &inode, &parts)? else {
            return Ok(Offer::Nothing);
        };
        let keys = image.inodes.iter().map(|&ino| LeaseKey::Inode(ino));
        if self.leases.are_changing(keys) {
            return Ok(Offer::Later);
        }
        let is_in_use = |&ino: &Ino| {
            locks.covers(LeaseKey::Inode(ino))
                || self.reclaims.is_truncating(ino)
                || self.leases.is_leased_to_others(ino, session)
        };
        if image.inodes.iter().any(is_in_use) {
            return Ok(Offer::Nothing);
        }
        Ok(Offer::Directory {
            image,
            parts: Box::new(parts),
            incarnation,
        })
    }

    /// A request to begin grants without a directory.
    pub(crate) fn begin_grants(
        &mut self,
        env: &mut Environment<'_>,
        ticket: Ticket,
        request: ShardRequest,
    ) {
        let applied = self.meta.applied;
        let session = request.key.session;
        let (random, fresh) = ((env.random)(), (env.random)());
        let takes = self
            .leases
            .takes_grants(&mut self.commands, applied, session, fresh);
        if takes.is_none() && self.leases.is_being_kept(session) {
            self.wait_until_kept(ticket, request);
            return;
        }
        let incarnation =
            takes.and_then(|incarnation| self.leases.begin_grants(session, incarnation));
        let granted = incarnation.map(|incarnation| {
            let terms = GrantTerms {
                time: env.now,
                placing: self.placing_anywhere(random),
                is_low: self.is_low(),
            };
            let pairs = Vec::new();
            Box::new(Granted {
                incarnation,
                terms,
                pairs,
            })
        });
        self.answer(ticket, Ok(Reply::Granted(granted)), false);
    }

    /// Puts the first request for grants of a session aside: refused, it would come again after a pause only, and until then
    /// each change of the session would be one of the server.
    fn wait_until_kept(&mut self, ticket: Ticket, request: ShardRequest) {
        let session = request.key.session;
        let input = Input::Request { ticket, request };
        self.wait(Until::Grantholder(session), input);
    }

    /// A request to renew grants.
    pub(crate) fn renew(&mut self, ticket: Ticket, key: RequestKey, incarnation: u64) {
        let result = match self.leases.renew_if(key.session, incarnation) {
            true => Ok(Reply::Done),
            false => Err(Refusal::Fs(FsError::Stale)),
        };
        self.answer(ticket, result, false);
    }
}
