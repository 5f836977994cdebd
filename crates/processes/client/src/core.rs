//! State that all handles of one client share, and its connections to the servers.
//!
//! On the connections the session's opens are registered; single exchanges are not repeated.

use crate::accesses::Accesses;
use crate::call::Call;
use crate::cancellation;
use crate::cluster::{Cluster, Clusters, Source};
use crate::error::{ClientError, Result};
use crate::file::File;
use crate::first_bytes::KeptBytes;
use crate::grants::Grants;
use crate::held::Held;
use crate::lease_cache::LeaseCache;
use crate::lock_turns::LockTurns;
use crate::locks::Locks;
use crate::maps::{DirMaps, InodeShards};
use crate::opens::{Batch, Opens};
use crate::pool::{Acquaintance, ConnectError, Connection, Identity, Server, Timeouts};
use crate::recalls::Listening;
use crate::slots::{Slot, Slots};
use crate::spans::SpanMaker;
use crate::unsynced::Unsynced;
use crate::write_behind::WriteBehindLimit;
use crate::{Counters, Options};
use pandofs_api::{AdminReply, AdminRequest, Refusal, Request, RequestKey, ShardRequest, op};
use pandofs_placement::ClusterMap;
use pandofs_session::{NotTaken, Registration};
use pandofs_types::limits::{INNER_SLOTS, LOCK_SLOTS, MAX_SLOTS, SERVICE_SLOTS};
use pandofs_types::{Credentials, HashKey, Ino, SessionId, ShardId};
use pandofs_wire::message::{AnswerBody, RequestBody, RequestFrame};
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Core {
    pub who: Identity,
    pub soft: Option<Duration>,
    pub hash_key: HashKey,
    /// See [`Core::inline_limit`].
    pub inline_bytes: u32,
    pub clusters: Clusters,
    pub maps: DirMaps,
    pub inodes: InodeShards,
    pub opens: Opens<File>,
    pub held: Held,
    pub accesses: Accesses,
    pub lease_cache: LeaseCache,
    pub listening: Listening,
    pub grants: Grants,
    pub kept_bytes: KeptBytes,
    /// Of what openings have brought.
    pub brought_bytes: Arc<KeptBytes>,
    slots: Slots,
    inner_slots: Slots,
    service_slots: Slots,
    pub locks: Locks,
    pub lock_turns: LockTurns,
    pub write_behind: WriteBehindLimit,
    pub unsynced: Unsynced,
    pub counts: Counts,
    pub spans: OnceLock<Arc<dyn SpanMaker>>,
    /// Number of times that a server was found without opens that the session had registered with
    /// it.
    pub lapses: AtomicU64,
    /// Nothing is waited for any more.
    pub closed: AtomicBool,
}

/// [`Counters`] while they are counted.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub requests: AtomicU64,
    pub redirects: AtomicU64,
    pub busy: AtomicU64,
    pub resent: AtomicU64,
    pub connections: AtomicU64,
}

impl Counts {
    pub(crate) fn read(&self) -> Counters {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counters {
            requests: read(&self.requests),
            redirects: read(&self.redirects),
            busy: read(&self.busy),
            resent: read(&self.resent),
            connections: read(&self.connections),
            ..Counters::default()
        }
    }
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// The reason why a single exchange failed.
#[derive(Debug)]
pub(crate) enum NotDone {
    /// The server never got it.
    NotSent,
    /// It may have got it.
    Lost,
}

impl Core {
    pub(crate) fn new(map: ClusterMap, source: Source, options: &Options) -> Result<Core> {
        map.validate()
            .map_err(|error| ClientError::Protocol(error.to_string()))?;
        let who = Identity {
            fs: map.fs,
            session: SessionId(rand::random()),
            timeouts: Timeouts::within(options.soft),
        };
        let limits = options.cache_limits;
        let inner_slots = MAX_SLOTS - SERVICE_SLOTS - INNER_SLOTS..MAX_SLOTS - SERVICE_SLOTS;
        let map_hash_key = map.hash_key;
        let grants = Grants::new(who.session, Arc::new(map.clone()));
        let lock_slots = inner_slots.start - LOCK_SLOTS..inner_slots.start;
        Ok(Core {
            who,
            soft: options.soft,
            hash_key: map.hash_key,
            inline_bytes: map.settings.inline_bytes,
            clusters: Clusters::new(map, source, limits.buffered_connections)?,
            maps: DirMaps::within(limits.dir_maps, limits.partitions),
            inodes: InodeShards::within(limits.inode_shards),
            opens: Opens::default(),
            held: Held::default(),
            accesses: Accesses::within(limits.accesses),
            lease_cache: LeaseCache::within(map_hash_key, limits.leases, limits.write_leases),
            listening: Listening::default(),
            grants,
            kept_bytes: KeptBytes::default(),
            brought_bytes: Arc::default(),
            slots: Slots::new(0..lock_slots.start),
            locks: Locks::new(who.session, lock_slots),
            lock_turns: LockTurns::default(),
            service_slots: Slots::new(inner_slots.end..MAX_SLOTS),
            inner_slots: Slots::new(inner_slots),
            write_behind: WriteBehindLimit::default(),
            unsynced: Unsynced::within(limits.unsynced),
            counts: Counts::default(),
            spans: OnceLock::new(),
            lapses: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        })
    }

