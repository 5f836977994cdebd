//! Options and results of copying.

use crate::find::glob::Glob;
use crate::text::joined;
use pandofs_walk_fs::{Entry, Stat};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Options of copying.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// The command, for what is said.
    pub tool: &'static str,
    /// Files that have the same size and time of modification already are left alone.
    pub update: bool,
    /// The same by what is in them.
    pub compare: bool,
    pub dry_run: bool,
    /// Entries in the way are removed before; in a dry run they are still there.
    pub clears: bool,
    pub verbose: bool,
    /// Existing entries are left alone, but for directories.
    pub no_clobber: bool,
    /// Existing entries are left alone unless they are older.
    pub newer: bool,
    /// Files are the same if they have the same size.
    pub size_only: bool,
    /// Output is JSON.
    pub json: bool,
    /// Files and links make room for directories.
    pub replaces: bool,
    /// Names, or paths, that are left out.
    pub excluded: Vec<(bool, Glob)>,
    /// The same that are not, though they are among those.
    pub included: Vec<(bool, Glob)>,
}

impl Wanted {
    /// Returns whether it matters what is there already.
    pub(crate) fn looks(&self) -> bool {
        self.update || self.dry_run || self.no_clobber || self.newer
    }

    /// Returns whether what is there already may be taken for the copy by its name, or its name and
    /// size: no part of a file may have its name then, as a run that is killed would leave it for
    /// ever.
    pub(crate) fn takes_names(&self) -> bool {
        self.no_clobber || self.newer || self.size_only
    }

    /// Returns whether what is there already is left as it is.
    pub(crate) fn leaves(&self, new: &Stat, old: &Stat) -> bool {
        self.no_clobber || self.newer && old.modified() >= new.modified()
    }

    /// Returns whether an entry is left out.
    pub(crate) fn leaves_out<D>(&self, entry: &mut Entry<'_, D>) -> bool {
        !self.excluded.is_empty()
            && is_excluded(&self.excluded, entry)
            && !is_excluded(&self.included, entry)
    }
}

/// Counts of work done. Bytes are those of data that was copied, without holes.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Counts {
    pub directories: u64,
    pub files: u64,
    pub hard_links: u64,
    pub links: u64,
    pub others: u64,
    pub bytes: u64,
    pub unchanged: u64,
    /// Of what was there already nothing else was changed.
    pub attributes: u64,
    pub failed: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: &Counts) {
        self.directories += other.directories;
        self.files += other.files;
        self.hard_links += other.hard_links;
        self.links += other.links;
        self.others += other.others;
        self.bytes += other.bytes;
        self.unchanged += other.unchanged;
        self.attributes += other.attributes;
        self.failed += other.failed;
    }
}

/// Returns whether an entry is among these.
pub(crate) fn is_excluded<D>(excluded: &[(bool, Glob)], entry: &mut Entry<'_, D>) -> bool {
    excluded.iter().any(|(of_path, glob)| {
        if *of_path {
            glob.matches(entry.path())
        } else {
            glob.matches(entry.name().to_bytes())
        }
    })
}

/// The same where what is walked has one name, and patterns are of paths below another: one pattern
/// is of the same entries in both trees.
pub(crate) fn is_excluded_as<D>(
    excluded: &[(bool, Glob)],
    (walked, named): (&OsStr, &OsStr),
    entry: &mut Entry<'_, D>,
) -> bool {
    let mut path = None;
    excluded.iter().any(|(of_path, glob)| {
        if *of_path {
            let path = path.get_or_insert_with(|| moved(entry.path(), walked, named));
            glob.matches(path)
        } else {
            glob.matches(entry.name().to_bytes())
        }
    })
}

/// The path of what corresponds to an entry.
fn moved(path: &[u8], walked: &OsStr, named: &OsStr) -> Vec<u8> {
    let below = path.strip_prefix(walked.as_bytes()).unwrap_or(path);
    joined(named.as_bytes(), below.strip_prefix(b"/").unwrap_or(below))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_that_of_the_other_tree() {
        for (path, walked, named, other) in [
            ("b/c/d", "b", "a", "a/c/d"),
            ("b/c/d", "b/", "a/", "a/c/d"),
            ("/c", "/", "/a/b", "/a/b/c"),
            ("/a/b/c", "/a/b", "/", "/c"),
            ("b/b", "b", "a", "a/b"),
        ] {
            let moved = moved(path.as_bytes(), walked.as_ref(), named.as_ref());
            assert_eq!(moved, other.as_bytes(), "{path}");
        }
    }

    #[test]
    fn names_are_taken_where_nobody_looks_at_times() {
        let takes = |set: fn(&mut Wanted)| {
            let mut wanted = Wanted::default();
            set(&mut wanted);
            wanted.takes_names()
        };
        assert!(takes(|it| it.no_clobber = true));
        assert!(takes(|it| it.newer = true));
        assert!(takes(|it| it.size_only = true));
        assert!(!takes(|it| (it.update, it.compare) = (true, true)));
    }
}
