//! Callbacks for the kernel's requests, and replies to them.

use crate::abandoned::{self, Abandoned, Changed};
use crate::cancellation;
use crate::convert::{self, ino};
use crate::credentials::Caller;
use crate::errno::errno;
use crate::locks::{self, Waits};
use crate::ops::{Detail, PandoFs, Relative, with_groups_for};
use crate::options::negotiate_with;
use crate::reply::{GENERATION, reply_empty, reply_written};
use crate::xattr;
use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, FopenFlags,
    INodeNo, IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLock,
    ReplyLseek, ReplyOpen, ReplyStatfs, ReplyStatx, ReplyWrite, ReplyXattr, Request, RequestId,
    TimeOrNow, WriteFlags,
};
use pandofs_client::{ClientError, LAYOUT_XATTR, RenameHow};
use pandofs_types::{Credentials, FileKind, Ino, SetAttr};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::SystemTime;

impl Filesystem for PandoFs {
    fn init(&mut self, _: &Request, kernel: &mut KernelConfig) -> io::Result<()> {
        let io_bytes = self.options.memory.io_bytes;
        negotiate_with(kernel, self.options.default_permissions, io_bytes);
        locks::negotiate(kernel, self.options.local_locks);
        self.cached.negotiate(kernel);
        Ok(())
    }

    fn begins(&self, request: &Request) {
        pandofs_client::set_cancellation(Some(cancellation::of_thread(request.pid())));
        Abandoned::begin(&self.abandoned, request.pid());
    }

    fn ends(&self) {
        self.forget_abandoned(abandoned::end());
    }

    fn lookup(&self, request: &Request, dir: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let asked = self.dir_attrs.ask();
        let dir = ino(dir);
        if let Some(relative) = Relative::of(name) {
            let result = self.by_handle(dir, relative);
            return self.reply_entry(reply, asked, None, result);
        }
        let name = match convert::name(name) {
            Ok(name) => name,
            Err(error) => return reply.error(error),
        };
        let result = self.look_up(request, dir, &name);
        let _answering = self.cached.kernel_cache.answering();
        if matches!(result, Err(Errno::ENOENT)) {
            let timeout = self.entry_timeout(dir, &name, None);
            if !timeout.is_zero() {
                // Number 0 makes the kernel remember that there is no such name.
                let nothing = convert::unknown_attr(Ino(0), FileKind::File);
                return reply.entry_with_ttls(&timeout, &timeout, &nothing, GENERATION);
            }
        }
        self.reply_entry(reply, asked, Some((dir, &name)), result);
    }

    /// However often the kernel got the inode, it forgets it at once.
    fn forget(&self, _: &Request, number: INodeNo, _: u64) {
        self.dead_dirs.forgotten(ino(number));
    }

    fn getattr(&self, request: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attr(ino(number)) {
            Ok((attr, timeout)) => reply.attr(&timeout, &convert::file_attr(&attr)),
            Err(error) => reply.error(self.refusal(request, error)),
        }
    }

    /// Asked instead of `getattr` where a program wants to know when a file was made.
    fn statx(
        &self,
        request: &Request,
        number: INodeNo,
        _: Option<FileHandle>,
        _mask: u32,
        reply: ReplyStatx,
    ) {
        match self.attr(ino(number)) {
            Ok((attr, timeout)) => reply.statx(&timeout, &convert::file_attr(&attr)),
            Err(error) => reply.error(self.refusal(request, error)),
        }
    }

    /// The kernel's `ctime` is not taken: servers set it with every change.
    fn setattr(
        &self,
        request: &Request,
        number: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        kill_suidgid: bool,
        reply: ReplyAttr,
    ) {
        let set = SetAttr {
            mode: mode.map(convert::permissions),
            uid,
            gid,
            size,
            atime: atime.map(convert::set_time),
            mtime: mtime.map(convert::set_time),
            clear_set_id: kill_suidgid,
        };
        match self.set_attr(request.into(), ino(number), set, handle.is_some()) {
            Ok(attr) => {
                let timeout = self.attr_timeout(&attr);
                self.no_xattrs.learn(&attr, timeout);
                reply.attr(&timeout, &convert::file_attr(&attr));
            }
            Err(error) => reply.error(self.refusal(request, error)),
        }
    }

