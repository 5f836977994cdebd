//! Operations on a name in a directory.

use crate::call::Call;
use crate::core::Core;
use crate::error::{ClientError, Result};
use crate::file::Token;
use crate::inodes::unexpected;
use crate::trace::{Op, Outcome};
use crate::{Client, Node};
use pandofs_api::{EntryReply, NewNode, Reply, Request, op};
use pandofs_session::Target;
use pandofs_types::limits::MAX_REDIRECTS;
use pandofs_types::{Credentials, FileKind, FsError, Ino, Name, NewMode, Position, ShardId};

/// Options of [`Client::create`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenHow {
    /// 4 read, 2 write, 1 execute; asked for of a file that was there, not of one that is made.
    pub access: u16,
    /// A file that was there is emptied.
    pub truncate: bool,
    /// A name that was there is an error.
    pub exclusive: bool,
}

/// Options of [`Client::rename_how`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RenameHow {
    /// An object that has the new name is not replaced.
    pub no_replace: bool,
    /// The old name leads to a white-out afterwards, a character device of number 0:0.
    pub whiteout: bool,
}

/// The file that [`Client::create`] opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// As the shard had it once it was opened.
    pub node: Node,
    /// True if it was made by this call.
    pub created: bool,
}

impl Client {
    /// Returns the node of a name; symbolic links are not followed. For a directory the attributes
    /// are gathered from all shards that carry it.
    ///
    /// # Errors
    /// `NotFound` when there is no such name.
    pub fn lookup(&self, caller: &Credentials, dir: Ino, name: &Name) -> Result<Node> {
        self.traced(
            || Op::Lookup { dir, name },
            |node| Outcome::Node(node),
            |client| client.look_up(caller, dir, name),
        )
    }

    pub(crate) fn look_up(&self, caller: &Credentials, dir: Ino, name: &Name) -> Result<Node> {
        let core = self.core();
        // An entry and its inode on two shards are read one after the other; in between the name
        // may have gone, or lead to something else now.
        for _ in 0..MAX_REDIRECTS {
            let entry = core.entry(caller, dir, name)?;
            match core.node(caller, entry) {
                Err(error) if error.is_gone() => {}
                done => return done,
            }
        }
        Err(FsError::NotFound.into())
    }

    /// Makes a file and opens it, or opens the one that is there. It is to be released.
    ///
    /// # Errors
    /// `Exists` when the name is taken and `how` is exclusive, or what is there is no file.
    pub fn create(
        &self,
        caller: &Credentials,
        dir: Ino,
        name: &Name,
        mode: u16,
        how: OpenHow,
    ) -> Result<Found> {
        self.create_masked(caller, dir, name, mode.into(), how)
    }

    /// As [`Client::create`], with a umask.
    ///
    /// # Errors
    /// The same.
    pub fn create_masked(
        &self,
        caller: &Credentials,
        dir: Ino,
        name: &Name,
        mode: NewMode,
        how: OpenHow,
    ) -> Result<Found> {
        self.traced(
            || Op::Create {
                dir,
                name,
                mode: mode.mode & !mode.umask,
                truncate: how.truncate,
            },
            |found: &Found| match found.created {
                true => Outcome::Node(&found.node),
                false => Outcome::Found(&found.node),
            },
            |client| client.create_or_open(caller, dir, name, mode, how),
        )
    }

    fn create_or_open(
        &self,
        caller: &Credentials,
        dir: Ino,
        name: &Name,
        mode: NewMode,
        how: OpenHow,
    ) -> Result<Found> {
        // The name may come and go between the attempts to make it and to open it.
        for _ in 0..MAX_REDIRECTS {
            match self.create_new(caller, dir, name, mode) {
                Err(ClientError::Fs(FsError::Exists)) if !how.exclusive => {}
                Ok(node) => {
                    return Ok(Found {
                        node,
                        created: true,
                    });
                }
                Err(error) => return Err(error),
            }
            match self.open_existing(caller, dir, name, how) {
                Err(error) if error.is_gone() => {}
                Ok(node) => {
                    return Ok(Found {
                        node,
                        created: false,
                    });
                }
                Err(error) => return Err(error),
            }
        }
        Err(FsError::Busy.into())
    }

