//! One directory that grows, and clients that do not know how far it has.
//!
//! Maps, slots, splits and merging of maps are the production code's, and which name a partition
//! holds follows from the production hash. A server has a processor, a disk and caches as in
//! [`crate::engine`]. A partition that splits is locked until both servers have what moved in their
//! logs: what is asked of it waits (GIGA+, "Prototype implementation": "locally locking the
//! particular directory partition ... before releasing the lock").

use crate::cache::{Disk, Records};
use crate::cluster;
use crate::costs::{Costs, ns};
use crate::engine::{Log, Server};
use pandofs_placement::{DirMap, PartitionIndex, default_max_partitions, slot_array};
use pandofs_types::{HashKey, Position, ShardId};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Ways in which clients that were wrong find out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learning {
    /// From the server that they asked, which knows what its own partitions split off (GIGA+).
    FromAsked,
    /// From the directory's home, which hears of every split (OrangeFS).
    FromHome,
    /// From the server that they asked, and from the home if that did not help (PandoFS).
    Both,
}

/// Setting of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// Each of which leads one shard.
    pub servers: usize,
    /// Clients with a map of their own.
    pub clients: usize,
    /// Requests that a client has under way at a time.
    pub outstanding: usize,
    /// Made in the directory by all clients together.
    pub files: u64,
    /// Entries of a partition before it splits.
    pub threshold: u32,
    /// Partitions that the directory has from the start; 0 for as many as it may have.
    pub initial: u32,
    /// Partitions that it may have; as the production code has it if none.
    pub most: Option<u32>,
    /// How clients come to know of splits.
    pub learning: Learning,
    /// Whether each creation and removal is forced to the disk before it is answered.
    pub forced: bool,
    /// Whether the files are removed again.
    pub removing: bool,
    /// Times of processor, network and disk.
    pub costs: Costs,
    /// Of names and of the order of events.
    pub seed: u64,
}

/// Results of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Growth {
    /// Files a second.
    pub create_rate: f64,
    /// Files a second; 0 if none were removed.
    pub remove_rate: f64,
    /// From clients to servers, those that went wrong included.
    pub requests: u64,
    /// Requests that came to a server that does not have the name.
    pub misdirected: u64,
    /// The same in the second half of the removal, when the directory has not split for long.
    pub misdirected_late: u64,
    /// Questions to the home.
    pub asked_home: u64,
    /// Most times that one request was sent to a server that was taken to have the name.
    pub most_probes: u32,
    /// Active ones at the end of the creations.
    pub partitions: u32,
    /// Partitions made during the run.
    pub splits: u64,
    /// Entries that splits took to another server.
    pub moved: u64,
    /// Forced writes of all servers' logs, for splits and for what clients do.
    pub forced_writes: u64,
    /// Work of the disk for what did not fit the caches.
    pub disk: Disk,
    /// Entries of the server that has most, over the mean.
    pub imbalance: f64,
}

impl Growth {
    /// Requests for each operation, questions to the home included.
    pub fn probes(&self) -> f64 {
        let operations = self.requests - self.misdirected;
        (self.requests + self.asked_home) as f64 / operations as f64
    }
}

/// A directory on its servers.
struct Directory {
    map: DirMap,
    /// The files of each partition, by number.
    files: Vec<Vec<u32>>,
    /// Of each partition that is being split the requests that wait for it.
    waiting: Vec<Option<Vec<u32>>>,
    /// The server of each slot.
    server: Vec<u16>,
    /// The map as each server knows it.
    known: Vec<DirMap>,
    servers: Vec<Server>,
    /// Entries in the servers' caches; inodes are with them and come and go alike.
    entries: Records,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A client's request is sent out.
    Send,
    /// It arrives at the server that has this partition, as the client believes.
    Arrive(u32),
    /// The client hears that it was wrong, with what the server knows.
    Misdirected(u16),
    /// The client has the home's answer.
    Learnt,
    /// A partition's first half is over; the child is there.
    Split(u32),
    /// The home hears of a partition.
    Told(u32),
    /// A client's question arrives at the home.
    Ask,
}

/// A client's request that is under way.
#[derive(Clone, Debug)]
struct Request {
    client: u32,
    number: u32,
    position: Position,
    probes: u32,
    /// A map that comes with an answer.
    map: Option<DirMap>,
}

struct Run {
    setting: Setting,
    directory: Directory,
    clients: Vec<DirMap>,
    requests: Vec<Request>,
    events: BinaryHeap<Reverse<(u64, u64, Event, u32)>>,
    sequence: u64,
    left: u64,
    number: u32,
    removing: bool,
    growth: Growth,
    end: u64,
}

