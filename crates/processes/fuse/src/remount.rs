//! Changing a mounted file system: the kernel's flags and those of the process that serves it.
//!
//! The process is asked by an `ioctl` of the root directory, which reaches it also of a mount that
//! is read-only, and from any mount name space. It is asked twice: before the kernel is changed, if
//! it can be changed so, and after, to do it. A change that is not possible then leaves everything
//! as it was.

use crate::call::Call;
use crate::ops::PandoFs;
use crate::options::KernelFlags;
use pandofs_fuse_kernel::Errno;
use pandofs_types::{Capabilities, Ino};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::ioctl::{Updater, ioctl, opcode};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, Ordering};

/// Bytes of a message, with zeros at its end.
const MESSAGE_BYTES: usize = 2_048;
type Message = [u8; MESSAGE_BYTES];
/// A group and a number that Linux's list of those in use (Documentation/userspace-api/ioctl) does
/// not have.
const CHANGE: rustix::ioctl::Opcode = opcode::read_write::<Message>(0xdf, 1);

/// A setting of a mount and its value, in the words of `-o`.
pub type Setting = (String, String);

/// Why a mount was not changed.
#[derive(Debug, thiserror::Error)]
pub enum RemountError {
    /// The option, as it was written.
    #[error("{0} cannot be changed while it is mounted: unmount it and mount it again")]
    Fixed(String),
    /// They do not fit the message to the process.
    #[error("too many options for a mount that is to be changed")]
    TooLong,
    /// An older release, or another file system.
    #[error(
        "{0} is served by a process that cannot be asked to change it: unmount it and mount it again"
    )]
    Unknown(PathBuf),
    /// The kernel or the process refused.
    #[error("cannot change the mount at {path}: {cause}")]
    System {
        /// The mount point.
        path: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
}

/// A question to the process that serves a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Change {
    /// Otherwise only whether it is possible.
    is_now: bool,
    kernel: KernelFlags,
    /// The answer about settings that cannot be changed.
    given: Vec<Setting>,
}

impl Change {
    /// `None` if it is too long.
    fn encode(&self) -> Option<Message> {
        let mut text = format!("{}\n{}\n", u8::from(self.is_now), self.kernel.bits());
        for (name, value) in &self.given {
            text += &format!("{name}={value}\n");
        }
        let mut message = [0; MESSAGE_BYTES];
        message
            .get_mut(..text.len())?
            .copy_from_slice(text.as_bytes());
        Some(message)
    }

    fn decode(message: &[u8]) -> Option<Change> {
        let mut lines = text_of(message)?.lines();
        let is_now = match lines.next()? {
            "0" => false,
            "1" => true,
            _ => return None,
        };
        let kernel = KernelFlags::of_bits(lines.next()?.parse().ok()?)?;
        let given = lines.map(|line| {
            let (name, value) = line.split_once('=')?;
            Some((name.to_owned(), value.to_owned()))
        });
        Some(Change {
            is_now,
            kernel,
            given: given.collect::<Option<_>>()?,
        })
    }
}

/// The bytes before the zeros.
fn text_of(message: &[u8]) -> Option<&str> {
    let end = message.iter().position(|&byte| byte == 0);
    std::str::from_utf8(&message[..end.unwrap_or(message.len())]).ok()
}

