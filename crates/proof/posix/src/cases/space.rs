//! `fallocate`, `SEEK_DATA` and `SEEK_HOLE`.

use crate::case::{Case, Outcome, holds, same};
use crate::files::{create, dir, pattern, write_all};
use crate::process::{ANN, as_user};
use crate::sys::*;

const KEEP: Falloc = Falloc::KEEP_SIZE;
const PUNCH: Falloc = Falloc::PUNCH_HOLE.union(KEEP);

fn blocks(fd: &OwnedFd) -> Outcome<i64> {
    fsync(fd).ok()?;
    Ok(fstat(fd).ok()?.st_blocks)
}

pub(super) const CASES: &[Case] = &[
    Case::new(
        "fallocate.grows",
        "fallocate(2): mode 0; posix_fallocate()",
        |_| {
            let fd = create("a")?;
            write(&fd, b"contents").gives(8)?;
            fallocate(&fd, Falloc::empty(), 0, 4).ok()?;
            same("size", fstat(&fd).ok()?.st_size, 8)?;
            fallocate(&fd, Falloc::empty(), 4, 2_000_000).ok()?;
            same("size", fstat(&fd).ok()?.st_size, 2_000_004)?;
            let found = contents(&fd).ok()?;
            same(
                "contents",
                found[..8] == b"contents"[..] && found[8..].iter().all(|it| *it == 0),
                true,
            )?;
            pwrite(&fd, b"x", 1_000_000).gives(1)?;
            pread(&fd, 3, 999_999).gives(b"\0x\0".to_vec())
        },
    ),
    Case::new(
        "fallocate.sets_space_aside",
        "fallocate(2): Allocating disk space",
        |_| {
            let fd = create("a")?;
            fallocate(&fd, Falloc::empty(), 0, 1 << 20).ok()?;
            let found = blocks(&fd)?;
            holds(
                "st_blocks of 1 MiB that was allocated",
                found >= 2_048,
                "2048 at least",
                found,
            )?;
            let fd = create("b")?;
            write(&fd, b"x").gives(1)?;
            fallocate(&fd, KEEP, 0, 1 << 20).ok()?;
            let found = blocks(&fd)?;
            holds(
                "st_blocks of 1 MiB beyond the end",
                found >= 2_048,
                "2048 at least",
                found,
            )
        },
    ),
    Case::new(
        "fallocate.keeps_the_size",
        "fallocate(2): FALLOC_FL_KEEP_SIZE",
        |_| {
            let fd = create("a")?;
            write(&fd, b"contents").gives(8)?;
            fallocate(&fd, KEEP, 0, 1 << 20).ok()?;
            same("size", fstat(&fd).ok()?.st_size, 8)?;
            contents(&fd).gives(b"contents".to_vec())?;
            ftruncate(&fd, 5_000).ok()?;
            same("zeros", contents(&fd).ok()?[8..] == [0; 4_992], true)
        },
    ),
    Case::new(
        "fallocate.punches_holes",
        "fallocate(2): FALLOC_FL_PUNCH_HOLE",
        |_| {
            let size = 4 << 20;
            let data = pattern(1, size);
            // Whole pages and blocks, parts of them, in the middle, at both ends, across and past
            // the end.
            for (offset, length) in [
                (4_096, 8_192),
                (5_000, 100),
                (4_000, 10_000),
                (0, 1),
                (0, 1 << 20),
                (1 << 20, 1 << 20),
                ((1 << 20) - 1, 2),
                (3 << 20, 2 << 20),
                (size - 5, 100),
                (size, 100),
                (1_000_000, 2_500_000),
            ] {
                let fd = open("a", O::RDWR | O::CREATE | O::TRUNC, 0o644).ok()?;
                write_all(&fd, &data)?;
                fallocate(&fd, PUNCH, offset as i64, length as i64)
                    .ok_or_not_offered(&[E::NOTSUP])?;
                let mut model = data.clone();
                let end = size.min(offset + length);
                model[offset.min(size)..end].fill(0);
                let what = format!("contents with a hole of {length} at {offset}");
                same("size", fstat(&fd).ok()?.st_size as usize, size)?;
                same(&what, contents(&fd).ok()? == model, true)?;
                same(
                    &format!("{what}, read anew"),
                    contents_of("a")? == model,
                    true,
                )?;
            }
            Ok(())
        },
    ),
    Case::new(
        "fallocate.punching_gives_space_back",
        "fallocate(2): Deallocating file space",
        |_| {
            let fd = create("a")?;
            write_all(&fd, &vec![1; 4 << 20])?;
            let before = blocks(&fd)?;
            fallocate(&fd, PUNCH, 1 << 20, 2 << 20).ok_or_not_offered(&[E::NOTSUP])?;
            let after = blocks(&fd)?;
            holds(
                "st_blocks after 2 of 4 MiB were punched",
                after <= before - 2_048,
                "less by much",
                (before, after),
            )
        },
    ),
    Case::new(
        "fallocate.zeroes",
        "fallocate(2): FALLOC_FL_ZERO_RANGE",
        |_| {
            let zero = Falloc::ZERO_RANGE;
            for (offset, length, mode, size) in [
                (100, 5_000, zero, 20_000),
                (0, 20_000, zero, 20_000),
                (19_000, 9_000, zero, 28_000),
                (19_000, 9_000, zero | KEEP, 20_000),
                (30_000, 100, zero, 30_100),
                (4_096, 4_096, zero | KEEP, 20_000),
            ] {
                let fd = open("a", O::RDWR | O::CREATE | O::TRUNC, 0o644).ok()?;
                let mut model = pattern(1, 20_000);
                write_all(&fd, &model)?;
                fallocate(&fd, mode, offset, length).ok_or_not_offered(&[E::NOTSUP])?;
                model.resize(size, 0);
                let end = size.min((offset + length) as usize);
                model[(offset as usize).min(end)..end].fill(0);
                let what = format!("contents with {length} zeros at {offset}");
                same("size", fstat(&fd).ok()?.st_size as usize, size)?;
                same(&what, contents(&fd).ok()? == model, true)?;
            }
            Ok(())
        },
    ),
    Case::new(
        "fallocate.collapses",
        "fallocate(2): FALLOC_FL_COLLAPSE_RANGE, [EOPNOTSUPP]",
        |_| {
            let fd = create("a")?;
            let data = pattern(1, 4 << 20);
            write_all(&fd, &data)?;
            let part = 1 << 20;
            fallocate(&fd, Falloc::COLLAPSE_RANGE, part, part).ok_or_not_offered(&[E::NOTSUP])?;
            let part = part as usize;
            same(
                "contents",
                contents(&fd).ok()? == [&data[..part], &data[2 * part..]].concat(),
                true,
            )?;
            fallocate(&fd, Falloc::COLLAPSE_RANGE, 2 << 20, 1 << 20).fails(E::INVAL)?;
            fallocate(&fd, Falloc::COLLAPSE_RANGE, 1, 4_096).fails(E::INVAL)
        },
    ),
    Case::new(
        "fallocate.inserts",
        "fallocate(2): FALLOC_FL_INSERT_RANGE, [EOPNOTSUPP]",
        |_| {
            let fd = create("a")?;
            let data = pattern(1, 2 << 20);
            write_all(&fd, &data)?;
            let part = 1 << 20;
            fallocate(&fd, Falloc::INSERT_RANGE, part, part).ok_or_not_offered(&[E::NOTSUP])?;
            let half = part as usize;
            same(
                "contents",
                contents(&fd).ok()? == [&data[..half], &vec![0; half], &data[half..]].concat(),
                true,
            )
        },
    ),
    Case::new(
        "fallocate.errors",
        "fallocate(2): [EINVAL], [EBADF], [EOPNOTSUPP], [EFBIG], [ESPIPE]",
        |_| {
            let fd = create("a")?;
            fallocate(&fd, Falloc::empty(), 0, 0).fails(E::INVAL)?;
            fallocate(&fd, Falloc::empty(), -1, 10).fails(E::INVAL)?;
            fallocate(&fd, Falloc::empty(), 0, -1).fails(E::INVAL)?;
            fallocate(&fd, Falloc::empty(), i64::MAX, 10).fails(E::FBIG)?;
            fallocate(&fd, Falloc::PUNCH_HOLE, 0, 10).fails(E::NOTSUP)?;
            fallocate(&fd, Falloc::from_bits_retain(1 << 20), 0, 10).fails(E::NOTSUP)?;
            let reader = open("a", O::RDONLY, 0).ok()?;
            fallocate(&reader, Falloc::empty(), 0, 10).fails(E::BADF)?;
            dir("d")?;
            fallocate(&opendir("d").ok()?, Falloc::empty(), 0, 10)
                .fails_with_one_of(&[E::BADF, E::ISDIR])?;
            mkfifo("f", 0o644).ok()?;
            let fifo = open("f", O::RDWR | O::NONBLOCK, 0).ok()?;
            fallocate(&fifo, Falloc::empty(), 0, 10).fails(E::SPIPE)?;
            same("size", fstat(&fd).ok()?.st_size, 0)
        },
    ),
    Case::new(
        "fallocate.more_than_there_is",
        "fallocate(2): [ENOSPC]",
        |_| {
            // Twice what the file system has in all, by a user, who gets nothing of a reserve; a
            // smaller largest file answers EFBIG.
            let fd = create("a")?;
            let found = statvfs(".").ok()?;
            let all = found
                .f_blocks
                .saturating_mul(found.f_frsize)
                .saturating_mul(2);
            as_user(ANN, || {
                fallocate(&fd, KEEP, 0, all.min(i64::MAX as u64) as i64)
                    .fails_with_one_of(&[E::NOSPC, E::FBIG])
            })?;
            ftruncate(&fd, 0).ok()
        },
    ),
    Case::new(
        "seek_hole.a_file_without_holes",
        "lseek(2): SEEK_DATA, SEEK_HOLE, [ENXIO]",
        |_| {
            let fd = create("a")?;
            write_all(&fd, &vec![1; 3_000_000])?;
            for offset in [0, 1, 4_096, 1_048_576, 2_999_999] {
                lseek(&fd, SeekFrom::Data(offset)).gives(offset)?;
                lseek(&fd, SeekFrom::Hole(offset)).gives(3_000_000)?;
            }
            for offset in [3_000_000, 3_000_001, 1 << 40] {
                lseek(&fd, SeekFrom::Data(offset)).fails(E::NXIO)?;
                lseek(&fd, SeekFrom::Hole(offset)).fails(E::NXIO)?;
            }
            // They move the offset as others do.
            lseek(&fd, SeekFrom::Hole(5)).gives(3_000_000)?;
            lseek(&fd, SeekFrom::Current(0)).gives(3_000_000)
        },
    ),
    Case::new(
        "seek_hole.small_and_empty",
        "lseek(2): SEEK_DATA, SEEK_HOLE",
        |_| {
            let fd = create("a")?;
            lseek(&fd, SeekFrom::Data(0)).fails(E::NXIO)?;
            lseek(&fd, SeekFrom::Hole(0)).fails(E::NXIO)?;
            write(&fd, b"contents").gives(8)?;
            lseek(&fd, SeekFrom::Data(3)).gives(3)?;
            lseek(&fd, SeekFrom::Hole(3)).gives(8)?;
            lseek(&fd, SeekFrom::Data(8)).fails(E::NXIO)
        },
    ),
    Case::new(
        "seek_hole.finds_all_data",
        "lseek(2): SEEK_DATA, SEEK_HOLE; all may be data",
        |_| {
            // A reported hole must hold no data; a file system may take holes for data.
            let fd = create("a")?;
            let parts = [
                (1 << 20, 5_000),
                (5 << 20, 1),
                ((9 << 20) + 17, 2 << 20),
                ((20 << 20) - 1, 1),
            ];
            for (offset, length) in parts {
                pwrite(&fd, &vec![7; length], offset).gives(length)?;
            }
            ftruncate(&fd, 30 << 20).ok()?;
            let size = 30 << 20;
            let mut at = 0;
            let mut data = Vec::new();
            while at < size {
                let start = match lseek(&fd, SeekFrom::Data(at)).result() {
                    Ok(start) => start,
                    Err(errno) => {
                        same("errno of SEEK_DATA in a hole at the end", errno, E::NXIO)?;
                        break;
                    }
                };
                holds(
                    "SEEK_DATA",
                    start >= at && start < size,
                    "at or after where it began",
                    start,
                )?;
                let end = lseek(&fd, SeekFrom::Hole(start)).ok()?;
                holds(
                    "SEEK_HOLE",
                    end > start && end <= size,
                    "after the data",
                    end,
                )?;
                data.push((start, end));
                at = end;
            }
            for (offset, length) in parts {
                let inside = data
                    .iter()
                    .any(|it| it.0 <= offset && offset + length as u64 <= it.1);
                holds(
                    &format!("data at {offset}"),
                    inside,
                    "in what SEEK_DATA finds",
                    &data,
                )?;
            }
            for (start, end) in &data {
                lseek(&fd, SeekFrom::Data(*start)).gives(*start)?;
                lseek(&fd, SeekFrom::Hole(*start)).gives(*end)?;
            }
            lseek(&fd, SeekFrom::Hole(size - 1)).gives(
                if data.last().map(|it| it.1) == Some(size) {
                    size
                } else {
                    size - 1
                },
            )
        },
    ),
    Case::new(
        "seek_hole.a_hole_is_not_all_data",
        "lseek(2): SEEK_HOLE, the simplest implementation",
        |_| {
            // Allowed is to have no holes at all; then this is not offered. Copies of sparse files
            // and `du` are the better for them.
            let fd = create("a")?;
            pwrite(&fd, b"x", 64 << 20).gives(1)?;
            fsync(&fd).ok()?;
            match lseek(&fd, SeekFrom::Hole(0)).ok()? {
                0 => Ok(()),
                found => Err(crate::case::Failure::NotOffered(format!(
                    "a hole of 64 MiB: SEEK_HOLE gives {found}"
                ))),
            }
        },
    ),
];
