//! A mounted file system's session with the kernel.

use crate::options::Options;
use fuser::{Filesystem, Session};
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

#[derive(Debug, thiserror::Error)]
pub enum MountError {
    #[error("mount: {0}")]
    Io(#[from] io::Error),
}

pub struct Mounted {
    session: JoinHandle<io::Result<()>>,
    mountpoint: PathBuf,
}

pub fn serve<F: Filesystem>(fs: F, mountpoint: &Path, options: &Options) -> Result<Mounted, MountError> {
    let session = Session::new(fs, mountpoint, &options.session())?;
    Ok(Mounted {
        session: std::thread::Builder::new().name("fuser".into()).spawn(move || session.run())?,
        mountpoint: mountpoint.canonicalize()?,
    })
}

impl Mounted {
    pub fn unmount(&self) -> Result<(), MountError> {
        rustix::mount::unmount(&self.mountpoint, rustix::mount::UnmountFlags::empty()).map_err(io::Error::from)?;
        Ok(())
    }
    pub fn join(self) -> Result<(), MountError> {
        Ok(self.session.join().expect("x")?)
    }
}
