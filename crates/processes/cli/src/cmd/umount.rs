//! `pandofs umount`

use crate::exit::Outcome;
use crate::unmount::{Unmounted, clean_dead_mount, unmount, users_of};
use crate::{mounts, processes};
use anyhow::{Context, Result, bail};
use clap::Args;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long the mount's process may take to write what it still has, and end.
const END_TIMEOUT: Duration = Duration::from_secs(60);

const EXAMPLES: &str = "\
Examples:
  pandofs umount /mnt/pando
  pandofs umount --lazy /mnt/pando
      out of sight at once, gone when its last user is

The servers of 'pandofs up' go on.";

/// Unmount a PandoFS and wait until its process has ended
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Umount {
    /// Do not wait for those who use it
    #[arg(long)]
    lazy: bool,
    /// Where it is mounted
    mountpoint: PathBuf,
}

impl Umount {
    /// # Errors
    /// When no PandoFS is mounted there, when it is in use (naming by whom), or its process does not
    /// end.
    pub(crate) fn run(&self) -> Result<Outcome> {
        let point = mounts::absolute(&self.mountpoint)
            .with_context(|| format!("cannot find {}", self.mountpoint.display()))?;
        match mounts::at(&mounts::all()?, &point) {
            None => bail!("nothing is mounted on {}", point.display()),
            Some(mount) if !mount.is_pandofs() => bail!(
                "what is mounted on {} is no PandoFS but of type {}: use umount",
                point.display(),
                mount.fs_type
            ),
            Some(_) => {}
        }
        if clean_dead_mount(&point)? {
            eprintln!(
                "pandofs: its process was gone already; unmounted {}",
                point.display()
            );
            return Ok(Outcome::Done);
        }
        let serving = processes::serving_mount(&point);
        if unmount(&point, self.lazy)? == Unmounted::Busy {
            let users = users_of(&point);
            let by = match users.as_slice() {
                [] => "a process that waits for an answer of it, another user's process, or a mount inside it".to_owned(),
                users => users.join(", "),
            };
            bail!(
                "{} is in use by {by}: end that first, or unmount with --lazy",
                point.display()
            );
        }
        if !self.lazy {
            wait_for_end(&serving, &point)?;
        }
        Ok(Outcome::Done)
    }
}

fn wait_for_end(serving: &[u32], point: &Path) -> Result<()> {
    let deadline = Instant::now() + END_TIMEOUT;
    for &pid in serving {
        if !processes::wait_until_gone(pid, deadline)? {
            bail!(
                "unmounted {}, but its process {pid} has not ended within {} s: its servers may be \
                 away while it has something to write to them",
                point.display(),
                END_TIMEOUT.as_secs()
            );
        }
    }
    Ok(())
}
