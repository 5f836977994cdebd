//! Path names of inodes of which only the number is known.

use crate::Tables;
use pandofs_api::Layout;
use pandofs_types::limits::MAX_DIRECTORY_DEPTH;
use pandofs_types::{Ino, Name, ServerId};
use std::collections::BTreeMap;

/// Names and layouts of all inodes of a dump.
#[derive(Clone, Debug, Default)]
pub struct Places {
    names: BTreeMap<Ino, Vec<(Ino, Name)>>,
    layouts: BTreeMap<Ino, Layout>,
}

impl Places {
    /// Every name and data object of the dump.
    pub fn new(tables: &Tables) -> Places {
        let mut places = Places::default();
        for (key, entry) in &tables.entries {
            let names = places.names.entry(entry.ino).or_default();
            names.push((key.dir, key.name.clone()));
        }
        for (&(_, ino), inode) in &tables.inodes {
            if let Some(layout) = inode.holds.layout()
                && layout.is_valid()
            {
                places.layouts.insert(ino, *layout);
            }
        }
        places
    }

    /// Its absolute paths: several if it has several names, none if it has none or the way up is broken.
    pub fn paths(&self, ino: Ino) -> Vec<String> {
        let names = self.names.get(&ino).into_iter().flatten();
        names
            .filter_map(|(dir, name)| self.path(*dir, name))
            .collect()
    }

    fn path(&self, mut dir: Ino, name: &Name) -> Option<String> {
        let mut steps = vec![name];
        while dir != Ino::ROOT {
            // A ring of directories has no end.
            if steps.len() > MAX_DIRECTORY_DEPTH {
                return None;
            }
            let (above, name) = self.names.get(&dir)?.first()?;
            steps.push(name);
            dir = *above;
        }
        let steps = steps.iter().rev();
        Some(steps.map(|step| format!("/{step}")).collect())
    }

    /// Where in the file byte `offset` of the data object is that `server` has of it.
    pub fn file_offset(&self, ino: Ino, server: ServerId, offset: u64) -> Option<u64> {
        let layout = self.layouts.get(&ino)?;
        let object = (0..layout.count).find(|&object| layout.server_of(object) == server)?;
        Some(layout.file_offset(object, offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{INNER, SHARED, STRIPED, sound};

    #[test]
    fn an_inode_is_found_by_all_its_names() {
        let places = Places::new(&sound());
        assert_eq!(places.paths(INNER), ["/shared/inner"]);
        assert_eq!(places.paths(STRIPED), ["/shared/striped"]);
        let linked = sound();
        let linked = linked
            .entries
            .iter()
            .find(|(key, _)| key.name.to_string() == "linked")
            .map(|(_, entry)| entry.ino);
        let mut paths = places.paths(linked.unwrap());
        paths.sort();
        assert_eq!(paths, ["/other", "/shared/linked"]);
        assert!(places.paths(Ino::ROOT).is_empty());
        assert!(places.paths(Ino(77)).is_empty());
    }

    #[test]
    fn a_ring_of_directories_leads_nowhere() {
        let mut tables = sound();
        for (key, entry) in &mut tables.entries {
            if key.name.to_string() == "inner" {
                entry.ino = SHARED;
            }
        }
        tables
            .entries
            .retain(|key, entry| entry.ino != SHARED || key.dir == SHARED);
        assert!(Places::new(&tables).paths(STRIPED).is_empty());
    }

    #[test]
    fn an_offset_in_an_object_is_one_in_the_file() {
        let places = Places::new(&sound());
        let offset = |server| places.file_offset(STRIPED, ServerId(server), 5_000);
        assert_eq!(offset(0), Some(2 * 4_096 + 904));
        assert_eq!(offset(1), Some(3 * 4_096 + 904));
        assert_eq!(offset(2), None);
    }
}
