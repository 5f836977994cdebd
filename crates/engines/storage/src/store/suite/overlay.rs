//! An overlay over the store, against a map that knows nothing of either.

use super::{ReopenableStore, scanned_up_to};
use crate::store::{Cached, KvRead, Overlay, Store};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::collections::BTreeMap;

/// Sequences of operations tried.
const CASES: u32 = 48;
/// Operations of one sequence: enough for several batches.
const MOST_OPERATIONS: usize = 250;

#[derive(Clone, Debug)]
enum Operation {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    Get(Vec<u8>),
    Scan {
        start: Vec<u8>,
        end: Vec<u8>,
        limit: usize,
    },
    Mark,
    Commit,
    Flush,
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    // Few bytes, so that keys meet, are prefixes of one another, and stand at both ends.
    vec(
        prop_oneof![Just(0), Just(b'a'), Just(b'b'), Just(0x80), Just(0xff)],
        0..4,
    )
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        10 => (key(), vec(any::<u8>(), 0..8)).prop_map(|(key, value)| Operation::Put(key, value)),
        5 => key().prop_map(Operation::Delete),
        4 => key().prop_map(Operation::Get),
        3 => (key(), key(), 1..20usize)
            .prop_map(|(start, end, limit)| Operation::Scan { start, end, limit }),
        1 => Just(Operation::Scan { start: vec![], end: vec![0xff; 4], limit: usize::MAX }),
        1 => Just(Operation::Mark),
        1 => Just(Operation::Commit),
        1 => Just(Operation::Flush),
    ]
}

/// Reads and scans of an overlay give what a sorted map gives, for random operations.
pub fn overlay_agrees_with_a_map(make: &dyn Fn() -> Box<dyn ReopenableStore>) {
    let config = Config {
        cases: CASES,
        failure_persistence: None,
        ..Config::default()
    };
    let outcome = TestRunner::new(config)
        .run(&vec(operation(), 1..MOST_OPERATIONS), |operations| {
            check(&*make(), &operations)
        });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

fn check(store: &dyn Store, operations: &[Operation]) -> Result<(), TestCaseError> {
    let mut overlay = Overlay::new(store);
    let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let mut mark = overlay.mark();
    let mut written: Vec<Vec<u8>> = Vec::new();
    for operation in operations {
        match operation {
            Operation::Put(key, value) => {
                overlay.put(key.clone(), value.clone());
                model.insert(key.clone(), value.clone());
                written.push(key.clone());
            }
            Operation::Delete(key) => {
                overlay.delete(key.clone());
                model.remove(key);
                written.push(key.clone());
            }
            Operation::Get(key) => {
                let expected = model.get(key).cloned();
                prop_assert_eq!(&overlay.get(key)?, &expected);
                let cached = overlay.get_cached(key)?;
                prop_assert!(cached == Cached::Cold || cached == Cached::Known(expected));
            }
            Operation::Scan { start, end, limit } => {
                let expected: Vec<_> = model
                    .iter()
                    .filter(|(key, _)| *key >= start && *key < end)
                    .take(*limit)
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect();
                prop_assert_eq!(scanned_up_to(&overlay, start, end, *limit), expected);
            }
            Operation::Mark => {
                let keys: Vec<&[u8]> = overlay.keys_written_since(mark).collect();
                prop_assert_eq!(keys, written.iter().map(Vec::as_slice).collect::<Vec<_>>());
                mark = overlay.mark();
                written.clear();
            }
            Operation::Commit => {
                let batch = overlay.take_batch();
                let mut keys: Vec<&[u8]> = batch.iter().map(|(key, _)| key).collect();
                keys.sort_unstable();
                prop_assert!(keys.is_sorted_by(|a, b| a < b), "one write for each key");
                store.write(&batch)?;
                prop_assert!(overlay.is_empty());
                mark = overlay.mark();
                written.clear();
            }
            Operation::Flush => store.flush()?,
        }
    }
    let all: Vec<_> = model.into_iter().collect();
    prop_assert_eq!(
        scanned_up_to(&overlay, &[], &[0xff; 4], usize::MAX),
        all.clone()
    );
    store.write(&overlay.take_batch())?;
    prop_assert_eq!(scanned_up_to(store, &[], &[0xff; 4], usize::MAX), all);
    Ok(())
}
