//! Tests of the commit protocols, one binary for all: each more would be linked by itself.

mod common;
mod coordination;
mod participation;
mod protocols;
mod recovery;
mod repeated_messages;
