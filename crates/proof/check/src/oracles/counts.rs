//! Counts: each partition's entries and subdirectories, and the totals of each shard.
//!
//! Each is the number of what is there.

use super::Report;
use crate::tables::Tables;
use pandofs_placement::PartitionIndex;
use pandofs_types::{FileKind, Ino, ShardId};
use std::collections::BTreeMap;

pub(super) fn check(tables: &Tables, report: &mut Report<'_>) {
    let mut real: BTreeMap<(ShardId, Ino, PartitionIndex), (u64, u32)> = BTreeMap::new();
    for (key, entry) in &tables.entries {
        if let Some(parts) = tables.parts.get(&(key.shard, key.dir)) {
            let index = parts.map.partition_of(key.position);
            let sums = real.entry((key.shard, key.dir, index)).or_default();
            sums.0 += 1;
            sums.1 += u32::from(entry.kind == FileKind::Dir);
        }
    }
    for (&(shard, dir), parts) in &tables.parts {
        for part in &parts.parts {
            let found = real
                .get(&(shard, dir, part.index))
                .copied()
                .unwrap_or_default();
            if found != (part.entries, part.subdirs) {
                report.add(
                    format!(
                        "partition {} of directory {dir} on shard {shard}",
                        part.index
                    ),
                    format!(
                        "it counts {} entries, {} of them directories, and has {} and {}",
                        part.entries, part.subdirs, found.0, found.1
                    ),
                );
            }
        }
    }
    check_totals(tables, report);
}

/// Counts of a shard's contents.
#[derive(Clone, Copy, Default)]
struct Totals {
    entries: u64,
    inodes: u64,
    partitions: u64,
}

fn totals(tables: &Tables) -> BTreeMap<ShardId, Totals> {
    let mut totals: BTreeMap<ShardId, Totals> = BTreeMap::new();
    for key in tables.entries.keys() {
        totals.entry(key.shard).or_default().entries += 1;
    }
    for (shard, _) in tables.inodes.keys() {
        totals.entry(*shard).or_default().inodes += 1;
    }
    for ((shard, _), parts) in &tables.parts {
        totals.entry(*shard).or_default().partitions += parts.parts.len() as u64;
    }
    totals
}

fn check_totals(tables: &Tables, report: &mut Report<'_>) {
    let totals = totals(tables);
    for number in 0..tables.map.shard_count() {
        let shard = ShardId(number);
        let Some(meta) = tables.metas.get(&shard) else {
            report.add(
                format!("shard {shard}"),
                "it has no record of its own".into(),
            );
            continue;
        };
        if meta.fs != tables.map.fs {
            report.add(
                format!("shard {shard}"),
                format!("it belongs to the file system {}", meta.fs),
            );
        }
        let has = totals.get(&shard).copied().unwrap_or_default();
        let totals = [
            ("entries", meta.entries, has.entries),
            ("inodes", meta.inodes, has.inodes),
            ("partitions", meta.partitions, has.partitions),
        ];
        for (what, counted, found) in totals {
            if counted != found {
                report.add(
                    format!("the {what} of shard {shard}"),
                    format!("it counts {counted} and has {found}"),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{self, SHARED, found, key_of};
    use pandofs_types::ShardId;

    #[test]
    fn a_wrong_number_of_entries_is_found() {
        let mut tables = testing::sound();
        tables.parts.get_mut(&(ShardId(1), SHARED)).unwrap().parts[0].entries += 1;
        let said = found(
            &tables,
            "counts",
            &format!("partition 0 of directory {SHARED} on shard 1"),
        );
        assert!(said.contains("and has"), "{said}");
    }

    #[test]
    fn wrong_totals_are_found() {
        let mut tables = testing::sound();
        let (key, _) = key_of(&tables, SHARED, "plain");
        let meta = tables.metas.get_mut(&key.shard).unwrap();
        meta.entries += 1;
        meta.inodes += 1;
        meta.partitions += 1;
        for what in ["entries", "inodes", "partitions"] {
            found(
                &tables,
                "counts",
                &format!("the {what} of shard {}", key.shard),
            );
        }
    }

    #[test]
    fn a_shard_without_a_record_is_found() {
        let mut tables = testing::sound();
        tables.metas.remove(&ShardId(3));
        assert!(found(&tables, "counts", "shard 3").contains("no record"));
    }
}
