//! The file of checksums beside an object: a header of 64 bytes, then 4 bytes for each block.
//!
//! All numbers are big-endian. The header:
//!
//! | bytes | |
//! | --- | --- |
//! | 0 to 7 | `pandosum` |
//! | 8, 9 | version, 1 |
//! | 10 | 1: settled; 2: doubtful |
//! | 11 | the change under way: 0 none, 1 write, 2 cut, 3 zeros |
//! | 12 to 15 | bytes of a block, 4,096 |
//! | 16 to 23 | generation |
//! | 24 to 31 | where the change begins |
//! | 32 to 39 | its bytes; of a truncation 0 |
//! | 40 to 43, 44 to 47 | what the checksums of the blocks will be in which a truncation or zeros begin and end, if these change in part |
//! | 48 to 51 | the truncations of the file that the object has followed; 0 of one that has followed none |
//! | 52 to 59 | 0 |
//! | 60 to 63 | CRC-32C of bytes 0 to 59 |
//!
//! The checksum of block `n` is at `64 + 4 n`.

use super::{BLOCK, Raw};
use pandofs_api::Allocation;
use std::io;
use std::ops::Range;

/// Version of the file.
pub(super) const VERSION: u16 = 1;
pub(crate) const HEADER_BYTES: usize = 64;
const MAGIC: [u8; 8] = *b"pandosum";
const SETTLED: u8 = 1;
const DOUBTFUL: u8 = 2;
/// Bytes of one checksum.
pub(crate) const SUM_BYTES: u64 = 4;

/// A change of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Write {
        offset: u64,
        length: u64,
    },
    /// To this length.
    Truncate {
        length: u64,
    },
    /// To zeros.
    Zero {
        range: Range<u64>,
    },
}

/// A change that may have been cut short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnderWay {
    pub change: Change,
    /// New checksums of the blocks at its start and its end.
    pub edges: [u32; 2],
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Data and checksums are on disk.
    pub settled: bool,
    /// Was unsettled in a lost generation, and has not been looked at as a whole since.
    pub doubtful: bool,
    /// In which it was changed last.
    pub generation: u64,
    pub under_way: Option<UnderWay>,
    /// Cuts of the file that the object has followed.
    pub truncations: u32,
}

/// Bytes found at the place of the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing, or zeros: it was never written, or was lost.
    Nothing,
    /// Something else.
    Broken,
    Header(Header),
}

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&VERSION.to_be_bytes());
        bytes[10] =
            if self.settled { SETTLED } else { 0 } | if self.doubtful { DOUBTFUL } else { 0 };
        bytes[12..16].copy_from_slice(&(BLOCK as u32).to_be_bytes());
        bytes[16..24].copy_from_slice(&self.generation.to_be_bytes());
        if let Some(UnderWay { change, edges }) = &self.under_way {
            let (code, offset, length) = match change {
                Change::Write { offset, length } => (1, *offset, *length),
                Change::Truncate { length } => (2, *length, 0),
                Change::Zero { range } => (3, range.start, range.end - range.start),
            };
            bytes[11] = code;
            bytes[24..32].copy_from_slice(&offset.to_be_bytes());
            bytes[32..40].copy_from_slice(&length.to_be_bytes());
            bytes[40..44].copy_from_slice(&edges[0].to_be_bytes());
            bytes[44..48].copy_from_slice(&edges[1].to_be_bytes());
        }
        bytes[48..52].copy_from_slice(&self.truncations.to_be_bytes());
        let sum = crc32c::crc32c(&bytes[..60]);
        bytes[60..].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8; HEADER_BYTES]) -> Found {
        if bytes.iter().all(|&byte| byte == 0) {
            return Found::Nothing;
        }
        match Header::parse(bytes) {
            // Bytes that it does not account for must not be there either.
            Some(header) if header.encode() == *bytes => Found::Header(header),
            _ => Found::Broken,
        }
    }

    fn parse(bytes: &[u8; HEADER_BYTES]) -> Option<Header> {
        let u32_at = |at: usize| Some(u32::from_be_bytes(*bytes[at..].first_chunk()?));
        let u64_at = |at: usize| Some(u64::from_be_bytes(*bytes[at..].first_chunk()?));
        let (offset, length) = (u64_at(24)?, u64_at(32)?);
        let change = match bytes[11] {
            0 => None,
            1 => Some(Change::Write { offset, length }),
            2 => Some(Change::Truncate { length: offset }),
            3 => Some(Change::Zero {
                range: offset..offset.checked_add(length)?,
            }),
            _ => return None,
        };
        let edges = [u32_at(40)?, u32_at(44)?];
        Some(Header {
            settled: bytes[10] & SETTLED != 0,
            doubtful: bytes[10] & DOUBTFUL != 0,
            generation: u64_at(16)?,
            under_way: change.map(|change| UnderWay { change, edges }),
            truncations: u32_at(48)?,
        })
    }
}

