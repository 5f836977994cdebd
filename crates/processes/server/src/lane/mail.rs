//! Handlers for reports of helper threads and commands of the server's handle.

use super::{Lane, Stop, pass};
use crate::data::pool::DataOrigin;
use crate::error::ServerError;
use crate::faults::Stage;
use crate::mailbox::Mail;
use pandofs_api::{AdminReply, DataReply, PeerMessage};
use pandofs_shard::Input;
use pandofs_wire::message::AnswerBody;
use std::time::Instant;

impl Lane {
    pub(super) fn take_mail(&mut self, now: Instant) -> Result<(), ServerError> {
        for mail in self.mailbox.take() {
            match mail {
                Mail::DataDone { origin, reply } => self.data_done(origin, reply),
                Mail::AdminDone {
                    connection,
                    id,
                    reply,
                } => {
                    self.answer(connection, id, AnswerBody::Admin(reply));
                }
                Mail::Warmed { shard, input } => self.inbox.push((shard, input)),
                Mail::Unreadable {
                    shard,
                    input: Input::Request { ticket, .. },
                    error,
                } if error.is_of_the_place() => self.unreadable(shard, ticket, &error),
                // Other servers, and operations that are under way, go by what has been decided: there is
                // nothing that they could be told.
                Mail::Unreadable { error, .. } => return Err(error.into()),
                Mail::Synced(result) => {
                    result?;
                    pass(&mut self.faults, Stage::Synced, || "the log".to_string())?;
                    self.counters.log_syncs += 1;
                    self.shards.sync_ended();
                    for (shard, output) in self.durable.finish() {
                        self.carry_out(shard, output)?;
                    }
                }
                Mail::Flushed(result) => {
                    result?;
                    pass(&mut self.faults, Stage::Flushed, || "the store".to_string())?;
                    self.flush_done();
                }
                Mail::LinkOpened { server, result } => self.link_opened(server, result, now),
                Mail::MapFound(found) => self.map_found(found),
                Mail::Failed(error) => return Err(error),
                Mail::Stop => self.stop = Some(self.stop.unwrap_or(Stop::Clean)),
                Mail::Abandon => self.stop = Some(Stop::Abandon),
            }
        }
        Ok(())
    }

    fn flush_done(&mut self) {
        let Some(flushed) = self.flush.under_way.take() else {
            panic!("a flush ends that did not begin");
        };
        self.flush.unflushed_bytes -= flushed;
        for (connection, id) in std::mem::take(&mut self.flush.waiting) {
            self.answer(connection, id, AnswerBody::Admin(AdminReply::Done));
        }
    }

    fn data_done(&mut self, origin: DataOrigin, mut reply: DataReply) {
        match &mut reply {
            DataReply::Data(data) => self.counters.data_read += data.len() as u64,
            DataReply::Space { inodes, .. } => {
                *inodes = self
                    .shards
                    .status()
                    .iter()
                    .map(|status| status.inodes)
                    .sum();
            }
            DataReply::Done
            | DataReply::Usage { .. }
            | DataReply::Failed(_)
            | DataReply::Found { .. }
            | DataReply::OtherTruncations { .. } => {}
        }
        match origin {
            DataOrigin::Client {
                connection,
                id,
                owed,
            } => {
                self.repay_data(connection, owed);
                self.answer(connection, id, AnswerBody::Data(reply));
            }
            DataOrigin::Peer { server, ticket } => {
                self.send(server, PeerMessage::DataDone { ticket, reply });
            }
            DataOrigin::Shard { number } => {
                if let Some((shard, ticket)) = self.data_tickets.done(number) {
                    self.inbox.push((shard, Input::DataDone { ticket, reply }));
                }
            }
        }
    }
}
