//! Parts of `sum`: lists of digests, directories.

pub mod check;
pub mod elements;
pub mod list;
