//! The reclaim list at work: orphans that nobody has open are freed, data objects and forwarding
//! records of what is gone are removed, those of what was truncated are truncated. Every item is done at least once
//! and doing it twice changes nothing, so all of this may be lost in a crash. That holds of a truncation, and of filling, although
//! others have written to the object meanwhile: it has followed that count of truncations, and is left as it is. (A truncates the file,
//! the object follows, and that it has is not synced; B writes; this machine loses power and asks the object again.)

use crate::apply::left_to_follow;
use crate::commands::Commands;
use crate::grace::Grace;
use crate::port::Output;
use crate::record::Record;
use crate::sessions::Sessions;
use crate::shard::{Shard, view_of};
use hashbrown::{HashMap, HashSet};
use pandofs_api::{DataReply, DataRequest, FIRST_TRUNCATIONS, PeerMessage, Reply, ShardRequest};
use pandofs_namespace::locks::Lock;
use pandofs_namespace::records::{ReclaimRecord, decode};
use pandofs_namespace::{Locks, Stop, keys};
use pandofs_storage::store::Overlay;
use pandofs_types::limits::{MAX_RECLAIMS_IN_FLIGHT, RESEND_INTERVAL};
use pandofs_types::{FileKind, FsError, Ino, ServerId, ShardId, Steady, TxId};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// The machine of a shard's reclaim list: items, replies of data objects, closes and ticks in, [`Commands`] out.
#[derive(Debug, Default)]
pub(crate) struct Reclaims {
    orphans: HashMap<Ino, Orphan>,
    /// Waiting for a place among those in flight.
    queue: BTreeSet<Ino>,
    work: BTreeMap<Ino, Work>,
    tickets: HashMap<u64, (Ino, ServerId)>,
    last_ticket: u64,
    /// Requests to be answered when the data objects have followed.
    followed: HashMap<Ino, Vec<(ShardRequest, Reply)>>,
    /// The first inode that it may make; none: it has made all that there are.
    first: Option<Ino>,
    /// Inodes that came here by splits and merges since the start, as long as that matters.
    pub moved_here: HashSet<Ino>,
    /// Servers that had no room for what an inode held, and when they said so last.
    full: BTreeMap<ServerId, Steady>,
}

#[derive(Debug, Default)]
struct Orphan {
    proposed: bool,
    /// A client that has it open may not have said so yet, until the grace after the start is over.
    unknown: bool,
}

#[derive(Debug)]
struct Work {
    record: ReclaimRecord,
    servers: BTreeMap<ServerId, (u64, DataRequest)>,
    shards: BTreeSet<ShardId>,
    sent: Steady,
    proposed: bool,
}

impl Reclaims {
    pub(crate) fn len(&self) -> usize {
        self.orphans.len() + self.queue.len() + self.work.len()
    }

    pub(crate) fn set_proposed(&mut self, ino: Ino, proposed: bool) {
        if let Some(orphan) = self.orphans.get_mut(&ino) {
            orphan.proposed = proposed;
        }
    }

    /// The item is off the list.
    pub(crate) fn done(&mut self, ino: Ino) {
        self.orphans.remove(&ino);
        self.queue.remove(&ino);
        if let Some(work) = self.work.remove(&ino) {
            for (ticket, _) in work.servers.values() {
                self.tickets.remove(ticket);
            }
        }
    }

    /// Whether a file's bytes are on their way to data objects under this number, with which its inode is locked.
    pub(crate) fn is_filling(&self, number: TxId) -> bool {
        let fills =
            |work: &Work| matches!(&work.record, ReclaimRecord::Fill { tx, .. } if *tx == number);
        self.work.values().any(fills)
    }

    /// Whether the file's data objects are still to be truncated.
    pub(crate) fn is_truncating(&self, ino: Ino) -> bool {
        let work = self.work.get(&ino);
        work.is_some_and(|work| matches!(work.record, ReclaimRecord::Truncate { .. }))
    }

