//! `pandofs mount`

use crate::daemon::{READY, StartedBy};
use crate::exit::Outcome;
use crate::source::{Cluster, Source};
use crate::units::Time;
use crate::unmount::clean_dead_mount;
use crate::{backend, mounts};
use anyhow::{Context, Result, bail};
use clap::Args;
use pandofs_types::limits::{DEFAULT_CACHE_TIMEOUT, DEFAULT_MOUNT_THREADS};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const EXAMPLES: &str = "\
Examples:
  pandofs mount --data /var/tmp/pando /mnt/pando
      until Ctrl-C, SIGTERM or 'pandofs umount'
  pandofs mount --cluster cluster.json --background --allow-other /mnt/pando
      return once it is mounted
  pandofs mount --cluster cluster.json -o ro,attr_timeout=10 /mnt/pando

While servers are away the mount waits and says so in its log; with --soft, programs get an
input/output error after that time.";

/// Mount a file system
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Mount {
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
    #[command(flatten)]
    options: MountOptions,
    #[command(flatten)]
    started_by: StartedBy,
    /// Where to mount it: a directory that is there
    mountpoint: PathBuf,
}

/// How a mount behaves.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Mount")]
pub struct MountOptions {
    /// How long the kernel may believe that a name leads to an inode
    #[arg(long, value_name = "TIME", default_value_t = Time(DEFAULT_CACHE_TIMEOUT))]
    pub entry_timeout: Time,
    /// How long the kernel may believe attributes
    #[arg(long, value_name = "TIME", default_value_t = Time(DEFAULT_CACHE_TIMEOUT))]
    pub attr_timeout: Time,
    /// How long the kernel may believe that there is no such name
    #[arg(long, value_name = "TIME", default_value_t = Time(DEFAULT_CACHE_TIMEOUT))]
    pub negative_timeout: Time,
    /// Threads that take requests from the kernel: programs that are served at once
    #[arg(long, value_name = "N", default_value_t = DEFAULT_MOUNT_THREADS)]
    pub threads: usize,
    /// Give programs an error when a server has been away for this long [default: wait for it]
    #[arg(long, value_name = "TIME")]
    pub soft: Option<Time>,
    /// Let other users use the mount (the default for root)
    #[arg(long)]
    pub allow_other: bool,
    /// Let nothing be changed through it
    #[arg(long)]
    pub read_only: bool,
    /// The same as in mount(8): ro, rw, allow_other, entry_timeout=T, attr_timeout=T,
    /// negative_timeout=T, threads=N, soft=T
    #[arg(short = 'o', value_name = "OPTION,…", value_delimiter = ',')]
    pub o: Vec<String>,
}

impl MountOptions {
    /// As options of a child's command line.
    pub fn arguments(&self) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = Vec::new();
        let mut option = |name: &str, value: String| {
            arguments.push(name.into());
            arguments.push(value.into());
        };
        option("--entry-timeout", self.entry_timeout.to_string());
        option("--attr-timeout", self.attr_timeout.to_string());
        option("--negative-timeout", self.negative_timeout.to_string());
        option("--threads", self.threads.to_string());
        if let Some(soft) = self.soft {
            option("--soft", soft.to_string());
        }
        if !self.o.is_empty() {
            option("-o", self.o.join(","));
        }
        for (flag, name) in [
            (self.allow_other, "--allow-other"),
            (self.read_only, "--read-only"),
        ] {
            if flag {
                arguments.push(name.into());
            }
        }
        arguments
    }

    /// With what `-o` says worked in.
    ///
    /// # Errors
    /// An option of `-o` that is unknown or has a wrong value.
    pub fn resolved(&self) -> Result<MountOptions> {
        let mut resolved = MountOptions {
            o: Vec::new(),
            ..self.clone()
        };
        for option in self.o.iter().filter(|option| !option.is_empty()) {
            resolved
                .apply(option)
                .with_context(|| format!("-o {option}"))?;
        }
        Ok(resolved)
    }

    fn apply(&mut self, option: &str) -> Result<()> {
        let (name, value) = option
            .split_once('=')
            .map_or((option, None), |(name, value)| (name, Some(value)));
        let time = || -> Result<Time> {
            let value = value.context("a length of time is missing")?;
            value.parse().map_err(anyhow::Error::msg)
        };
        match (name, value) {
            ("ro", None) => self.read_only = true,
            ("rw", None) => self.read_only = false,
            ("allow_other", None) => self.allow_other = true,
            ("entry_timeout", _) => self.entry_timeout = time()?,
            ("attr_timeout", _) => self.attr_timeout = time()?,
            ("negative_timeout", _) => self.negative_timeout = time()?,
            ("soft", _) => self.soft = Some(time()?),
            ("threads", Some(value)) => self.threads = value.parse()?,
            _ => bail!("no such option; see 'pandofs mount --help'"),
        }
        Ok(())
    }
}

impl Mount {
    /// Serves the mount until it is unmounted; in the background, only until it is mounted.
    ///
    /// # Errors
    /// When it cannot be mounted.
    pub fn run(&self) -> Result<Outcome> {
        self.started_by.tie_to_parent()?;
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
            bail!("cannot mount on {}: it is no directory", point.display());
        }
        let cluster = self.source.find(None)?;
        let options = self.options.resolved()?;
        if self.background {
            self.start_in_background(&cluster, &point, &options)?;
        } else {
            backend::mount(&cluster, &point, &options, &self.started_by)?;
        }
        Ok(Outcome::Done)
    }

    /// Starts this program again as a session of its own and waits until that one has mounted.
    fn start_in_background(
        &self,
        cluster: &Cluster,
        point: &Path,
        options: &MountOptions,
    ) -> Result<()> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let mut command = Command::new(program);
        command
            .args(["mount", "--report-ready", "--cluster"])
            .arg(&cluster.map_path);
        command.args(options.arguments());
        // A Ctrl-C in this terminal is not for it, and it holds no directory.
        command.process_group(0).current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        match &self.log {
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
        let seen = self
            .log
            .as_ref()
            .map(|log| format!("see {}", log.display()));
        bail!("not mounted: {}", seen.as_deref().unwrap_or(said))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::time::Duration;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        options: MountOptions,
    }

    fn parse(line: &[&str]) -> MountOptions {
        Alone::parse_from(["test"].iter().chain(line)).options
    }

    #[test]
    fn options_survive_a_childs_command_line() {
        let given = [
            "--threads",
            "3",
            "-o",
            "ro,soft=2s,entry_timeout=0.5",
            "--attr-timeout",
            "9s",
        ];
        let resolved = parse(&given).resolved().unwrap();
        assert!(resolved.read_only && !resolved.allow_other);
        assert_eq!(resolved.soft, Some(Time(Duration::from_secs(2))));
        assert_eq!(resolved.entry_timeout.0, Duration::from_millis(500));
        let arguments: Vec<String> = resolved
            .arguments()
            .into_iter()
            .map(|a| a.into_string().unwrap())
            .collect();
        let again = parse(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(format!("{again:?}"), format!("{resolved:?}"));
    }

    #[test]
    fn a_wrong_option_is_named() {
        for (option, said) in [
            ("nosuch", "no such option"),
            ("soft", "length of time is missing"),
            ("threads=x", "invalid digit"),
        ] {
            let error = format!("{:#}", parse(&["-o", option]).resolved().unwrap_err());
            assert!(
                error.starts_with(&format!("-o {option}")) && error.contains(said),
                "{error}"
            );
        }
    }
}
