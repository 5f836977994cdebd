//! A page of memory that processes share which have an open file in common: where it is, its flags, and what it is.
//!
//! The descriptor that stands for the file is one of this memory, open to write alone, and at an offset where that fails:
//! what does not know of this library is told so, whatever it tries.

use crate::guard;
use crate::sys;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Says that a memory file is one of these, and of this version.
const MAGIC: u64 = 0x7061_6e64_6f01;
/// Bytes of a page's file.
const BYTES: usize = 8_192;
/// Bytes of a path at most; a longer one is not passed on.
const MAX_PATH: usize = 4_096;
/// Looks at a page that somebody else has, before it is asked whether that process lives.
const LOOKS: u32 = 64;
const PAUSE: Duration = Duration::from_micros(50);

/// The page.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Page {
    magic: u64,
    /// Tells pages apart.
    pub id: u64,
    pub ino: u64,
    /// Of `open`: access as the client library has it.
    pub access: u32,
    pub kind: u32,
    offset: AtomicU64,
    /// Those of `fcntl`.
    pub flags: AtomicU32,
    /// The process that moves the offset.
    holder: AtomicU32,
    path_bytes: u32,
    path: [u8; MAX_PATH],
}

const _: () = assert!(size_of::<Page>() <= BYTES);

/// The open file of a new page.
#[derive(Clone, Debug)]
pub(crate) struct What {
    pub ino: u64,
    pub access: u32,
    pub kind: u32,
    pub offset: u64,
    pub flags: u32,
    pub path: Vec<u8>,
}

/// Makes a page, and a descriptor of it that is closed by `exec`.
///
/// # Errors
/// Error numbers.
pub(crate) fn make(what: &What) -> Result<(&'static Page, i32), i32> {
    let fd = memory_file(BYTES)?;
    let made = (|| {
        let address = map(fd)?;
        let path = &what.path[..what.path.len().min(MAX_PATH)];
        let mut room = [0; MAX_PATH];
        room[..path.len()].copy_from_slice(path);
        crate::memory::put_page(
            address,
            Page {
                magic: MAGIC,
                id: id(),
                ino: what.ino,
                access: what.access,
                kind: what.kind,
                offset: AtomicU64::new(what.offset),
                flags: AtomicU32::new(what.flags),
                holder: AtomicU32::new(0),
                path_bytes: path.len() as u32,
                path: room,
            },
        );
        Ok((page(address), to_write_alone(fd)?))
    })();
    sys::close(fd);
    made
}

/// A descriptor that stands for files that no other process has.
///
/// # Errors
/// Error numbers.
pub(crate) fn stand_in() -> Result<i32, i32> {
    let fd = memory_file(1)?;
    let made = to_write_alone(fd);
    sys::close(fd);
    made
}

/// The page behind a descriptor that was inherited.
pub(crate) fn inherited(fd: i32) -> Option<&'static Page> {
    let path = sys::proc_path(fd);
    let flags = (libc::O_RDWR | libc::O_CLOEXEC) as usize;
    let own = sys::call3(libc::SYS_open, path.as_ptr() as usize, flags, 0);
    let own = i32::try_from(own).ok().filter(|fd| *fd >= 0)?;
    let size = sys::call3(libc::SYS_lseek, own as usize, 0, libc::SEEK_END as usize);
    let address = (size == BYTES as isize).then(|| map(own).ok()).flatten();
    sys::close(own);
    let page = page(address?);
    (page.magic == MAGIC).then_some(page)
}

/// A number that no other page has, so far as chance goes: the process's and the time's.
fn id() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let nanos = now.map_or(0, |now| now.as_nanos() as u64);
    let count = LAST.fetch_add(1, Ordering::Relaxed);
    nanos ^ u64::from(std::process::id()) << 40 ^ count << 56
}

fn memory_file(bytes: usize) -> Result<i32, i32> {
    let flags = (libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) as usize;
    let fd = sys::call3(
        libc::SYS_memfd_create,
        c"pandofs".as_ptr() as usize,
        flags,
        0,
    );
    let fd = answer(fd)? as i32;
    let seals = (libc::F_SEAL_GROW | libc::F_SEAL_SHRINK) as usize;
    let sized = answer(sys::call3(libc::SYS_ftruncate, fd as usize, bytes, 0));
    let seal = |_| {
        let command = libc::F_ADD_SEALS as usize;
        answer(sys::call3(libc::SYS_fcntl, fd as usize, command, seals))
    };
    or_close(fd, sized.and_then(seal))
}

/// The descriptor, which is closed if what was done with it failed.
fn or_close(fd: i32, done: Result<isize, i32>) -> Result<i32, i32> {
    match done {
        Ok(_) => Ok(fd),
        Err(error) => {
            sys::close(fd);
            Err(error)
        }
    }
}

fn to_write_alone(fd: i32) -> Result<i32, i32> {
    let path = sys::proc_path(fd);
    let flags = (libc::O_WRONLY | libc::O_CLOEXEC) as usize;
    let other = answer(sys::call3(libc::SYS_open, path.as_ptr() as usize, flags, 0))? as i32;
    let (end, whence) = (BYTES.saturating_mul(2), libc::SEEK_SET as usize);
    let set = answer(sys::call3(libc::SYS_lseek, other as usize, end, whence));
    or_close(other, set)
}

