//! Open files of a client: the library's table, told again to restarted servers, closed in batches.

use super::map::server_of;
use super::{Client, Todo};
use crate::history::History;
use crate::program::Job;
use crate::scenario::Moment;
use crate::server::Acquaintance;
use pandofs_api::{Refusal, Reply, Request, RequestKey, ShardRequest, op};
use pandofs_session::{Batch, KnownPlaces, NotTaken, Registration, Target};
use pandofs_types::limits::{CLIENT_TICK, MIN_RECONNECT_PAUSE, RELEASE_DELAY};
use pandofs_types::{Credentials, Ino, ShardId, SlotId};
use std::collections::BTreeMap;
use std::time::Duration;

/// Interval at which a client that has something open looks for a newer cluster map.
const MAP_LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// An asker of this number is no worker: what was told, for whose answer no operation waits. Its attempts are the numbers
/// of what was told.
pub(crate) const TELLERS: usize = 1_000;
/// Their slots follow those of requests made in the course of others.
const TELLERS_SLOT: u16 = super::INNER_SLOTS + 100;

/// Dealings of a client with one server, whichever of its processes it is.
#[derive(Debug, Default)]
pub(super) struct Link {
    registration: Registration<Acquaintance>,
    /// As the client library counts them.
    pub registrations: u64,
    /// Workers that wait for the end of a registration.
    waiting: Vec<usize>,
}

/// A message that was sent and is to be answered.
#[derive(Debug)]
enum Told {
    Opens { server: usize },
    Closes { server: usize, batch: Batch },
}

/// A message, and its server.
#[derive(Debug, Default)]
pub(super) struct Tellers {
    links: BTreeMap<usize, Link>,
    told: BTreeMap<u64, Told>,
    sequence: u64,
}

impl Tellers {
    pub(super) fn link(&mut self, server: usize) -> &mut Link {
        self.links.entry(server).or_default()
    }
}

impl Client {
    pub(super) fn link(&mut self, server: usize) -> &mut Link {
        self.tellers.link(server)
    }

    fn tell(&mut self, shard: ShardId, request: Request) -> ShardRequest {
        self.tellers.sequence += 1;
        ShardRequest {
            shard,
            epoch: self.map.epoch,
            key: RequestKey {
                session: self.session,
                slot: SlotId(TELLERS_SLOT),
                sequence: self.tellers.sequence,
            },
            caller: Credentials::ROOT,
            request,
        }
    }

    /// Whether this process of the server knows what is open. If not it is told, and the worker goes on then.
    pub(crate) fn is_registered(
        &mut self,
        server: usize,
        known: Acquaintance,
        worker: Option<usize>,
        todo: &mut Vec<Todo>,
    ) -> bool {
        let link = self.link(server);
        if link.registration.is_with(known) {
            return true;
        }
        if link.registration.under_way().is_some() {
            link.waiting.extend(worker);
            return false;
        }
        link.registration.lapses();
        let shards = self.shards_of(server);
        let link = self.tellers.links.entry(server).or_default();
        let opens = match self.plant {
            Some(crate::Plant::ForgetsOpens) => Vec::new(),
            _ => {
                link.registrations += 1;
                let files = self.places.files.borrow();
                self.closes.register(&shards, files.counts())
            }
        };
        link.registration.begin(known, &opens, shards);
        if self.tell_next(server, todo) {
            return true;
        }
        self.link(server).waiting.extend(worker);
        false
    }

    /// Tells the server the next of what is to be registered. Whether nothing is left.
    fn tell_next(&mut self, server: usize, todo: &mut Vec<Todo>) -> bool {
        let locks = self.to_register();
        let link = self.link(server);
        let Some(known) = link.registration.under_way() else {
            return false;
        };
        let Some((shard, request)) = link.registration.next(|| locks) else {
            return true;
        };
        let request = self.tell(shard, request);
        let number = request.key.sequence;
        self.tellers.told.insert(number, Told::Opens { server });
        todo.push(Todo::Tell {
            server,
            known,
            number,
            request: Box::new(request),
        });
        false
    }

