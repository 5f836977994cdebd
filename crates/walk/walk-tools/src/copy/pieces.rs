//! Pieces of a large copy that are on disk, so that another run goes on in the middle of it.
//!
//! It is in a file beside the copy, while that has its temporary name: 80 bytes that say of which
//! file, as it was then, the copy is, and which inode it has; then one byte for each piece, 1 once
//! its data were forced to disk; then the name that the copy is to have. That byte is written after
//! the data were, by the thread that copied the piece: a power failure between the two, and one
//! that only the byte survives not, leave a piece that is copied again. A file that has another
//! time or inode now, or a copy that does, is copied from its beginning.

use crate::copy::temporary;
use crate::limits::{BETWEEN_FORCED_PIECES, PIECE_BYTES, UNFORCED_FILES};
use pandofs_walk_fs::{FileType, Stat};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, fdatasync, fstat, openat, unlinkat};
use rustix::io::{Errno, pread, pwrite};
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// First bytes of such a file.
const MAGIC: u64 = u64::from_le_bytes(*b"pandocp2");
const HEAD_BYTES: usize = 80;
/// The longest name that a file may have.
const NAME_BYTES: usize = 255;
/// Tests do not want to wait. In milliseconds.
const BETWEEN_VARIABLE: &str = "PANDOFS_COPY_FORCED_AFTER_MS";

/// Pieces of copies that this process has made and not forced to disk yet.
#[derive(Debug)]
pub(crate) struct Pieces {
    between: Duration,
    /// By the copies' inodes.
    unforced: Mutex<HashMap<(u64, u64), Unforced>>,
}

#[derive(Debug)]
struct Unforced {
    since: Instant,
    pieces: Vec<u64>,
}

impl Pieces {
    pub(crate) fn new() -> Pieces {
        let given = std::env::var(BETWEEN_VARIABLE).ok();
        let given = given.and_then(|it| it.parse().ok());
        Pieces {
            between: given.map_or(BETWEEN_FORCED_PIECES, Duration::from_millis),
            unforced: Mutex::default(),
        }
    }

    /// A piece of a copy was made. From time to time all that were are forced to disk, and written
    /// down; at once if the walk is being ended, as another process may decide what becomes of the
    /// copy.
    pub(crate) fn made(
        &self,
        dir: BorrowedFd<'_>,
        copy: &CStr,
        to: BorrowedFd<'_>,
        start: u64,
        at_once: bool,
    ) {
        let Ok(stat) = fstat(to) else { return };
        let key = (stat.st_dev, stat.st_ino);
        let mut all = self.unforced.lock().unwrap_or_else(PoisonError::into_inner);
        // Those of copies that another process has finished stay otherwise.
        if all.len() >= UNFORCED_FILES && !all.contains_key(&key) {
            all.clear();
        }
        let mine = all.entry(key).or_insert_with(|| Unforced {
            since: Instant::now(),
            pieces: Vec::new(),
        });
        mine.pieces.push(start / PIECE_BYTES);
        if mine.since.elapsed() < self.between && !at_once {
            return;
        }
        let pieces = all.remove(&key).map(|it| it.pieces).unwrap_or_default();
        drop(all);
        note(dir, copy, to, &pieces);
    }

    /// Ends the work on a copy in this run. All pieces of it are forced to disk and written down;
    /// whether there are any.
    pub(crate) fn keep(&self, dir: BorrowedFd<'_>, copy: &CStr, size: u64) -> bool {
        let to = openat(dir, copy, KNOWN, Mode::empty());
        let Ok((to, stat)) = to.and_then(|to| fstat(&to).map(|stat| (to, stat))) else {
            return false;
        };
        let mut all = self.unforced.lock().unwrap_or_else(PoisonError::into_inner);
        let mine = all.remove(&(stat.st_dev, stat.st_ino));
        drop(all);
        if let Some(mine) = mine {
            note(dir, copy, to.as_fd(), &mine.pieces);
        }
        let written = written(dir, copy, size);
        written.is_some_and(|it| it.pieces().contains(&1))
    }

