//! Leases of a shard: granted with what clients read, recalled before it is changed.
//!
//! A change is looked at when it arrives: what it touches is known then, and leases that other sessions have
//! of it are recalled. It is put aside until all have answered, or their time is up, and then looked at again
//! as if it had just come. So no record that is proposed waits for anybody, and no request that waits has
//! anything locked: operations cannot wait for one another in a circle because of leases. From when it is
//! looked at until it is applied nobody is given a lease of what it changes; and of what an operation of
//! several shards has locked, until that has ended.
//!
//! Invariant, asserted as records are applied: no key that is written has a lease of a session other than the
//! one that asked for the change.
//!
//! Which leases there are is lost with the process; which sessions may have some is not: a session is on disk
//! before its first. After a restart changes wait until each of them has begun anew, or [`LEASE`] has passed.
//!
//! Before names and inodes move to another shard all leases of this one are recalled: the other shard knows
//! nothing of them.

mod grants;
mod in_shard;

use crate::commands::Commands;
use crate::port::Output;
use crate::reclaim::Reclaims;
use crate::record::Record;
use crate::sessions::Holders;
use crate::waiting::Until;
use hashbrown::{HashMap, HashSet};
use pandofs_api::{Refusal, Reply, Request, ShardRequest, op};
use pandofs_leases::{LeaseTable, WaitId};
use pandofs_namespace::touches::{self, Touched};
use pandofs_namespace::{Choices, Locks, Plan, Stop, View, keys, ops};
use pandofs_storage::store::{KvRead, Overlay};
use pandofs_types::limits::{LEASE, LEASE_QUIET};
use pandofs_types::{
    FileKind, FsError, HashKey, Ino, LeaseKey, Leased, Name, SessionId, ShardId, Steady, Term,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The machine of a shard's leases: changes, reads, recalls' answers and ticks in, [`Commands`] out.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    table: LeaseTable,
    now: Steady,
    /// Sessions that take leases from this process.
    takers: HashSet<SessionId>,
    /// Sessions that may have leases here. Those that are missing have not begun anew since the restart.
    holders: Holders,
    /// The moment until which they are waited for.
    grace: Steady,
    /// Keys that proposed records change until they are applied, and the index of each record.
    proposed: VecDeque<(u64, Vec<LeaseKey>)>,
    changing: HashMap<LeaseKey, u32>,
    /// No leases are given before this record is applied: what is proposed was looked at when less was here.
    not_before: u64,
    /// Sessions that have changed a directory's part of late.
    changed: HashMap<Ino, Changed>,
    /// Directories of which a half is about to move.
    moving: BTreeSet<Ino>,
    /// The session whose request is being applied.
    writer: Option<SessionId>,
    grants: grants::Grants,
}

/// The state of the shard around its leases.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Around<'a> {
    pub shard: ShardId,
    pub hash_key: HashKey,
    /// Index of the last record that was applied.
    pub applied: u64,
    /// Locks of operations.
    pub locks: &'a Locks,
    pub reclaims: &'a Reclaims,
}

/// Changes of a directory's part, or leases of something in a directory.
#[derive(Clone, Copy, Debug)]
struct Changed {
    /// The session that changed it last, or was leased something.
    by: Option<SessionId>,
    at: Steady,
    /// When somebody else did.
    others_at: Steady,
}

/// Verdict on a change.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Cleared {
    /// It may be proposed.
    Yes,
    /// It waits for leases to end.
    Wait(WaitId),
    /// It waits for clients that have not come back after a restart.
    Early,
}

impl Leases {
    /// Whether there is anybody who has leases or may get some.
    pub(crate) fn is_used(&self) -> bool {
        !self.takers.is_empty()
            || self.holders.are_missing()
            || self.grants.holders.are_missing()
            || !self.table.is_empty()
    }

