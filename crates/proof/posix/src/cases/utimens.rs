//! `utimensat` and `futimens`.

use crate::case::{Case, holds, same};
use crate::files::{dir_of, file, file_of, one_of_each_kind};
use crate::process::{ANN, BOB, as_user};
use crate::sys::*;
use crate::times::{Times, changes, now, tick, times};

const SOME: (i64, i64) = (1_000_000_000, 123_456_789);
const OTHER: (i64, i64) = (1_100_000_000, 987_654_321);

pub(super) const CASES: &[Case] = &[
    Case::new("utimens.sets_both_to_the_nanosecond", "utimensat()", |_| {
        one_of_each_kind()?;
        for (name, _) in crate::files::KINDS {
            utimens_link(name, at(SOME), at(OTHER)).ok()?;
            let found = times(name)?;
            same(
                &format!("times of {name}"),
                (found.atime, found.mtime),
                (SOME, OTHER),
            )?;
        }
        let fd = open("regular", O::RDONLY, 0).ok()?;
        futimens(&fd, at(OTHER), at(SOME)).ok()?;
        let found = Times::of(&fstat(&fd).ok()?);
        same("times", (found.atime, found.mtime), (OTHER, SOME))?;
        let fd = opendir("directory").ok()?;
        futimens(&fd, at(OTHER), at(SOME)).ok()?;
        let found = times("directory")?;
        same("times", (found.atime, found.mtime), (OTHER, SOME))
    }),
    Case::new(
        "utimens.every_fraction",
        "utimensat(): st_atim, st_mtim",
        |_| {
            file("a")?;
            for nanoseconds in [0, 1, 2, 99, 100, 101, 999, 1_000, 999_999_998, 999_999_999] {
                let (atime, mtime) = ((5, nanoseconds), (6, 999_999_999 - nanoseconds));
                utimens("a", at(atime), at(mtime)).ok()?;
                let found = times("a")?;
                same("times", (found.atime, found.mtime), (atime, mtime))?;
            }
            Ok(())
        },
    ),
    Case::new(
        "utimens.before_1970_and_after_2038",
        "sys/types.h: time_t, 64 bits; utimensat(2)",
        |_| {
            // From 1901 to beyond 2106, where the file systems in use end: XFS (bigtime) and ext4
            // (256-byte inodes) have these, btrfs all.
            file("a")?;
            for seconds in [
                -1,
                -2,
                1 - (1 << 31),
                0,
                1,
                (1 << 31) - 1,
                1 << 31,
                (1 << 32) - 1,
                1 << 32,
                (1 << 32) + 7,
            ] {
                utimens("a", at((seconds, 5)), at((seconds, 999_999_999))).ok()?;
                let found = times("a")?;
                same(
                    "times",
                    (found.atime, found.mtime),
                    ((seconds, 5), (seconds, 999_999_999)),
                )?;
            }
            Ok(())
        },
    ),
    Case::new("utimens.now", "utimensat(): UTIME_NOW, NULL", |_| {
        file("a")?;
        for nulls in [true, false] {
            utimens("a", at(SOME), at(SOME)).ok()?;
            let before = now()?;
            tick(before)?;
            if nulls {
                utimens_null("a").ok()?;
            } else {
                utimens("a", NOW, NOW).ok()?;
            }
            let (found, after) = (times("a")?, now()?);
            for time in [found.atime, found.mtime, found.ctime] {
                holds(
                    "a time set to now",
                    before < time && time <= after,
                    "between before and after",
                    time,
                )?;
            }
        }
        Ok(())
    }),
    Case::new("utimens.omit", "utimensat(): UTIME_OMIT", |_| {
        file("a")?;
        utimens("a", at(SOME), at(SOME)).ok()?;
        utimens("a", OMIT, at(OTHER)).ok()?;
        let found = times("a")?;
        same("times", (found.atime, found.mtime), (SOME, OTHER))?;
        utimens("a", at(OTHER), OMIT).ok()?;
        let found = times("a")?;
        same("times", (found.atime, found.mtime), (OTHER, OTHER))?;
        changes(&[("a", "")], || utimens("a", OMIT, OMIT).ok())?;
        let before = times("a")?;
        tick(before.ctime)?;
        utimens("a", NOW, OMIT).ok()?;
        let after = times("a")?;
        same("mtime", after.mtime, before.mtime)?;
        holds("atime", after.atime > before.ctime, "now", after.atime)
    }),
    Case::new(
        "utimens.changes_ctime",
        "utimensat(): mark the last file status change timestamp",
        |_| {
            file("a")?;
            utimens("a", at(SOME), at(SOME)).ok()?;
            changes(&[("a", "c")], || utimens("a", at(SOME), at(SOME)).ok())?;
            changes(&[("a", "c")], || utimens("a", at(SOME), OMIT).ok())?;
            changes(&[("a", "c")], || utimens("a", OMIT, at(SOME)).ok())?;
            changes(&[("a", "amc")], || utimens("a", NOW, NOW).ok())
        },
    ),
    Case::new(
        "utimens.of_a_link_or_its_target",
        "utimensat(): AT_SYMLINK_NOFOLLOW",
        |_| {
            file("a")?;
            symlink("a", "s").ok()?;
            let link = times("s")?;
            utimens("s", at(SOME), at(SOME)).ok()?;
            same("mtime of the target", times("a")?.mtime, SOME)?;
            same("mtime of the link", times("s")?.mtime, link.mtime)?;
            utimens_link("s", at(OTHER), at(OTHER)).ok()?;
            same("mtime of the target", times("a")?.mtime, SOME)?;
            same("mtime of the link", times("s")?.mtime, OTHER)
        },
    ),
    Case::new("utimens.rights", "utimensat(): [EACCES], [EPERM]", |_| {
        file_of("writable", ANN.uid, 0o666)?;
        file_of("readable", ANN.uid, 0o644)?;
        file_of("closed", ANN.uid, 0)?;
        as_user(BOB, || {
            utimens("writable", NOW, NOW).ok()?;
            utimens_null("writable").ok()?;
            utimens("writable", at(SOME), at(SOME)).fails(E::PERM)?;
            utimens("writable", NOW, OMIT).fails(E::PERM)?;
            utimens("writable", OMIT, NOW).fails(E::PERM)?;
            utimens("writable", at(SOME), NOW).fails(E::PERM)?;
            utimens("readable", NOW, NOW).fails(E::ACCESS)?;
            utimens_null("readable").fails(E::ACCESS)?;
            utimens("readable", at(SOME), OMIT).fails(E::PERM)?;
            // Nothing is done, so nothing is asked for.
            utimens("closed", OMIT, OMIT).ok()
        })?;
        as_user(ANN, || {
            utimens("closed", NOW, NOW).ok()?;
            utimens("closed", at(SOME), at(OTHER)).ok()?;
            utimens("closed", OMIT, NOW).ok()
        })
    }),
    Case::new(
        "utimens.errors",
        "utimensat(): [EINVAL], [ENOENT], [ENOTDIR], [EACCES]",
        |_| {
            file("a")?;
            for nanoseconds in [-1, 1_000_000_000] {
                utimens("a", at((5, nanoseconds)), at(SOME)).fails(E::INVAL)?;
                utimens("a", at(SOME), at((5, nanoseconds))).fails(E::INVAL)?;
            }
            utimens("no", NOW, NOW).fails(E::NOENT)?;
            utimens("a/b", NOW, NOW).fails(E::NOTDIR)?;
            dir_of("d", BOB.uid, 0o700)?;
            file_of("d/a", ANN.uid, 0o666)?;
            as_user(ANN, || utimens("d/a", NOW, NOW).fails(E::ACCESS))
        },
    ),
];
