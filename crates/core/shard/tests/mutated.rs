//! Log records and stored values that are almost right: bytes of real ones, those of the golden files, changed and truncated.
//! Each is a value or an error.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use pandofs_namespace::Meta;
use pandofs_namespace::records::{
    EntryRecord, InodeRecord, PartsRecord, ReclaimRecord, SlotRecord, SplitRecord, StagingRecord,
    decode,
};
use pandofs_shard::{Coordinated, Record};
use pandofs_testkit::rng::Rng;
use std::fs;

/// Changed samples of each kind.
const CASES: usize = 60_000;

/// Bytes that a golden file pins: a hexadecimal number after the last colon of a line.
fn samples(path: &str) -> Vec<Vec<u8>> {
    let text = fs::read_to_string(path).unwrap();
    let bytes = text.lines().filter_map(|line| {
        let hex = line.rsplit(": ").next()?;
        let digits: Option<Vec<u8>> = (0..hex.len() / 2)
            .map(|at| u8::from_str_radix(hex.get(2 * at..2 * at + 2)?, 16).ok())
            .collect();
        digits.filter(|bytes| !bytes.is_empty())
    });
    bytes.collect()
}

fn change(rng: &mut Rng, all: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = rng.pick(all).clone();
    for _ in 0..=rng.below(4) {
        if bytes.is_empty() {
            break;
        }
        let at = rng.below(bytes.len() as u64) as usize;
        match rng.below(5) {
            0 => bytes[at] = *rng.pick(&[0, 1, 0x7f, 0x80, 0xff]),
            1 => bytes[at] ^= 1 << rng.below(8),
            2 => bytes.truncate(at),
            3 => bytes.insert(at, rng.next_u64() as u8),
            _ => {
                let other = rng.pick(all).clone();
                let from = rng.below(other.len() as u64) as usize;
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
        }
    }
    bytes
}

#[test]
fn records_are_understood_or_refused() {
    let all = samples(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/golden/log-1.txt"
    ));
    assert!(all.len() > 50 && all.iter().all(|bytes| Record::decode(bytes).is_ok()));
    let mut rng = Rng::new(7);
    let mut understood = 0;
    for _ in 0..CASES {
        if let Ok(record) = Record::decode(&change(&mut rng, &all)) {
            understood += 1;
            let again = record.encode();
            assert_eq!(Record::decode(&again).unwrap().encode(), again);
        }
    }
    assert!(understood > CASES / 100, "{understood} of {CASES}");
}

#[test]
fn values_are_understood_or_refused() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../namespace/tests/golden");
    let mut all = Vec::new();
    for file in fs::read_dir(directory).unwrap() {
        all.extend(samples(file.unwrap().path().to_str().unwrap()));
    }
    all.extend(samples(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/golden/coordinated-1.txt"
    )));
    assert!(all.len() > 20);
    let mut rng = Rng::new(7);
    let mut understood = 0;
    for _ in 0..CASES {
        let bytes = change(&mut rng, &all);
        let outcomes = [
            decode::<Meta>("meta", &bytes).is_ok(),
            decode::<InodeRecord>("inode", &bytes).is_ok(),
            decode::<EntryRecord>("entry", &bytes).is_ok(),
            decode::<PartsRecord>("partitions", &bytes).is_ok(),
            decode::<ReclaimRecord>("reclaim record", &bytes).is_ok(),
            decode::<SplitRecord>("split", &bytes).is_ok(),
            decode::<StagingRecord>("staging", &bytes).is_ok(),
            decode::<SlotRecord>("slot", &bytes).is_ok(),
            decode::<Coordinated>("coordination", &bytes).is_ok(),
        ];
        understood += usize::from(outcomes.contains(&true));
    }
    assert!(understood > CASES / 100, "{understood} of {CASES}");
}
