//! Open files, of which the system lets a process have only so many.
//!
//! All that a server opens is counted and limited: were it to open files until it is refused, it
//! would be refused in the middle of something.

use crate::error::StartError;
use crate::limits::{DATA_THREADS, MAX_CONNECTIONS, MAX_OPEN_OBJECTS, MIN_SERVER_OPEN_FILES};
use pandofs_types::limits::{MAX_OPEN_TABLES, MIN_OPEN_TABLES, OTHER_OPEN_FILES};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The data and the checksums.
const FILES_PER_OBJECT: usize = 2;
/// With few files, one in so many is for tables, and one in so many for data objects.
const SHARE: usize = 4;

/// How many of what a server has open at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptors {
    pub connections: usize,
    pub objects: usize,
    pub tables: usize,
}

impl Descriptors {
    /// With everything there is a limit for.
    const FULL: Descriptors = Descriptors {
        connections: MAX_CONNECTIONS,
        objects: MAX_OPEN_OBJECTS,
        tables: MAX_OPEN_TABLES,
    };

    fn files(&self) -> usize {
        self.connections + FILES_PER_OBJECT * self.objects + self.tables + OTHER_OPEN_FILES
    }

    /// For a process that may have `limit` files open, [`MIN_SERVER_OPEN_FILES`] at least.
    fn within(limit: usize) -> Descriptors {
        if limit >= Descriptors::FULL.files() {
            return Descriptors::FULL;
        }
        let objects = (limit / SHARE / FILES_PER_OBJECT).clamp(DATA_THREADS, MAX_OPEN_OBJECTS);
        let tables = (limit / SHARE).clamp(MIN_OPEN_TABLES, MAX_OPEN_TABLES);
        let others = FILES_PER_OBJECT * objects + tables + OTHER_OPEN_FILES;
        Descriptors {
            connections: (limit - others).min(MAX_CONNECTIONS),
            objects,
            tables,
        }
    }

    /// Returns the limit that the system grants when it is asked for as many as it may give, which
    /// is often more than it gives at first.
    ///
    /// # Errors
    /// When that is too little to serve with.
    pub(crate) fn raised() -> Result<Descriptors, StartError> {
        let needed = Descriptors::FULL.files() as u64;
        let limit = getrlimit(Resource::Nofile);
        let Some(current) = limit.current.filter(|&current| current < needed) else {
            return Ok(Descriptors::FULL);
        };
        let raised = limit.maximum.map_or(needed, |maximum| maximum.min(needed));
        let new = Rlimit {
            current: Some(raised),
            maximum: limit.maximum,
        };
        let granted = match setrlimit(Resource::Nofile, new) {
            Ok(()) => raised,
            Err(error) => {
                tracing::warn!("cannot raise the limit of open files: {error}");
                current
            }
        };
        let granted = usize::try_from(granted).unwrap_or(usize::MAX);
        if granted < MIN_SERVER_OPEN_FILES {
            return Err(StartError::FewFiles(granted));
        }
        let descriptors = Descriptors::within(granted);
        // A server with 4,096 connections lacks nothing yet.
        if descriptors.connections < MAX_CONNECTIONS / 4 {
            tracing::info!(
                "open files are limited to {granted} ({needed} would be needed for all there is a limit \
                 for): {} connections, {} data objects and {} tables are open at once",
                descriptors.connections,
                descriptors.objects,
                descriptors.tables
            );
        }
        Ok(descriptors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_shared_out() {
        assert_eq!(Descriptors::within(usize::MAX), Descriptors::FULL);
        assert_eq!(
            Descriptors::within(Descriptors::FULL.files()),
            Descriptors::FULL
        );
        let few = Descriptors {
            connections: 256 - 64 - 64 - 64,
            objects: 32,
            tables: 64,
        };
        assert_eq!(Descriptors::within(256), few);
        for limit in (MIN_SERVER_OPEN_FILES..1_024).chain([4_096, 20_000]) {
            let descriptors = Descriptors::within(limit);
            assert!(descriptors.objects >= DATA_THREADS && descriptors.connections >= 16);
            assert!(descriptors.files() <= limit, "{limit}");
        }
    }
}
