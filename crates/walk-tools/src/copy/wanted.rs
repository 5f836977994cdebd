//! What copying is asked for, and what came of it.

use crate::find::glob::Glob;
use pandofs_walk_fs::{Entry, Stat};
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
    /// What is there already is left alone, but for directories.
    pub no_clobber: bool,
    /// What is there already is left alone unless it is older.
    pub newer: bool,
    /// Files are the same if they have the same size.
    pub size_only: bool,
    /// Files and links make room for directories.
    pub replaces: bool,
    /// Names, or paths, that are left out.
    pub excluded: Vec<(bool, Glob)>,
    /// The same that are not, though they are among those.
    pub included: Vec<(bool, Glob)>,
}

impl Wanted {
    /// Whether it matters what is there already.
    pub fn looks(&self) -> bool {
        self.update || self.dry_run || self.no_clobber || self.newer
    }

    /// Whether what is there already is left as it is.
    pub fn leaves(&self, new: &Stat, old: &Stat) -> bool {
        self.no_clobber || self.newer && old.modified() >= new.modified()
    }

    /// Whether an entry is left out.
    pub fn leaves_out<D>(&self, entry: &mut Entry<'_, D>) -> bool {
        !self.excluded.is_empty()
            && is_excluded(&self.excluded, entry)
            && !is_excluded(&self.included, entry)
    }
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

/// Whether an entry is among these.
pub fn is_excluded<D>(excluded: &[(bool, Glob)], entry: &mut Entry<'_, D>) -> bool {
    excluded.iter().any(|(of_path, glob)| {
        if *of_path {
            glob.matches(entry.path())
        } else {
            glob.matches(entry.name().to_bytes())
        }
    })
}