/// Whether what is where the header should be is none.
pub(crate) fn has_broken_header(bytes: &[u8]) -> bool {
    let mut header = [0; HEADER_BYTES];
    let count = bytes.len().min(HEADER_BYTES);
    header[..count].copy_from_slice(&bytes[..count]);
    Header::decode(&header) == Found::Broken
}

/// The file.
#[derive(Debug)]
pub(super) struct Sidecar<F>(pub F);

impl<F: Raw> Sidecar<F> {
    pub(super) fn header(&self) -> io::Result<Found> {
        let mut bytes = [0; HEADER_BYTES];
        self.0.read(&mut bytes, 0)?;
        Ok(Header::decode(&bytes))
    }

    pub(super) fn put_header(&self, header: &Header) -> io::Result<()> {
        self.0.write(&header.encode(), 0)
    }

    /// The checksums of blocks from `first` on.
    pub(super) fn read(&self, first: u64, count: usize) -> io::Result<Vec<u32>> {
        let mut bytes = vec![0; count * SUM_BYTES as usize];
        self.0.read(&mut bytes, place(first))?;
        Ok(decode_sums(&bytes))
    }

    pub(super) fn write(&self, first: u64, sums: &[u32]) -> io::Result<()> {
        let bytes: Vec<u8> = sums.iter().flat_map(|sum| sum.to_be_bytes()).collect();
        self.0.write(&bytes, place(first))
    }

    /// Makes these blocks' checksums those of holes.
    pub(super) fn clear(&self, blocks: &Range<u64>) -> io::Result<()> {
        let end = place(blocks.end).min(self.0.length()?);
        let start = place(blocks.start);
        if start < end {
            self.0.allocate(&(start..end), Allocation::Punch)?;
        }
        Ok(())
    }

    /// Lets go of all checksums from block `count` on.
    pub(super) fn truncate(&self, count: u64) -> io::Result<()> {
        let end = place(count);
        if self.0.length()? > end {
            self.0.set_length(end)?;
        }
        Ok(())
    }

    /// Has room for these checksums from now on.
    pub(super) fn reserve(&self, blocks: &Range<u64>) -> io::Result<()> {
        let range = place(blocks.start)..place(blocks.end);
        let kept = Allocation::Reserve { keep_size: true };
        self.0.allocate(&range, kept)
    }
}

/// Where the checksum of a block is.
pub(crate) fn place(block: u64) -> u64 {
    HEADER_BYTES as u64 + block * SUM_BYTES
}

/// The block whose checksum is at `place` or the first one after.
pub(crate) fn block_at(place: u64) -> u64 {
    place.saturating_sub(HEADER_BYTES as u64) / SUM_BYTES
}