    pub(crate) fn wait_for_objects(&mut self, ino: Ino, request: ShardRequest, reply: Reply) {
        self.followed.entry(ino).or_default().push((request, reply));
    }

    /// Whether a server has just had no room for what an inode held. Its request is sent again until it
    /// has room; no new request is to wait for that.
    pub(crate) fn is_full(&self, server: ServerId, now: Steady) -> bool {
        let since = now.before(2 * RESEND_INTERVAL);
        self.full.get(&server).is_some_and(|&said| said > since)
    }

    /// The same of any server.
    pub(crate) fn is_any_full(&self, now: Steady) -> bool {
        self.full.keys().any(|server| self.is_full(*server, now))
    }

    /// Whether this process has made the inode, so that nobody has opened it before. (Its time of birth does not tell:
    /// that may be of another server's clock, or of this one before it was set.)
    fn is_of_this_process(&self, ino: Ino) -> bool {
        self.first.is_none_or(|first| {
            ino.birth_shard() == first.birth_shard() && ino.serial() >= first.serial()
        })
    }

    /// Whether a client that had this inode open before the restart may still have to say so.
    pub(crate) fn may_be_open_unknown(&self, grace: &Grace, ino: Ino) -> bool {
        !grace.is_over() && !self.is_of_this_process(ino) && !self.moved_here.contains(&ino)
    }

    /// Whether the inode has no name, and sessions that had it open before the restart have had the time to say so.
    fn is_due(&self, grace: &Grace, ino: Ino) -> bool {
        let orphan = self.orphans.get(&ino);
        orphan.is_some_and(|orphan| !orphan.unknown || grace.is_over())
    }

    /// There is a new item, or an old one has changed, or is gone. `before`: it was there before the restart, whatever
    /// the clock says.
    pub(crate) fn consider(
        &mut self,
        commands: &mut Commands,
        sessions: &mut Sessions,
        locks: &Locks,
        ino: Ino,
        record: Option<ReclaimRecord>,
        before: bool,
    ) {
        match record {
            // It got a name, or is gone.
            None => self.done(ino),
            Some(ReclaimRecord::Orphan) => {
                let unknown = before || self.may_be_open_unknown(&sessions.grace, ino);
                let proposed = false;
                self.orphans.insert(ino, Orphan { proposed, unknown });
                if !unknown && !sessions.opens.is_open(ino) {
                    self.closed(commands, sessions, locks, ino);
                }
            }
            Some(record) => {
                self.done(ino);
                // Nobody waits for what is gone. Were it all to be begun, it would fill memory while a server
                // is away; were the others to queue behind it, clients would wait for a server that they do
                // not need.
                let is_waited_for = !matches!(record, ReclaimRecord::Gone { .. });
                if is_waited_for || self.work.len() < MAX_RECLAIMS_IN_FLIGHT {
                    self.begin(commands, ino, record);
                } else {
                    self.queue.insert(ino);
                }
            }
        }
    }

    /// Nobody that is known of has the inode open any more. After a restart that is not enough: others may not have said
    /// yet that they do. The next tick looks again.
    pub(crate) fn closed(
        &mut self,
        commands: &mut Commands,
        sessions: &mut Sessions,
        locks: &Locks,
        ino: Ino,
    ) {
        // While it is locked it may be about to get a name. The next tick looks again.
        let is_locked = locks.check(&Lock::Inode(ino), None).is_err();
        // A record before it may open it.
        let is_kept = is_locked || sessions.opens.is_to_open(ino);
        if !self.is_due(&sessions.grace, ino) || is_kept {
            return;
        }
        if let Some(orphan) = self.orphans.get_mut(&ino)
            && !orphan.proposed
        {
            orphan.proposed = true;
            // A client that found the name while it was there may open it only now: an open that is granted before
            // the record is applied would lose the inode by it.
            sessions.opens.will_close(&[ino]);
            commands.propose(&Record::Reclaim { ino });
        }
    }

