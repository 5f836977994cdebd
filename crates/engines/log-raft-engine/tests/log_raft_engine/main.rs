//! Tests of the log on disk, one binary for all: each more would be linked by itself.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod behaviour;
#[path = "../common/mod.rs"]
mod common;
mod corruption;
mod random;
mod suite;
