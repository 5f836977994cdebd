//! Files with several names, whose bytes count once.
//!
//! Which names are of one file is known only when all were met, by whatever thread and process. So
//! each name is a record of a file, in no order, which is sorted at the end as files are that do
//! not fit in memory: parts of it are sorted and written again, and what was sorted is read
//! together. Memory does not grow with the number of names.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// A name of a file that has several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Linked {
    pub identity: (u64, u64),
    pub bytes: u64,
    pub disk_bytes: u64,
}

/// Bytes of one: four numbers, little-endian.
const RECORD_BYTES: usize = 32;
/// Records that are read at once of each part that is sorted.
const READ_AT_ONCE: usize = 256;

impl Linked {
    pub(crate) fn write(&self, bytes: &mut Vec<u8>) {
        let (device, ino) = self.identity;
        for number in [device, ino, self.bytes, self.disk_bytes] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
    }

    fn read(record: &[u8; RECORD_BYTES]) -> Linked {
        let mut numbers = [0; 4];
        for (number, bytes) in numbers.iter_mut().zip(record.as_chunks::<8>().0) {
            *number = u64::from_le_bytes(*bytes);
        }
        let [device, ino, bytes, disk_bytes] = numbers;
        Linked {
            identity: (device, ino),
            bytes,
            disk_bytes,
        }
    }
}

/// A file without a name, which is made when there is something to write.
#[derive(Clone, Debug)]
pub(crate) struct Unnamed(Arc<(PathBuf, OnceLock<File>)>);

impl Unnamed {
    pub(crate) fn new(directory: &Path) -> Unnamed {
        Unnamed(Arc::new((directory.to_owned(), OnceLock::new())))
    }

    /// The file, if there is one.
    pub(crate) fn file(&self) -> Option<&File> {
        self.0.1.get()
    }
}

impl Write for Unnamed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (directory, file) = &*self.0;
        let mut file = match file.get() {
            Some(file) => file,
            None => {
                let made = tempfile::tempfile_in(directory)?;
                file.get_or_init(|| made)
            }
        };
        file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sums over files with several names, each counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub bytes: u64,
    pub disk_bytes: u64,
}

impl Sums {
    fn add(&mut self, file: &Linked) {
        self.bytes += file.bytes;
        self.disk_bytes += file.disk_bytes;
    }
}

/// Sums up records. So many are in memory at once, and so many sorted parts are read together; the
/// parts are in files without a name in the directory.
///
/// # Errors
/// When something cannot be read or written, or is no record.
pub(crate) fn sums(
    from: impl Read,
    directory: &Path,
    at_once: usize,
    parts_at_once: usize,
) -> io::Result<Sums> {
    let mut from = BufReader::new(from);
    let mut sums = Sums::default();
    let first = sorted(&mut from, at_once)?;
    let second = sorted(&mut from, at_once)?;
    if second.is_empty() {
        first.iter().for_each(|it| sums.add(it));
        return Ok(sums);
    }
    let mut parts = Parts::new(directory)?;
    parts.write(first.into_iter().map(Ok))?;
    let mut next = second;
    while !next.is_empty() {
        parts.write(next.into_iter().map(Ok))?;
        next = sorted(&mut from, at_once)?;
    }
    while parts.ranges.len() > parts_at_once {
        let mut fewer = Parts::new(directory)?;
        for some in parts.ranges.chunks(parts_at_once) {
            fewer.write(Together::new(&parts.file, some)?)?;
        }
        parts = fewer;
    }
    for file in Together::new(&parts.file, &parts.ranges)? {
        sums.add(&file?);
    }
    Ok(sums)
}

/// The next records, sorted, one of each file; none at the end.
fn sorted(from: &mut impl Read, at_once: usize) -> io::Result<Vec<Linked>> {
    let mut bytes = Vec::new();
    let most = at_once * RECORD_BYTES;
    from.take(most as u64).read_to_end(&mut bytes)?;
    let (records, rest) = bytes.as_chunks::<RECORD_BYTES>();
    if !rest.is_empty() {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    let mut files: Vec<Linked> = records.iter().map(Linked::read).collect();
    files.sort_unstable();
    files.dedup_by_key(|it| it.identity);
    Ok(files)
}

/// Sorted parts, one after the other in a file.
struct Parts {
    file: File,
    ranges: Vec<Range<u64>>,
}

impl Parts {
    fn new(directory: &Path) -> io::Result<Parts> {
        Ok(Parts {
            file: tempfile::tempfile_in(directory)?,
            ranges: Vec::new(),
        })
    }

    fn write(&mut self, files: impl Iterator<Item = io::Result<Linked>>) -> io::Result<()> {
        let start = self.ranges.last().map_or(0, |it| it.end);
        let mut end = start;
        let mut out = BufWriter::new(&self.file);
        let mut record = Vec::new();
        for file in files {
            record.clear();
            file?.write(&mut record);
            out.write_all(&record)?;
            end += RECORD_BYTES as u64;
        }
        out.flush()?;
        self.ranges.push(start..end);
        Ok(())
    }
}

/// One sorted part that is being read.
struct Part<'f> {
    file: &'f File,
    left: Range<u64>,
    /// The last first.
    read: Vec<Linked>,
}

