//! Route of a request to its answer: shard, server, repetitions.

use crate::boottime;
use crate::call::Call;
use crate::cancellation;
use crate::core::{Core, count};
use crate::error::{ClientError, Failure};
use crate::grants::Offered;
use crate::limits::MAX_PIPELINED_BYTES;
use crate::pool::{ConnectError, Connection, LostAnswer, Server, Unsent};
use crate::spans::outcome_of;
use crate::waited;
use pandofs_api::{Reply, Request};
use pandofs_deputy::Asked;
use pandofs_session::Change;
use pandofs_session::Router;
use pandofs_session::Target;
use pandofs_types::limits::MAX_PIPELINED_REQUESTS;
use pandofs_types::{Credentials, Ino, Name, ServerId};
use pandofs_wire::message::{AnswerBody, RequestBody};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The outcome of sending a request once.
#[derive(Debug)]
pub(crate) enum Outcome {
    Answered(AnswerBody),
    /// It was not sent.
    Unreachable {
        server: ServerId,
        cause: String,
    },
    /// The connection was lost; `sent`: the server may have got the request.
    Lost {
        server: ServerId,
        cause: String,
        sent: bool,
    },
    /// The caller is gone. The request changes nothing if the server has got it.
    Abandoned,
    /// There is no sense in asking.
    Hopeless(String),
}

/// The next step after that.
#[derive(Debug)]
pub(crate) enum Next {
    Done(Result<AnswerBody, Failure>),
    /// Send it again after this pause.
    Again(Duration),
}

impl Core {
    /// Asks a shard and waits for its reply.
    pub(crate) fn ask(
        &self,
        caller: &Credentials,
        target: Target,
        request: Request,
    ) -> Result<Reply, Failure> {
        self.ask_call(&mut Call::shard(target, caller, request))
    }

    /// As [`Core::ask`] for a prepared call, which afterwards says who answered.
    pub(crate) fn ask_call(&self, call: &mut Call) -> Result<Reply, Failure> {
        reply_of(self.run(call)?)
    }

    /// The target of requests by name.
    pub(crate) fn by_name(&self, dir: Ino, name: &Name) -> Target {
        Target::Name {
            dir,
            position: self.hash_key.position(name.as_bytes()),
        }
    }

    /// Sends a request until there is an answer for good.
    pub(crate) fn run(&self, call: &mut Call) -> Result<AnswerBody, Failure> {
        let asked = match self.offer(call)? {
            Offered::Answered(answer) => return self.finish(call, Outcome::Answered(answer)),
            Offered::Ask(asked) => asked,
        };
        if let Some(cached) = self.cached_answer(call) {
            self.was_asked(asked, None, None);
            return self.finish(call, Outcome::Answered(cached));
        }
        let change = self.change(call);
        self.take_slot(call);
        let mut answer = loop {
            let began = Instant::now();
            let outcome = self.attempt(call);
            let mut waited = began.elapsed();
            let next = self.react(call, outcome, began);
            if let Next::Again(pause) = next {
                rest(pause);
                waited += pause;
            }
            if let Some(server) = call.asked {
                waited::add(server, waited);
            }
            if let Next::Done(answer) = next {
                break answer;
            }
        };
        self.give_back_slot(call);
        if let Some(change) = change {
            self.changed(call, change, answer.as_ref().ok());
        }
        let request = call.shard_request().map(|asked| &asked.request);
        self.was_asked(asked, request, answer.as_mut().ok());
        if let Ok(answer) = &answer {
            self.acknowledged(call, answer);
        }
        answer
    }

    /// The answer, if it is cached.
    fn cached_answer(&self, call: &Call) -> Option<AnswerBody> {
        if !call.uses_lease_cache || call.inner {
            return None;
        }
        let asked = call.shard_request()?;
        let mut answer = self
            .lease_cache
            .answer(call.progress.target, asked, boottime::now())?;
        if let Ok(reply) = &mut answer {
            self.correct_by_images(reply);
        }
        Some(AnswerBody::Shard(answer))
    }

