//! What `sum` is made of: lists of digests, directories.

pub mod check;
pub mod elements;
pub mod list;
