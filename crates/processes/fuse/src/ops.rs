//! Handlers for kernel requests: caller identity, caching, time limits.

use crate::abandoned::Abandoned;
use crate::call::Call;
use crate::convert;
use crate::credentials::{Caller, Callers};
use crate::dead_dirs::DeadDirs;
use crate::dir_attrs::{Asked, DirAttrs};
use crate::errno::{Result, errno};
use crate::kernel::Kernel;
use crate::leases::Cached;
use crate::limits::{MOUNT_LISTING_ENTRIES, MOUNT_LISTING_PLUS_ENTRIES};
use crate::listing::{self, DOT, DOT_DOT, Ends};
use crate::locks::{OpenFiles, Waits};
use crate::no_xattrs::NoXattrs;
use crate::open_dirs::OpenDirs;
use crate::options::{Atime, Options};
use crate::pages::Pages;
use crate::remount::Flags;
use crate::request_times::RequestTimes;
use crate::slow::SlowLog;
use crate::space;
use crate::stale::Stale;
use crate::traces::Traces;
use pandofs_client::{Client, ClientError, Node};
use pandofs_fuse_kernel::{Errno, FileAttr, Read, Reply, Statfs, Write};
use pandofs_types::limits::MAX_NAME_BYTES;
use pandofs_types::{Attr, Credentials, FileKind, Ino, Name, Position};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of the blocks in which statfs(2) counts.
const STATFS_BLOCK: u32 = 4_096;
/// Times that a name is looked up until what it leads to is held.
const MAX_LOOKS: u32 = 16;

/// The file system that is mounted.
pub(crate) struct PandoFs {
    pub client: Client,
    pub options: Options,
    pub callers: Callers,
    pub dir_attrs: Arc<DirAttrs>,
    pub dead_dirs: Arc<DeadDirs>,
    pub no_xattrs: Arc<NoXattrs>,
    pub cached: Arc<Cached>,
    pub ends: Ends,
    pub open_dirs: OpenDirs,
    pub open_files: OpenFiles,
    pub pages: Pages,
    pub waits: Arc<Waits>,
    pub abandoned: Arc<Abandoned>,
    pub stale: Stale,
    pub kernel: Kernel,
    pub times: Arc<RequestTimes>,
    pub slow: Arc<SlowLog>,
    pub traces: Traces,
    /// Those of `options` until it is remounted.
    pub flags: Flags,
}

/// The detail of each entry in a listing.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Detail {
    Names,
    /// Those that servers give in answer to this question.
    Attributes(Asked),
}

/// A lookup by the kernel when it was given a handle of an inode that it has forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relative {
    /// `.`: the inode itself, whatever it is.
    Own,
    /// `..`: the directory that this directory is in.
    Parent,
}

impl Relative {
    pub(crate) fn of(name: &OsStr) -> Option<Relative> {
        match name.as_bytes() {
            b"." => Some(Relative::Own),
            b".." => Some(Relative::Parent),
            _ => None,
        }
    }
}

/// One line of a listing.
pub(crate) struct Item<'a> {
    pub cookie: u64,
    pub ino: Ino,
    pub kind: FileKind,
    name: &'a [u8],
    /// Of `.` and `..` the kernel takes nothing but the number. Any other name was there when the
    /// directory was read, so it is listed, but what it led to may be gone: then the kernel has to
    /// look the name up.
    attr: Option<&'a Attr>,
    /// The time for which the kernel may cache all that.
    pub timeout: Duration,
}

impl Item<'_> {
    pub(crate) fn name(&self) -> &OsStr {
        OsStr::from_bytes(self.name)
    }

    pub(crate) fn file_attr(&self) -> FileAttr {
        match self.attr {
            Some(attr) => convert::file_attr(attr),
            None => convert::unknown_attr(self.ino, self.kind),
        }
    }
}

impl PandoFs {
    pub(crate) fn new(client: Client, options: Options) -> PandoFs {
        let memory = options.memory;
        PandoFs {
            client,
            flags: Flags::new(options.kernel),
            slow: SlowLog::new(options.slow),
            traces: Traces::new(options.spans.clone()),
            options,
            callers: Callers::default(),
            dir_attrs: Arc::new(DirAttrs::within(memory.directories)),
            dead_dirs: Arc::default(),
            no_xattrs: Arc::new(NoXattrs::within(memory.without_xattrs)),
            cached: Arc::new(Cached::within(memory.cache_limits.leases)),
            ends: Ends::default(),
            open_dirs: OpenDirs::default(),
            open_files: OpenFiles::default(),
            pages: Pages::within(memory.pages),
            waits: Arc::default(),
            abandoned: Arc::new(Abandoned::within(memory.abandoned_requests)),
            stale: Stale::default(),
            kernel: Kernel::default(),
            times: Arc::default(),
        }
    }

