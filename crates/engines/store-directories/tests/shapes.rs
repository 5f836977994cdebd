//! Keys of every place, in random order, against a map; and what a local file system makes difficult.

#![allow(clippy::unwrap_used, reason = "what tests call is test code, too")]

use pandofs_storage::store::suite::{Pair, scanned};
use pandofs_storage::store::{Batch, KvRead, Store};
use pandofs_store_directories::{DirectoriesStore, Options};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

const LAST: [u8; 1] = [0xff];

fn open(path: &Path) -> DirectoriesStore {
    DirectoriesStore::open(path, Options::default()).unwrap()
}

/// Keys as PandoFS has them, and such as begin like them; few, so that they meet.
fn key() -> impl Strategy<Value = Vec<u8>> {
    let number = prop_oneof![
        Just(0_u64),
        Just(1),
        Just(4_095),
        Just(4_096),
        Just(u64::MAX)
    ];
    let shard = prop_oneof![Just(0_u16), Just(1), Just(u16::MAX)];
    let kind = prop_oneof![
        Just(1_u8),
        Just(2),
        Just(3),
        Just(6),
        Just(0x16),
        Just(0x17)
    ];
    let rest = prop_oneof![
        4 => Just(vec![]),
        2 => Just(b"\0\0\0\0\0\0\0\x01name".to_vec()),
        1 => Just(b"\0\0\0\0\0\0\0\x01a/b%\n\xff".to_vec()),
        1 => Just(b"\0\0\0\0\0\0\0\x01A/b%\n\xff".to_vec()),
        1 => Just([b"\0\0\0\0\0\0\0\x01".as_slice(), &[b'%'; 255]].concat()),
        2 => Just(b"user.x".to_vec()),
        1 => Just(b"user.y\0".to_vec()),
        1 => Just(vec![b'y'; 242]),
        1 => Just(vec![b'y'; 243]),
    ];
    (kind, shard, number, rest, 0..20_usize).prop_map(|(kind, shard, number, rest, cut)| {
        let mut key = vec![kind];
        key.extend_from_slice(&shard.to_be_bytes());
        key.extend_from_slice(&number.to_be_bytes());
        key.extend_from_slice(&rest);
        // One in four is none of those.
        if cut < 5 {
            key.truncate(cut);
        }
        key
    })
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    let size = prop_oneof![4 => 0..80_usize, 1 => 1_000..1_600_usize, 1 => 2_040..2_060_usize, 1 => 3_000..70_000_usize];
    (any::<u8>(), size).prop_map(|(byte, size)| vec![byte; size])
}

#[derive(Clone, Debug)]
enum Operation {
    Write(Vec<(Vec<u8>, Option<Vec<u8>>)>),
    Flush,
    Reopen,
    Get(Vec<u8>),
    Scan(Vec<u8>, Vec<u8>),
}

