//! FUSE's view of the disk. Each request is one call of it, under one lock; nothing is cached and nothing is
//! written later, so that every change reaches it when a program makes it.

use super::disk::{Body, Directory, Disk, Ino, Maker, Node, Refusal};
use super::file::{File, PAGE};
use pandofs_fuse_kernel::{
    Entry, Errno, FileAttr, FileHandle, FileType, Filesystem, Header, Listing, Make, Operation,
    Read, Rename, Reply, Request, SetAttr, SetTime, Statfs, Timestamp,
};
use rustix::fs::{FallocateFlags, RenameFlags};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// Time-out of the kernel's cache.
const TIMEOUT: Duration = Duration::ZERO;
/// Pages and inodes that the disk is said to have.
const PAGES: u64 = 16 << 18;
const INODES: u64 = 1 << 20;
const MAX_NAME_BYTES: u32 = 255;
/// Unit in which `stat` counts space.
const BLOCK: u64 = 512;
const SECOND_NANOS: u64 = 1_000_000_000;
const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;

/// A disk that several threads use.
pub(crate) type Shared = Arc<Mutex<Disk>>;

pub(crate) fn lock(disk: &Mutex<Disk>) -> MutexGuard<'_, Disk> {
    disk.lock().unwrap_or_else(PoisonError::into_inner)
}

type Names = Arc<Vec<(Ino, FileType, OsString)>>;

pub(crate) struct Lossy {
    disk: Shared,
    /// Contents of each open directory when it was opened.
    listings: Mutex<HashMap<u64, Names>>,
    handles: AtomicU64,
}

fn errno(refusal: Refusal) -> Errno {
    match refusal {
        Refusal::NotThere => Errno::ENOENT,
        Refusal::Exists => Errno::EEXIST,
        Refusal::NotADirectory => Errno::ENOTDIR,
        Refusal::IsADirectory => Errno::EISDIR,
        Refusal::NotEmpty => Errno::ENOTEMPTY,
    }
}

/// Nanoseconds since 1970.
fn now() -> u64 {
    nanoseconds(Timestamp::from(SystemTime::now()))
}

fn nanoseconds(time: Timestamp) -> u64 {
    let seconds = u64::try_from(time.seconds).unwrap_or_default();
    seconds * SECOND_NANOS + u64::from(time.nanos)
}

fn timestamp(nanoseconds: u64) -> Timestamp {
    Timestamp {
        seconds: (nanoseconds / SECOND_NANOS) as i64,
        nanos: (nanoseconds % SECOND_NANOS) as u32,
    }
}

fn kind(node: &Node) -> FileType {
    match node.body {
        Body::File(_) => FileType::RegularFile,
        Body::Directory(_) => FileType::Directory,
        Body::Link(_) => FileType::Symlink,
    }
}

fn attr(disk: &Disk, ino: Ino) -> Result<FileAttr, Refusal> {
    let node = disk.node(ino)?;
    let (size, pages) = match &node.body {
        Body::File(file) => (file.size(), file.pages()),
        Body::Directory(_) => (PAGE as u64, 1),
        Body::Link(target) => (target.len() as u64, 1),
    };
    let time = timestamp(node.changed);
    Ok(FileAttr {
        ino,
        size,
        blocks: pages * (PAGE as u64 / BLOCK),
        atime: time,
        mtime: time,
        ctime: time,
        btime: time,
        kind: kind(node),
        perm: node.mode,
        nlink: node.links,
        uid: node.uid,
        gid: node.gid,
        rdev: 0,
        blksize: PAGE as u32,
    })
}

impl Lossy {
    pub(crate) fn new(disk: Shared) -> Lossy {
        Lossy {
            disk,
            listings: Mutex::default(),
            handles: AtomicU64::new(1),
        }
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        lock(&self.disk)
    }

    fn listings(&self) -> MutexGuard<'_, HashMap<u64, Names>> {
        self.listings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn make(
        &self,
        header: &Header,
        name: &OsStr,
        body: Body,
        mode: u32,
    ) -> Result<FileAttr, Refusal> {
        let maker = Maker {
            mode: (mode & 0o7777) as u16,
            uid: header.uid,
            gid: header.gid,
            now: now(),
        };
        let mut disk = self.disk();
        let ino = disk.make(header.node, name.as_bytes(), body, maker)?;
        attr(&disk, ino)
    }

    fn list(&self, ino: Ino) -> Result<Names, Refusal> {
        let disk = self.disk();
        let (names, parent) = disk.list(ino)?;
        let mut all = vec![
            (ino, FileType::Directory, OsString::from(".")),
            (parent, FileType::Directory, OsString::from("..")),
        ];
        for (name, &child) in names {
            all.push((
                child,
                kind(disk.node(child)?),
                OsString::from_vec(name.clone()),
            ));
        }
        Ok(Arc::new(all))
    }

