//! Sessions of clients that a server knows to be alive, and which it has not heard of for too long.

use pandofs_types::{SessionId, Steady};
use std::collections::BTreeMap;
use std::time::Duration;

/// Each session that has sent something. A session may have several connections, or none for a while.
#[derive(Debug)]
pub(crate) struct Sessions {
    known: BTreeMap<SessionId, Known>,
    /// How many became known so far.
    count: u64,
    /// When silence was last looked for.
    last_look: Steady,
    /// Silence after which one is let go of.
    timeout: Duration,
}

#[derive(Debug)]
struct Known {
    /// How many were known before it and with it when it became known: another number after it was forgotten.
    since: u64,
    last_heard: Steady,
    /// The largest of its connections.
    generation: u64,
}

impl Sessions {
    pub(crate) fn new(timeout: Duration, now: Steady) -> Sessions {
        Sessions {
            known: BTreeMap::new(),
            count: 0,
            last_look: now,
            timeout,
        }
    }

    /// Notes that the session sent something. Answers with the number of when it became known, which is another one
    /// whenever it had been forgotten in between: never 0.
    pub(crate) fn heard(&mut self, session: SessionId, now: Steady) -> u64 {
        let known = self.known(session, now);
        known.last_heard = now;
        known.since
    }

    /// A session that may never have been here has something here: it counts as heard of now, unless it has
    /// been.
    pub(crate) fn expect(&mut self, session: SessionId, now: Steady) {
        self.known(session, now);
    }

    /// Whether the session may open a connection of this generation: it has opened none of a larger one.
    pub(crate) fn is_current(&self, session: SessionId, generation: u64) -> bool {
        let known = self.known.get(&session);
        known.is_none_or(|known| known.generation <= generation)
    }

    /// The session opens a connection of this generation, which is current.
    pub(crate) fn begin_generation(&mut self, session: SessionId, generation: u64, now: Steady) {
        self.known(session, now).generation = generation;
    }

    fn known(&mut self, session: SessionId, now: Steady) -> &mut Known {
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

    /// Forgets the sessions that have been silent for too long, and gives them in order. To be called every second or
    /// so: a server that itself stood still (a stopped process, a suspended machine) has heard no client, and starts
    /// counting afresh.
    pub(crate) fn expire(&mut self, now: Steady) -> Vec<SessionId> {
        let stood_still = now.since(self.last_look) >= self.timeout / 4;
        self.last_look = now;
        if stood_still {
            let all = self.known.values_mut();
            all.for_each(|known| known.last_heard = now);
        }
        let is_silent = |known: &Known| now.since(known.last_heard) >= self.timeout;
        let silent = self.known.iter().filter(|(_, known)| is_silent(known));
        let silent: Vec<SessionId> = silent.map(|(session, _)| *session).collect();
        for session in &silent {
            self.known.remove(session);
        }
        silent
    }

    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pandofs_types::limits::SESSION_TIMEOUT;

    const START: Steady = Steady(7);
    const SECOND: Duration = Duration::from_secs(1);

    fn at(seconds: u64) -> Steady {
        START.after(SECOND * seconds as u32)
    }

    fn sessions() -> Sessions {
        Sessions::new(SESSION_TIMEOUT, START)
    }

    /// Looks every second until `until`; gives the sessions that expired, and after how many seconds.
    fn look(sessions: &mut Sessions, until: u64) -> Vec<(u64, SessionId)> {
        let mut seen = Vec::new();
        let from = sessions.last_look.since(START).as_secs() + 1;
        for second in from..=until {
            let gone = sessions.expire(at(second));
            seen.extend(gone.into_iter().map(|session| (second, session)));
        }
        seen
    }

    #[test]
    fn only_the_silent_expire_and_only_once() {
        let timeout = SESSION_TIMEOUT.as_secs();
        let mut sessions = sessions();
        for session in 1..=3 {
            sessions.heard(SessionId(session), START);
        }
        assert_eq!(sessions.len(), 3);
        assert!(look(&mut sessions, timeout - 10).is_empty());
        sessions.heard(SessionId(2), at(timeout - 10));
        assert!(sessions.remove(SessionId(3)));
        assert!(!sessions.remove(SessionId(3)));
        let first = look(&mut sessions, timeout + 5);
        assert_eq!(first, [(timeout, SessionId(1))]);
        assert_eq!(sessions.len(), 1);
        let second = look(&mut sessions, 3 * timeout);
        assert_eq!(second, [(2 * timeout - 10, SessionId(2))]);
    }

    #[test]
    fn a_session_that_was_forgotten_is_known_anew() {
        let mut sessions = sessions();
        let first = sessions.heard(SessionId(1), START);
        let other = sessions.heard(SessionId(2), START);
        assert!(first != 0 && other != 0);
        assert_eq!(sessions.heard(SessionId(1), at(1)), first);
        let timeout = SESSION_TIMEOUT.as_secs();
        assert_eq!(look(&mut sessions, timeout + 1).len(), 2);
        sessions.expect(SessionId(1), START);
        let again = sessions.heard(SessionId(1), START);
        assert!(again != first && again != other);
        assert!(sessions.remove(SessionId(1)));
        assert_ne!(sessions.heard(SessionId(1), START), again);
    }

    #[test]
    fn nobody_expires_because_the_server_stood_still() {
        let mut sessions = sessions();
        sessions.heard(SessionId(1), START);
        let woken = 10 * SESSION_TIMEOUT.as_secs();
        assert!(sessions.expire(at(woken)).is_empty());
        let until = woken + SESSION_TIMEOUT.as_secs();
        assert_eq!(look(&mut sessions, until), [(until, SessionId(1))]);
    }

    #[test]
    fn an_older_connection_of_a_session_is_not_current() {
        let mut sessions = sessions();
        let is_current =
            |sessions: &Sessions| [2, 3, 4].map(|number| sessions.is_current(SessionId(1), number));
        assert_eq!(is_current(&sessions), [true; 3]);
        sessions.begin_generation(SessionId(1), 3, START);
        assert_eq!(is_current(&sessions), [false, true, true]);
        assert!(sessions.is_current(SessionId(2), 2));
        sessions.heard(SessionId(1), at(1));
        assert_eq!(is_current(&sessions), [false, true, true]);
        assert!(sessions.remove(SessionId(1)));
        assert_eq!(is_current(&sessions), [true; 3]);
    }

    /// In a pause of a quarter of the time clients may not have been heard.
    #[test]
    fn a_server_stood_still_if_it_did_not_look_for_a_quarter_of_the_time() {
        let quarter = SESSION_TIMEOUT / 4;
        let just_before = quarter - Duration::from_nanos(1);
        let gone = |last_pause: Duration| {
            let mut sessions = sessions();
            sessions.expect(SessionId(1), START);
            for times in 1..=4 {
                assert_eq!(sessions.expire(START.after(just_before * times)), []);
            }
            sessions.expire(sessions.last_look.after(last_pause))
        };
        assert_eq!(gone(just_before), [SessionId(1)]);
        assert_eq!(gone(quarter), []);
    }
}
