//! Ends of a store after each of its changes of the file system.

use crate::place::{DATA, ENTRY, NAMED, RECORD, numbered};
use crate::{DirectoriesStore, Options};
use pandofs_storage::store::{Batch, KvRead, Store, StoreError};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};

thread_local! {
    /// Steps that the next store of this thread takes.
    static STEPS: Cell<i64> = const { Cell::new(i64::MAX) };
}

/// Steps that a store still takes; then every one fails.
pub(crate) struct Cut(AtomicI64);

impl Cut {
    pub(crate) fn of_this_thread() -> Cut {
        Cut(AtomicI64::new(STEPS.get()))
    }

    pub(crate) fn step(&self) -> io::Result<()> {
        if self.0.fetch_sub(1, Ordering::Relaxed) > 0 {
            Ok(())
        } else {
            Err(io::Error::other("the store has ended"))
        }
    }
}

fn open(path: &Path, steps: i64) -> Result<DirectoriesStore, StoreError> {
    STEPS.set(steps);
    let opened = DirectoriesStore::open(path, Options::default());
    STEPS.set(i64::MAX);
    opened
}

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

fn all_of(store: &DirectoriesStore) -> Pairs {
    let mut found = Pairs::new();
    store
        .scan(&[], &[0xff; 2], &mut |key, value| {
            found.insert(key.to_vec(), value.to_vec());
            ControlFlow::Continue(())
        })
        .unwrap();
    found
}

fn entry(dir: u64, name: &[u8]) -> Vec<u8> {
    let position = name.iter().fold(7, |hash: u64, &byte| {
        hash.wrapping_mul(131) ^ u64::from(byte)
    });
    [&numbered(ENTRY, 3, dir)[..], &position.to_be_bytes(), name].concat()
}

fn named(ino: u64, name: &str) -> Vec<u8> {
    [&numbered(NAMED, 3, ino)[..], name.as_bytes()].concat()
}

/// Batches of which each changes what the one before has made, in every way that a file may change: from attribute to
/// contents, to another file and back, to nothing, and with its folder.
fn batches() -> Vec<Batch> {
    let record = |ino: u64| numbered(RECORD, 3, ino).to_vec();
    let data = |ino: u64| numbered(DATA, 3, ino).to_vec();
    let long = [b'n'; 255];
    let bytes = |byte: u8, bytes: usize| vec![byte; bytes];
    type Writes = Vec<(Vec<u8>, Option<Vec<u8>>)>;
    let sets: Vec<Writes> = vec![
        vec![
            (vec![1, 0, 3], Some(vec![1])),
            (entry(9, b"a"), Some(vec![1; 9])),
            (entry(9, &long), Some(vec![2; 9])),
            (entry(9, &[b'%'; 200]), Some(vec![3; 9])),
            (record(5), Some(bytes(1, 60))),
            (data(5), Some(bytes(2, 9_000))),
        ],
        vec![
            (entry(9, b"a"), Some(bytes(4, 5_000))),
            (record(5), Some(bytes(1, 4_000))),
            (named(5, "user.a"), Some(bytes(5, 1_500))),
            (named(5, "user.b"), Some(bytes(6, 1_500))),
            // ext4 has one block for all of them.
            (named(5, "user.c"), Some(bytes(7, 1_500))),
            (named(5, "user.d"), Some(bytes(8, 2_000))),
            (named(5, "user.e"), Some(bytes(9, 60_000))),
        ],
        vec![
            (entry(9, b"a"), Some(vec![2; 9])),
            (record(5), Some(bytes(3, 70))),
            (data(5), Some(bytes(4, 100))),
            (named(5, "user.a"), None),
            (named(5, "user.e"), Some(vec![])),
            (entry(9, &long), None),
        ],
        vec![
            (vec![1, 0, 3], None),
            (data(5), None),
            (named(5, "user.b"), Some(bytes(6, 1_400))),
            (named(5, "user.c"), Some(bytes(7, 10))),
            (record(6), Some(bytes(1, 3_000))),
            (data(7), Some(vec![])),
        ],
        vec![
            (entry(9, b"a"), None),
            (entry(9, &[b'%'; 200]), None),
            (record(5), None),
            (named(5, "user.b"), None),
            (named(5, "user.c"), None),
            (named(5, "user.d"), None),
            (named(5, "user.e"), None),
            (record(6), None),
            (data(7), None),
            (entry(8, b"."), Some(vec![])),
        ],
    ];
    sets.into_iter().map(Batch::from).collect()
}

/// What the first batches leave, none of them first.
fn states() -> Vec<Pairs> {
    let mut states = vec![Pairs::new()];
    for batch in batches() {
        let mut next = states.last().unwrap().clone();
        for (key, value) in batch.iter() {
            match value {
                Some(value) => next.insert(key.to_vec(), value.to_vec()),
                None => next.remove(key),
            };
        }
        states.push(next);
    }
    states
}

/// Writes and flushes the batches that are not in the store yet, until the store ends; answers how many are flushed for
/// sure.
fn go_on(path: &Path, steps: i64, flushed: usize) -> (usize, bool) {
    let Ok(store) = open(path, steps) else {
        return (flushed, false);
    };
    let found = all_of(&store);
    let mut done = states().iter().position(|state| *state == found).unwrap();
    assert!(done >= flushed, "{done} of {flushed}");
    for batch in batches().iter().skip(done) {
        store.write(batch).unwrap();
        if store.flush().is_err() {
            // It reads as before, and takes nothing more.
            assert_eq!(all_of(&store), states()[done + 1]);
            assert!(store.write(batch).is_err());
            return (done, false);
        }
        done += 1;
    }
    (done, true)
}

#[test]
fn a_store_that_ends_at_any_step_has_a_prefix_of_the_writes() {
    let mut ends = 0;
    for steps in 0.. {
        let directory = tempfile::tempdir().unwrap();
        let (flushed, was_whole) = go_on(directory.path(), steps, 0);
        // Once more, by the same number of steps: the end of what the first left is cut as well.
        let (flushed, _) = go_on(directory.path(), steps % 41, flushed);
        let (flushed, is_whole) = go_on(directory.path(), i64::MAX, flushed);
        assert!(is_whole && flushed == batches().len());
        let store = open(directory.path(), i64::MAX).unwrap();
        store.verify(&mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(all_of(&store), *states().last().unwrap());
        for folder in ["directories/0003", "inodes/0003", "others"] {
            let left = std::fs::read_dir(directory.path().join(folder)).unwrap();
            let expected = usize::from(folder.starts_with("directories"));
            assert_eq!(left.count(), expected, "{folder} after {steps} steps");
        }
        if was_whole {
            break;
        }
        ends += 1;
    }
    assert!(ends > 100, "{ends}");
}
