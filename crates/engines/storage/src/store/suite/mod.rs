//! The suite every [`Store`] passes.
//!
//! One function for each promise, so that an implementation that breaks one can run that one alone;
//! [`run`] runs them all. Each makes a store of its own, empty.

mod durability;
mod overlay;
#[cfg(test)]
mod planted;
mod points;
mod scans;

use crate::store::{Batch, KvRead, Store};
use std::ops::ControlFlow;

pub use durability::{
    a_crash_leaves_a_prefix_of_the_writes, assert_a_prefix,
    flush_from_another_thread_covers_what_came_before, numbered, what_was_flushed_survives,
};
pub use overlay::overlay_agrees_with_a_map;
pub use points::{
    any_bytes_are_a_key, large_values_come_back, puts_and_deletes_are_seen_at_once,
    reading_a_key_warms_it, size_grows, the_later_of_two_writes_wins,
};
pub use scans::{
    scans_are_ordered_and_half_open, scans_see_no_half_batch, scans_stop_when_told,
    visitors_may_read_the_store,
};

/// A store that can be crashed by a test.
pub trait ReopenableStore: Store {
    /// Ends the store as a crash of its process does, with nothing flushed on the way out, and
    /// opens what is left.
    fn crash_and_reopen(self: Box<Self>) -> Box<dyn ReopenableStore>;
}

/// Runs the suite over stores that `make` makes, each of them new and empty.
///
/// # Panics
/// When a store breaks a promise.
pub fn run(make: &dyn Fn() -> Box<dyn ReopenableStore>) {
    puts_and_deletes_are_seen_at_once(make());
    the_later_of_two_writes_wins(make());
    any_bytes_are_a_key(make());
    large_values_come_back(make());
    reading_a_key_warms_it(make());
    size_grows(make());
    scans_are_ordered_and_half_open(make());
    scans_stop_when_told(make());
    visitors_may_read_the_store(make());
    scans_see_no_half_batch(make());
    what_was_flushed_survives(make());
    a_crash_leaves_a_prefix_of_the_writes(make);
    flush_from_another_thread_covers_what_came_before(make());
    overlay_agrees_with_a_map(make);
}

/// A key and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// All that a scan of `start..end` visits.
pub fn scanned<R: KvRead + ?Sized>(read: &R, start: &[u8], end: &[u8]) -> Vec<Pair> {
    scanned_up_to(read, start, end, usize::MAX)
}

/// Pairs of a scan that breaks off at the `limit`th key; `limit` is at least 1.
fn scanned_up_to<R: KvRead + ?Sized>(
    read: &R,
    start: &[u8],
    end: &[u8],
    limit: usize,
) -> Vec<Pair> {
    let mut found: Vec<Pair> = Vec::new();
    read.scan(start, end, &mut |key, value| {
        assert!(found.len() < limit, "visited after it broke off");
        found.push((key.to_vec(), value.to_vec()));
        if found.len() == limit {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })
    .expect("scan");
    found
}

fn put_all(store: &dyn Store, pairs: &[(&[u8], &[u8])]) {
    let mut batch = Batch::new();
    for (key, value) in pairs {
        batch.put(key.to_vec(), value.to_vec());
    }
    store.write(&batch).expect("write");
}
