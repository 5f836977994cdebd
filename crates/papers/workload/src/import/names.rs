//! Names and inodes of a trace of others, as far as its calls tell of them.
//!
//! A trace says only by and by what was there before it began: a file is opened first, and asked for its size then. So it is
//! gone through twice. Inodes get the same numbers both times, and what is found out about each the first time is known from
//! its first use the second time.

use super::Problem;
use crate::limits::MAX_IMPORTED_NAMES;
use crate::op::{Kind, escape};
use crate::recording::Event;
use pandofs_types::Ino;
use std::collections::HashMap;

/// What an inode was before the trace began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Before {
    /// As `find -type` has it.
    pub kind: Option<char>,
    /// Bytes.
    pub size: u64,
    /// The directory and the name that it was found at; used where calls name inodes by handles.
    pub place: Option<(u64, Vec<u8>)>,
}

/// An inode that has a name.
#[derive(Debug, Default)]
struct Node {
    kind: Option<char>,
    names: Vec<(u64, Box<[u8]>)>,
    size: u64,
    was_before: bool,
    /// Its data is no longer what it was before.
    is_changed: bool,
    /// Where a symbolic link leads, as far as that is known.
    target: Option<Vec<u8>>,
}

#[derive(Debug)]
pub(super) struct Names {
    nodes: HashMap<u64, Node>,
    entries: HashMap<(u64, Box<[u8]>), u64>,
    last: u64,
    /// Found out, of what was there before.
    found: HashMap<u64, Before>,
    /// The same of an earlier reading.
    known: HashMap<u64, Before>,
    limit: usize,
}

impl Names {
    /// With what an earlier reading found out.
    pub(super) fn new(known: HashMap<u64, Before>) -> Names {
        let root = Node {
            kind: Some('d'),
            ..Node::default()
        };
        Names {
            nodes: HashMap::from([(Ino::ROOT.0, root)]),
            entries: HashMap::new(),
            last: Ino::ROOT.0,
            found: HashMap::new(),
            known,
            limit: MAX_IMPORTED_NAMES,
        }
    }

    /// For tests of the limit.
    #[cfg(test)]
    pub(super) fn limited(limit: usize) -> Names {
        Names {
            limit,
            ..Names::new(HashMap::new())
        }
    }

    /// What was found out of inodes that were there before.
    pub(super) fn into_found(self) -> HashMap<u64, Before> {
        self.found
    }

    pub(super) fn get(&self, dir: u64, name: &[u8]) -> Option<u64> {
        self.entries.get(&(dir, name.into())).copied()
    }

    /// The directory that a directory is in; `None` of the root, and of one that is gone.
    pub(super) fn parent(&self, dir: u64) -> Option<u64> {
        self.nodes
            .get(&dir)?
            .names
            .first()
            .map(|(parent, _)| *parent)
    }

    /// The first of its names.
    pub(super) fn name(&self, ino: u64) -> Option<(u64, Vec<u8>)> {
        let (dir, name) = self.nodes.get(&ino)?.names.first()?;
        Some((*dir, name.to_vec()))
    }

    pub(super) fn kind(&self, ino: u64) -> Option<char> {
        self.nodes.get(&ino)?.kind
    }

    pub(super) fn is_dir(&self, ino: u64) -> bool {
        self.kind(ino) == Some('d')
    }

    pub(super) fn target(&self, ino: u64) -> Option<&[u8]> {
        self.nodes.get(&ino)?.target.as_deref()
    }

    pub(super) fn size(&self, ino: u64) -> u64 {
        self.nodes.get(&ino).map_or(0, |node| node.size)
    }

