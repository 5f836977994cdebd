//! What is done to data objects, on one thread.

use super::open::{OpenObject, OpenObjects};
use super::syncer::Work;
use pandofs_api::{AdminReply, DataReply, DataRequest};
use pandofs_types::limits::{MAX_FILE_BYTES, MAX_IO_BYTES, MAX_OBJECTS_LISTED};
use pandofs_types::{FsError, Ino};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Makes the directories for data objects below `root`; those that are there stay.
pub(crate) fn prepare(root: &Path) -> io::Result<()> {
    for last_byte in 0..=u8::MAX {
        match DirBuilder::new()
            .mode(0o700)
            .create(directory(root, last_byte))
        {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// The directory of all objects whose inode number ends with this byte.
pub(super) fn directory(root: &Path, last_byte: u8) -> PathBuf {
    root.join(format!("{last_byte:02x}"))
}

/// The last byte of the number.
pub(super) fn last_byte(ino: Ino) -> u8 {
    ino.0 as u8
}

pub(super) fn path(root: &Path, ino: Ino) -> PathBuf {
    directory(root, last_byte(ino)).join(format!("{:016x}", ino.0))
}

/// Where Linux tells which start of which machine this is.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// What came of a request.
#[derive(Debug)]
pub(crate) enum Outcome {
    Done(DataReply),
    /// Answered once this is forced.
    Force(Work),
}

/// One thread's data objects.
#[derive(Debug)]
pub(crate) struct Objects {
    root: PathBuf,
    open: OpenObjects,
}

impl Objects {
    /// Those below `root`, of which `max_open` are kept open.
    pub fn new(root: PathBuf, max_open: usize) -> Objects {
        Objects {
            root,
            open: OpenObjects::new(max_open),
        }
    }

    /// Carries out a request. All requests for one object have to come to the same `Objects`. What is
    /// written or cut is answered once it is on disk, if that is asked for.
    pub fn execute(&mut self, request: DataRequest, forced: bool) -> Outcome {
        let done = match request {
            DataRequest::Read {
                ino,
                offset,
                length,
            } => self.read(ino, offset, length).map(DataReply::Data),
            DataRequest::Write { ino, offset, data } => match self.write(ino, offset, &data) {
                Ok(object) if forced => return Outcome::Force(Work::Object(object)),
                done => done.map(|_| DataReply::Done),
            },
            DataRequest::Truncate { ino, length } => match self.truncate(ino, length) {
                Ok(Some(object)) if forced => return Outcome::Force(Work::Object(object)),
                done => done.map(|_| DataReply::Done),
            },
            DataRequest::Usage { ino } => self.usage(ino),
            DataRequest::Space => self.space(),
            DataRequest::Remove { ino } => match self.remove(ino) {
                Ok(()) => {
                    return Outcome::Force(Work::Removal {
                        last_byte: last_byte(ino),
                    });
                }
                Err(error) => Err(error),
            },
            DataRequest::Sync { ino } => match self.object(ino) {
                Ok(Some(object)) => return Outcome::Force(Work::Object(object)),
                Ok(None) => Ok(DataReply::Done),
                Err(error) => Err(error),
            },
            DataRequest::Allocate {
                ino,
                offset,
                length,
                allocation,
            } => match self.allocate(ino, offset, length, allocation) {
                Ok(Some(object)) if forced => return Outcome::Force(Work::Object(object)),
                done => done.map(|_| DataReply::Done),
            },
            DataRequest::Seek { ino, offset, data } => self.seek(ino, offset, data),
        };
        Outcome::Done(done.unwrap_or_else(DataReply::Failed))
    }

    fn read(&mut self, ino: Ino, offset: u64, length: u32) -> Result<Vec<u8>, FsError> {
        check_range(offset, length as usize)?;
        let Some(object) = self.object(ino)? else {
            return Ok(Vec::new());
        };
        let mut data = vec![0; length as usize];
        let mut filled = 0;
        while filled < data.len() {
            match object
                .file
                .read_at(&mut data[filled..], offset + filled as u64)
            {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failure("read", ino, &error)),
            }
        }
        data.truncate(filled);
        Ok(data)
    }

    pub(super) fn write(
        &mut self,
        ino: Ino,
        offset: u64,
        data: &[u8],
    ) -> Result<Arc<OpenObject>, FsError> {
        check_range(offset, data.len())?;
        let object = match self.object(ino)? {
            Some(object) => object,
            None => self.create(ino)?,
        };
        object
            .file
            .write_all_at(data, offset)
            .map_err(|error| self.failure("write", ino, &error))?;
        Ok(object)
    }

    /// The object, if there is one.
    pub(super) fn truncate(
        &mut self,
        ino: Ino,
        length: u64,
    ) -> Result<Option<Arc<OpenObject>>, FsError> {
        let Some(object) = self.object(ino)? else {
            return Ok(None);
        };
        // Also to the length that it has: that lets go of what was reserved beyond.
        let cut = || {
            object
                .file
                .set_len(object.file.metadata()?.len().min(length))
        };
        cut().map_err(|error: io::Error| self.failure("truncate", ino, &error))?;
        Ok(Some(object))
    }

    fn usage(&mut self, ino: Ino) -> Result<DataReply, FsError> {
        let Some(object) = self.object(ino)? else {
            return Ok(DataReply::Usage { blocks: 0 });
        };
        match object.file.metadata() {
            Ok(metadata) => Ok(DataReply::Usage {
                blocks: metadata.blocks(),
            }),
            Err(error) => Err(self.failure("stat", ino, &error)),
        }
    }

    /// Without the inodes, which only the lane knows.
    fn space(&self) -> Result<DataReply, FsError> {
        let space = || {
            let space = rustix::fs::statvfs(&self.root)?;
            io::Result::Ok(DataReply::Space {
                total: space.f_blocks.saturating_mul(space.f_frsize),
                free: space.f_bfree.saturating_mul(space.f_frsize),
                available: space.f_bavail.saturating_mul(space.f_frsize),
                inodes: 0,
                disk: disk_number(&self.root)?,
            })
        };
        space().map_err(|error| failure("statvfs", &self.root, &error))
    }

    fn remove(&mut self, ino: Ino) -> Result<(), FsError> {
        self.open.remove(ino);
        match fs::remove_file(path(&self.root, ino)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(self.failure("remove", ino, &error))
            }
            // Also when there is none any more: an earlier request may have removed it and crashed
            // before that was forced.
            _ => Ok(()),
        }
    }

    /// The object, if there is one.
    pub(super) fn object(&mut self, ino: Ino) -> Result<Option<Arc<OpenObject>>, FsError> {
        if let Some(object) = self.open.get(ino) {
            return Ok(Some(object));
        }
        match OpenOptions::new()
            .read(true)
            .write(true)
            .open(path(&self.root, ino))
        {
            Ok(file) => Ok(Some(self.open.add(OpenObject::new(ino, file)))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failure("open", ino, &error)),
        }
    }

    pub(super) fn create(&mut self, ino: Ino) -> Result<Arc<OpenObject>, FsError> {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600);
        match options.open(path(&self.root, ino)) {
            Ok(file) => Ok(self.open.add(OpenObject::new(ino, file))),
            Err(error) => Err(self.failure("create", ino, &error)),
        }
    }

    pub(super) fn failure(&self, doing: &str, ino: Ino, error: &io::Error) -> FsError {
        failure(doing, &path(&self.root, ino), error)
    }
}

