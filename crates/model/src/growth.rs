//! One directory that grows, and clients that do not know how far it has.
//!
//! Maps, slots, splits and merging of maps are the production code's; which name a partition holds follows
//! from the production hash. What half of a partition moves in a split is drawn bit by bit, which is what a
//! hash does.

use crate::cluster;
use crate::costs::{Costs, ns};
use crate::rng::Rng;
use pandofs_placement::{DirMap, PartitionIndex, default_max_partitions, slot_array};
use pandofs_types::{HashKey, Position, ShardId};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// How clients that were wrong find out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learning {
    /// From the server that they asked, which knows what its own partitions split off (GIGA+).
    FromAsked,
    /// From the directory's home, which is told of every split (OrangeFS).
    FromHome,
    /// From the server that they asked, and from the home if that did not help (PandoFS).
    Both,
}

/// What is to be run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    pub servers: usize,
    /// Clients with a map of their own.
    pub clients: usize,
    /// Requests that a client has under way at a time.
    pub outstanding: usize,
    pub files: u64,
    /// Entries of a partition before it splits.
    pub threshold: u32,
    /// Partitions that the directory has from the start; 0 for as many as it may have.
    pub initial: u32,
    /// Partitions that it may have; as the production code has it if none.
    pub most: Option<u32>,
    pub learning: Learning,
    /// Whether the files are removed again.
    pub removing: bool,
    pub costs: Costs,
    pub seed: u64,
}

/// Microseconds of both servers' processors for an entry that moves in a split.
const MOVED_US: f64 = 2.0;

/// What it came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Growth {
    pub create_rate: f64,
    pub remove_rate: f64,
    pub requests: u64,
    /// Requests that came to a server that does not have the name.
    pub misdirected: u64,
    /// The same in the second half of the removal, when the directory has not split for long.
    pub misdirected_late: u64,
    /// Questions to the home.
    pub asked_home: u64,
    /// Most times that one request was sent to a server that was taken to have the name.
    pub most_probes: u32,
    pub partitions: u32,
    pub splits: u64,
    pub moved: u64,
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
    /// Names in each partition.
    entries: Vec<u32>,
    /// The server of each slot.
    server: Vec<u16>,
    /// What each server knows of the map.
    known: Vec<DirMap>,
    /// When the servers' processors are free, in nanoseconds.
    free: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A client's request is sent out.
    Send,
    /// It arrives at the server that has this partition, as the client believes.
    Arrive(u32),
    /// The home hears of a partition.
    Told(u32),
    /// A client's question arrives at the home.
    Ask,
}

/// A client's request that is under way.
#[derive(Clone, Copy, Debug)]
struct Request {
    client: u32,
    position: Position,
    probes: u32,
}

struct Run {
    setting: Setting,
    directory: Directory,
    clients: Vec<DirMap>,
    requests: Vec<Request>,
    events: BinaryHeap<Reverse<(u64, u64, Event, u32)>>,
    sequence: u64,
    left: u64,
    number: u64,
    removing: bool,
    rng: Rng,
    growth: Growth,
    end: u64,
}

/// Creates all files in one directory, then removes them in the same order.
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
    let map = DirMap::with_slots(slots, initial);
    let mut run = Run {
        setting: *setting,
        clients: vec![map.clone(); setting.clients],
        directory: Directory {
            entries: vec![0; most as usize],
            server,
            known: vec![map.clone(); setting.servers],
            free: vec![0; setting.servers],
            map,
        },
        requests: Vec::new(),
        events: BinaryHeap::new(),
        sequence: 0,
        left: 0,
        number: 0,
        removing: false,
        rng: Rng::new(setting.seed, 0x9160),
        growth: Growth::default(),
        end: 0,
    };
    run.growth.create_rate = run.phase(false);
    let entries = run.directory.by_server(setting.servers);
    run.growth.imbalance = crate::place::over_mean(&entries);
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
            of_all[usize::from(self.server[at])] += u64::from(self.entries[at]);
        }
        of_all
    }
}

