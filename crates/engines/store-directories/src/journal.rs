//! Journal: the changes of one flush, in one file that is there whole or not at all.
//!
//! ```text
//! pandjrnl (8) | version (4): 1 | changes (8) | bytes of them (8) | CRC-32C of these 28 bytes (4)
//! and for each change, in the order of the keys:
//! bytes of the key (4) | bytes of the value (4), ffffffff: the key is removed | key | value | CRC-32C of all of it (4)
//! ```
//!
//! Numbers are big-endian. The file is written under another name, synced, and renamed, so that one by its own name is
//! whole, or damaged.

use crate::failure::{corrupt, refused};
use crate::files::Files;
use crate::memory::Layer;
use pandofs_storage::store::StoreError;
use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::sync::Arc;

/// The changes of the flush that has not ended.
pub(crate) const FILE: &str = "journal";
/// One that is being written.
pub(crate) const UNFINISHED_FILE: &str = "journal.new";

const MAGIC: &[u8; 8] = b"pandjrnl";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 32;
/// Bytes of a change besides its key and its value.
const CHANGE_BYTES: usize = 12;
/// In place of a value's size: there is none.
const REMOVED: u32 = u32::MAX;
/// Bytes written with one call.
const BUFFER_BYTES: usize = 256 << 10;

/// Writes the changes to the disk; they happen from then on, whatever else does.
///
/// # Errors
/// [`StoreError::Io`] and [`StoreError::Full`]: they do not happen then, unless the folder could not be synced.
pub(crate) fn write(files: &Files, changes: &Layer) -> Result<(), StoreError> {
    files.write_whole(FILE, UNFINISHED_FILE, &mut |file| fill(file, changes))
}

fn fill(file: &mut File, changes: &Layer) -> io::Result<()> {
    let too_large = || io::Error::new(ErrorKind::InvalidInput, "a key or value of 4 GiB");
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, file);
    let bytes: usize = changes
        .iter()
        .map(|(key, value)| {
            CHANGE_BYTES + key.len() + value.as_ref().map_or(0, |value| value.len())
        })
        .sum();
    let mut header = Vec::with_capacity(HEADER_BYTES);
    header.extend_from_slice(MAGIC);
    header.extend_from_slice(&VERSION.to_be_bytes());
    header.extend_from_slice(&(changes.len() as u64).to_be_bytes());
    header.extend_from_slice(&(bytes as u64).to_be_bytes());
    header.extend_from_slice(&crc32c::crc32c(&header).to_be_bytes());
    out.write_all(&header)?;
    let mut change = Vec::new();
    for (key, value) in changes {
        let value_bytes = match value {
            None => REMOVED,
            Some(value) => u32::try_from(value.len())
                .ok()
                .filter(|&bytes| bytes != REMOVED)
                .ok_or_else(too_large)?,
        };
        let key_bytes = u32::try_from(key.len()).map_err(|_| too_large())?;
        change.clear();
        change.extend_from_slice(&key_bytes.to_be_bytes());
        change.extend_from_slice(&value_bytes.to_be_bytes());
        change.extend_from_slice(key);
        change.extend_from_slice(value.as_deref().unwrap_or_default());
        let sum = crc32c::crc32c(&change);
        change.extend_from_slice(&sum.to_be_bytes());
        out.write_all(&change)?;
    }
    out.flush()
}

/// The changes of a flush that did not end; `None` if there is no such one.
///
/// # Errors
/// [`StoreError::Corrupt`] if it is not what was written; [`StoreError::Io`].
pub(crate) fn read(files: &Files) -> Result<Option<Layer>, StoreError> {
    let at = files.root().join(FILE);
    let mut bytes = Vec::new();
    match File::open(&at).and_then(|mut file| file.read_to_end(&mut bytes)) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(refused("read", &at, &error)),
    }
    let damaged = |why: &str| {
        corrupt(
            &at,
            &format!("the journal of a flush that had begun is damaged: {why}"),
        )
    };
    parse(&bytes).map(Some).map_err(damaged)
}

