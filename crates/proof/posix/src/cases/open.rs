//! `open`: creation, exclusion, what may be opened how.

use crate::case::{Case, holds, same};
use crate::files::{create, dir, file, file_of, file_with, kind_of, one_of_each_kind};
use crate::process::{ANN, BOB, as_user};
use crate::sys::*;
use rustix::fs::StatVfsMountFlags;

pub(super) const CASES: &[Case] = &[
    Case::new("open.create_makes_an_empty_file", "open(): O_CREAT", |_| {
        let fd = open("a", O::RDWR | O::CREATE, 0o640).ok()?;
        let stat = fstat(&fd).ok()?;
        same("kind", kind_of(&stat), FileType::RegularFile)?;
        same("mode", stat.st_mode & 0o7777, 0o640)?;
        same(
            "size, links, owner, group",
            (stat.st_size, stat.st_nlink, stat.st_uid, stat.st_gid),
            (0, 1, 0, 0),
        )
    }),
    Case::new(
        "open.create_belongs_to_who_creates",
        "open(): O_CREAT",
        |_| {
            chmod(".", 0o777).ok()?;
            as_user(ANN, || {
                open("a", O::WRONLY | O::CREATE, 0o600).ok()?;
                let stat = lstat("a").ok()?;
                same(
                    "owner and group",
                    (stat.st_uid, stat.st_gid),
                    (ANN.uid, ANN.uid),
                )
            })
        },
    ),
    Case::new(
        "open.create_of_what_is_there_leaves_it",
        "open(): O_CREAT",
        |_| {
            file_with("a", b"contents")?;
            let fd = open("a", O::RDWR | O::CREATE, 0o777).ok()?;
            same("mode", mode_of("a")?, 0o644)?;
            contents(&fd).gives(b"contents".to_vec())
        },
    ),
    Case::new("open.excl_fails_with_any_kind", "open(): [EEXIST]", |_| {
        one_of_each_kind()?;
        symlink("nowhere", "dangling").ok()?;
        for name in [
            "regular",
            "directory",
            "symlink",
            "fifo",
            "socket",
            "char",
            "block",
            "dangling",
        ] {
            open(name, O::RDWR | O::CREATE | O::EXCL, 0o644).fails(E::EXIST)?;
        }
        is_gone("nowhere")
    }),
    Case::new(
        "open.excl_makes_one_file_for_one_of_many",
        "open(): O_EXCL",
        |_| {
            // Of many processes that make the same name exactly one makes it.
            for round in 0..50 {
                let name = format!("round-{round}");
                let peers: Vec<_> = (0..4)
                    .map(|_| {
                        crate::process::Peer::start(|line| {
                            line.hear()?;
                            let made =
                                open(&name, O::WRONLY | O::CREATE | O::EXCL | O::APPEND, 0o644);
                            match made.result() {
                                Ok(_) => file(&format!("{name}-by-{}", std::process::id())),
                                Err(errno) => same("errno", errno, E::EXIST),
                            }
                        })
                    })
                    .collect::<Result<_, _>>()?;
                peers.iter().try_for_each(|peer| peer.tell())?;
                peers.into_iter().try_for_each(|peer| peer.join())?;
                let winners = names_in(".")?
                    .iter()
                    .filter(|it| it.starts_with(&format!("{name}-by")))
                    .count();
                same("processes that made the file", winners, 1)?;
            }
            Ok(())
        },
    ),
    Case::new(
        "open.create_through_a_dangling_link",
        "open(): O_CREAT; path resolution",
        |_| {
            symlink("target", "a").ok()?;
            open("a", O::WRONLY | O::CREATE, 0o644).ok()?;
            same(
                "kind of the target",
                kind_of(&lstat("target").ok()?),
                FileType::RegularFile,
            )?;
            same(
                "kind of the link",
                kind_of(&lstat("a").ok()?),
                FileType::Symlink,
            )
        },
    ),
    Case::new("open.directory_not_for_writing", "open(): [EISDIR]", |_| {
        dir("d")?;
        open("d", O::WRONLY, 0).fails(E::ISDIR)?;
        open("d", O::RDWR, 0).fails(E::ISDIR)?;
        open("d", O::RDONLY | O::CREATE, 0o644).fails(E::ISDIR)?;
        open("d", O::WRONLY | O::TRUNC, 0).fails(E::ISDIR)?;
        let fd = open("d", O::RDONLY, 0).ok()?;
        read(&fd, 1).fails(E::ISDIR)
    }),
    Case::new("open.no_such_file", "open(): [ENOENT]", |_| {
        open("a", O::RDONLY, 0).fails(E::NOENT)?;
        open("", O::RDONLY, 0).fails(E::NOENT)?;
        open("no/a", O::WRONLY | O::CREATE, 0o644).fails(E::NOENT)?;
        symlink("nowhere", "dangling").ok()?;
        open("dangling", O::RDONLY, 0).fails(E::NOENT)
    }),
    Case::new(
        "open.a_file_is_no_directory",
        "open(): [ENOTDIR]; path resolution",
        |_| {
            file("a")?;
            open("a/b", O::RDONLY, 0).fails(E::NOTDIR)?;
            open("a/b", O::WRONLY | O::CREATE, 0o644).fails(E::NOTDIR)?;
            open("a/", O::RDONLY, 0).fails(E::NOTDIR)?;
            open("a/.", O::RDONLY, 0).fails(E::NOTDIR)?;
            open("new/", O::WRONLY | O::CREATE, 0o644).fails(E::ISDIR)
        },
    ),
    Case::new("open.o_directory", "open(): O_DIRECTORY, [ENOTDIR]", |_| {
        one_of_each_kind()?;
        symlink("directory", "to-dir").ok()?;
        for name in ["regular", "symlink", "fifo", "socket", "char", "block"] {
            open(name, O::RDONLY | O::DIRECTORY | O::NONBLOCK, 0).fails(E::NOTDIR)?;
        }
        open("directory", O::RDONLY | O::DIRECTORY, 0).ok()?;
        open("to-dir", O::RDONLY | O::DIRECTORY, 0).ok().map(drop)
    }),
    Case::new("open.o_nofollow", "open(): O_NOFOLLOW, [ELOOP]", |_| {
        one_of_each_kind()?;
        symlink("directory", "to-dir").ok()?;
        open("symlink", O::RDONLY | O::NOFOLLOW, 0).fails(E::LOOP)?;
        open("to-dir", O::RDONLY | O::NOFOLLOW, 0).fails(E::LOOP)?;
        // Links before the last component are followed.
        file("directory/a")?;
        open("to-dir/a", O::RDONLY | O::NOFOLLOW, 0).ok()?;
        open("regular", O::RDWR | O::NOFOLLOW, 0).ok().map(drop)
    }),
    Case::new("open.truncates", "open(): O_TRUNC", |_| {
        for flags in [O::WRONLY, O::RDWR] {
            let _ = unlink("a").result();
            file_with("a", &[7; 10_000])?;
            let other = open("a", O::RDONLY, 0).ok()?;
            let fd = open("a", flags | O::TRUNC, 0).ok()?;
            same("size", fstat(&fd).ok()?.st_size, 0)?;
            same(
                "size through another descriptor",
                fstat(&other).ok()?.st_size,
                0,
            )?;
            read(&other, 10).gives(vec![])?;
            same("mode", mode_of("a")?, 0o644)?;
        }
        Ok(())
    }),
    Case::new(
        "open.truncates_nothing_it_may_not_write",
        "open(): [EACCES]",
        |_| {
            file_with("a", b"contents")?;
            as_user(ANN, || open("a", O::WRONLY | O::TRUNC, 0).fails(E::ACCESS))?;
            as_user(ANN, || {
                open("a", O::RDWR | O::TRUNC | O::CREATE, 0).fails(E::ACCESS)
            })?;
            same("contents", contents_of("a")?, b"contents".to_vec())
        },
    ),
    Case::new(
        "open.access_mode_of_the_descriptor",
        "read(): [EBADF]; write(): [EBADF]",
        |_| {
            file("a")?;
            let fd = open("a", O::WRONLY, 0).ok()?;
            read(&fd, 1).fails(E::BADF)?;
            let fd = open("a", O::RDONLY, 0).ok()?;
            write(&fd, b"x").fails(E::BADF)?;
            pwrite(&fd, b"x", 0).fails(E::BADF)
        },
    ),
    Case::new(
        "open.mode_0_for_others_not_for_who_made_it",
        "open(): O_CREAT, mode",
        |_| {
            // The mode is of later opens: the creator may write, even what no one may.
            chmod(".", 0o777).ok()?;
            as_user(ANN, || {
                let fd = open("a", O::RDWR | O::CREATE | O::EXCL, 0).ok()?;
                write(&fd, b"x").gives(1)?;
                pread(&fd, 1, 0).gives(b"x".to_vec())?;
                open("a", O::RDONLY, 0).fails(E::ACCESS)
            })
        },
    ),
    Case::new(
        "open.rights_are_looked_at_when_it_is_opened",
        "open(): file descriptor",
        |_| {
            chmod(".", 0o777).ok()?;
            as_user(ANN, || {
                let fd = create("a")?;
                chmod("a", 0).ok()?;
                write(&fd, b"still").gives(5)?;
                pread(&fd, 5, 0).gives(b"still".to_vec())
            })
        },
    ),
    Case::new(
        "open.create_needs_a_directory_it_may_write",
        "open(): [EACCES]",
        |_| {
            dir("d")?;
            as_user(ANN, || {
                open("d/a", O::WRONLY | O::CREATE, 0o644).fails(E::ACCESS)
            })?;
            chmod("d", 0o776).ok()?;
            as_user(ANN, || {
                open("d/a", O::WRONLY | O::CREATE, 0o644).fails(E::ACCESS)
            })?;
            chmod("d", 0o773).ok()?;
            as_user(ANN, || {
                open("d/a", O::WRONLY | O::CREATE, 0o644).ok().map(drop)
            })?;
            file_of("d/b", BOB.uid, 0o666)?;
            chmod("d", 0o755).ok()?;
            // An existing file needs no right to write the directory.
            as_user(ANN, || {
                open("d/b", O::WRONLY | O::CREATE, 0o644).ok().map(drop)
            })
        },
    ),
    Case::new("open.fifo_without_reader", "open(): [ENXIO]", |_| {
        mkfifo("f", 0o644).ok()?;
        open("f", O::WRONLY | O::NONBLOCK, 0).fails(E::NXIO)?;
        let reader = open("f", O::RDONLY | O::NONBLOCK, 0).ok()?;
        let writer = open("f", O::WRONLY | O::NONBLOCK, 0).ok()?;
        write(&writer, b"through").gives(7)?;
        read(&reader, 10).gives(b"through".to_vec())?;
        lseek(&reader, SeekFrom::Start(0)).fails(E::SPIPE)
    }),
    Case::new(
        "open.socket",
        "open(): [ENXIO] (open(2): a UNIX domain socket)",
        |_| {
            mknod("s", FileType::Socket, 0o644, 0).ok()?;
            open("s", O::RDWR, 0).fails(E::NXIO)
        },
    ),
    Case::new(
        "open.device",
        "open(): character special file; open(2): [EACCES] nodev",
        |_| {
            mknod(
                "null",
                FileType::CharacterDevice,
                0o666,
                libc::makedev(1, 3),
            )
            .ok()?;
            mknod(
                "none",
                FileType::CharacterDevice,
                0o666,
                libc::makedev(240, 7),
            )
            .ok()?;
            if statvfs(".").ok()?.f_flag.contains(StatVfsMountFlags::NODEV) {
                return open("null", O::RDWR, 0).fails(E::ACCESS);
            }
            let fd = open("null", O::RDWR, 0).ok()?;
            write(&fd, b"away").gives(4)?;
            read(&fd, 4).gives(vec![])?;
            same("size", lstat("null").ok()?.st_size, 0)?;
            open("none", O::RDWR, 0).fails_with_one_of(&[E::NXIO, E::NODEV])
        },
    ),
    Case::new("open.o_path", "open(2): O_PATH", |_| {
        one_of_each_kind()?;
        file("directory/a")?;
        for (name, kind) in crate::files::KINDS {
            let fd = open(name, O::PATH | O::NOFOLLOW, 0).ok()?;
            same("kind", kind_of(&fstat(&fd).ok()?), kind)?;
            read(&fd, 1).fails(E::BADF)?;
            write(&fd, b"x").fails(E::BADF)?;
            fchmod(&fd, 0o600).fails(E::BADF)?;
            fchown(&fd, None, None).fails(E::BADF)?;
            fsync(&fd).fails(E::BADF)?;
            fgetxattr(&fd, "user.x").fails(E::BADF)?;
        }
        let fd = open("directory", O::PATH, 0).ok()?;
        openat(&fd, "a", O::RDONLY, 0).ok()?;
        let fd = open("symlink", O::PATH | O::NOFOLLOW, 0).ok()?;
        readlink_open(&fd).gives(b"regular".to_vec())?;
        let fd = open("regular", O::PATH, 0).ok()?;
        let fd = reopen(&fd, O::RDONLY).ok()?;
        read(&fd, 20).gives(b"contents".to_vec())
    }),
    Case::new("open.o_path_needs_no_right", "open(2): O_PATH", |_| {
        file("a")?;
        chmod("a", 0).ok()?;
        as_user(ANN, || {
            let fd = open("a", O::PATH, 0).ok()?;
            reopen(&fd, O::RDONLY).fails(E::ACCESS)
        })
    }),
    Case::new(
        "open.o_noatime_is_for_the_owner",
        "open(2): O_NOATIME, [EPERM]",
        |_| {
            file("a")?;
            as_user(ANN, || open("a", O::RDONLY | O::NOATIME, 0).fails(E::PERM))?;
            chown("a", Some(ANN.uid), None).ok()?;
            as_user(ANN, || open("a", O::RDONLY | O::NOATIME, 0).ok().map(drop))
        },
    ),
    Case::new(
        "open.o_sync",
        "open(): O_SYNC, O_DSYNC; fcntl(): F_GETFL",
        |_| {
            file("a")?;
            for flags in [libc::O_SYNC, libc::O_DSYNC] {
                let fd = open_raw(c"a", libc::O_RDWR | flags).ok()?;
                let set = flags_of(&fd).ok()?.bits() & libc::O_SYNC as u32;
                same("O_SYNC and O_DSYNC of F_GETFL", set, flags as u32)?;
                pwrite(&fd, b"synchronous", 0).gives(11)?;
                pread(&fd, 11, 0).gives(b"synchronous".to_vec())?;
            }
            Ok(())
        },
    ),
    Case::new("open.o_direct", "open(2): O_DIRECT", |_| {
        // Memory of a mapping is aligned as O_DIRECT may want it.
        const SIZE: usize = 64 * PAGE;
        file_with("a", &[1; SIZE])?;
        let fd = open("a", O::RDWR | O::DIRECT, 0).ok_or_not_offered(&[E::INVAL])?;
        file_with("b", &[2; SIZE])?;
        let data = map_shared(&open("b", O::RDWR, 0).ok()?, SIZE).ok()?;
        same("read", data.read_direct(&fd, 0, SIZE), Ok(SIZE))?;
        same("data read", data.bytes(0, SIZE), vec![1; SIZE])?;
        data.fill(0, &[3; SIZE]);
        same("write", data.write_direct(&fd, PAGE as u64, SIZE), Ok(SIZE))?;
        let mut expected = vec![1; PAGE];
        expected.extend_from_slice(&[3; SIZE]);
        // Mixed with buffered reads: open(2) says that it is coherent, only slow.
        same(
            "buffered read after a direct write",
            contents_of("a")?,
            expected,
        )?;
        let other = open("a", O::WRONLY, 0).ok()?;
        pwrite(&other, &[4; PAGE], 0).gives(PAGE)?;
        same("read", data.read_direct(&fd, 0, PAGE), Ok(PAGE))?;
        same(
            "direct read after a buffered write",
            data.bytes(0, PAGE),
            vec![4; PAGE],
        )?;
        // At the end of the file a direct read is short.
        same(
            "read at the end",
            data.read_direct(&fd, (SIZE + PAGE) as u64, PAGE),
            Ok(0),
        )
    }),
    Case::new(
        "open.o_direct_by_fcntl",
        "fcntl(2): F_SETFL O_DIRECT",
        |_| {
            file_with("a", &[1; PAGE])?;
            let fd = open("a", O::RDWR, 0).ok()?;
            set_flags(&fd, O::DIRECT).ok_or_not_offered(&[E::INVAL])?;
            holds(
                "O_DIRECT of F_GETFL",
                flags_of(&fd).ok()?.contains(O::DIRECT),
                "set",
                "not set",
            )
        },
    ),
    Case::new("open.relative_to_a_directory", "openat(): fd", |_| {
        dir("d")?;
        let d = opendir("d").ok()?;
        openat(&d, "a", O::WRONLY | O::CREATE | O::EXCL, 0o644).ok()?;
        rename("d", "moved").ok()?;
        openat(&d, "a", O::RDONLY, 0).ok()?;
        openat(&d, "../moved/a", O::RDONLY, 0).ok()?;
        mkdirat(&d, "sub", 0o755).ok()?;
        unlinkat(&d, "sub", At::empty()).fails(E::ISDIR)?;
        unlinkat(&d, "a", At::REMOVEDIR).fails(E::NOTDIR)?;
        unlinkat(&d, "sub", At::REMOVEDIR).ok()?;
        file("f")?;
        let f = open("f", O::RDONLY, 0).ok()?;
        openat(&f, "a", O::RDONLY, 0).fails(E::NOTDIR)
    }),
    Case::new("open.many_at_once", "open(): file descriptors", |_| {
        let fds: Vec<OwnedFd> = (0..500)
            .map(|i| create(&format!("f{i}")))
            .collect::<Result<_, _>>()?;
        for (i, fd) in fds.iter().enumerate() {
            write(fd, format!("{i}").as_bytes()).ok()?;
        }
        for (i, fd) in fds.iter().enumerate() {
            contents(fd).gives(format!("{i}").into_bytes())?;
        }
        Ok(())
    }),
];
