//! Extended attributes for the kernel.
//!
//! Servers say which there may be, and who may have them.

use crate::abandoned::Changed;
use crate::call::Call;
use crate::errno::errno;
use crate::ops::PandoFs;
use pandofs_api::XattrMode;
use pandofs_fuse_kernel::{Errno, Reply};
use pandofs_types::{AclKind, Credentials, Ino};

/// File capabilities. The kernel asks for them before a file is written to, to take them off.
pub(crate) const CAPABILITY: &[u8] = b"security.capability";

/// The prefix of attributes that most callers do not see.
pub(crate) const TRUSTED: &[u8] = b"trusted.";

/// Returns whether there may be an attribute of this name.
pub(crate) fn is_name(name: &[u8]) -> bool {
    let prefixes: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];
    let begins = |prefix: &&[u8]| name.len() > prefix.len() && name.starts_with(prefix);
    prefixes.iter().any(begins) || AclKind::of_name(name).is_some()
}

/// The meaning of the flags of `setxattr(2)`.
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

/// The answer with a value of `len` bytes to a caller that has room for `room`.
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

pub(crate) fn reply(reply: Reply, room: u32, result: Result<Vec<u8>, Errno>) {
    match result {
        Ok(value) => match answer(value.len(), room) {
            Answer::Size(size) => reply.xattr_size(size),
            Answer::Value => reply.data(&value),
            Answer::TooSmall => reply.error(Errno::ERANGE),
        },
        Err(error) => reply.error(error),
    }
}

impl PandoFs {
    pub(crate) fn set_xattr(
        &self,
        call: &Call,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        flags: i32,
    ) -> Result<(), Errno> {
        call.changes(vec![Changed::Inode(ino)])?;
        let result = mode(flags).and_then(|mode| {
            if AclKind::of_name(name).is_some() {
                // Groups and capabilities decide without any refusal if a set-group-id bit stays.
                let caller = &call.caller().complete();
                let set = self.client.setxattr(caller, ino, name, value, mode);
                return set.map_err(errno);
            }
            self.ask(call, |c| self.client.setxattr(c, ino, name, value, mode))
        });
        self.no_xattrs.given(ino);
        self.dir_attrs.forget(ino);
        result
    }

    pub(crate) fn remove_xattr(&self, call: &Call, ino: Ino, name: &[u8]) -> Result<(), Errno> {
        call.changes(vec![Changed::Inode(ino)])?;
        let result = if name == CAPABILITY {
            // The kernel has made sure of the caller's right, or takes it off itself in the name of
            // a writer of the file, which need not have any right to this.
            let root = &Credentials::ROOT;
            self.client.removexattr(root, ino, name).map_err(errno)
        } else {
            self.ask(call, |c| self.client.removexattr(c, ino, name))
        };
        self.dir_attrs.forget(ino);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_name_is_left_to_servers_to_refuse() {
        for name in [
            "user.x",
            "security.capability",
            "trusted.x",
            "system.posix_acl_default",
        ] {
            assert!(is_name(name.as_bytes()), "{name}");
        }
        for name in ["user.", "trusted", "username", "system.other", ""] {
            assert!(!is_name(name.as_bytes()), "{name}");
        }
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
