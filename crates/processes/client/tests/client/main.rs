//! Tests of the client against real servers, one binary for all: each more would be linked by itself.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod accesses;
mod away;
mod brought;
mod by_path;
mod common;
mod data;
mod dirs;
mod given_up;
mod held;
mod locks;
mod lost;
mod many;
mod model;
mod plain;
mod recalls;
mod redirect;
mod retry;
mod session;
mod space;
mod spans;
mod trace;
mod truncations;
