//! Copying of trees, common to `cp` and `sync`.

pub(crate) mod attributes;
pub(crate) mod copier;
pub(crate) mod data;
pub(crate) mod delete;
pub(crate) mod large;
pub(crate) mod links;
pub(crate) mod pieces;
mod several;
pub(crate) mod temporary;
pub(crate) mod twin;
pub(crate) mod wanted;
