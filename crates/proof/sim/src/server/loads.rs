//! Servers tell each other what they have, as lanes do.

use super::{Act, Process, Server};
use crate::scenario::Moment;
use pandofs_api::PeerMessage;
use pandofs_placement::ServerLoad;
use pandofs_shard::Input;
use pandofs_types::ServerId;
use pandofs_types::limits::LOADS_INTERVAL;
use std::sync::Arc;

impl Server {
    /// As a lane does it now and then.
    pub fn look_at_loads(&mut self, now: Moment) {
        let Some(process) = &mut self.process else {
            return;
        };
        if now < process.next_loads || process.shards.granularity().is_none() {
            return;
        }
        process.next_loads = now + LOADS_INTERVAL.as_nanos() as Moment;
        let load = own_load(process);
        process.loads.report(self.id, load);
        let all = Arc::new(process.loads.all());
        for shard in process.shards.ids() {
            let all = Arc::clone(&all);
            process.inbox.push_back((shard, Input::Loads(all)));
        }
        let (id, wanted) = (self.id, true);
        let others = self.map.leading_servers().into_iter();
        let ask = |server| Act::Send {
            server,
            message: PeerMessage::Load { load, wanted },
        };
        self.acts
            .extend(others.filter(|&other| other != id).map(ask));
    }
}

/// Takes what another server tells, and returns the answer if it wants one.
pub(super) fn take(
    process: &mut Process,
    sender: ServerId,
    load: ServerLoad,
    wanted: bool,
) -> Option<Act> {
    process.loads.report(sender, load);
    let (load, wanted, answers) = (own_load(process), false, wanted);
    answers.then_some(Act::Send {
        server: sender,
        message: PeerMessage::Load { load, wanted },
    })
}

fn own_load(process: &Process) -> ServerLoad {
    ServerLoad {
        objects: process.shards.objects(),
        requests: process.loads.of_late(),
    }
}
