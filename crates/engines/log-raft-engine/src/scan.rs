//! Checks a log's files before raft-engine opens them, and cuts off what was torn.
//!
//! raft-engine's format version 2: a file begins with the magic bytes, the version (u64) and the
//! alignment (u64, always 0 here). Then batches follow one another:
//! `length of all (u56) and compression (u8) | offset of the items (u64) | entries | their CRC-32
//! (u32, little-endian; not there without entries) | items | their CRC-32 exclusive-or the file's
//! number (u32, little-endian)`. Other numbers are big-endian.

use crate::errors::io_error;
use crate::format::sync_dir;
use crate::names::{FileId, Queue};
use crate::synced::Marks;
use pandofs_storage::log::LogError;
use std::fs::{self, File};
use std::io;
use std::path::Path;

const MAGIC: &[u8] = b"RAFT-LOG-FILE-HEADER-9986AB3E47F320B394C8E84916EB0ED5";
const VERSION: u64 = 2;
/// Bytes of a file before its first batch.
pub(crate) const FILE_HEADER_BYTES: usize = MAGIC.len() + 16;
const BATCH_HEADER_BYTES: usize = 16;
const CHECKSUM_BYTES: usize = 4;

/// Where a file's good part ends, and what is wrong there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Break {
    /// Bytes before it.
    pub offset: usize,
    pub what: &'static str,
}

/// Checks all files in `dir`. In the last one of each queue whatever follows the last good
/// batch is cut off, when none of it is known to have been synced.
///
/// # Errors
/// [`LogError::Corrupt`] with the file, or the system's.
pub(crate) fn check(dir: &Path, marks: &Marks) -> Result<(), LogError> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).map_err(|error| io_error(dir, &error))? {
        let path = entry.map_err(|error| io_error(dir, &error))?.path();
        files.extend(FileId::from_path(&path));
    }
    files.sort_unstable();
    for queue in Queue::BOTH {
        let mut numbers: Vec<u64> = Vec::new();
        numbers.extend(
            files
                .iter()
                .filter(|id| id.queue == queue)
                .map(|id| id.number),
        );
        check_queue(dir, queue, &numbers, marks)?;
    }
    Ok(())
}

fn check_queue(dir: &Path, queue: Queue, numbers: &[u64], marks: &Marks) -> Result<(), LogError> {
    let synced = marks.of(queue);
    let id = |number| FileId { queue, number };
    let missing = |number| LogError::Corrupt {
        path: id(number).path(dir),
        what: "the file is missing".to_owned(),
    };
    for pair in numbers.windows(2) {
        if pair[1] != pair[0] + 1 {
            return Err(missing(pair[0] + 1));
        }
    }
    let last = numbers.last().copied().unwrap_or(0);
    if synced.file > last {
        return Err(missing(synced.file));
    }
    for &number in numbers {
        let path = id(number).path(dir);
        let bytes = fs::read(&path).map_err(|error| io_error(&path, &error))?;
        let found = first_break(&bytes, number);
        let good = found.as_ref().map_or(bytes.len(), |found| found.offset);
        let was_synced = number == synced.file && (good as u64) < synced.bytes;
        match found {
            Some(found) if was_synced || number < last => {
                return Err(corrupt(&path, found.offset, found.what));
            }
            None if was_synced => return Err(corrupt(&path, good, "the rest is missing")),
            Some(_) => cut(dir, &path, good).map_err(|error| io_error(&path, &error))?,
            None => {}
        }
    }
    Ok(())
}

pub(crate) fn corrupt(path: &Path, offset: usize, what: &str) -> LogError {
    LogError::Corrupt {
        path: path.to_owned(),
        what: format!("at byte {offset}: {what}"),
    }
}

/// Leaves the first `bytes` bytes of a file; of a file without a good header, nothing.
fn cut(dir: &Path, path: &Path, bytes: usize) -> io::Result<()> {
    if bytes < FILE_HEADER_BYTES {
        fs::remove_file(path)?;
        return sync_dir(dir);
    }
    let file = File::options().write(true).open(path)?;
    file.set_len(bytes as u64)?;
    file.sync_all()
}

