//! Policies that go by what all servers have.
//!
//! Their choice is made here when a request comes in, and fixed in its record. To apply the record, then or after a
//! restart, nobody is asked again: where something was made does not depend on what was heard since.

use crate::shard::Shard;
use pandofs_api::{Request, op};
use pandofs_namespace::records::PartsRecord;
use pandofs_namespace::{Stop, View, ops};
use pandofs_placement::{DirPolicy, FilePolicy, Placer, Placing};
use pandofs_types::ShardId;

/// Loads of all servers, and the room on the disk of this one.
pub(crate) struct Loads {
    pub placer: Placer,
    /// Something is placed by it here.
    pub adapts: bool,
    /// Requests that need space are refused.
    pub disk_low: bool,
}

impl Shard {
    /// Loads by which a request that makes something would be placed. Whether its directory asks for that is seen later,
    /// and a directory that cannot be read is refused later.
    pub(crate) fn placing(
        &self,
        view: &View<'_>,
        request: &Request,
        random: u64,
    ) -> Option<Placing> {
        let near = ops::operation(request).by_load(view)?.near;
        Some(self.loads.placer.placing(&self.config.map, random, near))
    }

    /// Loads by which a session places what it makes in the directory under a grant, if a policy there asks for them.
    pub(crate) fn placing_in(&mut self, parts: &PartsRecord, random: u64) -> Option<Placing> {
        let (map, settings) = (&self.config.map, &parts.settings);
        let policy = settings.policy.unwrap_or(map.policy);
        let file_policy = settings.file_policy.unwrap_or(map.settings.file_policy);
        let adapts = matches!(policy, DirPolicy::Adaptive(_))
            || matches!(file_policy, FilePolicy::Adaptive(_));
        self.placing_if(adapts, Some(parts.grain.dir_shard), random)
    }

    /// The same in any directory that has no policy of its own.
    pub(crate) fn placing_anywhere(&mut self, random: u64) -> Option<Placing> {
        let map = &self.config.map;
        let adapts = matches!(map.policy, DirPolicy::Adaptive(_))
            || matches!(map.settings.file_policy, FilePolicy::Adaptive(_));
        self.placing_if(adapts, None, random)
    }

    fn placing_if(&mut self, adapts: bool, near: Option<ShardId>, random: u64) -> Option<Placing> {
        if !adapts {
            return None;
        }
        self.loads.adapts = true;
        Some(self.loads.placer.placing(&self.config.map, random, near))
    }

    /// The same for the directory that a batch is about first, if it is here.
    pub(crate) fn placing_for(
        &mut self,
        view: &View<'_>,
        batch: &op::Batch,
        random: u64,
    ) -> Result<Option<Placing>, Stop> {
        let mut dirs = batch
            .early
            .iter()
            .filter_map(|early| early.operation.operation().dir());
        let parts = dirs
            .next()
            .map(|dir| view.parts(dir))
            .transpose()?
            .flatten();
        Ok(parts.and_then(|parts| self.placing_in(&parts, random)))
    }
}
