//! Talking with the other servers.

use super::LaneThread;
use crate::connection::{ConnectionKey, Role};
use crate::error::ServerError;
use crate::mailbox::{Mail, Mailbox};
use crate::peers::{self, Opened};
use pandofs_api::PeerMessage;
use pandofs_lane::Heard;
use pandofs_types::{FsId, ServerId};
use pandofs_wire::address::Address;
use std::thread;
use std::time::Instant;

impl LaneThread {
    /// Hands new messages to their connections, and begins to open links that are needed.
    pub(super) fn serve_links(&mut self, now: Instant) {
        for (key, messages) in self.peers.take_ready() {
            if let Some(connection) = self.connections.get_mut(key) {
                peers::push_frames(&mut connection.unsent, messages);
                self.make_dirty(key);
            }
        }
        for server in self.peers.take_due(now) {
            let addresses = self
                .lane
                .map()
                .server(server)
                .map(|info| info.addresses.clone());
            open_link(
                &self.mailbox,
                self.lane.map().fs,
                self.lane.id(),
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
            && opened.epoch > self.lane.map().epoch
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
        if let PeerMessage::DataDone { ticket, .. } = message {
            self.peers.forget_data(sender, ticket);
        }
        if self.traces.are_on() {
            self.traces.hears(sender, &message, Instant::now());
        }
        match self.lane.hear(sender, message)? {
            Heard::Taken => {}
            Heard::OtherMap {
                from,
                to,
                may_be_newer,
            } => {
                tracing::warn!(
                    "dropped a message of server {sender} from shard {from} to shard {to}: the two \
                     servers go by different cluster maps"
                );
                if may_be_newer {
                    self.look_for_map(Instant::now());
                }
            }
            Heard::Misfit { from, to, misfit } => {
                tracing::warn!(
                    "dropped a message of server {sender} from shard {from} to shard {to} that cannot \
                     be right: {misfit}"
                );
                // It will be sent again, if it matters.
                self.look_for_map(Instant::now());
            }
        }
        Ok(())
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
