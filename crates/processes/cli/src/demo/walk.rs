//! Walks a tree with several threads; each directory is one piece of work.

use anyhow::{Context, Result};
use std::collections::VecDeque;
use std::fs::DirEntry;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Threads of a walk.
const THREADS: usize = 4;

#[derive(Default)]
struct Queue {
    waiting: VecDeque<PathBuf>,
    /// Directories being read.
    busy: usize,
    failure: Option<anyhow::Error>,
}

/// Calls `visit` with each directory of the tree at `root`, by its path relative to it, and what is in
/// it. Directories that `visit` lists are walked too (symbolic links are not followed).
///
/// # Errors
/// The first that `visit`, or the reading of a directory, gave.
pub(super) fn walk(
    root: &Path,
    visit: &(dyn Fn(&Path, Vec<DirEntry>) -> Result<()> + Sync),
) -> Result<()> {
    let queue = Mutex::new(Queue {
        waiting: VecDeque::from([PathBuf::new()]),
        ..Queue::default()
    });
    let changed = Condvar::new();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| run(root, visit, &queue, &changed));
        }
    });
    let failure = lock(&queue).failure.take();
    failure.map_or(Ok(()), Err)
}

fn run(
    root: &Path,
    visit: &(dyn Fn(&Path, Vec<DirEntry>) -> Result<()> + Sync),
    queue: &Mutex<Queue>,
    changed: &Condvar,
) {
    let mut state = lock(queue);
    loop {
        if state.failure.is_some() || (state.waiting.is_empty() && state.busy == 0) {
            changed.notify_all();
            return;
        }
        let Some(dir) = state.waiting.pop_front() else {
            state = changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        state.busy += 1;
        drop(state);
        let found = read(root, &dir).and_then(|(entries, subdirs)| {
            visit(&dir, entries)?;
            Ok(subdirs)
        });
        state = lock(queue);
        state.busy -= 1;
        match found {
            Ok(subdirs) => state.waiting.extend(subdirs),
            Err(error) => state.failure = state.failure.take().or(Some(error)),
        }
        changed.notify_all();
    }
}

fn read(root: &Path, dir: &Path) -> Result<(Vec<DirEntry>, Vec<PathBuf>)> {
    let path = root.join(dir);
    let context = || format!("cannot list {}", path.display());
    let mut entries = Vec::new();
    let mut subdirs = Vec::new();
    for entry in path.read_dir().with_context(context)? {
        let entry = entry.with_context(context)?;
        if entry.file_type().with_context(context)?.is_dir() {
            subdirs.push(dir.join(entry.file_name()));
        }
        entries.push(entry);
    }
    Ok((entries, subdirs))
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn each_directory_is_visited_once() {
        let scratch = tempfile::tempdir().unwrap();
        for dir in 0..20 {
            fs::create_dir_all(scratch.path().join(format!("{dir}/a/b"))).unwrap();
            fs::write(scratch.path().join(format!("{dir}/a/file")), "x").unwrap();
        }
        let (dirs, entries) = (AtomicUsize::new(0), AtomicUsize::new(0));
        walk(scratch.path(), &|_, found| {
            dirs.fetch_add(1, Ordering::Relaxed);
            entries.fetch_add(found.len(), Ordering::Relaxed);
            Ok(())
        })
        .unwrap();
        assert_eq!((dirs.into_inner(), entries.into_inner()), (61, 80));
    }

    #[test]
    fn a_failure_ends_the_walk() {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir(scratch.path().join("a")).unwrap();
        let failed = walk(scratch.path(), &|dir, _| {
            anyhow::ensure!(dir != Path::new("a"), "reached a");
            Ok(())
        });
        assert_eq!(failed.unwrap_err().to_string(), "reached a");
        let missing = walk(&scratch.path().join("no"), &|_, _| Ok(())).unwrap_err();
        assert!(missing.to_string().contains("/no"), "{missing}");
    }
}
