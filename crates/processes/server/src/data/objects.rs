//! Requests about data objects, carried out on one thread.

use super::direct;
use super::extents::without_space;
use super::generation::{Generations, boot_id};
use super::health::{Health, is_of_the_disk};
use super::open::{OpenObject, OpenObjects};
use super::rewriting::Rewrites;
use super::settling::Unsettled;
use super::space::{with_sums, without_sums};
use super::sums::{BLOCK, Checked, Note, SumsError};
use crate::disk::{Disk, Need, Room};
use crate::limits::MAX_OPEN_OBJECTS;
use pandofs_api::DataReply;
use pandofs_types::limits::{MAX_FILE_BYTES, MAX_IO_BYTES};
use pandofs_types::{FsError, Ino};
use rustix::io::Errno;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How the name of a file of checksums ends.
pub(super) const SUMS_SUFFIX: &str = ".sums";

/// State that all threads share of the objects below a directory.
#[derive(Debug)]
pub(crate) struct Holdings {
    pub root: PathBuf,
    pub generations: Generations,
    pub health: Health,
    pub rewrites: Rewrites,
    pub disk: Disk,
    /// Objects that are kept open.
    pub most_open: usize,
}

impl Holdings {
    /// Makes the directories for data objects below `root`; those that are there stay.
    ///
    /// # Errors
    /// The system's; what is wrong with the record of generations.
    pub(crate) fn prepare(root: &Path) -> io::Result<Holdings> {
        let mut is_new = true;
        for last_byte in 0..=u8::MAX {
            match DirBuilder::new()
                .mode(0o700)
                .create(directory(root, last_byte))
            {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::AlreadyExists => is_new = false,
                Err(error) => return Err(error),
            }
        }
        Ok(Holdings {
            root: root.to_owned(),
            generations: Generations::open(root, is_new)?,
            health: Health::default(),
            rewrites: Rewrites::default(),
            disk: Disk::new(root, "data")?,
            most_open: MAX_OPEN_OBJECTS,
        })
    }
}

/// The directory of all objects whose inode number ends with this byte.
pub(crate) fn directory(root: &Path, last_byte: u8) -> PathBuf {
    root.join(format!("{last_byte:02x}"))
}

/// The last byte of the number.
pub(super) fn last_byte(ino: Ino) -> u8 {
    ino.0 as u8
}

pub(crate) fn path(root: &Path, ino: Ino) -> PathBuf {
    directory(root, last_byte(ino)).join(format!("{:016x}", ino.0))
}

/// Where an object's checksums are.
pub(crate) fn sums_path(root: &Path, ino: Ino) -> PathBuf {
    directory(root, last_byte(ino)).join(format!("{:016x}{SUMS_SUFFIX}", ino.0))
}

/// One thread's data objects.
#[derive(Debug)]
pub(crate) struct Objects {
    pub(super) holdings: Arc<Holdings>,
    open: OpenObjects,
    pub(super) unsettled: Unsettled,
}

impl Objects {
    /// Of which `max_open` are kept open. They are to be settled when they have not been changed for
    /// `settle_after`.
    pub(super) fn new(holdings: Arc<Holdings>, max_open: usize, settle_after: Duration) -> Objects {
        Objects {
            holdings,
            open: OpenObjects::new(max_open),
            unsettled: Unsettled::new(settle_after),
        }
    }

    pub(super) fn read(&mut self, ino: Ino, offset: u64, length: u32) -> Result<Vec<u8>, FsError> {
        check_range(offset, length as usize)?;
        let Some(object) = self.open_object(ino)? else {
            return Ok(Vec::new());
        };
        let read = object.checked.read(offset, length as usize);
        read.map_err(|error| self.refusal("read", ino, error))
    }

    pub(super) fn write(
        &mut self,
        ino: Ino,
        offset: u64,
        data: &[u8],
    ) -> Result<Arc<OpenObject>, FsError> {
        check_range(offset, data.len())?;
        let object = match self.open_object(ino)? {
            Some(object) => object,
            None => self.create(ino)?,
        };
        let written = object.checked.write(offset, data);
        self.count_change(&object);
        written.map_err(|error| self.refusal("write", ino, error))?;
        let whole = offset.div_ceil(BLOCK)..(offset + data.len() as u64) / BLOCK;
        self.holdings.health.gone(ino, whole);
        Ok(object)
    }

