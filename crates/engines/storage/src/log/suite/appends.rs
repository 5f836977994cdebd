//! Appending and reading.

use super::{ReopenableLog, append_one_each, assert_holds, contents, contents_from, payload};
use crate::log::{Entry, LogError};
use pandofs_types::limits::MAX_LOG_APPEND_BYTES;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Streams come back in the order of their indexes, over several appends and within one.
pub fn what_is_appended_is_read_in_order(log: Box<dyn ReopenableLog>) {
    for index in 1..=300 {
        append_one_each(&*log, &[7], index);
    }
    assert_holds(&*log, 7, 1, 300);

    // One append with many entries of one stream, behind the others.
    let payloads: Vec<_> = (301..=10_000).map(|index| payload(7, index)).collect();
    let entries: Vec<_> = (301..)
        .zip(&payloads)
        .map(|(index, payload)| Entry {
            stream: 7,
            index,
            payload,
        })
        .collect();
    log.append(&entries).expect("append");
    assert_holds(&*log, 7, 1, 10_000);
    assert!(log.bytes() > 10_000 * 16);
}

/// A read from an index gives that entry and all after it, and nothing past the end.
pub fn reading_begins_where_told(log: Box<dyn ReopenableLog>) {
    for index in 5..=20 {
        append_one_each(&*log, &[1, 2], index);
    }
    let expect = |from: u64| -> Vec<_> { (from..=20).map(|i| (i, payload(1, i))).collect() };
    assert_eq!(contents_from(&*log, 1, 12), expect(12));
    assert_eq!(contents_from(&*log, 1, 20), expect(20));
    assert_eq!(contents_from(&*log, 1, 3), expect(5));
    assert_eq!(contents_from(&*log, 1, 21), []);
    assert_eq!(contents_from(&*log, 1, u64::MAX), []);

    let mut visited = Vec::new();
    let refusal = LogError::BadEntry {
        stream: 1,
        index: 8,
        what: "no record".into(),
    };
    let result = log.read(1, 6, &mut |index, _| {
        visited.push(index);
        if index == 8 {
            Err(refusal.clone())
        } else {
            Ok(())
        }
    });
    assert_eq!(result, Err(refusal));
    assert_eq!(visited, [6, 7, 8]);

    // A visitor may use the log.
    log.read(1, 20, &mut |index, _| {
        assert_eq!(log.span(1), Some((5, 20)));
        append_one_each(&*log, &[1], index + 1);
        Ok(())
    })
    .expect("read");
    assert_holds(&*log, 1, 5, 21);
}

/// Entries of many streams in one append come back each in its own stream.
pub fn many_streams_in_one_append(log: Box<dyn ReopenableLog>) {
    // Sorted by index, so that the streams are interleaved, and two entries of stream 0 in a row.
    let mut expected = Vec::new();
    for index in 1..=40 {
        for stream in 0..64 {
            expected.push((stream, index));
        }
    }
    expected.push((0, 41));
    expected.push((0, 42));
    let payloads: Vec<_> = expected
        .iter()
        .map(|&(stream, index)| payload(stream, index))
        .collect();
    let entries: Vec<_> = expected
        .iter()
        .zip(&payloads)
        .map(|(&(stream, index), payload)| Entry {
            stream,
            index,
            payload,
        })
        .collect();
    log.append(&entries).expect("append");
    assert_holds(&*log, 0, 1, 42);
    for stream in 1..64 {
        assert_holds(&*log, stream, 1, 40);
    }
    let log = log.close_and_reopen();
    assert_holds(&*log, 0, 1, 42);
    for stream in 1..64 {
        assert_holds(&*log, stream, 1, 40);
    }
}

/// A stream's first index may be any number, 0 and large ones included.
pub fn streams_begin_anywhere(log: Box<dyn ReopenableLog>) {
    append_one_each(&*log, &[u64::MAX], 0);
    append_one_each(&*log, &[0], 1 << 40);
    append_one_each(&*log, &[0], (1 << 40) + 1);
    let log = log.close_and_reopen();
    assert_holds(&*log, u64::MAX, 0, 0);
    assert_holds(&*log, 0, 1 << 40, (1 << 40) + 1);
}