    /// Those who wait for the server go on after this pause.
    fn go_on_with(&mut self, server: usize, pause: Moment, todo: &mut Vec<Todo>) {
        let waiting = std::mem::take(&mut self.link(server).waiting);
        let send = |worker| Todo::Send { worker, pause };
        todo.extend(waiting.into_iter().map(send));
    }

    /// A message was not answered, or refused: the whole of it begins anew.
    fn not_told(&mut self, server: usize, todo: &mut Vec<Todo>) {
        self.link(server).registration.given_up();
        let pause = MIN_RECONNECT_PAUSE.as_nanos() as Moment;
        self.go_on_with(server, pause, todo);
    }

    /// The message of this number was answered, or, with `None`, will never be.
    pub(crate) fn told(
        &mut self,
        number: u64,
        result: Option<Result<Reply, Refusal>>,
        todo: &mut Vec<Todo>,
    ) {
        match (self.tellers.told.remove(&number), result) {
            (None, _) => {}
            (Some(Told::Opens { server }), Some(answer)) => {
                match self.link(server).registration.answered(&answer) {
                    Ok(lost) => {
                        self.lost(&lost);
                        if self.tell_next(server, todo) {
                            self.go_on_with(server, 0, todo);
                        }
                    }
                    Err(NotTaken) => self.not_told(server, todo),
                }
            }
            (Some(Told::Opens { server }), None) => self.not_told(server, todo),
            (Some(Told::Closes { server, batch }), result) => {
                let left = batch.left_by(result).unwrap_or_else(|refusal| {
                    let text = format!("closes were refused with {refusal:?}: {batch:?}");
                    todo.push(Todo::Broken(text));
                    Vec::new()
                });
                for &(ino, shard) in left.iter().filter(|(_, shard)| *shard != batch.shard) {
                    self.learn_shard(ino, shard);
                }
                self.sent(server, &batch, &left, todo);
            }
        }
    }

    /// The batch is not on its way any more; those that are left are told to these shards.
    fn sent(
        &mut self,
        server: usize,
        batch: &Batch,
        left: &[(Ino, ShardId)],
        todo: &mut Vec<Todo>,
    ) {
        let link = self.tellers.links.entry(server).or_default();
        let map = &self.map;
        let is_of_server = |shard| server_of(map, shard) == Some(server);
        self.closes
            .sent(batch, left, link.registrations, is_of_server);
        if !left.is_empty() {
            todo.push(release_later());
        }
    }

    /// Tells shards what was closed. `known`: what it knows each server as.
    pub(crate) fn release(&mut self, known: &[Acquaintance], todo: &mut Vec<Todo>) {
        let mut batches = {
            let links = &self.tellers.links;
            let map = &self.map;
            self.closes.take(|shard| {
                let link = server_of(map, shard).and_then(|server| links.get(&server));
                link.map_or(0, |link| link.registrations)
            })
        };
        batches.sort_by_key(|batch| batch.shard);
        for batch in batches {
            let Some(server) = self.server_of(batch.shard) else {
                self.closes.given_up(&batch);
                continue;
            };
            if !self.is_registered(server, known[server], None, todo) {
                // Registrations are counted without these, if any of them are among it.
                self.sent(server, &batch, &batch.whole(), todo);
                continue;
            }
            if self.link(server).registrations != batch.registration {
                self.closes.given_up(&batch);
                continue;
            }
            let inos = batch.inos.clone();
            let request = self.tell(batch.shard, Request::Release(op::Release { inos }));
            let number = request.key.sequence;
            self.tellers
                .told
                .insert(number, Told::Closes { server, batch });
            todo.push(Todo::Tell {
                server,
                known: known[server],
                number,
                request: Box::new(request),
            });
        }
    }

    /// Says to each server that the client lives, as long as it has anything open; one that was restarted does not give
    /// locks before it has heard of all clients that may have some.
    pub(crate) fn ping(&mut self, known: &[Acquaintance], todo: &mut Vec<Todo>) {
        self.pings += 1;
        self.renew(todo);
        let every = (self.ping_interval.as_millis() / CLIENT_TICK.as_millis()) as u64;
        let look_every = (MAP_LOOK_INTERVAL.as_millis() / CLIENT_TICK.as_millis()) as u64;
        if self.pings.is_multiple_of(look_every) && (self.any_open() || self.locks.is_used()) {
            self.look_for_map(todo);
        }
        let is_due = self.pings.is_multiple_of(every) && self.any_open();
        if is_due || self.locks.is_used() {
            for (server, &known) in known.iter().enumerate().take(self.servers()) {
                self.is_registered(server, known, None, todo);
            }
        }
        if self.pings.is_multiple_of(every) {
            let ping = |server| Todo::Ping { server };
            todo.extend((0..self.servers()).map(ping));
        }
    }

