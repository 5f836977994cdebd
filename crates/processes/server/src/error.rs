//! Errors of a server.

use crate::limits::MIN_SERVER_OPEN_FILES;
use pandofs_lane::{LaneError, RecoverError};
use pandofs_log::LogError;
use pandofs_placement::MapError;
use pandofs_shard::ShardError;
use pandofs_store::StoreError;
use pandofs_types::{FsId, ServerId, ShardId};
use std::io;
use std::path::PathBuf;

/// Why a running server stopped by itself. It does not go on after any of these, since what it holds
/// is in doubt then; the process is to end with a non-zero exit code. Started again, it goes by what
/// its log and store hold.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error(transparent)]
    Lane(#[from] LaneError),
    #[error("waiting for the network failed: {0}")]
    Poll(io::Error),
    #[error("the helper thread '{name}' panicked; its message is above")]
    HelperPanicked { name: &'static str },
    #[error("the helper thread '{name}' has ended")]
    HelperEnded { name: &'static str },
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
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} is not empty; a new server is only made in an empty directory", path.display())]
    NotEmpty { path: PathBuf },
    #[error(
        "{} holds no server: there is no server.json in it (make one with 'pandofs format')",
        path.display()
    )]
    NotAServer { path: PathBuf },
    #[error("{} cannot be read: {why}", path.display())]
    BadMarker { path: PathBuf, why: String },
    #[error(
        "{} has format {found}, and this program reads format {expected}: use the release of \
         pandofs that made it",
        path.display()
    )]
    WrongFormat {
        path: PathBuf,
        found: u32,
        expected: u32,
    },
    #[error("{} belongs to the file system {found}, the cluster map is of {expected}", path.display())]
    WrongFileSystem {
        path: PathBuf,
        found: FsId,
        expected: FsId,
    },
    #[error("{} belongs to server {found}, not to server {expected}", path.display())]
    WrongServer {
        path: PathBuf,
        found: ServerId,
        expected: ServerId,
    },
    #[error(
        "{} is missing or empty, and without it what the server has acknowledged is lost: put it \
         back, of the same moment as the rest of the directory",
        path.display()
    )]
    Incomplete { path: PathBuf },
    #[error("another process serves {}", path.display())]
    InUse { path: PathBuf },
    #[error("the cluster map has no server {0}")]
    UnknownServer(ServerId),
    #[error("the cluster map gives server {0} no address")]
    NoAddress(ServerId),
    #[error("bad cluster map: {0}")]
    Map(#[from] MapError),
    #[error("{0}")]
    Listen(io::Error),
    #[error(
        "a server needs {MIN_SERVER_OPEN_FILES} open files at least, and may have {0}: raise the limit (ulimit -Hn)"
    )]
    FewFiles(usize),
    #[error("cannot start: {0}")]
    System(io::Error),
    #[error("the store cannot be used: {0}")]
    Store(#[from] StoreError),
    #[error("the log cannot be used: {0}")]
    Log(#[from] LogError),
    #[error("shard {shard}: {source}")]
    Shard { shard: ShardId, source: ShardError },
    #[error(transparent)]
    Recover(#[from] RecoverError),
}

impl StartError {
    pub(crate) fn io(path: impl Into<PathBuf>, source: io::Error) -> StartError {
        StartError::Io {
            path: path.into(),
            source,
        }
    }
}