    fn change(&self, call: &Call) -> Option<Change> {
        self.lease_cache.change(&call.shard_request()?.request)
    }

    fn changed(&self, call: &Call, change: Change, answer: Option<&AnswerBody>) {
        let reply = match answer {
            Some(AnswerBody::Shard(Ok(reply))) => Some(reply),
            _ => None,
        };
        let now = boottime::now();
        self.lease_cache
            .changed(change, reply, call.lease_grant(), now);
    }

    /// The result of an answer from the lease cache.
    fn finish(&self, call: &mut Call, outcome: Outcome) -> Result<AnswerBody, Failure> {
        match self.react(call, outcome, Instant::now()) {
            Next::Done(answer) => answer,
            Next::Again(_) => unreachable!("only final answers are cached"),
        }
    }

    /// Sends several requests at once, as many as may be under way, and each again as often as it
    /// takes. The answers are in the order of the calls.
    pub(crate) fn run_all(&self, calls: &mut [Call]) -> Vec<Result<AnswerBody, Failure>> {
        let mut answers = Vec::with_capacity(calls.len());
        let mut first = 0;
        while first < calls.len() {
            let end = first + window(&calls[first..]);
            match &mut calls[first..end] {
                [call] => answers.push(self.run(call)),
                several => answers.extend(self.run_window(several)),
            }
            first = end;
        }
        answers
    }

    fn run_window(&self, calls: &mut [Call]) -> Vec<Result<AnswerBody, Failure>> {
        let mut answers: Vec<Option<Result<AnswerBody, Failure>>> = Vec::new();
        let mut all_asked: Vec<Asked> = Vec::new();
        for call in calls.iter_mut() {
            let (answer, asked) = match self.offer(call) {
                Ok(Offered::Answered(answer)) => (Some(answer), Asked::default()),
                Ok(Offered::Ask(asked)) => (self.cached_answer(call), asked),
                Err(failure) => {
                    answers.push(Some(Err(failure)));
                    all_asked.push(Asked::default());
                    continue;
                }
            };
            answers.push(answer.map(|answer| self.finish(call, Outcome::Answered(answer))));
            all_asked.push(asked);
        }
        let mut open: Vec<usize> = (0..calls.len()).collect();
        open.retain(|&index| answers[index].is_none());
        if open.is_empty() {
            for asked in all_asked {
                self.was_asked(asked, None, None);
            }
            return answers.into_iter().flatten().collect();
        }
        let mut changes: Vec<_> = calls.iter().map(|call| self.change(call)).collect();
        self.take_slots(calls);
        while !open.is_empty() {
            let began = Instant::now();
            let outcomes = self.attempt_all(calls, &open);
            let mut pause = Duration::ZERO;
            let mut again = Vec::new();
            for (index, outcome) in outcomes {
                match self.react(&mut calls[index], outcome, began) {
                    Next::Done(answer) => answers[index] = Some(answer),
                    Next::Again(after) => {
                        pause = pause.max(after);
                        again.push(index);
                    }
                }
            }
            open = again;
            rest(pause);
        }
        let ended = calls.iter_mut().zip(&mut changes).zip(&mut answers);
        for (((call, change), answer), asked) in ended.zip(all_asked) {
            let request = call.shard_request().map(|asked| &asked.request);
            let of_it = answer.as_mut().and_then(|answer| answer.as_mut().ok());
            self.was_asked(asked, request, of_it);
            self.give_back_slot(call);
            if let Some(change) = change.take() {
                let answer = answer.as_ref().and_then(|answer| answer.as_ref().ok());
                self.changed(call, change, answer);
            }
            if let Some(Ok(answer)) = answer {
                self.acknowledged(call, answer);
            }
        }
        let answers: Vec<_> = answers.into_iter().flatten().collect();
        assert_eq!(answers.len(), calls.len(), "every call was answered");
        answers
    }

