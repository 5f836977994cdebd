//! Luck of one loss of power: what of the held changes had reached the disk.

use rand::Rng;
use rand::rngs::StdRng;

/// Bytes that a disk writes whole or not at all.
pub(crate) const SECTOR: usize = 512;
/// A page as a bit for each of its sectors.
pub(crate) type Sectors = u8;
const ALL: Sectors = Sectors::MAX;
/// One page of so many that is written at all is torn.
const TORN_OF: u32 = 6;

/// Source of chances.
pub(crate) struct Luck<'r> {
    random: &'r mut StdRng,
    /// Percent of the pages that had reached the disk, of the file at hand.
    kept: u32,
}

impl<'r> Luck<'r> {
    pub(crate) fn new(random: &'r mut StdRng) -> Luck<'r> {
        Luck { random, kept: 50 }
    }

    /// For another file: of some there is all, of some nothing, of some a part.
    pub(crate) fn next_file(&mut self) {
        self.kept = [0, 0, 25, 50, 75, 100, 100][self.random.random_range(0..7)];
    }

    /// Draws how many of so many changes in order there are.
    pub(crate) fn prefix(&mut self, held: usize) -> usize {
        match self.random.random_range(0..4) {
            0 => 0,
            1 => held,
            _ => self.random.random_range(0..=held),
        }
    }

    /// Which sectors of a page that was written there are.
    pub(crate) fn page(&mut self) -> Sectors {
        if self.random.random_range(0..100) >= self.kept {
            0
        } else if self.random.random_range(0..TORN_OF) == 0 {
            self.random.random()
        } else {
            ALL
        }
    }

    /// Draws whether the size was written with a page that needed it.
    pub(crate) fn has_size(&mut self) -> bool {
        self.random.random_range(0..8) > 0
    }
}
