//! Storage ports: the key-value [`store`] and the [`log`] that a lane stands on, whatever keeps them.
//!
//! Invariant: nothing in here touches a disk, a clock or a network, starts a thread, or depends on the
//! order in which a hash map would be walked. Every implementation of a port passes the port's
//! conformance suite (feature `suite`).

pub mod log;
pub mod store;
