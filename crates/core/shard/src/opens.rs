//! Table of open inodes, by session.
//!
//! Lost with the process; clients tell again when they see that the server
//! restarted.

use hashbrown::{HashMap, HashSet};
use pandofs_api::RequestKey;
use pandofs_types::{Ino, SessionId, SlotId};

/// How often each session has each inode open.
#[derive(Debug, Default)]
pub(crate) struct Opens {
    by_ino: HashMap<Ino, HashMap<SessionId, u32>>,
    /// By which request each slot opened a file last. (Those that truncate are recorded in the slots themselves.)
    last: HashMap<SessionId, HashMap<SlotId, u64>>,
    /// Inodes that a proposed record takes to be closed.
    to_close: HashSet<Ino>,
    /// Inodes that a proposed record opens.
    to_open: HashSet<Ino>,
}

impl Opens {
    /// A record is proposed that takes these to be closed: none may be opened before it is applied.
    pub(crate) fn will_close(&mut self, inos: &[Ino]) {
        self.to_close.extend(inos);
    }

    /// A record is proposed that opens this: it may not be taken to be closed.
    pub(crate) fn will_open(&mut self, ino: Ino) {
        self.to_open.insert(ino);
    }

    pub(crate) fn is_to_close(&self, ino: Ino) -> bool {
        self.to_close.contains(&ino)
    }

    pub(crate) fn is_to_open(&self, ino: Ino) -> bool {
        self.to_open.contains(&ino)
    }

    /// All that was proposed is applied.
    pub(crate) fn all_applied(&mut self) {
        self.to_close.clear();
        self.to_open.clear();
    }

    /// Once for each request, however often it comes: one whose answer was lost is sent again, and a copy of it may be found
    /// in a connection that the client gave up long ago. Counted twice, the file would stay until the session ends.
    pub(crate) fn open(&mut self, ino: Ino, key: RequestKey) {
        let of_session = self.last.entry(key.session).or_default();
        let last = of_session.insert(key.slot, key.sequence);
        match last.filter(|&last| last >= key.sequence) {
            Some(last) => {
                of_session.insert(key.slot, last);
            }
            None => self.add(ino, key.session, 1),
        }
    }

    pub(crate) fn add(&mut self, ino: Ino, session: SessionId, count: u32) {
        if count > 0 {
            let opens = self
                .by_ino
                .entry(ino)
                .or_default()
                .entry(session)
                .or_default();
            *opens = opens.saturating_add(count);
        }
    }

    /// After a restart a session tells what it has open. Its opens here since may be among them, or
    /// have come later: the larger count is the one that keeps the inode.
    pub(crate) fn tell_again(&mut self, ino: Ino, session: SessionId, count: u32) {
        if count > 0 {
            let opens = self
                .by_ino
                .entry(ino)
                .or_default()
                .entry(session)
                .or_default();
            *opens = (*opens).max(count);
        }
    }

    /// One open less; whether nobody has it open now.
    pub(crate) fn release(&mut self, ino: Ino, session: SessionId) -> bool {
        let Some(sessions) = self.by_ino.get_mut(&ino) else {
            return true;
        };
        if let Some(opens) = sessions.get_mut(&session) {
            *opens -= 1;
            if *opens == 0 {
                sessions.remove(&session);
            }
        }
        if sessions.is_empty() {
            self.by_ino.remove(&ino);
            return true;
        }
        false
    }

    /// A session is gone; the inodes that nobody has open now.
    pub(crate) fn drop_session(&mut self, session: SessionId) -> Vec<Ino> {
        let mut closed = Vec::new();
        self.last.remove(&session);
        self.by_ino.retain(|ino, sessions| {
            if sessions.remove(&session).is_some() && sessions.is_empty() {
                closed.push(*ino);
            }
            !sessions.is_empty()
        });
        closed.sort();
        closed
    }

    pub(crate) fn is_open(&self, ino: Ino) -> bool {
        self.by_ino.contains_key(&ino)
    }

    pub(crate) fn is_open_by_others(&self, ino: Ino, session: SessionId) -> bool {
        let sessions = self.by_ino.get(&ino);
        sessions.is_some_and(|sessions| sessions.keys().any(|other| *other != session))
    }

    /// Sessions that have these open, in a fixed order.
    pub(crate) fn of(&self, inos: impl Iterator<Item = Ino>) -> Vec<(Ino, SessionId, u32)> {
        let mut found: Vec<_> = inos
            .filter_map(|ino| Some((ino, self.by_ino.get(&ino)?)))
            .flat_map(|(ino, sessions)| sessions.iter().map(move |(s, n)| (ino, *s, *n)))
            .collect();
        found.sort();
        found
    }

    /// These inodes live on another shard now.
    pub(crate) fn forget(&mut self, inos: &[Ino]) {
        for ino in inos {
            self.by_ino.remove(ino);
        }
    }

    /// How many sessions have these open, counted for each inode.
    pub(crate) fn count<'a>(&self, inos: impl Iterator<Item = &'a Ino>) -> usize {
        inos.filter_map(|ino| self.by_ino.get(ino))
            .map(HashMap::len)
            .sum()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_ino.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_comes_again_opens_nothing() {
        let mut opens = Opens::default();
        let key = |slot, sequence| RequestKey {
            session: SessionId(7),
            slot: SlotId(slot),
            sequence,
        };
        for key in [
            key(1, 5),
            key(1, 5),
            key(2, 5),
            key(1, 6),
            key(1, 5),
            key(1, 6),
        ] {
            opens.open(Ino(1), key);
        }
        assert_eq!(opens.of([Ino(1)].into_iter()), [(Ino(1), SessionId(7), 3)]);
        // It tells of all that it has open when it is back.
        opens.drop_session(SessionId(7));
        assert!(opens.last.is_empty());
    }

    #[test]
    fn the_last_release_closes() {
        let mut opens = Opens::default();
        opens.add(Ino(1), SessionId(7), 2);
        opens.add(Ino(1), SessionId(8), 1);
        assert!(!opens.release(Ino(1), SessionId(7)));
        assert_eq!(opens.drop_session(SessionId(8)), []);
        assert!(opens.is_open(Ino(1)));
        assert!(opens.is_open_by_others(Ino(1), SessionId(8)));
        assert!(!opens.is_open_by_others(Ino(1), SessionId(7)));
        assert!(!opens.is_open_by_others(Ino(2), SessionId(8)));
        assert!(opens.release(Ino(1), SessionId(7)));
        assert!(!opens.is_open(Ino(1)));
        opens.tell_again(Ino(2), SessionId(7), 3);
        assert_eq!(opens.of([Ino(2)].into_iter()), [(Ino(2), SessionId(7), 3)]);
        assert_eq!(opens.drop_session(SessionId(7)), [Ino(2)]);
        assert_eq!(opens.len(), 0);
    }
}
