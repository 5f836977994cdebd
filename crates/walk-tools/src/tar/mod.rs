//! Archives in the POSIX format (pax), with the sparse files of GNU tar 1.0, written and read in parallel.

pub mod beneath;
pub mod book;
pub mod create;
pub mod extract;
pub mod header;
pub mod parse;
pub mod sink;
