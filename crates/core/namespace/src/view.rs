//! Typed reads of a shard's state.

use crate::records::{
    EntryRecord, InodeRecord, NumbersRecord, PartsRecord, PathLineRecord, PathRecord,
    ReclaimRecord, SlotRecord, SplitRecord, StagingRecord, decode,
};
use crate::{Stop, keys};
use pandofs_api::{Horizon, Refusal, SplitId};
use pandofs_placement::{ClusterMap, PartitionIndex};
use pandofs_storage::store::{Cached, KvRead};
use pandofs_types::{FsError, Ino, Name, Position, SessionId, ShardId, SlotId};
use serde::de::DeserializeOwned;
use std::ops::ControlFlow;

/// A shard's state as it is now.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The store to read from; for a transaction its overlay.
    pub kv: &'a dyn KvRead,
    /// The one whose keys are read.
    pub shard: ShardId,
    /// The map by which places are found.
    pub map: &'a ClusterMap,
    /// Stop with [`Stop::Cold`] rather than wait for the disk.
    pub cached_only: bool,
}

/// Visitor of a scan's pairs.
pub(crate) type VisitPairs<'v> = dyn FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>, Stop> + 'v;

/// The partition of a directory that a name belongs to, and is here.
#[derive(Clone, Debug)]
pub struct Owned {
    /// All that this shard has of the directory.
    pub parts: PartsRecord,
    /// The partition's number.
    pub index: PartitionIndex,
    /// Of the name's hash.
    pub position: Position,
}

