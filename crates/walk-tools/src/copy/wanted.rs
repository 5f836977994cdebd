//! What copying is asked for, and what came of it.

use crate::find::glob::Glob;
use pandofs_walk_fs::Entry;
use serde::{Deserialize, Serialize};

/// What is wanted.
#[derive(Debug, Default)]
pub struct Wanted {
    /// The command, for what is said.
    pub tool: &'static str,
    /// Files that have the same size and time of modification already are left alone.
    pub update: bool,
    /// The same by what is in them.
    pub compare: bool,
    pub dry_run: bool,
    /// What is in the way is removed before; in a dry run it is still there.
    pub clears: bool,
    pub verbose: bool,
    /// Files and links make room for directories.
    pub replaces: bool,
    /// Names, or paths, that are left out.
    pub excluded: Vec<(bool, Glob)>,
}

/// What was done. Bytes are those of data that was copied, without holes.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Counts {
    pub directories: u64,
    pub files: u64,
    pub hard_links: u64,
    pub links: u64,
    pub others: u64,
    pub bytes: u64,
    pub unchanged: u64,
    pub failed: u64,
}

impl Counts {
    pub fn add(&mut self, other: &Counts) {
        self.directories += other.directories;
        self.files += other.files;
        self.hard_links += other.hard_links;
        self.links += other.links;
        self.others += other.others;
        self.bytes += other.bytes;
        self.unchanged += other.unchanged;
        self.failed += other.failed;
    }
}

/// Whether an entry is left out.
pub fn is_excluded<D>(excluded: &[(bool, Glob)], entry: &mut Entry<'_, D>) -> bool {
    excluded.iter().any(|(of_path, glob)| {
        if *of_path {
            glob.matches(entry.path())
        } else {
            glob.matches(entry.name().to_bytes())
        }
    })
}
