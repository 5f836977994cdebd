//! POSIX access control lists, as `acl(5)` has them, through the attributes that hold them.

use crate::case::{Case, Outcome, same};
use crate::files::{dir, dir_of, file, file_of, file_with};
use crate::process::{ANN, BOB, CLUB, CREW, EVE, Who, as_user};
use crate::sys::*;

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";

/// One entry: its tag, its rights, and whose it is.
type Entry = (u16, u16, u32);

const NO_ID: u32 = u32::MAX;
const fn owner(rights: u16) -> Entry {
    (0x01, rights, NO_ID)
}
const fn user(who: Who, rights: u16) -> Entry {
    (0x02, rights, who.uid)
}
const fn group(rights: u16) -> Entry {
    (0x04, rights, NO_ID)
}
const fn named_group(number: u32, rights: u16) -> Entry {
    (0x08, rights, number)
}
const fn mask(rights: u16) -> Entry {
    (0x10, rights, NO_ID)
}
const fn other(rights: u16) -> Entry {
    (0x20, rights, NO_ID)
}

/// The attribute's value: a version, then the entries (`linux/posix_acl_xattr.h`).
fn value(entries: &[Entry]) -> Vec<u8> {
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, whose) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(rights.to_le_bytes());
        bytes.extend(whose.to_le_bytes());
    }
    bytes
}

fn set(path: &str, name: &str, entries: &[Entry]) -> Call {
    setxattr(path, name, &value(entries), Xattr::empty())
}

type Call = crate::case::Call<()>;

/// The list had to be just this; shown by its entries.
fn is(path: &str, name: &str, entries: &[Entry]) -> Outcome {
    let found = getxattr(path, name).ok()?;
    let entries_of =
        |bytes: &[u8]| -> Vec<Vec<u8>> { bytes.chunks(4).map(<[u8]>::to_vec).collect() };
    same(
        &format!("{name} of {path}"),
        entries_of(&found),
        entries_of(&value(entries)),
    )
}

/// ANN may read, though the group and the others may not.
const ANN_READS: [Entry; 5] = [owner(6), user(ANN, 4), group(0), mask(4), other(0)];

fn reads(who: Who, path: &str, allowed: bool) -> Outcome {
    as_user(who, || {
        access(path, Access::READ_OK).allowed(allowed, E::ACCESS)?;
        if allowed {
            open(path, O::RDONLY, 0).ok().map(drop)
        } else {
            open(path, O::RDONLY, 0).fails(E::ACCESS)
        }
    })
}

fn writes(who: Who, path: &str, allowed: bool) -> Outcome {
    as_user(who, || {
        access(path, Access::WRITE_OK).allowed(allowed, E::ACCESS)?;
        if allowed {
            open(path, O::WRONLY, 0).ok().map(drop)
        } else {
            open(path, O::WRONLY, 0).fails(E::ACCESS)
        }
    })
}

