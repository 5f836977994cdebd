//! The file system: inodes in a sharded table, each directory with its own lock.

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow,
    WriteFlags,
};
use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, SystemTime};

/// As long as the real mount lets the kernel cache an answer.
const TIMEOUT: Duration = pandofs_types::limits::DEFAULT_CACHE_TIMEOUT;
/// Locks over the table of inodes.
const TABLE_SHARDS: usize = 64;
/// Cookies 1 and 2 are `.` and `..`; an entry's is its inode number plus this.
const FIRST_COOKIE: u64 = 2;
const NO_GENERATION: Generation = Generation(0);

type Table = [RwLock<HashMap<u64, Arc<RwLock<Node>>>>; TABLE_SHARDS];

pub struct MemFs {
    table: Table,
    next: AtomicU64,
}

struct Node {
    attr: FileAttr,
    parent: u64,
    data: Vec<u8>,
    names: HashMap<OsString, u64>,
    /// Inode numbers only grow, so they are the stable order of a directory.
    order: BTreeMap<u64, (OsString, FileType)>,
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

impl MemFs {
    pub fn new() -> MemFs {
        let fs = MemFs {
            table: std::array::from_fn(|_| RwLock::default()),
            next: AtomicU64::new(INodeNo::ROOT.0),
        };
        fs.insert(INodeNo::ROOT.0, FileType::Directory, 0o777, 0, 0);
        fs
    }