/// The first place where `file`, the contents of the file with this number, is not what raft-engine
/// writes; `None` when all of it is good.
pub(crate) fn first_break(file: &[u8], number: u64) -> Option<Break> {
    let header_break = |what| Some(Break { offset: 0, what });
    let Some((header, _)) = file.split_at_checked(FILE_HEADER_BYTES) else {
        return header_break("the file's header is cut short");
    };
    let Some(fields) = header.strip_prefix(MAGIC) else {
        return header_break("the file's magic bytes are wrong");
    };
    if number_at(fields, 0) != Some(VERSION) || number_at(fields, 8) != Some(0) {
        return header_break("the file's version is wrong");
    }
    let mut offset = FILE_HEADER_BYTES;
    while offset < file.len() {
        match batch_bytes(&file[offset..], number) {
            Ok(bytes) => offset += bytes,
            Err(what) => return Some(Break { offset, what }),
        }
    }
    None
}

/// The length of the batch that `file` begins with, or what is wrong with it.
fn batch_bytes(file: &[u8], number: u64) -> Result<usize, &'static str> {
    const CUT_SHORT: &str = "the append's header is cut short";
    let length = number_at(file, 0).ok_or(CUT_SHORT)?;
    let items_offset = number_at(file, 8).ok_or(CUT_SHORT)?;
    if length & 0xff != 0 {
        return Err("the append's header is wrong");
    }
    let length = usize::try_from(length >> 8).map_err(|_| "the append's header is wrong")?;
    let batch = file.get(..length).ok_or("the append is cut short")?;
    let items_offset = usize::try_from(items_offset).unwrap_or(usize::MAX);
    let (Some(entries), Some(items)) = (
        batch.get(BATCH_HEADER_BYTES..items_offset),
        batch.get(items_offset..),
    ) else {
        return Err("the append's header is wrong");
    };
    if !is_sealed(items, number as u32) {
        return Err("the checksum of the append's items is wrong");
    }
    if !entries.is_empty() && !is_sealed(entries, 0) {
        return Err("the checksum of the append's entries is wrong");
    }
    Ok(length)
}

/// Whether `block` ends with the checksum of what comes before, exclusive-or `signature`.
fn is_sealed(block: &[u8], signature: u32) -> bool {
    match block.split_last_chunk::<CHECKSUM_BYTES>() {
        Some((content, checksum)) if !content.is_empty() => {
            crc32fast::hash(content) == u32::from_le_bytes(*checksum) ^ signature
        }
        _ => false,
    }
}

