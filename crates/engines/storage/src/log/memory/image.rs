//! The bytes a crash finds on the disk that a log in memory does not have.
//!
//! One frame for each operation: `body length (u32) | body`, where the body is `0`, then
//! `stream (u64) | index (u64) | payload length (u32) | payload` for each entry of an append, or
//! `1 | stream (u64) | upto (u64)`. Numbers are big-endian. It lives no longer than one crash.

use super::streams::{Operation, OwnedEntry};

const APPEND: u8 = 0;
const PRUNE: u8 = 1;

/// Adds the frame of `operation` to `disk`.
pub(super) fn encode(operation: &Operation, disk: &mut Vec<u8>) {
    let mut body = Vec::new();
    match operation {
        Operation::Append(entries) => {
            body.push(APPEND);
            for entry in entries {
                body.extend(entry.stream.to_be_bytes());
                body.extend(entry.index.to_be_bytes());
                body.extend((entry.payload.len() as u32).to_be_bytes());
                body.extend(&*entry.payload);
            }
        }
        Operation::Prune { stream, upto } => {
            body.push(PRUNE);
            body.extend(stream.to_be_bytes());
            body.extend(upto.to_be_bytes());
        }
    }
    disk.extend((body.len() as u32).to_be_bytes());
    disk.extend(body);
}

/// The operations whose frames are whole; a last one that is not is dropped.
pub(super) fn decode(mut disk: &[u8]) -> Vec<Operation> {
    let mut operations = Vec::new();
    while let Some((body, rest)) = frame(disk) {
        operations.push(operation(body));
        disk = rest;
    }
    operations
}

/// The first frame's body and what follows it; `None` when the frame is cut short.
fn frame(disk: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = disk.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_be_bytes(*length) as usize)
}

fn operation(body: &[u8]) -> Operation {
    let (kind, mut rest) = body.split_first().expect("a whole frame has a kind");
    if *kind == PRUNE {
        let stream = number(&mut rest);
        let upto = number(&mut rest);
        return Operation::Prune { stream, upto };
    }
    let mut entries = Vec::new();
    while !rest.is_empty() {
        let stream = number(&mut rest);
        let index = number(&mut rest);
        let (length, tail) = rest.split_first_chunk::<4>().expect("whole");
        let (payload, tail) = tail.split_at(u32::from_be_bytes(*length) as usize);
        entries.push(OwnedEntry {
            stream,
            index,
            payload: payload.into(),
        });
        rest = tail;
    }
    Operation::Append(entries)
}

fn number(bytes: &mut &[u8]) -> u64 {
    let (number, rest) = bytes.split_first_chunk::<8>().expect("whole");
    *bytes = rest;
    u64::from_be_bytes(*number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cut_leaves_the_operations_before_it() {
        let entry = |index, payload: &[u8]| OwnedEntry {
            stream: 3,
            index,
            payload: payload.into(),
        };
        let operations = [
            Operation::Append(vec![entry(1, b"one"), entry(2, b"")]),
            Operation::Prune { stream: 9, upto: 4 },
            Operation::Append(vec![entry(3, b"three")]),
        ];
        let mut disk = Vec::new();
        let mut ends = Vec::new();
        for operation in &operations {
            encode(operation, &mut disk);
            ends.push(disk.len());
        }
        for cut in 0..=disk.len() {
            let whole = ends.iter().filter(|&&end| end <= cut).count();
            assert_eq!(decode(&disk[..cut]), operations[..whole], "cut at {cut}");
        }
    }
}