    fn create_new(
        &self,
        caller: &Credentials,
        dir: Ino,
        name: &Name,
        mode: NewMode,
    ) -> Result<Node> {
        let core = self.core();
        let request = Request::Create(op::Create {
            dir,
            name: name.clone(),
            node: NewNode::File,
            mode: mode.mode,
            umask: mode.umask,
            open: true,
        });
        core.make_open(
            caller,
            Call::shard(core.by_name(dir, name), caller, request),
        )
    }

    /// Makes a file without a name and opens it (`O_TMPFILE`). It is to be released, and is gone
    /// then unless it was given a name by [`Client::link`]; which is allowed once, and only with
    /// `may_be_named`. It has the group and the access control list that it would have inherited
    /// from the directory.
    ///
    /// # Errors
    /// `Access` when the caller may not make files in the directory; `NotDir`.
    pub fn create_unnamed(
        &self,
        caller: &Credentials,
        dir: Ino,
        mode: NewMode,
        may_be_named: bool,
    ) -> Result<Node> {
        // Like names, these spread over all that carries the directory.
        let at = Position(rand::random_range(Position::FIRST.0..Position::END.0));
        let request = Request::CreateUnnamed(op::CreateUnnamed {
            dir,
            at,
            mode: mode.mode,
            umask: mode.umask,
            may_be_named,
        });
        let target = Target::Name { dir, position: at };
        self.traced(
            || Op::Unnamed { dir },
            |node| Outcome::Node(node),
            |client| {
                let call = Call::shard(target, caller, request);
                client.core().make_open(caller, call)
            },
        )
    }

    fn open_existing(
        &self,
        caller: &Credentials,
        dir: Ino,
        name: &Name,
        how: OpenHow,
    ) -> Result<Node> {
        let core = self.core();
        let entry = core.entry(caller, dir, name)?;
        core.learn_entry(entry.ino, entry.shard, entry.inode.is_some());
        match entry.kind {
            FileKind::Dir => Err(FsError::IsDir.into()),
            FileKind::Symlink => Err(FsError::Exists.into()),
            _ => self
                .open_node(caller, entry.ino, how.access, how.truncate)
                .map(Node::from),
        }
    }

    /// Makes what is no directory and leaves it closed.
    ///
    /// # Errors
    /// `Exists` when the name is taken.
    pub fn mknod(
        &self,
        caller: &Credentials,
        dir: Ino,
        name: &Name,
        node: NewNode,
        mode: u16,
    ) -> Result<Node> {
        self.mknod_masked(caller, dir, name, node, mode.into())
    }

    /// As [`Client::mknod`], with a umask.
    ///
    /// # Errors
    /// The same.
    pub fn mknod_masked(
        &self,
        caller: &Credentials,
        dir: Ino,
        name: &Name,
        node: NewNode,
        mode: NewMode,
    ) -> Result<Node> {
        let op = made(dir, name, &node, mode.mode & !mode.umask);
        let request = Request::Create(op::Create {
            dir,
            name: name.clone(),
            node,
            mode: mode.mode,
            umask: mode.umask,
            open: false,
        });
        self.make(caller, op, dir, name, request)
    }

    /// # Errors
    /// `Exists` when the name is taken.
    pub fn mkdir(&self, caller: &Credentials, dir: Ino, name: &Name, mode: u16) -> Result<Node> {
        self.mkdir_masked(caller, dir, name, mode.into())
    }

    /// As [`Client::mkdir`], with a umask.
    ///
    /// # Errors
    /// The same.
    pub fn mkdir_masked(
        &self,
        caller: &Credentials,
        dir: Ino,
        name: &Name,
        mode: NewMode,
    ) -> Result<Node> {
        let request = Request::Mkdir(op::Mkdir {
            dir,
            name: name.clone(),
            mode: mode.mode,
            umask: mode.umask,
        });
        let mode = mode.mode & !mode.umask;
        self.make(caller, Op::Mkdir { dir, name, mode }, dir, name, request)
    }

