//! A file, as far as objects and their checksums need one.

use crate::data::next_data;
use pandofs_api::Allocation;
use rustix::buffer::spare_capacity;
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use rustix::io::{Errno, pread, retry_on_intr};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Bytes of zeros that are written at once where the local file system cannot make holes.
const ZEROS: usize = 64 << 10;

/// Steps on a file: a test can stop between any two, and in the middle of one.
pub(crate) trait Raw {
    /// Bytes.
    fn length(&self) -> io::Result<u64>;

    /// Fills as much of `buffer` as there is; how many bytes that is.
    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// At most `length` bytes, as many as there are.
    fn read_up_to(&self, length: usize, offset: u64) -> io::Result<Vec<u8>>;

    fn write(&self, data: &[u8], offset: u64) -> io::Result<()>;

    fn set_length(&self, length: u64) -> io::Result<()>;

    fn allocate(&self, range: &Range<u64>, allocation: Allocation) -> io::Result<()>;

    /// Where there is something other than a hole next, from `offset` on, and where the next hole is.
    fn next_data(&self, offset: u64) -> io::Result<Option<Range<u64>>>;
}

impl Raw for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.read_at(&mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    /// Into memory that was not filled with zeros before, as that costs as much as the reading.
    fn read_up_to(&self, length: usize, offset: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(length);
        while bytes.len() < length {
            let at = offset + bytes.len() as u64;
            match pread(self, spare_capacity(&mut bytes), at) {
                Ok(0) => break,
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // There may have been more room than was asked for.
        bytes.truncate(length);
        Ok(bytes)
    }

    fn write(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(data, offset)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn allocate(&self, range: &Range<u64>, allocation: Allocation) -> io::Result<()> {
        let keep = |keep_size| {
            if keep_size {
                FallocateFlags::KEEP_SIZE
            } else {
                FallocateFlags::empty()
            }
        };
        match allocation {
            Allocation::Reserve { keep_size } => change(self, range, keep(keep_size)),
            Allocation::Punch => punch(self, range),
            Allocation::Zero { keep_size } => {
                let flags = FallocateFlags::ZERO_RANGE | keep(keep_size);
                match change(self, range, flags) {
                    Err(error) if is_unsupported(&error) => {
                        punch(self, range)?;
                        change(self, range, keep(keep_size))
                    }
                    done => done,
                }
            }
        }
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<Range<u64>>> {
        let Some(start) = next_data(self, offset)? else {
            return Ok(None);
        };
        Ok(Some(start..seek(self, SeekFrom::Hole(start))?))
    }
}

fn punch(file: &File, range: &Range<u64>) -> io::Result<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match change(file, range, flags) {
        Err(error) if is_unsupported(&error) => write_zeros(file, range),
        done => done,
    }
}

fn change(file: &File, range: &Range<u64>, flags: FallocateFlags) -> io::Result<()> {
    retry_on_intr(|| fallocate(file, flags, range.start, range.end - range.start))?;
    Ok(())
}

fn is_unsupported(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::OPNOTSUPP.raw_os_error())
}

fn write_zeros(file: &File, range: &Range<u64>) -> io::Result<()> {
    let zeros = [0; ZEROS];
    let end = range.end.min(file.metadata()?.len());
    let mut at = range.start;
    while at < end {
        let run = (end - at).min(ZEROS as u64) as usize;
        file.write_all_at(&zeros[..run], at)?;
        at += run as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_written_where_holes_cannot_be_made() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[9; 200_000], 0).unwrap();
        write_zeros(&file, &(10..150_000)).unwrap();
        write_zeros(&file, &(199_999..1 << 40)).unwrap();
        let mut content = vec![1; 200_000];
        file.read_exact_at(&mut content, 0).unwrap();
        assert!(content[..10].iter().all(|&byte| byte == 9));
        assert!(content[10..150_000].iter().all(|&byte| byte == 0));
        assert!(content[150_000..199_999].iter().all(|&byte| byte == 9));
        assert_eq!(content[199_999], 0);
        assert_eq!(file.metadata().unwrap().len(), 200_000);
    }
}
