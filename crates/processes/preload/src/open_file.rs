//! Open files and directories, each with one offset however many descriptors lead to it.

use crate::session::{self, Session};
use crate::shared::{self, Page, What};
use pandofs_client::{Entry, Position};
use pandofs_types::{Credentials, FileKind, Ino};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Access to a file as the client library has it.
pub(crate) const READ: u16 = 4;
/// To write.
pub(crate) const WRITE: u16 = 2;
/// The owner of all locks that belong to the process, different from all open files'.
pub(crate) const PROCESS: u64 = 1;

/// Numbers the open files, above what else owns locks.
static LAST: AtomicU64 = AtomicU64::new(1 << 32);

/// An open file, for which descriptors stand.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub ino: Ino,
    pub kind: FileKind,
    /// Rights that it was opened with; none with `O_PATH`.
    pub access: u16,
    /// Below the file system's root, when it was opened.
    pub path: Vec<u8>,
    /// Those of `fcntl`, unless processes share it.
    flags: AtomicU32,
    place: Mutex<Place>,
    /// Where the session has it open.
    opened: Mutex<Option<Opened>>,
    /// A directory's entries that were asked for and not given yet.
    pub page: Mutex<Listed>,
    /// Locks belong to this open file, and so to no other process.
    pub is_locked: AtomicBool,
}

/// The place of the offset.
#[derive(Debug)]
enum Place {
    Here(u64),
    Shared(&'static Page),
}

/// An open file of a session.
#[derive(Clone, Debug)]
pub(crate) struct Opened {
    pub session: Arc<Session>,
    /// Among the client's open files, and as an owner of locks.
    pub number: u64,
}

/// Entries of a directory.
#[derive(Debug)]
pub(crate) struct Listed {
    /// The offset that they go on from.
    pub at: u64,
    pub entries: VecDeque<Entry>,
    /// Behind them.
    pub next: Position,
}

impl OpenFile {
    pub(crate) fn new(
        ino: Ino,
        kind: FileKind,
        access: u16,
        flags: i32,
        path: Vec<u8>,
        session: Option<Arc<Session>>,
    ) -> OpenFile {
        OpenFile {
            ino,
            kind,
            access,
            path,
            flags: AtomicU32::new(flags as u32),
            place: Mutex::new(Place::Here(0)),
            opened: Mutex::new(session.map(|session| begin(session, ino))),
            page: Mutex::new(Listed {
                at: 0,
                entries: VecDeque::new(),
                next: Position::FIRST,
            }),
            is_locked: AtomicBool::new(false),
        }
    }

    /// A file that another process has open, too.
    pub(crate) fn inherited(page: &'static Page) -> OpenFile {
        let kind = KINDS
            .get(page.kind as usize)
            .copied()
            .unwrap_or(FileKind::File);
        let file = OpenFile::new(
            Ino(page.ino),
            kind,
            page.access as u16,
            0,
            page.path().to_vec(),
            None,
        );
        *lock(&file.place) = Place::Shared(page);
        file
    }

    /// The same in a child process, which has no session yet. It was shared before.
    pub(crate) fn forked(&self) -> OpenFile {
        // The thread that has the lock, if any, is not there any more; `share` waited for it in the parent.
        match self.place.try_lock().as_deref() {
            Ok(Place::Shared(page)) => OpenFile::inherited(page),
            _ => OpenFile::new(self.ino, self.kind, 0, 0, self.path.clone(), None),
        }
    }

    /// Has other processes be able to share it: a descriptor that stands for it from now on, unless they could before.
    ///
    /// # Errors
    /// Error numbers.
    pub(crate) fn share(&self) -> Result<Option<i32>, i32> {
        let mut place = lock(&self.place);
        let offset = match *place {
            Place::Here(offset) => offset,
            Place::Shared(_) => return Ok(None),
        };
        let kind = KINDS
            .iter()
            .position(|kind| *kind == self.kind)
            .unwrap_or(0);
        let (page, fd) = shared::make(&What {
            ino: self.ino.0,
            access: u32::from(self.access),
            kind: kind as u32,
            offset,
            flags: self.flags.load(Ordering::Relaxed),
            path: self.path.clone(),
        })?;
        *place = Place::Shared(page);
        Ok(Some(fd))
    }