    /// Gives the call a slot and with it its key, which it keeps through all repetitions.
    pub(crate) fn take_slot(&self, call: &mut Call) {
        if let Some(key) = call.key {
            if let Some(request) = call.shard_request_mut() {
                request.key = key;
            }
            return;
        }
        if call.shard_request().is_some() {
            let slots = if call.inner {
                &self.inner_slots
            } else {
                &self.slots
            };
            self.set_slot(call, slots.take());
        }
    }

    /// As [`Core::take_slot`] for several that are to be under way at once.
    pub(crate) fn take_slots(&self, calls: &mut [Call]) {
        assert!(
            calls.iter().all(|call| !call.inner),
            "an inner call is made alone"
        );
        let wanted = calls
            .iter()
            .filter(|call| call.shard_request().is_some())
            .count();
        let mut slots = self.slots.take_many(wanted).into_iter();
        for call in calls
            .iter_mut()
            .filter(|call| call.shard_request().is_some())
        {
            if let Some(slot) = slots.next() {
                self.set_slot(call, slot);
            }
        }
    }

    fn set_slot(&self, call: &mut Call, slot: Slot) {
        let key = RequestKey {
            session: self.who.session,
            slot: slot.id,
            sequence: slot.sequence,
        };
        if let Some(request) = call.shard_request_mut() {
            request.key = key;
        }
        call.slot = Some(slot);
    }

    /// Requests to shards that are under way.
    pub(crate) fn slots_taken(&self) -> usize {
        let all = [&self.slots, &self.inner_slots, &self.service_slots];
        all.into_iter().map(Slots::taken).sum()
    }

    /// The call needs no answer any more.
    pub(crate) fn give_back_slot(&self, call: &mut Call) {
        if let Some(slot) = call.slot.take() {
            let slots = if call.inner {
                &self.inner_slots
            } else {
                &self.slots
            };
            slots.give_back(slot);
        }
    }

    /// A connection on which requests may be sent: the server knows what the session has open.
    pub(crate) fn connection(
        &self,
        server: &Server,
    ) -> std::result::Result<Connection, ConnectError> {
        if let Some(connection) = server.take_idle() {
            return Ok(connection);
        }
        let seen = server.times_seen();
        let connected = match server.connect(&self.who) {
            // Those that are only limits for later make room, whichever servers they lead to.
            Err(ConnectError::OutOfFiles(_)) => {
                let cluster = self.clusters.current();
                for server in cluster.servers() {
                    server.close_idle();
                }
                server.connect(&self.who)
            }
            connected => connected,
        };
        let attempt = connected.and_then(|(mut connection, known)| {
            count(&self.counts.connections);
            // A registration may reach the server, with or without a caller.
            cancellation::suppressed(|| self.register(server, &mut connection, known))?;
            Ok(connection)
        });
        match &attempt {
            Ok(_) => server.note_back(),
            Err(ConnectError::Unreachable(cause) | ConnectError::OutOfFiles(cause)) => {
                server.note_away(seen, cause);
            }
            Err(ConnectError::Refused(_) | ConnectError::Abandoned) => {}
        }
        attempt
    }

