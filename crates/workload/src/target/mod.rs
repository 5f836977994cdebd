//! Where operations are done.

use crate::op::{Kind, Op, split};
use pandofs_client::{Client, ClientError, OpenHow, Options};
use pandofs_types::{Credentials, Ino, Name, SetAttr, SetTime};
use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Why an operation was not done.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    #[error("{op} of {path}: {cause}")]
    Kernel {
        op: Kind,
        path: String,
        cause: std::io::Error,
    },
    #[error("{op} of {path}: {cause}")]
    Library {
        op: Kind,
        path: String,
        cause: ClientError,
    },
    #[error("{path:?} is no path whose names can be asked for")]
    Path { path: String },
    #[error("a renaming of {path} without a new path")]
    NowhereTo { path: String },
    #[error("a client's thread panicked")]
    Panicked,
}

/// Something that does operations; each client has its own.
pub trait Target: Send {
    /// # Errors
    /// What the file system said.
    fn perform(&mut self, op: &Op) -> Result<(), TargetError>;
}

/// Below a directory, through the kernel.
#[derive(Clone, Debug)]
pub struct Kernel {
    root: PathBuf,
}

impl Kernel {
    pub fn new(root: &Path) -> Kernel {
        Kernel {
            root: root.to_owned(),
        }
    }

    fn try_it(&self, op: &Op) -> std::io::Result<()> {
        let path = self.root.join(&op.path);
        match op.op {
            Kind::Mkdir => fs::create_dir(path),
            Kind::Create => {
                let mut file = fs::File::create_new(path)?;
                write_zeros(&mut file, op.bytes)
            }
            Kind::Lookup | Kind::Stat => fs::symlink_metadata(path).map(drop),
            Kind::Utime => {
                let file = fs::File::options().write(true).open(path)?;
                file.set_modified(SystemTime::now())
            }
            Kind::Open => fs::File::open(path).map(drop),
            Kind::Read => {
                let mut buffer = vec![0; op.bytes as usize];
                fs::File::open(path)?.read(&mut buffer).map(drop)
            }
            Kind::Write => {
                let mut file = fs::File::options().append(true).open(path)?;
                write_zeros(&mut file, op.bytes)
            }
            Kind::Readdir => {
                for entry in fs::read_dir(path)? {
                    entry?;
                }
                Ok(())
            }
            Kind::Rename => match &op.to {
                Some(to) => fs::rename(path, self.root.join(to)),
                None => Err(std::io::ErrorKind::InvalidInput.into()),
            },
            Kind::Unlink => fs::remove_file(path),
            Kind::Rmdir => fs::remove_dir(path),
        }
    }
}

fn write_zeros(file: &mut fs::File, bytes: u32) -> std::io::Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    file.write_all(&vec![0; bytes as usize])
}

impl Target for Kernel {
    fn perform(&mut self, op: &Op) -> Result<(), TargetError> {
        self.try_it(op).map_err(|cause| TargetError::Kernel {
            op: op.op,
            path: op.path.clone(),
            cause,
        })
    }
}

/// Through PandoFS's client library, below a directory of the file system. It remembers the directories that
/// it has looked up, as a program with open directories would.
#[derive(Debug)]
pub struct Library {
    client: Client,
    caller: Credentials,
    /// By path; the empty one is where the work is done.
    directories: HashMap<String, Ino>,
}

impl Library {
    /// A session of its own. `root` is the path of a directory in the file system.
    ///
    /// # Errors
    /// When the file system cannot be reached, or has no such directory.
    pub fn open(cluster: &Path, caller: Credentials, root: &str) -> Result<Library, ClientError> {
        let client = Client::open(cluster, Options::default())?;
        let root = client.resolve(&caller, root.as_bytes())?.ino;
        Ok(Library {
            client,
            caller,
            directories: HashMap::from([(String::new(), root)]),
        })
    }

    fn directory(&mut self, path: &str) -> Result<Ino, Failed> {
        if let Some(&ino) = self.directories.get(path) {
            return Ok(ino);
        }
        let (above, name) = split(path);
        let parent = self.directory(above)?;
        let ino = self.client.lookup(&self.caller, parent, &named(name)?)?.ino;
        self.directories.insert(path.to_owned(), ino);
        Ok(ino)
    }

    fn place(&mut self, path: &str) -> Result<(Ino, Name), Failed> {
        let (above, name) = split(path);
        Ok((self.directory(above)?, named(name)?))
    }

    fn forget(&mut self, path: &str) {
        let within = format!("{path}/");
        self.directories
            .retain(|known, _| known != path && !known.starts_with(&within));
    }

    fn try_it(&mut self, op: &Op) -> Result<(), Failed> {
        if op.op == Kind::Readdir {
            let directory = self.directory(&op.path)?;
            for entry in self.client.list(&self.caller, directory) {
                entry?;
            }
            return Ok(());
        }
        let (dir, name) = self.place(&op.path)?;
        let (client, caller) = (self.client.clone(), self.caller.clone());
        match op.op {
            Kind::Mkdir => {
                let made = client.mkdir(&caller, dir, &name, 0o755)?;
                self.directories.insert(op.path.clone(), made.ino);
            }
            Kind::Create => {
                let how = OpenHow {
                    access: 2,
                    truncate: false,
                    exclusive: true,
                };
                let ino = client.create(&caller, dir, &name, 0o644, how)?.node.ino;
                let written = match op.bytes {
                    0 => Ok(()),
                    bytes => client.write(&caller, ino, 0, &vec![0; bytes as usize]),
                };
                client.release(ino)?;
                written?;
            }
            Kind::Lookup | Kind::Stat => {
                client.lookup(&caller, dir, &name)?;
            }
            Kind::Utime => {
                let ino = client.lookup(&caller, dir, &name)?.ino;
                let set = SetAttr {
                    mtime: Some(SetTime::Now),
                    ..SetAttr::default()
                };
                client.setattr(&caller, ino, set)?;
            }
            Kind::Open | Kind::Read | Kind::Write => {
                let node = client.lookup(&caller, dir, &name)?;
                let access = if op.op == Kind::Write { 2 } else { 4 };
                client.open_node(&caller, node.ino, access, false)?;
                let length = op.bytes as usize;
                let done = match op.op {
                    Kind::Read => client.read(&caller, node.ino, 0, length).map(drop),
                    Kind::Write => {
                        client.write(&caller, node.ino, node.attr.size, &vec![0; length])
                    }
                    _ => Ok(()),
                };
                client.release(node.ino)?;
                done?;
            }
            Kind::Rename => {
                let to = op.to.as_ref().ok_or_else(|| TargetError::NowhereTo {
                    path: op.path.clone(),
                })?;
                let (new_dir, new_name) = self.place(to)?;
                client.rename(&caller, dir, &name, new_dir, &new_name, false)?;
                self.forget(&op.path);
            }
            Kind::Unlink => {
                client.unlink(&caller, dir, &name)?;
            }
            Kind::Rmdir => {
                client.rmdir(&caller, dir, &name)?;
                self.forget(&op.path);
            }
            Kind::Readdir => {}
        }
        Ok(())
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
    Name::new(name.as_bytes()).map_err(|_| TargetError::Path {
        path: name.to_owned(),
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
