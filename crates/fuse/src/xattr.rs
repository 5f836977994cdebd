//! Which extended attributes there are, and how their sizes are asked for.

use fuser::{Errno, ReplyXattr};
use pandofs_api::XattrMode;

/// What to do about an attribute of this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Namespace {
    /// `user.*`: kept by the servers.
    User,
    /// `security.capability`: never there. The kernel asks for it before each write, so it has to be
    /// answered without asking anyone. (Answering `ENOSYS` would stop the asking, and every other
    /// `getxattr` too.)
    Capability,
    /// `system.*` (ACLs), `trusted.*`, other `security.*`: not supported.
    Other,
}

impl Namespace {
    pub fn of(name: &[u8]) -> Namespace {
        if name.starts_with(b"user.") {
            Namespace::User
        } else if name == b"security.capability" {
            Namespace::Capability
        } else {
            Namespace::Other
        }
    }

    /// `Ok` if a server is to be asked; the answer of a read otherwise.
    pub fn readable(self) -> Result<(), Errno> {
        match self {
            Namespace::User => Ok(()),
            Namespace::Capability => Err(Errno::ENODATA),
            Namespace::Other => Err(Errno::EOPNOTSUPP),
        }
    }

    /// `Ok` if a server is to be asked; the answer of a change otherwise.
    pub fn writable(self) -> Result<(), Errno> {
        match self {
            Namespace::User => Ok(()),
            Namespace::Capability | Namespace::Other => Err(Errno::EOPNOTSUPP),
        }
    }
}

/// What the flags of `setxattr(2)` ask for.
pub(crate) fn mode(flags: i32) -> Result<XattrMode, Errno> {
    match flags {
        0 => Ok(XattrMode::Either),
        libc::XATTR_CREATE => Ok(XattrMode::Create),
        libc::XATTR_REPLACE => Ok(XattrMode::Replace),
        _ => Err(Errno::EINVAL),
    }
}

/// The answer to `listxattr`: each name with a NUL after it.
pub(crate) fn join<N: AsRef<[u8]>>(names: &[N]) -> Vec<u8> {
    let mut joined = Vec::new();
    for name in names {
        joined.extend_from_slice(name.as_ref());
        joined.push(0);
    }
    joined
}

/// How a value of `len` bytes is answered to who has room for `room`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// Asked with no room: just the size.
    Size(u32),
    Value,
    TooSmall,
}

fn answer(len: usize, room: u32) -> Answer {
    match u32::try_from(len) {
        Ok(len) if room == 0 => Answer::Size(len),
        Ok(len) if len <= room => Answer::Value,
        _ => Answer::TooSmall,
    }
}

pub(crate) fn reply(reply: ReplyXattr, room: u32, result: Result<Vec<u8>, Errno>) {
    match result {
        Ok(value) => match answer(value.len(), room) {
            Answer::Size(size) => reply.size(size),
            Answer::Value => reply.data(&value),
            Answer::TooSmall => reply.error(Errno::ERANGE),
        },
        Err(error) => reply.error(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_user_attributes_reach_a_server() {
        let readable = |name: &str| Namespace::of(name.as_bytes()).readable();
        assert_eq!(readable("user.x"), Ok(()));
        assert_eq!(readable("security.capability"), Err(Errno::ENODATA));
        assert_eq!(readable("security.selinux"), Err(Errno::EOPNOTSUPP));
        assert_eq!(readable("system.posix_acl_access"), Err(Errno::EOPNOTSUPP));
        assert_eq!(readable("trusted.x"), Err(Errno::EOPNOTSUPP));
        assert_eq!(readable("username"), Err(Errno::EOPNOTSUPP));
        let writable = |name: &str| Namespace::of(name.as_bytes()).writable();
        assert_eq!(writable("user.x"), Ok(()));
        assert_eq!(writable("security.capability"), Err(Errno::EOPNOTSUPP));
    }

    #[test]
    fn flags_say_whether_it_may_or_must_be_there() {
        assert_eq!(mode(0), Ok(XattrMode::Either));
        assert_eq!(mode(libc::XATTR_CREATE), Ok(XattrMode::Create));
        assert_eq!(mode(libc::XATTR_REPLACE), Ok(XattrMode::Replace));
        assert_eq!(
            mode(libc::XATTR_CREATE | libc::XATTR_REPLACE),
            Err(Errno::EINVAL)
        );
    }

    #[test]
    fn sizes_are_probed_and_room_is_respected() {
        assert_eq!(answer(5, 0), Answer::Size(5));
        assert_eq!(answer(5, 4), Answer::TooSmall);
        assert_eq!(answer(5, 5), Answer::Value);
        assert_eq!(answer(0, 0), Answer::Size(0));
        assert_eq!(answer(0, 10), Answer::Value);
    }

    #[test]
    fn each_name_ends_with_a_nul() {
        assert_eq!(
            join(&[b"user.a".as_slice(), b"user.bc"]),
            b"user.a\0user.bc\0"
        );
        assert_eq!(join::<&[u8]>(&[]), b"");
    }
}
