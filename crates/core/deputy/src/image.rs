//! Image of what a session was granted of one shard.

use crate::limits::MAX_IMAGE_DATA_BYTES;
use hashbrown::HashSet;
use pandofs_api::Granted;
use pandofs_namespace::keys::{self, Kind};
use pandofs_namespace::records::{EntryRecord, decode};
use pandofs_namespace::{Stop, View};
use pandofs_placement::ClusterMap;
use pandofs_storage::store::{Batch, Cached, KvRead, Store, StoreError, Visit};
use pandofs_types::{Ino, LeaseKey, Position, ShardId};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Keys and values of a shard, and which of them are known.
#[derive(Debug)]
pub(crate) struct Image {
    pub shard: ShardId,
    pairs: BTreeMap<Vec<u8>, Vec<u8>>,
    bytes: usize,
    /// Of these, values that are bytes of files.
    data_bytes: usize,
    /// Directories that are granted.
    pub granted: HashSet<Ino>,
    /// Inodes that are no directories and that the session has made here; nobody else has their numbers.
    pub made: HashSet<Ino>,
}

impl Image {
    pub(crate) fn of(shard: ShardId) -> Image {
        Image {
            shard,
            pairs: BTreeMap::new(),
            bytes: 0,
            data_bytes: 0,
            granted: HashSet::new(),
            made: HashSet::new(),
        }
    }

    /// Bytes of keys and values.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether nobody else may change the inode's record.
    pub(crate) fn is_exclusive(&self, ino: Ino) -> bool {
        self.granted.contains(&ino) || self.made.contains(&ino)
    }

    /// The directory is granted, with this.
    pub(crate) fn grant(&mut self, dir: Ino, granted: Granted) {
        for (key, value) in granted.pairs {
            // The shard has not executed what is queued of these.
            let of = keys::parse_ino(&key);
            let is_inode = matches!(kind(&key), Some(Kind::Inode | Kind::Xattr | Kind::Parts));
            if is_inode && of.is_some_and(|ino| ino != dir && self.is_exclusive(ino)) {
                continue;
            }
            self.put(key.into_vec(), value.into_vec());
        }
        self.granted.insert(dir);
    }

    fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        let is_data = kind(&key) == Some(Kind::Data);
        let (of_key, of_value) = (key.len(), value.len());
        let old = self.pairs.insert(key, value);
        let of_old = old.as_ref().map_or(0, Vec::len);
        self.bytes += of_value;
        self.bytes -= of_old;
        if old.is_none() {
            self.bytes += of_key;
        }
        if is_data {
            self.data_bytes += of_value;
            self.data_bytes -= of_old;
        }
    }

    fn delete(&mut self, key: &[u8]) {
        if let Some(old) = self.pairs.remove(key) {
            self.bytes -= old.len() + key.len();
            if kind(key) == Some(Kind::Data) {
                self.data_bytes -= old.len();
            }
        }
    }

    /// Takes in what an operation has written.
    pub(crate) fn apply(&mut self, batch: &Batch) {
        for (key, value) in batch.iter() {
            // Nobody looks for it here: see below.
            if kind(key) == Some(Kind::Path) {
                continue;
            }
            match value {
                Some(value) => self.put(key.to_vec(), value.to_vec()),
                None => self.delete(key),
            }
        }
        if self.data_bytes > MAX_IMAGE_DATA_BYTES {
            self.delete_all(&keys::prefix(Kind::Data, self.shard));
        }
    }

    pub(crate) fn view<'a>(&'a self, map: &'a ClusterMap) -> View<'a> {
        View {
            kv: self,
            shard: self.shard,
            map,
            cached_only: false,
        }
    }

    /// The inodes that names of the directory lead to.
    pub(crate) fn children(&self, dir: Ino) -> Result<Vec<EntryRecord>, Stop> {
        let prefix = keys::entry_from(self.shard, dir, Position(0));
        let of_dir = &prefix[..prefix.len() - 8];
        let after = keys::after(of_dir);
        let entries = self.pairs.range(of_dir.to_vec()..after);
        entries.map(|(_, value)| decode("entry", value)).collect()
    }

    /// Keys of the directory's names, and of the files that they lead to.
    pub(crate) fn entry_keys(&self, dir: Ino) -> Vec<LeaseKey> {
        let prefix = keys::entry_from(self.shard, dir, Position(0));
        let of_dir = &prefix[..prefix.len() - 8];
        let entries = self.pairs.range(of_dir.to_vec()..keys::after(of_dir));
        let mut found = Vec::new();
        for (key, value) in entries {
            if let Some((dir, position, _)) = keys::parse_entry(key) {
                found.push(LeaseKey::Entry { dir, position });
            }
            if let Ok(entry) = decode::<EntryRecord>("entry", value) {
                found.push(LeaseKey::Inode(entry.ino));
            }
        }
        found
    }

    /// Lets go of a directory and of what was made in it.
    pub(crate) fn let_go(&mut self, dir: Ino) -> Result<(), Stop> {
        for child in self.children(dir)? {
            self.made.remove(&child.ino);
            if !self.granted.contains(&child.ino) {
                self.forget_inode(child.ino);
                self.delete(&keys::parts(self.shard, child.ino));
            }
        }
        let prefix = keys::entry_from(self.shard, dir, Position(0));
        self.delete_all(&prefix[..prefix.len() - 8]);
        self.delete(&keys::parts(self.shard, dir));
        self.forget_inode(dir);
        self.granted.remove(&dir);
        Ok(())
    }

    /// Knows nothing any more of an inode that the session has made.
    pub(crate) fn forget_made(&mut self, ino: Ino) {
        if self.made.remove(&ino) {
            self.forget_inode(ino);
        }
    }

    fn forget_inode(&mut self, ino: Ino) {
        self.delete(&keys::inode(self.shard, ino));
        self.delete(&keys::data(self.shard, ino));
        self.delete(&keys::reclaim(self.shard, ino));
        self.delete_all(&keys::xattrs(self.shard, ino));
    }

    fn delete_all(&mut self, prefix: &[u8]) {
        let range = prefix.to_vec()..keys::after(prefix);
        let keys: Vec<Vec<u8>> = self
            .pairs
            .range(range)
            .map(|(key, _)| key.clone())
            .collect();
        for key in keys {
            self.delete(&key);
        }
    }

    /// Whether the image tells the value of the key, or that there is none.
    fn knows(&self, key: &[u8]) -> bool {
        if self.pairs.contains_key(key) {
            return true;
        }
        // Images find nothing by its path, and do not execute what changes paths.
        if let Some(Kind::Path | Kind::PathPointer | Kind::PathLine | Kind::PathLog) = kind(key) {
            return true;
        }
        let Some(ino) = keys::parse_ino(key) else {
            return false;
        };
        match kind(key) {
            Some(Kind::Entry | Kind::Split) => self.granted.contains(&ino),
            Some(Kind::Xattr | Kind::Reclaim | Kind::Forwarding) => {
                self.pairs.contains_key(&keys::inode(self.shard, ino))
            }
            // Of what is no directory.
            Some(Kind::Parts) => self.made.contains(&ino),
            _ => false,
        }
    }

    fn unknown(&self, key: &[u8]) -> StoreError {
        StoreError::Io {
            what: format!("image of shard {}", self.shard),
            reason: format!("key {key:02x?} was not granted"),
        }
    }
}

fn kind(key: &[u8]) -> Option<Kind> {
    key.first().copied().and_then(Kind::from_byte)
}

/// A read of what is not known fails, so that an operation which needs it is not executed.
impl KvRead for Image {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        match self.knows(key) {
            true => Ok(self.pairs.get(key).cloned()),
            false => Err(self.unknown(key)),
        }
    }

    fn get_cached(&self, key: &[u8]) -> Result<Cached, StoreError> {
        self.get(key).map(Cached::Known)
    }

    fn scan(&self, start: &[u8], end: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError> {
        if !self.knows(start) {
            return Err(self.unknown(start));
        }
        for (key, value) in self.pairs.range(start.to_vec()..end.to_vec()) {
            if let ControlFlow::Break(()) = visit(key, value) {
                break;
            }
        }
        Ok(())
    }
}

/// Operations write to an overlay, whose batch the image [takes in](Image::apply).
impl Store for Image {
    fn write(&self, _batch: &Batch) -> Result<(), StoreError> {
        Err(StoreError::Io {
            what: format!("image of shard {}", self.shard),
            reason: "it is written to by its owner".to_owned(),
        })
    }

    fn flush(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn size_bytes(&self) -> u64 {
        self.bytes as u64
    }
}
