//! Every decoder on random bytes, and on golden ones that are changed, cut and put together anew.
//!
//! Each gives a value or an error, never a panic; a value that was understood can be said again
//! (that is in the decoders themselves).

use pandofs_formats::decoders::{ALL, samples};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

/// Samples of each decoder, in the order of the table.
static SAMPLES: LazyLock<Vec<Vec<Vec<u8>>>> = LazyLock::new(|| ALL.iter().map(samples).collect());

#[derive(Clone, Debug)]
enum Change {
    Set(Index, u8),
    Flip(Index, u8),
    Cut(Index),
    Insert(Index, Vec<u8>),
    /// The rest is another sample's.
    Splice(Index, Index, Index),
}

fn change() -> impl Strategy<Value = Change> {
    let at = any::<Index>;
    let byte = prop_oneof![Just(0), Just(0x7f), Just(0x80), Just(0xff), any::<u8>()];
    prop_oneof![
        (at(), byte).prop_map(|(at, byte)| Change::Set(at, byte)),
        (at(), 0..8_u8).prop_map(|(at, bit)| Change::Flip(at, bit)),
        at().prop_map(Change::Cut),
        (at(), vec(any::<u8>(), 1..12)).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        (at(), at(), at()).prop_map(|(at, other, from)| Change::Splice(at, other, from)),
    ]
}

fn apply(bytes: &mut Vec<u8>, change: &Change, all: &[Vec<u8>]) {
    if bytes.is_empty() {
        return;
    }
    let length = bytes.len();
    match change {
        Change::Set(at, byte) => bytes[at.index(length)] = *byte,
        Change::Flip(at, bit) => bytes[at.index(length)] ^= 1 << bit,
        Change::Cut(at) => bytes.truncate(at.index(length)),
        Change::Insert(at, more) => {
            let at = at.index(length);
            bytes.splice(at..at, more.iter().copied());
        }
        Change::Splice(at, other, from) => {
            let other = &all[other.index(all.len())];
            if !other.is_empty() {
                bytes.truncate(at.index(length));
                bytes.extend_from_slice(&other[from.index(other.len())..]);
            }
        }
    }
}

#[test]
fn every_decoder_has_samples_and_most_make_sense_to_it() {
    for (decoder, samples) in ALL.iter().zip(SAMPLES.iter()) {
        let understood = samples
            .iter()
            .filter(|bytes| (decoder.decode)(bytes))
            .count();
        // Some are of errors, and some lack what goes before.
        assert!(
            2 * understood > samples.len(),
            "{} understands {understood} of {} samples",
            decoder.name,
            samples.len()
        );
    }
}

#[test]
fn every_decoder_has_a_fuzz_target_and_each_of_these_a_decoder() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz");
    let targets: BTreeSet<String> = fs::read_dir(folder.join("fuzz_targets"))
        .unwrap()
        .map(|file| {
            file.unwrap()
                .path()
                .file_stem()
                .unwrap()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    let decoders: BTreeSet<String> = ALL.iter().map(|decoder| decoder.name.to_string()).collect();
    assert_eq!(decoders.len(), ALL.len(), "two have one name");
    assert_eq!(targets, decoders);
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    for name in decoders {
        assert!(
            manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")),
            "fuzz/Cargo.toml has no {name}"
        );
        let target = folder.join(format!("fuzz_targets/{name}.rs"));
        assert!(
            fs::read_to_string(&target)
                .unwrap()
                .contains(&format!("find(\"{name}\")")),
            "{} fuzzes another decoder",
            target.display()
        );
    }
}

#[test]
fn every_start_of_a_sample_is_understood_or_refused() {
    for (decoder, samples) in ALL.iter().zip(SAMPLES.iter()) {
        for sample in samples {
            for end in 0..sample.len().min(2_000) {
                (decoder.decode)(&sample[..end]);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn bytes_at_random_are_understood_or_refused(bytes in vec(any::<u8>(), 0..600)) {
        for decoder in ALL {
            (decoder.decode)(&bytes);
        }
    }

    #[test]
    fn changed_samples_are_understood_or_refused(
        sample in any::<Index>(),
        changes in vec(change(), 1..6),
    ) {
        for (decoder, samples) in ALL.iter().zip(SAMPLES.iter()) {
            let mut bytes = samples[sample.index(samples.len())].clone();
            for change in &changes {
                apply(&mut bytes, change, samples);
            }
            (decoder.decode)(&bytes);
        }
    }
}
