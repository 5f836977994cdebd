//! Requests of the kernel, and replies to them.

use crate::abandoned::Changed;
use crate::call::Call;
use crate::convert;
use crate::errno::errno;
use crate::locks::{self, Waits};
use crate::name_changes::with_groups_for;
use crate::ops::{Detail, PandoFs, Relative};
use crate::options::{Atime, negotiate_with};
use crate::xattr;
use pandofs_client::{ClientError, LAYOUT_XATTR, RenameHow};
use pandofs_fuse_kernel::abi::open;
use pandofs_fuse_kernel::{
    Entry, Errno, FileHandle, Filesystem, Listing, LockOwner, Make, Negotiation, OpenFlags,
    Operation, Read, Rename, Reply, Request, SetAttr, Write,
};
use pandofs_types::{AtimeRule, Credentials, Ino};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

impl Filesystem for PandoFs {
    fn init(&mut self, kernel: &mut Negotiation) {
        let io_bytes = self.options.memory.io_bytes;
        negotiate_with(kernel, self.options.default_permissions, io_bytes);
        locks::negotiate(kernel, self.options.local_locks);
        self.cached.negotiate(kernel);
    }

    fn handle(&self, request: Request<'_>, reply: Reply) {
        let _timing = self.times.begin(&request.operation);
        let _followed = self.traces.begin(&request.header, &request.operation);
        let watched = self.slow.watch(&request.header, &request.operation);
        let call = Call::begin(&self.abandoned, watched, &request.header, &reply);
        pandofs_client::set_cancellation(Some(call.cancellation()));
        let ino = Ino(request.header.node);
        self.dispatch(&call, ino, request.operation, reply);
        self.forget_abandoned(&call, call.end());
        pandofs_client::set_cancellation(None);
    }
}

impl PandoFs {
    fn dispatch(&self, call: &Call, ino: Ino, operation: Operation<'_>, reply: Reply) {
        match operation {
            Operation::Lookup { name } => self.lookup(call, ino, name, reply),
            // However often the kernel got the inode, it forgets it at once.
            Operation::Forget { .. } => self.dead_dirs.forgotten(ino),
            Operation::BatchForget(forgotten) => {
                let inodes = forgotten.nodes().map(Ino);
                inodes.for_each(|ino| self.dead_dirs.forgotten(ino));
            }
            Operation::Interrupt(request) => Waits::interrupt(&self.waits, request),
            Operation::Getattr => match self.attr(ino) {
                Ok((attr, timeout)) => reply.attr(&convert::file_attr(&attr), timeout),
                Err(error) => reply.error(self.refusal(call, error)),
            },
            // Asked instead where a program wants to know when a file was made.
            Operation::Statx => match self.attr(ino) {
                Ok((attr, timeout)) => reply.statx(&convert::file_attr(&attr), timeout),
                Err(error) => reply.error(self.refusal(call, error)),
            },
            Operation::Setattr(set) => self.setattr(call, ino, &set, reply),
            Operation::Statfs => self.reply_statfs(reply),
            // Asked only without `default_permissions`.
            Operation::Access { mask } => reply.done(self.access(call, ino, (mask & 7) as u16)),
            Operation::Ioctl { command, data } => match self.control(call, ino, command, &data) {
                Ok(answer) => reply.ioctl(&answer),
                Err(error) => reply.error(error),
            },
            Operation::Readlink
            | Operation::Symlink { .. }
            | Operation::Mknod(..)
            | Operation::Mkdir(_)
            | Operation::Link { .. }
            | Operation::Unlink { .. }
            | Operation::Rmdir { .. }
            | Operation::Rename(_) => self.dispatch_names(call, ino, operation, reply),
            Operation::Setxattr { .. }
            | Operation::Getxattr { .. }
            | Operation::Listxattr { .. }
            | Operation::Removexattr { .. } => self.dispatch_xattrs(call, ino, operation, reply),
            Operation::Opendir
            | Operation::Readdir(_)
            | Operation::Readdirplus(_)
            | Operation::Releasedir { .. }
            | Operation::Fsyncdir { .. } => self.dispatch_dirs(call, ino, operation, reply),
            of_file => self.dispatch_files(call, ino, of_file, reply),
        }
    }

