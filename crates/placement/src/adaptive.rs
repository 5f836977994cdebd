//! Dynamic Dir-Grain whose granularity follows the name space and the load.
//!
//! Xiong et al. find the best granularity by trying (section 5.1.3) and name finding it automatically as the
//! preferable way. What their trials come to is: units as large as can be, because each border between units
//! costs distributed operations, but no larger than that the servers stay evenly loaded. So a unit is
//! measured by what a shard has: as long as the loads are even the units get larger, when they are not the
//! units get smaller, and no directory keeps more files in one place than a small part of what a shard has
//! altogether. What has been placed stays where it is; the next objects are placed otherwise.

use crate::ddg::{DirPlacement, DirPolicy, FilePolicy, GrainState, place_directory};
use pandofs_types::ShardId;
use pandofs_types::limits::DEFAULT_SPLIT_THRESHOLD;
use serde::{Deserialize, Serialize};

/// The granularity ⟨DirDep, DirWid, FileWid⟩ of section 3.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Granularity {
    pub dir_depth: u32,
    pub dir_width: u32,
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

/// Between which granularities it is adjusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    pub least: Granularity,
    pub most: Granularity,
}

impl Default for Bounds {
    /// The ranges that the paper tries, without those that it advises against: depths beyond 6, and widths
    /// of one. Files are kept together at least up to where a directory begins to split anyway.
    fn default() -> Bounds {
        Bounds {
            least: Granularity {
                dir_depth: 2,
                dir_width: 4,
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
    /// Those of a file system; of what does not adapt there the default ones, for the directories where it does.
    pub fn of(directories: DirPolicy, files: FilePolicy) -> Bounds {
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

    fn directories(&self) -> DirBounds {
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

/// Between which depths and widths the units of a directory's subdirectories are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DirBounds {
    pub least_depth: u32,
    pub most_depth: u32,
    pub least_width: u32,
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

    /// Places a new child directory as [`place_directory`] does, in units of the size within the bounds that is
    /// nearest to `size`, but for one thing: the files of a directory begin where the directory is. (By the paper's
    /// figure 2 they begin where the last file of its parent went. That is another shard than the directory's own
    /// as soon as its parent's children have begun a new unit, and then all its files are branch files.)
    pub fn place_directory(
        &self,
        size: Granularity,
        parent: &GrainState,
        random: ShardId,
    ) -> DirPlacement {
        let policy = DirPolicy::Ddg {
            dir_depth: size.dir_depth.clamp(self.least_depth, self.most_depth),
            dir_width: size.dir_width.clamp(self.least_width, self.most_width),
        };
        let mut placement = place_directory(policy, parent, false, random);
        placement.child.file_shard = placement.shard;
        placement
    }
}

/// Between which numbers of a directory's files are kept together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileBounds {
    pub least: u32,
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

// The two limits were found by trying, with `pandofs model adaptive`: closer ones make more and smaller units
// than evenness is worth, wider ones let single shards outgrow their caches.

/// The most loaded shard has this much more than the mean, in per cent, before units get smaller.
pub const UNEVEN_PERCENT: u128 = 30;
/// And less than this before they get larger.
pub const EVEN_PERCENT: u128 = 20;
/// Of what a shard has on the average, the files of one directory may be one part in so many.
pub const DIRECTORY_FRACTION: u64 = 16;
/// Objects made between two adjustments, for each server: what is adjusted next is to have been tried.
pub const OBJECTS_BETWEEN_ADJUSTMENTS: u64 = 32;

/// The granularity in force, and what it is adjusted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adaptive {
    bounds: Bounds,
    current: Granularity,
}

impl Adaptive {
    /// Begins in the middle: depth 4 and width 16, which is the default of the fixed policy, within the bounds.
    ///
    /// # Panics
    /// When the bounds hold no granularity.
    pub fn new(bounds: Bounds) -> Adaptive {
        assert!(bounds.is_valid(), "no granularity within {bounds:?}");
        let (least, most) = (bounds.least, bounds.most);
        let current = Granularity {
            dir_depth: 4.clamp(least.dir_depth, most.dir_depth),
            dir_width: 16.clamp(least.dir_width, most.dir_width),
            file_width: least.file_width,
        };
        Adaptive { bounds, current }
    }

    pub fn granularity(&self) -> Granularity {
        self.current
    }

    /// Adjusts to what the shards have now: objects, or requests of late.
    pub fn adjust(&mut self, loads: &[u64]) {
        // What others tell may be wrong; a sum of it is never too large.
        let total: u128 = loads.iter().copied().map(u128::from).sum();
        let most = loads.iter().max().copied().map_or(0, u128::from);
        if total == 0 {
            return;
        }
        let shards = loads.len() as u128;
        let Bounds {
            least,
            most: largest,
        } = self.bounds;
        let files = total / shards / u128::from(DIRECTORY_FRACTION);
        self.current.file_width = u32::try_from(files)
            .unwrap_or(u32::MAX)
            .clamp(least.file_width, largest.file_width);
        // By how much the most loaded one is over the mean.
        let percent = (most * shards - total) * 100 / total;
        let now = &mut self.current;
        if percent > UNEVEN_PERCENT {
            // The width first: it is what makes units of very different sizes.
            if now.dir_width > least.dir_width {
                now.dir_width = (now.dir_width / 2).max(least.dir_width);
            } else if now.dir_depth > least.dir_depth {
                now.dir_depth -= 1;
            }
        } else if percent < EVEN_PERCENT {
            if now.dir_depth < largest.dir_depth {
                now.dir_depth += 1;
            } else if now.dir_width < largest.dir_width {
                now.dir_width = (now.dir_width.saturating_mul(2)).min(largest.dir_width);
            }
        }
    }

    /// Places a new child directory, see [`DirBounds::place_directory`].
    ///
    /// On a shard that has more than its share, as `loads` knows it, the units are as small as the bounds allow.
    pub fn place_directory(
        &self,
        parent: &GrainState,
        random: ShardId,
        loads: &[u64],
    ) -> DirPlacement {
        let size = if is_overloaded(parent.dir_shard, loads) {
            self.bounds.least
        } else {
            self.current
        };
        let bounds = self.bounds.directories();
        bounds.place_directory(size, parent, random)
    }
}

/// Whether the shard has over [`UNEVEN_PERCENT`] more than the mean.
fn is_overloaded(shard: ShardId, loads: &[u64]) -> bool {
    let total: u128 = loads.iter().copied().map(u128::from).sum();
    let load = loads
        .get(usize::from(shard.0))
        .copied()
        .map_or(0, u128::from);
    load * loads.len() as u128 * 100 > total * (100 + UNEVEN_PERCENT)
}

/// Of two shards drawn at random the one that has less. (Choosing the less loaded of two keeps the largest load
/// near the mean where a single draw does not: Azar, Broder, Karlin and Upfal, "Balanced Allocations", 1994.)
/// A shard of which nothing is known counts as one that has nothing.
pub fn less_loaded(one: ShardId, other: ShardId, loads: &[u64]) -> ShardId {
    let load = |shard: ShardId| loads.get(usize::from(shard.0)).copied().unwrap_or(0);
    if load(other) < load(one) { other } else { one }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adjusted(loads: &[u64], times: u32) -> Granularity {
        let mut adaptive = Adaptive::new(Bounds::default());
        for _ in 0..times {
            adaptive.adjust(loads);
        }
        adaptive.granularity()
    }

    #[test]
    fn even_loads_make_units_larger_up_to_their_bound() {
        let even = [10_000; 16];
        let once = adjusted(&even, 1);
        assert_eq!((once.dir_depth, once.dir_width), (5, 16));
        assert_eq!(adjusted(&even, 100).dir_depth, 6);
        assert_eq!(adjusted(&even, 100).dir_width, 256);
    }

    #[test]
    fn uneven_loads_make_units_smaller_down_to_their_bound() {
        let uneven = [100, 200, 100, 100];
        assert_eq!(adjusted(&uneven, 1).dir_width, 8);
        let least = Bounds::default().least;
        assert_eq!(adjusted(&uneven, 100), least);
    }

    #[test]
    fn in_between_nothing_changes() {
        let nearly = [1_000, 1_000, 1_000, 1_350];
        let (before, after) = (adjusted(&[], 1), adjusted(&nearly, 50));
        assert_eq!(before, after);
    }

    #[test]
    fn a_directory_keeps_a_part_of_what_a_shard_has() {
        assert_eq!(adjusted(&[100; 4], 1).file_width, 8_000);
        assert_eq!(adjusted(&[160_000; 4], 1).file_width, 10_000);
        assert_eq!(adjusted(&[u64::MAX / 8; 4], 1).file_width, 1 << 20);
    }

    #[test]
    fn a_child_has_its_files_with_it_and_what_is_placed_stays() {
        let adaptive = Adaptive::new(Bounds::default());
        let parent = GrainState {
            dir_depth: 1,
            dir_shard: ShardId(2),
            dir_num: 3,
            file_shard: ShardId(7),
            file_num: 500,
        };
        let placed = adaptive.place_directory(&parent, ShardId(5), &[1; 8]);
        assert_eq!(placed.shard, ShardId(2));
        assert_eq!(placed.child.file_shard, ShardId(2));
        assert_eq!(placed.parent_after.file_shard, ShardId(7));
    }

    #[test]
    fn on_an_overloaded_shard_units_are_as_small_as_may_be() {
        let adaptive = Adaptive::new(Bounds::default());
        let parent = GrainState {
            dir_num: 4,
            ..GrainState::root(ShardId(2))
        };
        let place = |loads: &[u64]| adaptive.place_directory(&parent, ShardId(5), loads).shard;
        assert_eq!(place(&[10, 10, 12, 10, 10, 10]), ShardId(2));
        assert_eq!(place(&[10, 10, 20, 10, 10, 10]), ShardId(5));
        assert_eq!(place(&[]), ShardId(2));
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

    #[test]
    fn what_does_not_adapt_in_the_file_system_has_the_default_bounds() {
        let fixed = Bounds::of(DirPolicy::default(), FilePolicy::WithEntry);
        assert_eq!(fixed, Bounds::default());
        let dirs = DirBounds {
            least_depth: 3,
            ..DirBounds::default()
        };
        let files = FileBounds { least: 1, most: 7 };
        let both = Bounds::of(DirPolicy::Adaptive(dirs), FilePolicy::Adaptive(files));
        assert_eq!(both.directories(), dirs);
        assert_eq!((both.least.file_width, both.most.file_width), (1, 7));
    }

    #[test]
    fn the_less_loaded_of_two() {
        let loads = [5, 3, 3];
        assert_eq!(less_loaded(ShardId(0), ShardId(1), &loads), ShardId(1));
        assert_eq!(less_loaded(ShardId(2), ShardId(1), &loads), ShardId(2));
        assert_eq!(less_loaded(ShardId(0), ShardId(9), &loads), ShardId(9));
    }
}
