//! Archives in the POSIX format (pax), written and read in parallel.
//!
//! Sparse files are those of GNU tar 1.0.

pub mod acl;
pub mod allocator;
pub mod args;
pub mod byte_budget;
pub mod choice;
pub mod compress;
pub mod create;
pub mod extract;
pub mod fields;
pub mod header;
pub mod input;
pub mod last;
pub mod listing;
pub mod parse;
pub mod pending;
pub mod read;
pub mod resolve_beneath;
pub mod sink;
pub mod sorted;
pub mod unpack;