fn map(fd: i32) -> Result<usize, i32> {
    let rights = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let args = [0, BYTES, rights, libc::MAP_SHARED as usize, fd as usize, 0];
    answer(sys::call(libc::SYS_mmap, args)).map(|address| address as usize)
}

fn answer(answer: isize) -> Result<isize, i32> {
    match answer {
        0.. => Ok(answer),
        error => Err(-error as i32),
    }
}

fn page(address: usize) -> &'static Page {
    // SAFETY: so much memory was mapped there, any bytes are a page, and it is there until `unmap`.
    unsafe { &*(address as *const Page) }
}

/// A page that this process has; also one that panics lets go of it.
struct Held<'p>(&'p Page);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.holder.store(0, Ordering::Release);
    }
}

/// Whether there is no such process, or only what nobody has waited for yet.
fn has_ended(process: u32) -> bool {
    let is_none = sys::call3(libc::SYS_kill, process as usize, 0, 0) == -libc::ESRCH as isize;
    is_none
        || std::fs::read(format!("/proc/{process}/stat")).is_ok_and(|stat| {
            // The state is behind the name, which may have anything in it but ends in the last bracket.
            let behind = stat.rsplit(|&byte| byte == b')').next();
            behind.is_some_and(|rest| matches!(rest.trim_ascii().first(), Some(b'Z' | b'X')))
        })
}

impl Page {
    /// The path below the file system's root that it was opened by.
    pub(crate) fn path(&self) -> &[u8] {
        &self.path[..(self.path_bytes as usize).min(MAX_PATH)]
    }

    /// The offset, for as long as `work` takes.
    ///
    /// # Errors
    /// Those of `work`; `EINTR` when a signal came while another process had it.
    pub(crate) fn with_offset<T>(
        &self,
        work: impl FnOnce(&mut u64) -> Result<T, i32>,
    ) -> Result<T, i32> {
        let me = std::process::id();
        let mut looks = 0;
        while let Err(holder) =
            self.holder
                .compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed)
        {
            looks += 1;
            std::thread::sleep(PAUSE);
            if looks % LOOKS != 0 {
                continue;
            }
            // A process that was killed meanwhile does not let go of it.
            if has_ended(holder) {
                let _ =
                    self.holder
                        .compare_exchange(holder, 0, Ordering::Relaxed, Ordering::Relaxed);
            } else if guard::is_to_leave() {
                return Err(libc::EINTR);
            }
        }
        let _held = Held(self);
        let mut offset = self.offset.load(Ordering::Relaxed);
        let done = work(&mut offset);
        self.offset.store(offset, Ordering::Relaxed);
        done
    }

    /// Gives its memory back to the system; nobody in this process uses it any more.
    pub(crate) fn unmap(&'static self) {
        sys::call3(
            libc::SYS_munmap,
            std::ptr::from_ref(self) as usize,
            BYTES,
            0,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn what() -> What {
        What {
            ino: 77,
            access: 6,
            kind: 0,
            offset: 5,
            flags: 0,
            path: b"/a/b".to_vec(),
        }
    }

    #[test]
    fn a_page_is_the_same_for_who_inherits_it() {
        let (page, fd) = make(&what()).unwrap();
        let other = inherited(fd).unwrap();
        assert_eq!(
            (other.id, other.ino, other.path()),
            (page.id, 77, &b"/a/b"[..])
        );
        let moved = page.with_offset(|offset| {
            *offset += 7;
            Ok(())
        });
        assert_eq!(moved, Ok(()));
        assert_eq!(other.with_offset(|offset| Ok(*offset)), Ok(12));
        sys::close(fd);
        other.unmap();
        page.unmap();
    }

    #[test]
    fn who_has_ended_lets_go() {
        let (page, fd) = make(&what()).unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        // It is not waited for, and so it stays as a process that has ended.
        page.holder.store(child.id(), Ordering::Relaxed);
        assert_eq!(page.with_offset(|offset| Ok(*offset)), Ok(5));
        child.wait().unwrap();
        let panics = || -> Result<(), i32> { page.with_offset(|_| panic!("on purpose")) };
        assert!(std::panic::catch_unwind(panics).is_err());
        assert_eq!(page.holder.load(Ordering::Relaxed), 0);
        sys::close(fd);
        page.unmap();
    }

    #[test]
    fn who_does_not_know_of_it_can_neither_read_nor_write() {
        let (page, fd) = make(&what()).unwrap();
        let byte = [1_u8];
        let (fd_word, at) = (fd as usize, byte.as_ptr() as usize);
        assert_eq!(
            sys::call3(libc::SYS_read, fd_word, at, 1),
            -libc::EBADF as isize
        );
        let written = sys::call3(libc::SYS_write, fd_word, at, 1);
        assert!(written < 0, "{written}");
        page.unmap();
        // A number that no other test is given meanwhile.
        let (fd_word, far) = (fd as usize, 900_usize);
        let moved = sys::call3(libc::SYS_fcntl, fd_word, libc::F_DUPFD as usize, far) as i32;
        assert!(moved >= 900, "{moved}");
        inherited(moved).unwrap().unmap();
        sys::close(fd);
        sys::close(moved);
        assert!(inherited(moved).is_none());
    }
}
