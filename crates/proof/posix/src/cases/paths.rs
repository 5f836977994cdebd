//! Names and paths: how long, of which bytes, and how they are resolved.

use crate::case::{Case, Outcome, same};
use crate::files::{create, dir, file, file_with};
use crate::sys::*;
use std::collections::BTreeSet;

fn inode(path: &str) -> Outcome<u64> {
    Ok(lstat(path).ok()?.st_ino)
}

pub(super) const CASES: &[Case] = &[
    Case::new("names.of_255_bytes", "limits.h: NAME_MAX", |_| {
        let longest = |letter: &str| letter.repeat(255);
        file(&longest("a"))?;
        dir(&longest("b"))?;
        symlink("x", &longest("c")).ok()?;
        link(&longest("a"), &longest("d")).ok()?;
        mkfifo(&longest("e"), 0o644).ok()?;
        rename(&longest("d"), &longest("f")).ok()?;
        file(&format!("{}/{}", longest("b"), longest("a")))?;
        same("names", names_in(".")?.len(), 5)?;
        same("inode", inode(&longest("a"))?, inode(&longest("f"))?)?;
        unlink(&longest("f")).ok()
    }),
    Case::new(
        "names.of_256_bytes",
        "[ENAMETOOLONG], all calls with a path",
        |_| {
            file("a")?;
            dir("d")?;
            let name = "x".repeat(256);
            let inside = format!("{name}/y");
            for long in [&name, &inside] {
                open(long, O::RDONLY, 0).fails(E::NAMETOOLONG)?;
                open(long, O::WRONLY | O::CREATE, 0o644).fails(E::NAMETOOLONG)?;
                mkdir(long, 0o755).fails(E::NAMETOOLONG)?;
                mkfifo(long, 0o644).fails(E::NAMETOOLONG)?;
                mknod(long, FileType::CharacterDevice, 0o644, 259).fails(E::NAMETOOLONG)?;
                symlink("x", long).fails(E::NAMETOOLONG)?;
                link("a", long).fails(E::NAMETOOLONG)?;
                link(long, "b").fails(E::NAMETOOLONG)?;
                rename("a", long).fails(E::NAMETOOLONG)?;
                rename(long, "b").fails(E::NAMETOOLONG)?;
                rename("d", long).fails(E::NAMETOOLONG)?;
                renameat2("a", long, Rename::NOREPLACE).fails(E::NAMETOOLONG)?;
                unlink(long).fails(E::NAMETOOLONG)?;
                rmdir(long).fails(E::NAMETOOLONG)?;
                stat(long).fails(E::NAMETOOLONG)?;
                lstat(long).fails(E::NAMETOOLONG)?;
                readlink(long).fails(E::NAMETOOLONG)?;
                chmod(long, 0o644).fails(E::NAMETOOLONG)?;
                chown(long, Some(1), None).fails(E::NAMETOOLONG)?;
                truncate(long, 0).fails(E::NAMETOOLONG)?;
                utimens(long, NOW, NOW).fails(E::NAMETOOLONG)?;
                access(long, Access::EXISTS).fails(E::NAMETOOLONG)?;
                chdir(long).fails(E::NAMETOOLONG)?;
                statvfs(long).fails(E::NAMETOOLONG)?;
                getxattr(long, "user.x").fails(E::NAMETOOLONG)?;
                setxattr(long, "user.x", b"1", Xattr::empty()).fails(E::NAMETOOLONG)?;
            }
            same("names", names_in(".")?.len(), 2)
        },
    ),
    Case::new("names.of_every_length", "limits.h: NAME_MAX", |_| {
        dir("d")?;
        for length in 1..=255 {
            file(&format!("d/{}", "n".repeat(length)))?;
        }
        let lengths: BTreeSet<usize> = names_in("d")?.iter().map(String::len).collect();
        same("lengths", lengths, (1..=255).collect())?;
        (1..=255).try_for_each(|length| unlink(&format!("d/{}", "n".repeat(length))).ok())
    }),
    Case::new(
        "names.of_every_byte",
        "filename: any byte but / and NUL",
        |_| {
            dir("d")?;
            for byte in (1..=255_u8).filter(|it| !b"/.".contains(it)) {
                let path = [b"d/", &[byte][..]].concat();
                open(&path[..], O::WRONLY | O::CREATE | O::EXCL, 0o644).ok()?;
                lstat(&path[..]).ok()?;
            }
            let listed = rest_of(&opendir("d").ok()?, 32_768)?;
            let found: BTreeSet<Vec<u8>> = listed
                .into_iter()
                .map(|it| it.name)
                .filter(|it| !is_dot(it))
                .collect();
            let expected = (1..=255_u8)
                .filter(|it| !b"/.".contains(it))
                .map(|it| vec![it])
                .collect();
            same("names listed", found, expected)
        },
    ),
    Case::new(
        "names.stay_as_they_are",
        "filename: no folding, no normalization",
        |_| {
            let names = [
                "a", "A", "\u{e9}", "e\u{301}", "...", " ", "a ", "-", "a\n", "\u{212b}", "\u{e5}",
                ".hidden",
            ];
            for name in names {
                file_with(name, name.as_bytes())?;
            }
            for name in names {
                same(
                    &format!("contents of {name:?}"),
                    contents_of(name)?,
                    name.as_bytes().to_vec(),
                )?;
            }
            same("names", names_in(".")?, names.map(str::to_owned).into())?;
            for name in [&b"\xff\xfe"[..], b"\xc3\x28", b"\x80"] {
                open(name, O::WRONLY | O::CREATE | O::EXCL, 0o644).ok()?;
                rename(name, &[name, b"-moved"].concat()[..]).ok()?;
                lstat(&[name, b"-moved"].concat()[..]).ok()?;
            }
            Ok(())
        },
    ),
    Case::new(
        "paths.of_4095_bytes",
        "limits.h: PATH_MAX, [ENAMETOOLONG]",
        |_| {
            // 4,096 with the NUL.
            file("a")?;
            let path = format!("{}a", "./".repeat(2_047));
            same("bytes", path.len(), 4_095)?;
            stat(&path).ok()?;
            let path = format!("{path}b");
            stat(&path).fails(E::NAMETOOLONG)?;
            open(&path, O::WRONLY | O::CREATE, 0o644).fails(E::NAMETOOLONG)?;
            mkdir(&path, 0o755).fails(E::NAMETOOLONG)?;
            rename("a", &path).fails(E::NAMETOOLONG)?;
            unlink(&path).fails(E::NAMETOOLONG)
        },
    ),
    Case::new(
        "paths.deeper_than_4095_bytes",
        "openat(): relative paths; getcwd()",
        |_| {
            // Each step is short; the whole is longer than any path.
            let name = "n".repeat(250);
            let top = opendir(".").ok()?;
            let mut dirs = vec![opendir(".").ok()?];
            for _ in 0..30 {
                let here = &dirs[dirs.len() - 1];
                mkdirat(here, &name, 0o755).ok()?;
                let next = openat(here, &name, O::RDONLY | O::DIRECTORY, 0).ok()?;
                dirs.push(next);
            }
            let deepest = &dirs[30];
            openat(deepest, "a", O::WRONLY | O::CREATE, 0o644).ok()?;
            fchdir(deepest).ok()?;
            same("contents", contents_of("a")?, vec![])?;
            stat("../../..").ok()?;
            rename("a", "../a").ok()?;
            unlinkat(&dirs[29], "a", At::empty()).ok()?;
            fchdir(&top).ok()?;
            for here in dirs[..30].iter().rev() {
                unlinkat(here, &name, At::REMOVEDIR).ok()?;
            }
            same("names", names_in(".")?.len(), 0)
        },
    ),
    Case::new("paths.dots_and_slashes", "path resolution", |place| {
        dir("d")?;
        dir("d/e")?;
        create("d/a")?;
        for path in [
            "d/a",
            "./d/a",
            "d//a",
            "d/./a",
            "d/e/../a",
            "d/e/.././/../d/a",
            ".//d///a",
        ] {
            same(&format!("inode of {path}"), inode(path)?, inode("d/a")?)?;
        }
        let whole = place.here.join("d/a");
        same(
            "inode by the absolute path",
            lstat(whole.as_path()).ok()?.st_ino,
            inode("d/a")?,
        )?;
        same("inode of d/e/..", inode("d/e/..")?, inode("d")?)?;
        same("inode of d/.", inode("d/.")?, inode("d")?)?;
        stat("d/no/../a").fails(E::NOENT)?;
        stat("d/a/../a").fails(E::NOTDIR)
    }),
    Case::new(
        "paths.working_directory",
        "chdir(); fchdir(); [ENOENT], [ENOTDIR]",
        |_| {
            dir("d")?;
            file("a")?;
            let top = opendir(".").ok()?;
            chdir("no").fails(E::NOENT)?;
            chdir("a").fails(E::NOTDIR)?;
            fchdir(&open("a", O::RDONLY, 0).ok()?).fails(E::NOTDIR)?;
            chdir("d").ok()?;
            file("inside")?;
            same("inode of ..", inode("..")?, fstat(&top).ok()?.st_ino)?;
            fchdir(&top).ok()?;
            lstat("d/inside").ok()?;
            let found =
                std::env::current_dir().map(|it| it.file_name().map(|name| name.to_owned()));
            same("getcwd()", found.ok().flatten(), Some("work".into()))
        },
    ),
];
