//! Tests of the walk on real trees, one binary for all: each more would be linked by itself.

mod checkpoints;
#[path = "../common/mod.rs"]
mod common;
mod interrupted;
mod processes;
mod same_as_find;
mod troubles;
mod troubles_together;
