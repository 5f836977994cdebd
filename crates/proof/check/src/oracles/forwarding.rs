//! Forwarding records: they lead from an inode's birth shard to where it is.
//!
//! They form no circle, and there are none for inodes that died.

use super::Report;
use crate::tables::Tables;
use pandofs_namespace::records::ReclaimRecord;
use pandofs_types::{Ino, ShardId};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn check(tables: &Tables, report: &mut Report<'_>) {
    let whereabouts = tables.whereabouts();
    let is_there = |ino: Ino| {
        whereabouts
            .binary_search_by_key(&ino, |(ino, _)| *ino)
            .is_ok()
    };
    for &(shard, ino) in tables.inodes.keys() {
        if ino.birth_shard() != shard {
            let subject = format!("inode {ino} on shard {shard}");
            if let Err(text) = follow(tables, ino, ino.birth_shard()) {
                report.add(subject, text);
            }
        }
        if tables.forwarding.contains_key(&(shard, ino)) {
            let text = "its shard also says that it has moved away".into();
            report.add(format!("inode {ino} on shard {shard}"), text);
        }
    }
    // Shards that are still to be told that the inode died.
    let mut dying: BTreeMap<Ino, BTreeSet<ShardId>> = BTreeMap::new();
    for (&(_, ino), record) in &tables.reclaim {
        if let ReclaimRecord::Gone { trail, .. } = record {
            dying.entry(ino).or_default().extend(trail);
        }
    }
    for &(shard, ino) in tables.forwarding.keys() {
        let subject = format!("forwarding record of inode {ino} on shard {shard}");
        let is_dying = || {
            dying
                .get(&ino)
                .is_some_and(|shards| shards.contains(&shard))
        };
        if is_there(ino) {
            if let Err(text) = follow(tables, ino, shard) {
                report.add(subject, text);
            }
        } else if !is_dying() {
            let text = "the inode is gone, and nothing will remove this record".into();
            report.add(subject, text);
        }
    }
}

/// Follows the records from one shard on.
fn follow(tables: &Tables, ino: Ino, from: ShardId) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    let mut at = from;
    while !tables.inodes.contains_key(&(at, ino)) {
        if !seen.insert(at) {
            return Err(format!(
                "the forwarding records from shard {from} on lead in a circle"
            ));
        }
        match tables.forwarding.get(&(at, ino)) {
            Some(&next) => at = next,
            None if at == from => return Err(format!("shard {from} does not know where it is")),
            None => {
                return Err(format!(
                    "the forwarding records from shard {from} on lead to shard {at}, which has \
                     neither it nor a record of it"
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::{self, MOVED, found};
    use pandofs_namespace::records::ReclaimRecord;
    use pandofs_types::{Ino, ShardId};

    fn subject() -> String {
        format!("inode {MOVED} on shard 2")
    }

    #[test]
    fn an_inode_that_its_birth_shard_lost_is_found() {
        let mut tables = testing::sound();
        tables.forwarding.remove(&(ShardId(1), MOVED)).unwrap();
        assert!(found(&tables, "forwarding", &subject()).contains("does not know where it is"));
    }

    #[test]
    fn records_that_lead_astray_are_found() {
        let mut tables = testing::sound();
        tables.forwarding.insert((ShardId(1), MOVED), ShardId(3));
        assert!(found(&tables, "forwarding", &subject()).contains("lead to shard 3"));
        tables.forwarding.insert((ShardId(3), MOVED), ShardId(1));
        assert!(found(&tables, "forwarding", &subject()).contains("in a circle"));
    }

    #[test]
    fn a_record_beside_the_inode_is_found() {
        let mut tables = testing::sound();
        tables.forwarding.insert((ShardId(2), MOVED), ShardId(1));
        assert!(found(&tables, "forwarding", &subject()).contains("moved away"));
    }

    #[test]
    fn a_record_of_a_dead_inode_is_found_unless_it_is_being_removed() {
        let mut tables = testing::sound();
        let dead = Ino::new(ShardId(0), 99);
        tables.forwarding.insert((ShardId(0), dead), ShardId(2));
        let subject = format!("forwarding record of inode {dead} on shard 0");
        assert!(found(&tables, "forwarding", &subject).contains("gone"));
        let gone = ReclaimRecord::Gone {
            layout: None,
            trail: vec![ShardId(0)],
        };
        tables.reclaim.insert((ShardId(2), dead), gone);
        assert!(testing::problems(&tables, "forwarding").is_empty());
    }
}
