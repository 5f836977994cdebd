//! Checkpoint files, from which a walk of days goes on after any interruption.
//!
//! A file is a line of JSON ([`Head`]), and then what `pandofs_walk_fs::Saved` writes, which is
//! nothing else if several processes have written it together: `docs/tree-walk.md` has every byte;
//! and the BLAKE3 digest of both. It is written beside the one before and takes its place at once,
//! so that there is always a whole one. It is for the version that wrote it.

use anyhow::{Context, Result, bail};
use blake3::{Hasher, OUT_LEN};
use pandofs_walk_fs::Saved;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom, Take, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Endings of files beside a checkpoint: the next one while it is written, items that are left,
/// what is listed, and names of files with several names.
const NEW: &str = ".new";
const ITEMS: &str = ".items";
pub(crate) const LIST: &str = ".list";
pub(crate) const LINKS: &str = ".links";

/// Returns the path of a file that belongs to a checkpoint.
pub(crate) fn beside(checkpoint: &Path, ending: &str) -> PathBuf {
    let mut name = checkpoint.to_owned().into_os_string();
    name.push(ending);
    name.into()
}

/// Before anything is made: all of these files are written over, and removed in the end. A file
/// that is there at a start may be an earlier run's, which would be lost, or anything.
///
/// # Errors
/// When one is there at a start, or there is no checkpoint to go on from.
pub(crate) fn refuse(checkpoint: &Path, goes_on: bool) -> Result<()> {
    let name = checkpoint.display();
    if goes_on {
        let found = std::fs::symlink_metadata(checkpoint);
        return match found {
            Ok(found) if !found.is_file() => bail!("{name} is no checkpoint: no regular file"),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                bail!("{name}: there is no checkpoint to go on from: begin without --resume")
            }
            found => found.map(|_| ()).with_context(|| name.to_string()),
        };
    }
    let others = [NEW, ITEMS, LIST, LINKS].map(|ending| beside(checkpoint, ending));
    for path in std::iter::once(checkpoint).chain(others.iter().map(PathBuf::as_path)) {
        if std::fs::symlink_metadata(path).is_ok() {
            bail!(
                "{}: this is there already, and --checkpoint would write over it: go on with --resume if it is of an earlier run, or \
                 name another file, or remove it",
                path.display()
            );
        }
    }
    Ok(())
}

/// Header before the items.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head<T> {
    version: String,
    /// The request: a walk cannot go on as another one.
    asked: String,
    /// Findings so far.
    pub found: T,
}

/// The file of a walk.
pub(crate) struct Checkpoint {
    path: PathBuf,
    asked: String,
}

impl Checkpoint {
    /// `asked` is what was asked for, but for how fast.
    pub(crate) fn new(path: &Path, asked: String) -> Checkpoint {
        Checkpoint {
            // A tool may go to another directory meanwhile.
            path: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
            asked,
        }
    }

    fn beside(&self) -> PathBuf {
        beside(&self.path, NEW)
    }

    fn items(&self) -> PathBuf {
        beside(&self.path, ITEMS)
    }

