//! Which objects there are.

use super::objects::{SUMS_SUFFIX, directory};
use pandofs_api::AdminReply;
use pandofs_types::limits::MAX_OBJECTS_LISTED;
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

/// What a file in a directory of objects is, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    Object(u64),
    /// The checksums of the object with this number.
    Sums(u64),
}

/// `None` for what should not be there, which is logged.
pub(super) fn name_of(entry: &fs::DirEntry) -> Option<Name> {
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