    /// Whether there is room for a write, above what is kept back of the disk. Its space may have been
    /// reserved before, or have been written.
    pub(super) fn check_room_of(
        &mut self,
        ino: Ino,
        offset: u64,
        length: usize,
        promised: bool,
    ) -> Result<(), FsError> {
        check_range(offset, length)?;
        let range = offset..offset + length as u64;
        let mut need = Need {
            bytes: with_sums(range.end - range.start),
            files: self.open.peek(ino).is_none(),
            promised,
        };
        let root = &self.holdings.root;
        let failed = |error| failure("statvfs", root, &error);
        if self.holdings.disk.has_room(need).map_err(failed)? {
            return Ok(());
        }
        let Some(object) = self.open_object(ino)? else {
            return Err(FsError::NoSpace);
        };
        need.files = false;
        let missing = without_space(object.checked.data(), &range);
        let missing = missing.map_err(|error| self.failure("ask for the space of", ino, &error))?;
        need.bytes = missing.iter().map(|gap| gap.end - gap.start).sum();
        if need.bytes == 0 {
            return Ok(());
        }
        need.bytes = with_sums(need.bytes);
        let failed = |error| failure("statvfs", &self.holdings.root, &error);
        if self.holdings.disk.has_room(need).map_err(failed)? {
            Ok(())
        } else {
            Err(FsError::NoSpace)
        }
    }

    /// One that is not there is made, to say that it has followed. (A writes and its request is held up; B truncates the file;
    /// were nothing there then, A's would be carried out.)
    pub(super) fn truncate(&mut self, ino: Ino, length: u64) -> Result<Arc<OpenObject>, FsError> {
        let object = match self.open_object(ino)? {
            Some(object) => object,
            None => self.create(ino)?,
        };
        let cut = object.checked.truncate(length);
        self.count_change(&object);
        cut.map_err(|error| self.failure("truncate", ino, &error))?;
        let gone = length.div_ceil(BLOCK)..u64::MAX;
        self.holdings.health.gone(ino, gone);
        Ok(object)
    }

    pub(super) fn usage(&mut self, ino: Ino) -> Result<DataReply, FsError> {
        let Some(object) = self.open_object(ino)? else {
            return Ok(DataReply::Usage { blocks: 0 });
        };
        match object.checked.data().metadata() {
            Ok(metadata) => Ok(DataReply::Usage {
                blocks: metadata.blocks(),
            }),
            Err(error) => Err(self.failure("stat", ino, &error)),
        }
    }

    /// Without the inodes, which only the lane knows.
    pub(super) fn space(&self) -> Result<DataReply, FsError> {
        let space = || {
            let room = Room::of(&self.holdings.root)?;
            io::Result::Ok(DataReply::Space {
                total: room.total,
                free: room.free,
                available: without_sums(room.spare()),
                inodes: 0,
                disk: disk_number(&self.holdings.root)?,
            })
        };
        space().map_err(|error| failure("statvfs", &self.holdings.root, &error))
    }

