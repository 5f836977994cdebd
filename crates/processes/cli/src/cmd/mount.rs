//! `pandofs mount`

use crate::daemon::{READY, StartedBy};
use crate::exit::{Misconfigured, Outcome};
use crate::mount_options::MountOptions;
use crate::processes::this_program;
use crate::source::{Cluster, Source};
use crate::units::Time;
use crate::unmount::clean_dead_mount;
use crate::{backend, mounts, units};
use anyhow::{Context, Error, Result, anyhow, bail};
use clap::Args;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

const EXAMPLES: &str = "\
Examples:
  pandofs mount --data /var/tmp/pando /mnt/pando
      until Ctrl-C, SIGTERM or 'pandofs umount'
  pandofs mount --cluster cluster.json --background --allow-other /mnt/pando
      return once it is mounted
  pandofs mount --cluster cluster.json -o ro,attr_timeout=10 /mnt/pando
  mount -t fuse.pandofs /etc/pandofs/cluster.json /mnt/pando
      the same by mount(8), and so in /etc/fstab:
      /etc/pandofs/cluster.json /mnt/pando fuse.pandofs _netdev,log=/var/log/pandofs.log 0 0
  mount -o remount,ro /mnt/pando

While servers are away the mount waits and says so in its log; with --soft, programs get an
input/output error after that time.";

/// Mount a file system
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Mount {
    #[command(flatten)]
    source: Source,
    /// Stay in the foreground (the default)
    #[arg(long, conflicts_with = "background")]
    foreground: bool,
    /// Return once it is mounted, and go on in the background
    #[arg(long)]
    background: bool,
    /// Where the background process logs [default: nowhere]
    #[arg(long, value_name = "FILE", requires = "background")]
    log: Option<PathBuf>,
    /// Requests that take longer are logged, with the servers that they waited for; 0: none is
    /// [default: 1s]
    #[arg(long, value_name = "TIME")]
    slow: Option<Time>,
    /// Bytes of memory that the mount's process takes at most [default: 1G]
    #[arg(long, value_name = "BYTES", value_parser = units::parse_bytes)]
    memory: Option<u64>,
    #[command(flatten)]
    options: MountOptions,
    /// Called by mount(8)
    #[arg(long, hide = true)]
    by_mount: bool,
    /// Do everything but mount (mount(8)'s -f)
    #[arg(long, hide = true)]
    fake: bool,
    #[command(flatten)]
    started_by: StartedBy,
    /// Where to mount it: a directory that is there
    mountpoint: PathBuf,
}

impl Mount {
    /// Serves the mount until it is unmounted; in the background, only until it is mounted.
    ///
    /// # Errors
    /// When it cannot be mounted.
    pub(crate) fn run(&self) -> Result<Outcome> {
        self.started_by.tie_to_parent()?;
        let options = self.resolved_options()?;
        if options.remount {
            return self.change(&options);
        }
        let point = mounts::absolute(&self.mountpoint)
            .with_context(|| format!("cannot find {}", self.mountpoint.display()))?;
        if clean_dead_mount(&point)? {
            tracing::warn!(
                "unmounted what a killed mount had left on {}",
                point.display()
            );
        }
        if mounts::at(&mounts::all()?, &point).is_some_and(mounts::Mount::is_pandofs) {
            bail!(
                "a PandoFS is mounted on {} already: unmount it with 'pandofs umount {}'",
                point.display(),
                point.display()
            );
        }
        // After that, because a mount whose servers are away would not say what it is.
        if !point.is_dir() {
            let why = match point.exists() {
                true => "it is no directory",
                false => "it is not there; make the directory first",
            };
            let error = anyhow!("cannot mount on {}: {why}", point.display());
            return Err(self.misconfigured(error));
        }
        let cluster = self
            .source
            .find(None)
            .map_err(|error| self.misconfigured(error))?;
        // The servers whose directories it hid would wait for the mount, and that for them.
        if cluster.map_path.starts_with(&point) {
            let error = anyhow!(
                "cannot mount on {}: that would hide the cluster map {} and what is beside it; \
                 choose another directory",
                point.display(),
                cluster.map_path.display()
            );
            return Err(self.misconfigured(error));
        }
        if self.fake {
            return Ok(Outcome::Done);
        }
        if self.background || self.by_mount {
            self.start_in_background(&cluster, &point, &options)?;
        } else {
            backend::mount(&cluster, &point, &options, &self.started_by)?;
        }
        Ok(Outcome::Done)
    }

    /// The error, unless it may pass with an exit code of its own: but for mount(8), whose codes mean something else.
    fn misconfigured(&self, error: Error) -> Error {
        match self.by_mount {
            true => error,
            false => Misconfigured::unless_passing(error),
        }
    }

    /// With what mount(8) takes for granted: without a word about them, set-id bits and devices have effect.
    fn resolved_options(&self) -> Result<MountOptions> {
        let mut options = self.options.clone();
        options.memory = self.memory;
        options.slow = self.slow;
        if self.by_mount {
            options.flags.suid = true;
            options.flags.dev = true;
        }
        options.resolved()
    }

    /// `mount -o remount,…`
    fn change(&self, options: &MountOptions) -> Result<Outcome> {
        let point = mounts::absolute(&self.mountpoint)
            .with_context(|| format!("cannot find {}", self.mountpoint.display()))?;
        if !mounts::at(&mounts::all()?, &point).is_some_and(mounts::Mount::is_pandofs) {
            bail!("no PandoFS is mounted on {}", point.display());
        }
        pandofs_fuse::remount(&point, &backend::kernel_flags(options), &options.given())?;
        Ok(Outcome::Done)
    }

    /// Starts this program again as a session of its own and waits until that one has mounted.
    fn start_in_background(
        &self,
        cluster: &Cluster,
        point: &Path,
        options: &MountOptions,
    ) -> Result<()> {
        let mut command = this_program()?;
        command
            .args(["mount", "--report-ready", "--cluster"])
            .arg(&cluster.map_path);
        command.args(options.arguments());
        // A Ctrl-C in this terminal is not for it, and it holds no directory.
        command.process_group(0).current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let log = self.log.as_ref().or(options.log.as_ref());
        match log {
            Some(log) => {
                let file = std::fs::OpenOptions::new()
                    .create(true)
                    .append(true)
                    .open(log);
                let file = file.with_context(|| format!("cannot open --log {}", log.display()))?;
                command.stderr(file);
            }
            None => {
                command.arg("--silent-once-ready").stderr(Stdio::piped());
            }
        }
        let mut child = command
            .arg(point)
            .spawn()
            .context("cannot start the background process")?;
        let mut line = String::new();
        if let Some(out) = child.stdout.take() {
            BufReader::new(out)
                .read_line(&mut line)
                .context("the background process")?;
        }
        if line.trim() == READY {
            return Ok(());
        }
        let mut said = String::new();
        if let Some(mut errors) = child.stderr.take() {
            errors
                .read_to_string(&mut said)
                .context("the background process")?;
        }
        let said = said.trim().trim_start_matches("pandofs: ");
        let seen = log.map(|log| format!("see {}", log.display()));
        bail!("not mounted: {}", seen.as_deref().unwrap_or(said))
    }
}
