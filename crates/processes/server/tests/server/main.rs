//! Tests of a server over its sockets, one binary for all: each more would be linked by itself.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod cluster;
mod common;
mod data;
mod durability;
mod engines;
mod generations;
mod handshake;
mod joins;
mod observer;
mod peers;
mod scrub;
