//! Batches of calls by paths, each of which succeeds or fails by itself.

use crate::failure::{Failure, Result};
use crate::mount::{Ending, Mount};
use pandofs_client::{ClientError, FileToRead, NewFile, Node};
use pandofs_types::{Attr, FileKind, FsError, Ino, Name, NameError};
use std::collections::HashMap;

/// A directory and a name in it, or why a path does not lead there.
type Leaf = Result<(Ino, Name)>;

impl Mount {
    /// As stat(2) of each path, or as lstat(2).
    ///
    /// # Errors
    /// Of each path: as stat(2).
    pub fn stat_many(&self, paths: &[&[u8]], follow: bool) -> Vec<Result<Attr>> {
        let leaves = self.leaves(paths, Ending::Dir);
        let (client, caller) = (self.client(), &self.caller);
        let mut found = client.stat_many(caller, &names_of(&leaves)).into_iter();
        let each = leaves.iter().zip(paths).map(|(leaf, path)| {
            let node = answer_of(leaf, &mut found);
            let is_plain = |node: &Node| node.kind != FileKind::Symlink && !path.ends_with(b"/");
            match node {
                Ok(node) if is_plain(&node) || (!follow && !path.ends_with(b"/")) => Ok(node.attr),
                Ok(_) | Err(Failure::InUse) => self.stat(path, follow),
                Err(failure) => Err(failure),
            }
        });
        each.collect()
    }

    /// The first bytes of each regular file, no more than so many of it, without opening it.
    ///
    /// # Errors
    /// Of each path: as open(2) and read(2); `Special` for what only the kernel can read.
    pub fn read_many(&self, files: &[(&[u8], usize)]) -> Vec<Result<Vec<u8>>> {
        let paths: Vec<&[u8]> = files.iter().map(|(path, _)| *path).collect();
        let leaves = self.leaves(&paths, Ending::NoDir);
        let there = leaves.iter().zip(files).filter_map(|(leaf, &(_, most))| {
            let (dir, name) = leaf.as_ref().ok()?;
            Some(FileToRead {
                dir: *dir,
                name,
                most,
            })
        });
        let wanted: Vec<FileToRead<'_>> = there.collect();
        let (client, caller) = (self.client(), &self.caller);
        let mut read = client.open_read_many(caller, &wanted).into_iter();
        let each = leaves.iter().zip(files).map(|(leaf, &(path, most))| {
            match answer_of(leaf, &mut read) {
                // It may be a link.
                Err(Failure::Client(ClientError::Fs(FsError::Invalid)) | Failure::InUse) => {
                    self.read_first(path, most)
                }
                bytes => bytes,
            }
        });
        each.collect()
    }

    /// Makes files of these paths with these bytes, and leaves them closed. One that could not be given all of its bytes is
    /// there all the same, unless somebody else has removed it.
    ///
    /// # Errors
    /// Of each path: as open(2) with `O_CREAT` and `O_EXCL`, and as write(2).
    pub fn create_many(&self, files: &[(&[u8], &[u8])], mode: u32) -> Vec<Result<()>> {
        let paths: Vec<&[u8]> = files.iter().map(|(path, _)| *path).collect();
        let leaves = self.leaves(&paths, Ending::NoDir);
        let mode = self.new_mode(mode);
        let there = leaves
            .iter()
            .zip(files)
            .filter_map(|(leaf, (_, contents))| {
                let (dir, name) = leaf.as_ref().ok()?;
                Some(NewFile {
                    dir: *dir,
                    name,
                    mode,
                    contents,
                })
            });
        let files: Vec<NewFile<'_>> = there.collect();
        let mut made = self.client().create_many(&self.caller, &files).into_iter();
        let each = leaves.iter().map(|leaf| match answer_of(leaf, &mut made) {
            Err(Failure::InUse) => Err(FsError::IsDir.into()),
            made => made.map(|_| ()),
        });
        each.collect()
    }

    /// As unlink(2) of each path.
    ///
    /// # Errors
    /// Of each path: as unlink(2).
    pub fn unlink_many(&self, paths: &[&[u8]]) -> Vec<Result<()>> {
        let leaves = self.leaves(paths, Ending::NoDir);
        let (client, caller) = (self.client(), &self.caller);
        let mut removed = client.remove_many(caller, &names_of(&leaves)).into_iter();
        let each = leaves
            .iter()
            .map(|leaf| match answer_of(leaf, &mut removed) {
                Err(Failure::InUse) => Err(FsError::IsDir.into()),
                removed => removed.map(|_| ()),
            });
        each.collect()
    }

    /// The directory and the name of each path; what paths have in common is gone through once.
    fn leaves(&self, paths: &[&[u8]], ending: Ending) -> Vec<Leaf> {
        let mut parents: HashMap<&[u8], Ino> = HashMap::new();
        let each = paths.iter().map(|&path| {
            if path.is_empty() {
                return Err(FsError::NotFound.into());
            }
            let Some((parent, name)) = plain(path) else {
                return self.leaf(self.base, path, ending);
            };
            if let Some(&dir) = parents.get(parent) {
                return Ok((dir, Name::new(name).map_err(bad_name)?));
            }
            let leaf = self.leaf(self.base, path, ending)?;
            parents.insert(parent, leaf.0);
            Ok(leaf)
        });
        each.collect()
    }
}

/// As the walk of a path has it.
fn bad_name(error: NameError) -> FsError {
    match error {
        NameError::TooLong(_) => FsError::NameTooLong,
        NameError::Empty | NameError::ForbiddenByte | NameError::Dots => FsError::Invalid,
    }
}

/// The part of a path before its last name, and that name, if it ends in one.
fn plain(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = path
        .iter()
        .rposition(|&byte| byte == b'/')
        .map_or(0, |at| at + 1);
    let (parent, name) = path.split_at(at);
    (!name.is_empty() && name != b"." && name != b"..").then_some((parent, name))
}

fn names_of(leaves: &[Leaf]) -> Vec<(Ino, &Name)> {
    let there = leaves.iter().flatten();
    there.map(|(dir, name)| (*dir, name)).collect()
}

/// The answer about this leaf: the next of those that were asked for, if it was.
fn answer_of<T>(
    leaf: &Leaf,
    answers: &mut impl Iterator<Item = pandofs_client::Result<T>>,
) -> Result<T> {
    match leaf {
        Err(failure) => Err(failure.clone()),
        Ok(_) => match answers.next() {
            Some(answer) => Ok(answer?),
            None => unreachable!("each name was asked about"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_a_last_name_or_not() {
        let split = |path: &'static str| plain(path.as_bytes());
        assert_eq!(split("/a/b"), Some((&b"/a/"[..], &b"b"[..])));
        assert_eq!(split("a"), Some((&b""[..], &b"a"[..])));
        for path in ["/", "a/", "a/.", "..", ""] {
            assert_eq!(split(path), None, "{path}");
        }
    }
}
