//! Rewriting of an object as it is.
//!
//! Its pages may count as written though the disk did not take them.

use super::checked::{Checked, SumsError};
use super::{BLOCK, Raw, blocks_up_to};
use pandofs_types::limits::CHECKSUM_BLOCK_BYTES;

/// Blocks that are written at once.
const BLOCKS_AT_ONCE: u64 = 256;
/// Checksums of a hole that are looked at at once.
const SUMS_AT_ONCE: u64 = 1 << 16;

impl<F: Raw> Checked<F> {
    /// Writes data and checksums once more.
    ///
    /// # Errors
    /// [`SumsError::Damaged`] when the system does not have all of it any more: these blocks do not fit their checksums.
    pub(crate) fn write_again(&self) -> Result<(), SumsError> {
        let header = self.ready()?;
        let length = self.data.length()?;
        let mut at = 0;
        while at < length {
            let data = self.data.next_data(at)?.unwrap_or(length..length);
            // Whole blocks, also where those of the file system below are smaller ones.
            let from = (data.start / BLOCK * BLOCK).max(at);
            self.expect_hole(at / BLOCK, from / BLOCK)?;
            let end = data.end.next_multiple_of(BLOCK).min(length);
            at = from;
            while at < end {
                let blocks = blocks_up_to(end - at).min(BLOCKS_AT_ONCE);
                let size = (blocks * BLOCK) as usize;
                let mut bytes = self.data.read_up_to(size, at)?;
                let filled = bytes.len();
                bytes.resize(filled.next_multiple_of(CHECKSUM_BLOCK_BYTES), 0);
                self.expect(&header, at / BLOCK, &bytes, filled)?;
                self.data.write(&bytes[..filled], at)?;
                let sums = self
                    .sums
                    .read(at / BLOCK, bytes.len() / CHECKSUM_BLOCK_BYTES)?;
                self.sums.write(at / BLOCK, &sums)?;
                at += size as u64;
            }
        }
        self.sums.put_header(&header)?;
        Ok(())
    }

    /// Blocks that have no space are to have none.
    fn expect_hole(&self, first: u64, end: u64) -> Result<(), SumsError> {
        let mut at = first;
        while at < end {
            let count = (end - at).min(SUMS_AT_ONCE);
            let sums = self.sums.read(at, count as usize)?;
            let misfits = sums.iter().zip(at..).filter(|&(&sum, _)| sum != 0);
            let damaged: Vec<u64> = misfits.map(|(_, block)| block).collect();
            if !damaged.is_empty() {
                return Err(SumsError::Damaged(damaged));
            }
            at += count;
        }
        Ok(())
    }
}
