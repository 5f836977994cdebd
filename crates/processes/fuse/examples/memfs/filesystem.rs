//! The file system: inodes in a sharded table, each directory with its own lock.

use pandofs_fuse_kernel::{
    Entry, Errno, FileAttr, FileHandle, FileType, Filesystem, Header, Listing, Make, Negotiation,
    Operation, ROOT, Read, Rename, Reply, Request, SetAttr, SetTime, Statfs, Timestamp, Write,
};
use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, SystemTime};

/// As long as the real mount lets the kernel cache an answer.
const TIMEOUT: Duration = pandofs_types::limits::DEFAULT_CACHE_TIMEOUT;
/// Locks over the table of inodes.
const TABLE_SHARDS: usize = 64;
/// Cookies 1 and 2 are `.` and `..`; an entry's is its number plus this.
const FIRST_COOKIE: u64 = 2;

type Table = [RwLock<HashMap<u64, Arc<RwLock<Node>>>>; TABLE_SHARDS];

pub(crate) struct MemFs {
    table: Table,
    next: AtomicU64,
}

struct Node {
    attr: FileAttr,
    parent: u64,
    /// Of a symbolic link its target.
    data: Vec<u8>,
    /// The number of the inode, and of the entry.
    names: HashMap<OsString, (u64, u64)>,
    /// Numbers of entries only grow, so they are the stable order of a directory.
    order: BTreeMap<u64, (OsString, u64, FileType)>,
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

impl MemFs {
    pub(crate) fn new() -> MemFs {
        let fs = MemFs {
            table: std::array::from_fn(|_| RwLock::default()),
            next: AtomicU64::new(ROOT),
        };
        fs.insert(ROOT, FileType::Directory, 0o777, 0, 0);
        fs
    }

    fn insert(&self, parent: u64, kind: FileType, mode: u32, uid: u32, gid: u32) -> FileAttr {
        let ino = self.next.fetch_add(1, Ordering::Relaxed);
        let now = Timestamp::from(SystemTime::now());
        let attr = FileAttr {
            ino,
            size: 0,
            blocks: 0,
            atime: now,
            mtime: now,
            ctime: now,
            btime: now,
            kind,
            perm: (mode & 0o7777) as u16,
            nlink: if kind == FileType::Directory { 2 } else { 1 },
            uid,
            gid,
            rdev: 0,
            blksize: 4096,
        };
        let node = Node {
            attr,
            parent,
            data: Vec::new(),
            names: HashMap::new(),
            order: BTreeMap::new(),
        };
        write(&self.table[ino as usize % TABLE_SHARDS]).insert(ino, Arc::new(RwLock::new(node)));
        attr
    }

    fn node(&self, ino: u64) -> Result<Arc<RwLock<Node>>, Errno> {
        read(&self.table[ino as usize % TABLE_SHARDS])
            .get(&ino)
            .cloned()
            .ok_or(Errno::ENOENT)
    }

    fn attr(&self, ino: u64) -> Result<FileAttr, Errno> {
        Ok(read(&*self.node(ino)?).attr)
    }

    fn find(&self, parent: u64, name: &OsStr) -> Result<FileAttr, Errno> {
        let dir = self.node(parent)?;
        let (ino, _) = read(&dir).names.get(name).copied().ok_or(Errno::ENOENT)?;
        self.attr(ino)
    }

    fn make(&self, header: &Header, made: &Make<'_>, kind: FileType) -> Result<FileAttr, Errno> {
        let dir = self.node(header.node)?;
        let mut dir = write(&dir);
        if dir.names.contains_key(made.name) {
            return Err(Errno::EEXIST);
        }
        let attr = self.insert(header.node, kind, made.mode, header.uid, header.gid);
        // An inode's number serves as the entry's, too.
        dir.add(attr.ino, made.name, &attr);
        Ok(attr)
    }

    fn symlink(&self, header: &Header, name: &OsStr, target: &OsStr) -> Result<FileAttr, Errno> {
        let made = Make {
            name,
            mode: 0o777,
            umask: 0,
        };
        let attr = self.make(header, &made, FileType::Symlink)?;
        let node = self.node(attr.ino)?;
        let mut node = write(&node);
        node.data = target.as_bytes().to_vec();
        node.attr.size = node.data.len() as u64;
        Ok(node.attr)
    }

    fn link(&self, parent: u64, ino: u64, name: &OsStr) -> Result<FileAttr, Errno> {
        let (dir, node) = (self.node(parent)?, self.node(ino)?);
        let (mut dir, mut node) = (write(&dir), write(&node));
        if dir.names.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        node.attr.nlink += 1;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        dir.add(number, name, &node.attr);
        Ok(node.attr)
    }

