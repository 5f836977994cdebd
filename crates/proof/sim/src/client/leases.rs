//! Lease cache of a client: the library's state machine, with a connection to each server.

use super::early::{Early, look_again};
use super::{Call, Client, PATIENCE, Todo};
use crate::history::History;
use crate::scenario::{Moment, Plant};
use crate::server::Acquaintance;
use pandofs_api::{Refusal, Reply, Request, RequestKey, ShardRequest};
use pandofs_session::{Boottime, Hearing, LeaseCache, LeaseGrant, Target};
use pandofs_types::limits::{MIN_RECONNECT_PAUSE, RECALL_WAIT};
use pandofs_types::{FsError, LeaseKey, Leased, ServerId, SessionId, ShardId, SlotId};

/// Where recalls are told: a connection of a client to one server, and the request there that is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hearer {
    pub client: usize,
    /// Of the process that the client is.
    pub session: SessionId,
    pub server: usize,
    /// When the connection was made.
    pub connected: Moment,
    pub request: u64,
}

/// A conversation with one server.
#[derive(Debug)]
pub(super) struct Conversation {
    connected: Moment,
    /// The server at the other end.
    known: Acquaintance,
    request: u64,
    /// As the library has it.
    hearing: Hearing,
}

impl Client {
    /// Connects to a server anew, and takes leases from it.
    pub(crate) fn listen(&mut self, server: usize, todo: &mut Vec<Todo>) {
        if self.sends_first(server, todo) {
            return;
        }
        let conversation = Conversation {
            connected: self.now,
            known: self.known[server],
            request: 0,
            hearing: Hearing::default(),
        };
        self.hearings.insert(server, conversation);
        self.wait_for_recalls(server, None, todo);
    }

    fn wait_for_recalls(&mut self, server: usize, done: Option<u64>, todo: &mut Vec<Todo>) {
        let (client, session) = (self.number, self.session);
        let Some(hearing) = self.hearings.get_mut(&server) else {
            return;
        };
        hearing.request += 1;
        // The first is answered at once, and the others every now and then. The library waits until the connection breaks.
        let patience = match done {
            None => PATIENCE,
            Some(_) => RECALL_WAIT.as_nanos() as Moment * 3,
        };
        todo.push(Todo::Hear {
            hearer: Hearer {
                client,
                session,
                server,
                connected: hearing.connected,
                request: hearing.request,
            },
            known: hearing.known,
            done,
            patience,
        });
    }

    fn is_heard(&self, hearer: Hearer) -> bool {
        let hearing = self.hearings.get(&hearer.server);
        hearing.is_some_and(|hearing| {
            hearing.connected == hearer.connected && hearing.request == hearer.request
        })
    }

    /// A server has told of recalls, or, with `None`, does not know the session any more.
    pub(crate) fn recalled(
        &mut self,
        hearer: Hearer,
        told: Option<(u64, Vec<LeaseKey>)>,
        todo: &mut Vec<Todo>,
    ) {
        if !self.is_heard(hearer) {
            return;
        }
        let Some((number, mut keys)) = told else {
            return self.deaf(hearer, todo);
        };
        let server = hearer.server;
        let now = self.clock();
        let Some(conversation) = self.hearings.get_mut(&server) else {
            return;
        };
        if conversation.hearing.subscribes() {
            let server = ServerId(server as u16);
            self.lease_cache.subscribed(server, now);
            if let Some(early) = &mut self.early {
                early.errands.deputy.hears(server);
            }
        }
        match self.plant {
            Some(Plant::KeepsRecalledNames) => {
                keys.retain(|key| !matches!(key, LeaseKey::Entry { .. }));
            }
            Some(Plant::KeepsRecalledAttributes) => {
                keys.retain(|key| matches!(key, LeaseKey::Entry { .. }));
            }
            _ => {}
        }
        let (early, lease_cache, plant) = (&mut self.early, &mut self.lease_cache, self.plant);
        let let_go =
            |keys: &[LeaseKey], waits| let_go(early, lease_cache, (keys, waits), now, plant);
        let done = conversation.hearing.recalled(number, keys, now, let_go);
        if conversation.hearing.waits() {
            todo.push(look_again(server));
        }
        self.wait_for_recalls(server, Some(done), todo);
        self.run_errands(todo);
    }

    /// Looks whether what a recall waits for has ended.
    pub(crate) fn look_at_recalls(&mut self, server: usize, todo: &mut Vec<Todo>) {
        let now = self.clock();
        let Some(conversation) = self.hearings.get_mut(&server) else {
            return;
        };
        let (early, lease_cache, plant) = (&mut self.early, &mut self.lease_cache, self.plant);
        let let_go =
            |keys: &[LeaseKey], waits: bool| let_go(early, lease_cache, (keys, waits), now, plant);
        let over = conversation.hearing.over(now, let_go);
        if conversation.hearing.waits() {
            todo.push(look_again(server));
        }
        if let Some(number) = over {
            self.wait_for_recalls(server, Some(number), todo);
        }
        self.run_errands(todo);
    }

