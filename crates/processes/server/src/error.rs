//! Errors of a server.

use crate::limits::MIN_SERVER_OPEN_FILES;
use pandofs_lane::{LaneError, RecoverError};
use pandofs_placement::MapError;
use pandofs_shard::ShardError;
use pandofs_storage::log::LogError;
use pandofs_storage::store::StoreError;
use pandofs_types::{FsId, ServerId, ShardId, StoreKind};
use std::io;
use std::path::PathBuf;

/// Why a running server stopped by itself. It does not go on after any of these, since what it holds
/// is in doubt then; the process is to end with a non-zero exit code. Started again, it goes by what
/// its log and store hold.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Log, store or a shard.
    #[error(transparent)]
    Lane(#[from] LaneError),
    /// The system call that waits for sockets failed.
    #[error("waiting for the network failed: {0}")]
    Poll(io::Error),
    /// A helper thread is gone, and with it what it had under way.
    #[error("the helper thread '{name}' panicked; its message is above")]
    HelperPanicked {
        /// The thread's name, as the system shows it.
        name: &'static str,
    },
    /// A helper thread is gone without a panic, before it was told to end.
    #[error("the helper thread '{name}' has ended")]
    HelperEnded {
        /// The thread's name, as the system shows it.
        name: &'static str,
    },
    /// The panic's message.
    #[error("the lane's thread panicked: {0}")]
    LanePanicked(String),
}

impl ServerError {
    /// A thread beside the lane is no more.
    pub(crate) fn is_of_a_helper(&self) -> bool {
        matches!(
            self,
            ServerError::HelperPanicked { .. } | ServerError::HelperEnded { .. }
        )
    }
}

/// Why a server cannot be made or started. Nothing that was there before is changed.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A file of the data directory cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Something is in the directory already, perhaps a server.
    #[error("{} is not empty; a new server is only made in an empty directory", path.display())]
    NotEmpty {
        /// The data directory.
        path: PathBuf,
    },
    /// The directory was not made by `pandofs format`.
    #[error(
        "{} holds no server: there is no server.json in it (make one with 'pandofs format')",
        path.display()
    )]
    NotAServer {
        /// The data directory.
        path: PathBuf,
    },
    /// The file that says whose the directory is cannot be understood.
    #[error("{} cannot be read: {why}", path.display())]
    BadMarker {
        /// That file.
        path: PathBuf,
        /// The fault in it, in words.
        why: String,
    },
    /// Made by another release.
    #[error(
        "{} has format {found}, and this program reads format {expected}: use the release of \
         pandofs that made it",
        path.display()
    )]
    WrongFormat {
        /// The data directory or a file in it.
        path: PathBuf,
        /// The format that was found.
        found: u32,
        /// The format that this program reads.
        expected: u32,
    },
    /// The cluster map is of another file system.
    #[error("{} belongs to the file system {found}, the cluster map is of {expected}", path.display())]
    WrongFileSystem {
        /// The data directory.
        path: PathBuf,
        /// The number in the directory.
        found: FsId,
        /// The number in the map.
        expected: FsId,
    },
    /// The directory is another server's.
    #[error("{} belongs to server {found}, not to server {expected}", path.display())]
    WrongServer {
        /// The data directory.
        path: PathBuf,
        /// The number in the directory.
        found: ServerId,
        /// The number that the server was to have.
        expected: ServerId,
    },
    /// A part of the data directory is gone.
    #[error(
        "{} is missing or empty, and without it what the server has acknowledged is lost: put it \
         back, of the same moment as the rest of the directory",
        path.display()
    )]
    Incomplete {
        /// The part.
        path: PathBuf,
    },
    /// The directory is locked.
    #[error("another process serves {}", path.display())]
    InUse {
        /// The data directory.
        path: PathBuf,
    },
    /// The number that was asked for.
    #[error("the cluster map has no server {0}")]
    UnknownServer(ServerId),
    /// Clients and other servers would not find it.
    #[error("the cluster map gives server {0} no address")]
    NoAddress(ServerId),
    /// The map is not valid.
    #[error("bad cluster map: {0}")]
    Map(#[from] MapError),
    /// An address cannot be listened at; the text says which.
    #[error("{0}")]
    Listen(io::Error),
    /// The limit of open files, which the server has raised as far as it may.
    #[error(
        "a server needs {MIN_SERVER_OPEN_FILES} open files at least, and may have {0}: raise the limit (ulimit -Hn)"
    )]
    FewFiles(usize),
    /// The system has no thread, timer or other thing that it needs.
    #[error("cannot start: {0}")]
    System(io::Error),
    /// The store cannot be opened, or is another file system's.
    #[error("the store cannot be used: {0}")]
    Store(#[from] StoreError),
    /// The store is there, of a kind that the map does not say.
    #[error(
        "the store in {} is one of '{found}', and the cluster map says '{expected}': set \"store\" in the map to what was \
         chosen when the file system was made",
        path.display()
    )]
    WrongStore {
        /// The store's directory.
        path: PathBuf,
        /// The kind that is there.
        found: StoreKind,
        /// The kind that the map says.
        expected: StoreKind,
    },
    /// The log cannot be opened.
    #[error("the log cannot be used: {0}")]
    Log(#[from] LogError),
    /// A shard cannot be opened.
    #[error("shard {shard}: {source}")]
    Shard {
        /// Its number.
        shard: ShardId,
        /// Why not.
        source: ShardError,
    },
    /// Log and store cannot be brought together.
    #[error(transparent)]
    Recover(#[from] RecoverError),
}

impl StartError {
    /// Whether it is what the server was given to start with: starting it again does not help until somebody has changed
    /// that.
    pub fn is_of_configuration(&self) -> bool {
        match self {
            StartError::NotAServer { .. }
            | StartError::BadMarker { .. }
            | StartError::WrongFormat { .. }
            | StartError::WrongFileSystem { .. }
            | StartError::WrongServer { .. }
            | StartError::Incomplete { .. }
            | StartError::WrongStore { .. }
            | StartError::UnknownServer(_)
            | StartError::NoAddress(_)
            | StartError::Map(_)
            | StartError::FewFiles(_) => true,
            StartError::Io { .. }
            | StartError::NotEmpty { .. }
            | StartError::InUse { .. }
            | StartError::Listen(_)
            | StartError::System(_)
            | StartError::Store(_)
            | StartError::Log(_)
            | StartError::Shard { .. }
            | StartError::Recover(_) => false,
        }
    }

    pub(crate) fn io(path: impl Into<PathBuf>, source: io::Error) -> StartError {
        StartError::Io {
            path: path.into(),
            source,
        }
    }
}
