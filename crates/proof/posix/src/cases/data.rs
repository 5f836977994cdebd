//! Reading and writing: offsets, holes, ends of files, appending, limits.

use crate::case::{Case, Outcome, holds, same};
use crate::files::{Numbers, create, dir, file_with, pattern, write_all};
use crate::process::{Peer, in_child};
use crate::sys::*;

pub(super) const CASES: &[Case] = &[
    Case::new("read.moves_the_offset", "read(); write(); lseek()", |_| {
        let fd = create("a")?;
        write(&fd, b"0123456789").gives(10)?;
        lseek(&fd, SeekFrom::Current(0)).gives(10)?;
        read(&fd, 5).gives(vec![])?;
        lseek(&fd, SeekFrom::Start(2)).gives(2)?;
        read(&fd, 3).gives(b"234".to_vec())?;
        read(&fd, 3).gives(b"567".to_vec())?;
        read(&fd, 30).gives(b"89".to_vec())?;
        lseek(&fd, SeekFrom::End(-3)).gives(7)?;
        write(&fd, b"x").gives(1)?;
        lseek(&fd, SeekFrom::Current(-2)).gives(6)?;
        read(&fd, 4).gives(b"6x89".to_vec())
    }),
    Case::new(
        "read.pread_and_pwrite_leave_the_offset",
        "pread(); pwrite()",
        |_| {
            let fd = create("a")?;
            write(&fd, b"0123456789").gives(10)?;
            lseek(&fd, SeekFrom::Start(4)).gives(4)?;
            pread(&fd, 3, 1).gives(b"123".to_vec())?;
            pwrite(&fd, b"xy", 7).gives(2)?;
            lseek(&fd, SeekFrom::Current(0)).gives(4)?;
            read(&fd, 10).gives(b"456xy9".to_vec())?;
            pread(&fd, 5, 10).gives(vec![])?;
            pread(&fd, 5, 1 << 40).gives(vec![])?;
            pread(&fd, 5, u64::MAX).fails(E::INVAL)?;
            pwrite(&fd, b"x", u64::MAX).fails(E::INVAL)
        },
    ),
    Case::new("read.lseek_errors", "lseek(): [EINVAL], [ESPIPE]", |_| {
        let fd = create("a")?;
        write(&fd, b"0123456789").gives(10)?;
        lseek(&fd, SeekFrom::Current(-11)).fails(E::INVAL)?;
        lseek(&fd, SeekFrom::End(-11)).fails(E::INVAL)?;
        lseek(&fd, SeekFrom::Start(u64::MAX)).fails(E::INVAL)?;
        // Past the end is allowed, and makes the file no longer.
        lseek(&fd, SeekFrom::End(1_000_000)).gives(1_000_010)?;
        read(&fd, 1).gives(vec![])?;
        same("size", fstat(&fd).ok()?.st_size, 10)
    }),
    Case::new(
        "read.of_nothing",
        "read(): nbyte 0; write(): nbyte 0",
        |_| {
            let fd = create("a")?;
            write(&fd, b"").gives(0)?;
            read(&fd, 0).gives(vec![])?;
            pwrite(&fd, b"", 1_000).gives(0)?;
            same("size", fstat(&fd).ok()?.st_size, 0)
        },
    ),
    Case::new("read.vectors", "readv(); writev()", |_| {
        let fd = create("a")?;
        writev(&fd, &[b"one", b"", b"three", b"four"]).gives(12)?;
        lseek(&fd, SeekFrom::Start(0)).gives(0)?;
        readv(&fd, &[2, 0, 7, 20]).gives(b"onethreefour".to_vec())
    }),
    Case::new(
        "read.shared_offset",
        "dup(); fork(): open file description",
        |_| {
            let fd = create("a")?;
            let other = dup(&fd).ok()?;
            write(&fd, b"one").gives(3)?;
            write(&other, b"two").gives(3)?;
            in_child(|| write(&fd, b"three").gives(5))?;
            lseek(&other, SeekFrom::Current(0)).gives(11)?;
            let apart = open("a", O::RDONLY, 0).ok()?;
            lseek(&apart, SeekFrom::Current(0)).gives(0)?;
            contents(&apart).gives(b"onetwothree".to_vec())
        },
    ),
    Case::new(
        "write.is_seen_at_once",
        "write(): visible to any read()",
        |_| {
            let writer = create("a")?;
            let reader = open("a", O::RDONLY, 0).ok()?;
            let mut all = Vec::new();
            for round in 0..200 {
                let part = pattern(round, 1 + 37 * round as usize);
                write(&writer, &part).gives(part.len())?;
                all.extend_from_slice(&part);
                same("size", fstat(&reader).ok()?.st_size as usize, all.len())?;
                same("size by name", lstat("a").ok()?.st_size as usize, all.len())?;
                read(&reader, part.len()).gives(part)?;
            }
            in_child(|| same("contents", contents_of("a")? == all, true))
        },
    ),
    Case::new(
        "write.past_the_end_leaves_a_hole",
        "lseek(): gap reads as zero",
        |_| {
            for gap in [
                1,
                100,
                4_095,
                4_096,
                4_097,
                70_000,
                (1 << 20) - 1,
                (1 << 20) + 1,
                9 << 20,
            ] {
                let fd = open("a", O::RDWR | O::CREATE | O::TRUNC, 0o644).ok()?;
                write(&fd, b"head").gives(4)?;
                pwrite(&fd, b"tail", 4 + gap).gives(4)?;
                let mut expected = b"head".to_vec();
                expected.resize(4 + gap as usize, 0);
                expected.extend_from_slice(b"tail");
                let found = contents(&fd).ok()?;
                same(
                    &format!("bytes with a gap of {gap}"),
                    found.len(),
                    expected.len(),
                )?;
                same(&format!("zeros in a gap of {gap}"), found == expected, true)?;
            }
            Ok(())
        },
    ),
    Case::new("write.far_out", "off_t: 64 bits", |_| {
        // 8 TiB is below what ext4 with 4 KiB blocks allows (16 TiB).
        const FAR: u64 = 8 << 40;
        let fd = create("a")?;
        pwrite(&fd, b"far", FAR).gives(3)?;
        let stat = fstat(&fd).ok()?;
        same("size", stat.st_size as u64, FAR + 3)?;
        pread(&fd, 10, FAR - 2).gives(b"\0\0far".to_vec())?;
        pread(&fd, 4, FAR / 2).gives(vec![0; 4])?;
        holds(
            "space of 3 bytes far out",
            stat.st_blocks < 2_048,
            "less than 1 MiB",
            stat.st_blocks,
        )?;
        ftruncate(&fd, 3).ok()?;
        contents(&fd).gives(vec![0; 3])
    }),
    Case::new(
        "write.beyond_all_limits",
        "write(): [EFBIG]; pwrite(): [EINVAL]",
        |_| {
            let fd = create("a")?;
            pwrite(&fd, b"xx", i64::MAX as u64).fails_with_one_of(&[E::INVAL, E::FBIG])?;
            ftruncate(&fd, -1).fails(E::INVAL)?;
            same("size", fstat(&fd).ok()?.st_size, 0)
        },
    ),
    Case::new(
        "write.no_more_than_the_process_may",
        "write(): [EFBIG]; setrlimit(): RLIMIT_FSIZE",
        |_| {
            let fd = create("a")?;
            in_child(|| {
                limit_file_size(10_000).ok()?;
                write(&fd, &[1; 8_000]).gives(8_000)?;
                write(&fd, &[2; 8_000]).gives(2_000)?;
                write(&fd, &[3; 8_000]).fails(E::FBIG)?;
                ftruncate(&fd, 10_001).fails(E::FBIG)?;
                truncate("a", 10_001).fails(E::FBIG)?;
                fallocate(&fd, Falloc::empty(), 0, 10_001).fails(E::FBIG)?;
                pwrite(&fd, &[4; 10], 9_999).gives(1)
            })?;
            same("size", fstat(&fd).ok()?.st_size, 10_000)
        },
    ),
    Case::new("write.across_boundaries", "write(); read()", |_| {
        // Pages, blocks, and sizes at which a file system may change how it keeps a file.
        for boundary in [512_u64, 4_096, 8_192, 65_536, 131_072, 1 << 20, 4 << 20] {
            let fd = open("a", O::RDWR | O::CREATE | O::TRUNC, 0o644).ok()?;
            let start = pattern(boundary, boundary as usize + 10);
            write_all(&fd, &start)?;
            let mut model = start;
            for (offset, length) in [
                (boundary - 1, 2),
                (boundary, 1),
                (boundary - 7, 300),
                (boundary + 5, 9_000),
            ] {
                let part = pattern(offset + length, length as usize);
                pwrite(&fd, &part, offset).gives(part.len())?;
                let end = (offset + length) as usize;
                model.resize(model.len().max(end), 0);
                model[offset as usize..end].copy_from_slice(&part);
                same(
                    &format!("contents around {boundary}"),
                    contents(&fd).ok()? == model,
                    true,
                )?;
            }
            pread(&fd, 2, boundary - 1).gives(model[boundary as usize - 1..][..2].to_vec())?;
        }
        Ok(())
    }),
    Case::new("write.like_a_model", "write(); read(); ftruncate()", |_| {
        (1..=8).try_for_each(like_a_model)
    }),
    Case::new("append.goes_to_the_end", "write(): O_APPEND", |_| {
        file_with("a", b"head")?;
        let fd = open("a", O::RDWR | O::APPEND, 0).ok()?;
        read(&fd, 2).gives(b"he".to_vec())?;
        write(&fd, b"1").gives(1)?;
        lseek(&fd, SeekFrom::Current(0)).gives(5)?;
        lseek(&fd, SeekFrom::Start(0)).gives(0)?;
        write(&fd, b"2").gives(1)?;
        let other = open("a", O::WRONLY, 0).ok()?;
        pwrite(&other, b"3", 6).gives(1)?;
        write(&fd, b"4").gives(1)?;
        truncate("a", 2).ok()?;
        write(&fd, b"5").gives(1)?;
        same("contents", contents_of("a")?, b"he5".to_vec())
    }),
    Case::new("append.by_fcntl", "fcntl(): F_SETFL O_APPEND", |_| {
        let fd = create("a")?;
        write(&fd, b"head").gives(4)?;
        lseek(&fd, SeekFrom::Start(0)).gives(0)?;
        set_flags(&fd, O::APPEND).ok()?;
        write(&fd, b"tail").gives(4)?;
        set_flags(&fd, O::empty()).ok()?;
        pwrite(&fd, b"H", 0).gives(1)?;
        same("contents", contents_of("a")?, b"Headtail".to_vec())
    }),
    Case::new("append.pwrite_appends", "pwrite(2): BUGS, O_APPEND", |_| {
        file_with("a", b"head")?;
        let fd = open("a", O::RDWR | O::APPEND, 0).ok()?;
        pwrite(&fd, b"tail", 0).gives(4)?;
        same("contents", contents_of("a")?, b"headtail".to_vec())
    }),
    Case::new(
        "append.of_several_processes",
        "write(): O_APPEND, no intervening modification",
        |_| {
            const EACH: usize = 200;
            const LENGTH: usize = 57;
            drop(create("a")?);
            let writers: Vec<_> = (b'a'..b'e')
                .map(|letter| {
                    Peer::start(move |line| {
                        let fd = open("a", O::WRONLY | O::APPEND, 0).ok()?;
                        line.hear()?;
                        (0..EACH).try_for_each(|_| write(&fd, &[letter; LENGTH]).gives(LENGTH))
                    })
                })
                .collect::<Result<_, _>>()?;
            writers.iter().try_for_each(|it| it.tell())?;
            writers.into_iter().try_for_each(|it| it.join())?;
            let found = contents_of("a")?;
            same("bytes", found.len(), 4 * EACH * LENGTH)?;
            let whole = found
                .chunks(LENGTH)
                .all(|it| it.iter().all(|byte| *byte == it[0]));
            same("every record is whole", whole, true)
        },
    ),
    Case::new(
        "write.bytes_left",
        "ioctl_tty(2): FIONREAD on a file",
        |_| {
            let fd = create("a")?;
            write(&fd, &[1; 1_000]).gives(1_000)?;
            lseek(&fd, SeekFrom::Start(300)).gives(300)?;
            bytes_left(&fd).gives(700)
        },
    ),
    Case::new("truncate.cuts_and_grows", "truncate(); ftruncate()", |_| {
        for (from, to) in [
            (0, 1),
            (10, 3),
            (10, 5_000),
            (5_000, 10),
            (4_096, 4_097),
            (4_097, 4_096),
            (4_097, 1),
            (70_000, 4_096),
            (1_048_577, 1_048_576),
            (1_048_576, 1_048_577),
            (3_000_000, 5),
            (5, 3_000_000),
            (3_000_000, 0),
            (2_500_000, 1_500_000),
        ] {
            for by_name in [true, false] {
                let fd = open("a", O::RDWR | O::CREATE | O::TRUNC, 0o644).ok()?;
                let mut model = pattern(from + to, from as usize);
                write_all(&fd, &model)?;
                if by_name {
                    truncate("a", to as i64).ok()?;
                } else {
                    ftruncate(&fd, to as i64).ok()?;
                }
                model.resize(to as usize, 0);
                same(
                    &format!("size from {from} to {to}"),
                    fstat(&fd).ok()?.st_size as u64,
                    to,
                )?;
                same(
                    &format!("contents from {from} to {to}"),
                    contents(&fd).ok()? == model,
                    true,
                )?;
            }
        }
        Ok(())
    }),
    Case::new(
        "truncate.nothing_comes_back",
        "truncate(): extended part reads as zero",
        |_| {
            for cut in [
                0,
                1,
                100,
                4_095,
                4_096,
                4_097,
                100_000,
                1 << 20,
                (1 << 20) + 1,
            ] {
                let fd = open("a", O::RDWR | O::CREATE | O::TRUNC, 0o644).ok()?;
                write_all(&fd, &vec![0xff; 2_200_000])?;
                ftruncate(&fd, cut).ok()?;
                ftruncate(&fd, 2_200_000).ok()?;
                let mut model = vec![0xff; cut as usize];
                model.resize(2_200_000, 0);
                same(
                    &format!("contents cut to {cut} and grown"),
                    contents(&fd).ok()? == model,
                    true,
                )?;
                // The same, with a write instead of the growing.
                ftruncate(&fd, cut).ok()?;
                pwrite(&fd, b"x", cut as u64 + 5_000).gives(1)?;
                pread(&fd, 5_001, cut as u64).gives([vec![0; 5_000], b"x".to_vec()].concat())?;
            }
            Ok(())
        },
    ),
    Case::new(
        "truncate.errors",
        "truncate(): [EINVAL], [EISDIR], [ENOENT], [ENOTDIR], [EACCES]",
        |_| {
            file_with("a", b"contents")?;
            dir("d")?;
            mkfifo("f", 0o644).ok()?;
            truncate("a", -1).fails(E::INVAL)?;
            truncate("d", 0).fails(E::ISDIR)?;
            truncate("no", 0).fails(E::NOENT)?;
            truncate("a/b", 0).fails(E::NOTDIR)?;
            truncate("f", 0).fails(E::INVAL)?;
            let fd = open("a", O::RDONLY, 0).ok()?;
            ftruncate(&fd, 0).fails_with_one_of(&[E::INVAL, E::BADF])?;
            let fd = open("a", O::RDWR, 0).ok()?;
            ftruncate(&fd, -1).fails(E::INVAL)?;
            ftruncate(&opendir("d").ok()?, 0).fails_with_one_of(&[E::INVAL, E::BADF])?;
            crate::process::as_user(crate::process::ANN, || truncate("a", 0).fails(E::ACCESS))?;
            contents(&fd).gives(b"contents".to_vec())
        },
    ),
    Case::new(
        "truncate.too_large",
        "truncate(): [EFBIG], [EINVAL]",
        |_| {
            // The largest file of a file system may have any size; what is too much is refused,
            // what is not is there.
            let fd = create("a")?;
            match ftruncate(&fd, i64::MAX).result() {
                Ok(()) => same("size", fstat(&fd).ok()?.st_size, i64::MAX),
                Err(errno) => {
                    holds(
                        "errno",
                        [E::FBIG, E::INVAL].contains(&errno),
                        "EFBIG or EINVAL",
                        errno,
                    )?;
                    same("size", fstat(&fd).ok()?.st_size, 0)
                }
            }
        },
    ),
    Case::new(
        "truncate.leaves_offsets",
        "ftruncate(): file offset",
        |_| {
            let fd = create("a")?;
            write(&fd, b"0123456789").gives(10)?;
            ftruncate(&fd, 2).ok()?;
            lseek(&fd, SeekFrom::Current(0)).gives(10)?;
            write(&fd, b"x").gives(1)?;
            contents(&fd).gives(b"01\0\0\0\0\0\0\0\0x".to_vec())
        },
    ),
    Case::new(
        "sync.every_way",
        "fsync(); fdatasync(); syncfs(2); sync_file_range(2)",
        |_| {
            let fd = create("a")?;
            write_all(&fd, &pattern(1, 300_000))?;
            fsync(&fd).ok()?;
            fdatasync(&fd).ok()?;
            syncfs(&fd).ok()?;
            let all = libc::SYNC_FILE_RANGE_WAIT_BEFORE
                | libc::SYNC_FILE_RANGE_WRITE
                | libc::SYNC_FILE_RANGE_WAIT_AFTER;
            sync_file_range(&fd, 0, 0, all).ok()?;
            // A descriptor that is only for reading forces as well, and so does that of a
            // directory.
            let reader = open("a", O::RDONLY, 0).ok()?;
            fsync(&reader).ok()?;
            fdatasync(&reader).ok()?;
            dir("d")?;
            let d = opendir("d").ok()?;
            fsync(&d).ok()?;
            fdatasync(&d).ok()?;
            syncfs(&d).ok()?;
            mkfifo("f", 0o644).ok()?;
            let fifo = open("f", O::RDWR | O::NONBLOCK, 0).ok()?;
            fsync(&fifo).fails(E::INVAL)?;
            posix_fadvise(&fd, 0, 0, libc::POSIX_FADV_DONTNEED).ok()?;
            same("contents", contents(&fd).ok()? == pattern(1, 300_000), true)
        },
    ),
];

