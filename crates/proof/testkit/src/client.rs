//! The client library worked on by inode numbers: several clients of one file system, each of which
//! remembers for itself where things are.

use crate::inodes::{Done, Inodes, Make};
use crate::op::{Failure, Special, XattrMode};
use crate::subject::Census;
use pandofs_api::{Allocation, NewNode};
use pandofs_client::{Client, ClientError, OpenHow, RenameHow, Seek};
use pandofs_types::{Attr, Credentials, FileKind, Ino, Name, SetAttr, Time};
use std::ops::Range;
use std::time::{SystemTime, UNIX_EPOCH};

/// Clients of a running cluster.
pub struct Clients {
    clients: Vec<Client>,
}

impl Clients {
    /// At least one client.
    pub fn new(clients: Vec<Client>) -> Clients {
        assert!(!clients.is_empty());
        Clients { clients }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        match error {
            ClientError::Fs(error) => Failure::Fs(error),
            other => Failure::Other(other.to_string()),
        }
    }
}

impl Inodes for Clients {
    fn begin(&mut self, hash: u64) -> usize {
        (hash % self.clients.len() as u64) as usize
    }

    fn lookup(
        &mut self,
        client: usize,
        by: &Credentials,
        dir: Ino,
        name: &Name,
    ) -> Done<(Ino, FileKind)> {
        let node = self.clients[client].lookup(by, dir, name)?;
        Ok((node.ino, node.kind))
    }

    fn create(
        &mut self,
        client: usize,
        by: &Credentials,
        dir: Ino,
        name: &Name,
        mode: u16,
    ) -> Done<Ino> {
        let how = OpenHow {
            access: 6,
            truncate: false,
            exclusive: true,
        };
        let found = self.clients[client].create(by, dir, name, mode, how)?;
        assert!(found.created, "what must be new was there");
        Ok(found.node.ino)
    }

    fn create_unnamed(
        &mut self,
        client: usize,
        by: &Credentials,
        dir: Ino,
        mode: u16,
        may_be_named: bool,
    ) -> Done<Ino> {
        let client = &self.clients[client];
        Ok(client
            .create_unnamed(by, dir, mode.into(), may_be_named)?
            .ino)
    }

    fn make(
        &mut self,
        client: usize,
        by: &Credentials,
        dir: Ino,
        name: &Name,
        make: &Make,
        mode: u16,
    ) -> Done<()> {
        let client = &self.clients[client];
        let node = match make {
            Make::Dir => client.mkdir(by, dir, name, mode)?,
            Make::Symlink(target) => client.symlink(by, dir, name, target)?,
            Make::Special(special) => {
                let node = match special {
                    Special::Fifo => NewNode::Fifo,
                    Special::Socket => NewNode::Socket,
                    Special::Char { rdev } => NewNode::Char { rdev: *rdev },
                };
                client.mknod(by, dir, name, node, mode)?
            }
        };
        assert!(node.ino == node.attr.ino && node.kind == node.attr.kind);
        Ok(())
    }

    fn link(
        &mut self,
        client: usize,
        by: &Credentials,
        ino: Ino,
        dir: Ino,
        name: &Name,
    ) -> Done<()> {
        let node = self.clients[client].link(by, ino, dir, name)?;
        assert!(node.ino == ino, "a link leads to what was linked");
        Ok(())
    }

    fn remove(
        &mut self,
        client: usize,
        by: &Credentials,
        dir: Ino,
        name: &Name,
        directory: bool,
    ) -> Done<()> {
        let client = &self.clients[client];
        if directory {
            client.rmdir(by, dir, name)?
        } else {
            client.unlink(by, dir, name)?
        };
        Ok(())
    }

    fn rename(
        &mut self,
        client: usize,
        by: &Credentials,
        from: (Ino, &Name),
        to: (Ino, &Name),
        how: RenameHow,
    ) -> Done<()> {
        self.clients[client].rename_how(by, from, to, how)?;
        Ok(())
    }

    fn exchange(
        &mut self,
        client: usize,
        by: &Credentials,
        from: (Ino, &Name),
        to: (Ino, &Name),
    ) -> Done<()> {
        self.clients[client].exchange(by, from.0, from.1, to.0, to.1)?;
        Ok(())
    }