    /// # Errors
    /// `Exists` when the name is taken; `NameTooLong` for the target.
    pub fn symlink(
        &self,
        caller: &Credentials,
        dir: Ino,
        name: &Name,
        target: &[u8],
    ) -> Result<Node> {
        let node = NewNode::Symlink {
            target: target.to_vec(),
        };
        self.mknod(caller, dir, name, node, 0o777)
    }

    /// A further name for a file.
    ///
    /// # Errors
    /// `Exists` when the name is taken; `NotPermitted` for a directory.
    pub fn link(&self, caller: &Credentials, ino: Ino, dir: Ino, name: &Name) -> Result<Node> {
        let inode_shard = self.core().inodes.shard_of(ino);
        let request = Request::Link(op::Link {
            dir,
            name: name.clone(),
            ino,
            inode_shard,
        });
        self.make(caller, Op::Link { ino, dir, name }, dir, name, request)
    }

    fn make(
        &self,
        caller: &Credentials,
        op: Op<'_>,
        dir: Ino,
        name: &Name,
        request: Request,
    ) -> Result<Node> {
        self.traced(
            || op,
            |node| Outcome::Node(node),
            |client| client.core().make(caller, dir, name, request),
        )
    }

    /// Takes away a name of what is no directory, and answers with what it led to.
    ///
    /// # Errors
    /// `NotFound`; `IsDir` for a directory.
    pub fn unlink(&self, caller: &Credentials, dir: Ino, name: &Name) -> Result<Ino> {
        let request = Request::Unlink(op::Unlink {
            dir,
            name: name.clone(),
        });
        self.traced(
            || Op::Unlink { dir, name },
            |&ino| Outcome::Ino(ino),
            |client| client.core().remove(caller, dir, name, request),
        )
    }

    /// Removes an empty directory, and answers with its number.
    ///
    /// # Errors
    /// `NotFound`; `NotDir`; `NotEmpty`.
    pub fn rmdir(&self, caller: &Credentials, dir: Ino, name: &Name) -> Result<Ino> {
        let request = Request::Rmdir(op::Rmdir {
            dir,
            name: name.clone(),
        });
        let ino = self.traced(
            || Op::Rmdir { dir, name },
            |&ino| Outcome::Ino(ino),
            |client| client.core().remove(caller, dir, name, request),
        )?;
        self.core().maps.forget(ino);
        Ok(ino)
    }

    /// Gives what has a name another one, and answers with its number. The inode that had the new
    /// name gives way unless `no_replace`.
    ///
    /// # Errors
    /// `NotFound`; `Exists` with `no_replace`; `Invalid` when a directory would move into itself;
    /// `NotEmpty`, `IsDir`, `NotDir` when what has the new name cannot give way.
    pub fn rename(
        &self,
        caller: &Credentials,
        dir: Ino,
        name: &Name,
        new_dir: Ino,
        new_name: &Name,
        no_replace: bool,
    ) -> Result<Ino> {
        let how = RenameHow {
            no_replace,
            whiteout: false,
        };
        self.rename_how(caller, (dir, name), (new_dir, new_name), how)
    }

    /// As [`Client::rename`], perhaps leaving something in place of the old name.
    ///
    /// # Errors
    /// As [`Client::rename`].
    pub fn rename_how(
        &self,
        caller: &Credentials,
        (dir, name): (Ino, &Name),
        (new_dir, new_name): (Ino, &Name),
        how: RenameHow,
    ) -> Result<Ino> {
        let request = Request::Rename(op::Rename {
            dir,
            name: name.clone(),
            new_dir,
            new_name: new_name.clone(),
            // Filled in when it is sent.
            new_shard: ShardId(0),
            no_replace: how.no_replace,
            whiteout: how.whiteout,
        });
        let op = Op::Rename {
            from: (dir, name),
            to: (new_dir, new_name),
            no_replace: how.no_replace,
        };
        self.traced(
            || op,
            |&ino| Outcome::Ino(ino),
            |client| {
                let core = client.core();
                match core.ask(caller, core.by_name(dir, name), request)? {
                    Reply::Renamed { ino } => Ok(ino),
                    other => Err(unexpected(&other)),
                }
            },
        )
    }

