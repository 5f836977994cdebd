//! Free space of a disk, and the part of it that is kept back.
//!
//! A disk that is full to its last block could not even take the records of what makes room again. So a
//! server takes up nothing that needs space once a [`reserve`] is all that is left. Removals, truncations, and what
//! was promised before go on out of it.

use crate::limits::{
    DISK_INODE_RESERVE_SHARE, DISK_LOOK_INTERVAL, DISK_RESERVE_SHARE, MAX_DISK_INODE_RESERVE,
    MAX_DISK_RESERVE_BYTES, MIN_DISK_RESERVE_BYTES, MIN_DISK_RESERVE_SHARE, MIN_LOG_FILE_BYTES,
    SMALL_DISK_LOG_SHARE,
};
use pandofs_types::limits::{LOG_FILE_BYTES, MAX_LOG_BYTES};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Of what is left above the reserve, one in so many parts may be used before the disk is looked at again:
/// others may be using it as well.
const TRUSTED_SHARE: u64 = 8;
/// A disk is low when less than this part of its reserve is left beside it: enough for the largest request.
const LOW_SHARE: u64 = 64;
/// A disk has room again when it has this part of its reserve beside it.
const RECOVERED_SHARE: u64 = 16;

/// Bytes of a disk of `total` bytes that are kept back.
pub(crate) fn reserve(total: u64) -> u64 {
    (total / DISK_RESERVE_SHARE)
        .max(MIN_DISK_RESERVE_BYTES.min(total / MIN_DISK_RESERVE_SHARE))
        .min(MAX_DISK_RESERVE_BYTES)
}

/// Bytes of log a server keeps before it flushes its store, with its log on a disk of `total` bytes.
pub(crate) fn log_bytes(total: u64) -> u64 {
    (total / SMALL_DISK_LOG_SHARE).clamp(4 * MIN_LOG_FILE_BYTES, MAX_LOG_BYTES)
}

/// Bytes of one file of such a log.
pub(crate) fn log_file_bytes(total: u64) -> u64 {
    (log_bytes(total) / 4).min(LOG_FILE_BYTES)
}

/// Space of a disk as the system reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// Bytes.
    pub total: u64,
    pub free: u64,
    /// To this process; the reserve counts.
    pub available: u64,
    /// Whether files can be made without taking of the inodes that are kept back.
    pub has_inodes: bool,
}

impl Room {
    /// # Errors
    /// The system's.
    pub(crate) fn of(path: &Path) -> io::Result<Room> {
        let space = rustix::fs::statvfs(path)?;
        let inodes = (space.f_files / DISK_INODE_RESERVE_SHARE).min(MAX_DISK_INODE_RESERVE);
        Ok(Room {
            total: space.f_blocks.saturating_mul(space.f_frsize),
            free: space.f_bfree.saturating_mul(space.f_frsize),
            available: space.f_bavail.saturating_mul(space.f_frsize),
            // Some file systems make inodes as they need them and say that they have none.
            has_inodes: space.f_files == 0 || space.f_favail > inodes,
        })
    }

    /// Bytes above the reserve.
    pub(crate) fn spare(&self) -> u64 {
        self.available.saturating_sub(reserve(self.total))
    }

    /// Bytes above half of the reserve, for what has to be done all the same and could be repeated without end.
    fn half_spare(&self) -> u64 {
        self.available.saturating_sub(reserve(self.total) / 2)
    }
}

/// Use of space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    /// Bytes, checksums included.
    pub bytes: u64,
    /// Files are made.
    pub files: bool,
    /// It was promised to a client: it may have half of the reserve.
    pub promised: bool,
}

/// A disk, by a directory on it, looked at no more often than there is a reason to.
#[derive(Debug)]
pub(crate) struct Disk {
    path: PathBuf,
    /// Contents of the disk, for the log.
    holds: &'static str,
    seen: Mutex<Seen>,
}

#[derive(Debug)]
struct Seen {
    room: Room,
    at: Instant,
    /// Bytes that may be used before it is looked at again.
    trusted: u64,
    is_low: bool,
}

impl Disk {
    /// # Errors
    /// The system's.
    pub(crate) fn new(path: &Path, holds: &'static str) -> io::Result<Disk> {
        let mut seen = Seen {
            room: Room::of(path)?,
            at: Instant::now(),
            trusted: 0,
            is_low: false,
        };
        seen.trusted = seen.room.spare() / TRUSTED_SHARE;
        let disk = Disk {
            path: path.to_owned(),
            holds,
            seen: Mutex::new(seen),
        };
        disk.judge(&mut disk.seen());
        Ok(disk)
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self, seen: &mut Seen) -> io::Result<()> {
        seen.room = Room::of(&self.path)?;
        seen.at = Instant::now();
        seen.trusted = seen.room.spare() / TRUSTED_SHARE;
        self.judge(seen);
        Ok(())
    }

    /// Tells when it begins and ends to be low.
    fn judge(&self, seen: &mut Seen) {
        let (room, path) = (seen.room, self.path.display());
        let kept = reserve(room.total);
        if !seen.is_low && (room.spare() <= kept / LOW_SHARE || !room.has_inodes) {
            seen.is_low = true;
            tracing::warn!(
                "{path}: no room for {}: {} bytes are free, {kept} of them kept back, \
                 inodes are {}; what needs space is refused",
                self.holds,
                room.available,
                if room.has_inodes { "left" } else { "used up" },
            );
        } else if seen.is_low && room.has_inodes && room.spare() > kept / RECOVERED_SHARE {
            seen.is_low = false;
            tracing::info!("{path}: there is room for {} again", self.holds);
        }
    }

