//! Mapped files, and that they agree with `read` and `write`.

use crate::case::{Case, same};
use crate::files::{create, file_with, pattern, write_all};
use crate::process::{Peer, in_child};
use crate::sys::*;
use rustix::mm::{MapFlags, MsyncFlags};

pub(super) const CASES: &[Case] = &[
    Case::new(
        "mmap.shows_the_file",
        "mmap(): MAP_SHARED, MAP_PRIVATE",
        |_| {
            let data = pattern(1, 3 * PAGE + 100);
            file_with("a", &data)?;
            let fd = open("a", O::RDONLY, 0).ok()?;
            for flags in [MapFlags::SHARED, MapFlags::PRIVATE] {
                let mapping = map(&fd, data.len(), false, flags).ok()?;
                same("contents", mapping.bytes(0, data.len()) == data, true)?;
            }
            Ok(())
        },
    ),
    Case::new(
        "mmap.shared_writes_reach_the_file",
        "mmap(): MAP_SHARED; msync()",
        |_| {
            let fd = create("a")?;
            write_all(&fd, &[b'.'; 2 * PAGE])?;
            let mapping = map_shared(&fd, 2 * PAGE).ok()?;
            mapping.fill(PAGE - 3, b"mapped");
            // On Linux read() and mappings share pages: nothing has to be synced for one to see the
            // other.
            pread(&fd, 6, PAGE as u64 - 3).gives(b"mapped".to_vec())?;
            in_child(|| {
                same(
                    "read elsewhere",
                    contents_of("a")?[PAGE - 3..][..6].to_vec(),
                    b"mapped".to_vec(),
                )
            })?;
            mapping.sync(MsyncFlags::SYNC).ok()?;
            mapping.sync(MsyncFlags::ASYNC).ok()?;
            drop(mapping);
            drop(fd);
            same(
                "contents",
                contents_of("a")?[PAGE - 3..][..6].to_vec(),
                b"mapped".to_vec(),
            )
        },
    ),
    Case::new(
        "mmap.writes_reach_the_mapping",
        "mmap(): MAP_SHARED; write()",
        |_| {
            let fd = create("a")?;
            write_all(&fd, &[b'.'; 2 * PAGE])?;
            let mapping = map_shared(&fd, 2 * PAGE).ok()?;
            same("before", mapping.byte(10), b'.')?;
            let other = open("a", O::WRONLY, 0).ok()?;
            for (at, byte) in [(10, b'x'), (PAGE, b'y'), (2 * PAGE - 1, b'z')] {
                pwrite(&other, &[byte], at as u64).gives(1)?;
                same("a byte that was written", mapping.byte(at), byte)?;
            }
            in_child(|| pwrite(&open("a", O::WRONLY, 0).ok()?, b"elsewhere", 20).gives(9))?;
            same(
                "bytes written elsewhere",
                mapping.bytes(20, 9),
                b"elsewhere".to_vec(),
            )
        },
    ),
    Case::new("mmap.two_mappings_agree", "mmap(): MAP_SHARED", |_| {
        let fd = create("a")?;
        write_all(&fd, &[0; PAGE])?;
        let one = map_shared(&fd, PAGE).ok()?;
        let two = map_shared(&open("a", O::RDWR, 0).ok()?, PAGE).ok()?;
        one.set(5, 5);
        same("a byte", two.byte(5), 5)?;
        let peer = Peer::start(|line| {
            let three = map_shared(&open("a", O::RDWR, 0).ok()?, PAGE).ok()?;
            same("a byte", three.byte(5), 5)?;
            three.set(6, 6);
            line.tell()?;
            line.hear()?;
            same("a byte", three.byte(7), 7)
        })?;
        peer.hear()?;
        same("a byte set by another process", two.byte(6), 6)?;
        two.set(7, 7);
        peer.tell()?;
        peer.join()
    }),
    Case::new("mmap.private_writes_stay", "mmap(): MAP_PRIVATE", |_| {
        file_with("a", &[b'.'; PAGE])?;
        let fd = open("a", O::RDONLY, 0).ok()?;
        let mapping = map(&fd, PAGE, true, MapFlags::PRIVATE).ok()?;
        mapping.set(3, b'x');
        same("the byte in the mapping", mapping.byte(3), b'x')?;
        mapping.sync(MsyncFlags::SYNC).ok()?;
        drop(mapping);
        same("contents", contents_of("a")? == [b'.'; PAGE], true)
    }),
    Case::new("mmap.access_modes", "mmap(): [EACCES]", |_| {
        file_with("a", &[1; PAGE])?;
        let reader = open("a", O::RDONLY, 0).ok()?;
        let writer = open("a", O::WRONLY, 0).ok()?;
        map_shared(&reader, PAGE).fails(E::ACCESS)?;
        map(&writer, PAGE, false, MapFlags::SHARED).fails(E::ACCESS)?;
        map(&writer, PAGE, false, MapFlags::PRIVATE).fails(E::ACCESS)?;
        map(&reader, PAGE, true, MapFlags::PRIVATE).ok().map(drop)
    }),
    Case::new(
        "mmap.outlives_descriptor_and_name",
        "mmap(); close(); unlink()",
        |_| {
            file_with("a", &pattern(2, PAGE))?;
            let fd = open("a", O::RDWR, 0).ok()?;
            let mapping = map_shared(&fd, PAGE).ok()?;
            drop(fd);
            mapping.set(0, 77);
            unlink("a").ok()?;
            mapping.set(1, 78);
            same("bytes", mapping.bytes(0, 2), vec![77, 78])?;
            same(
                "the rest",
                mapping.bytes(2, PAGE - 2) == pattern(2, PAGE)[2..],
                true,
            )?;
            mapping.sync(MsyncFlags::SYNC).ok()
        },
    ),
    Case::new(
        "mmap.the_rest_of_the_last_page",
        "mmap(): partial page is zero-filled and not written out",
        |_| {
            file_with("a", b"short")?;
            let fd = open("a", O::RDWR, 0).ok()?;
            let mapping = map_shared(&fd, PAGE).ok()?;
            same(
                "bytes past the end",
                mapping.bytes(5, PAGE - 5) == vec![0; PAGE - 5],
                true,
            )?;
            mapping.fill(5, b"beyond");
            mapping.sync(MsyncFlags::SYNC).ok()?;
            same("size", fstat(&fd).ok()?.st_size, 5)?;
            drop(mapping);
            ftruncate(&fd, 20).ok()?;
            contents(&fd).gives([&b"short"[..], &[0; 15]].concat())
        },
    ),
    Case::new("mmap.past_the_end", "mmap(): SIGBUS", |_| {
        file_with("a", &[1; PAGE + 1])?;
        let fd = open("a", O::RDWR, 0).ok()?;
        let mapping = map_shared(&fd, 3 * PAGE).ok()?;
        same("a byte of the last page", mapping.byte(2 * PAGE - 1), 0)?;
        let touches = |at: usize, write: bool| {
            let peer = Peer::start(|_| {
                if write {
                    mapping.set(at, 1)
                } else {
                    same("a byte", mapping.byte(at), 0)?
                }
                Ok(())
            });
            peer.map(|it| it.signal_that_ended_it())
        };
        same(
            "signal of a read past the end",
            touches(2 * PAGE, false)?,
            Some(libc::SIGBUS),
        )?;
        same(
            "signal of a write past the end",
            touches(2 * PAGE, true)?,
            Some(libc::SIGBUS),
        )?;
        ftruncate(&fd, 3 * PAGE as i64).ok()?;
        mapping.set(2 * PAGE, 9);
        pread(&fd, 1, 2 * PAGE as u64).gives(vec![9])?;
        ftruncate(&fd, PAGE as i64).ok()?;
        same(
            "signal after the file was cut",
            touches(PAGE, false)?,
            Some(libc::SIGBUS),
        )?;
        same("a byte that is left", mapping.byte(PAGE - 1), 1)
    }),
    Case::new(
        "mmap.truncation_shows_zeros",
        "ftruncate(): mapped pages",
        |_| {
            file_with("a", &[b'x'; 2 * PAGE])?;
            let fd = open("a", O::RDWR, 0).ok()?;
            let mapping = map_shared(&fd, 2 * PAGE).ok()?;
            same("before", mapping.byte(200), b'x')?;
            ftruncate(&fd, 100).ok()?;
            ftruncate(&fd, 2 * PAGE as i64).ok()?;
            same(
                "after",
                (mapping.byte(99), mapping.byte(100), mapping.byte(PAGE)),
                (b'x', 0, 0),
            )
        },
    ),
    Case::new("mmap.fills_holes", "mmap(): a sparse file", |_| {
        let fd = create("a")?;
        ftruncate(&fd, 64 * PAGE as i64).ok()?;
        let mapping = map_shared(&fd, 64 * PAGE).ok()?;
        for page in (0..64).step_by(7) {
            same("a byte of a hole", mapping.byte(page * PAGE + 5), 0)?;
            mapping.set(page * PAGE + 5, page as u8 + 1);
        }
        mapping.sync(MsyncFlags::SYNC).ok()?;
        drop(mapping);
        let mut expected = vec![0; 64 * PAGE];
        (0..64)
            .step_by(7)
            .for_each(|page| expected[page * PAGE + 5] = page as u8 + 1);
        same("contents", contents(&fd).ok()? == expected, true)
    }),
    Case::new("mmap.large", "mmap(); write(); close()", |_| {
        const SIZE: usize = 5 << 20;
        let fd = create("a")?;
        write_all(&fd, &vec![1; SIZE])?;
        let mapping = map_shared(&fd, SIZE).ok()?;
        for at in (0..SIZE).step_by(PAGE + 13) {
            mapping.set(at, 2);
        }
        drop((mapping, fd));
        let found = contents_of("a")?;
        let is_right = |at: usize| found[at] == if at.is_multiple_of(PAGE + 13) { 2 } else { 1 };
        same(
            "contents",
            found.len() == SIZE && (0..SIZE).all(is_right),
            true,
        )
    }),
    Case::new(
        "mmap.read_from_into_one_file",
        "write(): from a mapping of the same file",
        |_| {
            // The pages that are read are of the file that is written: a file system that holds a
            // lock while it takes the data would wait for itself.
            let fd = create("a")?;
            write_all(&fd, &pattern(3, 4 * PAGE))?;
            let mapping = map_shared(&fd, 4 * PAGE).ok()?;
            same(
                "write",
                mapping.write_direct(&fd, 4 * PAGE as u64, 4 * PAGE),
                Ok(4 * PAGE),
            )?;
            same(
                "read",
                mapping.read_direct(&fd, 5 * PAGE as u64, PAGE),
                Ok(PAGE),
            )?;
            same(
                "contents",
                mapping.bytes(0, PAGE) == pattern(3, 4 * PAGE)[PAGE..2 * PAGE],
                true,
            )
        },
    ),
];
