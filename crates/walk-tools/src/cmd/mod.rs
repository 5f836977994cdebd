//! One file for each tool.

pub mod cp;
pub mod du;
pub mod find;
pub mod rm;
pub mod sync;
pub mod walk;