/// Creates all files in one directory, then removes them in the same order.
///
/// # Panics
/// When there are more files than a `u32` counts.
pub fn grow(setting: &Setting) -> Growth {
    let cluster = cluster::map(setting.servers);
    let most = setting
        .most
        .unwrap_or_else(|| default_max_partitions(&cluster));
    let slots = slot_array(&cluster, ShardId(0), most, setting.seed);
    let server = slots
        .iter()
        .map(|&shard| cluster.server_of(shard).0)
        .collect();
    let initial = match setting.initial {
        0 => most,
        some => some.min(most),
    };
    assert!(
        u32::try_from(setting.files).is_ok(),
        "{} files",
        setting.files
    );
    let map = DirMap::with_slots(slots, initial);
    let costs = setting.costs;
    let mut entries = Records::new(setting.servers, costs.cached, costs.per_block);
    entries.reserve(setting.files as usize);
    let mut run = Run {
        setting: *setting,
        clients: vec![map.clone(); setting.clients],
        directory: Directory {
            files: vec![Vec::new(); most as usize],
            waiting: vec![None; most as usize],
            server,
            known: vec![map.clone(); setting.servers],
            servers: vec![Server::default(); setting.servers],
            entries,
            map,
        },
        requests: Vec::new(),
        events: BinaryHeap::new(),
        sequence: 0,
        left: 0,
        number: 0,
        removing: false,
        growth: Growth::default(),
        end: 0,
    };
    run.growth.create_rate = run.phase(false);
    let by_server = run.directory.by_server(setting.servers);
    run.growth.imbalance = crate::place::over_mean(&by_server);
    run.growth.partitions = run.directory.map.active_count();
    if setting.removing {
        run.growth.remove_rate = run.phase(true);
    }
    run.growth
}

impl Directory {
    fn by_server(&self, servers: usize) -> Vec<u64> {
        let mut of_all = vec![0; servers];
        for index in self.map.active() {
            let at = index.0 as usize;
            of_all[usize::from(self.server[at])] += self.files[at].len() as u64;
        }
        of_all
    }

    fn home(&self) -> usize {
        usize::from(self.server[0])
    }

    fn server_of(&self, index: PartitionIndex) -> usize {
        usize::from(self.server[index.0 as usize])
    }
}

impl Run {
    /// Operations a second.
    fn phase(&mut self, removing: bool) -> f64 {
        self.removing = removing;
        self.left = self.setting.files;
        self.number = 0;
        self.end = 0;
        self.directory.servers.fill(Server::default());
        self.requests.clear();
        for number in 0..self.setting.clients * self.setting.outstanding {
            self.requests.push(Request {
                client: (number % self.setting.clients) as u32,
                number: 0,
                position: Position::FIRST,
                probes: 0,
                map: None,
            });
            // Not all at the very same time.
            self.next(number as u64 * 100, number as u32);
        }
        while let Some(Reverse((time, _, event, whose))) = self.events.pop() {
            self.step(time, event, whose);
        }
        self.setting.files as f64 * 1e9 / self.end as f64
    }

    fn at(&mut self, time: u64, event: Event, whose: u32) {
        self.sequence += 1;
        self.events
            .push(Reverse((time, self.sequence, event, whose)));
    }

    fn position(&self, number: u32) -> Position {
        HashKey(self.setting.seed, 7).position(&u64::from(number).to_be_bytes())
    }

    /// The next operation of this request's client, if there is one left.
    fn next(&mut self, time: u64, whose: u32) {
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        let number = self.number;
        self.number += 1;
        let position = self.position(number);
        let request = &mut self.requests[whose as usize];
        (request.number, request.position) = (number, position);
        request.probes = 0;
        self.at(time, Event::Send, whose);
    }

    fn step(&mut self, time: u64, event: Event, whose: u32) {
        let network = ns(self.setting.costs.network_us);
        match event {
            Event::Send => {
                let request = &mut self.requests[whose as usize];
                let map = &self.clients[request.client as usize];
                let index = map.partition_of(request.position);
                request.probes += 1;
                self.growth.most_probes = self.growth.most_probes.max(request.probes);
                self.at(time + network, Event::Arrive(index.0), whose);
            }
            Event::Arrive(believed) => {
                self.growth.requests += 1;
                let server = self.directory.server_of(PartitionIndex(believed));
                self.arrive(time, server, whose);
            }
            Event::Misdirected(server) => self.misdirected(time, usize::from(server), whose),
            Event::Learnt => {
                let request = &mut self.requests[whose as usize];
                if let Some(map) = request.map.take() {
                    self.clients[request.client as usize].merge(&map);
                }
                self.at(time, Event::Send, whose);
            }
            Event::Split(child) => self.has_split(time, PartitionIndex(whose), child),
            Event::Told(index) => {
                let home = self.directory.home();
                self.directory.known[home].activate(PartitionIndex(index));
            }
            Event::Ask => {
                let home = self.directory.home();
                let message_us = self.setting.costs.message_us;
                let done = self.visit(time, home, message_us, Disk::default(), Log::No);
                self.requests[whose as usize].map = Some(self.directory.known[home].clone());
                self.at(done + network, Event::Learnt, whose);
            }
        }
    }

