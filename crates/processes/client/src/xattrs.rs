//! Extended attributes.

use crate::Client;
use crate::error::{ClientError, Result};
use crate::inodes::unexpected;
use crate::layout::LAYOUT_XATTR;
use crate::trace::{Op, Outcome};
use pandofs_api::{Reply, Request, XattrMode, op};
use pandofs_session::Target;
use pandofs_types::acl::ACCESS_ACL;
use pandofs_types::limits::{MAX_XATTR_NAME_BYTES, MAX_XATTR_VALUE_BYTES};
use pandofs_types::{Acl, Credentials, FsError, Ino};

impl Client {
    /// # Errors
    /// `NoAttribute` when there is none of this name.
    pub fn getxattr(&self, caller: &Credentials, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        self.traced(
            || Op::Getxattr { ino, name },
            |_| Outcome::Done,
            |client| client.get_xattr(caller, ino, name),
        )
    }

    fn get_xattr(&self, caller: &Credentials, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        if name == LAYOUT_XATTR {
            return self.layout_xattr(caller, ino);
        }
        let request = Request::GetXattr(op::GetXattr {
            ino,
            name: name.to_vec(),
        });
        match self.core().ask(caller, Target::Inode(ino), request)? {
            Reply::Value(value) => Ok(value),
            other => Err(unexpected(&other)),
        }
    }

    /// The names of all extended attributes.
    ///
    /// # Errors
    /// `Stale` when there is no such inode.
    pub fn listxattr(&self, caller: &Credentials, ino: Ino) -> Result<Vec<Vec<u8>>> {
        self.traced(
            || Op::Listxattr { ino },
            |_| Outcome::Done,
            |client| client.list_xattr(caller, ino),
        )
    }

    fn list_xattr(&self, caller: &Credentials, ino: Ino) -> Result<Vec<Vec<u8>>> {
        match self.core().ask(
            caller,
            Target::Inode(ino),
            Request::ListXattr(op::ListXattr { ino }),
        )? {
            Reply::Names(names) => Ok(names.into_iter().map(|name| name.into_vec()).collect()),
            other => Err(unexpected(&other)),
        }
    }

    /// # Errors
    /// `Exists` or `NoAttribute` as `mode` has it; `Invalid` for the name and `TooBig` for the
    /// value when they are too long.
    pub fn setxattr(
        &self,
        caller: &Credentials,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<()> {
        let bytes = value.len();
        self.traced(
            || Op::Setxattr { ino, name, bytes },
            |()| Outcome::Done,
            |client| client.set_xattr(caller, ino, name, value, mode),
        )
    }

    fn set_xattr(
        &self,
        caller: &Credentials,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<()> {
        if name.len() > MAX_XATTR_NAME_BYTES {
            return Err(FsError::Invalid.into());
        }
        if value.len() > MAX_XATTR_VALUE_BYTES {
            return Err(FsError::TooBig.into());
        }
        if name == LAYOUT_XATTR {
            return self.set_layout_xattr(caller, ino, value, mode);
        }
        let (name, value) = (name.to_vec(), value.to_vec());
        let request = Request::SetXattr(op::SetXattr {
            ino,
            name,
            value,
            mode,
        });
        self.core().ask_done(caller, Target::Inode(ino), request)
    }

    /// The access control list, if there is one.
    pub(crate) fn access_acl(&self, ino: Ino) -> Result<Option<Acl>> {
        match self.get_xattr(&Credentials::ROOT, ino, ACCESS_ACL) {
            Ok(value) => Ok(Acl::from_xattr(&value)?),
            Err(ClientError::Fs(FsError::NoAttribute | FsError::NotSupported)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// # Errors
    /// `NoAttribute` when there is none of this name.
    pub fn removexattr(&self, caller: &Credentials, ino: Ino, name: &[u8]) -> Result<()> {
        self.traced(
            || Op::Removexattr { ino, name },
            |()| Outcome::Done,
            |client| client.remove_xattr(caller, ino, name),
        )
    }

    fn remove_xattr(&self, caller: &Credentials, ino: Ino, name: &[u8]) -> Result<()> {
        if name == LAYOUT_XATTR {
            return self.remove_layout_xattr(caller, ino);
        }
        let request = Request::RemoveXattr(op::RemoveXattr {
            ino,
            name: name.to_vec(),
        });
        self.core().ask_done(caller, Target::Inode(ino), request)
    }
}
