//! Merges: the shards of the two partitions tell one another that theirs is nearly empty.
//!
//! Either may be the one that makes it possible: so a partition that becomes small asks the one it was split
//! from (`MergeAsk`), and tells the one that it split off last (`MergeGo`). Nobody waits for an answer.

use crate::record::Record;
use crate::shard::{Shard, view_of};
use pandofs_api::PeerMessage;
use pandofs_namespace::records::PartsRecord;
use pandofs_namespace::{Stop, merge};
use pandofs_placement::{DirMap, PartitionIndex};
use pandofs_storage::store::Overlay;
use pandofs_types::Ino;

impl Shard {
    /// The partition has shrunk, or what was split from it has come back.
    pub(crate) fn consider_merge(
        &mut self,
        overlay: &Overlay<'_>,
        dir: Ino,
        index: PartitionIndex,
    ) -> Result<(), Stop> {
        let config = self.config.clone();
        let Some(parts) = view_of(&config, overlay, false).parts(dir)? else {
            return Ok(());
        };
        if parts.part(index).is_none() {
            return Ok(());
        }
        if let Some(child) = parts.map.last_child(index) {
            self.let_merge(dir, &parts, child);
        } else if let Some(into) = merge::wanted(&config.map, &parts, index) {
            let (from, to) = (config.shard, parts.map.shard_of_partition(into));
            let child = index;
            let ask = PeerMessage::MergeAsk {
                from,
                to,
                dir,
                child,
            };
            self.send(to, ask, false);
        }
        Ok(())
    }

    pub(crate) fn consider_all_merges(
        &mut self,
        overlay: &Overlay<'_>,
        dir: Ino,
    ) -> Result<(), Stop> {
        let parts = view_of(&self.config, overlay, false).parts(dir)?;
        for part in parts.iter().flat_map(|parts| &parts.parts) {
            self.consider_merge(overlay, dir, part.index)?;
        }
        Ok(())
    }

    /// A partition on another shard would like to come back.
    pub(crate) fn merge_asked(
        &mut self,
        overlay: &Overlay<'_>,
        dir: Ino,
        child: PartitionIndex,
    ) -> Result<(), Stop> {
        if let Some(parts) = view_of(&self.config, overlay, false).parts(dir)? {
            self.let_merge(dir, &parts, child);
        }
        Ok(())
    }

    /// Tells `child` that it may come back, if there is room.
    fn let_merge(&mut self, dir: Ino, parts: &PartsRecord, child: PartitionIndex) {
        if let Some(room) = merge::room(&self.config.map, parts, child) {
            let (from, to) = (self.config.shard, parts.map.shard_of_partition(child));
            let map = parts.map.clone();
            let go = PeerMessage::MergeGo {
                from,
                to,
                dir,
                child,
                room,
                map,
            };
            // Were the map lost here and known there, the merge would go by a version that another map could come to have.
            self.send(to, go, true);
        }
    }

    /// The one that it was split from takes `child` back.
    pub(crate) fn merge_may_go(
        &mut self,
        overlay: &Overlay<'_>,
        dir: Ino,
        child: PartitionIndex,
        room: u64,
        map: DirMap,
    ) -> Result<(), Stop> {
        if self.splits.copying.contains_key(&dir) || self.splits.beginning.contains(&dir) {
            return Ok(());
        }
        let config = self.config.clone();
        let view = view_of(&config, overlay, false);
        let Some(parts) = view.parts(dir)? else {
            return Ok(());
        };
        let fits = parts.part(child).is_some_and(|part| part.entries <= room);
        if fits && merge::wanted(&config.map, &parts, child).is_some() && view.split(dir)?.is_none()
        {
            self.splits.beginning.insert(dir);
            self.propose(&Record::MergeBegin { dir, child, map });
        }
        Ok(())
    }
}
