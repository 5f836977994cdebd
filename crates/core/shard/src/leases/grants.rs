//! Grants among the leases of a shard: who may get one, and who waits for its end.
//!
//! The session that has a directory changes it before this shard hears of it. So nothing of the directory is read or changed
//! here for anybody else before the grant has ended: the session has given it up, after all that it did under it was executed
//! here, or has not renewed it for [`LEASE`] and somebody else wants it. Each key of a directory that is changed stands for its
//! grant, too; and a request that names a directory has the grants of others end before it is looked at, as what is stored here
//! is not how the directory is.
//!
//! Grants that are not renewed in time last on until somebody else wants one of them. Then they are over for their session at
//! once: what it has executed under them and sends from then on is refused, or it would go over what others do. These are let
//! in when it is on disk that the session has none. (If they were before: A makes a name under a grant and stands still; its
//! time is up, and B makes the same name; this shard restarts and takes A for one that has grants of before; A goes on, and
//! what it did is executed over what B did.)
//!
//! After a restart that holds as well: sessions that may have had grants are on disk with the incarnation of these, and whoever
//! looks at names waits for them as changes do for leases.

use super::{Changed, Cleared, Leases, note};
use crate::commands::Commands;
use crate::record::Record;
use crate::sessions::Holders;
use crate::waiting::Until;
use hashbrown::HashMap;
use pandofs_namespace::touches::Touched;
use pandofs_types::limits::{
    GRANT_RECALLS_TERM, LEASE, LEASE_QUIET, MAX_GRANT_QUIET, MAX_GRANTS_PER_SHARD,
};
use pandofs_types::{Ino, LeaseKey, SessionId, Steady};
use std::collections::BTreeMap;
use std::time::Duration;

/// Sessions that may have grants, and directories that had better not be granted.
#[derive(Debug, Default)]
pub(super) struct Grants {
    pub holders: Holders,
    /// Of the grants that each holder has, may have had before a restart, or will have.
    pub incarnations: BTreeMap<SessionId, u64>,
    /// Only planted: what was executed under grants that are over is executed.
    pub takes_late: bool,
    /// Sessions that were leased something of a directory, in the last [`LEASE`].
    leased: HashMap<Ino, Changed>,
    /// Directories of which a grant was recalled in the last [`GRANT_RECALLS_TERM`].
    recalled: HashMap<Ino, Recalled>,
}

#[derive(Clone, Copy, Debug)]
struct Recalled {
    at: Steady,
    /// For how long it is granted to nobody.
    quiet: Duration,
}

/// The grant of the directory that the key is of, or would be of if that were one.
pub(super) fn grant_of(key: LeaseKey) -> LeaseKey {
    match key {
        LeaseKey::Entry { dir, .. } | LeaseKey::Parts(dir) => LeaseKey::Grant(dir),
        LeaseKey::Inode(ino) => LeaseKey::Grant(ino),
        LeaseKey::Grant(_) => key,
    }
}

impl Grants {
    /// The session is leased this.
    pub(super) fn note_lease(&mut self, key: LeaseKey, session: SessionId, now: Steady) {
        // A lease of a directory's attributes comes with one of its part's.
        if let LeaseKey::Entry { dir, .. } | LeaseKey::Parts(dir) = key {
            note(&mut self.leased, dir, Some(session), now);
        }
    }

    /// A grant is recalled. So many are noted as there may be.
    pub(super) fn note_recall(&mut self, dir: Ino, now: Steady) {
        let known = self.recalled.get(&dir).copied();
        if known.is_none() && self.recalled.len() >= MAX_GRANTS_PER_SHARD {
            return;
        }
        let quiet = known
            .filter(|known| now < known.at.after(GRANT_RECALLS_TERM))
            .map_or(LEASE_QUIET, |known| (known.quiet * 2).min(MAX_GRANT_QUIET));
        self.recalled.insert(dir, Recalled { at: now, quiet });
    }

    pub(super) fn tick(&mut self, now: Steady) {
        self.leased.retain(|_, leased| now < leased.at.after(LEASE));
        self.recalled
            .retain(|_, recalled| now < recalled.at.after(GRANT_RECALLS_TERM));
    }

