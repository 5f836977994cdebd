//! The files by which servers and a trial speak about fault points; see `pandofs-server`'s `faults`.

use anyhow::{Context, Result};
use pandofs_api::ServerStatus;
use pandofs_types::ServerId;
use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub struct Points {
    folder: PathBuf,
}

impl Points {
    pub fn new(folder: &Path) -> Points {
        Points {
            folder: folder.to_path_buf(),
        }
    }

    /// All points that any of the servers has passed.
    ///
    /// # Errors
    /// When the notes cannot be read.
    pub fn seen(&self, servers: &[ServerStatus]) -> Result<BTreeSet<String>> {
        let mut all = BTreeSet::new();
        for server in servers {
            all.extend(self.noted(server.id, "seen")?);
        }
        Ok(all)
    }

    /// Whether one of the servers has died at this point.
    ///
    /// # Errors
    /// When the notes cannot be read.
    pub fn died_at(&self, point: &str, servers: &[ServerId]) -> Result<bool> {
        for &server in servers {
            if self.noted(server, "died")?.contains(point) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn noted(&self, server: ServerId, what: &str) -> Result<BTreeSet<String>> {
        let path = self.folder.join(format!("server-{server}.{what}"));
        match fs::read_to_string(&path) {
            // A server that is killed while it writes leaves a line without its end.
            Ok(text) => Ok(text
                .split_inclusive('\n')
                .filter_map(|line| line.strip_suffix('\n'))
                .map(str::to_string)
                .collect()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(BTreeSet::new()),
            Err(error) => Err(error).with_context(|| path.display().to_string()),
        }
    }

    /// Tells a server where to die. It finds either nothing or the whole of it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn arm(&self, server: ServerId, point: &str) -> Result<()> {
        let path = self.folder.join(format!("server-{server}.armed"));
        let new = self.folder.join(format!("server-{server}.new"));
        fs::write(&new, point).with_context(|| new.display().to_string())?;
        fs::rename(&new, &path).with_context(|| path.display().to_string())
    }

    /// Whether the server has an order that it has not read.
    pub fn is_armed(&self, server: ServerId) -> bool {
        self.folder.join(format!("server-{server}.armed")).exists()
    }
}
