//! An object and its checksums: what is read has been checked, and what is changed changes both.

use super::sidecar::{Change, Found, Header, Sidecar, UnderWay};
use super::{BLOCK, Raw, blocks_up_to, sum};
use pandofs_api::Allocation;
use pandofs_types::limits::CHECKSUM_BLOCK_BYTES;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Why something is not done to an object.
#[derive(Debug)]
pub(crate) enum SumsError {
    Io(io::Error),
    /// These blocks do not fit their checksums, and are needed as they should be. Nothing is changed.
    Damaged(Vec<u64>),
}

impl From<io::Error> for SumsError {
    fn from(error: io::Error) -> SumsError {
        SumsError::Io(error)
    }
}

/// Event that the operator of the server should know of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    /// Blocks of a doubtful object that did not fit their checksums were given new ones: the first one,
    /// and how many.
    TakenAsTheyAre { first: u64, count: usize },
    /// A change that was cut short was brought to an end.
    CutShort,
    /// There are no checksums, and they are not to be missing.
    NoSums,
    /// The header of the checksums is damaged; their own checksums hold.
    BrokenHeader,
}

/// Receiver of notes.
pub(crate) type Notes = Box<dyn Fn(Note) + Send + Sync>;

/// An object with its checksums. One thread changes it; others may sync it.
pub(crate) struct Checked<F> {
    pub(super) data: F,
    pub(super) sums: Sidecar<F>,
    /// The present generation.
    pub(super) current: u64,
    /// As it is in the file, or will be with the next change.
    header: Mutex<Header>,
    notes: Notes,
}

/// The header, of an object of which no change is under way.
pub(super) type Ready<'a> = MutexGuard<'a, Header>;

