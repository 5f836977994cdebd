//! Commands over a ring of one thread: an entry is given to the kernel, and comes back with a request.

use super::entry::RingEntry;
use crate::device::Device;
use io_uring::opcode::UringCmd80;
use io_uring::squeue::Entry128;
use io_uring::types::Fd;
use io_uring::{IoUring, cqueue};
use rustix::io::Errno;
use std::io;
use std::mem::{ManuallyDrop, offset_of};
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// `enum fuse_uring_cmd`.
const REGISTER: u32 = 1;
const COMMIT_AND_FETCH: u32 = 2;
/// Commands that a ring has room for: one is under way.
const COMMANDS: u32 = 2;
/// Buffers of a command that registers an entry.
const VECTOR_LENGTH: u32 = 2;

/// The fields of `struct io_uring_sqe` up to the one that the library does not set.
#[repr(C)]
struct Head {
    opcode: u8,
    flags: u8,
    ioprio: u16,
    fd: i32,
    off: u64,
    addr: u64,
    len: u32,
}

/// A ring. It is made by any thread, and used by one, the first that calls [`Self::begin`].
pub(crate) struct Ring {
    ring: IoUring<Entry128, cqueue::Entry>,
    device: Arc<Device>,
    queue: u16,
}

/// Outcome of an entry that the kernel was given.
pub(crate) enum Outcome {
    /// It has a request.
    Request(RingEntry),
    /// The file system is unmounted.
    Over,
    /// The kernel refuses the command.
    Refused(RingEntry, io::Error),
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("queue", &self.queue).finish()
    }
}

impl Ring {
    /// For one of the kernel's queues of requests: those of programs on one processor.
    ///
    /// # Errors
    /// Where io_uring is switched off or forbidden, or the kernel too old.
    pub(crate) fn new(device: Arc<Device>, queue: u16) -> io::Result<Ring> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            // The first thread to use it is the one that does from then on.
            .setup_r_disabled()
            .build(COMMANDS)?;
        Ok(Ring {
            ring,
            device,
            queue,
        })
    }

    /// This thread is the one that uses it.
    pub(crate) fn begin(&self) -> io::Result<()> {
        self.ring.submitter().register_enable_rings()
    }

    pub(crate) fn queue(&self) -> u16 {
        self.queue
    }

    /// Tells the kernel of a new entry, without waiting for a request.
    pub(crate) fn register(&mut self, entry: RingEntry) -> io::Result<Given> {
        let vector = entry.vector().as_ptr();
        let mut command = self.command(REGISTER, 0, Some(vector as u64));
        let length = (&raw mut command).cast::<u8>();
        // SAFETY: `Entry128` begins with the kernel's `struct io_uring_sqe` (it is `repr(C)`), of which
        // `Head` is the beginning; the value is this function's own, and any number is one of that field.
        unsafe {
            let length = length.add(offset_of!(Head, len)).cast::<u32>();
            length.write(VECTOR_LENGTH);
        }
        self.give(entry, command)
    }

    /// Sends the answer that is in the entry.
    pub(crate) fn commit(&mut self, entry: RingEntry) -> io::Result<Given> {
        let command = self.command(COMMIT_AND_FETCH, entry.commit_id(), None);
        self.give(entry, command)
    }

    /// `struct fuse_uring_cmd_req` in a command to the device.
    fn command(&self, number: u32, commit_id: u64, vector: Option<u64>) -> Entry128 {
        let mut request = [0; 80];
        request[8..16].copy_from_slice(&commit_id.to_ne_bytes());
        request[16..18].copy_from_slice(&self.queue.to_ne_bytes());
        let device = Fd(std::os::fd::AsFd::as_fd(&*self.device).as_raw_fd());
        UringCmd80::new(device, number)
            .cmd(request)
            .addr(vector)
            .build()
    }

    fn give(&mut self, entry: RingEntry, command: Entry128) -> io::Result<Given> {
        // SAFETY: the descriptor is open as long as `self.device`; the vector and the memory that it
        // names belong to the entry, which `Given` keeps where it is until the command has completed.
        let pushed = unsafe { self.ring.submission().push(&command) };
        pushed.map_err(|_| io::Error::other("a ring has no room for its only command"))?;
        Ok(Given(ManuallyDrop::new(entry)))
    }

    /// Has the kernel take the last command, without waiting for its completion.
    pub(crate) fn submit(&self) -> io::Result<()> {
        self.ring.submit().map(drop)
    }

    /// Has the kernel take the last command, and gives back the memory of what was read, if that is
    /// much.
    pub(crate) fn give_back_memory(&mut self, given: &mut Given) -> io::Result<()> {
        if given.0.uses_much() {
            self.submit()?;
            // The kernel writes to the entry when this thread is in one of these calls only
            // (`DEFER_TASKRUN`), and then there is a completion.
            if self.ring.completion().is_empty() {
                given.0.give_back();
            }
        }
        Ok(())
    }

    /// Has the kernel take the last command, and waits for its completion.
    ///
    /// # Errors
    /// When the ring cannot be used; the entry is lost.
    pub(crate) fn wait(&mut self, given: Given) -> io::Result<Outcome> {
        loop {
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            let Some(completion) = self.ring.completion().next() else {
                continue;
            };
            // It has completed: the kernel writes no more to its memory.
            let entry = ManuallyDrop::into_inner(given.0);
            let number = completion.result();
            if number >= 0 {
                return Ok(Outcome::Request(entry));
            }
            return Ok(match Errno::from_raw_os_error(-number) {
                Errno::NOTCONN | Errno::CONNABORTED | Errno::CANCELED | Errno::NODEV => {
                    Outcome::Over
                }
                error => Outcome::Refused(entry, error.into()),
            });
        }
    }
}

/// An entry that the kernel has. Its memory stays mapped if it is dropped: the kernel may still
/// write there.
pub(crate) struct Given(ManuallyDrop<RingEntry>);
