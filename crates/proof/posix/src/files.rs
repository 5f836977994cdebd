//! Files that cases begin with: of all kinds, and what is in them.

use crate::case::Outcome;
use crate::sys::*;

/// A file that everybody may read and only its owner, root, write.
pub(crate) fn file(path: &str) -> Outcome {
    file_with(path, b"")
}

pub(crate) fn file_with(path: &str, data: &[u8]) -> Outcome {
    let fd = create(path)?;
    write_all(&fd, data)
}

/// A new file, open for reading and writing.
pub(crate) fn create(path: &str) -> Outcome<OwnedFd> {
    open(path, O::RDWR | O::CREATE | O::EXCL, 0o644).ok()
}

/// Writes at the descriptor's offset until all is written.
pub(crate) fn write_all(fd: &OwnedFd, data: &[u8]) -> Outcome {
    let mut rest = data;
    while !rest.is_empty() {
        let done = write(fd, rest).ok()?;
        rest = &rest[done..];
    }
    Ok(())
}

pub(crate) fn dir(path: &str) -> Outcome {
    mkdir(path, 0o755).ok()
}

/// A directory that belongs to the user, with its own group.
pub(crate) fn dir_of(path: &str, user: u32, mode: u32) -> Outcome {
    mkdir(path, mode).ok()?;
    chown(path, Some(user), Some(user)).ok()?;
    chmod(path, mode).ok()
}

/// A file that belongs to the user, with its own group.
pub(crate) fn file_of(path: &str, user: u32, mode: u32) -> Outcome {
    file(path)?;
    chown(path, Some(user), Some(user)).ok()?;
    chmod(path, mode).ok()
}

/// One of each kind: its name says which. `regular` has 8 bytes, `symlink` leads to `regular`.
pub(crate) const KINDS: [(&str, FileType); 7] = [
    ("regular", FileType::RegularFile),
    ("directory", FileType::Directory),
    ("symlink", FileType::Symlink),
    ("fifo", FileType::Fifo),
    ("socket", FileType::Socket),
    ("char", FileType::CharacterDevice),
    ("block", FileType::BlockDevice),
];

/// The numbers of the devices among them: of none that there are.
pub(crate) const CHAR: u64 = libc::makedev(240, 7);
pub(crate) const BLOCK: u64 = libc::makedev(241, 9);

/// Makes one of each kind in the working directory.
pub(crate) fn one_of_each_kind() -> Outcome {
    file_with("regular", b"contents")?;
    dir("directory")?;
    symlink("regular", "symlink").ok()?;
    mkfifo("fifo", 0o644).ok()?;
    mknod("socket", FileType::Socket, 0o644, 0).ok()?;
    mknod("char", FileType::CharacterDevice, 0o644, CHAR).ok()?;
    mknod("block", FileType::BlockDevice, 0o644, BLOCK).ok()
}

/// The kind that `st_mode` says.
pub(crate) fn kind_of(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// Bytes that look random, the same for the same seed.
pub(crate) fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut numbers = Numbers(seed);
    (0..length).map(|_| (numbers.next() >> 32) as u8).collect()
}

/// Numbers that look random: a linear congruential generator with Knuth's constants (MMIX).
pub(crate) struct Numbers(pub u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 8
    }

    /// Less than `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}
