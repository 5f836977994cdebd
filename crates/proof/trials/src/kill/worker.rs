//! A client with all kinds of work, which remembers the answers it got.

use super::Signals;
use super::files::Content;
use crate::cluster::{CALLER, name};
use anyhow::{Context, Result, ensure};
use pandofs_client::{Client, ClientError, OpenHow};
use pandofs_types::{FsError, Ino, Name};
use rand::Rng;
use rand::rngs::StdRng;
use std::collections::{BTreeMap, HashMap};
use std::fmt;

/// Operations between two syncs of a directory.
const OPERATIONS_PER_SYNC: u64 = 150;
/// Bytes of the largest file.
const LARGEST_FILE: usize = 40_000;

/// Changes that were acknowledged and whose effect was looked for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    /// Names that must be there, by whether their directory was synced since.
    pub synced: u64,
    pub unsynced: u64,
    /// Names that must not be there any more.
    pub gone: u64,
    /// Acknowledged operations.
    pub operations: u64,
    /// Acknowledged syncs of directories.
    pub syncs: u64,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Tally) {
        self.synced += other.synced;
        self.unsynced += other.unsynced;
        self.gone += other.gone;
        self.operations += other.operations;
        self.syncs += other.syncs;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} operations and {} syncs acknowledged so far; there are all {} names whose directory was \
             synced after their last change, and all {} others; none of {} removed ones",
            self.operations, self.syncs, self.synced, self.unsynced, self.gone
        )
    }
}

/// State of a name that is there.
#[derive(Clone, Copy, Debug)]
struct Known {
    ino: Ino,
    /// `None`: a directory.
    content: Option<Content>,
    /// Its contents before it was last written anew.
    before: Option<Content>,
    /// The number of the operation that changed it last.
    changed: u64,
}

/// One client and its names, which no other client uses.
pub(super) struct Worker {
    client: Client,
    random: StdRng,
    number: usize,
    dirs: Vec<Ino>,
    /// By directory and name.
    there: BTreeMap<(usize, Name), Known>,
    gone: Vec<(usize, Name)>,
    /// The operation up to which each directory is synced.
    synced: Vec<u64>,
    operations: u64,
    syncs: u64,
}

impl Worker {
    pub(super) fn new(client: Client, random: StdRng, number: usize, dirs: Vec<Ino>) -> Worker {
        Worker {
            client,
            random,
            number,
            there: BTreeMap::new(),
            gone: Vec::new(),
            synced: vec![0; dirs.len()],
            dirs,
            operations: 0,
            syncs: 0,
        }
    }

    /// Works until it is over. Every operation has to succeed: a killed server is waited for, and what
    /// is asked again is not done twice.
    ///
    /// # Errors
    /// The first one that an operation gets.
    pub(super) fn run(mut self, signals: &Signals) -> Result<Worker> {
        while !signals.is_over() {
            let dir = self.random.random_range(0..self.dirs.len());
            match self.random.random_range(0..100) {
                _ if self.there.len() < 20 => self.create(dir)?,
                0..60 => self.create(dir)?,
                60..65 => self.mkdir(dir)?,
                65..75 => self.overwrite()?,
                75..88 => self.remove()?,
                _ => self.rename(dir)?,
            }
            if self.operations.is_multiple_of(OPERATIONS_PER_SYNC) {
                self.sync(dir)?;
            }
            signals.count(self.number);
        }
        Ok(self)
    }

    fn next_name(&mut self) -> Result<Name> {
        self.operations += 1;
        name(&format!("{}-{:07}", self.number, self.operations))
    }

    fn draw_content(&mut self) -> Content {
        let bytes = match self.random.random_range(0..10) {
            0..3 => 0,
            3..9 => self.random.random_range(1..2_000),
            _ => self.random.random_range(2_000..LARGEST_FILE),
        };
        let seed = self.random.random();
        Content { seed, bytes }
    }

