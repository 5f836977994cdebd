//! Space of data objects: had in advance, given back, and looked for.

use super::objects::Objects;
use super::open::OpenObject;
use super::sums::BLOCK;
use pandofs_api::{Allocation, DataReply};
use pandofs_types::limits::MAX_FILE_BYTES;
use pandofs_types::{FsError, Ino};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

/// Bytes of the unit in which Linux counts space.
const SPACE_UNIT: u64 = 512;

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
        let object = match self.object(ino)? {
            Some(object) => object,
            // All of it is a hole already.
            None if !allocation.reserves() => return Ok(None),
            None => self.create(ino)?,
        };
        // The local file system would find out too, once it has given away all it has.
        if allocation.reserves() && length > self.room_for(ino, &object)? {
            return Err(FsError::NoSpace);
        }
        let allocated = object.checked.allocate(&range, allocation);
        self.count_change(&object);
        allocated.map_err(|error| self.failure("allocate", ino, &error))?;
        if allocation.zeroes() {
            let whole = range.start.div_ceil(BLOCK)..range.end / BLOCK;
            self.holdings.health.gone(ino, whole);
        }
        Ok(Some(object))
    }

    /// Bytes that the object has and those that it could get besides.
    fn room_for(&self, ino: Ino, object: &OpenObject) -> Result<u64, FsError> {
        let room = || {
            let space = rustix::fs::fstatvfs(object.checked.data())?;
            let has = object
                .checked
                .data()
                .metadata()?
                .blocks()
                .saturating_mul(SPACE_UNIT);
            io::Result::Ok(space.f_bfree.saturating_mul(space.f_frsize) + has)
        };
        room().map_err(|error| self.failure("statvfs", ino, &error))
    }

    pub(super) fn seek(&mut self, ino: Ino, offset: u64, data: bool) -> Result<DataReply, FsError> {
        checked(offset, 0)?;
        let found = match self.object(ino)? {
            None => None,
            Some(object) => {
                let from = if data {
                    SeekFrom::Data(offset)
                } else {
                    SeekFrom::Hole(offset)
                };
                match seek(object.checked.data(), from) {
                    Ok(found) => Some(found),
                    // At the object's end or beyond.
                    Err(Errno::NXIO) => None,
                    Err(error) => return Err(self.failure("seek in", ino, &error.into())),
                }
            }
        };
        let offset = if data { found } else { found.or(Some(offset)) };
        Ok(DataReply::Found { offset })
    }
}

/// Objects are no longer than files; the end of the range.
fn checked(offset: u64, length: u64) -> Result<Range<u64>, FsError> {
    match offset.checked_add(length) {
        Some(end) if end <= MAX_FILE_BYTES => Ok(offset..end),
        _ => Err(FsError::FileTooBig),
    }
}

#[cfg(test)]
mod tests {
    use super::super::objects::Holdings;
    use super::*;
    use pandofs_types::limits::SETTLE_AFTER;
    use std::fs;
    use tempfile::TempDir;

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
        let object = objects.object(INO).unwrap().unwrap();
        object.checked.data().metadata().unwrap().blocks()
    }

    fn found(objects: &mut Objects, offset: u64, data: bool) -> Option<u64> {
        match objects.seek(INO, offset, data).unwrap() {
            DataReply::Found { offset } => offset,
            other => panic!("{other:?}"),
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
        // What lies beyond the end goes when the object is cut to where it ends.
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
    fn what_cannot_be_had_is_refused() {
        let (_dir, mut objects) = objects();
        let mut fails = |offset, length| {
            let reserve = Allocation::Reserve { keep_size: false };
            objects.allocate(INO, offset, length, reserve).unwrap_err()
        };
        assert_eq!(fails(1, MAX_FILE_BYTES), FsError::FileTooBig);
        assert_eq!(fails(u64::MAX, 2), FsError::FileTooBig);
        assert_eq!(fails(0, 1 << 60), FsError::NoSpace);
    }
}