/// Appends of nothing leave nothing, and an entry without bytes is an entry all the same.
pub fn empty_streams_hold_nothing(log: Box<dyn ReopenableLog>) {
    log.append(&[]).expect("an append of nothing");
    log.sync().expect("a sync of nothing");
    append_one_each(&*log, &[1], 1);
    assert_eq!(log.span(2), None);
    assert_eq!(log.next_index(2), None);
    assert_eq!(contents(&*log, 2), []);

    // An empty payload is an entry, alone in an append and among others.
    for index in 2..=3 {
        let entry = Entry {
            stream: 1,
            index,
            payload: b"",
        };
        log.append(&[entry]).expect("append");
    }
    append_one_each(&*log, &[1], 4);
    let log = log.close_and_reopen();
    let expected = [
        (1, payload(1, 1)),
        (2, Vec::new()),
        (3, Vec::new()),
        (4, payload(1, 4)),
    ];
    assert_eq!(contents(&*log, 1), expected);
    assert_eq!(log.span(2), None);
}

/// An append with a gap or a repeated index is refused whole, after a restart as well.
pub fn entries_that_do_not_continue_their_stream_are_refused(log: Box<dyn ReopenableLog>) {
    for index in 1..=3 {
        append_one_each(&*log, &[1, 2], index);
    }
    let log = log.close_and_reopen();
    let refused = |indexes: &[(u64, u64)]| {
        let entries: Vec<_> = indexes
            .iter()
            .map(|&(stream, index)| Entry {
                stream,
                index,
                payload: b"refused",
            })
            .collect();
        let outcome = catch_unwind(AssertUnwindSafe(|| log.append(&entries)));
        assert!(outcome.is_err(), "{indexes:?} was taken");
    };
    refused(&[(1, 5)]);
    refused(&[(1, 3)]);
    refused(&[(1, 4), (1, 4)]);
    refused(&[(2, 4), (1, 4), (9, 1), (1, 6)]);
    refused(&[(9, 7), (9, 9)]);

    // The refused appends left no trace.
    assert_eq!(log.next_index(9), None);
    append_one_each(&*log, &[9], 3);
    append_one_each(&*log, &[1, 2], 4);
    let log = log.crash_and_reopen().close_and_reopen();
    for stream in [1, 2] {
        let last = log
            .next_index(stream)
            .expect("the stream was closed with entries")
            - 1;
        assert!(last == 3 || last == 4);
        assert_holds(&*log, stream, 1, last);
    }
}

/// Payloads of several MiB come back byte by byte, after a crash as well.
pub fn large_payloads_come_back(log: Box<dyn ReopenableLog>) {
    let pattern = |salt: usize, len: usize| -> Vec<u8> {
        (0..len).map(|i| (i * 7 + salt + (i >> 12)) as u8).collect()
    };
    let payloads = [
        pattern(1, 9 << 20),
        pattern(2, 1),
        pattern(3, (4 << 20) - 1),
    ];
    for round in 0..3 {
        let entries: Vec<_> = (round * 3 + 1..)
            .zip(&payloads)
            .map(|(index, payload)| Entry {
                stream: 5,
                index,
                payload,
            })
            .collect();
        log.append(&entries).expect("append");
    }
    let check = |log: &dyn ReopenableLog| {
        let found = contents(log, 5);
        assert_eq!(found.len(), 9);
        for ((index, found), expected) in found.iter().zip(payloads.iter().cycle()) {
            assert!(found == expected, "entry {index} differs");
        }
    };
    check(&*log);
    check(&*log.close_and_reopen());
}

/// An append over `MAX_LOG_APPEND_BYTES` is refused, and none of its entries is there.
pub fn too_large_appends_leave_nothing(log: Box<dyn ReopenableLog>) {
    let half = vec![1; MAX_LOG_APPEND_BYTES / 2];
    let entry = |index| Entry {
        stream: 1,
        index,
        payload: &half,
    };
    let one_more = Entry {
        stream: 2,
        index: 1,
        payload: b"x",
    };
    let refused = log.append(&[entry(1), entry(2), one_more]);
    let bytes = MAX_LOG_APPEND_BYTES + 1;
    let limit = MAX_LOG_APPEND_BYTES;
    assert_eq!(refused, Err(LogError::TooLarge { bytes, limit }));
    assert_eq!(log.next_index(1), None);
    log.append(&[entry(1), entry(2)])
        .expect("as large as allowed");
    assert_eq!(log.span(1), Some((1, 2)));
}
