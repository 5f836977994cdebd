//! FUSE's view of the disk. Each request is one call of it, under one lock; nothing is cached and nothing is
//! written later, so that every change reaches it when a program makes it.

use super::disk::{Body, Directory, Disk, Ino, Maker, Node, Refusal};
use super::file::{File, PAGE};
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner,
    OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::FallocateFlags;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Time-out of the kernel's cache.
const TIMEOUT: Duration = Duration::ZERO;
const NO_GENERATION: Generation = Generation(0);
/// Pages and inodes that the disk is said to have.
const PAGES: u64 = 16 << 18;
const INODES: u64 = 1 << 20;
const MAX_NAME_BYTES: u32 = 255;
/// Unit in which `stat` counts space.
const BLOCK: u64 = 512;
const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;

/// A disk that several threads use.
pub type Shared = Arc<Mutex<Disk>>;

pub fn lock(disk: &Mutex<Disk>) -> MutexGuard<'_, Disk> {
    disk.lock().unwrap_or_else(PoisonError::into_inner)
}

type Listing = Arc<Vec<(Ino, FileType, OsString)>>;

pub struct Lossy {
    disk: Shared,
    /// Contents of each open directory when it was opened.
    listings: Mutex<HashMap<u64, Listing>>,
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

fn now() -> u64 {
    nanoseconds(SystemTime::now())
}

fn nanoseconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as u64)
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
    let time = UNIX_EPOCH + Duration::from_nanos(node.changed);
    Ok(FileAttr {
        ino: INodeNo(ino),
        size,
        blocks: pages * (PAGE as u64 / BLOCK),
        atime: time,
        mtime: time,
        ctime: time,
        crtime: time,
        kind: kind(node),
        perm: node.mode,
        nlink: node.links,
        uid: node.uid,
        gid: node.gid,
        rdev: 0,
        blksize: PAGE as u32,
        flags: 0,
    })
}

impl Lossy {
    pub fn new(disk: Shared) -> Lossy {
        Lossy {
            disk,
            listings: Mutex::default(),
            handles: AtomicU64::new(1),
        }
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        lock(&self.disk)
    }

    fn listings(&self) -> MutexGuard<'_, HashMap<u64, Listing>> {
        self.listings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn make(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        body: Body,
        mode: u32,
    ) -> Result<FileAttr, Refusal> {
        let maker = Maker {
            mode: (mode & 0o7777) as u16,
            uid: request.uid(),
            gid: request.gid(),
            now: now(),
        };
        let mut disk = self.disk();
        let ino = disk.make(parent.0, name.as_bytes(), body, maker)?;
        attr(&disk, ino)
    }

