//! Scans: keys of the files in their order, merged with those in memory.
//!
//! The files give two rows of keys in order: those that have a place of their own, and the others. Each is read in chunks,
//! while nothing changes the files, and shown when it is not held any more. What changes in between is hidden by what the
//! scan has of memory, as no flush that began after the scan changes files before it has ended.

use crate::DirectoriesStore;
use crate::limits::{CHUNK_BYTES, CHUNK_KEYS};
use crate::listings::Answer;
use crate::memory::Moment;
use crate::place::{
    DATA, ENTRY, Field, FileAt, Folder, KINDS, NAMED, NAMED_ATTRIBUTE, RECORD, after_block, ino_of,
    key_of, low_bits, numbered,
};
use pandofs_storage::store::{StoreError, Visit};
use std::collections::VecDeque;
use std::ops::Bound;

/// A scan under way.
struct Scan<'s> {
    store: &'s DirectoriesStore,
    moment: Moment,
    start: &'s [u8],
    end: &'s [u8],
}

impl Drop for Scan<'_> {
    fn drop(&mut self) {
        self.store.memory().end_scan(&self.moment);
        self.store.scanned.notify_all();
    }
}

/// Where a row of keys goes on.
enum Next {
    /// With the first folder of [`Folder::Prefixes`] from this prefix on.
    Prefix(Vec<u8>),
    /// With the first directory or block of inodes of the kind with this index from this shard and number on.
    Numbered(usize, u16, u64),
    /// In this folder, from this child on. The kind's index says which keys of an inode.
    Inside(usize, Folder, Vec<u8>),
    End,
}

/// One of the two rows.
struct Row {
    next: Next,
    read: VecDeque<(Vec<u8>, Vec<u8>)>,
    /// The list of a folder that memory has no room for.
    large: Option<(Folder, Vec<Vec<u8>>)>,
}

impl DirectoriesStore {
    pub(crate) fn scan_range(
        &self,
        start: &[u8],
        end: &[u8],
        visit: &mut Visit<'_>,
    ) -> Result<(), StoreError> {
        let moment = self.memory().begin_scan();
        let scan = Scan {
            store: self,
            moment,
            start,
            end,
        };
        let mut rows = [Row::of(first_numbered(start)), Row::of(first_other(start))];
        let range = (Bound::Included(start), Bound::Excluded(end));
        let mut active = scan.moment.active.range::<[u8], _>(range).peekable();
        let frozen = scan.moment.frozen.as_deref().into_iter();
        let mut frozen = frozen
            .flat_map(|frozen| frozen.range::<[u8], _>(range))
            .peekable();
        loop {
            for row in &mut rows {
                while row.read.is_empty() && !matches!(row.next, Next::End) {
                    let _held = self.hold();
                    scan.fill(row)?;
                }
            }
            let mut first: Option<&[u8]> = None;
            let heads = [
                active.peek().map(|(key, _)| &***key),
                frozen.peek().map(|(key, _)| &***key),
                rows[0].read.front().map(|(key, _)| &**key),
                rows[1].read.front().map(|(key, _)| &**key),
            ];
            for key in heads.into_iter().flatten() {
                first = Some(first.map_or(key, |first| first.min(key)));
            }
            let Some(first) = first.map(<[u8]>::to_vec) else {
                return Ok(());
            };
            // All of it is taken from each, and the first that has it is right.
            let newest = active.next_if(|(key, _)| ***key == *first);
            let newer = frozen.next_if(|(key, _)| ***key == *first);
            let mut stored = None;
            for row in &mut rows {
                if row.read.front().is_some_and(|(key, _)| *key == first) {
                    let (_, value) = row.read.pop_front().unwrap_or_default();
                    stored = stored.or(Some(value));
                }
            }
            let flow = match newest.or(newer) {
                Some((_, Some(value))) => visit(&first, value),
                Some((_, None)) => continue,
                None => visit(&first, &stored.unwrap_or_default()),
            };
            if flow.is_break() {
                return Ok(());
            }
        }
    }

    /// The first children of a folder, [`CHUNK_KEYS`] at most, from `from` on.
    fn children(
        &self,
        folder: &Folder,
        from: &[u8],
        large: &mut Option<(Folder, Vec<Vec<u8>>)>,
    ) -> Result<Vec<Vec<u8>>, StoreError> {
        let known = self.memory().listings.from(folder, from, CHUNK_KEYS);
        match known {
            Answer::Known(children) => Ok(children),
            Answer::Unread => {
                let listed = self.files.list(folder)?;
                let range = (Bound::Included(from), Bound::Unbounded);
                let found = listed.range::<[u8], _>(range).take(CHUNK_KEYS);
                let children = found.cloned().collect();
                self.memory().listings.keep(folder, listed);
                Ok(children)
            }
            Answer::TooLarge => {
                let listed = match large.take() {
                    Some((of, listed)) if of == *folder => listed,
                    _ => self.files.list(folder)?.into_iter().collect(),
                };
                let at = listed.partition_point(|child| **child < *from);
                let children = listed[at..].iter().take(CHUNK_KEYS).cloned().collect();
                *large = Some((folder.clone(), listed));
                Ok(children)
            }
        }
    }
}

