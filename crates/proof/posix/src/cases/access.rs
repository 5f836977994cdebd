//! Permission bits for owner, group, supplementary groups, others and root.

use crate::case::{Case, Outcome, same};
use crate::files::{dir, dir_of, file, file_of};
use crate::process::{ANN, BOB, CLUB, CREW, EVE, Who, as_user, become_ids, in_child};
use crate::sys::*;

/// Persons and the bits that count for them, of a file of ANN and CREW.
const PERSONS: [(&str, Who, u32); 5] = [
    ("the owner", ANN, 6),
    ("the owner, who is in the group", ANN.with(&[CREW]), 6),
    (
        "a member by a supplementary group",
        BOB.with(&[CLUB, CREW]),
        3,
    ),
    (
        "a member by the main group",
        Who {
            uid: CREW,
            groups: &[],
        },
        3,
    ),
    ("another", EVE.with(&[CLUB]), 0),
];

/// Modes that give one class these bits, and both others the opposite, so that a mistake in whose
/// bits count shows.
fn modes() -> impl Iterator<Item = u32> {
    (0..3_u32).flat_map(|class| {
        (0..8_u32).map(move |bits| {
            (0..3_u32)
                .map(|it| (if it == class { bits } else { 7 - bits }) << (3 * it))
                .sum()
        })
    })
}

fn bits_of(mode: u32, shift: u32) -> (bool, bool, bool) {
    let bits = mode >> shift & 7;
    (bits & 4 != 0, bits & 2 != 0, bits & 1 != 0)
}

