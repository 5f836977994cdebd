//! An object with checksums beside one of plain bytes, through kills, refusals and losses of power.
//!
//! Also tests of damage.

use super::testing::{Fate, Machine, SimFile};
use super::{BLOCK, Checked, Note, Raw, SumsError, sum};
use pandofs_api::Allocation;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::fs::File;
use std::io;
use std::ops::Range;

const B: usize = BLOCK as usize;
/// Bytes that an object of a test has at most.
const LONGEST: usize = 12 * B;

#[derive(Clone, Debug)]
enum Op {
    Write { offset: usize, bytes: Vec<u8> },
    Cut(usize),
    Allocate(Range<usize>, Allocation),
}

impl Op {
    fn random(random: &mut StdRng) -> Op {
        // Often at the edge of a block.
        let place = |random: &mut StdRng| match random.random_range(0..3) {
            0 => random.random_range(0..LONGEST / B) * B,
            _ => random.random_range(0..LONGEST - 1),
        };
        let (a, b) = (place(random), place(random));
        let range = a.min(b)..a.max(b) + 1;
        let keep_size = random.random();
        match random.random_range(0..10) {
            0..5 => {
                let mut bytes = vec![0; range.len()];
                // Blocks of zeros are written, too.
                if random.random_range(0..5) > 0 {
                    random.fill(&mut bytes[..]);
                }
                Op::Write {
                    offset: range.start,
                    bytes,
                }
            }
            5..7 => Op::Cut(a),
            7 => Op::Allocate(range, Allocation::Punch),
            8 => Op::Allocate(range, Allocation::Zero { keep_size }),
            _ => Op::Allocate(range, Allocation::Reserve { keep_size }),
        }
    }

    fn on_object<F: Raw>(&self, object: &Checked<F>) -> Result<(), SumsError> {
        match self {
            Op::Write { offset, bytes } => object.write(*offset as u64, bytes),
            Op::Cut(length) => Ok(object.truncate(*length as u64)?),
            Op::Allocate(range, allocation) => {
                let range = range.start as u64..range.end as u64;
                Ok(object.allocate(&range, *allocation)?)
            }
        }
    }

    fn on_bytes(&self, plain: &mut Vec<u8>) {
        match self {
            Op::Write { offset, bytes } => {
                let end = offset + bytes.len();
                plain.resize(plain.len().max(end), 0);
                plain[*offset..end].copy_from_slice(bytes);
            }
            Op::Cut(length) => plain.truncate(*length),
            Op::Allocate(range, allocation) => {
                if allocation.extends() {
                    plain.resize(plain.len().max(range.end), 0);
                }
                let end = range.end.min(plain.len());
                if allocation.zeroes() && range.start < end {
                    plain[range.start..end].fill(0);
                }
            }
        }
    }
}

fn read<F: Raw>(object: &Checked<F>) -> Vec<u8> {
    object.read(0, LONGEST).unwrap()
}

/// Each byte is as it was or as it was to be.
fn expect_between(found: &[u8], before: &[u8], after: &[u8], what: &str) {
    let at = |bytes: &[u8], at: usize| bytes.get(at).copied().unwrap_or(0);
    for place in 0..LONGEST {
        let byte = at(found, place);
        assert!(
            byte == at(before, place) || byte == at(after, place),
            "{what}: byte {place}"
        );
    }
}

#[test]
fn a_checksum_is_that_of_the_block_made_up_with_zeros() {
    assert_eq!(sum(&[]), 0);
    assert_eq!(sum(&[0; B]), 0);
    let mut block = [0; B];
    block[..3].copy_from_slice(b"abc");
    assert_eq!(sum(b"abc"), sum(&block));
    assert_eq!(
        sum(&block),
        crc32c::crc32c(&block) ^ crc32c::crc32c(&[0; B])
    );
}

