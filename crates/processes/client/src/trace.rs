//! Trace of the operations of a session: caller, times and outcome of each, for a [`Tracer`].
//!
//! An event is recorded at the operation's end, on the thread that asked, before that has its
//! answer: what depends on an answer begins after the recorded end. Requests that the library sends
//! by itself in the course of an operation are not traced. A session without a tracer looks at one
//! word for each operation.

use crate::cancellation;
use crate::{Client, ClientError, Node, Page};
use pandofs_types::{FileKind, Ino, Name, SetAttr};
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

/// A consumer of events.
pub trait Tracer: fmt::Debug + Send + Sync {
    /// Records that an operation has ended. Its caller waits meanwhile.
    fn record(&self, event: &Event<'_>);
}

/// An operation that has ended.
#[derive(Debug)]
pub struct Event<'a> {
    /// The operation.
    pub op: Op<'a>,
    /// When it was asked for, by the clock of this process.
    pub begun: Instant,
    /// No later than the moment at which the caller has the answer.
    pub ended: Instant,
    /// The number in the [`Cancellation`](crate::Cancellation) of the thread that asked; `None`
    /// without one.
    pub caller: Option<u32>,
    /// The outcome, or the error's number.
    pub outcome: Result<Outcome<'a>, i32>,
    /// It takes the place of the one before it that this thread was refused: see [`again`].
    pub again: bool,
}

