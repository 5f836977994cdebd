//! Shards without a network: the test carries every message.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod accessed;
mod acls;
mod adaptive;
mod batches;
mod branch_files;
mod by_path;
mod clocks;
mod copying;
mod decisions;
mod dir_grain;
mod distributed;
mod exchange;
mod forged;
mod forwarding;
mod gates;
mod granted_splits;
mod grants;
mod held;
mod inline;
mod joins;
mod last_steps;
mod leases;
mod links;
mod locks;
mod merges;
mod merging;
mod mkdir_away;
mod no_room;
mod notes;
mod opens;
mod outcomes;
mod protocols;
mod repeated;
mod rmdir_away;
mod set_id;
mod set_mtime;
mod splits;
mod stripings;
mod support;
mod tombstones;
mod truncations;
mod unnamed;
mod warming;
