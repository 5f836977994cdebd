//! A server's store, in which keys may be cold, and which may be made to keep something else than it is given.

use crate::plant;
use crate::scenario::Plant;
use pandofs_storage::store::{Batch, Cached, KvRead, MemoryStore, Store, StoreError, Visit};
use pandofs_testkit::rng::Rng;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// A [`MemoryStore`] as a lane sees it.
#[derive(Debug)]
pub(crate) struct SimStore {
    memory: MemoryStore,
    /// Of 1,000 looks into memory so many find nothing.
    cold: u64,
    random: Mutex<Rng>,
    plant: Option<Plant>,
    /// A lane serves from it. A start reads all that it needs, and writes what records say.
    is_serving: AtomicBool,
}

impl SimStore {
    pub(crate) fn new(memory: MemoryStore, cold: u64, seed: u64, plant: Option<Plant>) -> SimStore {
        SimStore {
            memory,
            cold,
            random: Mutex::new(Rng::new(seed)),
            plant,
            is_serving: AtomicBool::new(false),
        }
    }

    pub(crate) fn serve(&self) {
        self.is_serving.store(true, Ordering::Relaxed);
    }

    pub(crate) fn memory(&self) -> &MemoryStore {
        &self.memory
    }

    fn is_cold(&self) -> bool {
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_serving.load(Ordering::Relaxed) && random.chance(self.cold, 1_000)
    }
}

impl KvRead for SimStore {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.memory.get(key)
    }

    fn get_cached(&self, key: &[u8]) -> Result<Cached, StoreError> {
        if self.is_cold() {
            return Ok(Cached::Cold);
        }
        self.memory.get_cached(key)
    }

    fn scan(&self, start: &[u8], end: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError> {
        self.memory.scan(start, end, visit)
    }
}

impl Store for SimStore {
    fn write(&self, batch: &Batch) -> Result<(), StoreError> {
        match self.plant {
            Some(plant) if self.is_serving.load(Ordering::Relaxed) => self
                .memory
                .write(&plant::tamper(plant, &self.memory, batch)),
            _ => self.memory.write(batch),
        }
    }

    fn flush(&self) -> Result<(), StoreError> {
        self.memory.flush()
    }

    fn size_bytes(&self) -> u64 {
        self.memory.size_bytes()
    }

    fn verify(&self, read: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<(), StoreError> {
        self.memory.verify(read)
    }
}
