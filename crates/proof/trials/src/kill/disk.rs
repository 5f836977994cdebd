//! Measurement of the longest stall of the disk.

use anyhow::{Context, Result};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A synced write that takes longer is one that writes of others hold up.
const STALL: Duration = Duration::from_millis(500);
/// Between two synced writes.
const PAUSE: Duration = Duration::from_millis(50);
const PAGE: [u8; 4_096] = [0x5a; 4_096];

/// Syncs a page to the disk again and again, in the file system that the servers write to. A server
/// that starts syncs its log; on a disk that is busy with the work of others (a file system writes what
/// they have written before it, too) that says nothing about the server.
pub(super) struct DiskWatch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Duration>>,
}

impl DiskWatch {
    /// Begins to watch, with a file without a name in `dir`.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn start(dir: &Path) -> Result<DiskWatch> {
        let mut file = tempfile::tempfile_in(dir)
            .with_context(|| format!("cannot make a file in {}", dir.display()))?;
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("disk".to_owned())
            .spawn(move || watch(&mut file, &seen))?;
        Ok(DiskWatch { stop, thread })
    }

    /// The time so far in which synced writes were held up.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn stop(self) -> Result<Duration> {
        self.stop.store(true, Ordering::SeqCst);
        match self.thread.join() {
            Ok(held_up) => held_up,
            Err(_) => anyhow::bail!("a thread panicked"),
        }
    }
}

fn watch(file: &mut File, stop: &AtomicBool) -> Result<Duration> {
    let mut held_up = Duration::ZERO;
    while !stop.load(Ordering::SeqCst) {
        let begun = Instant::now();
        file.write_all(&PAGE)
            .and_then(|()| file.sync_data())
            .context("cannot sync a page")?;
        let took = begun.elapsed();
        if took >= STALL {
            held_up += took;
        }
        std::thread::park_timeout(PAUSE);
    }
    Ok(held_up)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_no_more_than_what_it_watched() {
        let dir = tempfile::tempdir().unwrap();
        let begun = Instant::now();
        let watch = DiskWatch::start(dir.path()).unwrap();
        let held_up = watch.stop().unwrap();
        assert!(held_up == Duration::ZERO || held_up >= STALL);
        assert!(held_up <= begun.elapsed());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