    /// Registers the session's opens on the server's shards, and its locks, unless the server has
    /// known the session since they were registered last. It alone can say that: whether this
    /// process has let go of them goes by its clock, and any thread may be the first to come back
    /// to it.
    fn register(
        &self,
        server: &Server,
        connection: &mut Connection,
        known: Acquaintance,
    ) -> std::result::Result<(), ConnectError> {
        // Held through the exchange: other threads' requests to a restarted server wait for it.
        let mut registered = cancellation::lock_awaiting(&server.registered);
        if !registered.is_with(known) {
            let was_known = registered.lapses();
            if was_known {
                // Before another thread can use a connection to it: what was open may be removed by
                // now.
                self.lapses.fetch_add(1, Ordering::SeqCst);
            }
            let cluster = self.clusters.current();
            let shards = cluster.led_by(server.id);
            let opens = self.opens.register(&shards, &server.registrations);
            server.close_idle();
            if let Some((_, all)) = opens.first()
                && was_known
            {
                tracing::info!(
                    "registering with server {}, which has forgotten them, {} open files",
                    server.id,
                    all.len(),
                );
            }
            registered.begin(known, &opens, shards);
            self.tell_all(&mut registered, &cluster, connection)?;
        }
        server.heard(connection.asked());
        connection.registration = server.registrations.load(Ordering::SeqCst);
        Ok(())
    }

    /// Tells the server what the session has, over a connection that no other thread uses yet.
    fn tell_all(
        &self,
        registration: &mut Registration<Acquaintance>,
        cluster: &Cluster,
        connection: &mut Connection,
    ) -> std::result::Result<(), ConnectError> {
        while let Some((shard, request)) = registration.next(|| self.locks.to_register()) {
            let answer = match self.tell(connection, cluster, shard, request) {
                Ok(AnswerBody::Shard(answer)) => answer,
                Ok(other) => return Err(not_taken(shard, &other)),
                Err(_) => {
                    return Err(ConnectError::Unreachable(
                        "it was lost again at once".to_owned(),
                    ));
                }
            };
            let lost = registration.answered(&answer);
            let lost = lost.map_err(|NotTaken| not_taken(shard, &answer))?;
            for (ino, lock) in lost {
                self.locks.lost(ino, &lock);
            }
        }
        Ok(())
    }

    /// One exchange of a request that no slot records.
    pub(crate) fn tell(
        &self,
        connection: &mut Connection,
        cluster: &Cluster,
        shard: ShardId,
        request: Request,
    ) -> std::result::Result<AnswerBody, NotDone> {
        assert!(!request.is_mutation());
        // Taken when the connection is there and given back right after the exchange, so that
        // a wait for one never waits for another server.
        let slot = self.service_slots.take();
        let key = RequestKey {
            session: self.who.session,
            slot: slot.id,
            sequence: slot.sequence,
        };
        let epoch = cluster.map.epoch;
        let caller = Credentials::ROOT;
        let request = ShardRequest {
            shard,
            epoch,
            key,
            caller,
            request,
        };
        let answer = exchange(connection, RequestBody::Shard(request));
        self.service_slots.give_back(slot);
        answer
    }

    /// Tells a shard what was closed.
    pub(crate) fn send_releases(&self, batch: Batch) {
        let cluster = self.clusters.current();
        let Some(server) = cluster.leader(batch.shard) else {
            return self.opens.given_up(&batch);
        };
        // The shard may not have made what was closed.
        let queued = self.grants.queued_among(&batch.inos);
        let (early, batch) = batch.divided(|ino| queued.contains(&ino));
        if !early.inos.is_empty() {
            self.opens
                .sent(&early, &early.whole(), &server.registrations, |_| true);
        }
        if batch.inos.is_empty() {
            return;
        }
        let batch = &batch;
        let left = self.send_batch(&cluster, server, batch);
        for &(ino, shard) in left.iter().filter(|(_, shard)| *shard != batch.shard) {
            self.learn_shard(ino, shard);
        }
        let is_of_server = |shard| {
            let leader = cluster.leader(shard);
            leader.is_some_and(|leader| leader.id == server.id)
        };
        self.opens
            .sent(batch, &left, &server.registrations, is_of_server);
    }