pub(super) const CASES: &[Case] = &[
    Case::new(
        "access.files_by_mode",
        "path resolution: file access permissions; open(): [EACCES]",
        |_| {
            for mode in modes() {
                let name = format!("{mode:03o}");
                file(&name)?;
                chown(&name, Some(ANN.uid), Some(CREW)).ok()?;
                chmod(&name, mode).ok()?;
            }
            for (person, who, shift) in PERSONS {
                as_user(who, || modes().try_for_each(|mode| may_file(mode, shift)))
                    .map_err(|failure| by(person, failure))?;
            }
            Ok(())
        },
    ),
    Case::new(
        "access.directories_by_mode",
        "path resolution: search permission; [EACCES]",
        |_| {
            for mode in modes() {
                let name = format!("{mode:03o}");
                dir(&name)?;
                file(&format!("{name}/inside"))?;
                chown(&name, Some(ANN.uid), Some(CREW)).ok()?;
                chmod(&name, mode).ok()?;
            }
            for (person, who, shift) in PERSONS {
                as_user(who, || modes().try_for_each(|mode| may_dir(mode, shift)))
                    .map_err(|failure| by(person, failure))?;
            }
            Ok(())
        },
    ),
    Case::new(
        "access.root_may",
        "path_resolution(7): bypassing permissions checks",
        |_| {
            file_of("a", ANN.uid, 0)?;
            dir_of("d", ANN.uid, 0)?;
            open("a", O::RDWR, 0).ok()?;
            access("a", Access::READ_OK | Access::WRITE_OK).ok()?;
            // Root executes only what somebody may.
            access("a", Access::EXEC_OK).fails(E::ACCESS)?;
            chmod("a", 0o001).ok()?;
            access("a", Access::EXEC_OK).ok()?;
            access("d", Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK).ok()?;
            file("d/a")?;
            same("names", names_in("d")?.len(), 1)?;
            unlink("d/a").ok()
        },
    ),
    Case::new(
        "access.real_and_effective_user",
        "access(): real user ID; faccessat(): AT_EACCESS",
        |_| {
            file_of("a", ANN.uid, 0o600)?;
            in_child(|| {
                become_ids((EVE.uid, ANN.uid), EVE.uid, &[])?;
                open("a", O::RDWR, 0).ok()?;
                access("a", Access::READ_OK).fails(E::ACCESS)?;
                faccessat("a", Access::READ_OK, At::EACCESS).ok()
            })?;
            in_child(|| {
                become_ids((ANN.uid, EVE.uid), EVE.uid, &[])?;
                open("a", O::RDONLY, 0).fails(E::ACCESS)?;
                access("a", Access::READ_OK).ok()?;
                faccessat("a", Access::READ_OK, At::EACCESS).fails(E::ACCESS)
            })
        },
    ),
    Case::new(
        "access.errors",
        "access(): [ENOENT], [ENOTDIR], [EACCES]; faccessat2(2)",
        |_| {
            file("a")?;
            symlink("no", "s").ok()?;
            access("no", Access::EXISTS).fails(E::NOENT)?;
            access("", Access::EXISTS).fails(E::NOENT)?;
            access("a/b", Access::EXISTS).fails(E::NOTDIR)?;
            access("s", Access::EXISTS).fails(E::NOENT)?;
            faccessat("s", Access::EXISTS, At::SYMLINK_NOFOLLOW).ok()?;
            faccessat("s", Access::WRITE_OK, At::SYMLINK_NOFOLLOW).ok()?;
            access("a", Access::EXISTS).ok()?;
            dir_of("d", BOB.uid, 0o700)?;
            file("d/a")?;
            as_user(ANN, || access("d/a", Access::EXISTS).fails(E::ACCESS))
        },
    ),
    Case::new(
        "access.along_the_path",
        "path resolution: search permission",
        |_| {
            dir("d")?;
            dir("d/e")?;
            dir("d/e/f")?;
            file("d/e/f/a")?;
            chmod("d/e", 0o711).ok()?;
            as_user(ANN, || {
                stat("d/e/f/a").ok()?;
                opendir("d/e").fails(E::ACCESS)
            })?;
            chmod("d/e", 0o766).ok()?;
            as_user(ANN, || {
                stat("d/e/f/a").fails(E::ACCESS)?;
                open("d/e/f/a", O::RDONLY, 0).fails(E::ACCESS)?;
                mkdir("d/e/f/x", 0o755).fails(E::ACCESS)?;
                unlink("d/e/f/a").fails(E::ACCESS)?;
                rename("d/e/f/a", "d/x").fails(E::ACCESS)?;
                link("d/e/f/a", "d/x").fails(E::ACCESS)?;
                symlink("x", "d/e/f/x").fails(E::ACCESS)?;
                readlink("d/e/f/a").fails(E::ACCESS)?;
                chmod("d/e/f/a", 0o644).fails(E::ACCESS)?;
                truncate("d/e/f/a", 0).fails(E::ACCESS)?;
                utimens("d/e/f/a", NOW, NOW).fails(E::ACCESS)?;
                getxattr("d/e/f/a", "user.x").fails(E::ACCESS)?;
                chdir("d/e/f").fails(E::ACCESS)?;
                rmdir("d/e/f/a").fails(E::ACCESS)?;
                mkfifo("d/e/f/x", 0o644).fails(E::ACCESS)?;
                statvfs("d/e/f/a").fails(E::ACCESS)
            })
        },
    ),
    Case::new("access.changes_count_at_once", "path resolution", |_| {
        file_of("a", ANN.uid, 0o600)?;
        dir_of("d", ANN.uid, 0o755)?;
        file("d/b")?;
        for _ in 0..20 {
            as_user(BOB, || open("a", O::RDONLY, 0).fails(E::ACCESS))?;
            chmod("a", 0o604).ok()?;
            as_user(BOB, || open("a", O::RDONLY, 0).ok().map(drop))?;
            chown("a", None, Some(CREW)).ok()?;
            as_user(BOB.with(&[CREW]), || {
                open("a", O::RDONLY, 0).fails(E::ACCESS)
            })?;
            chown("a", None, Some(0)).ok()?;
            chmod("a", 0o600).ok()?;
            as_user(BOB, || stat("d/b").ok().map(drop))?;
            chmod("d", 0o700).ok()?;
            as_user(BOB, || stat("d/b").fails(E::ACCESS))?;
            chmod("d", 0o755).ok()?;
        }
        Ok(())
    }),
    Case::new(
        "access.groups_of_one_process",
        "setgroups(2); path resolution",
        |_| {
            // The groups that count are those that the process has at the time.
            file_of("a", ANN.uid, 0o640)?;
            chown("a", None, Some(CREW)).ok()?;
            for _ in 0..20 {
                as_user(BOB, || open("a", O::RDONLY, 0).fails(E::ACCESS))?;
                as_user(BOB.with(&[CREW]), || open("a", O::RDONLY, 0).ok().map(drop))?;
            }
            Ok(())
        },
    ),
    Case::new(
        "access.many_groups",
        "limits.h: NGROUPS_MAX; path resolution",
        |_| {
            // Far more than the 32 that /proc shows some programs and the 16 of old network file
            // systems.
            const COUNT: u32 = 1_000;
            let groups: Vec<u32> = (0..COUNT).map(|it| 100_000 + it).collect();
            for group in [groups[0], groups[20], groups[COUNT as usize - 1]] {
                let name = format!("of-{group}");
                file_of(&name, ANN.uid, 0o640)?;
                chown(&name, None, Some(group)).ok()?;
                dir(&format!("dir-{group}"))?;
                chown(&format!("dir-{group}"), None, Some(group)).ok()?;
                chmod(&format!("dir-{group}"), 0o770).ok()?;
                in_child(|| {
                    become_ids((EVE.uid, EVE.uid), EVE.uid, &groups)?;
                    open(&name, O::RDONLY, 0).ok()?;
                    file(&format!("dir-{group}/a"))
                })?;
                in_child(|| {
                    let others: Vec<u32> =
                        groups.iter().copied().filter(|it| *it != group).collect();
                    become_ids((EVE.uid, EVE.uid), EVE.uid, &others)?;
                    open(&name, O::RDONLY, 0).fails(E::ACCESS)?;
                    file(&format!("dir-{group}/b")).map_or(Ok(()), |()| same("made", true, false))
                })?;
            }
            Ok(())
        },
    ),
];

