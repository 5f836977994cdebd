//! Changes made to the files, as a journal says them.
//!
//! Each is made so that making it again, also when it or another was made by half, leads to the same. A key has its
//! value in one place: what is elsewhere goes before the new value comes, as nobody would look for it later.

use crate::DirectoriesStore;
use crate::files::Attribute;
use crate::limits::{MAX_ATTRIBUTE_BYTES, SUM_BYTES};
use crate::memory::{Bytes, Layer};
use crate::place::{ATTRIBUTE, Field, FileAt, Folder, Place, general, place};
use crate::read::attribute_of;
use crate::seal;
use pandofs_storage::store::StoreError;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;

/// A change of one field of an inode's file.
struct Change<'a> {
    field: Field,
    key: &'a Bytes,
    value: Option<&'a Bytes>,
}

/// What follows from the changes so far.
#[derive(Default)]
struct Outcome {
    /// Bytes of keys and values.
    grown: i64,
    /// Folders out of which something was removed.
    emptied: BTreeSet<Folder>,
}

impl Outcome {
    fn replaced(&mut self, key: &[u8], before: Option<u64>, after: Option<usize>) {
        let pair = |value: u64| key.len() as i64 + value as i64;
        self.grown += after.map_or(0, |bytes| pair(bytes as u64)) - before.map_or(0, pair);
    }
}

/// Bytes of a value as it is stored, without its checksum.
fn unsealed(bytes: u64) -> u64 {
    bytes.saturating_sub(SUM_BYTES as u64)
}

impl DirectoriesStore {
    /// Makes the changes, one file after the other; others read between two.
    ///
    /// # Errors
    /// [`StoreError::Io`], [`StoreError::Corrupt`] and [`StoreError::Full`]: some are made.
    pub(crate) fn apply(&self, changes: &Layer) -> Result<(), StoreError> {
        let mut outcome = Outcome::default();
        let mut inodes: BTreeMap<FileAt, Vec<Change<'_>>> = BTreeMap::new();
        for (key, value) in changes {
            match place(key) {
                Place::Alone(file) => {
                    let _changing = self.change();
                    match value {
                        Some(value) => self.put(&file, key, value, &mut outcome)?,
                        None => self.remove(&file, key, &mut outcome)?,
                    }
                    self.changed(key, value.as_ref());
                }
                Place::Inode(file, field) => inodes.entry(file).or_default().push(Change {
                    field,
                    key,
                    value: value.as_ref(),
                }),
            }
        }
        for (file, fields) in inodes {
            let _changing = self.change();
            self.apply_inode(&file, &fields, &mut outcome)?;
            for change in &fields {
                self.changed(change.key, change.value);
            }
        }
        for folder in &outcome.emptied {
            let _changing = self.change();
            if self.files.remove_folder(&folder.path())?
                && let Some((above, child)) = folder.above()
            {
                self.memory().listings.remove(&above, &child);
            }
        }
        let mut memory = self.memory();
        memory.disk_bytes = memory.disk_bytes.saturating_add_signed(outcome.grown);
        Ok(())
    }

    fn changed(&self, key: &[u8], value: Option<&Bytes>) {
        let keep = value.is_none_or(|value| value.len() <= MAX_ATTRIBUTE_BYTES);
        self.memory().changed(key, value, keep);
    }

    /// Makes an empty file that was not there.
    fn make(&self, file: &FileAt, path: &[u8]) -> Result<File, StoreError> {
        let made = self.files.make(file, path, &mut |above, child| {
            self.memory().listings.insert(&above, &child);
        })?;
        self.memory().listings.insert(&file.folder, &file.child);
        Ok(made)
    }

    /// Opens a file to write its contents, which is made if need be.
    fn open_to_write(&self, file: &FileAt, path: &[u8]) -> Result<File, StoreError> {
        match self.files.open(path)? {
            Some(opened) => Ok(opened),
            None => self.make(file, path),
        }
    }

    fn remove_file(
        &self,
        file: &FileAt,
        path: &[u8],
        outcome: &mut Outcome,
    ) -> Result<(), StoreError> {
        self.files.remove(file, path)?;
        self.memory().listings.remove(&file.folder, &file.child);
        outcome.emptied.insert(file.folder.clone());
        Ok(())
    }

    /// A file has this value, and no other: in its attribute, or else in its contents.
    fn put(
        &self,
        file: &FileAt,
        key: &[u8],
        value: &[u8],
        outcome: &mut Outcome,
    ) -> Result<(), StoreError> {
        let path = file.path();
        let name = ATTRIBUTE.as_bytes();
        let sealed = seal::seal(key, value);
        let is_small = value.len() <= MAX_ATTRIBUTE_BYTES;
        let before = match self.files.attribute(&path, name)? {
            Attribute::NoFile => {
                let made = self.make(file, &path)?;
                if !(is_small && self.files.set_on(&made, &path, name, &sealed)?) {
                    self.files.write(&made, &path, &sealed)?;
                }
                None
            }
            Attribute::None => {
                let bytes = self.files.size(&path)?;
                let opened = self.open_to_write(file, &path)?;
                if is_small && self.files.set_on(&opened, &path, name, &sealed)? {
                    if bytes > 0 {
                        self.files.write(&opened, &path, &[])?;
                    }
                } else {
                    self.files.write(&opened, &path, &sealed)?;
                }
                Some(unsealed(bytes))
            }
            Attribute::Some(old) => {
                let is_set = is_small
                    && matches!(
                        self.files.set_attribute(&path, name, &sealed)?,
                        Attribute::Some(true)
                    );
                if is_set {
                    // One that was made by half may have contents, too.
                    if self.is_recovering && self.files.size(&path)? > 0 {
                        self.files
                            .write(&self.open_to_write(file, &path)?, &path, &[])?;
                    }
                } else {
                    self.files
                        .write(&self.open_to_write(file, &path)?, &path, &sealed)?;
                    self.files.remove_attribute(&path, name)?;
                }
                Some(unsealed(old.len() as u64))
            }
        };
        outcome.replaced(key, before, Some(value.len()));
        Ok(())
    }

