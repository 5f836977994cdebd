//! The tools: one file each.

pub mod du;
pub mod find;
pub mod rm;
pub mod walk;
