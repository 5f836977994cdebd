//! Requests for data objects between clients and servers, and syncs of these.

use super::{Event, Letter, SYNC_COST, World};
use crate::client::PATIENCE;
use crate::scenario::{End, Moment};
use crate::server::{Asker, DataTodo};
use pandofs_api::{DataReply, DataRequest};
use std::collections::VecDeque;

impl World {
    /// A client sends a request, over one of its connections.
    pub(super) fn ask_data(
        &mut self,
        server: usize,
        (asker, connection): (Asker, u64),
        request: DataRequest,
    ) {
        self.trace.line(self.now, || {
            let (client, worker, attempt) = (asker.client, asker.worker, asker.attempt);
            let what = told(&request);
            format!(
                "client {client}.{worker}/{attempt} asks server {server} over connection {connection}: {what}"
            )
        });
        let letter = Letter::Data {
            asker,
            connection,
            request,
            boot: self.servers[server].boot,
        };
        let (from, to) = (End::Client(asker.client), End::Server(server as u16));
        // Over a connection nothing comes twice. A late request may come after its repetition over another one.
        self.mail_once(from, to, letter);
        self.put(self.now + PATIENCE, Event::Silence { asker });
    }

    /// It has come.
    pub(super) fn data_asked(
        &mut self,
        server: usize,
        boot: u64,
        (asker, connection): (Asker, u64),
        request: DataRequest,
    ) {
        if self.is_process(server, boot) {
            let todo = self.servers[server].client_data(asker, connection, request);
            self.obey_data(server, todo);
            self.after(server);
        }
    }

    /// Does what came of something that was done with data objects.
    pub(super) fn obey_data(&mut self, server: usize, todo: Vec<DataTodo>) {
        let mut left = VecDeque::from(todo);
        while let Some(next) = left.pop_front() {
            match next {
                DataTodo::Answer(asker, reply) => self.answer_data(server, asker, reply),
                DataTodo::Sync(sync) if self.has_contents => {
                    let jitter = self.random.below(SYNC_COST as u64) as Moment;
                    let at = self.now + (SYNC_COST + jitter) * self.slowness(server);
                    let boot = self.servers[server].boot;
                    self.put(at, Event::DataSynced { server, boot, sync });
                }
                DataTodo::Sync(sync) => left.extend(self.servers[server].ends_data_sync(sync)),
            }
        }
    }

    fn answer_data(&mut self, server: usize, asker: Asker, reply: DataReply) {
        self.trace.line(self.now, || {
            let (client, worker, attempt) = (asker.client, asker.worker, asker.attempt);
            let reply = match &reply {
                DataReply::Data(data) => format!("{} bytes", data.len()),
                other => format!("{other:?}"),
            };
            format!("server {server} answers {client}.{worker}/{attempt} about data: {reply}")
        });
        let machine = self.servers[server].machine;
        let letter = Letter::DataAnswer {
            asker,
            reply,
            machine,
        };
        let from = End::Server(server as u16);
        self.mail_once(from, End::Client(asker.client), letter);
    }
}

/// A request without its bytes.
fn told(request: &DataRequest) -> String {
    match request {
        DataRequest::Write {
            ino,
            truncations,
            offset,
            data,
        } => {
            let length = data.len();
            format!("write {length} bytes of {ino} from {offset} on, truncations {truncations}")
        }
        other => format!("{other:?}"),
    }
}
