//! Format version of a store: the file `FORMAT` in its directory.
//!
//! It has one line of text, `pandofs-store 1`.

use pandofs_storage::store::StoreError;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

const FILE: &str = "FORMAT";
/// The marker on its way; renamed when it is on the disk.
const UNFINISHED_FILE: &str = "FORMAT.new";
/// The format that this version writes and reads.
const CURRENT: &str = "pandofs-store 1";
/// Bytes of a marker that are looked at; more cannot be one.
const MAX_MARKER_BYTES: u64 = 64;
/// Files that RocksDB may have made, and no others, when making a store was cut short.
const BEGUN: [&str; 7] = [
    "LOG",
    "LOCK",
    "IDENTITY",
    "CURRENT",
    "MANIFEST-",
    "OPTIONS-",
    UNFINISHED_FILE,
];
/// How its numbered files end, apart from tables: its temporary files and its empty log.
const BEGUN_ENDS: [&str; 2] = [".dbtmp", ".log"];

/// Makes the directory `path` if need be and says whether a store has to be made in it (true) or
/// is there (false).
pub(crate) fn prepare(path: &Path) -> Result<bool, StoreError> {
    fs::create_dir_all(path).map_err(|error| io_failure("make", path, &error))?;
    if let Some(found) = read(path)? {
        expect_current(path, found)?;
        return Ok(false);
    }
    let entries = fs::read_dir(path).map_err(|error| io_failure("list", path, &error))?;
    for entry in entries {
        let entry = entry.map_err(|error| io_failure("list", path, &error))?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let begun = BEGUN.iter().any(|prefix| name.starts_with(prefix))
            || name.starts_with(|first: char| first.is_ascii_digit())
                && BEGUN_ENDS.iter().any(|suffix| name.ends_with(suffix));
        if !begun {
            return Err(unmarked(path));
        }
    }
    Ok(true)
}

/// Checks that there is a store of this version in the directory `path`.
pub(crate) fn check(path: &Path) -> Result<(), StoreError> {
    fs::read_dir(path).map_err(|error| io_failure("list", path, &error))?;
    match read(path)? {
        Some(found) => expect_current(path, found),
        None => Err(unmarked(path)),
    }
}

/// Marks the directory `path` as a store of this version; the marker is on the disk when this
/// returns.
pub(crate) fn mark(path: &Path) -> Result<(), StoreError> {
    let unfinished = path.join(UNFINISHED_FILE);
    let write = || -> io::Result<()> {
        let mut file = File::create(&unfinished)?;
        writeln!(file, "{CURRENT}")?;
        file.sync_all()?;
        fs::rename(&unfinished, path.join(FILE))?;
        File::open(path)?.sync_all()
    };
    write().map_err(|error| io_failure("mark", path, &error))
}

/// The error for a directory that holds something, but no marker.
pub(crate) fn unmarked(path: &Path) -> StoreError {
    wrong_format(path, format!("no {FILE} file"))
}

fn read(path: &Path) -> Result<Option<String>, StoreError> {
    let file = match File::open(path.join(FILE)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_failure("read", &path.join(FILE), &error)),
    };
    let mut bytes = Vec::new();
    file.take(MAX_MARKER_BYTES)
        .read_to_end(&mut bytes)
        .map_err(|error| io_failure("read", &path.join(FILE), &error))?;
    Ok(Some(
        String::from_utf8_lossy(&bytes)
            .trim_end()
            .escape_debug()
            .to_string(),
    ))
}

fn expect_current(path: &Path, found: String) -> Result<(), StoreError> {
    if found == CURRENT {
        Ok(())
    } else {
        Err(wrong_format(path, found))
    }
}

fn wrong_format(path: &Path, found: String) -> StoreError {
    StoreError::WrongFormat {
        path: path.to_path_buf(),
        found,
        expected: CURRENT.to_string(),
    }
}

fn io_failure(action: &str, path: &Path, error: &io::Error) -> StoreError {
    if matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    ) {
        return StoreError::Full;
    }
    let what = format!("cannot {action} {}", path.display());
    StoreError::Io {
        what,
        reason: error.to_string(),
    }
}