impl<'a> View<'a> {
    /// The stored value of any key. Stops with [`Stop::Cold`] if it may not wait and the value is
    /// not in memory.
    pub fn raw(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Stop> {
        if !self.cached_only {
            return Ok(self.kv.get(key)?);
        }
        match self.kv.get_cached(key)? {
            Cached::Known(value) => Ok(value),
            Cached::Cold => Err(Stop::Cold(key.to_vec())),
        }
    }

    fn typed<T: DeserializeOwned>(
        &self,
        what: &'static str,
        key: &[u8],
    ) -> Result<Option<T>, Stop> {
        self.raw(key)?.map(|bytes| decode(what, &bytes)).transpose()
    }

    /// The inode, if it is here.
    pub fn stored_inode(&self, ino: Ino) -> Result<Option<InodeRecord>, Stop> {
        self.typed("inode", &keys::inode(self.shard, ino))
    }

    /// The inode; refuses with `Moved` or `Stale` if it is not here.
    pub fn inode(&self, ino: Ino) -> Result<InodeRecord, Stop> {
        match self.stored_inode(ino)? {
            Some(inode) => Ok(inode),
            None => Err(self.where_is(ino)?),
        }
    }

    /// The bytes of a file that are kept beside its inode, which says that it has `held`.
    pub fn inline_data(&self, ino: Ino, held: u32) -> Result<Vec<u8>, Stop> {
        if held == 0 {
            return Ok(Vec::new());
        }
        let data = self.raw(&keys::data(self.shard, ino))?.unwrap_or_default();
        if data.len() != held as usize {
            let has = data.len();
            return Err(Stop::Broken(format!(
                "inode {ino} counts {held} bytes beside it and has {has}"
            )));
        }
        Ok(data)
    }

    fn where_is(&self, ino: Ino) -> Result<Stop, Stop> {
        Ok(match self.forwarding(ino)? {
            Some(shard) => Stop::Refuse(Refusal::Moved { ino, shard }),
            None if ino.birth_shard() != self.shard => Stop::Refuse(Refusal::Moved {
                ino,
                shard: ino.birth_shard(),
            }),
            None => Stop::Refuse(Refusal::Fs(FsError::Stale)),
        })
    }

    /// Where the inode has gone, if it was here.
    pub fn forwarding(&self, ino: Ino) -> Result<Option<ShardId>, Stop> {
        self.typed("forwarding record", &keys::forwarding(self.shard, ino))
    }

    /// The partitions that this shard has of the directory; `None` if none.
    pub fn parts(&self, dir: Ino) -> Result<Option<PartsRecord>, Stop> {
        self.typed("partitions", &keys::parts(self.shard, dir))
    }

    /// The partition that `name` belongs to, if it is here; refuses otherwise.
    pub fn owned(&self, dir: Ino, name: &Name) -> Result<Owned, Stop> {
        self.owned_at(dir, self.map.hash_key.position(name.as_bytes()))
    }

    /// The partition that `position` belongs to, if it is here; refuses otherwise.
    pub fn owned_at(&self, dir: Ino, position: Position) -> Result<Owned, Stop> {
        let Some(parts) = self.parts(dir)? else {
            return Err(self.no_parts(dir)?);
        };
        let index = parts.map.partition_of(position);
        if parts.part(index).is_none() {
            return Err(Stop::Refuse(Refusal::Misdirected(Some(parts.map))));
        }
        Ok(Owned {
            parts,
            index,
            position,
        })
    }

    /// Why a directory has no partition here: it is none, it is gone, or it never had one here.
    pub fn no_parts(&self, dir: Ino) -> Result<Stop, Stop> {
        if dir.birth_shard() != self.shard {
            return Ok(Stop::Refuse(Refusal::Misdirected(None)));
        }
        Ok(match self.stored_inode(dir)? {
            Some(_) => Stop::from(FsError::NotDir),
            // A file that moved to another shard is no directory either.
            None if self.forwarding(dir)?.is_some() => Stop::from(FsError::NotDir),
            None => Stop::from(FsError::NotFound),
        })
    }

    /// The entry of the name; `None` if it is not there.
    pub fn entry(
        &self,
        dir: Ino,
        position: Position,
        name: &Name,
    ) -> Result<Option<EntryRecord>, Stop> {
        self.typed("entry", &keys::entry(self.shard, dir, position, name))
    }

    /// The work left to do for the inode; `None` if none.
    pub fn reclaim(&self, ino: Ino) -> Result<Option<ReclaimRecord>, Stop> {
        self.typed("reclaim record", &keys::reclaim(self.shard, ino))
    }

    /// The split or merge that gives this directory's entries away here.
    pub fn split(&self, dir: Ino) -> Result<Option<SplitRecord>, Stop> {
        self.typed("split", &keys::split(self.shard, dir))
    }

    /// The split that takes entries here.
    pub fn staging(&self, split: SplitId) -> Result<Option<StagingRecord>, Stop> {
        self.typed("staging", &keys::staging(self.shard, split))
    }

    /// The slot's last answer; `None` before the first.
    pub fn slot(&self, session: SessionId, slot: SlotId) -> Result<Option<SlotRecord>, Stop> {
        self.typed("slot", &keys::slot(self.shard, session, slot))
    }

    /// The directory that was placed here by a path with this hash, or else by `pointer` that a path leads to.
    pub fn path(&self, hash: u64, pointer: bool) -> Result<Option<PathRecord>, Stop> {
        let key = match pointer {
            true => keys::path_pointer(self.shard, hash),
            false => keys::path(self.shard, hash),
        };
        self.typed("path", &key)
    }

    /// The line of the path log; empty before its first change.
    pub fn path_line(&self, line: u16) -> Result<PathLineRecord, Stop> {
        let line = self.typed("line of the path log", &keys::path_line(self.shard, line))?;
        Ok(line.unwrap_or_default())
    }

    /// Changes that the path log has seen.
    pub fn path_log(&self) -> Result<u64, Stop> {
        let seen = self.typed("path log", &keys::path_log(self.shard))?;
        Ok(seen.unwrap_or_default())
    }

    /// Inode numbers that the session has taken and not used; `None` if it never took any.
    pub fn numbers(&self, session: SessionId) -> Result<Option<NumbersRecord>, Stop> {
        self.typed("numbers", &keys::numbers(self.shard, session))
    }

    /// The horizon that the coordinator has told; of one that told none: no operation has ended.
    pub fn horizon(&self, coordinator: ShardId) -> Result<Horizon, Stop> {
        let known = self.typed("horizon", &keys::horizon(self.shard, coordinator))?;
        Ok(known.unwrap_or_default())
    }

    /// Visits all pairs whose key starts with `prefix`.
    pub fn scan_prefix(&self, prefix: &[u8], visit: &mut VisitPairs<'_>) -> Result<(), Stop> {
        self.scan(prefix, &keys::after(prefix), visit)
    }

    /// Visits all pairs with keys in `start .. end`.
    pub fn scan(&self, start: &[u8], end: &[u8], visit: &mut VisitPairs<'_>) -> Result<(), Stop> {
        let mut stop = None;
        self.kv
            .scan(start, end, &mut |key, value| match visit(key, value) {
                Ok(flow) => flow,
                Err(error) => {
                    stop = Some(error);
                    ControlFlow::Break(())
                }
            })?;
        stop.map_or(Ok(()), Err)
    }
}
