//! Operations through the client library.

use super::{Target, TargetError};
use crate::op::{Kind, Op, split, unescape};
use pandofs_api::{Allocation, NewNode, XattrMode};
use pandofs_client::{Client, ClientError, Node, OpenHow, Options, RenameHow};
use pandofs_types::{Credentials, Ino, Name, Position, SetAttr, SetTime};
use std::path::Path;

/// Entries that a listing by path asks for at a time.
const LISTED_AT_ONCE: usize = 1_000;

/// Through PandoFS's client library, below a directory of the file system; as a machine of its own, it shares nothing with
/// other clients of its process.
///
/// It caches one thing, under leases as a mount does: which directories the names on the way to something lead to. What an
/// operation is about it asks servers for each time.
#[derive(Debug)]
pub struct Library {
    /// Finds directories. It takes leases, so that renames and removals by others are noticed.
    ways: Client,
    /// Does operations. It takes no leases, which would answer for the servers that are measured.
    client: Client,
    caller: Credentials,
    /// The path of the directory that paths are below.
    below: String,
    root: Ino,
}

impl Library {
    /// Sessions of its own. `root` is the path of a directory in the file system.
    ///
    /// # Errors
    /// When the file system cannot be reached, or has no such directory.
    pub fn open(cluster: &Path, caller: Credentials, root: &str) -> Result<Library, ClientError> {
        let client = Client::open(cluster, Options::default())?;
        let ways = Client::open(cluster, Options::default())?;
        // Nothing but its own cache has what is recalled, and there is one caller.
        ways.take_leases(true, |_| {})?;
        let below = root.trim_end_matches('/').to_owned();
        let root = client.resolve(&caller, root.as_bytes())?.ino;
        Ok(Library {
            ways,
            client,
            caller,
            below,
            root,
        })
    }

