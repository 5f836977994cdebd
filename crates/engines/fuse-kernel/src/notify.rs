//! Messages to the kernel that answer no request: invalidations of its caches.

use crate::bytes::Writer;
use crate::device::Device;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

const INVAL_INODE: i32 = 2;
const INVAL_ENTRY: i32 = 3;
const RETRIEVE: i32 = 5;
/// The entry is to be asked for again, and stays where it is (of protocol 7.38).
const EXPIRE_ONLY: u32 = 1;

/// The sender of such messages.
#[derive(Clone, Debug)]
pub struct Notifier {
    device: Arc<Device>,
}

impl Notifier {
    pub(crate) fn new(device: Arc<Device>) -> Notifier {
        Notifier { device }
    }

    /// Invalidates an inode's attributes, and so many bytes of what it contains from the offset on
    /// (0: all), or none if the offset is negative.
    ///
    /// # Errors
    /// When the kernel refuses; not if it does not know the inode.
    pub fn inval_inode(&self, ino: u64, offset: i64, length: i64) -> io::Result<()> {
        self.send(INVAL_INODE, &[inode(ino, offset, length).as_bytes()])
    }

    /// Has the kernel forget an entry as if it had been removed.
    ///
    /// # Errors
    /// When the kernel refuses; not if it does not know the entry.
    pub fn inval_entry(&self, dir: u64, name: &OsStr) -> io::Result<()> {
        let head = entry(dir, name, 0);
        self.send(INVAL_ENTRY, &[head.as_bytes(), name.as_bytes(), &[0]])
    }

    /// Has the kernel ask for an entry before it believes in it the next time. Unlike with
    /// [`Self::inval_entry`] it stays where it is for programs that use it.
    ///
    /// # Errors
    /// When the kernel refuses; not if it does not know the entry.
    pub fn expire_entry(&self, dir: u64, name: &OsStr) -> io::Result<()> {
        let head = entry(dir, name, EXPIRE_ONLY);
        self.send(INVAL_ENTRY, &[head.as_bytes(), name.as_bytes(), &[0]])
    }

    /// Has the kernel send a request of this number about a regular file, in the queue of this
    /// processor if there are several: it asks for bytes that the kernel has of it, none of them.
    ///
    /// # Errors
    /// When the kernel does not know the file, or it is no regular one.
    pub(crate) fn ask_back(&self, number: u64, file: u64) -> io::Result<()> {
        let asked = retrieve(number, file);
        self.device
            .send_with_header(0, RETRIEVE, &[asked.as_bytes()])
    }

    fn send(&self, code: i32, parts: &[&[u8]]) -> io::Result<()> {
        match self.device.send_with_header(0, code, parts) {
            // It has forgotten it by itself.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            sent => sent,
        }
    }
}

/// `struct fuse_notify_inval_inode_out`.
fn inode(ino: u64, offset: i64, length: i64) -> Writer {
    let mut to = Writer::new();
    to.u64(ino).i64(offset).i64(length);
    to
}

/// `struct fuse_notify_retrieve_out`, for no bytes.
fn retrieve(number: u64, ino: u64) -> Writer {
    let mut to = Writer::new();
    to.u64(number).u64(ino).u64(0).u32(0).u32(0);
    to
}

/// `struct fuse_notify_inval_entry_out`; the name and a zero follow.
fn entry(dir: u64, name: &OsStr, flags: u32) -> Writer {
    let mut to = Writer::new();
    to.u64(dir).u32(name.len() as u32).u32(flags);
    to
}

#[cfg(test)]
pub(crate) mod samples {
    use super::*;

    /// Each kind of message as it is sent.
    pub(crate) fn all() -> Vec<(&'static str, Vec<u8>)> {
        let name = OsStr::new("leaf");
        let message = |code, parts: &[&[u8]]| {
            let mut bytes = crate::reply::header(0, code, parts).as_bytes().to_vec();
            parts.iter().for_each(|part| bytes.extend_from_slice(part));
            bytes
        };
        let named =
            |head: &Writer| message(INVAL_ENTRY, &[head.as_bytes(), name.as_bytes(), &[0][..]]);
        vec![
            (
                "inval_inode",
                message(INVAL_INODE, &[inode(0x42, 100, 200).as_bytes()]),
            ),
            ("inval_entry", named(&entry(0x42, name, 0))),
            ("expire_entry", named(&entry(0x42, name, EXPIRE_ONLY))),
        ]
    }
}
