//! Batches: inputs through the shards, records to the log, outputs to commands.

use crate::command::{Command, DataOrigin};
use crate::data_tickets::Asked;
use crate::error::LaneError;
use crate::faults::{Stage, Subject};
use crate::lane::{Held, Lane};
use crate::limits::MAX_BATCH_INPUTS;
use pandofs_api::{Cause, DataRequest, PeerMessage};
use pandofs_shard::{Environment, Input, Note, Output};
use pandofs_types::{ServerId, ShardId};

impl<W> Lane<W> {
    /// The first batch: what recovery wants sent, before anything new is taken up.
    ///
    /// Numbers of inodes are left out at each start; were that lost, they would be given out twice. So the log is
    /// synced, which keeps nobody waiting yet.
    ///
    /// # Errors
    /// As [`Lane::run_batch`].
    pub fn begin(&mut self, environment: &mut Environment<'_>) -> Result<(), LaneError> {
        self.shards.touch_all();
        self.run_batch(environment, usize::MAX)?;
        self.sync_now()
    }

    /// Takes up to `limit` inputs through the shards, log and overlay, and gives commands for what comes of it. Messages
    /// between shards of this lane that need not wait for the disk stay within the batch.
    ///
    /// # Errors
    /// A shard's, the log's, the store's or the fault points': the lane is not to be used any more.
    pub fn run_batch(
        &mut self,
        environment: &mut Environment<'_>,
        limit: usize,
    ) -> Result<(), LaneError> {
        self.points.begin_batch()?;
        self.now = environment.steady;
        self.delays.time(environment.steady);
        let mut inputs = std::mem::take(&mut self.inputs);
        let mut outputs = std::mem::take(&mut self.outputs);
        let first = self.inbox.len().min(limit);
        inputs.extend(self.inbox.drain(..first));
        let mut taken = 0;
        loop {
            taken += inputs.len();
            for (shard, input) in inputs.drain(..) {
                self.shards
                    .submit(&self.overlay, environment, shard, input)?;
            }
            let appended = self.shards.append_and_apply(
                &mut self.overlay,
                environment,
                &*self.log,
                &mut self.points,
            )?;
            if appended.records > 0 {
                if !self.durable.is_behind() {
                    self.timers.sync_later(environment.steady);
                }
                self.durable.appended();
                self.flush.appended(appended.bytes);
                self.counters.log_records += appended.records;
                self.counters.log_batches += appended.batches;
                self.counters.log_bytes += appended.bytes;
            }
            self.shards.take_notes(|note| match note {
                Note::Coordinates(ticket, tx) => {
                    self.commands.push(Command::Coordinates { ticket, tx });
                }
                note => self.delays.note(note),
            });
            for (shard, output) in self.shards.take_outputs() {
                match output {
                    Output::Send {
                        to,
                        message,
                        durable: false,
                    } if self.map.server_of(to) == self.id => {
                        self.points
                            .pass(Stage::Sending, Subject::Message(&message))?;
                        inputs.push((to, Input::Peer(message)));
                    }
                    other => outputs.push((shard, other)),
                }
            }
            if inputs.is_empty() {
                break;
            }
            if taken >= MAX_BATCH_INPUTS {
                self.inbox.extend(inputs.drain(..));
                break;
            }
        }
        if self.overlay.bytes() >= self.unwritten_bytes {
            self.write_out()?;
        }
        for (shard, output) in outputs.drain(..) {
            self.deliver(shard, output)?;
        }
        (self.inputs, self.outputs) = (inputs, outputs);
        Ok(())
    }

    /// Carries an output out, or keeps it until the log is synced.
    fn deliver(&mut self, shard: ShardId, output: Output) -> Result<(), LaneError> {
        let waits = match &output {
            Output::Answer { durable, .. } | Output::Send { durable, .. } => *durable,
            Output::Data {
                ticket, durable, ..
            } => match self.data_tickets.ask(shard, *ticket) {
                Asked::First => *durable,
                Asked::Unsent => return Ok(()),
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
        if !waits {
            return self.carry_out(shard, output);
        }
        let held = Held {
            shard,
            applied: self.shards.shard(shard).applied(),
            output,
        };
        if self.keeps_nothing_back {
            return self.let_go(held);
        }
        let answers = match &held.output {
            Output::Answer { ticket, .. } => Some(*ticket),
            _ => None,
        };
        if let Some(held) = self.durable.hold(held) {
            return self.let_go(held);
        }
        if let Some(ticket) = answers {
            self.delays.note(Note::Waits(ticket, Cause::Log));
        }
        Ok(())
    }

    /// Carries out what has waited for the disk.
    pub(crate) fn let_go(&mut self, held: Held) -> Result<(), LaneError> {
        let Held {
            shard,
            applied,
            output,
        } = held;
        assert!(
            self.shards.promise(shard, applied) || self.keeps_nothing_back,
            "shard {shard} speaks of record {applied}, which is not synced"
        );
        self.carry_out(shard, output)
    }

    fn carry_out(&mut self, shard: ShardId, output: Output) -> Result<(), LaneError> {
        let command = match output {
            Output::Answer {
                ticket,
                result,
                leased,
                ..
            } => Command::Answer {
                ticket,
                result,
                leased,
                delays: self.delays.take(ticket),
            },
            Output::Recall(recall) => {
                self.recall(shard, recall);
                return Ok(());
            }
            Output::Send { to, message, .. } => {
                self.points
                    .pass(Stage::Sending, Subject::Message(&message))?;
                let server = self.map.server_of(to);
                if server == self.id {
                    self.give(to, Input::Peer(message));
                    return Ok(());
                }
                Command::Send { server, message }
            }
            Output::WhenDurable { shard, input } => {
                self.points.pass(Stage::Sending, Subject::Input(&input))?;
                self.give(shard, input);
                return Ok(());
            }
            Output::Data {
                server,
                ticket,
                request,
                ..
            } => return self.ask_for_data(shard, server, ticket, request),
            Output::Replaced { ticket } => Command::Replaced { ticket },
            Output::Unreadable { ticket, error } => {
                self.delays.take(ticket);
                Command::Unreadable {
                    shard,
                    ticket,
                    error,
                }
            }
            Output::Warm { keys, input } => Command::Warm { shard, keys, input },
            Output::Watch { session } => {
                self.expect(session);
                return Ok(());
            }
        };
        self.commands.push(command);
        Ok(())
    }

    fn ask_for_data(
        &mut self,
        shard: ShardId,
        server: ServerId,
        ticket: u64,
        request: DataRequest,
    ) -> Result<(), LaneError> {
        if self.map.server(server).is_none() {
            self.data_tickets.forget(shard, ticket);
            self.commands.push(Command::UnknownServer { shard, server });
            return Ok(());
        }
        self.points.pass(Stage::Sending, Subject::Data(&request))?;
        let (number, is_first) = self.data_tickets.send(shard, ticket);
        if server != self.id {
            let ticket = number;
            let message = PeerMessage::Data { ticket, request };
            self.commands.push(Command::Send { server, message });
        } else if is_first {
            let origin = DataOrigin::Shard { number };
            self.commands.push(Command::Data { origin, request });
        }
        // Otherwise it is under way here, and nothing here is lost on the way.
        Ok(())
    }
}
