//! The store in directories and files of a local file system, after FPFS (Avilés-González et al., section IV): a
//! directory's partition is a directory, an entry of it a file by the entry's name, an inode a file whose extended
//! attributes have what is known of it.
//!
//! Local file systems change one file at a time, and a batch is to be there whole or not at all. So writes gather in
//! memory, where reads see them. A flush writes them to a journal, one file that is synced and then renamed: from that
//! moment on they happen. It then makes them to the files, syncs the file system, and removes the journal. A store that
//! is opened and finds a journal does the same again.
//!
//! A scan sees one moment: what is in memory when it begins, over the files, to which no flush that begins later brings
//! anything before the scan has ended.
//!
//! Invariant: no file is changed but by changes that a synced journal has.

mod apply;
#[cfg(test)]
mod cuts;
mod failure;
mod files;
mod format;
mod journal;
mod limits;
mod listings;
mod memory;
mod names;
mod place;
mod read;
mod scan;
mod seal;
mod verify;

use failure::refused;
use files::Files;
use memory::{Layer, Memory};
use pandofs_storage::store::{Batch, Cached, KvRead, Store, StoreError, Visit};
use pandofs_types::limits::{DEFAULT_BLOCK_CACHE_BYTES, DEFAULT_WRITE_BUFFER_BYTES};
use std::fs::{self, File, TryLockError};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{
    Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
};

/// Bytes of keys and values in files, as a decimal number: what is said of the store's size after a start. It may be lost,
/// and after a crash in the middle of a flush it is less than there are.
const SIZE_FILE: &str = "SIZE";

/// How much memory a store may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of values and of lists of folders kept to be read again, half of it for each.
    pub cache_bytes: usize,
    /// Bytes of writes kept in memory before they go to files without being asked to. While they do, as many may come; whoever
    /// writes more waits.
    pub write_buffer_bytes: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            cache_bytes: DEFAULT_BLOCK_CACHE_BYTES,
            write_buffer_bytes: DEFAULT_WRITE_BUFFER_BYTES,
        }
    }
}

/// A store in a folder of its own.
///
/// Dropping it is like a crash: what was not flushed is lost. To keep it, call [`Store::flush`] first.
///
/// Once a flush has failed, also for want of room, it takes no more writes: the store still reads, and is opened again
/// when the cause is gone.
pub struct DirectoriesStore {
    files: Files,
    memory: Mutex<Memory>,
    /// A scan has ended.
    scanned: Condvar,
    /// Held to read files, and to change one.
    changing: RwLock<()>,
    /// Held for a flush.
    flushing: Mutex<()>,
    write_buffer_bytes: usize,
    /// The changes that are made were made before, by half.
    is_recovering: bool,
}

