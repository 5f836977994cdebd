//! Parts of `sum`: lists of digests, directories.

pub(crate) mod check;
pub(crate) mod elements;
pub(crate) mod list;
