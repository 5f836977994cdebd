//! The suite every [`Log`] passes.
//!
//! One function for each promise, so that an implementation that breaks one can run that one alone;
//! [`run`] runs them all. Each makes a log of its own, empty.

mod appends;
mod durability;
mod prunes;

use crate::log::{Entry, Log};

pub use appends::{
    empty_streams_hold_nothing, entries_that_do_not_continue_their_stream_are_refused,
    large_payloads_come_back, many_streams_in_one_append, reading_begins_where_told,
    streams_begin_anywhere, too_large_appends_leave_nothing, what_is_appended_is_read_in_order,
};
pub use durability::{
    a_closed_log_keeps_all, a_crash_leaves_a_prefix_of_whole_appends,
    sync_from_another_thread_covers_what_came_before, what_was_synced_survives,
};
pub use prunes::{
    pruned_entries_are_gone, pruned_space_comes_back, pruning_beyond_the_end_moves_the_stream,
    pruning_survives_once_synced, streams_that_stand_still_survive_reclaiming,
};

/// A log that can be closed and crashed by a test.
pub trait ReopenableLog: Log {
    /// Ends the log as its owner does who is done with it, and opens it again.
    fn close_and_reopen(self: Box<Self>) -> Box<dyn ReopenableLog>;

    /// Ends the log as a crash does, with nothing synced on the way out, and opens what is left.
    fn crash_and_reopen(self: Box<Self>) -> Box<dyn ReopenableLog>;
}

/// Makes an empty log.
pub type Make<'a> = dyn Fn() -> Box<dyn ReopenableLog> + 'a;

/// Runs the suite over logs that `make` makes, each of them new and empty.
///
/// # Panics
/// When a log breaks a promise.
pub fn run(make: &Make<'_>) {
    what_is_appended_is_read_in_order(make());
    reading_begins_where_told(make());
    many_streams_in_one_append(make());
    streams_begin_anywhere(make());
    empty_streams_hold_nothing(make());
    entries_that_do_not_continue_their_stream_are_refused(make());
    large_payloads_come_back(make());
    too_large_appends_leave_nothing(make());
    pruned_entries_are_gone(make());
    pruning_beyond_the_end_moves_the_stream(make());
    pruning_survives_once_synced(make());
    pruned_space_comes_back(make());
    streams_that_stand_still_survive_reclaiming(make());
    a_closed_log_keeps_all(make());
    what_was_synced_survives(make());
    a_crash_leaves_a_prefix_of_whole_appends(make);
    sync_from_another_thread_covers_what_came_before(make());
}

/// All entries of `stream`.
pub fn contents<L: Log + ?Sized>(log: &L, stream: u64) -> Vec<(u64, Vec<u8>)> {
    contents_from(log, stream, 0)
}

/// All entries of `stream` from `from` on.
fn contents_from<L: Log + ?Sized>(log: &L, stream: u64, from: u64) -> Vec<(u64, Vec<u8>)> {
    let mut found = Vec::new();
    log.read(stream, from, &mut |index, payload| {
        found.push((index, payload.to_vec()));
        Ok(())
    })
    .expect("read");
    found
}

/// Payload of entry `index` of `stream` in the suite: no two entries alike, of all lengths
/// from 16 to 143 bytes.
pub fn payload(stream: u64, index: u64) -> Vec<u8> {
    let mut payload = [stream.to_be_bytes(), index.to_be_bytes()].concat();
    let length = 16 + (stream.wrapping_mul(31).wrapping_add(index) % 128) as usize;
    payload.resize(length, (stream ^ index) as u8);
    payload
}

/// Appends entry `index` of each of `streams`, all in one append.
pub fn append_one_each<L: Log + ?Sized>(log: &L, streams: &[u64], index: u64) {
    let payloads: Vec<Vec<u8>> = streams
        .iter()
        .map(|&stream| payload(stream, index))
        .collect();
    let entries: Vec<Entry<'_>> = streams
        .iter()
        .zip(&payloads)
        .map(|(&stream, payload)| Entry {
            stream,
            index,
            payload,
        })
        .collect();
    log.append(&entries).expect("append");
}

/// Checks that `stream` holds exactly the suite's entries `first..=last`.
///
/// # Panics
/// When it holds anything else.
pub fn assert_holds<L: Log + ?Sized>(log: &L, stream: u64, first: u64, last: u64) {
    assert_eq!(log.span(stream), Some((first, last)), "stream {stream}");
    assert_eq!(log.next_index(stream), Some(last + 1), "stream {stream}");
    let expected: Vec<_> = (first..=last)
        .map(|index| (index, payload(stream, index)))
        .collect();
    assert_eq!(contents(log, stream), expected, "stream {stream}");
}