impl DirectoriesStore {
    /// Opens the store in the folder `path`, or makes one there if the folder is missing or empty. Ends the flush that a
    /// crash has cut short, if there is one.
    ///
    /// # Errors
    /// [`StoreError::WrongFormat`] when the folder holds something else or a store of another version, and
    /// [`StoreError::Io`] when another process has the store open or the file system lacks something: nothing of what the
    /// folder held is changed then. [`StoreError::Corrupt`]; [`StoreError::Full`].
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<DirectoriesStore, StoreError> {
        let path = path.as_ref();
        fs::create_dir_all(path).map_err(|error| refused("make", path, &error))?;
        let root = std::path::absolute(path).map_err(|error| refused("find", path, &error))?;
        let folder = File::open(&root).map_err(|error| refused("open", &root, &error))?;
        match folder.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::Io {
                    what: format!("cannot open the store at {}", root.display()),
                    reason: "another process has it open".to_owned(),
                });
            }
            Err(TryLockError::Error(error)) => return Err(refused("lock", &root, &error)),
        }
        let is_new = format::prepare(&root)?;
        let files = Files::new(root, folder);
        if is_new {
            format::make(&files)?;
        }
        format::check(&files)?;
        let size = fs::read_to_string(files.root().join(SIZE_FILE));
        let disk_bytes = size.ok().and_then(|size| size.trim().parse().ok());
        let mut store = DirectoriesStore {
            files,
            memory: Mutex::new(Memory::new(options.cache_bytes, disk_bytes.unwrap_or(0))),
            scanned: Condvar::new(),
            changing: RwLock::new(()),
            flushing: Mutex::new(()),
            write_buffer_bytes: options.write_buffer_bytes,
            is_recovering: true,
        };
        store.files.remove_plain(journal::UNFINISHED_FILE)?;
        if let Some(changes) = journal::read(&store.files)? {
            store.finish(&changes)?;
        }
        store.is_recovering = false;
        Ok(store)
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        // Nothing in it is by half where something may panic.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the files as they are.
    fn hold(&self) -> RwLockReadGuard<'_, ()> {
        self.changing.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps others from reading a file that changes.
    fn change(&self) -> RwLockWriteGuard<'_, ()> {
        self.changing
            .write()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the changes of the journal that is on the disk, and removes it.
    fn finish(&self, changes: &Layer) -> Result<(), StoreError> {
        self.apply(changes)?;
        let size = format!("{}\n", self.memory().disk_bytes);
        self.files.write_plain(SIZE_FILE, size.as_bytes())?;
        self.files.sync()?;
        self.files.remove_plain(journal::FILE)
    }

    /// Flushes what is frozen as the flush of this number.
    fn flush_layer(&self, changes: &Layer, flush: u64) -> Result<(), StoreError> {
        journal::write(&self.files, changes)?;
        let mut memory = self.memory();
        while memory.is_scanned_before(flush) {
            memory = self
                .scanned
                .wait(memory)
                .unwrap_or_else(PoisonError::into_inner);
        }
        drop(memory);
        self.finish(changes)
    }

    fn failed(&self) -> StoreError {
        StoreError::Io {
            what: format!("cannot write the store at {}", self.files.root().display()),
            reason: "an earlier flush has failed; start the server again when its cause is gone"
                .to_owned(),
        }
    }
}

impl KvRead for DirectoriesStore {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        if let Some(known) = self.memory().known(key) {
            return Ok(known);
        }
        let _held = self.hold();
        // A flush that failed may have left the file by half, and then has its changes in memory.
        if let Some(written) = self.memory().written(key) {
            return Ok(written.map(|value| value.to_vec()));
        }
        let value = self.read(key)?;
        if value.is_none() {
            // Whoever asks for what is not there is about to make it, and more after it.
            if let place::Place::Alone(file) = place::place(key) {
                self.contains(&file)?;
            }
        }
        // While the files are held: a flush would make it old.
        self.memory().values.insert(key, value.clone());
        Ok(value)
    }

    fn get_cached(&self, key: &[u8]) -> Result<Cached, StoreError> {
        Ok(self.memory().known(key).map_or(Cached::Cold, Cached::Known))
    }

    fn scan(&self, start: &[u8], end: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError> {
        if start >= end {
            return Ok(());
        }
        self.scan_range(start, end, visit)
    }
}

impl Store for DirectoriesStore {
    fn write(&self, batch: &Batch) -> Result<(), StoreError> {
        let mut memory = self.memory();
        if memory.has_failed {
            return Err(self.failed());
        }
        let waiting = memory.write(batch);
        drop(memory);
        if waiting > self.write_buffer_bytes {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), StoreError> {
        let _one = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut memory = self.memory();
        if memory.has_failed {
            return Err(self.failed());
        }
        let Some((changes, flush)) = memory.freeze() else {
            return Ok(());
        };
        drop(memory);
        let outcome = self.flush_layer(&changes, flush);
        let mut memory = self.memory();
        match &outcome {
            Ok(()) => memory.thaw(),
            Err(_) => memory.has_failed = true,
        }
        outcome
    }

    /// Keys and values, without what the local file system takes for them, which is more: a block or an inode each.
    fn size_bytes(&self) -> u64 {
        let memory = self.memory();
        memory.disk_bytes + memory.unflushed_bytes() as u64
    }

    /// File by file, each while nothing changes it.
    fn verify(&self, read: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<(), StoreError> {
        self.verify_files(read)
    }
}
