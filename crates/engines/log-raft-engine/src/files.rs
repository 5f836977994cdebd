//! Plain files for raft-engine, with counts of what was written and what was synced.
//!
//! Through it the log is synced without raft-engine's locks. raft-engine's own sync holds the lock
//! that every append takes, so that a lane would wait for the disk.

use crate::format::sync_dir;
use crate::names::{FileId, Queue};
use crate::scan::FILE_HEADER_BYTES;
use crate::synced::Syncs;
use pandofs_storage::log::LogError;
use raft_engine::env::{FileSystem, Handle, Permission, WriteExt};
use rustix::fs::{FallocateFlags, fallocate, seek};
use rustix::io::Errno;
use std::cmp;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that are written once more at a time.
const PIECE_BYTES: usize = 1 << 20;

/// The files of one log.
pub(crate) struct LogFiles {
    dir: PathBuf,
    open: Arc<OpenFiles>,
    syncs: Arc<Syncs>,
}

/// The files there are.
struct OpenFiles {
    files: Mutex<BTreeMap<FileId, Arc<LogFile>>>,
}

impl OpenFiles {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<FileId, Arc<LogFile>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Syncs what was appended before the call.
    ///
    /// An append that ends while this runs may be in a file that is begun meanwhile; it is
    /// not promised. One that had ended is in a file seen here, or in one that was purged.
    fn sync_appends(&self) -> Result<(), LogError> {
        let is_behind = |(id, file): &(&FileId, &Arc<LogFile>)| {
            id.queue == Queue::Append && file.synced.load(Ordering::Acquire) < file.written()
        };
        let clone = |(_, file): (&FileId, &Arc<LogFile>)| Arc::clone(file);
        let behind: Vec<Arc<LogFile>> = self.lock().iter().filter(is_behind).map(clone).collect();
        behind.iter().try_for_each(|file| file.sync())
    }
}

impl LogFiles {
    pub(crate) fn new(dir: &Path, syncs: Arc<Syncs>) -> LogFiles {
        LogFiles {
            dir: dir.to_owned(),
            open: Arc::new(OpenFiles {
                files: Mutex::default(),
            }),
            syncs,
        }
    }

    /// Bytes written to the files there are.
    pub(crate) fn bytes(&self) -> u64 {
        self.open.lock().values().map(|file| file.written()).sum()
    }

    /// The files there are, and how many bytes were written to each.
    pub(crate) fn written(&self) -> Vec<(FileId, u64)> {
        let files = self.open.lock();
        files
            .iter()
            .map(|(&id, file)| (id, file.written()))
            .collect()
    }

    /// Syncs what was appended before the call.
    pub(crate) fn sync(&self) -> Result<(), LogError> {
        self.syncs.check()?;
        self.open.sync_appends()
    }

    /// Writes once more, as it is, what an earlier life has not synced of the file. Its last sync may have failed, and
    /// Linux tells that once: a sync would find nothing to do and succeed, with the bytes in memory alone.
    fn write_again(&self, id: FileId, file: &File) -> io::Result<()> {
        let mark = self.syncs.marks().of(id.queue);
        let mut at = match id.number.cmp(&mark.file) {
            cmp::Ordering::Less => return Ok(()),
            cmp::Ordering::Equal => mark.bytes,
            cmp::Ordering::Greater => 0,
        };
        let mut piece = vec![0; PIECE_BYTES];
        // Space that is only reserved stays so.
        while let Some(data) = next_data(file, at)? {
            at = data.start;
            while at < data.end {
                let size = (data.end - at).min(PIECE_BYTES as u64) as usize;
                file.read_exact_at(&mut piece[..size], at)?;
                file.write_all_at(&piece[..size], at)?;
                at += size as u64;
            }
        }
        Ok(())
    }

