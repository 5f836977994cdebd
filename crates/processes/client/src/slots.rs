//! Slots of the session.
//!
//! At most one request of a slot is unanswered at a time, so that a shard that keeps one answer for
//! each slot can answer any repeated request.

use crate::cancellation;
use pandofs_types::SlotId;
use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A slot taken for one request.
#[derive(Debug)]
pub(crate) struct Slot {
    pub id: SlotId,
    /// Of the request it was taken for; larger than that of any request before on this slot.
    pub sequence: u64,
}

/// A range of slots of which each is used by one request at a time.
#[derive(Debug)]
pub(crate) struct Slots {
    all: usize,
    state: Mutex<State>,
    given_back: Condvar,
}

#[derive(Debug)]
struct State {
    /// Last in, first out: shards then remember answers for few slots.
    free: Vec<Slot>,
    /// Never used so far.
    fresh: Range<u16>,
    waiting: usize,
}

impl Slots {
    pub(crate) fn new(range: Range<u16>) -> Slots {
        let all = range.len();
        let state = State {
            free: Vec::new(),
            fresh: range,
            waiting: 0,
        };
        Slots {
            all,
            state: Mutex::new(state),
            given_back: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Slots that are used now.
    pub(crate) fn taken(&self) -> usize {
        self.all - self.lock().available()
    }

    /// Takes one slot; waits until there is one.
    pub(crate) fn take(&self) -> Slot {
        let mut state = self.wait_for(1);
        state.pop()
    }

    /// Takes one slot if there is one.
    pub(crate) fn try_take(&self) -> Option<Slot> {
        let mut state = self.lock();
        (state.available() > 0).then(|| state.pop())
    }

    /// Takes `count` slots, all at once: of two callers that each held some and waited for more
    /// neither would ever go on.
    pub(crate) fn take_many(&self, count: usize) -> Vec<Slot> {
        let mut state = self.wait_for(count);
        (0..count).map(|_| state.pop()).collect()
    }

    fn wait_for(&self, count: usize) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        if state.available() < count {
            // Without the lock: those that are waited for give their slots back with it.
            drop(state);
            cancellation::about_to_wait();
            state = self.lock();
        }
        while state.available() < count {
            state.waiting += 1;
            state = self
                .given_back
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
        state
    }

    /// The request of this slot needs no answer any more.
    pub(crate) fn give_back(&self, slot: Slot) {
        let mut state = self.lock();
        state.free.push(slot);
        if state.waiting > 0 {
            self.given_back.notify_all();
        }
    }
}

impl State {
    fn available(&self) -> usize {
        self.free.len() + self.fresh.len()
    }

    fn pop(&mut self) -> Slot {
        if let Some(mut slot) = self.free.pop() {
            slot.sequence += 1;
            return slot;
        }
        match self.fresh.next() {
            Some(id) => Slot {
                id: SlotId(id),
                sequence: 1,
            },
            None => unreachable!("the caller waited until there was a slot"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_slot_is_used_again_with_a_larger_sequence() {
        let slots = Slots::new(0..4);
        let first = slots.take();
        assert_eq!((first.id, first.sequence), (SlotId(0), 1));
        let second = slots.take();
        assert_eq!((second.id, second.sequence), (SlotId(1), 1));
        assert_eq!(slots.taken(), 2);
        slots.give_back(first);
        assert_eq!(slots.taken(), 1);
        let again = slots.take();
        assert_eq!((again.id, again.sequence), (SlotId(0), 2));
    }

    #[test]
    fn who_finds_no_slot_waits_for_one() {
        let slots = Arc::new(Slots::new(8..10));
        let taken = slots.take_many(2);
        let waiter = std::thread::spawn({
            let slots = Arc::clone(&slots);
            move || slots.take_many(2).len()
        });
        for slot in taken {
            assert!(slot.id.0 >= 8);
            slots.give_back(slot);
        }
        assert_eq!(waiter.join().unwrap(), 2);
    }
}