    /// Without care for what others do at the same time, or for who is in whom: enough for a yardstick.
    fn rename(&self, parent: u64, rename: &Rename<'_>) -> Result<(), Errno> {
        if rename.flags != 0 {
            return Err(Errno::EINVAL);
        }
        let attr = self.find(parent, rename.name)?;
        match self.remove(rename.new_dir, rename.new_name) {
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(error) => return Err(error),
        }
        write(&*self.node(parent)?).take(rename.name);
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        write(&*self.node(rename.new_dir)?).add(number, rename.new_name, &attr);
        write(&*self.node(attr.ino)?).parent = rename.new_dir;
        Ok(())
    }

    fn remove(&self, parent: u64, name: &OsStr) -> Result<(), Errno> {
        let dir = self.node(parent)?;
        let mut dir = write(&dir);
        let (ino, _) = *dir.names.get(name).ok_or(Errno::ENOENT)?;
        let node = self.node(ino)?;
        let mut node = write(&node);
        if !node.names.is_empty() {
            return Err(Errno::ENOTEMPTY);
        }
        dir.take(name);
        node.attr.nlink -= 1;
        // A file that is still open loses its data: enough for a yardstick.
        if node.attr.nlink == 0 || node.attr.kind == FileType::Directory {
            write(&self.table[ino as usize % TABLE_SHARDS]).remove(&ino);
        }
        Ok(())
    }

    /// Calls `add` with cookie, inode number, kind and name of the entries after `offset` until it
    /// says that there is no more room.
    fn list(
        &self,
        ino: u64,
        offset: u64,
        mut add: impl FnMut(u64, u64, FileType, &OsStr) -> bool,
    ) -> Result<(), Errno> {
        let dir = self.node(ino)?;
        let dir = read(&dir);
        let dots = [(1, ino, "."), (2, dir.parent, "..")];
        for (cookie, ino, name) in dots.into_iter().filter(|dot| dot.0 > offset) {
            if !add(cookie, ino, FileType::Directory, OsStr::new(name)) {
                return Ok(());
            }
        }
        for (&number, (name, ino, kind)) in dir
            .order
            .range((offset.max(FIRST_COOKIE) - FIRST_COOKIE) + 1..)
        {
            if !add(number + FIRST_COOKIE, *ino, *kind, name) {
                return Ok(());
            }
        }
        Ok(())
    }
}

impl Node {
    fn add(&mut self, number: u64, name: &OsStr, attr: &FileAttr) {
        self.names.insert(name.to_owned(), (attr.ino, number));
        let entry = (name.to_owned(), attr.ino, attr.kind);
        self.order.insert(number, entry);
        self.changed(Timestamp::from(SystemTime::now()));
    }

    fn take(&mut self, name: &OsStr) {
        if let Some((_, number)) = self.names.remove(name) {
            self.order.remove(&number);
        }
        self.changed(Timestamp::from(SystemTime::now()));
    }

    fn changed(&mut self, now: Timestamp) {
        self.attr.mtime = now;
        self.attr.ctime = now;
        self.attr.size = self.names.len() as u64;
    }

    fn resize(&mut self, size: usize) {
        self.data.resize(size, 0);
        self.attr.size = size as u64;
        self.attr.blocks = self.attr.size.div_ceil(512);
    }
}

impl Filesystem for MemFs {
    fn init(&mut self, kernel: &mut Negotiation) {
        pandofs_fuse::negotiate(kernel, false);
    }