    /// An inode was found on this shard.
    pub(super) fn learn_shard(&mut self, ino: Ino, shard: ShardId) {
        self.places.moved(ino, shard);
    }

    /// Whether anything is open, or a close is still to be told.
    fn any_open(&self) -> bool {
        !self.closes.is_empty() || !self.places.files.borrow().is_empty()
    }

    /// The worker has been told that the file is open; whether its shard is to be told again, as it may not know.
    pub(super) fn opened(
        &mut self,
        worker: usize,
        call: &super::Call,
        ino: Ino,
    ) -> Option<(Target, Request)> {
        let shard = call.asked.shard;
        self.places.files.get_mut().opened(ino, shard, true, || ());
        let registrations = self.link(call.server).registrations;
        let may_be_lost = call.progress.is_resent() && call.asked.request.is_mutation();
        if registrations == call.registration && !may_be_lost {
            self.keep(worker, [ino]);
            return None;
        }
        let (count, shard) = self.closes.to_register(self.places.files.get_mut(), ino)?;
        let opens = vec![(ino, count)];
        Some((Target::Shard(shard), Request::Reopen(op::Reopen { opens })))
    }

    /// The worker has opened these, for what is done to open files; what is done to contents is done at once, and no other
    /// operation closes it.
    pub(super) fn keep(&mut self, worker: usize, inos: impl IntoIterator<Item = Ino>) {
        if self.workers[worker].data.is_some() {
            return;
        }
        for ino in inos {
            self.held.push(ino);
            // The server has opened it and let go of the session, and gives the same answer again.
            if self.workers[worker].has_lapsed {
                self.lapsed.insert(ino);
            }
        }
    }

    /// Closes what the job is about, if it closes anything.
    pub(super) fn close(&mut self, job: &Job, todo: &mut Vec<Todo>) {
        let Some(place) = job.closes() else {
            return;
        };
        if !self.held.is_empty() {
            let ino = self.held.remove(place % self.held.len());
            let is_open = self.closes.release(self.places.files.get_mut(), ino);
            assert!(is_open, "what is held is open");
            if !self.held.contains(&ino) {
                self.lapsed.remove(&ino);
            }
            todo.push(release_later());
        }
    }

    /// An answer about a file that was opened and not closed: it is there, unless a server lost it.
    pub(super) fn check_open(
        &self,
        history: &History,
        request: &Request,
        is_gone: bool,
    ) -> Result<(), String> {
        let (Request::GetAttr(op::GetAttr { ino })
        | Request::WriteInline(op::WriteInline { ino, .. })) = request
        else {
            return Ok(());
        };
        let is_kept = self.held.contains(ino) && !self.lapsed.contains(ino);
        if is_gone && is_kept && !history.may_be_lost(*ino) {
            return Err(format!(
                "{ino} is open, and gone says the answer to {request:?}"
            ));
        }
        Ok(())
    }

    /// It has not been heard of for so long that what it has open, or is about to hear to be open, may be gone.
    pub(crate) fn lapse(&mut self) {
        self.lapsed.extend(&self.held);
        for worker in &mut self.workers {
            worker.has_lapsed = true;
        }
    }

    /// Whether this server has been told of all that it has open and locked.
    pub(crate) fn is_registered_with(&self, server: usize, known: Acquaintance) -> bool {
        let link = self.tellers.links.get(&server);
        link.is_some_and(|link| link.registration.is_with(known))
    }

    /// Open files, in the client's eyes.
    pub(crate) fn held(&self) -> &[Ino] {
        &self.held
    }
}

pub(super) fn release_later() -> Todo {
    Todo::Release {
        pause: RELEASE_DELAY.as_nanos() as Moment,
    }
}
