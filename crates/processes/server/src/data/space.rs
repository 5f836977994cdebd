//! Space of data objects: had in advance, given back, and looked for.

use super::extents::without_space;
use super::objects::{Objects, failure};
use super::open::OpenObject;
use super::sums::{BLOCK, Raw, SUM_BYTES};
use crate::disk::{Need, reserve};
use crate::limits::{ALLOCATION_STEP_SHARE, MAX_ALLOCATION_STEP_BYTES};
use pandofs_api::{Allocation, DataReply};
use pandofs_types::limits::MAX_FILE_BYTES;
use pandofs_types::{FsError, Ino};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::iter::repeat;
use std::ops::Range;
use std::slice;
use std::sync::Arc;

impl Objects {
    /// The object, if there is one afterwards.
    pub(super) fn allocate(
        &mut self,
        ino: Ino,
        offset: u64,
        length: u64,
        allocation: Allocation,
    ) -> Result<Option<Arc<OpenObject>>, FsError> {
        let range = checked(offset, length)?;
        if allocation.reserves() {
            let has = self.open_object(ino)?;
            let missing = match &has {
                Some(object) => without_space(object.checked.data(), &range)
                    .map_err(|error| self.failure("ask for the space of", ino, &error))?,
                None => vec![range.clone()],
            };
            self.check_room_for(&missing, has.is_none())?;
            let is_new = has.is_none();
            let object = match has {
                Some(object) => object,
                None => self.create(ino)?,
            };
            if let Err(error) = self.take(&object, &missing) {
                if is_new {
                    self.remove(ino)?;
                }
                return Err(error);
            }
        }
        let object = match self.open_object(ino)? {
            Some(object) => object,
            // All of it is a hole already.
            None => return Ok(None),
        };
        let allocated = object.checked.allocate(&range, allocation);
        self.count_change(&object);
        allocated.map_err(|error| self.failure("allocate", ino, &error))?;
        if allocation.zeroes() {
            let whole = range.start.div_ceil(BLOCK)..range.end / BLOCK;
            self.holdings.health.gone(ino, whole);
        }
        Ok(Some(object))
    }

    /// Whether all of this can be had, above what is kept back of the disk.
    fn check_room_for(&self, missing: &[Range<u64>], files: bool) -> Result<(), FsError> {
        let bytes = missing.iter().map(|gap| gap.end - gap.start).sum();
        let need = Need {
            bytes: with_sums(bytes),
            files,
            promised: false,
        };
        let disk = &self.holdings.disk;
        match disk.has_room(need) {
            Ok(true) => Ok(()),
            // Space that is there already needs no room.
            Ok(false) if bytes == 0 && !files => Ok(()),
            Ok(false) => Err(FsError::NoSpace),
            Err(error) => Err(failure("statvfs", &self.holdings.root, &error)),
        }
    }

