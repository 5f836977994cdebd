//! Delays of requests: what each has waited for, and for how long.

use pandofs_api::Cause;
use pandofs_shard::{Note, Ticket};
use pandofs_types::Steady;
use pandofs_types::limits::MAX_PARTS_TOLD;
use std::collections::BTreeMap;
use std::time::Duration;

/// Where the time of one request went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// In the order in which they began; of one cause together.
    parts: Vec<(Cause, Duration)>,
    now: Option<(Cause, Steady)>,
}

impl Delays {
    fn waits(&mut self, cause: Cause, now: Steady) {
        if self.waits_for() != Some(cause) {
            self.goes_on(now);
            self.now = Some((cause, now));
        }
    }

    fn goes_on(&mut self, now: Steady) {
        if let Some((cause, since)) = self.now.take() {
            add(&mut self.parts, cause, now.since(since));
        }
    }

    /// The cause that it waits for now.
    pub fn waits_for(&self) -> Option<Cause> {
        self.now.map(|(cause, _)| cause)
    }

    /// The causes that it has waited for until now, each once, at most [`MAX_PARTS_TOLD`].
    pub fn parts(&self, now: Steady) -> Vec<(Cause, Duration)> {
        let mut parts = self.parts.clone();
        if let Some((cause, since)) = self.now {
            add(&mut parts, cause, now.since(since));
        }
        parts
    }
}

fn add(parts: &mut Vec<(Cause, Duration)>, cause: Cause, time: Duration) {
    let full = parts.len() >= MAX_PARTS_TOLD;
    let known = parts.iter_mut().find(|(known, _)| *known == cause);
    match known {
        Some((_, sum)) => *sum += time,
        None if full => {
            if let Some((_, last)) = parts.last_mut() {
                *last += time;
            }
        }
        None => parts.push((cause, time)),
    }
}

/// Delays of the requests that are under way and have waited for something.
#[derive(Debug, Default)]
pub(crate) struct DelayTable {
    of: BTreeMap<Ticket, Delays>,
    /// Moment of the batch at hand.
    now: Steady,
}

impl DelayTable {
    pub(crate) fn time(&mut self, now: Steady) {
        self.now = now;
    }

    pub(crate) fn note(&mut self, note: Note) {
        match note {
            Note::Waits(ticket, cause) => {
                self.of.entry(ticket).or_default().waits(cause, self.now);
            }
            Note::GoesOn(ticket) => {
                if let Some(delays) = self.of.get_mut(&ticket) {
                    delays.goes_on(self.now);
                }
            }
            Note::Again(first, second) => {
                if let Some(delays) = self.of.remove(&first) {
                    self.of.insert(second, delays);
                }
            }
            // The cause that it waits for is noted beside it.
            Note::Coordinates(..) => {}
        }
    }

    pub(crate) fn get(&self, ticket: Ticket) -> Option<&Delays> {
        self.of.get(&ticket)
    }

    /// Those of a request that is answered, or not any more.
    pub(crate) fn take(&mut self, ticket: Ticket) -> Option<Delays> {
        self.of.remove(&ticket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pandofs_types::{SessionId, ShardId, TxId};

    const TICKET: Ticket = Ticket(7);
    const RECALL: Cause = Cause::Recall {
        session: SessionId(3),
        others: 0,
    };

    fn at(milliseconds: u64) -> Steady {
        Steady(0).after(Duration::from_millis(milliseconds))
    }

    fn noted(notes: &[(u64, Note)]) -> DelayTable {
        let mut table = DelayTable::default();
        for (when, note) in notes {
            table.time(at(*when));
            table.note(*note);
        }
        table
    }

    fn parts(delays: &Delays, now: u64) -> Vec<(Cause, u128)> {
        let parts = delays.parts(at(now)).into_iter();
        parts
            .map(|(cause, time)| (cause, time.as_millis()))
            .collect()
    }

    #[test]
    fn each_cause_has_its_time_and_work_between_them_has_none() {
        let mut table = noted(&[
            (10, Note::Waits(TICKET, RECALL)),
            (25, Note::GoesOn(TICKET)),
            (30, Note::Waits(TICKET, Cause::Log)),
            (31, Note::Waits(TICKET, RECALL)),
            // Noted again, it goes on as it did.
            (32, Note::Waits(TICKET, RECALL)),
            (40, Note::Waits(TICKET, Cause::Log)),
        ]);
        let delays = table.take(TICKET).unwrap();
        assert_eq!(delays.waits_for(), Some(Cause::Log));
        assert_eq!(parts(&delays, 50), [(RECALL, 24), (Cause::Log, 11)]);
        assert_eq!(table.take(TICKET), None);
    }

    #[test]
    fn a_request_that_came_again_keeps_what_it_waited_for() {
        let table = noted(&[
            (0, Note::Waits(TICKET, RECALL)),
            (5, Note::Again(TICKET, Ticket(8))),
            (6, Note::GoesOn(TICKET)),
            (9, Note::GoesOn(Ticket(8))),
        ]);
        assert_eq!(table.get(TICKET), None);
        assert_eq!(parts(table.get(Ticket(8)).unwrap(), 99), [(RECALL, 9)]);
    }

    #[test]
    fn what_does_not_wait_is_not_kept() {
        let table = noted(&[
            (0, Note::GoesOn(TICKET)),
            (1, Note::Again(TICKET, Ticket(8))),
        ]);
        assert!(table.of.is_empty());
    }

    #[test]
    fn parts_are_so_many_at_most_and_no_time_is_lost() {
        let operation = |sequence| {
            Cause::Operation(TxId {
                coordinator: ShardId(0),
                sequence,
            })
        };
        let all = 2 * MAX_PARTS_TOLD as u64;
        let notes = (0..all).map(|number| (number, Note::Waits(TICKET, operation(number))));
        let table = noted(&notes.collect::<Vec<_>>());
        let parts = parts(table.get(TICKET).unwrap(), all);
        assert_eq!(parts.len(), MAX_PARTS_TOLD);
        let sum: u128 = parts.iter().map(|(_, time)| time).sum();
        assert_eq!(sum, u128::from(all));
    }
}