    /// There is no such file.
    fn remove(&self, file: &FileAt, key: &[u8], outcome: &mut Outcome) -> Result<(), StoreError> {
        let path = file.path();
        let before = match self.files.attribute(&path, ATTRIBUTE.as_bytes())? {
            Attribute::NoFile => {
                // It may be gone already, and the folders that it leaves empty not.
                if self.is_recovering {
                    self.remove_file(file, &path, outcome)?;
                }
                return Ok(());
            }
            Attribute::Some(old) => old.len() as u64,
            Attribute::None => self.files.size(&path)?,
        };
        self.remove_file(file, &path, outcome)?;
        outcome.replaced(key, Some(unsealed(before)), None);
        Ok(())
    }

    fn remove_general(&self, key: &[u8], outcome: &mut Outcome) -> Result<(), StoreError> {
        let file = general(key);
        if self.contains(&file)? {
            self.remove(&file, key, outcome)?;
        } else if self.is_recovering {
            outcome.emptied.insert(file.folder);
        }
        Ok(())
    }

    fn apply_inode(
        &self,
        file: &FileAt,
        fields: &[Change<'_>],
        outcome: &mut Outcome,
    ) -> Result<(), StoreError> {
        let path = file.path();
        let mut may_be_empty = false;
        for change in fields {
            match change.value {
                Some(value) => {
                    self.remove_general(change.key, outcome)?;
                    if !self.put_field(file, &path, change, value, outcome)? {
                        self.put(&general(change.key), change.key, value, outcome)?;
                        self.remove_field(file, &path, change, outcome)?;
                        may_be_empty = true;
                    }
                }
                None => {
                    self.remove_general(change.key, outcome)?;
                    may_be_empty = true;
                }
            }
        }
        if !may_be_empty {
            return Ok(());
        }
        let Some(names) = self.files.attributes(&path)? else {
            if self.is_recovering {
                outcome.emptied.insert(file.folder.clone());
            }
            return Ok(());
        };
        let removed: Vec<(Vec<u8>, &Change<'_>)> = fields
            .iter()
            .filter(|change| change.value.is_none())
            .map(|change| (attribute_of(&change.field), change))
            .collect();
        let is_own = |name: &&Vec<u8>| name.starts_with(ATTRIBUTE.as_bytes());
        let mut left = names.iter().filter(is_own);
        // With all that it has goes the file, and that at once.
        if left.all(|name| removed.iter().any(|(gone, _)| gone == name)) {
            for (name, change) in &removed {
                let before = self.field_bytes(&path, name, &change.field)?;
                outcome.replaced(change.key, before, None);
            }
            return self.remove_file(file, &path, outcome);
        }
        for (name, change) in &removed {
            if names.contains(name) {
                self.remove_field(file, &path, change, outcome)?;
            }
        }
        Ok(())
    }

    /// Bytes of the value of a field that an inode's file has.
    fn field_bytes(
        &self,
        path: &[u8],
        name: &[u8],
        field: &Field,
    ) -> Result<Option<u64>, StoreError> {
        Ok(match self.files.attribute(path, name)? {
            Attribute::NoFile | Attribute::None => None,
            Attribute::Some(said) if *field == Field::Data => Some(seal::data_bytes(&said)),
            Attribute::Some(sealed) => Some(unsealed(sealed.len() as u64)),
        })
    }

    /// Answers whether the file of the inode holds the value now.
    fn put_field(
        &self,
        file: &FileAt,
        path: &[u8],
        change: &Change<'_>,
        value: &[u8],
        outcome: &mut Outcome,
    ) -> Result<bool, StoreError> {
        let name = attribute_of(&change.field);
        if change.field != Field::Data && value.len() > MAX_ATTRIBUTE_BYTES {
            return Ok(false);
        }
        let before = self.field_bytes(path, &name, &change.field)?;
        let is_held = if change.field == Field::Data {
            let opened = self.open_to_write(file, path)?;
            self.files.write(&opened, path, value)?;
            let said = seal::of_data(change.key, value);
            self.files.set_on(&opened, path, &name, &said)?
        } else {
            let sealed = seal::seal(change.key, value);
            match self.files.set_attribute(path, &name, &sealed)? {
                Attribute::Some(is_held) => is_held,
                Attribute::NoFile | Attribute::None => {
                    let made = self.make(file, path)?;
                    self.files.set_on(&made, path, &name, &sealed)?
                }
            }
        };
        if is_held {
            outcome.replaced(change.key, before, Some(value.len()));
        }
        Ok(is_held)
    }

    /// The file of the inode has no such field.
    fn remove_field(
        &self,
        file: &FileAt,
        path: &[u8],
        change: &Change<'_>,
        outcome: &mut Outcome,
    ) -> Result<(), StoreError> {
        let name = attribute_of(&change.field);
        let before = self.field_bytes(path, &name, &change.field)?;
        if change.field == Field::Data && self.files.size(path)? > 0 {
            self.files
                .write(&self.open_to_write(file, path)?, path, &[])?;
        }
        if before.is_some() {
            self.files.remove_attribute(path, &name)?;
            outcome.replaced(change.key, before, None);
        }
        Ok(())
    }
}
