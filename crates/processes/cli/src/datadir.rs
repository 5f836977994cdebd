//! The directory of a cluster made by `pandofs up`: where everything is in it, and who holds it.

use anyhow::{Context, Result, bail};
use pandofs_types::ServerId;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

/// Files of a data directory:
///
/// ```text
/// DIR/cluster.json       the cluster map
/// DIR/lock               locked while `pandofs up` runs on DIR; holds its process id
/// DIR/up-log.txt         what `up` saw happen
/// DIR/mount.pid          process id of the mount, while there is one
/// DIR/mount-log.txt      what the mount logged
/// DIR/server-N/data      the server's logs, stores and data objects
/// DIR/server-N/socket    where it listens, unless it does on TCP
/// DIR/server-N/pid       its process id, while it runs under `up`
/// DIR/server-N/log.txt   what it logged
/// ```
#[derive(Clone, Debug)]
pub(crate) struct DataDir {
    root: PathBuf,
}

impl DataDir {
    pub(crate) fn new(root: impl Into<PathBuf>) -> DataDir {
        DataDir { root: root.into() }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn cluster_map(&self) -> PathBuf {
        self.root.join("cluster.json")
    }

    /// Is there while the cluster is being made.
    pub(crate) fn in_the_making(&self) -> PathBuf {
        self.root.join("cluster.json.making")
    }

    fn lock(&self) -> PathBuf {
        self.root.join("lock")
    }

    pub(crate) fn up_log(&self) -> PathBuf {
        self.root.join("up-log.txt")
    }

    pub(crate) fn mount_pid(&self) -> PathBuf {
        self.root.join("mount.pid")
    }

    pub(crate) fn mount_log(&self) -> PathBuf {
        self.root.join("mount-log.txt")
    }

    /// All that belongs to one server.
    pub(crate) fn server(&self, id: ServerId) -> PathBuf {
        self.root.join(format!("server-{id}"))
    }

    pub(crate) fn server_data(&self, id: ServerId) -> PathBuf {
        self.server(id).join("data")
    }

    pub(crate) fn server_socket(&self, id: ServerId) -> PathBuf {
        self.server(id).join("socket")
    }

    pub(crate) fn server_pid(&self, id: ServerId) -> PathBuf {
        self.server(id).join("pid")
    }

    pub(crate) fn server_log(&self, id: ServerId) -> PathBuf {
        self.server(id).join("log.txt")
    }

    /// Something in the directory that is no cluster's: the wrong directory was named.
    /// Empty directories do no harm, and a new file system on a disk has its own.
    ///
    /// # Errors
    /// The system's, with the path.
    pub(crate) fn foreign_entry(&self) -> Result<Option<PathBuf>> {
        const OURS: [&str; 4] = ["lock", "up-log.txt", "mount.pid", "mount-log.txt"];
        let cannot = || format!("cannot read {}", self.root.display());
        for entry in fs::read_dir(&self.root).with_context(cannot)? {
            let entry = entry.with_context(cannot)?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let is_ours = OURS.contains(&&*name)
                || name.starts_with("cluster.json")
                || name.starts_with("server-")
                || name == "lost+found";
            let is_empty_dir = || fs::read_dir(entry.path()).is_ok_and(|all| all.count() == 0);
            if !is_ours && !is_empty_dir() {
                return Ok(Some(entry.path()));
            }
        }
        Ok(None)
    }

    /// Whether `up` runs on it.
    ///
    /// # Errors
    /// The system's, with the path.
    pub(crate) fn is_held(&self) -> Result<bool> {
        let path = self.lock();
        let lock = match File::open(&path) {
            Ok(lock) => lock,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot open {}", path.display()));
            }
        };
        match lock.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => {
                Err(error).with_context(|| format!("cannot lock {}", path.display()))
            }
        }
    }

    /// Holds the directory until the guard is dropped or the process ends.
    ///
    /// # Errors
    /// When another process holds it, with that one's id; or the system's, with the path.
    pub(crate) fn hold(&self) -> Result<HeldDataDir> {
        let path = self.lock();
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .with_context(|| format!("cannot open {}", path.display()))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // Only for the message: that there is a holder is known.
                let _ = lock.read_to_string(&mut holder);
                let holder = holder.trim();
                let who = if holder.is_empty() {
                    String::new()
                } else {
                    format!(" (pid {holder})")
                };
                bail!(
                    "another 'pandofs up'{who} runs on {}: stop that one, or choose another --data",
                    self.root.display()
                );
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock {}", path.display()));
            }
        }
        let mut write = || -> std::io::Result<()> {
            lock.set_len(0)?;
            lock.rewind()?;
            writeln!(lock, "{}", std::process::id())
        };
        write().with_context(|| format!("cannot write {}", path.display()))?;
        Ok(HeldDataDir { _lock: lock })
    }
}

/// The right to run a cluster in a [`DataDir`].
#[derive(Debug)]
pub(crate) struct HeldDataDir {
    _lock: File,
}

/// Writes `contents` to `path` so that a reader sees the old or the new file, whole.
///
/// # Errors
/// The system's, with the path.
pub(crate) fn write_atomically(path: &Path, contents: &str) -> Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = PathBuf::from(name);
    let write = || -> std::io::Result<()> {
        let mut file = File::create(&new)?;
        file.write_all(contents.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        if let Some(parent) = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
        {
            File::open(parent)?.sync_all()?;
        }
        Ok(())
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_holds_a_directory() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = DataDir::new(scratch.path());
        assert!(!dir.is_held().unwrap());
        let held = dir.hold().unwrap();
        assert!(dir.is_held().unwrap());
        let refusal = dir.hold().unwrap_err().to_string();
        assert!(
            refusal.contains(&format!("(pid {})", std::process::id())),
            "{refusal}"
        );
        drop(held);
        assert!(!dir.is_held().unwrap());
        dir.hold().unwrap();
    }

    #[test]
    fn what_is_no_clusters_is_found() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = DataDir::new(scratch.path());
        for name in ["server-0/data", "lost+found/file", "mount-point"] {
            fs::create_dir_all(scratch.path().join(name)).unwrap();
        }
        let held = dir.hold().unwrap();
        for path in [dir.up_log(), dir.in_the_making(), dir.mount_log()] {
            fs::write(path, "").unwrap();
        }
        assert_eq!(dir.foreign_entry().unwrap(), None);
        let foreign = scratch.path().join("passwd");
        fs::write(&foreign, "").unwrap();
        assert_eq!(dir.foreign_entry().unwrap(), Some(foreign));
        drop(held);
    }

    #[test]
    fn a_file_is_replaced_whole() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("file");
        write_atomically(&path, "one").unwrap();
        write_atomically(&path, "two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1);
        let missing = write_atomically(&scratch.path().join("no/file"), "x").unwrap_err();
        assert!(missing.to_string().contains("no/file"));
    }
}
