//! Delivery of what a lane has its surroundings do: answers, messages, and orders to helper threads.

use super::{LaneThread, Pending, PendingKey, Waiter};
use crate::connection::{ConnectionKey, Role};
use crate::data::pool::DataOrigin;
use crate::error::ServerError;
use crate::limits::MAX_DAMAGE_LISTED;
use crate::readers::ReadJob;
use pandofs_api::{AdminReply, DataReply, PeerMessage, Refusal, Reply};
use pandofs_lane::{Command, Delays};
use pandofs_shard::Ticket;
use pandofs_storage::store::StoreError;
use pandofs_types::{FsError, Leased, ServerId, ShardId};
use pandofs_wire::frame::FrameError;
use pandofs_wire::message::{AnswerBody, AnswerFrame};
use slotmap::KeyData;
use std::time::Instant;

impl LaneThread {
    /// Carries out all that the lane has given since the last time, in order.
    pub(super) fn carry_out_commands(&mut self) -> Result<(), ServerError> {
        let mut commands = std::mem::take(&mut self.commands);
        self.lane.take_commands(&mut commands);
        if !commands.is_empty() {
            // One look at the clock for all that is answered.
            self.answering = Instant::now();
        }
        for command in commands.drain(..) {
            self.carry_out(command)?;
        }
        self.commands = commands;
        Ok(())
    }

    fn carry_out(&mut self, command: Command<Waiter>) -> Result<(), ServerError> {
        match command {
            Command::Answer {
                ticket,
                result,
                leased,
                delays,
            } => self.answer_ticket(ticket, result, leased, delays.as_ref()),
            Command::Replaced { ticket } => {
                if let Some(followed) = self.take_pending(ticket).followed {
                    self.followed(followed, None, None);
                }
            }
            Command::Coordinates { ticket, tx } => {
                if self.traces.are_on() {
                    self.follow_operation(ticket, tx);
                }
            }
            Command::Unreadable {
                shard,
                ticket,
                error,
            } => self.unreadable(shard, ticket, &error),
            Command::Send { server, message } => self.send(server, message),
            Command::Data { origin, request } => {
                self.counters.data_requests += 1;
                return self.data.request(DataOrigin::Lane(origin), request);
            }
            Command::UnknownServer { shard, server } => tracing::warn!(
                "shard {shard} has a data object on server {server}, which is unknown"
            ),
            Command::Warm { shard, keys, input } => {
                let input = Box::new(input);
                return self.readers.order(ReadJob::Warm { keys, shard, input });
            }
            Command::Expired { session } => self.expired(session, Instant::now()),
            Command::Recall {
                to: (connection, id),
                number,
                keys,
            } => self.answer(connection, id, AnswerBody::Recalls { number, keys }),
            Command::BeginAnew {
                to: (connection, id),
            } => self.answer(connection, id, AnswerBody::Done),
            Command::Sync => return self.log_syncer.begin(),
            Command::Flush { written } => return self.flusher.begin(written),
            Command::FlushDone {
                to: (connection, id),
            } => self.answer(connection, id, AnswerBody::Admin(AdminReply::Done)),
        }
        Ok(())
    }

    /// Refuses a request whose answer is damaged in the store. The rest of the store is served: what fits
    /// its checksum is what was written.
    fn unreadable(&mut self, shard: ShardId, ticket: Ticket, error: &StoreError) {
        let error = error.to_string();
        // Each place once: a walk of the tree meets it again and again.
        if self.damage_told.len() < MAX_DAMAGE_LISTED && !self.damage_told.contains(&error) {
            tracing::error!("damage: a request to shard {shard} cannot be answered: {error}");
            self.damage_told.insert(error);
        }
        self.answer_ticket(ticket, Err(Refusal::Fs(FsError::Io)), Vec::new(), None);
    }

    fn send(&mut self, server: ServerId, message: PeerMessage) {
        if self.traces.are_on()
            && let Some(trace) = self.traces.sends(server, &message)
        {
            self.peers.send(server, trace);
        }
        self.counters.peer_messages += 1;
        self.peers.send(server, message);
    }

    fn answer_ticket(
        &mut self,
        ticket: Ticket,
        result: Result<Reply, Refusal>,
        leased: Vec<Leased>,
        delays: Option<&Delays>,
    ) {
        if let Err(
            Refusal::Misdirected(_) | Refusal::NewNameMisdirected(_) | Refusal::Moved { .. },
        ) = &result
        {
            self.counters.redirected += 1;
        }
        let pending = self.take_pending(ticket);
        let took = self.answering.saturating_duration_since(pending.came);
        self.times.operation(pending.kind).add(took);
        self.ended(&pending, took, delays);
        if let Some(followed) = pending.followed {
            self.followed(followed, Some(&result), delays);
        }
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