    fn dispatch_names(&self, call: &Call, ino: Ino, operation: Operation<'_>, reply: Reply) {
        match operation {
            Operation::Readlink => match self.ask(call, |c| self.client.readlink(c, ino)) {
                Ok(target) => {
                    self.accessed(ino, false);
                    reply.data(&target);
                }
                Err(error) => reply.error(error),
            },
            Operation::Symlink { name, target } => {
                self.make(call, ino, name, reply, |c, dir, name| {
                    self.client.symlink(c, dir, name, target.as_bytes())
                });
            }
            Operation::Mknod(made, rdev) => self.mknod(call, ino, &made, rdev, reply),
            Operation::Mkdir(made) => {
                let mode = convert::new_mode(made.mode, made.umask);
                self.make(call, ino, made.name, reply, |c, dir, name| {
                    self.client.mkdir_masked(c, dir, name, mode)
                });
            }
            Operation::Link { node, name } => {
                self.make(call, ino, name, reply, |c, dir, name| {
                    self.link_to(call, c, Ino(node), dir, name)
                });
            }
            Operation::Unlink { name } => self.remove(call, ino, name, false, reply),
            Operation::Rmdir { name } => self.remove(call, ino, name, true, reply),
            Operation::Rename(rename) => reply.done(self.rename_as(call, ino, &rename)),
            _ => reply.error(Errno::ENOSYS),
        }
    }

    fn dispatch_xattrs(&self, call: &Call, ino: Ino, operation: Operation<'_>, reply: Reply) {
        match operation {
            Operation::Setxattr { name, value, flags } => {
                let set = self.set_xattr(call, ino, name.as_bytes(), &value, flags);
                reply.done(self.noting_stale(call, set));
            }
            Operation::Getxattr { name, room } => {
                self.getxattr(call, ino, name.as_bytes(), room, reply);
            }
            Operation::Listxattr { room } => self.listxattr(call, ino, room, reply),
            Operation::Removexattr { name } => {
                let removed = self.remove_xattr(call, ino, name.as_bytes());
                reply.done(self.noting_stale(call, removed));
            }
            _ => reply.error(Errno::ENOSYS),
        }
    }

    fn dispatch_dirs(&self, call: &Call, ino: Ino, operation: Operation<'_>, reply: Reply) {
        match operation {
            Operation::Opendir => match self.open_dir(call, ino) {
                Ok(handle) => reply.opened(FileHandle(handle), 0),
                Err(error) => reply.error(error),
            },
            Operation::Readdir(read) => self.readdir(call, ino, &read, reply),
            Operation::Readdirplus(read) => self.readdirplus(call, ino, &read, reply),
            Operation::Releasedir { handle } => {
                self.ends.close(handle.0);
                self.open_dirs.closed(handle.0);
                self.dead_dirs.closed(ino);
                reply.ok();
            }
            Operation::Fsyncdir { handle } => reply.done(self.sync_dir(ino, Some(handle.0))),
            _ => reply.error(Errno::ENOSYS),
        }
    }

    fn dispatch_files(&self, call: &Call, ino: Ino, operation: Operation<'_>, reply: Reply) {
        match operation {
            Operation::Open(flags) => self.open(call, ino, flags, reply),
            Operation::Create(made, flags) => self.create(call, ino, &made, flags, reply),
            Operation::Tmpfile { mode, umask, flags } => {
                self.tmpfile(call, ino, (mode, umask), flags, reply);
            }
            Operation::Read(read) => self.read(call, ino, &read, reply),
            Operation::Write(write) => self.write(call, ino, &write, reply),
            Operation::Flush { handle, owner } => self.flush(ino, handle, owner, reply),
            Operation::Release { handle } => self.release(call, ino, handle, reply),
            Operation::Fsync { handle } => self.fsync(ino, handle, reply),
            Operation::Lseek { offset, whence } => match self.seek(call, ino, offset, whence) {
                Ok(found) => reply.offset(found),
                Err(error) => reply.error(error),
            },
            Operation::Fallocate {
                offset,
                length,
                mode,
            } => reply.done(self.allocate(call, ino, offset, length, mode)),
            Operation::Getlk(lock) => self.lock_holder(ino, &lock, reply),
            Operation::Setlk { lock, waits } => self.change_lock(call, ino, &lock, waits, reply),
            // A request that is answered with "not implemented" is not made again. The kernel then
            // copies by reading and writing.
            _ => reply.error(Errno::ENOSYS),
        }
    }

    fn lookup(&self, call: &Call, dir: Ino, name: &OsStr, reply: Reply) {
        let asked = self.dir_attrs.ask();
        if let Some(relative) = Relative::of(name) {
            let result = self.by_handle(dir, relative);
            return self.reply_entry(call, reply, asked, None, result);
        }
        let name = match convert::name(name) {
            Ok(name) => name,
            Err(error) => return reply.error(error),
        };
        let result = self.look_up(call, dir, &name);
        let _answering = self.cached.kernel_cache.answering();
        if matches!(result, Err(Errno::ENOENT)) {
            let timeout = self.entry_timeout(dir, &name, None);
            if !timeout.is_zero() {
                return reply.entry(&convert::no_entry(timeout));
            }
        }
        self.reply_entry(call, reply, asked, Some((dir, &name)), result);
    }