    /// Has the client do something on behalf of the caller.
    pub(crate) fn ask<T>(
        &self,
        call: &Call,
        ask: impl FnMut(&Credentials) -> Result<T, ClientError>,
    ) -> Result<T> {
        self.callers.ask(|| call.caller(), ask).map_err(errno)
    }

    /// Writes what is not to wait for others; `None` for what may. Of what is written past its
    /// cache the kernel does not ask to have it on disk, whatever the file was opened with.
    pub(crate) fn write_now(
        &self,
        caller: &Credentials,
        ino: Ino,
        write: &Write<'_>,
    ) -> Option<Result<(), ClientError>> {
        let Write { handle, flags, .. } = *write;
        let written = if space::goes_to_the_end(handle, flags) {
            self.client.append(caller, ino, &write.data).map(drop)
        } else if space::wants_it_done(flags) {
            self.client.write(caller, ino, write.offset, &write.data)
        } else {
            return None;
        };
        let is_synced = flags.0 & libc::O_DSYNC != 0 || self.flags.get().synced_writes;
        Some(match is_synced && space::is_past_the_cache(handle, flags) {
            true => {
                written.and_then(|()| self.client.fsync_through(&Credentials::ROOT, ino, handle.0))
            }
            false => written,
        })
    }

    /// An inode by its number. A caller with a handle was let in when it was made.
    pub(crate) fn by_handle(&self, ino: Ino, relative: Relative) -> Result<Node> {
        let ino = match relative {
            Relative::Own => ino,
            Relative::Parent => self.client.parent(&Credentials::ROOT, ino).map_err(errno)?,
        };
        let attr = self
            .client
            .getattr(&Credentials::ROOT, ino)
            .map_err(errno)?;
        if attr.nlink == 0 {
            // A file that is open without a name the kernel knows, and finds without asking.
            return Err(Errno::ESTALE);
        }
        Ok(Node::from(attr))
    }

    /// The node of a name; it stays for a moment if the caller has looked before, and found one
    /// that was gone.
    pub(crate) fn look_up(&self, call: &Call, dir: Ino, name: &Name) -> Result<Node> {
        let mut looks = 0;
        loop {
            let node = self.ask(call, |c| self.client.lookup(c, dir, name))?;
            looks += 1;
            if node.kind != FileKind::File
                || looks > MAX_LOOKS
                || !self.stale.looks_again(call.thread(), Instant::now)
            {
                return Ok(node);
            }
            match self.client.hold(node.ino).map_err(errno) {
                // The name leads to another file by now.
                Err(Errno::ESTALE) => (),
                Err(error) => return Err(error),
                Ok(attr) => return Ok(Node { attr, ..node }),
            }
        }
    }

    /// The result of a request about a node that the caller has looked up.
    pub(crate) fn noting_stale<T>(&self, call: &Call, result: Result<T>) -> Result<T> {
        result.map_err(|error| self.refusal(call, error))
    }

    /// The error for the caller.
    pub(crate) fn refusal(&self, call: &Call, error: Errno) -> Errno {
        if matches!(error, Errno::ESTALE) {
            self.stale.tells(call.thread(), Instant::now());
        }
        error
    }

    /// Attributes, and the time for which the kernel may cache them.
    pub(crate) fn attr(&self, ino: Ino) -> Result<(Attr, Duration)> {
        if let Some((mut attr, timeout)) = self.dir_attrs.known(ino) {
            self.client.count_accesses(&mut attr);
            return Ok((attr, self.note_dir(ino, timeout)));
        }
        let asked = self.dir_attrs.ask();
        match self.client.getattr(&Credentials::ROOT, ino).map_err(errno) {
            Ok(attr) => {
                let timeout = self.believable(&attr, asked);
                Ok((attr, timeout))
            }
            Err(Errno::ESTALE) => {
                if let Some(attr) = self.dir_attrs.last_told(ino) {
                    // Another mount has removed it.
                    self.dead_dirs.removed(attr);
                }
                let attr = self.dead_dirs.attr(ino).ok_or(Errno::ESTALE)?;
                let timeout = self.attr_timeout(&attr);
                Ok((attr, timeout))
            }
            Err(error) => Err(error),
        }
    }

    /// Opens a directory to be listed. The kernel has checked the caller's rights, and servers do
    /// when they list it.
    pub(crate) fn open_dir(&self, call: &Call, dir: Ino) -> Result<u64> {
        let (attr, _) = self.attr(dir)?;
        self.dead_dirs.opened(&attr);
        let handle = self.ends.open();
        self.open_dirs.opened(handle, dir, call.caller());
        Ok(handle)
    }

