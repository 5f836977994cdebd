//! Format version of a store: the file `FORMAT` in its folder, and what a local file system has to be able to.
//!
//! It has one line of text, `pandofs-store-directories 1`.

use crate::failure::refused;
use crate::files::Files;
use crate::limits::MAX_COMPONENT_BYTES;
use crate::place::{ATTRIBUTE, TOPS};
use pandofs_storage::store::StoreError;
use rustix::fs::{XattrFlags, lsetxattr};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

const FILE: &str = "FORMAT";
/// The marker on its way; renamed when it is on the disk.
const UNFINISHED_FILE: &str = "FORMAT.new";
/// The format that this version writes and reads.
const CURRENT: &str = "pandofs-store-directories 1";
/// Bytes of a marker that are looked at; more cannot be one.
const MAX_MARKER_BYTES: u64 = 64;
/// How the names of files begin by which the file system is tried.
const PROBE: &str = "probe";

/// Says whether a store has to be made in the folder `path` (true) or is there (false).
pub(crate) fn prepare(path: &Path) -> Result<bool, StoreError> {
    if let Some(found) = read(path)? {
        return if found == CURRENT {
            Ok(false)
        } else {
            Err(wrong_format(path, found))
        };
    }
    let failed = |error: &io::Error| refused("list", path, error);
    for entry in fs::read_dir(path).map_err(|error| failed(&error))? {
        let name = entry.map_err(|error| failed(&error))?.file_name();
        let is_top = TOPS.iter().any(|top| name == *top);
        let begun = if is_top {
            let mut inside = fs::read_dir(path.join(&name)).map_err(|error| failed(&error))?;
            inside.next().is_none()
        } else {
            name == UNFINISHED_FILE || name.as_bytes().starts_with(PROBE.as_bytes())
        };
        if !begun {
            return Err(wrong_format(path, format!("no {FILE} file")));
        }
    }
    Ok(true)
}

/// Makes the folders of a new store and marks it; the marker is on the disk when this returns.
pub(crate) fn make(files: &Files) -> Result<(), StoreError> {
    probe(files.root())?;
    for top in TOPS {
        match fs::create_dir(files.root().join(top)) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(refused("make", &files.root().join(top), &error)),
        }
    }
    files.write_whole(FILE, UNFINISHED_FILE, &mut |file| {
        writeln!(file, "{CURRENT}")
    })
}

/// Checks that the folders of a store are there.
pub(crate) fn check(files: &Files) -> Result<(), StoreError> {
    for top in TOPS {
        let at = files.root().join(top);
        if !at.is_dir() {
            return Err(crate::failure::corrupt(
                &at,
                "the store has lost this folder",
            ));
        }
    }
    Ok(())
}

/// Tries what a file system has to be able to: names of any bytes but `/` and NUL, of 255 bytes, `A` and `a` two of them;
/// and attributes of users.
fn probe(root: &Path) -> Result<(), StoreError> {
    let at = |ending: &[u8]| root.join(OsString::from_vec([PROBE.as_bytes(), ending].concat()));
    let long = vec![b'x'; MAX_COMPONENT_BYTES - PROBE.len()];
    for ending in [b"".as_slice(), b"\xff\xfe", &long] {
        File::create(at(ending)).map_err(|error| refused("make", &at(ending), &error))?;
    }
    let other_case = root.join(PROBE.to_uppercase());
    if fs::symlink_metadata(&other_case).is_ok() {
        return Err(StoreError::Io {
            what: format!("cannot keep a store in {}", root.display()),
            reason: "its file system does not tell names apart that differ in case".to_owned(),
        });
    }
    if let Err(error) = lsetxattr(at(b""), ATTRIBUTE, b"value", XattrFlags::empty()) {
        return Err(StoreError::Io {
            what: format!("cannot keep a store in {}", root.display()),
            reason: format!("its file system takes no extended attributes of users: {error}"),
        });
    }
    let failed = |error: io::Error| refused("tidy", root, &error);
    for entry in fs::read_dir(root).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        if is_probe(&name) {
            fs::remove_file(root.join(&name)).map_err(failed)?;
        }
    }
    Ok(())
}

fn is_probe(name: &OsStr) -> bool {
    name.as_bytes().starts_with(PROBE.as_bytes())
}

fn read(path: &Path) -> Result<Option<String>, StoreError> {
    let at = path.join(FILE);
    let file = match File::open(&at) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(refused("read", &at, &error)),
    };
    let mut bytes = Vec::new();
    file.take(MAX_MARKER_BYTES)
        .read_to_end(&mut bytes)
        .map_err(|error| refused("read", &at, &error))?;
    Ok(Some(
        String::from_utf8_lossy(&bytes)
            .trim_end()
            .escape_debug()
            .to_string(),
    ))
}

fn wrong_format(path: &Path, found: String) -> StoreError {
    StoreError::WrongFormat {
        path: path.to_path_buf(),
        found,
        expected: CURRENT.to_string(),
    }
}
