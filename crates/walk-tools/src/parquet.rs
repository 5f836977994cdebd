//! Lists as Parquet: columns of 65,536 entries at a time, compressed by Snappy.

use anyhow::{Context, Result};
use pandofs_walk_fs::{Meter, Stat};
use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError};

/// Entries of a row group. Each thread gathers its own.
const GROUP_ENTRIES: usize = 65_536;

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

/// A file that is being written.
pub struct Table {
    writer: Mutex<SerializedFileWriter<File>>,
    failure: Mutex<Option<anyhow::Error>>,
    meter: Arc<Meter>,
}

impl Table {
    /// # Errors
    /// When it cannot be begun.
    pub fn new(file: File, meter: &Arc<Meter>) -> Result<Table> {
        let schema = Arc::new(parse_message_type(SCHEMA)?);
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .build();
        Ok(Table {
            writer: Mutex::new(SerializedFileWriter::new(
                file,
                schema,
                Arc::new(properties),
            )?),
            failure: Mutex::default(),
            meter: Arc::clone(meter),
        })
    }

    fn write(&self, rows: &mut Rows) {
        if rows.paths.is_empty() {
            return;
        }
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let written = writer
            .next_row_group()
            .map_err(anyhow::Error::from)
            .and_then(|mut group| {
                rows.write(&mut group)?;
                Ok(group.close().map(drop)?)
            });
        drop(writer);
        if let Err(error) = written {
            self.meter.stop();
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(error);
        }
        *rows = Rows::default();
    }

    /// Ends the file.
    ///
    /// # Errors
    /// When it, or something before, could not be written.
    pub fn finish(self) -> Result<()> {
        let failure = self.failure.into_inner();
        if let Some(error) = failure.unwrap_or_else(PoisonError::into_inner) {
            return Err(error).context("standard output");
        }
        let writer = self.writer.into_inner();
        let writer = writer.unwrap_or_else(PoisonError::into_inner);
        writer.close().context("standard output")?;
        Ok(())
    }
}

/// Entries that one thread has gathered.
#[derive(Default)]
pub struct Rows {
    paths: Vec<ByteArray>,
    kinds: Vec<ByteArray>,
    numbers: [Vec<i64>; 8],
}

impl Rows {
    /// Adds an entry, and writes what was gathered if that is much.
    pub fn push(&mut self, path: &[u8], kind: &'static str, stat: &Stat, table: &Table) {
        self.paths.push(path.to_vec().into());
        self.kinds.push(kind.into());
        let time = stat.modified();
        let nanoseconds = time.seconds.saturating_mul(1_000_000_000);
        for (column, number) in self.numbers.iter_mut().zip([
            stat.size() as i64,
            stat.blocks() as i64,
            i64::from(stat.mode() & 0o7777),
            i64::from(stat.uid()),
            i64::from(stat.gid()),
            i64::from(stat.links()),
            nanoseconds.saturating_add(i64::from(time.nanoseconds)),
            stat.ino() as i64,
        ]) {
            column.push(number);
        }
        if self.paths.len() >= GROUP_ENTRIES {
            table.write(self);
        }
    }

    /// Writes what is left.
    pub fn flush(&mut self, table: &Table) {
        table.write(self);
    }

    fn write(&self, group: &mut SerializedRowGroupWriter<'_, File>) -> Result<()> {
        let (texts, mut numbers) = ([&self.paths, &self.kinds], self.numbers.iter());
        let mut texts = texts.into_iter();
        while let Some(mut column) = group.next_column()? {
            if let Some(text) = texts.next() {
                column
                    .typed::<ByteArrayType>()
                    .write_batch(text, None, None)?;
            } else if let Some(number) = numbers.next() {
                column
                    .typed::<Int64Type>()
                    .write_batch(number, None, None)?;
            }
            column.close()?;
        }
        Ok(())
    }
}