impl Run {
    /// Operations a second.
    fn phase(&mut self, removing: bool) -> f64 {
        self.removing = removing;
        self.left = self.setting.files;
        self.number = 0;
        self.end = 0;
        self.directory.free.fill(0);
        self.requests.clear();
        for number in 0..self.setting.clients * self.setting.outstanding {
            self.requests.push(Request {
                client: (number % self.setting.clients) as u32,
                position: Position::FIRST,
                probes: 0,
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

    /// The next operation of this request's client, if there is one left.
    fn next(&mut self, time: u64, whose: u32) {
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        let name = self.number.to_be_bytes();
        self.number += 1;
        let request = &mut self.requests[whose as usize];
        request.position = HashKey(self.setting.seed, 7).position(&name);
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
            Event::Arrive(believed) => self.arrive(time, PartitionIndex(believed), whose),
            Event::Told(index) => {
                let home = usize::from(self.directory.server[0]);
                self.directory.known[home].activate(PartitionIndex(index));
            }
            Event::Ask => {
                let home = usize::from(self.directory.server[0]);
                let done = self.work(time, home, self.setting.costs.message_us);
                let client = self.requests[whose as usize].client as usize;
                self.clients[client].merge(&self.directory.known[home]);
                self.at(done + network, Event::Send, whose);
            }
        }
    }

    fn arrive(&mut self, time: u64, believed: PartitionIndex, whose: u32) {
        let costs = self.setting.costs;
        let network = ns(costs.network_us);
        self.growth.requests += 1;
        let request = self.requests[whose as usize];
        let index = self.directory.map.partition_of(request.position);
        let server = usize::from(self.directory.server[believed.0 as usize]);
        if usize::from(self.directory.server[index.0 as usize]) != server {
            self.growth.misdirected += 1;
            if self.removing && self.left < self.setting.files / 2 {
                self.growth.misdirected_late += 1;
            }
            let done = self.work(time, server, costs.message_us);
            let learnt = self.setting.learning != Learning::FromHome
                && self.clients[request.client as usize].merge(&self.directory.known[server]);
            let elsewhere = self.clients[request.client as usize].partition_of(request.position);
            let knows_better = self.directory.server[elsewhere.0 as usize] as usize != server;
            let ask = match self.setting.learning {
                Learning::FromAsked => false,
                Learning::FromHome => true,
                Learning::Both => !learnt && !knows_better,
            };
            if ask {
                self.growth.asked_home += 1;
                self.at(done + 2 * network, Event::Ask, whose);
            } else {
                self.at(done + network, Event::Send, whose);
            }
            return;
        }
        let done = self.work(time, server, costs.request_us + costs.log_us);
        let entries = &mut self.directory.entries[index.0 as usize];
        if self.removing {
            *entries -= 1;
        } else {
            *entries += 1;
            if *entries > self.setting.threshold {
                self.split(done, index);
            }
        }
        self.end = self.end.max(done + network);
        self.next(done + network + ns(costs.client_us), whose);
    }

    fn split(&mut self, time: u64, index: PartitionIndex) {
        let most = self.directory.entries.len() as u32;
        let Some(child) = self.directory.map.split_child(index, most) else {
            return;
        };
        let moved = half(self.directory.entries[index.0 as usize], &mut self.rng);
        self.directory.entries[index.0 as usize] -= moved;
        self.directory.entries[child.0 as usize] += moved;
        self.directory.map.activate(child);
        self.growth.splits += 1;
        self.growth.moved += u64::from(moved);
        let source = usize::from(self.directory.server[index.0 as usize]);
        let target = usize::from(self.directory.server[child.0 as usize]);
        let copying = f64::from(moved) * MOVED_US;
        self.work(time, source, copying);
        self.work(time, target, copying);
        self.directory.known[source].activate(child);
        let told = self.directory.known[source].clone();
        self.directory.known[target].merge(&told);
        if self.setting.learning != Learning::FromAsked {
            let network = ns(self.setting.costs.network_us);
            self.at(time + network, Event::Told(child.0), 0);
        }
    }

    /// The server's processor works so long; when it is done.
    fn work(&mut self, from: u64, server: usize, us: f64) -> u64 {
        let free = &mut self.directory.free[server];
        *free = (*free).max(from) + ns(us);
        *free
    }
}

/// How many of so many names have a 1 in the next radix bit.
fn half(names: u32, rng: &mut Rng) -> u32 {
    let mut ones = (0..names / 64).map(|_| rng.next_u64().count_ones()).sum();
    let rest = names % 64;
    if rest > 0 {
        ones += (rng.next_u64() >> (64 - rest)).count_ones();
    }
    ones
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
    fn half_is_about_half() {
        let mut rng = Rng::new(1, 1);
        let sum: u32 = (0..100).map(|_| half(1_000, &mut rng)).sum();
        assert!((48_000..52_000).contains(&sum), "{sum}");
        assert_eq!(half(0, &mut rng), 0);
    }
}
