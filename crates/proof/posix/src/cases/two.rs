//! Two mounts of one file system: what is done on one is seen on the other.
//!
//! The mounts have to be such that they promise it: with time-outs of 0, or leases. Files opened
//! after a close, and attributes and names after the call that changed them, are then as they are
//! here; nothing is waited for but what POSIX lets wait, locks.

use crate::case::{Case, Outcome, Place, same};
use crate::files::{create, dir, file, file_with, one_of_each_kind, pattern, write_all};
use crate::process::{ANN, Peer, as_user, in_child};
use crate::sys::*;
use crate::times::times;

impl Place {
    /// A path on the second mount.
    fn at(&self, path: &str) -> String {
        self.there.join(path).to_string_lossy().into_owned()
    }
}

const CLAUSE: &str = "close(); open(): what one process did another sees";

pub(super) const CASES: &[Case] = &[
    Case::new("two.names", CLAUSE, |place| {
        for round in 0..20 {
            let name = format!("a{round}");
            lstat(&place.at(&name)).fails(E::NOENT)?;
            file(&name)?;
            lstat(&place.at(&name)).ok()?;
            rename(&name, "moved").ok()?;
            lstat(&place.at(&name)).fails(E::NOENT)?;
            lstat(&place.at("moved")).ok()?;
            same(
                "names",
                names_in(place.there.as_path())?,
                ["moved".to_owned()].into(),
            )?;
            unlink(&place.at("moved")).ok()?;
            is_gone("moved")?;
        }
        Ok(())
    }),
    Case::new("two.same_numbers_and_attributes", CLAUSE, |place| {
        one_of_each_kind()?;
        for (name, _) in crate::files::KINDS {
            let (here, there) = (lstat(name).ok()?, lstat(&place.at(name)).ok()?);
            same(&format!("st_ino of {name}"), there.st_ino, here.st_ino)?;
            same(
                "mode, size, links, owner",
                (there.st_mode, there.st_size, there.st_nlink, there.st_uid),
                (here.st_mode, here.st_size, here.st_nlink, here.st_uid),
            )?;
            same("device", there.st_rdev, here.st_rdev)?;
            let of = |stat: &Stat| {
                (
                    stat.st_mtime,
                    stat.st_mtime_nsec,
                    stat.st_ctime,
                    stat.st_ctime_nsec,
                )
            };
            same("times", of(&there), of(&here))?;
        }
        Ok(())
    }),
    Case::new(
        "two.exclusive_create",
        "open(): O_EXCL, [EEXIST]",
        |place| {
            lstat(&place.at("a")).fails(E::NOENT)?;
            file("a")?;
            open(&place.at("a"), O::WRONLY | O::CREATE | O::EXCL, 0o644).fails(E::EXIST)?;
            mkdir(&place.at("a"), 0o755).fails(E::EXIST)?;
            unlink("a").ok()?;
            mkdir(&place.at("a"), 0o755).ok()?;
            open("a", O::WRONLY | O::CREATE | O::EXCL, 0o644).fails(E::EXIST)?;
            file("a/b")?;
            rmdir(&place.at("a")).fails_with_one_of(&[E::NOTEMPTY, E::EXIST])
        },
    ),
    Case::new(
        "two.exclusive_create_has_one_winner",
        "open(): O_EXCL",
        |place| {
            for round in 0..20 {
                let name = format!("round-{round}");
                let tries = |path: String, mark: String| {
                    Peer::start(move |line| {
                        line.hear()?;
                        match open(&path, O::WRONLY | O::CREATE | O::EXCL, 0o644).result() {
                            Ok(_) => file(&mark),
                            Err(errno) => same("errno", errno, E::EXIST),
                        }
                    })
                };
                let peers = [
                    tries(name.clone(), format!("{name}-here"))?,
                    tries(place.at(&name), format!("{name}-there"))?,
                ];
                peers.iter().try_for_each(|it| it.tell())?;
                peers.into_iter().try_for_each(|it| it.join())?;
                let winners = names_in(".")?
                    .iter()
                    .filter(|it| it.starts_with(&format!("{name}-")))
                    .count();
                same("who made it", winners, 1)?;
            }
            Ok(())
        },
    ),
    Case::new("two.contents_after_close", CLAUSE, |place| {
        for size in [1, 4_096, 4_097, 1 << 20, 3_000_000] {
            let data = pattern(size as u64, size);
            let _ = unlink("a").result();
            file_with("a", &data)?;
            same("contents there", contents_of(&place.at("a"))? == data, true)?;
            let fd = open(&place.at("a"), O::WRONLY, 0).ok()?;
            pwrite(&fd, b"changed", size as u64 / 2).gives(7)?;
            drop(fd);
            let found = contents_of("a")?;
            same(
                "what was changed there",
                found[size / 2..][..7.min(found.len() - size / 2)].to_vec(),
                b"changed".to_vec(),
            )?;
            truncate("a", 1).ok()?;
            same("size there", lstat(&place.at("a")).ok()?.st_size, 1)?;
            same(
                "contents there",
                contents_of(&place.at("a"))?,
                data[..1].to_vec(),
            )
            .or_else(|failure| if size < 2 { Ok(()) } else { Err(failure) })?;
        }
        Ok(())
    }),
    Case::new(
        "two.size_and_times_after_write",
        "write(); stat()",
        |place| {
            let fd = create("a")?;
            for round in 1..=10 {
                write(&fd, &[1; 1_000]).gives(1_000)?;
                fsync(&fd).ok()?;
                same(
                    "size there",
                    lstat(&place.at("a")).ok()?.st_size,
                    1_000 * round,
                )?;
                same(
                    "times there",
                    times(&place.at("a"))?.mtime,
                    times("a")?.mtime,
                )?;
            }
            Ok(())
        },
    ),
    Case::new(
        "two.attributes",
        "chmod(); chown(); utimensat(); setxattr(2)",
        |place| {
            file("a")?;
            let there = place.at("a");
            for mode in [0o600, 0o755, 0o4711] {
                lstat(&there).ok()?;
                chmod("a", mode).ok()?;
                same("mode there", mode_of(&there)?, mode)?;
            }
            chown(&there, Some(ANN.uid), Some(5)).ok()?;
            same(
                "owner here",
                (lstat("a").ok()?.st_uid, lstat("a").ok()?.st_gid),
                (ANN.uid, 5),
            )?;
            utimens("a", at((5, 6)), at((7, 8))).ok()?;
            same(
                "times there",
                (times(&there)?.atime, times(&there)?.mtime),
                ((5, 6), (7, 8)),
            )?;
            getxattr(&there, "user.x").fails(E::NODATA)?;
            setxattr("a", "user.x", b"1", Xattr::empty()).ok()?;
            getxattr(&there, "user.x").gives(b"1".to_vec())?;
            setxattr(&there, "user.x", b"2", Xattr::empty()).ok()?;
            getxattr("a", "user.x").gives(b"2".to_vec())?;
            link("a", "b").ok()?;
            same("links there", lstat(&there).ok()?.st_nlink, 2)
        },
    ),
    Case::new("two.rights", "path resolution; [EACCES]", |place| {
        // Users may not reach the second mount's top, so they begin at a descriptor of it.
        file_with("a", b"contents")?;
        dir("d")?;
        file("d/b")?;
        let there = opendir(place.there.as_path()).ok()?;
        let reads = |allowed: bool| {
            as_user(ANN, || {
                let found = openat(&there, "a", O::RDONLY, 0);
                if allowed {
                    found.ok().map(drop)
                } else {
                    found.fails(E::ACCESS)
                }
            })
        };
        let finds = |allowed: bool| {
            as_user(ANN, || {
                let found = fstatat(&there, "d/b", At::empty());
                if allowed {
                    found.ok().map(drop)
                } else {
                    found.fails(E::ACCESS)
                }
            })
        };
        for _ in 0..5 {
            reads(true)?;
            finds(true)?;
            chmod("a", 0o600).ok()?;
            chmod("d", 0o700).ok()?;
            reads(false)?;
            finds(false)?;
            chmod("a", 0o644).ok()?;
            chmod("d", 0o755).ok()?;
        }
        Ok(())
    }),
    Case::new(
        "two.unlinked_while_open_there",
        "unlink(): open files",
        |place| {
            for size in [100, 3_000_000] {
                let data = pattern(1, size);
                file_with("a", &data)?;
                let fd = open(&place.at("a"), O::RDWR, 0).ok()?;
                unlink("a").ok()?;
                same("contents", contents(&fd).ok()? == data, true)?;
                pwrite(&fd, b"still", 50).gives(5)?;
                pread(&fd, 5, 50).gives(b"still".to_vec())?;
                same("links", fstat(&fd).ok()?.st_nlink, 0)?;
                fsync(&fd).ok()?;
                lstat(&place.at("a")).fails(E::NOENT)?;
            }
            Ok(())
        },
    ),
    Case::new(
        "two.replaced_while_open_there",
        "rename(): open files",
        |place| {
            file_with("a", b"old")?;
            file_with("b", b"new")?;
            let fd = open(&place.at("a"), O::RDONLY, 0).ok()?;
            rename("b", "a").ok()?;
            contents(&fd).gives(b"old".to_vec())?;
            same(
                "contents there",
                contents_of(&place.at("a"))?,
                b"new".to_vec(),
            )?;
            same("links", fstat(&fd).ok()?.st_nlink, 0)
        },
    ),
    Case::new(
        "two.directory_removed_while_open_there",
        "rmdir(): open directories",
        |place| {
            dir("d")?;
            let fd = opendir(&place.at("d")).ok()?;
            rmdir("d").ok()?;
            openat(&fd, "a", O::WRONLY | O::CREATE, 0o644)
                .fails_with_one_of(&[E::NOENT, E::STALE])?;
            lists_nothing(&fd)?;
            dir("d")?;
            file("d/a")?;
            same("names there", names_in(&place.at("d"))?.len(), 1)
        },
    ),
    Case::new(
        "two.open_files_see_writes",
        "read(): data of a write() that returned before",
        |place| {
            // POSIX promises it of any two processes; close-to-open file systems after close and
            // open.
            let here = create("a")?;
            let there = open(&place.at("a"), O::RDWR, 0).ok()?;
            for round in 0..10_u64 {
                let part = pattern(round, 5_000);
                pwrite(&here, &part, round * 5_000).gives(5_000)?;
                fsync(&here).ok()?;
                drop(open(&place.at("a"), O::RDONLY, 0).ok()?);
                same(
                    "data there",
                    pread(&there, 5_000, round * 5_000).ok()? == part,
                    true,
                )?;
            }
            Ok(())
        },
    ),
    Case::new("two.append_by_both", "write(): O_APPEND", |place| {
        drop(create("a")?);
        let here = open("a", O::WRONLY | O::APPEND, 0).ok()?;
        let there = open(&place.at("a"), O::WRONLY | O::APPEND, 0).ok()?;
        for _ in 0..50 {
            write(&here, b"here ").gives(5)?;
            write(&there, b"there").gives(5)?;
        }
        drop((here, there));
        same(
            "contents",
            contents_of("a")? == b"here there".repeat(50),
            true,
        )
    }),
    Case::new("two.flock", "flock(2)", |place| {
        file("a")?;
        let here = open("a", O::RDWR, 0).ok()?;
        let there = open(&place.at("a"), O::RDWR, 0).ok()?;
        flock(&here, Flock::NonBlockingLockShared).ok()?;
        flock(&there, Flock::NonBlockingLockShared).ok()?;
        flock(&there, Flock::NonBlockingLockExclusive).fails(E::AGAIN)?;
        flock(&here, Flock::Unlock).ok()?;
        flock(&there, Flock::NonBlockingLockExclusive).ok()?;
        flock(&here, Flock::NonBlockingLockShared).fails(E::AGAIN)?;
        drop(there);
        flock(&here, Flock::NonBlockingLockExclusive).ok()
    }),
    Case::new("two.flock_waits_and_wakes_up", "flock(2)", |place| {
        file("a")?;
        let here = open("a", O::RDWR, 0).ok()?;
        flock(&here, Flock::LockExclusive).ok()?;
        let waits = waiter(place, libc::SYS_flock, |fd| {
            flock(fd, Flock::LockExclusive).ok()
        })?;
        flock(&here, Flock::Unlock).ok()?;
        waits.hear()?;
        waits.join()
    }),
    Case::new("two.record_locks", "fcntl(): F_SETLK, F_GETLK", |place| {
        file("a")?;
        let here = open("a", O::RDWR, 0).ok()?;
        lock(&here, Record::write(10, 10)).ok()?;
        in_child(|| {
            let there = open(&place.at("a"), O::RDWR, 0).ok()?;
            lock(&there, Record::write(19, 5)).fails_with_one_of(&[E::AGAIN, E::ACCESS])?;
            let found = lock_in_the_way(&there, Record::read(0, 0)).ok()?;
            same(
                "in the way",
                found.map(|it| it.0),
                Some(Record::write(10, 10)),
            )?;
            lock(&there, Record::write(20, 5)).ok()
        })?;
        let waits = waiter(place, libc::SYS_fcntl, |fd| {
            lock_waiting(fd, Record::write(0, 0)).ok()
        })?;
        lock(&here, Record::unlock(0, 0)).ok()?;
        waits.hear()?;
        waits.join()
    }),
    Case::new(
        "two.locks_go_with_their_process",
        "fcntl(): process termination",
        |place| {
            file("a")?;
            let holds = Peer::start(|line| {
                let fd = open("a", O::RDWR, 0).ok()?;
                lock(&fd, Record::write(0, 0)).ok()?;
                flock(&fd, Flock::LockExclusive).ok()?;
                line.tell()?;
                line.hear()
            })?;
            holds.hear()?;
            let waits = waiter(place, libc::SYS_fcntl, |fd| {
                lock_waiting(fd, Record::write(0, 0)).ok()
            })?;
            holds.kill()?;
            waits.hear()?;
            waits.join()?;
            flock(
                &open(&place.at("a"), O::RDWR, 0).ok()?,
                Flock::LockExclusive,
            )
            .ok()
        },
    ),
    Case::new("two.listing", "readdir(); rewinddir()", |place| {
        dir("d")?;
        let fd = opendir(&place.at("d")).ok()?;
        for i in 0..200 {
            file(&format!("d/{i}"))?;
            if i % 20 == 0 {
                seekdir(&fd, 0)?;
                same("entries there", rest_of(&fd, 32_768)?.len(), i + 3)?;
            }
        }
        for i in 0..200 {
            unlink(&format!("d/{i}")).ok()?;
        }
        seekdir(&fd, 0)?;
        same("entries there", rest_of(&fd, 32_768)?.len(), 2)?;
        rmdir(&place.at("d")).ok()
    }),
    Case::new(
        "two.mapped",
        "mmap(): MAP_SHARED; msync(); open()",
        |place| {
            let fd = create("a")?;
            write_all(&fd, &[b'.'; 2 * PAGE])?;
            let mapping = map_shared(&fd, 2 * PAGE).ok()?;
            mapping.set(PAGE, b'x');
            mapping.sync(rustix::mm::MsyncFlags::SYNC).ok()?;
            same("a byte there", contents_of(&place.at("a"))?[PAGE], b'x')
        },
    ),
    Case::new("two.renamed_directories", "rename()", |place| {
        dir("d")?;
        dir("d/e")?;
        file("d/e/a")?;
        let fd = opendir(&place.at("d/e")).ok()?;
        rename("d/e", "f").ok()?;
        openat(&fd, "a", O::RDONLY, 0).ok()?;
        openat(&fd, "new", O::WRONLY | O::CREATE, 0o644).ok()?;
        lstat("f/new").ok()?;
        lstat(&place.at("f/../f/a")).ok()?;
        lstat(&place.at("d/e")).fails(E::NOENT)
    }),
];

/// A process on the second mount that waits for a lock of `a`, and tells when it has it.
fn waiter(
    place: &Place,
    number: libc::c_long,
    take: impl FnOnce(&OwnedFd) -> Outcome,
) -> Outcome<Peer> {
    let peer = Peer::start(|line| {
        let fd = open(&place.at("a"), O::RDWR, 0).ok()?;
        take(&fd)?;
        line.tell()
    })?;
    peer.is_held_in(number)?;
    Ok(peer)
}