    /// Sends the call once.
    fn attempt(&self, call: &mut Call) -> Outcome {
        let server = match self.aim(call) {
            Ok(server) => server,
            Err(hopeless) => return Outcome::Hopeless(hopeless),
        };
        call.asked = Some(server.id);
        waited::waits_for(server.id, Instant::now());
        self.begin_span(call, server.id);
        let mut connection = match self.connection(&server) {
            Ok(connection) => connection,
            Err(error) => return unreachable(&server, error),
        };
        let trace = call.trace();
        if let Err(error) = connection.push(trace, &mut call.frame, &call.payload) {
            server.put_back(connection);
            return Outcome::Hopeless(error.to_string());
        }
        self.sends(call, &connection);
        if let Err(error) = connection.send_with(&call.payload) {
            // A request that was not sent whole is not executed, and this is the only one.
            return unsent(&server, error, false);
        }
        forbid_cancellation(call);
        match connection.receive() {
            Ok(answer) if answer.id == call.frame.id => {
                server.heard(connection.asked());
                let registration = connection.registration;
                call.machine = connection.machine;
                server.put_back(connection);
                call.answered_by = Some((server, registration));
                Outcome::Answered(self.take_leased(call, answer.body))
            }
            Ok(answer) => Outcome::Hopeless(unasked(&server, answer.id)),
            Err(error) => lost(&server, error),
        }
    }

    /// Sends the calls with these indexes once, all before the first answer is waited for.
    fn attempt_all(&self, calls: &mut [Call], indexes: &[usize]) -> Vec<(usize, Outcome)> {
        let mut outcomes = Vec::with_capacity(indexes.len());
        let mut groups: Vec<Group> = Vec::new();
        for &index in indexes {
            match self.aim(&mut calls[index]) {
                Ok(server) => match groups.iter_mut().find(|group| group.server.id == server.id) {
                    Some(group) => group.waiting.push(index),
                    None => groups.push(Group {
                        server,
                        connection: None,
                        waiting: vec![index],
                    }),
                },
                Err(hopeless) => outcomes.push((index, Outcome::Hopeless(hopeless))),
            }
        }
        for group in &mut groups {
            let (server, began) = (group.server.id, Instant::now());
            waited::waits_for(server, began);
            self.send_group(calls, group, &mut outcomes);
            waited::add(server, began.elapsed());
        }
        for group in groups {
            let (server, began) = (group.server.id, Instant::now());
            waited::waits_for(server, began);
            self.receive_group(calls, group, &mut outcomes);
            waited::add(server, began.elapsed());
        }
        outcomes
    }

    fn send_group(
        &self,
        calls: &mut [Call],
        group: &mut Group,
        outcomes: &mut Vec<(usize, Outcome)>,
    ) {
        let mut connection = match self.connection(&group.server) {
            Ok(connection) => connection,
            Err(error) => {
                let outcome = unreachable(&group.server, error);
                let all = group.waiting.drain(..);
                return outcomes.extend(all.map(|index| (index, outcome.again())));
            }
        };
        let mut sent = Ok(());
        group.waiting.retain(|&index| {
            let call = &mut calls[index];
            if sent.is_err() {
                return true;
            }
            self.begin_span(call, group.server.id);
            let trace = call.trace();
            match connection.push(trace, &mut call.frame, &call.payload) {
                Ok(()) => {
                    self.sends(call, &connection);
                    forbid_cancellation(call);
                    if !call.payload.is_empty() {
                        sent = connection.send_with(&call.payload);
                    }
                    true
                }
                Err(error) => {
                    outcomes.push((index, Outcome::Hopeless(error.to_string())));
                    false
                }
            }
        });
        match sent.and_then(|()| connection.send()) {
            Ok(()) => group.connection = Some(connection),
            Err(error) => {
                // Some of them may have gone out whole.
                let lost = unsent(&group.server, error, true);
                let all = group.waiting.drain(..);
                outcomes.extend(all.map(|index| (index, lost.again())));
            }
        }
    }