    /// The number of a directory. A name on the way that leads to something else is refused by what is asked next.
    fn dir(&self, path: &str) -> Result<Ino, Failed> {
        let mut at = self.root;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            (at, _) = self.ways.entry(&self.caller, at, &named(name)?)?;
        }
        Ok(at)
    }

    fn place(&self, path: &str) -> Result<(Ino, Name), Failed> {
        let (above, name) = split(path);
        Ok((self.dir(above)?, named(name)?))
    }

    /// What a path leads to, as servers have it now.
    fn node(&self, path: &str) -> Result<Node, Failed> {
        if path.is_empty() {
            return Ok(self.client.node(&self.caller, self.root)?);
        }
        if let Some(node) =
            self.by_path(path, |path| self.client.node_by_path(&self.caller, path))?
        {
            return Ok(node);
        }
        let (dir, name) = self.place(path)?;
        Ok(self.client.lookup(&self.caller, dir, &name)?)
    }

    fn object(&self, path: &str) -> Result<Ino, Failed> {
        match path {
            "" => Ok(self.root),
            _ => Ok(self.node(path)?.ino),
        }
    }

    /// The whole path, for a request that takes the place of a walk.
    fn whole(&self, path: &str) -> Option<Vec<u8>> {
        let below = self.below.as_bytes();
        unescape(path).map(|path| [below, b"/", &path].concat())
    }

    /// Does something by the path alone, where requests by path decide it: on a file system that places directories so.
    fn by_path<T>(
        &self,
        path: &str,
        work: impl FnOnce(&[u8]) -> Result<Option<T>, ClientError>,
    ) -> Result<Option<T>, Failed> {
        match self.whole(path) {
            Some(path) => Ok(work(&path)?),
            None => Ok(None),
        }
    }

    fn try_it(&mut self, op: &Op) -> Result<(), Failed> {
        let (client, caller, path) = (&self.client, &self.caller, op.path.as_str());
        match op.op {
            Kind::Mkdir => {
                let mode = op.mode.unwrap_or(0o755);
                let made =
                    self.by_path(path, |path| client.mkdir_by_path(caller, path, mode.into()))?;
                if made.is_none() {
                    let (dir, name) = self.place(path)?;
                    client.mkdir(caller, dir, &name, mode)?;
                }
            }
            Kind::Create => self.create(op)?,
            Kind::Symlink | Kind::Mknod => {
                let node = match (op.op, op.name.as_deref()) {
                    (Kind::Symlink, _) => NewNode::Symlink {
                        target: super::link_target(op),
                    },
                    (_, Some("socket")) => NewNode::Socket,
                    _ => NewNode::Fifo,
                };
                let mode = op.mode.unwrap_or(0o777);
                let made = self.by_path(path, |path| {
                    client.mknod_by_path(caller, path, node.clone(), mode.into())
                })?;
                if made.is_none() {
                    let (dir, name) = self.place(path)?;
                    client.mknod(caller, dir, &name, node, mode)?;
                }
            }
            // The answer to a name has the attributes of what it leads to.
            Kind::Lookup | Kind::Stat => {
                self.node(path)?;
            }
            Kind::Utime | Kind::Setattr => {
                let times = (op.times || op.op == Kind::Utime).then_some(SetTime::Now);
                let set = SetAttr {
                    mode: op.mode,
                    uid: op.uid,
                    gid: op.gid,
                    size: op.size,
                    mtime: times,
                    ..SetAttr::default()
                };
                client.setattr(caller, self.object(path)?, set)?;
            }
            Kind::Open | Kind::Read | Kind::Write | Kind::Allocate => self.with_open(op)?,
            Kind::Readdir => {
                self.list(path)?;
            }
            Kind::Rename | Kind::Renamedir | Kind::Exchange => {
                let to = self.to(op)?;
                if !self.renamed_by_path(op, to)? {
                    let ((dir, name), (new_dir, new_name)) = (self.place(path)?, self.place(to)?);
                    if op.op == Kind::Exchange {
                        client.exchange(caller, dir, &name, new_dir, &new_name)?;
                    } else {
                        let no_replace = op.exclusive;
                        client.rename(caller, dir, &name, new_dir, &new_name, no_replace)?;
                    }
                }
            }
            Kind::Link => {
                let (dir, name) = self.place(self.to(op)?)?;
                client.link(caller, self.object(path)?, dir, &name)?;
            }
            Kind::Readlink => {
                client.readlink(caller, self.object(path)?)?;
            }
            Kind::Unlink => {
                let removed = self.by_path(path, |path| client.unlink_by_path(caller, path))?;
                if removed.is_none() {
                    let (dir, name) = self.place(path)?;
                    client.unlink(caller, dir, &name)?;
                }
            }
            Kind::Rmdir => {
                let removed = self.by_path(path, |path| client.rmdir_by_path(caller, path))?;
                if removed.is_none() {
                    let (dir, name) = self.place(path)?;
                    client.rmdir(caller, dir, &name)?;
                }
            }
            Kind::Getxattr => {
                client.getxattr(caller, self.object(path)?, &attribute(op)?)?;
            }
            Kind::Listxattr => {
                client.listxattr(caller, self.object(path)?)?;
            }
            Kind::Setxattr => {
                let (name, value) = (attribute(op)?, vec![0; op.bytes as usize]);
                client.setxattr(caller, self.object(path)?, &name, &value, XattrMode::Either)?;
            }
            Kind::Removexattr => client.removexattr(caller, self.object(path)?, &attribute(op)?)?,
        }
        Ok(())
    }

    fn renamed_by_path(&self, op: &Op, to: &str) -> Result<bool, Failed> {
        let Some(to) = self.whole(to).filter(|_| op.op != Kind::Exchange) else {
            return Ok(false);
        };
        let how = RenameHow {
            no_replace: op.exclusive,
            whiteout: false,
        };
        let renamed = self.by_path(&op.path, |path| {
            self.client.rename_by_path(&self.caller, path, &to, how)
        })?;
        Ok(renamed.is_some())
    }

    fn create(&self, op: &Op) -> Result<(), Failed> {
        let (client, caller) = (&self.client, &self.caller);
        let how = OpenHow {
            access: 2,
            truncate: false,
            exclusive: true,
        };
        let mode = op.mode.unwrap_or(0o644);
        let made = self.by_path(&op.path, |path| {
            client.create_by_path(caller, path, mode.into(), how)
        })?;
        let ino = match made {
            Some(made) => made.ino,
            None => {
                let (dir, name) = self.place(&op.path)?;
                client.create(caller, dir, &name, mode, how)?.node.ino
            }
        };
        let filled = match (op.size, op.bytes) {
            (Some(size), _) => self.cut(ino, size),
            (None, 0) => Ok(()),
            (None, bytes) => client.write(caller, ino, 0, &vec![0; bytes as usize]),
        };
        client.release(ino)?;
        Ok(filled?)
    }

    fn with_open(&self, op: &Op) -> Result<(), Failed> {
        let (client, caller) = (&self.client, &self.caller);
        let access = match op.op {
            Kind::Write | Kind::Allocate => 2,
            Kind::Open if op.size.is_some() => 2,
            _ => 4,
        };
        let cuts = op.op == Kind::Open && op.size == Some(0);
        let opened = match cuts {
            true => None,
            false => self.by_path(&op.path, |path| client.open_by_path(caller, path, access))?,
        };
        let (ino, attr) = match opened {
            Some(node) => (node.ino, node.attr),
            None => {
                let ino = self.object(&op.path)?;
                (ino, client.open_node(caller, ino, access, cuts)?)
            }
        };
        let length = op.bytes as usize;
        let done = match op.op {
            Kind::Read => {
                let offset = op.offset.unwrap_or(0);
                client.read(caller, ino, offset, length).map(drop)
            }
            Kind::Write => {
                let offset = op.offset.unwrap_or(attr.size);
                client.write(caller, ino, offset, &vec![0; length])
            }
            Kind::Allocate => match op.size {
                Some(size) if size > 0 => {
                    let reserve = Allocation::Reserve { keep_size: false };
                    client.allocate(caller, ino, size - 1, 1, reserve)
                }
                _ => Ok(()),
            },
            _ => Ok(()),
        };
        client.release(ino)?;
        Ok(done?)
    }

    fn list(&self, path: &str) -> Result<(), Failed> {
        let (client, caller) = (&self.client, &self.caller);
        let first = match path {
            "" => None,
            _ => self.by_path(path, |path| {
                client.list_by_path(caller, path, false, LISTED_AT_ONCE)
            })?,
        };
        let Some((dir, mut page)) = first else {
            for entry in client.list(caller, self.dir(path)?) {
                entry?;
            }
            return Ok(());
        };
        while page.next != Position::END {
            page = client.readdir(caller, dir, page.next, false, LISTED_AT_ONCE)?;
        }
        Ok(())
    }

    fn cut(&self, ino: Ino, size: u64) -> Result<(), ClientError> {
        let set = SetAttr {
            size: Some(size),
            ..SetAttr::default()
        };
        self.client.setattr(&self.caller, ino, set).map(drop)
    }

    fn to<'o>(&self, op: &'o Op) -> Result<&'o str, TargetError> {
        op.to.as_deref().ok_or_else(|| TargetError::NowhereTo {
            path: op.path.clone(),
        })
    }
}

enum Failed {
    Client(ClientError),
    Target(TargetError),
}

impl From<ClientError> for Failed {
    fn from(cause: ClientError) -> Failed {
        Failed::Client(cause)
    }
}

impl From<TargetError> for Failed {
    fn from(cause: TargetError) -> Failed {
        Failed::Target(cause)
    }
}

fn named(name: &str) -> Result<Name, TargetError> {
    let name_of = |bytes: Vec<u8>| Name::new(&bytes).ok();
    unescape(name)
        .and_then(name_of)
        .ok_or_else(|| TargetError::Path {
            path: name.to_owned(),
        })
}

fn attribute(op: &Op) -> Result<Vec<u8>, TargetError> {
    let name = op.name.as_deref().and_then(unescape);
    name.ok_or_else(|| TargetError::Path {
        path: op.path.clone(),
    })
}

impl Target for Library {
    fn perform(&mut self, op: &Op) -> Result<(), TargetError> {
        self.try_it(op).map_err(|failed| match failed {
            Failed::Target(error) => error,
            Failed::Client(cause) => TargetError::Library {
                op: op.op,
                path: op.path.clone(),
                cause,
            },
        })
    }
}
