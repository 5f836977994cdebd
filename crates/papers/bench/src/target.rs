//! Targets of the measurements: setting each up and taking it down.

use crate::running::Running;
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde::Serialize;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Bytes of the file behind the loop device.
const IMAGE_BYTES: u64 = 4 << 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// ext4 on a loop device.
    Ext4,
    /// A file system in memory of a hundred lines on the same FUSE crate: what FUSE itself allows.
    Memfs,
    /// bindfs over that ext4.
    Bindfs,
    /// A PandoFS mount.
    Mount,
    /// PandoFS through the client library.
    Library,
}

impl Kind {
    pub(crate) const ALL: [Kind; 5] = [
        Kind::Ext4,
        Kind::Memfs,
        Kind::Bindfs,
        Kind::Mount,
        Kind::Library,
    ];
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Ext4 => "ext4",
            Kind::Memfs => "memfs",
            Kind::Bindfs => "bindfs",
            Kind::Mount => "mount",
            Kind::Library => "library",
        })
    }
}

/// The programs of targets, and their directories.
#[derive(clap::Args, Clone)]
pub(crate) struct Setup {
    /// The `pandofs` program.
    #[arg(long)]
    pub pandofs: PathBuf,
    /// Servers of the PandoFS cluster.
    #[arg(long, default_value_t = 4)]
    pub servers: u32,
    /// The directory for everything; a temporary one unless given.
    #[arg(long)]
    scratch: Option<PathBuf>,
    /// The commit that is measured, for the report.
    #[arg(long, default_value = "unknown")]
    pub commit: String,
}

impl Setup {
    /// A directory for everything, removed when this is dropped.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn scratch(&self) -> Result<TempDir> {
        match &self.scratch {
            Some(path) => tempfile::Builder::new().prefix("bench-").tempdir_in(path),
            None => tempfile::Builder::new().prefix("pandofs-bench-").tempdir(),
        }
        .context("cannot make a scratch directory")
    }
}

/// Something that is set up.
pub(crate) struct Target {
    pub kind: Kind,
    /// The place of its files: a directory, or for the library a path inside PandoFS.
    pub root: PathBuf,
    /// The directory that holds all that belongs to it.
    pub base: PathBuf,
    /// The cluster map of PandoFS.
    pub cluster: Option<PathBuf>,
    mounted: Vec<PathBuf>,
    program: Option<Running>,
}

impl Target {
    fn new(kind: Kind, scratch: &Path) -> Result<Target> {
        let base = scratch.join(kind.to_string());
        let root = base.join("mnt");
        std::fs::create_dir_all(&root)?;
        Ok(Target {
            kind,
            root,
            base,
            cluster: None,
            mounted: Vec::new(),
            program: None,
        })
    }

    /// With an ext4 of its own on a loop device, where it needs one. `memfs` is the in-memory file
    /// system's program.
    ///
    /// # Errors
    /// When it does not start.
    pub(crate) fn start(kind: Kind, setup: &Setup, memfs: &Path, scratch: &Path) -> Result<Target> {
        let mut target = Target::new(kind, scratch)?;
        let base = target.base.clone();
        match kind {
            Kind::Ext4 => target.mount_ext4(&base.join("image"), &target.root.clone())?,
            Kind::Bindfs => {
                let below = base.join("ext4");
                std::fs::create_dir(&below)?;
                target.mount_ext4(&base.join("image"), &below)?;
                succeed(Command::new("bindfs").arg(&below).arg(&target.root))?;
                target.mounted.push(target.root.clone());
            }
            Kind::Memfs => {
                let mut memfs = Running::start(Command::new(memfs).arg(&target.root))?;
                memfs.wait_for_mount(&target.root)?;
                target.program = Some(memfs);
            }
            Kind::Mount | Kind::Library => target.start_pandofs(setup)?,
        }
        Ok(target)
    }

    /// With its files in a directory of the file system that `scratch` is on.
    ///
    /// # Errors
    /// When it does not start; for [`Kind::Memfs`], which keeps files nowhere.
    pub(crate) fn start_beside(kind: Kind, setup: &Setup, scratch: &Path) -> Result<Target> {
        let mut target = Target::new(kind, scratch)?;
        match kind {
            Kind::Ext4 => {}
            Kind::Bindfs => {
                let below = target.base.join("below");
                std::fs::create_dir(&below)?;
                // Its writes are of 4 KiB otherwise, which makes them some twenty times slower.
                let mut bindfs = Command::new("bindfs");
                bindfs.args(["-o", "big_writes"]);
                succeed(bindfs.arg(&below).arg(&target.root))?;
                target.mounted.push(target.root.clone());
            }
            Kind::Mount | Kind::Library => target.start_pandofs(setup)?,
            Kind::Memfs => bail!("{kind} keeps files in memory"),
        }
        Ok(target)
    }

    fn start_pandofs(&mut self, setup: &Setup) -> Result<()> {
        let data = self.base.join("data");
        let mut up = Command::new(&setup.pandofs);
        up.args(["up", "--quiet", "--servers"])
            .arg(setup.servers.to_string())
            .arg("--data")
            .arg(&data);
        if self.kind == Kind::Mount {
            up.arg("--mount").arg(&self.root);
        } else {
            up.arg("--no-mount");
        }
        let mut up = Running::start(&mut up)?;
        if self.kind == Kind::Mount {
            up.wait_for_mount(&self.root)?;
        } else {
            self.root = PathBuf::from("/");
            up.wait_until(|| all_answer(setup, &data))?;
        }
        self.cluster = Some(data.join("cluster.json"));
        self.program = Some(up);
        Ok(())
    }

    fn mount_ext4(&mut self, image: &Path, at: &Path) -> Result<()> {
        std::fs::File::create(image)?.set_len(IMAGE_BYTES)?;
        succeed(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(image))?;
        succeed(
            Command::new("mount")
                .args(["-o", "loop"])
                .arg(image)
                .arg(at),
        )?;
        self.mounted.push(at.to_path_buf());
        Ok(())
    }

    /// Takes everything down; the first failure is reported, the rest is still tried.
    pub(crate) fn stop(mut self) -> Result<()> {
        self.take_down()
    }

    fn take_down(&mut self) -> Result<()> {
        let mut first = Ok(());
        if let Some(program) = self.program.take() {
            first = first.and(program.stop());
            if self.kind == Kind::Memfs {
                // It may have left its mount behind.
                let mut umount = Command::new("umount");
                let _ = umount.arg(&self.root).stderr(Stdio::null()).status();
            }
        }
        for at in std::mem::take(&mut self.mounted).into_iter().rev() {
            first = first.and(succeed(Command::new("umount").arg(at)));
        }
        first
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if let Err(error) = self.take_down() {
            eprintln!("{} is not taken down: {error:#}", self.kind);
        }
    }
}

pub(crate) fn all_answer(setup: &Setup, data: &Path) -> Result<bool> {
    let mut status = Command::new(&setup.pandofs);
    status.arg("status").arg("--data").arg(data);
    status.stdout(Stdio::null()).stderr(Stdio::null());
    Ok(status.status()?.success())
}

/// # Errors
/// When it cannot be run, or fails.
pub(crate) fn succeed(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("cannot run {command:?}"))?;
    if !status.success() {
        bail!("{command:?} ended with {status}");
    }
    Ok(())
}
