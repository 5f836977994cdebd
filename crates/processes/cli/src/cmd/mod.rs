//! The subcommands: one file each.

pub mod bench;
pub mod completions;
pub mod demo;
pub mod dir;
pub mod format;
pub mod fsck;
pub mod layout;
pub mod model;
pub mod mount;
pub mod rebalance;
pub mod scrub;
pub mod serve;
pub mod server;
pub mod status;
pub mod trace;
pub mod umount;
pub mod up;
