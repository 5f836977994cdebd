//! Single keys.

use super::{ReopenableStore, put_all, scanned};
use crate::store::{Batch, Cached};

/// A write is read from when it has returned; an empty value is not an absent one.
pub fn puts_and_deletes_are_seen_at_once(store: Box<dyn ReopenableStore>) {
    assert_eq!(store.get(b"a").expect("get"), None);
    put_all(&*store, &[(b"a", b"1"), (b"b", b""), (b"c", b"3")]);
    assert_eq!(store.get(b"a").expect("get"), Some(b"1".to_vec()));
    assert_eq!(
        store.get(b"b").expect("get"),
        Some(vec![]),
        "an empty value is a value"
    );
    assert_eq!(store.get(b"").expect("get"), None);
    assert_eq!(store.get(b"aa").expect("get"), None);

    let mut batch = Batch::new();
    batch.delete(b"a".to_vec());
    batch.delete(b"never there".to_vec());
    batch.put(b"c".to_vec(), b"4".to_vec());
    store.write(&batch).expect("write");
    assert_eq!(store.get(b"a").expect("get"), None);
    assert_eq!(store.get(b"c").expect("get"), Some(b"4".to_vec()));

    store
        .write(&Batch::new())
        .expect("an empty batch is a batch");
    assert_eq!(store.get(b"c").expect("get"), Some(b"4".to_vec()));
}

/// Of writes to one key in a batch the last one counts.
pub fn the_later_of_two_writes_wins(store: Box<dyn ReopenableStore>) {
    let mut batch = Batch::new();
    batch.put(b"put".to_vec(), b"1".to_vec());
    batch.put(b"put".to_vec(), b"2".to_vec());
    batch.put(b"gone".to_vec(), b"1".to_vec());
    batch.delete(b"gone".to_vec());
    batch.delete(b"back".to_vec());
    batch.put(b"back".to_vec(), b"1".to_vec());
    store.write(&batch).expect("write");
    let expected = [
        (b"back".to_vec(), b"1".to_vec()),
        (b"put".to_vec(), b"2".to_vec()),
    ];
    assert_eq!(scanned(&*store, b"", b"z"), expected);
    assert_eq!(store.get(b"gone").expect("get"), None);
}

/// Keys may hold any bytes, the empty key included, and are in order of unsigned bytes.
pub fn any_bytes_are_a_key(store: Box<dyn ReopenableStore>) {
    // In ascending order of bytes, which are unsigned, a prefix before what it begins.
    let keys: [&[u8]; 12] = [
        &[],
        &[0],
        &[0, 0],
        &[0, 0xff],
        &[1],
        b"/",
        b"a\0",
        b"a\0b",
        &[0x7f],
        &[0x80],
        &[0xff, 0],
        &[0xff, 0xff],
    ];
    for (i, key) in keys.iter().enumerate() {
        put_all(&*store, &[(key, &[0, i as u8, 0xff])]);
    }
    for (i, key) in keys.iter().enumerate() {
        assert_eq!(
            store.get(key).expect("get"),
            Some(vec![0, i as u8, 0xff]),
            "key {key:?}"
        );
    }
    let found: Vec<_> = scanned(&*store, &[], &[0xff; 3])
        .into_iter()
        .map(|(key, _)| key)
        .collect();
    assert_eq!(found, keys);

    let mut batch = Batch::new();
    keys.iter().for_each(|key| batch.delete(key.to_vec()));
    store.write(&batch).expect("write");
    assert!(scanned(&*store, &[], &[0xff; 3]).is_empty());
}

/// A value of 4 MiB comes back, after a crash as well.
pub fn large_values_come_back(store: Box<dyn ReopenableStore>) {
    let value = incompressible(4 << 20);
    put_all(&*store, &[(b"large", &value), (b"small", b"1")]);
    assert!(store.get(b"large").expect("get").as_ref() == Some(&value));
    store.flush().expect("flush");
    let store = store.crash_and_reopen();
    assert!(store.get(b"large").expect("get") == Some(value));
    assert_eq!(store.get(b"small").expect("get"), Some(b"1".to_vec()));
}

/// A key that was read, or found absent, is answered from memory afterwards.
pub fn reading_a_key_warms_it(store: Box<dyn ReopenableStore>) {
    let present = Cached::Known(Some(b"1".to_vec()));
    let absent = Cached::Known(None);
    put_all(&*store, &[(b"a", b"1"), (b"c", b"3")]);
    assert_eq!(
        store.get_cached(b"a").expect("get_cached"),
        present,
        "it was just written"
    );

    store.flush().expect("flush");
    let store = store.crash_and_reopen();
    for (key, expected) in [(b"a", present), (b"b", absent)] {
        let before = store.get_cached(key).expect("get_cached");
        assert!(before == Cached::Cold || before == expected, "{before:?}");
        let value = store.get(key).expect("get");
        assert_eq!(Cached::Known(value), expected);
        assert_eq!(
            store.get_cached(key).expect("get_cached"),
            expected,
            "it was just read"
        );
    }
}

/// The size on disk counts what was flushed.
pub fn size_grows(store: Box<dyn ReopenableStore>) {
    let before = store.size_bytes();
    let value = incompressible(1 << 20);
    put_all(&*store, &[(b"a", &value)]);
    store.flush().expect("flush");
    assert!(store.size_bytes() > before);
}

/// Bytes that do not compress: a counter, mixed (the finalizer of MurmurHash3).
fn incompressible(bytes: u32) -> Vec<u8> {
    let mix = |mut x: u32| {
        x = (x ^ (x >> 16)).wrapping_mul(0x85eb_ca6b);
        x = (x ^ (x >> 13)).wrapping_mul(0xc2b2_ae35);
        (x >> 24) as u8
    };
    (0..bytes).map(mix).collect()
}
