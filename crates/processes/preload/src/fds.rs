//! Descriptors: which numbers stand for files of the file system, and which are this library's own.
//!
//! Each number is one of the kernel's, so that no two things have it, and `dup`, `select` and limits work as ever. A table
//! has the file that it stands for. The kernel's flag of a descriptor, to be closed by `exec`, is the one that counts.

use crate::complain;
use crate::open_file::OpenFile;
use crate::shared;
use crate::sys;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Numbers that may stand for something; what is opened beyond is refused.
pub(crate) const MAX_FD: usize = 1 << 16;
/// Descriptors of this library begin at the limit less this, so that programs get the numbers that they expect.
const OWN_FDS: u64 = 128;
/// They begin no higher, as the kernel has a table up to the highest.
const MAX_OWN_BASE: u64 = 3_968;
const WORD_BITS: usize = 64;

/// A set of descriptors that is looked into without a lock.
struct Set([AtomicU64; MAX_FD / WORD_BITS]);

impl Set {
    const fn new() -> Set {
        Set([const { AtomicU64::new(0) }; MAX_FD / WORD_BITS])
    }

    fn has(&self, fd: i32) -> bool {
        self.word(fd)
            .is_some_and(|(word, bit)| word.load(Ordering::Acquire) & bit != 0)
    }

    fn set(&self, fd: i32, is_in: bool) {
        match self.word(fd) {
            Some((word, bit)) if is_in => word.fetch_or(bit, Ordering::AcqRel),
            Some((word, bit)) => word.fetch_and(!bit, Ordering::AcqRel),
            None => 0,
        };
    }

    fn word(&self, fd: i32) -> Option<(&AtomicU64, u64)> {
        let fd = usize::try_from(fd).ok()?;
        Some((self.0.get(fd / WORD_BITS)?, 1 << (fd % WORD_BITS)))
    }

    fn all(&self) -> Vec<i32> {
        let words = self.0.iter().enumerate();
        words
            .filter(|(_, word)| word.load(Ordering::Acquire) != 0)
            .flat_map(|(index, _)| (index * WORD_BITS..(index + 1) * WORD_BITS).map(|fd| fd as i32))
            .filter(|fd| self.has(*fd))
            .collect()
    }
}

/// Those that stand for files of the file system.
static OURS: Set = Set::new();
/// This library's own: sockets and the like.
static OWN: Set = Set::new();
static HAS_OWN: AtomicBool = AtomicBool::new(false);
/// Descriptors in the table.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// The table.
#[derive(Debug, Default)]
pub(crate) struct Table {
    files: BTreeMap<i32, Arc<OpenFile>>,
    stand_in: Option<i32>,
}

static TABLE: Mutex<Table> = Mutex::new(Table {
    files: BTreeMap::new(),
    stand_in: None,
});

/// Returns whether no descriptor stands for a file of the file system.
pub(crate) fn are_none() -> bool {
    COUNT.load(Ordering::Acquire) == 0
}

/// The table, locked.
pub(crate) fn table() -> MutexGuard<'static, Table> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether the descriptor stands for a file of the file system.
pub(crate) fn is_ours(fd: i32) -> bool {
    OURS.has(fd)
}

/// Returns whether the descriptor is this library's own.
pub(crate) fn is_own(fd: i32) -> bool {
    HAS_OWN.load(Ordering::Relaxed) && OWN.has(fd)
}

/// This library's own descriptors.
pub(crate) fn own() -> Vec<i32> {
    OWN.all()
}

/// The file that the descriptor stands for.
pub(crate) fn get(fd: i32) -> Result<Arc<OpenFile>, i32> {
    table().files.get(&fd).cloned().ok_or(libc::EBADF)
}

/// A descriptor is this library's own from now on: the number that it has then, where no program looks for one.
pub(crate) fn make_own(fd: i32) -> i32 {
    let base = own_base();
    let mut fd = fd;
    if i64::from(fd) < base as i64 {
        let command = libc::F_DUPFD_CLOEXEC as usize;
        let moved = sys::call3(libc::SYS_fcntl, fd as usize, command, base as usize);
        if moved >= 0 {
            sys::close(fd);
            fd = moved as i32;
        }
    }
    OWN.set(fd, true);
    HAS_OWN.store(true, Ordering::Relaxed);
    fd
}

