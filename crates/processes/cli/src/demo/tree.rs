//! A real source tree: unpacked onto the mount, compared with the original, removed.

use super::Plan;
use super::compare::compare;
use super::report::Report;
use super::show::{Show, Step};
use super::walk::walk;
use crate::units;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Tree that is unpacked unless another is given.
const DEFAULT_TREE: &str = "/usr/include";
/// Where on the mount.
const FOLDER: &str = "tree";

/// A copy on the local file system to compare with; removed at the end.
struct Original {
    path: PathBuf,
    scratch: Option<PathBuf>,
}

impl Drop for Original {
    fn drop(&mut self) {
        if let Some(scratch) = &self.scratch
            && let Err(error) = fs::remove_dir_all(scratch)
        {
            eprintln!("pandofs: cannot remove {}: {error}", scratch.display());
        }
    }
}

/// # Errors
/// When the tree cannot be unpacked, or what is on the mount is not what was in it.
pub(super) fn unpack_and_compare(plan: &Plan, show: &Show, report: &mut Report) -> Result<()> {
    let copy = plan.mount.join(FOLDER);
    fs::create_dir(&copy).with_context(|| format!("mkdir {}", copy.display()))?;
    let original = original(plan, show)?;
    let entries = count(&original.path)?;
    ensure!(
        entries > 0,
        "{} is empty: give --tar FILE",
        original.path.display()
    );

    let from = plan.tar.as_deref().unwrap_or(Path::new(DEFAULT_TREE));
    let title = format!("unpack {} onto the mount", from.display());
    let step = show.step(&title, Some(entries));
    let started = Instant::now();
    match &plan.tar {
        Some(tar) => unpack_file(tar, &copy, &step)?,
        None => unpack_tree(&original.path, &copy, &step)?,
    }
    let took = started.elapsed();
    step.finish(&format!("{} files and directories", units::count(entries)));
    report.add(&format!("unpack {}", from.display()), entries, took, None);

    let step = show.step("compare it with the original, byte by byte", Some(entries));
    let started = Instant::now();
    let done = AtomicU64::new(0);
    let compared = std::thread::scope(|scope| {
        let comparing = scope.spawn(|| {
            compare(&original.path, &copy, &|count| {
                done.store(count, Ordering::Relaxed)
            })
        });
        while !comparing.is_finished() {
            step.set(done.load(Ordering::Relaxed));
            std::thread::park_timeout(super::crowd::LOOK_INTERVAL);
        }
        comparing
            .join()
            .unwrap_or_else(|_| bail!("the comparison panicked"))
    })?;
    let took = started.elapsed();
    ensure!(
        compared.entries == entries,
        "{} of {entries} entries compared",
        compared.entries
    );
    step.finish(&format!(
        "no difference in {}",
        units::bytes(compared.bytes)
    ));
    report.add("compare it", entries, took, None);
    Ok(())
}

/// Removes the tree and the emptied directory; the file system is empty then.
///
/// # Errors
/// When something cannot be removed, or something is left.
pub(super) fn remove_rest(plan: &Plan, show: &Show, report: &mut Report) -> Result<()> {
    let tree = plan.mount.join(FOLDER);
    let entries = count(&tree)?;
    let step = show.step("remove the source tree", None);
    let started = Instant::now();
    fs::remove_dir_all(&tree).with_context(|| format!("cannot remove {}", tree.display()))?;
    let took = started.elapsed();
    let shared = plan.mount.join("shared");
    fs::remove_dir(&shared).with_context(|| format!("cannot remove {}", shared.display()))?;
    let left = fs::read_dir(&plan.mount)
        .with_context(|| plan.mount.display().to_string())?
        .count();
    ensure!(
        left == 0,
        "{left} names are left in {}",
        plan.mount.display()
    );
    step.finish("the file system is empty again");
    report.add("remove the tree", entries, took, None);
    Ok(())
}

fn original(plan: &Plan, show: &Show) -> Result<Original> {
    let Some(tar) = &plan.tar else {
        return Ok(Original {
            path: DEFAULT_TREE.into(),
            scratch: None,
        });
    };
    let scratch = std::env::temp_dir().join(format!("pandofs-demo-{}", std::process::id()));
    fs::create_dir(&scratch).with_context(|| format!("mkdir {}", scratch.display()))?;
    let original = Original {
        path: scratch.clone(),
        scratch: Some(scratch.clone()),
    };
    let step = show.step(
        "unpack a copy to compare with on the local file system",
        None,
    );
    unpack_file(tar, &scratch, &step)?;
    step.finish("done");
    Ok(original)
}

fn count(root: &Path) -> Result<u64> {
    let count = AtomicU64::new(0);
    walk(root, &|_, found| {
        count.fetch_add(found.len() as u64, Ordering::Relaxed);
        Ok(())
    })?;
    Ok(count.into_inner())
}

fn unpack_file(tar: &Path, to: &Path, step: &Step<'_>) -> Result<()> {
    let unpacking = tar_command(&["-xpvf"], to)
        .arg(fs::canonicalize(tar).with_context(|| format!("--tar {}", tar.display()))?)
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run tar")?;
    follow(unpacking, step, tar)
}

/// As a person would: `tar -c | tar -x`.
fn unpack_tree(tree: &Path, to: &Path, step: &Step<'_>) -> Result<()> {
    let mut packing = tar_command(&["-cf", "-", "."], tree)
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run tar")?;
    let archive = packing.stdout.take().context("tar has no output")?;
    let unpacking = tar_command(&["-xpvf", "-"], to)
        .stdin(archive)
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run tar")?;
    follow(unpacking, step, tree)?;
    let packed = packing.wait().context("tar")?;
    ensure!(
        packed.success(),
        "packing {} failed: tar ended with {packed}",
        tree.display()
    );
    Ok(())
}

fn tar_command(arguments: &[&str], dir: &Path) -> Command {
    let mut command = Command::new("tar");
    command
        .arg("-C")
        .arg(dir)
        .args(arguments)
        .stdin(Stdio::null());
    command
}

/// Counts the names that `tar -v` prints, until it has ended.
fn follow(mut tar: Child, step: &Step<'_>, from: &Path) -> Result<()> {
    let names: Option<ChildStdout> = tar.stdout.take();
    let mut done = 0;
    for line in BufReader::new(names.context("tar has no output")?).split(b'\n') {
        line.context("tar")?;
        done += 1;
        step.set(done);
    }
    let ended = tar.wait().context("tar")?;
    ensure!(
        ended.success(),
        "unpacking {} failed: tar ended with {ended}",
        from.display()
    );
    Ok(())
}
