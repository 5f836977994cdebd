//! Placement of a name space with the production code.

use crate::cluster;
use crate::costs::Costs;
use crate::rng::Rng;
use crate::space::{Object, ROOT, Space};
use pandofs_placement::{
    ClusterMap, DirBounds, DirPolicy, Drawn, FileBounds, FilePolicy, GrainState, RecentRequests,
    ServerLoad, objects, place_directory, place_file, place_new_directory, place_new_file,
};
use pandofs_types::{ServerId, ShardId};
use std::collections::BTreeMap;

/// In place of a server: of what is not placed yet.
const NOWHERE: u16 = u16::MAX;

/// The one of the root directory.
const ROOT_SHARD: ShardId = ShardId(0);

/// Policies that place objects. Each server leads one shard, as in the paper.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Policy {
    /// ⟨dir_depth, dir_width, file_width⟩ with the transitions of the paper's figure 2.
    Ddg {
        /// Levels of directories in one unit.
        dir_depth: u32,
        /// Subdirectories of one directory in its unit.
        dir_width: u32,
        /// Files of one directory that are kept together.
        file_width: u32,
    },
    /// The same, but the files of a directory begin where the directory is.
    DdgOwnFiles {
        /// Levels of directories in one unit.
        dir_depth: u32,
        /// Subdirectories of one directory in its unit.
        dir_width: u32,
        /// Files of one directory that are kept together.
        file_width: u32,
    },
    /// The paper's first baseline: the server that has a directory gives what is made in it to all
    /// servers in turn.
    Random,
    /// The paper's second: the server that has the root gives what is made there to all servers in
    /// turn, all else is with its parent.
    Subtree,
    /// The policy of a running system with these settings.
    Running {
        /// The setting for directories.
        directories: DirPolicy,
        /// The setting for files.
        files: FilePolicy,
    },
}

impl Policy {
    /// Directories and files by what the name space and the load make of it.
    pub fn adaptive() -> Policy {
        Policy::Running {
            directories: DirPolicy::Adaptive(DirBounds::default()),
            files: FilePolicy::Adaptive(FileBounds::default()),
        }
    }

    /// As it stands in tables, with the numbers.
    pub fn name(self) -> String {
        match self {
            Policy::Ddg {
                dir_depth,
                dir_width,
                file_width,
            } => format!("ddg-{dir_depth}-{dir_width}-{file_width}"),
            Policy::DdgOwnFiles {
                dir_depth,
                dir_width,
                file_width,
            } => format!("own-{dir_depth}-{dir_width}-{file_width}"),
            Policy::Random => "random".to_owned(),
            Policy::Subtree => "subtree".to_owned(),
            Policy::Running { directories, .. } => name(directories),
        }
    }

    /// Returns whether anything is placed by what servers tell each other.
    pub fn adapts(self) -> bool {
        match self {
            Policy::Running { directories, files } => {
                matches!(directories, DirPolicy::Adaptive(_))
                    || matches!(files, FilePolicy::Adaptive(_))
            }
            _ => false,
        }
    }
}

/// A running system's policy.
pub(crate) fn name(directories: DirPolicy) -> String {
    match directories {
        DirPolicy::Ddg {
            dir_depth,
            dir_width,
        } => format!("ddg({dir_depth},{dir_width})"),
        DirPolicy::Random => "random".to_owned(),
        DirPolicy::Subtree => "subtree".to_owned(),
        DirPolicy::CrushPath => "crush-path".to_owned(),
        DirPolicy::Adaptive(_) => "adaptive".to_owned(),
    }
}

/// Places of objects, and what directories remember for the place of the next one.
#[derive(Clone, Debug)]
pub struct Placer {
    policy: Policy,
    servers: usize,
    rng: Rng,
    /// The server of each object that is placed.
    pub server: Vec<u16>,
    grain: Vec<GrainState>,
    /// Objects of each server.
    pub objects: Vec<u64>,
    /// The same as running servers count them, which place by it.
    held: Vec<u64>,
    /// The server that each one gives the next object to, where they do it in turn.
    turns: Vec<u16>,
    running: Running,
}

/// When servers tell each other what they have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tellings {
    /// Each time that so many objects were made: where it is not known how long that takes.
    Objects(u64),
    /// Each time that so many nanoseconds of the modelled time have passed.
    Nanoseconds(u64),
}

/// Knowledge of running servers about each other.
#[derive(Clone, Debug)]
struct Running {
    map: ClusterMap,
    /// Each server's own.
    placers: Vec<pandofs_placement::Placer>,
    /// Loads in the last message to each server.
    told: BTreeMap<ServerId, ServerLoad>,
    tellings: Tellings,
    /// Requests to each server ever, and of late.
    requests: Vec<(u64, RecentRequests)>,
    placed: u64,
    /// Time of their last exchange, in nanoseconds.
    last_told: u64,
}

