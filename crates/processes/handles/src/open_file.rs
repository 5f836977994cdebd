//! Open files.

use crate::attributes::of_size;
use crate::failure::{Failure, Result};
use crate::mount::{Ending, Mount, READ, Session};
use pandofs_client::{Client, ClientError, LockWait, Node, OpenHow};
use pandofs_types::{Credentials, FileKind, FsError, Ino};
use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Symbolic links that are followed behind the last component of a path.
const MAX_LINKS: usize = 40;
/// The right to write, as the client library has it.
const WRITE: u16 = 2;

/// Numbers the open files.
static LAST: AtomicU64 = AtomicU64::new(0);

/// An open file, of C what a `pandofs_file_t` leads to. It is closed with the last who uses it.
#[derive(Debug)]
pub struct OpenFile {
    /// Lasts as long as the file is open.
    pub session: Arc<Session>,
    /// The caller that opened it.
    pub caller: Credentials,
    /// The inode.
    pub ino: Ino,
    /// Among the client's open files, and as an owner of locks.
    pub number: u64,
    /// For words about errors.
    pub path: Vec<u8>,
    flags: Flags,
    waits: Mutex<Waits>,
    is_released: bool,
}

/// Requests for locks that wait.
#[derive(Debug, Default)]
struct Waits {
    is_closed: bool,
    under_way: Vec<Arc<LockWait>>,
}

/// Flags with which a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Flags {
    access: u16,
    create: bool,
    exclusive: bool,
    truncate: bool,
    follow: bool,
    append: bool,
    /// Each write is on disk when it is answered.
    sync: bool,
}

impl Flags {
    fn of(flags: c_int) -> Result<Flags> {
        let access = match flags & libc::O_ACCMODE {
            libc::O_RDONLY => READ,
            libc::O_WRONLY => WRITE,
            libc::O_RDWR => READ | WRITE,
            _ => {
                return Err(Failure::Invalid(
                    "the flags say neither to read nor to write",
                ));
            }
        };
        // Those without a meaning here: nothing of a file is inherited, waits, or is in a cache of the kernel.
        let without_meaning = libc::O_CLOEXEC
            | libc::O_NOCTTY
            | libc::O_NONBLOCK
            | libc::O_LARGEFILE
            | libc::O_NOATIME
            | libc::O_DIRECT;
        let known = libc::O_ACCMODE
            | libc::O_CREAT
            | libc::O_EXCL
            | libc::O_TRUNC
            | libc::O_APPEND
            | libc::O_NOFOLLOW
            | libc::O_SYNC
            | libc::O_DSYNC;
        if flags & libc::O_DIRECTORY != 0 {
            // O_TMPFILE, too.
            return Err(Failure::NotSupported(
                "only regular files that have names can be opened",
            ));
        }
        if flags & !(known | without_meaning) != 0 {
            return Err(Failure::NotSupported(
                "a flag that the library does not have",
            ));
        }
        let has = |flag| flags & flag != 0;
        if has(libc::O_TRUNC) && access == READ {
            return Err(Failure::Invalid("O_TRUNC needs O_WRONLY or O_RDWR"));
        }
        let exclusive = has(libc::O_CREAT) && has(libc::O_EXCL);
        Ok(Flags {
            access,
            create: has(libc::O_CREAT),
            exclusive,
            truncate: has(libc::O_TRUNC),
            follow: !has(libc::O_NOFOLLOW) && !exclusive,
            append: has(libc::O_APPEND),
            sync: has(libc::O_SYNC) || has(libc::O_DSYNC),
        })
    }

    fn how(self) -> OpenHow {
        OpenHow {
            access: self.access,
            truncate: self.truncate,
            exclusive: self.exclusive,
        }
    }
}

impl OpenFile {
    /// Opens a file, as open(2).
    ///
    /// # Errors
    /// As open(2); `Special` for what only the kernel can open, `NotSupported` for flags that there are not.
    pub fn open(mount: &Mount, path: &[u8], flags: c_int, mode: u32) -> Result<OpenFile> {
        let flags = Flags::of(flags)?;
        let ino = match flags.create {
            true => create(mount, path, flags, mode)?,
            false => open_existing(mount, path, flags)?,
        };
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        mount.client().open_handle(ino, number);
        Ok(OpenFile {
            session: Arc::clone(&mount.session),
            caller: mount.caller.clone(),
            ino,
            number,
            path: path.to_vec(),
            flags,
            waits: Mutex::default(),
            is_released: false,
        })
    }

    /// The client library, with which each call gives its caller.
    pub fn client(&self) -> &Client {
        &self.session.client
    }

