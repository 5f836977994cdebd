//! Lists as Parquet: columns of up to 16,384 entries at a time, compressed by Snappy.
//!
//! Threads, of this process and of others, hand over records of entries as they do with other
//! lists; one place, where the file is, makes columns of them. So what is in memory is one group of
//! rows, however many threads there are.
//!
//! The places of columns stand at the end of such a file: one that was begun cannot be cut and gone
//! on with, and there are no checkpoints of it.

use crate::limits::{TABLE_BYTES, TABLE_ROWS};
use anyhow::{Context, Result};
use bytes::Bytes;
use pandofs_walk_fs::{FileType, Stat};
use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// The columns. Paths are bytes, which need not be UTF-8.
const SCHEMA: &str = "message entry {
    required binary path;
    required binary kind (UTF8);
    required int64 size;
    required int64 blocks;
    required int64 mode;
    required int64 uid;
    required int64 gid;
    required int64 links;
    required int64 mtime (TIMESTAMP(NANOS, true));
    required int64 ino;
}";

/// Columns that are numbers.
const NUMBERS: usize = 8;
/// Bytes of an entry in memory besides its path: numbers, and as the group is written where its
/// path and kind are.
const ROW_BYTES: usize = NUMBERS * 8 + 8 + 2 * size_of::<ByteArray>();

/// Names of the kinds, in the order of the numbers that stand for them.
const KINDS: [(FileType, &str); 8] = [
    (FileType::Unknown, "unknown"),
    (FileType::Directory, "directory"),
    (FileType::RegularFile, "file"),
    (FileType::Symlink, "link"),
    (FileType::Fifo, "fifo"),
    (FileType::Socket, "socket"),
    (FileType::CharacterDevice, "character device"),
    (FileType::BlockDevice, "block device"),
];

/// Returns the name of a kind in lists.
pub(crate) fn kind_name(kind: FileType) -> &'static str {
    KINDS[kind_number(kind)].1
}

fn kind_number(kind: FileType) -> usize {
    KINDS.iter().position(|(it, _)| *it == kind).unwrap_or(0)
}

/// Appends an entry as a record: one byte its kind, eight numbers and the length of its path, all
/// of eight bytes, little-endian, and the path.
pub(crate) fn record(path: &[u8], stat: &Stat, bytes: &mut Vec<u8>) {
    let time = stat.modified();
    let nanoseconds = time.seconds.saturating_mul(1_000_000_000);
    bytes.push(kind_number(stat.kind()) as u8);
    for number in [
        stat.size() as i64,
        stat.blocks() as i64,
        i64::from(stat.mode() & 0o7777),
        i64::from(stat.uid()),
        i64::from(stat.gid()),
        i64::from(stat.links()),
        nanoseconds.saturating_add(i64::from(time.nanoseconds)),
        stat.ino() as i64,
        path.len() as i64,
    ] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.extend_from_slice(path);
}

/// A file that is being written, by a thread of its own: of what one thread gathers and another one
/// lets go of, an allocator keeps some for each of the threads, and with sixteen that was ten times
/// a group.
#[derive(Clone)]
pub(crate) struct Table(Arc<Mutex<Line>>);

/// The way to the thread that writes.
struct Line {
    /// None once the file has its end.
    records: Option<SyncSender<Vec<u8>>>,
    /// None once it has ended.
    writer: Option<JoinHandle<Result<()>>>,
}

struct Writing {
    writer: SerializedFileWriter<File>,
    rows: Rows,
    kinds: [ByteArray; KINDS.len()],
}

