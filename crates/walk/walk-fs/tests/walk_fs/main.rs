//! Tests of the walk on real trees, one binary for all: each more would be linked by itself.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod checkpoints;
#[path = "../common/mod.rs"]
mod common;
mod interrupted;
mod processes;
mod same_as_find;
mod troubles;
mod troubles_together;
