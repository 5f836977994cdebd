//! Generations: which objects the machine may have lost something of.
//!
//! A generation is what happens to a server's objects between two starts of its machine. While it lasts, what
//! was written is there, synced or not, also for a server that was killed and started again: the system
//! keeps it in memory. With the next start of the machine it is *lost*: what was not synced may be missing.
//! It stays lost until every object has been looked at (see [`super::sums`]).
//!
//! Generation 0 stands for objects of which nothing is known, as they have no header: it is lost with every
//! other one, and from the start where there are objects from before there were checksums.
//!
//! `generations.json` in the directory of the objects says which one it is. It is on disk before
//! anything of a generation is.

use super::objects::sync_directory;
use pandofs_wire::hello::Machine;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Where Linux tells which start of which machine this is.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const FILE: &str = "generations.json";
/// Version of the file.
const FORMAT: u32 = 1;

/// The contents of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    format: u32,
    generation: u64,
    /// The start of the machine that it belongs to, in Linux's words.
    boot: String,
    lost: BTreeSet<u64>,
    /// CRC-32C of the other fields, see [`Record::sum`].
    sum: u32,
}

impl Record {
    /// Of the format, the generation, the start and the lost ones, each followed by a space.
    fn sum(&self) -> u32 {
        let mut text = format!("{} {} {} ", self.format, self.generation, self.boot);
        for lost in &self.lost {
            text.push_str(&format!("{lost} "));
        }
        crc32c::crc32c(text.as_bytes())
    }
}

/// The present generation, and those that are lost.
#[derive(Debug)]
pub(crate) struct Generations {
    root: PathBuf,
    current: u64,
    record: Mutex<Record>,
}

impl Generations {
    /// Those of the objects below `root`. `is_new`: there never were any.
    ///
    /// # Errors
    /// The system's; what is wrong with the file.
    pub(crate) fn open(root: &Path, is_new: bool) -> io::Result<Generations> {
        let boot = boot_id()?;
        Generations::open_at(root, is_new, &boot)
    }

    fn open_at(root: &Path, is_new: bool, boot: &str) -> io::Result<Generations> {
        let path = root.join(FILE);
        let found = match fs::read_to_string(&path) {
            Ok(text) => Some(parse(&text).map_err(|why| {
                let why = format!(
                    "{}: {why}; put it back as it was, or remove it: what does not fit its \
                     checksum is then believed once",
                    path.display()
                );
                io::Error::new(ErrorKind::InvalidData, why)
            })?),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let record = match found {
            Some(record) if record.boot == boot => record,
            Some(mut record) => {
                record.lost.extend([0, record.generation]);
                record.generation += 1;
                record.boot = boot.to_owned();
                tracing::warn!(
                    "the machine was started since generation {} of the data objects below {}: \
                     blocks that were not synced before are taken as they are",
                    record.generation - 1,
                    root.display()
                );
                write(root, &mut record)?;
                record
            }
            None => {
                let mut record = Record {
                    format: FORMAT,
                    generation: 1,
                    boot: boot.to_owned(),
                    lost: if is_new { [].into() } else { [0].into() },
                    sum: 0,
                };
                write(root, &mut record)?;
                record
            }
        };
        Ok(Generations {
            root: root.to_owned(),
            current: record.generation,
            record: Mutex::new(record),
        })
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn current(&self) -> u64 {
        self.current
    }

    /// Returns the generation as clients get it. A record that was removed counts from 1 again:
    /// then it is the start of the machine that makes the difference.
    pub(crate) fn machine(&self) -> Machine {
        let boot = crc32c::crc32c(self.record().boot.as_bytes());
        Machine(self.current << 32 | u64::from(boot))
    }

    pub(crate) fn is_lost(&self, generation: u64) -> bool {
        self.record().lost.contains(&generation)
    }

    /// Whether there are any that are lost.
    pub(crate) fn any_lost(&self) -> bool {
        !self.record().lost.is_empty()
    }

    /// None is lost any more: no object says that it is of one, and that is on disk.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn forget_lost(&self) -> io::Result<()> {
        let mut record = self.record();
        let mut without = record.clone();
        without.lost.clear();
        write(&self.root, &mut without)?;
        *record = without;
        Ok(())
    }
}

fn parse(text: &str) -> Result<Record, String> {
    let record: Record = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if record.format != FORMAT {
        return Err(format!(
            "it has format {}, and this program reads format {FORMAT}",
            record.format
        ));
    }
    if record.sum != record.sum() {
        return Err("it does not fit its checksum".to_owned());
    }
    Ok(record)
}

/// Which start of which machine this is.
///
/// # Errors
/// The system's.
pub(super) fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string(BOOT_ID)?.trim_end().to_owned())
}

