//! Times that a call sets to now: `st_atim`, `st_mtim`, `st_ctim` of which inodes, and no others.

use crate::case::{Case, Outcome, holds, same};
use crate::files::{create, dir, file, file_with};
use crate::process::ANN;
use crate::sys::*;
use crate::times::{Reading, Times, changes, now, tick, times};
use rustix::mm::MsyncFlags;

/// Makes something at a path.
type Make = fn(&str) -> Outcome;

/// Reads a file and lists a directory, and lets the kernel forget what was in the file before: that
/// what it remembers counts as well is a case of its own.
fn read_both(path: &str, dir: &str) -> Outcome {
    let fd = open(path, O::RDWR, 0).ok()?;
    fsync(&fd).ok()?;
    posix_fadvise(&fd, 0, 0, libc::POSIX_FADV_DONTNEED).ok()?;
    pread(&fd, 3, 0).gives(b"con".to_vec())?;
    rest_of(&opendir(dir).ok()?, 4_096).map(drop)
}

pub(super) const CASES: &[Case] = &[
    Case::new(
        "times.new_inodes",
        "open(): O_CREAT; mkdir(); mknod(); symlink(): mark all three",
        |_| {
            let made: [(&str, Make); 4] = [
                ("a", file),
                ("d", dir),
                ("f", |path| mkfifo(path, 0o644).ok()),
                ("s", |path| symlink("x", path).ok()),
            ];
            for (name, make) in made {
                let before = now()?;
                tick(before)?;
                make(name)?;
                let (found, after) = (times(name)?, now()?);
                for time in [found.atime, found.mtime, found.ctime] {
                    let is_now = before < time && time <= after;
                    holds(
                        &format!("times of {name} when it is made"),
                        is_now,
                        "now",
                        found,
                    )?;
                }
            }
            Ok(())
        },
    ),
    Case::new(
        "times.create",
        "open(): O_CREAT marks the parent directory",
        |_| {
            dir("d")?;
            changes(&[("d", "mc"), (".", "")], || file("d/a"))?;
            changes(&[("d", ""), ("d/a", "")], || {
                open("d/a", O::RDWR | O::CREATE, 0o600).ok().map(drop)
            })?;
            changes(&[("d", ""), ("d/a", "")], || {
                open("d/a", O::RDWR | O::CREATE | O::EXCL, 0o600).fails(E::EXIST)
            })
        },
    ),
    Case::new("times.mkdir", "mkdir() marks the parent directory", |_| {
        dir("d")?;
        changes(&[("d", "mc"), (".", "")], || dir("d/e"))?;
        changes(&[("d", ""), ("d/e", "")], || {
            mkdir("d/e", 0o755).fails(E::EXIST)
        })
    }),
    Case::new(
        "times.mknod_and_symlink",
        "mknod(), symlink() mark the parent directory",
        |_| {
            dir("d")?;
            changes(&[("d", "mc")], || mkfifo("d/f", 0o644).ok())?;
            changes(&[("d", "mc")], || symlink("x", "d/s").ok())?;
            changes(&[("d", "mc")], || bind("d/u").ok().map(drop))
        },
    ),
    Case::new(
        "times.link",
        "link() marks the file's ctime and the parent directory",
        |_| {
            dir("d")?;
            dir("e")?;
            file("d/a")?;
            changes(&[("d/a", "c"), ("d", ""), ("e", "mc")], || {
                link("d/a", "e/b").ok()
            })?;
            changes(&[("d/a", ""), ("e", "")], || {
                link("d/a", "e/b").fails(E::EXIST)
            })
        },
    ),
    Case::new(
        "times.unlink",
        "unlink() marks the parent directory, and ctime of what has names left",
        |_| {
            dir("d")?;
            file("d/a")?;
            link("d/a", "b").ok()?;
            changes(&[("d", "mc"), ("b", "c")], || unlink("d/a").ok())?;
            changes(&[("d", "")], || unlink("d/a").fails(E::NOENT))?;
            let fd = create("d/open")?;
            let before = Times::of(&fstat(&fd).ok()?);
            tick(before.ctime)?;
            unlink("d/open").ok()?;
            let after = Times::of(&fstat(&fd).ok()?);
            same(
                "atime and mtime",
                (after.atime, after.mtime),
                (before.atime, before.mtime),
            )?;
            holds(
                "ctime of an open file whose last name went",
                after.ctime > before.ctime,
                "now",
                after.ctime,
            )
        },
    ),
    Case::new("times.rmdir", "rmdir() marks the parent directory", |_| {
        dir("d")?;
        dir("d/e")?;
        changes(&[("d", "mc"), (".", "")], || rmdir("d/e").ok())?;
        dir("d/e")?;
        file("d/e/a")?;
        changes(&[("d", ""), ("d/e", "")], || {
            rmdir("d/e").fails_with_one_of(&[E::NOTEMPTY, E::EXIST])
        })
    }),
    Case::new(
        "times.rename",
        "rename() marks both parent directories; the file's ctime (Linux)",
        |_| {
            // POSIX leaves ctime of what is renamed open ("some implementations"); all Linux file
            // systems that keep inodes mark it, and backups go by it.
            dir("d")?;
            dir("e")?;
            file("d/a")?;
            dir("d/sub")?;
            changes(&[("d", "mc"), ("e", ""), ("d/a", "c")], || {
                rename("d/a", "d/b").ok()
            })?;
            changes(&[("d", "mc"), ("e", "mc"), ("d/b", "c")], || {
                rename("d/b", "e/b").ok()
            })?;
            changes(&[("d", "mc"), ("e", "mc"), ("d/sub", "c")], || {
                rename("d/sub", "e/sub").ok()
            })?;
            file("e/c")?;
            link("e/c", "other").ok()?;
            changes(&[("e", "mc"), ("e/b", "c"), ("other", "c")], || {
                rename("e/b", "e/c").ok()
            })?;
            changes(&[("e", ""), ("e/c", "")], || {
                rename("e/no", "e/c").fails(E::NOENT)
            })?;
            // Two names of one file: nothing is done.
            link("e/c", "d/c").ok()?;
            changes(&[("d", ""), ("e", ""), ("e/c", "")], || {
                rename("e/c", "d/c").ok()
            })
        },
    ),
    Case::new("times.exchange", "rename(2): RENAME_EXCHANGE", |_| {
        dir("d")?;
        dir("e")?;
        // XFS does not mark what is exchanged, but directories whose `..` changes, and those with
        // mtime.
        file("d/a")?;
        file("e/b")?;
        changes(
            &[("d", "mc"), ("e", "mc"), ("d/a", "C"), ("e/b", "C")],
            || renameat2("d/a", "e/b", Rename::EXCHANGE).ok(),
        )
    }),
    Case::new("times.write", "write() marks mtime and ctime", |_| {
        let fd = create("a")?;
        changes(&[("a", "mc"), (".", "")], || {
            write(&fd, b"contents").gives(8)
        })?;
        changes(&[("a", "mc")], || pwrite(&fd, b"x", 0).gives(1))?;
        changes(&[("a", "mc")], || {
            pwrite(&fd, &[1; 100_000], 3).gives(100_000)
        })?;
        changes(&[("a", "")], || write(&fd, b"").gives(0))?;
        fsync(&fd).ok()?;
        let before = times("a")?;
        drop(fd);
        same("times after close", times("a")?, before)
    }),
    Case::new("times.read", "read() marks atime", |_| {
        let a = Reading::here()?.when_due();
        file_with("a", b"contents")?;
        changes(&[("a", a), (".", "")], || {
            read(&open("a", O::RDONLY, 0).ok()?, 3).gives(b"con".to_vec())
        })
    }),
    Case::new(
        "times.read_again",
        "read(), pread() mark atime: what was read before as well",
        |_| {
            let a = Reading::here()?.when_due();
            file_with("a", b"contents")?;
            let fd = open("a", O::RDONLY, 0).ok()?;
            changes(&[("a", a)], || read(&fd, 3).gives(b"con".to_vec()))?;
            changes(&[("a", a)], || read(&fd, 3).gives(b"ten".to_vec()))?;
            changes(&[("a", a)], || pread(&fd, 3, 0).gives(b"con".to_vec()))
        },
    ),
    Case::new(
        "times.read_that_leaves_atime",
        "open(2): O_NOATIME; read(): nbyte 0",
        |_| {
            file_with("a", b"contents")?;
            let fd = open("a", O::RDONLY | O::NOATIME, 0).ok()?;
            changes(&[("a", "")], || read(&fd, 3).gives(b"con".to_vec()))?;
            changes(&[("a", "")], || read(&fd, 0).gives(vec![]))
        },
    ),
    Case::new(
        "times.open_and_look",
        "open(), stat(), access(), getxattr(): nothing",
        |_| {
            file_with("a", b"contents")?;
            dir("d")?;
            symlink("a", "s").ok()?;
            changes(&[("a", ""), ("d", "")], || {
                open("a", O::RDWR, 0).ok()?;
                opendir("d").ok()?;
                stat("a").ok()?;
                access("a", Access::READ_OK).ok()?;
                getxattr("a", "user.x").fails(E::NODATA)?;
                listxattr("a").ok()?;
                let fd = open("a", O::RDWR, 0).ok()?;
                lseek(&fd, SeekFrom::End(0)).ok()?;
                flock(&fd, Flock::LockExclusive).ok()?;
                lock(&fd, Record::write(0, 0)).ok()?;
                fsync(&fd).ok()
            })
        },
    ),
    Case::new("times.readlink", "readlink() marks atime", |_| {
        symlink("x", "s").ok()?;
        changes(&[("s", Reading::here()?.when_due())], || {
            readlink("s").gives(b"x".to_vec())
        })
    }),
    Case::new("times.readdir", "readdir() marks atime", |_| {
        dir("d")?;
        file("d/a")?;
        let fd = opendir("d").ok()?;
        let a = Reading::here()?.when_due_of_a_directory();
        changes(&[("d", a), ("d/a", "")], || {
            getdents(&fd, 4_096).ok().map(drop)
        })
    }),
    Case::new(
        "times.read_that_is_not_due",
        "mount(8): relatime, strictatime, noatime, nodiratime",
        |_| {
            let reading = Reading::here()?;
            dir("d")?;
            file("d/b")?;
            file_with("a", b"contents")?;
            if reading.is_relative() {
                // Later than the other times, and less than a day away.
                let later = at((now()?.0 + 3_600, 0));
                utimens("a", later, OMIT).ok()?;
                utimens("d", later, OMIT).ok()?;
                let before = (times("a")?, times("d")?);
                read_both("a", "d")?;
                return same("times after reading", (times("a")?, times("d")?), before);
            }
            let of_each = [
                ("a", reading.when_due()),
                ("d", reading.when_due_of_a_directory()),
            ];
            for _ in 0..3 {
                changes(&of_each, || read_both("a", "d"))?;
            }
            Ok(())
        },
    ),
    Case::new(
        "times.truncate",
        "truncate(), ftruncate(), open(): O_TRUNC mark mtime and ctime",
        |_| {
            file_with("a", &[1; 10_000])?;
            changes(&[("a", "mc")], || truncate("a", 5_000).ok())?;
            changes(&[("a", "mc")], || truncate("a", 15_000).ok())?;
            let fd = open("a", O::RDWR, 0).ok()?;
            changes(&[("a", "mc")], || ftruncate(&fd, 300).ok())?;
            changes(&[("a", "mc")], || ftruncate(&fd, 300).ok())?;
            changes(&[("a", "mc"), (".", "")], || {
                open("a", O::WRONLY | O::TRUNC, 0).ok().map(drop)
            })?;
            changes(&[("a", "mc")], || {
                open("a", O::WRONLY | O::TRUNC, 0).ok().map(drop)
            })
        },
    ),
    Case::new(
        "times.chmod_and_chown",
        "chmod(), chown() mark ctime",
        |_| {
            file("a")?;
            dir("d")?;
            for name in ["a", "d"] {
                changes(&[(name, "c"), (".", "")], || chmod(name, 0o700).ok())?;
                changes(&[(name, "c")], || chown(name, Some(ANN.uid), None).ok())?;
                changes(&[(name, "c")], || chown(name, None, Some(ANN.uid)).ok())?;
            }
            symlink("a", "s").ok()?;
            changes(&[("s", "c"), ("a", "")], || {
                lchown("s", Some(ANN.uid), None).ok()
            })?;
            changes(&[("a", "c")], || chmod("s", 0o600).ok())
        },
    ),
    Case::new(
        "times.xattrs",
        "setxattr(2), removexattr(2): ctime (inode(7))",
        |_| {
            file("a")?;
            dir("d")?;
            for name in ["a", "d"] {
                changes(&[(name, "c"), (".", "")], || {
                    setxattr(name, "user.x", b"1", Xattr::empty()).ok()
                })?;
                changes(&[(name, "c")], || {
                    setxattr(name, "user.x", b"2", Xattr::empty()).ok()
                })?;
                changes(&[(name, "")], || {
                    getxattr(name, "user.x").gives(b"2".to_vec())
                })?;
                changes(&[(name, "c")], || removexattr(name, "user.x").ok())?;
            }
            Ok(())
        },
    ),
    Case::new("times.tmpfile_gets_a_name", "linkat(2): ctime", |_| {
        dir("d")?;
        let fd = open("d", O::RDWR | O::TMPFILE, 0o600).ok()?;
        changes(&[("d", "mc")], || link_open_file(&fd, "d/a").ok())?;
        changes(&[("d/a", "mc")], || write(&fd, b"x").gives(1))
    }),
    Case::new(
        "times.fallocate",
        "fallocate(2): changed data and size mark mtime and ctime",
        |_| {
            let fd = create("a")?;
            write(&fd, &[1; 100_000]).gives(100_000)?;
            changes(&[("a", "mc")], || {
                fallocate(&fd, Falloc::empty(), 0, 200_000).ok()
            })?;
            changes(&[("a", "mc")], || {
                fallocate(&fd, Falloc::PUNCH_HOLE | Falloc::KEEP_SIZE, 4_096, 8_192).ok()
            })
        },
    ),
    Case::new(
        "times.copies",
        "copy_file_range(2), sendfile(2): as write()",
        |_| {
            file_with("from", &[1; 10_000])?;
            let (from, to) = (open("from", O::RDONLY, 0).ok()?, create("to")?);
            changes(&[("to", "mc")], || {
                // As much as the file system likes; XFS goes by blocks.
                let count = copy_file_range((&from, Some(0)), (&to, None), 5_000).ok()?;
                holds("bytes copied", count > 0, "some", count)
            })?;
            lseek(&from, SeekFrom::Start(0)).gives(0)?;
            changes(&[("to", "mc")], || {
                sendfile(&to, &from, None, 5_000).gives(5_000)
            })
        },
    ),
    Case::new(
        "times.mapped_write",
        "mmap(): MAP_SHARED, marked until msync()",
        |_| {
            let fd = create("a")?;
            write(&fd, &[1; PAGE]).gives(PAGE)?;
            fsync(&fd).ok()?;
            let mapping = map_shared(&fd, PAGE).ok()?;
            changes(&[("a", "mc")], || {
                mapping.set(7, 7);
                mapping.sync(MsyncFlags::SYNC).ok()
            })
        },
    ),
    Case::new(
        "times.later_than_what_was_set",
        "write() marks mtime",
        |_| {
            // A time that was set by hand does not stay after a change, nor does a change wait for
            // it.
            let fd = create("a")?;
            for seconds in [1_000, 4_000_000_000] {
                utimens("a", at((seconds, 0)), at((seconds, 0))).ok()?;
                write(&fd, b"x").gives(1)?;
                let found = times("a")?;
                holds(
                    "mtime",
                    found.mtime.0 != seconds && found.mtime <= now()?,
                    "now",
                    found.mtime,
                )?;
            }
            // An earlier write does not undo a time that is set after it.
            utimens("a", OMIT, at((1_000, 5))).ok()?;
            fsync(&fd).ok()?;
            same("mtime after fsync", times("a")?.mtime, (1_000, 5))?;
            drop(fd);
            same("mtime after close", times("a")?.mtime, (1_000, 5))
        },
    ),
    Case::new(
        "times.set_while_open",
        "futimens(); write(): as cp -p and tar do it",
        |_| {
            let fd = create("a")?;
            write(&fd, &[1; 300_000]).gives(300_000)?;
            futimens(&fd, at((1_000, 5)), at((2_000, 6))).ok()?;
            fchmod(&fd, 0o600).ok()?;
            drop(fd);
            let found = times("a")?;
            same(
                "times after close",
                (found.atime, found.mtime),
                ((1_000, 5), (2_000, 6)),
            )
        },
    ),
];