    fn insert(&self, parent: u64, kind: FileType, mode: u32, uid: u32, gid: u32) -> FileAttr {
        let ino = self.next.fetch_add(1, Ordering::Relaxed);
        let now = SystemTime::now();
        let attr = FileAttr {
            ino: INodeNo(ino),
            size: 0,
            blocks: 0,
            atime: now,
            mtime: now,
            ctime: now,
            crtime: now,
            kind,
            perm: (mode & 0o7777) as u16,
            nlink: if kind == FileType::Directory { 2 } else { 1 },
            uid,
            gid,
            rdev: 0,
            blksize: 4096,
            flags: 0,
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

    fn find(&self, parent: INodeNo, name: &OsStr) -> Result<FileAttr, Errno> {
        let dir = self.node(parent.0)?;
        let ino = read(&dir).names.get(name).copied().ok_or(Errno::ENOENT)?;
        self.attr(ino)
    }

    fn make(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        kind: FileType,
        mode: u32,
    ) -> Result<FileAttr, Errno> {
        let dir = self.node(parent.0)?;
        let mut dir = write(&dir);
        if dir.names.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        let attr = self.insert(parent.0, kind, mode, req.uid(), req.gid());
        dir.names.insert(name.to_owned(), attr.ino.0);
        dir.order.insert(attr.ino.0, (name.to_owned(), kind));
        dir.changed(attr.ctime);
        Ok(attr)
    }

    fn remove(&self, parent: INodeNo, name: &OsStr) -> Result<(), Errno> {
        let dir = self.node(parent.0)?;
        let mut dir = write(&dir);
        let ino = *dir.names.get(name).ok_or(Errno::ENOENT)?;
        if !read(&*self.node(ino)?).names.is_empty() {
            return Err(Errno::ENOTEMPTY);
        }
        dir.names.remove(name);
        dir.order.remove(&ino);
        dir.changed(SystemTime::now());
        // A file that is still open loses its data: enough for a yardstick.
        write(&self.table[ino as usize % TABLE_SHARDS]).remove(&ino);
        Ok(())
    }

    /// Calls `add` with cookie, inode number, kind and name of the entries after `offset` until it
    /// says that there is no more room.
    fn list(
        &self,
        ino: INodeNo,
        offset: u64,
        mut add: impl FnMut(u64, u64, FileType, &OsStr) -> bool,
    ) -> Result<(), Errno> {
        let dir = self.node(ino.0)?;
        let dir = read(&dir);
        let dots = [(1, ino.0, "."), (2, dir.parent, "..")];
        for (cookie, ino, name) in dots.into_iter().filter(|dot| dot.0 > offset) {
            if add(cookie, ino, FileType::Directory, OsStr::new(name)) {
                return Ok(());
            }
        }
        for (&ino, (name, kind)) in dir
            .order
            .range((offset.max(FIRST_COOKIE) - FIRST_COOKIE) + 1..)
        {
            if add(ino + FIRST_COOKIE, ino, *kind, name) {
                return Ok(());
            }
        }
        Ok(())
    }
}

impl Node {
    fn changed(&mut self, now: SystemTime) {
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

fn entry(reply: ReplyEntry, result: Result<FileAttr, Errno>) {
    match result {
        Ok(attr) => reply.entry(&TIMEOUT, &attr, NO_GENERATION),
        Err(error) => reply.error(error),
    }
}

fn empty(reply: ReplyEmpty, result: Result<(), Errno>) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

impl Filesystem for MemFs {
    fn init(&mut self, _: &Request, kernel: &mut KernelConfig) -> io::Result<()> {
        pandofs_fuse::negotiate(kernel, false);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.find(parent, name) {
            Err(error) if error == Errno::ENOENT => reply.error(error),
            result => entry(reply, result),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attr(ino.0) {
            Ok(attr) => reply.attr(&TIMEOUT, &attr),
            Err(error) => reply.error(error),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        _kill_suidgid: bool,
        reply: ReplyAttr,
    ) {
        let Ok(node) = self.node(ino.0) else {
            return reply.error(Errno::ENOENT);
        };
        let mut node = write(&node);
        if let Some(size) = size {
            node.resize(size as usize);
        }
        node.attr.perm = mode.map_or(node.attr.perm, |mode| (mode & 0o7777) as u16);
        node.attr.uid = uid.unwrap_or(node.attr.uid);
        node.attr.gid = gid.unwrap_or(node.attr.gid);
        node.attr.ctime = SystemTime::now();
        match mtime {
            Some(TimeOrNow::SpecificTime(time)) => node.attr.mtime = time,
            Some(TimeOrNow::Now) => node.attr.mtime = node.attr.ctime,
            None => {}
        }
        reply.attr(&TIMEOUT, &node.attr);
    }

    fn mknod(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        _rdev: u32,
        reply: ReplyEntry,
    ) {
        entry(
            reply,
            self.make(req, parent, name, FileType::RegularFile, mode),
        );
    }

    fn mkdir(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        entry(
            reply,
            self.make(req, parent, name, FileType::Directory, mode),
        );
    }

    fn create(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        match self.make(req, parent, name, FileType::RegularFile, mode) {
            Ok(attr) => reply.created(
                &TIMEOUT,
                &attr,
                NO_GENERATION,
                FileHandle(0),
                FopenFlags::empty(),
            ),
            Err(error) => reply.error(error),
        }
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, self.remove(parent, name));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, self.remove(parent, name));
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.node(ino.0) {
            Ok(_) => reply.opened(FileHandle(0), FopenFlags::empty()),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let Ok(node) = self.node(ino.0) else {
            return reply.error(Errno::ENOENT);
        };
        let node = read(&node);
        let start = (offset as usize).min(node.data.len());
        reply.data(&node.data[start..(start + size as usize).min(node.data.len())]);
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let Ok(node) = self.node(ino.0) else {
            return reply.error(Errno::ENOENT);
        };
        let mut node = write(&node);
        let (start, end) = (offset as usize, offset as usize + data.len());
        if node.data.len() < end {
            node.resize(end);
        }
        node.data[start..end].copy_from_slice(data);
        reply.written(data.len() as u32);
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        match self.list(ino, offset, |cookie, ino, kind, name| {
            reply.add(INodeNo(ino), cookie, kind, name)
        }) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn readdirplus(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let listing = self.node(ino.0).map(|dir| read(&dir).attr);
        match listing.and_then(|own| {
            self.list(ino, offset, |cookie, child, _, name| {
                // The directory itself is locked by the listing.
                let attr = if child == ino.0 {
                    Ok(own)
                } else {
                    self.attr(child)
                };
                attr.is_ok_and(|attr| {
                    reply.add(attr.ino, cookie, name, &TIMEOUT, &attr, NO_GENERATION)
                })
            })
        }) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }
}
