//! Reactions of the client to each way in which a request is not answered.

use crate::call::Call;
use crate::cancellation;
use crate::core::{Core, count};
use crate::error::{ClientError, Failure};
use crate::route::{Next, Outcome};
use pandofs_api::{DataReply, Refusal, Reply, Request, op};
use pandofs_session::Target;
use pandofs_session::{Reaction, leaves_doubt};
use pandofs_types::limits::{MAX_RECONNECT_PAUSE, MAX_REDIRECTS};
use pandofs_types::{Credentials, Epoch, FsError, Ino, ServerId};
use pandofs_wire::message::AnswerBody;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Redirections after which a pause is made before the next: whatever is being moved takes a
/// moment.
const REDIRECTS_AT_ONCE: usize = 4;

impl Core {
    /// `since`: when the attempt began that came to this.
    pub fn react(&self, call: &mut Call, outcome: Outcome, since: Instant) -> Next {
        match outcome {
            Outcome::Hopeless(cause) => give_up(ClientError::Protocol(cause)),
            Outcome::Unreachable { server, cause } => {
                call.away_since.get_or_insert(since);
                self.wait_for_server(call, server, cause)
            }
            Outcome::Lost {
                server,
                cause,
                sent,
            } => {
                if sent {
                    call.resent = true;
                    call.in_doubt |= call.is_mutation();
                    count(&self.counts.resent);
                }
                if let Some(server) = self.clusters.current().server(server) {
                    if sent && call.changes_objects() {
                        server.abandoned(call.generation);
                    }
                    server.close_idle();
                }
                // A server that stands still takes a request and never answers: the time that this
                // took counts.
                call.away_since.get_or_insert(since);
                call.lost += 1;
                if call.lost == 1 {
                    // As a rule it was an old connection, lost unnoticed.
                    return Next::Again(Duration::ZERO);
                }
                self.wait_for_server(call, server, cause)
            }
            Outcome::Abandoned => give_up(ClientError::Abandoned),
            Outcome::Answered(answer) => {
                call.reached();
                self.answered(call, answer)
            }
        }
    }

    fn answered(&self, call: &mut Call, answer: AnswerBody) -> Next {
        match answer {
            AnswerBody::Shard(Err(refusal)) => {
                call.in_doubt &= leaves_doubt(&refusal);
                self.refused(call, refusal)
            }
            AnswerBody::Data(DataReply::Failed(error)) => Next::Done(Err(error.into())),
            answer => Next::Done(Ok(answer)),
        }
    }

    fn refused(&self, call: &mut Call, refusal: Refusal) -> Next {
        if matches!(
            refusal,
            Refusal::Misdirected(_) | Refusal::NewNameMisdirected(_) | Refusal::Moved { .. }
        ) {
            count(&self.counts.redirects);
        }
        match self
            .router()
            .refused(call.target, call.shard_request(), refusal)
        {
            Reaction::Fail(error) => Next::Done(Err(error.into())),
            Reaction::NotInline { layout, striped } => {
                Next::Done(Err(Failure::NotInline { layout, striped }))
            }
            Reaction::NoPart => Next::Done(Err(Failure::NoPart)),
            Reaction::Again => Next::Again(Duration::ZERO),
            Reaction::AskHome(dir) => self.misdirected(call, dir),
            Reaction::Moved { ino, shard } => {
                self.learn_shard(ino, shard);
                self.redirected(call)
            }
            Reaction::WrongServer(epoch) => self.wrong_server(call, epoch),
            Reaction::TryAgain => self.try_again(call),
            Reaction::NotYet if self.closed.load(Ordering::Relaxed) => {
                give_up(FsError::Interrupted.into())
            }
            Reaction::NotYet if !call.waits => Next::Done(Err(Failure::NotYet)),
            Reaction::NotYet => {
                let since = *call.busy_since.get_or_insert_with(Instant::now);
                again_if_wanted(since, call.next_busy_pause())
            }
            Reaction::Broken(why) => give_up(ClientError::Protocol(why)),
        }
    }

