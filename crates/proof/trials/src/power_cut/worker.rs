//! A worker: one program with directories of its own in the mount, and a model of them.

use super::model::{Contents, Names, Renaming, SECTOR, Uncertain};
use crate::cluster::{CALLER, name};
use anyhow::{Context, Result};
use pandofs_client::Client;
use pandofs_types::Ino;
use rand::Rng;
use rand::rngs::StdRng;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Directories of each worker, so that some are on the server that loses power.
const DIRECTORIES: usize = 3;
const FILES: usize = 8;
/// Sectors of files that fit their inodes, and of others: several units on each server.
const SMALL: u64 = 8;
const LARGE: u64 = 1_024;
/// Sectors of one write at most.
const WRITE: u64 = 160;
/// Files that are kept open.
const OPEN: usize = 6;

struct Directory {
    path: PathBuf,
    handle: File,
    names: Uncertain<Names>,
    /// Something was answered with an error while the server was away: anything may be there.
    unknown: bool,
}

pub(super) struct Worker {
    random: StdRng,
    directories: Vec<Directory>,
    files: BTreeMap<u64, Contents>,
    open: BTreeMap<u64, File>,
    /// Writes and names so far.
    number: u64,
    pub tally: Tally,
    believes: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub operations: u64,
    pub syncs: u64,
    /// Syncs that failed after a loss; operations, too, where the disk lies.
    pub told: u64,
    /// Files and directories that were looked at.
    pub looked_at: u64,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Tally) {
        self.operations += other.operations;
        self.syncs += other.syncs;
        self.told += other.told;
        self.looked_at += other.looked_at;
    }
}

impl Worker {
    /// # Errors
    /// The file system's.
    pub(super) fn prepare(
        root: &Path,
        number: usize,
        random: StdRng,
        believes: bool,
    ) -> Result<Worker> {
        let directories = (0..DIRECTORIES)
            .map(|directory| {
                let path = root.join(format!("w{number}-{directory}"));
                fs::create_dir(&path)?;
                let handle = File::open(&path)?;
                handle.sync_all()?;
                Ok(Directory {
                    path,
                    handle,
                    names: Uncertain::certain(Names::new()),
                    unknown: false,
                })
            })
            .collect::<io::Result<_>>()
            .context("cannot make a worker's directories")?;
        Ok(Worker {
            random,
            directories,
            files: BTreeMap::new(),
            open: BTreeMap::new(),
            number: 0,
            tally: Tally::default(),
            believes,
        })
    }

    /// Works until the power is lost.
    ///
    /// # Errors
    /// A call that failed before that.
    pub(super) fn run(&mut self, lost: &AtomicBool) -> Result<()> {
        while !lost.load(Ordering::SeqCst) {
            self.tally.operations += 1;
            let which = self.random.random_range(0..DIRECTORIES);
            let names = self.directories[which].names.newest();
            let count = names.len();
            let picked = (count > 0).then(|| self.random.random_range(0..count));
            let picked = picked.and_then(|at| names.iter().nth(at));
            let picked = picked.map(|(name, ino)| (name.clone(), *ino));
            let what = self.random.random_range(0..100);
            let done = match picked {
                Some((name, ino)) if count >= FILES || what < 86 => match what {
                    0..45 => self.write(which, &name, ino),
                    45..53 => self.truncate(which, &name, ino),
                    53..68 => self.sync_file(which, &name, ino),
                    68..76 => self.sync_directory(which),
                    76..82 => self.rename(which, name, lost),
                    _ => self.remove(which, name, ino, lost),
                },
                _ => self.make(which, lost),
            };
            match done {
                Err(_) if lost.load(Ordering::SeqCst) => return Ok(()),
                // Of what a disk that lies lost before.
                Err(_) if !self.believes => self.tally.told += 1,
                done => done.context("nothing was lost yet")?,
            }
        }
        Ok(())
    }

    /// The file, open; it stays so if there is room.
    fn opened(&mut self, which: usize, name: &str, ino: u64) -> io::Result<File> {
        if let Some(file) = self.open.get(&ino) {
            return file.try_clone();
        }
        let path = self.directories[which].path.join(name);
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        self.keep(ino, &file)?;
        Ok(file)
    }