    pub(super) fn remove(&mut self, ino: Ino) -> Result<(), FsError> {
        self.open.remove(ino);
        self.holdings.health.gone(ino, 0..u64::MAX);
        self.holdings.health.is_well(ino);
        self.holdings.rewrites.done(ino);
        // The checksums last: an object without them would look damaged. Also when there is none any
        // more: an earlier request may have removed it and crashed before that was synced.
        let root = &self.holdings.root;
        for path in [path(root, ino), sums_path(root, ino)] {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(failure("remove", &path, &error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The object, if there is one.
    pub(super) fn open_object(&mut self, ino: Ino) -> Result<Option<Arc<OpenObject>>, FsError> {
        if let Some(object) = self.open.get(ino) {
            return Ok(Some(object));
        }
        match self.with_files(|this| this.open_files(ino)) {
            Ok(object) => {
                if !object.checked.is_settled() {
                    self.unsettled.changed(ino, Instant::now());
                }
                Ok(Some(self.open.add(object)))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failure("open", ino, &error)),
        }
    }

    fn open_files(&self, ino: Ino) -> io::Result<OpenObject> {
        let (root, generations) = (&self.holdings.root, &self.holdings.generations);
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o600);
        let data = options.open(path(root, ino))?;
        let sums = options
            .create(true)
            .truncate(false)
            .open(sums_path(root, ino))?;
        let is_lost = |generation| generations.is_lost(generation);
        let current = generations.current();
        let checked = Checked::open(data, sums, current, is_lost, self.notes(ino))?;
        Ok(OpenObject::new(ino, checked))
    }

    /// Opens files, and once more after it has closed those that are only kept open: it may have been
    /// refused as too many.
    fn with_files<T>(&mut self, open: impl Fn(&Objects) -> io::Result<T>) -> io::Result<T> {
        match open(self) {
            Err(error) if is_out_of_files(&error) && self.open.close_all() => open(self),
            done => done,
        }
    }

    pub(super) fn create(&mut self, ino: Ino) -> Result<Arc<OpenObject>, FsError> {
        match self.with_files(|this| this.create_files(ino)) {
            Ok(object) => Ok(self.open.add(object)),
            Err(error) => Err(self.failure("create", ino, &error)),
        }
    }

    fn create_files(&self, ino: Ino) -> io::Result<OpenObject> {
        let root = &self.holdings.root;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).mode(0o600);
        // The checksums first: an object without them would look damaged. Those of an object that was
        // removed may be there.
        let sums = options.truncate(true).open(sums_path(root, ino))?;
        options.truncate(false);
        let data = || options.open(path(root, ino));
        let current = self.holdings.generations.current();
        let checked = Checked::create(data, sums, current, self.notes(ino))?;
        Ok(OpenObject::new(ino, checked))
    }

    pub(super) fn count_change(&mut self, object: &OpenObject) {
        object.count_change();
        self.unsettled.changed(object.ino, Instant::now());
    }

    /// An object that was not changed for long, if it has to be synced before it is settled.
    pub(super) fn object_to_settle(&mut self, ino: Ino) -> Option<Arc<OpenObject>> {
        // It does not push out one that is in use: it is opened for this alone.
        let object = match self.open.peek(ino) {
            Some(object) => object,
            None => match self.open_files(ino) {
                Ok(object) => Arc::new(object),
                Err(error) => {
                    if error.kind() != ErrorKind::NotFound {
                        self.failure("open", ino, &error);
                    }
                    return None;
                }
            },
        };
        if object.checked.is_settled() || object.checked.is_doubtful() {
            return None;
        }
        if object.is_synced() {
            self.settle(&object);
            return None;
        }
        // The error has been logged.
        if self.write_whole_again(&object).is_err() {
            self.unsettled.changed(ino, Instant::now());
            return None;
        }
        Some(object)
    }

    /// Settles an object, unless it has been changed since it was synced, or opened once more.
    pub(super) fn settle(&mut self, object: &Arc<OpenObject>) {
        let is_other = self
            .open
            .peek(object.ino)
            .is_some_and(|open| !Arc::ptr_eq(&open, object));
        if is_other || !object.is_synced() {
            return;
        }
        if let Err(error) = object.checked.settle() {
            self.failure("write the checksums of", object.ino, &error);
        }
    }

    /// Looks at blocks as the disk has them, and makes known what is damaged.
    pub(super) fn judge(&mut self, ino: Ino, first: u64, count: u64) -> Result<(), FsError> {
        let Some(object) = self.open_object(ino)? else {
            return Ok(());
        };
        let length = (count * BLOCK) as usize;
        let path = path(&self.holdings.root, ino);
        let mut bytes = direct::read_range(&path, first * BLOCK, length)
            .map_err(|error| self.failure("read", ino, &error))?;
        let filled = bytes.len();
        bytes.resize(length, 0);
        let blocks = match object.checked.judge(first, &bytes, filled) {
            Ok(()) => Vec::new(),
            Err(SumsError::Damaged(blocks)) => blocks,
            Err(SumsError::Io(error)) => {
                return Err(self.failure("read the checksums of", ino, &error));
            }
        };
        // A block that fits now, for whichever reason, is not damaged any more.
        let mut right = first;
        for &block in &blocks {
            self.holdings.health.gone(ino, right..block);
            right = block + 1;
        }
        self.holdings.health.gone(ino, right..first + count);
        self.report(ino, &blocks);
        Ok(())
    }

    /// Every block of an object has been looked at: whatever doubt there was ends.
    pub(super) fn looked_at(&mut self, ino: Ino) -> Result<(), FsError> {
        // It does not push out one that is in use.
        let object = match self.open.peek(ino) {
            Some(object) => object,
            None => match self.open_files(ino) {
                Ok(object) => Arc::new(object),
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(self.failure("open", ino, &error)),
            },
        };
        if object.checked.is_doubtful() {
            object
                .checked
                .end_doubt()
                .map_err(|error| self.failure("write the checksums of", ino, &error))?;
        }
        if !object.checked.is_settled() {
            // When all have been looked at, no generation is taken for lost any more. A header that the next loss of
            // power brings back from before that has its blocks held to checksums that were never synced. So each is
            // synced, also by a server that finds it written by one that was killed; syncfs(2) would do it for
            // all at once, and does nothing on a file system by FUSE.
            if self.holdings.generations.any_lost() {
                object
                    .sync_header()
                    .map_err(|error| self.failure("sync the checksums of", ino, &error))?;
            }
            self.unsettled.changed(ino, Instant::now());
        }
        Ok(())
    }

    /// Removes checksums that have no object.
    pub(super) fn remove_alone(&mut self, ino: Ino) {
        let root = &self.holdings.root;
        if matches!(fs::exists(path(root, ino)), Ok(false)) {
            let path = sums_path(root, ino);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    failure("remove", &path, &error);
                }
                _ => {}
            }
        }
    }

