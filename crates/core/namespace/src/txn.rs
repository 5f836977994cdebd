//! Typed writes of a shard's state.

use crate::records::{
    EntryRecord, InodeRecord, NumbersRecord, PartsRecord, PathLineRecord, PathRecord,
    ReclaimRecord, SlotRecord, SplitRecord, StagingRecord, encode,
};
use crate::{View, keys};
use pandofs_api::SplitId;
use pandofs_placement::{ClusterMap, PartitionIndex};
use pandofs_storage::store::Overlay;
use pandofs_types::{Ino, Name, Position, SessionId, ShardId, SlotId};
use serde::{Deserialize, Serialize};

/// A shard's own figures. They reach the store together with what the records changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// Version of the stored formats.
    pub format: u16,
    /// The store belongs to it.
    pub fs: pandofs_types::FsId,
    /// Index of the last record that the stored state includes.
    pub applied: u64,
    /// The next inode born here.
    pub next_serial: u64,
    /// The next distributed operation or split coordinated here.
    pub next_sequence: u64,
    /// Names on this shard.
    pub entries: u64,
    /// Inodes on this shard.
    pub inodes: u64,
    /// Active partitions on this shard.
    pub partitions: u64,
    /// Partitions split off here since the shard was made.
    pub splits: u64,
}

/// Event for the shard's driver; lost in a crash, found again by scanning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A name was added: the partition may be over its threshold.
    Grew {
        /// The directory.
        dir: Ino,
        /// The partition on this shard.
        index: PartitionIndex,
    },
    /// Settings changed: any partition here may have to split or to be merged.
    Settings {
        /// The directory.
        dir: Ino,
    },
    /// There is something to reclaim.
    Reclaim {
        /// The inode or what is left of it.
        ino: Ino,
    },
    /// This file was opened as it was made.
    Opened {
        /// The file, which the session of the record has open.
        ino: Ino,
    },
    /// A directory was made whose session has executed this, and more in it, before.
    MadeAway {
        /// Its home is here.
        dir: Ino,
        /// To be granted it.
        session: SessionId,
    },
    /// Names went: the partition may be nearly empty.
    Shrank {
        /// The directory.
        dir: Ino,
        /// The partition on this shard.
        index: PartitionIndex,
    },
    /// The home is to learn this directory's map.
    MapChanged {
        /// The directory.
        dir: Ino,
    },
    /// Inodes came from another shard, with who has them open.
    MovedHere {
        /// Their numbers.
        inos: Vec<Ino>,
    },
    /// Inodes moved to another shard.
    MovedAway {
        /// Their numbers.
        inos: Vec<Ino>,
        /// Shards that forward to this one, each with an inode: they are told.
        trails: Vec<(ShardId, Ino)>,
        /// The shard that has them now.
        to: ShardId,
    },
}

/// Changes to a shard's state while a record is applied.
pub struct Txn<'t, 's> {
    /// Takes the writes; reads see them at once.
    pub overlay: &'t mut Overlay<'s>,
    /// The one whose records are applied.
    pub shard: ShardId,
    /// The map by which places are found; applying does not depend on its epoch.
    pub map: &'t ClusterMap,
    /// Written by [`Txn::put_meta`].
    pub meta: &'t mut Meta,
    /// For the driver, in the order in which they came about.
    pub effects: &'t mut Vec<Effect>,
}

