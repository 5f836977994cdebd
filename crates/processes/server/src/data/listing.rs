//! List of the data objects of a server.

use super::objects::{SUMS_SUFFIX, directory};
use crate::limits::MAX_OBJECTS_LISTED;
use pandofs_api::AdminReply;
use pandofs_types::Ino;
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

/// The data objects below `root` after inode number `after` (0: from the start), at most `max`. Their
/// order is that of the last bytes of their numbers, then of the numbers.
pub(crate) fn list(root: &Path, after: u64, max: u32) -> AdminReply {
    let max = (max as usize).min(MAX_OBJECTS_LISTED);
    let mut objects = Vec::new();
    for last in after as u8..=u8::MAX {
        let directory = directory(root, last);
        let mut here = match list_directory(&directory) {
            Ok(here) => here,
            Err(error) => {
                return AdminReply::Failed(format!("cannot list {}: {error}", directory.display()));
            }
        };
        if last == after as u8 {
            here.retain(|&(number, _)| number > after);
        }
        here.sort_unstable();
        objects.append(&mut here);
        if objects.len() > max {
            objects.truncate(max);
            return AdminReply::Objects {
                objects,
                more: true,
            };
        }
    }
    AdminReply::Objects {
        objects,
        more: false,
    }
}

/// Inode numbers and bytes of those in one directory.
fn list_directory(directory: &Path) -> io::Result<Vec<(u64, u64)>> {
    let mut objects = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let Some(Name::Object(number)) = name_of(&entry) else {
            continue;
        };
        match entry.metadata() {
            Ok(metadata) => objects.push((number, metadata.len())),
            // Removed meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(objects)
}

/// Files of one directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    /// In ascending order.
    pub objects: Vec<Ino>,
    /// Checksums whose object is not there.
    pub sums_alone: Vec<Ino>,
}

/// Those below `root` whose numbers end with this byte.
pub(crate) fn names(root: &Path, last_byte: u8) -> io::Result<Names> {
    let (mut objects, mut sums) = (BTreeSet::new(), BTreeSet::new());
    for entry in fs::read_dir(directory(root, last_byte))? {
        match name_of(&entry?) {
            Some(Name::Object(number)) => objects.insert(Ino(number)),
            Some(Name::Sums(number)) => sums.insert(Ino(number)),
            None => false,
        };
    }
    Ok(Names {
        sums_alone: sums.difference(&objects).copied().collect(),
        objects: objects.into_iter().collect(),
    })
}

/// Kind of a file in a directory of objects, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    Object(u64),
    /// The checksums of the object with this number.
    Sums(u64),
}

/// `None` for what should not be there, which is logged.
fn name_of(entry: &fs::DirEntry) -> Option<Name> {
    let name = entry.file_name();
    let parsed = name.to_str().and_then(|name| {
        let (digits, make): (_, fn(u64) -> Name) = match name.strip_suffix(SUMS_SUFFIX) {
            Some(digits) => (digits, Name::Sums),
            None => (name, Name::Object),
        };
        Some(make(u64::from_str_radix(digits, 16).ok()?))
    });
    if parsed.is_none() {
        tracing::warn!("{} is no data object", entry.path().display());
    }
    parsed
}
