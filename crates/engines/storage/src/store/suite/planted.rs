//! The suite itself under test: a store without a fault passes, and each planted fault is found.

use super::{ReopenableStore, run};
use crate::store::port::Visit;
use crate::store::{Batch, Cached, KvRead, MemoryStore, Store, StoreError};
use std::panic::{AssertUnwindSafe, catch_unwind};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    FlushesNothing,
    TearsBatches,
    FirstWriteWins,
    ForgetsDeletes,
    ScansToAnInclusiveEnd,
    ScansOnWhenToldToStop,
    StaysCold,
}

struct Faulty {
    store: MemoryStore,
    fault: Fault,
    /// Unflushed batches that each crash keeps.
    keep: usize,
}

impl Faulty {
    fn make(fault: Fault, keep: usize) -> Box<dyn ReopenableStore> {
        Box::new(Faulty {
            store: MemoryStore::new(),
            fault,
            keep,
        })
    }
}

impl KvRead for Faulty {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.get(key)
    }

    fn get_cached(&self, key: &[u8]) -> Result<Cached, StoreError> {
        match self.fault {
            Fault::StaysCold => Ok(Cached::Cold),
            _ => self.store.get_cached(key),
        }
    }

    fn scan(&self, start: &[u8], end: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError> {
        match self.fault {
            Fault::ScansToAnInclusiveEnd => self.store.scan(start, &[end, &[0]].concat(), visit),
            Fault::ScansOnWhenToldToStop => self.store.scan(start, end, &mut |key, value| {
                let _ = visit(key, value);
                std::ops::ControlFlow::Continue(())
            }),
            _ => self.store.scan(start, end, visit),
        }
    }
}

impl Store for Faulty {
    fn write(&self, batch: &Batch) -> Result<(), StoreError> {
        let mut writes: Vec<_> = batch
            .iter()
            .map(|(key, value)| (key.to_vec(), value.map(<[u8]>::to_vec)))
            .collect();
        match self.fault {
            Fault::TearsBatches => {
                return writes
                    .into_iter()
                    .try_for_each(|w| self.store.write(&vec![w].into()));
            }
            Fault::FirstWriteWins => writes.reverse(),
            Fault::ForgetsDeletes => writes.retain(|(_, value)| value.is_some()),
            _ => {}
        }
        self.store.write(&writes.into())
    }

    fn flush(&self) -> Result<(), StoreError> {
        if self.fault == Fault::FlushesNothing {
            Ok(())
        } else {
            self.store.flush()
        }
    }

    fn size_bytes(&self) -> u64 {
        self.store.size_bytes()
    }
}

impl ReopenableStore for Faulty {
    fn crash_and_reopen(self: Box<Self>) -> Box<dyn ReopenableStore> {
        let store = self.store.crash(self.keep);
        Box::new(Faulty {
            store,
            fault: self.fault,
            keep: self.keep,
        })
    }
}

#[test]
fn the_memory_store_passes_however_much_a_crash_keeps() {
    for keep in [0, 1, 7, usize::MAX] {
        run(&|| Faulty::make(Fault::None, keep));
    }
}

#[test]
fn each_planted_fault_is_found() {
    for fault in [
        Fault::FlushesNothing,
        Fault::TearsBatches,
        Fault::FirstWriteWins,
        Fault::ForgetsDeletes,
        Fault::ScansToAnInclusiveEnd,
        Fault::ScansOnWhenToldToStop,
        Fault::StaysCold,
    ] {
        let outcome = catch_unwind(AssertUnwindSafe(|| run(&|| Faulty::make(fault, 1))));
        assert!(
            outcome.is_err(),
            "the suite did not find that the store {fault:?}"
        );
    }
}
