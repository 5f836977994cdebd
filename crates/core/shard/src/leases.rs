//! Leases of a shard: granted with what clients read, recalled before it is changed.
//!
//! A change is looked at when it arrives: what it touches is known then, and leases that other sessions have
//! of it are recalled. It is put aside until all have answered, or their time is up, and then looked at again
//! as if it had just come. So no record that is proposed waits for anybody, and nothing is locked by who
//! waits: operations cannot wait for one another in a circle because of leases. From when it is looked at
//! until it is applied nobody is given a lease of what it changes; and of what an operation of several shards
//! has locked, until that has ended.
//!
//! Invariant, asserted as records are applied: no key that is written has a lease of a session other than the
//! one that asked for the change.
//!
//! Which leases there are is lost with the process; which sessions may have some is not: a session is on disk
//! before its first. After a restart changes wait until each of them has begun anew, or [`LEASE`] has passed.
//!
//! Before names and inodes move to another shard all leases of this one are recalled: the other shard knows
//! nothing of them.

use crate::port::{Environment, Input, Output};
use crate::record::Record;
use crate::shard::{Shard, view_of};
use crate::waiting::Until;
use hashbrown::{HashMap, HashSet};
use pandofs_api::{
    CommitMessage, Horizon, PeerMessage, Refusal, Reply, Request, ShardRequest, Step, op,
};
use pandofs_leases::{LeaseTable, WaitId};
use pandofs_namespace::touches::{self, Touched};
use pandofs_namespace::{Plan, Stop, View, keys, ops, steps};
use pandofs_store::Overlay;
use pandofs_types::limits::{LEASE, LEASE_QUIET};
use pandofs_types::{
    FileKind, FsError, Ino, LeaseKey, Leased, Name, SessionId, ShardId, Steady, Term,
};
use std::collections::{BTreeSet, VecDeque};
use std::ops::ControlFlow;

#[derive(Debug, Default)]
pub struct Leases {
    table: LeaseTable,
    now: Steady,
    /// Sessions that take leases from this process.
    takers: HashSet<SessionId>,
    /// Sessions that are on disk as ones that may have leases here.
    kept: BTreeSet<SessionId>,
    /// Sessions that are on their way there.
    keeping: BTreeSet<SessionId>,
    /// Sessions that may have had leases before the restart and have not begun anew.
    missing: BTreeSet<SessionId>,
    /// Until when they are waited for.
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
}

/// Changes of a directory's part.
#[derive(Clone, Copy, Debug)]
struct Changed {
    /// The session that changed it last.
    by: Option<SessionId>,
    at: Steady,
    /// When somebody else did.
    others_at: Steady,
}

/// Verdict on a change.
#[derive(Debug, PartialEq, Eq)]
pub enum Cleared {
    /// It may be proposed.
    Yes,
    /// It waits for leases to end.
    Wait(WaitId),
    /// It waits for clients that have not come back after a restart.
    Early,
}

impl Leases {
    /// Whether there is anybody who has leases or may get some.
    pub fn is_used(&self) -> bool {
        !self.takers.is_empty() || !self.missing.is_empty() || !self.table.is_empty()
    }

    pub fn held(&self) -> usize {
        self.table.len()
    }

    pub fn recalled(&self) -> u64 {
        self.table.recalled()
    }

    #[cfg(feature = "planted")]
    pub fn set_room(&mut self, room: pandofs_leases::Room) {
        self.table.set_room(room);
    }

