//! Copying of trees, common to `cp` and `sync`.

pub mod attributes;
pub mod copier;
pub mod data;
pub mod delete;
pub mod large;
pub mod links;
pub mod pieces;
mod several;
pub mod temporary;
pub mod twin;
pub mod wanted;
