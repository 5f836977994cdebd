//! Path records: each that its shard would take for right agrees with the tree.
//!
//! It is where its path leads, which goes by the names and the parents of directories, and its path permissions are
//! those of the directories above. One that a later line of the path log makes wrong says nothing.

use super::Report;
use crate::inode::Holds;
use crate::tables::{PathKey, Tables};
use pandofs_api::{Above, PathName, SearchCondition};
use pandofs_namespace::paths::changes_of;
use pandofs_namespace::records::PathRecord;
use pandofs_types::limits::PATH_POINTERS;
use pandofs_types::{FileKind, Ino, Name};
use std::collections::BTreeMap;

/// The tree by which paths lead.
struct Tree<'t> {
    /// The name of each directory but the root.
    names: BTreeMap<Ino, &'t Name>,
    /// Conditions for a caller to search it.
    conditions: BTreeMap<Ino, SearchCondition>,
    parents: BTreeMap<Ino, Ino>,
}

impl<'t> Tree<'t> {
    fn of(tables: &'t Tables) -> Tree<'t> {
        let entries = tables.entries.iter();
        let dirs = entries.filter(|(_, entry)| entry.kind == FileKind::Dir);
        let home = |&(&(shard, dir), _): &(&(_, Ino), _)| dir.birth_shard() == shard;
        let parts = tables.parts.iter().filter(home);
        let inodes = tables.inodes.iter();
        Tree {
            names: dirs.map(|(key, entry)| (entry.ino, &key.name)).collect(),
            conditions: parts
                .map(|(&(_, dir), parts)| {
                    let condition =
                        SearchCondition::of(parts.mode, parts.uid, parts.gid, &parts.acls);
                    (dir, condition)
                })
                .collect(),
            parents: inodes
                .filter_map(|(&(_, ino), inode)| match inode.holds {
                    Holds::Dir { parent } => Some((ino, parent)),
                    _ => None,
                })
                .collect(),
        }
    }

    /// The path of a directory with what is above it; `None` if it is not below the root, of which others tell.
    fn path_of(&self, dir: Ino, most: usize) -> Option<(PathName, Above)> {
        let mut way = Vec::new();
        let mut at = dir;
        while at != Ino::ROOT {
            if way.len() > most {
                return None;
            }
            let parent = *self.parents.get(&at)?;
            way.push((parent, *self.names.get(&at)?));
            at = parent;
        }
        let start = (PathName::ROOT, Above::default());
        way.iter()
            .rev()
            .try_fold(start, |(path, above), &(parent, name)| {
                let condition = self.conditions.get(&parent)?.clone();
                Some((path.join(name)?, above.below(parent, condition)?))
            })
    }
}

pub(super) fn check(tables: &Tables, report: &mut Report<'_>) {
    if tables.paths.is_empty() {
        return;
    }
    let tree = Tree::of(tables);
    for (&key, record) in &tables.paths {
        let path = String::from_utf8_lossy(record.path.as_bytes());
        let subject = format!("path {path} on shard {}", key.shard());
        if let Err(text) = check_place(tables, key, record) {
            report.add(subject, text);
        } else if is_right(tables, key, record)
            && let Err(text) = check_record(&tree, key, record)
        {
            report.add(subject, text);
        }
    }
}

fn check_place(tables: &Tables, key: PathKey, record: &PathRecord) -> Result<(), String> {
    let bytes = record.path.as_bytes();
    let hash = tables.map.hash_key.position(bytes).hash();
    let is_there = match key {
        PathKey::Placed(_, at) => at == hash,
        PathKey::Pointer(_, at) => u64::from(at) == hash % u64::from(PATH_POINTERS),
    };
    match tables.map.path_shard(bytes) {
        Some(shard) if shard == key.shard() && is_there => Ok(()),
        _ => Err("the path does not lead there".into()),
    }
}

/// Whether the shard would take the record for right, as no line of its path log is younger.
fn is_right(tables: &Tables, key: PathKey, record: &PathRecord) -> bool {
    let last = |line| tables.path_lines.get(&(key.shard(), line));
    let mut changes = changes_of(record.dir, &record.above);
    changes.all(|(line, dir)| {
        let line = line.by(tables.map.hash_key, dir);
        last(line).is_none_or(|&last| last <= record.seen)
    })
}

fn check_record(tree: &Tree<'_>, key: PathKey, record: &PathRecord) -> Result<(), String> {
    let dir = record.dir;
    if !tree.parents.contains_key(&dir) {
        // Nothing is asked for in it. Where it was placed the record goes with it.
        return match key {
            PathKey::Placed(..) => Err(format!("directory {dir}, to which it leads, is gone")),
            PathKey::Pointer(..) => Ok(()),
        };
    }
    let most = record.above.ancestors.len();
    let Some((path, above)) = tree.path_of(dir, most) else {
        return Err(format!("it does not lead to directory {dir}"));
    };
    if path != record.path || above.ancestors != record.above.ancestors {
        let path = String::from_utf8_lossy(path.as_bytes()).into_owned();
        return Err(format!("it leads to directory {dir}, whose path is {path}"));
    }
    match above == record.above {
        true => Ok(()),
        false => Err(format!(
            "{:?} may search what is above directory {dir}, and {:?} by the record",
            above.conditions, record.above.conditions
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, INNER, SHARED, found, problems};
    use pandofs_namespace::paths::Line;
    use pandofs_types::{Acls, ShardId};
    use std::sync::Arc;

    fn path(names: &[&str]) -> PathName {
        let join = |path: PathName, name: &&str| path.join(&Name::new(name.as_bytes()).unwrap());
        names.iter().try_fold(PathName::ROOT, join).unwrap()
    }

    fn condition() -> SearchCondition {
        SearchCondition::of(0o755, 0, 0, &Acls::default())
    }

    fn keep(tables: &mut Tables, path: PathName, dir: Ino, above: Above) -> PathKey {
        let hash = tables.map.hash_key.position(path.as_bytes()).hash();
        let number = (hash % u64::from(PATH_POINTERS)) as u16;
        let shard = tables.map.path_shard(path.as_bytes()).unwrap();
        let key = PathKey::Pointer(shard, number);
        let record = PathRecord {
            path,
            dir,
            above,
            seen: 7,
        };
        tables.paths.insert(key, record);
        key
    }

    /// With the paths of both directories; the key is that of the deeper one.
    fn with_paths() -> (Tables, PathKey) {
        let mut tables = testing::sound();
        Arc::make_mut(&mut tables.map).settings.path_shards = Some(4);
        let above = Above::default().below(Ino::ROOT, condition()).unwrap();
        keep(&mut tables, path(&["shared"]), SHARED, above.clone());
        let above = above.below(SHARED, condition()).unwrap();
        let key = keep(&mut tables, path(&["shared", "inner"]), INNER, above);
        (tables, key)
    }

    fn subject(key: PathKey) -> String {
        format!("path /shared/inner on shard {}", key.shard())
    }

    #[test]
    fn right_paths_are_right() {
        assert!(problems(&with_paths().0, "paths").is_empty());
    }

    #[test]
    fn rights_that_are_not_those_above_are_found_unless_the_log_has_a_line() {
        let (mut tables, key) = with_paths();
        for ((_, dir), parts) in &mut tables.parts {
            if *dir == SHARED {
                parts.mode = 0o700;
            }
        }
        let said = found(&tables, "paths", &subject(key));
        assert!(said.contains("may search"), "{said}");
        let line = Line::Below.by(tables.map.hash_key, SHARED);
        tables.path_lines.insert((key.shard(), line), 8);
        assert!(problems(&tables, "paths").is_empty());
        tables.path_lines.insert((key.shard(), line), 7);
        assert!(found(&tables, "paths", &subject(key)).contains("may search"));
    }

    #[test]
    fn a_directory_with_another_name_is_found() {
        let (mut tables, key) = with_paths();
        let record = tables.paths.get_mut(&key).unwrap();
        record.dir = SHARED;
        let said = found(&tables, "paths", &subject(key));
        assert!(said.contains("whose path is /shared"), "{said}");
    }

    #[test]
    fn a_record_where_its_path_does_not_lead_is_found() {
        let (mut tables, key) = with_paths();
        let record = tables.paths.remove(&key).unwrap();
        let elsewhere = PathKey::Pointer(ShardId((key.shard().0 + 1) % 4), 1);
        tables.paths.insert(elsewhere, record);
        let said = found(&tables, "paths", &subject(elsewhere));
        assert!(said.contains("does not lead there"), "{said}");
    }

    #[test]
    fn a_directory_that_is_gone_is_found_where_it_was_placed() {
        let (mut tables, key) = with_paths();
        let mut record = tables.paths.remove(&key).unwrap();
        record.dir = Ino::new(key.shard(), 99);
        tables.paths.insert(key, record.clone());
        assert!(problems(&tables, "paths").is_empty());
        let hash = tables.map.hash_key.position(record.path.as_bytes()).hash();
        let placed = PathKey::Placed(key.shard(), hash);
        tables.paths.insert(placed, record);
        assert!(found(&tables, "paths", &subject(placed)).contains("is gone"));
    }
}
