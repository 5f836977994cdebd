//! Deputy beside a shard's name space that executes what it sends.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod away;
mod errands;
mod merged;
mod model;
mod queues;
mod removed_away;
mod server;
mod turns;
