//! Operations through the client library.

use super::{Target, TargetError};
use crate::limits::MAX_KNOWN_PLACES;
use crate::op::{Kind, Op, split, unescape};
use pandofs_api::{Allocation, NewNode, XattrMode};
use pandofs_client::{Client, ClientError, OpenHow, Options, RenameHow};
use pandofs_types::{Credentials, Ino, Name, SetAttr, SetTime};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Through PandoFS's client library, below a directory of the file system. It remembers the inodes
/// that it has looked up, as a program with open files and directories would.
#[derive(Debug)]
pub struct Library {
    client: Client,
    cluster: PathBuf,
    caller: Credentials,
    /// The path of the directory that paths are below.
    below: String,
    places: Arc<Places>,
}

/// Cache of the inodes of paths, shared by all that work below a directory: a rename or removal
/// takes one from all. Of two operations of which one does that to a path of the other one, the
/// caller has one done after the other.
#[derive(Debug)]
struct Places {
    root: Ino,
    known: Mutex<BTreeMap<String, Ino>>,
}

impl Places {
    fn get(&self, path: &str) -> Option<Ino> {
        if path.is_empty() {
            return Some(self.root);
        }
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(path).copied()
    }

    fn learn(&self, path: &str, ino: Ino) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_KNOWN_PLACES {
            known.clear();
        }
        known.insert(path.to_owned(), ino);
    }

    fn forget(&self, path: &str) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.remove(path);
    }

    /// With all that is below it.
    fn forget_below(&self, path: &str) {
        let within = format!("{path}/");
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.remove(path);
        let below = known.range(within.clone()..);
        let below = below.take_while(|(path, _)| path.starts_with(&within));
        let below: Vec<String> = below.map(|(path, _)| path.clone()).collect();
        for path in below {
            known.remove(&path);
        }
    }
}

impl Library {
    /// A session of its own. `root` is the path of a directory in the file system.
    ///
    /// # Errors
    /// When the file system cannot be reached, or has no such directory.
    pub fn open(cluster: &Path, caller: Credentials, root: &str) -> Result<Library, ClientError> {
        let client = Client::open(cluster, Options::default())?;
        let below = root.trim_end_matches('/').to_owned();
        let root = client.resolve(&caller, root.as_bytes())?.ino;
        let known = Mutex::default();
        Ok(Library {
            client,
            cluster: cluster.to_owned(),
            caller,
            below,
            places: Arc::new(Places { root, known }),
        })
    }

    /// Another session that works at the same place.
    ///
    /// # Errors
    /// When the cluster's map cannot be used.
    pub fn another(&self) -> Result<Library, ClientError> {
        Ok(Library {
            client: Client::open(&self.cluster, Options::default())?,
            cluster: self.cluster.clone(),
            caller: self.caller.clone(),
            below: self.below.clone(),
            places: Arc::clone(&self.places),
        })
    }

    fn object(&self, path: &str) -> Result<Ino, Failed> {
        if let Some(ino) = self.places.get(path) {
            return Ok(ino);
        }
        let (dir, name) = self.place(path)?;
        let ino = self.client.lookup(&self.caller, dir, &name)?.ino;
        self.places.learn(path, ino);
        Ok(ino)
    }

    fn place(&self, path: &str) -> Result<(Ino, Name), Failed> {
        let (above, name) = split(path);
        Ok((self.object(above)?, named(name)?))
    }

    /// The whole path, if its directory's number is not known, so that a request by path takes the place of a walk.
    fn cold(&self, path: &str) -> Option<Vec<u8>> {
        match self.places.get(split(path).0) {
            Some(_) => None,
            None => {
                let below = self.below.as_bytes();
                unescape(path).map(|path| [below, b"/", &path].concat())
            }
        }
    }

    /// Does something by the path alone, where nothing is known and requests by path decide it.
    fn by_path<T>(
        &self,
        path: &str,
        work: impl FnOnce(&[u8]) -> Result<Option<T>, ClientError>,
    ) -> Result<Option<T>, Failed> {
        match self.cold(path) {
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
                let made = match made {
                    Some(made) => made,
                    None => {
                        let (dir, name) = self.place(path)?;
                        client.mkdir(caller, dir, &name, mode)?
                    }
                };
                self.places.learn(path, made.ino);
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
            // By name, and by number where the number is known.
            Kind::Lookup => {
                let (dir, name) = self.place(path)?;
                let found = client.lookup(caller, dir, &name)?;
                self.places.learn(path, found.ino);
            }
            Kind::Stat => {
                client.getattr(caller, self.object(path)?)?;
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
                for entry in client.list(caller, self.object(path)?) {
                    entry?;
                }
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
                self.places.forget_below(path);
                self.places.forget_below(to);
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
                self.places.forget(path);
            }
            Kind::Rmdir => {
                let removed = self.by_path(path, |path| client.rmdir_by_path(caller, path))?;
                if removed.is_none() {
                    let (dir, name) = self.place(path)?;
                    client.rmdir(caller, dir, &name)?;
                }
                self.places.forget_below(path);
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
        let Some(to) = self.cold(to).filter(|_| op.op != Kind::Exchange) else {
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
        self.places.learn(&op.path, ino);
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
        let is_known = cuts || self.places.get(&op.path).is_some();
        let opened = match is_known {
            true => None,
            false => self.by_path(&op.path, |path| client.open_by_path(caller, path, access))?,
        };
        let (ino, attr) = match opened {
            Some(node) => {
                self.places.learn(&op.path, node.ino);
                (node.ino, node.attr)
            }
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
