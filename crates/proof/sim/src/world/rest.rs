//! The end of a run: until everything is at rest, and every oracle is content.

use super::{Event, PROGRESS_BOUND, World};
use crate::client::Client;
use crate::oracles::{Finding, early, maps};
use crate::scenario::{AFTERWARDS, Moment, SECOND};
use crate::server::Server;
use pandofs_api::ShardStatus;
use pandofs_check::ClusterDump;
use pandofs_types::limits::{RESEND_INTERVAL, SESSION_TIMEOUT, STAGING_TIMEOUT};

/// Within so long after every operation has been answered everything has to come to rest: what clients may have had open at a crash is kept for
/// the length of a session's silence.
const REST_BOUND: Moment = PROGRESS_BOUND + SESSION_TIMEOUT.as_nanos() as Moment;
/// So long after the last answer clients end.
const GOODBYE_PAUSE: Moment = 2 * SECOND;

impl World {
    /// Until nothing is under way, and every oracle is content.
    pub(super) fn rest(&mut self) -> Result<(), Finding> {
        let told = self.scenario.healed + AFTERWARDS;
        maps::check(&self.map, &self.servers, &self.clients, told)?;
        early::check(&mut self.clients, &mut self.history)?;
        // Clients end, so that what they have open goes: not before servers that were restarted would give it away if they
        // had not been told of it. All requests of clients are there by then.
        let holds = |client: &Client| !client.held().is_empty() || !client.locks().is_empty();
        let pause = match self.clients.iter().any(holds) {
            true => self.scenario.shape.session_timeout.as_nanos() as Moment + GOODBYE_PAUSE,
            false => GOODBYE_PAUSE,
        };
        self.leave_at = Some(self.now + pause);
        for client in 0..self.clients.len() {
            self.put(self.now + pause, Event::Leave { client });
        }
        let end = self.now + pause + REST_BOUND;
        let mut quiet_since = None;
        let left = self.now + pause + GOODBYE_PAUSE;
        while self.now < left {
            self.step()?;
        }
        loop {
            let busy: Vec<ShardStatus> = self.busy();
            if busy.is_empty() {
                let since = *quiet_since.get_or_insert(self.now);
                if self.now - since > 4 * RESEND_INTERVAL.as_nanos() as Moment {
                    break;
                }
            } else {
                quiet_since = None;
            }
            if self.now > end {
                return Err(Finding::new(
                    "progress",
                    format!("not at rest {REST_BOUND} ns after the last answer: {busy:?}"),
                ));
            }
            self.step()?;
        }
        // The leftovers of a crash go by themselves after a while.
        let patience = self.now + 2 * STAGING_TIMEOUT.as_nanos() as Moment;
        loop {
            let problems = pandofs_check::check(&self.dump());
            let Some(first) = problems.first() else {
                break;
            };
            if self.now > patience || first.patience.is_zero() {
                let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
                return Err(Finding::new(first.oracle, lines.join("; ")));
            }
            let next = self.now + RESEND_INTERVAL.as_nanos() as Moment;
            while self.now < next {
                self.step()?;
            }
        }
        // Each client was answered, or asked again and was answered there.
        for server in &self.servers {
            let left = server
                .process
                .as_ref()
                .map_or(0, |process| process.tickets.len());
            if left > 0 {
                let what = format!("server {} keeps {left} tickets for nobody", server.id);
                return Err(Finding::new("progress", what));
            }
        }
        let dump = self.dump();
        let joined = self.moments.placed(&dump, &self.scenario.shape)?;
        self.counted.placed_on_joined += joined;
        self.moments
            .end(&dump, &self.servers, &self.clients, &mut self.history)
    }

    fn busy(&self) -> Vec<ShardStatus> {
        let mut busy = Vec::new();
        for server in &self.servers {
            match &server.process {
                None => busy.push(ShardStatus::default()),
                Some(process) => {
                    let statuses = process.shards().status();
                    // All clients have ended, or will be found to be gone.
                    let is_busy = |status: &ShardStatus| {
                        let locks = status.locks + status.lock_waiters;
                        status.undecided + status.waiting + status.reclaiming + locks > 0
                    };
                    busy.extend(statuses.into_iter().filter(is_busy));
                }
            }
        }
        busy
    }

    pub(super) fn dump(&self) -> ClusterDump {
        ClusterDump {
            map: (*self.map).clone(),
            shards: self.servers.iter().flat_map(Server::pairs).collect(),
            objects: self
                .servers
                .iter()
                .map(|server| (server.id, server.objects.sizes().into_iter().collect()))
                .collect(),
        }
    }
}