    pub(crate) fn held(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn granted(&self) -> usize {
        self.table.grants()
    }

    /// A session that is waited for, and how many others are.
    pub(crate) fn in_the_way(&self, wait: WaitId) -> Option<(SessionId, u32)> {
        self.table.in_the_way(wait)
    }

    pub(crate) fn recalled(&self) -> u64 {
        self.table.recalled()
    }

    #[cfg(feature = "planted")]
    pub(crate) fn set_room(&mut self, room: pandofs_leases::Room) {
        self.table.set_room(room);
    }

    /// The session whose request is being applied.
    pub(crate) fn written_by(&mut self, session: SessionId) {
        self.writer = Some(session);
    }

    fn until(&self) -> Steady {
        self.now.after(LEASE)
    }

    /// Whether the directory's part changes too often because of others to be leased to the session.
    fn is_busy(&self, dir: Ino, session: SessionId) -> bool {
        self.changed.get(&dir).is_some_and(|changed| {
            let own = changed.by == Some(session);
            let at = if own { changed.others_at } else { changed.at };
            at.0.saturating_add(LEASE_QUIET.as_nanos() as i64) > self.now.0
        })
    }

    fn has_changed(&mut self, dir: Ino) {
        note(&mut self.changed, dir, self.writer, self.now);
    }
}

/// Notes that a session has done something with the directory.
fn note(noted: &mut HashMap<Ino, Changed>, dir: Ino, by: Option<SessionId>, at: Steady) {
    let never = Steady(i64::MIN);
    let changed = noted.entry(dir).or_insert(Changed {
        by,
        at: never,
        others_at: never,
    });
    if changed.by != by {
        changed.others_at = changed.at.max(changed.others_at);
        changed.by = by;
    }
    changed.at = at;
}

impl Leases {
    /// The state after a start: these sessions may have had leases, and these grants of these incarnations.
    pub(crate) fn recovered(
        found: BTreeSet<SessionId>,
        granted: BTreeMap<SessionId, u64>,
        now: Steady,
    ) -> Leases {
        let mut leases = Leases {
            holders: Holders::recovered(found),
            now,
            ..Leases::default()
        };
        leases.grants.holders = Holders::recovered(granted.keys().copied().collect());
        leases.grants.incarnations = granted;
        leases.grace = leases.until();
        leases
    }

    /// Time has passed.
    pub(crate) fn time(&mut self, now: Steady) {
        self.now = self.now.max(now);
        self.table.tick(self.now);
    }

    /// Whether a change of these may be proposed, in the name of `session`.
    pub(crate) fn clear(&mut self, touched: &[Touched], session: Option<SessionId>) -> Cleared {
        if touched.is_empty() {
            return Cleared::Yes;
        }
        if self.holders.are_missing() {
            return Cleared::Early;
        }
        self.clear_table(touched, session)
    }

    /// Has leases of these end, and the grants of the directories that they are of.
    fn clear_table(&mut self, touched: &[Touched], session: Option<SessionId>) -> Cleared {
        let own = |touched: &Touched| (touched.key, session.filter(|_| touched.is_known));
        let mut wanted: Vec<_> = touched.iter().map(own).collect();
        if self.table.grants() > 0 {
            let of_keys = |&(key, except)| (grants::grant_of(key), except);
            let granted: Vec<_> = wanted.iter().map(of_keys).collect();
            wanted.extend(granted);
        }
        match self.table.clear(&wanted) {
            None => Cleared::Yes,
            Some(id) => Cleared::Wait(id),
        }
    }

    /// Keys that a request touches. `None`: that is not known before what is proposed is applied.
    pub(crate) fn touched(
        &self,
        view: &View<'_>,
        request: &Request,
        plan: Option<&Plan>,
        choices: &Choices,
    ) -> Result<Option<Vec<Touched>>, Stop> {
        if !self.is_used() {
            return Ok(Some(Vec::new()));
        }
        let is_changing = |key| self.changing.contains_key(key);
        if !self.changing.is_empty()
            && ops::operation(request)
                .depends(view)
                .iter()
                .any(is_changing)
        {
            return Ok(None);
        }
        touches::of_request(view, request, plan, choices).map(Some)
    }

    /// The record with this index is proposed, which changes these.
    pub(crate) fn propose(&mut self, record: u64, keys: Vec<LeaseKey>) {
        if !keys.is_empty() {
            for key in &keys {
                *self.changing.entry(*key).or_default() += 1;
            }
            self.proposed.push_back((record, keys));
        }
    }

    /// A record is about to be applied.
    pub(crate) fn begin(&mut self, index: u64) {
        self.writer = None;
        if self.proposed.front().is_some_and(|(of, _)| *of == index)
            && let Some((_, keys)) = self.proposed.pop_front()
        {
            for key in keys {
                if let Some(count) = self.changing.get_mut(&key) {
                    *count -= 1;
                    if *count == 0 {
                        self.changing.remove(&key);
                    }
                }
            }
        }
    }

    /// A record was applied: what it wrote nobody else believes in.
    ///
    /// # Panics
    /// When somebody has a lease of it.
    pub(crate) fn check(
        &mut self,
        shard: ShardId,
        overlay: &Overlay<'_>,
        mark: usize,
    ) -> Result<(), Stop> {
        if !self.is_used() {
            return Ok(());
        }
        for key in overlay.keys_written_since(mark) {
            let leased = match key.first().copied().and_then(keys::Kind::from_byte) {
                Some(keys::Kind::Entry) => keys::parse_entry(key)
                    .map(|(dir, position, _)| LeaseKey::Entry { dir, position }),
                Some(keys::Kind::Inode | keys::Kind::Xattr) => {
                    keys::parse_ino(key).map(LeaseKey::Inode)
                }
                Some(keys::Kind::Parts) => keys::parse_ino(key).map(LeaseKey::Parts),
                _ => continue,
            };
            let Some(leased) = leased else {
                return Err(Stop::Broken(format!("key {key:02x?} is short")));
            };
            let grant = grants::grant_of(leased);
            assert!(
                !self.table.is_held(leased, self.writer) && !self.table.is_held(grant, self.writer),
                "shard {shard} changes {leased:?} in the name of {:?} and somebody has a lease of it",
                self.writer,
            );
            if let LeaseKey::Parts(dir) = leased {
                self.has_changed(dir);
                if self.table.is_held(grant, None) && overlay.get(key)?.is_none() {
                    self.table.forget_dir(dir);
                }
            }
        }
        Ok(())
    }

