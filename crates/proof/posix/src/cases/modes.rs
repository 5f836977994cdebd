//! `chmod`, `chown`, the set-id bits that calls take off, and the sticky bit.

use crate::case::{Case, same};
use crate::files::{dir, dir_of, file, file_of, file_with, one_of_each_kind};
use crate::process::{ANN, BOB, CLUB, CREW, EVE, Who, as_user};
use crate::sys::*;

/// A file of ANN and of the group CREW, with contents.
fn of_ann_and_crew(path: &str, mode: u32) -> crate::case::Outcome {
    file_with(path, b"contents")?;
    chown(path, Some(ANN.uid), Some(CREW)).ok()?;
    chmod(path, mode).ok()
}

/// A call that changes the data of the file `a`.
type Change = fn() -> crate::case::Outcome;

/// Every call that changes the data of the file `a`.
fn changes() -> [(&'static str, Change); 9] {
    [
        ("truncate", || truncate("a", 3).ok()),
        ("ftruncate", || {
            ftruncate(&open("a", O::WRONLY, 0).ok()?, 5).ok()
        }),
        ("open with O_TRUNC", || {
            open("a", O::WRONLY | O::TRUNC, 0).ok().map(drop)
        }),
        ("pwrite", || {
            pwrite(&open("a", O::WRONLY, 0).ok()?, b"x", 9).gives(1)
        }),
        ("write with O_APPEND", || {
            write(&open("a", O::WRONLY | O::APPEND, 0).ok()?, b"x").gives(1)
        }),
        ("copy_file_range", || {
            let (from, to) = (
                open("from", O::RDONLY, 0).ok()?,
                open("a", O::WRONLY, 0).ok()?,
            );
            copy_file_range((&from, None), (&to, None), 4).gives(4)
        }),
        ("O_DIRECT write", || {
            let fd = open("a", O::RDWR | O::DIRECT, 0);
            let Ok(fd) = fd.result() else {
                return chmod("a", 0o777).ok();
            };
            let memory = open("from", O::RDONLY, 0).ok()?;
            let memory = map(&memory, PAGE, false, rustix::mm::MapFlags::PRIVATE).ok()?;
            same("write", memory.write_direct(&fd, 0, PAGE), Ok(PAGE))
        }),
        ("fallocate", || {
            fallocate(&open("a", O::WRONLY, 0).ok()?, Falloc::empty(), 0, 9_000).ok()
        }),
        ("a write to data objects", || {
            pwrite(&open("a", O::WRONLY, 0).ok()?, &[b'x'; 300_000], 5_000).gives(300_000)
        }),
    ]
}

const MEMBER: Who = ANN.with(&[CREW]);

/// A value of `security.capability` that the kernel takes (revision 2, cap_net_raw).
const CAPABILITY: [u8; 20] = [1, 0, 0, 2, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

pub(super) const CASES: &[Case] = &[
    Case::new("chmod.every_bit", "chmod(); fchmod()", |_| {
        one_of_each_kind()?;
        for name in ["regular", "directory", "fifo", "socket", "char", "block"] {
            for mode in (0..12).map(|bit| 1 << bit).chain([0, 0o7777, 0o644]) {
                chmod(name, mode).ok()?;
                same(&format!("mode of {name}"), mode_of(name)?, mode)?;
            }
        }
        let fd = open("regular", O::RDONLY, 0).ok()?;
        fchmod(&fd, 0o751).ok()?;
        same("mode", fstat(&fd).ok()?.st_mode & 0o7777, 0o751)?;
        let fd = opendir("directory").ok()?;
        fchmod(&fd, 0o1751).ok()?;
        same("mode", mode_of("directory")?, 0o1751)
    }),
    Case::new("chmod.is_for_the_owner", "chmod(): [EPERM]", |_| {
        file_of("a", ANN.uid, 0o777)?;
        chown("a", None, Some(CREW)).ok()?;
        as_user(BOB.with(&[CREW]), || chmod("a", 0o700).fails(E::PERM))?;
        as_user(ANN, || chmod("a", 0).ok())?;
        as_user(ANN, || chmod("a", 0o1644).ok())?;
        same("mode", mode_of("a")?, 0o1644)
    }),
    Case::new(
        "chmod.errors",
        "chmod(): [ENOENT], [ENOTDIR], [EACCES]",
        |_| {
            file("a")?;
            chmod("no", 0o644).fails(E::NOENT)?;
            chmod("", 0o644).fails(E::NOENT)?;
            chmod("a/b", 0o644).fails(E::NOTDIR)?;
            dir_of("d", BOB.uid, 0o700)?;
            file_of("d/a", ANN.uid, 0o644)?;
            as_user(ANN, || chmod("d/a", 0o600).fails(E::ACCESS))
        },
    ),
    Case::new(
        "chmod.set_group_id_only_for_members",
        "chmod(): S_ISGID of a file of a foreign group is cleared",
        |_| {
            of_ann_and_crew("a", 0o644)?;
            as_user(ANN, || chmod("a", 0o2755).ok())?;
            same("mode set by an outsider", mode_of("a")?, 0o755)?;
            as_user(MEMBER, || chmod("a", 0o2755).ok())?;
            same("mode set by a member", mode_of("a")?, 0o2755)?;
            as_user(ANN, || chmod("a", 0o4755).ok())?;
            same("set-user-id", mode_of("a")?, 0o4755)?;
            chmod("a", 0o6755).ok()?;
            same("mode set by root", mode_of("a")?, 0o6755)
        },
    ),
    Case::new("chown.root_gives_to_anybody", "chown(); fchown()", |_| {
        one_of_each_kind()?;
        for (name, _) in crate::files::KINDS {
            lchown(name, Some(ANN.uid), Some(CREW)).ok()?;
            let ids = lstat(name).ok().map(|it| (it.st_uid, it.st_gid))?;
            same(&format!("owner of {name}"), ids, (ANN.uid, CREW))?;
            lchown(name, None, Some(CLUB)).ok()?;
            lchown(name, Some(BOB.uid), None).ok()?;
            let ids = lstat(name).ok().map(|it| (it.st_uid, it.st_gid))?;
            same(&format!("owner of {name}"), ids, (BOB.uid, CLUB))?;
        }
        let fd = open("regular", O::RDONLY, 0).ok()?;
        fchown(&fd, Some(4_000_000_000), Some(3_999_999_999)).ok()?;
        let stat = fstat(&fd).ok()?;
        same(
            "numbers beyond 31 bits",
            (stat.st_uid, stat.st_gid),
            (4_000_000_000, 3_999_999_999),
        )
    }),
    Case::new(
        "chown.owner_gives_to_own_groups",
        "chown(): _POSIX_CHOWN_RESTRICTED, [EPERM]",
        |_| {
            file_of("a", ANN.uid, 0o644)?;
            as_user(MEMBER, || {
                chown("a", None, Some(CREW)).ok()?;
                chown("a", Some(ANN.uid), Some(ANN.uid)).ok()?;
                chown("a", None, Some(CLUB)).fails(E::PERM)?;
                chown("a", Some(BOB.uid), None).fails(E::PERM)?;
                chown("a", Some(BOB.uid), Some(CREW)).fails(E::PERM)?;
                chown("a", Some(0), None).fails(E::PERM)?;
                chown("a", None, None).ok()
            })?;
            as_user(BOB.with(&[CREW]), || {
                chown("a", None, Some(CREW)).fails(E::PERM)?;
                chown("a", Some(BOB.uid), None).fails(E::PERM)
            })?;
            let stat = lstat("a").ok()?;
            same(
                "owner and group",
                (stat.st_uid, stat.st_gid),
                (ANN.uid, ANN.uid),
            )
        },
    ),
    Case::new(
        "chown.errors",
        "chown(): [ENOENT], [ENOTDIR], [EACCES]",
        |_| {
            file("a")?;
            chown("no", Some(1), None).fails(E::NOENT)?;
            chown("a/b", Some(1), None).fails(E::NOTDIR)?;
            dir_of("d", BOB.uid, 0o700)?;
            file_of("d/a", ANN.uid, 0o644)?;
            as_user(ANN, || chown("d/a", None, Some(ANN.uid)).fails(E::ACCESS))
        },
    ),
    Case::new(
        "setid.chown_takes_it_off",
        "chown(): S_ISUID and S_ISGID; chown(2)",
        |_| {
            of_ann_and_crew("a", 0o6755)?;
            as_user(MEMBER, || chown("a", None, Some(ANN.uid)).ok())?;
            same("mode after the owner's chown", mode_of("a")?, 0o755)?;
            chmod("a", 0o6755).ok()?;
            chown("a", Some(BOB.uid), None).ok()?;
            same("mode after root's chown", mode_of("a")?, 0o755)?;
            // Directories keep theirs: there it means another thing.
            dir("d")?;
            chmod("d", 0o6755).ok()?;
            chown("d", Some(ANN.uid), Some(CREW)).ok()?;
            same("mode of a directory", mode_of("d")?, 0o6755)
        },
    ),
    Case::new(
        "setid.chown_without_group_execute",
        "chown(2): set-group-id without S_IXGRP",
        |_| {
            // Without the group's right to execute the bit stood for mandatory locks, which chown
            // leaves.
            of_ann_and_crew("a", 0o6644)?;
            chown("a", Some(BOB.uid), None).ok()?;
            same("mode", mode_of("a")?, 0o2644)
        },
    ),
    Case::new(
        "setid.write_takes_it_off",
        "write(): S_ISUID and S_ISGID; inode(7)",
        |_| {
            let by_write = |name: &'static str| {
                move || {
                    let fd = open(name, O::WRONLY, 0).ok()?;
                    write(&fd, b"x").gives(1)
                }
            };
            of_ann_and_crew("a", 0o6777)?;
            as_user(BOB, by_write("a"))?;
            same("mode after another's write", mode_of("a")?, 0o777)?;
            chmod("a", 0o6777).ok()?;
            as_user(ANN, by_write("a"))?;
            same("mode after the owner's write", mode_of("a")?, 0o777)?;
            chmod("a", 0o6777).ok()?;
            as_user(MEMBER, by_write("a"))?;
            same("mode after a member's write", mode_of("a")?, 0o777)?;
            chmod("a", 0o6777).ok()?;
            by_write("a")()?;
            same("mode after root's write", mode_of("a")?, 0o6777)
        },
    ),
    Case::new(
        "setid.other_changes_take_it_off",
        "inode(7); truncate(): S_ISUID; fallocate(2); copy_file_range(2)",
        |_| {
            of_ann_and_crew("a", 0o6777)?;
            file_with("from", b"from")?;
            for (what, call) in changes() {
                chmod("a", 0o6777).ok()?;
                // The owner, for whom nothing but the bits differs, and who may chmod.
                as_user(ANN, call)?;
                same(&format!("mode after {what}"), mode_of("a")?, 0o777)?;
            }
            Ok(())
        },
    ),
    Case::new(
        "setid.changes_without_group_execute",
        "inode(7); Linux 6.2: set-group-id without S_IXGRP stays for who might set it",
        |_| {
            of_ann_and_crew("a", 0o2666)?;
            file_with("from", b"from")?;
            let in_crew = EVE.with(&[CLUB, CREW]);
            for (what, call) in changes() {
                for (who, from, to) in [
                    (BOB, 0o2666, 0o666),
                    (ANN, 0o6666, 0o666),
                    (MEMBER, 0o6666, 0o2666),
                    (in_crew, 0o2666, 0o2666),
                ] {
                    chmod("a", from).ok()?;
                    as_user(who, call)?;
                    same(
                        &format!("mode {from:o} after {what} of user {}", who.uid),
                        mode_of("a")?,
                        to,
                    )?;
                }
                chmod("a", 0o6666).ok()?;
                call()?;
                same(&format!("mode after {what} of root"), mode_of("a")?, 0o6666)?;
            }
            // By a process that had the file open when anybody might write to it.
            let fd = open("a", O::WRONLY, 0).ok()?;
            chmod("a", 0o2600).ok()?;
            as_user(in_crew, || ftruncate(&fd, 3).ok())?;
            same("mode after a member's ftruncate", mode_of("a")?, 0o2600)?;
            as_user(BOB, || ftruncate(&fd, 2).ok())?;
            same("mode after another's", mode_of("a")?, 0o600)
        },
    ),
    Case::new(
        "setid.chown_of_nothing",
        "chown(2): owner and group -1",
        |_| {
            of_ann_and_crew("a", 0o6755)?;
            as_user(ANN, || chown("a", None, None).ok())?;
            same("mode after the owner's", mode_of("a")?, 0o755)?;
            chmod("a", 0o6755).ok()?;
            chown("a", None, None).ok()?;
            same("mode after root's", mode_of("a")?, 0o755)?;
            dir("d")?;
            chmod("d", 0o6755).ok()?;
            chown("d", None, None).ok()?;
            same("mode of a directory", mode_of("d")?, 0o6755)
        },
    ),
    Case::new("setid.reading_leaves_it", "inode(7)", |_| {
        of_ann_and_crew("a", 0o6777)?;
        as_user(BOB, || {
            let fd = open("a", O::RDWR, 0).ok()?;
            read(&fd, 8).gives(b"contents".to_vec())?;
            write(&fd, b"").gives(0)?;
            utimens("a", NOW, NOW).ok()
        })?;
        rename("a", "b").ok()?;
        same("mode", mode_of("b")?, 0o6777)
    }),
    Case::new(
        "setid.capabilities_go_as_well",
        "capabilities(7): file capabilities; write(2), chown(2)",
        |_| {
            let name = "security.capability";
            file_with("a", b"contents")?;
            let set = || setxattr("a", name, &CAPABILITY, Xattr::empty()).ok();
            set()?;
            getxattr("a", name).gives(CAPABILITY.to_vec())?;
            write(&open("a", O::WRONLY, 0).ok()?, b"x").gives(1)?;
            getxattr("a", name).fails(E::NODATA)?;
            set()?;
            chown("a", Some(ANN.uid), None).ok()?;
            getxattr("a", name).fails(E::NODATA)?;
            set()?;
            truncate("a", 3).ok()?;
            getxattr("a", name).fails(E::NODATA)
        },
    ),
    Case::new(
        "sticky.who_may_unlink",
        "unlink(): [EPERM] or [EACCES] S_ISVTX; unlink(2)",
        |_| {
            dir_of("d", EVE.uid, 0o1777)?;
            for name in ["anns", "anns-2", "anns-3"] {
                file_of(&format!("d/{name}"), ANN.uid, 0o666)?;
            }
            mkdir("d/dir", 0o777).ok()?;
            chown("d/dir", Some(ANN.uid), None).ok()?;
            as_user(BOB, || {
                unlink("d/anns").fails(E::PERM)?;
                rmdir("d/dir").fails(E::PERM)?;
                rename("d/anns", "d/x").fails(E::PERM)?;
                rename("d/dir", "d/x").fails(E::PERM)?;
                file("d/bobs")?;
                rename("d/bobs", "d/anns").fails(E::PERM)?;
                rename("d/bobs", "d/bobs-2").ok()?;
                link("d/bobs-2", "d/bobs-3").ok()?;
                unlink("d/bobs-2").ok()
            })?;
            as_user(ANN, || unlink("d/anns").ok())?;
            as_user(EVE, || unlink("d/anns-2").ok())?;
            as_user(EVE, || rename("d/dir", "d/dir-2").ok())?;
            unlink("d/anns-3").ok()
        },
    ),
    Case::new(
        "sticky.moves_between_directories",
        "rename(): [EPERM] or [EACCES] S_ISVTX; rename(2)",
        |_| {
            dir_of("sticky", EVE.uid, 0o1777)?;
            dir_of("open", EVE.uid, 0o777)?;
            file_of("sticky/a", ANN.uid, 0o666)?;
            file_of("open/b", BOB.uid, 0o666)?;
            as_user(BOB, || {
                rename("sticky/a", "open/a").fails(E::PERM)?;
                rename("open/b", "sticky/a").fails(E::PERM)?;
                rename("open/b", "sticky/b").ok()?;
                rename("sticky/b", "open/b").ok()
            })?;
            as_user(ANN, || rename("sticky/a", "open/a").ok())
        },
    ),
];
