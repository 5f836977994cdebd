//! `mkdir` and `mknod`; what a new inode gets of its directory and of the process: group, mode.

use crate::case::{Case, holds, same};
use crate::files::{dir, file, kind_of, one_of_each_kind};
use crate::process::{ANN, CLUB, CREW, Peer, Who, as_user};
use crate::sys::*;

/// A member of CREW.
const MEMBER: Who = ANN.with(&[CREW]);

pub(super) const CASES: &[Case] = &[
    Case::new("mkdir.makes_an_empty_directory", "mkdir()", |_| {
        mkdir("d", 0o750).ok()?;
        let stat = lstat("d").ok()?;
        same("kind", kind_of(&stat), FileType::Directory)?;
        same("mode", stat.st_mode & 0o7777, 0o750)?;
        let listed = rest_of(&opendir("d").ok()?, 32_768)?;
        let mut names: Vec<_> = listed.iter().map(|it| it.name.clone()).collect();
        names.sort();
        same("names", names, vec![b".".to_vec(), b"..".to_vec()])?;
        mkdir("e/", 0o755).ok()
    }),
    Case::new(
        "mkdir.errors",
        "mkdir(): [EEXIST], [ENOENT], [ENOTDIR], [EACCES]",
        |_| {
            one_of_each_kind()?;
            symlink("nowhere", "dangling").ok()?;
            symlink("directory", "to-dir").ok()?;
            for name in [
                "regular",
                "directory",
                "symlink",
                "fifo",
                "socket",
                "dangling",
                "to-dir",
                ".",
            ] {
                mkdir(name, 0o755).fails(E::EXIST)?;
            }
            mkdir("directory/..", 0o755).fails(E::EXIST)?;
            mkdir("directory/", 0o755).fails(E::EXIST)?;
            mkdir("", 0o755).fails(E::NOENT)?;
            mkdir("no/d", 0o755).fails(E::NOENT)?;
            mkdir("regular/d", 0o755).fails(E::NOTDIR)?;
            as_user(ANN, || mkdir("directory/d", 0o755).fails(E::ACCESS))?;
            is_gone("nowhere")
        },
    ),
    Case::new("mkdir.mode_bits", "mkdir(2): mode & ~umask & 01777", |_| {
        umask(0o022);
        for (mode, wanted) in [
            (0o777, 0o755),
            (0o1777, 0o1755),
            (0o7777, 0o1755),
            (0o000, 0o000),
        ] {
            mkdir("d", mode).ok()?;
            same(
                &format!("mode of mkdir(\"d\", {mode:#o})"),
                mode_of("d")?,
                wanted,
            )?;
            rmdir("d").ok()?;
        }
        Ok(())
    }),
    Case::new("mkdir.link_counts", "sys/stat.h: st_nlink", |_| {
        // Linux file systems count `..` of directories below, or none (btrfs: always 1).
        dir("d")?;
        let counted = match lstat("d").ok()?.st_nlink {
            1 => false,
            found => {
                same("links of an empty directory", found, 2)?;
                true
            }
        };
        for i in 0..3 {
            dir(&format!("d/{i}"))?;
        }
        file("d/file")?;
        let links = |path: &str| lstat(path).ok().map(|it| it.st_nlink);
        let of = |below: u64| if counted { 2 + below } else { 1 };
        same("links with 3 directories below", links("d")?, of(3))?;
        rmdir("d/0").ok()?;
        same("links with 2 directories below", links("d")?, of(2))?;
        dir("e")?;
        rename("d/1", "e/1").ok()?;
        same("links after one moved away", links("d")?, of(1))?;
        same("links after one moved in", links("e")?, of(1))
    }),
    Case::new(
        "umask.is_taken_off",
        "umask(); open(); mkdir(); mknod()",
        |_| {
            for mask in [0, 0o022, 0o077, 0o777, 0o137] {
                umask(mask);
                open("a", O::WRONLY | O::CREATE, 0o777).ok()?;
                mkdir("d", 0o777).ok()?;
                mkfifo("f", 0o777).ok()?;
                mknod("r", FileType::RegularFile, 0o777, 0).ok()?;
                let bound = bind("s").ok()?;
                for name in ["a", "d", "f", "r", "s"] {
                    same(
                        &format!("mode of {name} with umask {mask:#o}"),
                        mode_of(name)?,
                        0o777 & !mask,
                    )?;
                }
                drop(bound);
                rmdir("d").ok()?;
                ["a", "f", "r", "s"]
                    .iter()
                    .try_for_each(|name| unlink(*name).ok())?;
            }
            Ok(())
        },
    ),
    Case::new("umask.leaves_set_id_and_sticky", "open(2): mode", |_| {
        umask(0o077);
        open("a", O::WRONLY | O::CREATE, 0o7777).ok()?;
        same("mode", mode_of("a")?, 0o7700)
    }),
    Case::new(
        "inherit.group_of_the_process",
        "open(): O_CREAT, group ID; mkdir()",
        |_| {
            dir("d")?;
            chown("d", None, Some(CREW)).ok()?;
            chmod("d", 0o777).ok()?;
            as_user(ANN.with(&[CREW, CLUB]), || {
                open("d/a", O::WRONLY | O::CREATE, 0o644).ok()?;
                mkdir("d/d", 0o755).ok()?;
                symlink("x", "d/s").ok()?;
                mkfifo("d/f", 0o644).ok()?;
                for name in ["d/a", "d/d", "d/s", "d/f"] {
                    same("group", lstat(name).ok()?.st_gid, ANN.uid)?;
                }
                Ok(())
            })
        },
    ),
    Case::new(
        "inherit.group_of_a_set_group_id_directory",
        "open(2): O_CREAT, group; mkdir(2); inode(7): S_ISGID",
        |_| {
            dir("d")?;
            chown("d", None, Some(CREW)).ok()?;
            chmod("d", 0o2777).ok()?;
            as_user(ANN, || {
                open("d/a", O::WRONLY | O::CREATE, 0o644).ok()?;
                mkdir("d/d", 0o755).ok()?;
                symlink("x", "d/s").ok()?;
                mkfifo("d/f", 0o644).ok()?;
                mknod("d/r", FileType::RegularFile, 0o644, 0).ok()?;
                for name in ["d/a", "d/d", "d/s", "d/f", "d/r"] {
                    same("group", lstat(name).ok()?.st_gid, CREW)?;
                }
                same("mode of a directory in it", mode_of("d/d")?, 0o2755)?;
                same("mode of a file in it", mode_of("d/a")?, 0o644)?;
                mkdir("d/d/d", 0o700).ok()?;
                same("mode of a directory below", mode_of("d/d/d")?, 0o2700)?;
                same(
                    "group of a directory below",
                    lstat("d/d/d").ok()?.st_gid,
                    CREW,
                )
            })?;
            // Files that are moved in or linked keep their own.
            file("plain")?;
            dir("plain-dir")?;
            rename("plain", "d/plain").ok()?;
            rename("plain-dir", "d/plain-dir").ok()?;
            same(
                "group of what is moved in",
                lstat("d/plain").ok()?.st_gid,
                0,
            )?;
            same("mode of what is moved in", mode_of("d/plain-dir")?, 0o755)
        },
    ),
    Case::new(
        "inherit.set_group_id_only_for_members",
        "inode(7): S_ISGID",
        |_| {
            // An executable that lends the group's rights cannot be made by a user that does not
            // have them. (A file that the group may not execute keeps the bit, which means another
            // thing there.)
            dir("d")?;
            chown("d", None, Some(CREW)).ok()?;
            chmod("d", 0o2777).ok()?;
            as_user(ANN, || {
                open("d/outsider", O::WRONLY | O::CREATE, 0o2755).ok()?;
                same("mode made by an outsider", mode_of("d/outsider")?, 0o755)
            })?;
            as_user(MEMBER, || {
                open("d/member", O::WRONLY | O::CREATE, 0o2755).ok()?;
                same("mode made by a member", mode_of("d/member")?, 0o2755)
            })
        },
    ),
    Case::new("mknod.devices", "mknod(): dev; mknod(2)", |_| {
        for (major, minor) in [
            (1, 3),
            (7, 0),
            (259, 1),
            (0xfff, 0xff),
            (8, 0xf_ffff),
            (0xfff, 0xf_ffff),
        ] {
            for kind in [FileType::CharacterDevice, FileType::BlockDevice] {
                let number = libc::makedev(major, minor);
                // The largest are more than some file systems have room for: XFS keeps 14 bits and
                // 18.
                if let Err(errno) = mknod("n", kind, 0o640, number).result() {
                    same("errno", errno, E::INVAL)?;
                    holds(
                        "device",
                        major >= 0xfff || minor >= 0xf_ffff,
                        "kept",
                        (major, minor),
                    )?;
                    continue;
                }
                let stat = lstat("n").ok()?;
                same("kind", kind_of(&stat), kind)?;
                same("st_rdev", stat.st_rdev, number)?;
                same(
                    "mode, size",
                    (stat.st_mode & 0o7777, stat.st_size),
                    (0o640, 0),
                )?;
                unlink("n").ok()?;
            }
        }
        Ok(())
    }),
    Case::new("mknod.other_kinds", "mknod(2): mode", |_| {
        chmod(".", 0o777).ok()?;
        as_user(ANN, || {
            for kind in [FileType::RegularFile, FileType::Fifo, FileType::Socket] {
                mknod("n", kind, 0o640, 0).ok()?;
                let stat = lstat("n").ok()?;
                same("kind", kind_of(&stat), kind)?;
                same(
                    "owner, mode, links",
                    (stat.st_uid, stat.st_mode & 0o7777, stat.st_nlink),
                    (ANN.uid, 0o640, 1),
                )?;
                unlink("n").ok()?;
            }
            Ok(())
        })
    }),
    Case::new(
        "mknod.errors",
        "mknod(): [EPERM], [EEXIST], [ENOENT], [ENOTDIR], [EACCES]",
        |_| {
            one_of_each_kind()?;
            symlink("nowhere", "dangling").ok()?;
            for name in ["regular", "directory", "symlink", "fifo", "dangling"] {
                mkfifo(name, 0o644).fails(E::EXIST)?;
                mknod(name, FileType::CharacterDevice, 0o644, 259).fails(E::EXIST)?;
            }
            mkfifo("no/f", 0o644).fails(E::NOENT)?;
            mkfifo("regular/f", 0o644).fails(E::NOTDIR)?;
            mkfifo("new/", 0o644).fails(E::NOENT)?;
            mknod("n", FileType::Directory, 0o755, 0).fails_with_one_of(&[E::PERM, E::INVAL])?;
            as_user(ANN, || mkfifo("directory/f", 0o644).fails(E::ACCESS))?;
            chmod(".", 0o777).ok()?;
            as_user(ANN, || {
                mknod("n", FileType::CharacterDevice, 0o644, libc::makedev(1, 3)).fails(E::PERM)?;
                mknod("n", FileType::BlockDevice, 0o644, libc::makedev(7, 0)).fails(E::PERM)
            })
        },
    ),
    Case::new(
        "mknod.fifo_joins_processes",
        "mkfifo(); open(): fifo",
        |_| {
            mkfifo("f", 0o600).ok()?;
            link("f", "g").ok()?;
            let writer = Peer::start(|_| {
                let fd = open("g", O::WRONLY, 0).ok()?;
                write(&fd, b"across").gives(6)
            })?;
            let fd = open("f", O::RDONLY, 0).ok()?;
            read(&fd, 100).gives(b"across".to_vec())?;
            read(&fd, 100).gives(vec![])?;
            writer.join()
        },
    ),
    Case::new(
        "mknod.socket_joins_processes",
        "bind(): AF_UNIX; connect()",
        |_| {
            let server = bind("s").ok()?;
            same("kind", kind_of(&lstat("s").ok()?), FileType::Socket)?;
            bind("s").fails(E::ADDRINUSE)?;
            connect("s").fails(E::CONNREFUSED)?;
            same("listen()", rustix::net::listen(&server, 16), Ok(()))?;
            connect("s").ok()?;
            link("s", "t").ok()?;
            rename("s", "u").ok()?;
            connect("t").ok()?;
            as_user(ANN, || connect("u").ok().map(drop))?;
            chmod("u", 0o700).ok()?;
            as_user(ANN, || connect("u").fails(E::ACCESS))?;
            unlink("t").ok()?;
            unlink("u").ok()?;
            connect("u").fails(E::NOENT)?;
            drop(server);
            file("regular")?;
            connect("regular").fails(E::CONNREFUSED)
        },
    ),
    Case::new(
        "inherit.new_inodes_have_new_numbers",
        "sys/stat.h: st_ino",
        |_| {
            one_of_each_kind()?;
            let mut numbers = std::collections::BTreeSet::new();
            for (name, _) in crate::files::KINDS {
                let stat = lstat(name).ok()?;
                holds("st_ino", stat.st_ino != 0, "not 0", stat.st_ino)?;
                holds("st_ino", numbers.insert(stat.st_ino), "unique", stat.st_ino)?;
                same("st_dev", stat.st_dev, lstat(".").ok()?.st_dev)?;
            }
            Ok(())
        },
    ),
];