    /// A copy is finished, or given up.
    pub(crate) fn forget(&self, dir: BorrowedFd<'_>, copy: &CStr, to: Option<BorrowedFd<'_>>) {
        if let Some(Ok(stat)) = to.map(fstat) {
            let key = (stat.st_dev, stat.st_ino);
            let mut all = self.unforced.lock().unwrap_or_else(PoisonError::into_inner);
            all.remove(&key);
        }
        let _ = unlinkat(dir, &*temporary::known(copy), AtFlags::empty());
    }
}

/// Forces a copy to disk, and writes down that these pieces are there. Pieces that cannot be
/// written down are copied again.
fn note(dir: BorrowedFd<'_>, copy: &CStr, to: BorrowedFd<'_>, pieces: &[u64]) {
    if fdatasync(to).is_ok()
        && let Ok(known) = openat(dir, &*temporary::known(copy), KNOWN, Mode::empty())
    {
        for piece in pieces {
            let _ = pwrite(&known, &[1], HEAD_BYTES as u64 + piece);
        }
    }
}

const KNOWN: OFlags = OFlags::WRONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Begins to write down which pieces of a copy, which is to have such a name, are on disk: none.
pub(crate) fn begin(dir: BorrowedFd<'_>, copy: &CStr, name: &CStr, of: &Stat, to: BorrowedFd<'_>) {
    let known = || -> Result<(), Errno> {
        let stat = fstat(to)?;
        let beside = temporary::known(copy);
        let flags = KNOWN.union(OFlags::CREATE).union(OFlags::TRUNC);
        let known = openat(dir, &*beside, flags, Mode::RUSR | Mode::WUSR)?;
        pwrite(&known, &head(of, stat.st_ino), 0)?;
        let end = HEAD_BYTES as u64 + of.size().div_ceil(PIECE_BYTES);
        pwrite(&known, name.to_bytes(), end)?;
        Ok(())
    };
    if known().is_err() {
        // It cannot go on then, which is no failure.
        let _ = unlinkat(dir, &*temporary::known(copy), AtFlags::empty());
    }
}

/// Returns what an earlier run has left of a copy: the copy, and whether each piece is in it.
pub(crate) fn left(dir: BorrowedFd<'_>, copy: &CString, of: &Stat) -> Option<Vec<bool>> {
    let stat = Stat::of(dir, copy).ok()?;
    if stat.kind() != FileType::RegularFile || stat.links() != 1 || stat.size() != of.size() {
        return None;
    }
    let written = written(dir, copy, of.size())?;
    if written.head() != head(of, stat.ino()) {
        return None;
    }
    Some(written.pieces().iter().map(|it| *it == 1).collect())
}

/// The name that a copy which an earlier run has left is to have.
pub(crate) fn name(dir: BorrowedFd<'_>, copy: &CStr) -> Option<CString> {
    let size = Stat::of(dir, copy).ok()?.size();
    CString::new(written(dir, copy, size)?.name()).ok()
}

/// Record of a copy on disk.
struct Written {
    bytes: Vec<u8>,
    pieces: usize,
}

impl Written {
    fn head(&self) -> &[u8] {
        &self.bytes[..HEAD_BYTES]
    }

    fn pieces(&self) -> &[u8] {
        &self.bytes[HEAD_BYTES..HEAD_BYTES + self.pieces]
    }

    fn name(&self) -> &[u8] {
        &self.bytes[HEAD_BYTES + self.pieces..]
    }
}

/// Of a copy of a file of this size.
fn written(dir: BorrowedFd<'_>, copy: &CStr, size: u64) -> Option<Written> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let known = openat(dir, &*temporary::known(copy), flags, Mode::empty()).ok()?;
    let pieces = usize::try_from(size.div_ceil(PIECE_BYTES)).ok()?;
    let most = HEAD_BYTES + pieces + NAME_BYTES;
    // A size may be anything; what was written is as long as it is.
    let bytes = read(&known, most.min(fstat(&known).ok()?.st_size as usize))?;
    (bytes.len() >= HEAD_BYTES + pieces).then_some(Written { bytes, pieces })
}

