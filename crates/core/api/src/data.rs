//! Requests to a server's data objects.

use crate::Allocation;
use pandofs_types::{FsError, Ino, ServerId};
use serde::{Deserialize, Serialize};

/// How a file is striped: unit `u` of the file is in row `u / count` of data object `u % count`,
/// which is on server `(first + u % count) % servers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Layout {
    /// Bytes.
    pub unit: u32,
    /// Data objects, at most `servers`.
    pub count: u16,
    /// The server of data object 0.
    pub first: ServerId,
    /// Servers there were when the file was made.
    pub servers: u16,
}

/// One run of bytes inside one data object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The server that has the data object.
    pub server: ServerId,
    /// Offset in the data object, bytes.
    pub object_offset: u64,
    /// Offset in the file, bytes.
    pub file_offset: u64,
    /// Bytes.
    pub length: u64,
}

impl Layout {
    /// Whether the figures make sense (they come from the network or the disk).
    pub fn is_valid(&self) -> bool {
        self.unit >= pandofs_types::limits::MIN_STRIPE_UNIT_BYTES
            && self.count >= 1
            && self.count <= self.servers
            && self.first.0 < self.servers
    }

    /// The server of data object `object`.
    pub fn server_of(&self, object: u16) -> ServerId {
        ServerId(((u32::from(self.first.0) + u32::from(object)) % u32::from(self.servers)) as u16)
    }

    /// Every server with a data object of the file.
    pub fn servers(&self) -> impl Iterator<Item = ServerId> + '_ {
        (0..self.count).map(|object| self.server_of(object))
    }

    /// Cuts `offset .. offset + length` of the file at stripe units.
    pub fn extents(&self, offset: u64, length: u64) -> Vec<Extent> {
        let unit = u64::from(self.unit);
        let count = u64::from(self.count);
        let mut extents = Vec::new();
        let mut at = offset;
        let end = offset + length;
        while at < end {
            let index = at / unit;
            let within = at % unit;
            let run = (unit - within).min(end - at);
            extents.push(Extent {
                server: self.server_of((index % count) as u16),
                object_offset: index / count * unit + within,
                file_offset: at,
                length: run,
            });
            at += run;
        }
        extents
    }

    /// Where in the file byte `offset` of data object `object` is.
    pub fn file_offset(&self, object: u16, offset: u64) -> u64 {
        let unit = u64::from(self.unit);
        let row = offset / unit;
        let index = row
            .saturating_mul(u64::from(self.count))
            .saturating_add(u64::from(object));
        index.saturating_mul(unit).saturating_add(offset % unit)
    }

    /// The part of each data object that `start .. end` of the file is in, where there is any: one run of
    /// bytes, as the object's bytes are in the file's order. Server, offset in the object and length.
    pub fn object_ranges(
        &self,
        start: u64,
        end: u64,
    ) -> impl Iterator<Item = (ServerId, u64, u64)> + '_ {
        (0..self.count).filter_map(move |object| {
            let from = self.object_size(object, start);
            let length = self.object_size(object, end).saturating_sub(from);
            (length > 0).then(|| (self.server_of(object), from, length))
        })
    }

    /// Bytes that data object `object` may keep when the file is truncated to `size` bytes.
    pub fn object_size(&self, object: u16, size: u64) -> u64 {
        let unit = u64::from(self.unit);
        let count = u64::from(self.count);
        let object = u64::from(object);
        let full = size / unit;
        let rows = full / count;
        let last = full % count;
        let partial = size % unit;
        rows * unit
            + match object.cmp(&last) {
                std::cmp::Ordering::Less => unit,
                std::cmp::Ordering::Equal => partial,
                std::cmp::Ordering::Greater => 0,
            }
    }
}

/// Asked of a server, about its data object of one file.
///
/// An object counts the [truncations](crate::InodeReply::truncations) of its file that it has followed, and what changes it says which
/// count its sender goes by. (A writes and its request is held up; B truncates the file and writes; were A's request carried out
/// then, it would undo what B has written.) With another count than the object's a change is answered `OtherTruncations` and
/// nothing is changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DataRequest {
    /// Answers `Data`, shorter where the object ends: what is missing is a hole.
    Read {
        /// The file.
        ino: Ino,
        /// Offset in the object, bytes.
        offset: u64,
        /// Bytes.
        length: u32,
    },
    /// Answers `Done`, or `OtherTruncations`.
    Write {
        /// The file.
        ino: Ino,
        /// The count that the sender goes by.
        truncations: u32,
        /// Offset in the object, bytes.
        offset: u64,
        /// The bytes that are to stand from `offset` on.
        #[serde(with = "serde_bytes")]
        data: Vec<u8>,
    },
    /// The file was truncated the `truncations`th time: truncates the object to `length` bytes at most, and lets go of space beyond its end;
    /// never extends it. An object that has followed as many truncations is left as it is, so that it may be asked again
    /// whenever. Answers `Done`, once that is on disk.
    Truncate {
        /// The file.
        ino: Ino,
        /// The count with this truncation.
        truncations: u32,
        /// Bytes.
        length: u64,
    },
    /// Answers `Done`, also if there is none.
    Remove {
        /// The file.
        ino: Ino,
    },
    /// Syncs the object. Answers `Done`.
    Sync {
        /// The file.
        ino: Ino,
    },
    /// Bytes on disk. Answers `Usage`.
    Usage {
        /// The file.
        ino: Ino,
    },
    /// Of the file system below. Answers `Space`.
    Space,
    /// Does this to `offset .. offset + length` of the object. Answers `Done`, or `OtherTruncations`.
    Allocate {
        /// The file.
        ino: Ino,
        /// The count that the sender goes by.
        truncations: u32,
        /// Offset in the object, bytes.
        offset: u64,
        /// Bytes.
        length: u64,
        /// Reserve, punch or zero.
        allocation: Allocation,
    },
    /// Looks from `offset` on for the next byte that has data, or that has none, as what lies beyond
    /// the object's end does. Answers `Found`.
    Seek {
        /// The file.
        ino: Ino,
        /// Offset in the object, bytes.
        offset: u64,
        /// Whether data is looked for, and not a hole.
        data: bool,
    },
    /// The data that the inode held when the file outgrew it, which counts as a truncation: written to the object's start, unless the
    /// object has followed as many truncations. Answers `Done`, once that is on disk.
    Fill {
        /// The file.
        ino: Ino,
        /// The count with this truncation.
        truncations: u32,
        /// All that the inode held, which is never more than one stripe unit.
        #[serde(with = "serde_bytes")]
        data: Vec<u8>,
        /// It may take half of the space that is kept back: it was promised, and refused without that.
        from_reserve: bool,
    },
}

