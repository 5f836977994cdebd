//! Newer cluster maps: where they are found and kept.
//!
//! An administrator brings it (`TakeMap`), or the server hears of it (from a peer or client that goes by a larger
//! epoch, or speaks of shards that are not in the map) and looks for it in the file it was started with and at the
//! other servers.
//!
//! How it is taken up is in `pandofs-lane`.

use super::LaneThread;
use crate::connection::ConnectionKey;
use crate::directory::keep_map;
use crate::error::ServerError;
use crate::limits::MAP_LOOK_PAUSE;
use crate::mailbox::Mail;
use crate::peers;
use pandofs_api::AdminReply;
use pandofs_lane::{MapOutcome, MapTaken};
use pandofs_placement::ClusterMap;
use pandofs_types::{Epoch, FsId};
use pandofs_wire::address::Address;
use pandofs_wire::message::AnswerBody;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

/// Where a server's map is kept, and where a newer one may be.
#[derive(Debug, Default)]
pub(crate) struct MapSource {
    /// In the server's directory; `None` if it has none.
    pub kept: Option<PathBuf>,
    pub file: Option<PathBuf>,
}

/// The search for a newer map.
#[derive(Debug)]
pub(super) struct MapSearch {
    source: MapSource,
    is_under_way: bool,
    next_look: Instant,
}

impl MapSearch {
    pub(super) fn new(source: MapSource, now: Instant) -> MapSearch {
        MapSearch {
            source,
            is_under_way: false,
            next_look: now,
        }
    }
}

impl LaneThread {
    /// An administrator brings a map.
    pub(super) fn take_map(&mut self, key: ConnectionKey, id: u64, text: &str) {
        match ClusterMap::from_json(text) {
            Ok(map) => self.lane.offer_map(Box::new(map), Some((key, id))),
            Err(error) => {
                let reply = AdminReply::Failed(error.to_string());
                self.answer(key, id, AnswerBody::Admin(reply));
            }
        }
    }

    /// A peer or client goes by another map, perhaps a newer one: looks for it, on a thread that
    /// may wait for others.
    pub(super) fn look_for_map(&mut self, now: Instant) {
        if self.map_search.is_under_way || now < self.map_search.next_look {
            return;
        }
        self.map_search.is_under_way = true;
        self.map_search.next_look = now + MAP_LOOK_PAUSE;
        let map = self.lane.map();
        let others = map
            .servers
            .iter()
            .filter(|server| server.id != self.lane.id());
        let others: Vec<Vec<String>> = others.map(|server| server.addresses.clone()).collect();
        let (fs, epoch) = (map.fs, map.epoch);
        let file = self.map_search.source.file.clone();
        let mailbox = self.mailbox.clone();
        let spawned = thread::Builder::new()
            .name("pandofs-map".to_owned())
            .spawn(move || {
                mailbox.post(Mail::MapFound(find(file.as_deref(), &others, fs, epoch)));
            });
        if let Err(error) = spawned {
            tracing::warn!("cannot look for a newer cluster map: {error}");
            self.map_search.is_under_way = false;
        }
    }

    pub(super) fn map_found(&mut self, found: Option<Box<ClusterMap>>) {
        self.map_search.is_under_way = false;
        if let Some(map) = found {
            self.lane.offer_map(map, None);
        }
    }

    /// Goes by the map that was offered from here on; between batches.
    ///
    /// # Errors
    /// When log or store fail.
    pub(super) fn take_up_map(&mut self) -> Result<(), ServerError> {
        let kept = self.map_search.source.kept.as_deref();
        let mut keep = |map: &ClusterMap| match kept {
            Some(kept) => keep_map(kept, map)
                .map_err(|error| format!("it cannot be kept in {}: {error}", kept.display())),
            None => Ok(()),
        };
        let Some(MapTaken { waiting, outcome }) = self.lane.take_up_map(&mut keep)? else {
            return Ok(());
        };
        let reply = match outcome {
            MapOutcome::Known => AdminReply::Done,
            MapOutcome::New => {
                self.goes_by_new_map();
                AdminReply::Done
            }
            MapOutcome::Unfit(why) => {
                tracing::warn!("cannot take up the cluster map that an administrator sent: {why}");
                AdminReply::Failed(why)
            }
            MapOutcome::NotKept(why) => {
                tracing::error!("a newer cluster map is not taken up: {why}");
                AdminReply::Failed(why)
            }
        };
        for (key, id) in waiting {
            self.answer(key, id, AnswerBody::Admin(reply.clone()));
        }
        Ok(())
    }

    fn goes_by_new_map(&mut self) {
        let (id, map) = (self.lane.id(), self.lane.map());
        let others = map.servers.iter().map(|server| server.id);
        let others = others.filter(|&other| other != id);
        self.peers.join(others, Instant::now());
        tracing::info!(
            "server {id}: going by epoch {} of the cluster map, with {} servers and {} shards",
            map.epoch,
            map.servers.len(),
            map.shard_count()
        );
    }
}

/// The newest map in the file and at the servers that answer, if it is newer than `epoch`.
fn find(
    file: Option<&Path>,
    servers: &[Vec<String>],
    fs: FsId,
    epoch: Epoch,
) -> Option<Box<ClusterMap>> {
    let written = file
        .and_then(|file| std::fs::read_to_string(file).ok())
        .and_then(|text| ClusterMap::from_json(&text).ok());
    let is_newer = |map: &ClusterMap| map.fs == fs && map.epoch > epoch;
    let mut best = written.filter(is_newer);
    if best.is_none() {
        for addresses in servers {
            let parsed: Vec<Address> = addresses
                .iter()
                .filter_map(|address| address.parse().ok())
                .collect();
            match peers::ask_map(&parsed, fs) {
                Ok(map) if is_newer(&map) => {
                    best = best.filter(|best| best.epoch >= map.epoch).or(Some(map));
                }
                Ok(_) => {}
                Err(why) => tracing::debug!("no newer cluster map found: {why}"),
            }
        }
    }
    best.map(Box::new)
}