    /// Names and inodes have come from another shard; the last record proposed was `proposed`.
    pub(crate) fn came_here(&mut self, proposed: u64) {
        self.not_before = proposed;
    }

    /// No leases are given while a half of the directory is about to move; whether there are none left.
    pub(crate) fn close(&mut self, dir: Ino) -> bool {
        if self.holders.are_missing() {
            return false;
        }
        self.moving.insert(dir);
        self.table.close()
    }

    /// The directory's half has moved, or is locked, or stays.
    pub(crate) fn open(&mut self, dir: Ino) {
        if self.moving.remove(&dir) && self.moving.is_empty() {
            self.table.open();
        }
    }

    /// Leases of an answer. To be called when the state is what is answered.
    pub(crate) fn lease(
        &mut self,
        commands: &mut Commands,
        around: Around<'_>,
        request: &ShardRequest,
        result: &Result<Reply, Refusal>,
    ) -> Vec<Leased> {
        let session = request.key.session;
        if !self.takers.contains(&session) || around.applied < self.not_before {
            return Vec::new();
        }
        if !self.holders.is_kept(session) {
            if leases_anything(result) && !self.holders.is_being_kept(session) {
                let has = true;
                let record = commands.propose(&Record::Leaseholder { session, has });
                self.holders.keep(session, record);
            }
            return Vec::new();
        }
        let mut leased = Vec::new();
        match (&request.request, result) {
            (Request::Lookup(op::Lookup { dir, name }), Err(Refusal::Fs(FsError::NotFound))) => {
                leased.push(self.lease_entry(around, session, *dir, name, None));
            }
            (request, Ok(Reply::Entry(entry))) => {
                leased.push(match request.operation().answers_name() {
                    Some((dir, name)) => {
                        let both = self.lease_entry(around, session, dir, name, Some(entry.kind));
                        match entry.inode.is_some() && entry.shard == around.shard {
                            true => {
                                both.and(self.lease_inode(around, session, entry.ino, entry.kind))
                            }
                            false => both,
                        }
                    }
                    None => self.lease_inode(around, session, entry.ino, entry.kind),
                });
            }
            (_, Ok(Reply::Inode(inode))) => {
                leased.push(self.lease_inode(around, session, inode.attr.ino, inode.attr.kind));
            }
            (Request::DirPart(op::DirPart { dir }), Ok(Reply::Part(_))) => {
                let given = self.give(around.locks, session, LeaseKey::Parts(*dir), true);
                leased.push(as_leased(Leased::ATTRIBUTES, given));
            }
            (
                Request::ReadDir(op::ReadDir {
                    dir, plus: true, ..
                }),
                Ok(Reply::Entries(listed)),
            ) => {
                for entry in &listed.entries {
                    let mut both =
                        self.lease_entry(around, session, *dir, &entry.name, Some(entry.kind));
                    if entry.inode.is_some() {
                        both = both.and(self.lease_inode(around, session, entry.ino, entry.kind));
                    }
                    leased.push(both);
                }
            }
            _ => {}
        }
        if leased.iter().all(|leased| leased.is_nothing()) {
            leased.clear();
        }
        leased
    }

    /// Leases what the name leads to, of that kind, or that it leads to nothing.
    fn lease_entry(
        &mut self,
        around: Around<'_>,
        session: SessionId,
        dir: Ino,
        name: &Name,
        kind: Option<FileKind>,
    ) -> Leased {
        let position = around.hash_key.position(name.as_bytes());
        let lasts = kind == Some(FileKind::Dir);
        let given = self.give(
            around.locks,
            session,
            LeaseKey::Entry { dir, position },
            lasts,
        );
        as_leased(Leased::ENTRY, given)
    }

    fn lease_inode(
        &mut self,
        around: Around<'_>,
        session: SessionId,
        ino: Ino,
        kind: FileKind,
    ) -> Leased {
        let lasts = kind == FileKind::Dir;
        // A session with a lease may write, and its bytes would be cut away with the rest.
        if around.reclaims.is_truncating(ino) {
            return Leased::NOTHING;
        }
        if lasts
            && self
                .give(around.locks, session, LeaseKey::Parts(ino), lasts)
                .is_none()
        {
            return Leased::NOTHING;
        }
        let given = self.give(around.locks, session, LeaseKey::Inode(ino), lasts);
        as_leased(Leased::ATTRIBUTES, given)
    }

