//! Pruning, and giving the space back.

use super::{ReopenableLog, append_one_each, assert_holds, contents, contents_from, payload};
use crate::log::Entry;

/// Entries up to the pruned index are not read any more; pruning again does no harm.
pub fn pruned_entries_are_gone(log: Box<dyn ReopenableLog>) {
    for index in 1..=100 {
        append_one_each(&*log, &[1, 2], index);
    }
    log.prune(1, 0).expect("prune");
    assert_holds(&*log, 1, 1, 100);
    log.prune(1, 60).expect("prune");
    log.prune(1, 60).expect("prune again");
    log.prune(1, 12).expect("prune what is pruned");
    assert_holds(&*log, 1, 61, 100);
    assert_holds(&*log, 2, 1, 100);
    assert_eq!(contents_from(&*log, 1, 30).len(), 40);

    log.prune(1, 100).expect("prune");
    assert_eq!(log.span(1), None);
    assert_eq!(contents(&*log, 1), []);
    assert_eq!(log.next_index(1), Some(101));
    append_one_each(&*log, &[1, 2], 101);
    assert_holds(&*log, 1, 101, 101);
    assert_holds(&*log, 2, 1, 101);
}

/// A stream that is pruned past its end goes on behind the pruned index.
pub fn pruning_beyond_the_end_moves_the_stream(log: Box<dyn ReopenableLog>) {
    for index in 1..=10 {
        append_one_each(&*log, &[1], index);
    }
    log.prune(1, 40).expect("prune");
    log.prune(2, 40)
        .expect("prune a stream that was never written");
    for stream in [1, 2] {
        assert_eq!(log.span(stream), None);
        assert_eq!(log.next_index(stream), Some(41));
    }
    let log = log.close_and_reopen();
    for stream in [1, 2] {
        assert_eq!(log.span(stream), None);
        assert_eq!(log.next_index(stream), Some(41));
    }
    append_one_each(&*log, &[1, 2], 41);
    append_one_each(&*log, &[1, 2], 42);
    let log = log.close_and_reopen();
    for stream in [1, 2] {
        assert_holds(&*log, stream, 41, 42);
    }
}

/// Entries pruned before a sync stay pruned over a crash; others may come back.
pub fn pruning_survives_once_synced(log: Box<dyn ReopenableLog>) {
    for index in 1..=50 {
        append_one_each(&*log, &[1, 2, 3], index);
    }
    log.prune(1, 20).expect("prune");
    log.prune(2, 50).expect("prune");
    log.sync().expect("sync");
    log.prune(3, 50).expect("prune");
    let log = log.crash_and_reopen();
    assert_holds(&*log, 1, 21, 50);
    assert_eq!(log.span(2), None);
    assert_eq!(log.next_index(2), Some(51));
    // Not synced: all of stream 3 is back, or nothing.
    assert_eq!(log.next_index(3), Some(51));
    match log.span(3) {
        None => {}
        Some(_) => assert_holds(&*log, 3, 1, 50),
    }
    append_one_each(&*log, &[1, 2, 3], 51);
    log.sync().expect("sync");
    let log = log.crash_and_reopen();
    assert_holds(&*log, 1, 21, 51);
    assert_holds(&*log, 2, 51, 51);
}

/// Bytes of payload that the tests of reclaiming append.
const RECLAIMED_BYTES: u64 = 20 << 20;
const RECLAIMED_STREAMS: u64 = 16;
const RECLAIMED_PAYLOAD_BYTES: usize = 1_024;
/// Entries of each stream.
const RECLAIMED_ENTRIES: u64 = RECLAIMED_BYTES / RECLAIMED_STREAMS / RECLAIMED_PAYLOAD_BYTES as u64;

fn padded(stream: u64, index: u64) -> Vec<u8> {
    let mut payload = payload(stream, index);
    payload.resize(RECLAIMED_PAYLOAD_BYTES, 0);
    payload
}

