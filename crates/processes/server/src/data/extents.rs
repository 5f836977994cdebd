//! Extents of a file: the ranges in which it has space on the disk.

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, ioctl};
use std::fs::File;
use std::io;
use std::ops::Range;

/// Extents that are asked for at once.
const EXTENTS: usize = 64;
/// Linux's `FS_IOC_FIEMAP`, `_IOWR('f', 11, struct fiemap)`.
const FIEMAP: Opcode = 0xc020_660b;
/// Nothing follows (`FIEMAP_EXTENT_LAST`).
const LAST: u32 = 1;

/// Linux's `struct fiemap` with room for some extents.
#[repr(C)]
struct Map {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [Extent; EXTENTS],
}

/// Linux's `struct fiemap_extent`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    reserved_too: [u32; 3],
}

const _: () = assert!(size_of::<Extent>() == 56 && size_of::<Map>() == 32 + 56 * EXTENTS);

/// The parts of `range` that have no space: to write there takes some. A part that is reserved and
/// was never written has space, which `SEEK_HOLE` does not tell.
///
/// # Errors
/// The system's.
pub(super) fn without_space(file: &File, range: &Range<u64>) -> io::Result<Vec<Range<u64>>> {
    let mut gaps = Vec::new();
    let mut at = range.start;
    while at < range.end {
        let map = match extents(file, at..range.end) {
            // As on tmpfs.
            Err(Errno::OPNOTSUPP | Errno::NOTTY | Errno::INVAL) => return holes(file, range),
            map => map?,
        };
        let mut is_last = map.mapped == 0;
        for extent in map.extents.iter().take(map.mapped as usize) {
            if at < extent.logical {
                gaps.push(at..extent.logical.min(range.end));
            }
            at = at.max(extent.logical.saturating_add(extent.length));
            is_last |= extent.flags & LAST != 0;
        }
        if is_last {
            if at < range.end {
                gaps.push(at..range.end);
            }
            break;
        }
    }
    Ok(gaps)
}

fn extents(file: &File, range: Range<u64>) -> Result<Map, Errno> {
    let nothing = Extent {
        logical: 0,
        physical: 0,
        length: 0,
        reserved: [0; 2],
        flags: 0,
        reserved_too: [0; 3],
    };
    let mut map = Map {
        start: range.start,
        length: range.end - range.start,
        flags: 0,
        mapped: 0,
        count: EXTENTS as u32,
        reserved: 0,
        extents: [nothing; EXTENTS],
    };
    // SAFETY: `Map` is laid out as the kernel's `struct fiemap` followed by `count` extents, and the kernel
    // writes no more than it read the room for. Every value of its fields is valid.
    let update = unsafe { Updater::<FIEMAP, Map>::new(&mut map) };
    // SAFETY: the operation code is that of the type.
    unsafe { ioctl(file, update) }?;
    Ok(map)
}

/// Where there is something other than a hole next, from `offset` on.
pub(crate) fn next_data(file: &File, offset: u64) -> io::Result<Option<u64>> {
    match seek(file, SeekFrom::Data(offset)) {
        Ok(at) => Ok(Some(at)),
        // No more, or beyond the end.
        Err(Errno::NXIO) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The same by what holds data, on file systems that say nothing else.
fn holes(file: &File, range: &Range<u64>) -> io::Result<Vec<Range<u64>>> {
    let mut gaps = Vec::new();
    let mut at = range.start;
    while at < range.end {
        let data = next_data(file, at)?.map_or(range.end, |data| data.min(range.end));
        if at < data {
            gaps.push(at..data);
        }
        if data == range.end {
            break;
        }
        at = seek(file, SeekFrom::Hole(data))?;
    }
    Ok(gaps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{FallocateFlags, fallocate};
    use std::os::unix::fs::FileExt;

    const UNIT: u64 = 64 << 10;

    #[test]
    fn what_was_written_or_reserved_has_space() {
        let file = tempfile::tempfile().unwrap();
        let all = 0..100 * UNIT;
        assert_eq!(
            without_space(&file, &all).unwrap(),
            std::slice::from_ref(&all)
        );
        let kept = FallocateFlags::KEEP_SIZE;
        fallocate(&file, kept, 10 * UNIT, UNIT).unwrap();
        file.write_all_at(&[1; UNIT as usize], 20 * UNIT).unwrap();
        assert_eq!(
            without_space(&file, &all).unwrap(),
            [0..10 * UNIT, 11 * UNIT..20 * UNIT, 21 * UNIT..100 * UNIT]
        );
        let within = 10 * UNIT + 5..11 * UNIT - 5;
        assert_eq!(without_space(&file, &within).unwrap(), []);
        let empty = 5..5;
        assert_eq!(without_space(&file, &empty).unwrap(), []);
        // Reserved space counts as a hole here.
        assert_eq!(
            holes(&file, &all).unwrap(),
            [0..20 * UNIT, 21 * UNIT..100 * UNIT]
        );
    }

    #[test]
    fn more_extents_than_are_asked_for_at_once() {
        let file = tempfile::tempfile().unwrap();
        let count = 3 * EXTENTS as u64;
        for at in 0..count {
            file.write_all_at(&[1; 4_096], 2 * at * UNIT).unwrap();
        }
        file.sync_all().unwrap();
        let gaps = without_space(&file, &(0..2 * count * UNIT)).unwrap();
        assert_eq!(gaps.len() as u64, count);
        assert_eq!(gaps[0], 4_096..2 * UNIT);
    }
}
