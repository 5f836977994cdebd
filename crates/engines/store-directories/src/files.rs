//! Files of the store: what is read and changed of the local file system, one call each.
//!
//! Paths are those in the store's folder. Each change is a step, at any of which the process may end.

use crate::failure::{corrupt, does_not_fit, refused};
use crate::limits::{MAX_ATTRIBUTE_BYTES, MAX_LIST_BYTES, SUM_BYTES};
use crate::place::{FileAt, Folder};
use pandofs_storage::store::StoreError;
use rustix::fs::{XattrFlags, fsetxattr, lgetxattr, llistxattr, lremovexattr, lsetxattr, syncfs};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The attribute of a file.
pub(crate) enum Attribute<T> {
    /// There is no such file.
    NoFile,
    /// The file has no such attribute.
    None,
    /// Its value, or what was asked of it.
    Some(T),
}

/// The folder of a store.
pub(crate) struct Files {
    root: PathBuf,
    /// The folder itself, locked.
    folder: File,
    #[cfg(test)]
    pub(crate) cut: crate::cuts::Cut,
}

impl Files {
    /// Of the folder at this absolute path, which `folder` has open.
    pub(crate) fn new(root: PathBuf, folder: File) -> Files {
        Files {
            root,
            folder,
            #[cfg(test)]
            cut: crate::cuts::Cut::of_this_thread(),
        }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn at(&self, path: &[u8]) -> PathBuf {
        self.root.join(OsStr::from_bytes(path))
    }

    /// Comes before each change. Tests end the store here.
    #[cfg_attr(
        not(test),
        allow(
            clippy::unused_self,
            clippy::unnecessary_wraps,
            reason = "it does something in tests"
        )
    )]
    fn step(&self) -> io::Result<()> {
        #[cfg(test)]
        self.cut.step()?;
        Ok(())
    }

    fn refused(&self, action: &str, path: &[u8], error: &io::Error) -> StoreError {
        refused(action, &self.at(path), error)
    }

    /// The attribute `name` of a file.
    ///
    /// # Errors
    /// [`StoreError::Io`]; [`StoreError::Corrupt`] if it is larger than any that was written.
    pub(crate) fn attribute(
        &self,
        path: &[u8],
        name: &[u8],
    ) -> Result<Attribute<Vec<u8>>, StoreError> {
        let at = self.at(path);
        let mut value = [0; MAX_ATTRIBUTE_BYTES + SUM_BYTES];
        match lgetxattr(&at, name, &mut value) {
            Ok(bytes) => Ok(Attribute::Some(value[..bytes].to_vec())),
            Err(Errno::NOENT) => Ok(Attribute::NoFile),
            Err(Errno::NODATA) => Ok(Attribute::None),
            Err(Errno::RANGE) => Err(corrupt(
                &at,
                &format!("the attribute {} is too large", name.escape_ascii()),
            )),
            Err(error) => Err(refused("read", &at, &error.into())),
        }
    }

    /// The names of all attributes of a file; `None` if it is not there.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub(crate) fn attributes(&self, path: &[u8]) -> Result<Option<Vec<Vec<u8>>>, StoreError> {
        let at = self.at(path);
        let mut small = [0; 1_024];
        let mut large = Vec::new();
        let list = match llistxattr(&at, &mut small) {
            Ok(bytes) => &small[..bytes],
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::RANGE) => {
                large.resize(MAX_LIST_BYTES, 0);
                match llistxattr(&at, &mut large[..]) {
                    Ok(bytes) => &large[..bytes],
                    Err(error) => return Err(refused("list", &at, &error.into())),
                }
            }
            Err(error) => return Err(refused("list", &at, &error.into())),
        };
        let names = list.split(|&byte| byte == 0);
        Ok(Some(
            names
                .filter(|name| !name.is_empty())
                .map(<[u8]>::to_vec)
                .collect(),
        ))
    }

    /// The contents of a file; `None` if it is not there.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub(crate) fn contents(&self, path: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let mut bytes = Vec::new();
        let read = File::open(self.at(path)).and_then(|mut file| file.read_to_end(&mut bytes));
        match read {
            Ok(_) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.refused("read", path, &error)),
        }
    }

    /// Bytes of the contents of a file, 0 if it is not there.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub(crate) fn size(&self, path: &[u8]) -> Result<u64, StoreError> {
        match fs::symlink_metadata(self.at(path)) {
            Ok(found) => Ok(found.len()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(0),
            Err(error) => Err(self.refused("look at", path, &error)),
        }
    }

    /// What is in a folder; nothing if it is not there.
    ///
    /// # Errors
    /// [`StoreError::Io`]; [`StoreError::Corrupt`] if a name is none of this store.
    pub(crate) fn list(&self, folder: &Folder) -> Result<BTreeSet<Vec<u8>>, StoreError> {
        let mut found = BTreeSet::new();
        self.list_part(folder, &folder.path(), None, &mut found)?;
        Ok(found)
    }

    /// `before`: the text of the folders of cut names that lead to `path`.
    fn list_part(
        &self,
        folder: &Folder,
        path: &[u8],
        before: Option<&[u8]>,
        found: &mut BTreeSet<Vec<u8>>,
    ) -> Result<(), StoreError> {
        let failed = |error: &io::Error| self.refused("list", path, error);
        let entries = match fs::read_dir(self.at(path)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(failed(&error)),
        };
        for entry in entries {
            let name = entry.map_err(|error| failed(&error))?.file_name();
            let part = name.as_bytes();
            let foreign = || {
                let at = self.at(path).join(&name);
                corrupt(&at, "this store gives nothing such a name")
            };
            let (text, is_all) = if folder.is_cut() {
                crate::names::join(before, part).ok_or_else(foreign)?
            } else {
                (part.to_vec(), true)
            };
            if is_all {
                found.insert(folder.child(&text).ok_or_else(foreign)?);
            } else {
                self.list_part(folder, &[path, b"/", part].concat(), Some(&text), found)?;
            }
        }
        Ok(())
    }

    /// Makes an empty file, and the folders above it that are missing, of which it tells `made`.
    ///
    /// # Errors
    /// [`StoreError::Io`] and [`StoreError::Full`].
    pub(crate) fn make(
        &self,
        file: &FileAt,
        path: &[u8],
        made: &mut dyn FnMut(Folder, Vec<u8>),
    ) -> Result<File, StoreError> {
        let open = || {
            self.step()?;
            OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(self.at(path))
        };
        match open() {
            Ok(handle) => return Ok(handle),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(self.refused("make", path, &error)),
        }
        let mut folders = vec![file.folder.clone()];
        while let Some((above, _)) = folders.last().and_then(Folder::above) {
            folders.push(above);
        }
        for folder in folders.iter().rev() {
            if let Some((above, child)) = folder.above()
                && self.make_folder(&folder.path())?
            {
                made(above, child);
            }
        }
        // Those of a name that is cut.
        let first = file.folder.path().len() + 1;
        for (end, _) in path
            .iter()
            .enumerate()
            .filter(|(at, byte)| *at > first && **byte == b'/')
        {
            self.make_folder(&path[..end])?;
        }
        open().map_err(|error| self.refused("make", path, &error))
    }

    /// Returns whether it was missing.
    fn make_folder(&self, path: &[u8]) -> Result<bool, StoreError> {
        match self.step().and_then(|()| fs::create_dir(self.at(path))) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(self.refused("make", path, &error)),
        }
    }

    /// Sets an attribute of a file; answers whether the file can have it, and there is such a file.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub(crate) fn set_attribute(
        &self,
        path: &[u8],
        name: &[u8],
        value: &[u8],
    ) -> Result<Attribute<bool>, StoreError> {
        let at = self.at(path);
        self.step().map_err(|error| refused("write", &at, &error))?;
        match lsetxattr(&at, name, value, XattrFlags::empty()) {
            Ok(()) => Ok(Attribute::Some(true)),
            Err(Errno::NOENT) => Ok(Attribute::NoFile),
            Err(error) if does_not_fit(error) => Ok(Attribute::Some(false)),
            Err(error) => Err(refused("write an attribute of", &at, &error.into())),
        }
    }

    /// Sets an attribute of an open file; answers whether the file can have it.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub(crate) fn set_on(
        &self,
        file: &File,
        path: &[u8],
        name: &[u8],
        value: &[u8],
    ) -> Result<bool, StoreError> {
        let failed = |error: &io::Error| self.refused("write an attribute of", path, error);
        self.step().map_err(|error| failed(&error))?;
        match fsetxattr(file, name, value, XattrFlags::empty()) {
            Ok(()) => Ok(true),
            Err(error) if does_not_fit(error) => Ok(false),
            Err(error) => Err(failed(&error.into())),
        }
    }

    /// Removes an attribute, whether or not it is there, or the file.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub(crate) fn remove_attribute(&self, path: &[u8], name: &[u8]) -> Result<(), StoreError> {
        let at = self.at(path);
        self.step().map_err(|error| refused("write", &at, &error))?;
        match lremovexattr(&at, name) {
            Ok(()) | Err(Errno::NOENT | Errno::NODATA) => Ok(()),
            Err(error) => Err(refused("remove an attribute of", &at, &error.into())),
        }
    }

    /// Opens a file to write to it; `None` if it is not there.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub(crate) fn open(&self, path: &[u8]) -> Result<Option<File>, StoreError> {
        match OpenOptions::new().write(true).open(self.at(path)) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.refused("open", path, &error)),
        }
    }

    /// Replaces the contents of a file. In this order, as ext4 would wait for the disk when a file that was cut to
    /// nothing and written again is closed.
    ///
    /// # Errors
    /// [`StoreError::Io`] and [`StoreError::Full`].
    pub(crate) fn write(&self, file: &File, path: &[u8], bytes: &[u8]) -> Result<(), StoreError> {
        let write = || {
            self.step()?;
            file.write_all_at(bytes, 0)?;
            self.step()?;
            file.set_len(bytes.len() as u64)
        };
        write().map_err(|error| self.refused("write", path, &error))
    }

    /// Removes a file, and the folders of its cut name; says whether it was there.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub(crate) fn remove(&self, file: &FileAt, path: &[u8]) -> Result<bool, StoreError> {
        let was_there = match self.step().and_then(|()| fs::remove_file(self.at(path))) {
            Ok(()) => true,
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            Err(error) => return Err(self.refused("remove", path, &error)),
        };
        let top = file.folder.path().len();
        let mut rest = path;
        while let Some(end) = rest
            .iter()
            .rposition(|&byte| byte == b'/')
            .filter(|&end| end > top)
        {
            rest = &path[..end];
            if !self.remove_folder(rest)? {
                break;
            }
        }
        Ok(was_there)
    }

    /// Removes a folder if it is empty; says whether it is gone.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub(crate) fn remove_folder(&self, path: &[u8]) -> Result<bool, StoreError> {
        match self.step().and_then(|()| fs::remove_dir(self.at(path))) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => Ok(false),
            Err(error) => Err(self.refused("remove", path, &error)),
        }
    }

    /// Has the disk keep all that was written to the file system, whoever wrote it.
    ///
    /// # Errors
    /// [`StoreError::Io`] and [`StoreError::Full`].
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        self.step()
            .and_then(|()| Ok(syncfs(&self.folder)?))
            .map_err(|error| refused("sync", &self.root, &error))
    }

    /// Writes a file of the store's folder so that it is there whole, on the disk, or not at all. `fill` gets the file
    /// that is renamed in the end.
    ///
    /// # Errors
    /// [`StoreError::Io`] and [`StoreError::Full`].
    pub(crate) fn write_whole(
        &self,
        name: &str,
        unfinished: &str,
        fill: &mut dyn FnMut(&mut File) -> io::Result<()>,
    ) -> Result<(), StoreError> {
        let (at, unfinished) = (self.root.join(name), self.root.join(unfinished));
        let mut write = || {
            self.step()?;
            let mut file = File::create(&unfinished)?;
            self.step()?;
            fill(&mut file)?;
            self.step()?;
            file.sync_all()?;
            self.step()?;
            fs::rename(&unfinished, &at)?;
            self.step()?;
            self.folder.sync_all()
        };
        write().map_err(|error| refused("write", &at, &error))
    }

    /// Replaces a file of the store's folder that may be lost.
    ///
    /// # Errors
    /// [`StoreError::Io`] and [`StoreError::Full`].
    pub(crate) fn write_plain(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let at = self.root.join(name);
        self.step()
            .and_then(|()| fs::write(&at, bytes))
            .map_err(|error| refused("write", &at, &error))
    }

    /// Removes a file of the store's folder, whether or not it is there.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub(crate) fn remove_plain(&self, name: &str) -> Result<(), StoreError> {
        let at = self.root.join(name);
        match self.step().and_then(|()| fs::remove_file(&at)) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(refused("remove", &at, &error)),
        }
    }
}
