//! Loads of all servers as far as one knows them, for the policies that adapt.
//!
//! A [`Placer`] decides from them where the next directories and files go. It knows of three kinds:
//!
//! - what its own server has: exactly, and now ([`Placer::holds`]);
//! - what all servers reported to each other: now and then, and late ([`Placer::hear`]);
//! - what a server had that sent it a message about something that both do together ([`Placer::learn`]). A busy cluster
//!   makes thousands of objects between two reports, and this is all that is known meanwhile. It takes no message
//!   of its own.
//!
//! (That a server which gives something has at least as much as the one that gets it was taken for granted once. It has
//! not: it gives by what it knows, which is as old. The server with most was given things by all and believed that all
//! had as much, and kept everything until the next telling.)

use crate::adaptive::{Bounds, Granularity};
use crate::cluster::ClusterMap;
use crate::policy::bounds_of;
use pandofs_types::{ServerId, ShardId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// Load that a server reports of itself to the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerLoad {
    /// As [`objects`] counts them.
    pub objects: u64,
    /// Requests to its shards of late, about: old ones count less and less.
    pub requests: u64,
}

/// Choice drawn, and knowledge used, when something is made; fixed in its record: the place must
/// not depend on which server applies the record, or when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placing {
    /// Before it is brought within the bounds of the directory.
    pub granularity: Granularity,
    /// Where a new unit begins.
    pub shard: ShardId,
}

/// Objects that a directory, or a part of one that has split, counts as: itself, and files that are
/// still to be made in it. Where all directories are made before any file, and some before others,
/// the server of the later ones has little for a long time; if they counted as what they are, it
/// would be given all that follows. (The papers' name spaces have 28 files for each directory;
/// Agrawal et al., FAST 2007, have a dozen.)
pub const OBJECTS_OF_A_DIRECTORY: u64 = 16;

/// The count that is compared: so many inodes, and partitions of directories.
pub fn objects(inodes: u64, partitions: u64) -> u64 {
    inodes.saturating_add(partitions.saturating_mul(OBJECTS_OF_A_DIRECTORY - 1))
}

/// A server has too much with this much more than its part, in per cent of that.
pub const TOO_MUCH_PERCENT: u128 = 30;
/// And with no less than so many objects more: 64 directories with what is in them. A border between units costs eight synced
/// writes, when something is made there and when it is removed; with the paper's costs as many directories and files are made
/// and removed meanwhile.
pub const OBJECTS_OF_A_BORDER: u64 = 64 * OBJECTS_OF_A_DIRECTORY;
/// Until a server has so many objects for its weight it has all directories elsewhere that are made
/// in its own. The directories made first are mostly the highest in the tree, above all if many
/// make parts of it at once; if they are on one server, then all that follows below them is a
/// border there once it has too much, and all wait for its disk. The price is a dozen borders for
/// each server, once.
pub const OBJECTS_OF_THE_TOP: u64 = 12 * OBJECTS_OF_A_DIRECTORY;
/// Of what a server has on the average, the files of one directory may be one part in so many.
pub const DIRECTORY_FRACTION: u128 = 16;
/// Of all servers together, for each of them: with fewer requests than this of late nothing is said by how they are
/// spread.
const REQUESTS_THAT_COUNT: u64 = 1_000;

/// Load of a server, as far as it is known.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// 0 for the shard's own server.
    objects: u64,
    /// Its requests of late, as so many objects: all requests count as much as all objects do.
    busy: u64,
    /// That much of everything is its part.
    weight: u128,
}

/// Of one shard. See the module.
#[derive(Clone, Debug)]
pub struct Placer {
    shard: ShardId,
    here: ServerId,
    bounds: Bounds,
    /// Objects that the shard's server has.
    held: u64,
    servers: BTreeMap<ServerId, Known>,
    /// Of all servers together: objects but for those held here, what they are busy with, and weights.
    objects: u128,
    busy: u128,
    weights: u128,
}

