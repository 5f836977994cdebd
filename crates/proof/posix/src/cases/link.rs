//! `link`, `symlink` and `readlink`, and what symbolic links do to paths.

use crate::case::{Case, holds, same};
use crate::files::{create, dir, dir_of, file, file_of, file_with, kind_of, one_of_each_kind};
use crate::process::{ANN, BOB, CREW, as_user};
use crate::sys::*;

pub(super) const CASES: &[Case] = &[
    Case::new("link.another_name_of_the_same_file", "link()", |_| {
        one_of_each_kind()?;
        for name in ["regular", "symlink", "fifo", "socket", "char", "block"] {
            let other = format!("{name}-2");
            let before = lstat(name).ok()?;
            link(name, &other).ok()?;
            let after = lstat(&other).ok()?;
            same("inode", after.st_ino, before.st_ino)?;
            same("kind", kind_of(&after), kind_of(&before))?;
            same("links by the new name", after.st_nlink, 2)?;
            same("links by the old name", lstat(name).ok()?.st_nlink, 2)?;
            unlink(name).ok()?;
            same(
                "links after the old one is gone",
                lstat(&other).ok()?.st_nlink,
                1,
            )?;
        }
        Ok(())
    }),
    Case::new("link.names_share_contents_and_attributes", "link()", |_| {
        dir("d")?;
        file("a")?;
        link("a", "d/b").ok()?;
        let fd = open("d/b", O::WRONLY, 0).ok()?;
        write(&fd, b"by the second").gives(13)?;
        chmod("d/b", 0o600).ok()?;
        same("contents", contents_of("a")?, b"by the second".to_vec())?;
        same("mode", mode_of("a")?, 0o600)?;
        unlink("a").ok()?;
        same("contents", contents_of("d/b")?, b"by the second".to_vec())
    }),
    Case::new("link.target_is_there", "link(): [EEXIST]", |_| {
        one_of_each_kind()?;
        symlink("nowhere", "dangling").ok()?;
        file("a")?;
        for name in ["regular", "directory", "symlink", "fifo", "dangling", "a"] {
            link("a", name).fails(E::EXIST)?;
        }
        same("links", lstat("a").ok()?.st_nlink, 1)
    }),
    Case::new("link.of_a_directory", "link(): [EPERM]", |_| {
        dir("d")?;
        link("d", "e").fails(E::PERM)?;
        as_user(ANN, || {
            link("d", "e").fails_with_one_of(&[E::PERM, E::ACCESS])
        })?;
        is_gone("e")
    }),
    Case::new(
        "link.paths_that_lead_nowhere",
        "link(): [ENOENT], [ENOTDIR]",
        |_| {
            file("a")?;
            link("no", "b").fails(E::NOENT)?;
            link("a", "no/b").fails(E::NOENT)?;
            link("", "b").fails(E::NOENT)?;
            link("a", "").fails(E::NOENT)?;
            link("a/x", "b").fails(E::NOTDIR)?;
            link("a", "a/b").fails(E::NOTDIR)?;
            link("a", "b/").fails_with_one_of(&[E::NOENT, E::NOTDIR])
        },
    ),
    Case::new(
        "link.of_a_symbolic_link",
        "linkat(): AT_SYMLINK_FOLLOW",
        |_| {
            file("a")?;
            symlink("a", "s").ok()?;
            link("s", "t").ok()?;
            same("kind", kind_of(&lstat("t").ok()?), FileType::Symlink)?;
            link_following("s", "u").ok()?;
            same("inode", lstat("u").ok()?.st_ino, lstat("a").ok()?.st_ino)
        },
    ),
    Case::new("link.rights", "link(): [EACCES]", |_| {
        dir("d")?;
        dir_of("e", ANN.uid, 0o755)?;
        file_of("e/a", ANN.uid, 0o644)?;
        as_user(ANN, || {
            link("e/a", "d/a").fails(E::ACCESS)?;
            link("e/a", "e/b").ok()
        })?;
        dir_of("closed", BOB.uid, 0o700)?;
        as_user(ANN, || {
            link("closed/a", "e/c").fails(E::ACCESS)?;
            link("e/a", "closed/c").fails(E::ACCESS)
        })
    }),
    Case::new("link.from_another_file_system", "link(): [EXDEV]", |_| {
        link("/proc/self/status", "a").fails(E::XDEV)?;
        is_gone("a")
    }),
    Case::new("link.as_many_as_there_may_be", "link(): [EMLINK]", |_| {
        // Local file systems have 32,000 (ext2) to 65,535; XFS has some 2^31, which no test tries.
        const ENOUGH: u32 = 66_000;
        file("a")?;
        dir("d")?;
        for count in 1..ENOUGH {
            match link("a", &format!("d/{count}")).result() {
                Ok(()) => {}
                Err(errno) => {
                    same("errno of a link too many", errno, E::MLINK)?;
                    holds("links of one file", count >= 1_000, "many", count)?;
                    same("links", lstat("a").ok()?.st_nlink as u32, count)?;
                    rename("a", "b").ok()?;
                    unlink("d/1").ok()?;
                    return link("b", "d/1").ok();
                }
            }
        }
        same("links", lstat("a").ok()?.st_nlink as u32, ENOUGH)
    }),
    Case::new(
        "symlink.holds_what_it_is_given",
        "symlink(); readlink()",
        |_| {
            let longest = "x/".repeat(511);
            for target in [
                "a",
                "/",
                "..",
                "no/such/../thing",
                " ",
                "a\nb",
                "\u{e9}",
                &longest,
            ] {
                symlink(target, "s").ok()?;
                readlink("s").gives(target.as_bytes().to_vec())?;
                let stat = lstat("s").ok()?;
                same("size", stat.st_size as usize, target.len())?;
                same("kind", kind_of(&stat), FileType::Symlink)?;
                unlink("s").ok()?;
            }
            symlink(&b"\xff\xfe\x80"[..], "s").ok()?;
            readlink("s").gives(b"\xff\xfe\x80".to_vec())
        },
    ),
    Case::new("symlink.too_long", "symlink(): [ENAMETOOLONG]", |_| {
        // The limit of a file system below PATH_MAX is its own affair: XFS 1,024 bytes.
        for length in [2_000, 4_095] {
            let target = "y".repeat(length);
            match symlink(&target, "s").result() {
                Ok(()) => {
                    readlink("s").gives(target.into_bytes())?;
                    unlink("s").ok()?;
                }
                Err(errno) => same("errno", errno, E::NAMETOOLONG)?,
            }
        }
        symlink(&"y".repeat(4_096), "s").fails(E::NAMETOOLONG)?;
        symlink("", "s").fails(E::NOENT)?;
        is_gone("s")
    }),
    Case::new(
        "symlink.errors",
        "symlink(): [EEXIST], [ENOENT], [ENOTDIR], [EACCES]",
        |_| {
            one_of_each_kind()?;
            symlink("nowhere", "dangling").ok()?;
            for name in ["regular", "directory", "symlink", "fifo", "dangling"] {
                symlink("x", name).fails(E::EXIST)?;
            }
            symlink("x", "no/s").fails(E::NOENT)?;
            symlink("x", "regular/s").fails(E::NOTDIR)?;
            symlink("x", "s/").fails(E::NOENT)?;
            as_user(ANN, || symlink("x", "directory/s").fails(E::ACCESS))
        },
    ),
    Case::new(
        "symlink.owner_and_mode",
        "symlink(); symlink(7): permissions",
        |_| {
            chmod(".", 0o777).ok()?;
            umask(0o077);
            as_user(ANN, || {
                symlink("x", "s").ok()?;
                let stat = lstat("s").ok()?;
                same(
                    "owner and group",
                    (stat.st_uid, stat.st_gid),
                    (ANN.uid, ANN.uid),
                )?;
                same("mode", stat.st_mode & 0o7777, 0o777)
            })
        },
    ),
    Case::new(
        "symlink.readlink_errors",
        "readlink(): [EINVAL], [ENOENT], [ENOTDIR], [EACCES]",
        |_| {
            one_of_each_kind()?;
            for name in ["regular", "directory", "fifo", "socket", "char"] {
                readlink(name).fails(E::INVAL)?;
            }
            readlink("no").fails(E::NOENT)?;
            readlink("regular/s").fails(E::NOTDIR)?;
            mkdir("closed", 0o700).ok()?;
            symlink("x", "closed/s").ok()?;
            as_user(ANN, || readlink("closed/s").fails(E::ACCESS))
        },
    ),
    Case::new("symlink.readlink_cuts_off", "readlink(): bufsize", |_| {
        symlink("0123456789", "s").ok()?;
        readlink_into("s", 4).gives(b"0123".to_vec())?;
        readlink_into("s", 10).gives(b"0123456789".to_vec())?;
        readlink_into("s", 100).gives(b"0123456789".to_vec())
    }),
    Case::new("symlink.is_followed", "path resolution", |_| {
        dir("d")?;
        dir("d/e")?;
        file_with("d/a", b"contents")?;
        symlink("d", "to-d").ok()?;
        symlink("../a", "d/e/up").ok()?;
        symlink("to-d/e/up", "chain").ok()?;
        same("contents", contents_of("to-d/a")?, b"contents".to_vec())?;
        same("contents", contents_of("chain")?, b"contents".to_vec())?;
        same(
            "kind of link/",
            kind_of(&lstat("to-d/").ok()?),
            FileType::Directory,
        )?;
        same(
            "kind of link/.",
            kind_of(&lstat("to-d/.").ok()?),
            FileType::Directory,
        )?;
        lstat("chain/").fails(E::NOTDIR)?;
        // The directory of a link is where it begins, wherever it was moved from.
        rename("d/e/up", "d/up").ok()?;
        stat("d/up").fails(E::NOENT)
    }),
    Case::new("symlink.loops", "path resolution: [ELOOP]", |_| {
        symlink("a", "b").ok()?;
        symlink("b", "a").ok()?;
        symlink("self", "self").ok()?;
        for name in ["a", "self", "a/x"] {
            stat(name).fails(E::LOOP)?;
            open(name, O::RDONLY, 0).fails(E::LOOP)?;
            open(name, O::WRONLY | O::CREATE, 0o644).fails(E::LOOP)?;
            chmod(name, 0o600).fails(E::LOOP)?;
            chown(name, Some(1), None).fails(E::LOOP)?;
            truncate(name, 0).fails(E::LOOP)?;
            utimens(name, NOW, NOW).fails(E::LOOP)?;
            chdir(name).fails(E::LOOP)?;
            opendir(name).fails(E::LOOP)?;
            access(name, Access::EXISTS).fails(E::LOOP)?;
            getxattr(name, "user.x").fails(E::LOOP)?;
        }
        let name = "self/x";
        mkdir(name, 0o755).fails(E::LOOP)?;
        unlink(name).fails(E::LOOP)?;
        rmdir(name).fails(E::LOOP)?;
        symlink("x", name).fails(E::LOOP)?;
        mkfifo(name, 0o644).fails(E::LOOP)?;
        link("self", name).fails(E::LOOP)?;
        rename("self", name).fails(E::LOOP)?;
        readlink(name).fails(E::LOOP)?;
        lstat(name).fails(E::LOOP)?;
        Ok(())
    }),
    Case::new(
        "symlink.no_more_than_40",
        "path_resolution(7): 40 links",
        |_| {
            file("0")?;
            for i in 1..=41 {
                symlink(&format!("{}", i - 1), &format!("{i}")).ok()?;
            }
            stat("40").ok()?;
            stat("41").fails(E::LOOP)
        },
    ),
    Case::new(
        "symlink.unlink_takes_the_link",
        "unlink(): symbolic link",
        |_| {
            file("a")?;
            dir("d")?;
            symlink("a", "s").ok()?;
            symlink("d", "t").ok()?;
            rmdir("t").fails(E::NOTDIR)?;
            unlink("t/").fails(E::NOTDIR)?;
            unlink("s").ok()?;
            unlink("t").ok()?;
            lstat("a").ok()?;
            lstat("d").ok().map(drop)
        },
    ),
    Case::new("symlink.lchown", "lchown(): symbolic link", |_| {
        file("a")?;
        symlink("a", "s").ok()?;
        lchown("s", Some(ANN.uid), Some(CREW)).ok()?;
        let ids = |path| lstat(path).ok().map(|it| (it.st_uid, it.st_gid));
        same("owner of the link", ids("s")?, (ANN.uid, CREW))?;
        same("owner of the target", ids("a")?, (0, 0))?;
        chown("s", Some(BOB.uid), None).ok()?;
        same("owner of the link", ids("s")?, (ANN.uid, CREW))?;
        same("owner of the target", ids("a")?, (BOB.uid, 0))
    }),
    Case::new(
        "symlink.mode_cannot_be_changed",
        "chmod(2): AT_SYMLINK_NOFOLLOW, [EOPNOTSUPP]",
        |_| {
            file("a")?;
            symlink("a", "s").ok()?;
            lchmod("s", 0o600).fails(E::NOTSUP)?;
            same("mode of the target", mode_of("a")?, 0o644)?;
            lchmod("a", 0o600).ok()?;
            same("mode of a file by fchmodat2", mode_of("a")?, 0o600)?;
            chmod("s", 0o640).ok()?;
            same("mode of the target", mode_of("a")?, 0o640)?;
            same("mode of the link", mode_of("s")?, 0o777)
        },
    ),
    Case::new("symlink.written_through", "open(): symbolic link", |_| {
        let a = create("a")?;
        symlink("a", "s").ok()?;
        let fd = open("s", O::WRONLY | O::TRUNC, 0).ok()?;
        write(&fd, b"through").gives(7)?;
        contents(&a).gives(b"through".to_vec())?;
        truncate("s", 3).ok()?;
        same("size", lstat("a").ok()?.st_size, 3)?;
        same("size of the link", lstat("s").ok()?.st_size, 1)
    }),
];
