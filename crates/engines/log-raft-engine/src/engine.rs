//! [`RaftEngineLog`]: the log port over raft-engine.

use crate::errors::{engine_error, io_error};
use crate::files::LogFiles;
use crate::format;
use crate::scan;
use crate::streams::{Stream, Streams};
use crate::synced::Syncs;
use pandofs_storage::log::{Entry, Log, LogError, Visit};
use pandofs_types::limits::{LOG_FILE_BYTES, LOG_READ_CHUNK_BYTES, MAX_LOG_APPEND_BYTES};
use protobuf::well_known_types::BytesValue;
use raft_engine::{
    Command, Config, Engine, Error, LogBatch, MessageExt, ReadableSize, RecoveryMode, Version,
};
use std::fs::{self, File};
use std::io;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Records that reading the log keeps in memory at once.
const LOG_READ_CHUNK_RECORDS: u64 = 4_096;

/// The key of a stream's first index.
const FIRST_KEY: &[u8] = b"first";
/// Bytes of an entry before its payload: the index.
const INDEX_BYTES: usize = 8;
/// Bytes of an entry whose buffer is used again for the next append.
const MAX_KEPT_BUFFER_BYTES: usize = 16 << 10;

/// How a log is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes after which the next file is begun. Space comes back in whole files.
    pub target_file_bytes: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            target_file_bytes: LOG_FILE_BYTES,
        }
    }
}

/// A log in a directory of its own.
pub struct RaftEngineLog {
    // Fields are dropped in this order: raft-engine syncs and closes its files before the
    // directory is free for another owner.
    engine: Engine<LogFiles>,
    files: Arc<LogFiles>,
    syncs: Arc<Syncs>,
    appender: Mutex<Appender>,
    /// Held while entries move from one file to another, and while they are read: otherwise an
    /// entry could be looked up, its file purged, and then read.
    moving: Mutex<()>,
    dir: PathBuf,
    _in_use: File,
}

/// State of an append, one at a time.
struct Appender {
    streams: Streams,
    batch: LogBatch,
    /// Buffers that are used again.
    records: Vec<BytesValue>,
}

/// How raft-engine sees an entry: `index (u64, big-endian) | payload`.
struct Record;

impl MessageExt for Record {
    type Entry = BytesValue;

    fn index(entry: &BytesValue) -> u64 {
        let bytes = entry.value.first_chunk::<INDEX_BYTES>();
        let bytes =
            bytes.expect("its checksum was right, and no entry was written without an index");
        u64::from_be_bytes(*bytes)
    }
}

impl RaftEngineLog {
    /// Opens the log in `dir`, or makes one there when the directory is new or empty. Reads all of
    /// it once.
    ///
    /// # Errors
    /// [`LogError::InUse`] when another process has it open, [`LogError::WrongFormat`] when it is
    /// not a log of this version, [`LogError::Corrupt`] as the crate's documentation says.
    pub fn open(dir: &Path, options: Options) -> Result<RaftEngineLog, LogError> {
        let io = |error: io::Error| io_error(dir, &error);
        let in_use = format::claim(dir)?;
        let syncs = Arc::new(Syncs::open(dir).map_err(io)?);
        scan::check(dir, &syncs.marks())?;
        let files = Arc::new(LogFiles::new(dir, Arc::clone(&syncs)));
        let config = config(dir, &options)?;
        let engine = Engine::open_with_file_system(config, Arc::clone(&files))
            .map_err(|error| engine_error(dir, error))?;
        // raft-engine does not sync the name of the first file that it makes.
        format::sync_dir(dir).map_err(io)?;
        let streams = load(&engine, dir)?;
        syncs.check()?;
        Ok(RaftEngineLog {
            engine,
            files,
            syncs,
            appender: Mutex::new(Appender {
                streams,
                batch: LogBatch::default(),
                records: Vec::new(),
            }),
            moving: Mutex::default(),
            dir: dir.to_owned(),
            _in_use: in_use,
        })
    }

    /// The appender is whole whenever its lock is let go of, also by the panic of an append that
    /// does not continue its stream, see [`Streams::claim`].
    fn appender(&self) -> MutexGuard<'_, Appender> {
        self.appender.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stream(&self, stream: u64) -> Option<Stream> {
        self.appender().streams.get(stream)
    }

    /// Entries of `stream` from `first` up to and without `end`, as many as fit a chunk and at
    /// least one. `None` when they were pruned meanwhile.
    fn chunk(
        &self,
        stream: u64,
        first: u64,
        end: u64,
    ) -> Result<Option<Vec<BytesValue>>, LogError> {
        let end = end.min(first.saturating_add(LOG_READ_CHUNK_RECORDS));
        let _moving = self.moving.lock().unwrap_or_else(PoisonError::into_inner);
        let fetched = self.on_its_own_thread(|| {
            let mut entries = Vec::new();
            let limit = Some(LOG_READ_CHUNK_BYTES);
            let fetched =
                self.engine
                    .fetch_entries_to::<Record>(stream, first, end, limit, &mut entries);
            fetched.map(|_| entries)
        })?;
        match fetched {
            Ok(entries) => {
                assert!(!entries.is_empty(), "stream {stream} lacks {first}");
                Ok(Some(entries))
            }
            Err(Error::EntryCompacted | Error::EntryNotFound) => Ok(None),
            Err(Error::Corruption(what)) => Err(self.find_corruption(what)),
            Err(error) => Err(engine_error(&self.dir, error)),
        }
    }

