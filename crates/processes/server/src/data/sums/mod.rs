//! Checksums of data objects.
//!
//! Every object has a file of checksums beside it ([`sidecar`]), a CRC-32C for each block of 4 KiB, and
//! [`Checked`] is the two together: what is read has been checked, and what is changed changes both. A
//! block that does not fit its checksum is *damaged*: reading it is an error, writing a part of it too, and
//! it stays damaged until it is written whole, cut off or made a hole. The other blocks are not affected.
//! `docs/data-layout.md` has the files byte by byte.
//!
//! A checksum is stored as its difference (exclusive or) from that of a block of zeros. So the checksum of
//! a hole is 0, holes of the object are holes of the file of checksums, what lies beyond its end is 0 too,
//! and an object that was cut off behind the server's back shows by the checksums of what is missing.
//!
//! # A server that is killed
//!
//! Its writes are in the system's page cache then, and none is lost; but of the
//! several writes that a change takes, some may not have happened, and the last one that did may be
//! cut short. So the header of the file of checksums is written first, and says what is under way;
//! then the checksums, then the data; then the header again. An open finds out by the object's
//! header whether a change was cut short:
//!
//! - A write: its blocks are taken as they are. Each holds what it held (which was checked if the write
//!   covers it in part), or what was to be written, or some of both; it was not acknowledged, and the client asks
//!   for it again. Keeping the old checksum beside the new one would not do: it knows nothing of a block of which
//!   a half was copied, which Linux leaves behind when a kill meets a page fault.
//! - A cut, a hole, zeros: are done once more, which changes nothing where they were done (zeros as a hole,
//!   which needs no space). The checksums of the blocks at their ends are in the header, as of these only
//!   a part changes.
//!
//! The header is 64 bytes at the start of a page and is copied from memory that was just filled: it is old or
//! new. If not, its own checksum says so, and the object's blocks are held to their checksums.
//!
//! The space for checksums is had before the data is touched, so that a full disk refuses a change
//! before it has begun; and whatever else fails in the middle is dealt with as if the server had been killed
//! there.
//!
//! # A machine that loses power
//!
//! Until it is synced, the system writes pages of both files to the disk in any order, or not at all. So
//! there has to be something on the disk beforehand from which one learns that an object was being changed,
//! and that costs a sync: without it no order of writes tells the loss of a page of checksums from damage to
//! the data. To pay it for each change, or for each first one after `fsync`, would double what a database
//! costs, and to sync the checksums whenever the data is would do so again. As with the write-intent bitmaps of
//! RAID, what is changed often stays marked:
//!
//! - An object begins *unsettled*, in the present *generation* ([`super::generation`]: a start of the machine).
//!   No sync is needed: a header that has not reached the disk (a missing or an empty file) says as much as
//!   one that has.
//! - `fsync` syncs the data alone: the checksums on the disk are not trusted of an unsettled object.
//! - An object that was not changed for a minute is synced, data and checksums, and *settled*: its header
//!   says so, and need not be synced, as it is true whenever it reaches the disk.
//! - Before the first change of a settled object its header says that it is unsettled, and *that* is synced,
//!   while other objects are served (`pool.rs`). So an object costs one more sync once it has lain
//!   still for a minute, and a new one, or one in steady use, none.
//!
//! A generation that is followed by another one is *lost*: what was not synced of it may be gone.
//! An unsettled object of a lost generation is *doubtful*: a block that does not fit its checksum
//! is taken as it is, gets the checksum that it should have, and the log says so. Nor is a change
//! taken to be under way: the header on the disk may be older than data that was synced. That ends
//! when the whole object has been looked at (`scrub`). A settled object is not doubtful, whatever
//! happened to the machine.
//!
//! Invariant: no block is given to a reader, or merged with what a writer has for a part of it, unless it
//! fits its checksum or its object is doubtful; and no block gets a checksum that it fits unless it fitted
//! the one before, was written whole, or one of the two reasons above holds.

mod again;
mod checked;
mod raw;
mod recovery;
mod sidecar;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub(crate) use checked::{Checked, Note, SumsError};
pub(crate) use raw::Raw;
pub(crate) use sidecar::{HEADER_BYTES, SUM_BYTES, block_at, has_broken_header, place};

use pandofs_types::limits::CHECKSUM_BLOCK_BYTES;

/// Bytes of a block.
pub(crate) const BLOCK: u64 = CHECKSUM_BLOCK_BYTES as u64;

/// CRC-32C of a block of zeros.
const SUM_OF_ZEROS: u32 = 0x98f9_4189;
/// Filler of a shorter block.
static ZEROS: [u8; CHECKSUM_BLOCK_BYTES] = [0; CHECKSUM_BLOCK_BYTES];

/// The checksum of a block, as it is stored. A shorter one ends in zeros.
///
/// # Panics
/// When it is longer than a block.
pub(crate) fn sum(block: &[u8]) -> u32 {
    let missing = &ZEROS[block.len()..];
    let sum = crc32c::crc32c(block);
    if missing.is_empty() {
        sum ^ SUM_OF_ZEROS
    } else {
        crc32c::crc32c_append(sum, missing) ^ SUM_OF_ZEROS
    }
}

/// Whether bytes that were read from the start of a block on fit the checksums that were read for them;
/// where either ends, there is nothing more.
pub(crate) fn fit(bytes: &[u8], stored: &[u8]) -> bool {
    let stored = sidecar::decode_sums(stored);
    let blocks = bytes.len().div_ceil(CHECKSUM_BLOCK_BYTES).max(stored.len());
    (0..blocks).all(|at| {
        let start = (at * CHECKSUM_BLOCK_BYTES).min(bytes.len());
        let end = (start + CHECKSUM_BLOCK_BYTES).min(bytes.len());
        sum(&bytes[start..end]) == stored.get(at).copied().unwrap_or(0)
    })
}

/// The number of the first block that begins at `offset` or later.
fn blocks_up_to(offset: u64) -> u64 {
    offset.div_ceil(BLOCK)
}
