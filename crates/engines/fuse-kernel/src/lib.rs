//! The loop to the Linux kernel's FUSE: requests as values, and answers to them.
//!
//! [`Session`] takes requests from `/dev/fuse`, or over io_uring, with several threads and hands each to a
//! [`Filesystem`], with a [`Reply`] that any thread may give, early or late.
//!
//! Invariant: bytes of the kernel give a request or an error answer, never a panic. Each request
//! that wants an answer gets one exactly once, an error if its reply was dropped. Nothing
//! in here knows what an inode is.

pub mod abi;
mod attr;
mod buffer;
mod bytes;
mod device;
mod errno;
pub mod limits;
mod listing;
pub mod mount;
mod negotiation;
mod notify;
mod readers;
mod reply;
mod request;
mod ring;
mod session;
mod spares;

pub use attr::{Entry, FileAttr, FileType, Timestamp};
pub use errno::Errno;
pub use listing::Listing;
pub use negotiation::Negotiation;
pub use notify::Notifier;
pub use reply::{Pending, Reply, Statfs};
pub use request::{
    Data, FileHandle, Forgotten, Header, Init, Lock, LockOwner, Make, Malformed, OpenFlags,
    Operation, Read, Rename, Request, RequestId, SetAttr, SetTime, Write,
};
pub use session::{Session, THREAD_NAMES, Threads, Transport, UseIoUring};

/// The number of the root.
pub const ROOT: u64 = 1;

/// A file system.
pub trait Filesystem: Send + Sync + 'static {
    /// Agrees with the kernel on what the mount can do. Called once, before the first request.
    fn init(&mut self, _: &mut Negotiation) {}

    /// Handles a request, on the thread that took it. A request that it does not know gets
    /// [`Errno::ENOSYS`], which the kernel remembers.
    fn handle(&self, request: Request<'_>, reply: Reply);
}

/// Returns whether tests that mount are switched off.
#[cfg(test)]
fn no_fuse_tests() -> bool {
    std::env::var_os("PANDOFS_NO_FUSE").is_some_and(|value| value == "1")
}
