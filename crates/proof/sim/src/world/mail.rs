//! Messages: what servers and clients say, and who gets it.

use super::{Event, Letter, World};
use crate::client::{PATIENCE, TELLERS, Todo};
use crate::oracles::Finding;
use crate::scenario::{End, MILLISECOND, Moment, Plant};
use crate::server::{Act, Asker};
use pandofs_api::PeerMessage;
use pandofs_shard::{Input, validate};
use pandofs_types::limits::SESSION_TIMEOUT;
use pandofs_types::{ServerId, ShardId};

/// When what was lost over a connection is sent again.
const RETRANSMISSION: Moment = 200 * MILLISECOND;

impl World {
    pub(super) fn act(&mut self, server: usize, act: Act) {
        let from = End::Server(server as u16);
        match act {
            Act::Answer {
                asker,
                result,
                leased,
            } => {
                let line = || {
                    let Asker {
                        client,
                        worker,
                        attempt,
                        ..
                    } = asker;
                    format!(
                        "server {server} answers {client}.{worker}/{attempt}: {result:?}, leases {leased:?}"
                    )
                };
                self.trace.line(self.now, line);
                let letter = Letter::Answer {
                    asker,
                    result,
                    leased,
                };
                self.mail(from, End::Client(asker.client), letter);
            }
            Act::Recall { hearer, told } => {
                self.trace.line(self.now, || {
                    format!("server {server} recalls from {hearer:?}: {told:?}")
                });
                let letter = Letter::Recall { hearer, told };
                self.mail_again(from, End::Client(hearer.client), letter);
            }
            Act::Watch { session } => {
                // It is not heard of any more.
                if self.gone.contains(&session) {
                    let noticed = self.now + SESSION_TIMEOUT.as_nanos() as Moment;
                    self.put(noticed, Event::SessionGone { session });
                }
            }
            Act::Send {
                server: to,
                message,
            } => {
                self.trace
                    .line(self.now, || format!("server {server} to {to}: {message:?}"));
                if self.scenario.plant == Some(Plant::NeverRepeats)
                    && matches!(message, PeerMessage::Commit { .. })
                    && !self.said.insert(said(&message))
                {
                    return;
                }
                let letter = Letter::Peer {
                    from: ServerId(server as u16),
                    message,
                    boot: self.servers[usize::from(to.0)].boot,
                };
                self.mail(from, End::Server(to.0), letter);
            }
        }
    }

    pub(super) fn mail(&mut self, from: End, to: End, letter: Letter) {
        for at in self.network.send(self.now, from, to) {
            let letter = Box::new(letter.clone());
            self.put(at, Event::Deliver { to, letter });
        }
    }

    fn mail_once(&mut self, from: End, to: End, letter: Letter) {
        if let Some(&at) = self.network.send(self.now, from, to).first() {
            let letter = Box::new(letter);
            self.put(at, Event::Deliver { to, letter });
        }
    }

    /// Over a connection on which somebody waits for long. What is lost is sent again, as a rule; else one end does not
    /// hear of the other any more.
    pub(super) fn mail_again(&mut self, from: End, to: End, letter: Letter) {
        match self.network.send(self.now, from, to).first() {
            Some(&at) => {
                let letter = Box::new(letter);
                self.put(at, Event::Deliver { to, letter });
            }
            None if self.random.chance(3, 4) => {
                let letter = Box::new(letter);
                let at = self.now + RETRANSMISSION;
                self.put(at, Event::MailAgain { from, to, letter });
            }
            None => {}
        }
    }

    pub(super) fn deliver(&mut self, to: End, letter: Letter) {
        match (to, letter) {
            (
                End::Server(id),
                Letter::Request {
                    asker,
                    request,
                    boot,
                },
            ) => {
                let server = usize::from(id);
                if self.is_process(server, boot) {
                    let shard = request.shard;
                    let ticket = self.servers[server].ticket(asker);
                    self.servers[server].receive(shard, Input::Request { ticket, request });
                    self.schedule(server);
                }
            }
            (
                End::Server(id),
                Letter::Peer {
                    from,
                    message,
                    boot,
                },
            ) => {
                let server = usize::from(id);
                match shard_of(&message) {
                    // Of what shards say to one another any copy may come at any time. This ends with the connection.
                    None if !self.is_process(server, boot) => {}
                    None => {
                        self.servers[server].server_message(from, message);
                        self.after(server);
                    }
                    Some(shard) => {
                        if let Err(misfit) = validate(&self.map, &message) {
                            let what = format!("server {from} sent {message:?}: {misfit}");
                            self.found.get_or_insert(Finding::new("messages", what));
                        }
                        self.servers[server].receive(shard, Input::Peer(message));
                        self.schedule(server);
                    }
                }
            }
            (End::Server(id), Letter::Hear { hearer, done, boot }) => {
                let server = usize::from(id);
                if self.is_process(server, boot) {
                    self.servers[server].await_recalls(hearer, done, self.now);
                    self.after(server);
                }
            }
            (End::Client(client), Letter::Recall { hearer, told }) => {
                if self.clients[client].session == hearer.session {
                    let mut todo = Vec::new();
                    self.clients[client].recalled(hearer, told, &mut todo);
                    self.carry_out(client, todo);
                }
            }
            (
                End::Client(client),
                Letter::Answer {
                    asker,
                    result,
                    leased,
                },
            ) => {
                if self.clients[client].session == asker.session {
                    if let Ok(reply) = &result
                        && let Err(what) = self.moments.told(reply)
                    {
                        self.found.get_or_insert(what);
                    }
                    let client_state = &mut self.clients[client];
                    let todo = client_state.answer(&mut self.history, asker, result, leased);
                    self.carry_out(client, todo);
                    if let Err(what) = self.moments.file_locks(&self.clients) {
                        self.found.get_or_insert(what);
                    }
                }
            }
            (to, letter) => unreachable!("{to:?} got {letter:?}"),
        }
    }