    fn receive_group(
        &self,
        calls: &mut [Call],
        mut group: Group,
        outcomes: &mut Vec<(usize, Outcome)>,
    ) {
        let Some(mut connection) = group.connection.take() else {
            return;
        };
        let server = &group.server;
        while !group.waiting.is_empty() {
            let failed = match connection.receive() {
                Ok(answer) => {
                    let asked = |&index: &usize| calls[index].frame.id == answer.id;
                    match group.waiting.iter().position(asked) {
                        Some(place) => {
                            let index = group.waiting.swap_remove(place);
                            server.heard(connection.asked());
                            let by = (Arc::clone(server), connection.registration);
                            calls[index].answered_by = Some(by);
                            calls[index].machine = connection.machine;
                            let body = self.take_leased(&mut calls[index], answer.body);
                            outcomes.push((index, Outcome::Answered(body)));
                            continue;
                        }
                        None => Outcome::Hopeless(unasked(server, answer.id)),
                    }
                }
                Err(error) => lost(server, error),
            };
            return outcomes.extend(group.waiting.iter().map(|&index| (index, failed.again())));
        }
        server.put_back(connection);
    }

    /// A request is about to be sent.
    fn sends(&self, call: &mut Call, connection: &Connection) {
        count(&self.counts.requests);
        call.generation = connection.generation;
        let is_on = self.lease_cache.is_on();
        call.sent = is_on.then(|| self.lease_cache.sent(boottime::now()));
    }

    /// Takes an answer's leases out of it; it is cached from here on, unless it answers a
    /// change, which is not over yet.
    fn take_leased(&self, call: &mut Call, body: AnswerBody) -> AnswerBody {
        call.leased.clear();
        call.end_span(|| outcome_of(&body));
        match body {
            AnswerBody::Leased { result, leased } => {
                call.leased = leased;
                if let Some(grant) = call.lease_grant()
                    && !call.is_mutation()
                {
                    self.lease_cache.learn(grant, &result, boottime::now());
                }
                AnswerBody::Shard(result)
            }
            body => body,
        }
    }

    pub(crate) fn router(&self) -> Router<'_, Core> {
        Router {
            hash_key: self.hash_key,
            places: self,
        }
    }

    /// Fills in the shard, as far as is known now, and finds its server.
    fn aim(&self, call: &mut Call) -> Result<Arc<Server>, String> {
        let cluster = self.clusters.current();
        if let Target::Server(id) = call.progress.target {
            let server = cluster.server(id).cloned();
            if server.is_none() && self.find_newer_map() {
                return self.aim(call);
            }
            return server.ok_or_else(|| format!("the cluster map has no server {id}"));
        }
        let RequestBody::Shard(asked) = &mut call.frame.body else {
            unreachable!("only data objects are of no shard");
        };
        asked.epoch = cluster.map.epoch;
        let shard = call.progress.aim(&self.router(), asked);
        let leader = cluster.leader(shard).cloned();
        // A server that joined, of which this client has not heard.
        if leader.is_none() && self.find_newer_map() {
            return self.aim(call);
        }
        leader.ok_or_else(|| format!("a server spoke of shard {shard}, which does not exist"))
    }
}

/// Calls that go to one server over one connection.
struct Group {
    server: Arc<Server>,
    connection: Option<Connection>,
    waiting: Vec<usize>,
}

impl Outcome {
    /// In a few words, for the request's span.
    pub(crate) fn text(&self) -> String {
        match self {
            Outcome::Answered(answer) => outcome_of(answer),
            Outcome::Unreachable { cause, .. } => format!("unreachable: {cause}"),
            Outcome::Lost { cause, .. } => format!("lost: {cause}"),
            Outcome::Abandoned => "abandoned".to_owned(),
            Outcome::Hopeless(cause) => cause.clone(),
        }
    }

