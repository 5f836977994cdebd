//! Archives in the POSIX format (pax), written and read in parallel.
//!
//! Sparse files are those of GNU tar 1.0.

pub(crate) mod acl;
pub(crate) mod allocator;
pub(crate) mod args;
pub(crate) mod byte_budget;
pub(crate) mod choice;
pub(crate) mod compress;
pub(crate) mod create;
pub(crate) mod extract;
pub(crate) mod fields;
pub(crate) mod header;
pub(crate) mod input;
pub(crate) mod last;
pub(crate) mod listing;
pub(crate) mod parse;
pub(crate) mod pending;
pub(crate) mod read;
pub(crate) mod resolve_beneath;
pub(crate) mod sink;
pub(crate) mod sorted;
pub(crate) mod unpack;
