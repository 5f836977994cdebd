//! Requests that name directories by their paths, to the shard that the paths lead to.

use super::{
    Change, Create, Exchange, Link, Lookup, Mkdir, NewName, OpenName, Operation, Places, ReadDir,
    Rename, Rmdir, Unlink,
};
use crate::path::{Above, PathName};
use pandofs_types::{Ino, Name, Position};
use serde::{Deserialize, Serialize};

/// Executes an operation in the directory of a path, and asks no ancestor. Answers as the operation does; is refused with
/// `ByPath` if this shard alone does not decide it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByPath {
    /// The directory.
    pub path: PathName,
    /// The other directory of a rename or an exchange, if that is named by its path, too, and leads to the same shard.
    pub new_path: Option<PathName>,
    /// As it is in a directory that is known by its number. The number in it is not looked at: the shard fills it in,
    /// and with `new_path` the other one and its shard as well.
    pub operation: PathOperation,
}

impl ByPath {
    /// In place of the numbers that the shard fills in.
    pub const UNKNOWN: Ino = Ino(0);
}

/// Calls the macro `$with` with the types of all operations in a directory that may be asked for by its path, in the order
/// of their numbers on the wire: a new one goes to the end.
#[macro_export]
macro_rules! path_operations {
    ($with:ident) => {
        $with! {
            Lookup, OpenName, ReadDir, Create, Mkdir, Unlink, Rmdir, Link, Rename, Exchange
        }
    };
}

macro_rules! by_path {
    ($($name:ident),+ $(,)?) => {
        /// Operation in a directory that is named by its path.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum PathOperation {
            $(#[allow(missing_docs, reason = "each is the operation of its name")] $name($name)),+
        }

        impl PathOperation {
            /// The directory.
            pub fn dir(&self) -> Ino {
                match self {
                    $(PathOperation::$name(operation) => operation.dir),+
                }
            }

            /// The same, to be filled in.
            pub fn dir_mut(&mut self) -> &mut Ino {
                match self {
                    $(PathOperation::$name(operation) => &mut operation.dir),+
                }
            }

            /// Facts that follow from the operation alone.
            pub fn operation(&self) -> &dyn Operation {
                match self {
                    $(PathOperation::$name(operation) => operation),+
                }
            }

            fn operation_mut(&mut self) -> &mut dyn Operation {
                match self {
                    $(PathOperation::$name(operation) => operation),+
                }
            }
        }
    };
}

path_operations!(by_path);

impl PathOperation {
    /// The position in the directory, under the file system's key, of what it is about first.
    pub fn position(&self, of_name: impl FnOnce(&Name) -> Position) -> Position {
        of_name(match self {
            PathOperation::ReadDir(listing) => return listing.from,
            PathOperation::Lookup(op) => &op.name,
            PathOperation::OpenName(op) => &op.name,
            PathOperation::Create(op) => &op.name,
            PathOperation::Mkdir(op) => &op.name,
            PathOperation::Unlink(op) => &op.name,
            PathOperation::Rmdir(op) => &op.name,
            PathOperation::Link(op) => &op.name,
            PathOperation::Rename(op) => &op.name,
            PathOperation::Exchange(op) => &op.name,
        })
    }
}

/// A client caches names of directories known by number under the answer's leases, and this answer brings none: the
/// shard recalls what the request changes from its sender as from others.
impl Operation for ByPath {
    fn is_mutation(&self) -> bool {
        self.operation.operation().is_mutation()
    }

    fn new_name(&self) -> Option<NewName<'_>> {
        self.operation.operation().new_name()
    }

    fn aim(&mut self, places: &dyn Places) {
        if self.new_path.is_none() {
            self.operation.operation_mut().aim(places);
        }
    }

    fn dirs(&self) -> [Option<Ino>; 2] {
        self.operation.operation().dirs()
    }

    fn changes(&self) -> Vec<Change<'_>> {
        self.operation.operation().changes()
    }

    fn takes_names(&self) -> bool {
        self.operation.operation().takes_names()
    }

    fn lists(&self) -> Option<(Ino, Position)> {
        self.operation.operation().lists()
    }

    fn is_remembered(&self) -> bool {
        self.operation.operation().is_remembered()
    }

    fn max_answer_bytes(&self) -> usize {
        self.operation.operation().max_answer_bytes()
    }
}

/// Has a shard keep where a path leads that it has not known, as it was found by going through the directories. Answers
/// `Done`, also if it is not kept: because something has changed meanwhile, or may be changing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeepPath {
    /// The path.
    pub path: PathName,
    /// The directory that it leads to.
    pub dir: Ino,
    /// Its path permissions.
    pub above: Above,
    /// As the shard said it when it did not know the path, before anything of this was looked up.
    pub seen: u64,
}

impl Operation for KeepPath {
    fn is_mutation(&self) -> bool {
        true
    }
}
