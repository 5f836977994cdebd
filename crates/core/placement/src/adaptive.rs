//! Dynamic Dir-Grain whose granularity follows the name space and the load: its bounds.
//!
//! Xiong et al. find the best granularity by trying (section 5.1.3) and name finding it automatically as the
//! preferable way (section 3). Their trials come to units as large as can be, because each border between
//! units costs distributed operations, but no larger than that the servers stay evenly loaded. So units are as large
//! as the bounds allow where a server has no more than its part, and as small as they allow where it has too much:
//! see [`crate::placer`], which knows that. Objects that have been placed stay where they are; the next ones are
//! placed otherwise.

use crate::ddg::{DirPlacement, GrainState, place_within};
use pandofs_types::ShardId;
use pandofs_types::limits::DEFAULT_SPLIT_THRESHOLD;
use serde::{Deserialize, Serialize};

/// The granularity ⟨DirDep, DirWid, FileWid⟩ of section 3.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Granularity {
    /// Levels of directories in one unit, 1 or more.
    pub dir_depth: u32,
    /// Subdirectories of one directory that stay in its unit, 1 or more.
    pub dir_width: u32,
    /// Files of one directory whose inodes are kept together, 1 or more.
    pub file_width: u32,
}

impl Granularity {
    /// As small as the bounds of any directory allow.
    pub const SMALLEST: Granularity = Granularity {
        dir_depth: 1,
        dir_width: 1,
        file_width: 1,
    };
}

/// Bounds within which the granularity is adjusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// Of a server that has more than its part.
    pub least: Granularity,
    /// Of a server that has no more than its part.
    pub most: Granularity,
}

impl Default for Bounds {
    /// The ranges that the paper tries, without depths beyond 6, which it advises against (section 5.1.3). The least are
    /// those of a server that has too much, which keeps nothing then. Files are kept together at least up to where a directory begins to split anyway.
    fn default() -> Bounds {
        Bounds {
            least: Granularity {
                dir_depth: 1,
                dir_width: 1,
                file_width: DEFAULT_SPLIT_THRESHOLD,
            },
            most: Granularity {
                dir_depth: 6,
                dir_width: 256,
                file_width: 1 << 20,
            },
        }
    }
}

impl Bounds {
    pub(crate) fn directories(&self) -> DirBounds {
        DirBounds {
            least_depth: self.least.dir_depth,
            most_depth: self.most.dir_depth,
            least_width: self.least.dir_width,
            most_width: self.most.dir_width,
        }
    }

    /// Whether there is a granularity within them, and units have levels and children.
    pub fn is_valid(&self) -> bool {
        let files = FileBounds {
            least: self.least.file_width,
            most: self.most.file_width,
        };
        self.directories().is_valid() && files.is_valid()
    }
}

/// Bounds of the depths and widths of the units of a directory's subdirectories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DirBounds {
    /// Levels, 1 or more.
    pub least_depth: u32,
    /// Levels, no fewer than `least_depth`.
    pub most_depth: u32,
    /// Subdirectories of one directory, 1 or more.
    pub least_width: u32,
    /// Subdirectories of one directory, no fewer than `least_width`.
    pub most_width: u32,
}

impl Default for DirBounds {
    fn default() -> DirBounds {
        Bounds::default().directories()
    }
}

impl DirBounds {
    /// Whether there is a granularity within them, and units have levels and children.
    pub fn is_valid(&self) -> bool {
        (1..=self.most_depth).contains(&self.least_depth)
            && (1..=self.most_width).contains(&self.least_width)
    }

    /// Places a new child directory as [`place_within`] does, in units of the size within the
    /// bounds that is nearest to `size`, but for one thing: the files of a directory begin where
    /// the directory is. (By the paper's figure 2 they begin where the last file of its parent
    /// went. That is another shard than the directory's own as soon as its parent's children have
    /// begun a new unit, and then all its files are branch files.)
    pub fn place_directory(
        &self,
        size: Granularity,
        parent: &GrainState,
        random: ShardId,
    ) -> DirPlacement {
        let depth = size.dir_depth.clamp(self.least_depth, self.most_depth);
        let width = size.dir_width.clamp(self.least_width, self.most_width);
        let mut placement = place_within(depth, width, parent, random);
        placement.child.file_shard = placement.shard;
        placement
    }
}

/// Bounds of the number of a directory's files that are kept together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileBounds {
    /// Files, 1 or more.
    pub least: u32,
    /// Files, no fewer than `least`.
    pub most: u32,
}

impl Default for FileBounds {
    fn default() -> FileBounds {
        let Bounds { least, most } = Bounds::default();
        FileBounds {
            least: least.file_width,
            most: most.file_width,
        }
    }
}

impl FileBounds {
    /// Whether there is a width within them, and units have files.
    pub fn is_valid(&self) -> bool {
        (1..=self.most).contains(&self.least)
    }

    /// The width within the bounds that is nearest to `size`.
    pub fn width(&self, size: Granularity) -> u32 {
        size.file_width.clamp(self.least, self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_has_its_files_with_it_and_what_is_placed_stays() {
        let parent = GrainState {
            dir_depth: 1,
            dir_shard: ShardId(2),
            dir_num: 3,
            file_shard: ShardId(7),
            file_num: 500,
        };
        let size = Bounds::default().most;
        let placed = DirBounds::default().place_directory(size, &parent, ShardId(5));
        assert_eq!(placed.shard, ShardId(2));
        assert_eq!(placed.child.file_shard, ShardId(2));
        assert_eq!(placed.parent_after.file_shard, ShardId(7));
    }

    #[test]
    fn a_directorys_bounds_narrow_those_of_the_file_system() {
        let narrow = DirBounds {
            least_depth: 1,
            most_depth: 2,
            least_width: 2,
            most_width: 3,
        };
        let parent = |dir_depth, dir_num| GrainState {
            dir_depth,
            dir_num,
            ..GrainState::root(ShardId(2))
        };
        let large = Bounds::default().most;
        let place = |size, parent: GrainState| narrow.place_directory(size, &parent, ShardId(5));
        assert_eq!(place(large, parent(1, 2)).shard, ShardId(2));
        assert_eq!(place(large, parent(1, 3)).shard, ShardId(5));
        assert_eq!(place(large, parent(2, 0)).shard, ShardId(5));
        let smallest = Granularity::SMALLEST;
        assert_eq!(place(smallest, parent(1, 0)).shard, ShardId(5));
        let files = FileBounds { least: 2, most: 9 };
        assert_eq!((files.width(smallest), files.width(large)), (2, 9));
    }
}
