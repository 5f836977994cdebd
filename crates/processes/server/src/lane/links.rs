//! Talking with the other servers.

use super::{Lane, pass};
use crate::connection::{ConnectionKey, Role};
use crate::data::pool::DataOrigin;
use crate::error::ServerError;
use crate::faults::{Stage, name_of_message};
use crate::mailbox::{Mail, Mailbox};
use crate::peers::{self, Opened};
use pandofs_api::PeerMessage;
use pandofs_shard::{Input, validate};
use pandofs_types::limits::MAX_SHARDS;
use pandofs_types::{FsId, ServerId, ShardId};
use pandofs_wire::address::Address;
use std::thread;
use std::time::Instant;

impl Lane {
    /// Hands new messages to their connections, and begins to open links that are needed.
    pub(super) fn serve_links(&mut self, now: Instant) {
        for (key, messages) in self.peers.take_ready() {
            if let Some(connection) = self.connections.get_mut(key) {
                peers::push_frames(&mut connection.unsent, messages);
                self.make_dirty(key);
            }
        }
        for server in self.peers.take_due(now) {
            let addresses = self.map.server(server).map(|info| info.addresses.clone());
            open_link(
                &self.mailbox,
                self.map.fs,
                self.id,
                server,
                addresses.unwrap_or_default(),
            );
        }
    }

    pub(super) fn link_opened(
        &mut self,
        server: ServerId,
        result: Result<Opened, String>,
        now: Instant,
    ) {
        if let Ok(opened) = &result
            && opened.epoch > self.map.epoch
        {
            self.look_for_map(now);
        }
        let added = result.and_then(|Opened { stream, .. }| {
            self.add_connection(stream, Role::Link { server }, now)
                .map_err(|error| error.to_string())
        });
        match added {
            Ok(key) => {
                tracing::info!("connected to server {server}");
                let waiting = self.peers.opened(server, key);
                if let Some(connection) = self.connections.get_mut(key) {
                    peers::push_frames(&mut connection.unsent, waiting);
                    self.make_dirty(key);
                }
            }
            Err(why) => {
                if self.peers.closed(server, now) {
                    tracing::warn!("cannot reach server {server}, going on trying: {why}");
                } else {
                    tracing::debug!("still cannot reach server {server}: {why}");
                }
            }
        }
    }

    pub(super) fn link_lost(&mut self, server: ServerId, now: Instant) {
        tracing::info!("the link to server {server} is broken");
        self.peers.closed(server, now);
    }

    /// Takes a message of the server at the other end of a connection.
    pub(super) fn take_peer_message(
        &mut self,
        key: ConnectionKey,
        message: PeerMessage,
    ) -> Result<(), ServerError> {
        let Some(Role::Server { id: sender }) = self
            .connections
            .get_mut(key)
            .map(|connection| connection.role)
        else {
            panic!("a server's message on another's connection");
        };
        pass(&mut self.faults, Stage::Received, || {
            name_of_message(&message)
        })?;
        match message {
            PeerMessage::Data { ticket, request } => {
                self.counters.data_requests += 1;
                let origin = DataOrigin::Peer {
                    server: sender,
                    ticket,
                };
                return self.data.request(origin, request);
            }
            PeerMessage::DataDone { ticket, reply } => {
                self.peers.forget_data(sender, ticket);
                if let Some((shard, ticket)) = self.data_tickets.done(ticket) {
                    self.inbox.push((shard, Input::DataDone { ticket, reply }));
                }
            }
            PeerMessage::Load { load, wanted } => {
                self.loads.report(sender, load);
                if wanted {
                    let load = self.own_load();
                    let wanted = false;
                    self.send(sender, PeerMessage::Load { load, wanted });
                }
            }
            other => {
                if !self.take_shard_message(sender, other) {
                    // It will be sent again, if it matters.
                    self.look_for_map(Instant::now());
                }
            }
        }
        Ok(())
    }

    /// Gives a message to its shard; false if it may speak of what is in a newer cluster map.
    fn take_shard_message(&mut self, sender: ServerId, message: PeerMessage) -> bool {
        let Some((from, to)) = ends(&message) else {
            panic!("a message between servers taken for one between shards");
        };
        let is_its_own = self.map.has_shard(from) && self.map.server_of(from) == sender;
        if !is_its_own || !self.shards.leads(to) {
            tracing::warn!(
                "dropped a message of server {sender} from shard {from} to shard {to}: the two \
                 servers go by different cluster maps"
            );
            self.map.has_shard(from) || from.0 >= MAX_SHARDS
        } else if let Err(misfit) = validate(&self.map, &message) {
            tracing::warn!(
                "dropped a message of server {sender} from shard {from} to shard {to} that cannot \
                 be right: {misfit}"
            );
            false
        } else {
            self.inbox.push((to, Input::Peer(message)));
            true
        }
    }
}

/// The shards a message goes from and to; `None` when it is between servers.
fn ends(message: &PeerMessage) -> Option<(ShardId, ShardId)> {
    match *message {
        PeerMessage::Commit { from, to, .. }
        | PeerMessage::SplitChunk { from, to, .. }
        | PeerMessage::SplitChunkDone { from, to, .. }
        | PeerMessage::SplitAbandoned { from, to, .. }
        | PeerMessage::MapNotice { from, to, .. }
        | PeerMessage::MapNoticeDone { from, to, .. }
        | PeerMessage::Forwarded { from, to, .. }
        | PeerMessage::ForgetForwarding { from, to, .. }
        | PeerMessage::ForgetForwardingDone { from, to, .. }
        | PeerMessage::SlotsAsk { from, to, .. }
        | PeerMessage::SlotsTold { from, to, .. }
        | PeerMessage::MergeAsk { from, to, .. }
        | PeerMessage::MergeGo { from, to, .. } => Some((from, to)),
        PeerMessage::Data { .. } | PeerMessage::DataDone { .. } | PeerMessage::Load { .. } => None,
    }
}

/// Connects on a thread of its own: looking up a name and the other's answer may take long. There is
/// at most one for each server.
fn open_link(mailbox: &Mailbox, fs: FsId, own: ServerId, server: ServerId, addresses: Vec<String>) {
    let reports = mailbox.clone();
    let spawned = thread::Builder::new()
        .name("pandofs-link".to_owned())
        .spawn(move || {
            let parsed: Result<Vec<Address>, _> = addresses
                .iter()
                .map(|address| address.parse::<Address>())
                .collect();
            let result = match parsed {
                Ok(addresses) => peers::open(&addresses, fs, own, server),
                Err(error) => Err(error.to_string()),
            };
            reports.post(Mail::LinkOpened { server, result });
        });
    if let Err(error) = spawned {
        mailbox.post(Mail::LinkOpened {
            server,
            result: Err(error.to_string()),
        });
    }
}
