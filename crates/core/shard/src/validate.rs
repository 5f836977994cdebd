//! Looks at what another server sends before a shard gets it.
//!
//! A message that can be decoded may still speak of shards, servers and inodes that the file system does
//! not have. A shard writes messages into its log and looks up where to send what follows, so one such
//! number would stop the server, and again at every start when the log is replayed. Such a message is
//! dropped here instead, with a line in the server's log.
//!
//! Only the message and the cluster map are looked at. Whether a message fits the
//! operation it belongs to is `crate::validate_reply`'s to check, whether it fits the stored state the name
//! space's. A server that follows the protocol and lies is believed: servers trust one another.

use pandofs_api::{
    Adopt, CommitMessage, DirReply, DirSettings, FileBody, Horizon, InodeReply, Layout, MovedInode,
    NewDir, NewFile, NewNode, NewPart, PathName, PeerMessage, Refused, SplitChunk, SplitItem, Step,
    StepResult, SwappedEntry, step,
};
use pandofs_namespace::records::{Body, EntryRecord, InodeRecord, decode};
use pandofs_placement::{ClusterMap, DirMap, GrainState, PartitionIndex};
use pandofs_types::limits::{
    MAX_FILE_BYTES, MAX_GROUPS, MAX_INLINE_BYTES, MAX_MOVED_LOCKS, MAX_MOVED_OPENS,
    MAX_PARTICIPANTS, MAX_PARTITIONS, MAX_STRAGGLERS, MAX_SYMLINK_BYTES, MAX_XATTR_BYTES_PER_INODE,
    MAX_XATTR_NAME_BYTES, MAX_XATTR_VALUE_BYTES, MAX_XATTRS_PER_INODE, SPLIT_CHUNK_ENTRIES,
};
use pandofs_types::{Acl, Acls, Credentials, FileKind, Ino, ShardId, TxId};

/// Fault of a message, for the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Misfit(String);

type Checked = Result<(), Misfit>;

/// Checks a message between shards; one about data objects has nothing to check here.
///
/// # Errors
/// The first thing that is wrong.
pub fn validate(map: &ClusterMap, message: &PeerMessage) -> Checked {
    let validate = Validator { map };
    match message {
        PeerMessage::Commit {
            from,
            to,
            horizon,
            message,
            ..
        } => {
            validate.shards(&[*from, *to])?;
            stragglers(horizon)?;
            validate.commit(*from, *to, message)
        }
        PeerMessage::SplitChunk { from, to, chunk } => {
            validate.shards(&[*from, *to])?;
            same("the source of a chunk", chunk.split.source, *from)?;
            validate.chunk(chunk)
        }
        PeerMessage::SplitChunkDone {
            from, to, split, ..
        } => {
            validate.shards(&[*from, *to])?;
            same("the source of a split", split.source, *to)
        }
        PeerMessage::SplitAbandoned {
            from,
            to,
            split,
            dir,
        } => {
            validate.shards(&[*from, *to])?;
            same("the source of a split", split.source, *from)?;
            validate.ino(*dir)
        }
        PeerMessage::MapNotice {
            from,
            to,
            dir,
            map: of_dir,
        } => {
            validate.shards(&[*from, *to])?;
            same("the home of a map", of_dir.home(), *to)?;
            validate.dir_map(*dir, of_dir)
        }
        PeerMessage::MapNoticeDone {
            from,
            to,
            dir,
            map: of_dir,
        } => {
            validate.shards(&[*from, *to])?;
            same("the home of a map", of_dir.home(), *from)?;
            validate.dir_map(*dir, of_dir)
        }
        PeerMessage::Forwarded {
            from,
            to,
            inos,
            now_at,
        } => {
            validate.shards(&[*from, *to, *now_at])?;
            validate.inos(inos)
        }
        PeerMessage::ForgetForwarding { from, to, inos }
        | PeerMessage::ForgetForwardingDone { from, to, inos } => {
            validate.shards(&[*from, *to])?;
            validate.inos(inos)
        }
        PeerMessage::Data { .. }
        | PeerMessage::DataDone { .. }
        | PeerMessage::Load { .. }
        | PeerMessage::Trace { .. } => Ok(()),
        PeerMessage::SlotsAsk { from, to, dir } => {
            validate.shards(&[*from, *to])?;
            validate.ino(*dir)?;
            same("the home of a directory", dir.birth_shard(), *to)
        }
        PeerMessage::SlotsTold {
            from,
            to,
            dir,
            map: of_dir,
        } => {
            validate.shards(&[*from, *to])?;
            same("the home of a map", of_dir.home(), *from)?;
            validate.dir_map(*dir, of_dir)
        }
        PeerMessage::MergeAsk {
            from,
            to,
            dir,
            child,
        } => {
            validate.shards(&[*from, *to])?;
            validate.ino(*dir)?;
            partition(*child, MAX_PARTITIONS)
        }
        PeerMessage::MergeGo {
            from,
            to,
            dir,
            child,
            map: of_dir,
            ..
        } => {
            validate.shards(&[*from, *to])?;
            validate.dir_map(*dir, of_dir)?;
            partition(*child, of_dir.slots().len())
        }
    }
}

