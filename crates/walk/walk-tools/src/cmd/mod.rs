//! One file for each tool.

pub mod chmod;
pub mod chown;
pub mod cmp;
pub mod cp;
pub mod du;
pub mod find;
pub mod rm;
pub mod sum;
pub mod sync;
pub mod tar;
pub mod walk;