fn by(person: &str, failure: crate::case::Failure) -> crate::case::Failure {
    use crate::case::Failure;
    match failure {
        Failure::Wrong {
            call,
            expected,
            found,
        } => Failure::Wrong {
            call: format!("{call} by {person}"),
            expected,
            found,
        },
        other => other,
    }
}

fn may_file(mode: u32, shift: u32) -> Outcome {
    let name = format!("{mode:03o}");
    let (r, w, x) = bits_of(mode, shift);
    access(&name, Access::READ_OK).allowed(r, E::ACCESS)?;
    access(&name, Access::WRITE_OK).allowed(w, E::ACCESS)?;
    access(&name, Access::EXEC_OK).allowed(x, E::ACCESS)?;
    let all = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
    access(&name, all).allowed(r && w && x, E::ACCESS)?;
    if r {
        open(&name, O::RDONLY, 0).ok().map(drop)?
    } else {
        open(&name, O::RDONLY, 0).fails(E::ACCESS)?
    }
    if w {
        open(&name, O::WRONLY, 0).ok().map(drop)?
    } else {
        open(&name, O::WRONLY, 0).fails(E::ACCESS)?
    }
    if r && w {
        open(&name, O::RDWR, 0).ok().map(drop)?
    } else {
        open(&name, O::RDWR, 0).fails(E::ACCESS)?
    }
    truncate(&name, 0).allowed(w, E::ACCESS)
}

fn may_dir(mode: u32, shift: u32) -> Outcome {
    let name = format!("{mode:03o}");
    let (r, w, x) = bits_of(mode, shift);
    access(&name, Access::READ_OK).allowed(r, E::ACCESS)?;
    access(&name, Access::WRITE_OK).allowed(w, E::ACCESS)?;
    access(&name, Access::EXEC_OK).allowed(x, E::ACCESS)?;
    if r {
        opendir(&name).ok().map(drop)?
    } else {
        opendir(&name).fails(E::ACCESS)?
    }
    chdir(&name).allowed(x, E::ACCESS)?;
    if x {
        chdir("..").ok()?;
    }
    let inside = format!("{name}/inside");
    if x {
        stat(&inside).ok().map(drop)?
    } else {
        stat(&inside).fails(E::ACCESS)?
    }
    let new = format!("{name}/new");
    mkdir(&new, 0o755).allowed(w && x, E::ACCESS)?;
    if w && x {
        rmdir(&new).ok()
    } else {
        unlink(&inside).fails(E::ACCESS)
    }
}