    /// A request is at a server.
    fn arrive(&mut self, time: u64, server: usize, whose: u32) {
        let costs = self.setting.costs;
        let network = ns(costs.network_us);
        let (number, position) = {
            let request = &self.requests[whose as usize];
            (request.number, request.position)
        };
        let index = self.directory.map.partition_of(position);
        let at = index.0 as usize;
        if self.directory.server_of(index) != server {
            self.growth.misdirected += 1;
            if self.removing && self.left < self.setting.files / 2 {
                self.growth.misdirected_late += 1;
            }
            let done = self.visit(time, server, costs.message_us, Disk::default(), Log::No);
            let known = &self.directory.known[server];
            self.requests[whose as usize].map = Some(known.clone());
            self.at(done + network, Event::Misdirected(server as u16), whose);
            return;
        }
        if let Some(waiting) = &mut self.directory.waiting[at] {
            waiting.push(whose);
            return;
        }
        let entries = &mut self.directory.entries;
        let disk = if self.removing {
            entries.remove(server, number)
        } else {
            self.directory.files[at].push(number);
            entries.make(server, number)
        };
        let log = if self.setting.forced {
            Log::Forced
        } else {
            Log::Written
        };
        // The entry's and its inode's.
        let done = self.visit(time, server, costs.request_us, disk.and(disk), log);
        if !self.removing && self.directory.files[at].len() > self.setting.threshold as usize {
            self.split(done, index);
        }
        self.end = self.end.max(done + network);
        self.next(done + network + ns(costs.client_us), whose);
    }

    /// This server answered the client that it does not have the name.
    fn misdirected(&mut self, time: u64, server: usize, whose: u32) {
        let network = ns(self.setting.costs.network_us);
        let request = &mut self.requests[whose as usize];
        let map = &mut self.clients[request.client as usize];
        let told = request.map.take();
        let learnt = self.setting.learning != Learning::FromHome
            && told.is_some_and(|told| map.merge(&told));
        let elsewhere = map.partition_of(request.position);
        let ask = match self.setting.learning {
            Learning::FromAsked => false,
            Learning::FromHome => true,
            // Another request of this client may have learnt it meanwhile.
            Learning::Both => !learnt && self.directory.server_of(elsewhere) == server,
        };
        if ask {
            self.growth.asked_home += 1;
            self.at(time + network, Event::Ask, whose);
        } else {
            self.at(time, Event::Send, whose);
        }
    }

    /// A partition begins to split, if it may: half of it moves, as a distributed operation that
    /// forces both logs twice.
    fn split(&mut self, time: u64, index: PartitionIndex) {
        let most = self.directory.files.len() as u32;
        let Some(child) = self.directory.map.split_child(index, most) else {
            return;
        };
        let at = index.0 as usize;
        let source = self.directory.server_of(index);
        let target = self.directory.server_of(child);
        let mut after = self.directory.map.clone();
        after.activate(child);
        let all = std::mem::take(&mut self.directory.files[at]);
        let (moving, staying): (Vec<u32>, Vec<u32>) = all
            .into_iter()
            .partition(|&number| after.partition_of(self.position(number)) == child);
        let costs = self.setting.costs;
        let (mut out, mut into) = (Disk::default(), Disk::default());
        if source != target {
            for &number in &moving {
                out = out.and(self.directory.entries.remove(source, number));
                into = into.and(self.directory.entries.make(target, number));
            }
        }
        self.growth.splits += 1;
        self.growth.moved += moving.len() as u64;
        let copying = moving.len() as f64 * costs.moved_us;
        self.directory.files[at] = staying;
        self.directory.files[child.0 as usize] = moving;
        self.directory.waiting[at] = Some(Vec::new());
        let mut done = self.visit(time, source, copying, out.and(out), Log::Forced);
        if source != target {
            let network = ns(costs.network_us);
            done = self.visit(done + network, target, copying, into.and(into), Log::Forced);
            let none = Disk::default();
            done = self.visit(done + network, source, costs.message_us, none, Log::Forced);
            // No client waits for the end.
            self.visit(done + network, target, costs.message_us, none, Log::Forced);
        }
        self.at(done, Event::Split(child.0), index.0);
    }

