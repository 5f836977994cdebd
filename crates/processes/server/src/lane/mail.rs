//! Handlers for reports of helper threads and commands of the server's handle.

use super::{LaneThread, Stop};
use crate::data::pool::DataOrigin;
use crate::error::ServerError;
use crate::mailbox::Mail;
use pandofs_api::DataReply;
use pandofs_wire::message::AnswerBody;
use std::time::Instant;

impl LaneThread {
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
                Mail::Warmed { shard, keys, input } => self.lane.warmed(shard, keys, *input),
                Mail::Unreadable {
                    shard,
                    input,
                    error,
                } => self.lane.unreadable(shard, &input, error)?,
                Mail::Synced(result) => {
                    result?;
                    self.lane.synced()?;
                }
                Mail::Flushed(result) => {
                    result?;
                    self.lane.flushed()?;
                }
                Mail::LinkOpened { server, result } => self.link_opened(server, result, now),
                Mail::MapFound(found) => self.map_found(found),
                Mail::Observe(to) => {
                    // The observer may have given up.
                    let _ = to.send(self.seen());
                }
                Mail::Failed(error) => return Err(error),
                Mail::Stop => self.stop = Some(self.stop.unwrap_or(Stop::Clean)),
                Mail::Abandon => self.stop = Some(Stop::Abandon),
            }
        }
        Ok(())
    }

    fn data_done(&mut self, origin: DataOrigin, mut reply: DataReply) {
        match &mut reply {
            DataReply::Data(data) => self.counters.data_read += data.len() as u64,
            DataReply::Space { inodes, .. } => {
                *inodes = self
                    .lane
                    .shards()
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
                kind,
                ino,
                came,
            } => {
                let now = Instant::now();
                let took = now.saturating_duration_since(came);
                self.times.data(kind).add(took);
                let known = self.connections.get(connection);
                let session = known.and_then(|known| known.role.session());
                self.data_ended(session, kind, ino, came, now);
                self.traces.data_done((connection, id));
                self.repay_data(connection, owed);
                self.answer(connection, id, AnswerBody::Data(reply));
            }
            DataOrigin::Lane(origin) => self.lane.data_done(origin, reply),
        }
    }
}