    fn setattr(&self, call: &Call, ino: Ino, set: &SetAttr, reply: Reply) {
        let is_open = set.handle.is_some();
        match self.set_attr(call, ino, convert::set_attr(set), is_open) {
            Ok(attr) => {
                let timeout = self.attr_timeout(&attr);
                self.no_xattrs.learn(&attr, timeout);
                reply.attr(&convert::file_attr(&attr), timeout);
            }
            Err(error) => reply.error(self.refusal(call, error)),
        }
    }

    fn mknod(&self, call: &Call, dir: Ino, made: &Make<'_>, rdev: u32, reply: Reply) {
        let node = match convert::new_node(made.mode, rdev) {
            Ok(node) => node,
            Err(error) => return reply.error(error),
        };
        let mode = convert::new_mode(made.mode, made.umask);
        self.make(call, dir, made.name, reply, |c, dir, name| {
            with_groups_for(mode, call, c, |c| {
                self.client.mknod_masked(c, dir, name, node.clone(), mode)
            })
        });
    }

    fn rename_as(&self, call: &Call, dir: Ino, rename: &Rename<'_>) -> Result<(), Errno> {
        let name = convert::name(rename.name)?;
        let new_name = convert::name(rename.new_name)?;
        let (from, to) = ((dir, &name), (Ino(rename.new_dir), &new_name));
        if rename.flags == libc::RENAME_EXCHANGE {
            return self.exchange(call, from, to);
        }
        if rename.flags & !(libc::RENAME_NOREPLACE | libc::RENAME_WHITEOUT) != 0 {
            return Err(Errno::EINVAL);
        }
        let how = RenameHow {
            no_replace: rename.flags & libc::RENAME_NOREPLACE != 0,
            whiteout: rename.flags & libc::RENAME_WHITEOUT != 0,
        };
        self.rename(call, from, to, how)
    }

    fn open(&self, call: &Call, ino: Ino, flags: OpenFlags, reply: Reply) {
        let (access, truncate) = (convert::access(flags), convert::truncates(flags));
        let groups_decide = || self.client.groups_decide(ino);
        let caller = || call.caller();
        let opened = self
            .callers
            .ask_to_truncate(caller, truncate, groups_decide, |c| {
                match self.pages.has(ino) {
                    true => self.client.open_again(c, ino, access, truncate),
                    false => self.client.open_node(c, ino, access, truncate),
                }
            });
        match opened {
            Ok(_) if call.is_answered_early() => {
                self.close_abandoned(ino);
                reply.error(Errno::EINTR);
            }
            Ok(attr) => {
                let handle = self.opened(ino, flags);
                let mut answer = self.open_flags(flags);
                // A read that is answered from pages is not told, and so changes no time of access.
                let may_keep = answer & open::DIRECT_IO == 0
                    && self.flags.get().atime != Atime::Changed(AtimeRule::Strict);
                if may_keep && self.pages.opened(&attr, handle, self.client.is_own(ino)) {
                    answer |= open::KEEP_CACHE;
                }
                reply.opened(handle, answer);
            }
            Err(error) => reply.error(self.refusal(call, errno(error))),
        }
    }

    fn create(&self, call: &Call, dir: Ino, made: &Make<'_>, flags: OpenFlags, reply: Reply) {
        let mode = convert::new_mode(made.mode, made.umask);
        let name = convert::name(made.name);
        let result = match &name {
            Ok(name) => self.create_or_open(call, dir, name, mode, flags),
            Err(error) => Err(*error),
        };
        let found = name.as_ref().ok().map(|name| (dir, name));
        self.reply_created(call, reply, flags, found, result);
    }

    /// The directory stays as it is.
    fn tmpfile(
        &self,
        call: &Call,
        dir: Ino,
        (mode, umask): (u32, u32),
        flags: OpenFlags,
        reply: Reply,
    ) {
        let mode = convert::new_mode(mode, umask);
        let may_be_named = flags.0 & libc::O_EXCL == 0;
        let result = self.ask(call, |c| {
            with_groups_for(mode, call, c, |c| {
                self.client.create_unnamed(c, dir, mode, may_be_named)
            })
        });
        self.reply_created(call, reply, flags, None, result.map(|node| node.attr));
    }

