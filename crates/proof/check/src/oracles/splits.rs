//! Splits: each staged copy belongs to one.
//!
//! Its source still holds both halves and means to hand one over, or will say that it has given up.

use super::Report;
use crate::tables::Tables;
use pandofs_api::SplitId;
use pandofs_types::ShardId;
use pandofs_types::limits::STAGING_TIMEOUT;
use std::collections::BTreeSet;
use std::time::Duration;

/// How long copies may stay whose source gave up without a word, as it does when it is killed.
const PATIENCE: Duration = STAGING_TIMEOUT.saturating_add(Duration::from_secs(10));

pub(super) fn check(tables: &Tables, report: &mut Report<'_>) {
    let under_way: BTreeSet<(ShardId, SplitId)> = tables
        .splits
        .values()
        .map(|record| (record.target, record.split))
        .collect();
    let staged: BTreeSet<(ShardId, SplitId)> = tables
        .staging
        .keys()
        .chain(tables.staged.keys())
        .copied()
        .collect();
    for &(shard, split) in &staged {
        let subject = format!(
            "split {}:{} on its target shard {shard}",
            split.source, split.sequence
        );
        if !under_way.contains(&(shard, split)) {
            let copies = tables.staged.get(&(shard, split)).copied().unwrap_or(0);
            report.add_if_it_lasts(
                PATIENCE,
                subject,
                format!("{copies} entries are staged, but there is no such split"),
            );
        } else if !tables.staging.contains_key(&(shard, split)) {
            report.add(
                subject,
                "entries are staged without the record of their chunks".into(),
            );
        }
    }
    for (&(shard, dir), record) in &tables.splits {
        let subject = format!("split of directory {dir} on shard {shard}");
        let Some(parts) = tables.parts.get(&(shard, dir)) else {
            report.add(
                subject,
                "the shard holds no partition of that directory".into(),
            );
            continue;
        };
        if record.split.source != shard {
            report.add(
                subject,
                format!("it says its source is shard {}", record.split.source),
            );
        } else if parts.part(record.giver()).is_none() {
            report.add(
                subject,
                format!("the shard does not hold partition {}", record.giver()),
            );
        } else if record.back && parts.map.merges_into(record.child) != Some(record.index) {
            report.add(
                subject,
                format!(
                    "partition {} cannot be merged into {} any more",
                    record.child, record.index
                ),
            );
        } else if !record.back && parts.map.is_active(record.child) {
            report.add(
                subject,
                format!(
                    "partition {} cannot split off {} any more",
                    record.index, record.child
                ),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{self, SHARED, found};
    use pandofs_api::SplitId;
    use pandofs_namespace::records::{SplitRecord, StagingRecord};
    use pandofs_placement::PartitionIndex;
    use pandofs_types::ShardId;

    const SPLIT: SplitId = SplitId {
        source: ShardId(1),
        sequence: 5,
    };

    fn record(child: u32) -> SplitRecord {
        SplitRecord {
            split: SPLIT,
            index: PartitionIndex(0),
            child: PartitionIndex(child),
            target: ShardId(3),
            back: false,
        }
    }

    #[test]
    fn copies_that_nobody_will_fetch_are_found() {
        let mut tables = testing::sound();
        tables.staged.insert((ShardId(3), SPLIT), 7);
        tables.staging.insert(
            (ShardId(3), SPLIT),
            StagingRecord {
                dir: SHARED,
                chunks: 1,
            },
        );
        let subject = "split 1:5 on its target shard 3";
        assert!(found(&tables, "splits", subject).contains("7 entries are staged"));
        tables.splits.insert((ShardId(1), SHARED), record(2));
        assert!(testing::problems(&tables, "splits").is_empty());
        tables.staging.clear();
        assert!(found(&tables, "splits", subject).contains("without the record"));
    }

    #[test]
    fn a_split_that_was_done_already_is_found() {
        let mut tables = testing::sound();
        tables.splits.insert((ShardId(1), SHARED), record(1));
        let subject = format!("split of directory {SHARED} on shard 1");
        assert!(found(&tables, "splits", &subject).contains("any more"));
    }

    #[test]
    fn a_merge_that_cannot_be_is_found() {
        let mut tables = testing::sound();
        let back = SplitRecord {
            split: SplitId {
                source: ShardId(2),
                sequence: 5,
            },
            target: ShardId(1),
            back: true,
            ..record(1)
        };
        tables.splits.insert((ShardId(2), SHARED), back);
        assert!(testing::problems(&tables, "splits").is_empty());
        let parts = tables.parts.get_mut(&(ShardId(2), SHARED)).unwrap();
        parts.map.activate(PartitionIndex(3));
        let subject = format!("split of directory {SHARED} on shard 2");
        assert!(found(&tables, "splits", &subject).contains("cannot be merged into 0"));
    }

    #[test]
    fn a_split_of_nothing_is_found() {
        let mut tables = testing::sound();
        tables.splits.insert((ShardId(0), SHARED), record(2));
        let subject = format!("split of directory {SHARED} on shard 0");
        assert!(found(&tables, "splits", &subject).contains("no partition"));
    }
}