/// On files of the system.
#[test]
fn an_object_is_as_if_its_bytes_were_plain() {
    for seed in 0..40 {
        let mut random = StdRng::seed_from_u64(seed);
        let file = || tempfile::tempfile().unwrap();
        let (data, sums): (File, File) = (file(), file());
        let again = |file: &File| file.try_clone().unwrap();
        let unexpected = || Box::new(|note| panic!("{note:?}"));
        let mut object =
            Checked::create(|| Ok(again(&data)), again(&sums), 1, unexpected()).unwrap();
        let mut plain = Vec::new();
        for step in 0..60 {
            let op = Op::random(&mut random);
            op.on_object(&object).unwrap();
            op.on_bytes(&mut plain);
            let from = random.random_range(0..LONGEST);
            let length = random.random_range(0..LONGEST);
            let end = (from + length).min(plain.len());
            let expected = plain.get(from..end).unwrap_or_default();
            let found = object.read(from as u64, length).unwrap();
            assert!(found == expected, "seed {seed}, step {step}, {op:?}");
            if random.random_range(0..5) == 0 {
                let lost = |_| false;
                object = Checked::open(again(&data), again(&sums), 1, lost, unexpected()).unwrap();
            }
        }
        assert!(read(&object) == plain, "seed {seed}");
        assert_eq!(data.metadata().unwrap().len(), plain.len() as u64);
    }
}

/// A kill at every step of a change and in the middle of it, and another one while that is put right.
#[test]
fn a_kill_leaves_every_block_readable() {
    for seed in 0..60 {
        let mut random = StdRng::seed_from_u64(seed);
        let history: Vec<Op> = (0..4).map(|_| Op::random(&mut random)).collect();
        let last = Op::random(&mut random);
        let set_up = || {
            let machine = Machine::new();
            let object = machine.create(1).unwrap();
            let mut plain = Vec::new();
            for op in &history {
                op.on_object(&object).unwrap();
                op.on_bytes(&mut plain);
            }
            machine.take_steps();
            (machine, object, plain)
        };
        let steps = {
            let (machine, object, _) = set_up();
            last.on_object(&object).unwrap();
            machine.take_steps()
        };
        for step in 0..steps {
            for done in [0, 300, 999, 1_000] {
                let (machine, object, before) = set_up();
                let mut after = before.clone();
                last.on_bytes(&mut after);
                machine.plan(step, Fate::Killed { done });
                let outcome = last.on_object(&object);
                assert!(matches!(outcome, Err(SumsError::Io(_))), "{outcome:?}");
                assert!(machine.revive());
                // A second kill, in the middle of putting it right.
                machine.plan(random.random_range(0..4), Fate::Killed { done: 500 });
                let _ = machine.open(1, &[]);
                machine.revive();
                let object = machine.open(1, &[]).unwrap();
                let what = format!("seed {seed}, step {step} of {last:?}");
                let found = read(&object);
                expect_between(&found, &before, &after, &what);
                // And it is done after all when it is asked for again.
                last.on_object(&object).unwrap();
                assert!(read(&object) == after, "{what}");
            }
        }
    }
}

#[test]
fn a_full_disk_in_the_middle_leaves_every_block_readable() {
    for seed in 0..60 {
        let mut random = StdRng::seed_from_u64(1_000 + seed);
        let machine = Machine::new();
        let object = machine.create(1).unwrap();
        let mut plain = Vec::new();
        for step in 0..40 {
            let op = Op::random(&mut random);
            let before = plain.clone();
            let done = random.random_range(0..1_000);
            machine.plan(random.random_range(0..5), Fate::Refused { done });
            let outcome = op.on_object(&object);
            machine.revive();
            op.on_bytes(&mut plain);
            let found = read(&object);
            let what = format!("seed {seed}, step {step}, {op:?}");
            if outcome.is_ok() {
                assert!(found == plain, "{what}");
            } else {
                expect_between(&found, &before, &plain, &what);
            }
            plain = found;
        }
    }
}

/// A server's part that syncs and settles an object.
struct Server {
    machine: Machine,
    object: Checked<SimFile>,
    /// Contents on disk for sure, if nothing has been changed since.
    synced: Option<Vec<u8>>,
}

impl Server {
    fn change(&mut self, op: &Op) {
        if self.object.must_unsettle() {
            self.object.unsettle().unwrap();
            self.object.sync(SimFile::sync).unwrap();
        }
        op.on_object(&self.object).unwrap();
        self.synced = None;
    }

    /// As `fsync` does it.
    fn sync(&mut self) {
        self.object.data().sync().unwrap();
        self.synced = Some(self.machine.data.bytes());
    }

    fn settle(&mut self) {
        self.object.sync(SimFile::sync).unwrap();
        self.object.settle().unwrap();
    }
}

