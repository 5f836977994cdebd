//! Asking the other servers what they have.

use super::Lane;
use pandofs_api::PeerMessage;
use pandofs_placement::ServerLoad;
use pandofs_shard::Input;
use std::sync::Arc;

impl Lane {
    /// Every `LOADS_INTERVAL`: tells the shards what all servers were last heard to have, and asks them again. As long
    /// as nothing here is placed by that, nobody is asked.
    pub(super) fn look_at_loads(&mut self) {
        self.loads.count(self.counters.requests);
        if self.shards.granularity().is_none() {
            return;
        }
        let load = self.own_load();
        self.loads.report(self.id, load);
        let all = Arc::new(self.loads.all());
        self.tell_all_shards(|| Input::Loads(Arc::clone(&all)));
        let wanted = true;
        for other in self.map.leading_servers() {
            if other != self.id {
                self.send(other, PeerMessage::Load { load, wanted });
            }
        }
    }

    pub(super) fn own_load(&self) -> ServerLoad {
        ServerLoad {
            objects: self.shards.objects(),
            requests: self.loads.of_late(),
        }
    }
}