impl Placer {
    /// Of a shard that has so many objects as it starts. As there are no reports yet, all servers
    /// are taken to have as much for their weight as this shard lets expect.
    pub fn new(map: &ClusterMap, shard: ShardId, objects: u64) -> Placer {
        let here = map.server_of(shard);
        let led = map.shards_of(here).len() as u64;
        // A server with the root alone is of a new file system, in which none has anything.
        let is_new = objects <= OBJECTS_OF_A_DIRECTORY;
        let held = objects.saturating_mul(if is_new { 1 } else { led });
        let mut placer = Placer {
            shard,
            here,
            bounds: bounds_of(map.policy, map.settings.file_policy),
            held,
            servers: servers(map),
            objects: 0,
            busy: 0,
            weights: 0,
        };
        let weight = placer.servers.get(&here).map_or(1, |known| known.weight);
        for (server, known) in &mut placer.servers {
            if *server != here {
                let as_much = u128::from(held) * known.weight / weight;
                known.objects = u64::try_from(as_much).unwrap_or(u64::MAX);
            }
        }
        placer.add_up();
        placer
    }

    fn add_up(&mut self) {
        let all = self.servers.values();
        self.objects = all.clone().map(|known| u128::from(known.objects)).sum();
        self.busy = all.map(|known| u128::from(known.busy)).sum();
        self.weights = self.servers.values().map(|known| known.weight).sum();
    }

    /// Sets the objects that the shard's server has now.
    pub fn holds(&mut self, objects: u64) {
        self.held = objects;
    }

    /// Objects that it had when it was last asked.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// Objects of all servers together, as far as is known.
    fn all_objects(&self) -> u128 {
        self.objects + u128::from(self.held)
    }

    /// How many all servers would have together if each had as many for its weight as this one; and the same with what
    /// they are busy with.
    fn load(&self, server: ServerId) -> (u128, u128) {
        let Some(known) = self.servers.get(&server) else {
            return (0, 0);
        };
        let held = if server == self.here { self.held } else { 0 };
        let objects = u128::from(known.objects) + u128::from(held);
        let with_requests = objects + u128::from(known.busy);
        let of_all = |part: u128| part * self.weights / known.weight;
        (of_all(objects), of_all(with_requests))
    }

    /// Whether the shard's server has too much: objects, or objects and requests together. (By both
    /// together alone a server that gets few requests could have twice its part of the objects, of
    /// which others would then have too little.)
    fn has_too_much(&self) -> bool {
        let border = u128::from(OBJECTS_OF_A_BORDER) * self.servers.len() as u128;
        let is_over =
            |load: u128, even: u128| load > even + (even * TOO_MUCH_PERCENT / 100).max(border);
        let (objects, with_requests) = self.load(self.here);
        let all = self.all_objects();
        is_over(objects, all) || is_over(with_requests, all + self.busy)
    }

    /// Whether the shard's server has so little that what is made in its directories is to be spread.
    fn is_at_the_top(&self) -> bool {
        let top = u128::from(OBJECTS_OF_THE_TOP) * self.servers.len() as u128;
        self.load(self.here).1 < top
    }

    /// The one in force.
    pub fn granularity(&self) -> Granularity {
        self.of_size(self.has_too_much())
    }

    fn of_size(&self, is_small: bool) -> Granularity {
        let Bounds { least, most } = self.bounds;
        let each = (self.all_objects() + self.busy) / self.servers.len().max(1) as u128;
        let file_width = u32::try_from(each / DIRECTORY_FRACTION).unwrap_or(u32::MAX);
        Granularity {
            file_width: file_width.clamp(least.file_width, most.file_width),
            ..if is_small { least } else { most }
        }
    }

    /// Bytes of what it knows of the servers, about: a B-tree's nodes are three quarters full.
    pub fn memory_bytes(&self) -> usize {
        self.servers.len() * size_of::<(ServerId, Known)>() * 4 / 3
    }

