//! Delivery of the outputs of shards: messages, data requests and answers.

use super::{Lane, Pending, PendingKey, pass};
use crate::connection::{ConnectionKey, Role};
use crate::data::pool::DataOrigin;
use crate::data_tickets::Asked;
use crate::error::ServerError;
use crate::faults::{Stage, name_of_data_request, name_of_input, name_of_message};
use crate::limits::MAX_DAMAGE_LISTED;
use crate::readers::ReadJob;
use pandofs_api::{DataReply, DataRequest, PeerMessage, Refusal, Reply};
use pandofs_shard::{Input, Output, Ticket};
use pandofs_store::StoreError;
use pandofs_types::{FsError, Leased, ServerId, ShardId};
use pandofs_wire::frame::FrameError;
use pandofs_wire::message::{AnswerBody, AnswerFrame};
use slotmap::KeyData;
use std::time::Instant;

impl Lane {
    /// Carries out what a batch brought, or keeps it until the log is synced.
    pub(super) fn deliver(&mut self, outputs: Vec<(ShardId, Output)>) -> Result<(), ServerError> {
        for (shard, output) in outputs {
            let durable = match &output {
                Output::Answer { durable, .. } | Output::Send { durable, .. } => *durable,
                Output::Data {
                    ticket, durable, ..
                } => match self.data_tickets.ask(shard, *ticket) {
                    Asked::First => *durable,
                    Asked::Unsent => continue,
                    // It waited for the disk before it was sent the first time.
                    Asked::Again => false,
                },
                Output::Warm { .. }
                | Output::Replaced { .. }
                | Output::Watch { .. }
                | Output::Recall(_)
                | Output::Unreadable { .. } => false,
                Output::WhenDurable { .. } => true,
            };
            if !durable {
                self.carry_out(shard, output)?;
            } else if let Some((shard, output)) = self.durable.hold((shard, output)) {
                self.carry_out(shard, output)?;
            }
        }
        Ok(())
    }

    pub(super) fn carry_out(&mut self, shard: ShardId, output: Output) -> Result<(), ServerError> {
        match output {
            Output::Answer {
                ticket,
                result,
                leased,
                ..
            } => self.answer_ticket(ticket, result, leased),
            Output::Recall(recall) => self.recall(shard, recall),
            Output::Send { to, message, .. } => {
                pass(&mut self.faults, Stage::Sending, || {
                    name_of_message(&message)
                })?;
                let server = self.map.server_of(to);
                if server == self.id {
                    self.inbox.push((to, Input::Peer(message)));
                } else {
                    self.send(server, message);
                }
            }
            Output::WhenDurable { shard, input } => {
                pass(&mut self.faults, Stage::Sending, || name_of_input(&input))?;
                self.inbox.push((shard, input));
            }
            Output::Data {
                server,
                ticket,
                request,
                ..
            } => {
                return self.ask_for_data(shard, server, ticket, request);
            }
            Output::Replaced { ticket } => {
                self.take_pending(ticket);
            }
            Output::Unreadable { ticket, error } => self.unreadable(shard, ticket, &error),
            Output::Warm { keys, input } => {
                let input = Box::new(input);
                return self.readers.order(ReadJob::Warm { keys, shard, input });
            }
            Output::Watch { session } => self.sessions.expect(session, Instant::now()),
        }
        Ok(())
    }

    /// Refuses a request whose answer is damaged in the store. The rest of the store is served: what fits
    /// its checksum is what was written.
    pub(super) fn unreadable(&mut self, shard: ShardId, ticket: Ticket, error: &StoreError) {
        let error = error.to_string();
        // Each place once: a walk of the tree meets it again and again.
        if self.damage_told.len() < MAX_DAMAGE_LISTED && !self.damage_told.contains(&error) {
            tracing::error!("damage: a request to shard {shard} cannot be answered: {error}");
            self.damage_told.insert(error);
        }
        self.answer_ticket(ticket, Err(Refusal::Fs(FsError::Io)), Vec::new());
    }

    pub(super) fn send(&mut self, server: ServerId, message: PeerMessage) {
        self.counters.peer_messages += 1;
        self.peers.send(server, message);
    }

