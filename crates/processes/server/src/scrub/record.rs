//! Progress of scrubbing over restarts of the server: `scrub.json` beside the data objects.
//!
//! It is not synced: an older one costs some reading, and so does none.

use super::now;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

const FILE: &str = "scrub.json";
/// Version of the file.
const FORMAT: u32 = 1;

/// The contents of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    format: u32,
    /// The directory of objects that the pass under way goes on with; 0 when there is none.
    pub next: u8,
    /// When the last pass ended, in seconds since 1970. Before the first one: when the server was made.
    pub ended: u64,
}

impl Record {
    /// Reads the record below `root`; one that cannot be understood counts as none.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn read(root: &Path) -> io::Result<Record> {
        let path = root.join(FILE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            Err(error) if error.kind() == ErrorKind::InvalidData => String::new(),
            Err(error) => return Err(error),
        };
        let read = serde_json::from_str(&text).ok();
        if let Some(record) = read.filter(|record: &Record| record.format == FORMAT) {
            return Ok(record);
        }
        let record = Record {
            format: FORMAT,
            next: 0,
            ended: now().as_secs(),
        };
        record.write(root)?;
        Ok(record)
    }

    /// # Errors
    /// The system's.
    pub(super) fn write(&self, root: &Path) -> io::Result<()> {
        let mut text = serde_json::to_string_pretty(self).map_err(io::Error::other)?;
        text.push('\n');
        let path = root.join(FILE);
        let unfinished = path.with_extension("new");
        fs::write(&unfinished, text)?;
        fs::rename(&unfinished, &path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    #[test]
    fn the_file_is_pinned_and_what_is_no_record_is_replaced() {
        let dir = TempDir::new().unwrap();
        let record = Record {
            format: FORMAT,
            next: 3,
            ended: 1_700_000_000,
        };
        record.write(dir.path()).unwrap();
        let path = dir.path().join(FILE);
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            "{\n  \"format\": 1,\n  \"next\": 3,\n  \"ended\": 1700000000\n}\n"
        );
        assert_eq!(Record::read(dir.path()).unwrap(), record);
        let before = now().as_secs();
        for text in ["", "{}", "{\"format\":2,\"next\":3,\"ended\":1}"] {
            fs::write(&path, text).unwrap();
            let record = Record::read(dir.path()).unwrap();
            assert!(record.next == 0 && record.ended >= before);
            assert_eq!(Record::read(dir.path()).unwrap(), record);
        }
    }
}