    /// Takes what servers have told. Of one that has told nothing that stays known which was; those that lead no shard have
    /// nothing to say, and what its own has this one knows better.
    pub fn hear(&mut self, map: &ClusterMap, told: &BTreeMap<ServerId, ServerLoad>) {
        let before = std::mem::replace(&mut self.servers, servers(map));
        let told = |server: &ServerId| told.get(server).copied();
        for (server, known) in &mut self.servers {
            known.objects = match (told(server), before.get(server)) {
                _ if *server == self.here => 0,
                (Some(load), _) => load.objects,
                (None, Some(before)) => before.objects,
                (None, None) => 0,
            };
        }
        let requests = |server: &ServerId| told(server).map_or(0, |load| load.requests);
        let all_requests = self.servers.keys().map(requests);
        let all_requests = all_requests.fold(0_u64, u64::saturating_add);
        self.add_up();
        let servers = self.servers.len() as u64;
        if all_requests >= REQUESTS_THAT_COUNT.saturating_mul(servers) {
            let objects = self.all_objects();
            for (server, known) in &mut self.servers {
                let product = objects.saturating_mul(u128::from(requests(server)));
                let busy = product / u128::from(all_requests);
                known.busy = u64::try_from(busy).unwrap_or(u64::MAX);
            }
            self.add_up();
        }
    }

    /// The server of another shard had so many objects when it sent a message.
    pub fn learn(&mut self, map: &ClusterMap, from: ShardId, objects: u64) {
        let server = map.server_of(from);
        if server == self.here {
            return;
        }
        if let Some(known) = self.servers.get_mut(&server) {
            // Not by adding up: there may be ten thousand servers, and this is for each message.
            self.objects -= u128::from(known.objects);
            self.objects += u128::from(objects);
            known.objects = objects;
        }
    }

    /// Returns the choice for the next directory or file; `random` is drawn by the caller. `near`:
    /// the shard of its parent's unit, if it is a directory.
    ///
    /// As long as this server has no more than its part, what is made here stays here, in units as large as can be, and a
    /// new unit begins here. Once it has too much units are as small as can be, and a new one begins on the less loaded
    /// of two shards that are drawn; and so it is with directories while it has hardly anything. Small as well is what
    /// a parent here has elsewhere: each of its children there is a border.
    pub fn placing(&self, map: &ClusterMap, random: u64, near: Option<ShardId>) -> Placing {
        let has_too_much = self.has_too_much();
        let is_first = near.is_some() && self.is_at_the_top();
        let is_away = near.is_some_and(|near| near != self.shard);
        let goes = |&less: &ShardId| {
            let server = map.server_of(less);
            // While all have hardly anything each is as good as any other; another shard of the same server is none.
            match is_first {
                true => server != self.here,
                false => self.load(server).1 < self.load(self.here).1,
            }
        };
        // Most of what is made stays, also where nothing adapts: no other server is looked at for that.
        let less = (is_first || has_too_much).then(|| self.less_loaded(map, random));
        Placing {
            granularity: self.of_size(has_too_much || is_first || is_away),
            shard: less.filter(goes).unwrap_or(self.shard),
        }
    }

    /// Of two shards drawn at random the one whose server has less. (Choosing the less loaded of two keeps the largest load
    /// near the mean where a single draw does not: Azar, Broder, Karlin and Upfal, "Balanced Allocations", 1994. And
    /// servers that know the same do not all give to the same one.)
    fn less_loaded(&self, map: &ClusterMap, random: u64) -> ShardId {
        let shards = u64::from(map.shard_count());
        let one = ShardId((random % shards) as u16);
        let other = ShardId(((random >> 32) % shards) as u16);
        if self.load(map.server_of(other)).1 < self.load(map.server_of(one)).1 {
            other
        } else {
            one
        }
    }
}

/// All that lead shards, of which nothing is known yet.
fn servers(map: &ClusterMap) -> BTreeMap<ServerId, Known> {
    // Not by `ClusterMap::server`, which looks through all of them: there may be ten thousand.
    let weights: HashMap<ServerId, u32> = map
        .servers
        .iter()
        .map(|server| (server.id, server.weight))
        .collect();
    let known = |server: ServerId| Known {
        objects: 0,
        busy: 0,
        weight: weights
            .get(&server)
            .map_or(1, |&weight| weight.max(1))
            .into(),
    };
    let leading = map.leading_servers().into_iter();
    leading.map(|server| (server, known(server))).collect()
}

#[cfg(test)]
mod tests;