/// Appends entries `first..=last` of `streams`, an append for each index.
fn append_padded(log: &dyn ReopenableLog, streams: std::ops::Range<u64>, first: u64, last: u64) {
    for index in first..=last {
        let payloads: Vec<_> = streams
            .clone()
            .map(|stream| padded(stream, index))
            .collect();
        let entries: Vec<_> = streams
            .clone()
            .zip(&payloads)
            .map(|(stream, payload)| Entry {
                stream,
                index,
                payload,
            })
            .collect();
        log.append(&entries).expect("append");
    }
}

fn assert_holds_padded(log: &dyn ReopenableLog, stream: u64, first: u64, last: u64) {
    assert_eq!(log.span(stream), Some((first, last)), "stream {stream}");
    let expected: Vec<_> = (first..=last)
        .map(|index| (index, padded(stream, index)))
        .collect();
    assert!(contents(log, stream) == expected, "stream {stream} differs");
}

/// After pruning and reclaiming, the log takes less space on disk.
pub fn pruned_space_comes_back(log: Box<dyn ReopenableLog>) {
    const KEPT: u64 = 10;
    append_padded(&*log, 0..RECLAIMED_STREAMS, 1, RECLAIMED_ENTRIES);
    let before = log.bytes();
    assert!(before >= RECLAIMED_BYTES, "{before} bytes");
    for stream in 0..RECLAIMED_STREAMS {
        log.prune(stream, RECLAIMED_ENTRIES - KEPT).expect("prune");
    }
    log.reclaim().expect("reclaim");
    let after = log.bytes();
    assert!(after <= before / 4, "{after} of {before} bytes are left");
    let check = |log: &dyn ReopenableLog| {
        for stream in 0..RECLAIMED_STREAMS {
            let first = RECLAIMED_ENTRIES - KEPT + 1;
            assert_holds_padded(log, stream, first, RECLAIMED_ENTRIES);
        }
    };
    check(&*log);
    log.sync().expect("sync");
    let log = log.crash_and_reopen();
    check(&*log);
    assert!(log.bytes() <= before / 4);
}

/// A few entries of idle streams neither keep the space of busy ones nor are lost with it.
pub fn streams_that_stand_still_survive_reclaiming(mut log: Box<dyn ReopenableLog>) {
    const IDLE: std::ops::Range<u64> = 100..110;
    append_padded(&*log, IDLE, 1, 20);
    // Pruned whole, and never written again: its next index must not be forgotten.
    append_padded(&*log, 200..201, 1, 20);
    log.prune(200, 20).expect("prune");
    let mut busy = 0;
    for round in 1..=6 {
        append_padded(
            &*log,
            0..RECLAIMED_STREAMS,
            busy + 1,
            busy + RECLAIMED_ENTRIES / 4,
        );
        busy += RECLAIMED_ENTRIES / 4;
        for stream in 0..RECLAIMED_STREAMS {
            log.prune(stream, busy - 1).expect("prune");
        }
        for stream in IDLE {
            log.prune(stream, round * 2).expect("prune");
        }
        log.reclaim().expect("reclaim");
        assert!(
            log.bytes() < 2 * RECLAIMED_BYTES / 4,
            "round {round}: {} bytes",
            log.bytes()
        );
        log.sync().expect("sync");
        if round % 2 == 0 {
            log = log.crash_and_reopen();
        }
        for stream in IDLE {
            assert_holds_padded(&*log, stream, round * 2 + 1, 20);
        }
        for stream in 0..RECLAIMED_STREAMS {
            assert_holds_padded(&*log, stream, busy, busy);
        }
        assert_eq!(log.span(200), None);
        assert_eq!(log.next_index(200), Some(21));
    }
    append_padded(&*log, IDLE, 21, 21);
    for stream in IDLE {
        assert_holds_padded(&*log, stream, 13, 21);
    }
}
