//! Contents of files in the history: what was written to each sector, cut off and read, and what was said to be on disk.

use pandofs_types::{Ino, SessionId};
use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes that are written by one write, or by none.
pub(crate) const SECTOR_BYTES: usize = 512;
/// Those of a file: three units of a stripe.
pub(crate) const SECTORS: usize = 24;

/// Number of a write. 0 stands for zeros: of a hole, or of what was cut off.
pub(crate) type Stamp = u64;

/// A write, or a truncation, of some sectors.
#[derive(Clone, Debug)]
pub(crate) struct Changed {
    pub session: SessionId,
    pub sectors: Range<usize>,
    pub stamp: Stamp,
    pub begun: u64,
    /// `None`: it was not answered, or refused by some server, and done at some time or not at all.
    pub ended: Option<u64>,
}

/// A whole file, as it was read.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    pub stamps: Vec<Stamp>,
    pub begun: u64,
    pub ended: u64,
}

/// A sync that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Synced {
    pub session: SessionId,
    pub begun: u64,
    pub ended: u64,
    /// Otherwise it has told that something is lost.
    pub is_ok: bool,
}

/// All that was done to the contents of one file.
#[derive(Debug, Default)]
pub(crate) struct FileLog {
    pub changes: Vec<Changed>,
    pub reads: Vec<Read>,
    pub syncs: Vec<Synced>,
}

/// All that clients know of contents. Instants are counted, as in the rest of the history.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    now: u64,
    stamps: Stamp,
    files: BTreeMap<Ino, FileLog>,
    /// When a server lost what it had not synced.
    losses: Vec<u64>,
}

impl Contents {
    /// This moment.
    pub(crate) fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    /// That of a write that begins.
    pub(crate) fn next_stamp(&mut self) -> Stamp {
        self.stamps += 1;
        self.stamps
    }

    /// A write begins, or with stamp 0 a truncation; where it is to be [ended](Contents::changed).
    pub(crate) fn change(
        &mut self,
        ino: Ino,
        session: SessionId,
        sectors: Range<usize>,
        stamp: Stamp,
    ) -> usize {
        let begun = self.tick();
        let changes = &mut self.files.entry(ino).or_default().changes;
        changes.push(Changed {
            session,
            sectors,
            stamp,
            begun,
            ended: None,
        });
        changes.len() - 1
    }

    /// It was answered for good.
    pub(crate) fn changed(&mut self, ino: Ino, place: usize) {
        let ended = self.tick();
        let log = self.files.entry(ino).or_default();
        log.changes[place].ended = Some(ended);
    }

    /// A file was read.
    pub(crate) fn read(&mut self, ino: Ino, begun: u64, stamps: Vec<Stamp>) {
        let ended = self.tick();
        let read = Read {
            stamps,
            begun,
            ended,
        };
        self.files.entry(ino).or_default().reads.push(read);
    }

    /// A sync has ended.
    pub(crate) fn synced(&mut self, ino: Ino, session: SessionId, begun: u64, is_ok: bool) {
        let ended = self.tick();
        let synced = Synced {
            session,
            begun,
            ended,
            is_ok,
        };
        self.files.entry(ino).or_default().syncs.push(synced);
    }

    /// A server has lost power.
    pub(crate) fn lost(&mut self) {
        let now = self.tick();
        self.losses.push(now);
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = (Ino, &FileLog)> {
        self.files.iter().map(|(&ino, log)| (ino, log))
    }

    pub(crate) fn losses(&self) -> &[u64] {
        &self.losses
    }

    /// Reads, and syncs that told of a loss.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let logs = self.files.values();
        logs.fold((0, 0), |(reads, losses), log| {
            let failed = log.syncs.iter().filter(|synced| !synced.is_ok).count();
            (reads + log.reads.len() as u64, losses + failed as u64)
        })
    }
}

/// The bytes of sectors that a write leaves.
pub(crate) fn bytes_of(stamp: Stamp, sectors: usize) -> Vec<u8> {
    stamp
        .to_le_bytes()
        .repeat(sectors * SECTOR_BYTES / size_of::<Stamp>())
}

/// The stamp written to a sector; `None` for bytes that no write has left.
pub(crate) fn stamp_of(sector: &[u8]) -> Option<Stamp> {
    let (stamps, rest) = sector.as_chunks::<{ size_of::<Stamp>() }>();
    let first = stamps.first().filter(|_| rest.is_empty())?;
    let is_whole = stamps.iter().all(|stamp| stamp == first);
    is_whole.then(|| Stamp::from_le_bytes(*first))
}
