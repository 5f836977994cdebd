//! Data objects: the stripes of files, each a file of the local file system.
//!
//! The object of inode `0123456789abcdef` (hexadecimal) is `data/ef/0123456789abcdef` below the
//! server's directory: the last byte of the number spreads files that were made one after the other
//! over 256 directories. Holes are holes.

mod objects;
mod open;
pub(crate) mod pool;
mod space;
mod sums;
mod syncer;

pub(crate) use objects::{list, prepare};