    fn allocate(&self, ino: Ino, offset: u64, length: u64, mode: i32) -> Result<(), Errno> {
        let mode = FallocateFlags::from_bits_retain(mode as u32);
        let mut disk = self.disk();
        let file = disk.file_mut(ino).map_err(errno)?;
        let end = offset.saturating_add(length);
        let rest = mode.difference(FallocateFlags::KEEP_SIZE);
        if rest == FallocateFlags::PUNCH_HOLE || rest == FallocateFlags::ZERO_RANGE {
            file.make_hole(offset..end);
        } else if !rest.is_empty() {
            return Err(Errno::EOPNOTSUPP);
        }
        if !mode.contains(FallocateFlags::KEEP_SIZE) && end > file.size() {
            file.set_size(end);
        }
        Ok(())
    }
}

fn entry(reply: Reply, result: Result<FileAttr, Refusal>) {
    match result {
        Ok(attr) => reply.entry(&uncached(attr)),
        Err(refusal) => reply.error(errno(refusal)),
    }
}

fn uncached(attr: FileAttr) -> Entry {
    Entry {
        attr,
        attr_timeout: TIMEOUT,
        entry_timeout: TIMEOUT,
    }
}

fn reply_attr(reply: Reply, result: Result<FileAttr, Refusal>) {
    match result {
        Ok(attr) => reply.attr(&attr, TIMEOUT),
        Err(refusal) => reply.error(errno(refusal)),
    }
}

fn empty(reply: Reply, result: Result<(), Refusal>) {
    reply.done(result.map_err(errno));
}

impl Filesystem for Lossy {
    fn handle(&self, request: Request<'_>, reply: Reply) {
        let header = &request.header;
        let ino = header.node;
        match request.operation {
            Operation::Lookup { name } => {
                let disk = self.disk();
                let found = disk.lookup(ino, name.as_bytes());
                entry(reply, found.and_then(|ino| attr(&disk, ino)));
            }
            Operation::Forget { .. } | Operation::BatchForget(_) => {}
            Operation::Getattr => reply_attr(reply, attr(&self.disk(), ino)),
            Operation::Setattr(set) => reply_attr(reply, self.setattr(ino, &set)),
            Operation::Readlink => match self.disk().node(ino).map(|node| &node.body) {
                Ok(Body::Link(target)) => reply.data(target),
                Ok(_) => reply.error(Errno::EINVAL),
                Err(refusal) => reply.error(errno(refusal)),
            },
            Operation::Mknod(made, _) => entry(reply, self.make_file(header, &made)),
            Operation::Mkdir(made) => {
                let body = Body::Directory(Directory::default());
                let mode = made.mode & !made.umask;
                entry(reply, self.make(header, made.name, body, mode));
            }
            Operation::Symlink { name, target } => {
                let body = Body::Link(target.as_bytes().to_vec());
                entry(reply, self.make(header, name, body, 0o777));
            }
            Operation::Unlink { name } => {
                let removed = self.disk().remove(ino, name.as_bytes(), false);
                empty(reply, removed);
            }
            Operation::Rmdir { name } => {
                let removed = self.disk().remove(ino, name.as_bytes(), true);
                empty(reply, removed);
            }
            Operation::Rename(rename) => reply.done(self.rename(ino, &rename)),
            Operation::Link { node, name } => {
                let mut disk = self.disk();
                let linked = disk.link(node, ino, name.as_bytes());
                entry(reply, linked.and_then(|()| attr(&disk, node)));
            }
            Operation::Statfs => reply.statfs(&self.space()),
            of_open => self.handle_open(header, of_open, reply),
        }
    }
}

