//! `/dev/fuse`: requests come from it, answers go to it.

use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use std::fs::OpenOptions;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Its path.
pub(crate) const PATH: &str = "/dev/fuse";

/// `FUSE_DEV_IOC_CLONE`.
const CLONE: Opcode = opcode::read::<u32>(229, 0);

/// One end of a connection to the kernel.
#[derive(Debug)]
pub(crate) struct Device(OwnedFd);

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Device {
    pub(crate) fn new(device: OwnedFd) -> Device {
        Device(device)
    }

    pub(crate) fn open() -> io::Result<OwnedFd> {
        let opened = OpenOptions::new().read(true).write(true).open(PATH)?;
        Ok(opened.into())
    }

    /// A further end of the same connection, with a queue of its own in the kernel for requests
    /// that are being handled: threads do not contend for one.
    pub(crate) fn another(&self) -> io::Result<Device> {
        let device = Device(Device::open()?);
        let mut connected = self.0.as_raw_fd() as u32;
        // SAFETY: the request reads a descriptor's number from where the pointer points, and keeps nothing of it.
        unsafe { ioctl(&device.0, Updater::<CLONE, u32>::new(&mut connected))? };
        Ok(device)
    }

    /// Waits for a request and reads it, one at a time; `None` when the file system is unmounted.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match rustix::io::read(&self.0, &mut *buffer) {
                Ok(size) => return Ok(Some(size)),
                // The program that asked was interrupted before the request was read, or this
                // thread was.
                Err(Errno::NOENT | Errno::INTR | Errno::AGAIN) => {}
                // The second is told to a thread that had taken a request off the queue just when
                // the file system was unmounted.
                Err(Errno::NODEV | Errno::CONNABORTED) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sends one message; the kernel takes all of it or nothing.
    pub(crate) fn send(&self, parts: &[IoSlice<'_>]) -> io::Result<()> {
        loop {
            match rustix::io::writev(&self.0, parts) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