    /// Has two names change places, and answers with what the first and the other one led to.
    ///
    /// # Errors
    /// `NotFound` when either is not there; `Invalid` when a directory would move into itself.
    pub fn exchange(
        &self,
        caller: &Credentials,
        dir: Ino,
        name: &Name,
        new_dir: Ino,
        new_name: &Name,
    ) -> Result<(Ino, Ino)> {
        let request = Request::Exchange(op::Exchange {
            dir,
            name: name.clone(),
            new_dir,
            new_name: new_name.clone(),
            // Filled in when it is sent.
            new_shard: ShardId(0),
        });
        let op = Op::Exchange {
            from: (dir, name),
            to: (new_dir, new_name),
        };
        self.traced(
            || op,
            |&(ino, other)| Outcome::Inos(ino, other),
            |client| {
                let core = client.core();
                match core.ask(caller, core.by_name(dir, name), request)? {
                    Reply::Exchanged { ino, other } => Ok((ino, other)),
                    other => Err(unexpected(&other)),
                }
            },
        )
    }
}

impl Core {
    /// Returns a directory's entry of the name, without a look at the inode.
    pub(crate) fn entry(&self, caller: &Credentials, dir: Ino, name: &Name) -> Result<EntryReply> {
        let request = Request::Lookup(op::Lookup {
            dir,
            name: name.clone(),
        });
        entry_of(self.ask(caller, self.by_name(dir, name), request)?)
    }

    /// Has a file made and opened.
    fn make_open(&self, caller: &Credentials, mut call: Call) -> Result<Node> {
        let before = self.registrations();
        let reply = self.ask_call(&mut call)?;
        self.made_open(caller, &call, reply, before)
    }

    /// A file was made and opened; `before`: how often anything was registered before that was asked for.
    pub(crate) fn made_open(
        &self,
        caller: &Credentials,
        call: &Call,
        reply: Reply,
        before: u64,
    ) -> Result<Node> {
        let entry = entry_of(reply)?;
        match &entry.inode {
            Some(inode) => {
                self.opened(call, (entry.shard, true), inode, Token::default());
                self.opened_elsewhere(call, &entry, before);
            }
            None => {
                return Err(ClientError::Protocol(format!(
                    "file {} was made and opened without its attributes",
                    entry.ino
                )));
            }
        }
        self.node(caller, entry)
    }

    fn make(&self, caller: &Credentials, dir: Ino, name: &Name, request: Request) -> Result<Node> {
        let entry = entry_of(self.ask(caller, self.by_name(dir, name), request)?)?;
        self.node(caller, entry)
    }

    fn remove(&self, caller: &Credentials, dir: Ino, name: &Name, request: Request) -> Result<Ino> {
        match self.ask(caller, self.by_name(dir, name), request)? {
            Reply::Removed { ino } => Ok(ino),
            other => Err(unexpected(&other)),
        }
    }
}

/// The operation that makes this.
fn made<'a>(dir: Ino, name: &'a Name, node: &NewNode, mode: u16) -> Op<'a> {
    let kind = match node {
        NewNode::Symlink { target } => {
            let bytes = target.len();
            return Op::Symlink { dir, name, bytes };
        }
        NewNode::File => FileKind::File,
        NewNode::Fifo => FileKind::Fifo,
        NewNode::Socket => FileKind::Socket,
        NewNode::Char { .. } => FileKind::Char,
        NewNode::Block { .. } => FileKind::Block,
    };
    Op::Mknod {
        dir,
        name,
        kind,
        mode,
    }
}

pub(crate) fn entry_of(reply: Reply) -> Result<EntryReply> {
    match reply {
        Reply::Entry(entry) => Ok(entry),
        other => Err(unexpected(&other)),
    }
}
