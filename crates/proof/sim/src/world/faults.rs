//! Faults: servers that die and start again, disks, clocks and clients.

use super::{Event, HEARS_WITHIN, Stop, World};
use crate::client::Client;
use crate::history::Key;
use crate::scenario::{End, Fault, Loss, MILLISECOND, Moment, Plant, SECOND};
use pandofs_check::ClusterDump;
use pandofs_types::limits::CLIENT_TICK;
use pandofs_types::{Ino, SessionId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl World {
    pub(super) fn fault_begins(&mut self, number: usize) {
        let fault = self.scenario.faults[number].clone();
        self.trace.line(self.now, || format!("{fault:?} begins"));
        match fault {
            Fault::Crash { server, steps, .. } => {
                let server = usize::from(server);
                // It has not joined yet.
                if server >= self.servers.len() || self.servers[server].process.is_none() {
                    return;
                }
                self.servers[server].log.die_after(steps);
                self.servers[server].dies_by = Some(number);
                if steps == 0 {
                    self.crash(server, "between two batches");
                }
            }
            Fault::Full {
                server,
                to_the_last,
                ..
            } => {
                let server = usize::from(server);
                self.servers[server].log.set_full(to_the_last);
                self.servers[server].is_low = true;
                self.tell_of_space(server);
            }
            Fault::Skew { server, by, .. } => self.servers[usize::from(server)].skew += by,
            Fault::Joins { .. } => self.join(number),
            Fault::ClientGone { client, .. } => self.client_gone(client, false),
            Fault::Stopped { client, end, .. } => {
                let session = self.clients[client].session;
                self.counted.stopped += 1;
                let stop = Stop {
                    session,
                    until: end,
                    hears_after: self.random.below(HEARS_WITHIN as u64) as Moment,
                };
                self.stopped.insert(client, stop);
            }
            Fault::Cut { .. } | Fault::Noise { .. } | Fault::Slow { .. } => {}
        }
    }

    pub(super) fn fault_ends(&mut self, number: usize) {
        match self.scenario.faults[number] {
            Fault::Full { server, .. } => self.has_room(usize::from(server)),
            Fault::Stopped { client, start, end } => {
                let stopped = self.stopped.remove(&client);
                let client = &mut self.clients[client];
                if self.scenario.plant == Some(Plant::StandsStill)
                    && stopped.is_some_and(|stop| stop.session == client.session)
                {
                    client.stood_still += end - start;
                }
            }
            _ => {}
        }
    }

    pub(super) fn has_room(&mut self, server: usize) {
        self.servers[server].log.set_full(false);
        self.servers[server].is_low = false;
        self.tell_of_space(server);
    }

    /// A server looks at its disk when something has changed.
    fn tell_of_space(&mut self, server: usize) {
        self.servers[server].look_at_disk();
        self.schedule(server);
    }

    /// A server has let go of a session, and closed its connections.
    pub(super) fn expired(&mut self, server: usize, session: SessionId) {
        self.trace.line(self.now, || {
            format!("server {server} lets go of session {session}")
        });
        self.counted.expired += 1;
        let known = self.servers[server].acquaintance(session);
        self.servers[server].expired(session);
        let clients = self.clients.iter();
        let Some(client) = clients.clone().position(|of| of.session == session) else {
            return;
        };
        self.counted.expired_alive += 1;
        self.clients[client].lapse();
        let ends = (End::Server(server as u16), End::Client(client));
        if !self.network.is_cut(self.now, ends.0, ends.1) {
            let cut_off = Event::CutOff {
                client,
                session,
                server,
                known,
            };
            self.put(self.now + MILLISECOND, cut_off);
        }
    }

    /// Clients of which each server that might have given their locks to others has told them.
    pub(super) fn sure_of_locks(&self) -> Vec<&Client> {
        let is_sure = |client: &&Client| {
            let mut servers = self.servers.iter().enumerate();
            !self.scenario.has_away()
                || servers.all(|(number, server)| {
                    client.is_registered_with(number, server.acquaintance(client.session))
                })
        };
        self.clients.iter().filter(is_sure).collect()
    }

    /// The client is gone, and says so, or servers notice after a while; another one takes its place.
    pub(super) fn client_gone(&mut self, client: usize, says_so: bool) {
        self.sessions += 1;
        let mut next = Client::new(client, self.sessions, &self.scenario, &self.file);
        next.now = self.now;
        next.known = self
            .servers
            .iter()
            .map(|server| server.acquaintance(next.session))
            .collect();
        let dead = &mut self.clients[client];
        next.take_queues(dead);
        let session = dead.session;
        self.counted.end_of(dead);
        self.clients[client] = next;
        self.history.died(session);
        if says_so {
            for server in 0..self.servers.len() {
                self.servers[server].goodbye(session);
                self.after(server);
            }
        }
        let first = self.now + CLIENT_TICK.as_nanos() as Moment;
        let session = self.clients[client].session;
        self.put(first, Event::Ping { client, session });
        self.listen_to_all(client);
        for worker in 0..self.scenario.shape.workers {
            let mut todo = Vec::new();
            self.clients[client].begin_next(&mut self.history, worker, &mut todo);
            self.carry_out(client, todo);
        }
    }

    /// A server dies as a fault has it.
    pub(super) fn crash(&mut self, server: usize, when: &str) {
        let number = self.servers[server].dies_by.take();
        let number = number.expect("a fault has it that the server dies");
        let Fault::Crash { loss, down, .. } = self.scenario.faults[number] else {
            unreachable!("servers die by crashes");
        };
        self.die(server, loss, when);
        let boot = self.servers[server].boot;
        self.put(self.now + down, Event::Start { server, boot });
    }

    pub(super) fn die(&mut self, server: usize, loss: Loss, when: &str) {
        self.counted.crash_of(&self.servers[server]);
        self.counted.crashes_in_joins += u64::from(self.is_joining());
        self.trace.line(self.now, || {
            format!("server {server} dies {when}: {loss:?}")
        });
        let is_lossy = loss != Loss::Nothing;
        if is_lossy {
            self.history.contents.lost();
            let entries = self.entries(server);
            self.unsynced.entry(server).or_default().extend(entries);
            let inodes = self.inodes(server);
            self.inodes.entry(server).or_default().extend(inodes);
        }
        let of = |client: &Client| self.servers[server].acquaintance(client.session);
        let known: Vec<_> = self.clients.iter().map(of).collect();
        let lost = self.servers[server].crash(loss, &mut self.random);
        // The system closes a process's connections; whether one has lost power is heard at its next start, or not at all.
        if !is_lossy || self.random.chance(1, 2) {
            for client in 0..self.clients.len() {
                let session = self.clients[client].session;
                let known = known[client];
                let cut_off = Event::CutOff {
                    client,
                    session,
                    server,
                    known,
                };
                let within = if is_lossy { SECOND } else { MILLISECOND };
                let pause = self.random.below(within as u64) as Moment;
                self.put(self.now + pause, cut_off);
            }
        }
        if is_lossy {
            self.lost.entry(server).or_default().extend(lost);
        }
    }

    /// Names on this server's shards, with the inodes that they lead to.
    pub(super) fn entries(&self, server: usize) -> BTreeMap<Key, Ino> {
        let dump = ClusterDump {
            map: (*self.map).clone(),
            shards: self.servers[server].pairs(),
            objects: BTreeMap::new(),
        };
        let tables = pandofs_check::Tables::decode(&dump, &mut Vec::new());
        let entries = tables.entries.iter();
        entries
            .map(|(key, entry)| ((key.dir, key.name.clone()), entry.ino))
            .collect()
    }

    /// Inodes on this server's shards.
    fn inodes(&self, server: usize) -> BTreeSet<Ino> {
        let dump = ClusterDump {
            map: (*self.map).clone(),
            shards: self.servers[server].pairs(),
            objects: BTreeMap::new(),
        };
        let tables = pandofs_check::Tables::decode(&dump, &mut Vec::new());
        tables.inodes.keys().map(|(_, ino)| *ino).collect()
    }

    pub(super) fn start(&mut self, server: usize) {
        let seed = self.scenario.seed;
        let now = self.now;
        let file = Arc::clone(&self.file);
        let done = self.servers[server].start(now, seed, &file);
        let boot = self.servers[server].boot;
        self.trace.line(now, || {
            format!("server {server} starts for the {boot}. time")
        });
        if let Err(what) = self.moments.survived(&self.servers[server]) {
            self.found.get_or_insert(what);
        }
        self.forget(server);
        self.tell_of_space(server);
        self.put(now, Event::Tick { server, boot });
        self.survive(server, done);
        self.after(server);
    }

    /// Tells the history which names may have lost what had been done to them.
    pub(super) fn forget(&mut self, server: usize) {
        let Some(before) = self.unsynced.remove(&server) else {
            return;
        };
        let left = self.inodes(server);
        if let Some(before) = self.inodes.get(&server) {
            for ino in before.union(&left) {
                self.history.forget_attributes(*ino);
            }
        }
        for ino in self.inodes.remove(&server).unwrap_or_default() {
            if !left.contains(&ino) {
                self.history.forget_inode(ino);
            }
        }
        let after = self.entries(server);
        let mut changed = self.lost.remove(&server).unwrap_or_default();
        for (key, ino) in &before {
            if after.get(key) != Some(ino) {
                changed.insert(key.clone());
            }
        }
        changed.extend(
            after
                .keys()
                .filter(|key| !before.contains_key(*key))
                .cloned(),
        );
        for key in changed {
            self.history.forget(key);
        }
        self.moments.forget();
    }
}
