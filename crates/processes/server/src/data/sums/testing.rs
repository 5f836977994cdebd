//! A machine with two files, which can be killed at any step and lose its power.

use super::{Checked, Note, Raw};
use pandofs_api::Allocation;
use rand::Rng;
use rand::rngs::StdRng;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

/// Bytes that a disk writes whole.
const PAGE: usize = 512;
type Page = [u8; PAGE];

/// Effect of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The process ends there, of a write this many thousandths having been done.
    Killed { done: usize },
    /// The system refuses it, of a write this many thousandths having been done; the process goes on.
    Refused { done: usize },
}

/// Steps that are left until something happens.
#[derive(Debug, Default)]
struct Fuse {
    left: Option<(u64, Fate)>,
    is_dead: bool,
    steps: u64,
}

#[derive(Debug, Default)]
struct Content {
    bytes: Vec<u8>,
    /// Contents of each page since the last sync, the oldest first; the disk may have any of them.
    pages: BTreeMap<usize, Vec<Page>>,
    lengths: Vec<usize>,
}

/// A file of the machine.
#[derive(Clone, Debug)]
pub(super) struct SimFile {
    content: Arc<Mutex<Content>>,
    fuse: Arc<Mutex<Fuse>>,
}

/// The machine.
#[derive(Debug)]
pub(super) struct Machine {
    pub data: SimFile,
    pub sums: SimFile,
    pub notes: Arc<Mutex<Vec<Note>>>,
}

impl Machine {
    pub(super) fn new() -> Machine {
        let fuse = Arc::new(Mutex::new(Fuse::default()));
        let file = || SimFile {
            content: Arc::default(),
            fuse: Arc::clone(&fuse),
        };
        Machine {
            data: file(),
            sums: file(),
            notes: Arc::default(),
        }
    }

    fn notes(&self) -> super::checked::Notes {
        let notes = Arc::clone(&self.notes);
        Box::new(move |note| notes.lock().unwrap().push(note))
    }

    pub(super) fn create(&self, generation: u64) -> io::Result<Checked<SimFile>> {
        let (data, sums) = (self.data.clone(), self.sums.clone());
        Checked::create(|| Ok(data), sums, generation, self.notes())
    }

    pub(super) fn open(&self, generation: u64, lost: &[u64]) -> io::Result<Checked<SimFile>> {
        let (data, sums) = (self.data.clone(), self.sums.clone());
        let is_lost = |generation| lost.contains(&generation);
        Checked::open(data, sums, generation, is_lost, self.notes())
    }

    /// At the step after `left` more of them.
    pub(super) fn plan(&self, left: u64, fate: Fate) {
        let mut fuse = self.data.fuse.lock().unwrap();
        fuse.left = Some((left, fate));
    }

    /// Whether the process was killed; another one may begin.
    pub(super) fn revive(&self) -> bool {
        let mut fuse = self.data.fuse.lock().unwrap();
        fuse.left = None;
        std::mem::take(&mut fuse.is_dead)
    }

    /// Steps that were made since the last call.
    pub(super) fn take_steps(&self) -> u64 {
        std::mem::take(&mut self.data.fuse.lock().unwrap().steps)
    }

    /// Loses the power: each page has what was not synced, or not, by itself.
    pub(super) fn lose_power(&self, random: &mut StdRng) {
        self.data.lose_power(random);
        self.sums.lose_power(random);
    }
}