    fn draw_there(&mut self) -> Option<(usize, Name)> {
        let dir = self.random.random_range(0..self.dirs.len());
        // By a random operation's number: its name, or the one that comes next.
        let number = self.random.random_range(0..=self.operations);
        let from = name(&format!("{}-{number:07}", self.number)).ok()?;
        let (key, _) = self.there.range((dir, from)..).next()?;
        Some(key.clone())
    }

    fn write(&self, ino: Ino, content: Content) -> Result<()> {
        self.client.write(&CALLER, ino, 0, &content.make())?;
        Ok(())
    }

    fn create(&mut self, dir: usize) -> Result<()> {
        let name = self.next_name()?;
        let content = self.draw_content();
        let how = OpenHow {
            access: 6,
            truncate: false,
            exclusive: true,
        };
        let found = self
            .client
            .create(&CALLER, self.dirs[dir], &name, 0o644, how)
            .with_context(|| format!("cannot make {name}"))?;
        ensure!(found.created, "{name} was there already");
        let ino = found.node.ino;
        let written = self.write(ino, content);
        let released = self.client.release(ino);
        written
            .and(released.map_err(anyhow::Error::from))
            .with_context(|| format!("cannot write {name}"))?;
        self.knows(dir, name, ino, Some(content), None);
        Ok(())
    }

    fn knows(
        &mut self,
        dir: usize,
        name: Name,
        ino: Ino,
        content: Option<Content>,
        before: Option<Content>,
    ) {
        let changed = self.operations;
        let known = Known {
            ino,
            content,
            before,
            changed,
        };
        self.there.insert((dir, name), known);
    }

    fn mkdir(&mut self, dir: usize) -> Result<()> {
        let name = self.next_name()?;
        let node = self
            .client
            .mkdir(&CALLER, self.dirs[dir], &name, 0o755)
            .with_context(|| format!("cannot make the directory {name}"))?;
        self.knows(dir, name, node.ino, None, None);
        Ok(())
    }

    /// Cuts a file and writes it anew.
    fn overwrite(&mut self) -> Result<()> {
        let Some((dir, name)) = self.draw_there() else {
            return Ok(());
        };
        let known = self.there[&(dir, name.clone())];
        if known.content.is_none() {
            return Ok(());
        }
        self.operations += 1;
        let content = self.draw_content();
        let what = || format!("cannot write {name} anew");
        self.client
            .open_node(&CALLER, known.ino, 2, true)
            .with_context(what)?;
        let written = self.write(known.ino, content);
        let released = self.client.release(known.ino);
        written
            .and(released.map_err(anyhow::Error::from))
            .with_context(what)?;
        self.knows(dir, name, known.ino, Some(content), known.content);
        Ok(())
    }

    fn remove(&mut self) -> Result<()> {
        let Some((dir, name)) = self.draw_there() else {
            return Ok(());
        };
        self.operations += 1;
        let key = (dir, name.clone());
        let removed = match self.there[&key].content {
            Some(_) => self.client.unlink(&CALLER, self.dirs[dir], &name),
            None => self.client.rmdir(&CALLER, self.dirs[dir], &name),
        };
        let ino = removed.with_context(|| format!("cannot remove {name}"))?;
        let known = self.there.remove(&key);
        ensure!(
            known.is_some_and(|known| known.ino == ino),
            "{name} led to inode {ino} when it was removed, and to {known:?} before"
        );
        self.gone.push(key);
        Ok(())
    }

    fn rename(&mut self, new_dir: usize) -> Result<()> {
        let Some((dir, name)) = self.draw_there() else {
            return Ok(());
        };
        let new_name = self.next_name()?;
        self.client
            .rename(
                &CALLER,
                self.dirs[dir],
                &name,
                self.dirs[new_dir],
                &new_name,
                true,
            )
            .with_context(|| format!("cannot rename {name} to {new_name}"))?;
        let known = self.there.remove(&(dir, name.clone()));
        self.gone.push((dir, name));
        if let Some(known) = known {
            self.knows(new_dir, new_name, known.ino, known.content, known.before);
        }
        Ok(())
    }

