//! Listing directories, while entries come and go.

use crate::case::{Case, Outcome, holds, same};
use crate::files::{dir, file, one_of_each_kind};
use crate::process::{ANN, as_user};
use crate::sys::*;
use std::collections::{BTreeMap, BTreeSet};

/// A buffer that holds only some entries, so that many calls list a directory.
const SMALL: usize = 512;

fn name(i: usize) -> String {
    format!("entry-{i:05}")
}

fn fill(path: &str, entries: usize) -> Outcome {
    dir(path)?;
    (0..entries).try_for_each(|i| file(&format!("{path}/{}", name(i))))
}

/// Returns how often each name is listed.
fn counted(entries: &[Entry]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for entry in entries {
        *counts
            .entry(String::from_utf8_lossy(&entry.name).into_owned())
            .or_default() += 1;
    }
    counts
}

pub(super) const CASES: &[Case] = &[
    Case::new("readdir.lists_each_once", "readdir()", |_| {
        for entries in [0, 1, 100, 3_000] {
            fill("d", entries)?;
            for size in [SMALL, 32_768, 1 << 20] {
                let counts = counted(&rest_of(&opendir("d").ok()?, size)?);
                same(
                    &format!("names of {entries} listed with {size} bytes"),
                    counts.len(),
                    entries + 2,
                )?;
                holds(
                    "times a name is listed",
                    counts.values().all(|it| *it == 1),
                    "1",
                    &counts,
                )?;
            }
            (0..entries).try_for_each(|i| unlink(&format!("d/{}", name(i))).ok())?;
            rmdir("d").ok()?;
        }
        Ok(())
    }),
    Case::new(
        "readdir.types_and_numbers",
        "getdents(2): d_ino, d_type",
        |_| {
            dir("d")?;
            chdir("d").ok()?;
            one_of_each_kind()?;
            for entry in rest_of(&opendir(".").ok()?, 32_768)? {
                let stat = lstat(&entry.name[..]).ok()?;
                let what = String::from_utf8_lossy(&entry.name).into_owned();
                same(&format!("d_ino of {what}"), entry.inode, stat.st_ino)?;
                same(
                    &format!("d_type of {what}"),
                    entry.kind,
                    FileType::from_raw_mode(stat.st_mode),
                )?;
            }
            Ok(())
        },
    ),
    Case::new(
        "readdir.errors",
        "getdents(2): [EINVAL], [ENOTDIR]; opendir(): [EACCES], [ENOENT]",
        |_| {
            fill("d", 5)?;
            file("a")?;
            getdents(&open("a", O::RDONLY, 0).ok()?, 4_096).fails(E::NOTDIR)?;
            getdents(&open("d", O::PATH, 0).ok()?, 4_096).fails(E::BADF)?;
            // Too little for one entry.
            getdents(&opendir("d").ok()?, 8).fails(E::INVAL)?;
            opendir("no").fails(E::NOENT)?;
            opendir("a").fails(E::NOTDIR)?;
            chmod("d", 0o711).ok()?;
            as_user(ANN, || opendir("d").fails(E::ACCESS))?;
            let fd = opendir("d").ok()?;
            // The right is looked at when it is opened.
            as_user(ANN, || getdents(&fd, 4_096).ok().map(drop))
        },
    ),
    Case::new(
        "readdir.rewinds",
        "rewinddir(): as opendir() would have",
        |_| {
            fill("d", 500)?;
            let fd = opendir("d").ok()?;
            same("entries", rest_of(&fd, SMALL)?.len(), 502)?;
            getdents(&fd, SMALL).gives(vec![])?;
            file("d/new")?;
            unlink("d/entry-00007").ok()?;
            seekdir(&fd, 0)?;
            let counts = counted(&rest_of(&fd, SMALL)?);
            same("entries after one came and one went", counts.len(), 502)?;
            same("the new one", counts.get("new"), Some(&1))?;
            same("the removed one", counts.get("entry-00007"), None)?;
            // In the middle as well.
            seekdir(&fd, 0)?;
            getdents(&fd, SMALL).ok()?;
            file("d/newer")?;
            seekdir(&fd, 0)?;
            same(
                "the newer one",
                counted(&rest_of(&fd, SMALL)?).get("newer"),
                Some(&1),
            )
        },
    ),
    Case::new("readdir.seeks", "telldir(); seekdir()", |_| {
        fill("d", 1_000)?;
        let fd = opendir("d").ok()?;
        let all = rest_of(&fd, SMALL)?;
        let positions: BTreeSet<u64> = all.iter().map(|it| it.next).collect();
        same("different positions", positions.len(), all.len())?;
        for at in [0, 1, 2, 3, 17, 400, 999, 1_000, 1_001].into_iter().rev() {
            seekdir(&fd, all[at].next)?;
            let rest: Vec<_> = rest_of(&fd, SMALL)?.into_iter().map(|it| it.name).collect();
            let expected: Vec<_> = all[at + 1..].iter().map(|it| it.name.clone()).collect();
            same(
                &format!("entries after position {at}"),
                rest == expected,
                true,
            )?;
        }
        // Another descriptor of the same directory understands the positions, too.
        let other = opendir("d").ok()?;
        seekdir(&other, all[600].next)?;
        same("entries", rest_of(&other, SMALL)?.len(), 1_002 - 601)
    }),
    Case::new(
        "readdir.positions_outlive_their_entries",
        "seekdir(); readdir(): entries removed",
        |_| {
            fill("d", 1_000)?;
            let fd = opendir("d").ok()?;
            let all = rest_of(&fd, SMALL)?;
            let at = 500;
            let (before, after) = all.split_at(at + 1);
            // The entry at the position and its neighbours go.
            for gone in [at - 1, at, at + 1] {
                unlinkat(&fd, &all[gone].name[..], At::empty()).ok()?;
            }
            seekdir(&fd, all[at].next)?;
            let rest: BTreeSet<_> = rest_of(&fd, SMALL)?.into_iter().map(|it| it.name).collect();
            let expected: BTreeSet<_> = after[1..].iter().map(|it| it.name.clone()).collect();
            same(
                "the entries after it are all listed",
                expected.is_subset(&rest),
                true,
            )?;
            let earlier = before[..at - 1]
                .iter()
                .filter(|it| rest.contains(&it.name))
                .count();
            same("entries before it that are listed again", earlier, 0)
        },
    ),
    Case::new(
        "readdir.positions_outlive_growth",
        "telldir(), seekdir(): until closedir()",
        |_| {
            // However large the directory becomes: what was listed after a position still is. ext4
            // moves `.` and `..` when the second block comes.
            fill("d", 90)?;
            let fd = opendir("d").ok()?;
            let mut all = rest_of(&fd, SMALL)?;
            all.retain(|it| !is_dot(&it.name));
            same("entries", all.len(), 90)?;
            (90..3_000).try_for_each(|i| file(&format!("d/{}", name(i))))?;
            let old: BTreeSet<_> = all.iter().map(|it| &it.name).collect();
            for at in [0, 1, 2, 45, 87, 88, 89] {
                seekdir(&fd, all[at].next)?;
                let rest: Vec<_> = rest_of(&fd, SMALL)?.into_iter().map(|it| it.name).collect();
                let (found, expected): (Vec<_>, Vec<_>) = (
                    rest.iter().filter(|it| old.contains(it)).collect(),
                    all[at + 1..].iter().map(|it| &it.name).collect(),
                );
                same(
                    &format!("old entries after position {at}"),
                    found == expected,
                    true,
                )?;
            }
            Ok(())
        },
    ),
    Case::new(
        "readdir.entries_come_and_go",
        "readdir(): what is neither added nor removed is returned",
        |_| {
            fill("d", 3_000)?;
            let fd = opendir("d").ok()?;
            let mut listed = Vec::new();
            let mut removed = BTreeSet::new();
            let mut added = 0;
            for round in 0.. {
                let entries = getdents(&fd, SMALL).ok()?;
                if entries.is_empty() {
                    break;
                }
                listed.extend(entries);
                // Every third of the first ones, whether it was listed or not, and as many new
                // ones.
                let gone = 3 * round;
                if gone < 1_500 {
                    unlink(&format!("d/{}", name(gone))).ok()?;
                    removed.insert(name(gone));
                    file(&format!("d/added-{round}"))?;
                    added += 1;
                }
            }
            let counts = counted(&listed);
            let twice: Vec<_> = counts
                .iter()
                .filter(|it| *it.1 > 1)
                .map(|it| it.0)
                .collect();
            holds("names listed twice", twice.is_empty(), "none", &twice)?;
            let missed: Vec<_> = (0..3_000)
                .map(name)
                .filter(|it| !removed.contains(it) && !counts.contains_key(it))
                .collect();
            holds("names missed", missed.is_empty(), "none", &missed)?;
            same(
                "names in the end",
                names_in("d")?.len(),
                3_000 - removed.len() + added,
            )
        },
    ),
    Case::new(
        "readdir.removes_what_it_lists",
        "readdir(): as rm -r does it",
        |_| {
            for size in [SMALL, 32_768] {
                fill("d", 2_000)?;
                let fd = opendir("d").ok()?;
                loop {
                    let entries = getdents(&fd, size).ok()?;
                    if entries.is_empty() {
                        break;
                    }
                    for entry in entries.iter().filter(|it| !is_dot(&it.name)) {
                        unlinkat(&fd, &entry.name[..], At::empty()).ok()?;
                    }
                }
                same("names left", names_in("d")?.len(), 0)?;
                rmdir("d").ok()?;
            }
            Ok(())
        },
    ),
    Case::new("readdir.renames_what_it_lists", "readdir()", |_| {
        // A renamed file may be listed by both, one or none of its names; the others by all means.
        fill("d", 1_000)?;
        let fd = opendir("d").ok()?;
        let mut listed = Vec::new();
        for round in 0.. {
            let entries = getdents(&fd, SMALL).ok()?;
            if entries.is_empty() {
                break;
            }
            listed.extend(entries);
            if round < 100 {
                rename(
                    &format!("d/{}", name(2 * round)),
                    &format!("d/renamed-{round}"),
                )
                .ok()?;
            }
        }
        let counts = counted(&listed);
        let missed = (0..1_000)
            .filter(|i| i % 2 == 1 || *i >= 200)
            .filter(|i| !counts.contains_key(&name(*i)));
        same("names missed", missed.count(), 0)?;
        same("names in the end", names_in("d")?.len(), 1_000)
    }),
    Case::new(
        "readdir.two_at_once",
        "readdir(): open file descriptions",
        |_| {
            fill("d", 1_000)?;
            let (first, second) = (opendir("d").ok()?, opendir("d").ok()?);
            let shared = dup(&second).ok()?;
            let mut listed = [Vec::new(), Vec::new()];
            loop {
                let entries = [
                    getdents(&first, SMALL).ok()?,
                    getdents(&second, SMALL).ok()?,
                ];
                let more = getdents(&shared, SMALL).ok()?;
                if entries.iter().all(|it| it.is_empty()) {
                    break;
                }
                let [one, two] = entries;
                listed[0].extend(one);
                listed[1].extend(two);
                listed[1].extend(more);
            }
            for entries in &listed {
                same(
                    "entries",
                    (entries.len(), counted(entries).len()),
                    (1_002, 1_002),
                )?;
            }
            Ok(())
        },
    ),
    Case::new("readdir.of_20000", "readdir(); a large directory", |_| {
        const ENTRIES: usize = 20_000;
        fill("d", ENTRIES)?;
        let fd = opendir("d").ok()?;
        let counts = counted(&rest_of(&fd, 32_768)?);
        same("names", counts.len(), ENTRIES + 2)?;
        same("each once", counts.values().all(|it| *it == 1), true)?;
        for i in (0..ENTRIES).step_by(997) {
            lstat(&format!("d/{}", name(i))).ok()?;
        }
        for i in (0..ENTRIES).step_by(2) {
            unlink(&format!("d/{}", name(i))).ok()?;
        }
        seekdir(&fd, 0)?;
        same(
            "names after half of them went",
            rest_of(&fd, 32_768)?.len(),
            ENTRIES / 2 + 2,
        )
    }),
    Case::new("readdir.follows_a_renamed_directory", "readdir()", |_| {
        fill("d", 300)?;
        let fd = opendir("d").ok()?;
        let mut listed = getdents(&fd, SMALL).ok()?;
        rename("d", "e").ok()?;
        listed.extend(rest_of(&fd, SMALL)?);
        same("entries", counted(&listed).len(), 302)
    }),
];