    /// Runs `work` on a thread of its own. raft-engine keeps the last block it read in a
    /// thread-local variable under its file's number and place, whatever log it belongs to: a
    /// thread that had read another log, or an earlier life of this one, would be given the other
    /// block's bytes, and `reclaim` would even write them back.
    fn on_its_own_thread<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, LogError> {
        thread::scope(|scope| {
            let worker = thread::Builder::new().name("log-read".to_owned());
            let worker = worker.spawn_scoped(scope, work);
            let worker = worker.map_err(|error| io_error(&self.dir, &error))?;
            Ok(worker.join().unwrap_or_else(|panic| resume_unwind(panic)))
        })
    }

    /// raft-engine does not say where it found what it says.
    fn find_corruption(&self, what: String) -> LogError {
        for (id, written) in self.files.written() {
            let path = id.path(&self.dir);
            let mut bytes = match fs::read(&path) {
                Ok(bytes) => bytes,
                Err(error) => return io_error(&path, &error),
            };
            bytes.truncate(written as usize);
            if let Some(found) = scan::first_break(&bytes, id.number) {
                return scan::corrupt(&path, found.offset, found.what);
            }
        }
        LogError::Corrupt {
            path: self.dir.clone(),
            what,
        }
    }
}

impl Log for RaftEngineLog {
    fn append(&self, entries: &[Entry<'_>]) -> Result<(), LogError> {
        self.syncs.check()?;
        let bytes: usize = entries.iter().map(|entry| entry.payload.len()).sum();
        if bytes > MAX_LOG_APPEND_BYTES {
            return Err(LogError::TooLarge {
                bytes,
                limit: MAX_LOG_APPEND_BYTES,
            });
        }
        if entries.is_empty() {
            return Ok(());
        }
        let mut appender = self.appender();
        let appender = &mut *appender;
        appender.streams.claim(entries);
        let written = appender
            .fill(entries)
            .and_then(|()| self.engine.write(&mut appender.batch, false));
        match written {
            Ok(_) => {
                appender.streams.confirm();
                // Beginning a new file syncs the last one.
                self.syncs.check()
            }
            Err(error) => {
                appender.batch = LogBatch::default();
                appender.streams.release(entries);
                Err(engine_error(&self.dir, error))
            }
        }
    }

    fn sync(&self) -> Result<(), LogError> {
        self.files.sync()
    }

    fn read(&self, stream: u64, from: u64, visit: &mut Visit<'_>) -> Result<(), LogError> {
        let Some(Stream { first, next: end }) = self.stream(stream) else {
            return Ok(());
        };
        let mut index = from.max(first);
        while index < end {
            match self.chunk(stream, index, end)? {
                Some(entries) => {
                    for entry in entries {
                        visit(index, &entry.value[INDEX_BYTES..])?;
                        index += 1;
                    }
                }
                None => {
                    let first = self.stream(stream).map_or(end, |stream| stream.first);
                    assert!(
                        first > index,
                        "stream {stream} lacks {index}, which was not pruned"
                    );
                    index = first;
                }
            }
        }
        Ok(())
    }

    fn span(&self, stream: u64) -> Option<(u64, u64)> {
        self.stream(stream)?.span()
    }

    fn next_index(&self, stream: u64) -> Option<u64> {
        Some(self.stream(stream)?.next)
    }

    fn prune(&self, stream: u64, upto: u64) -> Result<(), LogError> {
        assert!(upto < u64::MAX, "no entry could follow");
        self.syncs.check()?;
        let mut appender = self.appender();
        let first = upto + 1;
        let next = match appender.streams.get(stream) {
            Some(stream) if first <= stream.first => return Ok(()),
            Some(stream) => stream.next.max(first),
            None => first,
        };
        let mut batch = LogBatch::with_capacity(2);
        batch.add_command(stream, Command::Compact { index: first });
        put_first(&mut batch, stream, first)
            .and_then(|()| self.engine.write(&mut batch, false))
            .map_err(|error| engine_error(&self.dir, error))?;
        appender.streams.insert(stream, Stream { first, next });
        self.syncs.check()
    }

    fn reclaim(&self) -> Result<(), LogError> {
        self.syncs.check()?;
        let _moving = self.moving.lock().unwrap_or_else(PoisonError::into_inner);
        let purged = self.on_its_own_thread(|| self.engine.purge_expired_files())?;
        self.syncs.check()?;
        match purged {
            // The streams that it would like to see pruned further; they will be.
            Ok(_streams) => Ok(()),
            Err(Error::Corruption(what)) => Err(self.find_corruption(what)),
            Err(error) => Err(engine_error(&self.dir, error)),
        }
    }

    fn bytes(&self) -> u64 {
        self.files.bytes()
    }
}

impl Appender {
    /// Puts claimed entries into the batch.
    fn fill(&mut self, entries: &[Entry<'_>]) -> Result<(), Error> {
        for (stream, first) in self.streams.begun() {
            put_first(&mut self.batch, stream, first)?;
        }
        for run in entries.chunk_by(|a, b| a.stream == b.stream) {
            if self.records.len() < run.len() {
                self.records.resize_with(run.len(), BytesValue::default);
            }
            let records = &mut self.records[..run.len()];
            for (record, entry) in records.iter_mut().zip(run) {
                record.value.clear();
                record.value.extend_from_slice(&entry.index.to_be_bytes());
                record.value.extend_from_slice(entry.payload);
            }
            self.batch.add_entries::<Record>(run[0].stream, records)?;
            for record in records {
                if record.value.capacity() > MAX_KEPT_BUFFER_BYTES {
                    record.value = Vec::new();
                }
            }
        }
        Ok(())
    }
}

fn put_first(batch: &mut LogBatch, stream: u64, first: u64) -> Result<(), Error> {
    batch.put(stream, FIRST_KEY.to_vec(), first.to_be_bytes().to_vec())
}

fn config(dir: &Path, options: &Options) -> Result<Config, LogError> {
    let Some(name) = dir.to_str() else {
        return Err(LogError::Io {
            path: dir.to_owned(),
            reason: "raft-engine opens only directories whose names are UTF-8".to_owned(),
        });
    };
    let file_bytes = ReadableSize(options.target_file_bytes);
    Ok(Config {
        dir: name.to_owned(),
        // The torn end that a crash may leave was cut off before; anything else is corruption.
        recovery_mode: RecoveryMode::AbsoluteConsistency,
        // Parts of the log that are recovered side by side do not know of each other's prunes.
        recovery_threads: 1,
        batch_compression_threshold: ReadableSize(0),
        format_version: Version::V2,
        target_file_size: file_bytes,
        // Purge as soon as there is a file beside the one that is written.
        purge_threshold: file_bytes,
        // A used file's old bytes would follow the new ones, and look like a torn tail.
        enable_log_recycle: false,
        ..Config::default()
    })
}

/// The streams of a log that was just opened. Prunes again what has come back.
fn load(engine: &Engine<LogFiles>, dir: &Path) -> Result<Streams, LogError> {
    let corrupt = |what: String| LogError::Corrupt {
        path: dir.to_owned(),
        what,
    };
    let mut streams = Streams::default();
    for number in engine.raft_groups() {
        let first = engine.get(number, FIRST_KEY);
        let Some(Ok(first)) = first.map(<[u8; 8]>::try_from) else {
            return Err(corrupt(format!("stream {number} has no first index")));
        };
        let first = u64::from_be_bytes(first);
        let mut next = first;
        if let (Some(oldest), Some(last)) = (engine.first_index(number), engine.last_index(number))
        {
            if oldest > first {
                return Err(corrupt(format!(
                    "stream {number} lacks its entries {first} to {}",
                    oldest - 1
                )));
            }
            if oldest < first {
                let mut batch = LogBatch::with_capacity(1);
                batch.add_command(number, Command::Compact { index: first });
                engine
                    .write(&mut batch, false)
                    .map_err(|error| engine_error(dir, error))?;
            }
            next = next.max(last + 1);
        }
        streams.insert(number, Stream { first, next });
    }
    Ok(streams)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pandofs_storage::log::suite::{append_one_each, assert_holds};

    #[test]
    fn a_log_that_could_not_be_synced_takes_nothing_more_until_it_is_opened_again() {
        let dir = tempfile::tempdir().unwrap();
        let log = RaftEngineLog::open(dir.path(), Options::default()).unwrap();
        append_one_each(&log, &[1], 1);
        let failure = log
            .syncs
            .fail(dir.path(), &io::Error::other("the disk is gone"));
        assert!(matches!(failure, LogError::Failed { .. }));
        let entry = Entry {
            stream: 1,
            index: 2,
            payload: b"",
        };
        assert_eq!(log.append(&[entry]), Err(failure.clone()));
        assert_eq!(log.sync(), Err(failure.clone()));
        assert_eq!(log.prune(1, 1), Err(failure.clone()));
        assert_eq!(log.reclaim(), Err(failure));
        assert_holds(&log, 1, 1, 1);
        drop(log);
        let log = RaftEngineLog::open(dir.path(), Options::default()).unwrap();
        append_one_each(&log, &[1], 2);
        assert_holds(&log, 1, 1, 2);
    }

    #[test]
    fn an_entry_is_its_index_and_its_payload() {
        let entry = BytesValue {
            value: [&7_u64.to_be_bytes()[..], b"payload"].concat(),
            ..BytesValue::default()
        };
        assert_eq!(Record::index(&entry), 7);
        let encoded = protobuf::Message::write_to_bytes(&entry).unwrap();
        assert_eq!(encoded, b"\x0a\x0f\0\0\0\0\0\0\0\x07payload");
    }
}