    fn begin(&mut self, commands: &mut Commands, ino: Ino, record: ReclaimRecord) {
        let mut servers = BTreeMap::new();
        let mut shards = BTreeSet::new();
        let mut ticket = |server, request| {
            self.last_ticket += 1;
            let ticket = self.last_ticket;
            self.tickets.insert(ticket, (ino, server));
            servers.insert(server, (ticket, request));
        };
        match &record {
            ReclaimRecord::Orphan => unreachable!("orphans wait for their last release"),
            ReclaimRecord::Gone { layout, trail } => {
                for server in layout.iter().flat_map(|layout| layout.servers()) {
                    ticket(server, DataRequest::Remove { ino });
                }
                shards.extend(trail.iter().copied());
            }
            ReclaimRecord::Fill { layout, data, .. } => {
                let data = data.clone();
                ticket(
                    layout.server_of(0),
                    DataRequest::Fill {
                        ino,
                        truncations: FIRST_TRUNCATIONS,
                        data,
                        from_reserve: false,
                    },
                );
            }
            ReclaimRecord::Truncate {
                layout,
                size,
                truncations,
            } => {
                let truncations = *truncations;
                for object in 0..layout.count {
                    let length = layout.object_size(object, *size);
                    ticket(
                        layout.server_of(object),
                        DataRequest::Truncate {
                            ino,
                            truncations,
                            length,
                        },
                    );
                }
            }
        }
        let work = Work {
            record,
            servers,
            shards,
            sent: commands.now,
            proposed: false,
        };
        work.send(commands, ino);
        self.work.insert(ino, work);
    }

    /// A data object has replied to the request with this ticket.
    pub(crate) fn data_done(&mut self, commands: &mut Commands, ticket: u64, reply: &DataReply) {
        // A failed request is sent again.
        if !matches!(reply, DataReply::Done) {
            if let (DataReply::Failed(FsError::NoSpace), Some(&(ino, server))) =
                (reply, self.tickets.get(&ticket))
            {
                self.full.insert(server, commands.now);
                self.insist(commands, ino, server);
            }
            return;
        }
        if let Some((ino, server)) = self.tickets.remove(&ticket)
            && let Some(work) = self.work.get_mut(&ino)
        {
            work.servers.remove(&server);
            self.finish(commands, ino);
        }
    }

    /// Asks for what a server had no room for once more at once, out of what it keeps back.
    fn insist(&mut self, commands: &mut Commands, ino: Ino, server: ServerId) {
        if let Some(work) = self.work.get_mut(&ino)
            && let Some((_, DataRequest::Fill { from_reserve, .. })) = work.servers.get_mut(&server)
            && !*from_reserve
        {
            *from_reserve = true;
            work.send(commands, ino);
        }
    }

    /// A shard has no forwarding record of the inode any more.
    pub(crate) fn forwarding_forgotten(&mut self, commands: &mut Commands, ino: Ino, by: ShardId) {
        if let Some(work) = self.work.get_mut(&ino) {
            work.shards.remove(&by);
            self.finish(commands, ino);
        }
    }

    fn finish(&mut self, commands: &mut Commands, ino: Ino) {
        if let Some(work) = self.work.get_mut(&ino)
            && work.servers.is_empty()
            && work.shards.is_empty()
            && !work.proposed
        {
            work.proposed = true;
            let done = work.record.clone();
            commands.propose(&Record::Reclaimed { ino, done });
        }
    }

    pub(crate) fn tick(&mut self, commands: &mut Commands, sessions: &mut Sessions, locks: &Locks) {
        let now = commands.now;
        if sessions.grace.is_over() {
            self.moved_here = HashSet::new();
        }
        let since = now.before(RESEND_INTERVAL);
        for (&ino, work) in &mut self.work {
            if work.sent < since && !work.proposed {
                work.sent = now;
                work.send(commands, ino);
            }
        }
        let is_over = |orphan: &Orphan| !orphan.unknown || sessions.grace.is_over();
        let mut due: Vec<Ino> = self
            .orphans
            .iter()
            .filter(|(ino, orphan)| {
                !orphan.proposed && is_over(orphan) && !sessions.opens.is_open(**ino)
            })
            .map(|(ino, _)| *ino)
            .collect();
        due.sort();
        for ino in due {
            self.closed(commands, sessions, locks, ino);
        }
    }
}