impl Table {
    /// # Errors
    /// When it cannot be begun.
    pub(crate) fn new(file: File) -> Result<Table> {
        let schema = Arc::new(parse_message_type(SCHEMA)?);
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .build();
        let writing = Writing {
            writer: SerializedFileWriter::new(file, schema, Arc::new(properties))?,
            rows: Rows::default(),
            kinds: KINDS.map(|(_, name)| Bytes::from_static(name.as_bytes()).into()),
        };
        // One is written while the next waits.
        let (records, taken) = mpsc::sync_channel(1);
        let writer = thread::Builder::new()
            .name("table".to_owned())
            .spawn(move || writing.take_all(&taken))?;
        Ok(Table(Arc::new(Mutex::new(Line {
            records: Some(records),
            writer: Some(writer),
        }))))
    }

    fn lock(&self) -> MutexGuard<'_, Line> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the file. The reader, if it is a pipe, may have seen enough, which is no failure.
    ///
    /// # Errors
    /// When it cannot be written, or something was no record, unless that was reported by a write.
    pub(crate) fn finish(&self) -> Result<()> {
        match self.lock().end() {
            Err(error) if is_broken_pipe(&error) => Ok(()),
            ended => ended,
        }
    }
}

impl Line {
    /// Waits for the thread, and says why it has ended, once.
    fn end(&mut self) -> Result<()> {
        self.records = None;
        let Some(writer) = self.writer.take() else {
            return Ok(());
        };
        match writer.join() {
            Ok(written) => written,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let mut causes = error
        .chain()
        .filter_map(|it| it.downcast_ref::<io::Error>());
    causes.any(|it| it.kind() == ErrorKind::BrokenPipe)
}

/// Takes whole records. Why they cannot be written is reported by a later call.
impl Write for Table {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut line = self.lock();
        let sent = line.records.as_ref().map(|it| it.send(bytes.to_vec()));
        if matches!(sent, Some(Ok(()))) {
            return Ok(bytes.len());
        }
        line.end().map_err(|error| match is_broken_pipe(&error) {
            // As any other list without a reader ends.
            true => ErrorKind::BrokenPipe.into(),
            false => io::Error::other(error),
        })?;
        Err(ErrorKind::InvalidData.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Writing {
    /// Writes the file.
    fn take_all(mut self, records: &Receiver<Vec<u8>>) -> Result<()> {
        for bytes in records {
            let mut rest = bytes.as_slice();
            while !rest.is_empty() {
                // Of another process.
                rest = self.rows.push(rest).context("it is no record")?;
                if self.rows.is_full() {
                    self.group()?;
                }
            }
        }
        self.group()?;
        self.writer.close()?;
        Ok(())
    }

    /// Writes what was gathered.
    fn group(&mut self) -> Result<()> {
        let rows = std::mem::take(&mut self.rows);
        if rows.kinds.is_empty() {
            return Ok(());
        }
        let mut group = self.writer.next_row_group()?;
        rows.write(&self.kinds, &mut group)?;
        group.close()?;
        Ok(())
    }
}

/// Entries of a group.
#[derive(Default)]
struct Rows {
    /// One after the other.
    paths: Vec<u8>,
    /// End of each path.
    ends: Vec<usize>,
    kinds: Vec<u8>,
    numbers: [Vec<i64>; NUMBERS],
}

impl Rows {
    /// Takes the record that these bytes begin with; what comes after it.
    fn push<'b>(&mut self, bytes: &'b [u8]) -> Option<&'b [u8]> {
        let (&kind, mut rest) = bytes.split_first()?;
        let mut numbers = [0; NUMBERS];
        for number in &mut numbers {
            let (eight, after) = rest.split_first_chunk::<8>()?;
            *number = i64::from_le_bytes(*eight);
            rest = after;
        }
        let (length, rest) = rest.split_first_chunk::<8>()?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        let (path, rest) = rest.split_at_checked(length)?;
        if usize::from(kind) >= KINDS.len() {
            return None;
        }
        self.paths.extend_from_slice(path);
        self.ends.push(self.paths.len());
        self.kinds.push(kind);
        for (column, number) in self.numbers.iter_mut().zip(numbers) {
            column.push(number);
        }
        Some(rest)
    }

    fn is_full(&self) -> bool {
        let rows = self.kinds.len();
        rows >= TABLE_ROWS || self.paths.len() + rows * ROW_BYTES >= TABLE_BYTES
    }

    fn write(
        self,
        kinds: &[ByteArray],
        group: &mut SerializedRowGroupWriter<'_, File>,
    ) -> Result<()> {
        let paths = Bytes::from(self.paths);
        let mut start = 0;
        let path = |end| {
            let path = paths.slice(start..end);
            start = end;
            ByteArray::from(path)
        };
        let paths: Vec<ByteArray> = self.ends.into_iter().map(path).collect();
        let kinds: Vec<ByteArray> = self
            .kinds
            .iter()
            .map(|kind| kinds[usize::from(*kind)].clone())
            .collect();
        let mut texts = [paths, kinds].into_iter();
        let mut numbers = self.numbers.into_iter();
        while let Some(mut column) = group.next_column()? {
            if let Some(text) = texts.next() {
                column
                    .typed::<ByteArrayType>()
                    .write_batch(&text, None, None)?;
            } else if let Some(number) = numbers.next() {
                column
                    .typed::<Int64Type>()
                    .write_batch(&number, None, None)?;
            }
            column.close()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};

    /// A record of a path of so many bytes.
    fn of(length: usize) -> Vec<u8> {
        let mut bytes = vec![2];
        bytes.extend_from_slice(&[0; NUMBERS * 8]);
        bytes.extend_from_slice(&(length as u64).to_le_bytes());
        bytes.resize(bytes.len() + length, b'p');
        bytes
    }

    #[test]
    fn a_group_ends_with_its_rows_and_with_its_bytes() {
        for length in [1, 4_000] {
            let file = tempfile::tempfile().unwrap();
            let mut table = Table::new(file.try_clone().unwrap()).unwrap();
            let in_first = TABLE_BYTES.div_ceil(length + ROW_BYTES);
            let in_first = in_first.min(TABLE_ROWS);
            let rows = in_first + 3;
            let piece = of(length).repeat(9);
            for _ in 0..rows.div_ceil(9) {
                table.write_all(&piece).unwrap();
            }
            table.finish().unwrap();
            let reader = SerializedFileReader::new(file).unwrap();
            let groups = reader.metadata().row_groups();
            let written: i64 = groups.iter().map(|it| it.num_rows()).sum();
            assert_eq!(written as usize, rows.div_ceil(9) * 9);
            assert_eq!(groups[0].num_rows() as usize, in_first, "{length}");
            assert_eq!(groups.len(), 2);
        }
    }

    #[test]
    fn a_reader_that_is_gone_ends_it_without_a_failure() {
        let (read, write) = io::pipe().unwrap();
        drop(read);
        let write = File::from(std::os::fd::OwnedFd::from(write));
        let mut table = Table::new(write).unwrap();
        let piece = of(4_000).repeat(9);
        // A group is written in the middle.
        let error = (0..TABLE_ROWS).find_map(|_| table.write_all(&piece).err());
        assert_eq!(error.unwrap().kind(), ErrorKind::BrokenPipe);
        table.finish().unwrap();
    }

    #[test]
    fn what_is_no_record_is_an_error() {
        let whole = of(10);
        for cut in 1..whole.len() {
            let mut table = Table::new(tempfile::tempfile().unwrap()).unwrap();
            table.write_all(&whole[..cut]).unwrap();
            let error = table.finish().unwrap_err();
            assert_eq!(error.to_string(), "it is no record", "{cut}");
        }
        let mut table = Table::new(tempfile::tempfile().unwrap()).unwrap();
        let bad = [&[8], &whole[1..]].concat();
        // A later write reports it, once.
        let error = (0..1_000).find_map(|_| table.write_all(&bad).err());
        assert_eq!(error.unwrap().to_string(), "it is no record");
        assert!(table.write_all(&whole).is_err());
    }
}
