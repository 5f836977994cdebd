//! Reading past the page cache, where the file system can.

use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Alignment of offsets in the file and in memory.
const ALIGNMENT: usize = 4_096;

/// Reads `length` bytes from `offset` on, fewer where the file ends.
///
/// # Errors
/// The system's.
pub(super) fn read_range(path: &Path, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    DirectFile::open(path)?.read(offset, length)
}

/// A file to be read.
#[derive(Debug)]
pub(crate) struct DirectFile {
    direct: File,
    /// The same, through the page cache: not every file system can do without.
    buffered: File,
}

impl DirectFile {
    pub(crate) fn open(path: &Path) -> io::Result<DirectFile> {
        let buffered = File::open(path)?;
        let direct = OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::DIRECT.bits() as i32)
            .open(path);
        let direct = match direct {
            Ok(file) => file,
            Err(error) if is_refusal(&error) => buffered.try_clone()?,
            Err(error) => return Err(error),
        };
        Ok(DirectFile { direct, buffered })
    }

    /// For what is no reading.
    pub(crate) fn buffered(&self) -> &File {
        &self.buffered
    }

    /// `length` bytes from `offset` on, fewer where the file ends.
    pub(crate) fn read(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let before = (offset % ALIGNMENT as u64) as usize;
        let whole = (before + length).next_multiple_of(ALIGNMENT);
        let mut memory = vec![0; whole + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        let buffer = &mut memory[start..start + whole];
        let from = offset - before as u64;
        let filled = match fill(&self.direct, buffer, from) {
            Err(error) if is_refusal(&error) => fill(&self.buffered, buffer, from)?,
            filled => filled?,
        };
        let end = filled.min(before + length);
        Ok(buffer[before.min(end)..end].to_vec())
    }
}

fn fill(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    // After an odd number of bytes there are no more: that was the end.
    while filled < buffer.len() && filled.is_multiple_of(ALIGNMENT) {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn is_refusal(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::INVAL.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tempfile::TempDir;

    #[test]
    fn any_range_is_read_up_to_the_end() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("file");
        let content: Vec<u8> = (0..10_000_u32).map(|at| (at / 7) as u8).collect();
        fs::write(&path, &content).unwrap();
        for (offset, length) in [
            (0, 1),
            (0, 20_000),
            (64, 4_096),
            (4_095, 2),
            (9_999, 1),
            (9_999, 5_000),
            (10_000, 1),
            (12_288, 1),
            (50_000, 9_000),
            (5, 0),
        ] {
            let end = (offset + length).min(content.len());
            let expected = content.get(offset..end).unwrap_or_default();
            let found = read_range(&path, offset as u64, length).unwrap();
            assert!(found == expected, "{length} from {offset}");
        }
    }
}