impl Running {
    fn new(policy: Policy, servers: usize, tellings: Tellings) -> Running {
        let mut map = cluster::one_shard_each(servers);
        if let Policy::Running { directories, files } = policy {
            map.policy = directories;
            map.settings.file_policy = files;
        }
        let placers = if policy.adapts() { servers } else { 0 };
        let placer = |shard: u16| {
            let has_root = u64::from(ShardId(shard) == ROOT_SHARD);
            pandofs_placement::Placer::new(&map, ShardId(shard), objects(has_root, has_root))
        };
        Running {
            placers: (0..placers as u16).map(placer).collect(),
            map,
            told: BTreeMap::new(),
            tellings,
            last_told: 0,
            requests: vec![(0, RecentRequests::default()); servers],
            placed: 0,
        }
    }

    /// Returns the place of an object that is made at this server, which has so much.
    fn drawn(&mut self, at: u16, held: u64, near: Option<ShardId>, random: u64) -> Drawn {
        let map = &self.map;
        let placing = self.placers.get_mut(usize::from(at)).map(|placer| {
            placer.holds(held);
            placer.placing(map, random, near)
        });
        Drawn {
            random,
            shards: self.map.shard_count(),
            placing,
        }
    }

    /// A server was asked to make something, which is there now; the servers have so much with it.
    /// If it took two of them, each knows from the other's messages what that has.
    fn made(&mut self, at: u16, there: u16, held: &[u64]) {
        if at != there {
            for (of, other) in [(at, there), (there, at)] {
                if let Some(placer) = self.placers.get_mut(usize::from(of)) {
                    placer.learn(&self.map, ShardId(other), held[usize::from(other)]);
                }
            }
        }
        self.requests[usize::from(at)].0 += 1;
        self.placed += 1;
        if let Tellings::Objects(every) = self.tellings
            && self.placed.is_multiple_of(every)
        {
            self.tell(held);
        }
    }

    /// It is so late now.
    fn pass_time(&mut self, now: u64, held: &[u64]) {
        if let Tellings::Nanoseconds(every) = self.tellings
            && now >= self.last_told + every
        {
            self.last_told = now - now % every;
            self.tell(held);
        }
    }

    fn tell(&mut self, held: &[u64]) {
        if self.placers.is_empty() {
            return;
        }
        let mut now = BTreeMap::new();
        for (server, &objects) in (0..).map(ServerId).zip(held) {
            let (ever, recent) = &mut self.requests[usize::from(server.0)];
            recent.count(*ever);
            let requests = recent.of_late();
            now.insert(server, ServerLoad { objects, requests });
        }
        // As in a lane: a server knows its own load, and of the others what they answered the last
        // time.
        for (server, placer) in (0..).map(ServerId).zip(&mut self.placers) {
            let before = self.told.insert(server, now[&server]);
            placer.holds(held[usize::from(server.0)]);
            placer.hear(&self.map, &self.told);
            if let Some(before) = before {
                self.told.insert(server, before);
            } else {
                self.told.remove(&server);
            }
        }
        self.told = now;
    }
}

/// Returns how many objects servers make between two tellings if clients keep them busy and nothing
/// is distributed.
pub(crate) fn between_tellings(servers: usize, clients: usize, costs: Costs) -> Tellings {
    let of_servers = servers as f64 / costs.request_us;
    let of_clients = clients as f64 / (2.0 * costs.network_us + costs.request_us + costs.client_us);
    Tellings::Objects(((of_servers.min(of_clients) * costs.loads_us) as u64).max(1))
}

impl Placer {
    /// With the root alone, on server 0.
    pub fn new(policy: Policy, servers: usize, rng: Rng, tellings: Tellings) -> Placer {
        assert!(
            servers > 0 && servers <= usize::from(u16::MAX),
            "{servers} servers"
        );
        let (Tellings::Objects(every) | Tellings::Nanoseconds(every)) = tellings;
        assert!(every > 0, "servers that do nothing but tell each other");
        let mut roots = vec![0; servers];
        roots[usize::from(ROOT_SHARD.0)] = 1;
        Placer {
            policy,
            servers,
            rng,
            server: vec![ROOT_SHARD.0],
            grain: vec![GrainState::root(ROOT_SHARD)],
            held: roots.iter().map(|&root| objects(root, root)).collect(),
            objects: roots,
            turns: (0..servers as u16).collect(),
            running: Running::new(policy, servers, tellings),
        }
    }