pub(super) const CASES: &[Case] = &[
    Case::new(
        "acl.is_kept",
        "acl(5): extended ACL; the group bits of the mode are the mask",
        |_| {
            file("a")?;
            dir("d")?;
            for path in ["a", "d"] {
                getxattr(path, ACCESS).fails(E::NODATA)?;
                set(path, ACCESS, &ANN_READS).ok()?;
                is(path, ACCESS, &ANN_READS)?;
                same("mode", mode_of(path)?, 0o640)?;
                same(
                    "the list is listed",
                    listxattr(path).ok()?.contains(ACCESS),
                    true,
                )?;
            }
            let fd = open("a", O::RDONLY, 0).ok()?;
            fgetxattr(&fd, ACCESS).gives(value(&ANN_READS))
        },
    ),
    Case::new(
        "acl.minimal_is_the_mode",
        "acl(5): minimal ACL corresponds to the mode",
        |_| {
            file("a")?;
            set("a", ACCESS, &[owner(7), group(5), other(1)]).ok()?;
            same("mode", mode_of("a")?, 0o751)?;
            getxattr("a", ACCESS).fails(E::NODATA)?;
            set("a", ACCESS, &ANN_READS).ok()?;
            set("a", ACCESS, &[owner(6), group(4), other(4)]).ok()?;
            same("mode", mode_of("a")?, 0o644)?;
            getxattr("a", ACCESS).fails(E::NODATA)?;
            reads(ANN, "a", true)
        },
    ),
    Case::new("acl.named_users", "acl(5): ACCESS CHECK ALGORITHM", |_| {
        file("a")?;
        chown("a", Some(EVE.uid), Some(CREW)).ok()?;
        set(
            "a",
            ACCESS,
            &[
                owner(0),
                user(ANN, 6),
                user(BOB, 0),
                group(4),
                mask(6),
                other(6),
            ],
        )
        .ok()?;
        reads(ANN, "a", true)?;
        writes(ANN, "a", true)?;
        // The first entry that is a user's own decides, though the group or all others may.
        reads(BOB, "a", false)?;
        reads(BOB.with(&[CREW]), "a", false)?;
        reads(EVE, "a", false)?;
        const OTHER: Who = Who {
            uid: 61_009,
            groups: &[],
        };
        writes(OTHER, "a", true)?;
        writes(OTHER.with(&[CREW]), "a", false)?;
        reads(OTHER.with(&[CREW]), "a", true)
    }),
    Case::new("acl.named_groups", "acl(5): ACCESS CHECK ALGORITHM", |_| {
        file("a")?;
        chown("a", None, Some(CREW)).ok()?;
        set(
            "a",
            ACCESS,
            &[owner(6), group(4), named_group(CLUB, 2), mask(6), other(0)],
        )
        .ok()?;
        reads(ANN, "a", false)?;
        reads(ANN.with(&[CREW]), "a", true)?;
        writes(ANN.with(&[CREW]), "a", false)?;
        reads(ANN.with(&[CLUB]), "a", false)?;
        writes(ANN.with(&[CLUB]), "a", true)?;
        // Each of the groups may do one thing, none both.
        reads(ANN.with(&[CREW, CLUB]), "a", true)?;
        writes(ANN.with(&[CREW, CLUB]), "a", true)?;
        as_user(ANN.with(&[CREW, CLUB]), || {
            open("a", O::RDWR, 0).fails(E::ACCESS)
        })?;
        // A member of a named group is none of the others.
        set(
            "a",
            ACCESS,
            &[owner(6), group(0), named_group(CLUB, 0), mask(7), other(6)],
        )
        .ok()?;
        reads(ANN.with(&[CLUB]), "a", false)?;
        reads(ANN, "a", true)
    }),
    Case::new("acl.mask", "acl(5): ACL_MASK", |_| {
        file_of("a", EVE.uid, 0o600)?;
        chown("a", None, Some(CREW)).ok()?;
        set(
            "a",
            ACCESS,
            &[owner(6), user(ANN, 6), group(6), mask(4), other(6)],
        )
        .ok()?;
        writes(ANN, "a", false)?;
        reads(ANN, "a", true)?;
        writes(BOB.with(&[CREW]), "a", false)?;
        // It limits neither the owner nor the others.
        writes(EVE, "a", true)?;
        writes(BOB, "a", true)
    }),
    Case::new(
        "acl.chmod_changes_the_mask",
        "acl(5): CORRESPONDENCE BETWEEN ACL ENTRIES AND FILE PERMISSION BITS",
        |_| {
            file("a")?;
            set(
                "a",
                ACCESS,
                &[owner(6), user(ANN, 6), group(4), mask(6), other(0)],
            )
            .ok()?;
            same("mode", mode_of("a")?, 0o660)?;
            // Not a mask without any right: then Linux looks at the mode alone, unlike acl(5).
            chmod("a", 0o614).ok()?;
            is(
                "a",
                ACCESS,
                &[owner(6), user(ANN, 6), group(4), mask(1), other(4)],
            )?;
            reads(ANN, "a", false)?;
            chmod("a", 0o4740).ok()?;
            is(
                "a",
                ACCESS,
                &[owner(7), user(ANN, 6), group(4), mask(4), other(0)],
            )?;
            same("mode", mode_of("a")?, 0o4740)?;
            reads(ANN, "a", true)?;
            writes(ANN, "a", false)?;
            let fd = open("a", O::RDONLY, 0).ok()?;
            fchmod(&fd, 0o660).ok()?;
            writes(ANN, "a", true)
        },
    ),
    Case::new("acl.directories", "acl(5); search permission", |_| {
        dir("d")?;
        file("d/a")?;
        set(
            "d",
            ACCESS,
            &[
                owner(7),
                user(ANN, 7),
                user(BOB, 1),
                group(0),
                mask(7),
                other(0),
            ],
        )
        .ok()?;
        as_user(ANN, || file("d/anns"))?;
        as_user(BOB, || {
            stat("d/a").ok()?;
            opendir("d").fails(E::ACCESS)?;
            open("d/b", O::WRONLY | O::CREATE, 0o644).fails(E::ACCESS)?;
            unlink("d/a").fails(E::ACCESS)
        })?;
        as_user(EVE, || stat("d/a").fails(E::ACCESS))?;
        as_user(ANN, || unlink("d/a").ok())
    }),
    Case::new("acl.is_taken_away", "removexattr(2); acl(5)", |_| {
        file("a")?;
        set("a", ACCESS, &ANN_READS).ok()?;
        removexattr("a", ACCESS).ok()?;
        getxattr("a", ACCESS).fails(E::NODATA)?;
        // The former mask is the group's right now.
        same("mode", mode_of("a")?, 0o640)?;
        reads(ANN, "a", false)?;
        dir("d")?;
        set("d", DEFAULT, &ANN_READS).ok()?;
        removexattr("d", DEFAULT).ok()?;
        getxattr("d", DEFAULT).fails(E::NODATA)?;
        file("d/a")?;
        getxattr("d/a", ACCESS).fails(E::NODATA)
    }),
    Case::new(
        "acl.only_the_owner_sets",
        "setxattr(2): [EPERM]; acl(5)",
        |_| {
            file_of("a", ANN.uid, 0o666)?;
            as_user(BOB, || {
                set("a", ACCESS, &ANN_READS).fails(E::PERM)?;
                removexattr("a", ACCESS).fails(E::PERM)
            })?;
            as_user(ANN, || set("a", ACCESS, &ANN_READS).ok())?;
            as_user(BOB, || getxattr("a", ACCESS).gives(value(&ANN_READS)))?;
            dir_of("d", ANN.uid, 0o777)?;
            as_user(BOB, || set("d", DEFAULT, &ANN_READS).fails(E::PERM))?;
            as_user(ANN, || set("d", DEFAULT, &ANN_READS).ok())
        },
    ),
    Case::new(
        "acl.not_every_list_is_valid",
        "acl(5): VALID ACLs; setxattr(2): [EINVAL]",
        |_| {
            // Two entries for one user are not valid either, but Linux takes them.
            file("a")?;
            let wrong: [&[Entry]; 7] = [
                &[owner(6), user(ANN, 4), group(0), other(0)],
                &[user(ANN, 4), group(0), mask(4), other(0)],
                &[owner(6), group(0), mask(4)],
                &[owner(6), mask(4), other(0)],
                &[owner(6), owner(6), group(0), other(0)],
                &[owner(6), group(8), other(0)],
                &[owner(6), (0x40, 4, NO_ID), group(0), other(0)],
            ];
            for entries in wrong {
                set("a", ACCESS, entries).fails(E::INVAL)?;
            }
            setxattr("a", ACCESS, b"xyz", Xattr::empty()).fails(E::INVAL)?;
            let mut version = value(&ANN_READS);
            version[0] = 9;
            setxattr("a", ACCESS, &version, Xattr::empty())
                .fails_with_one_of(&[E::NOTSUP, E::INVAL])?;
            same("mode", mode_of("a")?, 0o644)
        },
    ),
    Case::new(
        "acl.default_is_for_directories",
        "acl(5): default ACL; setxattr(2): [EACCES]",
        |_| {
            file("a")?;
            set("a", DEFAULT, &ANN_READS).fails(E::ACCESS)?;
            dir("d")?;
            set("d", DEFAULT, &ANN_READS).ok()?;
            is("d", DEFAULT, &ANN_READS)?;
            // It gives no one a right to the directory itself.
            same("mode", mode_of("d")?, 0o755)?;
            getxattr("d", ACCESS).fails(E::NODATA)?;
            symlink("a", "s").ok()?;
            lsetxattr("s", ACCESS, &value(&ANN_READS)).fails(E::NOTSUP)
        },
    ),
    Case::new(
        "acl.default_is_inherited_by_files",
        "acl(5): OBJECT CREATION AND DEFAULT ACLs",
        |_| {
            dir("d")?;
            set(
                "d",
                DEFAULT,
                &[owner(7), user(ANN, 6), group(5), mask(7), other(1)],
            )
            .ok()?;
            umask(0o077);
            open("d/a", O::WRONLY | O::CREATE, 0o664).ok()?;
            // The mode that was asked for limits; umask does not.
            is(
                "d/a",
                ACCESS,
                &[owner(6), user(ANN, 6), group(5), mask(6), other(0)],
            )?;
            same("mode", mode_of("d/a")?, 0o660)?;
            getxattr("d/a", DEFAULT).fails(E::NODATA)?;
            writes(ANN, "d/a", true)?;
            mkfifo("d/f", 0o600).ok()?;
            is(
                "d/f",
                ACCESS,
                &[owner(6), user(ANN, 6), group(5), mask(0), other(0)],
            )?;
            mknod("d/r", FileType::RegularFile, 0o666, 0).ok()?;
            same("mode", mode_of("d/r")?, 0o660)?;
            symlink("x", "d/s").ok()?;
            same("mode of a link", mode_of("d/s")?, 0o777)?;
            let fd = open("d", O::RDWR | O::TMPFILE, 0o666).ok()?;
            fgetxattr(&fd, ACCESS).gives(value(&[
                owner(6),
                user(ANN, 6),
                group(5),
                mask(6),
                other(0),
            ]))
        },
    ),
    Case::new(
        "acl.default_is_inherited_by_directories",
        "acl(5): OBJECT CREATION AND DEFAULT ACLs",
        |_| {
            let list = [owner(7), user(ANN, 7), group(5), mask(7), other(0)];
            dir("d")?;
            set("d", DEFAULT, &list).ok()?;
            umask(0o077);
            mkdir("d/e", 0o755).ok()?;
            is("d/e", DEFAULT, &list)?;
            is(
                "d/e",
                ACCESS,
                &[owner(7), user(ANN, 7), group(5), mask(5), other(0)],
            )?;
            same("mode", mode_of("d/e")?, 0o750)?;
            mkdir("d/e/f", 0o777).ok()?;
            is("d/e/f", DEFAULT, &list)?;
            same("mode", mode_of("d/e/f")?, 0o770)?;
            as_user(ANN, || file("d/e/f/a"))
        },
    ),
    Case::new(
        "acl.minimal_default_is_inherited_as_a_mode",
        "acl(5): OBJECT CREATION AND DEFAULT ACLs",
        |_| {
            dir("d")?;
            set("d", DEFAULT, &[owner(7), group(5), other(0)]).ok()?;
            umask(0o777);
            open("d/a", O::WRONLY | O::CREATE, 0o666).ok()?;
            same("mode", mode_of("d/a")?, 0o640)?;
            getxattr("d/a", ACCESS).fails(E::NODATA)?;
            mkdir("d/e", 0o777).ok()?;
            same("mode", mode_of("d/e")?, 0o750)?;
            is("d/e", DEFAULT, &[owner(7), group(5), other(0)])
        },
    ),
    Case::new(
        "acl.goes_along",
        "rename(); link(); chown(); write()",
        |_| {
            file_with("a", b"contents")?;
            set("a", ACCESS, &ANN_READS).ok()?;
            link("a", "b").ok()?;
            rename("a", "c").ok()?;
            chown("c", Some(BOB.uid), Some(CREW)).ok()?;
            write(&open("c", O::WRONLY, 0).ok()?, b"x").gives(1)?;
            is("b", ACCESS, &ANN_READS)?;
            reads(ANN, "c", true)?;
            // A move brings no default list with it.
            dir("d")?;
            set(
                "d",
                DEFAULT,
                &[owner(7), user(EVE, 7), group(7), mask(7), other(7)],
            )
            .ok()?;
            rename("c", "d/c").ok()?;
            is("d/c", ACCESS, &ANN_READS)
        },
    ),
    Case::new(
        "acl.set_group_id_only_for_members",
        "setxattr(2): system.posix_acl_access; inode(7): S_ISGID",
        |_| {
            file_of("a", ANN.uid, 0o755)?;
            chown("a", None, Some(CREW)).ok()?;
            chmod("a", 0o2755).ok()?;
            as_user(ANN, || {
                set(
                    "a",
                    ACCESS,
                    &[owner(7), user(BOB, 5), group(5), mask(5), other(5)],
                )
                .ok()
            })?;
            same("mode", mode_of("a")?, 0o755)
        },
    ),
    Case::new("acl.many_entries", "acl(5)", |_| {
        // Some 30 named users: what fits in what ext4 keeps in an inode's block.
        file("a")?;
        let mut entries = vec![owner(6)];
        entries.extend((0..30).map(|i| (0x02, if i % 2 == 0 { 4 } else { 0 }, 61_100 + i)));
        entries.extend([group(0), mask(7), other(0)]);
        set("a", ACCESS, &entries).ok()?;
        is("a", ACCESS, &entries)?;
        reads(
            Who {
                uid: 61_128,
                groups: &[],
            },
            "a",
            true,
        )?;
        reads(
            Who {
                uid: 61_129,
                groups: &[],
            },
            "a",
            false,
        )
    }),
];
