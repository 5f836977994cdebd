//! raft-engine's files and their names.

use std::path::{Path, PathBuf};

/// Which of raft-engine's two rows of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Queue {
    /// Appended entries.
    Append,
    /// Entries that were moved out of old append files.
    Rewrite,
}

impl Queue {
    pub(crate) const BOTH: [Queue; 2] = [Queue::Append, Queue::Rewrite];

    fn suffix(self) -> &'static str {
        match self {
            Queue::Append => ".raftlog",
            Queue::Rewrite => ".rewrite",
        }
    }
}

/// Digits of the number in a file's name.
const NUMBER_DIGITS: usize = 16;

/// One file of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileId {
    pub queue: Queue,
    /// Counted from 1 in each queue, without gaps.
    pub number: u64,
}

impl FileId {
    /// The file that has this name; `None` for anything else that lies in a log's directory.
    pub(crate) fn from_path(path: &Path) -> Option<FileId> {
        let name = path.file_name()?.to_str()?;
        let (number, suffix) = name.split_at_checked(NUMBER_DIGITS)?;
        let queue = Queue::BOTH
            .into_iter()
            .find(|queue| queue.suffix() == suffix)?;
        let number = number.parse().ok()?;
        Some(FileId { queue, number })
    }

    pub(crate) fn path(self, dir: &Path) -> PathBuf {
        let width = NUMBER_DIGITS;
        dir.join(format!("{:0width$}{}", self.number, self.queue.suffix()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_raft_engine() {
        let dir = Path::new("/log");
        for (queue, name) in [
            (Queue::Append, "/log/0000000000000012.raftlog"),
            (Queue::Rewrite, "/log/0000000000000012.rewrite"),
        ] {
            let id = FileId { queue, number: 12 };
            assert_eq!(id.path(dir), Path::new(name));
            assert_eq!(FileId::from_path(Path::new(name)), Some(id));
        }
        for name in [
            "FORMAT",
            "12.raftlog",
            "0000000000000012.raftlog.reserved",
            "LOCK",
        ] {
            assert_eq!(FileId::from_path(Path::new(name)), None, "{name}");
        }
    }
}
