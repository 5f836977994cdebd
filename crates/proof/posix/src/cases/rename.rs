//! `rename` and `renameat2`.

use crate::case::{Case, same};
use crate::files::{
    KINDS, create, dir, dir_of, file, file_of, file_with, kind_of, one_of_each_kind,
};
use crate::process::{ANN, BOB, as_user};
use crate::sys::*;

const FLAGS_MISSING: [E; 1] = [E::INVAL];

fn inode(path: &str) -> crate::case::Outcome<u64> {
    Ok(lstat(path).ok()?.st_ino)
}

pub(super) const CASES: &[Case] = &[
    Case::new("rename.every_kind", "rename()", |_| {
        one_of_each_kind()?;
        dir("d")?;
        for (name, kind) in crate::files::KINDS {
            let before = inode(name)?;
            let moved = format!("d/{name}-moved");
            rename(name, &moved).ok()?;
            is_gone(name)?;
            same("kind", kind_of(&lstat(&moved).ok()?), kind)?;
            same("inode", inode(&moved)?, before)?;
            rename(&moved, name).ok()?;
        }
        same("contents", contents_of("regular")?, b"contents".to_vec())
    }),
    Case::new(
        "rename.replaces_a_file",
        "rename(): new is unlinked",
        |_| {
            file_with("a", b"new")?;
            let old = create("b")?;
            write(&old, b"old").gives(3)?;
            link("b", "c").ok()?;
            rename("a", "b").ok()?;
            is_gone("a")?;
            same("contents", contents_of("b")?, b"new".to_vec())?;
            same("links of what was replaced", fstat(&old).ok()?.st_nlink, 1)?;
            same(
                "contents by another name",
                contents_of("c")?,
                b"old".to_vec(),
            )?;
            rename("b", "c").ok()?;
            same("links of what was replaced", fstat(&old).ok()?.st_nlink, 0)?;
            contents(&old).gives(b"old".to_vec())
        },
    ),
    Case::new("rename.replaces_other_kinds", "rename()", |_| {
        for name in ["symlink", "fifo", "socket", "char", "block"] {
            one_of_each_kind()?;
            rename("regular", name).ok()?;
            same("kind", kind_of(&lstat(name).ok()?), FileType::RegularFile)?;
            for (left, _) in crate::files::KINDS.iter().filter(|it| it.0 != "regular") {
                if *left == "directory" {
                    rmdir(*left).ok()?
                } else {
                    unlink(*left).ok()?
                }
            }
        }
        Ok(())
    }),
    Case::new("rename.replaces_an_empty_directory", "rename()", |_| {
        dir("d")?;
        file("d/a")?;
        dir("e")?;
        let old = opendir("e").ok()?;
        rename("d", "e").ok()?;
        is_gone("d")?;
        lstat("e/a").ok()?;
        same("links of what was replaced", fstat(&old).ok()?.st_nlink, 0)?;
        lists_nothing(&old)
    }),
    Case::new(
        "rename.onto_what_does_not_fit",
        "rename(): [EISDIR], [ENOTDIR], [ENOTEMPTY]",
        |_| {
            file("a")?;
            dir("d")?;
            dir("e")?;
            dir("full")?;
            file("full/x")?;
            symlink("d", "to-d").ok()?;
            rename("a", "d").fails(E::ISDIR)?;
            rename("a", "full").fails(E::ISDIR)?;
            rename("to-d", "e").fails(E::ISDIR)?;
            rename("d", "a").fails(E::NOTDIR)?;
            rename("d", "to-d").fails(E::NOTDIR)?;
            rename("d", "full").fails_with_one_of(&[E::NOTEMPTY, E::EXIST])?;
            same("names", names_in(".")?.len(), 5)
        },
    ),
    Case::new(
        "rename.two_names_of_one_file",
        "rename(): resolve to the same",
        |_| {
            file("a")?;
            link("a", "b").ok()?;
            dir("d")?;
            link("a", "d/c").ok()?;
            rename("a", "b").ok()?;
            rename("a", "d/c").ok()?;
            rename("a", "a").ok()?;
            rename("d", "d").ok()?;
            same("links", lstat("a").ok()?.st_nlink, 3)?;
            lstat("b").ok()?;
            lstat("d/c").ok().map(drop)
        },
    ),
    Case::new(
        "rename.paths_that_lead_nowhere",
        "rename(): [ENOENT], [ENOTDIR]",
        |_| {
            file("a")?;
            dir("d")?;
            rename("no", "b").fails(E::NOENT)?;
            rename("no/a", "b").fails(E::NOENT)?;
            rename("a", "no/b").fails(E::NOENT)?;
            rename("", "b").fails(E::NOENT)?;
            rename("a", "").fails(E::NOENT)?;
            rename("a/x", "b").fails(E::NOTDIR)?;
            rename("a", "a/b").fails(E::NOTDIR)?;
            rename("a/", "b").fails(E::NOTDIR)?;
            rename("a", "b/").fails(E::NOTDIR)?;
            rename("d", "b/").ok()?;
            rename("b/", "d").ok()
        },
    ),
    Case::new("rename.into_itself", "rename(): [EINVAL]", |_| {
        dir("d")?;
        dir("d/e")?;
        dir("d/e/f")?;
        rename("d", "d/x").fails(E::INVAL)?;
        rename("d", "d/e/f/x").fails(E::INVAL)?;
        rename("d", "d/e").fails(E::INVAL)?;
        // An ancestor is a directory that is not empty.
        rename("d/e/f", "d").fails_with_one_of(&[E::NOTEMPTY, E::EXIST])?;
        lstat("d/e/f").ok().map(drop)
    }),
    Case::new(
        "rename.dot_and_dot_dot",
        "rename(): [EINVAL]; rename(2): [EBUSY]",
        |_| {
            dir("d")?;
            for name in ["d/.", "d/.."] {
                rename(name, "x").fails_with_one_of(&[E::INVAL, E::BUSY])?;
                rename("d", name).fails_with_one_of(&[E::INVAL, E::BUSY, E::NOTEMPTY])?;
            }
            Ok(())
        },
    ),
    Case::new(
        "rename.moved_directory_has_another_parent",
        "rename(); path resolution: dot-dot",
        |_| {
            dir("d")?;
            dir("d/e")?;
            dir("f")?;
            file("f/here")?;
            rename("d/e", "f/e").ok()?;
            same("inode of ..", inode("f/e/..")?, inode("f")?)?;
            lstat("f/e/../here").ok()?;
            let listed = rest_of(&opendir("f/e").ok()?, 4_096)?;
            let parent = listed.iter().find(|it| it.name == b"..").map(|it| it.inode);
            same("d_ino of ..", parent, Some(inode("f")?))
        },
    ),
    Case::new(
        "rename.open_files_and_working_directories_go_along",
        "rename()",
        |_| {
            dir("d")?;
            dir("d/e")?;
            dir("f")?;
            let fd = create("d/e/a")?;
            let top = opendir(".").ok()?;
            chdir("d/e").ok()?;
            fchdir(&top).ok()?;
            rename("d/e", "f/moved").ok()?;
            write(&fd, b"later").gives(5)?;
            same("contents", contents_of("f/moved/a")?, b"later".to_vec())?;
            chdir("f/moved").ok()?;
            rename("../../f", "../../g").ok()?;
            file("b")?;
            fchdir(&top).ok()?;
            lstat("g/moved/b").ok().map(drop)
        },
    ),
    Case::new("rename.rights", "rename(): [EACCES]", |_| {
        dir("roots")?;
        dir_of("anns", ANN.uid, 0o755)?;
        file_of("roots/a", ANN.uid, 0o666)?;
        file_of("anns/b", ANN.uid, 0o666)?;
        as_user(ANN, || {
            rename("roots/a", "anns/a").fails(E::ACCESS)?;
            rename("anns/b", "roots/b").fails(E::ACCESS)?;
            rename("anns/b", "roots/a").fails(E::ACCESS)?;
            rename("anns/b", "anns/c").ok()
        })?;
        // The rights to what is moved do not matter, but to a directory's, whose `..` changes.
        file("anns/roots")?;
        chmod("anns/roots", 0).ok()?;
        dir("anns/dir")?;
        dir_of("more", ANN.uid, 0o755)?;
        as_user(ANN, || {
            rename("anns/roots", "more/roots").ok()?;
            rename("anns/dir", "anns/dir-2").ok()?;
            rename("anns/dir-2", "more/dir").fails(E::ACCESS)
        })?;
        chown("anns/dir-2", Some(ANN.uid), None).ok()?;
        as_user(ANN, || rename("anns/dir-2", "more/dir").ok())
    }),
    Case::new("rename.to_another_file_system", "rename(): [EXDEV]", |_| {
        file("a")?;
        rename("a", "/proc/a").fails(E::XDEV)?;
        lstat("a").ok().map(drop)
    }),
    Case::new(
        "rename.is_never_seen_half_done",
        "rename(): rationale, new is always there",
        |_| {
            file_with("a", b"1")?;
            let looks = crate::process::Peer::start(|line| {
                line.tell()?;
                let stop = || lstat("stop").result().is_ok();
                let mut rounds = 0;
                while !stop() || rounds == 0 {
                    let found = contents_of("a")?;
                    same(
                        "bytes in a file that is replaced again and again",
                        found.len(),
                        1,
                    )?;
                    rounds += 1;
                }
                Ok(())
            })?;
            looks.hear()?;
            for round in 0..300 {
                file_with("new", &[round as u8])?;
                rename("new", "a").ok()?;
            }
            file("stop")?;
            looks.join()
        },
    ),
    Case::new(
        "renameat2.noreplace",
        "rename(2): RENAME_NOREPLACE, [EEXIST]",
        |_| {
            one_of_each_kind()?;
            symlink("nowhere", "dangling").ok()?;
            file_with("a", b"a")?;
            for name in ["regular", "directory", "symlink", "fifo", "dangling", "a"] {
                renameat2("a", name, Rename::NOREPLACE).fails(E::EXIST)?;
            }
            renameat2("directory", "a", Rename::NOREPLACE).fails(E::EXIST)?;
            renameat2("a", "b", Rename::NOREPLACE).ok()?;
            is_gone("a")?;
            renameat2("b", "directory/b", Rename::NOREPLACE).ok()?;
            renameat2("a", "b", Rename::NOREPLACE).fails(E::NOENT)?;
            same("contents", contents_of("directory/b")?, b"a".to_vec())
        },
    ),
    Case::new("renameat2.exchange", "rename(2): RENAME_EXCHANGE", |_| {
        one_of_each_kind()?;
        dir("d")?;
        for (a, b) in [
            ("regular", "symlink"),
            ("regular", "fifo"),
            ("regular", "directory"),
            ("symlink", "directory"),
            ("directory", "d"),
            ("char", "socket"),
        ] {
            let (first, second) = (inode(a)?, inode(b)?);
            renameat2(a, b, Rename::EXCHANGE).ok()?;
            same(
                &format!("inodes of {a} and {b}"),
                (inode(a)?, inode(b)?),
                (second, first),
            )?;
            renameat2(a, b, Rename::EXCHANGE).ok()?;
            same(
                &format!("inodes of {a} and {b}"),
                (inode(a)?, inode(b)?),
                (first, second),
            )?;
        }
        Ok(())
    }),
    Case::new(
        "renameat2.exchange_across_directories",
        "rename(2): RENAME_EXCHANGE",
        |_| {
            dir("d")?;
            dir("e")?;
            dir("d/full")?;
            file_with("d/full/x", b"x")?;
            file_with("e/a", b"a")?;
            let links = lstat("d").ok()?.st_nlink;
            renameat2("d/full", "e/a", Rename::EXCHANGE).ok()?;
            same("contents", contents_of("d/full")?, b"a".to_vec())?;
            same("contents", contents_of("e/a/x")?, b"x".to_vec())?;
            same("inode of ..", inode("e/a/..")?, inode("e")?)?;
            let lost = if links == 1 { 0 } else { 1 };
            same(
                "links of the directory that lost one",
                lstat("d").ok()?.st_nlink,
                links - lost,
            )?;
            same(
                "links of the one that got it",
                lstat("e").ok()?.st_nlink,
                links,
            )?;
            // Two full directories, which no plain rename does.
            dir("f")?;
            dir("f/full")?;
            file("f/full/y")?;
            renameat2("e/a", "f/full", Rename::EXCHANGE).ok()?;
            lstat("e/a/y").ok()?;
            lstat("f/full/x").ok().map(drop)
        },
    ),
    Case::new(
        "renameat2.exchange_errors",
        "rename(2): [ENOENT], [EINVAL]",
        |_| {
            file("a")?;
            dir("d")?;
            dir("d/e")?;
            renameat2("a", "no", Rename::EXCHANGE).fails(E::NOENT)?;
            renameat2("no", "a", Rename::EXCHANGE).fails(E::NOENT)?;
            renameat2("d", "d/e", Rename::EXCHANGE).fails(E::INVAL)?;
            // The other way round it is the source that is inside; ENOTEMPTY is what Linux says to
            // that.
            renameat2("d/e", "d", Rename::EXCHANGE).fails_with_one_of(&[E::INVAL, E::NOTEMPTY])?;
            renameat2("a", "d", Rename::EXCHANGE | Rename::NOREPLACE).fails(E::INVAL)?;
            renameat2("a", "d", Rename::from_bits_retain(1 << 20)).fails(E::INVAL)
        },
    ),
    Case::new(
        "renameat2.exchange_rights",
        "rename(2): [EACCES], [EPERM]",
        |_| {
            dir("roots")?;
            file("roots/a")?;
            dir_of("anns", ANN.uid, 0o755)?;
            file_of("anns/a", ANN.uid, 0o644)?;
            as_user(ANN, || {
                renameat2("anns/a", "roots/a", Rename::EXCHANGE).fails(E::ACCESS)
            })?;
            dir("sticky")?;
            chmod("sticky", 0o1777).ok()?;
            file_of("sticky/anns", ANN.uid, 0o666)?;
            file_of("sticky/bobs", BOB.uid, 0o666)?;
            as_user(ANN, || {
                renameat2("sticky/anns", "sticky/bobs", Rename::EXCHANGE).fails(E::PERM)
            })
        },
    ),
    Case::new("renameat2.whiteout", "rename(2): RENAME_WHITEOUT", |_| {
        file("a")?;
        renameat2("a", "b", Rename::WHITEOUT).ok_or_not_offered(&FLAGS_MISSING)?;
        let stat = lstat("a").ok()?;
        same(
            "kind of the whiteout",
            kind_of(&stat),
            FileType::CharacterDevice,
        )?;
        same("its device", stat.st_rdev, 0)?;
        same("its mode", stat.st_mode & 0o7777, 0)?;
        same("its links", stat.st_nlink, 1)?;
        lstat("b").ok().map(drop)
    }),
    Case::new(
        "renameat2.whiteout_of_any_kind",
        "rename(2): RENAME_WHITEOUT",
        |_| {
            one_of_each_kind()?;
            dir("other")?;
            for (name, _) in KINDS {
                let there = lstat(name).ok()?;
                let to = format!("other/{name}");
                renameat2(name, &to, Rename::WHITEOUT).ok_or_not_offered(&FLAGS_MISSING)?;
                same("what was moved", lstat(&to).ok()?.st_ino, there.st_ino)?;
                let left = lstat(name).ok()?;
                same(
                    "what is left",
                    (kind_of(&left), left.st_rdev),
                    (FileType::CharacterDevice, 0),
                )?;
            }
            same("links of the directory", stat("other").ok()?.st_nlink, 3)?;
            // A white-out is like any other name.
            unlink("regular").ok()?;
            rename("other/regular", "regular").ok()
        },
    ),
    Case::new(
        "renameat2.whiteout_and_no_replace",
        "rename(2): RENAME_WHITEOUT with RENAME_NOREPLACE, with RENAME_EXCHANGE [EINVAL]",
        |_| {
            file("a")?;
            file("b")?;
            let both = Rename::WHITEOUT | Rename::NOREPLACE;
            renameat2("a", "b", both).fails(E::EXIST)?;
            renameat2("a", "b", Rename::WHITEOUT | Rename::EXCHANGE).fails(E::INVAL)?;
            renameat2("none", "c", Rename::WHITEOUT).fails(E::NOENT)?;
            renameat2("a", "c", both).ok()?;
            same(
                "kind",
                kind_of(&lstat("a").ok()?),
                FileType::CharacterDevice,
            )?;
            renameat2("c", "b", Rename::WHITEOUT).ok()?;
            same(
                "kind",
                kind_of(&lstat("c").ok()?),
                FileType::CharacterDevice,
            )
        },
    ),
    Case::new(
        "renameat2.whiteout_by_a_user",
        "rename(2): RENAME_WHITEOUT, for everybody since Linux 5.8",
        |_| {
            dir_of("d", ANN.uid, 0o755)?;
            file_of("d/a", ANN.uid, 0o644)?;
            as_user(BOB, || {
                renameat2("d/a", "d/b", Rename::WHITEOUT).fails(E::ACCESS)
            })?;
            as_user(ANN, || renameat2("d/a", "d/b", Rename::WHITEOUT).ok())?;
            let left = lstat("d/a").ok()?;
            same("owner", (left.st_uid, left.st_gid), (ANN.uid, ANN.uid))
        },
    ),
];