    /// A number for an inode without a name.
    pub(super) fn unnamed(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// The inode of a name that is there; if it was not known, also the lookup that tells of it.
    ///
    /// # Errors
    /// When there are too many names.
    pub(super) fn find(&mut self, dir: u64, name: &[u8]) -> Result<(u64, Option<Event>), Problem> {
        if let Some(ino) = self.get(dir, name) {
            return Ok((ino, None));
        }
        let ino = self.unnamed();
        self.was_before(dir, name, ino)
    }

    /// The same of an inode that has a number.
    ///
    /// # Errors
    /// When there are too many names.
    pub(super) fn was_before(
        &mut self,
        dir: u64,
        name: &[u8],
        ino: u64,
    ) -> Result<(u64, Option<Event>), Problem> {
        let before = self.known.get(&ino).cloned().unwrap_or_default();
        let node = Node {
            kind: before.kind,
            size: before.size,
            was_before: true,
            ..Node::default()
        };
        let (kind, size) = (node.kind.unwrap_or('f'), node.size);
        self.nodes.insert(ino, node);
        self.found.entry(ino).or_default();
        self.put(dir, name, ino)?;
        let event = Event {
            is: Some(ino),
            kind: Some(kind),
            size: Some(size),
            ..by_name(Kind::Lookup, dir, name)
        };
        Ok((ino, Some(event)))
    }

    /// Something was made under a name.
    ///
    /// # Errors
    /// When there are too many names.
    pub(super) fn make(&mut self, dir: u64, name: &[u8], kind: char) -> Result<u64, Problem> {
        let ino = self.unnamed();
        self.made(dir, name, ino, kind)?;
        Ok(ino)
    }

    /// The same of an inode that has a number.
    ///
    /// # Errors
    /// When there are too many names.
    pub(super) fn made(
        &mut self,
        dir: u64,
        name: &[u8],
        ino: u64,
        kind: char,
    ) -> Result<(), Problem> {
        let node = Node {
            kind: Some(kind),
            is_changed: true,
            ..Node::default()
        };
        self.nodes.insert(ino, node);
        self.put(dir, name, ino)
    }

    /// The name leads there from now on.
    ///
    /// # Errors
    /// When there are too many names.
    pub(super) fn put(&mut self, dir: u64, name: &[u8], ino: u64) -> Result<(), Problem> {
        self.take(dir, name);
        if self.entries.len() >= self.limit {
            return Err(Problem::Names(self.limit));
        }
        let node = self.nodes.entry(ino).or_default();
        node.names.push((dir, name.into()));
        self.entries.insert((dir, name.into()), ino);
        Ok(())
    }

    /// The name leads nowhere from now on.
    pub(super) fn take(&mut self, dir: u64, name: &[u8]) -> Option<u64> {
        let ino = self.entries.remove(&(dir, name.into()))?;
        if let Some(node) = self.nodes.get_mut(&ino) {
            node.names
                .retain(|(other, its)| (*other, &**its) != (dir, name));
            if node.names.is_empty() {
                self.nodes.remove(&ino);
            }
        }
        Some(ino)
    }

    /// One name less and one more for an inode.
    ///
    /// # Errors
    /// When there are too many names.
    pub(super) fn rename(
        &mut self,
        (dir, name): (u64, &[u8]),
        (new_dir, new_name): (u64, &[u8]),
    ) -> Result<(), Problem> {
        let Some(ino) = self.get(dir, name) else {
            return Ok(());
        };
        // Two names of one file stay as they are.
        if self.get(new_dir, new_name) == Some(ino) {
            return Ok(());
        }
        self.put(new_dir, new_name, ino)?;
        self.take(dir, name);
        Ok(())
    }

    /// Two names change places.
    pub(super) fn exchange(&mut self, one: (u64, &[u8]), other: (u64, &[u8])) {
        let key = |(dir, name): (u64, &[u8])| (dir, Box::from(name));
        let (one, other) = (key(one), key(other));
        let (Some(&first), Some(&second)) = (self.entries.get(&one), self.entries.get(&other))
        else {
            return;
        };
        self.entries.insert(one.clone(), second);
        self.entries.insert(other.clone(), first);
        for (ino, from, to) in [(first, &one, &other), (second, &other, &one)] {
            let node = self.nodes.get_mut(&ino);
            let name = node.and_then(|node| node.names.iter_mut().find(|name| *name == from));
            if let Some(name) = name {
                name.clone_from(to);
            }
        }
    }

    /// It is of this kind.
    pub(super) fn learn_kind(&mut self, ino: u64, kind: char) {
        let Some(node) = self.nodes.get_mut(&ino) else {
            return;
        };
        if node.kind.is_none() || (node.was_before && node.kind != Some(kind)) {
            node.kind = Some(kind);
        }
        if let (true, Some(found)) = (node.was_before, self.found.get_mut(&ino)) {
            found.kind = Some(kind);
        }
    }

    /// It has this many bytes, or with `at_least` more.
    pub(super) fn learn_size(&mut self, ino: u64, size: u64, at_least: bool) {
        let Some(node) = self.nodes.get_mut(&ino) else {
            return;
        };
        let told = if at_least { node.size.max(size) } else { size };
        node.size = told;
        let found = self.found.get_mut(&ino);
        if let Some(found) = found.filter(|_| node.was_before && !node.is_changed) {
            found.size = found.size.max(told);
        }
    }

    /// Its data was changed, and ends there.
    pub(super) fn changed(&mut self, ino: u64, size: u64) {
        if let Some(node) = self.nodes.get_mut(&ino) {
            node.is_changed = true;
            node.size = size;
        }
    }

    pub(super) fn learn_target(&mut self, ino: u64, target: Vec<u8>) {
        self.learn_kind(ino, 'l');
        self.learn_size(ino, target.len() as u64, false);
        if let Some(node) = self.nodes.get_mut(&ino) {
            node.target = Some(target);
        }
    }
}

/// An operation on a name, as a recording has it.
pub(super) fn by_name(op: Kind, dir: u64, name: &[u8]) -> Event {
    Event {
        dir: Some(dir),
        name: Some(escape(name)),
        ..Event::new(op)
    }
}

/// An operation on an inode.
pub(super) fn by_number(op: Kind, ino: u64) -> Event {
    Event {
        ino: Some(ino),
        ..Event::new(op)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_out_late_is_known_from_the_start_the_second_time() {
        let read = |known| {
            let mut names = Names::new(known);
            let (ino, told) = names.find(1, b"a").unwrap();
            names.learn_kind(ino, 'd');
            let (file, _) = names.find(ino, b"f").unwrap();
            names.learn_size(file, 70, false);
            names.changed(file, 0);
            names.learn_size(file, 900, true);
            (told.unwrap(), names.into_found())
        };
        let (told, found) = read(HashMap::new());
        assert_eq!(
            (told.kind, told.is, told.size),
            (Some('f'), Some(2), Some(0))
        );
        assert_eq!(found[&3].size, 70);
        let (told, again) = read(found.clone());
        assert_eq!((told.kind, told.is), (Some('d'), Some(2)));
        assert_eq!(again, found);
    }

    #[test]
    fn names_are_put_moved_exchanged_and_taken() {
        let mut names = Names::new(HashMap::new());
        let a = names.make(1, b"a", 'd').unwrap();
        let f = names.make(a, b"f", 'f').unwrap();
        names.put(1, b"link", f).unwrap();
        names.rename((1, b"link"), (a, b"f")).unwrap();
        assert_eq!(names.get(1, b"link"), Some(f), "two names of one file");
        names.rename((1, b"a"), (1, b"b")).unwrap();
        assert_eq!((names.get(1, b"a"), names.get(1, b"b")), (None, Some(a)));
        assert_eq!(names.parent(a), Some(1));
        names.exchange((1, b"b"), (1, b"link"));
        assert_eq!(
            (names.get(1, b"b"), names.get(1, b"link")),
            (Some(f), Some(a))
        );
        assert_eq!(names.take(1, b"b"), Some(f));
        assert_eq!(names.kind(f), Some('f'));
        assert_eq!(names.take(a, b"f"), Some(f));
        assert_eq!(names.kind(f), None, "no name leads to it any more");
    }

    #[test]
    fn there_is_an_end_to_names() {
        let mut names = Names::limited(2);
        names.find(1, b"a").unwrap();
        names.make(1, b"b", 'f').unwrap();
        assert_eq!(names.find(1, b"c").unwrap_err(), Problem::Names(2));
        names.take(1, b"a");
        names.find(1, b"c").unwrap();
    }
}
