//! Taking up a newer cluster map while serving: servers were added.
//!
//! The effect of a record may follow from the map, and a replay must have the same. So before the
//! map changes the store takes up all that was applied, and the map is kept where the server finds it when it starts
//! again: records of before are not replayed any more, and those of after are replayed by the
//! new map. The lane waits for that flush, as it happens only when servers are added.

use crate::error::LaneError;
use crate::lane::Lane;
use pandofs_placement::ClusterMap;
use std::sync::Arc;

/// A map that is to be taken up. `W`: see [`Command`](crate::Command).
#[derive(Debug)]
pub(crate) struct NextMap<W> {
    offered: Option<Box<ClusterMap>>,
    waiting: Vec<W>,
}

impl<W> Default for NextMap<W> {
    fn default() -> NextMap<W> {
        NextMap {
            offered: None,
            waiting: Vec::new(),
        }
    }
}

/// Fate of a map that was offered.
#[derive(Debug)]
pub struct MapTaken<W> {
    /// Those who wait for it.
    pub waiting: Vec<W>,
    /// Whether the lane goes by the map now.
    pub outcome: MapOutcome,
}

/// See [`MapTaken`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MapOutcome {
    /// The lane goes by it from here on.
    New,
    /// It goes by that one or a newer one already.
    Known,
    /// It does not follow from the one that the lane goes by.
    Unfit(String),
    /// It could not be kept.
    NotKept(String),
}

impl<W> Lane<W> {
    /// Offers a map, and has `waiting` told what becomes of it. Of several the newest is taken.
    pub fn offer_map(&mut self, map: Box<ClusterMap>, waiting: Option<W>) {
        let next = &mut self.next_map;
        let best = next.offered.as_ref().map(|offered| offered.epoch);
        if best.is_none_or(|best| best < map.epoch) {
            next.offered = Some(map);
        }
        next.waiting.extend(waiting);
    }

    /// Goes by the map that was offered from here on, if one was; between batches. `keep` puts it where the server finds
    /// it when it starts again.
    ///
    /// # Errors
    /// When log or store fail: the lane is not to be used any more.
    pub fn take_up_map(
        &mut self,
        keep: &mut dyn FnMut(&ClusterMap) -> Result<(), String>,
    ) -> Result<Option<MapTaken<W>>, LaneError> {
        let Some(next) = self.next_map.offered.take() else {
            return Ok(None);
        };
        let outcome = if next.fs == self.map.fs && next.epoch <= self.map.epoch {
            MapOutcome::Known
        } else if let Err(why) = self.fits(&next) {
            MapOutcome::Unfit(why)
        } else {
            self.log.sync()?;
            self.write_out()?;
            self.store.flush()?;
            match keep(&next) {
                Ok(()) => {
                    self.map = Arc::new(*next);
                    self.shards.set_map(&self.map);
                    MapOutcome::New
                }
                Err(why) => MapOutcome::NotKept(why),
            }
        };
        let waiting = std::mem::take(&mut self.next_map.waiting);
        Ok(Some(MapTaken { waiting, outcome }))
    }

    fn fits(&self, next: &ClusterMap) -> Result<(), String> {
        let follows = self.map.check_successor(next);
        follows.map_err(|error| error.to_string())?;
        if next.shards_of(self.id) == self.shards.ids() {
            Ok(())
        } else {
            Err(format!(
                "it gives server {} shards that it does not have",
                self.id
            ))
        }
    }
}