    /// Gives an object the space that it has not, step by step: the local file system would give all it has
    /// before it says that it has no more, and other users of the disk would have none. When it
    /// is not to be had after all, what was taken is given back.
    fn take(&self, object: &OpenObject, missing: &[Range<u64>]) -> Result<(), FsError> {
        let data = object.checked.data();
        let reserve = reserve(self.holdings.disk.room().total);
        let step = (reserve / ALLOCATION_STEP_SHARE).clamp(BLOCK, MAX_ALLOCATION_STEP_BYTES);
        let steps = missing.iter().flat_map(|gap| {
            (gap.start..gap.end)
                .step_by(step as usize)
                .zip(repeat(gap.end))
        });
        let mut taken: Vec<Range<u64>> = Vec::new();
        for (start, end) in steps {
            let part = start..end.min(start + step);
            let had = self
                .check_room_for(slice::from_ref(&part), false)
                .and_then(|()| {
                    // Also a part of it may have been had when this fails.
                    taken.push(part.clone());
                    data.allocate(&part, Allocation::Reserve { keep_size: true })
                        .map_err(|error| self.failure("allocate", object.ino, &error))
                });
            if let Err(error) = had {
                if let Err(error) = give_back(data, &taken) {
                    self.failure("give back space of", object.ino, &error);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    pub(super) fn seek(&mut self, ino: Ino, offset: u64, data: bool) -> Result<DataReply, FsError> {
        checked(offset, 0)?;
        let found = match self.open_object(ino)? {
            None => None,
            Some(object) => seek_blocks(object.checked.data(), offset, data)
                .map_err(|error| self.failure("seek in", ino, &error))?,
        };
        let offset = if data { found } else { found.or(Some(offset)) };
        Ok(DataReply::Found { offset })
    }
}

/// Where data, or a hole, is next in an object's file. Data and holes are whole blocks, as on local file systems: the rest
/// of the last block is no hole, wherever in it the object ends. (The file may go on there.)
fn seek_blocks(file: &File, offset: u64, data: bool) -> io::Result<Option<u64>> {
    let next = |from| match seek(file, from) {
        Ok(found) => Ok(Some(found)),
        // At the object's end or beyond.
        Err(Errno::NXIO) => Ok(None),
        Err(error) => Err(io::Error::from(error)),
    };
    let end = file.length()?;
    if offset >= end && offset < end.next_multiple_of(BLOCK) {
        let last = end - end % BLOCK;
        let is_data = next(SeekFrom::Data(last))?.is_some();
        return Ok(match (data, is_data) {
            (true, true) => Some(offset),
            (false, true) => Some(end.next_multiple_of(BLOCK)),
            _ => None,
        });
    }
    if data {
        return next(SeekFrom::Data(offset));
    }
    let hole = next(SeekFrom::Hole(offset))?;
    Ok(hole.map(|hole| match hole == end {
        true => end.next_multiple_of(BLOCK),
        false => hole,
    }))
}

/// Lets go of space that was reserved and never written to.
fn give_back(data: &File, taken: &[Range<u64>]) -> io::Result<()> {
    for part in taken {
        // Beyond a file's end Linux makes no holes. The space there reads as zeros either way.
        if data.length()? < part.end {
            data.set_length(part.end)?;
        }
        data.allocate(part, Allocation::Punch)?;
    }
    Ok(())
}

/// Objects are no longer than files; the end of the range.
fn checked(offset: u64, length: u64) -> Result<Range<u64>, FsError> {
    match offset.checked_add(length) {
        Some(end) if end <= MAX_FILE_BYTES => Ok(offset..end),
        _ => Err(FsError::FileTooBig),
    }
}

/// Bytes that data of this length takes of the disk with its checksums, at most: whole blocks.
pub(super) fn with_sums(length: u64) -> u64 {
    /// Bytes that a change may take besides: the ends of the range and of its checksums, and what the local
    /// file system notes.
    const BESIDES: u64 = 4 * BLOCK;
    length
        .saturating_add(length / BLOCK * SUM_BYTES)
        .saturating_add(BESIDES)
}

/// Bytes of data for which this much of the disk is enough, with their checksums.
pub(super) fn without_sums(room: u64) -> u64 {
    let blocks = room.saturating_sub(with_sums(0)) / (BLOCK + SUM_BYTES);
    blocks * BLOCK
}

#[cfg(test)]
mod tests {
    use super::super::objects::Holdings;
    use super::*;
    use crate::disk::Room;
    use crate::limits::SETTLE_AFTER;
    use std::fs;
    use std::os::unix::fs::MetadataExt;
    use tempfile::TempDir;

    /// Bytes of the unit in which Linux counts space.
    const SPACE_UNIT: u64 = 512;
    const INO: Ino = Ino(7);
    /// Bytes of a block of any file system that tests run on.
    const UNIT: u64 = 64 << 10;

    fn objects() -> (TempDir, Objects) {
        let dir = TempDir::new().unwrap();
        let holdings = Holdings::prepare(dir.path()).unwrap();
        let objects = Objects::new(Arc::new(holdings), 2, SETTLE_AFTER);
        (dir, objects)
    }

    fn content(dir: &TempDir) -> Vec<u8> {
        fs::read(super::super::objects::path(dir.path(), INO)).unwrap()
    }

    fn blocks(objects: &mut Objects) -> u64 {
        let object = objects.open_object(INO).unwrap().unwrap();
        object.checked.data().metadata().unwrap().blocks()
    }

    fn found(objects: &mut Objects, offset: u64, data: bool) -> Option<u64> {
        match objects.seek(INO, offset, data).unwrap() {
            DataReply::Found { offset } => offset,
            other => panic!("{other:?}"),
        }
    }

    /// As on ext4, where a file is made longer within its last block.
    #[test]
    fn the_rest_of_the_last_block_is_no_hole() {
        let (_dir, mut objects) = objects();
        objects.write(INO, 0, &[7; 5]).unwrap();
        assert_eq!(found(&mut objects, 0, false), Some(BLOCK));
        assert_eq!(found(&mut objects, 100, false), Some(BLOCK));
        assert_eq!(found(&mut objects, 100, true), Some(100));
        assert_eq!(found(&mut objects, BLOCK, true), None);
        assert_eq!(found(&mut objects, BLOCK, false), Some(BLOCK));
        // In a hole it is one.
        objects.write(INO, 2 * UNIT, &[7; 5]).unwrap();
        objects.truncate(INO, UNIT + 5).unwrap();
        assert_eq!(found(&mut objects, UNIT + 5, true), None);
        assert_eq!(found(&mut objects, UNIT + 6, false), Some(UNIT + 6));
    }

    #[test]
    fn what_is_said_to_be_available_can_be_had() {
        for room in [0, 1 << 20, (1 << 30) + 12_345] {
            let bytes = without_sums(room);
            assert!(bytes == 0 || with_sums(bytes) <= room, "{bytes} of {room}");
            assert!(
                room - bytes <= room / 1_000 + (1 << 15),
                "{bytes} of {room}"
            );
        }
    }

    #[test]
    fn reserved_space_is_there_and_reads_as_zeros() {
        let (dir, mut objects) = objects();
        let reserve = |keep_size| Allocation::Reserve { keep_size };
        objects.allocate(INO, UNIT, UNIT, reserve(true)).unwrap();
        assert_eq!(content(&dir), b"");
        assert!(blocks(&mut objects) * SPACE_UNIT >= UNIT);
        objects.allocate(INO, 0, UNIT, reserve(false)).unwrap();
        assert_eq!(content(&dir), vec![0; UNIT as usize]);
        assert!(blocks(&mut objects) * SPACE_UNIT >= 2 * UNIT);
        // The space beyond the end goes when the object is truncated to where it ends.
        objects.truncate(INO, UNIT).unwrap();
        assert!(blocks(&mut objects) * SPACE_UNIT < 2 * UNIT);
    }

    #[test]
    fn a_hole_reads_as_zeros_and_takes_nothing() {
        let (dir, mut objects) = objects();
        objects.write(INO, 0, &vec![9; 4 * UNIT as usize]).unwrap();
        let before = blocks(&mut objects);
        objects
            .allocate(INO, UNIT, UNIT, Allocation::Punch)
            .unwrap();
        let zeroed = Allocation::Zero { keep_size: true };
        objects.allocate(INO, 3 * UNIT, 3 * UNIT, zeroed).unwrap();
        let content = content(&dir);
        assert_eq!(content.len() as u64, 4 * UNIT);
        for (at, byte) in content.iter().enumerate() {
            let is_data = [0, 2].contains(&(at as u64 / UNIT));
            assert_eq!(*byte, if is_data { 9 } else { 0 }, "byte {at}");
        }
        // One unit less for the hole; two more behind the end.
        assert_eq!(blocks(&mut objects), before + UNIT / SPACE_UNIT);
        assert_eq!(found(&mut objects, 0, true), Some(0));
        assert_eq!(found(&mut objects, 5, false), Some(UNIT));
        assert_eq!(found(&mut objects, UNIT, true), Some(2 * UNIT));
        assert_eq!(found(&mut objects, 4 * UNIT, true), None);
        assert_eq!(found(&mut objects, 9 * UNIT, false), Some(9 * UNIT));
    }

    #[test]
    fn an_object_that_is_not_there_is_a_hole() {
        let (dir, mut objects) = objects();
        let punched = objects.allocate(INO, 0, 1, Allocation::Punch).unwrap();
        assert!(punched.is_none());
        assert!(!super::super::objects::path(dir.path(), INO).exists());
        assert_eq!(found(&mut objects, 5, true), None);
        assert_eq!(found(&mut objects, 5, false), Some(5));
    }

    #[test]
    fn what_is_given_back_leaves_what_was_there() {
        let (dir, mut objects) = objects();
        objects.write(INO, UNIT, &vec![9; UNIT as usize]).unwrap();
        let reserve = Allocation::Reserve { keep_size: true };
        objects.allocate(INO, 6 * UNIT, UNIT, reserve).unwrap();
        let before = blocks(&mut objects);
        let object = objects.open_object(INO).unwrap().unwrap();
        let data = object.checked.data();
        let all = 0..10 * UNIT;
        let missing = without_space(data, &all).unwrap();
        assert_eq!(missing, [0..UNIT, 2 * UNIT..6 * UNIT, 7 * UNIT..10 * UNIT]);
        objects.take(&object, &missing).unwrap();
        assert_eq!(without_space(data, &all).unwrap(), []);
        give_back(data, &missing).unwrap();
        assert_eq!(without_space(data, &all).unwrap(), missing);
        assert_eq!(blocks(&mut objects), before);
        let content = content(&dir);
        let written = UNIT as usize..2 * UNIT as usize;
        assert!(
            content
                .iter()
                .enumerate()
                .all(|(at, &byte)| { byte == if written.contains(&at) { 9 } else { 0 } })
        );
        assert_eq!(objects.read(INO, 0, 100).unwrap(), [0; 100]);
    }

    #[test]
    fn what_cannot_be_had_is_refused() {
        let (dir, mut objects) = objects();
        let mut fails = |offset, length| {
            let reserve = Allocation::Reserve { keep_size: false };
            objects.allocate(INO, offset, length, reserve).unwrap_err()
        };
        assert_eq!(fails(1, MAX_FILE_BYTES), FsError::FileTooBig);
        assert_eq!(fails(u64::MAX, 2), FsError::FileTooBig);
        assert_eq!(fails(0, 1 << 60), FsError::NoSpace);
        // The reserve is not to be had.
        let room = Room::of(dir.path()).unwrap();
        let above = room.spare() + reserve(room.total) / 2;
        assert_eq!(fails(0, above), FsError::NoSpace);
        assert!(!super::super::objects::path(dir.path(), INO).exists());
    }
}