/// Writes it so that a reader sees the old one or the new one; it is on disk when this returns.
fn write(root: &Path, record: &mut Record) -> io::Result<()> {
    record.sum = record.sum();
    let mut text = serde_json::to_string_pretty(record).map_err(io::Error::other)?;
    text.push('\n');
    let path = root.join(FILE);
    let unfinished = path.with_extension("new");
    let mut file = File::create(&unfinished)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&unfinished, &path)?;
    sync_directory(root)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    #[test]
    fn the_file_is_pinned() {
        let dir = TempDir::new().unwrap();
        let open = |boot| Generations::open_at(dir.path(), true, boot).unwrap();
        assert_eq!(open("a").current(), 1);
        assert_eq!(open("b").current(), 2);
        let text = fs::read_to_string(dir.path().join(FILE)).unwrap();
        assert_eq!(
            text,
            "{\n  \"format\": 1,\n  \"generation\": 2,\n  \"boot\": \"b\",\n  \"lost\": [\n    0,\n    1\n  ],\n  \
             \"sum\": 2424026881\n}\n"
        );
    }

    #[test]
    fn a_start_of_the_machine_loses_what_was_before() {
        let dir = TempDir::new().unwrap();
        let open = |boot| Generations::open_at(dir.path(), true, boot).unwrap();
        let first = open("a");
        assert!(!first.any_lost() && !first.is_lost(0) && !first.is_lost(1));
        assert_eq!(open("a").current(), 1);
        let second = open("b");
        assert_eq!(second.current(), 2);
        assert!(second.is_lost(0) && second.is_lost(1) && !second.is_lost(2));
        let third = open("c");
        assert!(third.is_lost(1) && third.is_lost(2));
        third.forget_lost().unwrap();
        let third = open("c");
        assert!(third.current() == 3 && !third.any_lost());
        let machines = [second.machine(), third.machine(), open("c").machine()];
        assert!(machines[0] != machines[1] && machines[1] == machines[2]);
        // This machine is one, too.
        let here = Generations::open(dir.path(), true).unwrap();
        assert!(here.current() == 4 && here.is_lost(3));
    }

    #[test]
    fn objects_from_before_there_were_checksums_are_of_a_lost_generation() {
        let dir = TempDir::new().unwrap();
        let generations = Generations::open_at(dir.path(), false, "a").unwrap();
        assert!(generations.is_lost(0) && !generations.is_lost(1));
    }

    #[test]
    fn a_record_that_was_removed_does_not_make_one_start_of_the_machine_look_like_another() {
        let dir = TempDir::new().unwrap();
        let first = Generations::open_at(dir.path(), true, "a").unwrap();
        fs::remove_file(dir.path().join(FILE)).unwrap();
        let second = Generations::open_at(dir.path(), true, "b").unwrap();
        assert_eq!(first.current(), second.current());
        assert_ne!(first.machine(), second.machine());
    }

    #[test]
    fn a_damaged_file_is_refused_and_named() {
        let dir = TempDir::new().unwrap();
        drop(Generations::open_at(dir.path(), true, "a").unwrap());
        let path = dir.path().join(FILE);
        let text = fs::read_to_string(&path).unwrap();
        for (from, to) in [
            ("\"format\": 1", "\"format\": 2"),
            ("\"generation\": 1", "\"generation\": 3"),
            ("\"boot\": \"a\"", "\"boot\": \"c\""),
            ("{", ""),
        ] {
            fs::write(&path, text.replacen(from, to, 1)).unwrap();
            let error = Generations::open_at(dir.path(), true, "a").unwrap_err();
            assert!(error.to_string().contains(FILE), "{error}");
        }
    }
}
