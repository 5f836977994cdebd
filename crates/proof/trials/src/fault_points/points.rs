//! The files by which servers and a trial speak about fault points; see `pandofs-server`'s `faults`.

use anyhow::{Context, Result};
use pandofs_types::ServerId;
use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(super) struct Points {
    folder: PathBuf,
}

impl Points {
    pub(super) fn new(folder: &Path) -> Points {
        Points {
            folder: folder.to_path_buf(),
        }
    }

    /// All points that any of the servers has passed.
    ///
    /// # Errors
    /// Fails if the notes cannot be read.
    pub(super) fn seen(&self, servers: &[ServerId]) -> Result<BTreeSet<String>> {
        let mut all = BTreeSet::new();
        for &server in servers {
            all.extend(self.noted(server, "seen")?);
        }
        Ok(all)
    }

    /// Points at which a server has died so far, in this order.
    ///
    /// # Errors
    /// Fails if the notes cannot be read.
    pub(super) fn died(&self, server: ServerId) -> Result<Vec<String>> {
        self.noted(server, "died")
    }

    fn noted(&self, server: ServerId, what: &str) -> Result<Vec<String>> {
        let path = self.folder.join(format!("server-{server}.{what}"));
        match fs::read_to_string(&path) {
            // A server that is killed while it writes leaves a line without its end.
            Ok(text) => Ok(text
                .split_inclusive('\n')
                .filter_map(|line| line.strip_suffix('\n'))
                .map(str::to_string)
                .collect()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error).with_context(|| path.display().to_string()),
        }
    }

    /// Tells a server to die at the next point with `part` in its name that is none of these.
    ///
    /// # Errors
    /// Fails if it cannot be written.
    pub(super) fn arm(
        &self,
        server: ServerId,
        part: &str,
        spared: &BTreeSet<String>,
    ) -> Result<()> {
        let mut order = format!("{part}\n");
        for point in spared {
            order.push_str(point);
            order.push('\n');
        }
        self.order(server, &order)
    }

    /// Takes back a server's order.
    ///
    /// # Errors
    /// Fails if it cannot be written.
    pub(super) fn disarm(&self, server: ServerId) -> Result<()> {
        self.order(server, "")
    }

    /// The server finds either nothing or the whole of it.
    fn order(&self, server: ServerId, order: &str) -> Result<()> {
        let path = self.folder.join(format!("server-{server}.armed"));
        let new = self.folder.join(format!("server-{server}.new"));
        fs::write(&new, order).with_context(|| new.display().to_string())?;
        fs::rename(&new, &path).with_context(|| path.display().to_string())
    }

    /// Returns whether the server has an order that it has not read.
    pub(super) fn has_order(&self, server: ServerId) -> bool {
        self.folder.join(format!("server-{server}.armed")).exists()
    }
}
