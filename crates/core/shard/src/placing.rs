//! Policies that go by what all servers have.
//!
//! What they say is looked up here when a request comes in, and fixed in its record. Whoever applies the record, then
//! or after a restart, asks nobody again: where something was made does not depend on what was heard since.

use crate::shard::Shard;
use pandofs_api::Request;
use pandofs_namespace::{View, ops};
use pandofs_placement::{Placer, Placing};

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
}