/// Writes, reads and truncates at random places, beside a vector that must hold the same.
fn like_a_model(seed: u64) -> Outcome {
    const STEPS: usize = 150;
    const LARGEST: u64 = 2_500_000;
    let fd = open("a", O::RDWR | O::CREATE | O::TRUNC, 0o644).ok()?;
    let mut model: Vec<u8> = Vec::new();
    let mut numbers = Numbers(seed);
    for step in 0..STEPS {
        // Small and large steps, so that files of all sizes are met.
        let scale = [100, 6_000, 70_000, LARGEST][numbers.below(4) as usize];
        let offset = numbers.below(scale);
        let length = numbers.below(scale.min(200_000)) as usize;
        let what = format!("step {step} of seed {seed}");
        match numbers.below(8) {
            0 => {
                ftruncate(&fd, offset as i64).ok()?;
                model.resize(offset as usize, 0);
            }
            1..=4 => {
                let part = pattern(step as u64, length);
                pwrite(&fd, &part, offset).gives(length)?;
                let end = offset as usize + length;
                if length > 0 {
                    model.resize(model.len().max(end), 0);
                    model[offset as usize..end].copy_from_slice(&part);
                }
            }
            _ => {
                let found = pread(&fd, length, offset).ok()?;
                let start = model.len().min(offset as usize);
                let end = model.len().min(offset as usize + length);
                same(&what, found == model[start..end], true)?;
            }
        }
        same(&what, fstat(&fd).ok()?.st_size as usize, model.len())?;
    }
    same(
        &format!("contents in the end, seed {seed}"),
        contents_of("a")? == model,
        true,
    )
}