#[test]
fn a_loss_of_power_leaves_every_block_readable_and_what_was_synced_right() {
    let (mut settled, mut taken) = (0, 0);
    for seed in 0..600 {
        let mut random = StdRng::seed_from_u64(seed);
        let machine = Machine::new();
        let object = machine.create(1).unwrap();
        let mut server = Server {
            machine,
            object,
            synced: None,
        };
        let mut lost = vec![];
        for generation in 2..6 {
            for _ in 0..random.random_range(0..8) {
                match random.random_range(0..4) {
                    0 => server.sync(),
                    1 if server.synced.is_some() => server.settle(),
                    // Killed and started again.
                    2 => server.object = server.machine.open(generation - 1, &lost).unwrap(),
                    _ => server.change(&Op::random(&mut random)),
                }
            }
            let before = server.machine.data.bytes();
            let was_settled = server.object.is_settled();
            server.machine.lose_power(&mut random);
            lost.extend([0, generation - 1]);
            server.object = server.machine.open(generation, &lost).unwrap();
            let what = format!("seed {seed}, generation {generation}");
            assert!(server.object.is_doubtful() || was_settled, "{what}");
            let found = read(&server.object);
            if let Some(synced) = &server.synced {
                assert!(found == *synced && found == before, "{what}");
            }
            settled += u32::from(server.object.is_settled());
            taken += server
                .machine
                .notes
                .lock()
                .unwrap()
                .drain(..)
                .filter(|note| matches!(note, Note::TakenAsTheyAre { .. }))
                .count();
            // Some of these objects are looked at as a whole before the power is lost again.
            if server.object.is_doubtful() && random.random() {
                server.object.end_doubt().unwrap();
                assert!(read(&server.object) == found, "{what}");
            }
            if server.synced.is_some() {
                server.sync();
            }
        }
    }
    assert!(settled > 50 && taken > 50, "{settled} {taken}");
}

fn damaged(outcome: Result<Vec<u8>, SumsError>) -> Vec<u64> {
    match outcome {
        Err(SumsError::Damaged(blocks)) => blocks,
        other => panic!("{other:?}"),
    }
}

/// Five blocks and a half of 7, 8, 9, …; the third one damaged.
fn with_damage() -> (Machine, Checked<SimFile>) {
    let machine = Machine::new();
    let object = machine.create(1).unwrap();
    for block in 0..6 {
        let bytes = vec![7 + block as u8; if block == 5 { B / 2 } else { B }];
        object.write(block * BLOCK, &bytes).unwrap();
    }
    machine.data.flip(2 * B + 100, 3);
    (machine, object)
}

#[test]
fn any_flipped_bit_is_found_and_the_other_blocks_are_read() {
    let mut random = StdRng::seed_from_u64(1);
    for _ in 0..100 {
        let (machine, object) = with_damage();
        machine.data.flip(2 * B + 100, 3);
        assert_eq!(read(&object).len(), 5 * B + B / 2);
        let at = random.random_range(0..5 * B + B / 2);
        machine.data.flip(at, random.random_range(0..8));
        let block = (at / B) as u64;
        assert_eq!(damaged(object.read(0, LONGEST)), [block]);
        assert_eq!(damaged(object.read(at as u64, 1)), [block]);
        for other in (0..5).filter(|other| *other != block) {
            let bytes = object.read(other * BLOCK, B).unwrap();
            assert!(bytes.iter().all(|&byte| byte == 7 + other as u8));
        }
    }
    // Of a checksum as well.
    let (machine, object) = with_damage();
    machine.sums.flip(64 + 4 * 4 + 1, 0);
    assert_eq!(damaged(object.read(0, LONGEST)), [2, 4]);
}

#[test]
fn a_damaged_block_is_not_made_valid_by_changing_a_part_of_it() {
    let (machine, object) = with_damage();
    for (offset, length) in [
        (2 * B + 1, B - 1),
        (2 * B, B - 1),
        (B, B + 5),
        (2 * B + 7, 2 * B),
    ] {
        let before = machine.data.bytes();
        let outcome = object.write(offset as u64, &vec![1; length]);
        assert_eq!(damaged(outcome.map(|()| Vec::new())), [2]);
        assert!(machine.data.bytes() == before);
    }
    let at = |byte: usize| (2 * B + byte) as u64;
    object
        .allocate(&(at(200)..at(300)), Allocation::Punch)
        .unwrap();
    let zero = Allocation::Zero { keep_size: true };
    object.allocate(&(BLOCK..at(90)), zero).unwrap();
    assert_eq!(damaged(object.read(0, LONGEST)), [2]);
    // Not even when the kill comes in the middle of it.
    for step in 0..3 {
        machine.plan(step, Fate::Killed { done: 0 });
        assert!(
            object
                .allocate(&(at(400)..at(500)), Allocation::Punch)
                .is_err()
        );
        assert!(machine.revive());
        let object = machine.open(1, &[]).unwrap();
        assert_eq!(damaged(object.read(0, LONGEST)), [2], "step {step}");
    }
    let object = machine.open(1, &[]).unwrap();
    object.truncate(at(2_000)).unwrap();
    object.write(3 * BLOCK, b"more").unwrap();
    assert_eq!(damaged(object.read(0, LONGEST)), [2]);
}

