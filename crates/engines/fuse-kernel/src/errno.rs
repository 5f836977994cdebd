//! Error numbers for programs.

use std::fmt;

/// A positive error number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Errno(i32);

macro_rules! numbers {
    ($($name:ident)*) => {
        #[allow(missing_docs)]
        impl Errno {
            $(pub const $name: Errno = Errno(libc::$name);)*
        }
    };
}

numbers! {
    EACCES EBADF EEXIST EINTR EINVAL EIO EISDIR ENAMETOOLONG ENODATA ENOENT ENOSYS ENOTDIR
    ENOTEMPTY ENOTTY ENXIO EOPNOTSUPP EPERM EPROTO ERANGE ESTALE
}

impl Errno {
    /// The error of this number; `EIO` if it is none that the kernel takes.
    pub fn from_i32(number: i32) -> Errno {
        /// `MAX_ERRNO` of the kernel is larger; beyond this are numbers of its own that no program
        /// is to see, and an answer with them is refused.
        const END: i32 = 512;
        if (1..END).contains(&number) {
            Errno(number)
        } else {
            Errno::EIO
        }
    }

    /// Its number.
    pub fn number(self) -> i32 {
        self.0
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Errno({}: {self})", self.0)
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        std::io::Error::from_raw_os_error(self.0).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_the_kernel_refuses_becomes_an_io_error() {
        assert_eq!(Errno::from_i32(libc::ENOENT), Errno::ENOENT);
        for number in [0, -5, 512, i32::MAX, i32::MIN] {
            assert_eq!(Errno::from_i32(number), Errno::EIO, "{number}");
        }
    }
}
