//! The log port and its promises.

use crate::log::LogError;

/// A record to append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The record's stream: the shard's number.
    pub stream: u64,
    /// The stream's last index plus one. A stream that was never written begins at any index.
    pub index: u64,
    /// May be empty.
    pub payload: &'a [u8],
}

/// Called with each entry's index and payload; an error ends the reading.
pub type Visit<'a> = dyn FnMut(u64, &[u8]) -> Result<(), LogError> + 'a;

/// An append-only log of many streams.
///
/// *In the log* means: read by [`Log::read`], and still there after the process was killed. Only
/// what was [synced](Log::sync) is sure to be there after a loss of power; of what was not, a prefix
/// of the appends is there, each of them whole.
pub trait Log: Send + Sync {
    /// Appends all entries, of all streams, as one: after a crash all of them are in the log or
    /// none. They need not be sorted by stream. They are in the log when this returns, and not yet
    /// synced.
    ///
    /// # Errors
    /// None of the entries is in the log, and none of the streams has moved. Only after
    /// [`LogError::Failed`] a part of the appends since the last sync may be there when the log is
    /// opened again.
    ///
    /// # Panics
    /// When an entry does not continue its stream: that is the caller's bug, and the log is as it
    /// was.
    fn append(&self, entries: &[Entry<'_>]) -> Result<(), LogError>;

    /// Syncs the log: everything that was appended or pruned before the call, also in an earlier
    /// life of the log, is on disk when it returns. May be called from any thread; does not hold up
    /// appends.
    ///
    /// # Errors
    /// [`LogError::Failed`]; from then on every append and every sync answers that.
    fn sync(&self) -> Result<(), LogError>;

    /// Visits the entries of `stream` in order, from `from` or the first one there is, up to the
    /// last one at the time of the call. Holds no lock while it visits, and no more than
    /// [`LOG_READ_CHUNK_BYTES`](pandofs_types::limits::LOG_READ_CHUNK_BYTES) or one append in
    /// memory, whichever is larger.
    ///
    /// # Errors
    /// The visitor's, or those of reading.
    fn read(&self, stream: u64, from: u64, visit: &mut Visit<'_>) -> Result<(), LogError>;

    /// The first and the last entry of `stream`; `None` when it holds no entry.
    fn span(&self, stream: u64) -> Option<(u64, u64)>;

    /// The index that the next entry of `stream` must have; `None` when it may have any, because
    /// nothing was ever appended to the stream or pruned from it. Known also when all entries were
    /// pruned.
    fn next_index(&self, stream: u64) -> Option<u64>;

    /// Lets go of the entries of `stream` up to and including `upto`. They are neither read nor
    /// counted in the span any more, but a crash before the next sync may bring them back.
    ///
    /// When `upto` is beyond the last entry, the stream continues at `upto + 1`. That is how a
    /// stream finds that its store is ahead of a log that lost unsynced records.
    ///
    /// # Errors
    /// Nothing was let go of.
    fn prune(&self, stream: u64, upto: u64) -> Result<(), LogError>;

    /// Gives the space of pruned entries back, as far as the log's files allow: entries that are
    /// left keep at most a bounded part of their neighbours'. Slow; may be called from any thread, and
    /// holds up reading but not appending. Syncs the log when it has to.
    fn reclaim(&self) -> Result<(), LogError>;

    /// Bytes that the log takes up. Falls with [`Log::reclaim`] at the latest. Cheap enough to ask
    /// after every batch.
    fn bytes(&self) -> u64;
}