    fn keep(&mut self, ino: u64, file: &File) -> io::Result<()> {
        if self.open.len() >= OPEN {
            self.open.pop_first();
        }
        if self.random.random_range(0..2) == 0 {
            self.open.insert(ino, file.try_clone()?);
        }
        Ok(())
    }

    fn contents(&mut self, ino: u64) -> &mut Contents {
        self.files
            .entry(ino)
            .or_insert_with(|| Contents::empty(ino))
    }

    fn write(&mut self, which: usize, name: &str, ino: u64) -> Result<()> {
        let file = self.opened(which, name, ino)?;
        let most = if ino.is_multiple_of(2) { SMALL } else { LARGE };
        let first = self.random.random_range(0..most);
        // Often at the end.
        let first = match self.random.random_range(0..3) {
            0 => self.contents(ino).size().min(most - 1),
            _ => first.min(self.contents(ino).size() + SMALL),
        };
        let count = self.random.random_range(1..=WRITE.min(most - first));
        self.number += 1;
        let number = self.number;
        let bytes = self.contents(ino).bytes(first, count, number);
        let written = file.write_all_at(&bytes, first * SECTOR as u64);
        self.contents(ino)
            .written(first, count, number, written.is_ok());
        Ok(written?)
    }

    fn truncate(&mut self, which: usize, name: &str, ino: u64) -> Result<()> {
        let file = self.opened(which, name, ino)?;
        let size = self.contents(ino).size();
        let size = self.random.random_range(0..=size);
        let cut = file.set_len(size * SECTOR as u64);
        self.contents(ino).cut(size, cut.is_ok());
        Ok(cut?)
    }

    fn sync_file(&mut self, which: usize, name: &str, ino: u64) -> Result<()> {
        let synced = self.opened(which, name, ino)?.sync_all();
        self.tally.syncs += 1;
        match synced {
            Ok(()) => self.contents(ino).synced(),
            Err(_) => self.contents(ino).failed(),
        }
        Ok(synced?)
    }

    fn sync_directory(&mut self, which: usize) -> Result<()> {
        self.tally.syncs += 1;
        let directory = &mut self.directories[which];
        let synced = directory.handle.sync_all();
        match synced {
            Ok(()) => directory.names.synced(),
            Err(_) => directory.names.failed(),
        }
        Ok(synced?)
    }

    fn renamed(
        &mut self,
        which: usize,
        how: io::Result<Renaming>,
        lost: &AtomicBool,
    ) -> Result<()> {
        let directory = &mut self.directories[which];
        match &how {
            Err(_) => directory.unknown = true,
            Ok(renaming) if lost.load(Ordering::SeqCst) => {
                directory.names.rename_meanwhile(renaming)
            }
            Ok(renaming) => directory.names.rename(renaming),
        }
        how?;
        Ok(())
    }

    fn new_name(&mut self) -> String {
        self.number += 1;
        format!("f{}", self.number)
    }

    fn make(&mut self, which: usize, lost: &AtomicBool) -> Result<()> {
        let name = self.new_name();
        let path = self.directories[which].path.join(&name);
        let make = || {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create_new(true)
                .open(path)?;
            let ino = file.metadata()?.ino();
            Ok((file, ino))
        };
        let made = make();
        if let Ok((file, ino)) = &made {
            self.contents(*ino);
            self.keep(*ino, file)?;
        }
        self.renamed(which, made.map(|(_, ino)| Renaming::Make(name, ino)), lost)
    }

    fn rename(&mut self, which: usize, from: String, lost: &AtomicBool) -> Result<()> {
        let names = self.directories[which].names.newest();
        let other = names.iter().find(|(name, _)| **name != from);
        let other = other.map(|(name, ino)| (name.clone(), *ino));
        let to = match other {
            Some((name, ino)) if self.random.random_range(0..3) == 0 => {
                self.open.remove(&ino);
                name
            }
            _ => self.new_name(),
        };
        let path = &self.directories[which].path;
        let renamed = fs::rename(path.join(&from), path.join(&to));
        self.renamed(which, renamed.map(|()| Renaming::Move(from, to)), lost)
    }

