//! Syncing acknowledged changes to disk, and finding those that were lost before.

use crate::call::Call;
use crate::core::Core;
use crate::data::expect_done;
use crate::error::{ClientError, Result};
use crate::route::reply_of;
use crate::unsynced::{Place, Sync, changed_by, object_changed_by};
use pandofs_api::{DataRequest, Request, op};
use pandofs_session::Target;
use pandofs_types::limits::UNSYNCED_TERM;
use pandofs_types::{Credentials, FsError, Ino, ServerId, ShardId};
use pandofs_wire::message::{AnswerBody, RequestBody};
use std::time::{Duration, Instant};

impl Core {
    /// Syncs these shards' logs and these servers' data objects of the inode, and what else has
    /// changes of it: its entry may have moved to another shard since.
    ///
    /// # Errors
    /// The error that kept a server from syncing it. `lose` gets one, once, when a server's machine
    /// was started anew after it had acknowledged changes of the inode to this client, and before
    /// they were synced.
    pub(crate) fn sync_at(
        &self,
        caller: &Credentials,
        ino: Ino,
        mut objects: Vec<ServerId>,
        mut shards: Vec<ShardId>,
        lose: impl FnOnce(ClientError),
    ) -> Result<()> {
        self.settle(ino)?;
        if self.grants.take_loss(ino) {
            lose(FsError::Io.into());
            return Ok(());
        }
        let mark = self.unsynced.mark();
        let cluster = self.clusters.current();
        let is_led = |shards: &[ShardId], server| {
            let mut leaders = shards.iter().filter_map(|&shard| cluster.leader(shard));
            leaders.any(|leader| leader.id == server)
        };
        for place in self.unsynced.places(ino) {
            match place {
                Place::Object(server) if !objects.contains(&server) => objects.push(server),
                Place::Log(server) if !is_led(&shards, server) => {
                    shards.extend(cluster.led_by(server).first());
                }
                Place::Object(_) | Place::Log(_) => {}
            }
        }
        let object = |&server| Call::data(server, DataRequest::Sync { ino });
        let log = |&shard| Call::shard(Target::Shard(shard), caller, Request::Sync(op::Sync));
        let mut calls: Vec<Call> = objects.iter().map(object).collect();
        calls.extend(shards.iter().map(log));
        let answers = self.run_all(&mut calls);
        let mut syncs: Vec<Sync> = Vec::with_capacity(calls.len());
        let mut failure = Ok(());
        for (call, answer) in calls.iter().zip(answers) {
            let is_object = matches!(call.progress.target, Target::Server(_));
            let done = match is_object {
                true => expect_done(answer),
                false => answer
                    .and_then(reply_of)
                    .map(drop)
                    .map_err(ClientError::from),
            };
            match (done, &call.answered_by) {
                (Ok(()), Some((server, _))) if is_object => {
                    syncs.push((Place::Object(server.id), call.machine));
                }
                (Ok(()), Some((server, _))) => syncs.push((Place::Log(server.id), call.machine)),
                (done, _) => failure = failure.and(done),
            }
        }
        let lost = self
            .unsynced
            .synced(ino, mark, &syncs, || lose(FsError::Io.into()));
        for server in &lost {
            tracing::error!(
                "changes of inode {ino} that server {server} had acknowledged may be lost: its machine was started anew \
                 before they were synced; fsync fails once, so that they are made again"
            );
        }
        failure
    }

    /// A call was answered and did what was asked.
    pub(crate) fn acknowledged(&self, call: &Call, answer: &AnswerBody) {
        let Some((server, _)) = call.answered_by.as_ref().filter(|_| call.is_mutation()) else {
            return;
        };
        let (server, now) = (server.id, Instant::now());
        let unsynced = &self.unsynced;
        let are_many = match (&call.frame.body, answer) {
            (RequestBody::Data(asked), _) => {
                let changed = object_changed_by(asked);
                unsynced.changed(changed, Place::Object(server), call.machine, now)
            }
            (RequestBody::Shard(asked), AnswerBody::Shard(Ok(reply))) if !self.syncs_each() => {
                let changed = changed_by(&asked.request, reply);
                unsynced.changed(changed, Place::Log(server), call.machine, now)
            }
            _ => false,
        };
        if are_many {
            self.forget_unsynced();
        }
    }

    /// Shards acknowledge nothing before it is synced.
    fn syncs_each(&self) -> bool {
        self.clusters.current().map.settings.flush_interval_ms == 0
    }

    /// Forgets what needs no sync any more. To be called every few seconds.
    pub(crate) fn forget_unsynced(&self) {
        let map = &self.clusters.current().map;
        let interval = Duration::from_millis(map.settings.flush_interval_ms);
        let term = UNSYNCED_TERM.max(interval.saturating_mul(2));
        let is_open = |ino| self.opens.file(ino).is_some();
        self.unsynced.forget(Instant::now(), term, is_open);
    }
}