    fn list(&self, ino: Ino) -> Result<Listing, Refusal> {
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

fn entry(reply: ReplyEntry, result: Result<FileAttr, Refusal>) {
    match result {
        Ok(attr) => reply.entry(&TIMEOUT, &attr, NO_GENERATION),
        Err(refusal) => reply.error(errno(refusal)),
    }
}

fn empty(reply: ReplyEmpty, result: Result<(), Refusal>) {
    match result {
        Ok(()) => reply.ok(),
        Err(refusal) => reply.error(errno(refusal)),
    }
}

impl Filesystem for Lossy {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let disk = self.disk();
        let found = disk.lookup(parent.0, name.as_bytes());
        entry(reply, found.and_then(|ino| attr(&disk, ino)));
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match attr(&self.disk(), ino.0) {
            Ok(attr) => reply.attr(&TIMEOUT, &attr),
            Err(refusal) => reply.error(errno(refusal)),
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
        let mut disk = self.disk();
        let mut set = || {
            if let Some(size) = size {
                disk.file_mut(ino.0)?.set_size(size);
            }
            let node = disk.node_mut(ino.0)?;
            node.mode = mode.map_or(node.mode, |mode| (mode & 0o7777) as u16);
            node.uid = uid.unwrap_or(node.uid);
            node.gid = gid.unwrap_or(node.gid);
            node.changed = match mtime {
                Some(TimeOrNow::SpecificTime(time)) => nanoseconds(time),
                _ => now(),
            };
            attr(&disk, ino.0)
        };
        match set() {
            Ok(attr) => reply.attr(&TIMEOUT, &attr),
            Err(refusal) => reply.error(errno(refusal)),
        }
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        match self.disk().node(ino.0).map(|node| &node.body) {
            Ok(Body::Link(target)) => reply.data(target),
            Ok(_) => reply.error(Errno::EINVAL),
            Err(refusal) => reply.error(errno(refusal)),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _rdev: u32,
        reply: ReplyEntry,
    ) {
        let body = Body::File(File::default());
        entry(reply, self.make(request, parent, name, body, mode & !umask));
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let body = Body::Directory(Directory::default());
        entry(reply, self.make(request, parent, name, body, mode & !umask));
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let body = Body::Link(target.as_os_str().as_bytes().to_vec());
        entry(reply, self.make(request, parent, name, body, 0o777));
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        let body = Body::File(File::default());
        let made = self.make(request, parent, name, body, mode & !umask);
        match made.and_then(|attr| self.disk().opened(attr.ino.0).map(|()| attr)) {
            Ok(attr) => {
                reply.created(
                    &TIMEOUT,
                    &attr,
                    NO_GENERATION,
                    FileHandle(0),
                    FopenFlags::empty(),
                );
            }
            Err(refusal) => reply.error(errno(refusal)),
        }
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed = self.disk().remove(parent.0, name.as_bytes(), false);
        empty(reply, removed);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed = self.disk().remove(parent.0, name.as_bytes(), true);
        empty(reply, removed);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let mut disk = self.disk();
        if flags == RenameFlags::RENAME_NOREPLACE
            && disk.lookup(newparent.0, newname.as_bytes()).is_ok()
        {
            return reply.error(Errno::EEXIST);
        }
        if !flags.difference(RenameFlags::RENAME_NOREPLACE).is_empty() {
            return reply.error(Errno::EINVAL);
        }
        let (name, new) = (name.as_bytes(), newname.as_bytes());
        empty(reply, disk.rename(parent.0, name, newparent.0, new));
    }

    fn link(&self, _: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let mut disk = self.disk();
        let linked = disk.link(ino.0, parent.0, name.as_bytes());
        entry(reply, linked.and_then(|()| attr(&disk, ino.0)));
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.disk().opened(ino.0) {
            Ok(()) => reply.opened(FileHandle(0), FopenFlags::empty()),
            Err(refusal) => reply.error(errno(refusal)),
        }
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
        let read = (self.disk().file(ino.0)).map(|file| file.read(offset, size as usize));
        match read {
            Ok(data) => reply.data(&data),
            Err(refusal) => reply.error(errno(refusal)),
        }
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
        let mut disk = self.disk();
        match disk.file_mut(ino.0) {
            Ok(file) => file.write(offset, data),
            Err(refusal) => return reply.error(errno(refusal)),
        }
        if let Ok(node) = disk.node_mut(ino.0) {
            node.changed = now();
        }
        reply.written(data.len() as u32);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.disk().closed(ino.0);
        reply.ok();
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let synced = self.disk().sync(ino.0);
        empty(reply, synced);
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.list(ino.0) {
            Ok(listing) => {
                let handle = self.handles.fetch_add(1, Ordering::Relaxed);
                self.listings().insert(handle, listing);
                reply.opened(FileHandle(handle), FopenFlags::empty());
            }
            Err(refusal) => reply.error(errno(refusal)),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let Some(listing) = self.listings().get(&handle.0).cloned() else {
            return reply.error(Errno::EBADF);
        };
        let rest = listing.iter().enumerate().skip(offset as usize);
        for (number, (ino, kind, name)) in rest {
            if reply.add(INodeNo(*ino), number as u64 + 1, *kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.listings().remove(&handle.0);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let synced = self.disk().sync(ino.0);
        empty(reply, synced);
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let (pages, inodes) = self.disk().used();
        let (free, unused) = (PAGES.saturating_sub(pages), INODES.saturating_sub(inodes));
        reply.statfs(
            PAGES,
            free,
            free,
            INODES,
            unused,
            PAGE as u32,
            MAX_NAME_BYTES,
            PAGE as u32,
        );
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        match self.allocate(ino.0, offset, length, mode) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn lseek(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let disk = self.disk();
        let Ok(file) = disk.file(ino.0) else {
            return reply.error(Errno::ENOENT);
        };
        let found = match whence {
            SEEK_DATA => file.seek(offset.max(0) as u64, true),
            SEEK_HOLE => file.seek(offset.max(0) as u64, false),
            _ => return reply.error(Errno::EINVAL),
        };
        match found {
            Some(at) => reply.offset(at as i64),
            None => reply.error(Errno::ENXIO),
        }
    }
}