    /// Sends it once. Returns the closes that did not count, and the shards to tell of them.
    fn send_batch(&self, cluster: &Cluster, server: &Server, batch: &Batch) -> Vec<(Ino, ShardId)> {
        if server.is_away() {
            return batch.whole();
        }
        let Ok(mut connection) = self.connection(server) else {
            return batch.whole();
        };
        if connection.registration != batch.registration {
            // A registration since was counted without these.
            server.put_back(connection);
            return Vec::new();
        }
        let request = Request::Release(op::Release {
            inos: batch.inos.clone(),
        });
        match self.tell(&mut connection, cluster, batch.shard, request) {
            Ok(answer) => {
                server.heard(connection.asked());
                server.put_back(connection);
                let AnswerBody::Shard(answer) = answer else {
                    tracing::warn!("shard {} answered closes with {answer:?}", batch.shard);
                    return Vec::new();
                };
                if matches!(answer, Err(Refusal::WrongServer { .. })) {
                    self.clusters.reread();
                }
                batch.left_by(Some(answer)).unwrap_or_else(|refusal| {
                    tracing::warn!("shard {} refused closes: {refusal:?}", batch.shard);
                    Vec::new()
                })
            }
            Err(NotDone::NotSent) => {
                server.close_idle();
                batch.whole()
            }
            Err(NotDone::Lost) => {
                server.close_idle();
                batch.left_by(None).unwrap_or_default()
            }
        }
    }

    /// An inode was found on this shard.
    pub(crate) fn learn_shard(&self, ino: Ino, shard: ShardId) {
        self.inodes.learn(ino, shard);
        self.opens.moved(ino, shard);
    }

    /// Says one thing to a server that needs no shard; false when it could not be said.
    pub(crate) fn say(&self, server: &Server, body: &RequestBody) -> bool {
        // A connection that was idle may have been lost unnoticed; the second is new.
        for _ in 0..2 {
            let Ok(mut connection) = self.connection(server) else {
                return false;
            };
            if exchange(&mut connection, body.clone()).is_ok() {
                server.heard(connection.asked());
                server.put_back(connection);
                return true;
            }
            server.close_idle();
        }
        false
    }

    /// Looks for a newer cluster map in the file and at the servers; true when one was taken up.
    pub(crate) fn find_newer_map(&self) -> bool {
        let before = self.clusters.current();
        if self.clusters.reread() {
            return true;
        }
        let mut servers = before.servers().filter(|server| !server.is_away());
        servers.any(|server| self.fetch_cluster_map(server))
            || self.clusters.current().map.epoch > before.map.epoch
    }

    /// Asks a server for its cluster map and takes it up if it is newer.
    pub(crate) fn fetch_cluster_map(&self, server: &Server) -> bool {
        let Ok(mut connection) = self.connection(server) else {
            return false;
        };
        let Ok(answer) = exchange(&mut connection, RequestBody::Admin(AdminRequest::Map)) else {
            return false;
        };
        server.put_back(connection);
        let AnswerBody::Admin(AdminReply::Map(text)) = answer else {
            return false;
        };
        let map = ClusterMap::from_json(&text)
            .map_err(|error| ClientError::Protocol(error.to_string()))
            .and_then(|map| self.clusters.replace(map));
        map.unwrap_or_else(|error| {
            tracing::warn!("server {} gave no usable cluster map: {error}", server.id);
            false
        })
    }
}

fn not_taken(shard: ShardId, answer: &impl Debug) -> ConnectError {
    ConnectError::Unreachable(format!(
        "shard {shard} did not take what the session has open and locked: {answer:?}"
    ))
}

/// Sends one request and waits for its answer.
fn exchange(
    connection: &mut Connection,
    body: RequestBody,
) -> std::result::Result<AnswerBody, NotDone> {
    let mut frame = RequestFrame { id: 0, body };
    // A part of a request is not executed.
    connection
        .push(None, &mut frame, &[])
        .map_err(|_| NotDone::NotSent)?;
    connection.send().map_err(|_| NotDone::NotSent)?;
    match connection.receive() {
        Ok(answer) if answer.id == frame.id => Ok(answer.body),
        Ok(_) | Err(_) => Err(NotDone::Lost),
    }
}
