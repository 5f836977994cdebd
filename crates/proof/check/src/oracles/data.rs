//! Bytes of files that are kept inline are with their inode, which counts them right.

use super::Report;
use crate::inode::Holds;
use crate::tables::Tables;

pub(super) fn check(tables: &Tables, report: &mut Report<'_>) {
    for (&(shard, ino), inode) in &tables.inodes {
        let held = match inode.holds {
            Holds::Inline { held, .. } => held,
            Holds::Nothing | Holds::Dir { .. } | Holds::Objects(_) => 0,
        };
        let has = tables.data.get(&(shard, ino)).copied().unwrap_or_default();
        if held != has {
            report.add(
                format!("inode {ino} on shard {shard}"),
                format!("it counts {held} bytes of its file beside it and has {has}"),
            );
        }
    }
    for (&(shard, ino), bytes) in &tables.data {
        if !tables.inodes.contains_key(&(shard, ino)) {
            report.add(
                format!("inode {ino} on shard {shard}"),
                format!("it is not there, but {bytes} bytes of its file are"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{self, SHARED, found, key_of};
    use pandofs_types::ShardId;

    #[test]
    fn lost_and_left_bytes_are_found() {
        let mut tables = testing::sound();
        let (_, entry) = key_of(&tables, SHARED, "plain");
        let place = (entry.shard, entry.ino);
        let subject = format!("inode {} on shard {}", entry.ino, entry.shard);
        let had = tables.data.remove(&place).unwrap();
        assert!(found(&tables, "data", &subject).contains("and has 0"));
        tables.data.insert(place, had + 1);
        assert!(found(&tables, "data", &subject).contains(&format!("and has {}", had + 1)));
        tables.data.insert(place, had);
        tables.data.insert((ShardId(3), entry.ino), had);
        let elsewhere = format!("inode {} on shard 3", entry.ino);
        assert!(found(&tables, "data", &elsewhere).contains("bytes of its file are"));
    }

    #[test]
    fn bytes_beside_an_inode_that_has_data_objects_are_found() {
        let mut tables = testing::sound();
        let ino = testing::STRIPED;
        let shard = tables
            .whereabouts()
            .iter()
            .find(|(it, _)| *it == ino)
            .unwrap()
            .1;
        tables.data.insert((shard, ino), 1);
        let subject = format!("inode {ino} on shard {shard}");
        assert!(found(&tables, "data", &subject).contains("counts 0 bytes"));
    }
}
