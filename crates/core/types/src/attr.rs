//! Attributes of inodes, and who asks for them.

use crate::capabilities::Capabilities;
use crate::id::Ino;
use serde::{Deserialize, Serialize};

/// Nanoseconds since 1970-01-01 UTC; negative before.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct Time(pub i64);

/// Kind of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link, whose target is at most `MAX_SYMLINK_BYTES` long.
    Symlink,
    /// A named pipe; its data is the kernel's and never comes to a server.
    Fifo,
    /// A Unix domain socket's name; its data is the kernel's as well.
    Socket,
    /// A character device, by the number in `rdev`.
    Char,
    /// A block device, by the number in `rdev`.
    Block,
}

/// The attributes that `stat` answers. For a directory carried by several partitions `size`,
/// `nlink`, `mtime` and `ctime` are gathered from all of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attr {
    /// The number that `stat` shows; it stays when the inode moves to another shard.
    pub ino: Ino,
    /// Fixed when the inode is made.
    pub kind: FileKind,
    /// Permission bits, 0o7777 at most.
    pub mode: u16,
    /// Names that lead to it; of a directory 2 and one for each subdirectory.
    pub nlink: u32,
    /// Number of the owning user.
    pub uid: u32,
    /// Number of the owning group.
    pub gid: u32,
    /// Device number of character and block devices, in Linux's encoding.
    pub rdev: u32,
    /// Bytes; for a directory the number of its entries; for a symbolic link its target's bytes.
    pub size: u64,
    /// Units of 512 bytes.
    pub blocks: u64,
    /// Last access, as seldom as the mount's rule has it written.
    pub atime: Time,
    /// Last change of the contents.
    pub mtime: Time,
    /// Last change of contents or attributes; no caller can set it.
    pub ctime: Time,
    /// When it was created.
    pub btime: Time,
    /// Whether it has extended attributes or an access control list.
    pub has_xattrs: bool,
}

/// One time in a [`SetAttr`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SetTime {
    /// The time at which the shard takes up the request.
    Now,
    /// A time that the caller chose (`utimensat`).
    At(Time),
}

/// Which attributes to change; what is `None` stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetAttr {
    /// Permission bits, 0o7777 at most.
    pub mode: Option<u16>,
    /// New owner; needs `CHOWN` unless it is the owner already.
    pub uid: Option<u32>,
    /// New group; without `CHOWN` the caller must own the file and be in the group.
    pub gid: Option<u32>,
    /// Bytes.
    pub size: Option<u64>,
    /// New time of access.
    pub atime: Option<SetTime>,
    /// New time of the last change.
    pub mtime: Option<SetTime>,
    /// Of what is no directory set-user-id goes, and set-group-id where the group may execute it or the caller
    /// could not set it: somebody writes to it, or truncates it, who may not keep them. A new `mode` counts all the
    /// same. A caller that may write to the file may ask for it.
    pub clear_set_id: bool,
}

/// Permission bits that are asked for something new.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NewMode {
    /// 0o7777 at most.
    pub mode: u16,
    /// Taken off where no access control list is inherited, 0o777 at most.
    pub umask: u16,
}

impl From<u16> for NewMode {
    fn from(mode: u16) -> NewMode {
        NewMode { mode, umask: 0 }
    }
}

/// Caller of an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Credentials {
    /// The user for the file system (`fsuid` in Linux).
    pub uid: u32,
    /// The group for the file system (`fsgid` in Linux), which new inodes get.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// Rights beyond those of this user and these groups. As in Linux these decide,
    /// and not the number of the user: the superuser has all of them.
    pub capabilities: Capabilities,
}

impl Credentials {
    /// User and group 0 with all capabilities, for what nobody in particular asks for.
    pub const ROOT: Credentials = Credentials {
        uid: 0,
        gid: 0,
        groups: Vec::new(),
        capabilities: Capabilities::ALL,
    };

    /// Without capabilities.
    pub const fn user(uid: u32, gid: u32, groups: Vec<u32>) -> Credentials {
        Credentials {
            uid,
            gid,
            groups,
            capabilities: Capabilities::NONE,
        }
    }

    /// The same with these capabilities.
    #[must_use]
    pub fn with(self, capabilities: Capabilities) -> Credentials {
        Credentials {
            capabilities,
            ..self
        }
    }

    /// The same with the right to write to any file: whose right was seen when the file was opened has it for as
    /// long as it is open. The file's set-id bits change as before.
    #[must_use]
    pub fn writing_anyway(self) -> Credentials {
        let capabilities = self.capabilities.with(Capabilities::DAC_OVERRIDE);
        self.with(capabilities)
    }

