//! Copying of a file's bytes.
//!
//! They are shared with the other file where the file system can, copied by the kernel where it
//! can, through memory otherwise. Holes stay holes.

use clap::ValueEnum;
use rustix::fd::BorrowedFd;
use rustix::fs::{SeekFrom, copy_file_range, fstat, ftruncate, ioctl_ficlone, seek};
use rustix::io::{Errno, pread, pwrite, retry_on_intr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Bytes that go through memory at once.
const BUFFER_BYTES: usize = 1 << 20;

/// Facts about the file systems that any thread has found out.
#[derive(Debug, Default)]
pub struct Methods {
    /// Data cannot be shared between files.
    no_clone: Refused,
    /// The kernel does not copy by itself.
    no_range: Refused,
    must_share: bool,
    holes: Holes,
}

/// Between which file systems something is not done. Others may do what one of them cannot.
#[derive(Debug, Default)]
struct Refused {
    everywhere: bool,
    /// There are some.
    any: AtomicBool,
    /// Devices from which, and to which.
    pairs: Mutex<Vec<(u64, u64)>>,
}

impl Refused {
    fn everywhere() -> Refused {
        Refused {
            everywhere: true,
            ..Refused::default()
        }
    }

    fn has(&self, from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> bool {
        // The devices are not looked at before one has refused.
        let may_have = self.everywhere || self.any.load(Ordering::Relaxed);
        may_have && (self.everywhere || devices(from, to).is_ok_and(|pair| self.knows(pair)))
    }

    fn knows(&self, pair: (u64, u64)) -> bool {
        let pairs = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
        pairs.contains(&pair)
    }

    fn add(&self, from: BorrowedFd<'_>, to: BorrowedFd<'_>) {
        if let Ok(pair) = devices(from, to) {
            let mut pairs = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
            if !pairs.contains(&pair) {
                pairs.push(pair);
            }
            self.any.store(true, Ordering::Relaxed);
        }
    }
}

fn devices(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<(u64, u64), Errno> {
    Ok((fstat(from)?.st_dev, fstat(to)?.st_dev))
}

/// Treatment of holes.
#[derive(ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Holes {
    /// They stay holes
    #[default]
    Auto,
    /// Zeros become holes as well
    Always,
    /// They become zeros
    Never,
}

/// Bytes of zeros that become a hole.
const HOLE_BYTES: usize = 4 << 10;

impl Methods {
    /// Through memory alone.
    pub fn plain() -> Methods {
        Methods {
            no_clone: Refused::everywhere(),
            no_range: Refused::everywhere(),
            ..Methods::default()
        }
    }

    /// With such holes.
    pub fn holes(mut self, holes: Holes) -> Methods {
        self.holes = holes;
        if holes == Holes::Never {
            // Where data can be shared the kernel shares holes as well.
            self.no_range = Refused::everywhere();
        }
        self
    }

    /// No data but what can be shared.
    pub fn sharing() -> Methods {
        Methods {
            must_share: true,
            ..Methods::default()
        }
    }

    /// Makes one file share all data of another, and whether that worked.
    pub fn share(&self, from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> bool {
        if self.holes != Holes::Auto || self.no_clone.has(from, to) {
            return false;
        }
        match ioctl_ficlone(to, from) {
            Ok(()) => true,
            Err(error) => {
                if matches!(error, Errno::OPNOTSUPP | Errno::NOTTY | Errno::XDEV) {
                    self.no_clone.add(from, to);
                }
                false
            }
        }
    }
}

/// Failures of copying data.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(crate) enum DataError {
    #[error("{0}")]
    Read(Errno),
    #[error("cannot write the copy: {0}")]
    Write(Errno),
    #[error("it became shorter while it was copied")]
    Shorter,
}

/// A thread's means to copy.
pub(crate) struct Copying {
    buffer: Box<[u8]>,
}

impl Copying {
    pub(crate) fn new() -> Copying {
        Copying {
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
        }
    }

    /// Copies a part of a file to the same place of another. `sparse` is whether there may be holes
    /// in it. Holes are not written: the other file has to be as long already, and empty there.
    ///
    /// # Errors
    /// When it cannot be read or written, or there is less of it.
    pub(crate) fn copy(
        &mut self,
        methods: &Methods,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        range: std::ops::Range<u64>,
        sparse: bool,
    ) -> Result<u64, DataError> {
        if methods.must_share {
            return Err(DataError::Write(Errno::OPNOTSUPP));
        }
        if methods.holes == Holes::Always {
            return self.copy_but_zeros(from, to, range);
        }
        let sparse = sparse && methods.holes == Holes::Auto;
        let mut at = range.start;
        let mut copied = 0;
        while at < range.end {
            let mut end = range.end;
            if sparse {
                match segment(from, at, range.end) {
                    Ok(Some(data)) => (at, end) = data,
                    Ok(None) => return Ok(copied),
                    Err(error) => return Err(DataError::Read(error)),
                }
            }
            copied += end - at;
            self.copy_all(methods, from, to, at..end, at)?;
            at = end;
        }
        Ok(copied)
    }

    /// Copies all that can be read of a file to an empty one. How much that is.
    ///
    /// # Errors
    /// When it cannot be read or written, or could only be shared.
    pub(crate) fn copy_to_end(
        &mut self,
        methods: &Methods,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
    ) -> Result<u64, DataError> {
        let mut at = 0;
        loop {
            let read = retry_on_intr(|| pread(from, &mut self.buffer[..], at));
            let count = read.map_err(DataError::Read)?;
            if count == 0 {
                return Ok(at);
            }
            if methods.must_share {
                return Err(DataError::Write(Errno::OPNOTSUPP));
            }
            write_all(to, &self.buffer[..count], at)?;
            at += count as u64;
        }
    }

    fn copy_but_zeros(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        range: std::ops::Range<u64>,
    ) -> Result<u64, DataError> {
        // A file that is copied in pieces has its length already: they may be copied in any order.
        let length = rustix::fs::fstat(to).map_err(DataError::Write)?.st_size;
        if (length as u64) < range.end {
            stretch(to, range.end)?;
        }
        let (mut at, mut copied) = (range.start, 0);
        while at < range.end {
            let most = (range.end - at).min(BUFFER_BYTES as u64) as usize;
            let count = fill(from, &mut self.buffer[..most], at).map_err(DataError::Read)?;
            if count < most {
                return Err(DataError::Shorter);
            }
            for (number, block) in (0..).zip(self.buffer[..count].chunks(HOLE_BYTES)) {
                if block.iter().all(|byte| *byte == 0) {
                    continue;
                }
                let place = at + number * HOLE_BYTES as u64;
                write_all(to, block, place)?;
                copied += block.len() as u64;
            }
            at += count as u64;
        }
        Ok(copied)
    }

    /// Copies a part of a file to some place of another.
    ///
    /// # Errors
    /// When it cannot be read or written, or there is less of it.
    pub(crate) fn copy_to(
        &mut self,
        methods: &Methods,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        range: std::ops::Range<u64>,
        place: u64,
    ) -> Result<(), DataError> {
        self.copy_all(methods, from, to, range, place)
    }

    fn copy_all(
        &mut self,
        methods: &Methods,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        range: std::ops::Range<u64>,
        place: u64,
    ) -> Result<(), DataError> {
        let (start, end) = (range.start, range.end);
        let mut at = start;
        // For less, one copy more costs less than one call more.
        if end - start > BUFFER_BYTES as u64 && !methods.no_range.has(from, to) {
            while at < end {
                let (mut read_at, mut write_at) = (at, place + (at - start));
                let most = (end - at).min(1 << 30) as usize;
                match copy_file_range(from, Some(&mut read_at), to, Some(&mut write_at), most) {
                    // Some file systems say so of what they cannot copy: see below.
                    Ok(0) => break,
                    Ok(count) => at += count as u64,
                    Err(Errno::INTR) => {}
                    Err(
                        Errno::XDEV | Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL | Errno::PERM,
                    ) => {
                        methods.no_range.add(from, to);
                        break;
                    }
                    Err(error) => return Err(DataError::Write(error)),
                }
            }
        }
        while at < end {
            let most = (end - at).min(BUFFER_BYTES as u64) as usize;
            let count = retry_on_intr(|| pread(from, &mut self.buffer[..most], at))
                .map_err(DataError::Read)?;
            if count == 0 {
                return Err(DataError::Shorter);
            }
            write_all(to, &self.buffer[..count], place + (at - start))?;
            at += count as u64;
        }
        Ok(())
    }

    /// Compares a part of two files.
    ///
    /// # Errors
    /// When one of them cannot be read.
    pub(crate) fn same(
        &mut self,
        one: BorrowedFd<'_>,
        other: BorrowedFd<'_>,
        range: std::ops::Range<u64>,
    ) -> Result<bool, Errno> {
        let half = BUFFER_BYTES / 2;
        let (first, second) = self.buffer.split_at_mut(half);
        let mut at = range.start;
        while at < range.end {
            let most = (range.end - at).min(half as u64) as usize;
            let count = fill(one, &mut first[..most], at)?;
            if fill(other, &mut second[..most], at)? != count || first[..count] != second[..count] {
                return Ok(false);
            }
            if count < most {
                // Both end here.
                return Ok(true);
            }
            at += count as u64;
        }
        Ok(true)
    }
}

fn write_all(to: BorrowedFd<'_>, bytes: &[u8], place: u64) -> Result<(), DataError> {
    let mut written = 0;
    while written < bytes.len() {
        let rest = &bytes[written..];
        let more = retry_on_intr(|| pwrite(to, rest, place + written as u64));
        written += more.map_err(DataError::Write)?;
    }
    Ok(())
}

/// Reads until the buffer is full or the file ends.
pub(crate) fn fill(fd: BorrowedFd<'_>, buffer: &mut [u8], at: u64) -> Result<usize, Errno> {
    let mut filled = 0;
    while filled < buffer.len() {
        match pread(fd, &mut buffer[filled..], at + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// The first piece of data in this part of a file; none if all of it is a hole.
pub(crate) fn segment(
    fd: BorrowedFd<'_>,
    start: u64,
    end: u64,
) -> Result<Option<(u64, u64)>, Errno> {
    let data = match seek(fd, SeekFrom::Data(start)) {
        Ok(data) if data < end => data,
        Ok(_) | Err(Errno::NXIO) => return Ok(None),
        // The file system does not tell.
        Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(Some((start, end))),
        Err(error) => return Err(error),
    };
    let hole = seek(fd, SeekFrom::Hole(data)).unwrap_or(end);
    Ok(Some((data, hole.min(end))))
}

/// Makes an empty file as long as it will be.
pub(crate) fn stretch(fd: BorrowedFd<'_>, size: u64) -> Result<(), DataError> {
    ftruncate(fd, size).map_err(DataError::Write)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd;
    use std::fs::File;

    #[test]
    fn what_two_file_systems_refuse_others_may_do() {
        let methods = Methods::default();
        let (one, other) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        let elsewhere = File::open("/proc/self/status").unwrap();
        assert!(!methods.share(elsewhere.as_fd(), one.as_fd()));
        assert!(methods.no_clone.has(elsewhere.as_fd(), other.as_fd()));
        assert!(!methods.no_clone.has(one.as_fd(), other.as_fd()));
        assert!(!methods.no_clone.has(one.as_fd(), elsewhere.as_fd()));
        let plain = Methods::plain();
        assert!(plain.no_clone.has(one.as_fd(), other.as_fd()));
    }

    #[test]
    fn where_nothing_may_be_a_hole_all_is_written() {
        let file = tempfile::tempfile().unwrap();
        for (holes, is_left_out) in [(Holes::Never, true), (Holes::Auto, false)] {
            let methods = Methods::default().holes(holes);
            let has = methods.no_range.has(file.as_fd(), file.as_fd());
            assert_eq!(has, is_left_out, "{holes:?}");
        }
    }
}