struct Validator<'a> {
    map: &'a ClusterMap,
}

impl Validator<'_> {
    fn shard(&self, shard: ShardId) -> Checked {
        ensure(self.map.has_shard(shard), || {
            format!("shard {shard} of {}", self.map.shard_count())
        })
    }

    fn shards(&self, shards: &[ShardId]) -> Checked {
        shards.iter().try_for_each(|&shard| self.shard(shard))
    }

    fn ino(&self, ino: Ino) -> Checked {
        self.shard(ino.birth_shard())?;
        ensure(ino.serial() > 0, || format!("inode {ino}"))
    }

    fn inos(&self, inos: &[Ino]) -> Checked {
        inos.iter().try_for_each(|&ino| self.ino(ino))
    }

    fn tx(&self, tx: TxId) -> Checked {
        self.shard(tx.coordinator)
    }

    fn dir_map(&self, dir: Ino, map: &DirMap) -> Checked {
        self.ino(dir)?;
        same("the home of a directory", map.home(), dir.birth_shard())?;
        self.shards(map.slots())
    }

    fn grain(&self, grain: &GrainState) -> Checked {
        self.shards(&[grain.dir_shard, grain.file_shard])
    }

    fn layout(&self, layout: &Layout) -> Checked {
        let servers = usize::from(layout.servers);
        ensure(
            layout.is_valid() && servers <= self.map.servers.len(),
            || format!("{layout:?} over {} servers", self.map.servers.len()),
        )
    }

    fn commit(&self, from: ShardId, to: ShardId, message: &CommitMessage) -> Checked {
        let (tx, number) = crate::coordinate::tx_of(message);
        let coordinator = if message.is_to_coordinator() {
            to
        } else {
            from
        };
        same("the coordinator", tx.coordinator, coordinator)?;
        ensure(usize::from(number.0) < MAX_PARTICIPANTS, || {
            format!("step {}", number.0)
        })?;
        match message {
            CommitMessage::Do { step, age, .. } => {
                self.tx(age.tx)?;
                if let Step::Adopt(adopt) = step {
                    same("the source of a split", adopt.split.source, from)?;
                }
                self.step(to, step)
            }
            CommitMessage::Prepared { result, follow, .. } => {
                self.result(result)?;
                ensure(follow.len() <= MAX_PARTICIPANTS, || {
                    format!("{} steps follow", follow.len())
                })?;
                for (shard, step) in follow {
                    self.shard(*shard)?;
                    self.step(*shard, step)?;
                }
                Ok(())
            }
            CommitMessage::Committed { result, .. } => self.result(result),
            CommitMessage::Refused { why, .. } => self.refused(why),
            CommitMessage::Ack { .. }
            | CommitMessage::Outcome { .. }
            | CommitMessage::Finished { .. }
            | CommitMessage::Vote { .. }
            | CommitMessage::PreCommit { .. }
            | CommitMessage::PreCommitted { .. }
            | CommitMessage::Inquire { .. }
            | CommitMessage::InquireOutcome { .. } => Ok(()),
        }
    }

    /// A step that `at` is to perform for another shard.
    fn step(&self, at: ShardId, step: &Step) -> Checked {
        match step {
            Step::Insert(step::Insert {
                dir,
                ino,
                shard,
                caller,
                ..
            }) => {
                self.ino(*dir)?;
                // A name for an inode that is yet to be made is its coordinator's own step.
                let ino = ino.ok_or_else(|| Misfit("a name that leads to nothing".to_owned()))?;
                self.ino(ino)?;
                self.shard(*shard)?;
                credentials(caller)
            }
            Step::Remove(step::Remove {
                dir, ino, caller, ..
            }) => {
                self.inos(&[*dir, *ino])?;
                credentials(caller)
            }
            Step::NewDir(new) => self.new_dir(new),
            Step::NewFile(new) => self.new_file(new),
            Step::Whiteout(_) => Err(Misfit("a white-out for another shard".to_owned())),
            Step::NewPart(part) => self.new_part(part),
            Step::Link(step::Link { ino, .. })
            | Step::Unlink(step::Unlink { ino, .. })
            | Step::Touch(step::Touch { ino, .. }) => self.ino(*ino),
            Step::DropDir(step::DropDir { dir, .. }) => {
                self.ino(*dir)?;
                same("the home of a directory", dir.birth_shard(), at)
            }
            Step::DropPart(step::DropPart { dir }) => self.ino(*dir),
            Step::SetParent(step::SetParent {
                dir,
                parent,
                caller,
                ..
            }) => {
                self.inos(&[*dir, *parent])?;
                same("the home of a directory", dir.birth_shard(), at)?;
                credentials(caller)
            }
            Step::HoldAncestors(step::HoldAncestors { from, moving, .. }) => {
                self.inos(&[*from, *moving])?;
                same("the home of a directory", from.birth_shard(), at)
            }
            Step::SetDir(step::SetDir {
                dir,
                set,
                settings,
                caller,
                ..
            }) => {
                self.ino(*dir)?;
                mode(set.mode.unwrap_or(0))?;
                settings_fit(settings)?;
                credentials(caller)
            }
            Step::PathLine(line) => self.ino(line.dir),
            Step::Adopt(adopt) => self.adopt(adopt),
            Step::GiveUp(_) => Err(Misfit(
                "the source of a split gives up its half by itself".to_owned(),
            )),
            Step::Swap(swap) => {
                // Taking what the other name leads to is its coordinator's own step.
                ensure(!swap.own, || "a name in exchange for nothing".to_owned())?;
                self.inos(&[swap.dir, swap.other])?;
                self.swapped(&swap.comes)?;
                credentials(&swap.caller)
            }
            Step::SetAcl(set) => {
                self.ino(set.dir)?;
                ensure(set.acl.as_ref().is_none_or(Acl::is_valid), || {
                    "an access control list".to_owned()
                })?;
                credentials(&set.caller)
            }
        }
    }

    fn new_dir(&self, new: &NewDir) -> Checked {
        self.ino(new.parent)?;
        mode(new.mode)?;
        acls_fit(&new.acls, FileKind::Dir, new.mode)?;
        self.grain(&new.grain)?;
        if let Some((_, ino)) = new.chosen {
            self.ino(ino)?;
        }
        path_fits(new.path.as_ref())?;
        if let Some(seen) = &new.above {
            self.inos(&seen.above.ancestors)?;
            let fits = new.path.as_ref().is_some_and(|path| seen.above.fits(path))
                && seen.lines.len() == seen.above.ancestors.len();
            ensure(fits, || "what is above a path".to_owned())?;
        }
        settings_fit(&new.settings)
    }

    fn new_file(&self, new: &NewFile) -> Checked {
        mode(new.mode)?;
        acls_fit(&new.acls, FileKind::File, new.mode)?;
        if let NewNode::Symlink { target } = &new.node {
            ensure((1..=MAX_SYMLINK_BYTES).contains(&target.len()), || {
                format!("a link of {} bytes", target.len())
            })?;
        }
        let servers = u16::try_from(self.map.servers.len()).expect("MAX_SERVERS fits 16 bits");
        ensure(new.layout.fits(servers), || {
            format!("{:?} over {servers} servers", new.layout)
        })
    }

    fn new_part(&self, part: &NewPart) -> Checked {
        self.dir_map(part.dir, &part.map)?;
        mode(part.mode)?;
        acls_fit(&part.acls, FileKind::Dir, part.mode)?;
        self.grain(&part.grain)?;
        path_fits(part.path.as_ref())?;
        settings_fit(&part.settings)
    }

    fn adopt(&self, adopt: &Adopt) -> Checked {
        self.shard(adopt.split.source)?;
        self.new_part(&adopt.part)?;
        partition(adopt.child, adopt.part.map.slots().len())?;
        ensure(adopt.opens.len() <= MAX_MOVED_OPENS, || {
            format!("{} opens with a split", adopt.opens.len())
        })?;
        for (ino, _, count) in &adopt.opens {
            self.ino(*ino)?;
            ensure(*count > 0, || format!("inode {ino} is open 0 times"))?;
        }
        ensure(adopt.locks.len() <= MAX_MOVED_LOCKS, || {
            format!("{} locks with a split", adopt.locks.len())
        })?;
        for (ino, _, lock) in &adopt.locks {
            self.ino(*ino)?;
            ensure(lock.is_valid(), || format!("{lock:?} of inode {ino}"))?;
        }
        self.items(&adopt.changed)
    }

    fn chunk(&self, chunk: &SplitChunk) -> Checked {
        self.ino(chunk.dir)?;
        self.items(&chunk.items)
    }

    fn items(&self, items: &[SplitItem]) -> Checked {
        ensure(items.len() <= SPLIT_CHUNK_ENTRIES, || {
            format!("{} entries at once", items.len())
        })?;
        items.iter().try_for_each(|item| self.item(item))
    }

    fn item(&self, item: &SplitItem) -> Checked {
        let entry: EntryRecord = stored("entry", &item.entry)?;
        self.ino(entry.ino)?;
        self.shard(entry.shard)?;
        match &item.inode {
            None => Ok(()),
            Some(moved) => {
                ensure(
                    moved.ino == entry.ino && entry.kind != FileKind::Dir,
                    || format!("inode {} with the entry of {}", moved.ino, entry.ino),
                )?;
                let inode = self.moved(moved)?;
                ensure(inode.kind == entry.kind, || {
                    format!("inode {} is no {:?}", moved.ino, entry.kind)
                })
            }
        }
    }

    fn moved(&self, moved: &MovedInode) -> Result<InodeRecord, Misfit> {
        let inode: InodeRecord = stored("inode", &moved.record)?;
        mode(inode.mode)?;
        acls_fit(&inode.acls, inode.kind, inode.mode)?;
        ensure(inode.nlink == 1, || {
            format!("an inode of {} names that moves with one", inode.nlink)
        })?;
        ensure(inode.size <= MAX_FILE_BYTES, || {
            format!("a file of {} bytes", inode.size)
        })?;
        let fits = match (&inode.body, inode.kind) {
            (Body::Inline { held, layout }, FileKind::File) => {
                self.layout(layout)?;
                *held as usize <= MAX_INLINE_BYTES
            }
            (Body::Striped(layout) | Body::Sparse(layout), FileKind::File) => {
                self.layout(layout)?;
                true
            }
            (Body::Symlink(target), FileKind::Symlink) => target.len() <= MAX_SYMLINK_BYTES,
            (
                Body::Nothing,
                FileKind::Fifo | FileKind::Socket | FileKind::Char | FileKind::Block,
            ) => true,
            _ => false,
        };
        ensure(fits && moved.data.len() == inode.held() as usize, || {
            format!("the body of inode {}", moved.ino)
        })?;
        self.shards(&inode.trail)?;
        ensure(
            inode.trail.len() <= usize::from(self.map.shard_count()),
            || format!("an inode that was on {} shards", inode.trail.len()),
        )?;
        let mut bytes = 0;
        for (name, value) in &moved.xattrs {
            ensure(
                (1..=MAX_XATTR_NAME_BYTES).contains(&name.len())
                    && value.len() <= MAX_XATTR_VALUE_BYTES,
                || format!("an attribute of {} bytes", value.len()),
            )?;
            bytes += name.len() + value.len();
        }
        let count = moved.xattrs.len();
        ensure(
            count <= MAX_XATTRS_PER_INODE
                && count == usize::from(inode.xattrs)
                && bytes == inode.xattr_bytes as usize
                && bytes <= MAX_XATTR_BYTES_PER_INODE as usize,
            || format!("{count} attributes of {bytes} bytes"),
        )?;
        Ok(inode)
    }

    fn result(&self, result: &StepResult) -> Checked {
        if let Some(entry) = &result.entry {
            self.swapped(entry)?;
        }
        result
            .inode
            .as_deref()
            .map_or(Ok(()), |inode| self.inode_reply(inode))
    }

    fn swapped(&self, entry: &SwappedEntry) -> Checked {
        self.ino(entry.ino)?;
        self.shard(entry.shard)?;
        if entry.kind == FileKind::Dir {
            same(
                "the home of a directory",
                entry.shard,
                entry.ino.birth_shard(),
            )?;
        }
        Ok(())
    }

    fn inode_reply(&self, inode: &InodeReply) -> Checked {
        self.ino(inode.attr.ino)?;
        mode(inode.attr.mode)?;
        match &inode.body {
            FileBody::None => {}
            FileBody::Inline { data, layout } => {
                self.layout(layout)?;
                ensure(data.len() <= MAX_INLINE_BYTES, || {
                    format!("{} bytes beside an inode", data.len())
                })?;
            }
            FileBody::Striped(layout) | FileBody::Sparse(layout) => self.layout(layout)?,
        }
        match inode.dir.as_deref() {
            None => Ok(()),
            Some(DirReply {
                map,
                parent,
                settings,
            }) => {
                self.dir_map(inode.attr.ino, map)?;
                self.ino(*parent)?;
                settings_fit(settings)
            }
        }
    }

    fn refused(&self, why: &Refused) -> Checked {
        match why {
            Refused::Misdirected(Some(map)) => self.shards(map.slots()),
            Refused::Moved { ino, shard } => {
                self.ino(*ino)?;
                self.shard(*shard)
            }
            Refused::Misdirected(None)
            | Refused::Fs(_)
            | Refused::Busy
            | Refused::SameFile
            | Refused::Unknown => Ok(()),
        }
    }
}