    fn remove(&mut self, which: usize, name: String, ino: u64, lost: &AtomicBool) -> Result<()> {
        self.open.remove(&ino);
        let removed = fs::remove_file(self.directories[which].path.join(&name));
        self.renamed(which, removed.map(|()| Renaming::Remove(name)), lost)
    }

    /// Syncs everything, so that it gets an error for what was lost, and compares what there is
    /// with that; what is wrong.
    ///
    /// # Errors
    /// A call that cannot be done at all.
    pub(super) fn look(&mut self, client: &Client) -> Result<Vec<String>> {
        let mut wrong = Vec::new();
        let mut seen = Vec::new();
        for which in 0..DIRECTORIES {
            let told = self.sync_twice(|worker| worker.sync_directory(which).is_err());
            let directory = &mut self.directories[which];
            let path = directory.path.display().to_string();
            if told.again && self.believes {
                wrong.push(format!("{path}: the second fsync failed, too"));
            }
            let own = directory
                .path
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            let dir = client.lookup(&CALLER, Ino::ROOT, &name(own)?);
            let dir = dir.with_context(|| path.clone())?.ino;
            let found = names(client, dir).with_context(|| path.clone())?;
            if self.believes && !directory.unknown && !directory.names.may_be(&found) {
                wrong.push(format!(
                    "{path} (fsync failed: {}): has {found:?}, and may have {:?}",
                    told.first, directory.names
                ));
            }
            directory.names.found(found.clone());
            directory.unknown = false;
            seen.extend(found.into_iter().map(|(name, ino)| (which, name, ino)));
            self.tally.looked_at += 1;
        }
        self.lost_files(&seen, &mut wrong);
        for (which, name, ino) in seen {
            let told = self.sync_twice(|worker| worker.sync_file(which, &name, ino).is_err());
            let path = format!(
                "{} (inode {ino:x}, fsync failed: {})",
                self.directories[which].path.join(&name).display(),
                told.first
            );
            if told.again && self.believes {
                wrong.push(format!("{path}: the second fsync failed, too"));
            }
            let most = LARGE as usize * SECTOR + SECTOR;
            match client.read(&CALLER, Ino(ino), 0, most) {
                Ok(bytes) => {
                    let (newest, believes) = (self.number, self.believes);
                    let found = self.contents(ino).found(&bytes, newest, believes);
                    wrong.extend(
                        found
                            .into_iter()
                            .take(5)
                            .map(|what| format!("{path}: {what}")),
                    );
                }
                Err(error) if self.believes => wrong.push(format!("{path}: {error}")),
                Err(_) => {}
            }
            self.tally.looked_at += 1;
        }
        self.open.clear();
        Ok(wrong)
    }

    /// Reports files that are gone although they were open.
    fn lost_files(&mut self, seen: &[(usize, String, u64)], wrong: &mut Vec<String>) {
        let lost = |ino: &u64| !seen.iter().any(|(_, _, there)| there == ino);
        let gone: Vec<u64> = self.open.keys().copied().filter(lost).collect();
        for ino in gone {
            if let Some(file) = self.open.remove(&ino)
                && file.sync_all().is_ok()
                && self.believes
            {
                wrong.push(format!("inode {ino:x} is gone, and fsync of it succeeded"));
            }
        }
    }

    fn sync_twice(&mut self, mut fails: impl FnMut(&mut Worker) -> bool) -> Told {
        let first = fails(self);
        let again = first && fails(self);
        self.tally.told += u64::from(first);
        Told { first, again }
    }
}

struct Told {
    first: bool,
    again: bool,
}

fn names(client: &Client, dir: Ino) -> Result<Names> {
    let mut found = Names::new();
    for entry in client.list(&CALLER, dir) {
        let entry = entry?;
        found.insert(entry.name.to_string(), entry.ino.0);
    }
    Ok(found)
}
