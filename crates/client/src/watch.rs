//! Somebody who is told of every operation that a session was asked for: what, by whom, when, and what came of it.
//!
//! It is told at the end of each, on the thread that asked, before that has its answer: what depends on an answer
//! begins after the end that a watcher was told. What the library asks itself in the course of an operation is
//! none of it. A session without a watcher looks at one word for each operation.

use crate::cancellation;
use crate::{Client, ClientError, Node, Page};
use pandofs_types::{FileKind, Ino, Name, SetAttr};
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

/// Who is told.
pub trait Watcher: fmt::Debug + Send + Sync {
    /// An operation has ended. Whoever asked for it waits meanwhile.
    fn saw(&self, seen: &Seen<'_>);
}

/// An operation that has ended.
#[derive(Debug)]
pub struct Seen<'a> {
    pub what: What<'a>,
    pub begun: Instant,
    /// No later than the moment at which whoever asked has the answer.
    pub ended: Instant,
    /// The [`Cancellation`](crate::Cancellation) of the thread that asked; `None` where none was named.
    pub caller: Option<u32>,
    /// What came of it, or the error's number.
    pub came: Result<Came<'a>, i32>,
    /// It takes the place of the one before it that this thread was refused: see [`again`].
    pub again: bool,
}

/// What was asked for.
#[derive(Debug)]
pub enum What<'a> {
    Lookup {
        dir: Ino,
        name: &'a Name,
    },
    Getattr {
        ino: Ino,
    },
    Setattr {
        ino: Ino,
        set: &'a SetAttr,
    },
    Readlink {
        ino: Ino,
    },
    Open {
        ino: Ino,
        truncate: bool,
    },
    Create {
        dir: Ino,
        name: &'a Name,
        mode: u16,
        truncate: bool,
    },
    /// A file without a name.
    Unnamed {
        dir: Ino,
    },
    Mknod {
        dir: Ino,
        name: &'a Name,
        kind: FileKind,
        mode: u16,
    },
    Symlink {
        dir: Ino,
        name: &'a Name,
        /// Bytes of its target.
        bytes: usize,
    },
    Mkdir {
        dir: Ino,
        name: &'a Name,
        mode: u16,
    },
    Link {
        ino: Ino,
        dir: Ino,
        name: &'a Name,
    },
    Unlink {
        dir: Ino,
        name: &'a Name,
    },
    Rmdir {
        dir: Ino,
        name: &'a Name,
    },
    Rename {
        from: (Ino, &'a Name),
        to: (Ino, &'a Name),
        no_replace: bool,
    },
    Exchange {
        from: (Ino, &'a Name),
        to: (Ino, &'a Name),
    },
    Readdir {
        dir: Ino,
    },
    Read {
        ino: Ino,
        offset: u64,
        bytes: usize,
    },
    Write {
        ino: Ino,
        /// `None`: at the file's end.
        offset: Option<u64>,
        bytes: usize,
    },
    Allocate {
        ino: Ino,
        /// Where the file ends at least afterwards; `None` if that does not change.
        end: Option<u64>,
    },
    Getxattr {
        ino: Ino,
        name: &'a [u8],
    },
    Listxattr {
        ino: Ino,
    },
    Setxattr {
        ino: Ino,
        name: &'a [u8],
        bytes: usize,
    },
    Removexattr {
        ino: Ino,
        name: &'a [u8],
    },
}

/// What came of it.
#[derive(Debug)]
pub enum Came<'a> {
    Done,
    /// What was found or made.
    Node(&'a Node),
    /// A file was opened that was there.
    Found(&'a Node),
    /// What was removed or moved.
    Ino(Ino),
    Inos(Ino, Ino),
    /// Where it was appended.
    Offset(u64),
    /// Entries; those with attributes are known to whoever asked from then on.
    Page(&'a Page),
}

thread_local! {
    /// What this thread asks for is part of something that is told, or nothing that anybody is told of.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    static AGAIN: Cell<bool> = const { Cell::new(false) };
}

/// Asks for something on one's own account: no watcher is told.
pub fn unseen<T>(work: impl FnOnce() -> T) -> T {
    let before = INSIDE.replace(true);
    let result = work();
    INSIDE.set(before);
    result
}

/// Asks once more, in another way, for what this thread was just refused. Watchers are told that it is no
/// operation of its own.
pub fn again<T>(work: impl FnOnce() -> T) -> T {
    let before = AGAIN.replace(true);
    let result = work();
    AGAIN.set(before);
    result
}

impl Client {
    /// Tells `watcher` of what this session is asked for from now on.
    ///
    /// # Errors
    /// The watcher, when the session has one already.
    pub fn watch(&self, watcher: Arc<dyn Watcher>) -> Result<(), Arc<dyn Watcher>> {
        self.session.watcher.set(watcher)
    }

    /// Does `work`, which is what `what` says, and tells the watcher, if there is one, what came of it.
    pub(crate) fn seen<'a, T>(
        &self,
        what: impl FnOnce() -> What<'a>,
        came: impl for<'r> FnOnce(&'r T) -> Came<'r>,
        work: impl FnOnce(&Client) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let Some(sight) = self.sight() else {
            return work(self);
        };
        let result = unseen(|| work(self));
        sight.ended(what(), result.as_ref().map(came).map_err(|e| e.errno()));
        result
    }

    /// The beginning of what the watcher is told of, if there is one.
    pub(crate) fn sight(&self) -> Option<Sight<'_>> {
        let watcher = self.session.watcher.get()?;
        (!INSIDE.get()).then(|| Sight {
            watcher: watcher.as_ref(),
            begun: Instant::now(),
        })
    }
}

/// An operation that is under way and watched.
pub(crate) struct Sight<'w> {
    watcher: &'w dyn Watcher,
    begun: Instant,
}

impl Sight<'_> {
    pub fn ended(self, what: What<'_>, came: Result<Came<'_>, i32>) {
        self.watcher.saw(&Seen {
            what,
            begun: self.begun,
            ended: Instant::now(),
            caller: cancellation::current(),
            came,
            again: AGAIN.get(),
        });
    }
}
