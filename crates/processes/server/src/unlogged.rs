//! A log that keeps nothing, to measure what the log costs.

use pandofs_storage::log::{Entry, Log, LogError, Visit};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Environment variable with which a server has no log. For measurements only: nothing that it acknowledges survives
/// the end of its process, and operations over several servers are torn by it.
pub const UNLOGGED_VARIABLE: &str = "PANDOFS_UNLOGGED";

/// It knows how far each stream is, and syncs are free.
#[derive(Debug, Default)]
pub(crate) struct Unlogged {
    next: Mutex<HashMap<u64, u64>>,
}

impl Unlogged {
    fn next(&self) -> MutexGuard<'_, HashMap<u64, u64>> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log for Unlogged {
    fn append(&self, entries: &[Entry<'_>]) -> Result<(), LogError> {
        let mut next = self.next();
        for entry in entries {
            next.insert(entry.stream, entry.index + 1);
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), LogError> {
        Ok(())
    }

    fn read(&self, _: u64, _: u64, _: &mut Visit<'_>) -> Result<(), LogError> {
        Ok(())
    }

    fn span(&self, _: u64) -> Option<(u64, u64)> {
        None
    }

    fn next_index(&self, stream: u64) -> Option<u64> {
        self.next().get(&stream).copied()
    }

    fn prune(&self, stream: u64, upto: u64) -> Result<(), LogError> {
        let mut next = self.next();
        let next = next.entry(stream).or_default();
        *next = upto.saturating_add(1).max(*next);
        Ok(())
    }

    fn reclaim(&self) -> Result<(), LogError> {
        Ok(())
    }

    fn bytes(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_and_keeps_nothing() {
        let log = Unlogged::default();
        let entry = |index| Entry {
            stream: 3,
            index,
            payload: b"gone",
        };
        assert_eq!(log.next_index(3), None);
        log.append(&[entry(7), entry(8)]).unwrap();
        assert_eq!(log.next_index(3), Some(9));
        assert_eq!(log.span(3), None);
        log.prune(3, 5).unwrap();
        assert_eq!(log.next_index(3), Some(9));
        log.prune(3, 20).unwrap();
        assert_eq!(log.next_index(3), Some(21));
        let mut visited = 0;
        let mut visit = |_: u64, _: &[u8]| {
            visited += 1;
            Ok(())
        };
        log.read(3, 0, &mut visit).unwrap();
        assert_eq!(visited, 0);
    }
}
