//! Partitions: one owner for every name that a directory may hold.
//!
//! The partitions that its shards have tile the whole range of hashes, and no shard's map speaks of
//! a partition that is nowhere.

use super::Report;
use crate::tables::Tables;
use pandofs_namespace::records::PartsRecord;
use pandofs_placement::PartitionIndex;
use pandofs_types::limits::RESEND_INTERVAL;
use pandofs_types::{FileKind, Ino, Position, ShardId};
use std::collections::BTreeSet;
use std::time::Duration;

/// How long a home may take to hear of a merge, once it can be reached.
const PATIENCE: Duration = RESEND_INTERVAL.saturating_mul(20);

pub(super) fn check(tables: &Tables, report: &mut Report<'_>) {
    for (dir, holders) in tables.holders() {
        check_directory(tables, dir, &holders, report);
    }
    for (&(shard, ino), inode) in &tables.inodes {
        if inode.kind == FileKind::Dir && !tables.parts.contains_key(&(shard, ino)) {
            report.add(
                format!("directory {ino}"),
                format!("its home {shard} holds no partition of it"),
            );
        }
    }
}

fn check_directory(
    tables: &Tables,
    dir: Ino,
    holders: &[(ShardId, &PartsRecord)],
    report: &mut Report<'_>,
) {
    let subject = || format!("directory {dir}");
    let home = dir.birth_shard();
    let is_gone = !tables.inodes.contains_key(&(home, dir));
    if is_gone && holders.iter().all(|(_, record)| record.parts.is_empty()) {
        // What was there was merged, and the directory removed before its home had heard of that. It is told until it answers.
        for (shard, _) in holders {
            let text = format!("shard {shard} has a record of no partitions of it, and it is gone");
            report.add_if_it_lasts(PATIENCE, subject(), text);
        }
        return;
    }
    if is_gone {
        let shards: Vec<String> = holders.iter().map(|(shard, _)| shard.to_string()).collect();
        report.add(
            subject(),
            format!(
                "shards {} hold partitions of it, but it has no inode",
                shards.join(", ")
            ),
        );
    }
    let mut ranges: Vec<(Position, Position, ShardId, u32)> = Vec::new();
    let mut held = BTreeSet::new();
    for &(shard, record) in holders {
        if record.parts.is_empty() {
            // Until the home has heard that what was here was merged.
            report.add_if_it_lasts(
                PATIENCE,
                subject(),
                format!("shard {shard} has a record of no partitions of it"),
            );
        }
        for part in &record.parts {
            let index = part.index;
            if !record.map.is_active(index) {
                report.add(
                    subject(),
                    format!("shard {shard} holds partition {index}, which its map does not know"),
                );
                continue;
            }
            if record.map.shard_of_partition(index) != shard {
                let owner = record.map.shard_of_partition(index);
                report.add(
                    subject(),
                    format!(
                        "shard {shard} holds partition {index}, which its map gives to {owner}"
                    ),
                );
            }
            held.insert(index);
            let (start, end) = record.map.range_of(index);
            ranges.push((start, end, shard, index.0));
        }
    }
    // One may be known here that another shard knows to have been merged.
    let gone = |index| {
        let known = holders.iter().map(|(_, r)| r.map.changes_of(index)).max();
        known.is_some_and(|changes| changes % 2 == 0)
    };
    for &(shard, record) in holders {
        let lost = |index: &PartitionIndex| !held.contains(index) && !gone(*index);
        for index in record.map.active().filter(lost) {
            report.add(
                subject(),
                format!("shard {shard} knows of partition {index}, which no shard holds"),
            );
        }
        if record.map.home() != home {
            let found = record.map.home();
            report.add(
                subject(),
                format!("shard {shard} takes {found} for its home instead of {home}"),
            );
        }
    }
    ranges.sort();
    let mut covered = Position(0);
    for (start, end, shard, index) in ranges {
        if start > covered {
            let text = format!("no shard owns the names from {covered:?} to {start:?}");
            report.add(subject(), text);
        }
        if start < covered {
            let text = format!(
                "partition {index} on shard {shard} begins at {start:?}, but what is before \
                 {covered:?} has another owner"
            );
            report.add(subject(), text);
        }
        covered = covered.max(end);
    }
    if covered < Position::END {
        report.add(
            subject(),
            format!("no shard owns the names from {covered:?} on"),
        );
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{self, SHARED, found};
    use pandofs_namespace::records::Part;
    use pandofs_placement::PartitionIndex;
    use pandofs_types::ShardId;

    #[test]
    fn a_partition_that_was_lost_is_found() {
        let mut tables = testing::sound();
        tables.parts.remove(&(ShardId(2), SHARED));
        let said = found(&tables, "partitions", &format!("directory {SHARED}"));
        assert!(
            said.contains("shard 1 knows of partition 1, which no shard holds"),
            "{said}"
        );
        assert!(said.contains("no shard owns the names from"), "{said}");
    }

    #[test]
    fn two_owners_are_found() {
        let mut tables = testing::sound();
        // The source of the split did not give up its half: its map does not know of the split.
        let source = tables.parts.get_mut(&(ShardId(1), SHARED)).unwrap();
        source.map = pandofs_placement::DirMap::single(ShardId(1));
        let said = found(&tables, "partitions", &format!("directory {SHARED}"));
        assert!(said.contains("has another owner"), "{said}");
    }

    #[test]
    fn a_partition_on_the_wrong_shard_is_found() {
        let mut tables = testing::sound();
        let parts = tables.parts.remove(&(ShardId(2), SHARED)).unwrap();
        tables.parts.insert((ShardId(3), SHARED), parts);
        let said = found(&tables, "partitions", &format!("directory {SHARED}"));
        assert!(
            said.contains("shard 3 holds partition 1, which its map gives to 2"),
            "{said}"
        );
    }

    #[test]
    fn a_partition_its_own_map_does_not_know_is_found() {
        let mut tables = testing::sound();
        let source = tables.parts.get_mut(&(ShardId(1), SHARED)).unwrap();
        source.parts.push(Part {
            index: PartitionIndex(3),
            entries: 0,
            subdirs: 0,
        });
        let said = found(&tables, "partitions", &format!("directory {SHARED}"));
        assert!(
            said.contains("holds partition 3, which its map does not know"),
            "{said}"
        );
    }

    #[test]
    fn partitions_without_their_directory_are_found() {
        let mut tables = testing::sound();
        tables.inodes.remove(&(ShardId(1), SHARED));
        let said = found(&tables, "partitions", &format!("directory {SHARED}"));
        assert!(
            said.contains("shards 1, 2 hold partitions of it, but it has no inode"),
            "{said}"
        );
    }

    #[test]
    fn what_is_left_where_all_was_merged_away_may_outlast_its_directory_for_a_while() {
        let mut tables = testing::sound();
        tables.inodes.remove(&(ShardId(1), SHARED));
        tables.parts.remove(&(ShardId(1), SHARED));
        let left = tables.parts.get_mut(&(ShardId(2), SHARED)).unwrap();
        left.parts.clear();
        let mut problems = Vec::new();
        crate::check_tables(&tables, &mut problems);
        let subject = format!("directory {SHARED}");
        problems.retain(|p| p.oracle == "partitions" && p.subject == subject);
        let [left] = &problems[..] else {
            panic!("{problems:?}");
        };
        assert_eq!(
            left.text,
            "shard 2 has a record of no partitions of it, and it is gone"
        );
        assert_eq!(left.patience, super::PATIENCE);
    }
}