    /// An empty file where items go.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn begin(&self) -> Result<File> {
        let path = self.items();
        File::create(&path).with_context(|| path.display().to_string())
    }

    /// Writes what was found, and the items, in the place of what was written before.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn write<T: Serialize>(&self, found: T) -> Result<()> {
        let path = self.beside();
        let write = || -> Result<()> {
            let mut file = File::create(&path)?;
            let head = Head {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                asked: self.asked.clone(),
                found,
            };
            file.write_all((serde_json::to_string(&head)? + "\n").as_bytes())?;
            std::io::copy(&mut File::open(self.items())?, &mut file)?;
            let digest = Hasher::new().update_reader(File::open(&path)?)?.finalize();
            file.write_all(digest.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&path, &self.path)?;
            Ok(())
        };
        write().with_context(|| path.display().to_string())
    }

    /// Returns the findings, and a reader of the items.
    ///
    /// # Errors
    /// When there is no such file, or it is damaged, or of another walk or version.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<(T, Take<BufReader<File>>)> {
        let name = self.path.display();
        let file = File::open(&self.path).with_context(|| name.to_string())?;
        let mut reader = BufReader::new(file);
        let mut line = String::new();
        reader
            .read_line(&mut line)
            .with_context(|| name.to_string())?;
        let head: Head<T> =
            serde_json::from_str(&line).with_context(|| format!("{name} is no checkpoint"))?;
        if head.version != env!("CARGO_PKG_VERSION") {
            bail!("{name} was written by version {}", head.version);
        }
        if head.asked != self.asked {
            bail!("{name} is of another walk: {}", head.asked);
        }
        let start = reader.stream_position()?;
        let length = reader.seek(SeekFrom::End(0))?;
        let Some(end) = length
            .checked_sub(OUT_LEN as u64)
            .filter(|end| *end >= start)
        else {
            bail!("{name} is not whole");
        };
        let mut hasher = Hasher::new();
        reader.rewind()?;
        hasher.update_reader((&mut reader).take(end))?;
        let mut digest = [0; OUT_LEN];
        reader.read_exact(&mut digest)?;
        if hasher.finalize() != digest {
            bail!("{name} is damaged");
        }
        reader.seek(SeekFrom::Start(start))?;
        Ok((head.found, reader.take(end - start)))
    }

    /// Removes all of it, when the walk has come to its end.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub(crate) fn remove(&self) -> Result<()> {
        for path in [self.items(), self.beside(), self.path.clone()] {
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(error).with_context(|| path.display().to_string());
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Interrupts a walk after some time, unless it is dropped before.
pub(crate) struct Timer {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Timer {
    /// # Errors
    /// When there can be no more threads.
    pub(crate) fn start(saved: &Arc<Saved>, after: Duration) -> Result<Timer> {
        let (stop, stopped) = channel();
        let saved = Arc::clone(saved);
        let thread = std::thread::Builder::new().name("checkpoint".into());
        let thread = thread.spawn(move || {
            if let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(after) {
                saved.ask();
            }
        })?;
        Ok(Timer {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_that_is_damaged_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("checkpoint");
        let checkpoint = Checkpoint::new(&path, "walk /a".into());
        checkpoint.begin().unwrap().write_all(b"items").unwrap();
        checkpoint.write(7_u64).unwrap();
        let mut items = Vec::new();
        let (found, mut rest) = checkpoint.read::<u64>().unwrap();
        rest.read_to_end(&mut items).unwrap();
        assert_eq!((found, &items[..]), (7, &b"items"[..]));
        let bytes = std::fs::read(&path).unwrap();
        for at in 0..bytes.len() {
            std::fs::write(&path, &bytes[..at]).unwrap();
            assert!(checkpoint.read::<u64>().is_err(), "the first {at} bytes");
            let mut other = bytes.clone();
            other[at] ^= 1;
            std::fs::write(&path, other).unwrap();
            assert!(checkpoint.read::<u64>().is_err(), "byte {at}");
        }
    }

    #[test]
    fn a_checkpoint_is_of_one_walk() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("checkpoint");
        let checkpoint = Checkpoint::new(&path, "walk /a".into());
        let saved = Saved::new(checkpoint.begin().unwrap());
        assert_eq!(saved.finish::<()>().unwrap(), 0);
        checkpoint.write(7_u64).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let (text, digest) = bytes.split_last_chunk::<OUT_LEN>().unwrap();
        let version = env!("CARGO_PKG_VERSION");
        let golden = format!("{{\"version\":\"{version}\",\"asked\":\"walk /a\",\"found\":7}}\n");
        assert_eq!(text, golden.as_bytes());
        assert_eq!(blake3::hash(text), *digest);
        assert_eq!(checkpoint.read::<u64>().unwrap().0, 7);
        let other = Checkpoint::new(&path, "walk /b".into());
        assert!(other.read::<u64>().is_err());
        std::fs::write(&path, "something else\n").unwrap();
        assert!(checkpoint.read::<u64>().is_err());
        checkpoint.remove().unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        assert!(checkpoint.read::<u64>().is_err());
    }
}