    fn ask_for_data(
        &mut self,
        shard: ShardId,
        server: ServerId,
        ticket: u64,
        request: DataRequest,
    ) -> Result<(), ServerError> {
        if server != self.id && !self.peers.knows(server) {
            // The shard asks again; perhaps a later cluster map has that server.
            tracing::warn!("shard {shard} has a data object on server {server}, which is unknown");
            self.data_tickets.forget(shard, ticket);
            return Ok(());
        }
        pass(&mut self.faults, Stage::Sending, || {
            name_of_data_request(&request)
        })?;
        let (number, is_first) = self.data_tickets.send(shard, ticket);
        if server != self.id {
            self.send(
                server,
                PeerMessage::Data {
                    ticket: number,
                    request,
                },
            );
        } else if is_first {
            self.counters.data_requests += 1;
            return self.data.request(DataOrigin::Shard { number }, request);
        }
        // Otherwise it is under way here, and nothing here is lost on the way.
        Ok(())
    }

    fn answer_ticket(
        &mut self,
        ticket: Ticket,
        result: Result<Reply, Refusal>,
        leased: Vec<Leased>,
    ) {
        if let Err(
            Refusal::Misdirected(_) | Refusal::NewNameMisdirected(_) | Refusal::Moved { .. },
        ) = &result
        {
            self.counters.redirected += 1;
        }
        let pending = self.take_pending(ticket);
        let body = match leased.is_empty() {
            true => AnswerBody::Shard(result),
            false => AnswerBody::Leased { result, leased },
        };
        self.answer(pending.connection, pending.id, body);
    }

    /// Takes the request that this ticket answers; it is not used again.
    fn take_pending(&mut self, ticket: Ticket) -> Pending {
        let Some(pending) = self
            .pending
            .remove(PendingKey::from(KeyData::from_ffi(ticket.0)))
        else {
            panic!("a shard answered ticket {} a second time", ticket.0);
        };
        self.repay(pending.connection, pending.owed);
        pending
    }

    /// Notes that an answer, of at most this many bytes, is not to come any more.
    pub(super) fn repay(&mut self, key: ConnectionKey, owed: usize) {
        if let Some(connection) = self.connections.get_mut(key) {
            assert!(connection.owed >= owed, "an answer nobody asked for");
            connection.owed -= owed;
            // Writing, even of nothing, is what ends a pause.
            self.make_dirty(key);
        }
    }

    /// The same for data, of which all connections together may have so much.
    pub(super) fn repay_data(&mut self, key: ConnectionKey, owed: usize) {
        assert!(self.owed >= owed, "data that was not counted");
        self.owed -= owed;
        if self.owed <= self.max_owed / 2 {
            for held_up in std::mem::take(&mut self.held_up) {
                self.make_dirty(held_up);
            }
        }
        self.repay(key, owed);
    }

    /// Puts an answer into its connection's buffer, if the connection is still there.
    pub(super) fn answer(&mut self, key: ConnectionKey, id: u64, body: AnswerBody) {
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        assert!(
            matches!(connection.role, Role::Client { .. } | Role::Admin),
            "an answer to {}",
            connection.peer()
        );
        let pushed = match body {
            AnswerBody::Data(DataReply::Data(data)) => {
                let body = AnswerBody::Data(DataReply::Data(Vec::new()));
                connection
                    .unsent
                    .push_with_tail(&AnswerFrame { id, body }, data)
            }
            body => connection.unsent.push(&AnswerFrame { id, body }),
        };
        match pushed {
            Ok(()) => {}
            Err(error @ (FrameError::TooLong { .. } | FrameError::Unencodable { .. })) => {
                tracing::error!("an answer to {} cannot be sent: {error}", connection.peer());
                let body = AnswerBody::Shard(Err(Refusal::Fs(FsError::Io)));
                if let Err(error) = connection.unsent.push(&AnswerFrame { id, body }) {
                    tracing::error!("nor can the error in its place: {error}");
                }
            }
            Err(error) => tracing::error!("an answer cannot be sent: {error}"),
        }
        self.make_dirty(key);
    }
}