impl SimFile {
    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap()
    }

    /// All of it, as a reader of the cache sees it.
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.content().bytes.clone()
    }

    pub(super) fn flip(&self, at: usize, bit: u8) {
        self.content().bytes[at] ^= 1 << bit;
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        self.step(|_| ())?;
        let mut content = self.content();
        content.pages.clear();
        content.lengths.clear();
        Ok(())
    }

    fn lose_power(&self, random: &mut StdRng) {
        let mut content = self.content();
        let lengths = std::mem::take(&mut content.lengths);
        let length = if lengths.is_empty() {
            content.bytes.len()
        } else {
            let now = content.bytes.len();
            let at = random.random_range(0..=lengths.len());
            lengths.get(at).copied().unwrap_or(now)
        };
        content.bytes.resize(length, 0);
        for (page, versions) in std::mem::take(&mut content.pages) {
            let at = random.random_range(0..=versions.len());
            // Else as it is now.
            let Some(version) = versions.get(at) else {
                continue;
            };
            let start = page * PAGE;
            if start < length {
                let end = length.min(start + PAGE);
                content.bytes[start..end].copy_from_slice(&version[..end - start]);
            }
        }
    }

    /// Makes a step; `part` gets the thousandths of it that are done.
    fn step(&self, part: impl FnOnce(usize)) -> io::Result<()> {
        let mut fuse = self.fuse.lock().unwrap();
        if fuse.is_dead {
            return Err(io::Error::other("the process was killed"));
        }
        fuse.steps += 1;
        match fuse.left {
            Some((0, Fate::Killed { done })) => {
                fuse.is_dead = true;
                part(done);
                Err(io::Error::other("the process was killed"))
            }
            Some((0, Fate::Refused { done })) => {
                fuse.left = None;
                part(done);
                Err(io::Error::from_raw_os_error(28))
            }
            Some((left, fate)) => {
                fuse.left = Some((left - 1, fate));
                part(1_000);
                Ok(())
            }
            None => {
                part(1_000);
                Ok(())
            }
        }
    }
}

impl Content {
    /// Remembers what the pages of the range hold before it changes.
    fn remember(&mut self, range: Range<usize>) {
        self.lengths.push(self.bytes.len());
        for page in range.start / PAGE..range.end.div_ceil(PAGE) {
            let mut held = [0; PAGE];
            let start = (page * PAGE).min(self.bytes.len());
            let end = (start + PAGE).min(self.bytes.len());
            held[..end - start].copy_from_slice(&self.bytes[start..end]);
            self.pages.entry(page).or_default().push(held);
        }
    }

    fn write(&mut self, data: &[u8], offset: usize) {
        if data.is_empty() {
            return;
        }
        let end = offset + data.len();
        self.remember(offset..end);
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[offset..end].copy_from_slice(data);
    }
}

impl Raw for SimFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.content().bytes.len() as u64)
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let content = self.content();
        let start = (offset as usize).min(content.bytes.len());
        let count = buffer.len().min(content.bytes.len() - start);
        buffer[..count].copy_from_slice(&content.bytes[start..start + count]);
        Ok(count)
    }

    fn read_up_to(&self, length: usize, offset: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        let count = self.read(&mut bytes, offset)?;
        bytes.truncate(count);
        Ok(bytes)
    }

    fn write(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.step(|done| {
            let mut count = data.len() * done / 1_000;
            // A header is within one page, and small: all of it is copied or nothing.
            if data.len() == super::sidecar::HEADER_BYTES && done < 1_000 {
                count = 0;
            }
            self.content().write(&data[..count], offset as usize);
        })
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.step(|done| {
            if done == 1_000 {
                let mut content = self.content();
                let has = content.bytes.len();
                content.remember((length as usize).min(has)..has);
                content.bytes.resize(length as usize, 0);
            }
        })
    }

    fn allocate(&self, range: &Range<u64>, allocation: Allocation) -> io::Result<()> {
        self.step(|done| {
            let mut content = self.content();
            let length = content.bytes.len();
            let start = (range.start as usize).min(length);
            let end = (range.end as usize).min(length);
            if allocation.zeroes() && start < end {
                let zeros = vec![0; (end - start) * done / 1_000];
                content.write(&zeros, start);
            }
            if allocation.extends() && done == 1_000 && length < range.end as usize {
                content.remember(length..length);
                content.bytes.resize(range.end as usize, 0);
            }
        })
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<Range<u64>>> {
        let length = self.length()?;
        Ok((offset < length).then_some(offset..length))
    }
}
