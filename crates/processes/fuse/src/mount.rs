//! Mounting, unmounting, and what may be at the mount point before.

use crate::leases::RecallListeners;
use crate::ops::PandoFs;
use crate::options::{Cache, Options};
use crate::panic;
use crate::read_ahead;
use crate::request_times::RequestTimes;
use crate::traces::RequestSpans;
use pandofs_client::Client;
use pandofs_fuse_kernel::{Filesystem, Session, THREAD_NAMES, Transport, mount as kernel};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// Why something was not mounted or unmounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The path leads to nothing.
    #[error("{0} is not there; make the directory first")]
    NoMountpoint(PathBuf),
    /// The path leads to a file or a special node.
    #[error("{0} is not a directory")]
    NotADirectory(PathBuf),
    /// The kernel cannot do FUSE.
    #[error("there is no /dev/fuse; load the kernel's module with `modprobe fuse`")]
    NoFuse,
    /// It is not unmounted while it is used.
    #[error("{0} is in use: some program has a file open or its working directory there")]
    Busy(PathBuf),
    /// The system refused a call.
    #[error("cannot {what} {path}: {cause}")]
    System {
        /// The attempt, as a verb.
        what: &'static str,
        /// The mount point.
        path: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
    /// The connection to the kernel broke while the file system was mounted.
    #[error("the mount at {path} ended: {cause}")]
    Ended {
        /// The mount point.
        path: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
}

impl MountError {
    fn system(what: &'static str, path: &Path, cause: impl Into<io::Error>) -> MountError {
        MountError::System {
            what,
            path: path.to_owned(),
            cause: cause.into(),
        }
    }
}

/// A mounted file system. Dropping it unmounts lazily ([`Mounted::detach`]).
#[derive(Debug)]
pub struct Mounted {
    mountpoint: PathBuf,
    /// `None` once joined.
    session: Option<JoinHandle<io::Result<()>>>,
    times: Arc<RequestTimes>,
    transport: Transport,
}

/// Mounts the file system that `client` is connected to.
///
/// A mount whose servers are away waits for them, as long as the client's options say. To end such
/// a mount, [close](Client::close) the client first.
///
/// # Errors
/// When the mount point cannot be used or the kernel does not mount.
pub fn mount(client: Client, mountpoint: &Path, options: Options) -> Result<Mounted, MountError> {
    let filesystem = PandoFs::new(client, options.clone());
    let listeners = RecallListeners {
        kernel: filesystem.kernel.clone(),
        cached: Arc::clone(&filesystem.cached),
        dir_attrs: Arc::clone(&filesystem.dir_attrs),
        dead_dirs: Arc::clone(&filesystem.dead_dirs),
        no_xattrs: Arc::clone(&filesystem.no_xattrs),
    };
    let client = filesystem.client.clone();
    if let Some(spans) = &options.spans
        && client
            .make_spans(Arc::new(RequestSpans(spans.clone())))
            .is_err()
    {
        tracing::warn!("spans of this session's requests are made elsewhere already");
    }
    let times = Arc::clone(&filesystem.times);
    let mut mounted = serve_with(filesystem, mountpoint, &options, |session| {
        listeners.kernel.set(session.notifier());
        if options.cache == Cache::Leases
            && let Err(error) = listeners.listen(&client, &options)
        {
            tracing::error!(%error, "cannot listen for recalls: the mount caches nothing");
        }
    })?;
    mounted.times = times;
    Ok(mounted)
}

/// Mounts any FUSE file system with the session that PandoFS's own mount has (threads, time-outs
/// and abilities are what they are compared with). Its `init` calls [`crate::negotiate`].
///
/// A dead mount at the mount point, left behind by a process that was killed, is taken away.
/// A panic of the file system ends the process.
///
/// # Errors
/// When the mount point cannot be used or the kernel does not mount.
pub fn serve<F: Filesystem>(
    filesystem: F,
    mountpoint: &Path,
    options: &Options,
) -> Result<Mounted, MountError> {
    serve_with(filesystem, mountpoint, options, |_| {})
}

/// As [`serve`]; `begin` is called before the first request is taken.
fn serve_with<F: Filesystem>(
    filesystem: F,
    mountpoint: &Path,
    options: &Options,
    begin: impl FnOnce(&Session<F>),
) -> Result<Mounted, MountError> {
    if !kernel::is_there() {
        return Err(MountError::NoFuse);
    }
    let mountpoint = prepare(mountpoint)?;
    let failed = |cause| MountError::System {
        what: "mount",
        path: mountpoint.clone(),
        cause,
    };
    panic::abort_on_panic();
    let device = options.mount().at(&mountpoint).map_err(failed)?;
    let session = Session::begin(filesystem, device, options.session(), options.io_uring).map_err(
        |error| {
            // It will not be served.
            let _ = unmount(&mountpoint, UnmountFlags::DETACH);
            failed(error)
        },
    )?;
    begin(&session);
    let transport = session.transport();
    let session = thread::Builder::new()
        .name(format!("{THREAD_NAMES}-session"))
        .spawn(move || session.run())
        .map_err(failed)?;
    if let Err(error) = read_ahead::set(&mountpoint, options.memory.read_ahead_bytes()) {
        tracing::debug!(%error, "cannot set the read-ahead: the kernel's default stays");
    }
    tracing::info!(mountpoint = %mountpoint.display(), threads = options.threads, %transport, "mounted");
    Ok(Mounted {
        mountpoint,
        session: Some(session),
        times: Arc::default(),
        transport,
    })
}

/// The mount point as the kernel knows it.
fn prepare(mountpoint: &Path) -> Result<PathBuf, MountError> {
    let metadata = match mountpoint.metadata() {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NOTCONN) => {
            tracing::warn!(mountpoint = %mountpoint.display(), "unmounting a dead mount");
            unmount(mountpoint, UnmountFlags::DETACH)?;
            mountpoint.metadata()
        }
        metadata => metadata,
    };
    match metadata {
        Ok(metadata) if !metadata.is_dir() => Err(MountError::NotADirectory(mountpoint.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(MountError::NoMountpoint(mountpoint.to_owned()))
        }
        Err(error) => Err(MountError::system("mount on", mountpoint, error)),
        Ok(_) => mountpoint
            .canonicalize()
            .map_err(|e| MountError::system("mount on", mountpoint, e)),
    }
}

impl Mounted {
    /// The mount point.
    pub fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }

    /// How long the kernel's requests take. Of another file system than PandoFS ([`serve`]) nothing is told.
    pub fn request_times(&self) -> Arc<RequestTimes> {
        Arc::clone(&self.times)
    }

    /// The way by which requests of the kernel come.
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// Unmounts. Programs' writes are flushed before: they closed their files.
    ///
    /// # Errors
    /// [`MountError::Busy`] when it is in use; then it stays mounted.
    pub fn unmount(&self) -> Result<(), MountError> {
        self.unmount_with(UnmountFlags::empty())
    }

    /// Takes it out of the directory tree at once; programs that use it go on until they are done,
    /// which ends the session.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn detach(&self) -> Result<(), MountError> {
        self.unmount_with(UnmountFlags::DETACH)
    }

    fn unmount_with(&self, flags: UnmountFlags) -> Result<(), MountError> {
        // Somebody else may have unmounted it and mounted something else there.
        if self.is_over() {
            Ok(())
        } else {
            unmount(&self.mountpoint, flags)
        }
    }

    /// Returns whether the session has ended.
    pub fn is_over(&self) -> bool {
        self.session.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits until it is unmounted, by whomever.
    ///
    /// # Errors
    /// When the session ended otherwise.
    pub fn join(mut self) -> Result<(), MountError> {
        let Some(session) = self.session.take() else {
            return Ok(());
        };
        let result = match session.join() {
            Ok(result) => result,
            Err(_) => Err(io::Error::other("the session's thread panicked")),
        };
        result.map_err(|cause| MountError::Ended {
            path: self.mountpoint.clone(),
            cause,
        })
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Err(error) = self.detach() {
            tracing::warn!(%error, "cannot unmount: the mount stays");
        }
    }
}

/// Unmounts what is mounted at `path`; fine if nothing is.
fn unmount(path: &Path, flags: UnmountFlags) -> Result<(), MountError> {
    kernel::unmount(path, flags).map_err(|error| match error.kind() {
        io::ErrorKind::ResourceBusy => MountError::Busy(path.to_owned()),
        _ => MountError::system("unmount", path, error),
    })
}
