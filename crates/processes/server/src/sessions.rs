//! Sessions of clients that a server knows to be alive.

use pandofs_types::SessionId;
use pandofs_types::limits::SESSION_TIMEOUT;
use std::collections::HashMap;
use std::time::Instant;

/// Each session that was heard of. A session may have several connections, or none for a while.
#[derive(Debug)]
pub(crate) struct Sessions {
    known: HashMap<SessionId, Known>,
    /// How many became known so far.
    count: u64,
    /// When silence was last looked for.
    last_look: Instant,
}

#[derive(Debug)]
struct Known {
    /// How many were known before it and with it when it became known: another number after it was forgotten.
    since: u64,
    last_heard: Instant,
    /// The largest of its connections.
    generation: u64,
}

impl Sessions {
    pub(crate) fn new(now: Instant) -> Sessions {
        Sessions {
            known: HashMap::new(),
            count: 0,
            last_look: now,
        }
    }

    /// Notes that the session sent something. Answers with the number of when it became known, which is another one
    /// whenever it had been forgotten in between: never 0.
    pub(crate) fn heard(&mut self, session: SessionId, now: Instant) -> u64 {
        let known = self.known(session, now);
        known.last_heard = now;
        known.since
    }

    /// A session that may never have been here has something here: it counts as heard of now, unless it has
    /// been.
    pub(crate) fn expect(&mut self, session: SessionId, now: Instant) {
        self.known(session, now);
    }

    /// Whether the session may open a connection of this generation: it has opened none of a larger one.
    pub(crate) fn is_current(&self, session: SessionId, generation: u64) -> bool {
        let known = self.known.get(&session);
        known.is_none_or(|known| known.generation <= generation)
    }

    /// The session opens a connection of this generation, which is current.
    pub(crate) fn begin_generation(&mut self, session: SessionId, generation: u64, now: Instant) {
        self.known(session, now).generation = generation;
    }

    fn known(&mut self, session: SessionId, now: Instant) -> &mut Known {
        let count = &mut self.count;
        self.known.entry(session).or_insert_with(|| {
            *count += 1;
            Known {
                since: *count,
                last_heard: now,
                generation: 0,
            }
        })
    }

    /// Forgets a session; answers whether it was known.
    pub(crate) fn remove(&mut self, session: SessionId) -> bool {
        self.known.remove(&session).is_some()
    }

    /// Forgets the sessions that have been silent for [`SESSION_TIMEOUT`], and gives them. To be called
    /// every second or so: a server that itself stood still (a stopped process, a suspended machine)
    /// has heard no client, and starts counting afresh.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<SessionId> {
        let stood_still = now.saturating_duration_since(self.last_look) >= SESSION_TIMEOUT / 4;
        self.last_look = now;
        if stood_still {
            let all = self.known.values_mut();
            all.for_each(|known| known.last_heard = now);
        }
        let silence = |known: &Known| now.saturating_duration_since(known.last_heard);
        let gone = self
            .known
            .extract_if(|_, known| silence(known) >= SESSION_TIMEOUT);
        gone.map(|(session, _)| session).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const SECOND: Duration = Duration::from_secs(1);

    /// Looks every second until `until`; gives who expired, and after how many seconds.
    fn look(sessions: &mut Sessions, start: Instant, until: u64) -> Vec<(u64, SessionId)> {
        let mut seen = Vec::new();
        let from = sessions.last_look.duration_since(start).as_secs() + 1;
        for second in from..=until {
            let gone = sessions.expire(start + SECOND * second as u32);
            seen.extend(gone.into_iter().map(|session| (second, session)));
        }
        seen
    }

    #[test]
    fn only_the_silent_expire_and_only_once() {
        let start = Instant::now();
        let timeout = SESSION_TIMEOUT.as_secs();
        let mut sessions = Sessions::new(start);
        for session in 1..=3 {
            sessions.heard(SessionId(session), start);
        }
        assert!(look(&mut sessions, start, timeout - 10).is_empty());
        sessions.heard(SessionId(2), start + SESSION_TIMEOUT - SECOND * 10);
        assert!(sessions.remove(SessionId(3)));
        assert!(!sessions.remove(SessionId(3)));
        assert_eq!(
            look(&mut sessions, start, timeout + 5),
            [(timeout, SessionId(1))]
        );
        assert_eq!(sessions.len(), 1);
        assert_eq!(
            look(&mut sessions, start, 3 * timeout),
            [(2 * timeout - 10, SessionId(2))]
        );
    }

    #[test]
    fn a_session_that_was_forgotten_is_known_anew() {
        let start = Instant::now();
        let mut sessions = Sessions::new(start);
        let first = sessions.heard(SessionId(1), start);
        let other = sessions.heard(SessionId(2), start);
        assert!(first != 0 && other != 0);
        assert_eq!(sessions.heard(SessionId(1), start + SECOND), first);
        let timeout = SESSION_TIMEOUT.as_secs();
        assert_eq!(look(&mut sessions, start, timeout + 1).len(), 2);
        sessions.expect(SessionId(1), start);
        let again = sessions.heard(SessionId(1), start);
        assert!(again != first && again != other);
        assert!(sessions.remove(SessionId(1)));
        assert_ne!(sessions.heard(SessionId(1), start), again);
    }

    #[test]
    fn nobody_expires_because_the_server_stood_still() {
        let start = Instant::now();
        let mut sessions = Sessions::new(start);
        sessions.heard(SessionId(1), start);
        let woken = 10 * SESSION_TIMEOUT.as_secs();
        assert!(sessions.expire(start + SECOND * woken as u32).is_empty());
        let until = woken + SESSION_TIMEOUT.as_secs();
        assert_eq!(look(&mut sessions, start, until), [(until, SessionId(1))]);
    }
}
