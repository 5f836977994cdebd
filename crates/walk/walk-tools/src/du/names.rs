//! Files that count once though they are met several times.

use pandofs_walk_fs::{FileType, Stat};
use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Files with several names of which one was met.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// In parts, so that threads rarely wait for one another.
    parts: [Mutex<HashSet<(u64, u64)>>; 16],
    /// By earlier runs, of which another process tells.
    before: HashSet<(u64, u64)>,
}

impl Names {
    /// Those were met by earlier runs, of which this process tells or another one.
    pub(crate) fn met_before(before: Vec<(u64, u64)>, tells: bool) -> Names {
        let mut names = Names::default();
        if tells {
            names.add(before);
        } else {
            names.before.extend(before);
        }
        names
    }

    /// Returns whether it is the first name of its file.
    pub(crate) fn is_first(&self, stat: &Stat) -> bool {
        if !has_several(stat) {
            return true;
        }
        let identity = stat.identity();
        if self.before.contains(&identity) {
            return false;
        }
        let part = &self.parts[(stat.ino() % 16) as usize];
        let mut seen = part.lock().unwrap_or_else(PoisonError::into_inner);
        seen.insert(identity)
    }

    /// Those that were met of which this process tells, for a checkpoint.
    pub(crate) fn all(&self) -> Vec<(u64, u64)> {
        let parts = self.parts.iter();
        let all = parts.map(|part| part.lock().unwrap_or_else(PoisonError::into_inner).clone());
        all.flatten().collect()
    }

    /// Those were met before.
    pub(crate) fn add(&self, met: impl IntoIterator<Item = (u64, u64)>) {
        for identity in met {
            let part = &self.parts[(identity.1 % 16) as usize];
            let mut seen = part.lock().unwrap_or_else(PoisonError::into_inner);
            seen.insert(identity);
        }
    }
}

/// Returns whether it is a file with several names.
pub(crate) fn has_several(stat: &Stat) -> bool {
    stat.links() > 1 && stat.kind() != FileType::Directory
}

/// Without roots that are in others, which would count twice: the first of those is left that are
/// the same.
pub(crate) fn apart(roots: &[OsString]) -> Vec<OsString> {
    let real: Vec<Option<PathBuf>> = roots
        .iter()
        .map(|root| {
            // A link that is a root is not followed.
            let path = Path::new(root);
            if path.is_symlink() {
                return None;
            }
            path.canonicalize().ok()
        })
        .collect();
    let is_in_another = |at: usize| {
        let Some(path) = &real[at] else { return false };
        real.iter().enumerate().any(|(other, above)| {
            other != at
                && above
                    .as_ref()
                    .is_some_and(|above| path.starts_with(above) && (path != above || other < at))
        })
    };
    let kept = (0..roots.len()).filter(|at| !is_in_another(*at));
    kept.map(|at| roots[at].clone()).collect()
}