    /// Returns whether it has all of these.
    pub fn has(&self, capability: Capabilities) -> bool {
        self.capabilities.has(capability)
    }

    /// Whether the caller may do what only the owner of a file of this user may.
    pub fn owns(&self, uid: u32) -> bool {
        self.uid == uid || self.has(Capabilities::FOWNER)
    }

    /// Whether the caller is in the group, or need not be to set or keep its set-group-id bit.
    pub fn in_group_or_capable(&self, gid: u32) -> bool {
        self.in_group(gid) || self.has(Capabilities::FSETID)
    }

    /// Whether capabilities give every right in `wanted`, whatever permission bits and lists say. To execute a file that
    /// nobody may execute they never do.
    pub(crate) fn may_in_any_case(&self, wanted: u16, kind: FileKind, mode: u16) -> bool {
        let (read, write, execute) = (wanted & 4 != 0, wanted & 2 != 0, wanted & 1 != 0);
        let only_looks = match kind {
            FileKind::Dir => !write,
            _ => read && !write && !execute,
        };
        let can_be_done = !execute || kind == FileKind::Dir || mode & 0o111 != 0;
        only_looks && self.has(Capabilities::DAC_READ_SEARCH)
            || can_be_done && self.has(Capabilities::DAC_OVERRIDE)
    }

    /// Returns whether the group is the caller's own or a supplementary one.
    pub fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }

    /// Whether the caller has every right in `wanted` (4 read, 2 write, 1 execute or search) on an
    /// inode with these owners and permission bits.
    pub fn may(&self, wanted: u16, kind: FileKind, mode: u16, uid: u32, gid: u32) -> bool {
        assert!(wanted <= 7);
        let granted = if self.uid == uid {
            mode >> 6
        } else if self.in_group(gid) {
            mode >> 3
        } else {
            mode
        };
        granted & wanted == wanted || self.may_in_any_case(wanted, kind, mode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_class_that_fits_decides() {
        let owner = Credentials::user(1, 1, vec![]);
        let member = Credentials::user(2, 2, vec![9]);
        let other = Credentials::user(3, 3, vec![]);
        // The owner has fewer rights than the rest and does not get theirs.
        assert!(!owner.may(4, FileKind::File, 0o077, 1, 9));
        assert!(member.may(7, FileKind::File, 0o070, 1, 9));
        assert!(!other.may(1, FileKind::File, 0o770, 1, 9));
        assert!(other.may(5, FileKind::Dir, 0o775, 1, 9));
    }

    #[test]
    fn the_superuser_may_not_execute_what_nobody_may() {
        let root = Credentials::ROOT;
        assert!(root.may(6, FileKind::File, 0, 1, 1));
        assert!(!root.may(1, FileKind::File, 0o666, 1, 1));
        assert!(root.may(1, FileKind::File, 0o001, 1, 1));
        assert!(root.may(7, FileKind::Dir, 0, 1, 1));
    }

    #[test]
    fn capabilities_decide_and_not_who_the_user_is() {
        let root = Credentials::ROOT.with(Capabilities::NONE);
        assert!(!root.may(4, FileKind::File, 0, 1, 1) && !root.owns(1));
        assert!(root.may(6, FileKind::File, 0o600, 0, 0) && root.owns(0));

        let user = Credentials::user(7, 7, vec![]);
        let reader = user.clone().with(Capabilities::DAC_READ_SEARCH);
        assert!(reader.may(4, FileKind::File, 0, 1, 1) && reader.may(5, FileKind::Dir, 0, 1, 1));
        assert!(!reader.may(2, FileKind::File, 0, 1, 1) && !reader.may(3, FileKind::Dir, 0, 1, 1));
        assert!(
            !reader.may(5, FileKind::File, 0o700, 1, 1),
            "it is no right to execute"
        );
        assert!(
            !reader.may(6, FileKind::File, 0o060, 1, 1),
            "both rights have to come from one place"
        );

        let writer = user.clone().with(Capabilities::DAC_OVERRIDE);
        assert!(writer.may(6, FileKind::File, 0, 1, 1) && writer.may(7, FileKind::Dir, 0, 1, 1));
        assert!(
            writer.may(7, FileKind::File, 0o010, 1, 1)
                && !writer.may(1, FileKind::File, 0o600, 1, 1)
        );
        assert!(!writer.owns(1) && user.with(Capabilities::FOWNER).owns(1));
    }
}