impl Row {
    fn of(next: Next) -> Row {
        Row {
            next,
            read: VecDeque::new(),
            large: None,
        }
    }
}

/// Where keys with a place of their own begin.
fn first_numbered(start: &[u8]) -> Next {
    let kind = start.first().copied().unwrap_or(0);
    let Some(index) = KINDS.iter().position(|&known| known >= kind) else {
        return Next::End;
    };
    if KINDS[index] != kind {
        return Next::Numbered(index, 0, 0);
    }
    let mut padded = [0; 11];
    let bytes = start.len().min(padded.len());
    padded[..bytes].copy_from_slice(&start[..bytes]);
    let shard = u16::from_be_bytes([padded[1], padded[2]]);
    let number = padded[3..]
        .iter()
        .fold(0, |number, &byte| number << 8 | u64::from(byte));
    if start.len() < padded.len() {
        return Next::Numbered(index, shard, number);
    }
    // One directory or inode is asked for: nobody needs to know which others there are.
    if kind == ENTRY {
        Next::Inside(
            index,
            Folder::Directory(shard, number),
            start[11..].to_vec(),
        )
    } else {
        let low = low_bits(number).to_vec();
        Next::Inside(index, Folder::of_inode(shard, number), low)
    }
}

/// Where other keys begin.
fn first_other(start: &[u8]) -> Next {
    match start.split_first_chunk::<3>() {
        Some((prefix, rest)) => Next::Inside(0, Folder::Prefix(prefix.to_vec()), rest.to_vec()),
        None => Next::Prefix(start.to_vec()),
    }
}