    /// Places a whole name space: "first the hierarchy, then all the files" (section 5.1.2).
    pub fn place_all(&mut self, space: &Space) {
        self.reserve(space.len());
        for wanted in [true, false] {
            for object in 1..space.len() {
                if space.is_dir[object] == wanted {
                    self.place(object as Object, space.parents[object], wanted);
                }
            }
        }
    }

    /// Makes room for objects up to this number.
    pub fn reserve(&mut self, objects: usize) {
        self.server.resize(objects, NOWHERE);
        self.grain.resize(objects, GrainState::root(ShardId(0)));
    }

    /// Places an object that is made at this time (in nanoseconds), unless it was placed
    /// beforehand.
    pub fn place_at(&mut self, now: u64, object: Object, space: &Space) {
        if self.server[object as usize] != NOWHERE {
            return;
        }
        self.running.pass_time(now, &self.held);
        let parent = space.parents[object as usize];
        self.place(object, parent, space.is_dir[object as usize]);
    }

    /// Places a new object.
    pub fn place(&mut self, object: Object, parent: Object, is_dir: bool) {
        let home = self.server[parent as usize];
        let shard = if is_dir {
            self.place_dir(object, parent)
        } else {
            self.place_file(parent)
        };
        self.server[object as usize] = shard.0;
        self.objects[usize::from(shard.0)] += 1;
        self.held[usize::from(shard.0)] += objects(1, u64::from(is_dir));
        self.running.made(home, shard.0, &self.held);
    }

    fn place_dir(&mut self, object: Object, parent: Object) -> ShardId {
        let grain = self.grain[parent as usize];
        let home = self.server[parent as usize];
        let placed = match self.policy {
            Policy::Ddg {
                dir_depth,
                dir_width,
                ..
            } => ddg(dir_depth, dir_width, &grain, self.draw()),
            Policy::DdgOwnFiles {
                dir_depth,
                dir_width,
                ..
            } => {
                let mut placed = ddg(dir_depth, dir_width, &grain, self.draw());
                placed.child.file_shard = placed.shard;
                placed
            }
            Policy::Random => {
                place_directory(DirPolicy::Random, &grain, parent == ROOT, self.turn(home))
            }
            Policy::Subtree => {
                let next = if parent == ROOT {
                    self.turn(home)
                } else {
                    ShardId(home)
                };
                place_directory(DirPolicy::Subtree, &grain, parent == ROOT, next)
            }
            Policy::Running { directories, .. } => {
                let random = self.rng.next_u64();
                let near = Some(grain.dir_shard);
                let held = self.held[usize::from(home)];
                let drawn = self.running.drawn(home, held, near, random);
                place_new_directory(directories, &grain, parent == ROOT, ShardId(home), &drawn)
            }
        };
        self.grain[parent as usize] = placed.parent_after;
        self.grain[object as usize] = placed.child;
        placed.shard
    }

    fn place_file(&mut self, parent: Object) -> ShardId {
        let grain = self.grain[parent as usize];
        let home = self.server[parent as usize];
        let placed = match self.policy {
            Policy::Ddg { file_width, .. } | Policy::DdgOwnFiles { file_width, .. } => {
                place_file(file_width, &grain, self.draw())
            }
            Policy::Random => return self.turn(home),
            Policy::Subtree if parent == ROOT => return self.turn(home),
            Policy::Subtree => return ShardId(home),
            Policy::Running { files, .. } => {
                let random = self.rng.next_u64();
                let held = self.held[usize::from(home)];
                let drawn = self.running.drawn(home, held, None, random);
                place_new_file(files, &grain, ShardId(home), &drawn)
            }
        };
        self.grain[parent as usize] = placed.parent_after;
        placed.shard
    }

    /// The server that this one gives something to in its turn. (Each begins with itself.)
    fn turn(&mut self, at: u16) -> ShardId {
        let next = &mut self.turns[usize::from(at)];
        let server = *next;
        *next = (server + 1) % self.servers as u16;
        ShardId(server)
    }

    fn draw(&mut self) -> ShardId {
        ShardId(self.rng.below(self.servers as u64) as u16)
    }

    /// Objects that are on another server than their parent: directories, files.
    pub fn branch_points(&self, space: &Space) -> (u64, u64) {
        let (mut directories, mut files) = (0, 0);
        for object in 1..space.len() {
            if self.server[object] != self.server[space.parents[object] as usize] {
                if space.is_dir[object] {
                    directories += 1;
                } else {
                    files += 1;
                }
            }
        }
        (directories, files)
    }

    /// Objects of the server that has most, over the mean.
    pub fn imbalance(&self) -> f64 {
        over_mean(&self.objects)
    }
}

