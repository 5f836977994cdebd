//! Inodes: none is lost and none is there twice.
//!
//! Each has a name, or is the root, or waits on the reclaim list until the sessions that have it
//! open close it.

use super::Report;
use crate::tables::Tables;
use pandofs_namespace::records::ReclaimRecord;
use pandofs_types::{Ino, ShardId};

pub(super) fn check(tables: &Tables, report: &mut Report<'_>) {
    let mut named: Vec<(ShardId, Ino)> = tables
        .entries
        .values()
        .map(|entry| (entry.shard, entry.ino))
        .collect();
    named.sort_unstable();
    for (&(shard, ino), inode) in &tables.inodes {
        let subject = || format!("inode {ino} on shard {shard}");
        let reclaim = tables.reclaim.get(&(shard, ino));
        let orphan = matches!(reclaim, Some(ReclaimRecord::Orphan));
        let kept = orphan || matches!(reclaim, Some(ReclaimRecord::Truncate { .. }));
        let has_name = named.binary_search(&(shard, ino)).is_ok();
        if !has_name && !kept && ino != Ino::ROOT {
            report.add(subject(), format!("no name leads to this {:?}", inode.kind));
        }
        if inode.may_be_named && (has_name || inode.nlink > 0) {
            report.add(
                subject(),
                "it has a name, and seems never to have had one".into(),
            );
        }
        if has_name && orphan {
            report.add(subject(), "it has a name, and is to be reclaimed".into());
        }
        if ino.serial()
            >= tables
                .metas
                .get(&ino.birth_shard())
                .map_or(0, |meta| meta.next_serial)
        {
            report.add(
                subject(),
                "its birth shard has not given out that number yet".into(),
            );
        }
    }
    let whereabouts = tables.whereabouts();
    for of_one in whereabouts.chunk_by(|one, other| one.0 == other.0) {
        if let [(ino, _), _, ..] = of_one {
            let shards: Vec<String> = of_one.iter().map(|(_, shard)| shard.to_string()).collect();
            report.add(
                format!("inode {ino}"),
                format!("it is on the shards {}", shards.join(", ")),
            );
        }
    }
    if !tables
        .inodes
        .contains_key(&(Ino::ROOT.birth_shard(), Ino::ROOT))
    {
        report.add("the root".into(), "it has no inode".into());
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{self, SHARED, found, key_of};
    use pandofs_namespace::records::ReclaimRecord;
    use pandofs_types::{Ino, ShardId};

    #[test]
    fn an_inode_without_a_name_is_found() {
        let mut tables = testing::sound();
        let (key, entry) = key_of(&tables, SHARED, "plain");
        tables.entries.remove(&key);
        let subject = format!("inode {} on shard {}", entry.ino, entry.shard);
        assert!(found(&tables, "inodes", &subject).contains("no name leads to this File"));
        // Removed while open is as it should be.
        tables
            .reclaim
            .insert((entry.shard, entry.ino), ReclaimRecord::Orphan);
        assert!(testing::problems(&tables, "inodes").is_empty());
    }

    #[test]
    fn an_inode_with_a_name_is_not_to_be_reclaimed() {
        let mut tables = testing::sound();
        let (_, entry) = key_of(&tables, SHARED, "plain");
        tables
            .reclaim
            .insert((entry.shard, entry.ino), ReclaimRecord::Orphan);
        let subject = format!("inode {} on shard {}", entry.ino, entry.shard);
        assert!(found(&tables, "inodes", &subject).contains("is to be reclaimed"));
    }

    #[test]
    fn an_inode_with_a_name_that_says_it_never_had_one_is_found() {
        let mut tables = testing::sound();
        let (_, entry) = key_of(&tables, SHARED, "plain");
        let inode = tables.inodes.get_mut(&(entry.shard, entry.ino));
        inode.expect("it is there").may_be_named = true;
        let subject = format!("inode {} on shard {}", entry.ino, entry.shard);
        assert!(found(&tables, "inodes", &subject).contains("seems never to have had one"));
    }

    #[test]
    fn an_inode_that_was_copied_and_not_moved_is_found() {
        let mut tables = testing::sound();
        let (_, entry) = key_of(&tables, SHARED, "plain");
        let copy = tables.inodes[&(entry.shard, entry.ino)].clone();
        tables.inodes.insert((ShardId(3), entry.ino), copy);
        assert!(
            found(&tables, "inodes", &format!("inode {}", entry.ino)).contains("on the shards")
        );
    }

    #[test]
    fn a_missing_root_and_a_number_from_the_future_are_found() {
        let mut tables = testing::sound();
        let root = tables.inodes.remove(&(ShardId(0), Ino::ROOT)).unwrap();
        let future = Ino::new(ShardId(0), 1 << 40);
        tables.inodes.insert((ShardId(0), future), root);
        assert!(found(&tables, "inodes", "the root").contains("no inode"));
        let subject = format!("inode {future} on shard 0");
        assert!(found(&tables, "inodes", &subject).contains("not given out"));
    }
}
