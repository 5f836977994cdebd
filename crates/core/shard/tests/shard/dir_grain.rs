//! Placement of directories and files, beside the transitions of Xiong et al., figure 2: all five values
//! that a directory remembers (section 3.3) are compared as they are stored.

use crate::support::{Cluster, name};
use pandofs_api::{DirSettings, NewNode, Reply, Request, op};
use pandofs_namespace::View;
use pandofs_placement::{
    DirMap, DirPolicy, FilePolicy, GrainState, Settings, place_directory, place_file,
};
use pandofs_types::{Ino, ShardId};
use std::collections::BTreeSet;

const SHARDS: u16 = 8;

/// Children of one directory in a unit, in the test of a split: more than it makes.
const WIDE: u32 = 100;

/// A directory of the test: its number and its home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Dir {
    ino: Ino,
    home: ShardId,
}

const ROOT: Dir = Dir {
    ino: Ino::ROOT,
    home: ShardId(0),
};

/// The stored memory of the directory at a shard, if it has a part of it.
fn grain_at(cluster: &Cluster, shard: ShardId, dir: Ino) -> Option<GrainState> {
    let view = View {
        kv: &cluster.nodes[usize::from(shard.0)].store,
        shard,
        map: &cluster.map,
        cached_only: false,
    };
    view.parts(dir).unwrap().map(|parts| parts.grain)
}

struct Tree {
    cluster: Cluster,
    policy: DirPolicy,
    file_policy: FilePolicy,
    names: u32,
}

impl Tree {
    fn new(policy: DirPolicy, file_policy: FilePolicy) -> Tree {
        let settings = Settings {
            file_policy,
            ..Settings::default()
        };
        Tree {
            cluster: Cluster::new(SHARDS, policy, settings),
            policy,
            file_policy,
            names: 0,
        }
    }

    /// The stored memory of the directory.
    fn grain(&self, dir: Dir) -> GrainState {
        let grain = grain_at(&self.cluster, dir.home, dir.ino);
        grain.expect("its home has a partition of it")
    }

    fn call(&mut self, at: ShardId, request: Request) -> Dir {
        match self.cluster.call(at.0, request) {
            Ok(Reply::Entry(entry)) => Dir {
                ino: entry.ino,
                home: entry.shard,
            },
            other => panic!("{other:?}"),
        }
    }

    fn next_name(&mut self) -> pandofs_types::Name {
        self.names += 1;
        name(&format!("name {}", self.names))
    }

    /// Makes a directory, and compares what it and its parent remember. Where figure 2 draws a server it is the one
    /// that was drawn.
    fn mkdir(&mut self, parent: Dir) -> Dir {
        let before = self.grain(parent);
        let request = Request::Mkdir(op::Mkdir {
            dir: parent.ino,
            name: self.next_name(),
            mode: 0o755,
            umask: 0,
        });
        let made = self.call(parent.home, request);
        let expected = place_directory(self.policy, &before, parent == ROOT, made.home);
        assert_eq!(made.home, expected.shard, "{before:?}");
        assert_eq!(self.grain(parent), expected.parent_after, "{before:?}");
        assert_eq!(self.grain(made), expected.child, "{before:?}");
        made
    }

    /// The same of a file; its shard.
    fn create(&mut self, parent: Dir) -> ShardId {
        let before = self.grain(parent);
        let request = Request::Create(op::Create {
            dir: parent.ino,
            name: self.next_name(),
            node: NewNode::File,
            mode: 0o600,
            umask: 0,
            open: false,
        });
        let made = self.call(parent.home, request).home;
        match self.file_policy {
            FilePolicy::WithEntry => {
                assert_eq!(made, parent.home);
                assert_eq!(self.grain(parent), before);
            }
            FilePolicy::Ddg { file_width } => {
                let expected = place_file(file_width, &before, made);
                assert_eq!(made, expected.shard, "{before:?}");
                assert_eq!(self.grain(parent), expected.parent_after, "{before:?}");
            }
            FilePolicy::Adaptive(_) => panic!("not of this test"),
        }
        made
    }
}

/// G = ⟨3, 2, 4⟩, with the root in the place of A1.
#[test]
fn figure_1() {
    let policy = DirPolicy::Ddg {
        dir_depth: 3,
        dir_width: 2,
    };
    let mut tree = Tree::new(policy, FilePolicy::Ddg { file_width: 4 });
    let a1 = ROOT;
    let b1 = tree.mkdir(a1);
    let b2 = tree.mkdir(a1);
    assert_eq!((b1.home, b2.home), (a1.home, a1.home));
    let b3 = tree.mkdir(a1);
    assert_eq!(
        tree.grain(b3),
        GrainState::root(b3.home),
        "it begins a unit"
    );
    let files: Vec<ShardId> = (0..5).map(|_| tree.create(a1)).collect();
    assert_eq!(files[..4], [a1.home; 4]);
    let c1 = tree.mkdir(b1);
    assert_eq!(c1.home, a1.home);
    let d1 = tree.mkdir(c1);
    assert_eq!(
        tree.grain(d1),
        GrainState::root(d1.home),
        "it begins a unit"
    );
    let below: Vec<ShardId> = (0..5).map(|_| tree.create(c1)).collect();
    assert_eq!(below[..4], [c1.home; 4]);
    // The states that section 3.3 gives for A1 and C1.
    let state = |dir_depth, dirs: Dir, file_shard| GrainState {
        dir_depth,
        dir_shard: dirs.home,
        dir_num: 1,
        file_shard,
        file_num: 1,
    };
    assert_eq!(tree.grain(a1), state(1, b3, files[4]));
    assert_eq!(tree.grain(c1), state(3, d1, below[4]));
}