    fn handle(&self, request: Request<'_>, reply: Reply) {
        let header = &request.header;
        let ino = header.node;
        match request.operation {
            Operation::Lookup { name } => entry(reply, self.find(ino, name)),
            Operation::Getattr => attr(reply, self.attr(ino)),
            Operation::Setattr(set) => attr(reply, self.setattr(ino, &set)),
            Operation::Mknod(made, _) => {
                entry(reply, self.make(header, &made, FileType::RegularFile));
            }
            Operation::Mkdir(made) => entry(reply, self.make(header, &made, FileType::Directory)),
            Operation::Create(made, _) => match self.make(header, &made, FileType::RegularFile) {
                Ok(attr) => reply.created(&cached(attr), FileHandle(0), 0),
                Err(error) => reply.error(error),
            },
            Operation::Symlink { name, target } => {
                entry(reply, self.symlink(header, name, target));
            }
            Operation::Readlink => match self.node(ino) {
                Ok(node) => reply.data(&read(&node).data),
                Err(error) => reply.error(error),
            },
            Operation::Link { node, name } => entry(reply, self.link(ino, node, name)),
            Operation::Rename(rename) => reply.done(self.rename(ino, &rename)),
            Operation::Unlink { name } | Operation::Rmdir { name } => {
                reply.done(self.remove(ino, name));
            }
            Operation::Open(_) => match self.node(ino) {
                Ok(_) => reply.opened(FileHandle(0), 0),
                Err(error) => reply.error(error),
            },
            Operation::Forget { .. } | Operation::BatchForget(_) => {}
            // Nothing is kept of what is open.
            Operation::Opendir => reply.opened(FileHandle(0), 0),
            Operation::Flush { .. } | Operation::Release { .. } | Operation::Releasedir { .. } => {
                reply.ok()
            }
            Operation::Read(read) => self.read(ino, &read, reply),
            Operation::Write(write) => reply_written(reply, self.write(ino, &write)),
            Operation::Readdir(read) => self.readdir(ino, &read, reply),
            Operation::Readdirplus(read) => self.readdirplus(ino, &read, reply),
            // As much as there is memory, which nobody asks about.
            Operation::Statfs => reply.statfs(&Statfs {
                blocks: 0,
                free: 0,
                available: 0,
                inodes: 0,
                free_inodes: 0,
                block: 512,
                max_name_bytes: 255,
            }),
            _ => reply.error(Errno::ENOSYS),
        }
    }
}

fn cached(attr: FileAttr) -> Entry {
    Entry {
        attr,
        attr_timeout: TIMEOUT,
        entry_timeout: TIMEOUT,
    }
}

fn entry(reply: Reply, result: Result<FileAttr, Errno>) {
    match result {
        Ok(attr) => reply.entry(&cached(attr)),
        Err(error) => reply.error(error),
    }
}

fn attr(reply: Reply, result: Result<FileAttr, Errno>) {
    match result {
        Ok(attr) => reply.attr(&attr, TIMEOUT),
        Err(error) => reply.error(error),
    }
}

fn reply_written(reply: Reply, result: Result<u32, Errno>) {
    match result {
        Ok(bytes) => reply.written(bytes),
        Err(error) => reply.error(error),
    }
}

impl MemFs {
    fn setattr(&self, ino: u64, set: &SetAttr) -> Result<FileAttr, Errno> {
        let node = self.node(ino)?;
        let mut node = write(&node);
        if let Some(size) = set.size {
            node.resize(size as usize);
        }
        let perm = set.mode.map(|mode| (mode & 0o7777) as u16);
        node.attr.perm = perm.unwrap_or(node.attr.perm);
        node.attr.uid = set.uid.unwrap_or(node.attr.uid);
        node.attr.gid = set.gid.unwrap_or(node.attr.gid);
        node.attr.ctime = Timestamp::from(SystemTime::now());
        match set.mtime {
            Some(SetTime::At(time)) => node.attr.mtime = time,
            Some(SetTime::Now) => node.attr.mtime = node.attr.ctime,
            None => {}
        }
        Ok(node.attr)
    }

    fn read(&self, ino: u64, asked: &Read, reply: Reply) {
        let node = match self.node(ino) {
            Ok(node) => node,
            Err(error) => return reply.error(error),
        };
        let node = read(&node);
        let start = (asked.offset as usize).min(node.data.len());
        let end = (start + asked.size as usize).min(node.data.len());
        reply.data(&node.data[start..end]);
    }

    fn write(&self, ino: u64, asked: &Write<'_>) -> Result<u32, Errno> {
        let node = self.node(ino)?;
        let mut node = write(&node);
        let start = asked.offset as usize;
        let end = start + asked.data.len();
        if node.data.len() < end {
            node.resize(end);
        }
        node.data[start..end].copy_from_slice(&asked.data);
        Ok(asked.data.len() as u32)
    }

    fn readdir(&self, ino: u64, asked: &Read, reply: Reply) {
        let mut listing = Listing::within(asked.size);
        let listed = self.list(ino, asked.offset, |cookie, ino, kind, name| {
            listing.add(ino, cookie, kind, name)
        });
        match listed {
            Ok(()) => reply.listing(&listing),
            Err(error) => reply.error(error),
        }
    }

    fn readdirplus(&self, ino: u64, asked: &Read, reply: Reply) {
        let mut listing = Listing::within(asked.size);
        let listed = self.attr(ino).and_then(|own| {
            self.list(ino, asked.offset, |cookie, child, _, name| {
                // The directory itself is locked by the listing.
                let attr = if child == ino {
                    Ok(own)
                } else {
                    self.attr(child)
                };
                // An inode that is gone since is left out.
                attr.map_or(true, |attr| listing.add_plus(&cached(attr), cookie, name))
            })
        });
        match listed {
            Ok(()) => reply.listing(&listing),
            Err(error) => reply.error(error),
        }
    }
}