    /// The session whose request is being applied.
    pub fn written_by(&mut self, session: SessionId) {
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
        let (by, at) = (self.writer, self.now);
        let never = Steady(i64::MIN);
        let changed = self.changed.entry(dir).or_insert(Changed {
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
}

impl Shard {
    /// Time has passed.
    pub(crate) fn lease_time(&mut self, env: &Environment<'_>) {
        self.leases.now = self.leases.now.max(env.steady);
        self.leases.table.tick(self.leases.now);
    }

    /// Whether a change of these may be proposed, in the name of `session`.
    pub(crate) fn clear_leases(
        &mut self,
        touched: &[Touched],
        session: Option<SessionId>,
    ) -> Cleared {
        if touched.is_empty() {
            return Cleared::Yes;
        }
        if !self.leases.missing.is_empty() {
            return Cleared::Early;
        }
        let own = |touched: &Touched| (touched.key, session.filter(|_| touched.is_known));
        let wanted: Vec<_> = touched.iter().map(own).collect();
        match self.leases.table.clear(&wanted) {
            None => Cleared::Yes,
            Some(id) => Cleared::Wait(id),
        }
    }

    /// Puts a change aside.
    pub(crate) fn put_aside(&mut self, cleared: &Cleared, input: Input) {
        match cleared {
            Cleared::Yes => unreachable!("what may be proposed does not wait"),
            Cleared::Wait(id) => self.wait(Until::Clear(*id), input),
            Cleared::Early => self.wait(Until::Leaseholders, input),
        }
    }

    /// Keys that a request touches. `None`: that is not known before what is proposed is applied.
    pub(crate) fn touched(
        &self,
        view: &View<'_>,
        request: &Request,
        plan: Option<&Plan>,
        choices: &pandofs_namespace::Choices,
    ) -> Result<Option<Vec<Touched>>, Stop> {
        if !self.leases.is_used() {
            return Ok(Some(Vec::new()));
        }
        let is_changing = |key| self.leases.changing.contains_key(key);
        if !self.leases.changing.is_empty()
            && ops::operation(request)
                .depends(view)
                .iter()
                .any(is_changing)
        {
            return Ok(None);
        }
        touches::of_request(view, request, plan, choices).map(Some)
    }

    /// Recalls what steps of another shard's operation touch; whether the message may be proposed. If not it
    /// is put aside.
    pub(crate) fn clear_steps<'a>(
        &mut self,
        view: &View<'_>,
        steps: impl Iterator<Item = &'a Step>,
        from: ShardId,
        horizon: &Horizon,
        message: &CommitMessage,
    ) -> Option<Vec<LeaseKey>> {
        if !self.leases.is_used() {
            return Some(Vec::new());
        }
        if self.waiting.has_message(from, message) {
            // It came again.
            return None;
        }
        let keys: Vec<LeaseKey> = steps
            .flat_map(|step| steps::of(step).touches(view))
            .collect();
        let is_known = false;
        let touched: Vec<_> = keys.iter().map(|&key| Touched { key, is_known }).collect();
        let cleared = self.clear_leases(&touched, None);
        if cleared == Cleared::Yes {
            return Some(keys);
        }
        let to = self.config.shard;
        let message = PeerMessage::Commit {
            from,
            to,
            horizon: horizon.clone(),
            held: None,
            message: message.clone(),
        };
        self.put_aside(&cleared, Input::Peer(message));
        None
    }

    /// As [`Shard::propose`], for a record that changes these.
    pub(crate) fn propose_change(&mut self, record: &Record, keys: Vec<LeaseKey>) {
        self.propose(record);
        if !keys.is_empty() {
            for key in &keys {
                *self.leases.changing.entry(*key).or_default() += 1;
            }
            self.leases.proposed.push_back((self.proposed, keys));
        }
    }

    /// A record is about to be applied.
    pub(crate) fn begin_change(&mut self, index: u64) {
        self.leases.writer = None;
        if self
            .leases
            .proposed
            .front()
            .is_some_and(|(of, _)| *of == index)
            && let Some((_, keys)) = self.leases.proposed.pop_front()
        {
            for key in keys {
                if let Some(count) = self.leases.changing.get_mut(&key) {
                    *count -= 1;
                    if *count == 0 {
                        self.leases.changing.remove(&key);
                    }
                }
            }
        }
    }

    /// A record was applied: what it wrote nobody else believes in.
    ///
    /// # Panics
    /// When somebody has a lease of it.
    pub(crate) fn check_leases(&mut self, overlay: &Overlay<'_>, mark: usize) -> Result<(), Stop> {
        if !self.leases.is_used() {
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
            if let LeaseKey::Parts(dir) = leased {
                self.leases.has_changed(dir);
            }
            assert!(
                !self.leases.table.is_held(leased, self.leases.writer),
                "shard {} changes {leased:?} in the name of {:?} and somebody has a lease of it",
                self.config.shard,
                self.leases.writer,
            );
        }
        Ok(())
    }

    /// Names and inodes have come from another shard.
    pub(crate) fn came_here(&mut self) {
        self.leases.not_before = self.proposed;
    }

    /// No leases are given while a half of the directory is about to move; whether there are none left.
    pub(crate) fn close_leases(&mut self, dir: Ino) -> bool {
        if !self.leases.missing.is_empty() {
            return false;
        }
        self.leases.moving.insert(dir);
        self.leases.table.close()
    }

    /// The directory's half has moved, or is locked, or stays.
    pub(crate) fn open_leases(&mut self, dir: Ino) {
        if self.leases.moving.remove(&dir) && self.leases.moving.is_empty() {
            self.leases.table.open();
        }
    }

    /// Leases of an answer. To be called when the state is what is answered.
    pub(crate) fn lease(
        &mut self,
        request: &ShardRequest,
        result: &Result<Reply, Refusal>,
    ) -> Vec<Leased> {
        let session = request.key.session;
        if !self.leases.takers.contains(&session) || self.meta.applied < self.leases.not_before {
            return Vec::new();
        }
        if !self.leases.kept.contains(&session) {
            if leases_anything(result) && self.leases.keeping.insert(session) {
                self.propose(&Record::Leaseholder { session, has: true });
            }
            return Vec::new();
        }
        let mut leased = Vec::new();
        match (&request.request, result) {
            (Request::Lookup(op::Lookup { dir, name }), Err(Refusal::Fs(FsError::NotFound))) => {
                leased.push(self.lease_entry(session, *dir, name, None));
            }
            (request, Ok(Reply::Entry(entry))) => {
                leased.push(match request.operation().answers_name() {
                    Some((dir, name)) => {
                        let both = self.lease_entry(session, dir, name, Some(entry.kind));
                        match entry.inode.is_some() && entry.shard == self.config.shard {
                            true => both.and(self.lease_inode(session, entry.ino, entry.kind)),
                            false => both,
                        }
                    }
                    None => self.lease_inode(session, entry.ino, entry.kind),
                });
            }
            (_, Ok(Reply::Inode(inode))) => {
                leased.push(self.lease_inode(session, inode.attr.ino, inode.attr.kind));
            }
            (Request::DirPart(op::DirPart { dir }), Ok(Reply::Part(_))) => {
                let granted = self.grant(session, LeaseKey::Parts(*dir), true);
                leased.push(as_leased(Leased::ATTRIBUTES, granted));
            }
            (
                Request::ReadDir(op::ReadDir {
                    dir, plus: true, ..
                }),
                Ok(Reply::Entries(listed)),
            ) => {
                for entry in &listed.entries {
                    let mut both = self.lease_entry(session, *dir, &entry.name, Some(entry.kind));
                    if entry.inode.is_some() {
                        both = both.and(self.lease_inode(session, entry.ino, entry.kind));
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
        session: SessionId,
        dir: Ino,
        name: &Name,
        kind: Option<FileKind>,
    ) -> Leased {
        let position = self.config.map.hash_key.position(name.as_bytes());
        let lasts = kind == Some(FileKind::Dir);
        let granted = self.grant(session, LeaseKey::Entry { dir, position }, lasts);
        as_leased(Leased::ENTRY, granted)
    }

    fn lease_inode(&mut self, session: SessionId, ino: Ino, kind: FileKind) -> Leased {
        let lasts = kind == FileKind::Dir;
        // Who has a lease may write, and what is written now would be cut away with the rest.
        if self.reclaims.is_truncating(ino) {
            return Leased::NOTHING;
        }
        if lasts && self.grant(session, LeaseKey::Parts(ino), lasts).is_none() {
            return Leased::NOTHING;
        }
        let granted = self.grant(session, LeaseKey::Inode(ino), lasts);
        as_leased(Leased::ATTRIBUTES, granted)
    }

    /// Directories are on everybody's way, and leases of them last.
    fn grant(&mut self, session: SessionId, key: LeaseKey, lasts: bool) -> Option<Term> {
        if self.leases.changing.contains_key(&key) || self.locks.covers(key) {
            return None;
        }
        if let LeaseKey::Parts(dir) = key
            && self.leases.is_busy(dir, session)
        {
            return None;
        }
        self.leases.table.grant(session, key, lasts)
    }

    /// Sends recalls, and lets those go on that wait no longer.
    pub(crate) fn lease_events(&mut self) {
        for recall in self.leases.table.take_recalls() {
            self.push_output(Output::Recall(recall));
        }
        for id in self.leases.table.take_clear() {
            self.waiting.release(Until::Clear(id));
        }
    }

    /// The session takes leases from now on, and has none.
    pub(crate) fn takes_leases(&mut self, session: SessionId) {
        if self.leases.takers.is_empty() {
            // What was proposed before nobody looked at.
            self.leases.not_before = self.leases.not_before.max(self.proposed);
        }
        self.leases.takers.insert(session);
        self.leases.table.drop_session(session);
        self.is_back(session);
    }

    pub(crate) fn recall_answered(&mut self, session: SessionId, number: u64) {
        self.leases.table.answered(session, number);
    }

    pub(crate) fn leaseholder_gone(&mut self, session: SessionId) {
        self.leases.takers.remove(&session);
        self.leases.table.drop_session(session);
        if self.leases.kept.remove(&session) | self.leases.keeping.remove(&session) {
            self.propose(&Record::Leaseholder {
                session,
                has: false,
            });
        }
        self.is_back(session);
    }

    /// The session has no leases of before the restart.
    fn is_back(&mut self, session: SessionId) {
        if self.leases.missing.remove(&session) && self.leases.missing.is_empty() {
            self.waiting.release(Until::Leaseholders);
        }
    }

    pub(crate) fn apply_leaseholder(
        &mut self,
        overlay: &mut Overlay<'_>,
        session: SessionId,
        has: bool,
    ) {
        let here = self.config.shard;
        if !has {
            overlay.delete(keys::leaseholder(here, session));
            return;
        }
        overlay.put(keys::leaseholder(here, session), vec![1]);
        if !self.replaying {
            self.when_durable(Input::LeaseholderKept { session });
        }
    }

    pub(crate) fn leaseholder_kept(&mut self, session: SessionId) {
        if self.leases.keeping.remove(&session) {
            self.leases.kept.insert(session);
        }
    }

    pub(crate) fn recover_leases(
        &mut self,
        overlay: &Overlay<'_>,
        env: &Environment<'_>,
    ) -> Result<(), Stop> {
        let config = self.config.clone();
        let prefix = keys::prefix(keys::Kind::Leaseholder, config.shard);
        let mut found = BTreeSet::new();
        view_of(&config, overlay, false).scan_prefix(&prefix, &mut |key, _| {
            let session = keys::parse_ino(key)
                .ok_or_else(|| Stop::Broken("a leaseholder's key is short".to_string()))?;
            found.insert(SessionId(session.0));
            Ok(ControlFlow::Continue(()))
        })?;
        self.leases.now = env.steady;
        self.leases.grace = self.leases.until();
        for &session in &found {
            self.push_output(Output::Watch { session });
        }
        self.leases.kept = found.clone();
        self.leases.missing = found;
        Ok(())
    }

    pub(crate) fn tick_leases(&mut self) {
        let now = self.leases.now;
        if !self.leases.missing.is_empty() && now >= self.leases.grace {
            for session in self.leases.missing.clone() {
                self.leases.kept.remove(&session);
                self.propose(&Record::Leaseholder {
                    session,
                    has: false,
                });
                self.is_back(session);
            }
        }
        let quiet = LEASE_QUIET.as_nanos() as i64;
        self.leases
            .changed
            .retain(|_, changed| changed.at.0.saturating_add(quiet) > now.0);
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
fn as_leased(what: Leased, granted: Option<Term>) -> Leased {
    match granted {
        None => Leased::NOTHING,
        Some(term) => what.within(term),
    }
}

/// Keys of what was touched.
pub(crate) fn keys_of(touched: Vec<Touched>) -> Vec<LeaseKey> {
    touched.into_iter().map(|touched| touched.key).collect()
}
