//! Options of a walk.

use crate::limits::OPEN_DIRECTORIES;
use crate::meter::Meter;
use crate::saved::Saved;
use pandofs_walk::limits::{SPILL_ABOVE_ITEMS, SPILL_CHUNK_ITEMS};
use pandofs_walk::{Algorithm, Split};
use rustix::fs::StatxFlags;
use std::path::PathBuf;
use std::sync::Arc;

/// Symbolic links that are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    /// A link is an entry like any other.
    Never,
    /// Those that are named as roots.
    Roots,
    /// All. One that leads back to a directory above it is a [`crate::ProblemKind::Loop`].
    Always,
}

/// Options of a walk. The default is one rank whose threads share its queue, one for each
/// processor.
#[derive(Clone, Debug)]
pub struct Options {
    /// How ranks share items; over processes all have the same.
    pub algorithm: Algorithm,
    /// Ranks in this process. With a hybrid algorithm each has `workers` threads, otherwise one.
    pub ranks: u32,
    /// Threads of each rank, 1 or more.
    pub workers: u32,
    /// For the choice of victims; only measurements depend on it.
    pub seed: u64,
    /// Which links lead on.
    pub follow: Follow,
    /// Directories on another file system than their parent are shown and not entered.
    pub one_file_system: bool,
    /// Fields that [`crate::Entry::stat`] asks for. Fewer can be much faster on network file
    /// systems.
    pub fields: StatxFlags,
    /// Items of one rank in memory, above which some are written to a file.
    pub spill_above: usize,
    /// Items that are written to the file at once.
    pub spill_chunk: usize,
    /// Directory of that file, which has no name.
    pub spill_directory: PathBuf,
    /// Directories that are kept open for those below them.
    pub open_directories: usize,
    /// Whether visitors have to hear that directories are done. Over several processes that takes
    /// messages.
    pub leaves: bool,
    /// Each entry takes a visitor long, so that it is worth while to share after every one, and by
    /// few.
    pub slow_entries: bool,
    /// Destination of items once the walk is to be interrupted. With them goes
    /// what states of directories have gathered.
    pub saved: Option<Arc<Saved>>,
    /// Counter of the walk's progress, which is asked whether to stop.
    pub meter: Arc<Meter>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            algorithm: Algorithm::Hybrid(Split::Equal),
            ranks: 1,
            workers: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
            seed: 0,
            follow: Follow::Never,
            one_file_system: false,
            fields: StatxFlags::BASIC_STATS,
            spill_above: SPILL_ABOVE_ITEMS,
            spill_chunk: SPILL_CHUNK_ITEMS,
            spill_directory: std::env::temp_dir(),
            open_directories: open_directories(),
            leaves: true,
            slow_entries: false,
            saved: None,
            meter: Arc::new(Meter::default()),
        }
    }
}

/// Half of what the process may have open, the rest is for other uses.
fn open_directories() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let may = limit.current.unwrap_or(u64::MAX) / 2;
    OPEN_DIRECTORIES.min(may as usize).max(1)
}
