//! Newer cluster maps: servers that join, and who hears of the map when.

use super::{Event, FLUSH_COST, World};
use crate::scenario::{AFTERWARDS, End, Fault, MILLISECOND, Moment, SECOND};
use crate::server::Server;
use pandofs_types::ServerId;
use std::sync::Arc;

/// Within so long the administrator has told all servers of a map that are to be told.
const ANNOUNCEMENT: Moment = SECOND;
/// Most time that a server takes to look for a newer map.
const LOOK_COST: Moment = 20 * MILLISECOND;

impl World {
    pub(super) fn join(&mut self, number: usize) {
        let Fault::Joins {
            weight,
            starts,
            told,
            is_in_file,
            ..
        } = self.scenario.faults[number]
        else {
            unreachable!("servers join by faults of that kind");
        };
        self.counted.joins += 1;
        self.map = Arc::new(self.scenario.next_map(&self.map, weight));
        if is_in_file {
            self.file = Arc::clone(&self.map);
        }
        let joined = self.servers.len();
        let id = ServerId(joined as u16);
        self.servers
            .push(Server::create(id, &self.map, &self.scenario));
        let server = joined;
        self.put(self.now + starts, Event::Start { server, boot: 0 });
        for server in 0..joined {
            let within = self.random.below(ANNOUNCEMENT as u64) as Moment;
            if told & 1 << server != 0 {
                self.put(self.now + starts + within, Event::Announce { server });
            }
        }
    }

    /// The administrator sees to it that everybody can know of the newest map.
    pub(super) fn announce_to_all(&mut self) {
        if self.counted.joins > 0 {
            self.file = Arc::clone(&self.map);
            for server in 0..self.servers.len() {
                self.put(self.now + MILLISECOND, Event::Announce { server });
            }
            let pause = AFTERWARDS - MILLISECOND;
            self.put(self.now + pause, Event::Afterwards);
        }
    }

    /// A server hears of a map that is perhaps newer than its own.
    pub(super) fn look_for_map(&mut self, server: usize) {
        if self.servers[server].looks_for_map(self.now) {
            let cost = self.random.below(LOOK_COST as u64) as Moment;
            let at = self.now + cost * self.slowness(server);
            let boot = self.servers[server].boot;
            self.put(at, Event::LookForMap { server, boot });
        }
    }

    /// The newest map in the file, or else at the servers that the server knows and can reach.
    pub(super) fn find_map(&mut self, server: usize) {
        let Some(own) = self.servers[server].map().cloned() else {
            return;
        };
        let mut best = Arc::clone(&self.file);
        if best.epoch <= own.epoch {
            for other in 0..own.servers.len() {
                let ends = [server, other].map(|end| End::Server(end as u16));
                let asks = !self.network.send(self.now, ends[0], ends[1]).is_empty();
                let hears = !self.network.send(self.now, ends[1], ends[0]).is_empty();
                let map = self.servers[other].map().filter(|_| asks && hears);
                if let Some(map) = map.filter(|map| map.epoch > best.epoch) {
                    best = Arc::clone(map);
                }
            }
        }
        if best.epoch > own.epoch {
            self.servers[server].offer_map(&best);
            self.schedule(server);
        }
    }

    /// After a batch.
    pub(super) fn take_up_map(&mut self, server: usize) {
        match self.servers[server].take_up_map() {
            Ok(false) => {}
            Ok(true) => {
                self.counted.maps_taken += 1;
                let epoch = self.servers[server].map().map(|map| map.epoch);
                self.trace.line(self.now, || {
                    format!("server {server} takes up map {epoch:?}")
                });
                let cost = FLUSH_COST * self.slowness(server);
                if let Some(process) = &mut self.servers[server].process {
                    process.busy_until += cost;
                }
            }
            Err(death) => self.survive(server, Err(death)),
        }
    }

    /// Whether somebody goes by an older map than the newest.
    pub(super) fn is_joining(&self) -> bool {
        let epoch = self.map.epoch;
        self.servers.iter().any(|server| server.is_before(epoch))
    }

    /// From here on the newest map says where things are made.
    pub(super) fn afterwards(&mut self) {
        let all_run = self.servers.iter().all(|server| server.process.is_some());
        if all_run && !self.is_joining() {
            let dump = self.dump();
            self.moments.all_go_by_newest(&dump);
        }
    }
}
