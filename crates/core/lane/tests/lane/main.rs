//! A lane over a log and a store in memory.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod disk;
mod driver;
mod requests;
mod servers;