    fn readlink(&self, request: &Request, number: INodeNo, reply: ReplyData) {
        match self.ask(request.into(), |c| self.client.readlink(c, ino(number))) {
            Ok(target) => {
                self.accessed(ino(number), false);
                reply.data(&target);
            }
            Err(error) => reply.error(error),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        dir: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let node = match convert::new_node(mode, rdev) {
            Ok(node) => node,
            Err(error) => return reply.error(error),
        };
        let mode = convert::new_mode(mode, umask);
        self.make(request.into(), dir, name, reply, |c, dir, name| {
            with_groups_for(mode, request.into(), c, |c| {
                self.client.mknod_masked(c, dir, name, node.clone(), mode)
            })
        });
    }

    fn mkdir(
        &self,
        request: &Request,
        dir: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let mode = convert::new_mode(mode, umask);
        self.make(request.into(), dir, name, reply, |c, dir, name| {
            self.client.mkdir_masked(c, dir, name, mode)
        });
    }

    fn symlink(
        &self,
        request: &Request,
        dir: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let target = target.as_os_str().as_bytes();
        self.make(request.into(), dir, name, reply, |c, dir, name| {
            self.client.symlink(c, dir, name, target)
        });
    }

    fn link(
        &self,
        request: &Request,
        number: INodeNo,
        dir: INodeNo,
        name: &OsStr,
        reply: ReplyEntry,
    ) {
        self.make(request.into(), dir, name, reply, |c, dir, name| {
            self.link_to(request, c, ino(number), dir, name)
        });
    }

    fn unlink(&self, request: &Request, dir: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.remove(request.into(), dir, name, false, reply);
    }

    fn rmdir(&self, request: &Request, dir: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.remove(request.into(), dir, name, true, reply);
    }

    fn rename(
        &self,
        request: &Request,
        dir: INodeNo,
        name: &OsStr,
        new_dir: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let result = convert::name(name).and_then(|name| {
            let new_name = convert::name(new_name)?;
            let (from, to) = ((ino(dir), &name), (ino(new_dir), &new_name));
            if flags == RenameFlags::RENAME_EXCHANGE {
                return self.exchange(request.into(), from, to);
            }
            let known = RenameFlags::RENAME_NOREPLACE | RenameFlags::RENAME_WHITEOUT;
            if !known.contains(flags) {
                return Err(Errno::EINVAL);
            }
            let how = RenameHow {
                no_replace: flags.contains(RenameFlags::RENAME_NOREPLACE),
                whiteout: flags.contains(RenameFlags::RENAME_WHITEOUT),
            };
            PandoFs::rename(self, request.into(), from, to, how)
        });
        reply_empty(reply, result);
    }

    fn open(&self, request: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let (access, truncate) = (convert::access(flags), convert::truncates(flags));
        let groups_decide = || self.client.groups_decide(ino(number));
        let opened = self
            .callers
            .ask_to_truncate(request.into(), truncate, groups_decide, |c| {
                self.client.open_node(c, ino(number), access, truncate)
            });
        match opened {
            Ok(_) if fuser::is_answered_early() => {
                self.close_abandoned(ino(number));
                reply.error(Errno::EINTR);
            }
            Ok(_) => reply.opened(self.opened(ino(number), flags), self.open_flags(flags)),
            Err(error) => reply.error(self.refusal(request, errno(error))),
        }
    }

    fn create(
        &self,
        request: &Request,
        dir: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let flags = OpenFlags(flags);
        let mode = convert::new_mode(mode, umask);
        let (dir, name) = (ino(dir), convert::name(name));
        let result = match &name {
            Ok(name) => self.create_or_open(request.into(), dir, name, mode, flags),
            Err(error) => Err(*error),
        };
        let found = name.as_ref().ok().map(|name| (dir, name));
        self.reply_created(reply, flags, found, result);
    }

    /// The directory stays as it is.
    fn tmpfile(
        &self,
        request: &Request,
        dir: INodeNo,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let caller = request.into();
        let mode = convert::new_mode(mode, umask);
        let may_be_named = flags & libc::O_EXCL == 0;
        let result = self.ask(caller, |c| {
            with_groups_for(mode, caller, c, |c| {
                self.client.create_unnamed(c, ino(dir), mode, may_be_named)
            })
        });
        let result = result.map(|node| node.attr);
        self.reply_created(reply, OpenFlags(flags), None, result);
    }

    fn read(
        &self,
        request: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let caller = Caller::from(request).alone();
        let ino = ino(number);
        let read = self.client.check_locks(ino, handle.0);
        let read = read.and_then(|()| self.read_bytes(&caller, ino, handle, offset, size, flags));
        match read.map_err(errno) {
            Ok(data) => {
                if flags.0 & libc::O_NOATIME == 0 {
                    self.accessed(ino, false);
                }
                reply.data(&data);
            }
            Err(error) => reply.error(error),
        }
    }

    /// An appending write comes with the offset that the kernel takes for the file's end. After it
    /// the kernel takes the file to end no sooner than what it has written; it asks for the size
    /// before it reports it.
    ///
    /// Writes through the kernel's cache are answered as soon as they are known to go to data
    /// objects, so that the program goes on while servers are given what it wrote.
    fn write(
        &self,
        request: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let ino = ino(number);
        let (caller, may_lose_set_id) = self.writing(request.into(), ino, write_flags);
        if let Err(error) = self.abandoned.changes(vec![Changed::Inode(ino)]) {
            return reply.error(error);
        }
        let length = data.len() as u32;
        let answer = |written: Result<(), ClientError>| {
            if may_lose_set_id {
                self.kernel.forget_attr(ino);
            }
            reply_written(reply, length, written.map_err(errno));
        };
        if let Err(error) = self.client.check_locks(ino, handle.0) {
            return answer(Err(error));
        }
        if let Some(written) = self.write_now(&caller, ino, handle, flags, offset, data) {
            return answer(written);
        }
        let done = self
            .client
            .write_behind(&caller, ino, handle.0, offset, data, answer);
        if let Err(error) = done {
            tracing::warn!(%ino, offset, length, %error, "a write failed after it was answered");
            // It has the bytes that the servers do not have.
            self.kernel.forget_content(ino, offset, u64::from(length));
        }
    }

    /// A process closes one of its descriptors of the file.
    fn flush(
        &self,
        _: &Request,
        number: INodeNo,
        handle: FileHandle,
        owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        let closed = self.client.close_descriptor(ino(number), handle.0, owner.0);
        reply_empty(reply, closed.map_err(errno));
    }

    /// The answer is not waited for.
    fn release(
        &self,
        _: &Request,
        number: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        let ino = ino(number);
        // Writes under way through this handle or another one are reported by the last of them.
        let waited = self.abandoned.wait_for(&[Changed::Inode(ino)]);
        let unlocked = self.client.unlock_handle(ino, handle.0);
        let released = self.client.release(ino);
        let done = unlocked.and(released).map_err(errno);
        reply_empty(reply, done.and(waited));
    }

    fn fsync(&self, _: &Request, number: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        let ino = ino(number);
        let result = self
            .client
            .check_locks(ino, handle.0)
            .and_then(|()| self.client.fsync_through(&Credentials::ROOT, ino, handle.0));
        reply_empty(reply, result.map_err(errno));
    }

    fn opendir(&self, request: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.open_dir(request.into(), ino(number)) {
            Ok(handle) => reply.opened(FileHandle(handle), FopenFlags::empty()),
            Err(error) => reply.error(error),
        }
    }

    fn readdir(
        &self,
        request: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let dir = ino(number);
        let listed = self.list(
            request.into(),
            dir,
            handle.0,
            offset,
            Detail::Names,
            |item| {
                let kind = convert::file_type(item.kind);
                reply.add(INodeNo(item.ino.0), item.cookie, kind, item.name())
            },
        );
        match listed {
            Ok(()) => {
                self.accessed(dir, true);
                reply.ok();
            }
            Err(error) => reply.error(error),
        }
    }

    fn readdirplus(
        &self,
        request: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let asked = self.dir_attrs.ask();
        let dir = ino(number);
        let listed = self.list(
            request.into(),
            dir,
            handle.0,
            offset,
            Detail::Attributes(asked),
            |item| {
                let attr = item.file_attr();
                let name = item.name();
                reply.add(
                    attr.ino,
                    item.cookie,
                    name,
                    &item.timeout,
                    &attr,
                    GENERATION,
                )
            },
        );
        match listed {
            Ok(()) => {
                self.accessed(dir, true);
                reply.ok();
            }
            Err(error) => reply.error(error),
        }
    }

    fn releasedir(
        &self,
        _: &Request,
        number: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.ends.close(handle.0);
        self.open_dirs.closed(handle.0);
        self.dead_dirs.closed(ino(number));
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, number: INodeNo, dir: FileHandle, _: bool, reply: ReplyEmpty) {
        reply_empty(reply, self.sync_dir(ino(number), Some(dir.0)));
    }

    /// Counted in blocks of 4 KiB. Nothing limits the number of inodes but space: as many more are
    /// said to fit as there are free blocks.
    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        self.reply_statfs(reply);
    }

