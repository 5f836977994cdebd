//! Answers and messages that wait for the log to be synced.

use std::collections::VecDeque;

/// Keeps what may only happen once the appends before it are on disk, while the lane goes on.
///
/// Appends are counted. A sync covers those that were made before it began, so what waits for append
/// number `n` is let go by a sync that began after append `n`, and not by one that was under
/// way then: the system may have taken its pages before.
#[derive(Debug)]
pub(crate) struct Durable<T> {
    /// Appends so far.
    appended: u64,
    /// Of these, synced ones.
    synced: u64,
    /// Appends that the sync under way covers.
    under_way: Option<u64>,
    /// Waiting items, each with the number of the append it waits for; the numbers never fall.
    waiting: VecDeque<(u64, T)>,
}

impl<T> Default for Durable<T> {
    fn default() -> Durable<T> {
        Durable::new()
    }
}

impl<T> Durable<T> {
    pub(crate) fn new() -> Durable<T> {
        Durable {
            appended: 0,
            synced: 0,
            under_way: None,
            waiting: VecDeque::new(),
        }
    }

    /// Notes that something was appended to the log.
    pub(crate) fn appended(&mut self) {
        self.appended += 1;
    }

    /// Gives `what` back if all that was appended is synced; otherwise keeps it until that is so.
    pub(crate) fn hold(&mut self, what: T) -> Option<T> {
        if self.synced == self.appended {
            return Some(what);
        }
        self.waiting.push_back((self.appended, what));
        None
    }

    /// Whether there is something a sync would do.
    pub(crate) fn is_behind(&self) -> bool {
        self.synced < self.appended
    }

    /// Whether something waits that no sync under way will let go.
    pub(crate) fn is_wanted(&self) -> bool {
        let last_wanted = self.waiting.back().map_or(0, |&(append, _)| append);
        last_wanted > self.under_way.unwrap_or(self.synced)
    }

    pub(crate) fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// Notes that a sync begins now.
    pub(crate) fn begin(&mut self) {
        assert!(self.under_way.is_none(), "one sync at a time");
        self.under_way = Some(self.appended);
    }

    /// Notes that the sync under way has succeeded, and gives what it let go, in order.
    pub(crate) fn finish(&mut self) -> Vec<T> {
        let covered = self.under_way.take();
        assert!(covered.is_some(), "a sync ends that did not begin");
        self.synced = covered.unwrap_or(self.synced);
        let free = self
            .waiting
            .partition_point(|&(append, _)| append <= self.synced);
        self.waiting.drain(..free).map(|(_, what)| what).collect()
    }

    /// Notes that a sync which began just now has succeeded, and gives all that waited, in order.
    pub(crate) fn finish_all(&mut self) -> Vec<T> {
        self.under_way = None;
        self.synced = self.appended;
        self.waiting.drain(..).map(|(_, what)| what).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_waits_while_all_is_synced() {
        let mut durable = Durable::new();
        assert_eq!(durable.hold('a'), Some('a'));
        assert!(!durable.is_behind() && !durable.is_wanted());
    }

    #[test]
    fn a_sync_that_began_before_the_append_does_not_count() {
        let mut durable = Durable::new();
        durable.appended();
        assert_eq!(durable.hold('a'), None);
        assert!(durable.is_wanted());
        durable.begin();
        assert!(!durable.is_wanted() && durable.is_under_way());
        durable.appended();
        assert_eq!(durable.hold('b'), None);
        assert_eq!(durable.hold('c'), None);
        assert!(durable.is_wanted(), "b and c need another sync");
        assert_eq!(durable.finish(), ['a']);
        assert!(durable.is_wanted() && durable.is_behind());
        durable.begin();
        assert_eq!(durable.finish(), ['b', 'c']);
        assert!(!durable.is_wanted() && !durable.is_behind());
        assert_eq!(durable.hold('d'), Some('d'));
    }

    #[test]
    fn a_last_sync_lets_all_go() {
        let mut durable = Durable::new();
        durable.appended();
        assert_eq!(durable.hold('a'), None);
        durable.begin();
        durable.appended();
        assert_eq!(durable.hold('b'), None);
        assert_eq!(durable.finish_all(), ['a', 'b']);
        assert!(!durable.is_under_way() && !durable.is_behind());
    }

    #[test]
    fn appends_nobody_waits_for_are_behind_but_not_wanted() {
        let mut durable: Durable<char> = Durable::new();
        durable.appended();
        assert!(durable.is_behind() && !durable.is_wanted());
        durable.begin();
        assert!(durable.finish().is_empty());
        assert!(!durable.is_behind());
    }
}
