//! Pure arithmetic: names and maps in, owners out.
//!
//! | question | answered by |
//! | --- | --- |
//! | which partition of a directory holds a name, and which shard holds the partition | [`DirMap`] |
//! | which shards a directory spreads over, and into how many partitions | [`slot_array`], [`default_max_partitions`] |
//! | where a new directory or file lives | [`place_new_directory`], [`place_new_file`], by what a [`Placer`] knows |
//! | which server leads a shard | [`ClusterMap`], filled in by [`crush_map`] |
//!
//! Invariant: nothing in here does I/O, reads a clock or draws a random number; the same arguments
//! give the same answer on every machine.

pub mod adaptive;
pub mod cluster;
mod cluster_file;
pub mod crush;
pub mod ddg;
pub mod dirmap;
pub mod gather;
pub mod made;
pub mod placer;
pub mod policy;
pub mod requests;
pub mod slots;

pub use adaptive::{Bounds, DirBounds, FileBounds, Granularity};
pub use cluster::{ClusterMap, MapError, ServerInfo, Settings};
pub use crush::crush_map;
pub use ddg::{DirPlacement, FilePlacement, GrainState, place_file, place_within};
pub use dirmap::{DirMap, DirMapError, PartitionIndex, range};
pub use gather::Gather;
pub use made::{Drawn, place_new_directory, place_new_file};
pub use placer::{OBJECTS_OF_A_DIRECTORY, Placer, Placing, ServerLoad, objects};
pub use policy::{DirPolicy, FilePolicy, crush_path_shard, place_directory};
pub use requests::RecentRequests;
pub use slots::{
    default_max_partitions, extended_slots, is_to_spread, is_to_stay, least_to_spread,
    partitions_allowed, partitions_per_server, renewed_slots, slot_array,
};
