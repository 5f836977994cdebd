//! Fields of an inode that oracles ask for.
//!
//! A link's target and the times are left out, so that millions of
//! inodes fit in the memory of the program that checks.

use pandofs_api::Layout;
use pandofs_namespace::records::{Body, InodeRecord};
use pandofs_types::{FileKind, Ino};

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inode {
    /// Fixed when the inode is made.
    pub kind: FileKind,
    /// It was made without a name and has never had one.
    pub may_be_named: bool,
    /// Extended attributes that it counts, and the bytes of their names and values.
    pub xattrs: u16,
    /// Of names and values, as the inode counts them.
    pub xattr_bytes: u32,
    /// Names, as the inode counts them.
    pub nlink: u32,
    /// Contents that it is to agree with.
    pub holds: Holds,
}

/// Contents of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// A link's target, or nothing.
    Nothing,
    /// Of a directory.
    Dir {
        /// The directory that it says it is in.
        parent: Ino,
    },
    /// A file's bytes are beside the inode.
    Inline {
        /// So many.
        held: u32,
        /// Of its data objects when there are some.
        layout: Layout,
    },
    /// A file's data objects.
    Objects(Layout),
}

impl Holds {
    /// The layout of a file's data objects, if there are any yet or not.
    pub fn layout(&self) -> Option<&Layout> {
        match self {
            Holds::Inline { layout, .. } | Holds::Objects(layout) => Some(layout),
            Holds::Nothing | Holds::Dir { .. } => None,
        }
    }
}

impl From<InodeRecord> for Inode {
    fn from(record: InodeRecord) -> Inode {
        let holds = match record.body {
            Body::Nothing | Body::Symlink(_) => Holds::Nothing,
            Body::Dir { parent } => Holds::Dir { parent },
            Body::Inline { held, layout } => Holds::Inline { held, layout },
            Body::Striped(layout) | Body::Sparse(layout) => Holds::Objects(layout),
        };
        Inode {
            kind: record.kind,
            may_be_named: record.may_be_named,
            xattrs: record.xattrs,
            xattr_bytes: record.xattr_bytes,
            nlink: record.nlink,
            holds,
        }
    }
}
