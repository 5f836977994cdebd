//! Tests of the tools, one binary for all: each more would be linked by itself.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod checkpoint_names;
mod chmod;
mod closed_output;
mod common;
mod copy;
mod copy_whole;
mod du;
mod find;
mod find_actions;
mod full_disk;
mod habits;
mod interrupted;
mod interrupted_copies;
mod json;
mod progress;
mod rm;
mod sum;
mod sync;
mod tar;
mod tar_acl;
mod tar_again;
mod tar_damaged;
mod walk;