/// Whether a request stays within what files may have.
fn check_range(offset: u64, length: usize) -> Result<(), FsError> {
    if length > MAX_IO_BYTES {
        return Err(FsError::Invalid);
    }
    match offset.checked_add(length as u64) {
        Some(end) if end <= MAX_FILE_BYTES => Ok(()),
        _ => Err(FsError::FileTooBig),
    }
}

/// What the client is told of the system's error; what it does not explain goes to the log.
pub(super) fn failure(doing: &str, path: &Path, error: &io::Error) -> FsError {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => FsError::NoSpace,
        ErrorKind::FileTooLarge => FsError::FileTooBig,
        _ => {
            tracing::error!("cannot {doing} {}: {error}", path.display());
            FsError::Io
        }
    }
}

/// The data objects below `root` after inode number `after` (0: from the start), at most `max`. Their
/// order is that of the last bytes of their numbers, then of the numbers.
pub(crate) fn list(root: &Path, after: u64, max: u32) -> AdminReply {
    let max = (max as usize).min(MAX_OBJECTS_LISTED);
    let mut objects = Vec::new();
    for last in after as u8..=u8::MAX {
        let directory = directory(root, last);
        let mut here = match list_directory(&directory) {
            Ok(here) => here,
            Err(error) => {
                return AdminReply::Failed(format!("cannot list {}: {error}", directory.display()));
            }
        };
        if last == after as u8 {
            here.retain(|&(number, _)| number > after);
        }
        here.sort_unstable();
        objects.append(&mut here);
        if objects.len() > max {
            objects.truncate(max);
            return AdminReply::Objects {
                objects,
                more: true,
            };
        }
    }
    AdminReply::Objects {
        objects,
        more: false,
    }
}