impl DataRequest {
    /// The inode of the object that it is about.
    pub fn ino(&self) -> Option<Ino> {
        match *self {
            DataRequest::Read { ino, .. }
            | DataRequest::Write { ino, .. }
            | DataRequest::Truncate { ino, .. }
            | DataRequest::Remove { ino }
            | DataRequest::Sync { ino }
            | DataRequest::Usage { ino }
            | DataRequest::Allocate { ino, .. }
            | DataRequest::Seek { ino, .. }
            | DataRequest::Fill { ino, .. } => Some(ino),
            DataRequest::Space => None,
        }
    }
}

/// The count of truncations with which a file gets its data objects. An object that is not there has followed so many.
pub const FIRST_TRUNCATIONS: u32 = 1;

/// Answer to a [`DataRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DataReply {
    /// It was done; on disk only where the request says so.
    Done,
    /// The bytes from the offset on, up to the end of the object.
    Data(#[serde(with = "serde_bytes")] Vec<u8>),
    /// Units of 512 bytes.
    Usage {
        /// Space that the object takes, holes left out.
        blocks: u64,
    },
    /// Bytes, and inodes that are in use on this server's shards.
    Space {
        /// Bytes that the disk has in all.
        total: u64,
        /// Bytes that are free.
        free: u64,
        /// Bytes that are free for users other than the superuser.
        available: u64,
        /// Inodes on the server's shards.
        inodes: u64,
        /// Servers that answer with the same number keep their data objects on the same disk: its room
        /// counts once.
        disk: u64,
    },
    /// Nothing was changed, or an unknown part of the range if the disk failed.
    Failed(FsError),
    /// Offset in the object; `None` where no data follows.
    Found {
        /// Bytes from the object's start.
        offset: Option<u64>,
    },
    /// The object has followed another number of truncations than the request goes by: more, and its sender has to ask the inode's
    /// shard what the file is like; or fewer, and a truncation is on its way. Nothing is changed.
    OtherTruncations {
        /// The object's count.
        truncations: u32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: Layout = Layout {
        unit: 4_096,
        count: 3,
        first: ServerId(2),
        servers: 4,
    };

    #[test]
    fn extents_go_round_the_servers() {
        let extents = LAYOUT.extents(4_000, 9_000);
        let short: Vec<_> = extents
            .iter()
            .map(|e| (e.server.0, e.object_offset, e.file_offset, e.length))
            .collect();
        assert_eq!(
            short,
            [
                (2, 4_000, 4_000, 96),
                (3, 0, 4_096, 4_096),
                (0, 0, 8_192, 4_096),
                (2, 4_096, 12_288, 712)
            ]
        );
    }

    #[test]
    fn a_range_of_the_file_is_one_range_of_each_object() {
        for (start, end) in [(0, 1), (4_000, 13_000), (100, 50_000), (8_192, 12_288)] {
            let mut lengths = [(None, 0); 4];
            for extent in LAYOUT.extents(start, end - start) {
                let (from, length) = &mut lengths[usize::from(extent.server.0)];
                from.get_or_insert(extent.object_offset);
                *length += extent.length;
            }
            let mut ranges = [(None, 0); 4];
            for (server, from, length) in LAYOUT.object_ranges(start, end) {
                ranges[usize::from(server.0)] = (Some(from), length);
            }
            assert_eq!(ranges, lengths, "{start} to {end}");
        }
    }

    #[test]
    fn an_offset_in_an_object_has_its_place_in_the_file() {
        for extent in LAYOUT.extents(4_000, 90_000) {
            let object = (0..3).find(|&object| LAYOUT.server_of(object) == extent.server);
            assert_eq!(
                LAYOUT.file_offset(object.unwrap(), extent.object_offset),
                extent.file_offset
            );
        }
    }

    #[test]
    fn object_sizes_add_up_to_the_file() {
        for size in [0, 1, 4_095, 4_096, 4_097, 12_288, 12_289, 50_000] {
            let sum: u64 = (0..3).map(|object| LAYOUT.object_size(object, size)).sum();
            assert_eq!(sum, size);
        }
    }
}