fn ddg(
    dir_depth: u32,
    dir_width: u32,
    parent: &GrainState,
    random: ShardId,
) -> pandofs_placement::DirPlacement {
    let policy = DirPolicy::Ddg {
        dir_depth,
        dir_width,
    };
    place_directory(policy, parent, false, random)
}

/// The largest over the mean; 1 where there is nothing.
pub(crate) fn over_mean(loads: &[u64]) -> f64 {
    let total: u64 = loads.iter().sum();
    let most = loads.iter().max().copied().unwrap_or(0);
    if total == 0 {
        return 1.0;
    }
    most as f64 * loads.len() as f64 / total as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::NAMESPACE_1;

    fn placed_with(policy: Policy, every: u64) -> (Space, Placer) {
        let space = Space::generate(NAMESPACE_1.scaled_down(16), 1);
        let mut placer = Placer::new(policy, 16, Rng::new(1, 2), Tellings::Objects(every));
        placer.place_all(&space);
        (space, placer)
    }

    fn placed(policy: Policy) -> (Space, Placer) {
        placed_with(policy, 500)
    }

    /// "Each MDS chooses an MDS for a newly created object in a round-robin fashion" (section 5.1).
    #[test]
    fn each_server_gives_what_it_makes_to_all_in_turn() {
        let (space, placer) = placed(Policy::Random);
        let mut last = [None; 16];
        for wanted in [true, false] {
            for object in (1..space.len()).filter(|&object| space.is_dir[object] == wanted) {
                let home = usize::from(placer.server[space.parents[object] as usize]);
                let next = last[home].map_or(home as u16, |last: u16| (last + 1) % 16);
                assert_eq!(placer.server[object], next, "{object}");
                last[home] = Some(next);
            }
        }
        let (directories, files) = placer.branch_points(&space);
        let share = (directories + files) as f64 / space.len() as f64;
        assert!((share - 15.0 / 16.0).abs() < 0.01, "{share}");
        assert!(placer.imbalance() < 1.01, "{}", placer.imbalance());
    }

    /// The same section: in turn for what is made in the root, all else where its parent is.
    #[test]
    fn subtree_gives_the_roots_children_to_all_in_turn() {
        let (space, placer) = placed(Policy::Subtree);
        let (below, rest): (Vec<usize>, Vec<usize>) =
            (1..space.len()).partition(|&object| space.parents[object] == ROOT);
        let directories = below.iter().filter(|&&object| space.is_dir[object]);
        let files = below.iter().filter(|&&object| !space.is_dir[object]);
        for (turn, &object) in directories.chain(files).enumerate() {
            assert_eq!(usize::from(placer.server[object]), turn % 16);
        }
        for object in rest {
            let parent = space.parents[object] as usize;
            assert_eq!(placer.server[object], placer.server[parent]);
        }
        assert!(placer.imbalance() > 1.5, "{}", placer.imbalance());
    }

    #[test]
    fn without_an_overflow_a_directorys_own_files_are_with_it() {
        let own = Policy::DdgOwnFiles {
            dir_depth: 2,
            dir_width: 16,
            file_width: 1 << 20,
        };
        let with_entries = Policy::Running {
            directories: DirPolicy::default(),
            files: FilePolicy::WithEntry,
        };
        for policy in [own, with_entries] {
            let (space, placer) = placed(policy);
            let (directories, files) = placer.branch_points(&space);
            assert!(directories > 0);
            assert_eq!(files, 0);
        }
    }

    /// The answers alone spread a name space before any report of loads; reports in between are
    /// worth something as well.
    #[test]
    fn servers_adapt_to_what_they_were_given_and_told() {
        let adaptive = Policy::adaptive();
        let (space, untold) = placed_with(adaptive, 1 << 30);
        let (directories, files) = untold.branch_points(&space);
        assert!(untold.imbalance() < 3.5, "{}", untold.imbalance());
        assert!(
            directories * 3 < space.directories() as u64,
            "{directories}"
        );
        assert_eq!(files, 0);
        let (_, told) = placed_with(adaptive, 100);
        assert_ne!(told.objects, untold.objects);
        // The first telling says what a server has itself, which it knows, and nothing of the
        // others.
        let (_, once) = placed_with(adaptive, space.len() as u64 / 2 + 1);
        assert_eq!(once.objects, untold.objects);
    }

    #[test]
    fn every_object_is_counted_once() {
        for policy in [Policy::Random, Policy::Subtree, Policy::adaptive()] {
            let (space, placer) = placed(policy);
            assert_eq!(placer.objects.iter().sum::<u64>(), space.len() as u64);
        }
    }
}