/// Makes a tree without any order; its directories with their parents.
fn grown(policy: DirPolicy, file_policy: FilePolicy) -> (Tree, Vec<(Dir, Dir)>) {
    let mut tree = Tree::new(policy, file_policy);
    let mut directories = vec![(ROOT, ROOT)];
    let mut random = 1_u64;
    for _ in 0..400 {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let choice = (random >> 33) as usize;
        // The oldest have the most: units end by their width there, and by their depth elsewhere.
        let among = directories.len().min(1 + choice % 40);
        let parent = directories[(choice / 40) % among].0;
        if choice.is_multiple_of(3) {
            let made = tree.mkdir(parent);
            directories.push((made, parent));
        } else {
            tree.create(parent);
        }
    }
    assert!(directories.len() > 100, "{}", directories.len());
    (tree, directories)
}

fn homes(directories: &[(Dir, Dir)]) -> usize {
    let all: BTreeSet<ShardId> = directories.iter().map(|(dir, _)| dir.home).collect();
    all.len()
}

#[test]
fn every_directory_remembers_what_figure_2_says() {
    for (dir_depth, dir_width, file_policy) in [
        (3, 2, FilePolicy::Ddg { file_width: 4 }),
        (2, 5, FilePolicy::Ddg { file_width: 1 }),
        (4, 16, FilePolicy::WithEntry),
    ] {
        let policy = DirPolicy::Ddg {
            dir_depth,
            dir_width,
        };
        let (_, directories) = grown(policy, file_policy);
        assert!(homes(&directories) > 3, "{directories:?}");
    }
}

#[test]
fn below_a_child_of_the_root_a_subtree_stays_together() {
    let (_, directories) = grown(DirPolicy::Subtree, FilePolicy::WithEntry);
    assert!(homes(&directories) > 3, "{directories:?}");
    for (dir, parent) in directories {
        assert!(parent == ROOT || dir.home == parent.home, "{dir:?}");
    }
}

/// Before a directory had this policy, all children that followed the first elsewhere were elsewhere, too.
#[test]
fn a_directory_that_becomes_a_subtree_has_its_children_with_it() {
    let mut tree = Tree::new(DirPolicy::Random, FilePolicy::WithEntry);
    let dir = tree.mkdir(ROOT);
    while tree.mkdir(dir).home == dir.home {}
    let settings = DirSettings {
        policy: Some(DirPolicy::Subtree),
        ..DirSettings::default()
    };
    let ino = dir.ino;
    let set = Request::SetDirSettings(op::SetDirSettings { dir: ino, settings });
    tree.cluster.call(dir.home.0, set).unwrap();
    for _ in 0..3 {
        let request = Request::Mkdir(op::Mkdir {
            dir: ino,
            name: tree.next_name(),
            mode: 0o755,
            umask: 0,
        });
        assert_eq!(tree.call(dir.home, request).home, dir.home);
    }
}

#[test]
fn random_draws_for_every_directory() {
    let (_, directories) = grown(DirPolicy::Random, FilePolicy::WithEntry);
    assert_eq!(homes(&directories), usize::from(SHARDS));
    let away = directories
        .iter()
        .filter(|(dir, parent)| dir.home != parent.home);
    assert!(away.count() > directories.len() / 2);
}

/// A new part goes on from what the old one had counted, and then each counts what it makes itself.
#[test]
fn after_a_split_each_part_counts_for_itself() {
    let policy = DirPolicy::Ddg {
        dir_depth: 9,
        dir_width: WIDE,
    };
    let settings = Settings {
        split_threshold: 8,
        max_partitions: Some(2),
        ..Settings::default()
    };
    let mut cluster = Cluster::new(2, policy, settings);
    let mut map = DirMap::single(ROOT.home);
    let mut made = 0;
    let mut mkdir = |cluster: &mut Cluster| {
        made += 1;
        let name = name(&format!("dir {made}"));
        let request = Request::Mkdir(op::Mkdir {
            dir: Ino::ROOT,
            name: name.clone(),
            mode: 0o755,
            umask: 0,
        });
        let (result, _) = cluster.call_by_name(&mut map, &name, &request);
        assert!(matches!(result, Ok(Reply::Entry(_))), "{result:?}");
        made
    };
    let parts = |cluster: &Cluster| [0, 1].map(|at| grain_at(cluster, ShardId(at), Ino::ROOT));
    let at_split = loop {
        let made = mkdir(&mut cluster);
        assert!(made < WIDE / 2, "it does not split");
        if let [Some(old), Some(new)] = parts(&cluster) {
            assert_eq!(old, new);
            assert_eq!(new.dir_num, made);
            break made;
        }
    };
    for _ in 0..20 {
        mkdir(&mut cluster);
    }
    let [Some(old), Some(new)] = parts(&cluster) else {
        panic!("both have a part");
    };
    let since = [old, new].map(|grain| grain.dir_num - at_split);
    assert!(since.iter().all(|&count| count > 0), "{since:?}");
    assert_eq!(since.iter().sum::<u32>(), 20);
}