    /// Directories are on everybody's way, and leases of them last.
    fn give(
        &mut self,
        locks: &Locks,
        session: SessionId,
        key: LeaseKey,
        lasts: bool,
    ) -> Option<Term> {
        if self.changing.contains_key(&key) || locks.covers(key) {
            return None;
        }
        if let LeaseKey::Parts(dir) = key
            && self.is_busy(dir, session)
        {
            return None;
        }
        if self.table.grants() > 0 && self.table.is_held(grants::grant_of(key), Some(session)) {
            return None;
        }
        let term = self.table.grant(session, key, lasts)?;
        self.grants.note_lease(key, session, self.now);
        Some(term)
    }

    /// Sends recalls, and lets those go on that wait no longer.
    pub(crate) fn events(&mut self, commands: &mut Commands) {
        for recall in self.table.take_recalls() {
            for key in &recall.keys {
                if let LeaseKey::Grant(dir) = *key {
                    self.grants.note_recall(dir, self.now);
                }
            }
            commands.outputs.push(Output::Recall(recall));
        }
        for session in self.table.take_over() {
            if !self.has_no_grants(commands, session) {
                self.table.end_over(session);
            }
        }
        for id in self.table.take_clear() {
            commands.release(Until::Clear(id));
        }
    }

    /// The session takes leases from now on, and has none.
    pub(crate) fn takes(&mut self, commands: &mut Commands, session: SessionId) {
        if self.takers.is_empty() {
            // Changes proposed before were not looked at for leases.
            self.not_before = self.not_before.max(commands.proposed);
        }
        self.takers.insert(session);
        self.table.drop_session(session);
        // Batches of its older grants that are still on their way are refused, also after a restart.
        self.has_no_grants(commands, session);
        self.came(commands, session);
    }

    pub(crate) fn answered(&mut self, session: SessionId, number: u64) {
        self.table.answered(session, number);
    }

    /// The session is gone, and its leases with it.
    pub(crate) fn session_gone(&mut self, commands: &mut Commands, session: SessionId) {
        self.takers.remove(&session);
        self.table.drop_session(session);
        if self.holders.remove(session) {
            let has = false;
            commands.propose(&Record::Leaseholder { session, has });
        }
        self.has_no_grants(commands, session);
        self.came(commands, session);
        commands.release(Until::Grantholder(session));
    }

    /// The session has no leases of before the restart.
    fn came(&mut self, commands: &mut Commands, session: SessionId) {
        let is_last = self.holders.came(session);
        // A request released too early waits again for the other kind of holder.
        if self.grants.holders.came(session) || is_last {
            commands.release(Until::Leaseholders);
        }
    }

    /// All up to this record, which says that the session may have leases, is on disk.
    pub(crate) fn holder_reached_disk(
        &mut self,
        commands: &mut Commands,
        session: SessionId,
        record: u64,
    ) {
        if self.holders.reached_disk(session, record) {
            commands.release(Until::Grantholder(session));
        }
    }

    pub(crate) fn tick(&mut self, commands: &mut Commands) {
        let are_missing = self.holders.are_missing() || self.grants.holders.are_missing();
        if are_missing && self.now >= self.grace {
            let has = false;
            for session in self.holders.give_up_missing() {
                commands.propose(&Record::Leaseholder { session, has });
            }
            for session in self.grants.holders.give_up_missing() {
                self.grants.incarnations.remove(&session);
                let incarnation = None;
                commands.propose(&Record::Grantholder {
                    session,
                    incarnation,
                });
            }
            commands.release(Until::Leaseholders);
        }
        let (now, quiet) = (self.now, LEASE_QUIET.as_nanos() as i64);
        self.changed
            .retain(|_, changed| changed.at.0.saturating_add(quiet) > now.0);
        self.grants.tick(now);
    }
}

/// Whether somebody who takes leases would be given any with this.
fn leases_anything(result: &Result<Reply, Refusal>) -> bool {
    matches!(
        result,
        Ok(Reply::Entry(_) | Reply::Inode(_) | Reply::Part(_) | Reply::Entries(_))
            | Err(Refusal::Fs(FsError::NotFound))
    )
}

/// Bits that tell a client of a lease.
fn as_leased(what: Leased, given: Option<Term>) -> Leased {
    match given {
        None => Leased::NOTHING,
        Some(term) => what.within(term),
    }
}

/// Keys of what was touched.
pub(crate) fn keys_of(touched: Vec<Touched>) -> Vec<LeaseKey> {
    touched.into_iter().map(|touched| touched.key).collect()
}

#[cfg(test)]
mod tests;
