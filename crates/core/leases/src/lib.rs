//! Leases: who may believe what, until when, and who waits until nobody does.
//!
//! In [`file_locks`] who has which bytes of which file locked.
//!
//! A session that reads something under a lease may believe it until the lease is over ([`LEASE`]) or is
//! recalled, without asking again. A request that changes it [clears](LeaseTable::clear) it first: leases of
//! other sessions are recalled, no new ones are given, and the change waits until all have answered or
//! their time is up. A lease is never prolonged; a session that still wants to know asks again. While many are given
//! new ones are short ([`SHORT_LEASE`]) and then brief ([`BRIEF_LEASE`]), but for those that are said to last.
//!
//! A *grant* is a lease of a whole directory that only one session has, for as long as it renews its grants: all of a
//! session end together, and have an incarnation that tells them from those that it had before it lost all.
//!
//! How it stays right although messages cross, are lost, or come twice:
//! - A recall has a number, and an answer to it only ends leases that were given before it was sent. A
//!   lease that ran out unanswered and was given anew is not touched by the late answer to the old recall.
//! - A session that lost its connection [starts anew](LeaseTable::drop_session): it believes nothing, and
//!   what was recalled from it is answered thereby.
//! - Time is that of a clock that nobody sets. The session counts from an earlier moment than this table, so
//!   what it believes ends first.
//!
//! Invariant: no I/O, clock, randomness or threads; while a key is being cleared, or was and the change is
//! still to come, nobody is given a lease of it; no two owners ever have locks of a byte that exclude one another.
//!
//! [`LEASE`]: pandofs_types::limits::LEASE
//! [`SHORT_LEASE`]: pandofs_types::limits::SHORT_LEASE
//! [`BRIEF_LEASE`]: pandofs_types::limits::BRIEF_LEASE

pub mod file_locks;
mod grants;
mod table;

pub use table::{LeaseTable, Recall, Room, WaitId};
