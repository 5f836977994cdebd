//! Format version of a log's directory: the file `FORMAT`.

use crate::errors::io_error;
use pandofs_storage::log::LogError;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::Path;

pub(crate) const FILE_NAME: &str = "FORMAT";
const NEW_FILE_NAME: &str = "FORMAT.new";
const CONTENT: &str = "pandofs-log 1\n";
/// Bytes of a foreign `FORMAT` that an error repeats.
const MAX_SHOWN_BYTES: usize = 64;

/// Opens `dir` for this process alone, making it a log's directory when it is new or empty. The
/// directory is in use until the file that is returned is dropped.
///
/// # Errors
/// [`LogError::InUse`], [`LogError::WrongFormat`] or the system's.
pub(crate) fn claim(dir: &Path) -> Result<File, LogError> {
    let io = |error: io::Error| io_error(dir, &error);
    fs::create_dir_all(dir).map_err(io)?;
    let lock = File::open(dir).map_err(io)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(LogError::InUse {
                path: dir.to_owned(),
            });
        }
        Err(TryLockError::Error(error)) => return Err(io(error)),
    }
    let path = dir.join(FILE_NAME);
    let found = match fs::read(&path) {
        Ok(found) => Some(found),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(io_error(&path, &error)),
    };
    let wrong = |found: String| LogError::WrongFormat {
        path: path.clone(),
        found,
        expected: CONTENT.trim_end().to_owned(),
    };
    match found {
        Some(found) if found == CONTENT.as_bytes() => {}
        Some(found) => {
            let shown = &found[..found.len().min(MAX_SHOWN_BYTES)];
            return Err(wrong(shown.trim_ascii_end().escape_ascii().to_string()));
        }
        None if is_empty(dir).map_err(io)? => make(dir).map_err(io)?,
        None => return Err(wrong("none".to_owned())),
    }
    Ok(lock)
}

/// Whether nothing is in `dir` but what a crash in [`make`] leaves.
fn is_empty(dir: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(dir)? {
        if entry?.file_name() != NEW_FILE_NAME {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Renames the file into place, so that it is never there with half its content.
fn make(dir: &Path) -> io::Result<()> {
    let new = dir.join(NEW_FILE_NAME);
    let mut file = File::create(&new)?;
    file.write_all(CONTENT.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, dir.join(FILE_NAME))?;
    sync_dir(dir)?;
    match dir.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync_dir(parent),
        _ => sync_dir(Path::new(".")),
    }
}

/// Syncs the names in `dir`.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_directory_becomes_a_log_and_stays_one() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("a/b");
        drop(claim(&log).unwrap());
        assert_eq!(fs::read(log.join("FORMAT")).unwrap(), b"pandofs-log 1\n");
        drop(claim(&log).unwrap());
    }

    #[test]
    fn a_crash_while_it_was_made_is_put_right() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("FORMAT.new"), "pando").unwrap();
        drop(claim(dir.path()).unwrap());
        assert_eq!(
            fs::read(dir.path().join("FORMAT")).unwrap(),
            CONTENT.as_bytes()
        );
    }

    #[test]
    fn other_formats_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("FORMAT");
        for (content, shown) in [
            (b"pandofs-log 2\n".to_vec(), "pandofs-log 2"),
            (b"\xff\n\n".to_vec(), "\\xff"),
            (Vec::new(), ""),
            (vec![b'x'; 1_000], &"x".repeat(64)),
        ] {
            fs::write(&path, content).unwrap();
            let error = claim(dir.path()).unwrap_err();
            let expected = LogError::WrongFormat {
                path: path.clone(),
                found: shown.to_owned(),
                expected: "pandofs-log 1".to_owned(),
            };
            assert_eq!(error, expected);
        }
        fs::remove_file(&path).unwrap();
        fs::write(dir.path().join("holiday.jpg"), "").unwrap();
        let error = claim(dir.path()).unwrap_err();
        assert!(matches!(error, LogError::WrongFormat { found, .. } if found == "none"));
        assert!(!path.exists(), "somebody else's directory was touched");
    }

    #[test]
    fn a_directory_has_one_owner() {
        let dir = tempfile::tempdir().unwrap();
        let owner = claim(dir.path()).unwrap();
        let expected = LogError::InUse {
            path: dir.path().to_owned(),
        };
        assert_eq!(claim(dir.path()).unwrap_err(), expected);
        drop(owner);
        drop(claim(dir.path()).unwrap());
    }
}
