//! Owners of names: at each moment a name has one at most.
//!
//! No two shards hold partitions that it belongs to, but for a shard that is handing it over and
//! keeps all requests waiting until it knows whether that was decided.

use super::Report;
use crate::tables::Tables;
use pandofs_types::{Ino, Position, ShardId};
use std::collections::BTreeMap;

pub(super) fn check(tables: &Tables, report: &mut Report<'_>) {
    let mut owned: BTreeMap<Ino, Vec<(Position, Position, ShardId)>> = BTreeMap::new();
    for (&(shard, dir), record) in &tables.parts {
        let ranges = owned.entry(dir).or_default();
        for part in &record.parts {
            if record.map.is_active(part.index) {
                let (start, end) = record.map.range_of(part.index);
                ranges.extend(
                    without(tables, shard, dir, (start, end))
                        .into_iter()
                        .map(|(start, end)| (start, end, shard)),
                );
            }
        }
    }
    for (dir, mut ranges) in owned {
        ranges.sort();
        for pair in ranges.windows(2) {
            let ((_, end, one), (start, _, other)) = (pair[0], pair[1]);
            if start < end {
                report.add(
                    format!("directory {dir}"),
                    format!(
                        "names from {start:?} on have two owners, shard {one} and shard {other}"
                    ),
                );
            }
        }
    }
}

/// A range without the part that the shard is handing over.
fn without(
    tables: &Tables,
    shard: ShardId,
    dir: Ino,
    (start, end): (Position, Position),
) -> Vec<(Position, Position)> {
    let record = &tables.parts[&(shard, dir)];
    let Some(split) = tables.splits.get(&(shard, dir)) else {
        return vec![(start, end)];
    };
    if !tables.handing.contains(&(shard, dir)) {
        return vec![(start, end)];
    }
    let mut map = record.map.clone();
    if !map.is_active(split.child) {
        map.activate_at(split.child, split.target);
    }
    let (from, to) = map.range_of(split.child);
    let before = (start, from.clamp(start, end));
    let after = (to.clamp(start, end), end);
    [before, after]
        .into_iter()
        .filter(|(start, end)| start < end)
        .collect()
}

#[cfg(test)]
mod tests {
    use crate::testing::{self, SHARED, found};
    use pandofs_api::SplitId;
    use pandofs_namespace::records::SplitRecord;
    use pandofs_placement::PartitionIndex;
    use pandofs_types::ShardId;

    #[test]
    fn a_partition_that_its_source_keeps_is_found() {
        let mut tables = testing::sound();
        // Shard 1 never heard that partition 1 is on shard 2 now.
        let record = tables.parts.get_mut(&(ShardId(1), SHARED)).unwrap();
        record.map.deactivate(PartitionIndex(1));
        let said = found(&tables, "owners", &format!("directory {SHARED}"));
        assert!(said.contains("shard 1 and shard 2"), "{said}");

        // Unless it is the one that waits to hear of it.
        let split = SplitRecord {
            split: SplitId {
                source: ShardId(1),
                sequence: 5,
            },
            index: PartitionIndex(0),
            child: PartitionIndex(1),
            target: ShardId(2),
            back: false,
        };
        tables.splits.insert((ShardId(1), SHARED), split);
        assert_eq!(crate::check_moment(&tables).len(), 1);
        tables.handing.insert((ShardId(1), SHARED));
        assert!(crate::check_moment(&tables).is_empty());
    }
}
