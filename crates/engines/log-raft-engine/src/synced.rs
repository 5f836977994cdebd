//! Synced lengths of the files of a log: the file `SYNCED`.

use crate::names::{FileId, Queue};
use pandofs_storage::log::LogError;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

pub(crate) const FILE_NAME: &str = "SYNCED";
const ENCODED_BYTES: usize = 36;

/// The first `bytes` bytes of file `file`, and all files before it, were synced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark {
    pub file: u64,
    pub bytes: u64,
}

/// A mark for each queue. They only grow, and what is on disk is never ahead of the truth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    append: Mark,
    rewrite: Mark,
}

impl Marks {
    pub(crate) fn of(&self, queue: Queue) -> Mark {
        match queue {
            Queue::Append => self.append,
            Queue::Rewrite => self.rewrite,
        }
    }

    fn of_mut(&mut self, queue: Queue) -> &mut Mark {
        match queue {
            Queue::Append => &mut self.append,
            Queue::Rewrite => &mut self.rewrite,
        }
    }

    fn encode(&self) -> [u8; ENCODED_BYTES] {
        let mut bytes = [0; ENCODED_BYTES];
        let Marks { append, rewrite } = self;
        let numbers = [append.file, append.bytes, rewrite.file, rewrite.bytes];
        for (chunk, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            chunk.copy_from_slice(&number.to_be_bytes());
        }
        let checksum = crc32fast::hash(&bytes[..ENCODED_BYTES - 4]);
        bytes[ENCODED_BYTES - 4..].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }

    /// `None` when `bytes` are no marks: the write that made them was torn.
    fn decode(bytes: &[u8]) -> Option<Marks> {
        let (numbers, checksum) = bytes.split_last_chunk::<4>()?;
        if bytes.len() != ENCODED_BYTES || crc32fast::hash(numbers).to_be_bytes() != *checksum {
            return None;
        }
        let (numbers, _) = numbers.as_chunks::<8>();
        let number = |i: usize| u64::from_be_bytes(numbers[i]);
        let mark = |i| Mark {
            file: number(i),
            bytes: number(i + 1),
        };
        Some(Marks {
            append: mark(0),
            rewrite: mark(2),
        })
    }
}

/// State that all syncs of a log share: the marks they leave, and whether one of them failed.
#[derive(Debug)]
pub(crate) struct Syncs {
    path: PathBuf,
    file: File,
    marks: Mutex<Marks>,
    /// The first failure.
    failed: OnceLock<LogError>,
}

impl Syncs {
    /// Opens the marks of the log in `dir`. Makes them when there are none; then the file's
    /// space is taken up at once, so that a full disk does not make a sync fail.
    pub(crate) fn open(dir: &Path) -> io::Result<Syncs> {
        let path = dir.join(FILE_NAME);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)?;
        let mut bytes = Vec::new();
        Read::by_ref(&mut file)
            .take(ENCODED_BYTES as u64 + 1)
            .read_to_end(&mut bytes)?;
        let marks = Marks::decode(&bytes).unwrap_or_default();
        if bytes.len() != ENCODED_BYTES {
            file.set_len(0)?;
            file.write_all_at(&marks.encode(), 0)?;
            file.sync_all()?;
        }
        Ok(Syncs {
            path,
            file,
            marks: Mutex::new(marks),
            failed: OnceLock::new(),
        })
    }

    pub(crate) fn marks(&self) -> Marks {
        *self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the first `bytes` bytes of `file` are on disk.
    pub(crate) fn raise(&self, file: FileId, bytes: u64) -> Result<(), LogError> {
        let raised = Mark {
            file: file.number,
            bytes,
        };
        // Held while writing: of two syncs that end at once, the lesser must not be written last.
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        let mark = marks.of_mut(file.queue);
        if raised <= *mark {
            return Ok(());
        }
        *mark = raised;
        let written = self.file.write_all_at(&marks.encode(), 0);
        written.map_err(|error| self.fail(&self.path, &error))
    }

    /// Closes the log to further appends and syncs. Gives the error that they answer.
    pub(crate) fn fail(&self, path: &Path, error: &io::Error) -> LogError {
        let failure = || LogError::Failed {
            path: path.to_owned(),
            reason: error.to_string(),
        };
        self.failed.get_or_init(failure).clone()
    }

    /// # Errors
    /// The failure that closed the log.
    pub(crate) fn check(&self) -> Result<(), LogError> {
        match self.failed.get() {
            Some(failure) => Err(failure.clone()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(queue: Queue, number: u64) -> FileId {
        FileId { queue, number }
    }

    #[test]
    fn the_format_is_pinned() {
        let marks = Marks {
            append: Mark {
                file: 2,
                bytes: 0x1234,
            },
            rewrite: Mark {
                file: 1,
                bytes: 0x56,
            },
        };
        let golden = [
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            2,
            0,
            0,
            0,
            0,
            0,
            0,
            0x12,
            0x34, // append
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            1,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0x56, // rewrite
            GOLDEN_CHECKSUM[0],
            GOLDEN_CHECKSUM[1],
            GOLDEN_CHECKSUM[2],
            GOLDEN_CHECKSUM[3],
        ];
        assert_eq!(marks.encode(), golden);
        assert_eq!(Marks::decode(&golden), Some(marks));
        for i in 0..golden.len() {
            let mut torn = golden;
            torn[i] ^= 1;
            assert_eq!(Marks::decode(&torn), None, "byte {i}");
            assert_eq!(Marks::decode(&golden[..i]), None, "{i} bytes");
        }
    }

    const GOLDEN_CHECKSUM: [u8; 4] = [125, 146, 40, 161];

    #[test]
    fn marks_only_grow_and_are_there_again() {
        let dir = tempfile::tempdir().unwrap();
        let syncs = Syncs::open(dir.path()).unwrap();
        assert_eq!(syncs.marks(), Marks::default());
        syncs.raise(file(Queue::Append, 3), 100).unwrap();
        syncs.raise(file(Queue::Rewrite, 1), 70).unwrap();
        syncs.raise(file(Queue::Append, 2), 5_000).unwrap();
        syncs.raise(file(Queue::Append, 3), 90).unwrap();
        drop(syncs);
        let marks = Syncs::open(dir.path()).unwrap().marks();
        assert_eq!(
            marks.of(Queue::Append),
            Mark {
                file: 3,
                bytes: 100
            }
        );
        assert_eq!(marks.of(Queue::Rewrite), Mark { file: 1, bytes: 70 });
    }

    #[test]
    fn the_first_failure_stays() {
        let dir = tempfile::tempdir().unwrap();
        let syncs = Syncs::open(dir.path()).unwrap();
        assert_eq!(syncs.check(), Ok(()));
        let first = syncs.fail(Path::new("a"), &io::Error::other("one"));
        let second = syncs.fail(Path::new("b"), &io::Error::other("two"));
        assert_eq!(first, second);
        assert_eq!(syncs.check(), Err(first));
    }
}
