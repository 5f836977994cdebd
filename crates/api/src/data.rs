//! Requests to a server's data objects.

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
    pub first: ServerId,
    /// Servers there were when the file was made.
    pub servers: u16,
}

/// One run of bytes inside one data object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
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

    /// Bytes that data object `object` may keep when the file is cut to `size` bytes.
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DataRequest {
    /// Answers `Data`, shorter where the object ends: what is missing is a hole.
    Read { ino: Ino, offset: u64, length: u32 },
    /// Answers `Done`.
    Write {
        ino: Ino,
        offset: u64,
        #[serde(with = "serde_bytes")]
        data: Vec<u8>,
    },
    /// Cuts the object to `length` bytes at most; never extends it. Answers `Done`.
    Truncate { ino: Ino, length: u64 },
    /// Answers `Done`, also if there is none.
    Remove { ino: Ino },
    /// Forces the object. Answers `Done`.
    Sync { ino: Ino },
    /// Bytes on disk. Answers `Usage`.
    Usage { ino: Ino },
    /// Of the file system below. Answers `Space`.
    Space,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DataReply {
    Done,
    Data(#[serde(with = "serde_bytes")] Vec<u8>),
    /// Units of 512 bytes.
    Usage {
        blocks: u64,
    },
    /// Bytes, and inodes that are in use on this server's shards.
    Space {
        total: u64,
        free: u64,
        available: u64,
        inodes: u64,
        /// Servers that answer with the same number keep their data objects on the same disk: its room
        /// counts once.
        disk: u64,
    },
    Failed(FsError),
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
    fn object_sizes_add_up_to_the_file() {
        for size in [0, 1, 4_095, 4_096, 4_097, 12_288, 12_289, 50_000] {
            let sum: u64 = (0..3).map(|object| LAYOUT.object_size(object, size)).sum();
            assert_eq!(sum, size);
        }
    }
}