/// The least number that one of this library's own is to have.
pub(crate) fn own_base() -> u64 {
    let mut limit = [0_u64; 2];
    let args = [
        0,
        libc::RLIMIT_NOFILE as usize,
        0,
        limit.as_mut_ptr() as usize,
        0,
        0,
    ];
    sys::call(libc::SYS_prlimit64, args);
    limit[0].saturating_sub(OWN_FDS).clamp(10, MAX_OWN_BASE)
}

/// A descriptor of this library's own is closed.
pub(crate) fn forget_own(fd: i32) {
    OWN.set(fd, false);
}

impl Table {
    /// A new descriptor of the file, the lowest that is free and at least `least`.
    ///
    /// # Errors
    /// Error numbers.
    pub(crate) fn open(
        &mut self,
        file: Arc<OpenFile>,
        close_on_exec: bool,
        least: i32,
    ) -> Result<i32, i32> {
        let stand_in = match self.stand_in {
            Some(fd) => fd,
            None => *self.stand_in.insert(make_own(shared::stand_in()?)),
        };
        self.duplicate(stand_in, file, close_on_exec, least)
    }

    /// As [`Table::open`], as a duplicate of one that stands for the file already.
    ///
    /// # Errors
    /// Error numbers.
    pub(crate) fn duplicate(
        &mut self,
        of: i32,
        file: Arc<OpenFile>,
        close_on_exec: bool,
        least: i32,
    ) -> Result<i32, i32> {
        let command = match close_on_exec {
            true => libc::F_DUPFD_CLOEXEC,
            false => libc::F_DUPFD,
        };
        let fd = sys::call3(
            libc::SYS_fcntl,
            of as usize,
            command as usize,
            least as usize,
        );
        if fd < 0 {
            return Err(-fd as i32);
        }
        let fd = fd as i32;
        if fd as usize >= MAX_FD {
            sys::close(fd);
            return Err(libc::EMFILE);
        }
        self.insert(fd, file);
        Ok(fd)
    }

    /// The number, which the kernel has, stands for the file.
    pub(crate) fn insert(&mut self, fd: i32, file: Arc<OpenFile>) -> Option<Arc<OpenFile>> {
        OURS.set(fd, true);
        let before = self.files.insert(fd, file);
        COUNT.store(self.files.len(), Ordering::Release);
        before
    }

    /// The number stands for nothing any more; the kernel still has it.
    pub(crate) fn remove(&mut self, fd: i32) -> Option<Arc<OpenFile>> {
        OURS.set(fd, false);
        let before = self.files.remove(&fd);
        COUNT.store(self.files.len(), Ordering::Release);
        before
    }

    /// All that stands for something, with the numbers.
    pub(crate) fn all(&self) -> Vec<(i32, Arc<OpenFile>)> {
        self.files
            .iter()
            .map(|(fd, file)| (*fd, Arc::clone(file)))
            .collect()
    }

    /// Has other processes be able to share what there is, each file by its own page.
    ///
    /// # Errors
    /// Error numbers.
    pub(crate) fn share(&mut self) -> Result<(), i32> {
        for (fd, file) in self.all() {
            let Some(page) = file.share()? else {
                continue;
            };
            for (other, of) in &self.files {
                if Arc::ptr_eq(of, &file) {
                    let flags = sys::descriptor_flags(*other);
                    let is_closed = flags & libc::FD_CLOEXEC as isize != 0;
                    let flag = if is_closed { libc::O_CLOEXEC } else { 0 };
                    sys::call3(
                        libc::SYS_dup3,
                        page as usize,
                        *other as usize,
                        flag as usize,
                    );
                }
            }
            debug_assert!(self.files.contains_key(&fd));
            sys::close(page);
        }
        Ok(())
    }

