//! `stat`, `statx`, `statvfs`, inode numbers and file handles.

use crate::case::{Case, holds, same};
use crate::files::{
    create, dir, dir_of, file, file_of, file_with, kind_of, one_of_each_kind, write_all,
};
use crate::process::{ANN, BOB, as_user};
use crate::sys::*;
use crate::times::{now, tick};
use rustix::fs::StatxFlags;
use std::collections::BTreeMap;

fn inode(path: &str) -> crate::case::Outcome<u64> {
    Ok(lstat(path).ok()?.st_ino)
}

pub(super) const CASES: &[Case] = &[
    Case::new("stat.kinds_sizes_and_links", "stat(); sys/stat.h", |_| {
        one_of_each_kind()?;
        for (name, kind) in crate::files::KINDS {
            let stat = lstat(name).ok()?;
            same(&format!("kind of {name}"), kind_of(&stat), kind)?;
            holds(
                "st_blksize",
                stat.st_blksize > 0,
                "more than 0",
                stat.st_blksize,
            )?;
            let links = if kind == FileType::Directory {
                stat.st_nlink
            } else {
                1
            };
            same(&format!("links of {name}"), stat.st_nlink, links)?;
        }
        same("size of a file", lstat("regular").ok()?.st_size, 8)?;
        same("size of a link", lstat("symlink").ok()?.st_size, 7)?;
        same(
            "stat follows",
            stat("symlink").ok()?.st_ino,
            inode("regular")?,
        )?;
        same(
            "device",
            (lstat("char").ok()?.st_rdev, lstat("block").ok()?.st_rdev),
            (crate::files::CHAR, crate::files::BLOCK),
        )
    }),
    Case::new(
        "stat.errors",
        "stat(): [ENOENT], [ENOTDIR], [EACCES]",
        |_| {
            file("a")?;
            dir_of("closed", BOB.uid, 0o700)?;
            file("closed/a")?;
            dir_of("listed", BOB.uid, 0o744)?;
            file("listed/a")?;
            stat("no").fails(E::NOENT)?;
            stat("").fails(E::NOENT)?;
            stat("a/b").fails(E::NOTDIR)?;
            stat("a/").fails(E::NOTDIR)?;
            as_user(ANN, || {
                stat("closed").ok()?;
                stat("closed/a").fails(E::ACCESS)?;
                stat("closed/no").fails(E::ACCESS)?;
                stat("listed/a").fails(E::ACCESS)?;
                stat("closed/.").fails(E::ACCESS)
            })?;
            // No right to the file is needed.
            chmod("a", 0).ok()?;
            as_user(ANN, || stat("a").ok().map(drop))
        },
    ),
    Case::new(
        "stat.blocks",
        "stat(): st_blocks; stat(2): 512-byte units",
        |_| {
            let fd = create("a")?;
            same("blocks of an empty file", fstat(&fd).ok()?.st_blocks, 0)?;
            write_all(&fd, &vec![1; 3_000_000])?;
            fsync(&fd).ok()?;
            let blocks = fstat(&fd).ok()?.st_blocks;
            holds(
                "blocks of 3,000,000 bytes",
                blocks * 512 >= 3_000_000,
                "at least 5860",
                blocks,
            )?;
            holds(
                "blocks of 3,000,000 bytes",
                blocks * 512 <= 6_000_000,
                "not twice as many",
                blocks,
            )?;
            ftruncate(&fd, 0).ok()?;
            fsync(&fd).ok()?;
            let blocks = fstat(&fd).ok()?.st_blocks;
            holds(
                "blocks after the truncation",
                blocks <= 16,
                "none or few",
                blocks,
            )?;
            ftruncate(&fd, 100 << 20).ok()?;
            fsync(&fd).ok()?;
            let blocks = fstat(&fd).ok()?.st_blocks;
            holds(
                "blocks of a hole of 100 MiB",
                blocks < 2_048,
                "less than 1 MiB",
                blocks,
            )
        },
    ),
    Case::new(
        "stat.same_by_every_way",
        "stat(); fstat(); lstat(); statx(2); readdir()",
        |_| {
            one_of_each_kind()?;
            let listed: BTreeMap<Vec<u8>, (u64, FileType)> = rest_of(&opendir(".").ok()?, 4_096)?
                .into_iter()
                .map(|it| (it.name, (it.inode, it.kind)))
                .collect();
            for (name, kind) in crate::files::KINDS {
                let by_name = lstat(name).ok()?;
                let fd = open(name, O::PATH | O::NOFOLLOW, 0).ok()?;
                let by_fd = fstat(&fd).ok()?;
                let by_statx = statx(name, At::SYMLINK_NOFOLLOW).ok()?;
                same("st_ino of fstat", by_fd.st_ino, by_name.st_ino)?;
                same("stx_ino", by_statx.stx_ino, by_name.st_ino)?;
                same(
                    "d_ino and d_type",
                    listed.get(name.as_bytes()),
                    Some(&(by_name.st_ino, kind)),
                )?;
                same("stx_mode", u32::from(by_statx.stx_mode), by_name.st_mode)?;
                same("stx_size", by_statx.stx_size as i64, by_name.st_size)?;
                same("stx_nlink", u64::from(by_statx.stx_nlink), by_name.st_nlink)?;
                same("stx_blocks", by_statx.stx_blocks as i64, by_name.st_blocks)?;
            }
            same(
                "d_ino of .",
                listed.get(&b"."[..]).map(|it| it.0),
                Some(inode(".")?),
            )?;
            same(
                "d_ino of ..",
                listed.get(&b".."[..]).map(|it| it.0),
                Some(inode("..")?),
            )
        },
    ),
    Case::new("stat.inode_numbers_stay", "sys/stat.h: st_ino", |_| {
        dir("d")?;
        let fd = create("a")?;
        let number = inode("a")?;
        rename("a", "d/b").ok()?;
        link("d/b", "c").ok()?;
        chmod("c", 0o600).ok()?;
        write_all(&fd, &[1; 100_000])?;
        rename("d", "e").ok()?;
        same(
            "st_ino",
            (inode("e/b")?, inode("c")?, fstat(&fd).ok()?.st_ino),
            (number, number, number),
        )
    }),
    Case::new(
        "statx.birth_time",
        "statx(2): STATX_BTIME, stx_btime",
        |_| {
            one_of_each_kind()?;
            let birth = |path: &str| {
                let found = statx(path, At::SYMLINK_NOFOLLOW).ok()?;
                let has = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME);
                holds(
                    &format!("stx_mask of {path}"),
                    has,
                    "STATX_BTIME",
                    found.stx_mask,
                )?;
                Ok((found.stx_btime.tv_sec, i64::from(found.stx_btime.tv_nsec)))
            };
            for (name, _) in crate::files::KINDS {
                let before = now()?;
                tick(before)?;
                let made = birth(name)?;
                holds(
                    &format!("stx_btime of {name}"),
                    made.0 > 0 && made <= before,
                    "when it was made",
                    made,
                )?;
                utimens_link(name, at((5, 5)), at((6, 6))).ok()?;
                lchown(name, Some(ANN.uid), None).ok()?;
                if name != "directory" {
                    link(name, &format!("{name}-2")).ok()?;
                }
                let moved = format!("{name}-moved");
                rename(name, &moved).ok()?;
                same(
                    &format!("stx_btime of {name} after changes"),
                    birth(&moved)?,
                    made,
                )?;
            }
            let fd = open("regular-moved", O::RDWR, 0).ok()?;
            let made = birth("regular-moved")?;
            write_all(&fd, &[1; 100_000])?;
            same("stx_btime after a write", birth("regular-moved")?, made)?;
            let before = now()?;
            tick(before)?;
            file("new")?;
            let made = birth("new")?;
            holds(
                "stx_btime of a new file",
                before < made && made <= now()?,
                "now",
                made,
            )
        },
    ),
    Case::new(
        "statx.answers_what_it_is_asked",
        "statx(2): stx_mask",
        |_| {
            file_with("a", b"contents")?;
            for flags in [At::empty(), At::STATX_FORCE_SYNC, At::STATX_DONT_SYNC] {
                let found = statx("a", flags).ok()?;
                let mask = StatxFlags::from_bits_retain(found.stx_mask);
                holds(
                    "stx_mask",
                    mask.contains(StatxFlags::BASIC_STATS),
                    "STATX_BASIC_STATS",
                    mask,
                )?;
                same("stx_size", found.stx_size, 8)?;
                same("stx_nlink", found.stx_nlink, 1)?;
                holds(
                    "stx_blksize",
                    found.stx_blksize > 0,
                    "more than 0",
                    found.stx_blksize,
                )?;
            }
            statx("no", At::empty()).fails(E::NOENT)?;
            statx("a/b", At::empty()).fails(E::NOTDIR)
        },
    ),
    Case::new(
        "statvfs.numbers_that_fit",
        "statvfs(); fstatvfs(); statfs(2)",
        |_| {
            let fd = create("a")?;
            let found = statvfs(".").ok()?;
            holds(
                "f_bsize",
                found.f_bsize >= 512,
                "at least 512",
                found.f_bsize,
            )?;
            holds(
                "f_frsize",
                found.f_frsize >= 512,
                "at least 512",
                found.f_frsize,
            )?;
            holds(
                "f_blocks",
                found.f_blocks > 0,
                "more than 0",
                found.f_blocks,
            )?;
            holds(
                "f_bfree",
                found.f_bfree <= found.f_blocks,
                "no more than f_blocks",
                found.f_bfree,
            )?;
            holds(
                "f_bavail",
                found.f_bavail <= found.f_bfree,
                "no more than f_bfree",
                found.f_bavail,
            )?;
            holds(
                "f_ffree",
                found.f_ffree <= found.f_files,
                "no more than f_files",
                found.f_ffree,
            )?;
            same("f_namemax", found.f_namemax, 255)?;
            let by_fd = fstatvfs(&fd).ok()?;
            same(
                "fstatvfs",
                (by_fd.f_blocks, by_fd.f_frsize, by_fd.f_namemax),
                (found.f_blocks, found.f_frsize, found.f_namemax),
            )?;
            same("f_fsid", by_fd.f_fsid, found.f_fsid)?;
            statvfs("no").fails(E::NOENT)?;
            statvfs("a/b").fails(E::NOTDIR)
        },
    ),
    Case::new("statvfs.through_every_kind", "fstatvfs()", |_| {
        one_of_each_kind()?;
        let blocks = statvfs(".").ok()?.f_blocks;
        for name in ["regular", "directory", "symlink", "fifo", "socket", "char"] {
            same(
                &format!("f_blocks by {name}"),
                statvfs(name).ok()?.f_blocks,
                blocks,
            )?;
        }
        Ok(())
    }),
    Case::new("handle.leads_back", "open_by_handle_at(2)", |_| {
        one_of_each_kind()?;
        let mount = opendir(".").ok()?;
        for (name, kind) in crate::files::KINDS {
            let handle = name_to_handle(name).ok()?;
            let fd = open_by_handle(&mount, &handle, O::PATH).ok()?;
            let stat = fstat(&fd).ok()?;
            same("kind", kind_of(&stat), kind)?;
            same("inode", stat.st_ino, inode(name)?)?;
        }
        let handle = name_to_handle("regular").ok()?;
        rename("regular", "directory/moved").ok()?;
        let fd = open_by_handle(&mount, &handle, O::RDWR).ok()?;
        contents(&fd).gives(b"contents".to_vec())?;
        pwrite(&fd, b"C", 0).gives(1)?;
        same(
            "contents",
            contents_of("directory/moved")?,
            b"Contents".to_vec(),
        )?;
        same(
            "the handle of a new name",
            name_to_handle("directory/moved").ok()?,
            handle,
        )?;
        let handle = name_to_handle("directory").ok()?;
        let fd = open_by_handle(&mount, &handle, O::RDONLY | O::DIRECTORY).ok()?;
        openat(&fd, "moved", O::RDONLY, 0).ok().map(drop)
    }),
    Case::new(
        "handle.of_what_is_gone",
        "open_by_handle_at(2): [ESTALE]",
        |_| {
            let mount = opendir(".").ok()?;
            file("a")?;
            dir("d")?;
            let handles = [name_to_handle("a").ok()?, name_to_handle("d").ok()?];
            unlink("a").ok()?;
            rmdir("d").ok()?;
            file("a")?;
            dir("d")?;
            handles
                .iter()
                .try_for_each(|it| open_by_handle(&mount, it, O::RDONLY).fails(E::STALE))
        },
    ),
    Case::new(
        "handle.errors",
        "name_to_handle_at(2): [EOVERFLOW]; open_by_handle_at(2): [EPERM]",
        |_| {
            chmod(".", 0o777).ok()?;
            file_of("a", ANN.uid, 0o644)?;
            let mut needed = 0;
            name_to_handle_into("a", 0, &mut needed).fails(E::OVERFLOW)?;
            let handle = name_to_handle_into("a", needed, &mut 0).ok()?;
            same("handle_bytes", handle.bytes, needed)?;
            name_to_handle("no").fails(E::NOENT)?;
            let mount = opendir(".").ok()?;
            as_user(ANN, || {
                open_by_handle(&mount, &handle, O::RDONLY).fails(E::PERM)
            })
        },
    ),
];