/// Changes a file system that is mounted: what the kernel sees to, and what its process makes of
/// that. `given` are settings that were spoken of and cannot be changed: they have to be what they
/// are.
///
/// # Errors
/// When one of those is to be another; the system's, of kind [`io::ErrorKind::ResourceBusy`] when
/// nothing is to be changed any more and a file is open for writing.
pub fn remount(
    mountpoint: &Path,
    kernel: &KernelFlags,
    given: &[Setting],
) -> Result<(), RemountError> {
    let failed = |cause: rustix::io::Errno| RemountError::System {
        path: mountpoint.to_owned(),
        cause: cause.into(),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::openat(CWD, mountpoint, flags, Mode::empty()).map_err(failed)?;
    let ask = |is_now| {
        let change = Change {
            is_now,
            kernel: *kernel,
            given: given.to_vec(),
        };
        let mut message = change.encode().ok_or(RemountError::TooLong)?;
        // SAFETY: a server of the directory's file system that knows the request reads and writes no more than a
        // message; the kernel sees to that, by the size in the request's number.
        let asked = unsafe { ioctl(&root, Updater::<CHANGE, Message>::new(&mut message)) };
        match asked {
            Ok(()) => {}
            Err(rustix::io::Errno::NOTTY) => {
                return Err(RemountError::Unknown(mountpoint.to_owned()));
            }
            Err(errno) => return Err(failed(errno)),
        }
        match text_of(&message) {
            Some("") => Ok(()),
            refused => Err(RemountError::Fixed(refused.unwrap_or_default().to_owned())),
        }
    };
    ask(false)?;
    rustix::mount::mount_remount(mountpoint, kernel.of_mount(), c"").map_err(failed)?;
    ask(true)
}

/// The flags that a process goes by.
#[derive(Debug)]
pub(crate) struct Flags(AtomicU16);

impl Flags {
    pub(crate) fn new(flags: KernelFlags) -> Flags {
        Flags(AtomicU16::new(flags.bits()))
    }

    pub(crate) fn get(&self) -> KernelFlags {
        let bits = self.0.load(Ordering::Relaxed);
        KernelFlags::of_bits(bits).expect("only flags are ever set")
    }

    fn set(&self, flags: KernelFlags) {
        self.0.store(flags.bits(), Ordering::Relaxed);
    }
}

impl PandoFs {
    /// Handles a program's `ioctl` on the directory `ino`.
    pub(crate) fn control(
        &self,
        call: &Call,
        ino: Ino,
        request: u32,
        message: &[u8],
    ) -> Result<Vec<u8>, Errno> {
        if request != CHANGE || ino != Ino::ROOT {
            return Err(Errno::ENOTTY);
        }
        // The right to mount.
        if !call.caller().capable().has(Capabilities::SYS_ADMIN) {
            return Err(Errno::EPERM);
        }
        let change = Change::decode(message).ok_or(Errno::EINVAL)?;
        let mut answer = vec![0; message.len()];
        if let Some(name) = differing(&change.given, &self.options.settings) {
            let length = name.len().min(answer.len());
            answer[..length].copy_from_slice(&name.as_bytes()[..length]);
        } else if change.is_now {
            self.flags.set(change.kernel);
            tracing::info!(flags = ?change.kernel, "remounted");
        }
        Ok(answer)
    }
}

/// The first that is not as it is.
fn differing<'a>(given: &'a [Setting], settings: &[Setting]) -> Option<&'a str> {
    let differs = |setting: &&Setting| !settings.contains(setting);
    given.iter().find(differs).map(|(name, _)| name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Atime;

    fn setting(name: &str, value: &str) -> Setting {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn a_change_is_read_as_it_was_written() {
        let change = Change {
            is_now: true,
            kernel: KernelFlags {
                read_only: true,
                synced_names: true,
                atime: Atime::Kept,
                ..KernelFlags::default()
            },
            given: vec![setting("soft", "3s"), setting("context", "a=b")],
        };
        let message = change.encode().unwrap();
        assert_eq!(Change::decode(&message), Some(change.clone()));
        for wrong in ["", "2\n0\n", "1\nx\n", "1\n60000\n", "1\n0\nsoft\n"] {
            assert_eq!(Change::decode(wrong.as_bytes()), None, "{wrong:?}");
        }
        let long = Change {
            given: vec![setting("context", &"x".repeat(MESSAGE_BYTES))],
            ..change
        };
        assert_eq!(long.encode(), None);
    }

    #[test]
    fn what_is_as_it_is_may_be_said_again() {
        let settings = [setting("soft", "3s"), setting("cache", "leases")];
        assert_eq!(differing(&settings[1..], &settings), None);
        let given = [setting("cache", "leases"), setting("soft", "4s")];
        assert_eq!(differing(&given, &settings), Some("soft"));
    }
}