    /// The child has its entries: names go there, and what waited is looked at again.
    fn has_split(&mut self, time: u64, index: PartitionIndex, child: u32) {
        let child = PartitionIndex(child);
        self.directory.map.activate(child);
        let source = self.directory.server_of(index);
        let target = self.directory.server_of(child);
        self.directory.known[source].activate(child);
        let told = self.directory.known[source].clone();
        self.directory.known[target].merge(&told);
        if self.setting.learning != Learning::FromAsked {
            let network = ns(self.setting.costs.network_us);
            self.at(time + network, Event::Told(child.0), 0);
        }
        let waited = self.directory.waiting[index.0 as usize].take();
        for whose in waited.into_iter().flatten() {
            self.arrive(time, source, whose);
        }
    }

    /// A visit to a server; when it is over.
    fn visit(&mut self, arrives: u64, server: usize, work_us: f64, disk: Disk, log: Log) -> u64 {
        let costs = self.setting.costs;
        let here = &mut self.directory.servers[server];
        let visit = here.visit(costs, arrives, work_us, disk, log);
        self.growth.forced_writes += u64::from(visit.is_forced);
        self.growth.disk = self.growth.disk.and(disk);
        visit.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting() -> Setting {
        Setting {
            servers: 8,
            clients: 8,
            outstanding: 4,
            files: 40_000,
            threshold: 500,
            initial: 1,
            most: None,
            learning: Learning::Both,
            forced: false,
            removing: true,
            costs: Costs::PAPER,
            seed: 1,
        }
    }

    #[test]
    fn a_directory_grows_over_all_servers() {
        let growth = grow(&setting());
        assert_eq!((growth.partitions, growth.splits), (8, 7));
        assert_eq!(growth.misdirected_late, 0);
        assert!(growth.imbalance < 1.05, "{}", growth.imbalance);
        assert!(growth.moved >= 7 * 200, "{}", growth.moved);
        assert_eq!(growth, grow(&setting()));
    }

    #[test]
    fn with_all_partitions_from_the_start_nobody_is_wrong() {
        let growth = grow(&Setting {
            initial: 0,
            ..setting()
        });
        assert_eq!((growth.misdirected, growth.splits), (0, 0));
        assert_eq!(growth.probes(), 1.0);
        assert_eq!(growth.most_probes, 1);
    }

    #[test]
    fn who_asks_the_home_is_right_the_next_time_once_it_knows() {
        let growth = grow(&Setting {
            learning: Learning::FromHome,
            ..setting()
        });
        assert!(growth.misdirected > 0);
        assert_eq!(growth.misdirected, growth.asked_home);
        assert!(growth.most_probes <= 3, "{}", growth.most_probes);
    }

    #[test]
    fn a_split_forces_both_logs_twice_and_keeps_its_partition_waiting() {
        let growth = grow(&setting());
        assert_eq!(growth.forced_writes, 4 * growth.splits);
        let disk_is_free = Costs {
            force_us: 0.0,
            ..Costs::PAPER
        };
        let free = grow(&Setting {
            costs: disk_is_free,
            ..setting()
        });
        assert!(free.create_rate > growth.create_rate);
        assert_eq!(free.remove_rate, growth.remove_rate);
    }

    #[test]
    fn what_is_forced_waits_for_the_disk_together_with_group_commit() {
        let forced = |group_commit| {
            grow(&Setting {
                forced: true,
                files: 4_000,
                threshold: 100_000,
                costs: Costs {
                    group_commit,
                    ..Costs::PAPER
                },
                ..setting()
            })
        };
        let (alone, together) = (forced(false), forced(true));
        assert_eq!(alone.forced_writes, 8_000);
        // One server, 3 ms each.
        assert!(alone.create_rate < 334.0, "{}", alone.create_rate);
        assert!(together.create_rate > 5.0 * alone.create_rate);
    }

    #[test]
    fn what_does_not_fit_the_caches_is_written_and_read_again() {
        let cached = |cached| {
            let costs = Costs {
                cached,
                ..Costs::PAPER
            };
            grow(&Setting { costs, ..setting() })
        };
        assert_eq!(cached(10_000).disk, Disk::default());
        let small = cached(1_000);
        assert!(small.disk.block_reads > 0 && small.disk.block_writes > 0);
        assert!(small.remove_rate < 0.5 * cached(10_000).remove_rate);
    }
}
