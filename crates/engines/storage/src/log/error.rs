//! Errors of a log.

use std::path::PathBuf;

/// One variant for each reaction of the caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// The system refused something. Earlier appends stand; this one is not in the log.
    #[error("{}: {reason}", path.display())]
    Io {
        /// The log's directory or the file of it.
        path: PathBuf,
        /// The system's or the engine's own words.
        reason: String,
    },
    /// The file's contents are not those that were written to it.
    #[error("corrupt log: {}: {what}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where in the file, and what is wrong there.
        what: String,
    },
    /// It is no log, or one of another version.
    #[error("{} has format '{found}', this program reads '{expected}'", path.display())]
    WrongFormat {
        /// The log's directory.
        path: PathBuf,
        /// The format written there.
        found: String,
        /// The format that this program writes.
        expected: String,
    },
    /// Another process, or this one, has the log open.
    #[error("the log in {} is in use", path.display())]
    InUse {
        /// The log's directory or the file of it.
        path: PathBuf,
    },
    /// The device has no room. Earlier appends stand; this one is not in the log.
    #[error("no space left for the log in {}", path.display())]
    Full {
        /// The log's directory or the file of it.
        path: PathBuf,
    },
    /// An append of more than [`MAX_LOG_APPEND_BYTES`](pandofs_types::limits::MAX_LOG_APPEND_BYTES).
    /// Nothing of it is in the log.
    #[error("an append of {bytes} bytes, where {limit} are allowed")]
    TooLarge {
        /// Bytes of all its entries.
        bytes: usize,
        /// Bytes.
        limit: usize,
    },
    /// Syncing the log failed earlier. All that was synced before is safe. The system may have
    /// dropped the rest while it answers later calls with success, so the log takes nothing more
    /// until it is opened again.
    #[error("the log in {} failed and has to be opened again: {reason}", path.display())]
    Failed {
        /// The log's directory or the file of it.
        path: PathBuf,
        /// The system's error when it failed.
        reason: String,
    },
    /// The visitor of [`Log::read`](crate::log::Log::read) could not make sense of an entry.
    #[error("stream {stream}, entry {index}: {what}")]
    BadEntry {
        /// The entry's stream.
        stream: u64,
        /// The entry's index in its stream.
        index: u64,
        /// The visitor's words.
        what: String,
    },
}
