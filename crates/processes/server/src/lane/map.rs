//! Taking up a newer cluster map while serving: servers were added.
//!
//! An administrator brings it (`TakeMap`), or the server hears of it (from a peer or client that goes by a larger
//! epoch, or speaks of shards that are not in the map) and looks for it in the file it was started with and at the
//! other servers.
//!
//! The effect of a record may follow from the map, and a replay must have the same. So before the
//! map changes the store takes up all that was applied, and the map is kept in the server's
//! directory: records of before are not replayed any more, and those of after are replayed by the
//! new map. The lane waits for that flush, as it happens only when servers are added.

use super::Lane;
use crate::connection::ConnectionKey;
use crate::directory::keep_map;
use crate::error::ServerError;
use crate::limits::MAP_LOOK_PAUSE;
use crate::mailbox::Mail;
use crate::peers;
use pandofs_api::AdminReply;
use pandofs_placement::ClusterMap;
use pandofs_store::Overlay;
use pandofs_types::{Epoch, FsId};
use pandofs_wire::address::Address;
use pandofs_wire::message::AnswerBody;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

/// Where a server's map is kept, and where a newer one may be.
#[derive(Debug, Default)]
pub(crate) struct MapSource {
    /// In the server's directory; `None` if it has none.
    pub kept: Option<PathBuf>,
    pub file: Option<PathBuf>,
}

/// A map that is to be taken up, and the search for one.
#[derive(Debug)]
pub(super) struct NextMap {
    source: MapSource,
    offered: Option<Box<ClusterMap>>,
    /// Requests to answer when it is taken up: connection and number.
    waiting: Vec<(ConnectionKey, u64)>,
    is_looking: bool,
    next_look: Instant,
}

impl NextMap {
    pub fn new(source: MapSource, now: Instant) -> NextMap {
        NextMap {
            source,
            offered: None,
            waiting: Vec::new(),
            is_looking: false,
            next_look: now,
        }
    }

    fn offer(&mut self, map: Box<ClusterMap>) {
        let best = self.offered.as_ref().map(|offered| offered.epoch);
        if best.is_none_or(|best| best < map.epoch) {
            self.offered = Some(map);
        }
    }
}

impl Lane {
    /// An administrator brings a map.
    pub(super) fn take_map(&mut self, key: ConnectionKey, id: u64, text: &str) {
        match ClusterMap::from_json(text) {
            Ok(map) => {
                self.next_map.offer(Box::new(map));
                self.next_map.waiting.push((key, id));
            }
            Err(error) => {
                let reply = AdminReply::Failed(error.to_string());
                self.answer(key, id, AnswerBody::Admin(reply));
            }
        }
    }

    /// A peer or client goes by another map, perhaps a newer one: looks for it, on a thread that
    /// may wait for others.
    pub(super) fn look_for_map(&mut self, now: Instant) {
        if self.next_map.is_looking || now < self.next_map.next_look {
            return;
        }
        self.next_map.is_looking = true;
        self.next_map.next_look = now + MAP_LOOK_PAUSE;
        let others = self
            .map
            .servers
            .iter()
            .filter(|server| server.id != self.id);
        let others: Vec<Vec<String>> = others.map(|server| server.addresses.clone()).collect();
        let (fs, epoch) = (self.map.fs, self.map.epoch);
        let file = self.next_map.source.file.clone();
        let mailbox = self.mailbox.clone();
        let spawned = thread::Builder::new()
            .name("pandofs-map".to_owned())
            .spawn(move || {
                mailbox.post(Mail::MapFound(find(file.as_deref(), &others, fs, epoch)));
            });
        if let Err(error) = spawned {
            tracing::warn!("cannot look for a newer cluster map: {error}");
            self.next_map.is_looking = false;
        }
    }

    pub(super) fn map_found(&mut self, found: Option<Box<ClusterMap>>) {
        self.next_map.is_looking = false;
        if let Some(map) = found {
            self.next_map.offer(map);
        }
    }

    /// Goes by the map that was offered from here on; between batches.
    ///
    /// # Errors
    /// When log or store fail.
    pub(super) fn take_up_map(&mut self, overlay: &mut Overlay<'_>) -> Result<(), ServerError> {
        let Some(next) = self.next_map.offered.take() else {
            return Ok(());
        };
        let reply = if next.fs == self.map.fs && next.epoch <= self.map.epoch {
            AdminReply::Done
        } else {
            match self.fits(&next) {
                Ok(()) => self.go_by(*next, overlay)?,
                Err(why) => {
                    tracing::warn!(
                        "cannot take up the cluster map that an administrator sent: {why}"
                    );
                    AdminReply::Failed(why)
                }
            }
        };
        for (key, id) in std::mem::take(&mut self.next_map.waiting) {
            self.answer(key, id, AnswerBody::Admin(reply.clone()));
        }
        Ok(())
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

    fn go_by(
        &mut self,
        next: ClusterMap,
        overlay: &mut Overlay<'_>,
    ) -> Result<AdminReply, ServerError> {
        self.log.sync()?;
        self.write_to_store(overlay)?;
        self.store.flush()?;
        if let Some(kept) = &self.next_map.source.kept
            && let Err(error) = keep_map(kept, &next)
        {
            let why = format!("it cannot be kept in {}: {error}", kept.display());
            tracing::error!("a newer cluster map is not taken up: {why}");
            return Ok(AdminReply::Failed(why));
        }
        let others = next.servers.iter().map(|server| server.id);
        self.peers
            .join(others.filter(|&other| other != self.id), Instant::now());
        self.map = Arc::new(next);
        self.shards.set_map(&self.map);
        tracing::info!(
            "server {}: going by epoch {} of the cluster map, with {} servers and {} shards",
            self.id,
            self.map.epoch,
            self.map.servers.len(),
            self.map.shard_count()
        );
        Ok(AdminReply::Done)
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
