//! A split and a merge preserve the entries: what a name leads to is the same at two moments between which no operation
//! was at work on it, wherever the name has moved meanwhile.

use super::Finding;
use crate::history::{History, Key};
use crate::server::Server;
use pandofs_check::Tables;
use pandofs_types::{Ino, ShardId};
use std::collections::BTreeMap;

/// The view at the last moment, and that moment: of a name that an operation held then, at an earlier one.
#[derive(Debug, Default)]
pub(super) struct Preserved {
    entries: BTreeMap<Key, (Ino, u64)>,
}

impl Preserved {
    /// A server came back without what it had not synced: what was seen is nothing to go by any more.
    pub(super) fn forget(&mut self) {
        self.entries.clear();
    }

    pub(super) fn look(
        &mut self,
        tables: &Tables,
        servers: &[Server],
        history: &History,
    ) -> Result<(), Finding> {
        let now = history.now();
        let mut seen = BTreeMap::new();
        let mut held = BTreeMap::new();
        for (at, entry) in &tables.entries {
            let key = (at.dir, at.name.clone());
            let is_held = is_held(tables, servers, at.shard, &key);
            held.insert(key.clone(), is_held);
            if !is_held {
                seen.insert(key, (entry.ino, now));
            }
        }
        for (key, (ino, since)) in &self.entries {
            let found = seen.get(key).map(|(ino, _)| *ino);
            if held.get(key) == Some(&true) {
                // It is about to change, and the one who wanted that may have been answered.
                seen.insert(key.clone(), (*ino, *since));
            } else if found != Some(*ino) && !history.is_touched(key, *since) {
                let (dir, name) = key;
                return Err(Finding::new(
                    "preserved",
                    format!(
                        "name '{name}' of directory {dir} led to {ino} and leads to {found:?}, and \
                         nobody changed it"
                    ),
                ));
            }
        }
        self.entries = seen;
        Ok(())
    }
}

fn is_held(tables: &Tables, servers: &[Server], shard: ShardId, (dir, name): &Key) -> bool {
    let server = &servers[usize::from(tables.map.server_of(shard).0)];
    let process = server.process.as_ref();
    process.is_some_and(|process| process.shards().shard(shard).is_held(*dir, name))
}