    fn setxattr(
        &self,
        request: &Request,
        number: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let name = name.as_bytes();
        let set = self.set_xattr(request.into(), ino(number), name, value, flags);
        reply_empty(reply, self.noting_stale(request, set));
    }

    fn getxattr(
        &self,
        request: &Request,
        number: INodeNo,
        name: &OsStr,
        room: u32,
        reply: ReplyXattr,
    ) {
        let (ino, name) = (ino(number), name.as_bytes());
        let is_stored = xattr::is_name(name) && name != LAYOUT_XATTR;
        let value = if is_stored && self.no_xattrs.holds(ino) {
            Err(Errno::ENODATA)
        } else if name.starts_with(xattr::TRUSTED) {
            // It is not there, rather than refused, for callers that may not see it.
            let caller = &Caller::from(request).capable();
            self.client.getxattr(caller, ino, name).map_err(errno)
        } else {
            self.ask(request.into(), |c| self.client.getxattr(c, ino, name))
        };
        xattr::reply(reply, room, self.noting_stale(request, value));
    }

    fn listxattr(&self, request: &Request, number: INodeNo, room: u32, reply: ReplyXattr) {
        let ino = ino(number);
        let names = if self.no_xattrs.holds(ino) {
            Ok(Vec::new())
        } else {
            // No caller is refused, but not every one sees all.
            let caller = &Caller::from(request).capable();
            self.client.listxattr(caller, ino).map_err(errno)
        };
        xattr::reply(reply, room, names.map(|names| xattr::join(&names)));
    }

