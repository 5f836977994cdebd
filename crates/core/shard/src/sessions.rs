//! Sessions of clients, as a shard knows them: their last answers, open files, and whether they hold anything.

use crate::answers::Answers;
use crate::grace::Grace;
use crate::opens::Opens;
use pandofs_types::SessionId;
use std::collections::{BTreeMap, BTreeSet};

/// Lost with the process, and told again by clients within the grace.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    pub answers: Answers,
    pub opens: Opens,
    pub grace: Grace,
}

/// Sessions that may hold something of one kind here (locks of files, or leases).
///
/// A session is on disk as one before it is given the first, so that a restarted shard knows whom to wait for.
#[derive(Debug, Default)]
pub(crate) struct Holders {
    kept: BTreeSet<SessionId>,
    /// Not on disk yet, with the index of the record that says it.
    keeping: BTreeMap<SessionId, u64>,
    /// Kept before the restart, and they have not said yet what they hold.
    missing: BTreeSet<SessionId>,
}

impl Holders {
    /// Those that the store has at the start.
    pub(crate) fn recovered(found: BTreeSet<SessionId>) -> Holders {
        Holders {
            kept: found.clone(),
            keeping: BTreeMap::new(),
            missing: found,
        }
    }

    pub(crate) fn is_kept(&self, session: SessionId) -> bool {
        self.kept.contains(&session)
    }

    /// Notes one that came with what it holds from another shard.
    pub(crate) fn add(&mut self, session: SessionId) {
        self.kept.insert(session);
    }

    pub(crate) fn is_being_kept(&self, session: SessionId) -> bool {
        self.keeping.contains_key(&session)
    }

    /// The record with this index is proposed, which says that the session is one.
    pub(crate) fn keep(&mut self, session: SessionId, record: u64) {
        self.keeping.insert(session, record);
    }

    /// All up to this record is on disk; returns whether the session is one from now on.
    ///
    /// The index matters: a session is told to be gone, and comes back. Of the three records, that it is one, is not, and is
    /// again, the first is on disk. Were it given something now, a crash could leave the first two, and nobody would wait
    /// for it.
    pub(crate) fn reached_disk(&mut self, session: SessionId, record: u64) -> bool {
        let is_it = self.keeping.get(&session).is_some_and(|&own| own <= record);
        if is_it {
            self.keeping.remove(&session);
            self.kept.insert(session);
        }
        is_it
    }

    /// The session is gone; returns whether a record is to say so.
    pub(crate) fn remove(&mut self, session: SessionId) -> bool {
        let was_kept = self.kept.remove(&session);
        self.keeping.remove(&session).is_some() || was_kept
    }

    /// Whether some have not said yet what they held before the restart.
    pub(crate) fn are_missing(&self) -> bool {
        !self.missing.is_empty()
    }

    /// Whether there are such besides this one.
    pub(crate) fn others_are_missing(&self, session: SessionId) -> bool {
        self.missing.iter().any(|missing| *missing != session)
    }

    pub(crate) fn is_missing(&self, session: SessionId) -> bool {
        self.missing.contains(&session)
    }

    /// The session has said what it holds, or is gone; returns whether it was the last that was waited for.
    pub(crate) fn came(&mut self, session: SessionId) -> bool {
        self.missing.remove(&session) && self.missing.is_empty()
    }

    /// Gives up waiting; returns those that have not come. They are ones no more.
    pub(crate) fn give_up_missing(&mut self) -> BTreeSet<SessionId> {
        let missing = std::mem::take(&mut self.missing);
        self.kept.retain(|session| !missing.contains(session));
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: SessionId = SessionId(7);
    const B: SessionId = SessionId(8);

    #[test]
    fn a_session_is_kept_by_its_last_record_and_by_no_earlier_one() {
        let mut holders = Holders::default();
        holders.keep(A, 5);
        assert!(holders.is_being_kept(A) && !holders.is_kept(A));
        // It is gone (record 6) and comes back before any of it is on disk.
        assert!(holders.remove(A));
        holders.keep(A, 7);
        assert!(!holders.reached_disk(A, 5));
        assert!(!holders.is_kept(A));
        assert!(holders.reached_disk(A, 7));
        assert!(holders.is_kept(A) && !holders.is_being_kept(A));
        assert!(!holders.reached_disk(A, 7));
        assert!(holders.remove(A) && !holders.remove(A));
    }

    #[test]
    fn the_last_that_comes_ends_the_wait() {
        let mut holders = Holders::recovered([A, B].into());
        assert!(holders.are_missing() && holders.is_missing(A));
        assert!(!holders.came(A) && !holders.came(A));
        assert!(holders.came(B));
        assert!(!holders.are_missing());
        assert!(holders.is_kept(A) && holders.is_kept(B));
    }

    #[test]
    fn who_does_not_come_is_none_any_more() {
        let mut holders = Holders::recovered([A, B].into());
        assert!(!holders.came(A));
        assert_eq!(holders.give_up_missing(), [B].into());
        assert!(!holders.are_missing());
        assert!(holders.is_kept(A) && !holders.is_kept(B));
    }
}
