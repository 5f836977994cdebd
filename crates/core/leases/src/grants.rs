//! Grants of one shard by session: those of a session end together.

use hashbrown::HashMap;
use pandofs_types::{Ino, SessionId, Steady};
use std::collections::BTreeSet;

/// Grants of one session. They are kept until their time is up although there is no directory: the session may have made
/// one elsewhere that is to be added.
#[derive(Debug)]
struct OfSession {
    until: Steady,
    incarnation: u64,
    dirs: BTreeSet<Ino>,
}

/// Directories that sessions were granted, each by one of them.
#[derive(Debug, Default)]
pub(crate) struct Grants {
    sessions: HashMap<SessionId, OfSession>,
    ends: BTreeSet<(Steady, SessionId)>,
    count: usize,
}

impl Grants {
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn incarnation(&self, session: SessionId) -> Option<u64> {
        Some(self.sessions.get(&session)?.incarnation)
    }

    /// The incarnation of the session's grants, which begin as `fresh` if it has had none.
    pub(crate) fn begin(&mut self, session: SessionId, until: Steady, fresh: u64) -> u64 {
        let known = self.sessions.entry(session).or_insert_with(|| {
            self.ends.insert((until, session));
            OfSession {
                until,
                incarnation: fresh,
                dirs: BTreeSet::new(),
            }
        });
        known.incarnation
    }

    /// Adds a directory, which nobody was granted, to those of the session; returns the incarnation of its grants, `fresh`
    /// if it has had none.
    pub(crate) fn add(&mut self, session: SessionId, dir: Ino, until: Steady, fresh: u64) -> u64 {
        let incarnation = self.begin(session, until, fresh);
        let known = self.sessions.get_mut(&session);
        let is_new = known.is_some_and(|known| known.dirs.insert(dir));
        assert!(is_new, "{dir} is granted twice");
        self.count += 1;
        incarnation
    }

    /// Has the grants of a session that has some last until then.
    pub(crate) fn renew(&mut self, session: SessionId, until: Steady) {
        if let Some(known) = self.sessions.get_mut(&session)
            && known.until < until
        {
            self.ends.remove(&(known.until, session));
            self.ends.insert((until, session));
            known.until = until;
        }
    }

    /// A grant is over.
    pub(crate) fn remove(&mut self, session: SessionId, dir: Ino) {
        let Some(known) = self.sessions.get_mut(&session) else {
            panic!("session {session:?} has no grants");
        };
        assert!(known.dirs.remove(&dir), "{dir} is not granted");
        self.count -= 1;
    }

    /// The time of a session that has no directory is up.
    pub(crate) fn forget(&mut self, session: SessionId) {
        if let Some(known) = self.sessions.remove(&session) {
            assert!(known.dirs.is_empty(), "session {session:?} has grants");
            self.ends.remove(&(known.until, session));
        }
    }

    /// A session whose time is up, and all that it was granted.
    pub(crate) fn ended(&self, now: Steady) -> Option<(SessionId, Vec<Ino>)> {
        let &(until, session) = self.ends.first()?;
        let is_over = until <= now;
        is_over.then(|| (session, self.dirs(session)))
    }

    /// All that a session was granted, in order.
    pub(crate) fn dirs(&self, session: SessionId) -> Vec<Ino> {
        let known = self.sessions.get(&session).into_iter();
        known.flat_map(|known| &known.dirs).copied().collect()
    }
}