    /// The page that processes share, by its number.
    pub(crate) fn page_id(&self) -> Option<u64> {
        match *lock(&self.place) {
            Place::Here(_) => None,
            Place::Shared(page) => Some(page.id),
        }
    }

    /// The offset, for as long as `work` takes.
    ///
    /// # Errors
    /// Those of `work`; `EINTR` when a signal came while another process had it.
    pub(crate) fn with_offset<T>(
        &self,
        work: impl FnOnce(&mut u64) -> Result<T, i32>,
    ) -> Result<T, i32> {
        match &mut *lock(&self.place) {
            Place::Here(offset) => work(offset),
            Place::Shared(page) => page.with_offset(work),
        }
    }

    /// The flags of `fcntl`.
    pub(crate) fn flags(&self) -> i32 {
        let flags = match *lock(&self.place) {
            Place::Here(_) => &self.flags,
            Place::Shared(page) => &page.flags,
        };
        flags.load(Ordering::Relaxed) as i32
    }

    /// Sets the flags of `fcntl`.
    pub(crate) fn set_flags(&self, flags: i32) {
        let place = match *lock(&self.place) {
            Place::Here(_) => &self.flags,
            Place::Shared(page) => &page.flags,
        };
        place.store(flags as u32, Ordering::Relaxed);
    }

    /// The open file of this process's session, which opens it if it has not.
    ///
    /// # Errors
    /// `EBADF` unless it was opened for this; those of opening.
    pub(crate) fn opened(&self, access: u16) -> Result<Opened, i32> {
        if self.access & access != access || self.access == 0 {
            return Err(libc::EBADF);
        }
        if self.kind != FileKind::File {
            return Err(match self.kind {
                FileKind::Dir if access == WRITE => libc::EBADF,
                FileKind::Dir => libc::EISDIR,
                _ => libc::EBADF,
            });
        }
        let session = session::get()?;
        let mut opened = lock(&self.opened);
        if let Some(opened) = opened.as_ref()
            && Arc::ptr_eq(&opened.session, &session)
        {
            session
                .client
                .check_locks(self.ino, opened.number)
                .map_err(|error| error.errno())?;
            return Ok(opened.clone());
        }
        // The right was seen when it was opened first, and lasts.
        session
            .client
            .open_node(&Credentials::ROOT, self.ino, self.access, false)
            .map_err(|error| error.errno())?;
        Ok(opened.insert(begin(session, self.ino)).clone())
    }

    /// A process closes a descriptor of it, of which others may be left.
    ///
    /// # Errors
    /// Those of earlier writes.
    pub(crate) fn close_descriptor(&self) -> Result<(), i32> {
        let opened = lock(&self.opened).clone();
        match opened {
            Some(Opened { session, number }) => session
                .client
                .close_descriptor(self.ino, number, PROCESS)
                .map_err(|error| error.errno()),
            None => Ok(()),
        }
    }

    /// Has others see what was written.
    ///
    /// # Errors
    /// Those of earlier writes.
    pub(crate) fn flush(&self) -> Result<(), i32> {
        match &*lock(&self.opened) {
            Some(Opened { session, .. }) => session
                .client
                .report_written(self.ino)
                .map_err(|error| error.errno()),
            None => Ok(()),
        }
    }

    /// Closes it in the session, which may end then; it is opened again when it is used.
    pub(crate) fn detach(&self) {
        if let Some(Opened { session, number }) = lock(&self.opened).take() {
            // The call that could not report writes has told so.
            let _ = pandofs_handles::release(&session.client, self.ino, number);
        }
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.detach();
        if let Place::Shared(page) = *lock(&self.place) {
            page.unmap();
        }
    }
}

/// Kinds as pages have them, by their place here.
const KINDS: [FileKind; 7] = [
    FileKind::File,
    FileKind::Dir,
    FileKind::Symlink,
    FileKind::Fifo,
    FileKind::Socket,
    FileKind::Char,
    FileKind::Block,
];

/// Makes an open file of its own of an inode that the session has opened.
fn begin(session: Arc<Session>, ino: Ino) -> Opened {
    let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    session.client.open_handle(ino, number);
    Opened { session, number }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
