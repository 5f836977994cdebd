//! Connections: a session with a file system, who asks, and where relative paths begin.

use crate::failure::{Failure, Result};
use pandofs_client::{Client, ClientError, Node};
use pandofs_types::{Credentials, FileKind, FsError, Ino, Name, NewMode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The right to read, as the client library has it.
pub(crate) const READ: u16 = 4;
/// Times that a name is looked up which leads to something that is gone a moment later.
const MAX_LOOKS: usize = 64;

/// Numbers the sessions of the process.
static LAST: AtomicU64 = AtomicU64::new(0);

/// Session of a connection: all handles of one share it. It ends with the last of them that is in use.
#[derive(Debug)]
pub struct Session {
    /// Different from all others' of the process.
    pub number: u64,
    /// The client that all handles ask.
    pub client: Client,
}

/// A connection as a program has it: what a `pandofs_fs_t` of C leads to.
#[derive(Debug)]
pub struct Mount {
    /// Shared by all that was made from one connection.
    pub session: Arc<Session>,
    /// On whose behalf it asks.
    pub caller: Credentials,
    /// Taken off the permission bits of what is made.
    pub umask: u16,
    /// The directory where relative paths begin.
    pub base: Ino,
}

/// The end of a path whose last component is to be made, removed or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// A name, with a `/` behind it or not.
    Dir,
    /// A name alone.
    NoDir,
}

impl Mount {
    /// Connects as [`crate::connect`] does, for the caller; relative paths begin at the root.
    ///
    /// # Errors
    /// Those of [`crate::connect`]; `Invalid` for an address that is no text.
    pub fn connect(
        cluster: &[u8],
        timeout_ms: u32,
        cache_bytes: u64,
        caller: Credentials,
        umask: u16,
    ) -> Result<Mount> {
        if crate::is_address(cluster) && std::str::from_utf8(cluster).is_err() {
            return Err(Failure::Invalid("an address that is no text"));
        }
        let client = crate::connect(cluster, timeout_ms, cache_bytes)?;
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(Mount {
            session: Arc::new(Session { number, client }),
            caller,
            umask,
            base: Ino::ROOT,
        })
    }

    /// The client library, with which each call gives its caller.
    pub fn client(&self) -> &Client {
        &self.session.client
    }

    /// Permission bits for what is made.
    pub(crate) fn new_mode(&self, mode: u32) -> NewMode {
        NewMode {
            mode: (mode & 0o7777) as u16,
            umask: self.umask,
        }
    }

    /// The node that the path leads to; `follow`: also if it ends in a symbolic link.
    ///
    /// # Errors
    /// Those of [`Client::resolve_at`].
    pub fn resolve(&self, path: &[u8], follow: bool) -> Result<Node> {
        Ok(self
            .client()
            .resolve_at(&self.caller, self.base, path, follow)?)
    }

    /// Does something by the path alone, if it begins at the root and requests by path decide it.
    pub(crate) fn by_path<T>(
        &self,
        path: &[u8],
        work: impl FnOnce(&Client, &Credentials) -> std::result::Result<Option<T>, ClientError>,
    ) -> Result<Option<T>> {
        match self.begins_at_root(path) {
            true => Ok(work(self.client(), &self.caller)?),
            false => Ok(None),
        }
    }

    pub(crate) fn begins_at_root(&self, path: &[u8]) -> bool {
        self.base == Ino::ROOT || path.starts_with(b"/")
    }

    /// Does something with what the path leads to: again if it is gone when that begins.
    ///
    /// # Errors
    /// Those of resolving and of the work.
    pub fn with_node<T>(
        &self,
        path: &[u8],
        follow: bool,
        mut work: impl FnMut(&Node) -> Result<T>,
    ) -> Result<T> {
        for _ in 0..MAX_LOOKS {
            let node = self.resolve(path, follow)?;
            match work(&node) {
                Err(Failure::Client(ClientError::Fs(FsError::Stale))) => {}
                done => return done,
            }
        }
        Err(FsError::NotFound.into())
    }

    /// The directory and the name in which the path ends, which begins in `from`.
    pub(crate) fn leaf(&self, from: Ino, path: &[u8], ending: Ending) -> Result<(Ino, Name)> {
        if ends_in_no_name(path) {
            self.client().resolve_at(&self.caller, from, path, true)?;
            return Err(Failure::InUse);
        }
        if ending == Ending::NoDir && path.ends_with(b"/") {
            // There is a directory, or nothing.
            self.client().resolve_at(&self.caller, from, path, true)?;
            return Err(FsError::IsDir.into());
        }
        Ok(self.client().resolve_parent_at(&self.caller, from, path)?)
    }

    /// As [`Mount::leaf`] for something that is to be made.
    pub(crate) fn new_leaf(&self, path: &[u8], ending: Ending) -> Result<(Ino, Name)> {
        match self.leaf(self.base, path, ending) {
            Err(Failure::InUse | Failure::Client(ClientError::Fs(FsError::IsDir))) => {
                Err(FsError::Exists.into())
            }
            leaf => leaf,
        }
    }

    /// All bytes of a regular file, without opening it.
    ///
    /// # Errors
    /// As open(2) and read(2); `Special` for what only the kernel can read.
    pub fn read_file(&self, path: &[u8]) -> Result<Vec<u8>> {
        self.read_first(path, usize::MAX)
    }

    /// As [`Mount::read_file`], of no more than its first bytes.
    pub(crate) fn read_first(&self, path: &[u8], most: usize) -> Result<Vec<u8>> {
        self.with_node(path, true, |node| {
            match node.kind {
                FileKind::File => {}
                FileKind::Dir => return Err(FsError::IsDir.into()),
                _ => return Err(Failure::Special),
            }
            let (client, caller) = (self.client(), &self.caller);
            client.access(caller, node.ino, READ)?;
            let mut bytes = Vec::new();
            let size = usize::try_from(node.attr.size)
                .unwrap_or(usize::MAX)
                .min(most);
            crate::read_whole(client, caller, node.ino, 0, size, |_, piece| {
                bytes.extend_from_slice(piece);
            })?;
            Ok(bytes)
        })
    }

    /// The directory that the path leads to.
    ///
    /// # Errors
    /// Those of resolving; `NotDir`.
    pub fn directory(&self, path: &[u8]) -> Result<Ino> {
        let node = self.resolve(path, true)?;
        match node.kind {
            FileKind::Dir => Ok(node.ino),
            _ => Err(FsError::NotDir.into()),
        }
    }
}

/// Returns whether the last component of a path is `.` or `..`, or there is none.
fn ends_in_no_name(path: &[u8]) -> bool {
    let mut components = path.split(|&byte| byte == b'/');
    let last = components.rfind(|component| !component.is_empty());
    last.is_none_or(|last| last == b"." || last == b"..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_end_in_no_name() {
        for path in ["/", "//", ".", "..", "a/.", "a/../", "/a/..//"] {
            assert!(ends_in_no_name(path.as_bytes()), "{path}");
        }
        for path in ["a", "/a", "../a/", "a/...", "./.a//"] {
            assert!(!ends_in_no_name(path.as_bytes()), "{path}");
        }
    }
}