    /// Opens a file, making it when `create` is set, and counts it from now on.
    fn add(&self, path: &Path, create: bool) -> io::Result<SharedFile> {
        let id = FileId::from_path(path)
            .ok_or_else(|| io::Error::other(format!("{} is no log file", path.display())))?;
        let mut options = File::options();
        let file = options
            .read(true)
            .write(true)
            .create(create)
            .truncate(false)
            .open(path)?;
        if !create {
            self.write_again(id, &file)?;
        }
        let file = Arc::new(LogFile {
            id,
            path: path.to_owned(),
            written: AtomicU64::new(file.metadata()?.len()),
            file,
            // Writes of an earlier process may still be on their way to the disk.
            synced: AtomicU64::new(0),
            syncs: Arc::clone(&self.syncs),
        });
        self.open.lock().insert(id, Arc::clone(&file));
        Ok(SharedFile(file))
    }
}

impl FileSystem for LogFiles {
    type Handle = SharedFile;
    type Reader = Cursor;
    type Writer = Cursor;

    fn create<P: AsRef<Path>>(&self, path: P) -> io::Result<SharedFile> {
        self.add(path.as_ref(), true)
    }

    fn open<P: AsRef<Path>>(&self, path: P, _: Permission) -> io::Result<SharedFile> {
        self.add(path.as_ref(), false)
    }

    /// Removes a file whose entries were all pruned or rewritten.
    ///
    /// The record that they were pruned is in the log too and must not be lost after them: the
    /// stream would seem to lack its first entries. So it is synced first. And the removal is
    /// synced before the next one, so that no crash leaves a gap in the numbers, which would
    /// seem to be a lost file.
    fn delete<P: AsRef<Path>>(&self, path: P) -> io::Result<()> {
        let path = path.as_ref();
        self.sync().map_err(io::Error::other)?;
        fs::remove_file(path)?;
        if let Some(id) = FileId::from_path(path) {
            self.open.lock().remove(&id);
        }
        sync_dir(&self.dir)
    }

    fn rename<P: AsRef<Path>>(&self, _: P, _: P) -> io::Result<()> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "log files are not used again",
        ))
    }

    fn new_reader(&self, handle: Arc<SharedFile>) -> io::Result<Cursor> {
        Ok(Cursor::new(&handle, &self.open))
    }

    fn new_writer(&self, handle: Arc<SharedFile>) -> io::Result<Cursor> {
        Ok(Cursor::new(&handle, &self.open))
    }
}

/// One open file.
struct LogFile {
    id: FileId,
    path: PathBuf,
    file: File,
    /// Bytes written. The file may be longer: raft-engine reserves space ahead.
    written: AtomicU64,
    /// Of these, bytes known to be on disk.
    synced: AtomicU64,
    syncs: Arc<Syncs>,
}

impl LogFile {
    fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    fn sync(&self) -> Result<(), LogError> {
        // Read first: what is written while the disk works is not covered.
        let written = self.written();
        self.file
            .sync_data()
            .map_err(|error| self.syncs.fail(&self.path, &error))?;
        self.synced.fetch_max(written, Ordering::AcqRel);
        // A file without a batch may go missing with its directory entry, and nothing is lost.
        if written > FILE_HEADER_BYTES as u64 {
            self.syncs.raise(self.id, written)?;
        }
        Ok(())
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)?;
        self.written.fetch_min(bytes, Ordering::AcqRel);
        Ok(())
    }
}

/// A file as raft-engine holds it.
pub(crate) struct SharedFile(Arc<LogFile>);

impl Handle for SharedFile {
    fn truncate(&self, offset: usize) -> io::Result<()> {
        self.0.truncate(offset as u64)
    }

    fn file_size(&self) -> io::Result<usize> {
        Ok(self.0.file.metadata()?.len() as usize)
    }

    /// Answers success also when it failed, because raft-engine panics otherwise. The failure has
    /// closed the log: callers of raft-engine ask [`Syncs::check`] afterwards.
    fn sync(&self) -> io::Result<()> {
        let _closed = self.0.sync();
        Ok(())
    }
}

/// A place in a file, to read from or to write to.
pub(crate) struct Cursor {
    file: Arc<LogFile>,
    offset: u64,
    open: Arc<OpenFiles>,
}

impl Cursor {
    fn new(handle: &SharedFile, open: &Arc<OpenFiles>) -> Cursor {
        Cursor {
            file: Arc::clone(&handle.0),
            offset: 0,
            open: Arc::clone(open),
        }
    }
}