    /// The same for another call over the same connection.
    fn again(&self) -> Outcome {
        match self {
            Outcome::Unreachable { server, cause } => Outcome::Unreachable {
                server: *server,
                cause: cause.clone(),
            },
            Outcome::Lost {
                server,
                cause,
                sent,
            } => Outcome::Lost {
                server: *server,
                cause: cause.clone(),
                sent: *sent,
            },
            Outcome::Abandoned => Outcome::Abandoned,
            Outcome::Hopeless(cause) => Outcome::Hopeless(cause.clone()),
            Outcome::Answered(_) => unreachable!("an answer is to one call"),
        }
    }
}

fn unreachable(server: &Server, error: ConnectError) -> Outcome {
    match error {
        ConnectError::Unreachable(cause) | ConnectError::OutOfFiles(cause) => {
            Outcome::Unreachable {
                server: server.id,
                cause,
            }
        }
        ConnectError::Refused(cause) => Outcome::Hopeless(cause),
        ConnectError::Abandoned => Outcome::Abandoned,
    }
}

/// `sent`: some of it may have gone out whole.
fn unsent(server: &Server, error: Unsent, sent: bool) -> Outcome {
    match error {
        Unsent::Connection(error) => Outcome::Lost {
            server: server.id,
            cause: error.to_string(),
            sent,
        },
        Unsent::Abandoned => Outcome::Abandoned,
    }
}

/// The server may have got this.
fn forbid_cancellation(call: &Call) {
    if call.leaves_something() {
        cancellation::forbid();
    }
}

fn lost(server: &Server, error: LostAnswer) -> Outcome {
    match error {
        LostAnswer::Connection(error) => Outcome::Lost {
            server: server.id,
            cause: error.to_string(),
            sent: true,
        },
        LostAnswer::Abandoned => Outcome::Abandoned,
        LostAnswer::Broken(error) => {
            Outcome::Hopeless(format!("server {} sent no answer: {error}", server.id))
        }
    }
}

fn unasked(server: &Server, id: u64) -> String {
    format!(
        "server {} answered the request {id}, which was not asked",
        server.id
    )
}

fn rest(pause: Duration) {
    if !pause.is_zero() {
        cancellation::about_to_wait();
        std::thread::sleep(pause);
    }
}

/// The number of calls that may be under way at once, from the first on: one at least.
fn window(calls: &[Call]) -> usize {
    let mut bytes = 0;
    let fits = |call: &&Call| {
        bytes += call.data_bytes();
        bytes <= MAX_PIPELINED_BYTES
    };
    calls
        .iter()
        .take(MAX_PIPELINED_REQUESTS)
        .take_while(fits)
        .count()
        .max(1)
}

/// The reply in a shard's answer.
pub(crate) fn reply_of(answer: AnswerBody) -> Result<Reply, Failure> {
    match answer {
        AnswerBody::Shard(Ok(reply)) => Ok(reply),
        other => Err(ClientError::Protocol(format!("a shard answered {other:?}")).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pandofs_api::DataRequest;
    use pandofs_types::limits::MAX_IO_BYTES;

    #[test]
    fn a_window_is_bounded_in_requests_and_bytes() {
        let read = |length| {
            Call::data(
                ServerId(0),
                DataRequest::Read {
                    ino: Ino(5),
                    offset: 0,
                    length,
                },
            )
        };
        let small: Vec<Call> = (0..100).map(|_| read(1)).collect();
        assert_eq!(window(&small), MAX_PIPELINED_REQUESTS);
        assert_eq!(window(&small[..3]), 3);
        let large: Vec<Call> = (0..100).map(|_| read(MAX_IO_BYTES as u32)).collect();
        assert_eq!(window(&large), MAX_PIPELINED_BYTES / MAX_IO_BYTES);
        assert_eq!(window(&[read(u32::MAX)]), 1);
    }
}