impl Scan<'_> {
    /// Takes a row on: some keys and values, or to another folder, or to its end.
    fn fill(&self, row: &mut Row) -> Result<(), StoreError> {
        row.next = match std::mem::replace(&mut row.next, Next::End) {
            Next::Prefix(prefix) => self.find_prefix(row, &prefix)?,
            Next::Numbered(kind, shard, number) => self.find_numbered(row, kind, shard, number)?,
            Next::Inside(kind, folder, from) => self.fill_inside(row, kind, folder, from)?,
            Next::End => Next::End,
        };
        Ok(())
    }

    fn find_prefix(&self, row: &mut Row, from: &[u8]) -> Result<Next, StoreError> {
        let found = self
            .store
            .children(&Folder::Prefixes, from, &mut row.large)?;
        // A short prefix is the whole key.
        let is_in_range = |prefix: &&Vec<u8>| prefix.len() == 3 || ***prefix >= *self.start;
        let Some(prefix) = found.iter().find(is_in_range) else {
            return Ok(match found.last() {
                Some(last) => Next::Prefix([last.as_slice(), &[0]].concat()),
                None => Next::End,
            });
        };
        if **prefix >= *self.end {
            return Ok(Next::End);
        }
        Ok(Next::Inside(0, Folder::Prefix(prefix.clone()), Vec::new()))
    }

    fn find_numbered(
        &self,
        row: &mut Row,
        kind: usize,
        mut shard: u16,
        mut number: u64,
    ) -> Result<Next, StoreError> {
        let Some(&byte) = KINDS.get(kind) else {
            return Ok(Next::End);
        };
        loop {
            if numbered(byte, shard, number)[..] >= *self.end {
                return Ok(Next::End);
            }
            let (folder, shards, from) = if byte == ENTRY {
                (Folder::Directories(shard), Folder::DirectoryShards, number)
            } else {
                let Folder::Block(_, block) = Folder::of_inode(shard, number) else {
                    panic!("inodes are in blocks");
                };
                (Folder::Blocks(shard), Folder::InodeShards, block)
            };
            let found = self
                .store
                .children(&folder, &from.to_be_bytes(), &mut row.large)?;
            if let Some(found) = found.first() {
                let found = found
                    .iter()
                    .fold(0, |all, &byte| all << 8 | u64::from(byte));
                if byte == ENTRY {
                    let directory = Folder::Directory(shard, found);
                    return Ok(Next::Inside(kind, directory, Vec::new()));
                }
                let low = if found == from {
                    low_bits(number)
                } else {
                    [0; 2]
                };
                return Ok(Next::Inside(
                    kind,
                    Folder::Block(shard, found),
                    low.to_vec(),
                ));
            }
            number = 0;
            let found = match shard.checked_add(1) {
                Some(next) => self
                    .store
                    .children(&shards, &next.to_be_bytes(), &mut row.large)?,
                None => Vec::new(),
            };
            match found.first().and_then(|found| found.first_chunk::<2>()) {
                Some(found) => shard = u16::from_be_bytes(*found),
                None => return Ok(Next::Numbered(kind + 1, 0, 0)),
            }
        }
    }

    fn fill_inside(
        &self,
        row: &mut Row,
        kind: usize,
        folder: Folder,
        from: Vec<u8>,
    ) -> Result<Next, StoreError> {
        let children = self.store.children(&folder, &from, &mut row.large)?;
        let mut bytes = 0;
        for child in &children {
            let file = FileAt {
                folder: folder.clone(),
                child: child.clone(),
            };
            let before = row.read.len();
            let is_beyond = match &folder {
                Folder::Block(shard, block) => {
                    self.take_inode(row, KINDS[kind], &file, *shard, ino_of(*block, child))?
                }
                _ => self.take_alone(row, &file)?,
            };
            if is_beyond {
                return Ok(Next::End);
            }
            bytes += row
                .read
                .range(before..)
                .map(|(_, value)| value.len())
                .sum::<usize>();
            if bytes >= CHUNK_BYTES {
                return Ok(Next::Inside(kind, folder, after(child)));
            }
        }
        if let Some(last) = children.get(CHUNK_KEYS - 1) {
            return Ok(Next::Inside(kind, folder, after(last)));
        }
        Ok(match folder {
            Folder::Prefix(prefix) => Next::Prefix(after(&prefix)),
            Folder::Directory(shard, dir) => next_numbered(kind, shard, dir.checked_add(1)),
            Folder::Block(shard, block) => next_numbered(kind, shard, after_block(block)),
            other => panic!("{other:?} has no keys"),
        })
    }

    /// Takes the pair of a file that has one; answers whether its key is beyond the end.
    fn take_alone(&self, row: &mut Row, file: &FileAt) -> Result<bool, StoreError> {
        let key = key_of(file);
        if *key >= *self.end {
            return Ok(true);
        }
        if *key >= *self.start && !self.moment.hides(&key) {
            let value = match self.known(&key) {
                Some(value) => value,
                None => self.store.read_alone(&key, file)?,
            };
            row.read.extend(value.map(|value| (key, value)));
        }
        Ok(false)
    }

    /// Takes the pairs of one kind of an inode; answers whether their keys are beyond the end.
    fn take_inode(
        &self,
        row: &mut Row,
        kind: u8,
        file: &FileAt,
        shard: u16,
        ino: u64,
    ) -> Result<bool, StoreError> {
        let first = numbered(kind, shard, ino);
        if first[..] >= *self.end {
            return Ok(true);
        }
        let fields = match kind {
            RECORD => vec![Field::Record],
            DATA => vec![Field::Data],
            NAMED => self.store.named(file)?,
            other => panic!("{other} is no kind of an inode's keys"),
        };
        for field in fields {
            let mut key = first.to_vec();
            if let Field::Named(name) = &field {
                key.extend_from_slice(name);
            }
            if *key >= *self.end {
                return Ok(true);
            }
            if *key < *self.start || self.moment.hides(&key) {
                continue;
            }
            let value = match self.known(&key) {
                Some(value) => value,
                None => self.store.read_field(&key, file, &field)?,
            };
            row.read.extend(value.map(|value| (key, value)));
        }
        Ok(false)
    }

    /// A value that was read lately, while the files are held.
    fn known(&self, key: &[u8]) -> Option<Option<Vec<u8>>> {
        self.store.memory().values.get(key).cloned()
    }
}

impl DirectoriesStore {
    /// The attributes of an inode that its file has, in the order of their names.
    pub(crate) fn named(&self, file: &FileAt) -> Result<Vec<Field>, StoreError> {
        let names = self.files.attributes(&file.path())?.unwrap_or_default();
        let mut names: Vec<Vec<u8>> = names
            .iter()
            .filter_map(|name| name.strip_prefix(NAMED_ATTRIBUTE.as_bytes()))
            .map(<[u8]>::to_vec)
            .collect();
        names.sort_unstable();
        Ok(names.into_iter().map(Field::Named).collect())
    }
}

/// The first child after this one.
fn after(child: &[u8]) -> Vec<u8> {
    [child, &[0]].concat()
}

/// What comes after the last number, if there is none.
fn next_numbered(kind: usize, shard: u16, number: Option<u64>) -> Next {
    match (number, shard.checked_add(1)) {
        (Some(number), _) => Next::Numbered(kind, shard, number),
        (None, Some(shard)) => Next::Numbered(kind, shard, 0),
        (None, None) => Next::Numbered(kind + 1, 0, 0),
    }
}