    /// Makes sure that it may be read through this.
    ///
    /// # Errors
    /// `NotOpenFor`; `Io` after its locks were lost.
    pub fn to_read(&self) -> Result<()> {
        match self.flags.access & READ != 0 {
            true => Ok(self.client().check_locks(self.ino, self.number)?),
            false => Err(Failure::NotOpenFor("reading")),
        }
    }

    /// Makes sure that it may be written to through this.
    ///
    /// # Errors
    /// As [`OpenFile::to_read`].
    pub fn to_write(&self) -> Result<()> {
        match self.flags.access & WRITE != 0 {
            true => Ok(self.client().check_locks(self.ino, self.number)?),
            false => Err(Failure::NotOpenFor("writing")),
        }
    }

    /// Takes note of what was written.
    ///
    /// # Errors
    /// Those of [`OpenFile::sync`], for a file that is opened to be synced with each write.
    pub fn written(&self) -> Result<()> {
        match self.flags.sync {
            true => self.sync(),
            false => Ok(()),
        }
    }

    /// As fsync(2): an error of an earlier write is answered once.
    ///
    /// # Errors
    /// Those of [`Client::fsync_through`].
    pub fn sync(&self) -> Result<()> {
        let client = self.client();
        Ok(client.fsync_through(&self.caller, self.ino, self.number)?)
    }

    /// Reads as [`crate::read`] does.
    ///
    /// # Errors
    /// Those of [`OpenFile::to_read`] and of the client library, if nothing was read.
    pub fn read(&self, offset: u64, wanted: usize, put: impl FnMut(usize, &[u8])) -> Result<usize> {
        self.to_read()?;
        let (client, caller) = (self.client(), &self.caller);
        Ok(crate::read(client, caller, self.ino, offset, wanted, put)?)
    }

    /// Writes as pwrite(2): at the end of the file if it was opened to append, and otherwise at `offset`. Answers how many
    /// bytes: fewer if an error came in between.
    ///
    /// # Errors
    /// Those of [`OpenFile::to_write`] and of the client library, if nothing was written.
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<usize> {
        let data = &data[..data.len().min(crate::MAX_CALL_BYTES)];
        self.to_write()?;
        if self.flags.append {
            self.append_whole(data)?;
            return Ok(data.len());
        }
        let written = crate::write(self.client(), &self.caller, self.ino, offset, data)?;
        self.written()?;
        Ok(written)
    }

    /// Writes all from the start of the file on.
    ///
    /// # Errors
    /// As [`OpenFile::write`], also if something was written before.
    pub fn write_whole(&self, data: &[u8]) -> Result<()> {
        crate::whole(data.len(), |done| self.write(done as u64, &data[done..]))?;
        Ok(())
    }

    /// Writes at the end of the file in one piece, whoever else appends, and says where that was.
    ///
    /// # Errors
    /// Those of [`OpenFile::to_write`] and of the client library; `Invalid` for more than one call takes.
    pub fn append(&self, data: &[u8]) -> Result<u64> {
        if data.len() > crate::MAX_CALL_BYTES {
            return Err(Failure::Invalid("too many bytes for one piece"));
        }
        self.to_write()?;
        self.append_whole(data)
    }

    fn append_whole(&self, data: &[u8]) -> Result<u64> {
        let offset = self.client().append(&self.caller, self.ino, data)?;
        self.written()?;
        Ok(offset)
    }

    /// As ftruncate(2).
    ///
    /// # Errors
    /// As ftruncate(2).
    pub fn truncate(&self, size: u64) -> Result<()> {
        self.to_write()?;
        // The right was seen when it was opened, and lasts.
        let caller = self.caller.clone().writing_anyway();
        self.client().setattr(&caller, self.ino, of_size(size))?;
        self.written()
    }

    /// Has other clients see what was written, as closing does.
    ///
    /// # Errors
    /// Those of earlier writes that are not known yet.
    pub fn flush(&self) -> Result<()> {
        Ok(self.client().flush_through(self.ino, self.number)?)
    }

    fn waits(&self) -> MutexGuard<'_, Waits> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a lock, until it is given or the file is closed.
    ///
    /// # Errors
    /// `NoHandle` when it is closed; those of [`LockWait::wait`].
    pub fn wait_for_lock(&self, wait: LockWait) -> Result<()> {
        let wait = Arc::new(wait);
        {
            let mut waits = self.waits();
            if waits.is_closed {
                return Err(Failure::NoHandle);
            }
            waits.under_way.push(Arc::clone(&wait));
        }
        let given = wait.wait();
        self.waits()
            .under_way
            .retain(|other| !Arc::ptr_eq(other, &wait));
        Ok(given?)
    }

