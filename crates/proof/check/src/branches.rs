//! Branch points: names whose inode is on another shard (Xiong et al., section 3.1).

use crate::Tables;
use pandofs_types::{FileKind, ServerId};
use std::collections::BTreeMap;

/// Those whose names are on one server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Branches {
    /// Directories, but for the root.
    pub directories: u64,
    /// Files, and whatever else is no directory: links to what moved, or to what another directory has.
    pub files: u64,
    /// Of both, those whose inode is on another server, too.
    pub on_other_servers: u64,
}

impl Branches {
    /// Of every server of the map.
    pub fn by_server(tables: &Tables) -> BTreeMap<ServerId, Branches> {
        let map = &tables.map;
        let servers = map.servers.iter().map(|server| server.id);
        let mut all: BTreeMap<ServerId, Branches> =
            servers.map(|id| (id, Branches::default())).collect();
        for (key, entry) in &tables.entries {
            if key.shard == entry.shard || !map.has_shard(key.shard) || !map.has_shard(entry.shard)
            {
                continue;
            }
            let server = map.server_of(key.shard);
            let here = all.entry(server).or_default();
            if entry.kind == FileKind::Dir {
                here.directories += 1;
            } else {
                here.files += 1;
            }
            here.on_other_servers += u64::from(server != map.server_of(entry.shard));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn a_name_counts_whose_inode_is_elsewhere() {
        let tables = testing::sound();
        let all = Branches::by_server(&tables);
        assert_eq!(all.len(), tables.map.servers.len());
        let branch = |directory: bool| {
            let entries = tables.entries.iter();
            let away = entries.filter(|(key, entry)| key.shard != entry.shard);
            away.filter(|(_, entry)| (entry.kind == FileKind::Dir) == directory)
                .count() as u64
        };
        let sum = |of: fn(&Branches) -> u64| all.values().map(of).sum::<u64>();
        assert_eq!(sum(|one| one.directories), branch(true));
        assert_eq!(sum(|one| one.files), branch(false));
        assert!(sum(|one| one.directories) > 0, "{all:?}");
        assert!(sum(|one| one.on_other_servers) <= sum(|one| one.directories + one.files));
    }
}