fn number_at(bytes: &[u8], offset: usize) -> Option<u64> {
    let bytes = bytes.get(offset..)?.first_chunk::<8>()?;
    Some(u64::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, RaftEngineLog};
    use pandofs_storage::log::{Entry, Log};

    /// A log file with entries of several lengths, a prune and a batch without entries, and where
    /// its batches begin.
    fn sample() -> (Vec<u8>, Vec<usize>) {
        let dir = tempfile::tempdir().unwrap();
        let log = RaftEngineLog::open(dir.path(), Options::default()).unwrap();
        let path = FileId {
            queue: Queue::Append,
            number: 1,
        };
        let path = path.path(dir.path());
        let mut begins = vec![log.bytes() as usize - FILE_HEADER_BYTES];
        for index in 1..=8_u8 {
            let payload = vec![index; usize::from(index) * 7];
            let entries = [3, 300].map(|stream| Entry {
                stream,
                index: index.into(),
                payload: &payload,
            });
            log.append(&entries).unwrap();
            begins.push(log.bytes() as usize - FILE_HEADER_BYTES);
        }
        log.prune(3, 4).unwrap();
        drop(log);
        (fs::read(path).unwrap(), begins)
    }

    /// Two streams in one append, then a prune. Changing these bytes makes every log unreadable.
    #[test]
    fn the_format_is_pinned() {
        let dir = tempfile::tempdir().unwrap();
        let log = RaftEngineLog::open(dir.path(), Options::default()).unwrap();
        let entry = |stream, index, payload| Entry {
            stream,
            index,
            payload,
        };
        log.append(&[entry(3, 7, b"one"), entry(3, 8, b""), entry(4, 1, b"two")])
            .unwrap();
        log.prune(3, 7).unwrap();
        drop(log);
        let file = fs::read(dir.path().join("0000000000000001.raftlog")).unwrap();
        let (header, batches) = file.split_at(FILE_HEADER_BYTES);
        assert_eq!(
            header,
            [MAGIC, &2_u64.to_be_bytes(), &0_u64.to_be_bytes()].concat()
        );
        assert_eq!(
            batches.escape_ascii().to_string(),
            GOLDEN.escape_ascii().to_string()
        );
    }

    const GOLDEN: &[u8] = b"\
        \x00\x00\x00\x00\x00\x00\x6c\x00\x00\x00\x00\x00\x00\x00\x00\x38\
        \x0a\x0b\x00\x00\x00\x00\x00\x00\x00\x07one\
        \x0a\x08\x00\x00\x00\x00\x00\x00\x00\x08\
        \x0a\x0b\x00\x00\x00\x00\x00\x00\x00\x01two\
        A\x7f\x15\xb8\
        \x04\
        \x03\x03\x01\x05first\x08\x00\x00\x00\x00\x00\x00\x00\x07\
        \x04\x03\x01\x05first\x08\x00\x00\x00\x00\x00\x00\x00\x01\
        \x03\x01\x02\x07\x0d\x17\
        \x04\x01\x01\x01\x24\
        [\xf0/'\
        \x00\x00\x00\x00\x00\x00\x2b\x00\x00\x00\x00\x00\x00\x00\x00\x10\
        \x02\
        \x03\x02\x02\x08\
        \x03\x03\x01\x05first\x08\x00\x00\x00\x00\x00\x00\x00\x08\
        \x1c\xa9\x7f\xbd";

    #[test]
    fn every_changed_byte_is_found_at_its_append() {
        let (file, begins) = sample();
        assert_eq!(first_break(&file, 1), None);
        for offset in 0..file.len() {
            for bit in [0, 6] {
                let mut changed = file.clone();
                changed[offset] ^= 1 << bit;
                let found = first_break(&changed, 1).unwrap_or_else(|| panic!("byte {offset}"));
                let begin = begins.iter().rev().find(|&&begin| begin <= offset);
                let expected = if offset < FILE_HEADER_BYTES {
                    Some(&0)
                } else {
                    begin
                };
                assert_eq!(Some(&found.offset), expected, "byte {offset}");
            }
        }
    }

    #[test]
    fn every_cut_is_found_but_between_appends() {
        let (file, begins) = sample();
        for length in 0..file.len() {
            let found = first_break(&file[..length], 1);
            assert_eq!(found.is_none(), begins.contains(&length), "{length} bytes");
        }
    }

    #[test]
    fn space_that_was_reserved_is_found() {
        let (mut file, _) = sample();
        let good = file.len();
        file.resize(good + 100_000, 0);
        assert_eq!(first_break(&file, 1).unwrap().offset, good);
    }

    #[test]
    fn a_file_under_another_number_is_found() {
        let (file, _) = sample();
        assert_eq!(first_break(&file, 2).unwrap().offset, FILE_HEADER_BYTES);
    }

    #[test]
    fn lengths_that_lie_are_found() {
        let (file, begins) = sample();
        for lie in [0, 1, 15, 16, 17, u64::MAX >> 8] {
            for (field, shift) in [(0, 8), (8, 0)] {
                let mut changed = file.clone();
                let at = begins[2] + field;
                changed[at..at + 8].copy_from_slice(&(lie << shift).to_be_bytes());
                assert_eq!(
                    first_break(&changed, 1).unwrap().offset,
                    begins[2],
                    "{lie} in {field}"
                );
            }
        }
    }
}
