//! The system calls, each as one function that keeps what was asked for and what was answered.
//!
//! Names and arguments are those of the man pages, but for what the types make plainer. A path may
//! be of any kind that `rustix` takes; it is handed to the kernel as it is.

mod attributes;
mod data;
mod handles;
mod listing;
mod locks;
mod memory;
mod names;
mod xattrs;

pub(crate) use attributes::*;
pub(crate) use data::*;
pub(crate) use handles::*;
pub(crate) use listing::*;
pub(crate) use locks::*;
pub(crate) use memory::*;
pub(crate) use names::*;
pub(crate) use xattrs::*;

pub(crate) use rustix::fd::OwnedFd;
pub(crate) use rustix::fs::{
    Access, AtFlags as At, FallocateFlags as Falloc, FileType, FlockOperation as Flock,
    OFlags as O, RenameFlags as Rename, SeekFrom, Stat, XattrFlags as Xattr,
};
pub(crate) use rustix::io::Errno as E;

use rustix::path::Arg;
use std::fmt::{self, Debug};

/// Values that may be given as a path or as an attribute's name.
pub(crate) trait Text: Arg + Copy + Debug {}
impl<T: Arg + Copy + Debug> Text for T {}

/// A mode or other bits, shown in octal.
struct Octal(u32);

impl Debug for Octal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#06o}", self.0)
    }
}

/// A file descriptor, shown by its number.
struct Number<'a>(&'a OwnedFd);

impl Debug for Number<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use std::os::fd::AsRawFd;
        write!(f, "fd {}", self.0.as_raw_fd())
    }
}

/// So many bytes.
struct Bytes(usize);

impl Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes>", self.0)
    }
}

/// Converts the answer of a function of the C library that says -1 for an error.
fn answer(result: libc::c_long) -> Result<libc::c_long, E> {
    if result == -1 {
        let errno = std::io::Error::last_os_error().raw_os_error();
        return Err(E::from_raw_os_error(errno.unwrap_or(libc::EIO)));
    }
    Ok(result)
}

/// Makes a `Call` of its name, its arguments and what does it.
macro_rules! call {
    ($name:literal, [$($argument:expr),*], $result:expr) => {{
        $crate::case::Call::new($name, &[$(&$argument as &dyn std::fmt::Debug),*], $result)
    }};
}
use call;