    fn removexattr(&self, request: &Request, number: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed = self.remove_xattr(request.into(), ino(number), name.as_bytes());
        reply_empty(reply, self.noting_stale(request, removed));
    }

    /// Asked only without `default_permissions`.
    fn access(&self, request: &Request, number: INodeNo, mask: AccessFlags, reply: ReplyEmpty) {
        let wanted = (mask.bits() & 7) as u16;
        reply_empty(
            reply,
            PandoFs::access(self, request.into(), ino(number), wanted),
        );
    }

    fn lseek(
        &self,
        request: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        match self.seek(request.into(), ino(number), offset, whence) {
            Ok(found) => reply.offset(found as i64),
            Err(error) => reply.error(error),
        }
    }

    fn fallocate(
        &self,
        request: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let done = self.allocate(request.into(), ino(number), offset, length, mode);
        reply_empty(reply, done);
    }

    // A request that is answered with "not implemented" is not made again. The kernel then copies
    // by reading and writing.

    fn copy_file_range(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        reply.error(Errno::ENOSYS);
    }

    fn ioctl(
        &self,
        request: &Request,
        number: INodeNo,
        _: FileHandle,
        _: IoctlFlags,
        command: u32,
        data: &[u8],
        _: u32,
        reply: ReplyIoctl,
    ) {
        match self.control(request.into(), number, command, data) {
            Ok(answer) => reply.ioctl(0, &answer),
            Err(error) => reply.error(error),
        }
    }

    fn getlk(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        owner: LockOwner,
        start: u64,
        end: u64,
        typ: i32,
        pid: u32,
        reply: ReplyLock,
    ) {
        let asked = locks::Asked {
            owner,
            first: start,
            last: end,
            typ,
            pid,
            flock: false,
        };
        self.lock_holder(ino(number), asked, reply);
    }

    fn setlk(
        &self,
        request: &Request,
        number: INodeNo,
        handle: FileHandle,
        owner: LockOwner,
        start: u64,
        end: u64,
        typ: i32,
        pid: u32,
        sleep: bool,
        flock: bool,
        reply: ReplyEmpty,
    ) {
        let asked = locks::Asked {
            owner,
            first: start,
            last: end,
            typ,
            pid,
            flock,
        };
        self.change_lock(request.unique(), ino(number), handle, asked, sleep, reply);
    }

    fn interrupt(&self, _: &Request, request: RequestId) -> Result<(), Errno> {
        Waits::interrupt(&self.waits, request);
        Ok(())
    }
}
