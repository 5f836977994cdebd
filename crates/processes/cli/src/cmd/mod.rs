//! The subcommands: one file each.

pub(crate) mod bench;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod dir;
pub(crate) mod format;
pub(crate) mod fsck;
pub(crate) mod import;
pub(crate) mod layout;
pub(crate) mod model;
pub(crate) mod mount;
pub(crate) mod rebalance;
pub(crate) mod scrub;
pub(crate) mod serve;
pub(crate) mod server;
pub(crate) mod status;
pub(crate) mod top;
pub(crate) mod trace;
pub(crate) mod umount;
pub(crate) mod up;
