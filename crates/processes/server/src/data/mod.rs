//! Data objects: stripes of files, each a local file with its checksums beside it.
//!
//! The object of inode `0123456789abcdef` (hexadecimal) is `data/ef/0123456789abcdef` below the
//! server's directory: the last byte of the number spreads files that were made one after the other
//! over 256 directories. Holes are holes. Its checksums are `data/ef/0123456789abcdef.sums`.

mod direct;
mod extents;
mod generation;
mod health;
mod listing;
mod objects;
mod open;
pub(crate) mod pool;
mod port;
pub(crate) mod rewriting;
mod settling;
mod space;
mod sums;
mod syncer;
#[cfg(test)]
mod tests;
mod worker;

pub(crate) use direct::DirectFile;
pub(crate) use extents::next_data;
pub(crate) use health::is_of_the_disk;
pub(crate) use listing::{list, names};
pub(crate) use objects::{Holdings, directory, path, sums_path};
pub(crate) use sums::{BLOCK, HEADER_BYTES, block_at, fit, has_broken_header, place};
pub(crate) use worker::{Job, Judged};
