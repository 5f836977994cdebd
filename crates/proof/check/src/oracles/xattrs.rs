//! Extended attributes are with their inode, which counts them right.

use super::Report;
use crate::tables::Tables;

pub(super) fn check(tables: &Tables, report: &mut Report<'_>) {
    for (&(shard, ino), inode) in &tables.inodes {
        let (count, bytes) = tables
            .xattrs
            .get(&(shard, ino))
            .copied()
            .unwrap_or_default();
        if (u64::from(inode.xattrs), u64::from(inode.xattr_bytes)) != (count, bytes) {
            report.add(
                format!("inode {ino} on shard {shard}"),
                format!(
                    "it counts {} attributes with {} bytes and has {count} with {bytes}",
                    inode.xattrs, inode.xattr_bytes
                ),
            );
        }
    }
    for (&(shard, ino), (count, _)) in &tables.xattrs {
        if !tables.inodes.contains_key(&(shard, ino)) {
            report.add(
                format!("inode {ino} on shard {shard}"),
                format!("it is not there, but {count} attributes of it are"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{self, SHARED, found, key_of};
    use pandofs_types::ShardId;

    #[test]
    fn lost_and_left_attributes_are_found() {
        let mut tables = testing::sound();
        let (_, entry) = key_of(&tables, SHARED, "plain");
        let place = (entry.shard, entry.ino);
        let subject = format!("inode {} on shard {}", entry.ino, entry.shard);
        let had = tables.xattrs.remove(&place).unwrap();
        assert!(found(&tables, "xattrs", &subject).contains("and has 0"));
        tables.xattrs.insert((ShardId(3), entry.ino), had);
        let elsewhere = format!("inode {} on shard 3", entry.ino);
        assert!(found(&tables, "xattrs", &elsewhere).contains("attributes of it are"));
    }
}
