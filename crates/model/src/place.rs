//! Placing a name space with the production code.

use crate::rng::Rng;
use crate::space::{Object, ROOT, Space};
use pandofs_placement::adaptive::OBJECTS_BETWEEN_ADJUSTMENTS;
use pandofs_placement::{
    Adaptive, Bounds, DirPolicy, GrainState, less_loaded, place_directory, place_file,
};
use pandofs_types::ShardId;

/// What places objects. Servers stand for shards, as in the paper.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Policy {
    /// ⟨dir_depth, dir_width, file_width⟩ with the transitions of the paper's figure 2.
    Ddg {
        dir_depth: u32,
        dir_width: u32,
        file_width: u32,
    },
    /// The same, but the files of a directory begin where the directory is.
    DdgOwnFiles {
        dir_depth: u32,
        dir_width: u32,
        file_width: u32,
    },
    /// Each object on a server drawn at random.
    Random,
    /// The root's children on servers drawn at random, all else with its parent.
    Subtree,
    /// What the name space and the load make of it.
    Adaptive(Bounds),
}

impl Policy {
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
            Policy::Adaptive(_) => "adaptive".to_owned(),
        }
    }
}

/// Where objects are, and what directories remember for where the next one goes.
#[derive(Clone, Debug)]
pub struct Placer {
    policy: Policy,
    adaptive: Adaptive,
    servers: usize,
    rng: Rng,
    /// The server of each object that is placed.
    pub server: Vec<u16>,
    grain: Vec<GrainState>,
    /// Objects of each server.
    pub objects: Vec<u64>,
    /// The same when the servers last told each other.
    known: Vec<u64>,
    placed: u64,
}

impl Placer {
    /// With the root alone, on server 0.
    pub fn new(policy: Policy, servers: usize, rng: Rng) -> Placer {
        assert!(
            servers > 0 && servers <= usize::from(u16::MAX),
            "{servers} servers"
        );
        let bounds = match policy {
            Policy::Adaptive(bounds) => bounds,
            _ => Bounds::default(),
        };
        let mut objects = vec![0; servers];
        objects[0] = 1;
        Placer {
            policy,
            adaptive: Adaptive::new(bounds),
            servers,
            rng,
            server: vec![0],
            grain: vec![GrainState::root(ShardId(0))],
            known: objects.clone(),
            objects,
            placed: 0,
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
        self.server.resize(objects, 0);
        self.grain.resize(objects, GrainState::root(ShardId(0)));
    }

    /// Places a new object.
    pub fn place(&mut self, object: Object, parent: Object, is_dir: bool) {
        let random = self.draw();
        let grain = &self.grain[parent as usize];
        let in_root = parent == ROOT;
        let shard = if is_dir {
            let placed = match self.policy {
                Policy::Ddg {
                    dir_depth,
                    dir_width,
                    ..
                } => ddg(dir_depth, dir_width, grain, in_root, random),
                Policy::DdgOwnFiles {
                    dir_depth,
                    dir_width,
                    ..
                } => {
                    let mut placed = ddg(dir_depth, dir_width, grain, in_root, random);
                    placed.child.file_shard = placed.shard;
                    placed
                }
                Policy::Random => place_directory(DirPolicy::Random, grain, in_root, random),
                Policy::Subtree => place_directory(DirPolicy::Subtree, grain, in_root, random),
                Policy::Adaptive(_) => self.adaptive.place_directory(grain, random, &self.known),
            };
            self.grain[parent as usize] = placed.parent_after;
            self.grain[object as usize] = placed.child;
            placed.shard
        } else {
            let file_width = match self.policy {
                Policy::Ddg { file_width, .. } | Policy::DdgOwnFiles { file_width, .. } => {
                    file_width
                }
                Policy::Random => 0,
                Policy::Subtree if in_root => 0,
                Policy::Subtree => u32::MAX,
                Policy::Adaptive(_) => self.adaptive.granularity().file_width,
            };
            let placed = place_file(file_width, grain, random);
            self.grain[parent as usize] = placed.parent_after;
            placed.shard
        };
        self.server[object as usize] = shard.0;
        self.objects[usize::from(shard.0)] += 1;
        self.placed += 1;
        // Servers hear of each other's loads now and then, not with every request.
        if self
            .placed
            .is_multiple_of(OBJECTS_BETWEEN_ADJUSTMENTS * self.servers as u64)
        {
            self.known.clone_from(&self.objects);
            self.adaptive.adjust(&self.known);
        }
    }

    fn draw(&mut self) -> ShardId {
        let mut one = || ShardId(self.rng.below(self.servers as u64) as u16);
        let first = one();
        match self.policy {
            Policy::Adaptive(_) => less_loaded(first, one(), &self.known),
            _ => first,
        }
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

    /// The granularity that the adaptive policy has come to.
    pub fn granularity(&self) -> pandofs_placement::Granularity {
        self.adaptive.granularity()
    }
}

fn ddg(
    dir_depth: u32,
    dir_width: u32,
    parent: &GrainState,
    in_root: bool,
    random: ShardId,
) -> pandofs_placement::DirPlacement {
    let policy = DirPolicy::Ddg {
        dir_depth,
        dir_width,
    };
    place_directory(policy, parent, in_root, random)
}

/// The largest over the mean; 1 where there is nothing.
pub fn over_mean(loads: &[u64]) -> f64 {
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

    fn placed(policy: Policy) -> (Space, Placer) {
        let space = Space::generate(NAMESPACE_1.scaled_down(16), 1);
        let mut placer = Placer::new(policy, 16, Rng::new(1, 2));
        placer.place_all(&space);
        (space, placer)
    }

    #[test]
    fn random_is_even_and_nearly_all_branch_points() {
        let (space, placer) = placed(Policy::Random);
        let (directories, files) = placer.branch_points(&space);
        let share = (directories + files) as f64 / space.len() as f64;
        assert!((share - 15.0 / 16.0).abs() < 0.01, "{share}");
        assert!(placer.imbalance() < 1.1, "{}", placer.imbalance());
    }

    #[test]
    fn subtree_has_no_branch_point_below_the_roots_children() {
        let (space, placer) = placed(Policy::Subtree);
        for object in 1..space.len() {
            let parent = space.parents[object];
            assert!(parent == ROOT || placer.server[object] == placer.server[parent as usize]);
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
        let (space, placer) = placed(own);
        assert_eq!(placer.branch_points(&space).1, 0);
    }

    #[test]
    fn every_object_is_counted_once() {
        for policy in [
            Policy::Random,
            Policy::Subtree,
            Policy::Adaptive(Bounds::default()),
        ] {
            let (space, placer) = placed(policy);
            assert_eq!(placer.objects.iter().sum::<u64>(), space.len() as u64);
        }
    }
}
