//! Contents of a store after a crash.

use super::{Pair, ReopenableStore, put_all, scanned};
use crate::store::{Batch, KvRead, Store};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Batches written while another thread flushes.
const CONCURRENT_BATCHES: u32 = 2_000;
/// Bytes of the value that makes numbered batches big enough to fill a small write buffer.
const PADDING_BYTES: usize = 1_024;

/// All that was written before a flush is there after a crash, deletions included.
pub fn what_was_flushed_survives(store: Box<dyn ReopenableStore>) {
    store.flush().expect("a flush of nothing");
    put_all(&*store, &[(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]);
    store.flush().expect("flush");
    let store = store.crash_and_reopen();
    let left = [("a", "1"), ("b", "2"), ("c", "3")].map(pair);
    assert_eq!(scanned(&*store, b"", b"z"), left);

    let mut batch = Batch::new();
    batch.delete(b"a".to_vec());
    batch.put(b"b".to_vec(), b"4".to_vec());
    store.write(&batch).expect("write");
    store.flush().expect("flush");
    store.flush().expect("a second flush");
    let store = store.crash_and_reopen().crash_and_reopen();
    assert_eq!(
        scanned(&*store, b"", b"z"),
        [("b", "4"), ("c", "3")].map(pair)
    );
}

/// A crash takes whole batches off the end, and none that was flushed.
pub fn a_crash_leaves_a_prefix_of_the_writes(make: &dyn Fn() -> Box<dyn ReopenableStore>) {
    for (flushed, written) in [(0, 0), (0, 1), (0, 5), (3, 3), (3, 4), (10, 25), (0, 600)] {
        let store = make();
        for i in 1..=written {
            store.write(&numbered(i)).expect("write");
            if i == flushed {
                store.flush().expect("flush");
            }
        }
        let store = store.crash_and_reopen();
        let left = assert_a_prefix(&*store);
        assert!(
            left >= flushed && left <= written,
            "{flushed} <= {left} <= {written}"
        );

        // Writes after the crash follow those that it left, not those that it lost.
        store.write(&numbered(left + 1)).expect("write");
        store.flush().expect("flush");
        assert_eq!(assert_a_prefix(&*store.crash_and_reopen()), left + 1);
    }
}

/// A flush covers all writes that had ended when it began, whichever thread made them.
pub fn flush_from_another_thread_covers_what_came_before(store: Box<dyn ReopenableStore>) {
    let written = AtomicU32::new(0);
    let done = AtomicBool::new(false);
    let flushed = std::thread::scope(|scope| {
        let flusher = scope.spawn(|| {
            let mut flushed = 0;
            while !done.load(Ordering::Acquire) {
                let before = written.load(Ordering::Acquire);
                store.flush().expect("flush");
                flushed = before;
            }
            flushed
        });
        for i in 1..=CONCURRENT_BATCHES {
            store.write(&numbered(i)).expect("write");
            written.store(i, Ordering::Release);
        }
        done.store(true, Ordering::Release);
        flusher.join().expect("the flusher")
    });
    assert_eq!(assert_a_prefix(&*store), CONCURRENT_BATCHES);
    let left = assert_a_prefix(&*store.crash_and_reopen());
    assert!(
        left >= flushed && left <= CONCURRENT_BATCHES,
        "{flushed} <= {left}"
    );
}

/// The `i`th of a row of batches, counted from 1, whose prefixes can be distinguished: every state
/// between two of them, and every half of one, differs from what [`after`] gives.
pub fn numbered(i: u32) -> Batch {
    let number = i.to_be_bytes().to_vec();
    let mut batch = Batch::new();
    batch.put(b"count".to_vec(), number.clone());
    batch.put(
        [b"each/".to_vec(), number.clone()].concat(),
        vec![i as u8; PADDING_BYTES],
    );
    if i > 3 {
        batch.delete([&b"each/"[..], &(i - 3).to_be_bytes()].concat());
    }
    batch.put(b"last".to_vec(), number);
    batch
}

/// Contents after the first `count` numbered batches.
fn after(count: u32) -> Vec<Pair> {
    let mut map = BTreeMap::new();
    for i in 1..=count {
        for (key, value) in numbered(i).iter() {
            match value {
                Some(value) => map.insert(key.to_vec(), value.to_vec()),
                None => map.remove(key),
            };
        }
    }
    map.into_iter().collect()
}

/// Checks that `store` holds what some number of numbered batches leave, and returns that number.
///
/// # Panics
/// When it holds anything else.
pub fn assert_a_prefix<S: Store + ?Sized>(store: &S) -> u32 {
    let count = KvRead::get(store, b"count")
        .expect("get")
        .map_or(0, |count| {
            u32::from_be_bytes(count.try_into().expect("four bytes, as they were written"))
        });
    assert!(
        scanned(store, b"", b"\xff") == after(count),
        "not what {count} batches leave"
    );
    count
}

fn pair((key, value): (&str, &str)) -> Pair {
    (key.as_bytes().to_vec(), value.as_bytes().to_vec())
}