    fn sync(&mut self, dir: usize) -> Result<()> {
        let upto = self.operations;
        self.client
            .fsyncdir(&CALLER, self.dirs[dir])
            .context("cannot sync a directory")?;
        self.synced[dir] = upto;
        self.syncs += 1;
        Ok(())
    }

    fn is_synced(&self, dir: usize, known: &Known) -> bool {
        known.changed <= self.synced[dir]
    }

    /// Contradictions to the answers that this client got, a sentence each.
    ///
    /// # Errors
    /// The file system's.
    pub(super) fn verify(&self) -> Result<Vec<String>> {
        let mut wrong = Vec::new();
        for ((dir, name), known) in &self.there {
            let told = match self.is_synced(*dir, known) {
                true => "synced",
                false => "acknowledged",
            };
            let found = match self.client.lookup(&CALLER, self.dirs[*dir], name) {
                Ok(found) => found,
                Err(ClientError::Fs(error)) => {
                    wrong.push(format!("{name} was {told} and: {error}"));
                    continue;
                }
                Err(error) => return Err(error).with_context(|| format!("lookup of {name}")),
            };
            if found.ino != known.ino {
                let ino = found.ino;
                wrong.push(format!(
                    "{name} was {told} and leads to inode {ino}: {known:?}"
                ));
            }
            let Some(content) = known.content else {
                continue;
            };
            if found.attr.size != content.bytes as u64 {
                let size = found.attr.size;
                wrong.push(format!("{name} was {told} and has {size} bytes: {known:?}"));
            }
            if let Some(difference) = content.compare(&self.client, known.ino)? {
                wrong.push(format!("{name} was {told} and {difference}: {known:?}"));
            }
        }
        for (dir, name) in &self.gone {
            match self.client.lookup(&CALLER, self.dirs[*dir], name) {
                Err(ClientError::Fs(FsError::NotFound)) => {}
                Ok(found) => wrong.push(format!(
                    "{name} was removed and leads to inode {}",
                    found.ino
                )),
                Err(error) => return Err(error).with_context(|| format!("lookup of {name}")),
            }
        }
        Ok(wrong)
    }

    pub(super) fn tally(&self) -> Tally {
        let count = |synced| {
            self.there
                .iter()
                .filter(|((dir, _), known)| self.is_synced(*dir, known) == synced)
                .count() as u64
        };
        Tally {
            synced: count(true),
            unsynced: count(false),
            gone: self.gone.len() as u64,
            operations: self.operations,
            syncs: self.syncs,
        }
    }
}

/// Compares listings of the shared directories with what all workers know together.
///
/// # Errors
/// The file system's.
pub(super) fn verify_listings(client: &Client, workers: &[Worker]) -> Result<Vec<String>> {
    let Some(first) = workers.first() else {
        return Ok(Vec::new());
    };
    let mut wrong = Vec::new();
    for (place, &dir) in first.dirs.iter().enumerate() {
        let mut listed: HashMap<Name, Ino> = HashMap::new();
        for entry in client.list(&CALLER, dir) {
            let entry = entry.with_context(|| format!("listing of inode {dir}"))?;
            if listed.insert(entry.name.clone(), entry.ino).is_some() {
                wrong.push(format!("{} is listed twice", entry.name));
            }
        }
        let known = workers
            .iter()
            .flat_map(|worker| &worker.there)
            .filter(|((dir, _), _)| *dir == place);
        for ((_, name), known) in known {
            match listed.remove(name) {
                Some(ino) if ino == known.ino => {}
                other => wrong.push(format!("{name} is listed as {other:?}: {known:?}")),
            }
        }
        for (name, ino) in listed {
            wrong.push(format!("{name} (inode {ino}) is listed and nobody made it"));
        }
    }
    Ok(wrong)
}
