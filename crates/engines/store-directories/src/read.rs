//! Values in files.
//!
//! Whoever reads holds [`DirectoriesStore::changing`], so that no file is read while it changes.

use crate::DirectoriesStore;
use crate::failure::corrupt;
use crate::files::Attribute;
use crate::listings::Answer;
use crate::place::{
    ATTRIBUTE, DATA_ATTRIBUTE, Field, FileAt, NAMED_ATTRIBUTE, Place, general, place,
};
use crate::seal;
use pandofs_storage::store::StoreError;

/// The name of the attribute that has a field, or says that it is there.
pub(crate) fn attribute_of(field: &Field) -> Vec<u8> {
    match field {
        Field::Record => ATTRIBUTE.as_bytes().to_vec(),
        Field::Named(name) => [NAMED_ATTRIBUTE.as_bytes(), name].concat(),
        Field::Data => DATA_ATTRIBUTE.as_bytes().to_vec(),
    }
}

impl DirectoriesStore {
    /// The value that the files have of a key.
    pub(crate) fn read(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        match place(key) {
            Place::Alone(file) => self.read_alone(key, &file),
            Place::Inode(file, field) => match self.read_field(key, &file, &field)? {
                Some(value) => Ok(Some(value)),
                None => {
                    let file = general(key);
                    if self.contains(&file)? {
                        self.read_alone(key, &file)
                    } else {
                        Ok(None)
                    }
                }
            },
        }
    }

    /// The value of a file that has one.
    pub(crate) fn read_alone(
        &self,
        key: &[u8],
        file: &FileAt,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let path = file.path();
        let sealed = match self.files.attribute(&path, ATTRIBUTE.as_bytes())? {
            Attribute::NoFile => return Ok(None),
            Attribute::Some(sealed) => sealed,
            Attribute::None => match self.files.contents(&path)? {
                Some(sealed) => sealed,
                None => return Ok(None),
            },
        };
        let value = seal::open(key, &sealed);
        value.map(Some).ok_or_else(|| self.damaged(&path, "value"))
    }

    /// What an inode's file has of a field.
    pub(crate) fn read_field(
        &self,
        key: &[u8],
        file: &FileAt,
        field: &Field,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let path = file.path();
        let name = attribute_of(field);
        let Attribute::Some(said) = self.files.attribute(&path, &name)? else {
            return Ok(None);
        };
        let (value, what) = match field {
            Field::Data => {
                let value = self.files.contents(&path)?.unwrap_or_default();
                let is_right = said == seal::of_data(key, &value);
                (is_right.then_some(value), "contents")
            }
            Field::Record => (seal::open(key, &said), "inode"),
            Field::Named(_) => (seal::open(key, &said), "attribute"),
        };
        value.map(Some).ok_or_else(|| self.damaged(&path, what))
    }

    fn damaged(&self, path: &[u8], what: &str) -> StoreError {
        corrupt(
            &self.files.at(path),
            &format!("the checksum of its {what} is wrong"),
        )
    }

    /// Whether there is such a file, by the list of its folder, which is read if it is not known.
    pub(crate) fn contains(&self, file: &FileAt) -> Result<bool, StoreError> {
        let known = self.memory().listings.contains(&file.folder, &file.child);
        match known {
            Answer::Known(is_there) => Ok(is_there),
            Answer::Unread => {
                let children = self.files.list(&file.folder)?;
                let is_there = children.contains(&file.child);
                self.memory().listings.keep(&file.folder, children);
                Ok(is_there)
            }
            Answer::TooLarge => {
                let found = self.files.attribute(&file.path(), ATTRIBUTE.as_bytes())?;
                Ok(!matches!(found, Attribute::NoFile))
            }
        }
    }
}