    fn read(&self, call: &Call, ino: Ino, read: &Read, reply: Reply) {
        let caller = call.caller().alone();
        let done = self.client.check_locks(ino, read.handle.0);
        let done = done.and_then(|()| self.read_bytes(&caller, ino, read));
        match done.map_err(errno) {
            Ok(data) => {
                if read.flags.0 & libc::O_NOATIME == 0 {
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
    fn write(&self, call: &Call, ino: Ino, write: &Write<'_>, reply: Reply) {
        let (caller, may_lose_set_id) = self.writing(call.caller(), ino, write.kill_suidgid);
        if let Err(error) = call.changes(vec![Changed::Inode(ino)]) {
            return reply.error(error);
        }
        let (handle, offset) = (write.handle, write.offset);
        let length = write.data.len() as u32;
        let answer = |written: Result<(), ClientError>| {
            if may_lose_set_id {
                self.kernel.forget_attr(ino);
            }
            match written {
                Ok(()) => reply.written(length),
                Err(error) => reply.error(errno(error)),
            }
        };
        if let Err(error) = self.client.check_locks(ino, handle.0) {
            return answer(Err(error));
        }
        if let Some(written) = self.write_now(&caller, ino, write) {
            return answer(written);
        }
        let done = self
            .client
            .write_behind(&caller, ino, handle.0, offset, &write.data, answer);
        if let Err(error) = done {
            tracing::warn!(%ino, offset, length, %error, "a write failed after it was answered");
            // It has the bytes that the servers do not have.
            call.waits_for_kernel();
            self.kernel.forget_content(ino, offset, u64::from(length));
        }
    }

    /// A process closes one of its descriptors of the file.
    fn flush(&self, ino: Ino, handle: FileHandle, owner: LockOwner, reply: Reply) {
        self.pages.closed(handle);
        let closed = self.client.close_descriptor(ino, handle.0, owner.0);
        reply.done(closed.map_err(errno));
    }

    /// The answer is not waited for.
    fn release(&self, call: &Call, ino: Ino, handle: FileHandle, reply: Reply) {
        self.pages.closed(handle);
        // Writes under way through this handle or another one are reported by the last of them.
        let waited = call.wait_for(&[Changed::Inode(ino)]);
        let unlocked = self.client.unlock_handle(ino, handle.0);
        let released = self.client.release(ino);
        let done = unlocked.and(released).map_err(errno);
        reply.done(done.and(waited));
    }

    fn fsync(&self, ino: Ino, handle: FileHandle, reply: Reply) {
        let result = self
            .client
            .check_locks(ino, handle.0)
            .and_then(|()| self.client.fsync_through(&Credentials::ROOT, ino, handle.0));
        reply.done(result.map_err(errno));
    }

    fn readdir(&self, call: &Call, dir: Ino, read: &Read, reply: Reply) {
        let mut listing = Listing::within(read.size);
        let listed = self.list(call, dir, read, Detail::Names, |item| {
            let kind = convert::file_type(item.kind);
            listing.add(item.ino.0, item.cookie, kind, item.name())
        });
        self.reply_listed(dir, listed, &listing, reply);
    }

    fn readdirplus(&self, call: &Call, dir: Ino, read: &Read, reply: Reply) {
        let asked = self.dir_attrs.ask();
        let mut listing = Listing::within(read.size);
        let listed = self.list(call, dir, read, Detail::Attributes(asked), |item| {
            let entry = Entry {
                attr: item.file_attr(),
                attr_timeout: item.timeout,
                entry_timeout: item.timeout,
            };
            listing.add_plus(&entry, item.cookie, item.name())
        });
        self.reply_listed(dir, listed, &listing, reply);
    }

    fn reply_listed(&self, dir: Ino, listed: Result<(), Errno>, listing: &Listing, reply: Reply) {
        match listed {
            Ok(()) => {
                self.accessed(dir, true);
                reply.listing(listing);
            }
            Err(error) => reply.error(error),
        }
    }

    fn getxattr(&self, call: &Call, ino: Ino, name: &[u8], room: u32, reply: Reply) {
        let is_stored = xattr::is_name(name) && name != LAYOUT_XATTR;
        let value = if is_stored && self.no_xattrs.holds(ino) {
            Err(Errno::ENODATA)
        } else if name.starts_with(xattr::TRUSTED) {
            // It is not there, rather than refused, for callers that may not see it.
            let caller = &call.caller().capable();
            self.client.getxattr(caller, ino, name).map_err(errno)
        } else {
            self.ask(call, |c| self.client.getxattr(c, ino, name))
        };
        xattr::reply(reply, room, self.noting_stale(call, value));
    }

    fn listxattr(&self, call: &Call, ino: Ino, room: u32, reply: Reply) {
        let names = if self.no_xattrs.holds(ino) {
            Ok(Vec::new())
        } else {
            // No caller is refused, but not every one sees all.
            let caller = &call.caller().capable();
            self.client.listxattr(caller, ino).map_err(errno)
        };
        xattr::reply(reply, room, names.map(|names| xattr::join(&names)));
    }
}
