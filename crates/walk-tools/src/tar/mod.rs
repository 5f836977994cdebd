//! Archives in the POSIX format (pax), with the sparse files of GNU tar 1.0, written and read in parallel.

pub mod acl;
pub mod beneath;
pub mod book;
pub mod choice;
pub mod compress;
pub mod create;
pub mod extract;
pub mod fields;
pub mod header;
pub mod held;
pub mod input;
pub mod last;
pub mod listing;
pub mod parse;
pub mod pending;
pub mod read;
pub mod sink;
pub mod sorted;
pub mod unpack;
pub mod words;