impl Txn<'_, '_> {
    /// The state including what this transaction wrote so far.
    pub fn view(&self) -> View<'_> {
        View {
            kv: &*self.overlay,
            shard: self.shard,
            map: self.map,
            cached_only: false,
        }
    }

    /// A number for a new inode: the one that was chosen, which nothing has yet, or the next.
    pub fn new_ino(&mut self, chosen: Option<Ino>) -> Ino {
        if let Some(ino) = chosen {
            return ino;
        }
        let ino = Ino::new(self.shard, self.meta.next_serial);
        self.meta.next_serial += 1;
        ino
    }

    /// A number for a new distributed operation or split.
    pub fn new_sequence(&mut self) -> u64 {
        let sequence = self.meta.next_sequence;
        self.meta.next_sequence += 1;
        sequence
    }

    /// Stores an inode that was not there.
    pub fn add_inode(&mut self, ino: Ino, inode: &InodeRecord) {
        self.meta.inodes += 1;
        self.put_inode(ino, inode);
    }

    /// Stores an inode that was there.
    pub fn put_inode(&mut self, ino: Ino, inode: &InodeRecord) {
        self.overlay
            .put(keys::inode(self.shard, ino), encode(inode));
    }

    /// Counts one inode less. Panics if none is counted.
    pub fn delete_inode(&mut self, ino: Ino) {
        assert!(self.meta.inodes > 0, "more inodes deleted than made");
        self.meta.inodes -= 1;
        self.overlay.delete(keys::inode(self.shard, ino));
    }

    /// Keeps these bytes of a file beside its inode in place of `held` others. Returns how many they are, which the inode
    /// is to say.
    pub fn keep_inline(&mut self, ino: Ino, held: u32, data: Vec<u8>) -> u32 {
        if data.is_empty() {
            self.forget_inline(ino, held);
            return 0;
        }
        let holds = u32::try_from(data.len()).expect("what is kept inline is short");
        self.overlay.put(keys::data(self.shard, ino), data);
        holds
    }

    /// The inode goes, or holds nothing of its file any more.
    pub fn forget_inline(&mut self, ino: Ino, held: u32) {
        if held > 0 {
            self.overlay.delete(keys::data(self.shard, ino));
        }
    }

    /// Writes the entry and counts one more.
    pub fn add_entry(&mut self, dir: Ino, position: Position, name: &Name, entry: &EntryRecord) {
        self.meta.entries += 1;
        self.put_entry(dir, position, name, entry);
    }

    /// Writes the entry without counting it: one that was there has changed.
    pub fn put_entry(&mut self, dir: Ino, position: Position, name: &Name, entry: &EntryRecord) {
        self.overlay
            .put(keys::entry(self.shard, dir, position, name), encode(entry));
    }

    /// Counts one entry less. Panics if none is counted.
    pub fn delete_entry(&mut self, dir: Ino, position: Position, name: &Name) {
        assert!(self.meta.entries > 0, "more entries deleted than made");
        self.meta.entries -= 1;
        self.overlay
            .delete(keys::entry(self.shard, dir, position, name));
    }

    /// Writes what this shard has of the directory.
    pub fn put_parts(&mut self, dir: Ino, parts: &PartsRecord) {
        self.overlay
            .put(keys::parts(self.shard, dir), encode(parts));
    }

    /// Drops the partitions that this shard had of the directory.
    pub fn delete_parts(&mut self, dir: Ino) {
        self.overlay.delete(keys::parts(self.shard, dir));
    }

    /// Notes where the inode has gone. Panics if that is this shard.
    pub fn put_forwarding(&mut self, ino: Ino, shard: ShardId) {
        assert!(
            shard != self.shard,
            "inode {ino} forwarded to where it comes from"
        );
        self.overlay
            .put(keys::forwarding(self.shard, ino), encode(&shard));
    }

    /// The inode is here again, or nowhere.
    pub fn delete_forwarding(&mut self, ino: Ino) {
        self.overlay.delete(keys::forwarding(self.shard, ino));
    }

    /// Writes the value; the inode's counts of attributes are the caller's to change.
    pub fn put_xattr(&mut self, ino: Ino, name: &[u8], value: Vec<u8>) {
        self.overlay.put(keys::xattr(self.shard, ino, name), value);
    }

    /// Removes the value; the inode's counts of attributes are the caller's to change.
    pub fn delete_xattr(&mut self, ino: Ino, name: &[u8]) {
        self.overlay.delete(keys::xattr(self.shard, ino, name));
    }

    /// Writes the record and has the driver look at it.
    pub fn put_reclaim(&mut self, ino: Ino, reclaim: &ReclaimRecord) {
        self.overlay
            .put(keys::reclaim(self.shard, ino), encode(reclaim));
        self.effects.push(Effect::Reclaim { ino });
    }

    /// There is nothing left to be done for the inode.
    pub fn delete_reclaim(&mut self, ino: Ino) {
        self.overlay.delete(keys::reclaim(self.shard, ino));
    }

    /// One directory has one split or merge at a time that gives away here.
    pub fn put_split(&mut self, dir: Ino, split: &SplitRecord) {
        self.overlay
            .put(keys::split(self.shard, dir), encode(split));
    }

    /// The split or merge was decided or given up.
    pub fn delete_split(&mut self, dir: Ino) {
        self.overlay.delete(keys::split(self.shard, dir));
    }

    /// Written with each chunk that arrives.
    pub fn put_staging(&mut self, split: SplitId, staging: &StagingRecord) {
        self.overlay
            .put(keys::staging(self.shard, split), encode(staging));
    }

    /// Takes the place of the slot's last answer.
    pub fn put_slot(&mut self, session: SessionId, slot: SlotId, record: &SlotRecord) {
        self.overlay
            .put(keys::slot(self.shard, session, slot), encode(record));
    }

    /// Stores the inode numbers that the session has taken and not used.
    pub fn put_numbers(&mut self, session: SessionId, numbers: &NumbersRecord) {
        self.overlay
            .put(keys::numbers(self.shard, session), encode(numbers));
    }

    /// Stores a path that leads to a directory, whose hash this is.
    pub fn put_path(&mut self, hash: u64, pointer: bool, record: &PathRecord) {
        let key = match pointer {
            true => keys::path_pointer(self.shard, hash),
            false => keys::path(self.shard, hash),
        };
        self.overlay.put(key, encode(record));
    }

    /// The directory that was placed by a path with this hash is gone.
    pub fn delete_path(&mut self, hash: u64) {
        self.overlay.delete(keys::path(self.shard, hash));
    }

    /// Writes a line of the path log.
    pub fn put_path_line(&mut self, number: u16, line: &PathLineRecord) {
        let key = keys::path_line(self.shard, number);
        self.overlay.put(key, encode(line));
    }

    /// Writes how many changes the path log has seen.
    pub fn put_path_log(&mut self, seen: u64) {
        let key = keys::path_log(self.shard);
        self.overlay.put(key, encode(&seen));
    }

    /// Writes the shard's figures as they are now.
    pub fn put_meta(&mut self) {
        self.overlay.put(keys::meta(self.shard), encode(self.meta));
    }
}
