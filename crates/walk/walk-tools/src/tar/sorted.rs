//! Records in the order of their keys, however many.
//!
//! Those that do not fit in memory are in a file without a name.
//!
//! Gathered records are sorted and written as a run whenever they are too many; in the end all runs
//! are read at once. The format is for this process alone: lengths of the key and the value and the
//! number of the record, then both.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes that are gathered before they are written.
const GATHERED_BYTES: usize = 4 << 20;
/// Bytes of a record besides its key and value, at least.
const RECORD_BYTES: usize = 64;
/// Bytes of each run that are read at once.
const READ_BYTES: usize = 16 << 10;

/// A key, the number of the record, and a value. Records with the same key stay in their order.
type Record = (Vec<u8>, u64, Vec<u8>);

/// Records that are being gathered.
#[derive(Debug)]
pub(crate) struct Sorted {
    directory: PathBuf,
    most: usize,
    gathered: Vec<Record>,
    bytes: usize,
    next: u64,
    file: Option<Arc<File>>,
    /// Place of each run.
    runs: Vec<(u64, u64)>,
}

impl Sorted {
    /// With a file in this directory, if there has to be one.
    pub(crate) fn new(directory: &Path) -> Sorted {
        Sorted {
            directory: directory.to_owned(),
            most: GATHERED_BYTES,
            gathered: Vec::new(),
            bytes: 0,
            next: 0,
            file: None,
            runs: Vec::new(),
        }
    }

    /// # Errors
    /// When the file cannot be made or written.
    pub(crate) fn push(&mut self, key: Vec<u8>, value: Vec<u8>) -> io::Result<()> {
        self.bytes += key.len() + value.len() + RECORD_BYTES;
        self.gathered.push((key, self.next, value));
        self.next += 1;
        if self.bytes >= self.most {
            self.write()?;
        }
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        self.gathered.sort_unstable();
        let mut bytes = Vec::with_capacity(self.bytes);
        for (key, number, value) in self.gathered.drain(..) {
            for number in [key.len() as u64, value.len() as u64, number] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            bytes.extend_from_slice(&key);
            bytes.extend_from_slice(&value);
        }
        self.bytes = 0;
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(Arc::new(tempfile::tempfile_in(&self.directory)?)),
        };
        let start = self.runs.last().map_or(0, |(_, end)| *end);
        file.write_all_at(&bytes, start)?;
        self.runs.push((start, start + bytes.len() as u64));
        Ok(())
    }

    /// All of them, in their order.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(crate) fn finish(mut self) -> io::Result<Merged> {
        self.gathered.sort_unstable();
        let mut merged = Merged {
            runs: Vec::new(),
            first: BinaryHeap::new(),
        };
        let gathered = std::mem::take(&mut self.gathered);
        merged.runs.push(Run::Memory(gathered.into_iter()));
        if let Some(file) = &self.file {
            for (at, end) in self.runs {
                let part = FilePart {
                    file: Arc::clone(file),
                    at,
                    end,
                };
                let reader = BufReader::with_capacity(READ_BYTES, part);
                merged.runs.push(Run::Written(reader));
            }
        }
        for run in 0..merged.runs.len() {
            merged.read(run)?;
        }
        Ok(merged)
    }
}

#[derive(Debug)]
enum Run {
    Memory(std::vec::IntoIter<Record>),
    Written(BufReader<FilePart>),
}

#[derive(Debug)]
struct FilePart {
    file: Arc<File>,
    at: u64,
    end: u64,
}

impl Read for FilePart {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let most = (self.end - self.at).min(bytes.len() as u64) as usize;
        let count = self.file.read_at(&mut bytes[..most], self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

/// Records in their order.
#[derive(Debug)]
pub(crate) struct Merged {
    runs: Vec<Run>,
    /// The first of each run.
    first: BinaryHeap<Reverse<(Record, usize)>>,
}

impl Merged {
    fn read(&mut self, run: usize) -> io::Result<()> {
        let record = match &mut self.runs[run] {
            Run::Memory(records) => records.next(),
            Run::Written(reader) => read_record(reader)?,
        };
        if let Some(record) = record {
            self.first.push(Reverse((record, run)));
        }
        Ok(())
    }

    /// The next key and value.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(crate) fn next(&mut self) -> io::Result<Option<(Vec<u8>, Vec<u8>)>> {
        let Some(Reverse(((key, _, value), run))) = self.first.pop() else {
            return Ok(None);
        };
        self.read(run)?;
        Ok(Some((key, value)))
    }
}

fn read_record(from: &mut impl Read) -> io::Result<Option<Record>> {
    let mut numbers = [[0; 8]; 3];
    match from.read_exact(numbers.as_flattened_mut()) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let [key, value, number] = numbers.map(u64::from_le_bytes);
    let mut bytes = |length| {
        let mut bytes = vec![0; length as usize];
        from.read_exact(&mut bytes).map(|()| bytes)
    };
    Ok(Some((bytes(key)?, number, bytes(value)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(mut merged: Merged) -> Vec<(Vec<u8>, Vec<u8>)> {
        std::iter::from_fn(|| merged.next().unwrap()).collect()
    }

    #[test]
    fn records_come_in_the_order_of_their_keys_and_then_in_their_own() {
        for most in [1, 300, usize::MAX] {
            let mut sorted = Sorted::new(&std::env::temp_dir());
            sorted.most = most;
            let mut expected = Vec::new();
            for number in 0..1_000_u32 {
                let key = (number.wrapping_mul(2_654_435_761) >> 24).to_be_bytes();
                let value = number.to_be_bytes().repeat(number as usize % 5);
                sorted.push(key.to_vec(), value.clone()).unwrap();
                expected.push((key.to_vec(), value));
            }
            // Stable.
            expected.sort_by(|one, other| one.0.cmp(&other.0));
            assert!(all(sorted.finish().unwrap()) == expected, "{most}");
        }
        assert!(all(Sorted::new(Path::new("/nowhere")).finish().unwrap()).is_empty());
    }
}