    /// In a child process: what there is, with nothing of the parent's but what is shared, and this one of its own
    /// descriptors.
    pub(crate) fn forked(&mut self, kept: Option<i32>) {
        let before = std::mem::take(&mut self.files);
        let mut anew: Vec<(*const OpenFile, Arc<OpenFile>)> = Vec::new();
        for (fd, file) in &before {
            let known = anew.iter().find(|(of, _)| *of == Arc::as_ptr(file));
            let new = match known {
                Some((_, new)) => Arc::clone(new),
                None => {
                    let new = Arc::new(file.forked());
                    anew.push((Arc::as_ptr(file), Arc::clone(&new)));
                    new
                }
            };
            self.files.insert(*fd, new);
        }
        // Threads that are not there any more may be in the middle of them.
        std::mem::forget(before);
        for fd in OWN.all() {
            if ![self.stand_in, kept].contains(&Some(fd)) && !complain::is_kept(fd) {
                sys::close(fd);
                OWN.set(fd, false);
            }
        }
    }

    /// A descriptor that was inherited by `exec`.
    pub(crate) fn inherit(&mut self, fd: i32) -> bool {
        let Some(page) = shared::inherited(fd) else {
            return false;
        };
        let known = self
            .files
            .values()
            .find(|file| file.page_id() == Some(page.id));
        let file = match known.cloned() {
            Some(file) => {
                page.unmap();
                file
            }
            None => Arc::new(OpenFile::inherited(page)),
        };
        self.insert(fd, file);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pandofs_types::{FileKind, Ino};

    fn file(ino: u64) -> Arc<OpenFile> {
        Arc::new(OpenFile::new(
            Ino(ino),
            FileKind::File,
            4,
            0,
            b"/f".to_vec(),
            None,
        ))
    }

    #[test]
    fn numbers_stand_for_files_until_they_are_closed_and_keep_their_flags() {
        let mut table = Table::default();
        let one = file(1);
        let fd = table.open(Arc::clone(&one), true, 0).unwrap();
        let other = table.duplicate(fd, Arc::clone(&one), false, 100).unwrap();
        assert!(is_ours(fd) && is_ours(other) && other >= 100);
        assert_eq!(sys::descriptor_flags(fd), 1);
        assert_eq!(sys::descriptor_flags(other), 0);
        // Both lead to one page when it is shared, with the flags that they had.
        table.share().unwrap();
        assert_eq!(sys::descriptor_flags(fd), 1);
        assert_eq!(sys::descriptor_flags(other), 0);
        let (first, second) = (
            shared::inherited(fd).unwrap(),
            shared::inherited(other).unwrap(),
        );
        assert_eq!(first.id, second.id);
        assert_eq!(Some(first.id), one.page_id());
        // A process that begins with them has one file again.
        let mut next = Table::default();
        assert!(next.inherit(fd) && next.inherit(other));
        let inherited = next.all();
        assert!(Arc::ptr_eq(&inherited[0].1, &inherited[1].1));
        // And one that is forked has a file of its own, at the same offset.
        one.with_offset(|offset| {
            *offset = 9;
            Ok(())
        })
        .unwrap();
        table.forked(None);
        let child = table.all();
        assert!(Arc::ptr_eq(&child[0].1, &child[1].1) && !Arc::ptr_eq(&child[0].1, &one));
        assert_eq!(child[0].1.with_offset(|offset| Ok(*offset)), Ok(9));
        for fd in [fd, other] {
            assert!(table.remove(fd).is_some());
            assert!(!is_ours(fd));
            sys::close(fd);
        }
        assert!(table.remove(fd).is_none());
        // The page is one in this process, which a child has for itself.
        std::mem::forget(one);
    }

    #[test]
    fn own_descriptors_are_out_of_the_way() {
        let fd = make_own(shared::stand_in().unwrap());
        assert!(is_own(fd) && fd as u64 >= own_base());
        assert!(own().contains(&fd));
        forget_own(fd);
        sys::close(fd);
        assert!(!is_own(fd));
    }

    #[test]
    fn numbers_that_are_none_stand_for_nothing() {
        for fd in [-1, i32::MIN, i32::MAX, MAX_FD as i32] {
            assert!(!is_ours(fd) && !is_own(fd));
        }
        assert_eq!(get(MAX_FD as i32 - 1).unwrap_err(), libc::EBADF);
    }
}
