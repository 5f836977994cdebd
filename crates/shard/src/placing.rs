//! Policies that go by what all servers have.
//!
//! What they say is looked up here when a request comes in, and fixed in its record. Whoever applies the record, then
//! or after a restart, asks nobody again: where something was made does not depend on what was heard since.

use crate::shard::Shard;
use pandofs_api::{Request, Step};
use pandofs_namespace::View;
use pandofs_placement::Placing;
use pandofs_types::ShardId;

impl Shard {
    /// What a request that makes something would be placed by. Whether its directory asks for that is seen later,
    /// and a directory that cannot be read is refused later.
    pub(crate) fn placing(
        &self,
        view: &View<'_>,
        request: &Request,
        random: u64,
    ) -> Option<Placing> {
        let near = match request {
            Request::Create { .. } => None,
            Request::Mkdir { dir, .. } => match view.parts(*dir) {
                Ok(Some(parts)) => Some(parts.grain.dir_shard),
                _ => None,
            },
            _ => return None,
        };
        let inodes = self.meta.inodes;
        Some(self.placer.placing(&self.config.map, inodes, random, near))
    }

    /// Another shard asks for a step: if something is to be made here for it, its server is taken to have as much as this
    /// one. (One whose directories do not adapt gives what it has no need to give. That is put right when servers tell each
    /// other the next time.)
    pub(crate) fn was_asked_for(&mut self, from: ShardId, step: &Step) {
        if matches!(step, Step::NewDir { .. } | Step::NewFile { .. }) {
            let inodes = self.meta.inodes;
            self.placer.was_given(&self.config.map, from, inodes);
        }
    }
}
