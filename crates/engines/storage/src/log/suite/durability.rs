//! Contents of a log after a crash.

use super::{Make, ReopenableLog, append_one_each, assert_holds};
use crate::log::Log;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Appends made while another thread syncs the log.
const CONCURRENT_APPENDS: u64 = 2_000;
const STREAMS: [u64; 3] = [3, 4, 60];

/// A log that was closed in order has all that was appended, synced or not.
pub fn a_closed_log_keeps_all(mut log: Box<dyn ReopenableLog>) {
    for last in 1..=5 {
        append_one_each(&*log, &STREAMS, last);
        log = log.close_and_reopen();
        for stream in STREAMS {
            assert_holds(&*log, stream, 1, last);
        }
    }
}

/// All that was appended before a sync is there after crashes, even two in a row.
pub fn what_was_synced_survives(mut log: Box<dyn ReopenableLog>) {
    for last in 1..=5 {
        append_one_each(&*log, &STREAMS, last);
        log.sync().expect("sync");
        log.sync().expect("a second sync");
        log = log.crash_and_reopen().crash_and_reopen();
        for stream in STREAMS {
            assert_holds(&*log, stream, 1, last);
        }
    }
}

/// A crash takes whole appends off the end, and none that was synced.
pub fn a_crash_leaves_a_prefix_of_whole_appends(make: &Make<'_>) {
    for (synced, appended) in [(0, 0), (0, 1), (0, 5), (3, 3), (3, 4), (10, 25), (0, 300)] {
        let log = make();
        for index in 1..=appended {
            append_one_each(&*log, &STREAMS, index);
            if index == synced {
                log.sync().expect("sync");
            }
        }
        let log = log.crash_and_reopen();
        let left = assert_prefix(&*log);
        assert!(
            left >= synced && left <= appended,
            "{synced} <= {left} <= {appended}"
        );

        // Appends after the crash follow the entries that it left, not those that it lost.
        append_one_each(&*log, &STREAMS, left + 1);
        log.sync().expect("sync");
        assert_eq!(assert_prefix(&*log.crash_and_reopen()), left + 1);
    }
}

/// A sync covers all appends that had ended when it began, whichever thread made them.
pub fn sync_from_another_thread_covers_what_came_before(log: Box<dyn ReopenableLog>) {
    let appended = AtomicU64::new(0);
    let done = AtomicBool::new(false);
    let synced = std::thread::scope(|scope| {
        let syncer = scope.spawn(|| {
            let mut synced = 0;
            while !done.load(Ordering::Acquire) {
                let before = appended.load(Ordering::Acquire);
                log.sync().expect("sync");
                synced = before;
            }
            synced
        });
        for index in 1..=CONCURRENT_APPENDS {
            append_one_each(&*log, &STREAMS, index);
            appended.store(index, Ordering::Release);
        }
        done.store(true, Ordering::Release);
        syncer.join().expect("the syncing thread")
    });
    assert_eq!(assert_prefix(&*log), CONCURRENT_APPENDS);
    let left = assert_prefix(&*log.crash_and_reopen());
    assert!(
        left >= synced && left <= CONCURRENT_APPENDS,
        "{synced} <= {left}"
    );
}

/// Checks that all of `STREAMS` hold the suite's entries from the first up to one and the same
/// index, and returns that.
fn assert_prefix<L: Log + ?Sized>(log: &L) -> u64 {
    let last = log.span(STREAMS[0]).map_or(0, |(_, last)| last);
    for stream in STREAMS {
        if last == 0 {
            assert_eq!(log.span(stream), None, "half an append is in the log");
        } else {
            assert_holds(log, stream, 1, last);
        }
    }
    last
}