/// So many bytes from the beginning, or as many as there are.
fn read(file: &OwnedFd, most: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; most];
    let mut length = 0;
    while length < most {
        match pread(file, &mut bytes[length..], length as u64) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    }
    bytes.truncate(length);
    Some(bytes)
}

/// Of which file, as it was, a copy with this inode is.
fn head(of: &Stat, copy: u64) -> [u8; HEAD_BYTES] {
    let (modified, changed) = (of.modified(), of.changed());
    let numbers = [
        MAGIC,
        of.device(),
        of.ino(),
        of.size(),
        modified.seconds as u64,
        modified.nanoseconds.into(),
        changed.seconds as u64,
        changed.nanoseconds.into(),
        copy,
        PIECE_BYTES,
    ];
    let mut bytes = [0; HEAD_BYTES];
    for (eight, number) in bytes.chunks_exact_mut(8).zip(numbers) {
        eight.copy_from_slice(&number.to_le_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    /// A file of three pieces, its copy, and where that is.
    fn files() -> (tempfile::TempDir, File, File) {
        let dir = tempfile::tempdir().unwrap();
        let make = |name| {
            let file = File::create(dir.path().join(name)).unwrap();
            file.set_len(2 * PIECE_BYTES + 1).unwrap();
            file
        };
        let (from, to) = (make("from"), make("to"));
        (dir, from, to)
    }

    #[test]
    fn pieces_that_were_forced_are_known_as_long_as_both_files_are_what_they_were() {
        let (dir, from, to) = files();
        let here = File::open(dir.path()).unwrap();
        let stat = || Stat::of_open(from.as_fd()).unwrap();
        let copy = CString::from(c"to");
        let left = || left(here.as_fd(), &copy, &stat());
        assert_eq!(left(), None, "nothing is known");
        begin(here.as_fd(), &copy, c"name", &stat(), to.as_fd());
        assert_eq!(left(), Some(vec![false; 3]));
        let at_once = Pieces {
            between: Duration::ZERO,
            unforced: Mutex::default(),
        };
        let made = |pieces: &Pieces, piece: u64, is_ending| {
            let start = piece * PIECE_BYTES;
            pieces.made(here.as_fd(), &copy, to.as_fd(), start, is_ending);
        };
        made(&at_once, 2, false);
        assert_eq!(left(), Some(vec![false, false, true]));
        let never = Pieces {
            between: Duration::MAX,
            unforced: Mutex::default(),
        };
        made(&never, 0, false);
        assert_eq!(left(), Some(vec![false, false, true]));
        made(&never, 1, true);
        assert_eq!(left(), Some(vec![true; 3]), "with those made before");
        assert_eq!(name(here.as_fd(), &copy).as_deref(), Some(c"name"));

        let path = dir.path().join(temporary::known(&copy).to_str().unwrap());
        let known = std::fs::read(&path).unwrap();
        for cut in [0, 7, HEAD_BYTES - 1, HEAD_BYTES, HEAD_BYTES + 2] {
            std::fs::write(&path, &known[..cut]).unwrap();
            assert_eq!(left(), None, "{cut}");
            assert_eq!(name(here.as_fd(), &copy), None, "{cut}");
        }
        std::fs::write(&path, &known).unwrap();
        // Another time, and another copy.
        let long_ago = std::time::SystemTime::UNIX_EPOCH;
        from.set_modified(long_ago).unwrap();
        assert_eq!(left(), None);
        begin(here.as_fd(), &copy, c"name", &stat(), to.as_fd());
        let size = stat().size();
        assert!(!never.keep(here.as_fd(), &copy, size), "nothing is there");
        made(&never, 0, false);
        assert_eq!(left(), Some(vec![false; 3]));
        assert!(never.keep(here.as_fd(), &copy, size));
        assert_eq!(left(), Some(vec![true, false, false]));
        to.set_len(1).unwrap();
        assert_eq!(left(), None);
        at_once.forget(here.as_fd(), &copy, Some(to.as_fd()));
        assert!(!path.exists());
    }
}