    /// Whether others have looked at the directory, or wanted it, too lately.
    fn is_of_others(&self, dir: Ino, session: SessionId, now: Steady) -> bool {
        let leased = self.leased.get(&dir);
        let is_leased = leased.is_some_and(|leased| {
            let own = leased.by == Some(session);
            let at = if own { leased.others_at } else { leased.at };
            now < at.after(LEASE)
        });
        let recalled = self.recalled.get(&dir);
        is_leased || recalled.is_some_and(|recalled| now < recalled.at.after(recalled.quiet))
    }
}

impl Leases {
    /// Has grants of these directories that others have end; whether there are none.
    pub(crate) fn end_grants(
        &mut self,
        dirs: impl Iterator<Item = Ino>,
        session: SessionId,
    ) -> Cleared {
        let are_missing = self.grants.holders.others_are_missing(session);
        if self.table.grants() == 0 && !are_missing {
            return Cleared::Yes;
        }
        let wanted: Vec<_> = dirs
            .map(|dir| (LeaseKey::Grant(dir), Some(session)))
            .collect();
        if are_missing && !wanted.is_empty() {
            return Cleared::Early;
        }
        match self.table.clear(&wanted) {
            None => Cleared::Yes,
            Some(id) => Cleared::Wait(id),
        }
    }

    /// As [`Leases::clear`], for what the session has executed itself under grants: it knows of all of it.
    ///
    /// After a restart it does not wait for sessions that have not come back if it is one of them. It did this under
    /// grants of before: nobody else had leases of it then, and nobody was given any while the grants lasted. (If it waited:
    /// A makes a name under a grant; this shard restarts; B has leases of something else and is gone for good; A, which
    /// comes back only when what it did is here, waits 10 s for B. Had B been leased something of it, it would have been after
    /// the end of A's grants, and A would be none of those that are waited for.)
    pub(crate) fn clear_batch(&mut self, touched: &[Touched], session: SessionId) -> Cleared {
        if self.holders.are_missing() && !self.holders.is_missing(session) {
            return Cleared::Early;
        }
        self.clear_table(touched, Some(session))
    }

    /// As [`Leases::clear`], for a step that the session has done under grants that are over: others may have been let in since,
    /// so that all leases and grants of it end, the session's own as well. (A removes a directory early and is cut off; B is
    /// granted it, makes a file in it, and the shard restarts before it hears of the file: as A's own the removal would wait
    /// for nobody, and B's file would be lost.)
    ///
    /// After a restart the session itself is not waited for: it may come back only when the step is done.
    pub(crate) fn clear_late(&mut self, touched: &[Touched], session: SessionId) -> Cleared {
        if self.holders.others_are_missing(session) {
            return Cleared::Early;
        }
        self.clear_table(touched, None)
    }

    /// Whether a record that is proposed changes any of these.
    pub(crate) fn are_changing(&self, mut keys: impl Iterator<Item = LeaseKey>) -> bool {
        !self.changing.is_empty() && keys.any(|key| self.changing.contains_key(&key))
    }

    /// The incarnation of the grants that the session may have, of which the last record applied is `applied`: it takes leases
    /// and is on disk as one that may have some. If it is not yet, this is proposed, with a `fresh` incarnation.
    pub(crate) fn takes_grants(
        &mut self,
        commands: &mut Commands,
        applied: u64,
        session: SessionId,
        fresh: u64,
    ) -> Option<u64> {
        if !self.takers.contains(&session)
            || applied < self.not_before
            || self.holders.are_missing()
        {
            return None;
        }
        let is_new = |of: &Holders| !of.is_kept(session) && !of.is_being_kept(session);
        if is_new(&self.holders) {
            let has = true;
            let record = commands.propose(&Record::Leaseholder { session, has });
            self.holders.keep(session, record);
        }
        let grants = &mut self.grants;
        if is_new(&grants.holders) {
            let incarnation = Some(fresh);
            let record = commands.propose(&Record::Grantholder {
                session,
                incarnation,
            });
            grants.holders.keep(session, record);
            grants.incarnations.insert(session, fresh);
        }
        let is_kept = self.holders.is_kept(session) && grants.holders.is_kept(session);
        let known = grants.incarnations.get(&session).copied();
        known.filter(|_| is_kept)
    }

    /// Whether it is yet to reach the disk that the session may have leases and grants.
    pub(crate) fn is_being_kept(&self, session: SessionId) -> bool {
        self.holders.is_being_kept(session) || self.grants.holders.is_being_kept(session)
    }