    fn attr(&mut self, client: usize, by: &Credentials, ino: Ino) -> Done<Attr> {
        Ok(self.clients[client].getattr(by, ino)?)
    }

    fn set_attr(&mut self, client: usize, by: &Credentials, ino: Ino, set: SetAttr) -> Done<()> {
        self.clients[client].setattr(by, ino, set)?;
        Ok(())
    }

    fn read_dir(
        &mut self,
        client: usize,
        by: &Credentials,
        dir: Ino,
    ) -> Done<Vec<(Vec<u8>, FileKind)>> {
        let mut entries = Vec::new();
        for entry in self.clients[client].list(by, dir) {
            let entry = entry?;
            entries.push((entry.name.as_bytes().to_vec(), entry.kind));
        }
        Ok(entries)
    }

    fn read_link(&mut self, client: usize, by: &Credentials, ino: Ino) -> Done<Vec<u8>> {
        Ok(self.clients[client].readlink(by, ino)?)
    }

    fn set_xattr(
        &mut self,
        client: usize,
        by: &Credentials,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Done<()> {
        Ok(self.clients[client].setxattr(by, ino, name, value, mode.into())?)
    }

    fn get_xattr(
        &mut self,
        client: usize,
        by: &Credentials,
        ino: Ino,
        name: &[u8],
    ) -> Done<Vec<u8>> {
        Ok(self.clients[client].getxattr(by, ino, name)?)
    }

    fn list_xattr(&mut self, client: usize, by: &Credentials, ino: Ino) -> Done<Vec<Vec<u8>>> {
        Ok(self.clients[client].listxattr(by, ino)?)
    }

    fn remove_xattr(&mut self, client: usize, by: &Credentials, ino: Ino, name: &[u8]) -> Done<()> {
        Ok(self.clients[client].removexattr(by, ino, name)?)
    }

    fn open(
        &mut self,
        client: usize,
        by: &Credentials,
        ino: Ino,
        access: u16,
        truncate: bool,
    ) -> Done<()> {
        self.clients[client].open_node(by, ino, access, truncate)?;
        Ok(())
    }

    fn close(&mut self, client: usize, ino: Ino) -> Done<()> {
        Ok(self.clients[client].release(ino)?)
    }

    fn read(
        &mut self,
        client: usize,
        by: &Credentials,
        ino: Ino,
        offset: u64,
        length: u32,
    ) -> Done<Vec<u8>> {
        Ok(self.clients[client].read(by, ino, offset, length as usize)?)
    }

    fn write(
        &mut self,
        client: usize,
        by: &Credentials,
        ino: Ino,
        offset: u64,
        data: &[u8],
    ) -> Done<()> {
        self.clients[client].write(by, ino, offset, data)?;
        // Another client sees a file's size once it is reported.
        Ok(self.clients[client].flush(ino)?)
    }

    fn sync(&mut self, client: usize, by: &Credentials, ino: Ino) -> Done<()> {
        Ok(self.clients[client].fsync(by, ino)?)
    }

    fn allocate(
        &mut self,
        client: usize,
        by: &Credentials,
        ino: Ino,
        range: Range<u64>,
        allocation: Allocation,
    ) -> Done<()> {
        let client = &self.clients[client];
        client.allocate(by, ino, range.start, range.end - range.start, allocation)?;
        Ok(client.flush(ino)?)
    }

    fn seek(
        &mut self,
        client: usize,
        by: &Credentials,
        ino: Ino,
        offset: u64,
        data: bool,
    ) -> Done<Option<u64>> {
        let what = if data { Seek::Data } else { Seek::Hole };
        Ok(self.clients[client].seek(by, ino, offset, what)?)
    }

    fn append(&mut self, client: usize, by: &Credentials, ino: Ino, data: &[u8]) -> Done<()> {
        self.clients[client].append(by, ino, data)?;
        Ok(self.clients[client].flush(ino)?)
    }

    fn now(&mut self) -> Time {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .expect("it is after 1970");
        Time(now.as_nanos() as i64)
    }

    fn look_inside(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn settle(&mut self) -> Result<Option<Census>, String> {
        Ok(None)
    }
}
