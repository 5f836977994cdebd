//! Placement of a new directory or file under any policy.
//!
//! The one decision that a running shard takes, and that the model takes in its place.

use crate::adaptive::Granularity;
use crate::ddg::{DirPlacement, FilePlacement, GrainState, place_file};
use crate::placer::Placing;
use crate::policy::{DirPolicy, FilePolicy, place_directory};
use pandofs_types::ShardId;

/// Numbers drawn, and loads known, when something was asked to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// Uniform over all values; whatever the policy draws follows from it.
    pub random: u64,
    /// Shards of the file system.
    pub shards: u16,
    /// The choice of placement where the policy follows the load, if any load is known.
    pub placing: Option<Placing>,
}

impl Drawn {
    /// A shard drawn at random.
    ///
    /// # Panics
    /// When there are no shards.
    pub fn shard(&self) -> ShardId {
        ShardId((self.random % u64::from(self.shards)) as u16)
    }

    /// The choice of placement; without knowledge of any load the smallest units.
    fn placing(&self) -> Placing {
        self.placing.unwrap_or_else(|| Placing {
            granularity: Granularity::SMALLEST,
            shard: self.shard(),
        })
    }
}

/// Places a new child directory of `parent`, whose home is the shard `home`.
pub fn place_new_directory(
    policy: DirPolicy,
    parent: &GrainState,
    parent_is_root: bool,
    home: ShardId,
    drawn: &Drawn,
) -> DirPlacement {
    match policy {
        // Before the directory had this policy its children may have begun a unit elsewhere. Their shard is not the
        // parent's, and no place for all that follow.
        DirPolicy::Subtree if !parent_is_root && parent.dir_shard != home => {
            let parent = GrainState {
                dir_shard: home,
                dir_num: 0,
                ..*parent
            };
            place_directory(policy, &parent, parent_is_root, home)
        }
        DirPolicy::Adaptive(bounds) => {
            let placing = drawn.placing();
            bounds.place_directory(placing.granularity, parent, placing.shard)
        }
        fixed => place_directory(fixed, parent, parent_is_root, drawn.shard()),
    }
}

/// Places the inode of a new file in `parent`, whose entry is on the shard `entry`.
pub fn place_new_file(
    policy: FilePolicy,
    parent: &GrainState,
    entry: ShardId,
    drawn: &Drawn,
) -> FilePlacement {
    match policy {
        FilePolicy::WithEntry => FilePlacement {
            shard: entry,
            parent_after: *parent,
        },
        FilePolicy::Ddg { file_width } => place_file(file_width, parent, drawn.shard()),
        FilePolicy::Adaptive(bounds) => {
            let placing = drawn.placing();
            place_file(bounds.width(placing.granularity), parent, placing.shard)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adaptive::{DirBounds, FileBounds};

    const DRAWN: Drawn = Drawn {
        random: 13,
        shards: 8,
        placing: Some(Placing {
            granularity: Granularity {
                dir_depth: 3,
                dir_width: 2,
                file_width: 4,
            },
            shard: ShardId(6),
        }),
    };

    const BOUNDS: DirBounds = DirBounds {
        least_depth: 1,
        most_depth: 9,
        least_width: 1,
        most_width: 9,
    };

    fn parent(dir_num: u32, file_num: u32) -> GrainState {
        GrainState {
            dir_num,
            file_num,
            ..GrainState::root(ShardId(1))
        }
    }

    fn directory(policy: DirPolicy, dir_num: u32, drawn: &Drawn) -> ShardId {
        place_new_directory(policy, &parent(dir_num, 0), false, ShardId(1), drawn).shard
    }

    fn file(policy: FilePolicy, file_num: u32, drawn: &Drawn) -> FilePlacement {
        place_new_file(policy, &parent(0, file_num), ShardId(2), drawn)
    }

    #[test]
    fn only_what_adapts_goes_by_what_is_known() {
        let fixed = DirPolicy::Ddg {
            dir_depth: 9,
            dir_width: 5,
        };
        assert_eq!(directory(fixed, 4, &DRAWN), ShardId(1));
        assert_eq!(directory(fixed, 5, &DRAWN), ShardId(13 % 8));
        let adaptive = DirPolicy::Adaptive(BOUNDS);
        assert_eq!(directory(adaptive, 1, &DRAWN), ShardId(1));
        assert_eq!(directory(adaptive, 2, &DRAWN), ShardId(6));
        assert_eq!(
            file(FilePolicy::Ddg { file_width: 9 }, 9, &DRAWN).shard,
            ShardId(5)
        );
        let adaptive = FilePolicy::Adaptive(FileBounds { least: 1, most: 9 });
        assert_eq!(file(adaptive, 3, &DRAWN).shard, ShardId(1));
        assert_eq!(file(adaptive, 4, &DRAWN).shard, ShardId(6));
    }

    #[test]
    fn a_subtree_is_with_its_parent_wherever_children_went_before() {
        let home = ShardId(1);
        let mut parent = parent(3, 0);
        parent = place_new_directory(DirPolicy::Random, &parent, false, home, &DRAWN).parent_after;
        assert_eq!(parent.dir_shard, ShardId(5));
        for dir_num in 1..=3 {
            let placed = place_new_directory(DirPolicy::Subtree, &parent, false, home, &DRAWN);
            assert_eq!((placed.shard, placed.child.dir_shard), (home, home));
            parent = placed.parent_after;
            assert_eq!((parent.dir_shard, parent.dir_num), (home, dir_num));
        }
        // In the root they are drawn.
        let placed = place_new_directory(DirPolicy::Subtree, &parent, true, home, &DRAWN);
        assert_eq!(placed.shard, ShardId(5));
    }

    #[test]
    fn where_nothing_is_known_units_are_the_smallest_and_drawn_at_random() {
        let ignorant = Drawn {
            placing: None,
            ..DRAWN
        };
        assert_eq!(
            directory(DirPolicy::Adaptive(BOUNDS), 0, &ignorant),
            ShardId(5)
        );
        let files = FilePolicy::Adaptive(FileBounds { least: 1, most: 9 });
        assert_eq!(file(files, 1, &ignorant).shard, ShardId(5));
    }

    #[test]
    fn a_file_with_its_entry_is_no_part_of_a_unit() {
        let placed = file(FilePolicy::WithEntry, 7, &DRAWN);
        assert_eq!(placed.shard, ShardId(2));
        assert_eq!(placed.parent_after, parent(0, 7));
    }
}