    /// Hands what stands after the cookie that is read from to `add`, until that says that there
    /// is no room for it.
    pub(crate) fn list(
        &self,
        call: &Call,
        dir: Ino,
        read: &Read,
        detail: Detail,
        mut add: impl FnMut(&Item<'_>) -> bool,
    ) -> Result<()> {
        let (handle, offset) = (read.handle.0, read.offset);
        if self.ends.take(handle, offset) {
            return Ok(());
        }
        let from = listing::after(offset);
        let (plus, max) = match detail {
            Detail::Names => (false, MOUNT_LISTING_ENTRIES),
            Detail::Attributes(_) => (true, MOUNT_LISTING_PLUS_ENTRIES),
        };
        let opener = self.open_dirs.opener(handle);
        let opener = opener.unwrap_or_else(|| call.caller());
        let page = self.callers.ask(
            || call.as_now(opener),
            |c| self.client.readdir(c, dir, from, plus, max),
        );
        let page = page.map_err(errno)?;

        let dot = |cookie, ino, name| Item {
            cookie,
            ino,
            kind: FileKind::Dir,
            name,
            attr: None,
            timeout: Duration::ZERO,
        };
        let timeouts = match detail {
            Detail::Names => vec![Duration::ZERO; page.entries.len()],
            Detail::Attributes(asked) => self.listed_timeouts(dir, &page.entries, asked),
        };
        let parent = page.parent.unwrap_or(dir);
        let dots = [dot(DOT, dir, &b"."[..]), dot(DOT_DOT, parent, b"..")];
        let entries = page.entries.iter().zip(timeouts);
        let entries = entries.map(|(entry, timeout)| Item {
            cookie: entry.position.0,
            ino: entry.ino,
            kind: entry.kind,
            name: entry.name.as_bytes(),
            attr: entry.attr.as_ref(),
            timeout,
        });
        let mut last = offset;
        for item in dots
            .into_iter()
            .filter(|dot| dot.cookie > offset)
            .chain(entries)
        {
            if !add(&item) {
                return Ok(());
            }
            last = item.cookie;
        }
        if page.next >= Position::END {
            self.ends.reached(handle, last);
        }
        Ok(())
    }

    /// The writer, and if the write may take set-id bits off, which the kernel has to learn then:
    /// after a write past its memory, as with `O_DIRECT` or `O_APPEND`, it asks for size and times
    /// again, not for the mode, and would run the file with bits that are gone.
    pub(crate) fn writing(&self, caller: Caller, ino: Ino, kills: bool) -> (Credentials, bool) {
        // An older kernel never says whether the caller may keep them.
        let may_take_off = kills || caller.uid != 0;
        let may_lose = may_take_off && self.client.may_have_set_id(ino);
        let groups_decide = || may_lose && self.client.groups_decide(ino);
        (caller.writing(kills, groups_decide), may_lose)
    }

    /// It was read: a file, a link or a directory.
    pub(crate) fn accessed(&self, ino: Ino, is_dir: bool) {
        let flags = self.flags.get();
        if flags.read_only || is_dir && flags.no_dir_atime {
            return;
        }
        if let Atime::Changed(rule) = flags.atime {
            self.client.accessed(ino, convert::now(), rule);
        }
    }

    /// Returns whether the caller has all rights in `wanted`.
    pub(crate) fn access(&self, call: &Call, ino: Ino, wanted: u16) -> Result<()> {
        self.ask(call, |c| self.client.access(c, ino, wanted))
    }
}

impl PandoFs {
    /// The bytes for read(2). The kernel takes the end of a short answer for the file's where it
    /// fills its cache.
    pub(crate) fn read_bytes(
        &self,
        caller: &Credentials,
        ino: Ino,
        read: &Read,
    ) -> Result<Vec<u8>, ClientError> {
        let (offset, length) = (read.offset, read.size as usize);
        if space::is_past_the_cache(read.handle, read.flags) {
            self.client.read_before_damage(caller, ino, offset, length)
        } else {
            self.client.read(caller, ino, offset, length)
        }
    }

    /// Counted in blocks of 4 KiB. Nothing limits the number of inodes but space: as many more are
    /// said to fit as there are free blocks.
    pub(crate) fn reply_statfs(&self, reply: Reply) {
        match self.client.statfs().map_err(errno) {
            Ok(space) => {
                let blocks = |bytes: u64| bytes / u64::from(STATFS_BLOCK);
                let more_inodes = blocks(space.available);
                reply.statfs(&Statfs {
                    blocks: blocks(space.total),
                    free: blocks(space.free),
                    available: blocks(space.available),
                    inodes: space.inodes.saturating_add(more_inodes),
                    free_inodes: more_inodes,
                    block: STATFS_BLOCK,
                    max_name_bytes: MAX_NAME_BYTES as u32,
                });
            }
            Err(error) => reply.error(error),
        }
    }
}