    /// Function that logs notes on an object.
    fn notes(&self, ino: Ino) -> Box<dyn Fn(Note) + Send + Sync> {
        let holdings = Arc::clone(&self.holdings);
        Box::new(move |note| {
            let path = path(&holdings.root, ino);
            let path = path.display();
            match note {
                Note::TakenAsTheyAre { first, count } => {
                    holdings.health.take(count as u64);
                    tracing::warn!(
                        "{count} blocks of {path} (inode {ino}) from byte {} on do not fit their \
                         checksums; they may not have been synced before the machine was started \
                         anew, and are taken as they are",
                        first * BLOCK
                    );
                }
                Note::CutShort => {
                    tracing::info!("a change of {path} (inode {ino}) that was cut short is ended");
                }
                Note::NoSums => {
                    tracing::error!("{path} (inode {ino}) has no checksums: its data is damage");
                }
                Note::BrokenHeader => tracing::error!(
                    "the header of {} (inode {ino}) is damaged",
                    sums_path(&holdings.root, ino).display()
                ),
            }
        })
    }

    /// Error for the client; damage is made known.
    pub(super) fn refusal(&self, doing: &str, ino: Ino, error: SumsError) -> FsError {
        let blocks = match error {
            SumsError::Io(error) => return self.failure(doing, ino, &error),
            SumsError::Damaged(blocks) => blocks,
        };
        self.holdings.health.refuse();
        self.report(ino, &blocks);
        FsError::Io
    }

    /// Makes damage known, each block once.
    pub(super) fn report(&self, ino: Ino, blocks: &[u64]) {
        for &block in blocks {
            if self.holdings.health.found(ino, block) {
                tracing::error!(
                    "damage: block {block} (bytes {} to {}) of {} (inode {ino}) does not fit its \
                     checksum",
                    block * BLOCK,
                    block * BLOCK + BLOCK - 1,
                    path(&self.holdings.root, ino).display()
                );
            }
        }
    }

    pub(super) fn failure(&self, doing: &str, ino: Ino, error: &io::Error) -> FsError {
        let path = path(&self.holdings.root, ino);
        if is_of_the_disk(error) {
            let what = format!("cannot {doing} {}: {error}", path.display());
            self.holdings.health.fails(ino, what);
        }
        failure(doing, &path, error)
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

/// Whether this process, or the system, has too many files open.
fn is_out_of_files(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    code == Some(Errno::MFILE.raw_os_error()) || code == Some(Errno::NFILE.raw_os_error())
}

/// Error for the client from one of the system; what it does not explain goes to the log.
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

/// A number for the file system that `path` is on, which no other one has, on this machine or another: a
/// device's number is of one machine only, until it is started again.
pub(super) fn disk_number(path: &Path) -> io::Result<u64> {
    // Spreads numbers that differ in their lowest bits over all of them (the golden ratio).
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let boot = boot_id()?;
    let digits: String = boot.chars().filter(char::is_ascii_hexdigit).collect();
    let boot = u128::from_str_radix(&digits, 16).map_err(io::Error::other)?;
    let device = fs::metadata(path)?.dev();
    Ok((boot >> 64) as u64 ^ boot as u64 ^ device.wrapping_mul(SPREAD))
}

/// Syncs the entries of a directory.
pub(super) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}
