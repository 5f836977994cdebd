//! Messages: what servers and clients say, and who gets it.

use super::{Event, FLUSH_COST, Letter, READ_COST, SYNC_COST, World};
use crate::client::{Hearer, PATIENCE, TELLERS, Todo, early_of};
use crate::oracles::Finding;
use crate::scenario::{End, MILLISECOND, Moment, Plant};
use crate::server::{Asker, DataFrom};
use pandofs_api::{PeerMessage, Refusal, Reply};
use pandofs_lane::{Command, Heard};
use pandofs_types::{LeaseKey, Leased, ServerId};

/// When what was lost over a connection is sent again.
const RETRANSMISSION: Moment = 200 * MILLISECOND;

impl World {
    /// Does what a server's lane wants done.
    pub(super) fn obey(&mut self, server: usize, command: Command<Hearer>) {
        let from = End::Server(server as u16);
        match command {
            Command::Answer {
                ticket,
                result,
                leased,
                ..
            } => {
                if let Some(asker) = self.servers[server].take_ticket(ticket) {
                    self.answer(server, asker, result, leased);
                }
            }
            Command::Replaced { ticket } => {
                self.servers[server].take_ticket(ticket);
            }
            // Nothing is traced here.
            Command::Coordinates { .. } => {}
            Command::Recall { to, number, keys } => {
                self.tell_recall(server, to, Some((number, keys)));
            }
            Command::BeginAnew { to } => self.tell_recall(server, to, None),
            Command::Expired { session } => self.expired(server, session),
            Command::Send {
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
            Command::Data { origin, request } => {
                let from = DataFrom::Lane(origin);
                let todo = self.servers[server].data(from, request);
                self.obey_data(server, todo);
            }
            Command::Warm { shard, keys, input } => {
                self.counted.warmed += 1;
                let jitter = self.random.below(READ_COST as u64) as Moment;
                let at = self.now + (READ_COST + jitter) * self.slowness(server);
                let boot = self.servers[server].boot;
                let input = Box::new(input);
                let warmed = Event::Warmed {
                    server,
                    boot,
                    shard,
                    keys,
                    input,
                };
                self.put(at, warmed);
            }
            Command::Sync => {
                self.servers[server].begins_sync();
                let jitter = self.random.below(SYNC_COST as u64) as Moment;
                let at = self.now + (SYNC_COST + jitter) * self.slowness(server);
                let boot = self.servers[server].boot;
                self.put(at, Event::Synced { server, boot });
            }
            Command::Flush { written } => {
                let at = self.now + FLUSH_COST * self.slowness(server);
                let boot = self.servers[server].boot;
                let flushed = Event::Flushed {
                    server,
                    boot,
                    written,
                };
                self.put(at, flushed);
            }
            Command::Unreadable { error, .. } => unreachable!("memory is sound: {error}"),
            // The shard asks again, and a newer map has it.
            Command::UnknownServer { server: other, .. } => {
                assert!(self.map.server(other).is_some(), "{other} is on no map");
            }
            Command::FlushDone { to } => unreachable!("{to:?} wants no flush"),
        }
    }

    fn answer(
        &mut self,
        server: usize,
        asker: Asker,
        result: Result<Reply, Refusal>,
        leased: Vec<Leased>,
    ) {
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
        if let Ok(reply) = &result {
            self.hear_of_grants(asker, reply);
        }
        let letter = Letter::Answer {
            asker,
            result,
            leased,
            machine: self.servers[server].machine,
        };
        let from = End::Server(server as u16);
        self.mail(from, End::Client(asker.client), letter);
    }

    fn tell_recall(&mut self, server: usize, hearer: Hearer, told: Option<(u64, Vec<LeaseKey>)>) {
        self.trace.line(self.now, || {
            format!("server {server} recalls from {hearer:?}: {told:?}")
        });
        let letter = Letter::Recall { hearer, told };
        let from = End::Server(server as u16);
        self.mail_again(from, End::Client(hearer.client), letter);
    }

    /// Notes the operations under grants that an answer says are done.
    fn hear_of_grants(&mut self, asker: Asker, reply: &Reply) {
        let done = match reply {
            Reply::Batch(batch) => batch.done as usize,
            // Of an operation that was sent by itself.
            Reply::Entry(_) | Reply::Removed { .. } => 1,
            _ => return,
        };
        let by = (asker.session, asker.worker, asker.attempt);
        if let Some(randoms) = self.early.get(&by) {
            let done = &randoms[..randoms.len().min(done)];
            if let Err(what) = self.history.done_early(done) {
                self.found.get_or_insert(Finding::new("early", what));
            }
        }
    }

    pub(super) fn mail(&mut self, from: End, to: End, letter: Letter) {
        for at in self.network.send(self.now, from, to) {
            let letter = Box::new(letter.clone());
            self.put(at, Event::Deliver { to, letter });
        }
    }

    pub(super) fn mail_once(&mut self, from: End, to: End, letter: Letter) {
        if let Some(&at) = self.network.send(self.now, from, to).first() {
            let letter = Box::new(letter);
            self.put(at, Event::Deliver { to, letter });
        }
    }

    /// Over a connection on which somebody waits for long. A lost message is sent again, as a rule; else one end does
    /// not hear of the other any more.
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
                    known,
                },
            ) => {
                let server = usize::from(id);
                if self.is_heard(server, asker.session, known) {
                    if self.servers[server].is_before(request.epoch) {
                        self.look_for_map(server);
                    }
                    if let Err(refusal) = self.servers[server].ask(asker, request) {
                        self.answer(server, asker, Err(refusal), Vec::new());
                    }
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
                if self.servers[server].process.is_some() && !self.servers[server].knows(from) {
                    // Its connections are closed until a newer map has it.
                    return self.look_for_map(server);
                }
                // Of what shards say to one another any copy may come at any time. The rest ends with the connection.
                if !is_between_servers(&message) || self.is_process(server, boot) {
                    let heard = self.servers[server].hear(from, message);
                    if matches!(heard, Some(Ok(Heard::Misfit { .. })))
                        && self.servers[server].is_before(self.map.epoch)
                    {
                        // It may be about shards of which only a newer map knows.
                        self.look_for_map(server);
                    } else if let Some(
                        heard @ (Err(_) | Ok(Heard::Misfit { .. } | Heard::OtherMap { .. })),
                    ) = heard
                    {
                        let what = format!("server {server} hears of {from}: {heard:?}");
                        self.found.get_or_insert(Finding::new("messages", what));
                    }
                    self.after(server);
                }
            }
            (End::Server(id), Letter::Ping { session, known }) => {
                self.is_heard(usize::from(id), session, known);
            }
            (
                End::Server(id),
                Letter::Hear {
                    hearer,
                    done,
                    known,
                },
            ) => {
                let server = usize::from(id);
                if self.is_heard(server, hearer.session, known) {
                    self.servers[server].await_recalls(hearer, done, self.now);
                    self.after(server);
                }
            }
            (End::Server(id), Letter::AskMap { asker, known }) => {
                let server = usize::from(id);
                if self.is_heard(server, asker.session, known)
                    && let Some(map) = self.servers[server].map().cloned()
                {
                    let letter = Letter::Map { asker, map };
                    self.mail(End::Server(id), End::Client(asker.client), letter);
                }
            }
            (End::Client(client), Letter::Map { asker, map }) => {
                if self.clients[client].session == asker.session {
                    let todo = self.clients[client].map_told(&mut self.history, asker, &map);
                    self.carry_out(client, todo);
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
                    machine,
                },
            ) => {
                if self.clients[client].session == asker.session {
                    if let Ok(reply) = &result
                        && let Err(what) = self.moments.told(reply)
                    {
                        self.found.get_or_insert(what);
                    }
                    let client_state = &mut self.clients[client];
                    client_state.machine = machine;
                    let todo = client_state.answer(&mut self.history, asker, result, leased);
                    self.carry_out(client, todo);
                    if let Err(what) = self.moments.file_locks(&self.sure_of_locks()) {
                        self.found.get_or_insert(what);
                    }
                }
            }
            (
                End::Server(id),
                Letter::Data {
                    asker,
                    connection,
                    request,
                    boot,
                },
            ) => self.data_asked(usize::from(id), boot, (asker, connection), request),
            (
                End::Client(client),
                Letter::DataAnswer {
                    asker,
                    reply,
                    machine,
                },
            ) => {
                if self.clients[client].session == asker.session {
                    let state = &mut self.clients[client];
                    let todo = state.data_answered(&mut self.history, asker, reply, machine);
                    self.carry_out(client, todo);
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
                    known,
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
                        known,
                    };
                    // Over a connection nothing comes twice, and here nothing could tell.
                    self.mail_once(End::Client(client), End::Server(server as u16), letter);
                    self.put(self.now + PATIENCE, Event::Silence { asker });
                }
                Todo::AskMap { server, asker } => {
                    let known = self.servers[server].acquaintance(asker.session);
                    let letter = Letter::AskMap { asker, known };
                    self.mail(End::Client(client), End::Server(server as u16), letter);
                    if asker.worker != TELLERS {
                        self.put(self.now + PATIENCE, Event::Silence { asker });
                    }
                }
                Todo::AskData {
                    server,
                    connection,
                    asker,
                    request,
                } => self.ask_data(server, (asker, connection), request),
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
                    known,
                    done,
                    patience,
                } => {
                    let letter = Letter::Hear {
                        hearer,
                        done,
                        known,
                    };
                    let to = End::Server(hearer.server as u16);
                    self.mail_again(End::Client(client), to, letter);
                    self.put(self.now + patience, Event::Deaf { hearer });
                }
                Todo::Ping { server } => {
                    let session = self.clients[client].session;
                    let Some(&known) = self.clients[client].known.get(server) else {
                        continue;
                    };
                    let letter = Letter::Ping { session, known };
                    self.mail_once(End::Client(client), End::Server(server as u16), letter);
                }
                Todo::Release { pause } => {
                    let session = self.clients[client].session;
                    self.put(self.now + pause, Event::Release { client, session });
                }
                Todo::Early(what) => {
                    self.found.get_or_insert(Finding::new("early", what));
                }
                Todo::Wake { pause } => {
                    let session = self.clients[client].session;
                    self.put(self.now + pause, Event::Wake { client, session });
                }
                Todo::LookAtRecalls { server, pause } => {
                    let session = self.clients[client].session;
                    let look = Event::LookAtRecalls {
                        client,
                        session,
                        server,
                    };
                    self.put(self.now + pause, look);
                }
                Todo::Broken(what) => {
                    self.found.get_or_insert(Finding::new("routing", what));
                }
            }
        }
    }

    pub(super) fn send_request(&mut self, asker: Asker, pause: u64) {
        let (known, mut todo) = (self.known_by(asker.client), Vec::new());
        let client = &mut self.clients[asker.client];
        if client.session != asker.session {
            return;
        }
        let number = asker.client;
        let sent = client.send(asker.worker, pause, &known, &mut todo);
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
        if let Some(randoms) = early_of(&request.request) {
            let by = (asker.session, asker.worker, asker.attempt);
            self.early.insert(by, randoms);
        }
        let server = self.map.server_of(request.shard);
        let letter = Letter::Request {
            asker,
            request,
            known: known[usize::from(server.0)],
        };
        self.mail(End::Client(asker.client), End::Server(server.0), letter);
        self.put(self.now + PATIENCE, Event::Silence { asker });
    }
}

/// Text of a message, without the horizon and load that go with it.
fn said(message: &PeerMessage) -> String {
    match message {
        PeerMessage::Commit {
            from, to, message, ..
        } => format!("{from} {to} {message:?}"),
        other => format!("{other:?}"),
    }
}

fn is_between_servers(message: &PeerMessage) -> bool {
    matches!(
        message,
        PeerMessage::Data { .. }
            | PeerMessage::DataDone { .. }
            | PeerMessage::Load { .. }
            | PeerMessage::Trace { .. }
    )
}
