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
            all.extend(self.seen_by(server.id)?);
        }
        Ok(all)
    }

    /// The servers that have passed this one.
    ///
    /// # Errors
    /// When the notes cannot be read.
    pub fn who_saw(&self, point: &str, servers: &[ServerStatus]) -> Result<Vec<ServerId>> {
        let mut who = Vec::new();
        for server in servers {
            if self.seen_by(server.id)?.contains(point) {
                who.push(server.id);
            }
        }
        Ok(who)
    }

    fn seen_by(&self, server: ServerId) -> Result<BTreeSet<String>> {
        let path = self.folder.join(format!("server-{server}.seen"));
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

    /// Takes the order back, whether the server has read it or not.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn disarm(&self, server: ServerId) -> Result<()> {
        self.arm(server, "")
    }
}
