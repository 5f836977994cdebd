//! What the client does about each way in which a request is not answered: one reaction for each.

use crate::call::{Call, Target};
use crate::core::{Core, count};
use crate::error::{ClientError, Failure};
use crate::route::{Next, Outcome};
use pandofs_api::{DataReply, Refusal, Reply, Request};
use pandofs_placement::DirMap;
use pandofs_types::limits::{MAX_RECONNECT_PAUSE, MAX_REDIRECTS};
use pandofs_types::{Credentials, Epoch, FsError, Ino, ServerId};
use pandofs_wire::message::AnswerBody;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Redirections after which a pause is made before the next: whatever is being moved takes a
/// moment.
const REDIRECTS_AT_ONCE: usize = 4;

impl Core {
    pub fn react(&self, call: &mut Call, outcome: Outcome) -> Next {
        match outcome {
            Outcome::Hopeless(cause) => give_up(ClientError::Protocol(cause)),
            Outcome::Unreachable { server, cause } => self.wait_for_server(call, server, cause),
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
                    server.close_idle();
                }
                call.lost += 1;
                if call.lost == 1 {
                    // As a rule it was an old connection, lost while nobody looked.
                    return Next::Again(Duration::ZERO);
                }
                self.wait_for_server(call, server, cause)
            }
            Outcome::Answered(answer) => {
                call.reached();
                self.answered(call, answer)
            }
        }
    }

    fn answered(&self, call: &mut Call, answer: AnswerBody) -> Next {
        match answer {
            AnswerBody::Shard(Err(refusal)) => {
                // Nothing was done, now or before: a shard that had executed it would have said so.
                // One that is still at it may say to try again, and the wrong server knows nothing.
                call.in_doubt &= matches!(refusal, Refusal::TryAgain | Refusal::WrongServer { .. });
                self.refused(call, refusal)
            }
            AnswerBody::Data(DataReply::Failed(error)) => Next::Done(Err(error.into())),
            answer => Next::Done(Ok(answer)),
        }
    }

    fn refused(&self, call: &mut Call, refusal: Refusal) -> Next {
        match refusal {
            Refusal::Fs(error) => Next::Done(Err(error.into())),
            Refusal::Misdirected(map) => match call.shard_request().and_then(|r| dir(&r.request)) {
                Some(dir) => self.misdirected(call, dir, map),
                None => give_up(ClientError::Protocol(
                    "a request that names no directory was answered with a directory's map".into(),
                )),
            },
            Refusal::NewNameMisdirected(map) => {
                match call.shard_request().and_then(|r| new_dir(&r.request)) {
                    Some(dir) => self.misdirected(call, dir, map),
                    None => give_up(ClientError::Protocol(
                        "a request without a new name was told that it is elsewhere".into(),
                    )),
                }
            }
            Refusal::Moved { ino, shard } => {
                count(&self.counts.redirects);
                self.learn_shard(ino, shard);
                self.redirected(call)
            }
            Refusal::WrongServer { epoch } => self.wrong_server(call, epoch),
            Refusal::TryAgain => self.try_again(call),
            Refusal::NotInline { layout, striped } => {
                Next::Done(Err(Failure::NotInline { layout, striped }))
            }
            Refusal::StaleSequence => give_up(ClientError::Protocol(
                "a shard has seen a later request on this slot: client and shard disagree about \
                 which requests were answered"
                    .into(),
            )),
            Refusal::Malformed(why) => give_up(ClientError::Protocol(format!(
                "a shard refused a request: {why}"
            ))),
            Refusal::NotYet if self.closed.load(Ordering::Relaxed) => {
                give_up(FsError::Interrupted.into())
            }
            Refusal::NotYet if !call.waits => Next::Done(Err(Failure::NotYet)),
            Refusal::NotYet => Next::Again(call.next_busy_pause()),
        }
    }

    /// The name is on another shard, says the one that was asked.
    fn misdirected(&self, call: &mut Call, dir: Ino, map: Option<DirMap>) -> Next {
        count(&self.counts.redirects);
        let learnt = map.is_some_and(|map| self.maps.merge(dir, &map));
        if let Target::Shard(_) = call.target {
            // This shard was asked for what it has.
            return Next::Done(Err(Failure::NoPart));
        }
        // Another thread may have learnt it while this one was asking.
        if learnt || self.knows_better(call) {
            return Next::Again(Duration::ZERO);
        }
        let caller = match call.shard_request() {
            Some(request) => request.caller.clone(),
            None => unreachable!("only requests to shards are misdirected"),
        };
        match self.ask_home(&caller, dir, call.patience) {
            Ok(()) if self.knows_better(call) => Next::Again(Duration::ZERO),
            Ok(()) => self.redirected(call),
            Err(error) if error.is_gone() => Next::Done(Err(FsError::NotFound.into())),
            Err(error) => give_up(error),
        }
    }

    /// Whether the request would now go elsewhere, or name another shard, than it did.
    fn knows_better(&self, call: &Call) -> bool {
        let Target::Name { dir, position } = call.target else {
            return false;
        };
        let Some(asked) = call.shard_request() else {
            return false;
        };
        let elsewhere = match &asked.request {
            Request::Rename {
                new_dir,
                new_name,
                new_shard,
                ..
            }
            | Request::Exchange {
                new_dir,
                new_name,
                new_shard,
                ..
            } => {
                let position = self.hash_key.position(new_name.as_bytes());
                self.maps.shard_of(*new_dir, position) != *new_shard
            }
            _ => false,
        };
        elsewhere || self.maps.shard_of(dir, position) != asked.shard
    }

    /// Fetches the directory's map from its home.
    fn ask_home(
        &self,
        caller: &Credentials,
        dir: Ino,
        patience: Option<Duration>,
    ) -> Result<(), ClientError> {
        let target = Target::Inode(dir);
        let mut ask = Call::shard(target, caller, Request::GetAttr { ino: dir }).within(patience);
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
        Next::Again(call.next_busy_pause())
    }

    fn wait_for_server(&self, call: &mut Call, server: ServerId, cause: String) -> Next {
        let since = *call.away_since.get_or_insert_with(Instant::now);
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
        Next::Again(pause)
    }

    fn is_enough(&self, call: &Call, since: Instant) -> bool {
        let patience = call.patience.or(self.soft);
        self.closed.load(Ordering::Relaxed)
            || patience.is_some_and(|patience| since.elapsed() >= patience)
    }
}

fn give_up(error: ClientError) -> Next {
    Next::Done(Err(error.into()))
}

/// The directory in which a request's shard is found.
fn dir(request: &Request) -> Option<Ino> {
    match request {
        Request::Lookup { dir, .. }
        | Request::Create { dir, .. }
        | Request::CreateUnnamed { dir, .. }
        | Request::Mkdir { dir, .. }
        | Request::Unlink { dir, .. }
        | Request::Rmdir { dir, .. }
        | Request::Link { dir, .. }
        | Request::Rename { dir, .. }
        | Request::Exchange { dir, .. }
        | Request::ReadDir { dir, .. }
        | Request::DirPart { dir } => Some(*dir),
        _ => None,
    }
}

fn new_dir(request: &Request) -> Option<Ino> {
    match request {
        Request::Rename { new_dir, .. } | Request::Exchange { new_dir, .. } => Some(*new_dir),
        _ => None,
    }
}
