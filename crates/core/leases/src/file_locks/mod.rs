//! Advisory locks: who has which bytes of which file locked, and who waits for them.
//!
//! [`FileLocks`] is one file: locked ranges, cut and merged as POSIX has it. [`LockTable`] is all files of
//! a shard with those who wait, in the order in which they came. A client keeps a [`FileLocks`] for each
//! file that it has locks on, to be able to tell them again.
//!
//! Which of several owners that wait gets a lock:
//! - An owner that asks gets a lock that nothing *held* is in the way of, as on Linux: those who wait
//!   are not in the way. Were it otherwise, a reader could wait for a writer who waits for another
//!   reader who waits for the first one to do something.
//! - When something is unlocked, those who wait are looked at in the order in which they came, at once, so
//!   an owner that comes later does not get in between.
//! - An owner that waits is told "not yet" after a while, and keeps the place until it asks again. In
//!   between it gets nothing: a lock is only given to somebody who is there to be told.
//! - An owner that does not want to wait is told at once that somebody has the lock, unless a descriptor
//!   through which it was made was closed a moment ago: it may have been the last one, and the client, which
//!   ends a lock with its open file, only hears of that after the program. So a program that closes a file,
//!   and then another one that asks for the lock, find it unlocked.
//! - Changing a lock of `flock()` from shared to exclusive first gives up the shared one if somebody is in
//!   the way (so flock(2)): two who change at the same time go one after the other. Of `fcntl()` the
//!   old lock stays until the new one is there, and two who change at the same time are a deadlock.
//!
//! A deadlock among locks of `fcntl()` is found when somebody begins to wait (and each time it asks again)
//! and thereby closes a circle of owners of which each waits for the next, all on files of one table: the
//! last one is refused. Not found are circles over several shards and those with a lock of `flock()` in
//! them (Linux looks for neither), and circles of more than `MAX_DEADLOCK_OWNERS`. Owners that are open file
//! descriptions (`F_OFD_SETLKW`) are not told apart from processes and looked for as well, which Linux does not.
//!
//! Invariant: no two owners ever have locks of one kind on one byte of which one is exclusive.

mod file;
mod table;

pub use file::{FileLocks, Owner};
pub use table::{Asked, Event, LockTable, Outcome, WaitId};
