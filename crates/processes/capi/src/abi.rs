//! Structures and numbers that C sees.
//!
//! All fields have fixed sizes, and no structure has bytes that belong to no field.

use pandofs_client::{Entry, Space};
use pandofs_handles::format;
use pandofs_types::Attr;
use std::ffi::{c_char, c_void};

/// The library's version, as pandofs_version_number() has it: major * 1000000 + minor * 1000 + patch. A program that was
/// compiled with one runs with every library of the same major and minor number, and the same or a later patch.
pub const PANDOFS_VERSION: u32 = 1_000;
/// Bytes of the longest path, with its NUL.
pub const PANDOFS_PATH_MAX: usize = 4_096;
/// Bytes of the longest name in a directory, without its NUL.
pub const PANDOFS_NAME_MAX: usize = 255;
/// In options: the user and groups of this process.
pub const PANDOFS_OWN: u32 = 0xffff_ffff;
/// For pandofs_opendir(): each entry comes with its attributes.
pub const PANDOFS_DIR_STAT: i32 = 1;
/// A time for pandofs_utimens(): now, by the servers' clocks.
pub const PANDOFS_TIME_NOW: i64 = -0x7fff_ffff_ffff_ffff;
/// A time for pandofs_utimens(): leave it as it is.
pub const PANDOFS_TIME_OMIT: i64 = -0x7fff_ffff_ffff_fffe;

/// A connection to a file system, a caller, and the directory where relative paths begin.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fs {
    /// 0 is none.
    pub id: u64,
}

/// An open file.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct File {
    /// 0 is none.
    pub id: u64,
}

/// A directory that is being listed.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dir {
    /// 0 is none.
    pub id: u64,
}

/// Options of a connection. To be filled in by pandofs_options_init() first: later versions have more fields.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Bytes of this structure.
    pub size: u32,
    /// Milliseconds for which a call waits for a server that does not answer, before it is -EIO; 0 for ever. At first
    /// 30000.
    pub timeout_ms: u32,
    /// The caller's user; 0 may do everything. At first PANDOFS_OWN.
    pub uid: u32,
    /// The caller's group; PANDOFS_OWN if, and only if, uid is. At first PANDOFS_OWN.
    pub gid: u32,
    /// Taken off the modes of what is made. At first 0.
    pub umask: u32,
    /// Further groups of the caller. Only if uid is not PANDOFS_OWN.
    pub group_count: u32,
    /// So many of them.
    pub groups: *const u32,
    /// The most memory that names and attributes are remembered in, under leases: they are never out of date. 0: servers
    /// are asked each time. At first 16 MiB.
    pub cache_bytes: u64,
}

/// Attributes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// The inode's number.
    pub ino: u64,
    /// Bytes; of a directory its entries.
    pub size: u64,
    /// Units of 512 bytes that are taken.
    pub blocks: u64,
    /// Kind (S_IFMT) and permission bits.
    pub mode: u32,
    /// Names.
    pub nlink: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The number of a device.
    pub rdev: u32,
    /// 0.
    pub reserved: u32,
    /// Nanoseconds since 1970 UTC: last read.
    pub atime_ns: i64,
    /// Last written to.
    pub mtime_ns: i64,
    /// Last changed.
    pub ctime_ns: i64,
    /// Made.
    pub btime_ns: i64,
}

/// An entry of a directory.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Dirent {
    /// The inode's number.
    pub ino: u64,
    /// For pandofs_seekdir(): a listing goes on behind this entry.
    pub offset: i64,
    /// The kind, as in a mode: for S_ISDIR() and its like.
    pub kind: u32,
    /// Whether there are attributes.
    pub has_stat: u32,
    /// Attributes, if asked for and the inode was still there.
    pub stat: Stat,
    /// With a NUL.
    pub name: [c_char; 256],
}

/// One file of a batch, for the functions that end in _many.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Item {
    /// Its path.
    pub path: *const c_char,
    /// Bytes to write, or room for those that are read.
    pub data: *mut c_void,
    /// So many of them.
    pub size: u64,
    /// Its result, filled in: 0, the bytes that were read, or a negative error number.
    pub result: i64,
}

/// Room.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatVfs {
    /// Bytes on all servers.
    pub total_bytes: u64,
    /// Of these free.
    pub free_bytes: u64,
    /// Of these for users other than 0.
    pub available_bytes: u64,
    /// Inodes in use; there is no limit.
    pub inodes: u64,
}

/// A lock.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lock {
    /// The first byte.
    pub start: u64,
    /// Bytes; 0 for all that follow, whatever the file's size becomes.
    pub length: u64,
    /// F_RDLCK, F_WRLCK or F_UNLCK.
    pub kind: i32,
    /// Of who has it, by its own account; another machine's, perhaps.
    pub pid: u32,
}

/// A user or group, unless it is [`PANDOFS_OWN`]: -1 of chown(2) is the same number.
pub(crate) fn given(id: u32) -> Option<u32> {
    (id != PANDOFS_OWN).then_some(id)
}

impl From<&Attr> for Stat {
    fn from(attr: &Attr) -> Stat {
        Stat {
            ino: attr.ino.0,
            size: attr.size,
            blocks: attr.blocks,
            mode: format(attr.kind) | u32::from(attr.mode),
            nlink: attr.nlink,
            uid: attr.uid,
            gid: attr.gid,
            rdev: attr.rdev,
            reserved: 0,
            atime_ns: attr.atime.0,
            mtime_ns: attr.mtime.0,
            ctime_ns: attr.ctime.0,
            btime_ns: attr.btime.0,
        }
    }
}

impl From<&Entry> for Dirent {
    fn from(entry: &Entry) -> Dirent {
        let mut name = [0; 256];
        // Shorter than there is room, so that a NUL is left.
        for (to, &from) in name.iter_mut().zip(entry.name.as_bytes()) {
            *to = from as c_char;
        }
        Dirent {
            ino: entry.ino.0,
            // Positions are non-negative numbers of 63 bits.
            offset: (entry.position.0 + 1) as i64,
            kind: format(entry.kind),
            has_stat: u32::from(entry.attr.is_some()),
            stat: entry.attr.as_ref().map(Stat::from).unwrap_or_default(),
            name,
        }
    }
}

impl From<Space> for StatVfs {
    fn from(space: Space) -> StatVfs {
        StatVfs {
            total_bytes: space.total,
            free_bytes: space.free,
            available_bytes: space.available,
            inodes: space.inodes,
        }
    }
}

const _: () = {
    use pandofs_types::limits::MAX_NAME_BYTES;
    use std::mem::size_of;
    assert!(MAX_NAME_BYTES == PANDOFS_NAME_MAX && MAX_NAME_BYTES < 256);
    // No bytes between fields, on machines with 64 bits.
    assert!(size_of::<Options>() == 40 && size_of::<Stat>() == 80);
    assert!(size_of::<Dirent>() == 360 && size_of::<Lock>() == 24);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_packages() {
        let part = |text: &str| text.parse::<u32>().unwrap();
        let version = part(env!("CARGO_PKG_VERSION_MAJOR")) * 1_000_000
            + part(env!("CARGO_PKG_VERSION_MINOR")) * 1_000
            + part(env!("CARGO_PKG_VERSION_PATCH"));
        assert_eq!(PANDOFS_VERSION, version);
    }
}
