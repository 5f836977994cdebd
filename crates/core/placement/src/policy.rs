//! Placement policies of directories and files: Dynamic Dir-Grain and those it is measured against.
//!
//! Xiong et al., section 3; shards stand for the paper's metadata servers.

use crate::adaptive::{Bounds, DirBounds, FileBounds};
use crate::ddg::{DirPlacement, GrainState, place_within};
use pandofs_types::ShardId;
use serde::{Deserialize, Serialize};

/// How the home shard of a new directory is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DirPolicy {
    /// Dynamic Dir-Grain: units of at most `dir_depth` levels, with at most `dir_width` child
    /// directories of each directory, each unit on a shard drawn at random.
    Ddg {
        /// Levels of directories in one unit, 1 or more.
        dir_depth: u32,
        /// Subdirectories of one directory that stay in its unit, 1 or more.
        dir_width: u32,
    },
    /// Every directory on a shard drawn at random: the granularity ⟨1, 1⟩ of section 3.2.
    Random,
    /// Every child of the root on a shard drawn at random and all below it with it: ⟨1, 1⟩ for the
    /// root and ⟨∞, ∞⟩ for the others.
    Subtree,
    /// The shard follows from the full path name: see [`crush_path_shard`]. A directory without a
    /// path has it drawn at random.
    CrushPath,
    /// Dynamic Dir-Grain whose units follow the name space and the load, within these bounds: see
    /// [`DirBounds::place_directory`].
    Adaptive(DirBounds),
}

impl Default for DirPolicy {
    fn default() -> DirPolicy {
        DirPolicy::Ddg {
            dir_depth: 4,
            dir_width: 16,
        }
    }
}

/// How the shard of a new file's inode is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FilePolicy {
    /// That of the partition that holds the entry: making a file is an ordinary operation.
    #[default]
    WithEntry,
    /// Dynamic Dir-Grain: at most `file_width` files of a directory in each unit, then another
    /// shard drawn at random. A file that is not with its entry is a branch file, and making it a
    /// distributed operation.
    Ddg {
        /// Files of one directory that are kept together, 1 or more.
        file_width: u32,
    },
    /// Dynamic Dir-Grain whose width follows the name space, within these bounds.
    Adaptive(FileBounds),
}

impl FilePolicy {
    /// Whether its figures make sense (they come from the network, or from a file): a unit has at
    /// least one file.
    pub fn is_valid(self) -> bool {
        match self {
            FilePolicy::WithEntry => true,
            FilePolicy::Ddg { file_width } => file_width > 0,
            FilePolicy::Adaptive(bounds) => bounds.is_valid(),
        }
    }
}

/// Bounds of a file system's adaptive policies; of what does not adapt there the default ones, for
/// the directories where it does.
pub fn bounds_of(directories: DirPolicy, files: FilePolicy) -> Bounds {
    let mut bounds = Bounds::default();
    let Bounds { least, most } = &mut bounds;
    if let DirPolicy::Adaptive(dirs) = directories {
        (least.dir_depth, most.dir_depth) = (dirs.least_depth, dirs.most_depth);
        (least.dir_width, most.dir_width) = (dirs.least_width, dirs.most_width);
    }
    if let FilePolicy::Adaptive(files) = files {
        (least.file_width, most.file_width) = (files.least, files.most);
    }
    bounds
}

/// No bound: a width or depth is never counted that far.
const UNBOUNDED: u32 = u32::MAX;

impl DirPolicy {
    /// Whether it can be chosen (it comes from the network, or from a file): a unit has at least
    /// one level, and one directory's children.
    pub fn is_valid(self) -> bool {
        match self {
            DirPolicy::Ddg {
                dir_depth,
                dir_width,
            } => dir_depth > 0 && dir_width > 0,
            DirPolicy::Random | DirPolicy::Subtree | DirPolicy::CrushPath => true,
            DirPolicy::Adaptive(bounds) => bounds.is_valid(),
        }
    }

