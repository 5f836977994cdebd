//! Disk of a server: syncs of the log, flushes of the store, and what a crash leaves of both.

use super::{Death, Server, new_store};
use crate::disk::Disk;
use crate::early::names;
use crate::history::Key;
use crate::scenario::Loss;
use crate::store::SimStore;
use pandofs_lane::{Written, configs, flush};
use pandofs_shard::{Record, Shard, ShardError};
use pandofs_storage::log::Log;
use pandofs_storage::store::{MemoryStore, Overlay, Store};
use pandofs_testkit::rng::Rng;
use pandofs_types::limits::SESSION_TIMEOUT;
use std::sync::Arc;

impl Server {
    /// A sync begins.
    pub(crate) fn begins_sync(&mut self) {
        let covered = self.log.memory().unsynced();
        if let Some(process) = &mut self.process {
            process.covered = covered;
        }
    }

    pub(crate) fn ends_sync(&mut self) -> Result<(), Death> {
        let Some(process) = &mut self.process else {
            return Ok(());
        };
        let covered = std::mem::take(&mut process.covered);
        self.log.memory().sync_first(covered);
        let done = process.lane.synced();
        done.map_err(|error| self.death(&error))
    }

    pub(crate) fn ends_flush(&mut self, written: &Written) -> Result<(), Death> {
        let Some(process) = &mut self.process else {
            return Ok(());
        };
        // It syncs the log, which the lane does not know: a sync under way then covers nothing more.
        process.covered = 0;
        let done = flush(&*self.store, &*self.log, written).and_then(|()| process.lane.flushed());
        done.map_err(|error| self.death(&error))
    }

    /// The process dies: what is in memory is gone, and of what is on the disk what was not synced, as told. Gives
    /// the names that requests in lost records spoke of.
    pub(crate) fn crash(&mut self, loss: Loss, random: &mut Rng) -> Vec<Key> {
        let unsynced = self.log.memory().unsynced();
        let (keep, torn) = match loss {
            Loss::Nothing => (usize::MAX, false),
            Loss::Unsynced { kept, torn } => (unsynced * usize::from(kept) / 1_000, torn),
        };
        let left = self.log.crash(keep, torn);
        let lost = self.lost(&left);
        if loss != Loss::Nothing {
            self.machine += 1;
            let of_server = u64::from(self.id.0) << 40 ^ self.machine << 48;
            self.objects.lose(self.seed ^ of_server);
        } else {
            for config in self.configs() {
                let last = self.log.next_index(u64::from(config.shard.0));
                let promised = self.promised.entry(config.shard).or_default();
                *promised = last.map_or(0, |next| next - 1).max(*promised);
            }
        }
        self.log = Arc::new(left);
        let memory = self.store.memory();
        let batches = random.below(memory.unflushed() as u64 + 1) as usize;
        let left = memory.crash(batches);
        self.store = Arc::new(SimStore::new(
            left,
            self.memory.cold,
            random.next_u64(),
            self.plant,
        ));
        self.process = None;
        lost
    }

    /// The store that every record that was ever applied makes of an empty one.
    pub(crate) fn replayed(&self) -> Result<MemoryStore, ShardError> {
        let store = new_store(&self.first_map, self.id, self.session_timeout);
        for config in configs(&self.first_map, self.id, SESSION_TIMEOUT) {
            let (id, stream) = (config.shard, u64::from(config.shard.0));
            let mut shard = Shard::open(config, &store)?;
            let mut overlay = Overlay::new(&store);
            for (index, payload) in (1..).zip(self.log.all(stream)) {
                for taken in &self.taken {
                    if taken.after.get(&id).is_some_and(|after| after + 1 == index) {
                        shard.set_map(Arc::clone(&taken.map));
                    }
                }
                shard.replay(&mut overlay, index, &payload)?;
            }
            let batch = overlay.take_batch();
            drop(overlay);
            store.write(&batch)?;
        }
        Ok(store)
    }

    /// Names in requests whose records the log has and `left` has not.
    fn lost(&self, left: &Disk) -> Vec<Key> {
        let mut lost = Vec::new();
        for config in self.configs() {
            let stream = u64::from(config.shard.0);
            let from = left.next_index(stream).unwrap_or(0);
            let read = self.log.read(stream, from, &mut |_, payload| {
                if let Ok(Record::Request { request, .. }) = Record::decode(payload) {
                    lost.extend(names(&request.request));
                }
                Ok(())
            });
            read.expect("memory can be read");
        }
        lost
    }
}
