//! Ranges of keys.

use super::{ReopenableStore, put_all, scanned, scanned_up_to};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

/// Batches written while another thread scans.
const CONCURRENT_BATCHES: u32 = 2_000;

/// A scan gives keys in order, from its start to before its end.
pub fn scans_are_ordered_and_half_open(store: Box<dyn ReopenableStore>) {
    assert!(scanned(&*store, b"", b"\xff").is_empty());
    // Half of them in one place, half in another where an implementation has two.
    put_all(&*store, &[(b"b", b"1"), (b"d", b"3"), (b"c", b"old")]);
    store.flush().expect("flush");
    put_all(&*store, &[(b"c", b"2"), (b"a", b"0"), (b"ca", b"5")]);

    let keys = |start: &[u8], end: &[u8]| -> Vec<Vec<u8>> {
        scanned(&*store, start, end)
            .into_iter()
            .map(|(key, _)| key)
            .collect()
    };
    let all: [&[u8]; 5] = [b"a", b"b", b"c", b"ca", b"d"];
    assert_eq!(keys(b"", b"\xff"), all);
    assert_eq!(keys(b"a", b"e"), all);
    assert_eq!(keys(b"b", b"d"), all[1..4]);
    assert_eq!(keys(b"b\0", b"d\0"), all[2..5]);
    assert_eq!(keys(b"c", b"cb"), all[2..4]);
    assert!(keys(b"ce", b"cz").is_empty());
    assert!(keys(b"c", b"c").is_empty());
    assert!(
        keys(b"d", b"a").is_empty(),
        "a range whose end is before its start is empty"
    );
    assert!(keys(b"", b"").is_empty());
    assert_eq!(
        scanned(&*store, b"c", b"ca"),
        [(b"c".to_vec(), b"2".to_vec())]
    );
}

/// A visitor that breaks off sees no further key.
pub fn scans_stop_when_told(store: Box<dyn ReopenableStore>) {
    put_all(&*store, &[(b"a", b"0"), (b"b", b"1"), (b"c", b"2")]);
    for limit in 1..=3 {
        assert_eq!(scanned_up_to(&*store, b"a", b"z", limit).len(), limit);
    }
}

/// A visitor may read and scan the store that it is called from.
pub fn visitors_may_read_the_store(store: Box<dyn ReopenableStore>) {
    put_all(&*store, &[(b"a", b"b"), (b"b", b"a")]);
    let mut visited = 0;
    store
        .scan(b"a", b"z", &mut |key, value| {
            assert_eq!(store.get(value).expect("get").as_deref(), Some(key));
            assert_eq!(scanned(&*store, b"a", b"z").len(), 2);
            visited += 1;
            ControlFlow::Continue(())
        })
        .expect("scan");
    assert_eq!(visited, 2);
}

/// A scan beside writes of batches sees each of them whole or not at all.
pub fn scans_see_no_half_batch(store: Box<dyn ReopenableStore>) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0..CONCURRENT_BATCHES {
                let value = i.to_be_bytes();
                put_all(
                    &*store,
                    &[(b"first", &value), (b"middle", b""), (b"second", &value)],
                );
            }
            done.store(true, Ordering::Release);
        });
        let mut last = None;
        loop {
            // Read first: the scan after the last batch sees the last batch.
            let finished = done.load(Ordering::Acquire);
            let found = scanned(&*store, b"f", b"z");
            if let [(_, first), _, (_, second)] = &found[..] {
                assert_eq!(first, second);
                assert!(last.as_ref() <= Some(first), "a scan went back in time");
                last = Some(first.clone());
            } else {
                assert!(
                    found.is_empty() && last.is_none(),
                    "half a batch: {found:?}"
                );
            }
            if finished {
                break;
            }
        }
        assert_eq!(last, Some((CONCURRENT_BATCHES - 1).to_be_bytes().to_vec()));
    });
}