    /// The session has no grants any more; whether a record is to say so, which is proposed.
    pub(super) fn has_no_grants(&mut self, commands: &mut Commands, session: SessionId) -> bool {
        let is_one = self.grants.holders.remove(session);
        if is_one {
            self.grants.incarnations.remove(&session);
            let incarnation = None;
            commands.propose(&Record::Grantholder {
                session,
                incarnation,
            });
            commands.release(Until::Grantholder(session));
        }
        is_one
    }

    /// Whether others look at the directory, or want it.
    pub(crate) fn is_of_others(&self, dir: Ino, session: SessionId) -> bool {
        let grants = &self.grants;
        grants.is_of_others(dir, session, self.now)
            || [LeaseKey::Inode(dir), LeaseKey::Parts(dir)]
                .into_iter()
                .any(|key| self.table.is_held(key, Some(session)))
    }

    /// Whether others have a lease of the inode.
    pub(crate) fn is_leased_to_others(&self, ino: Ino, session: SessionId) -> bool {
        self.table.is_held(LeaseKey::Inode(ino), Some(session))
    }

    /// Whether anybody has the directory.
    pub(crate) fn is_granted(&self, dir: Ino) -> bool {
        self.table.is_held(LeaseKey::Grant(dir), None)
    }

    /// Whether somebody else has the directory.
    pub(crate) fn is_granted_to_others(&self, dir: Ino, session: SessionId) -> bool {
        self.table.grants() > 0 && self.table.is_held(LeaseKey::Grant(dir), Some(session))
    }

    /// See [`LeaseTable::grant_dir`](pandofs_leases::LeaseTable::grant_dir).
    pub(crate) fn grant_dir(&mut self, session: SessionId, dir: Ino, fresh: u64) -> Option<u64> {
        self.table.grant_dir(session, dir, fresh)
    }

    /// See [`LeaseTable::begin_grants`](pandofs_leases::LeaseTable::begin_grants).
    pub(crate) fn begin_grants(&mut self, session: SessionId, fresh: u64) -> Option<u64> {
        self.table.begin_grants(session, fresh)
    }

    /// A directory was made by a session that has executed this under grants.
    pub(crate) fn grant_made(&mut self, session: SessionId, dir: Ino) {
        if self.grants.holders.is_kept(session) {
            self.table.grant_made(session, dir);
        }
    }

    /// Renews the session's grants; returns their incarnation, if it has any.
    pub(crate) fn renew(&mut self, session: SessionId) -> Option<u64> {
        self.table.renew(session)
    }

    /// The same if that is their incarnation; whether they are renewed. (If one that goes on with what was recalled for too
    /// long were told that they are: it goes on believing, and others are let in.)
    pub(crate) fn renew_if(&mut self, session: SessionId, incarnation: u64) -> bool {
        let has = self.table.incarnation(session) == Some(incarnation);
        has && self.renew(session).is_some()
    }

    /// Whether what the session has executed under grants of this incarnation may be executed here: they are not over, or
    /// are the last of before the restart, since when nobody else was let in. (Of the last: A executes something early and
    /// stands still until B is let in; A has grants anew; this shard restarts, and A's first batch comes only now.)
    pub(crate) fn are_in_force(&self, session: SessionId, incarnation: u64) -> bool {
        let is_of_before = self.grants.holders.is_missing(session)
            && self.grants.incarnations.get(&session) == Some(&incarnation);
        self.table.incarnation(session) == Some(incarnation)
            || is_of_before
            || self.grants.takes_late
    }

    /// It is on disk that the session has no grants, and those of which the time is up may end.
    pub(crate) fn grants_are_over(&mut self, session: SessionId) {
        self.table.end_over(session);
    }

    #[cfg(feature = "planted")]
    pub(crate) fn take_late(&mut self) {
        self.grants.takes_late = true;
    }

    /// All up to this record, which says that the session may have grants, is on disk.
    pub(crate) fn grantholder_reached_disk(
        &mut self,
        commands: &mut Commands,
        session: SessionId,
        record: u64,
    ) {
        if self.grants.holders.reached_disk(session, record) {
            commands.release(Until::Grantholder(session));
        }
    }
}