    /// Nothing was heard for long.
    pub(crate) fn heard_nothing(&mut self, hearer: Hearer, todo: &mut Vec<Todo>) {
        if self.is_heard(hearer) {
            self.deaf(hearer, todo);
        }
    }

    /// The process at the other end has ended, or has closed the connection, and the system says so.
    pub(crate) fn cut_off(&mut self, server: usize, known: Acquaintance, todo: &mut Vec<Todo>) {
        let hearing = self.hearings.get(&server);
        if let Some(hearing) = hearing.filter(|hearing| hearing.known == known) {
            let hearer = Hearer {
                client: self.number,
                session: self.session,
                server,
                connected: hearing.connected,
                request: hearing.request,
            };
            self.deaf(hearer, todo);
        }
    }

    /// The connection is lost.
    fn deaf(&mut self, hearer: Hearer, todo: &mut Vec<Todo>) {
        let server = hearer.server;
        let ended = self.hearings.remove(&server);
        let left = ended.map(|conversation| conversation.hearing.ended());
        for keys in left.into_iter().flatten() {
            self.lease_cache.recall(&keys, false);
        }
        self.lose_grants(server);
        self.lease_cache.lost(ServerId(server as u16));
        todo.push(Todo::Listen {
            server,
            pause: MIN_RECONNECT_PAUSE.as_nanos() as Moment,
        });
    }

    /// Questions answered from what is believed, and leases that were recalled.
    pub(crate) fn believed_and_recalled(&self) -> (u64, u64) {
        (self.lease_cache.answered(), self.lease_cache.recalled())
    }

    /// Whether something may be believed that a server leased which has ended since, and perhaps lost it.
    pub(super) fn may_believe_what_is_lost(&self) -> bool {
        let mut hearings = self.hearings.iter();
        hearings.any(|(&server, hearing)| hearing.known.boot != self.known[server].boot)
    }

    /// The answer to a request, if it is believed.
    pub(super) fn believed(
        &mut self,
        history: &mut History,
        worker: usize,
        target: Target,
        request: &Request,
    ) -> Option<Result<Reply, FsError>> {
        let asked = ShardRequest {
            shard: ShardId(0),
            epoch: self.map.epoch,
            key: RequestKey {
                session: self.session,
                slot: SlotId(0),
                sequence: 0,
            },
            caller: self.caller(worker),
            request: request.clone(),
        };
        let now = self.clock();
        let mut answer = self.lease_cache.answer(target, &asked, now)?;
        // A server leased it without what is queued.
        if let (Ok(reply), Some(early)) = (&mut answer, &self.early)
            && self.plant != Some(Plant::BelievesWithoutQueue)
        {
            early.errands.deputy.correct(reply, now);
        }
        let open = history.begin(&asked.caller, request);
        history.believed(open, request, &answer, self.may_believe_what_is_lost());
        Some(answer.map_err(|refusal| match refusal {
            Refusal::Fs(error) => error,
            other => unreachable!("{other:?} is not believed"),
        }))
    }

    /// An answer has come to a request, which leases this.
    pub(super) fn take_leased(
        &mut self,
        call: &mut Call,
        leased: Vec<Leased>,
        answer: &Result<Reply, Refusal>,
    ) {
        let now = self.clock();
        call.leased = leased;
        if let Some(grant) = lease_grant(call)
            && !call.asked.request.is_mutation()
        {
            self.lease_cache.learn(grant, answer, now);
        }
    }

    /// A request was answered for good.
    pub(super) fn changed(&mut self, call: &mut Call, result: &Result<Reply, FsError>) {
        let now = self.clock();
        if let Some(change) = call.change.take() {
            let reply = result.as_ref().ok();
            self.lease_cache
                .changed(change, reply, lease_grant(call), now);
        }
    }
}

/// Lets go of what is recalled; whether it could be, or first something is to end.
fn let_go(
    early: &mut Option<Early>,
    lease_cache: &mut LeaseCache,
    (keys, waits): (&[LeaseKey], bool),
    now: Boottime,
    plant: Option<Plant>,
) -> bool {
    let Some(granted) = Client::let_go_of(early, keys, waits, now, plant) else {
        return false;
    };
    let keys = [keys, &granted].concat();
    lease_cache.recall(&keys, waits).is_some()
}

fn lease_grant(call: &Call) -> Option<LeaseGrant<'_>> {
    Some(LeaseGrant {
        asked: &call.asked,
        sent: call.sent?,
        server: ServerId(call.server as u16),
        leased: &call.leased,
    })
}
