//! Error numbers by their names.

use rustix::io::Errno;
use std::fmt;

/// Shows an error number as the standard writes it.
pub(crate) struct Shown(pub Errno);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(errno, _)| *errno == self.0) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "error {}", self.0.raw_os_error()),
        }
    }
}

const NAMES: [(Errno, &str); 44] = [
    (Errno::TOOBIG, "E2BIG"),
    (Errno::ACCESS, "EACCES"),
    (Errno::ADDRINUSE, "EADDRINUSE"),
    (Errno::AGAIN, "EAGAIN"),
    (Errno::BADF, "EBADF"),
    (Errno::BUSY, "EBUSY"),
    (Errno::CHILD, "ECHILD"),
    (Errno::CONNREFUSED, "ECONNREFUSED"),
    (Errno::DEADLK, "EDEADLK"),
    (Errno::EXIST, "EEXIST"),
    (Errno::FAULT, "EFAULT"),
    (Errno::FBIG, "EFBIG"),
    (Errno::INTR, "EINTR"),
    (Errno::INVAL, "EINVAL"),
    (Errno::IO, "EIO"),
    (Errno::ISDIR, "EISDIR"),
    (Errno::LOOP, "ELOOP"),
    (Errno::MFILE, "EMFILE"),
    (Errno::MLINK, "EMLINK"),
    (Errno::NAMETOOLONG, "ENAMETOOLONG"),
    (Errno::NODATA, "ENODATA"),
    (Errno::NODEV, "ENODEV"),
    (Errno::NOENT, "ENOENT"),
    (Errno::NOEXEC, "ENOEXEC"),
    (Errno::NOLCK, "ENOLCK"),
    (Errno::NOMEM, "ENOMEM"),
    (Errno::NOSPC, "ENOSPC"),
    (Errno::NOSYS, "ENOSYS"),
    (Errno::NOTCONN, "ENOTCONN"),
    (Errno::NOTDIR, "ENOTDIR"),
    (Errno::NOTEMPTY, "ENOTEMPTY"),
    (Errno::NOTSUP, "EOPNOTSUPP"),
    (Errno::NOTTY, "ENOTTY"),
    (Errno::NXIO, "ENXIO"),
    (Errno::OVERFLOW, "EOVERFLOW"),
    (Errno::PERM, "EPERM"),
    (Errno::PIPE, "EPIPE"),
    (Errno::RANGE, "ERANGE"),
    (Errno::ROFS, "EROFS"),
    (Errno::SPIPE, "ESPIPE"),
    (Errno::STALE, "ESTALE"),
    (Errno::TXTBSY, "ETXTBSY"),
    (Errno::TIMEDOUT, "ETIMEDOUT"),
    (Errno::XDEV, "EXDEV"),
];
