//! The port itself.

use crate::store::{Batch, StoreError};
use std::ops::ControlFlow;

/// Result of a read that must not touch the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cached {
    /// The value, or that there is none.
    Known(Option<Vec<u8>>),
    /// Only the disk can tell. [`KvRead::get`] of the key on a helper thread warms it.
    Cold,
}

/// Visitor that a scan calls for each key and value; [`ControlFlow::Break`] ends the scan.
pub type Visit<'v> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'v;

/// Reads: what a [`Store`] and an [`Overlay`](crate::store::Overlay) have in common, so that code that
/// reads is written once.
pub trait KvRead {
    /// The value of `key`; may wait for the disk.
    ///
    /// # Errors
    /// [`StoreError::Io`] and [`StoreError::Corrupt`].
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// The value of `key` if memory alone tells; never touches the disk. A lane warms a cold key
    /// on a helper thread and tries again.
    ///
    /// # Errors
    /// [`StoreError::Io`] and [`StoreError::Corrupt`].
    fn get_cached(&self, key: &[u8]) -> Result<Cached, StoreError>;

    /// Visits the keys in `start..end` (half-open) in ascending order of their bytes until `visit`
    /// breaks off. It visits the state of one moment: no batch is seen by half. `visit` may read
    /// from what is being scanned. A range whose start is not below its end is empty. May wait for
    /// the disk.
    ///
    /// # Errors
    /// [`StoreError::Io`] and [`StoreError::Corrupt`]; what was visited before one is right.
    fn scan(&self, start: &[u8], end: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError>;
}

/// Ordered keys and values that outlive the process.
///
/// The contents after a crash are always the result of a prefix of the writes, each of them whole,
/// and include all that came before the last [`Store::flush`] that returned. That is all the log
/// needs: the index of the last applied record is part of each batch, and the log is replayed from
/// the index that is found.
///
/// After a failed write or flush a store may refuse all that follow until it is opened again.
pub trait Store: KvRead + Send + Sync {
    /// Applies `batch` whole; reads see it at once. It becomes durable by a later
    /// [`Store::flush`], or earlier.
    ///
    /// # Errors
    /// [`StoreError::Io`], [`StoreError::Corrupt`] and [`StoreError::Full`]. After one it is
    /// unknown whether the batch was applied.
    fn write(&self, batch: &Batch) -> Result<(), StoreError>;

    /// Makes everything durable that was written before the call. May be called from another
    /// thread while writes go on, and waits for the disk.
    ///
    /// # Errors
    /// [`StoreError::Io`], [`StoreError::Corrupt`] and [`StoreError::Full`]. After one, nothing is
    /// known to be durable that was not before.
    fn flush(&self) -> Result<(), StoreError>;

    /// Bytes that keys and values take, roughly: on the disk after compression where there is one.
    fn size_bytes(&self) -> u64;

    /// Reads all that is stored, from the disk where there is one, and checks it. Tells `read` every now and
    /// then how many more bytes that were; [`ControlFlow::Break`] ends it. Waits for the disk, and holds
    /// nothing up.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] with the place that is damaged, the first one found; [`StoreError::Io`].
    fn verify(&self, read: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<(), StoreError> {
        self.scan(&[], &LAST_KEY, &mut |key, value| {
            read((key.len() + value.len()) as u64)
        })
    }
}

/// No key is after it: the first byte of a key is its kind.
const LAST_KEY: [u8; 1] = [u8::MAX];