    pub(super) fn carry_out(&mut self, client: usize, todo: Vec<Todo>) {
        for todo in todo {
            match todo {
                Todo::Send { worker, pause } => {
                    let asker = Asker {
                        client,
                        session: self.clients[client].session,
                        worker,
                        attempt: 0,
                    };
                    let number = self.clients[client].pause(worker);
                    let event = Event::Send {
                        asker,
                        pause: number,
                    };
                    self.put(self.now + pause, event);
                }
                Todo::Done { worker, outcome } => {
                    self.trace.line(self.now, || {
                        format!("client {client}.{worker} is done: {outcome}")
                    });
                }
                Todo::Gone(what) => {
                    self.found.get_or_insert(Finding::new("opens", what));
                }
                Todo::Tell {
                    server,
                    boot,
                    number,
                    request,
                } => {
                    let asker = Asker {
                        client,
                        session: self.clients[client].session,
                        worker: TELLERS,
                        attempt: number,
                    };
                    self.trace
                        .line(self.now, || format!("client {client} tells {request:?}"));
                    let request = *request;
                    let letter = Letter::Request {
                        asker,
                        request,
                        boot,
                    };
                    // Over a connection nothing comes twice, and here nothing could tell.
                    self.mail_once(End::Client(client), End::Server(server as u16), letter);
                    self.put(self.now + PATIENCE, Event::Silence { asker });
                }
                Todo::Listen { server, pause } => {
                    let session = self.clients[client].session;
                    let listen = Event::Listen {
                        client,
                        session,
                        server,
                    };
                    self.put(self.now + pause, listen);
                }
                Todo::Hear {
                    hearer,
                    boot,
                    done,
                    patience,
                } => {
                    let letter = Letter::Hear { hearer, done, boot };
                    let to = End::Server(hearer.server as u16);
                    self.mail_again(End::Client(client), to, letter);
                    self.put(self.now + patience, Event::Deaf { hearer });
                }
                Todo::Release { pause } => {
                    let session = self.clients[client].session;
                    self.put(self.now + pause, Event::Release { client, session });
                }
                Todo::Broken(what) => {
                    self.found.get_or_insert(Finding::new("routing", what));
                }
            }
        }
    }

    pub(super) fn send_request(&mut self, asker: Asker, pause: u64) {
        let (boots, mut todo) = (self.boots(), Vec::new());
        let client = &mut self.clients[asker.client];
        if client.session != asker.session {
            return;
        }
        let number = asker.client;
        let sent = client.send(asker.worker, pause, &boots, &mut todo);
        self.carry_out(number, todo);
        let Some((request, asker)) = sent else {
            return;
        };
        self.trace.line(self.now, || {
            let Asker {
                client,
                worker,
                attempt,
                ..
            } = asker;
            format!("client {client}.{worker}/{attempt} asks {request:?}")
        });
        let server = self.map.server_of(request.shard);
        let letter = Letter::Request {
            asker,
            request,
            boot: self.servers[usize::from(server.0)].boot,
        };
        self.mail(End::Client(asker.client), End::Server(server.0), letter);
        self.put(self.now + PATIENCE, Event::Silence { asker });
    }
}

/// What a message says, whatever horizon and load go with it.
fn said(message: &PeerMessage) -> String {
    match message {
        PeerMessage::Commit {
            from, to, message, ..
        } => format!("{from} {to} {message:?}"),
        other => format!("{other:?}"),
    }
}

/// The shard a message is to; `None` when it is between servers.
fn shard_of(message: &PeerMessage) -> Option<ShardId> {
    match *message {
        PeerMessage::Commit { to, .. }
        | PeerMessage::SplitChunk { to, .. }
        | PeerMessage::SplitChunkDone { to, .. }
        | PeerMessage::SplitAbandoned { to, .. }
        | PeerMessage::MapNotice { to, .. }
        | PeerMessage::MapNoticeDone { to, .. }
        | PeerMessage::Forwarded { to, .. }
        | PeerMessage::ForgetForwarding { to, .. }
        | PeerMessage::ForgetForwardingDone { to, .. }
        | PeerMessage::SlotsAsk { to, .. }
        | PeerMessage::SlotsTold { to, .. }
        | PeerMessage::MergeAsk { to, .. }
        | PeerMessage::MergeGo { to, .. } => Some(to),
        PeerMessage::Data { .. } | PeerMessage::DataDone { .. } | PeerMessage::Load { .. } => None,
    }
}