impl Read for Cursor {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.file.file.read_at(buffer, self.offset)?;
        self.offset += bytes as u64;
        Ok(bytes)
    }
}

impl Write for Cursor {
    /// Writes all of `buffer`, or nothing that counts: raft-engine goes back to where it was after an
    /// error.
    ///
    /// Rewritten entries begin where their stream was pruned to. Syncs the prunes first.
    /// Otherwise: entries 1 to 9 were rewritten, 10 to 19 are in an append file, the stream is
    /// pruned to 15, 15 to 19 are rewritten, and the power fails. The prune is lost and the
    /// rewritten entries are not. raft-engine finds 1 to 9 and then 15, takes the gap for a prune
    /// and drops 1 to 9.
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        if self.file.id.queue == Queue::Rewrite {
            self.open.sync_appends().map_err(io::Error::other)?;
        }
        self.file.file.write_all_at(buffer, self.offset)?;
        self.offset += buffer.len() as u64;
        self.file.written.store(self.offset, Ordering::Release);
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Cursor {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.offset = match to {
            SeekFrom::Start(offset) => offset,
            SeekFrom::Current(by) => moved(self.offset, by)?,
            SeekFrom::End(by) => moved(self.file.file.metadata()?.len(), by)?,
        };
        Ok(self.offset)
    }
}

