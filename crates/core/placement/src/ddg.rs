//! Distribution units of Dynamic Dir-Grain: their state and their transitions.
//!
//! Xiong et al., section 3.3 and figure 2.

use pandofs_types::ShardId;
use serde::{Deserialize, Serialize};

/// State of a directory for the placement of its children: the five values of section 3.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GrainState {
    /// The directory's depth in its distribution unit, 1 for the one that begins it.
    pub dir_depth: u32,
    /// The shard of the unit that the most recent child directory is in.
    pub dir_shard: ShardId,
    /// Child directories made in that unit.
    pub dir_num: u32,
    /// The shard of the unit that the most recent child file is in.
    pub file_shard: ShardId,
    /// Child files made in that unit.
    pub file_num: u32,
}

impl GrainState {
    /// The state of a directory that begins a unit on its own shard: the root at its home.
    pub fn root(home: ShardId) -> GrainState {
        GrainState {
            dir_depth: 1,
            dir_shard: home,
            dir_num: 0,
            file_shard: home,
            file_num: 0,
        }
    }
}

/// Where a new directory goes, and what it and its parent remember.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirPlacement {
    /// The home of the new directory.
    pub shard: ShardId,
    /// To be stored in the parent, in place of its state.
    pub parent_after: GrainState,
    /// To be stored in the new directory.
    pub child: GrainState,
}

/// Places a new child directory of `parent` in units of at most `max_depth` levels, with at most
/// `max_width` child directories of each directory (figure 2, second part). `random` is the shard
/// for a new unit, drawn by the caller.
pub fn place_within(
    max_depth: u32,
    max_width: u32,
    parent: &GrainState,
    random: ShardId,
) -> DirPlacement {
    let depth = parent.dir_depth.saturating_add(1);
    let width = parent.dir_num.saturating_add(1);
    if depth > max_depth || width > max_width {
        return DirPlacement {
            shard: random,
            parent_after: GrainState {
                dir_shard: random,
                dir_num: 1,
                ..*parent
            },
            child: GrainState::root(random),
        };
    }
    DirPlacement {
        shard: parent.dir_shard,
        parent_after: GrainState {
            dir_num: width,
            ..*parent
        },
        child: GrainState {
            dir_depth: depth,
            dir_shard: parent.dir_shard,
            dir_num: 0,
            file_shard: parent.file_shard,
            file_num: 0,
        },
    }
}

/// Where a new file's inode goes, and what its directory remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilePlacement {
    /// The shard for the inode; the entry stays with its partition.
    pub shard: ShardId,
    /// To be stored in the directory, in place of its state.
    pub parent_after: GrainState,
}

/// Places the inode of a new file in `parent`, at most `file_width` files of a directory in one
/// unit (figure 2, first part). `random` is as for [`place_within`].
pub fn place_file(file_width: u32, parent: &GrainState, random: ShardId) -> FilePlacement {
    let width = parent.file_num.saturating_add(1);
    let (shard, file_num) = if width <= file_width {
        (parent.file_shard, width)
    } else {
        (random, 1)
    };
    FilePlacement {
        shard,
        parent_after: GrainState {
            file_shard: shard,
            file_num,
            ..*parent
        },
    }
}
