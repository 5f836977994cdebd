//! A file's link count is the number of its names; a directory has one.

use super::Report;
use crate::tables::Tables;
use pandofs_types::{FileKind, Ino};

pub(super) fn check(tables: &Tables, report: &mut Report<'_>) {
    let mut names: Vec<Ino> = tables.entries.values().map(|entry| entry.ino).collect();
    names.sort_unstable();
    let count = |ino: Ino| {
        let from = names.partition_point(|of| *of < ino);
        names[from..].iter().take_while(|of| **of == ino).count() as u64
    };
    for (&(shard, ino), inode) in &tables.inodes {
        let subject = || format!("inode {ino} on shard {shard}");
        let has = count(ino);
        let limit = if ino == Ino::ROOT { 0 } else { 1 };
        if inode.kind == FileKind::Dir {
            if has > limit {
                report.add(subject(), format!("{has} names lead to this directory"));
            }
        } else if u64::from(inode.nlink) != has {
            report.add(
                subject(),
                format!("it counts {} links and has {has} names", inode.nlink),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{self, ROOT_DIR, SHARED, found, key_of};

    #[test]
    fn a_wrong_link_count_is_found() {
        let mut tables = testing::sound();
        let (_, entry) = key_of(&tables, SHARED, "linked");
        tables
            .inodes
            .get_mut(&(entry.shard, entry.ino))
            .unwrap()
            .nlink = 3;
        let subject = format!("inode {} on shard {}", entry.ino, entry.shard);
        assert!(found(&tables, "links", &subject).contains("counts 3 links and has 2 names"));
    }

    #[test]
    fn a_directory_with_two_names_is_found() {
        let mut tables = testing::sound();
        let (key, entry) = key_of(&tables, ROOT_DIR, "shared");
        let twin = crate::tables::EntryKey {
            name: pandofs_types::Name::new(b"twin").unwrap(),
            ..key
        };
        tables.entries.insert(twin, entry.clone());
        let subject = format!("inode {} on shard {}", entry.ino, entry.shard);
        assert!(found(&tables, "links", &subject).contains("2 names lead to this directory"));
    }
}
