//! Grants of one shard by session: those of a session end together.

use hashbrown::HashMap;
use pandofs_types::{Ino, SessionId, Steady};
use std::collections::{BTreeMap, BTreeSet};

/// Grants of one session. They are kept although there is no directory: the session may have made one elsewhere that is to be
/// added; and when their time is up, until somebody else wants one of them.
#[derive(Debug)]
struct OfSession {
    until: Steady,
    incarnation: u64,
    dirs: BTreeSet<Ino>,
    /// Those of `dirs` that somebody else wants, and since when.
    wanted: BTreeMap<Ino, Steady>,
    /// The same in the order in which they came to be wanted.
    wanted_since: BTreeSet<(Steady, Ino)>,
    /// Their time is up, somebody else wants one, and nobody is let in yet.
    is_over: bool,
}

/// Directories that sessions were granted, each by one of them.
#[derive(Debug, Default)]
pub(crate) struct Grants {
    sessions: HashMap<SessionId, OfSession>,
    ends: BTreeSet<(Steady, SessionId)>,
    /// Sessions with something that somebody else wants.
    wanted: BTreeSet<SessionId>,
    count: usize,
}

impl Grants {
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn incarnation(&self, session: SessionId) -> Option<u64> {
        let known = self.sessions.get(&session)?;
        (!known.is_over).then_some(known.incarnation)
    }

    /// Whether the time of the session's grants is up, and they are still to end.
    pub(crate) fn are_over(&self, session: SessionId) -> bool {
        let known = self.sessions.get(&session);
        known.is_some_and(|known| known.is_over)
    }

    /// The incarnation of the session's grants, which begin as `fresh` if it has had none.
    pub(crate) fn begin(&mut self, session: SessionId, until: Steady, fresh: u64) -> u64 {
        let known = self.sessions.entry(session).or_insert_with(|| {
            self.ends.insert((until, session));
            OfSession {
                until,
                incarnation: fresh,
                dirs: BTreeSet::new(),
                wanted: BTreeMap::new(),
                wanted_since: BTreeSet::new(),
                is_over: false,
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
            && !known.is_over
        {
            self.ends.remove(&(known.until, session));
            self.ends.insert((until, session));
            known.until = until;
        }
    }

    /// Somebody else wants a directory of the session.
    pub(crate) fn want(&mut self, session: SessionId, dir: Ino, now: Steady) {
        if let Some(known) = self.sessions.get_mut(&session) {
            let since = *known.wanted.entry(dir).or_insert(now);
            known.wanted_since.insert((since, dir));
            if !known.is_over {
                self.wanted.insert(session);
            }
        }
    }

    /// The moment since when somebody else has wanted one of the session's directories.
    pub(crate) fn wanted_since(&self, session: SessionId) -> Option<Steady> {
        let known = self.sessions.get(&session)?;
        known.wanted_since.first().map(|(since, _)| *since)
    }

    /// A grant is over, which somebody else wanted or not.
    pub(crate) fn remove(&mut self, session: SessionId, dir: Ino) {
        let Some(known) = self.sessions.get_mut(&session) else {
            panic!("session {session:?} has no grants");
        };
        if let Some(since) = known.wanted.remove(&dir) {
            known.wanted_since.remove(&(since, dir));
        }
        if known.wanted.is_empty() {
            self.wanted.remove(&session);
        }
        assert!(known.dirs.remove(&dir), "{dir} is not granted");
        self.count -= 1;
    }

    /// A session that has no directory is to be forgotten.
    pub(crate) fn forget(&mut self, session: SessionId) {
        if let Some(known) = self.sessions.remove(&session) {
            assert!(known.dirs.is_empty(), "session {session:?} has grants");
            self.ends.remove(&(known.until, session));
            self.wanted.remove(&session);
        }
    }

    /// A session whose time is up and of which somebody else wants a directory: given once.
    pub(crate) fn take_over(&mut self, now: Steady) -> Option<SessionId> {
        let is_up = |session: &&SessionId| {
            let known = self.sessions.get(*session);
            known.is_some_and(|known| known.until <= now)
        };
        let session = *self.wanted.iter().find(is_up)?;
        self.set_over(session);
        Some(session)
    }

    /// Sessions whose time is up, whether anybody wants something of theirs or not: each given once.
    pub(crate) fn take_idle(&mut self, now: Steady) -> Vec<SessionId> {
        let up = self.ends.iter().take_while(|(until, _)| *until <= now);
        let idle: Vec<SessionId> = up.map(|(_, session)| *session).collect();
        idle.iter().for_each(|session| self.set_over(*session));
        idle
    }

    fn set_over(&mut self, session: SessionId) {
        self.wanted.remove(&session);
        if let Some(known) = self.sessions.get_mut(&session) {
            self.ends.remove(&(known.until, session));
            known.is_over = true;
        }
    }

    /// All that a session was granted, in order.
    pub(crate) fn dirs(&self, session: SessionId) -> Vec<Ino> {
        let known = self.sessions.get(&session).into_iter();
        known.flat_map(|known| &known.dirs).copied().collect()
    }
}
