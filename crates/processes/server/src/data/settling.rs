//! Objects that are to be settled, and their times.

use crate::limits::MAX_UNSETTLED_KNOWN;
use pandofs_types::Ino;
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// Objects that one thread has changed and not settled yet.
#[derive(Debug)]
pub(super) struct Unsettled {
    /// How long an object has to be left unchanged.
    after: Duration,
    changed: HashMap<Ino, Instant>,
    /// Each of them once, with a time that is not after its last change; nearly in the order of these.
    queue: VecDeque<(Instant, Ino)>,
}

impl Unsettled {
    pub(super) fn new(after: Duration) -> Unsettled {
        Unsettled {
            after,
            changed: HashMap::new(),
            queue: VecDeque::new(),
        }
    }

    /// It is changed now.
    pub(super) fn changed(&mut self, ino: Ino, now: Instant) {
        if let Some(last) = self.changed.get_mut(&ino) {
            *last = now;
        } else if self.changed.len() < MAX_UNSETTLED_KNOWN {
            self.changed.insert(ino, now);
            self.queue.push_back((now, ino));
        }
    }

    /// When to ask for the next one.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.queue.front().map(|(time, _)| *time + self.after)
    }

    /// Takes an object that has not been changed for long enough.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<Ino> {
        while let Some(&(time, ino)) = self.queue.front() {
            if time + self.after > now {
                return None;
            }
            self.queue.pop_front();
            let Some(&last) = self.changed.get(&ino) else {
                panic!("{ino} is queued and not known");
            };
            if last + self.after <= now {
                self.changed.remove(&ino);
                return Some(ino);
            }
            self.queue.push_back((last, ino));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_due_when_it_has_not_been_changed_for_long_enough() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut unsettled = Unsettled::new(Duration::from_secs(60));
        assert_eq!(unsettled.next_due(), None);
        unsettled.changed(Ino(1), at(0));
        unsettled.changed(Ino(2), at(10));
        unsettled.changed(Ino(1), at(50));
        assert_eq!(unsettled.next_due(), Some(at(60)));
        assert_eq!(unsettled.take_due(at(59)), None);
        assert_eq!(unsettled.take_due(at(60)), None, "it was changed since");
        assert_eq!(unsettled.take_due(at(70)), Some(Ino(2)));
        unsettled.changed(Ino(2), at(75));
        assert_eq!(unsettled.take_due(at(110)), Some(Ino(1)));
        assert_eq!(unsettled.take_due(at(134)), None);
        assert_eq!(unsettled.take_due(at(135)), Some(Ino(2)));
        assert_eq!(unsettled.next_due(), None);
        assert!(unsettled.changed.is_empty());
    }

    #[test]
    fn what_is_known_is_bounded() {
        let mut unsettled = Unsettled::new(Duration::ZERO);
        let now = Instant::now();
        for ino in 0..MAX_UNSETTLED_KNOWN as u64 + 10 {
            unsettled.changed(Ino(ino), now);
        }
        assert_eq!(unsettled.queue.len(), MAX_UNSETTLED_KNOWN);
        assert_eq!(unsettled.changed.len(), MAX_UNSETTLED_KNOWN);
    }
}