/// An operation, with its arguments.
#[derive(Debug)]
pub enum Op<'a> {
    /// The inode that a name leads to.
    Lookup {
        /// The directory.
        dir: Ino,
        /// The name in it.
        name: &'a Name,
    },
    /// Attributes of an inode.
    Getattr {
        /// The inode.
        ino: Ino,
    },
    /// A change of attributes.
    Setattr {
        /// The inode.
        ino: Ino,
        /// The attributes that change.
        set: &'a SetAttr,
    },
    /// Target of a symbolic link.
    Readlink {
        /// The inode.
        ino: Ino,
    },
    /// A file is opened.
    Open {
        /// The inode.
        ino: Ino,
        /// Whether it is cut to nothing.
        truncate: bool,
    },
    /// A file that is made, or opened if it is there.
    Create {
        /// The directory.
        dir: Ino,
        /// The name in it.
        name: &'a Name,
        /// Permission bits, before umask and inheritance.
        mode: u16,
        /// Whether it is cut to nothing.
        truncate: bool,
    },
    /// A file without a name.
    Unnamed {
        /// The directory.
        dir: Ino,
    },
    /// A fifo, socket or device.
    Mknod {
        /// The directory.
        dir: Ino,
        /// The name in it.
        name: &'a Name,
        /// Which of them.
        kind: FileKind,
        /// Permission bits, before umask and inheritance.
        mode: u16,
    },
    /// A symbolic link.
    Symlink {
        /// The directory.
        dir: Ino,
        /// The name in it.
        name: &'a Name,
        /// Bytes of its target.
        bytes: usize,
    },
    /// A directory is made.
    Mkdir {
        /// The directory.
        dir: Ino,
        /// The name in it.
        name: &'a Name,
        /// Permission bits, before umask and inheritance.
        mode: u16,
    },
    /// A further name for a file.
    Link {
        /// The inode.
        ino: Ino,
        /// The directory.
        dir: Ino,
        /// The name in it.
        name: &'a Name,
    },
    /// A name of what is no directory goes.
    Unlink {
        /// The directory.
        dir: Ino,
        /// The name in it.
        name: &'a Name,
    },
    /// An empty directory goes.
    Rmdir {
        /// The directory.
        dir: Ino,
        /// The name in it.
        name: &'a Name,
    },
    /// A name moves or replaces another one.
    Rename {
        /// Directory and name before.
        from: (Ino, &'a Name),
        /// Directory and name after.
        to: (Ino, &'a Name),
        /// Whether a name that is there makes it fail.
        no_replace: bool,
    },
    /// Two names change places.
    Exchange {
        /// Directory and name of the first.
        from: (Ino, &'a Name),
        /// Directory and name of the other.
        to: (Ino, &'a Name),
    },
    /// A page of a listing.
    Readdir {
        /// The directory.
        dir: Ino,
    },
    /// Bytes of a file.
    Read {
        /// The inode.
        ino: Ino,
        /// Offset in the file, bytes.
        offset: u64,
        /// Bytes that were asked for.
        bytes: usize,
    },
    /// Bytes written.
    Write {
        /// The inode.
        ino: Ino,
        /// `None`: at the file's end.
        offset: Option<u64>,
        /// Bytes.
        bytes: usize,
    },
    /// Space reserved, zeroed or given back.
    Allocate {
        /// The inode.
        ino: Ino,
        /// The file's end at least afterwards; `None` if that does not change.
        end: Option<u64>,
    },
    /// The value of an extended attribute.
    Getxattr {
        /// The inode.
        ino: Ino,
        /// With its prefix.
        name: &'a [u8],
    },
    /// The names of extended attributes.
    Listxattr {
        /// The inode.
        ino: Ino,
    },
    /// An extended attribute is set.
    Setxattr {
        /// The inode.
        ino: Ino,
        /// With its prefix.
        name: &'a [u8],
        /// Of the value.
        bytes: usize,
    },
    /// An extended attribute goes.
    Removexattr {
        /// The inode.
        ino: Ino,
        /// With its prefix.
        name: &'a [u8],
    },
}

/// The result of an operation that succeeded.
#[derive(Debug)]
pub enum Outcome<'a> {
    /// Nothing more is to be said.
    Done,
    /// A node that was found or made.
    Node(&'a Node),
    /// A file was opened that was there.
    Found(&'a Node),
    /// An inode that was removed or moved.
    Ino(Ino),
    /// Inodes of the first and of the other name of an exchange.
    Inos(Ino, Ino),
    /// The offset of an append.
    Offset(u64),
    /// Entries; those with attributes are known to the caller from then on.
    Page(&'a Page),
}

thread_local! {
    /// This thread's requests are part of an operation that is traced, or are not to be traced.
    static IS_UNTRACED: Cell<bool> = const { Cell::new(false) };
    static IS_RETRY: Cell<bool> = const { Cell::new(false) };
}

/// Asks for something on one's own account, untraced.
pub fn untraced<T>(work: impl FnOnce() -> T) -> T {
    let before = IS_UNTRACED.replace(true);
    let result = work();
    IS_UNTRACED.set(before);
    result
}

/// Asks once more, in another way, for what this thread was just refused. It is traced as no
/// operation of its own.
pub fn again<T>(work: impl FnOnce() -> T) -> T {
    let before = IS_RETRY.replace(true);
    let result = work();
    IS_RETRY.set(before);
    result
}

impl Client {
    /// Traces what this session is asked for from now on.
    ///
    /// # Errors
    /// The tracer, when the session has one already.
    pub fn trace(&self, tracer: Arc<dyn Tracer>) -> Result<(), Arc<dyn Tracer>> {
        self.session.tracer.set(tracer)
    }

    /// Does `work`, which is the operation `op`, and traces it with its outcome, if there is a
    /// tracer.
    pub(crate) fn traced<'a, T>(
        &self,
        op: impl FnOnce() -> Op<'a>,
        outcome: impl for<'r> FnOnce(&'r T) -> Outcome<'r>,
        work: impl FnOnce(&Client) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let Some(span) = self.span() else {
            return work(self);
        };
        let result = untraced(|| work(self));
        span.ended(op(), result.as_ref().map(outcome).map_err(|e| e.errno()));
        result
    }

    /// As [`Client::traced`] for many operations that are done at the same time.
    pub(crate) fn traced_many<'a, T>(
        &self,
        ops: impl Iterator<Item = Op<'a>>,
        outcome: impl for<'r> Fn(&'r T) -> Outcome<'r>,
        work: impl FnOnce() -> Vec<Result<T, ClientError>>,
    ) -> Vec<Result<T, ClientError>> {
        let begun = Instant::now();
        let results = untraced(work);
        if let Some(span) = self.span() {
            for (op, result) in ops.zip(&results) {
                let tracer = span.tracer;
                Span { tracer, begun }
                    .ended(op, result.as_ref().map(&outcome).map_err(|e| e.errno()));
            }
        }
        results
    }

    /// The beginning of an operation that is traced, if there is a tracer.
    pub(crate) fn span(&self) -> Option<Span<'_>> {
        let tracer = self.session.tracer.get()?;
        (!IS_UNTRACED.get()).then(|| Span {
            tracer: tracer.as_ref(),
            begun: Instant::now(),
        })
    }
}

/// A traced operation that is under way.
pub(crate) struct Span<'w> {
    tracer: &'w dyn Tracer,
    begun: Instant,
}

impl Span<'_> {
    pub(crate) fn ended(self, op: Op<'_>, outcome: Result<Outcome<'_>, i32>) {
        self.tracer.record(&Event {
            op,
            begun: self.begun,
            ended: Instant::now(),
            caller: cancellation::current(),
            outcome,
            again: IS_RETRY.get(),
        });
    }
}
