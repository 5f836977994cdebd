//! Cluster maps of a server: what it keeps, and newer ones that it takes up.

use super::{Death, Server};
use crate::scenario::{MILLISECOND, Moment, Plant};
use pandofs_lane::{MapOutcome, MapTaken, Shards};
use pandofs_placement::ClusterMap;
use pandofs_storage::store::Store;
use pandofs_types::{Epoch, ServerId, ShardId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Pause before a server looks for a newer map again.
const LOOK_PAUSE: Moment = 500 * MILLISECOND;

/// A map that a server has taken up.
pub(crate) struct Taken {
    pub map: Arc<ClusterMap>,
    /// The last record of each shard that was applied by an older one.
    pub after: BTreeMap<ShardId, u64>,
}

impl Server {
    /// The map that the process goes by; `None` if there is no process.
    pub(crate) fn map(&self) -> Option<&Arc<ClusterMap>> {
        self.process.as_ref().map(|process| process.lane.map())
    }

    /// Whether its process goes by an older map than this.
    pub(crate) fn is_before(&self, epoch: Epoch) -> bool {
        self.map().is_some_and(|map| map.epoch < epoch)
    }

    /// Whether its process knows this one, so that the two talk.
    pub(crate) fn knows(&self, server: ServerId) -> bool {
        self.map().is_some_and(|map| map.server(server).is_some())
    }

    /// Whether it begins to look for a newer map.
    pub(crate) fn looks_for_map(&mut self, now: Moment) -> bool {
        match &mut self.process {
            Some(process) if process.next_look <= now => {
                process.next_look = now + LOOK_PAUSE;
                true
            }
            _ => false,
        }
    }

    /// Somebody brings a map.
    pub(crate) fn offer_map(&mut self, map: &ClusterMap) {
        if let Some(process) = &mut self.process {
            process.lane.offer_map(Box::new(map.clone()), None);
            process.is_offered_map = true;
        }
    }

    /// Takes up the map that was offered, if one was; whether that is a newer one.
    pub(crate) fn take_up_map(&mut self) -> Result<bool, Death> {
        let Some(process) = self
            .process
            .as_mut()
            .filter(|process| process.is_offered_map)
        else {
            return Ok(false);
        };
        process.is_offered_map = false;
        // It syncs the log: a sync under way covers nothing more.
        process.covered = 0;
        let before = Arc::clone(process.lane.map());
        let (log, mut kept) = (&self.log, None);
        let taken = process.lane.take_up_map(&mut |map| {
            if log.dies_here() {
                return Err("the server dies".to_owned());
            }
            kept = Some(Arc::new(map.clone()));
            Ok(())
        });
        if let Some(kept) = kept {
            let after = process.shards().appended().into_iter().collect();
            self.taken.push(Taken {
                map: Arc::clone(&kept),
                after,
            });
            match self.plant {
                Some(Plant::LosesNewMap) => return Ok(true),
                Some(Plant::KeepsOldMap) => process.lane.shards_mut().set_map(&before),
                _ => {}
            }
            self.map = kept;
            return Ok(true);
        }
        match taken {
            Err(error) => Err(self.death(&error)),
            Ok(None) => Ok(false),
            Ok(Some(MapTaken { outcome, .. })) => match outcome {
                MapOutcome::Known | MapOutcome::New => Ok(false),
                MapOutcome::NotKept(_) => Err(Death::Planned),
                MapOutcome::Unfit(why) => {
                    let what = format!("server {} refuses a map: {why}", self.id);
                    Err(Death::Broken(what))
                }
            },
        }
    }

    /// Has shards that were replayed by the map that is kept go on by the one in the file, if that is newer.
    pub(super) fn read_at_start(&mut self, file: &Arc<ClusterMap>, shards: &mut Shards) {
        if file.epoch <= self.map.epoch {
            return;
        }
        self.store.flush().expect("memory takes it");
        shards.set_map(file);
        self.taken.push(Taken {
            map: Arc::clone(file),
            after: shards.appended().into_iter().collect(),
        });
        self.map = Arc::clone(file);
    }
}