/// Checksums as they are in the file.
pub(super) fn decode_sums(bytes: &[u8]) -> Vec<u32> {
    let (sums, _) = bytes.as_chunks::<{ SUM_BYTES as usize }>();
    sums.iter().map(|&sum| u32::from_be_bytes(sum)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(under_way: Option<UnderWay>) -> Header {
        Header {
            settled: false,
            doubtful: true,
            generation: 0x0102_0304,
            under_way,
            truncations: 0x0a0b_0c0d,
        }
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn samples() -> [(Header, &'static str); 4] {
        let settled = Header {
            settled: true,
            doubtful: false,
            ..header(None)
        };
        let write = Change::Write {
            offset: 4_096,
            length: 5,
        };
        let cut = Change::Truncate { length: 4_097 };
        let zero = Change::Zero { range: 100..10_000 };
        let under_way = |change, edges| header(Some(UnderWay { change, edges }));
        [
            (
                settled,
                "70616e646f73756d000101000000100000000000010203040000000000000000\
                 000000000000000000000000000000000a0b0c0d0000000000000000b52e0d62",
            ),
            (
                under_way(write, [0, 0]),
                "70616e646f73756d000102010000100000000000010203040000000000001000\
                 000000000000000500000000000000000a0b0c0d0000000000000000323a3372",
            ),
            (
                under_way(cut, [7, 0]),
                "70616e646f73756d000102020000100000000000010203040000000000001001\
                 000000000000000000000007000000000a0b0c0d00000000000000002bf7a595",
            ),
            (
                under_way(zero, [0xaabb_ccdd, 0x1122_3344]),
                "70616e646f73756d000102030000100000000000010203040000000000000064\
                 00000000000026acaabbccdd112233440a0b0c0d0000000000000000e45e240f",
            ),
        ]
    }

    /// Files of version 1 have these bytes: a change here needs another version.
    #[test]
    fn headers_are_pinned() {
        for (header, pinned) in samples() {
            let bytes = header.encode();
            assert_eq!(hex(&bytes), pinned);
            assert_eq!(Header::decode(&bytes), Found::Header(header));
        }
        assert_eq!((place(0), place(1_000)), (64, 4_064));
        assert_eq!((block_at(64), block_at(4_064), block_at(0)), (0, 1_000, 0));
    }

    #[test]
    fn a_header_with_any_bit_flipped_is_broken() {
        for (header, _) in samples() {
            for bit in 0..HEADER_BYTES * 8 {
                let mut bytes = header.encode();
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Header::decode(&bytes), Found::Broken, "bit {bit}");
            }
        }
        assert_eq!(Header::decode(&[0; HEADER_BYTES]), Found::Nothing);
        // A header of another version, and a range that ends nowhere.
        let mut bytes = samples()[0].0.encode();
        bytes[9] = 2;
        let sum = crc32c::crc32c(&bytes[..60]);
        bytes[60..].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(Header::decode(&bytes), Found::Broken);
        let mut bytes = samples()[3].0.encode();
        bytes[24..40].copy_from_slice(&[0xff; 16]);
        let sum = crc32c::crc32c(&bytes[..60]);
        bytes[60..].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(Header::decode(&bytes), Found::Broken);
    }

    #[test]
    fn checksums_have_their_places_and_are_0_where_none_are() {
        let sidecar = Sidecar(tempfile::tempfile().unwrap());
        assert_eq!(sidecar.header().unwrap(), Found::Nothing);
        sidecar.put_header(&header(None)).unwrap();
        sidecar.write(2, &[1, 0x0203_0405]).unwrap();
        let length = sidecar.0.metadata().unwrap().len();
        assert_eq!(length, 64 + 4 * 4);
        let mut bytes = [0; 16];
        sidecar.0.read(&mut bytes, 64).unwrap();
        assert_eq!(bytes, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5]);
        assert_eq!(sidecar.read(1, 5).unwrap(), [0, 1, 0x0203_0405, 0, 0]);
        sidecar.clear(&(3..1 << 40)).unwrap();
        assert_eq!(sidecar.read(1, 5).unwrap(), [0, 1, 0, 0, 0]);
        sidecar.reserve(&(4..100)).unwrap();
        assert_eq!(sidecar.0.metadata().unwrap().len(), length);
        sidecar.truncate(2).unwrap();
        sidecar.truncate(9).unwrap();
        assert_eq!(sidecar.0.metadata().unwrap().len(), 64 + 4 * 2);
        assert_eq!(sidecar.read(1, 5).unwrap(), [0; 5]);
        assert_eq!(sidecar.header().unwrap(), Found::Header(header(None)));
    }
}