#[test]
fn a_damaged_block_that_goes_whole_is_none() {
    type Change = fn(&Checked<SimFile>) -> Result<(), SumsError>;
    let changes: [Change; 4] = [
        |object| object.write(2 * BLOCK, &[1; B]),
        |object| object.write(BLOCK + 9, &[1; 3 * B]),
        |object| Ok(object.truncate(2 * BLOCK)?),
        |object| Ok(object.allocate(&(2 * BLOCK..3 * BLOCK), Allocation::Punch)?),
    ];
    for change in changes {
        let (_machine, object) = with_damage();
        change(&object).unwrap();
        read(&object);
    }
}

#[test]
fn what_was_cut_off_behind_the_servers_back_is_damage() {
    let (machine, object) = with_damage();
    machine.data.set_length(2 * BLOCK).unwrap();
    assert_eq!(damaged(object.read(0, LONGEST)), [2, 3, 4, 5]);
    assert_eq!(object.read(0, 2 * B).unwrap().len(), 2 * B);
    // And so is what came into a hole.
    machine.data.write(b"from elsewhere", 9 * BLOCK).unwrap();
    assert_eq!(damaged(object.read(6 * BLOCK, 6 * B)), [9]);
}

#[test]
fn missing_and_broken_checksums_are_no_reason_to_believe_everything() {
    let (machine, _) = with_damage();
    machine.sums.flip(20, 1);
    let object = machine.open(1, &[0]).unwrap();
    assert_eq!(
        machine.notes.lock().unwrap().pop(),
        Some(Note::BrokenHeader)
    );
    assert_eq!(damaged(object.read(0, LONGEST)), [2]);
    assert!(object.must_unsettle());
    // A change writes the header anew.
    object.unsettle().unwrap();
    object.write(2 * BLOCK, &[1; B]).unwrap();
    let object = machine.open(1, &[]).unwrap();
    assert_eq!(machine.notes.lock().unwrap().pop(), None);
    read(&object);

    machine.sums.set_length(0).unwrap();
    let object = machine.open(1, &[]).unwrap();
    assert_eq!(machine.notes.lock().unwrap().pop(), Some(Note::NoSums));
    assert_eq!(damaged(object.read(0, LONGEST)), [0, 1, 2, 3, 4, 5]);
    // Unless they may be missing, as those of an object from before there were checksums.
    let object = machine.open(1, &[0]).unwrap();
    assert_eq!(read(&object).len(), 5 * B + B / 2);
    let taken = Note::TakenAsTheyAre { first: 0, count: 6 };
    assert_eq!(machine.notes.lock().unwrap().pop(), Some(taken));
    object.end_doubt().unwrap();
    machine.data.flip(5, 5);
    assert_eq!(damaged(object.read(0, LONGEST)), [0]);
}

/// A settled object is not doubtful after a loss of power, and one that is changed says so before.
#[test]
fn a_settled_object_is_not_doubtful_and_an_unsettled_one_is() {
    let (machine, object) = with_damage();
    object.settle().unwrap();
    object.sync(SimFile::sync).unwrap();
    let object = machine.open(2, &[0, 1]).unwrap();
    assert!(!object.is_doubtful() && object.must_unsettle());
    assert_eq!(damaged(object.read(0, LONGEST)), [2]);
    object.unsettle().unwrap();
    assert!(!object.must_unsettle());
    let object = machine.open(3, &[0, 1, 2]).unwrap();
    assert!(object.is_doubtful() && !object.must_unsettle());
    read(&object);
    // It stays so until it has been looked at.
    object.write(0, b"x").unwrap();
    object.settle().unwrap();
    assert!(machine.open(3, &[0, 1, 2]).unwrap().is_doubtful());
}

#[test]
#[should_panic(expected = "a settled object is changed")]
fn a_settled_object_is_not_changed() {
    let (_machine, object) = with_damage();
    object.settle().unwrap();
    let _: io::Result<()> = object.truncate(1);
}