    /// Whether there is room for this; it counts as used then.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn has_room(&self, need: Need) -> io::Result<bool> {
        let mut seen = self.seen();
        let is_fresh = seen.at.elapsed() < DISK_LOOK_INTERVAL;
        if !(is_fresh && need.bytes <= seen.trusted && seen.room.has_inodes) {
            self.look(&mut seen)?;
        }
        let room = &seen.room;
        let spare = if need.promised {
            room.half_spare()
        } else {
            room.spare()
        };
        // Removing what was made needs none: files that were promised are few.
        let has = need.bytes <= spare && (!need.files || need.promised || room.has_inodes);
        if has {
            seen.trusted = seen.trusted.saturating_sub(need.bytes);
        }
        Ok(has)
    }

    /// Whether it is low, `used` bytes having been written since the last time this was asked.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn is_low(&self, used: u64) -> io::Result<bool> {
        let mut seen = self.seen();
        let is_fresh = seen.at.elapsed() < DISK_LOOK_INTERVAL;
        if used > seen.trusted || !is_fresh {
            self.look(&mut seen)?;
        } else {
            seen.trusted -= used;
        }
        Ok(seen.is_low)
    }

    /// Space as it was seen last.
    pub(crate) fn room(&self) -> Room {
        self.seen().room
    }
}

/// The disks of a lane's log and store.
#[derive(Debug, Default)]
pub(crate) struct Disks {
    disks: Vec<Disk>,
    is_low: bool,
}

impl Disks {
    pub(crate) fn new(disks: Vec<Disk>) -> Disks {
        Disks {
            disks,
            is_low: false,
        }
    }

    /// Whether one of them is low, if that is news, `used` bytes having been written since this was last
    /// asked. A disk that cannot be looked at stays what it was.
    pub(crate) fn look(&mut self, used: u64) -> Option<bool> {
        let mut is_low = false;
        for disk in &self.disks {
            is_low |= match disk.is_low(used) {
                Ok(is_low) => is_low,
                Err(error) => {
                    tracing::error!(
                        "cannot ask for the room on {}: {error}",
                        disk.path.display()
                    );
                    self.is_low
                }
            };
        }
        let is_news = is_low != self.is_low;
        self.is_low = is_low;
        is_news.then_some(is_low)
    }

    /// Bytes of log to be kept before the store is flushed: the less, the less room there is.
    pub(crate) fn log_bytes(&self) -> u64 {
        let of = |disk: &Disk| {
            let room = disk.room();
            let most = log_bytes(room.total);
            if self.is_low {
                most.min(room.available / 8).max(MIN_LOG_FILE_BYTES)
            } else {
                most
            }
        };
        self.disks.iter().map(of).min().unwrap_or(MAX_LOG_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_reserve_fits_the_disk() {
        assert_eq!(reserve(0), 0);
        assert_eq!(reserve(64 * MIB), 16 * MIB);
        assert_eq!(reserve(256 * MIB), 64 * MIB);
        assert_eq!(reserve(1_024 * MIB), 64 * MIB);
        assert_eq!(reserve(10 << 30), 512 * MIB);
        assert_eq!(reserve(1 << 40), 1 << 30);
    }

    #[test]
    fn the_log_fits_the_disk() {
        assert_eq!(log_bytes(64 * MIB), 4 * MIB);
        assert_eq!(log_file_bytes(64 * MIB), MIB);
        assert_eq!(log_bytes(1 << 40), MAX_LOG_BYTES);
        assert_eq!(log_file_bytes(1 << 40), LOG_FILE_BYTES);
        for total in [0, MIB, 64 * MIB, 256 * MIB, 1 << 30, 1 << 34] {
            assert!(log_file_bytes(total) * 4 <= log_bytes(total), "{total}");
        }
    }

    fn need(bytes: u64) -> Need {
        Need {
            bytes,
            files: false,
            promised: false,
        }
    }

    #[test]
    fn what_is_promised_may_have_half_of_the_reserve() {
        let dir = TempDir::new().unwrap();
        let disk = Disk::new(dir.path(), "tests").unwrap();
        let room = disk.room();
        let promised = |bytes| Need {
            promised: true,
            ..need(bytes)
        };
        // Others use the disk meanwhile: no closer than a quarter of the reserve.
        let quarter = reserve(room.total) / 4;
        assert!(disk.has_room(need(1)).unwrap());
        assert!(!disk.has_room(need(room.spare() + quarter)).unwrap());
        assert!(disk.has_room(promised(room.spare() + quarter)).unwrap());
        assert!(!disk.has_room(promised(room.available)).unwrap());
        assert!(!disk.has_room(need(u64::MAX)).unwrap());
    }

    #[test]
    fn a_disk_is_looked_at_again_when_much_was_used() {
        let dir = TempDir::new().unwrap();
        let disk = Disk::new(dir.path(), "tests").unwrap();
        let seen = || disk.seen().at;
        let first = seen();
        let trusted = disk.seen().trusted;
        disk.is_low(trusted + 1).unwrap();
        let second = seen();
        assert!(second > first);
        let spare = disk.room().spare();
        assert_eq!(disk.seen().trusted, spare / TRUSTED_SHARE);
        disk.has_room(need(spare / 2)).unwrap();
        assert!(seen() > second);
    }

    #[test]
    fn only_news_are_told() {
        let dir = TempDir::new().unwrap();
        let disk = Disk::new(dir.path(), "tests").unwrap();
        disk.seen().is_low = true;
        let mut disks = Disks::new(vec![disk]);
        assert_eq!(disks.look(0), Some(true));
        assert_eq!(disks.look(0), None);
        assert!(disks.log_bytes() <= MAX_LOG_BYTES);
        // It has room, in truth.
        assert_eq!(disks.look(u64::MAX), Some(false));
    }
}
