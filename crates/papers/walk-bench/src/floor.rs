//! Lower bounds of a walk's time, the same by io_uring, and the walker of ripgrep.

use crate::ring::Ring;
use anyhow::{Context, Result};
use ignore::{WalkBuilder, WalkState};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, StatxFlags, openat, statx};
use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);
/// Directories with more levels above them than the first threads share.
const SHARED: usize = 1_000;

/// Ways to ask for sizes.
enum Asker {
    Calls,
    Ring(Box<Ring>),
}

impl Asker {
    fn new(ring_workers: Option<u32>) -> Result<Asker> {
        Ok(match ring_workers {
            Some(workers) => Asker::Ring(Box::new(Ring::new(workers)?)),
            None => Asker::Calls,
        })
    }
}

/// Entries and bytes; by io_uring if that is to have so many threads of the kernel for each of
/// ours. Directories are dealt out to threads from the top until there are many, and each thread
/// walks what is below its own by itself: nothing is shared after that.
pub(crate) fn floor(root: &Path, threads: usize, ring_workers: Option<u32>) -> Result<String> {
    let mut asker = Asker::new(ring_workers)?;
    let mut dirs =
        vec![openat(CWD, root, FLAGS, Mode::empty()).with_context(|| root.display().to_string())?];
    let (mut entries, mut bytes) = (1, 0);
    // Breadth first, as far as needed to have something for everybody.
    while !dirs.is_empty() && dirs.len() < SHARED {
        let mut next = Vec::new();
        let mut names = Vec::new();
        for dir in dirs.drain(..) {
            names.clear();
            let (more, size) = list(&dir, &mut names, &mut asker)?;
            entries += more;
            bytes += size;
            for name in &names {
                next.push(openat(&dir, &**name, FLAGS, Mode::empty())?);
            }
        }
        if next.len() <= 1 && next.is_empty() {
            break;
        }
        dirs = next;
        if dirs.len() >= threads * 8 {
            break;
        }
    }
    let (total_entries, total_bytes) = (AtomicU64::new(entries), AtomicU64::new(bytes));
    let dirs: Vec<Mutex<Option<OwnedFd>>> =
        dirs.into_iter().map(|it| Mutex::new(Some(it))).collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| -> Result<()> {
                    let (mut entries, mut bytes) = (0, 0);
                    let mut asker = Asker::new(ring_workers)?;
                    while let Some(dir) = dirs.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let taken = dir.lock().map(|mut it| it.take());
                        if let Ok(Some(dir)) = taken {
                            below(dir, &mut entries, &mut bytes, &mut asker)?;
                        }
                    }
                    total_entries.fetch_add(entries, Ordering::Relaxed);
                    total_bytes.fetch_add(bytes, Ordering::Relaxed);
                    Ok(())
                })
            })
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| match thread.join() {
                Ok(done) => done,
                Err(panic) => std::panic::resume_unwind(panic),
            })
    })?;
    Ok(format!(
        "{} entries, {} bytes",
        total_entries.into_inner(),
        total_bytes.into_inner()
    ))
}

fn below(dir: OwnedFd, entries: &mut u64, bytes: &mut u64, asker: &mut Asker) -> Result<()> {
    let mut open = vec![(dir, Vec::new(), false)];
    while let Some((dir, names, listed)) = open.last_mut() {
        if !*listed {
            *listed = true;
            let (more, size) = list(dir, names, asker)?;
            *entries += more;
            *bytes += size;
        }
        match names.pop() {
            Some(name) => {
                let child = openat(&*dir, &*name, FLAGS, Mode::empty())?;
                // The rest of it is not needed open: that matters in a chain.
                if names.is_empty() {
                    open.pop();
                }
                open.push((child, Vec::new(), false));
            }
            None => {
                open.pop();
            }
        }
    }
    Ok(())
}

/// Looks at each entry; names of directories are appended.
fn list(dir: &OwnedFd, names: &mut Vec<CString>, asker: &mut Asker) -> Result<(u64, u64)> {
    let mut buffer = [MaybeUninit::uninit(); 64 << 10];
    let (mut entries, mut bytes) = (0, 0);
    let mut listing = RawDir::new(dir, &mut buffer);
    while let Some(entry) = listing.next() {
        let entry = entry?;
        let name: &CStr = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        entries += 1;
        match asker {
            Asker::Calls => {
                let stat = statx(dir, name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::SIZE)?;
                bytes += stat.stx_size;
            }
            Asker::Ring(ring) => bytes += ring.ask(dir, name)?,
        }
        if entry.file_type() == FileType::Directory {
            names.push(name.to_owned());
        }
    }
    if let Asker::Ring(ring) = asker {
        bytes += ring.await_all()?;
    }
    Ok((entries, bytes))
}

/// Entries and bytes.
pub(crate) fn ignore(root: &Path, threads: usize) -> Result<String> {
    let (entries, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
    let walk = WalkBuilder::new(root)
        .standard_filters(false)
        .threads(threads)
        .build_parallel();
    walk.run(|| {
        Box::new(|entry| {
            if let Ok(stat) = entry.and_then(|entry| entry.metadata()) {
                entries.fetch_add(1, Ordering::Relaxed);
                bytes.fetch_add(stat.len(), Ordering::Relaxed);
            }
            WalkState::Continue
        })
    });
    Ok(format!(
        "{} entries, {} bytes",
        entries.into_inner(),
        bytes.into_inner()
    ))
}