    /// Levels of a unit, and child directories of one directory in a unit.
    fn granularity(self, parent_is_root: bool) -> (u32, u32) {
        match self {
            DirPolicy::Ddg {
                dir_depth,
                dir_width,
            } => (dir_depth, dir_width),
            DirPolicy::Random | DirPolicy::CrushPath => (1, 1),
            DirPolicy::Subtree if parent_is_root => (1, 1),
            DirPolicy::Subtree => (UNBOUNDED, UNBOUNDED),
            DirPolicy::Adaptive(bounds) => (bounds.least_depth, bounds.least_width),
        }
    }
}

/// Places a new child directory of `parent` (figure 2, second part).
///
/// `random` is the shard to take when the policy asks for a random one, drawn by the caller. Under
/// [`DirPolicy::CrushPath`] it is the one that [`crush_path_shard`] gave for the new path. Under
/// [`DirPolicy::Adaptive`] the units are as small as may be: a placer that knows the loads has
/// [`DirBounds::place_directory`].
pub fn place_directory(
    policy: DirPolicy,
    parent: &GrainState,
    parent_is_root: bool,
    random: ShardId,
) -> DirPlacement {
    let (max_depth, max_width) = policy.granularity(parent_is_root);
    place_within(max_depth, max_width, parent, random)
}

