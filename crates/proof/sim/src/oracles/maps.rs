//! Newest cluster map: once all is healed everybody goes by it who runs or asks, and servers that joined get their part of
//! what is made from then on.

use super::Finding;
use crate::client::Client;
use crate::scenario::{Moment, Shape};
use crate::server::Server;
use pandofs_check::{ClusterDump, Tables};
use pandofs_placement::{ClusterMap, DirPolicy};
use pandofs_types::{FileKind, Ino};
use std::collections::BTreeSet;

/// Chance that all new directories are placed elsewhere by mere bad luck: less than this is a finding.
const BAD_LUCK: f64 = 1e-9;

/// All is healed, and servers have been told of the newest map before this moment.
pub(crate) fn check(
    newest: &ClusterMap,
    servers: &[Server],
    clients: &[Client],
    told: Moment,
) -> Result<(), Finding> {
    let newest = newest.epoch;
    let is_old = |who: String, epoch| {
        let what = format!("{who} goes by map {epoch} and not by {newest}");
        Err(Finding::new("maps", what))
    };
    for server in servers {
        if let Some(map) = server.map().filter(|map| map.epoch != newest) {
            return is_old(format!("server {}", server.id), map.epoch);
        }
    }
    for (number, client) in clients.iter().enumerate() {
        if client.epoch() != newest && client.last_asked() > told {
            return is_old(format!("client {number}"), client.epoch());
        }
    }
    Ok(())
}

/// Directories that there were when everybody had come to go by the newest map.
#[derive(Debug)]
pub(crate) struct Before(BTreeSet<Ino>);

impl Before {
    pub(crate) fn of(dump: &ClusterDump) -> Before {
        Before(dirs(dump))
    }

    /// Returns how many of those that were made since are on servers that joined: some, if chance alone says where.
    pub(crate) fn check(&self, dump: &ClusterDump, shape: &Shape) -> Result<u64, Finding> {
        let (map, after) = (&dump.map, dirs(dump));
        let made: Vec<&Ino> = after.difference(&self.0).collect();
        let has_joined = |ino: &&&Ino| map.server_of(ino.birth_shard()).0 >= shape.servers;
        let on_joined = made.iter().filter(has_joined).count() as u64;
        let all_elsewhere = share_of_first(map, shape).powi(made.len() as i32);
        let is_by_chance = map.policy == DirPolicy::Random;
        if is_by_chance && on_joined == 0 && all_elsewhere < BAD_LUCK {
            let made = made.len();
            let what = format!("{made} directories were made, and none on a server that joined");
            return Err(Finding::new("maps", what));
        }
        Ok(on_joined)
    }
}

/// Share of the shards that the first servers lead.
fn share_of_first(map: &ClusterMap, shape: &Shape) -> f64 {
    let first = map.shards.iter().filter(|server| server.0 < shape.servers);
    first.count() as f64 / map.shards.len() as f64
}

fn dirs(dump: &ClusterDump) -> BTreeSet<Ino> {
    let tables = Tables::decode(dump, &mut Vec::new());
    let inodes = tables.inodes.iter();
    let is_dir = inodes.filter(|(_, inode)| inode.kind == FileKind::Dir);
    is_dir.map(|((_, ino), _)| *ino).collect()
}