    /// Closes it for its owner: waits for locks end, writes are reported, locks are let go. A call that is
    /// using it goes on until its end.
    ///
    /// # Errors
    /// Those of earlier writes that are not known yet; it is closed all the same.
    pub fn close(self: Arc<OpenFile>) -> Result<()> {
        let waits = {
            let mut waits = self.waits();
            waits.is_closed = true;
            waits.under_way.clone()
        };
        for wait in waits {
            wait.cancel();
        }
        let client = &self.session.client;
        let closed = client.close_descriptor(self.ino, self.number, self.number);
        let released = match Arc::into_inner(self) {
            Some(mut file) => file.release(),
            None => Ok(()),
        };
        Ok(closed.and(released)?)
    }

    fn release(&mut self) -> std::result::Result<(), ClientError> {
        self.is_released = true;
        crate::release(self.client(), self.ino, self.number)
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        if !self.is_released {
            // The caller of `close` was told of losses, and nobody is left to be told of this.
            let _ = self.release();
        }
    }
}

/// Opens what is there, and says which inode that is.
fn open_existing(mount: &Mount, path: &[u8], flags: Flags) -> Result<Ino> {
    if !flags.truncate {
        let opened = mount.by_path(path, |client, caller| {
            client.open_by_path(caller, path, flags.access)
        })?;
        if let Some(node) = opened {
            return Ok(node.ino);
        }
    }
    mount.with_node(path, flags.follow, |node| open_node(mount, node, flags))
}

fn open_node(mount: &Mount, node: &Node, flags: Flags) -> Result<Ino> {
    match node.kind {
        FileKind::File => {}
        FileKind::Dir => return Err(FsError::IsDir.into()),
        FileKind::Symlink => return Err(ClientError::Loop.into()),
        _ => return Err(Failure::Special),
    }
    mount
        .client()
        .open_node(&mount.caller, node.ino, flags.access, flags.truncate)?;
    Ok(node.ino)
}

/// Opens what is there, or makes it.
fn create(mount: &Mount, path: &[u8], flags: Flags, mode: u32) -> Result<Ino> {
    let made = mount.by_path(path, |client, caller| {
        client.create_by_path(caller, path, mount.new_mode(mode), flags.how())
    })?;
    if let Some(node) = made {
        return Ok(node.ino);
    }
    let (client, caller) = (mount.client(), &mount.caller);
    let mut from = mount.base;
    let mut path = path.to_vec();
    for _ in 0..=MAX_LINKS {
        let (dir, name) = match mount.leaf(from, &path, Ending::NoDir) {
            Err(Failure::InUse) => return Err(FsError::IsDir.into()),
            leaf => leaf?,
        };
        let made = client.create_masked(caller, dir, &name, mount.new_mode(mode), flags.how());
        let refusal = match made {
            Ok(found) if found.node.kind == FileKind::File => return Ok(found.node.ino),
            Ok(found) => {
                client.release(found.node.ino)?;
                return Err(Failure::Special);
            }
            // It is no file, or nothing may be made in the directory.
            Err(ClientError::Fs(error @ (FsError::Exists | FsError::Access)))
                if !flags.exclusive =>
            {
                error
            }
            Err(error) => return Err(error.into()),
        };
        let node = match client.lookup(caller, dir, &name) {
            Ok(node) => node,
            Err(error) if error.is_gone() && refusal == FsError::Exists => continue,
            Err(error) if error.is_gone() => return Err(refusal.into()),
            Err(error) => return Err(error.into()),
        };
        if node.kind == FileKind::Symlink && flags.follow {
            path = client.readlink(caller, node.ino)?;
            from = dir;
            continue;
        }
        match open_node(mount, &node, flags) {
            Err(Failure::Client(ClientError::Fs(FsError::Stale))) => {}
            opened => return opened,
        }
    }
    Err(ClientError::Loop.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_mean_what_open_says() {
        let flags =
            Flags::of(libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC).unwrap();
        assert_eq!(flags.access, READ | WRITE);
        assert!(flags.create && flags.exclusive && !flags.truncate && !flags.append);
        assert!(!flags.follow, "a link at the end is a name that is taken");
        let flags = Flags::of(libc::O_WRONLY | libc::O_APPEND | libc::O_SYNC).unwrap();
        assert!(flags.append && flags.sync && flags.follow && !flags.create);
        let errno = |flags| Flags::of(flags).unwrap_err().errno();
        assert_eq!(errno(libc::O_ACCMODE), libc::EINVAL);
        assert_eq!(errno(libc::O_RDONLY | libc::O_TRUNC), libc::EINVAL);
        for unknown in [libc::O_DIRECTORY, libc::O_TMPFILE, libc::O_PATH, 1 << 30] {
            assert_eq!(
                errno(libc::O_RDWR | unknown),
                libc::EOPNOTSUPP,
                "{unknown:#o}"
            );
        }
    }
}
