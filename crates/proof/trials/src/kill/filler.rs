//! A client that makes one server's log grow.

use super::Signals;
use super::files::Content;
use super::worker::Tally;
use crate::cluster::{CALLER, name};
use anyhow::{Context, Result};
use pandofs_api::NewNode;
use pandofs_client::Client;
use pandofs_types::limits::DEFAULT_INLINE_BYTES;
use pandofs_types::{Ino, Name};
use rand::Rng;
use rand::rngs::StdRng;
use std::collections::HashMap;

/// Files that a filler with large records writes to in turn.
const FILES: usize = 16;

/// Length of the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grain {
    /// Creations and removals: the most records that fit into a log.
    Small,
    /// Writes of as much as an inode holds.
    Large,
}

/// One client and its files, which no other client uses.
pub(super) struct Filler {
    client: Client,
    random: StdRng,
    dir: Ino,
    number: u32,
    grain: Grain,
    /// Names that are there, with their inodes and contents.
    there: Vec<(Name, Ino, Content)>,
    gone: u64,
    operations: u64,
}

impl Filler {
    pub(super) fn new(
        client: Client,
        random: StdRng,
        dir: Ino,
        number: u32,
        grain: Grain,
    ) -> Filler {
        Filler {
            client,
            random,
            dir,
            number,
            grain,
            there: Vec::new(),
            gone: 0,
            operations: 0,
        }
    }

    /// Works until the log is long enough.
    ///
    /// # Errors
    /// The first one that an operation gets.
    pub(super) fn run(mut self, signals: &Signals) -> Result<Filler> {
        while !signals.is_full() {
            match self.grain {
                Grain::Small if self.random.random_range(0..3) == 0 => self.remove()?,
                Grain::Small => self.create()?,
                Grain::Large if self.there.len() < FILES => self.create()?,
                Grain::Large => self.write()?,
            }
        }
        Ok(self)
    }

    fn create(&mut self) -> Result<()> {
        self.operations += 1;
        let name = name(&format!("{}-{:07}", self.number, self.operations))?;
        let node = self
            .client
            .mknod(&CALLER, self.dir, &name, NewNode::File, 0o644)
            .with_context(|| format!("cannot make {name}"))?;
        let empty = Content { seed: 0, bytes: 0 };
        self.there.push((name, node.ino, empty));
        Ok(())
    }

    fn remove(&mut self) -> Result<()> {
        if self.there.is_empty() {
            return Ok(());
        }
        self.operations += 1;
        let at = self.random.random_range(0..self.there.len());
        let (name, _, _) = self.there.swap_remove(at);
        self.client
            .unlink(&CALLER, self.dir, &name)
            .with_context(|| format!("cannot remove {name}"))?;
        self.gone += 1;
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        self.operations += 1;
        let at = self.random.random_range(0..self.there.len());
        let (name, ino, content) = &mut self.there[at];
        let next = Content {
            seed: self.random.random(),
            bytes: DEFAULT_INLINE_BYTES as usize,
        };
        self.client
            .write(&CALLER, *ino, 0, &next.make())
            .with_context(|| format!("cannot write {name}"))?;
        *content = next;
        Ok(())
    }

    pub(super) fn tally(&self) -> Tally {
        Tally {
            unsynced: self.there.len() as u64,
            gone: self.gone,
            operations: self.operations,
            ..Tally::default()
        }
    }
}

/// Contradictions to the answers that the fillers of one directory got, a sentence each.
///
/// # Errors
/// The file system's.
pub(super) fn verify(client: &Client, dir: Ino, fillers: &[Filler]) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    let mut listed: HashMap<Name, Ino> = HashMap::new();
    for entry in client.list(&CALLER, dir) {
        let entry = entry.with_context(|| format!("listing of inode {dir}"))?;
        if listed.insert(entry.name.clone(), entry.ino).is_some() {
            wrong.push(format!("{} is listed twice", entry.name));
        }
    }
    for (name, ino, content) in fillers.iter().flat_map(|filler| &filler.there) {
        match listed.remove(name) {
            Some(found) if found == *ino => {
                if content.bytes > 0
                    && let Some(difference) = content.compare(client, *ino)?
                {
                    wrong.push(format!("{name} was acknowledged and {difference}"));
                }
            }
            other => wrong.push(format!(
                "{name} was acknowledged as inode {ino} and is listed as {other:?}"
            )),
        }
    }
    for (name, ino) in listed {
        wrong.push(format!(
            "{name} (inode {ino}) is listed and was removed or never made"
        ));
    }
    Ok(wrong)
}