fn ensure(fits: bool, otherwise: impl FnOnce() -> String) -> Checked {
    if fits {
        Ok(())
    } else {
        Err(Misfit(otherwise()))
    }
}

fn same(what: &str, found: ShardId, wanted: ShardId) -> Checked {
    ensure(found == wanted, || {
        format!("{what} is shard {found} and not {wanted}")
    })
}

fn stragglers(horizon: &Horizon) -> Checked {
    let Horizon { passed, open } = horizon;
    let are_in_order = open.is_sorted_by(|one, next| one < next);
    let are_below = open.last().is_none_or(|last| last < passed);
    ensure(
        open.len() <= MAX_STRAGGLERS && are_in_order && are_below,
        || format!("stragglers {open:?} below {passed}"),
    )
}

fn mode(mode: u16) -> Checked {
    ensure(mode <= 0o7777, || format!("mode {mode:#o}"))
}

fn path_fits(path: Option<&PathName>) -> Checked {
    ensure(path.is_none_or(PathName::is_valid), || "a path".to_owned())
}

fn acls_fit(acls: &Acls, kind: FileKind, mode: u16) -> Checked {
    ensure(acls.are_valid(kind, mode), || {
        format!("access control lists of a {kind:?} of mode {mode:#o}")
    })
}

fn settings_fit(settings: &DirSettings) -> Checked {
    ensure(settings.is_valid(), || format!("{settings:?}"))
}

/// One that was split off: of as many slots as there are, and not the first.
fn partition(child: PartitionIndex, slots: usize) -> Checked {
    ensure((1..slots).contains(&(child.0 as usize)), || {
        format!("partition {child} of {slots} slots")
    })
}

fn credentials(caller: &Credentials) -> Checked {
    ensure(caller.groups.len() <= MAX_GROUPS, || {
        format!("a caller in {} groups", caller.groups.len())
    })
}

fn stored<T: serde::de::DeserializeOwned>(what: &'static str, bytes: &[u8]) -> Result<T, Misfit> {
    decode(what, bytes).map_err(|stop| Misfit(format!("an entry that moves: {stop}")))
}