/// Where something was written, from `offset` on.
fn next_data(file: &File, offset: u64) -> io::Result<Option<Range<u64>>> {
    match seek(file, rustix::fs::SeekFrom::Data(offset)) {
        Ok(start) => Ok(Some(start..seek(file, rustix::fs::SeekFrom::Hole(start))?)),
        Err(Errno::NXIO) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn moved(offset: u64, by: i64) -> io::Result<u64> {
    let outside = || io::Error::new(io::ErrorKind::InvalidInput, "before the file's begin");
    offset.checked_add_signed(by).ok_or_else(outside)
}

impl WriteExt for Cursor {
    fn truncate(&mut self, offset: usize) -> io::Result<()> {
        self.file.truncate(offset as u64)?;
        self.offset = offset as u64;
        Ok(())
    }

    /// Reserves space, so that a sync seldom has to write the file's size or its map too.
    fn allocate(&mut self, offset: usize, size: usize) -> io::Result<()> {
        let mode = FallocateFlags::empty();
        match fallocate(&self.file.file, mode, offset as u64, size as u64) {
            // A file system that cannot is as good, only slower.
            Ok(()) | Err(Errno::OPNOTSUPP) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::net::UnixStream;
    use std::time::SystemTime;

    fn files(dir: &Path) -> LogFiles {
        LogFiles::new(dir, Arc::new(Syncs::open(dir).unwrap()))
    }

    fn append_path(dir: &Path, number: u64) -> PathBuf {
        FileId {
            queue: Queue::Append,
            number,
        }
        .path(dir)
    }

    fn write(files: &LogFiles, path: &Path, bytes: &[u8]) -> Arc<SharedFile> {
        let file = Arc::new(files.create(path).unwrap());
        files
            .new_writer(Arc::clone(&file))
            .unwrap()
            .write_all(bytes)
            .unwrap();
        file
    }

    #[test]
    fn bytes_are_those_written_to_the_files_there_are() {
        let dir = tempfile::tempdir().unwrap();
        let files = files(dir.path());
        write(&files, &append_path(dir.path(), 1), &[1; 1_000]);
        let second = Arc::new(files.create(append_path(dir.path(), 2)).unwrap());
        let mut writer = files.new_writer(Arc::clone(&second)).unwrap();
        writer.allocate(0, 1 << 20).unwrap();
        writer.write_all(&[2; 500]).unwrap();
        assert_eq!(files.bytes(), 1_500);
        assert!(second.file_size().unwrap() >= 500);
        writer.truncate(400).unwrap();
        assert_eq!((files.bytes(), second.file_size().unwrap()), (1_400, 400));
        files.delete(append_path(dir.path(), 1)).unwrap();
        assert_eq!(files.bytes(), 400);
    }

    #[test]
    fn a_sync_syncs_every_append_file_and_says_how_far() {
        let dir = tempfile::tempdir().unwrap();
        let files = files(dir.path());
        write(&files, &append_path(dir.path(), 1), &[1; 1_000]);
        write(&files, &append_path(dir.path(), 2), &[2; 700]);
        let rewrite = FileId {
            queue: Queue::Rewrite,
            number: 1,
        };
        let rewritten = write(&files, &rewrite.path(dir.path()), &[3; 300]);
        files.sync().unwrap();
        let marks = files.syncs.marks();
        assert_eq!(
            (marks.of(Queue::Append).file, marks.of(Queue::Append).bytes),
            (2, 700)
        );
        assert_eq!(marks.of(Queue::Rewrite).bytes, 0);
        Handle::sync(&*rewritten).unwrap();
        assert_eq!(files.syncs.marks().of(Queue::Rewrite).bytes, 300);
    }

    #[test]
    fn a_file_that_holds_only_its_header_is_not_said_to_be_synced() {
        let dir = tempfile::tempdir().unwrap();
        let files = files(dir.path());
        write(&files, &append_path(dir.path(), 1), &[0; FILE_HEADER_BYTES]);
        files.sync().unwrap();
        assert_eq!(files.syncs.marks().of(Queue::Append).file, 0);
    }

    /// Whether the file has been written to since this was asked last.
    fn is_written(path: &Path) -> bool {
        let file = File::options().write(true).open(path).unwrap();
        let before = file.metadata().unwrap().modified().unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        before != SystemTime::UNIX_EPOCH
    }

    #[test]
    fn what_an_earlier_life_did_not_sync_is_written_once_more() {
        let dir = tempfile::tempdir().unwrap();
        let path = append_path(dir.path(), 1);
        let first = files(dir.path());
        let file = write(&first, &path, &[1; 1_000]);
        first.sync().unwrap();
        assert!(is_written(&path));
        drop(file);
        let open_again = || {
            let files = files(dir.path());
            let file = files.open(&path, Permission::ReadWrite).unwrap();
            (files, Arc::new(file))
        };
        open_again();
        assert!(!is_written(&path), "all of it was synced");
        let (second, file) = open_again();
        let mut writer = second.new_writer(file).unwrap();
        writer.seek(SeekFrom::Start(1_000)).unwrap();
        writer.allocate(1_000, 10 << 20).unwrap();
        writer.write_all(&[2; 3 << 20]).unwrap();
        let space = fs::metadata(&path).unwrap().blocks();
        assert!(is_written(&path));
        let (third, _) = open_again();
        assert!(is_written(&path));
        let bytes = fs::read(&path).unwrap();
        assert!(bytes[..1_000].iter().all(|&byte| byte == 1));
        assert!(
            bytes[1_000..1_000 + (3 << 20)]
                .iter()
                .all(|&byte| byte == 2)
        );
        assert_eq!(fs::metadata(&path).unwrap().blocks(), space);
        third.sync().unwrap();
        is_written(&path);
        open_again();
        assert!(!is_written(&path));
    }

    #[test]
    fn a_failed_sync_closes_the_log() {
        let dir = tempfile::tempdir().unwrap();
        let files = files(dir.path());
        // A socket cannot be synced.
        let (socket, _peer) = UnixStream::pair().unwrap();
        let id = FileId {
            queue: Queue::Append,
            number: 1,
        };
        let file = Arc::new(LogFile {
            id,
            path: id.path(dir.path()),
            file: File::from(OwnedFd::from(socket)),
            written: AtomicU64::new(100),
            synced: AtomicU64::new(0),
            syncs: Arc::clone(&files.syncs),
        });
        files.open.lock().insert(id, Arc::clone(&file));
        // raft-engine gets no error, but all other callers do.
        Handle::sync(&SharedFile(file)).unwrap();
        let failure = files.syncs.check().unwrap_err();
        assert!(matches!(&failure, LogError::Failed { path, .. } if *path == id.path(dir.path())));
        assert_eq!(files.sync(), Err(failure));
        assert_eq!(files.syncs.marks().of(Queue::Append).file, 0);
    }
}
