//! Operations through the kernel.

use super::{Target, TargetError};
use crate::op::{Kind, Op, unescape};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, StatxFlags, Timespec, Timestamps, UTIME_NOW,
    XattrFlags,
};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Below a directory, through the kernel.
#[derive(Clone, Debug)]
pub struct Kernel {
    root: PathBuf,
    /// A `stat` asks the file system, whatever the kernel caches.
    always_asks: bool,
}

impl Kernel {
    /// Paths are below `root`, which may be on any file system.
    pub fn new(root: &Path) -> Kernel {
        Kernel {
            root: root.to_owned(),
            always_asks: false,
        }
    }

    /// For a replay, in which a `stat` was one that had reached the file system.
    pub fn that_asks(root: &Path) -> Kernel {
        Kernel {
            always_asks: true,
            ..Kernel::new(root)
        }
    }

    fn place(&self, path: &str) -> io::Result<PathBuf> {
        let path = unescape(path).ok_or(ErrorKind::InvalidInput)?;
        if path.is_empty() {
            return Ok(self.root.clone());
        }
        Ok(self.root.join(OsString::from_vec(path)))
    }

    fn try_it(&self, op: &Op) -> io::Result<()> {
        let path = self.place(&op.path)?;
        let to = || self.place(op.to.as_ref().ok_or(ErrorKind::InvalidInput)?);
        match op.op {
            Kind::Mkdir => Ok(rustix::fs::mkdir(&path, mode(op, 0o777))?),
            Kind::Create => {
                let mut options = File::options();
                options.write(true).create_new(true);
                let mut file = options
                    .mode(u32::from(op.mode.unwrap_or(0o666)))
                    .open(path)?;
                match op.size {
                    Some(size) => file.set_len(size)?,
                    None => write_zeros(&mut file, op.bytes)?,
                }
                Ok(())
            }
            // The path is walked, and no one asks what is there.
            Kind::Lookup => {
                let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                Ok(rustix::fs::open(path, flags, Mode::empty()).map(drop)?)
            }
            Kind::Stat if self.always_asks => {
                let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_FORCE_SYNC;
                Ok(rustix::fs::statx(CWD, path, flags, StatxFlags::BASIC_STATS).map(drop)?)
            }
            Kind::Stat => fs::symlink_metadata(path).map(drop),
            Kind::Utime => {
                let file = File::options().write(true).open(path)?;
                file.set_modified(SystemTime::now())
            }
            Kind::Setattr => set_attributes(op, &path),
            Kind::Open => match op.size {
                Some(size) => File::options().write(true).open(path)?.set_len(size),
                None => File::open(path).map(drop),
            },
            Kind::Read => {
                let mut buffer = vec![0; op.bytes as usize];
                let mut file = File::open(path)?;
                match op.offset {
                    Some(offset) => file.read_at(&mut buffer, offset).map(drop),
                    None => file.read(&mut buffer).map(drop),
                }
            }
            Kind::Write => match op.offset {
                Some(offset) => {
                    let file = File::options().write(true).open(path)?;
                    file.write_all_at(&vec![0; op.bytes as usize], offset)
                }
                None => write_zeros(&mut File::options().append(true).open(path)?, op.bytes),
            },
            Kind::Allocate => {
                let file = File::options().write(true).open(path)?;
                match op.size {
                    Some(size) if file.metadata()?.len() < size => file.set_len(size),
                    _ => Ok(()),
                }
            }
            Kind::Readdir => {
                for entry in fs::read_dir(path)? {
                    entry?;
                }
                Ok(())
            }
            Kind::Rename | Kind::Renamedir if op.exclusive => Ok(rustix::fs::renameat_with(
                CWD,
                path,
                CWD,
                to()?,
                RenameFlags::NOREPLACE,
            )?),
            Kind::Rename | Kind::Renamedir => fs::rename(path, to()?),
            Kind::Exchange => Ok(rustix::fs::renameat_with(
                CWD,
                path,
                CWD,
                to()?,
                RenameFlags::EXCHANGE,
            )?),
            Kind::Link => fs::hard_link(path, to()?),
            Kind::Symlink => Ok(rustix::fs::symlink(super::link_target(op), path)?),
            Kind::Readlink => fs::read_link(path).map(drop),
            Kind::Mknod => {
                let kind = match op.name.as_deref() {
                    Some("socket") => FileType::Socket,
                    _ => FileType::Fifo,
                };
                Ok(rustix::fs::mknodat(CWD, path, kind, mode(op, 0o666), 0)?)
            }
            Kind::Unlink => fs::remove_file(path),
            Kind::Rmdir => fs::remove_dir(path),
            Kind::Getxattr => {
                let mut value = vec![0; pandofs_types::limits::MAX_XATTR_VALUE_BYTES];
                Ok(rustix::fs::lgetxattr(path, attribute(op)?, value.as_mut_slice()).map(drop)?)
            }
            Kind::Listxattr => {
                let mut names = vec![0; pandofs_types::limits::MAX_XATTR_BYTES_PER_INODE as usize];
                Ok(rustix::fs::llistxattr(path, names.as_mut_slice()).map(drop)?)
            }
            Kind::Setxattr => {
                let value = vec![0; op.bytes as usize];
                let flags = XattrFlags::empty();
                Ok(rustix::fs::lsetxattr(path, attribute(op)?, &value, flags)?)
            }
            Kind::Removexattr => Ok(rustix::fs::lremovexattr(path, attribute(op)?)?),
        }
    }
}

fn mode(op: &Op, otherwise: u16) -> Mode {
    Mode::from_raw_mode(u32::from(op.mode.unwrap_or(otherwise)))
}

fn attribute(op: &Op) -> io::Result<Vec<u8>> {
    let name = op.name.as_deref().and_then(unescape);
    Ok(name.ok_or(ErrorKind::InvalidInput)?)
}

fn set_times(path: &Path) -> io::Result<()> {
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: UTIME_NOW,
    };
    let times = Timestamps {
        last_access: now,
        last_modification: now,
    };
    Ok(rustix::fs::utimensat(
        CWD,
        path,
        &times,
        AtFlags::SYMLINK_NOFOLLOW,
    )?)
}

fn set_attributes(op: &Op, path: &Path) -> io::Result<()> {
    if op.uid.is_some() || op.gid.is_some() {
        std::os::unix::fs::lchown(path, op.uid, op.gid)?;
    }
    if op.mode.is_some() {
        rustix::fs::chmod(path, mode(op, 0))?;
    }
    if let Some(size) = op.size {
        File::options().write(true).open(path)?.set_len(size)?;
    }
    if op.times {
        set_times(path)?;
    }
    Ok(())
}

fn write_zeros(file: &mut File, bytes: u32) -> io::Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    file.write_all(&vec![0; bytes as usize])
}

impl Target for Kernel {
    fn perform(&mut self, op: &Op) -> Result<(), TargetError> {
        self.try_it(op).map_err(|cause| TargetError::Kernel {
            op: op.op,
            path: op.path.clone(),
            cause,
        })
    }
}