    /// The name is on another shard, says the one that was asked, and nothing else was learnt from
    /// it.
    fn misdirected(&self, call: &mut Call, dir: Ino) -> Next {
        let Some(asked) = call.shard_request() else {
            unreachable!("only requests to shards are misdirected");
        };
        let caller = asked.caller.clone();
        match self.ask_home(&caller, dir, call.patience) {
            Ok(()) if self.knows_better(call) => Next::Again(Duration::ZERO),
            Ok(()) => self.redirected(call),
            Err(error) if error.is_gone() => Next::Done(Err(FsError::NotFound.into())),
            Err(error) => give_up(error),
        }
    }

    fn knows_better(&self, call: &Call) -> bool {
        call.shard_request()
            .is_some_and(|asked| self.router().knows_better(call.target, asked))
    }

    /// Fetches the directory's map from its home.
    fn ask_home(
        &self,
        caller: &Credentials,
        dir: Ino,
        patience: Option<Duration>,
    ) -> Result<(), ClientError> {
        let target = Target::Inode(dir);
        let mut ask = Call::shard(target, caller, Request::GetAttr(op::GetAttr { ino: dir }))
            .within(patience);
        ask.inner = true;
        match self.ask_call(&mut ask)? {
            Reply::Inode(inode) => match inode.dir {
                Some(home) => {
                    self.maps.correct(dir, &home.map);
                    Ok(())
                }
                None => Err(FsError::NotDir.into()),
            },
            other => Err(ClientError::Protocol(format!("a shard answered {other:?}"))),
        }
    }

    /// Sent elsewhere, without having learnt what would make an end of it.
    fn redirected(&self, call: &mut Call) -> Next {
        call.redirects += 1;
        if call.redirects > MAX_REDIRECTS {
            return give_up(ClientError::Protocol(format!(
                "shards sent a request to one another {MAX_REDIRECTS} times: {:?}",
                call.frame.body
            )));
        }
        let at_once = call.redirects <= REDIRECTS_AT_ONCE;
        Next::Again(if at_once {
            Duration::ZERO
        } else {
            call.next_busy_pause()
        })
    }

    /// The cluster map by which the server was chosen is not the one that it goes by.
    fn wrong_server(&self, call: &mut Call, theirs: Epoch) -> Next {
        let used = call
            .shard_request()
            .map_or(Epoch(0), |request| request.epoch);
        let newer = || self.clusters.current().map.epoch > used;
        if newer() || self.clusters.reread() {
            return Next::Again(Duration::ZERO);
        }
        if theirs > used
            && let Some((server, _)) = &call.answered_by
            && self.fetch_cluster_map(server)
        {
            return Next::Again(Duration::ZERO);
        }
        // Ours may be the newer one: the server will read it, too.
        match self.redirected(call) {
            Next::Again(_) => Next::Again(call.next_away_pause()),
            done => done,
        }
    }

    fn try_again(&self, call: &mut Call) -> Next {
        count(&self.counts.busy);
        let since = *call.busy_since.get_or_insert_with(Instant::now);
        if self.is_enough(call, since) {
            let server = call
                .answered_by
                .as_ref()
                .map_or(ServerId(0), |(server, _)| server.id);
            let cause = "it only says to try again".to_owned();
            return give_up(ClientError::Unavailable { server, cause });
        }
        again_if_wanted(since, call.next_busy_pause())
    }

    fn wait_for_server(&self, call: &mut Call, server: ServerId, cause: String) -> Next {
        let Some(since) = call.away_since else {
            unreachable!("a wait for a server has a beginning");
        };
        if self.is_enough(call, since) {
            return give_up(if call.in_doubt {
                ClientError::Unknown { server, cause }
            } else {
                ClientError::Unavailable { server, cause }
            });
        }
        let pause = call.next_away_pause();
        // It may have got another address, or its shards another server.
        if pause >= MAX_RECONNECT_PAUSE / 2 {
            self.clusters.reread();
        }
        again_if_wanted(since, pause)
    }

    fn is_enough(&self, call: &Call, since: Instant) -> bool {
        let patience = call.patience.or(self.soft);
        self.closed.load(Ordering::Relaxed)
            || patience.is_some_and(|patience| since.elapsed() >= patience)
    }
}

/// The next step of a call that has waited since then.
fn again_if_wanted(since: Instant, pause: Duration) -> Next {
    if cancellation::may_wait(since.elapsed()) {
        Next::Again(pause)
    } else {
        give_up(ClientError::Abandoned)
    }
}

fn give_up(error: ClientError) -> Next {
    Next::Done(Err(error.into()))
}