/// The shard of the directory whose full path name has this hash.
///
/// CRUSH is done in two steps, as Ceph does it: a path belongs to one of a number of shards that
/// never changes, and straw2 gives the shard a server, so a server that joins takes over whole
/// shards and no path changes its shard. `path_hash` is a strong hash: all its bits are used alike.
///
/// # Panics
/// When `shards` is 0.
pub fn crush_path_shard(path_hash: u64, shards: u16) -> ShardId {
    assert!(shards > 0, "no shards");
    ShardId((path_hash % u64::from(shards)) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ddg::{FilePlacement, place_file};

    const OMEGA_1: ShardId = ShardId(1);
    const OMEGA_2: ShardId = ShardId(2);
    const OMEGA_3: ShardId = ShardId(3);
    const FIGURE_1: DirPolicy = DirPolicy::Ddg {
        dir_depth: 3,
        dir_width: 2,
    };
    const FIGURE_1_FILE_WIDTH: u32 = 4;
    /// A shard that must not be chosen.
    const UNUSED: ShardId = ShardId(999);

    fn state(dir_depth: u32, dirs: (ShardId, u32), files: (ShardId, u32)) -> GrainState {
        GrainState {
            dir_depth,
            dir_shard: dirs.0,
            dir_num: dirs.1,
            file_shard: files.0,
            file_num: files.1,
        }
    }

    /// Makes a child directory where figure 1 has one inside the unit.
    fn child_inside(policy: DirPolicy, parent: &mut GrainState) -> GrainState {
        let placement = place_directory(policy, parent, false, UNUSED);
        assert_eq!(placement.shard, parent.dir_shard);
        *parent = placement.parent_after;
        placement.child
    }

    /// The unit of figure 1, G = ⟨3, 2, 4⟩, made from A1 down to C1, with the states that section
    /// 3.3 gives for A1 and C1 at the end.
    #[test]
    fn figure_1() {
        let mut a1 = GrainState::root(OMEGA_1);
        let mut b1 = child_inside(FIGURE_1, &mut a1);
        assert_eq!(b1, state(2, (OMEGA_1, 0), (OMEGA_1, 0)));
        assert_eq!(a1, state(1, (OMEGA_1, 1), (OMEGA_1, 0)));
        let b2 = child_inside(FIGURE_1, &mut a1);
        assert_eq!(b2, b1);
        assert_eq!(a1, state(1, (OMEGA_1, 2), (OMEGA_1, 0)));

        // The third child directory of A1 and its fifth file begin the unit 2.
        let b3 = place_directory(FIGURE_1, &a1, false, OMEGA_2);
        let expected = DirPlacement {
            shard: OMEGA_2,
            parent_after: state(1, (OMEGA_2, 1), (OMEGA_1, 0)),
            child: state(1, (OMEGA_2, 0), (OMEGA_2, 0)),
        };
        assert_eq!(b3, expected);
        a1 = b3.parent_after;
        for number in 1..=4 {
            let file = place_file(FIGURE_1_FILE_WIDTH, &a1, UNUSED);
            let parent_after = state(1, (OMEGA_2, 1), (OMEGA_1, number));
            assert_eq!(
                file,
                FilePlacement {
                    shard: OMEGA_1,
                    parent_after
                }
            );
            a1 = file.parent_after;
        }
        let fifth = place_file(FIGURE_1_FILE_WIDTH, &a1, OMEGA_2);
        let parent_after = state(1, (OMEGA_2, 1), (OMEGA_2, 1));
        assert_eq!(
            fifth,
            FilePlacement {
                shard: OMEGA_2,
                parent_after
            }
        );

        // C1 is at the last level of the unit: its first child directory begins the unit 3.
        let mut c1 = child_inside(FIGURE_1, &mut b1);
        assert_eq!(c1, state(3, (OMEGA_1, 0), (OMEGA_1, 0)));
        assert_eq!(b1, state(2, (OMEGA_1, 1), (OMEGA_1, 0)));
        let d1 = place_directory(FIGURE_1, &c1, false, OMEGA_3);
        let expected = DirPlacement {
            shard: OMEGA_3,
            parent_after: state(3, (OMEGA_3, 1), (OMEGA_1, 0)),
            child: state(1, (OMEGA_3, 0), (OMEGA_3, 0)),
        };
        assert_eq!(d1, expected);
        c1 = d1.parent_after;
        for _ in 1..=4 {
            c1 = place_file(FIGURE_1_FILE_WIDTH, &c1, UNUSED).parent_after;
        }
        c1 = place_file(FIGURE_1_FILE_WIDTH, &c1, OMEGA_3).parent_after;
        assert_eq!(c1, state(3, (OMEGA_3, 1), (OMEGA_3, 1)));
    }

    /// Figure 2 gives a child inside the unit its parent's dir_mds and file_mds, which may be those
    /// of a later unit than the one the parent is in.
    #[test]
    fn a_child_goes_where_its_parents_most_recent_children_went() {
        let parent = state(2, (OMEGA_2, 1), (OMEGA_3, 7));
        let expected = DirPlacement {
            shard: OMEGA_2,
            parent_after: state(2, (OMEGA_2, 2), (OMEGA_3, 7)),
            child: state(3, (OMEGA_2, 0), (OMEGA_3, 0)),
        };
        assert_eq!(place_directory(FIGURE_1, &parent, false, UNUSED), expected);
    }

    /// At the last level every child begins a unit of its own, whatever the width leaves.
    #[test]
    fn below_the_last_level_every_child_begins_a_unit() {
        let mut parent = state(3, (OMEGA_1, 0), (OMEGA_1, 2));
        for random in [OMEGA_2, OMEGA_3, OMEGA_1] {
            let placement = place_directory(FIGURE_1, &parent, false, random);
            let expected = DirPlacement {
                shard: random,
                parent_after: state(3, (random, 1), (OMEGA_1, 2)),
                child: GrainState::root(random),
            };
            assert_eq!(placement, expected);
            parent = placement.parent_after;
        }
    }

    #[test]
    fn the_default_starts_another_unit_after_sixteen_children_and_four_levels() {
        let mut parent = GrainState::root(OMEGA_1);
        for _ in 0..16 {
            child_inside(DirPolicy::default(), &mut parent);
        }
        let next = place_directory(DirPolicy::default(), &parent, false, OMEGA_2);
        assert_eq!(next.shard, OMEGA_2);
        let mut deepest = GrainState::root(OMEGA_1);
        for _ in 0..3 {
            deepest = child_inside(DirPolicy::default(), &mut deepest);
        }
        assert_eq!(
            place_directory(DirPolicy::default(), &deepest, false, OMEGA_3).shard,
            OMEGA_3
        );
    }

    #[test]
    fn random_and_crush_path_take_the_shard_given() {
        for policy in [DirPolicy::Random, DirPolicy::CrushPath] {
            for parent_is_root in [true, false] {
                let parent = state(1, (OMEGA_1, 3), (OMEGA_1, 2));
                let expected = DirPlacement {
                    shard: OMEGA_2,
                    parent_after: state(1, (OMEGA_2, 1), (OMEGA_1, 2)),
                    child: GrainState::root(OMEGA_2),
                };
                assert_eq!(
                    place_directory(policy, &parent, parent_is_root, OMEGA_2),
                    expected
                );
            }
        }
    }

    #[test]
    fn a_subtree_stays_together() {
        let root = GrainState::root(OMEGA_1);
        let top = place_directory(DirPolicy::Subtree, &root, true, OMEGA_2);
        assert_eq!(top.child, GrainState::root(OMEGA_2));
        assert_eq!(top.parent_after, state(1, (OMEGA_2, 1), (OMEGA_1, 0)));
        let mut directory = top.child;
        for depth in 2..100 {
            for _ in 0..100 {
                child_inside(DirPolicy::Subtree, &mut directory);
            }
            directory = child_inside(DirPolicy::Subtree, &mut directory);
            assert_eq!(directory, state(depth, (OMEGA_2, 0), (OMEGA_2, 0)));
        }
        let counted_out = state(u32::MAX, (OMEGA_2, u32::MAX), (OMEGA_2, 0));
        assert_eq!(
            place_directory(DirPolicy::Subtree, &counted_out, false, UNUSED).shard,
            OMEGA_2
        );
    }

    #[test]
    fn paths_spread_over_all_shards() {
        let mut hits = [0; 64];
        for number in 0..6_400_u64 {
            let path_hash = pandofs_types::HashKey(3, 4)
                .position(&number.to_le_bytes())
                .hash();
            hits[usize::from(crush_path_shard(path_hash, 64).0)] += 1;
        }
        assert!(
            hits.iter().all(|hits| (60..=150).contains(hits)),
            "{hits:?}"
        );
        assert_eq!(crush_path_shard(u64::MAX, 1), ShardId(0));
    }

    #[test]
    fn the_encodings_are_pinned() {
        let grain = state(4, (ShardId(300), 16), (ShardId(2), 5));
        let bytes = [4, 0xac, 0x02, 16, 2, 5];
        assert_eq!(postcard::to_stdvec(&grain).unwrap(), bytes);
        assert_eq!(postcard::from_bytes::<GrainState>(&bytes).unwrap(), grain);
        let policies: [(DirPolicy, &str, &[u8]); 5] = [
            (
                DirPolicy::default(),
                r#"{"ddg":{"dir_depth":4,"dir_width":16}}"#,
                &[0, 4, 16],
            ),
            (DirPolicy::Random, r#""random""#, &[1]),
            (DirPolicy::Subtree, r#""subtree""#, &[2]),
            (DirPolicy::CrushPath, r#""crush-path""#, &[3]),
            (
                DirPolicy::Adaptive(DirBounds {
                    least_depth: 2,
                    most_depth: 6,
                    least_width: 4,
                    most_width: 300,
                }),
                r#"{"adaptive":{"least_depth":2,"most_depth":6,"least_width":4,"most_width":300}}"#,
                &[4, 2, 6, 4, 0xac, 0x02],
            ),
        ];
        for (policy, text, bytes) in policies {
            assert_eq!(serde_json::to_string(&policy).unwrap(), text);
            assert_eq!(serde_json::from_str::<DirPolicy>(text).unwrap(), policy);
            assert_eq!(postcard::to_stdvec(&policy).unwrap(), bytes);
        }
    }

    #[test]
    fn what_does_not_adapt_in_the_file_system_has_the_default_bounds() {
        let fixed = bounds_of(DirPolicy::default(), FilePolicy::WithEntry);
        assert_eq!(fixed, Bounds::default());
        let dirs = DirBounds {
            least_depth: 3,
            ..DirBounds::default()
        };
        let files = FileBounds { least: 1, most: 7 };
        let both = bounds_of(DirPolicy::Adaptive(dirs), FilePolicy::Adaptive(files));
        assert_eq!(both.directories(), dirs);
        assert_eq!((both.least.file_width, both.most.file_width), (1, 7));
    }
}