fn list_directory(directory: &Path) -> io::Result<Vec<(u64, u64)>> {
    let mut objects = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let number = name
            .to_str()
            .and_then(|name| u64::from_str_radix(name, 16).ok());
        let Some(number) = number else {
            tracing::warn!("{} is no data object", entry.path().display());
            continue;
        };
        match entry.metadata() {
            Ok(metadata) => objects.push((number, metadata.len())),
            // Removed meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(objects)
}

/// A number for the file system that `path` is on, which no other one has, on this machine or another: a
/// device's number is of one machine only, until it is started again.
fn disk_number(path: &Path) -> io::Result<u64> {
    // Spreads numbers that differ in their lowest bits over all of them (the golden ratio).
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let boot = fs::read_to_string(BOOT_ID)?;
    let digits: String = boot.chars().filter(char::is_ascii_hexdigit).collect();
    let boot = u128::from_str_radix(&digits, 16).map_err(io::Error::other)?;
    let device = fs::metadata(path)?.dev();
    Ok((boot >> 64) as u64 ^ boot as u64 ^ device.wrapping_mul(SPREAD))
}

/// Forces the entries of a directory.
pub(super) fn force_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn objects() -> (TempDir, Objects) {
        let dir = TempDir::new().unwrap();
        prepare(dir.path()).unwrap();
        let objects = Objects::new(dir.path().to_owned(), 2);
        (dir, objects)
    }

    fn done(objects: &mut Objects, request: DataRequest) -> DataReply {
        match objects.execute(request, false) {
            Outcome::Done(reply) => reply,
            Outcome::Force(work) => work
                .force(&objects.root)
                .map_or_else(DataReply::Failed, |()| DataReply::Done),
        }
    }

    fn write(objects: &mut Objects, ino: u64, offset: u64, data: &[u8]) {
        let request = DataRequest::Write {
            ino: Ino(ino),
            offset,
            data: data.to_vec(),
        };
        assert_eq!(done(objects, request), DataReply::Done);
    }

    fn read(objects: &mut Objects, ino: u64, offset: u64, length: u32) -> Vec<u8> {
        match done(
            objects,
            DataRequest::Read {
                ino: Ino(ino),
                offset,
                length,
            },
        ) {
            DataReply::Data(data) => data,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_sparse_object_reads_zeros_and_ends_where_it_ends() {
        let (dir, mut objects) = objects();
        const FAR: u64 = 5 << 30;
        assert_eq!(read(&mut objects, 7, 0, 100), b"");
        write(&mut objects, 7, FAR, b"end");
        assert_eq!(read(&mut objects, 7, FAR - 2, 100), b"\0\0end");
        assert_eq!(read(&mut objects, 7, FAR + 3, 100), b"");
        let DataReply::Usage { blocks } = done(&mut objects, DataRequest::Usage { ino: Ino(7) })
        else {
            panic!("no usage");
        };
        assert!(blocks < 1_000, "{blocks} blocks: the hole takes space");
        assert!(dir.path().join("07/0000000000000007").exists());
    }

    #[test]
    fn what_is_to_be_forced_is_answered_by_whoever_forces_it() {
        let (_dir, mut objects) = objects();
        let (ino, offset, length) = (Ino(7), 0, 1);
        let data = b"data".to_vec();
        let mut is_forced = |request: DataRequest, forced| {
            let outcome = objects.execute(request, forced);
            matches!(outcome, Outcome::Force(Work::Object(object)) if object.ino == ino)
        };
        for forced in [true, false] {
            let data = data.clone();
            assert_eq!(
                is_forced(DataRequest::Write { ino, offset, data }, forced),
                forced
            );
            assert_eq!(
                is_forced(DataRequest::Truncate { ino, length }, forced),
                forced
            );
        }
        let absent = DataRequest::Truncate {
            ino: Ino(8),
            length,
        };
        assert!(!is_forced(absent, true));
    }

    #[test]
    fn truncating_cuts_and_never_extends() {
        let (_dir, mut objects) = objects();
        write(&mut objects, 7, 0, b"0123456789");
        let truncate = |length| DataRequest::Truncate {
            ino: Ino(7),
            length,
        };
        assert_eq!(done(&mut objects, truncate(20)), DataReply::Done);
        assert_eq!(read(&mut objects, 7, 0, 100), b"0123456789");
        assert_eq!(done(&mut objects, truncate(4)), DataReply::Done);
        assert_eq!(read(&mut objects, 7, 0, 100), b"0123");
        write(&mut objects, 7, 6, b"x");
        assert_eq!(read(&mut objects, 7, 0, 100), b"0123\0\0x");
        let absent = DataRequest::Truncate {
            ino: Ino(8),
            length: 5,
        };
        assert_eq!(done(&mut objects, absent), DataReply::Done);
        assert!(!path(&objects.root, Ino(8)).exists());
    }

    #[test]
    fn a_removed_object_is_gone_and_may_be_removed_again() {
        let (_dir, mut objects) = objects();
        write(&mut objects, 7, 0, b"data");
        for _ in 0..2 {
            assert_eq!(
                done(&mut objects, DataRequest::Remove { ino: Ino(7) }),
                DataReply::Done
            );
            assert_eq!(read(&mut objects, 7, 0, 10), b"");
        }
        assert!(!path(&objects.root, Ino(7)).exists());
    }

    #[test]
    fn objects_outlive_their_being_open() {
        let (_dir, mut objects) = objects();
        for ino in 1..=5 {
            write(&mut objects, ino, 0, &[ino as u8; 3]);
            assert_eq!(
                done(&mut objects, DataRequest::Sync { ino: Ino(ino) }),
                DataReply::Done
            );
        }
        // Only two stay open; another server process would find all as well.
        let mut reopened = Objects::new(objects.root.clone(), 2);
        for ino in 1..=5 {
            assert_eq!(read(&mut objects, ino, 0, 9), [ino as u8; 3]);
            assert_eq!(read(&mut reopened, ino, 0, 9), [ino as u8; 3]);
        }
    }

    #[test]
    fn a_sync_forces_the_entry_once() {
        let (_dir, mut objects) = objects();
        write(&mut objects, 1, 0, b"x");
        let object = objects.object(Ino(1)).unwrap().unwrap();
        assert!(!object.is_entry_forced());
        assert_eq!(
            done(&mut objects, DataRequest::Sync { ino: Ino(1) }),
            DataReply::Done
        );
        assert!(object.is_entry_forced());
        assert_eq!(
            done(&mut objects, DataRequest::Sync { ino: Ino(2) }),
            DataReply::Done
        );
    }

    #[test]
    fn what_is_out_of_bounds_is_refused() {
        let (_dir, mut objects) = objects();
        let requests = [
            (
                DataRequest::Read {
                    ino: Ino(1),
                    offset: u64::MAX,
                    length: 1,
                },
                FsError::FileTooBig,
            ),
            (
                DataRequest::Read {
                    ino: Ino(1),
                    offset: 0,
                    length: MAX_IO_BYTES as u32 + 1,
                },
                FsError::Invalid,
            ),
            (
                DataRequest::Write {
                    ino: Ino(1),
                    offset: MAX_FILE_BYTES,
                    data: vec![0],
                },
                FsError::FileTooBig,
            ),
            (
                DataRequest::Write {
                    ino: Ino(1),
                    offset: 0,
                    data: vec![0; MAX_IO_BYTES + 1],
                },
                FsError::Invalid,
            ),
        ];
        for (request, error) in requests {
            assert_eq!(done(&mut objects, request), DataReply::Failed(error));
        }
        assert!(!path(&objects.root, Ino(1)).exists());
    }

    #[test]
    fn errors_of_the_system_are_translated() {
        let at = Path::new("somewhere");
        let full = io::Error::from_raw_os_error(28);
        let quota = io::Error::from_raw_os_error(122);
        let too_big = io::Error::from_raw_os_error(27);
        let broken = io::Error::from_raw_os_error(5);
        assert_eq!(failure("write", at, &full), FsError::NoSpace);
        assert_eq!(failure("write", at, &quota), FsError::NoSpace);
        assert_eq!(failure("write", at, &too_big), FsError::FileTooBig);
        assert_eq!(failure("write", at, &broken), FsError::Io);
    }

    #[test]
    fn space_is_that_of_the_file_system_below() {
        let (dir, mut objects) = objects();
        assert_ne!(
            disk_number(dir.path()).unwrap(),
            disk_number(Path::new("/proc")).unwrap()
        );
        let DataReply::Space {
            total,
            free,
            available,
            disk,
            ..
        } = done(&mut objects, DataRequest::Space)
        else {
            panic!("no space");
        };
        assert!(total >= free && free >= available && total > 0);
        assert_eq!(disk, disk_number(dir.path()).unwrap());
    }

    #[test]
    fn a_listing_comes_in_pages_and_misses_none() {
        let (dir, mut objects) = objects();
        let inos = [0x101, 0x001, 0x2ff, 0x100, 0x0ff, u64::MAX];
        for ino in inos {
            write(&mut objects, ino, 0, b"xyz");
        }
        for page in [1, 2, 5, 100] {
            let (mut seen, mut after) = (Vec::new(), 0);
            loop {
                let AdminReply::Objects { objects, more } = list(dir.path(), after, page) else {
                    panic!("no listing");
                };
                assert!(objects.len() <= page as usize);
                assert!(objects.iter().all(|&(_, bytes)| bytes == 3));
                seen.extend(objects.iter().map(|&(number, _)| number));
                if !more {
                    break;
                }
                after = *seen.last().unwrap();
            }
            assert_eq!(seen, [0x100, 0x001, 0x101, 0x0ff, 0x2ff, u64::MAX]);
        }
    }
}
