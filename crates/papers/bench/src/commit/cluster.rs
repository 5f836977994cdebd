//! Clusters of two servers.

use crate::running::Running;
use crate::target::{Setup, all_answer};
use anyhow::{Context, Result};
use pandofs_api::{AdminReply, AdminRequest, ServerStatus};
use pandofs_client::{Client, Options as ClientOptions};
use pandofs_types::{Credentials, Name, ServerId};
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub(super) const CALLER: Credentials = Credentials::ROOT;
/// Time limit for a cluster until nothing is under way.
const REST_LIMIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(1);

/// A cluster of its own, gone when it is dropped.
pub(super) struct Cluster {
    up: Running,
    map: PathBuf,
    // After what runs in it.
    _folder: TempDir,
}

impl Cluster {
    pub(super) fn start(
        setup: &Setup,
        scratch: &Path,
        options: &[&str],
        is_logged: bool,
    ) -> Result<Cluster> {
        let folder = tempfile::Builder::new()
            .prefix("commit-")
            .tempdir_in(scratch)?;
        let data = folder.path().join("data");
        let mut up = Command::new(&setup.pandofs);
        up.args(["up", "--quiet", "--servers", "2", "--no-mount"])
            .args(["--policy", "random"])
            .args(options)
            .arg("--data")
            .arg(&data);
        if !is_logged {
            up.env("PANDOFS_UNLOGGED", "1");
        }
        let mut up = Running::start(&mut up)?;
        up.wait_until(|| all_answer(setup, &data))?;
        Ok(Cluster {
            up,
            map: data.join("cluster.json"),
            _folder: folder,
        })
    }

    pub(super) fn client(&self) -> Result<Client> {
        Client::open(&self.map, ClientOptions::default())
            .with_context(|| format!("no client of {}", self.map.display()))
    }

    pub(super) fn stop(self) -> Result<()> {
        self.up.stop()
    }
}

pub(super) fn name(text: &str) -> Result<Name> {
    Name::new(text.as_bytes()).with_context(|| format!("{text:?} is no name"))
}

pub(super) fn statuses(client: &Client) -> Result<Vec<ServerStatus>> {
    let statuses = client.status().into_iter();
    Ok(statuses
        .map(|(_, status)| status)
        .collect::<Result<_, _>>()?)
}

/// One server's status; an error while it does not answer.
pub(super) fn status_of(client: &Client, server: ServerId) -> Result<ServerStatus> {
    match client.admin(server, AdminRequest::Status)? {
        AdminReply::Status(status) => Ok(*status),
        other => anyhow::bail!("server {server} answered {other:?}"),
    }
}

/// Undecided operations of a server.
pub(super) fn undecided(status: &ServerStatus) -> u64 {
    status.shards.iter().map(|shard| shard.undecided).sum()
}

pub(super) fn signal(status: &ServerStatus, signal: Signal) -> Result<()> {
    let pid = Pid::from_raw(status.pid.cast_signed()).context("no process")?;
    Ok(kill_process(pid, signal)?)
}

/// Distributed operations that have come to their end.
pub(super) fn ended(statuses: &[ServerStatus]) -> u64 {
    statuses.iter().map(|status| status.distributed).sum()
}

/// The servers' status once no distributed operation is under way and so many have ended. One that
/// is decided is not undecided, and has messages to send still.
pub(super) fn at_rest(client: &Client, operations: u64) -> Result<Vec<ServerStatus>> {
    let begun = Instant::now();
    loop {
        let all = statuses(client)?;
        if all.iter().all(|status| undecided(status) == 0) && ended(&all) >= operations {
            // Again: servers are asked one after the other, and the first may have done something
            // since.
            return statuses(client);
        }
        anyhow::ensure!(
            begun.elapsed() < REST_LIMIT,
            "operations do not come to an end"
        );
        std::thread::sleep(PAUSE);
    }
}
