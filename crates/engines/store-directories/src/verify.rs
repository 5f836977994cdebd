//! Checks of all that is stored.

use crate::DirectoriesStore;
use crate::place::{DATA, Field, FileAt, Folder, NAMED, RECORD, ino_of, key_of, numbered};
use pandofs_storage::store::StoreError;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

type Told<'r> = &'r mut dyn FnMut(u64) -> ControlFlow<()>;

impl DirectoriesStore {
    /// Reads every file; see [`pandofs_storage::store::Store::verify`].
    pub(crate) fn verify_files(&self, read: Told<'_>) -> Result<(), StoreError> {
        let mut folders = vec![
            Folder::DirectoryShards,
            Folder::InodeShards,
            Folder::Prefixes,
        ];
        while let Some(folder) = folders.pop() {
            let children = self.listed(&folder)?;
            if matches!(
                folder,
                Folder::Directory(..) | Folder::Block(..) | Folder::Prefix(_)
            ) {
                for child in children {
                    let folder = folder.clone();
                    let bytes = self.verify_file(&FileAt { folder, child })?;
                    if bytes > 0 && read(bytes).is_break() {
                        return Ok(());
                    }
                }
            } else {
                folders.extend(children.iter().map(|child| below(&folder, child)));
            }
        }
        Ok(())
    }

    fn listed(&self, folder: &Folder) -> Result<BTreeSet<Vec<u8>>, StoreError> {
        let _held = self.hold();
        self.files.list(folder)
    }

    /// Checks one file; answers how many bytes its keys and values have.
    fn verify_file(&self, file: &FileAt) -> Result<u64, StoreError> {
        let _held = self.hold();
        let mut bytes = 0;
        let mut count = |key: &[u8], value: Option<Vec<u8>>| {
            bytes += value.map_or(0, |value| (key.len() + value.len()) as u64);
        };
        let Folder::Block(shard, block) = file.folder else {
            let key = key_of(file);
            if self.memory().written(&key).is_none() {
                let value = self.read_alone(&key, file)?;
                count(&key, value);
            }
            return Ok(bytes);
        };
        let ino = ino_of(block, &file.child);
        let mut fields = vec![Field::Record, Field::Data];
        fields.extend(self.named(file)?);
        for field in fields {
            let kind = match field {
                Field::Record => RECORD,
                Field::Named(_) => NAMED,
                Field::Data => DATA,
            };
            let mut key = numbered(kind, shard, ino).to_vec();
            if let Field::Named(name) = &field {
                key.extend_from_slice(name);
            }
            // What a flush that failed has left by half is in memory whole.
            if self.memory().written(&key).is_none() {
                let value = self.read_field(&key, file, &field)?;
                count(&key, value);
            }
        }
        Ok(bytes)
    }
}

/// The folder that a child of another one is.
fn below(folder: &Folder, child: &[u8]) -> Folder {
    let number = child
        .iter()
        .fold(0, |all, &byte| all << 8 | u64::from(byte));
    match folder {
        Folder::DirectoryShards => Folder::Directories(number as u16),
        Folder::InodeShards => Folder::Blocks(number as u16),
        Folder::Directories(shard) => Folder::Directory(*shard, number),
        Folder::Blocks(shard) => Folder::Block(*shard, number),
        Folder::Prefixes => Folder::Prefix(child.to_vec()),
        other => panic!("{other:?} has no folders of its own"),
    }
}
