//! Random operations and crashes against a model.

use crate::common::{killed, open_with, unsynced};
use pandofs_storage::log::suite::contents;
use pandofs_storage::log::{Entry, Log};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

const STREAMS: u64 = 6;
const STEPS: usize = 250;
const SEEDS: u64 = 24;

/// The indexes of a stream's first entry, and the payloads from there on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Stream {
    first: u64,
    payloads: Vec<Vec<u8>>,
}

type Model = BTreeMap<u64, Stream>;

/// Splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// Contents of `log` as they are read.
fn observed(log: &dyn Log) -> Model {
    let mut model = Model::new();
    for stream in 0..STREAMS {
        let Some(next) = log.next_index(stream) else {
            assert_eq!(log.span(stream), None);
            continue;
        };
        let entries = contents(log, stream);
        let first = next - entries.len() as u64;
        assert!(entries.iter().map(|entry| entry.0).eq(first..next));
        assert_eq!(log.span(stream), (first < next).then(|| (first, next - 1)));
        let payloads = entries.into_iter().map(|entry| entry.1).collect();
        model.insert(stream, Stream { first, payloads });
    }
    model
}

fn append(log: &dyn Log, model: &mut Model, random: &mut Random) {
    let mut entries: Vec<(u64, u64, Vec<u8>)> = Vec::new();
    for _ in 0..=random.below(12) {
        // Some streams are seldom written.
        let number = random.below(STREAMS).min(random.below(STREAMS));
        let length = if random.below(20) == 0 {
            5_000
        } else {
            random.below(200)
        };
        let mut payload = random.next().to_be_bytes().to_vec();
        payload.resize(length as usize, 0);
        let start = random.below(100);
        let fresh = Stream {
            first: start,
            payloads: Vec::new(),
        };
        let stream = model.entry(number).or_insert(fresh);
        entries.push((
            number,
            stream.first + stream.payloads.len() as u64,
            payload.clone(),
        ));
        stream.payloads.push(payload);
    }
    let entries: Vec<Entry<'_>> = entries
        .iter()
        .map(|&(stream, index, ref payload)| Entry {
            stream,
            index,
            payload,
        })
        .collect();
    log.append(&entries).unwrap();
}

fn prune(log: &dyn Log, model: &mut Model, random: &mut Random) {
    let number = random.below(STREAMS);
    let stream = model.entry(number).or_default();
    let kept = stream.payloads.len() as u64;
    let upto = match random.below(8) {
        0 => (stream.first + kept).saturating_sub(1),
        1 => stream.first + kept + random.below(30),
        _ => stream.first + random.below(kept + 1),
    };
    log.prune(number, upto).unwrap();
    if upto >= stream.first {
        stream
            .payloads
            .drain(..(upto + 1 - stream.first).min(kept) as usize);
        stream.first = upto + 1;
    }
}

/// Damages what was not synced.
fn lose_power(dir: &Path, random: &mut Random) {
    let (path, begin, end) = unsynced(dir);
    if begin == end {
        return;
    }
    let file = File::options().write(true).open(path).unwrap();
    let at = begin + random.below(end - begin);
    match random.below(3) {
        0 => file.set_len(at).unwrap(),
        1 => {
            let page = vec![0; (end - at).min(512) as usize];
            file.write_all_at(&page, at).unwrap();
        }
        _ => {
            let noise: Vec<u8> = (at..end).map(|_| random.next() as u8).collect();
            file.write_all_at(&noise, at).unwrap();
        }
    }
}

#[test]
fn whatever_happens_a_prefix_of_the_operations_is_left() {
    for seed in 0..SEEDS {
        run(seed);
    }
}

fn run(seed: u64) {
    let mut random = Random(seed);
    let file_bytes = 2_048 << random.below(5);
    let mut dir = tempfile::tempdir().unwrap();
    let mut log = open_with(dir.path(), file_bytes).unwrap();
    // The states since the last sync, the present one last.
    let mut states = vec![Model::new()];
    for step in 0..STEPS {
        let mut model = states.last().unwrap().clone();
        match random.below(100) {
            0..60 => {
                append(&log, &mut model, &mut random);
                states.push(model);
            }
            60..80 => {
                prune(&log, &mut model, &mut random);
                states.push(model);
            }
            80..86 => {
                log.sync().unwrap();
                states = vec![model];
            }
            86..93 => log.reclaim().unwrap(),
            93..95 => {
                drop(log);
                log = open_with(dir.path(), file_bytes).unwrap();
                assert_eq!(observed(&log), model, "seed {seed}, step {step}: closed");
                states = vec![model];
            }
            95..97 => {
                dir = killed(dir.path());
                log = open_with(dir.path(), file_bytes).unwrap();
                assert_eq!(observed(&log), model, "seed {seed}, step {step}: killed");
            }
            _ => {
                dir = killed(dir.path());
                lose_power(dir.path(), &mut random);
                log = open_with(dir.path(), file_bytes).unwrap();
                let left = observed(&log);
                let kept = states.iter().rposition(|state| *state == left);
                let kept = kept.unwrap_or_else(|| panic!("seed {seed}, step {step}: {left:?}"));
                states.truncate(kept + 1);
            }
        }
    }
    assert_eq!(observed(&log), *states.last().unwrap(), "seed {seed}");
}
