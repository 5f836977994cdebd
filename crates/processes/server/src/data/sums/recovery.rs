//! Recovery of a change that was cut short.
//!
//! To do it twice has the same result, as it may be cut short too.

use super::checked::Checked;
use super::sidecar::{Change, UnderWay};
use super::{BLOCK, Raw, blocks_up_to, sum};
use pandofs_api::Allocation;
use pandofs_types::limits::CHECKSUM_BLOCK_BYTES;
use std::io;
use std::ops::Range;

/// Blocks that are looked at at once.
const BLOCKS_AT_ONCE: u64 = 256;

impl<F: Raw> Checked<F> {
    pub(super) fn recover(&self, under_way: &UnderWay) -> io::Result<()> {
        match &under_way.change {
            Change::Write { offset, length } => {
                let end = offset.saturating_add(*length);
                self.take_as_they_are(&(offset / BLOCK..blocks_up_to(end)))
            }
            Change::Truncate { length } => self.do_truncate(*length, under_way.edges),
            Change::Zero { range } => {
                // Not beyond the end: a hole changes no length.
                if !range.is_empty() {
                    self.data.allocate(range, Allocation::Punch)?;
                    self.do_zero_sums(range, under_way.edges)?;
                }
                Ok(())
            }
        }
    }

    /// Gives blocks the checksums that they fit.
    fn take_as_they_are(&self, blocks: &Range<u64>) -> io::Result<()> {
        let mut first = blocks.start;
        while first < blocks.end {
            let count = (blocks.end - first).min(BLOCKS_AT_ONCE) as usize;
            let mut bytes = vec![0; count * CHECKSUM_BLOCK_BYTES];
            self.data.read(&mut bytes, first * BLOCK)?;
            let sums: Vec<u32> = bytes.chunks(CHECKSUM_BLOCK_BYTES).map(sum).collect();
            for (at, (sum, stored)) in sums.iter().zip(self.sums.read(first, count)?).enumerate() {
                // Only where it must be: a full disk may have refused the checksums of the rest.
                if *sum != stored {
                    self.sums.write(first + at as u64, &[*sum])?;
                }
            }
            first += count as u64;
        }
        Ok(())
    }
}
