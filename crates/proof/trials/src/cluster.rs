//! The running cluster, as all trials need it.

use anyhow::{Context, Result, ensure};
use pandofs_api::ServerStatus;
use pandofs_client::{Client, Options};
use pandofs_types::{Credentials, Ino, Name};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Credentials of the trials.
pub(crate) const CALLER: Credentials = Credentials::ROOT;
/// Time for which a call may go on asking a server that does not answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Which cluster, and which chances.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Common {
    /// The cluster map
    #[arg(long, value_name = "FILE")]
    pub cluster: PathBuf,
    /// Seed of random choices
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl Common {
    /// A client of its own session, caches and connections.
    ///
    /// # Errors
    /// Fails if the map cannot be read.
    pub(crate) fn client(&self) -> Result<Client> {
        let options = Options {
            soft: Some(PATIENCE),
            ..Options::default()
        };
        Client::open(&self.cluster, options)
            .with_context(|| format!("no client of {}", self.cluster.display()))
    }
}

/// A directory in the root that was not there before; `what` and the next free number are its name.
///
/// # Errors
/// The file system's.
pub(crate) fn fresh_directory(client: &Client, parent: Ino, what: &str) -> Result<(Name, Ino)> {
    use pandofs_client::ClientError;
    use pandofs_types::FsError;
    for number in 0_u32.. {
        let name = name(&format!("{what}-{number}"))?;
        match client.mkdir(&CALLER, parent, &name, 0o755) {
            Ok(node) => return Ok((name, node.ino)),
            Err(ClientError::Fs(FsError::Exists)) => {}
            Err(error) => return Err(error).with_context(|| format!("mkdir {name}")),
        }
    }
    anyhow::bail!("there is no free name for {what}")
}

/// # Errors
/// Fails if the text is no name.
pub(crate) fn name(text: &str) -> Result<Name> {
    Name::new(text.as_bytes()).with_context(|| format!("{text:?} is no name"))
}

/// The status of all servers.
///
/// # Errors
/// Fails if one of them does not give it.
pub(crate) fn status(client: &Client) -> Result<Vec<ServerStatus>> {
    client
        .status()
        .into_iter()
        .map(|(server, status)| status.with_context(|| format!("server {server}")))
        .collect()
}

/// Entries on a server.
pub(crate) fn entries(status: &ServerStatus) -> u64 {
    status.shards.iter().map(|shard| shard.entries).sum()
}

/// Bytes of memory that a process of this machine takes, as a line of `/proc/PID/status` has them.
///
/// # Errors
/// Fails if there is no such process or line.
pub(crate) fn memory(pid: u32, line: &str) -> Result<u64> {
    let path = format!("/proc/{pid}/status");
    let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    let found = text.lines().find_map(|found| found.strip_prefix(line));
    let kib = found.and_then(|kib| kib.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    Ok(kib.with_context(|| format!("{path} does not tell {line}"))? << 10)
}

/// Milliseconds with one digit.
pub(crate) fn ms(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1e3)
}

/// Checks the whole file system with the `pandofs` program; what may be left behind for longer than `patience` is left
/// out.
///
/// # Errors
/// The problems that it found.
pub(crate) fn fsck(pandofs: &Path, cluster: &Path, patience: Option<Duration>) -> Result<()> {
    let mut command = Command::new(pandofs);
    command.arg("fsck").arg("--cluster").arg(cluster);
    if let Some(patience) = patience {
        command
            .arg("--patience")
            .arg(format!("{}s", patience.as_secs()));
    }
    let output = command
        .output()
        .with_context(|| format!("cannot run {}", pandofs.display()))?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success(),
        "fsck ended with {}: {said}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}