impl<F: Raw> Checked<F> {
    /// A new object, of two empty files; that of the data is made when the other one has its header.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn create(
        data: impl FnOnce() -> io::Result<F>,
        sums: F,
        current: u64,
        notes: Notes,
    ) -> io::Result<Checked<F>> {
        let header = Header {
            settled: false,
            doubtful: false,
            generation: current,
            under_way: None,
            truncations: 0,
        };
        let sums = Sidecar(sums);
        sums.put_header(&header)?;
        Ok(Checked {
            data: data()?,
            sums,
            current,
            header: Mutex::new(header),
            notes,
        })
    }

    /// An object that is there. A change that was cut short is brought to an end.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn open(
        data: F,
        sums: F,
        current: u64,
        is_lost: impl Fn(u64) -> bool,
        notes: Notes,
    ) -> io::Result<Checked<F>> {
        let sums = Sidecar(sums);
        let nothing = Header {
            settled: false,
            doubtful: false,
            generation: 0,
            under_way: None,
            truncations: 0,
        };
        let mut header = match sums.header()? {
            Found::Header(header) => header,
            Found::Nothing if is_lost(0) => nothing,
            Found::Nothing => {
                notes(Note::NoSums);
                nothing
            }
            Found::Broken => {
                notes(Note::BrokenHeader);
                // The number of no generation.
                Header {
                    generation: u64::MAX,
                    ..nothing
                }
            }
        };
        header.doubtful |= !header.settled && is_lost(header.generation);
        if header.doubtful {
            // The header may be older than the data: a truncation that was done long ago would be done again to
            // what was written and synced since. And there is no need: all checksums are in doubt.
            header.under_way = None;
        }
        let object = Checked {
            data,
            sums,
            current,
            header: Mutex::new(header),
            notes,
        };
        drop(object.ready()?);
        Ok(object)
    }

    /// Waits until data and checksums are on disk, by `sync`.
    pub(crate) fn sync(&self, sync: impl Fn(&F) -> io::Result<()>) -> io::Result<()> {
        sync(&self.data)?;
        sync(&self.sums.0)
    }

    /// The same of the checksums alone.
    pub(crate) fn sync_sums(&self, sync: impl Fn(&F) -> io::Result<()>) -> io::Result<()> {
        sync(&self.sums.0)
    }

    /// The data's file, for what changes nothing in it.
    pub(crate) fn data(&self) -> &F {
        &self.data
    }

    fn header(&self) -> MutexGuard<'_, Header> {
        self.header.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn ready(&self) -> io::Result<Ready<'_>> {
        let mut header = self.header();
        if let Some(under_way) = header.under_way.clone() {
            (self.notes)(Note::CutShort);
            self.recover(&under_way)?;
            header.under_way = None;
            self.sums.put_header(&header)?;
        }
        Ok(header)
    }

    /// Whether it says on disk that it is settled, or may: then [`Checked::unsettle`] comes before any
    /// change.
    pub(crate) fn must_unsettle(&self) -> bool {
        let header = self.header();
        header.settled || (header.generation != self.current && !header.doubtful)
    }

    /// Says that it is unsettled. That has to be synced before anything is changed.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn unsettle(&self) -> io::Result<()> {
        let mut header = self.ready()?;
        header.settled = false;
        header.generation = self.current;
        self.sums.put_header(&header)
    }

    /// Says that all of it is on disk, as the caller knows.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn settle(&self) -> io::Result<()> {
        let mut header = self.ready()?;
        if header.doubtful || header.settled {
            return Ok(());
        }
        header.settled = true;
        self.sums.put_header(&header)
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.header().settled
    }

    pub(crate) fn is_doubtful(&self) -> bool {
        self.header().doubtful
    }

    /// Cuts of the file that it has followed, 0 if none.
    pub(crate) fn truncations(&self) -> u32 {
        self.header().truncations
    }

    /// Says that it has followed so many truncations. The truncation has to be on disk before, and this is to be synced before
    /// anything else is changed. (Were it on disk before the truncation is, the machine lost power and the truncation came once
    /// more, it would be taken for done.)
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn follow(&self, truncations: u32) -> io::Result<()> {
        let mut header = self.ready()?;
        header.truncations = truncations;
        self.sums.put_header(&header)
    }

    /// Ends the doubt, when every block has been looked at.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn end_doubt(&self) -> io::Result<()> {
        let mut header = self.ready()?;
        header.doubtful = false;
        header.generation = self.current;
        self.sums.put_header(&header)
    }

    /// `length` bytes from `offset` on, fewer where the object ends.
    ///
    /// # Errors
    /// [`SumsError`].
    pub(crate) fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>, SumsError> {
        let header = self.ready()?;
        let before = (offset % BLOCK) as usize;
        let whole = (before + length).next_multiple_of(CHECKSUM_BLOCK_BYTES);
        let mut bytes = self.data.read_up_to(whole, offset - before as u64)?;
        let filled = bytes.len();
        bytes.resize(whole, 0);
        self.expect(&header, offset / BLOCK, &bytes, filled)?;
        bytes.truncate(filled.min(before + length));
        bytes.drain(..before.min(bytes.len()));
        Ok(bytes)
    }

    /// Whether blocks from `first` on that were read from the disk, `filled` bytes of them before
    /// the object's end, are as they should be.
    ///
    /// # Errors
    /// [`SumsError`].
    pub(crate) fn judge(&self, first: u64, bytes: &[u8], filled: usize) -> Result<(), SumsError> {
        let header = self.ready()?;
        self.expect(&header, first, bytes, filled)
    }

    /// Whole blocks fit their checksums, or get those that they fit if that may be.
    pub(super) fn expect(
        &self,
        header: &Header,
        first: u64,
        bytes: &[u8],
        filled: usize,
    ) -> Result<(), SumsError> {
        let (blocks, rest) = bytes.as_chunks::<CHECKSUM_BLOCK_BYTES>();
        assert!(rest.is_empty(), "{} bytes of a block", rest.len());
        let stored = self.sums.read(first, blocks.len())?;
        let misfits: Vec<u64> = misfits(first, blocks, filled, &stored).collect();
        let (Some(&lowest), Some(&highest)) = (misfits.first(), misfits.last()) else {
            return Ok(());
        };
        if !header.doubtful {
            return Err(SumsError::Damaged(misfits));
        }
        let from = (lowest - first) as usize..=(highest - first) as usize;
        let sums: Vec<u32> = blocks[from].iter().map(|block| sum(block)).collect();
        self.sums.write(lowest, &sums)?;
        (self.notes)(Note::TakenAsTheyAre {
            first: lowest,
            count: misfits.len(),
        });
        Ok(())
    }

    /// A block, and its checksum as it is stored.
    fn block(&self, block: u64) -> io::Result<([u8; CHECKSUM_BLOCK_BYTES], u32)> {
        let mut bytes = [0; CHECKSUM_BLOCK_BYTES];
        self.data.read(&mut bytes, block * BLOCK)?;
        let stored = self.sums.read(block, 1)?;
        Ok((bytes, stored[0]))
    }

    /// # Errors
    /// [`SumsError::Damaged`] when a block is damaged of which only a part is to be written.
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), SumsError> {
        let mut header = self.ready()?;
        let end = offset + bytes.len() as u64;
        let first = offset / BLOCK;
        let mut sums = Vec::with_capacity((blocks_up_to(end) - first) as usize);
        let mut at = offset;
        while at < end {
            let block = at / BLOCK;
            let next = end.min((block + 1) * BLOCK);
            let part = &bytes[(at - offset) as usize..(next - offset) as usize];
            sums.push(if part.len() == CHECKSUM_BLOCK_BYTES {
                sum(part)
            } else {
                let (mut whole, stored) = self.block(block)?;
                if !header.doubtful && sum(&whole) != stored {
                    return Err(SumsError::Damaged(vec![block]));
                }
                let within = (at % BLOCK) as usize;
                whole[within..within + part.len()].copy_from_slice(part);
                sum(&whole)
            });
            at = next;
        }
        if bytes.is_empty() {
            return Ok(());
        }
        let length = bytes.len() as u64;
        self.change(
            &mut header,
            Change::Write { offset, length },
            [0; 2],
            || {
                self.sums.write(first, &sums)?;
                self.data.write(bytes, offset)
            },
        )?;
        Ok(())
    }

    /// Cuts it to `length` bytes at most, and lets go of space beyond its end. A damaged block that is
    /// cut in two stays damaged.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn truncate(&self, length: u64) -> io::Result<()> {
        let mut header = self.ready()?;
        let has = self.data.length()?;
        if has <= length {
            // Also to the length that it has: that lets go of what was reserved beyond.
            self.data.set_length(has)?;
            return self.sums.truncate(blocks_up_to(length));
        }
        let edge = self.edge(&header, length / BLOCK, &(length..u64::MAX))?;
        let edges = [edge.unwrap_or(0), 0];
        self.change(&mut header, Change::Truncate { length }, edges, || {
            self.do_truncate(length, edges)
        })
    }

    pub(super) fn do_truncate(&self, length: u64, edges: [u32; 2]) -> io::Result<()> {
        self.data.set_length(self.data.length()?.min(length))?;
        self.sums.truncate(blocks_up_to(length))?;
        if !length.is_multiple_of(BLOCK) {
            self.sums.write(length / BLOCK, &edges[..1])?;
        }
        Ok(())
    }

    /// As [`Allocation`] has it. A damaged block of which a part becomes zeros stays damaged.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn allocate(&self, range: &Range<u64>, allocation: Allocation) -> io::Result<()> {
        let mut header = self.ready()?;
        if range.is_empty() {
            return Ok(());
        }
        if allocation.zeroes() {
            let last = (range.end - 1) / BLOCK;
            let first = range.start / BLOCK;
            let mut edges = [self.edge(&header, first, range)?.unwrap_or(0), 0];
            if last != first {
                edges[1] = self.edge(&header, last, range)?.unwrap_or(0);
            }
            let change = Change::Zero {
                range: range.clone(),
            };
            self.change(&mut header, change, edges, || {
                self.data.allocate(range, allocation)?;
                self.do_zero_sums(range, edges)
            })?;
        } else {
            self.data.allocate(range, allocation)?;
        }
        if allocation.reserves() {
            let blocks = range.start / BLOCK..blocks_up_to(range.end);
            self.sums.reserve(&blocks)?;
        }
        Ok(())
    }

    /// Makes the checksums of what became zeros right.
    pub(super) fn do_zero_sums(&self, range: &Range<u64>, edges: [u32; 2]) -> io::Result<()> {
        let whole = blocks_up_to(range.start)..range.end / BLOCK;
        if !whole.is_empty() {
            self.sums.clear(&whole)?;
        }
        let (first, last) = (range.start / BLOCK, (range.end - 1) / BLOCK);
        if is_in_part(first, range) {
            self.sums.write(first, &edges[..1])?;
        }
        if last != first && is_in_part(last, range) {
            self.sums.write(last, &edges[1..])?;
        }
        Ok(())
    }

    /// Returns the new checksum of a block of which the part that is in `zeros` becomes zeros;
    /// `None` for one that becomes zeros whole.
    fn edge(&self, header: &Header, block: u64, zeros: &Range<u64>) -> io::Result<Option<u32>> {
        if !is_in_part(block, zeros) {
            return Ok(None);
        }
        let (mut whole, stored) = self.block(block)?;
        // A damaged block stays damaged: as far from the right checksum as it was.
        let wrong = if header.doubtful {
            0
        } else {
            sum(&whole) ^ stored
        };
        let start = zeros.start.saturating_sub(block * BLOCK) as usize;
        let end = (zeros.end - block * BLOCK).min(BLOCK) as usize;
        whole[start..end].fill(0);
        Ok(Some(sum(&whole) ^ wrong))
    }

    /// Carries out a change so that it is known to be under way while it is.
    fn change(
        &self,
        header: &mut Header,
        change: Change,
        edges: [u32; 2],
        act: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        assert!(!header.settled, "a settled object is changed");
        header.generation = self.current;
        let under_way = UnderWay { change, edges };
        header.under_way = Some(under_way.clone());
        if let Err(error) = self.sums.put_header(header) {
            // Nothing has been done, and nothing is to be brought to an end.
            header.under_way = None;
            return Err(error);
        }
        let done = act();
        if done.is_err() {
            // Should this fail too, it is tried again before anything else is done with the object.
            self.recover(&under_way)?;
        }
        header.under_way = None;
        self.sums.put_header(header)?;
        done
    }
}

/// Of the blocks from `first` on, of which `filled` bytes are before the object's end, those that do not fit
/// their checksums.
pub(crate) fn misfits<'b>(
    first: u64,
    blocks: &'b [[u8; CHECKSUM_BLOCK_BYTES]],
    filled: usize,
    stored: &'b [u32],
) -> impl Iterator<Item = u64> + 'b {
    let pairs = blocks.iter().zip(stored).enumerate();
    pairs.filter_map(move |(at, (block, &stored))| {
        let is_beyond = at * CHECKSUM_BLOCK_BYTES >= filled;
        let sum = if is_beyond { 0 } else { sum(block) };
        (sum != stored).then_some(first + at as u64)
    })
}

/// Whether some of the block is in the range and some is not.
fn is_in_part(block: u64, range: &Range<u64>) -> bool {
    let start = block * BLOCK;
    let is_in = start < range.end && range.start < start + BLOCK;
    is_in && (start < range.start || range.end < start + BLOCK)
}

impl<F> fmt::Debug for Checked<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checked")
            .field("header", &self.header)
            .finish_non_exhaustive()
    }
}