impl Work {
    fn send(&self, commands: &mut Commands, ino: Ino) {
        for (&server, (ticket, request)) in &self.servers {
            let (ticket, request) = (*ticket, request.clone());
            commands.outputs.push(Output::Data {
                server,
                ticket,
                request,
                durable: true,
            });
        }
        let from = commands.shard;
        for &to in &self.shards {
            let inos = vec![ino];
            let forget = PeerMessage::ForgetForwarding { from, to, inos };
            commands.send(to, forget, true);
        }
    }
}

impl Shard {
    /// [`Reclaims::may_be_open_unknown`].
    pub(crate) fn may_be_open_unknown(&self, ino: Ino) -> bool {
        let grace = &self.sessions.grace;
        self.reclaims.may_be_open_unknown(grace, ino)
    }

    /// [`Reclaims::closed`].
    pub(crate) fn closed(&mut self, ino: Ino) {
        let (sessions, locks) = (&mut self.sessions, &self.operations.locks);
        self.reclaims
            .closed(&mut self.commands, sessions, locks, ino);
    }

    pub(crate) fn recover_reclaims(
        &mut self,
        overlay: &Overlay<'_>,
        first: Ino,
    ) -> Result<(), Stop> {
        self.reclaims.first = Some(first);
        let config = self.config.clone();
        let prefix = keys::prefix(keys::Kind::Reclaim, config.shard);
        let mut found = Vec::new();
        view_of(&config, overlay, false).scan_prefix(&prefix, &mut |key, value| {
            let ino = keys::parse_ino(key)
                .ok_or_else(|| Stop::Broken("a reclaim key is short".to_string()))?;
            let _: ReclaimRecord = decode("reclaim record", value)?;
            found.push(ino);
            Ok(ControlFlow::Continue(()))
        })?;
        for ino in found {
            let before = true;
            self.consider_reclaim(overlay, ino, before)?;
        }
        Ok(())
    }

    /// [`Reclaims::consider`].
    pub(crate) fn consider_reclaim(
        &mut self,
        overlay: &Overlay<'_>,
        ino: Ino,
        before: bool,
    ) -> Result<(), Stop> {
        let record = view_of(&self.config, overlay, false).reclaim(ino)?;
        let (sessions, locks) = (&mut self.sessions, &self.operations.locks);
        self.reclaims
            .consider(&mut self.commands, sessions, locks, ino, record, before);
        Ok(())
    }

    /// The item goes, unless another one has taken its place meanwhile.
    pub(crate) fn apply_reclaimed(
        &mut self,
        overlay: &mut Overlay<'_>,
        ino: Ino,
        done: &ReclaimRecord,
    ) -> Result<(), Stop> {
        if self.txn(overlay).view().reclaim(ino)?.as_ref() != Some(done) {
            return Ok(());
        }
        let mut txn = self.txn(overlay);
        let left = txn.view().stored_inode(ino)?;
        if left.is_some_and(|inode| inode.kind != FileKind::Dir && inode.nlink == 0) {
            // It was truncated while it had no name: sessions that have it open keep it from here on.
            txn.put_reclaim(ino, &ReclaimRecord::Orphan);
        } else {
            txn.delete_reclaim(ino);
        }
        self.reclaims.done(ino);
        if let ReclaimRecord::Fill { tx, .. } = done {
            self.release(*tx);
        }
        for (request, reply) in self.reclaims.followed.remove(&ino).unwrap_or_default() {
            // A batch may have changed others.
            match left_to_follow(&view_of(&self.config, overlay, false), &request.request)? {
                Some(other) => self.reclaims.wait_for_objects(other, request, reply),
                None => self.answer_request(&request, Ok(reply)),
            }
        }
        if let Some(next) = self.reclaims.queue.pop_first() {
            self.commands
                .effects
                .push(pandofs_namespace::Effect::Reclaim { ino: next });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