impl Lossy {
    /// Operations on files and directories that are open.
    fn handle_open(&self, header: &Header, operation: Operation<'_>, reply: Reply) {
        let ino = header.node;
        match operation {
            Operation::Create(made, _) => {
                let made = self.make_file(header, &made);
                match made.and_then(|attr| self.disk().opened(attr.ino).map(|()| attr)) {
                    Ok(attr) => reply.created(&uncached(attr), FileHandle(0), 0),
                    Err(refusal) => reply.error(errno(refusal)),
                }
            }
            Operation::Open(_) => match self.disk().opened(ino) {
                Ok(()) => reply.opened(FileHandle(0), 0),
                Err(refusal) => reply.error(errno(refusal)),
            },
            Operation::Read(read) => {
                let size = read.size as usize;
                let data = (self.disk().file(ino)).map(|file| file.read(read.offset, size));
                match data {
                    Ok(data) => reply.data(&data),
                    Err(refusal) => reply.error(errno(refusal)),
                }
            }
            Operation::Write(write) => {
                let mut disk = self.disk();
                match disk.file_mut(ino) {
                    Ok(file) => file.write(write.offset, &write.data),
                    Err(refusal) => return reply.error(errno(refusal)),
                }
                if let Ok(node) = disk.node_mut(ino) {
                    node.changed = now();
                }
                reply.written(write.data.len() as u32);
            }
            Operation::Flush { .. } => reply.ok(),
            Operation::Release { .. } => {
                self.disk().closed(ino);
                reply.ok();
            }
            Operation::Fsync { .. } | Operation::Fsyncdir { .. } => {
                let synced = self.disk().sync(ino);
                empty(reply, synced);
            }
            Operation::Opendir => match self.list(ino) {
                Ok(names) => {
                    let handle = self.handles.fetch_add(1, Ordering::Relaxed);
                    self.listings().insert(handle, names);
                    reply.opened(FileHandle(handle), 0);
                }
                Err(refusal) => reply.error(errno(refusal)),
            },
            Operation::Readdir(read) => self.readdir(&read, reply),
            Operation::Releasedir { handle } => {
                self.listings().remove(&handle.0);
                reply.ok();
            }
            Operation::Fallocate {
                offset,
                length,
                mode,
            } => reply.done(self.allocate(ino, offset, length, mode)),
            Operation::Lseek { offset, whence } => self.lseek(ino, offset, whence, reply),
            _ => reply.error(Errno::ENOSYS),
        }
    }

    fn make_file(&self, header: &Header, made: &Make<'_>) -> Result<FileAttr, Refusal> {
        let body = Body::File(File::default());
        self.make(header, made.name, body, made.mode & !made.umask)
    }

    fn setattr(&self, ino: Ino, set: &SetAttr) -> Result<FileAttr, Refusal> {
        let mut disk = self.disk();
        if let Some(size) = set.size {
            disk.file_mut(ino)?.set_size(size);
        }
        let node = disk.node_mut(ino)?;
        let mode = set.mode.map(|mode| (mode & 0o7777) as u16);
        node.mode = mode.unwrap_or(node.mode);
        node.uid = set.uid.unwrap_or(node.uid);
        node.gid = set.gid.unwrap_or(node.gid);
        node.changed = match set.mtime {
            Some(SetTime::At(time)) => nanoseconds(time),
            _ => now(),
        };
        attr(&disk, ino)
    }

    fn rename(&self, dir: Ino, rename: &Rename<'_>) -> Result<(), Errno> {
        let (name, new) = (rename.name.as_bytes(), rename.new_name.as_bytes());
        let flags = RenameFlags::from_bits_retain(rename.flags);
        let mut disk = self.disk();
        if flags == RenameFlags::NOREPLACE && disk.lookup(rename.new_dir, new).is_ok() {
            return Err(Errno::EEXIST);
        }
        if !flags.difference(RenameFlags::NOREPLACE).is_empty() {
            return Err(Errno::EINVAL);
        }
        disk.rename(dir, name, rename.new_dir, new).map_err(errno)
    }

    fn readdir(&self, read: &Read, reply: Reply) {
        let Some(names) = self.listings().get(&read.handle.0).cloned() else {
            return reply.error(Errno::EBADF);
        };
        let mut listing = Listing::within(read.size);
        let rest = names.iter().enumerate().skip(read.offset as usize);
        for (number, (ino, kind, name)) in rest {
            if !listing.add(*ino, number as u64 + 1, *kind, name) {
                break;
            }
        }
        reply.listing(&listing);
    }

    fn lseek(&self, ino: Ino, offset: i64, whence: i32, reply: Reply) {
        let disk = self.disk();
        let Ok(file) = disk.file(ino) else {
            return reply.error(Errno::ENOENT);
        };
        let found = match whence {
            SEEK_DATA => file.seek(offset.max(0) as u64, true),
            SEEK_HOLE => file.seek(offset.max(0) as u64, false),
            _ => return reply.error(Errno::EINVAL),
        };
        match found {
            Some(at) => reply.offset(at),
            None => reply.error(Errno::ENXIO),
        }
    }

    fn space(&self) -> Statfs {
        let (pages, inodes) = self.disk().used();
        let free = PAGES.saturating_sub(pages);
        Statfs {
            blocks: PAGES,
            free,
            available: free,
            inodes: INODES,
            free_inodes: INODES.saturating_sub(inodes),
            block: PAGE as u32,
            max_name_bytes: MAX_NAME_BYTES,
        }
    }
}
