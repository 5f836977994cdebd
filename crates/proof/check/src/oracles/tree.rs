//! Directories: they form one tree.
//!
//! Each says that its parent is the directory its name is in, and from each the way up ends at the
//! root.

use super::Report;
use crate::inode::Holds;
use crate::tables::Tables;
use pandofs_types::{FileKind, Ino};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn check(tables: &Tables, report: &mut Report<'_>) {
    let mut parents: BTreeMap<Ino, Ino> = BTreeMap::new();
    for (&(_, ino), inode) in &tables.inodes {
        match (inode.kind, inode.holds) {
            (FileKind::Dir, Holds::Dir { parent }) => {
                parents.insert(ino, parent);
            }
            (FileKind::Dir, _) | (_, Holds::Dir { .. }) => report.add(
                format!("inode {ino}"),
                format!("it is {:?} and holds what another kind holds", inode.kind),
            ),
            _ => {}
        }
    }
    for (key, entry) in &tables.entries {
        match parents.get(&entry.ino) {
            Some(&parent) if parent != key.dir => report.add(
                format!("directory {}", entry.ino),
                format!("it says its parent is {parent}, its name is in {}", key.dir),
            ),
            _ => {}
        }
    }
    report_detached(&parents, report);
}

/// Walks up from every directory, each edge once.
fn report_detached(parents: &BTreeMap<Ino, Ino>, report: &mut Report<'_>) {
    let mut attached = BTreeSet::from([Ino::ROOT]);
    for &start in parents.keys() {
        let mut way = Vec::new();
        let mut on_the_way = BTreeSet::new();
        let mut at = start;
        let end = loop {
            if attached.contains(&at) {
                break None;
            }
            if !on_the_way.insert(at) {
                break Some(format!("it is in a circle of directories through {at}"));
            }
            way.push(at);
            match parents.get(&at) {
                Some(&parent) => at = parent,
                None => break Some(format!("above it is {at}, which is no directory")),
            }
        };
        match end {
            None => attached.extend(way),
            Some(text) => report.add(format!("directory {start}"), text),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::inode::Holds;
    use crate::testing::{self, INNER, SHARED, found};
    use pandofs_types::{Ino, ShardId};

    #[test]
    fn a_wrong_parent_is_found() {
        let mut tables = testing::sound();
        tables.inodes.get_mut(&(ShardId(3), INNER)).unwrap().holds =
            Holds::Dir { parent: Ino::ROOT };
        let said = found(&tables, "tree", &format!("directory {INNER}"));
        assert!(said.contains("its name is in"), "{said}");
    }

    #[test]
    fn a_circle_is_found() {
        let mut tables = testing::sound();
        tables.inodes.get_mut(&(ShardId(1), SHARED)).unwrap().holds = Holds::Dir { parent: INNER };
        for dir in [SHARED, INNER] {
            let said = found(&tables, "tree", &format!("directory {dir}"));
            assert!(said.contains("in a circle of directories"), "{said}");
        }
    }

    #[test]
    fn a_subtree_below_nothing_is_found() {
        let mut tables = testing::sound();
        tables.inodes.remove(&(ShardId(1), SHARED));
        let said = found(&tables, "tree", &format!("directory {INNER}"));
        assert!(said.contains("which is no directory"), "{said}");
    }
}
