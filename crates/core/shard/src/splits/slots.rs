//! Other slots for a directory that may spread further than when its array was fixed: servers joined, or somebody
//! set a larger number of partitions.
//!
//! The home alone makes another array (two shards could come to different ones), when a partition of its own wants
//! to split or when another shard asks (`SlotsAsk`). It tells the array (`SlotsTold`) when it is stored. A shard that
//! asked asks again until it is answered. Should the home know no better (it may not have heard of servers that
//! joined), the partition splits to where was proposed before: that is as right, only less even.

use crate::record::Record;
use crate::shard::{Shard, view_of};
use pandofs_api::PeerMessage;
use pandofs_namespace::{Stop, split};
use pandofs_placement::{DirMap, PartitionIndex};
use pandofs_storage::store::Overlay;
use pandofs_types::limits::RESEND_INTERVAL;
use pandofs_types::{Ino, ShardId, Steady};

impl Shard {
    /// A partition here is to split and there may be better slots: asks the home, unless that has just been done.
    pub(super) fn ask_for_slots(&mut self, dir: Ino) {
        if self.splits.asked.contains_key(&dir) {
            return;
        }
        self.splits.asked.insert(dir, Steady(0));
        let (from, to) = (self.config.shard, dir.birth_shard());
        self.send(to, PeerMessage::SlotsAsk { from, to, dir }, false);
    }

    /// A shard has a partition that is to split and may have heard of servers that joined.
    pub(crate) fn slots_asked(
        &mut self,
        overlay: &Overlay<'_>,
        from: ShardId,
        dir: Ino,
    ) -> Result<(), Stop> {
        let me = self.config.shard;
        let parts = view_of(&self.config, overlay, false).parts(dir)?;
        let Some(parts) = parts.filter(|_| dir.birth_shard() == me) else {
            return Ok(());
        };
        match split::more_slots(&self.config.map, dir, &parts) {
            Some(slots) => {
                if self.splits.beginning.insert(dir) {
                    let index = PartitionIndex::ZERO;
                    self.propose(&Record::SplitBegin { dir, index, slots });
                }
            }
            None => {
                let map = parts.map;
                let told = PeerMessage::SlotsTold {
                    from: me,
                    to: from,
                    dir,
                    map,
                };
                // Were it lost here and known there, another array could come to have its version.
                self.send(from, told, true);
            }
        }
        Ok(())
    }

    /// The home has told what slots the directory has.
    pub(crate) fn slots_told(
        &mut self,
        overlay: &Overlay<'_>,
        dir: Ino,
        map: DirMap,
    ) -> Result<(), Stop> {
        self.splits.asked.remove(&dir);
        let view = view_of(&self.config, overlay, false);
        if let Some(mut parts) = view.parts(dir)?
            && parts.learn(&map, view.split(dir)?.as_ref())
        {
            self.propose(&Record::LearnMap { dir, map });
        }
        self.splits.told.insert(dir);
        self.splits.look_again_later(dir);
        Ok(())
    }

    /// Asks again where no answer has come, if more slots are still wanted.
    pub(super) fn tick_slots(&mut self, overlay: &Overlay<'_>, now: Steady) -> Result<(), Stop> {
        let since = now.before(RESEND_INTERVAL);
        let mut late = Vec::new();
        for (&dir, asked) in &mut self.splits.asked {
            if *asked == Steady(0) {
                *asked = now;
            } else if *asked < since {
                late.push(dir);
            }
        }
        for dir in late {
            self.splits.asked.remove(&dir);
            self.consider_all_splits(overlay, dir)?;
        }
        Ok(())
    }
}
