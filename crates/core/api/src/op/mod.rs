//! Operations that clients ask a shard for, one type each.
//!
//! A file holds an operation's request and what can be said of it without any state: where it goes, what it changes of
//! what clients cache, how large its answer may be. Its effect on a shard is in the file of the same name in
//! `namespace::ops`. [`operations!`](crate::operations) is the one list of them.

mod accessed;
mod allocate;
mod append;
mod batch;
mod by_path;
mod create;
mod create_unnamed;
mod dir_part;
mod exchange;
mod getattr;
mod grant;
mod link;
mod locks;
mod lookup;
mod mkdir;
mod mkdir_away;
mod open;
mod open_name;
mod opens;
mod read_inline;
mod readdir;
mod readlink;
mod remove;
mod rename;
mod rmdir_away;
mod set_dir_settings;
mod set_layout;
mod setattr;
mod spread;
mod stripe;
mod sync;
mod write_inline;
mod write_new;
mod wrote_data;
mod xattr;

pub use accessed::Accessed;
pub use allocate::Allocate;
pub use append::{AppendInline, Extend};
pub use batch::{Batch, Early, EarlyOperation};
pub use by_path::{ByPath, KeepPath, PathOperation};
pub use create::Create;
pub use create_unnamed::CreateUnnamed;
pub use dir_part::DirPart;
pub use exchange::Exchange;
pub use getattr::{Followed, GetAttr};
pub use grant::{BeginGrants, Grant, Renew, TakeNumbers};
pub use link::Link;
pub use locks::{Closing, GetLock, Relock, SetLock, Unlock};
pub use lookup::Lookup;
pub use mkdir::Mkdir;
pub use mkdir_away::MkdirAway;
pub use open::Open;
pub use open_name::OpenName;
pub use opens::{Release, Reopen};
pub use read_inline::ReadInline;
pub use readdir::ReadDir;
pub use readlink::ReadLink;
pub use remove::{Rmdir, Unlink};
pub use rename::Rename;
pub use rmdir_away::RmdirAway;
pub use set_dir_settings::SetDirSettings;
pub use set_layout::SetLayout;
pub use setattr::SetAttr;
pub use spread::Spread;
pub use stripe::Stripe;
pub use sync::Sync;
pub use write_inline::WriteInline;
pub use write_new::WriteNew;
pub use wrote_data::WroteData;
pub use xattr::{GetXattr, ListXattr, RemoveXattr, SetXattr};

use pandofs_types::{Ino, Name, Position, ShardId};

/// Calls the macro `$with` with the types of all operations, in the order of their numbers on the wire: a new one goes
/// to the end.
#[macro_export]
macro_rules! operations {
    ($with:ident) => {
        $with! {
            Lookup, Create, Mkdir, Unlink, Rmdir, Link, Rename, GetAttr, SetAttr, Open, Release, Reopen, ReadLink, ReadInline, WriteInline, Stripe, WroteData, GetXattr, ListXattr, SetXattr, RemoveXattr, Sync, ReadDir, DirPart, SetDirSettings, Exchange, Allocate, AppendInline, Extend, Accessed, SetLock, Unlock, GetLock, Closing, Relock, CreateUnnamed, SetLayout, Spread, Followed, Grant, Renew, TakeNumbers, Batch, WriteNew, MkdirAway, BeginGrants, ByPath, KeepPath, RmdirAway
        }
    };
}

/// Facts about an operation that follow from its request alone.
pub trait Operation {
    /// Whether it can change the shard's state, and is therefore logged and answered exactly once.
    fn is_mutation(&self) -> bool {
        false
    }

    /// The directory whose map leads to its shard; `None` if the number of an inode or a shard does.
    fn dir(&self) -> Option<Ino> {
        None
    }

    /// The inode that it is about by its number.
    fn inode(&self) -> Option<Ino> {
        None
    }

    /// The second name of a rename or an exchange.
    fn new_name(&self) -> Option<NewName<'_>> {
        None
    }

    /// Fills in where its second inode or name is.
    fn aim(&mut self, places: &dyn Places) {
        let _ = places;
    }

    /// Numbers in it that may be those of directories which an undecided operation is making.
    fn dirs(&self) -> [Option<Ino>; 2] {
        [self.dir(), self.new_name().map(|name| name.dir)]
    }

    /// The keys of clients' caches that it changes, as far as the request tells.
    fn changes(&self) -> Vec<Change<'_>> {
        Vec::new()
    }

    /// Whether names that it is about cease to lead to what they led to.
    fn takes_names(&self) -> bool {
        false
    }

    /// The name of which the answer says what it leads to.
    fn answers_name(&self) -> Option<(Ino, &Name)> {
        None
    }

    /// The directory whose entries or times the answer tells, from this position on. It waits for operations that were
    /// under way there when it came.
    fn lists(&self) -> Option<(Ino, Position)> {
        None
    }

    /// The inode whose data objects follow before it is answered.
    fn changes_objects(&self) -> Option<Ino> {
        None
    }

    /// Whether it is about locks of files.
    fn is_lock(&self) -> bool {
        false
    }

    /// Whether a shard keeps something of it in memory, so that doing it would be noticed although its answer was lost.
    fn is_remembered(&self) -> bool {
        false
    }

    /// Whether the answer may speak of shards and servers, so that the client needs the newest map first. Not of what a
    /// session says once of itself.
    fn needs_map(&self) -> bool {
        true
    }

    /// Whether the answer of what is done waits until it is on disk.
    fn answers_when_synced(&self) -> bool {
        false
    }

    /// Bytes that the answer may have at most; 0 where it is never large.
    fn max_answer_bytes(&self) -> usize {
        0
    }
}

/// Something that an operation changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// A name, and with it its directory's times and size.
    Name(Ino, &'a Name),
    /// The attributes of an inode that is no directory.
    Inode(Ino),
    /// An inode that may be a directory, with all of its parts.
    Dir(Ino),
}

/// A request's second name, and the shard to which the client believes it to belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewName<'a> {
    /// The directory that it is in.
    pub dir: Ino,
    /// The name that comes into being, or that is exchanged.
    pub name: &'a Name,
    /// A guess by the directory's map as the client knows it.
    pub shard: ShardId,
}

/// Where names and inodes are, as far as is known.
pub trait Places {
    /// The shard of the partition that holds the name by the newest known map.
    fn shard_of_name(&self, dir: Ino, name: &Name) -> ShardId;
    /// The shard that was last heard to have the inode; else the one that made it.
    fn shard_of_inode(&self, ino: Ino) -> ShardId;
}
