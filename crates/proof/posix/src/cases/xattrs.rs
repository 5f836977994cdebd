//! Extended attributes: `xattr(7)` and its calls.

use crate::case::{Case, same};
use crate::files::{create, dir_of, file, file_of, one_of_each_kind, pattern};
use crate::process::{ANN, BOB, as_user};
use crate::sys::*;

const PLAIN: Xattr = Xattr::empty();

pub(super) const CASES: &[Case] = &[
    Case::new(
        "xattr.user_on_files_and_directories",
        "setxattr(2); getxattr(2); listxattr(2); removexattr(2)",
        |_| {
            one_of_each_kind()?;
            for path in ["regular", "directory"] {
                same("names", listxattr(path).ok()?.len(), 0)?;
                setxattr(path, "user.one", b"1", PLAIN).ok()?;
                setxattr(path, "user.two", b"with \0 and \xff", PLAIN).ok()?;
                setxattr(path, "user.empty", b"", PLAIN).ok()?;
                getxattr(path, "user.one").gives(b"1".to_vec())?;
                getxattr(path, "user.two").gives(b"with \0 and \xff".to_vec())?;
                getxattr(path, "user.empty").gives(vec![])?;
                let names = ["user.empty", "user.one", "user.two"]
                    .map(str::to_owned)
                    .into();
                listxattr(path).gives(names)?;
                setxattr(path, "user.one", b"a longer one", PLAIN).ok()?;
                getxattr(path, "user.one").gives(b"a longer one".to_vec())?;
                setxattr(path, "user.one", b"s", PLAIN).ok()?;
                getxattr(path, "user.one").gives(b"s".to_vec())?;
                removexattr(path, "user.one").ok()?;
                getxattr(path, "user.one").fails(E::NODATA)?;
                removexattr(path, "user.one").fails(E::NODATA)?;
                same("names", listxattr(path).ok()?.len(), 2)?;
            }
            Ok(())
        },
    ),
    Case::new(
        "xattr.by_descriptor_and_link",
        "fsetxattr(2); fgetxattr(2); flistxattr(2); symlinks",
        |_| {
            let fd = create("a")?;
            symlink("a", "s").ok()?;
            link("a", "b").ok()?;
            fsetxattr(&fd, "user.x", b"by fd").ok()?;
            getxattr("s", "user.x").gives(b"by fd".to_vec())?;
            setxattr("s", "user.x", b"by link", PLAIN).ok()?;
            fgetxattr(&fd, "user.x").gives(b"by link".to_vec())?;
            getxattr("b", "user.x").gives(b"by link".to_vec())?;
            rename("a", "c").ok()?;
            same("names", flistxattr(&fd).ok()?.len(), 1)?;
            fremovexattr(&fd, "user.x").ok()?;
            getxattr("c", "user.x").fails(E::NODATA)
        },
    ),
    Case::new(
        "xattr.create_and_replace",
        "setxattr(2): XATTR_CREATE [EEXIST], XATTR_REPLACE [ENODATA]",
        |_| {
            file("a")?;
            setxattr("a", "user.x", b"1", Xattr::REPLACE).fails(E::NODATA)?;
            setxattr("a", "user.x", b"1", Xattr::CREATE).ok()?;
            setxattr("a", "user.x", b"2", Xattr::CREATE).fails(E::EXIST)?;
            getxattr("a", "user.x").gives(b"1".to_vec())?;
            setxattr("a", "user.x", b"3", Xattr::REPLACE).ok()?;
            getxattr("a", "user.x").gives(b"3".to_vec())?;
            setxattr("a", "user.x", b"4", Xattr::from_bits_retain(8)).fails(E::INVAL)
        },
    ),
    Case::new(
        "xattr.too_little_room",
        "getxattr(2), listxattr(2): [ERANGE], size 0",
        |_| {
            file("a")?;
            setxattr("a", "user.x", b"0123456789", PLAIN).ok()?;
            setxattr("a", "user.yy", b"", PLAIN).ok()?;
            getxattr_into("a", "user.x", 0).gives(10)?;
            getxattr_into("a", "user.x", 10).gives(10)?;
            getxattr_into("a", "user.x", 9).fails(E::RANGE)?;
            getxattr_into("a", "user.yy", 0).gives(0)?;
            let length = "user.x\0user.yy\0".len();
            listxattr_into("a", 0).gives(length)?;
            listxattr_into("a", length).gives(length)?;
            listxattr_into("a", length - 1).fails(E::RANGE)
        },
    ),
    Case::new(
        "xattr.limits",
        "xattr(7): 255 bytes of name, 64 KiB of value; setxattr(2): [ERANGE], [E2BIG]",
        |_| {
            file("a")?;
            let longest = format!("user.{}", "n".repeat(250));
            setxattr("a", &longest, b"1", PLAIN).ok()?;
            getxattr("a", &longest).gives(b"1".to_vec())?;
            removexattr("a", &longest).ok()?;
            setxattr("a", &format!("{longest}n"), b"1", PLAIN).fails(E::RANGE)?;
            getxattr("a", &format!("{longest}n")).fails(E::RANGE)?;
            setxattr("a", "user.x", &[0; XATTR_SIZE_MAX + 1], PLAIN).fails(E::TOOBIG)?;
            // Values below the limit may be more than a file system has room for: ext4 keeps a
            // block, btrfs less than a node.
            let largest = pattern(1, XATTR_SIZE_MAX);
            match setxattr("a", "user.x", &largest, PLAIN).result() {
                Ok(()) => getxattr("a", "user.x").gives(largest),
                Err(errno) => {
                    same("errno", [E::NOSPC, E::TOOBIG].contains(&errno), true)?;
                    getxattr("a", "user.x").fails(E::NODATA)
                }
            }
        },
    ),
    Case::new("xattr.values_of_all_sizes", "setxattr(2)", |_| {
        file("a")?;
        for size in [1, 10, 100, 255, 256, 1_000, 2_000, 3_500] {
            let value = pattern(size as u64, size);
            setxattr("a", "user.x", &value, PLAIN).ok()?;
            getxattr("a", "user.x").gives(value)?;
        }
        Ok(())
    }),
    Case::new("xattr.many", "listxattr(2)", |_| {
        file("a")?;
        for i in 0..60 {
            setxattr(
                "a",
                &format!("user.number-{i}"),
                format!("value {i}").as_bytes(),
                PLAIN,
            )
            .ok()?;
        }
        same("names", listxattr("a").ok()?.len(), 60)?;
        for i in 0..60 {
            getxattr("a", &format!("user.number-{i}")).gives(format!("value {i}").into_bytes())?;
            removexattr("a", &format!("user.number-{i}")).ok()?;
        }
        same("names", listxattr("a").ok()?.len(), 0)
    }),
    Case::new(
        "xattr.unknown_name_spaces",
        "setxattr(2): [EOPNOTSUPP]; xattr(7)",
        |_| {
            file("a")?;
            for name in ["plain", "unknown.x", "users.x", "system.x"] {
                setxattr("a", name, b"1", PLAIN).fails(E::NOTSUP)?;
                // Here btrfs knows of no attribute instead.
                getxattr("a", name).fails_with_one_of(&[E::NOTSUP, E::NODATA])?;
            }
            for name in ["user.", "trusted.", "security."] {
                setxattr("a", name, b"1", PLAIN).fails(E::INVAL)?;
            }
            setxattr("a", "", b"1", PLAIN).fails(E::RANGE)?;
            setxattr("no", "user.x", b"1", PLAIN).fails(E::NOENT)?;
            setxattr("a/b", "user.x", b"1", PLAIN).fails(E::NOTDIR)?;
            getxattr("no", "user.x").fails(E::NOENT)?;
            listxattr("no").fails(E::NOENT)?;
            removexattr("no", "user.x").fails(E::NOENT)
        },
    ),
    Case::new(
        "xattr.user_only_on_files_and_directories",
        "xattr(7): User extended attributes, [EPERM]",
        |_| {
            one_of_each_kind()?;
            for path in ["symlink", "fifo", "socket", "char", "block"] {
                lsetxattr(path, "user.x", b"1").fails(E::PERM)?;
                lgetxattr(path, "user.x").fails_with_one_of(&[E::NODATA, E::PERM])?;
                lremovexattr(path, "user.x").fails(E::PERM)?;
                llistxattr(path).ok()?;
            }
            Ok(())
        },
    ),
    Case::new(
        "xattr.trusted_everywhere_for_root",
        "xattr(7): Trusted extended attributes",
        |_| {
            one_of_each_kind()?;
            for (path, _) in crate::files::KINDS {
                lsetxattr(path, "trusted.x", b"of root").ok()?;
                lgetxattr(path, "trusted.x").gives(b"of root".to_vec())?;
                same(
                    &format!("trusted.x is listed of {path}"),
                    llistxattr(path).ok()?.contains("trusted.x"),
                    true,
                )?;
            }
            chmod("regular", 0o666).ok()?;
            chown("regular", Some(ANN.uid), None).ok()?;
            as_user(ANN, || {
                setxattr("regular", "trusted.x", b"1", PLAIN).fails(E::PERM)?;
                getxattr("regular", "trusted.x").fails(E::NODATA)?;
                removexattr("regular", "trusted.x").fails(E::PERM)
            })?;
            getxattr("regular", "trusted.x").gives(b"of root".to_vec())?;
            (crate::files::KINDS)
                .iter()
                .try_for_each(|it| lremovexattr(it.0, "trusted.x").ok())
        },
    ),
    Case::new(
        "xattr.trusted_is_not_listed_for_others",
        "xattr(7): visible only to CAP_SYS_ADMIN",
        |_| {
            // btrfs lists them nevertheless.
            file("a")?;
            setxattr("a", "trusted.x", b"1", PLAIN).ok()?;
            setxattr("a", "user.x", b"1", PLAIN).ok()?;
            as_user(ANN, || listxattr("a").gives(["user.x".to_owned()].into()))
        },
    ),
    Case::new(
        "xattr.security_is_read_by_all",
        "xattr(7): Extended security attributes",
        |_| {
            file_of("a", ANN.uid, 0o600)?;
            setxattr("a", "security.x", b"label", PLAIN).ok()?;
            getxattr("a", "security.x").gives(b"label".to_vec())?;
            same(
                "security.x is listed",
                listxattr("a").ok()?.contains("security.x"),
                true,
            )?;
            as_user(ANN, || {
                setxattr("a", "security.x", b"1", PLAIN).fails(E::PERM)?;
                removexattr("a", "security.x").fails(E::PERM)
            })?;
            // No right to the file is needed to read it.
            as_user(BOB, || getxattr("a", "security.x").gives(b"label".to_vec()))?;
            removexattr("a", "security.x").ok()?;
            symlink("a", "s").ok()?;
            lsetxattr("s", "security.x", b"of the link").ok()?;
            lgetxattr("s", "security.x").gives(b"of the link".to_vec())
        },
    ),
    Case::new(
        "xattr.capabilities",
        "capabilities(7): security.capability, [EINVAL], [EPERM]",
        |_| {
            file_of("a", ANN.uid, 0o755)?;
            setxattr("a", "security.capability", b"nonsense", PLAIN).fails(E::INVAL)?;
            let value = [&[1, 0, 0, 2][..], &[0; 16]].concat();
            setxattr("a", "security.capability", &value, PLAIN).ok()?;
            getxattr("a", "security.capability").gives(value.clone())?;
            as_user(ANN, || {
                setxattr("a", "security.capability", &value, PLAIN).fails(E::PERM)
            })
        },
    ),
    Case::new(
        "xattr.rights_of_user_attributes",
        "xattr(7): file permission bits; [EACCES]",
        |_| {
            file_of("a", ANN.uid, 0o644)?;
            setxattr("a", "user.x", b"1", PLAIN).ok()?;
            as_user(BOB, || {
                getxattr("a", "user.x").gives(b"1".to_vec())?;
                setxattr("a", "user.x", b"2", PLAIN).fails(E::ACCESS)?;
                removexattr("a", "user.x").fails(E::ACCESS)
            })?;
            chmod("a", 0o622).ok()?;
            as_user(BOB, || {
                getxattr("a", "user.x").fails(E::ACCESS)?;
                setxattr("a", "user.x", b"2", PLAIN).ok()?;
                removexattr("a", "user.x").ok()
            })?;
            // Whichever user wrote it, the descriptor's own rights do not matter.
            let fd = open("a", O::RDONLY, 0).ok()?;
            fsetxattr(&fd, "user.x", b"3").ok()
        },
    ),
    Case::new(
        "xattr.of_a_sticky_directory",
        "xattr(7): sticky directories, owner only",
        |_| {
            dir_of("d", ANN.uid, 0o1777)?;
            as_user(BOB, || setxattr("d", "user.x", b"1", PLAIN).fails(E::PERM))?;
            as_user(ANN, || setxattr("d", "user.x", b"1", PLAIN).ok())?;
            dir_of("e", ANN.uid, 0o777)?;
            as_user(BOB, || setxattr("e", "user.x", b"1", PLAIN).ok())
        },
    ),
    Case::new(
        "xattr.names_of_any_bytes",
        "xattr(7): null-terminated string",
        |_| {
            file("a")?;
            for name in [
                "user.a b",
                "user.\u{e9}\u{1f333}",
                "user.a.b.c",
                "user.UPPER",
                "user.upper",
                "user.n\nl",
            ] {
                setxattr("a", name, name.as_bytes(), PLAIN).ok()?;
            }
            let name = &b"user.\xff\xfe"[..];
            setxattr("a", name, b"not UTF-8", PLAIN).ok()?;
            getxattr("a", name).gives(b"not UTF-8".to_vec())?;
            getxattr("a", "user.UPPER").gives(b"user.UPPER".to_vec())?;
            same("names", listxattr("a").ok()?.len(), 7)
        },
    ),
    Case::new("xattr.do_not_outlive_the_file", "unlink(); open()", |_| {
        file("a")?;
        setxattr("a", "user.x", b"1", PLAIN).ok()?;
        unlink("a").ok()?;
        file("a")?;
        getxattr("a", "user.x").fails(E::NODATA)?;
        file("b")?;
        setxattr("b", "user.y", b"of b", PLAIN).ok()?;
        rename("b", "a").ok()?;
        getxattr("a", "user.y").gives(b"of b".to_vec())
    }),
];
