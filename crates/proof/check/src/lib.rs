//! Oracles of a whole file system: checks of what its shards have stored, behind `pandofs fsck`.
//!
//! Invariant: pure functions of a [`ClusterDump`], or of [`Tables`] that were filled as it was read; nothing in here
//! reads a server's store, a socket or a clock, and nothing on a server is ever repaired.
//!
//! One oracle, one file in `oracles`, with a planted problem for each that it must catch. A dump
//! taken while the file system is in use is no picture of one moment: an operation over two shards
//! may be seen on one of them only. One takes several such dumps and reports only what [`lasting`]
//! finds. In a dump of stopped servers operations that were under way are finished first, in
//! memory: [`recovery`].

mod branches;
mod dump;
mod inode;
mod oracles;
mod places;
mod problem;
pub mod recovery;
mod tables;
#[cfg(test)]
mod testing;

pub use branches::Branches;
pub use dump::{ClusterDump, ShardPairs};
pub use inode::{Holds, Inode};
pub use places::Places;
pub use problem::{Lasting, Problem, lasting};
pub use tables::Tables;

/// Everything that is wrong, in the order of the oracles; empty for a sound file system.
pub fn check(dump: &ClusterDump) -> Vec<Problem> {
    let mut problems = Vec::new();
    let tables = Tables::decode(dump, &mut problems);
    check_tables(&tables, &mut problems);
    problems
}

/// Problems of a picture of one moment, in which operations may be under way: things that two
/// shards both have and only one may have.
pub fn check_moment(tables: &Tables) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (oracle, check) in oracles::ALWAYS {
        let problems = &mut problems;
        check(tables, &mut oracles::Report { oracle, problems });
    }
    problems
}

pub use oracles::routes::probes;

/// As [`check`], on what is decoded already.
pub fn check_tables(tables: &Tables, problems: &mut Vec<Problem>) {
    for (oracle, check) in oracles::ALL {
        check(tables, &mut oracles::Report { oracle, problems });
    }
}
