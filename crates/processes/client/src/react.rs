//! Reactions of the client to each way in which a request is not answered: the steps that the session's machine asks for.

use crate::call::Call;
use crate::cancellation;
use crate::core::{Core, count};
use crate::error::{ClientError, Failure};
use crate::route::{Next, Outcome};
use pandofs_api::{DataReply, Refusal, Reply, Request, op};
use pandofs_placement::DirMap;
use pandofs_session::{Circumstances, End, Event, Step, Target, Wait};
use pandofs_types::limits::MAX_REDIRECTS;
use pandofs_types::{Epoch, Ino, ServerId};
use pandofs_wire::message::{AnswerBody, RequestBody};
use std::sync::atomic::Ordering;
use std::time::Instant;

impl Core {
    /// `since`: when the attempt began that came to this.
    pub(crate) fn react(&self, call: &mut Call, outcome: Outcome, since: Instant) -> Next {
        call.end_span(|| outcome.text());
        let (event, away) = match outcome {
            Outcome::Hopeless(cause) => return give_up(ClientError::Protocol(cause)),
            Outcome::Abandoned => return give_up(ClientError::Abandoned),
            Outcome::Unreachable { server, cause } => (Event::Unreachable, Some((server, cause))),
            Outcome::Lost {
                server,
                cause,
                sent,
            } => {
                self.lost(call, server, sent);
                (Event::Lost { sent }, Some((server, cause)))
            }
            Outcome::Answered(AnswerBody::Shard(Err(refusal))) => {
                self.count_refusal(&refusal);
                (Event::Refused(refusal), None)
            }
            Outcome::Answered(answer) => {
                call.progress.answered();
                return Next::Done(match answer {
                    AnswerBody::Data(DataReply::Failed(error)) => Err(error.into()),
                    answer => Ok(answer),
                });
            }
        };
        let mut step = self.on(call, event, since);
        loop {
            let event = match step {
                Step::Again { after } => return Next::Again(after),
                Step::Wait(wait) => return self.wait(wait),
                Step::Ended(end) => return Next::Done(Err(failure(call, end, away))),
                Step::AskHome(dir) => match self.ask_home(call, dir) {
                    Ok(map) => Event::Home { dir, map: Ok(map) },
                    Err(ClientError::Fs(error)) => Event::Home {
                        dir,
                        map: Err(error),
                    },
                    Err(error) => return give_up(error),
                },
                Step::FindMap { used, asks_server } => Event::MapLookedFor {
                    is_newer: self.has_newer_map(call, used, asks_server),
                },
            };
            step = self.on(call, event, since);
        }
    }

    fn on(&self, call: &mut Call, event: Event, since: Instant) -> Step {
        let begun = *call.begun.get_or_insert(since);
        let mut at = Circumstances {
            now: begun.elapsed(),
            began: since.saturating_duration_since(begun),
            patience: call.patience.or(self.soft),
            is_closed: self.closed.load(Ordering::Relaxed),
            draw: &mut |most| rand::random_range(0..=most),
        };
        // Apart from the progress, which changes.
        let asked = match &call.frame.body {
            RequestBody::Shard(request) => Some(request),
            _ => None,
        };
        call.progress.on(event, &self.router(), asked, &mut at)
    }

    /// The connection was lost; `sent`: the server may have got the request.
    fn lost(&self, call: &Call, server: ServerId, sent: bool) {
        if sent {
            count(&self.counts.resent);
        }
        if let Some(server) = self.clusters.current().server(server) {
            if sent && call.changes_objects() {
                server.abandoned(call.generation);
            }
            server.close_idle();
        }
    }

    fn count_refusal(&self, refusal: &Refusal) {
        match refusal {
            Refusal::Misdirected(_) | Refusal::NewNameMisdirected(_) | Refusal::Moved { .. } => {
                count(&self.counts.redirects);
            }
            Refusal::TryAgain => count(&self.counts.busy),
            _ => {}
        }
    }

    fn wait(&self, wait: Wait) -> Next {
        if wait.rereads_map {
            self.clusters.reread();
        }
        if cancellation::may_wait(wait.waited) {
            Next::Again(wait.after)
        } else {
            give_up(ClientError::Abandoned)
        }
    }

    /// Fetches the directory's map from its home; `None` if it is no directory.
    fn ask_home(&self, call: &Call, dir: Ino) -> Result<Option<DirMap>, ClientError> {
        let Some(asked) = call.shard_request() else {
            unreachable!("only requests to shards are misdirected");
        };
        let request = Request::GetAttr(op::GetAttr { ino: dir });
        let mut ask = Call::shard(Target::Inode(dir), &asked.caller, request).within(call.patience);
        ask.inner = true;
        match self.ask_call(&mut ask)? {
            Reply::Inode(inode) => Ok(inode.dir.map(|home| home.map)),
            other => Err(ClientError::Protocol(format!("a shard answered {other:?}"))),
        }
    }

    /// Returns whether there is a newer cluster map than that of this epoch, by which the server was chosen.
    fn has_newer_map(&self, call: &Call, used: Epoch, asks_server: bool) -> bool {
        if self.clusters.current().map.epoch > used || self.clusters.reread() {
            return true;
        }
        let server = call.answered_by.as_ref().filter(|_| asks_server);
        server.is_some_and(|(server, _)| self.fetch_cluster_map(server))
    }
}

/// `away`: the server that was not reached, and why.
fn failure(call: &Call, end: End, away: Option<(ServerId, String)>) -> Failure {
    let answered_by = || {
        let server = call.answered_by.as_ref();
        server.map_or(ServerId(0), |(server, _)| server.id)
    };
    let away =
        move || away.unwrap_or_else(|| (answered_by(), "it only says to try again".to_owned()));
    match end {
        End::Fs(error) => error.into(),
        End::NotInline { layout, striped } => Failure::NotInline { layout, striped },
        End::NoPart => Failure::NoPart,
        End::ByPath(known) => Failure::ByPath(known),
        End::NotYet => Failure::NotYet,
        End::Away { in_doubt: true } => {
            let (server, cause) = away();
            ClientError::Unknown { server, cause }.into()
        }
        End::Away { in_doubt: false } | End::Busy => {
            let (server, cause) = away();
            ClientError::Unavailable { server, cause }.into()
        }
        End::SentAround => ClientError::Protocol(format!(
            "shards sent a request to one another {MAX_REDIRECTS} times: {:?}",
            call.frame.body
        ))
        .into(),
        End::Broken(why) => ClientError::Protocol(why).into(),
    }
}

fn give_up(error: ClientError) -> Next {
    Next::Done(Err(error.into()))
}
