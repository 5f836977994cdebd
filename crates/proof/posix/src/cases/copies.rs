//! `copy_file_range`, `sendfile` and `splice`.

use crate::case::{Case, holds, same};
use crate::files::{create, dir, file_with, pattern, write_all};
use crate::process::new_pipe;
use crate::sys::*;

/// A file with a pattern, and an empty one.
fn two(size: usize) -> crate::case::Outcome<(Vec<u8>, OwnedFd, OwnedFd)> {
    let data = pattern(1, size);
    let from = create("from")?;
    write_all(&from, &data)?;
    Ok((data, from, create("to")?))
}

/// Copies until so much is copied or the source has ended.
fn copy_all(
    from: (&OwnedFd, u64),
    to: (&OwnedFd, u64),
    count: usize,
) -> crate::case::Outcome<usize> {
    let mut done = 0;
    while done < count {
        let (start, target) = (from.1 + done as u64, to.1 + done as u64);
        match copy_file_range((from.0, Some(start)), (to.0, Some(target)), count - done).ok()? {
            0 => break,
            more => done += more,
        }
    }
    Ok(done)
}

pub(super) const CASES: &[Case] = &[
    Case::new("copy_file_range.copies", "copy_file_range(2)", |_| {
        let (data, from, to) = two(3_500_000)?;
        for (start, target, count) in [
            (0, 0, 3_500_000),
            (10, 0, 5_000),
            (0, 10, 5_000),
            (1 << 20, 3 << 20, 1 << 20),
            (3_000_000, 7, 900_000),
        ] {
            ftruncate(&to, 0).ok()?;
            let done = copy_all((&from, start as u64), (&to, target as u64), count)?;
            let end = data.len().min(start + count);
            same("bytes copied", done, end - start)?;
            let mut model = vec![0; target];
            model.extend_from_slice(&data[start..end]);
            same(
                &format!("contents of {count} bytes from {start} to {target}"),
                contents(&to).ok()? == model,
                true,
            )?;
        }
        Ok(())
    }),
    Case::new(
        "copy_file_range.offsets",
        "copy_file_range(2): off_in, off_out NULL",
        |_| {
            let (data, from, to) = two(1_000)?;
            lseek(&from, SeekFrom::Start(100)).gives(100)?;
            copy_file_range((&from, None), (&to, None), 200).gives(200)?;
            lseek(&from, SeekFrom::Current(0)).gives(300)?;
            lseek(&to, SeekFrom::Current(0)).gives(200)?;
            copy_file_range((&from, Some(0)), (&to, None), 50).gives(50)?;
            lseek(&from, SeekFrom::Current(0)).gives(300)?;
            contents(&to).gives([&data[100..300], &data[..50]].concat())?;
            // At the end there is nothing left.
            copy_file_range((&from, Some(1_000)), (&to, None), 10).gives(0)?;
            copy_file_range((&from, Some(5_000)), (&to, None), 10).gives(0)?;
            copy_file_range((&from, Some(900)), (&to, None), 1_000).gives(100)
        },
    ),
    Case::new(
        "copy_file_range.within_one_file",
        "copy_file_range(2): [EINVAL] overlap",
        |_| {
            let (data, from, _) = two(10_000)?;
            copy_file_range((&from, Some(0)), (&from, Some(10_000)), 10_000).gives(10_000)?;
            contents(&from).gives([data.clone(), data].concat())?;
            copy_file_range((&from, Some(0)), (&from, Some(5_000)), 10_000).fails(E::INVAL)?;
            copy_file_range((&from, Some(5_000)), (&from, Some(0)), 10_000).fails(E::INVAL)
        },
    ),
    Case::new(
        "copy_file_range.what_was_just_written",
        "copy_file_range(2)",
        |_| {
            let (_, from, to) = two(100_000)?;
            pwrite(&from, b"just now", 50_000).gives(8)?;
            same(
                "bytes copied",
                copy_all((&from, 0), (&to, 0), 100_000)?,
                100_000,
            )?;
            pread(&to, 8, 50_000).gives(b"just now".to_vec())?;
            // And what is in the target's cache is not what is read after.
            contents(&to).ok()?;
            pwrite(&from, b"and then", 50_000).gives(8)?;
            same(
                "bytes copied",
                copy_all((&from, 40_000), (&to, 40_000), 20_000)?,
                20_000,
            )?;
            pread(&to, 8, 50_000).gives(b"and then".to_vec())?;
            same("contents", contents_of("to")? == contents_of("from")?, true)
        },
    ),
    Case::new(
        "copy_file_range.errors",
        "copy_file_range(2): [EBADF], [EISDIR], [EINVAL]",
        |_| {
            let (_, from, to) = two(100)?;
            let reader = open("to", O::RDONLY, 0).ok()?;
            let writer = open("from", O::WRONLY, 0).ok()?;
            let appender = open("to", O::RDWR | O::APPEND, 0).ok()?;
            copy_file_range((&from, None), (&reader, None), 10).fails(E::BADF)?;
            copy_file_range((&writer, None), (&to, None), 10).fails(E::BADF)?;
            copy_file_range((&from, None), (&appender, None), 10).fails(E::BADF)?;
            dir("d")?;
            copy_file_range((&opendir("d").ok()?, None), (&to, None), 10).fails(E::ISDIR)?;
            let (pipe, _writer) = new_pipe()?;
            copy_file_range((&pipe, None), (&to, None), 10).fails(E::INVAL)?;
            copy_file_range_flags(&from, &to, 1).fails(E::INVAL)?;
            same("size", fstat(&to).ok()?.st_size, 0)
        },
    ),
    Case::new("sendfile.between_files", "sendfile(2)", |_| {
        let (data, from, to) = two(300_000)?;
        lseek(&from, SeekFrom::Start(0)).gives(0)?;
        let mut done = 0;
        while done < data.len() {
            let more = sendfile(&to, &from, None, data.len() - done).ok()?;
            holds("sendfile()", more > 0, "bytes", more)?;
            done += more;
        }
        same("contents", contents(&to).ok()? == data, true)?;
        lseek(&from, SeekFrom::Current(0)).gives(300_000)?;
        let mut offset = 100;
        ftruncate(&to, 0).ok()?;
        lseek(&to, SeekFrom::Start(0)).gives(0)?;
        sendfile(&to, &from, Some(&mut offset), 50).gives(50)?;
        same("offset after", offset, 150)?;
        lseek(&from, SeekFrom::Current(0)).gives(300_000)?;
        contents(&to).gives(data[100..150].to_vec())
    }),
    Case::new("splice.through_a_pipe", "splice(2)", |_| {
        let (data, from, to) = two(50_000)?;
        let (reader, writer) = new_pipe()?;
        lseek(&from, SeekFrom::Start(0)).gives(0)?;
        let mut done = 0;
        while done < data.len() {
            let count = splice(&from, &writer, 4_096).ok()?;
            holds("splice()", count > 0, "bytes", count)?;
            let mut left = count;
            while left > 0 {
                left -= splice(&reader, &to, left).ok()?;
            }
            done += count;
        }
        same("contents", contents(&to).ok()? == data, true)?;
        file_with("other", b"x")?;
        splice(&from, &to, 10).fails(E::INVAL)
    }),
];