impl Part<'_> {
    fn next(&mut self) -> io::Result<Option<Linked>> {
        if self.read.is_empty() && !self.left.is_empty() {
            let length =
                (self.left.end - self.left.start).min((READ_AT_ONCE * RECORD_BYTES) as u64);
            let mut bytes = vec![0; length as usize];
            self.file.read_exact_at(&mut bytes, self.left.start)?;
            self.left.start += length;
            let records = bytes.as_chunks::<RECORD_BYTES>().0;
            self.read.extend(records.iter().rev().map(Linked::read));
        }
        Ok(self.read.pop())
    }
}

/// Sorted parts as one, with one record of each file.
struct Together<'f> {
    parts: Vec<Part<'f>>,
    /// The next one of each, with its number.
    next: BinaryHeap<Reverse<(Linked, usize)>>,
    last: Option<(u64, u64)>,
}

impl<'f> Together<'f> {
    fn new(file: &'f File, ranges: &[Range<u64>]) -> io::Result<Together<'f>> {
        let mut together = Together {
            parts: Vec::new(),
            next: BinaryHeap::new(),
            last: None,
        };
        for (number, range) in ranges.iter().enumerate() {
            let mut part = Part {
                file,
                left: range.clone(),
                read: Vec::new(),
            };
            together
                .next
                .extend(part.next()?.map(|it| Reverse((it, number))));
            together.parts.push(part);
        }
        Ok(together)
    }

    fn take(&mut self) -> io::Result<Option<Linked>> {
        while let Some(Reverse((file, number))) = self.next.pop() {
            let next = self.parts[number].next()?;
            self.next.extend(next.map(|it| Reverse((it, number))));
            if self.last != Some(file.identity) {
                self.last = Some(file.identity);
                return Ok(Some(file));
            }
        }
        Ok(None)
    }
}

impl Iterator for Together<'_> {
    type Item = io::Result<Linked>;

    fn next(&mut self) -> Option<io::Result<Linked>> {
        self.take().transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// Names of files in no order, many of some and few of others.
    fn records(names: u64) -> (Vec<u8>, Sums) {
        let (mut bytes, mut files) = (Vec::new(), HashMap::new());
        for name in 0..names {
            let mixed = name.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            let ino = mixed % (names / 3 + 1);
            let file = Linked {
                identity: (mixed % 2, ino),
                bytes: ino * 10,
                disk_bytes: 512,
            };
            file.write(&mut bytes);
            files.insert(file.identity, file);
        }
        let mut sums = Sums::default();
        files.values().for_each(|it| sums.add(it));
        (bytes, sums)
    }

    #[test]
    fn each_file_counts_once_however_little_is_in_memory() {
        let dir = tempfile::tempdir().unwrap();
        for names in [0, 1, 2, 7, 1_000, 5_000] {
            let (bytes, expected) = records(names);
            for (at_once, parts) in [(1, 2), (3, 2), (64, 3), (700, 512), (100_000, 512)] {
                let found = sums(&bytes[..], dir.path(), at_once, parts).unwrap();
                assert_eq!(found, expected, "{names} names, {at_once} at once");
            }
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn half_a_record_is_an_error() {
        let (bytes, _) = records(10);
        let dir = tempfile::tempdir().unwrap();
        assert!(sums(&bytes[..bytes.len() - 1], dir.path(), 4, 4).is_err());
    }

    #[test]
    fn a_file_is_made_for_the_first_byte() {
        let mut unnamed = Unnamed::new(Path::new("/nowhere"));
        assert!(unnamed.file().is_none());
        assert!(unnamed.write(b"x").is_err());
        let dir = tempfile::tempdir().unwrap();
        let mut unnamed = Unnamed::new(dir.path());
        let same = unnamed.clone();
        unnamed.write_all(b"some").unwrap();
        unnamed.write_all(b" more").unwrap();
        let mut bytes = [0; 9];
        same.file().unwrap().read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"some more");
    }
}