fn parse(bytes: &[u8]) -> Result<Layer, &'static str> {
    let (header, mut rest) = bytes
        .split_first_chunk::<HEADER_BYTES>()
        .ok_or("its header is cut")?;
    let (said, sum) = header.split_at(HEADER_BYTES - 4);
    if !said.starts_with(MAGIC) || sum != crc32c::crc32c(said).to_be_bytes() {
        return Err("its header is none");
    }
    let (version, said) = said[MAGIC.len()..].split_at(4);
    if version != VERSION.to_be_bytes() {
        return Err("it is of another version");
    }
    let (count, size) = said.split_at(8);
    if size != (rest.len() as u64).to_be_bytes() {
        return Err("it does not have the size that it says");
    }
    let mut changes = Layer::new();
    while !rest.is_empty() {
        let (key, value, after) = change(rest).ok_or("a change is not what was written")?;
        let is_next = changes
            .last_key_value()
            .is_none_or(|(last, _)| **last < *key);
        if !is_next {
            return Err("its changes are in no order");
        }
        changes.insert(Arc::from(key), value.map(Arc::from));
        rest = after;
    }
    if count != (changes.len() as u64).to_be_bytes() {
        return Err("it does not have as many changes as it says");
    }
    Ok(changes)
}

type Change<'a> = (&'a [u8], Option<&'a [u8]>, &'a [u8]);

/// The first change, and what is after it.
fn change(bytes: &[u8]) -> Option<Change<'_>> {
    let size = |at: usize| -> Option<u32> {
        let bytes = bytes.get(at..at + 4)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?))
    };
    let (key_bytes, value_bytes) = (size(0)?, size(4)?);
    let key_end = 8_usize.checked_add(usize::try_from(key_bytes).ok()?)?;
    let value_end = match value_bytes {
        REMOVED => key_end,
        bytes => key_end.checked_add(usize::try_from(bytes).ok()?)?,
    };
    let whole = bytes.get(..value_end)?;
    let (sum, after) = bytes[value_end..].split_first_chunk::<4>()?;
    if *sum != crc32c::crc32c(whole).to_be_bytes() {
        return None;
    }
    let value = (value_bytes != REMOVED).then(|| &whole[key_end..]);
    Some((&whole[8..key_end], value, after))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Seek;

    fn changes() -> Layer {
        let pair = |key: &[u8], value: Option<&[u8]>| (Arc::from(key), value.map(Arc::from));
        [
            pair(b"", Some(b"")),
            pair(b"gone", None),
            pair(b"key", Some(b"value")),
        ]
        .into_iter()
        .collect()
    }

    fn written(changes: &Layer) -> Vec<u8> {
        let mut file = tempfile::tempfile().unwrap();
        fill(&mut file, changes).unwrap();
        file.rewind().unwrap();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn the_format_is_pinned() {
        let bytes = written(&changes());
        let sum = |range: std::ops::Range<usize>| crc32c::crc32c(&bytes[range]).to_be_bytes();
        let expected = [
            &b"pandjrnl\0\0\0\x01"[..],
            b"\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x30",
            &sum(0..28),
            b"\0\0\0\0\0\0\0\0",
            &sum(32..40),
            b"\0\0\0\x04\xff\xff\xff\xffgone",
            &sum(44..56),
            b"\0\0\0\x03\0\0\0\x05keyvalue",
            &sum(60..76),
        ];
        assert_eq!(bytes, expected.concat());
        assert_eq!(sum(0..28), [0xa0, 0x55, 0x8e, 0x17]);
        assert_eq!(parse(&bytes), Ok(changes()));
        assert_eq!(parse(&written(&Layer::new())), Ok(Layer::new()));
    }

    #[test]
    fn one_that_is_cut_or_changed_anywhere_is_told() {
        let bytes = written(&changes());
        for end in 0..bytes.len() {
            assert!(parse(&bytes[..end]).is_err(), "cut at {end}");
        }
        for at in 0..bytes.len() * 8 {
            let mut wrong = bytes.clone();
            wrong[at / 8] ^= 1 << (at % 8);
            assert!(parse(&wrong).is_err(), "bit {at}");
        }
        assert!(parse(&[&bytes[..], b"x"].concat()).is_err());
    }
}
