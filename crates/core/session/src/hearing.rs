//! Hearing of recalls: the conversation with one server.
//!
//! One request is always with the server, which answers it when leases end; the next one says which recall is over, and
//! takes the place of one that is still there. A recall that waits for a write to data objects is over when that has
//! ended, or when it has waited for long enough; others that come meanwhile are over before it.

use crate::boottime::Boottime;
use crate::limits::MAX_WRITE_LEASE_WAIT;
use pandofs_types::LeaseKey;

/// The number of a server's first answer, which is about nothing.
const ABOUT_NOTHING: u64 = 0;

/// A conversation.
#[derive(Debug, Default)]
pub struct Hearing {
    is_on: bool,
    /// Those that wait for writes which began under their leases.
    waiting: Vec<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    number: u64,
    keys: Vec<LeaseKey>,
    until: Boottime,
}

impl Hearing {
    /// Returns whether the server gives leases now; true once.
    pub fn subscribes(&mut self) -> bool {
        !std::mem::replace(&mut self.is_on, true)
    }

    /// The server recalls these leases; none is fine. `let_go` drops leases, or says that first a write is to end if it
    /// may. Returns what the next request says.
    pub fn recalled(
        &mut self,
        number: u64,
        keys: Vec<LeaseKey>,
        now: Boottime,
        let_go: impl FnOnce(&[LeaseKey], bool) -> bool,
    ) -> u64 {
        if keys.is_empty() || let_go(&keys, true) {
            return number;
        }
        self.waiting.push(Waiting {
            number,
            keys,
            until: now + MAX_WRITE_LEASE_WAIT,
        });
        ABOUT_NOTHING
    }

    /// Returns whether a recall waits.
    pub fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Lets go of the leases of one recall that waits, if its writes have ended or it has waited for long enough. Returns
    /// what the next request says then.
    pub fn over(
        &mut self,
        now: Boottime,
        mut let_go: impl FnMut(&[LeaseKey], bool) -> bool,
    ) -> Option<u64> {
        let is_over = |recall: &Waiting| let_go(&recall.keys, now < recall.until);
        let place = self.waiting.iter().position(is_over)?;
        Some(self.waiting.swap_remove(place).number)
    }

    /// The conversation has ended. Returns the leases of recalls that wait: no write could ever begin under a lease of these
    /// again if they were not let go of.
    pub fn ended(self) -> Vec<Vec<LeaseKey>> {
        self.waiting.into_iter().map(|recall| recall.keys).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pandofs_types::Ino;
    use std::time::Duration;

    fn now() -> Boottime {
        Boottime::after_start(Duration::from_secs(1_000))
    }

    fn keys(ino: u64) -> Vec<LeaseKey> {
        vec![LeaseKey::Inode(Ino(ino))]
    }

    #[test]
    fn leases_are_taken_from_the_first_answer_on() {
        let mut hearing = Hearing::default();
        assert!(hearing.subscribes());
        assert!(!hearing.subscribes());
    }

    #[test]
    fn what_is_let_go_of_is_said_to_be_over() {
        let mut hearing = Hearing::default();
        let done = hearing.recalled(7, keys(5), now(), |of, waits| of == keys(5) && waits);
        assert_eq!(done, 7);
        let nothing = hearing.recalled(8, Vec::new(), now(), |_, _| unreachable!());
        assert_eq!(nothing, 8);
        assert!(!hearing.waits());
    }

    #[test]
    fn a_recall_that_waits_for_a_write_is_over_after_others() {
        let mut hearing = Hearing::default();
        let busy = |_: &[LeaseKey], _| false;
        assert_eq!(hearing.recalled(7, keys(5), now(), busy), ABOUT_NOTHING);
        assert_eq!(hearing.recalled(8, keys(6), now(), |_, _| true), 8);
        assert_eq!(hearing.over(now(), busy), None);
        assert!(hearing.waits());
        assert_eq!(
            hearing.over(now(), |of, waits| waits && of == keys(5)),
            Some(7)
        );
        assert!(!hearing.waits());
        assert_eq!(hearing.over(now(), |_, _| true), None);
    }

    #[test]
    fn there_is_an_end_to_waiting() {
        let mut hearing = Hearing::default();
        hearing.recalled(7, keys(5), now(), |_, _| false);
        hearing.recalled(8, keys(6), now() + Duration::from_millis(1), |_, _| false);
        // Without waiting they are let go of in any case.
        let let_go = |_: &[LeaseKey], waits: bool| !waits;
        let end = now() + MAX_WRITE_LEASE_WAIT;
        assert_eq!(hearing.over(end - Duration::from_nanos(1), let_go), None);
        assert_eq!(hearing.over(end, let_go), Some(7));
        assert_eq!(hearing.over(end, let_go), None);
        assert_eq!(hearing.ended(), [keys(6)]);
    }
}
