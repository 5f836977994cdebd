//! Entries: each is where its name's hash says, once.
//!
//! It leads to an inode of its kind on the very shard it names.

use super::Report;
use crate::tables::{EntryKey, Tables};

pub(super) fn check(tables: &Tables, report: &mut Report<'_>) {
    check_owners(tables, report);
    for (key, entry) in &tables.entries {
        let subject = || Tables::describe(key);
        check_place(tables, key, report);
        match tables.inodes.get(&(entry.shard, entry.ino)) {
            None => report.add(
                subject(),
                format!(
                    "it leads to inode {} on shard {}, which is not there",
                    entry.ino, entry.shard
                ),
            ),
            Some(inode) if inode.kind != entry.kind => report.add(
                subject(),
                format!(
                    "it says {:?}, inode {} is {:?}",
                    entry.kind, entry.ino, inode.kind
                ),
            ),
            Some(_) => {}
        }
    }
}

/// No two shards have the same name of a directory.
fn check_owners(tables: &Tables, report: &mut Report<'_>) {
    let mut keys: Vec<&EntryKey> = tables.entries.keys().collect();
    keys.sort_unstable_by_key(|key| (key.dir, &key.name, key.shard));
    for pair in keys.windows(2) {
        let (one, other) = (pair[0], pair[1]);
        // At another position the same shard could have it, too.
        if (one.dir, &one.name) == (other.dir, &other.name) {
            let text = format!("shard {} has this name too", one.shard);
            report.add(Tables::describe(other), text);
        }
    }
}

fn check_place(tables: &Tables, key: &EntryKey, report: &mut Report<'_>) {
    let subject = || Tables::describe(key);
    let hashed = tables.map.hash_key.position(key.name.as_bytes());
    if key.position != hashed {
        report.add(
            subject(),
            format!("it stands at {:?}, its hash is {hashed:?}", key.position),
        );
    }
    let Some(parts) = tables.parts.get(&(key.shard, key.dir)) else {
        report.add(
            subject(),
            "the shard holds no partition of that directory".into(),
        );
        return;
    };
    let index = parts.map.partition_of(key.position);
    if parts.part(index).is_none() {
        report.add(
            subject(),
            format!("it belongs to partition {index}, which the shard does not hold"),
        );
    }
}

#[cfg(test)]
mod tests {
    use crate::tables::Tables;
    use crate::testing::{self, SHARED, found, key_of};
    use pandofs_types::{FileKind, Position, ShardId};

    #[test]
    fn an_entry_that_leads_nowhere_is_found() {
        let mut tables = testing::sound();
        let (key, entry) = key_of(&tables, SHARED, "plain");
        tables.inodes.remove(&(entry.shard, entry.ino));
        let said = found(&tables, "entries", &Tables::describe(&key));
        assert!(said.contains("which is not there"), "{said}");
    }

    #[test]
    fn a_wrong_hint_is_found() {
        let mut tables = testing::sound();
        let (key, entry) = key_of(&tables, SHARED, "plain");
        tables.entries.get_mut(&key).unwrap().shard = ShardId(3);
        let said = found(&tables, "entries", &Tables::describe(&key));
        assert!(
            said.contains(&format!("inode {} on shard 3", entry.ino)),
            "{said}"
        );
    }

    #[test]
    fn a_wrong_kind_is_found() {
        let mut tables = testing::sound();
        let (key, _) = key_of(&tables, SHARED, "plain");
        tables.entries.get_mut(&key).unwrap().kind = FileKind::Dir;
        assert!(found(&tables, "entries", &Tables::describe(&key)).contains("it says Dir"));
    }

    #[test]
    fn a_name_with_two_owners_is_found() {
        let mut tables = testing::sound();
        let (mut key, entry) = key_of(&tables, SHARED, "plain");
        // A split copied the entry, and its source kept it.
        key.shard = ShardId(3 - key.shard.0);
        tables.entries.insert(key.clone(), entry);
        let said: String = crate::testing::problems(&tables, "entries").join("\n");
        assert!(said.contains("has this name too"), "{said}");
        assert!(said.contains("which the shard does not hold"), "{said}");
    }

    #[test]
    fn an_entry_at_the_wrong_hash_is_found() {
        let mut tables = testing::sound();
        let (key, entry) = key_of(&tables, SHARED, "plain");
        tables.entries.remove(&key);
        let moved = crate::tables::EntryKey {
            position: Position::FIRST,
            ..key
        };
        tables.entries.insert(moved.clone(), entry);
        assert!(found(&tables, "entries", &Tables::describe(&moved)).contains("its hash is"));
    }
}