fn operation() -> impl Strategy<Value = Operation> {
    let write = (key(), proptest::option::weighted(0.6, value()));
    prop_oneof![
        6 => vec(write, 1..20).prop_map(Operation::Write),
        2 => Just(Operation::Flush),
        1 => Just(Operation::Reopen),
        3 => key().prop_map(Operation::Get),
        2 => (key(), key()).prop_map(|(start, end)| Operation::Scan(start, end)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn it_agrees_with_a_map(operations in vec(operation(), 1..60)) {
        let directory = tempfile::tempdir().unwrap();
        let mut store = open(directory.path());
        let mut model = BTreeMap::new();
        for operation in operations {
            match operation {
                Operation::Write(writes) => {
                    store.write(&Batch::from(writes.clone())).unwrap();
                    for (key, value) in writes {
                        match value {
                            Some(value) => model.insert(key, value),
                            None => model.remove(&key),
                        };
                    }
                }
                Operation::Flush => store.flush().unwrap(),
                Operation::Reopen => {
                    store.flush().unwrap();
                    drop(store);
                    store = open(directory.path());
                }
                Operation::Get(key) => {
                    prop_assert_eq!(store.get(&key).unwrap(), model.get(&key).cloned());
                }
                Operation::Scan(start, end) => {
                    let expected: Vec<Pair> = model
                        .iter()
                        .filter(|(key, _)| **key >= start && **key < end)
                        .map(|(key, value)| (key.clone(), value.clone()))
                        .collect();
                    prop_assert_eq!(scanned(&store, &start, &end), expected);
                }
            }
        }
        store.flush().unwrap();
        let bytes: usize = model.iter().map(|(key, value)| key.len() + value.len()).sum();
        prop_assert_eq!(store.size_bytes(), bytes as u64, "what it says of its size");
        drop(store);
        let store = open(directory.path());
        let expected: Vec<Pair> = model.into_iter().collect();
        prop_assert_eq!(store.size_bytes(), bytes as u64, "after a start");
        prop_assert_eq!(scanned(&store, &[], &LAST), expected);
        let mut read = 0;
        store.verify(&mut |more| { read += more; ControlFlow::Continue(()) }).unwrap();
        prop_assert_eq!(read, bytes as u64);
    }
}

/// More entries than a scan reads at a time, of which some are changed and removed in memory.
#[test]
fn a_scan_merges_memory_and_files() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let entry = |position: u64, name: &str| {
        let mut key = vec![3, 0, 7, 0, 0, 0, 0, 0, 0, 0, 9];
        key.extend_from_slice(&position.to_be_bytes());
        key.extend_from_slice(name.as_bytes());
        key
    };
    let mut model = BTreeMap::new();
    let write = |model: &mut BTreeMap<Vec<u8>, Vec<u8>>, key: Vec<u8>, value: Option<Vec<u8>>| {
        match value.clone() {
            Some(value) => model.insert(key.clone(), value),
            None => model.remove(&key),
        };
        store.write(&Batch::from(vec![(key, value)])).unwrap();
    };
    for position in 0..1_000 {
        write(&mut model, entry(position * 7, "name"), Some(vec![1; 12]));
    }
    store.flush().unwrap();
    for position in 0..500 {
        let value = (position % 3 > 0).then(|| vec![2; 12]);
        write(&mut model, entry(position * 14, "name"), value);
        write(
            &mut model,
            entry(position * 14 + 3, "other"),
            Some(vec![3; 12]),
        );
    }
    let expected: Vec<Pair> = model.into_iter().collect();
    let found = scanned(&store, &[3, 0, 7], &[3, 0, 8]);
    assert!(found == expected, "{} of {}", found.len(), expected.len());
    let from = entry(3_000, "");
    let found = scanned(&store, &from, &[3, 0, 7, 0, 0, 0, 0, 0, 0, 0, 10]);
    let expected: Vec<Pair> = expected
        .into_iter()
        .filter(|(key, _)| *key >= from)
        .collect();
    assert!(found == expected);
}

/// A flush that begins while a scan goes on is not seen by it, and ends when it does.
#[test]
fn a_scan_is_of_one_moment_although_files_change() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let entries = |value: u8| {
        let keys = (0..1_000_u64).map(|position| {
            let key = [
                &[3, 0, 7, 0, 0, 0, 0, 0, 0, 0, 9][..],
                &position.to_be_bytes(),
                b"n",
            ];
            (key.concat(), Some(vec![value]))
        });
        Batch::from(keys.collect::<Vec<_>>())
    };
    store.write(&entries(1)).unwrap();
    store.flush().unwrap();
    std::thread::scope(|scope| {
        let mut flusher = None;
        let mut seen = 0;
        let mut visit = |_: &[u8], value: &[u8]| {
            assert_eq!(value, [1]);
            seen += 1;
            if seen == 1 {
                store.write(&entries(2)).unwrap();
                flusher = Some(scope.spawn(|| store.flush().unwrap()));
                // The flush has its journal written, and would go on to the files.
                let journal = directory.path().join("journal");
                let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
                while !journal.exists() {
                    assert!(std::time::Instant::now() < deadline, "no journal");
                    std::thread::yield_now();
                }
            }
            ControlFlow::Continue(())
        };
        store.scan(&[3], &[4], &mut visit).unwrap();
        assert_eq!(seen, 1_000);
        flusher.unwrap().join().unwrap();
    });
    drop(store);
    let store = open(directory.path());
    assert!(
        scanned(&store, &[3], &[4])
            .iter()
            .all(|(_, value)| *value == [2])
    );
}
