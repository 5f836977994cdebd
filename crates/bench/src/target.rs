//! What is measured: how each is set up and taken down.

use crate::Run;
use crate::running::Running;
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde::Serialize;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Bytes of the file behind the loop device.
const IMAGE_BYTES: u64 = 4 << 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
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
    pub const ALL: [Kind; 5] = [
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

/// Something that is set up.
pub struct Target {
    pub kind: Kind,
    /// Where its files are: a directory, or for the library a path inside PandoFS.
    pub root: PathBuf,
    /// The cluster map, for the library.
    pub cluster: Option<PathBuf>,
    mounted: Vec<PathBuf>,
    program: Option<Running>,
}

impl Target {
    pub fn start(kind: Kind, run: &Run, scratch: &Path) -> Result<Target> {
        let base = scratch.join(kind.to_string());
        std::fs::create_dir(&base)?;
        let mut target = Target {
            kind,
            root: base.join("mnt"),
            cluster: None,
            mounted: Vec::new(),
            program: None,
        };
        std::fs::create_dir(&target.root)?;
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
                let mut memfs = Running::start(Command::new(&run.memfs).arg(&target.root))?;
                memfs.wait_for_mount(&target.root)?;
                target.program = Some(memfs);
            }
            Kind::Mount | Kind::Library => {
                let data = base.join("data");
                let mut up = Command::new(&run.pandofs);
                up.arg("up")
                    .arg("--servers")
                    .arg(run.servers.to_string())
                    .arg("--data")
                    .arg(&data);
                if kind == Kind::Mount {
                    up.arg("--mount").arg(&target.root);
                } else {
                    up.arg("--no-mount");
                }
                let mut up = Running::start(&mut up)?;
                if kind == Kind::Mount {
                    up.wait_for_mount(&target.root)?;
                } else {
                    target.cluster = Some(data.join("cluster.json"));
                    target.root = PathBuf::from("/");
                    up.wait_until(|| all_answer(run, &data))?;
                }
                target.program = Some(up);
            }
        }
        Ok(target)
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

    /// Takes everything down; the first thing that fails is told, the rest is still tried.
    pub fn stop(mut self) -> Result<()> {
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

fn all_answer(run: &Run, data: &Path) -> Result<bool> {
    let mut status = Command::new(&run.pandofs);
    status.arg("status").arg("--data").arg(data);
    status.stdout(Stdio::null()).stderr(Stdio::null());
    Ok(status.status()?.success())
}

fn succeed(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("cannot run {command:?}"))?;
    if !status.success() {
        bail!("{command:?} ended with {status}");
    }
    Ok(())
}
