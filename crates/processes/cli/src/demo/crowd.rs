//! Several processes that work in one directory at once.

use super::cluster_view::ClusterView;
use super::show::{Show, Step};
use crate::processes::this_program;
use crate::units;
use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How often what is shown is brought up to date.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// How often a process says how far it is.
const TELL_INTERVAL: Duration = Duration::from_millis(50);

/// Work of each process on each of its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Job {
    Create,
    Stat,
    Remove,
}

impl Job {
    fn name(self) -> &'static str {
        match self {
            Job::Create => "create",
            Job::Stat => "stat",
            Job::Remove => "remove",
        }
    }
}

/// One process's part.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    pub job: Job,
    pub dir: PathBuf,
    pub files: Range<u64>,
    /// Every so many from the first on.
    pub every: u64,
}

/// The name of a file by its number.
fn name(number: u64) -> String {
    format!("file-{number:08}")
}

/// The number of a file by its name.
fn number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("file-")?;
    // `parse` alone would let a sign through.
    let is_number = digits.len() == 8 && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number {
        return None;
    }
    digits.parse().ok()
}

/// Does one process's part with a program's plain calls, and tells `out` how far it is.
///
/// # Errors
/// The first call that fails, with its path.
pub(crate) fn work(work: &Work, out: &mut dyn Write) -> Result<()> {
    let step = usize::try_from(work.every.max(1)).context("--every")?;
    let mut done = 0_u64;
    let mut reported = Instant::now();
    for file in work.files.clone().step_by(step) {
        let path = work.dir.join(name(file));
        perform(work.job, &path)
            .with_context(|| format!("{} {}", work.job.name(), path.display()))?;
        done += 1;
        if reported.elapsed() >= TELL_INTERVAL {
            tell(out, done)?;
            reported = Instant::now();
        }
    }
    tell(out, done)
}

fn tell(out: &mut dyn Write, done: u64) -> Result<()> {
    writeln!(out, "{done}")
        .and_then(|()| out.flush())
        .context("cannot tell how far it is")
}

fn perform(job: Job, path: &Path) -> Result<()> {
    match job {
        Job::Create => drop(OpenOptions::new().write(true).create_new(true).open(path)?),
        Job::Stat => {
            let found = fs::symlink_metadata(path)?;
            ensure!(found.is_file() && found.len() == 0, "it is no empty file");
        }
        Job::Remove => fs::remove_file(path)?,
    }
    Ok(())
}

/// Messages of the processes.
enum Said {
    Done { process: usize, count: u64 },
    Ended { process: usize },
}

/// The processes.
#[derive(Clone, Debug)]
pub(super) struct Crowd {
    /// Where they work.
    pub dir: PathBuf,
    pub processes: u64,
}

impl Crowd {
    /// Has them all do `job` to `files`, showing `view` beside. How long it took.
    ///
    /// # Errors
    /// The first thing that went wrong in one of them.
    pub(super) fn run(
        &self,
        job: Job,
        files: Range<u64>,
        show: &Show,
        title: &str,
        view: Option<&ClusterView>,
    ) -> Result<Duration> {
        let total = files.end - files.start;
        let step = show.step(title, Some(total));
        let time = self.run_watched(job, files, &step, view, &mut |_, _| Ok(()))?;
        let rate = (total as f64 / time.as_secs_f64()) as u64;
        step.finish(&format!("{} a second", units::count(rate)));
        Ok(time)
    }

    /// As [`run`](Self::run), with `watch` called now and then with the number done so far.
    ///
    /// # Errors
    /// As [`run`](Self::run), and those of `watch`.
    pub(super) fn run_watched(
        &self,
        job: Job,
        files: Range<u64>,
        step: &Step<'_>,
        view: Option<&ClusterView>,
        watch: &mut dyn FnMut(u64, &Step<'_>) -> Result<()>,
    ) -> Result<Duration> {
        let started = Instant::now();
        let (sender, said) = mpsc::channel();
        let mut children = Vec::new();
        for process in 0..self.processes {
            let child = self.start(job, files.start + process, files.end, sender.clone());
            children.push(child?);
        }
        drop(sender);
        let mut done = vec![0_u64; children.len()];
        let mut working = children.len();
        let mut looked = Instant::now();
        while working > 0 {
            match said.recv_timeout(LOOK_INTERVAL) {
                Ok(Said::Done { process, count }) => done[process] = count,
                Ok(Said::Ended { process }) => {
                    working -= 1;
                    let status = children[process]
                        .0
                        .wait()
                        .context("a process of the demo")?;
                    ensure!(
                        status.success(),
                        "process {process} of '{}' failed: {status}",
                        job.name()
                    );
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let sum = done.iter().sum();
            step.set(sum);
            if looked.elapsed() >= LOOK_INTERVAL {
                looked = Instant::now();
                watch(sum, step)?;
                if let Some(view) = view {
                    let (lines, short) = view.picture(&self.dir);
                    step.picture(&lines, short);
                }
            }
        }
        let took = started.elapsed();
        let (all, wanted): (u64, u64) = (done.iter().sum(), files.end - files.start);
        ensure!(
            all == wanted,
            "'{}' was done {all} times instead of {wanted}",
            job.name()
        );
        if let Some(view) = view {
            let (lines, short) = view.last_picture(&self.dir);
            step.picture(&lines, short);
        }
        Ok(took)
    }

    fn start(&self, job: Job, first: u64, end: u64, sender: mpsc::Sender<Said>) -> Result<Process> {
        let process = usize::try_from(first % self.processes).unwrap_or_default();
        let mut child = this_program()?
            .args(["demo-worker", job.name(), "--first", &first.to_string()])
            .args([
                "--end",
                &end.to_string(),
                "--every",
                &self.processes.to_string(),
            ])
            .arg("--dir")
            .arg(&self.dir)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a process of the demo")?;
        let out = child.stdout.take().context("a process without output")?;
        std::thread::Builder::new()
            .name(format!("process {process}"))
            .spawn(move || {
                for line in BufReader::new(out).lines().map_while(Result::ok) {
                    if let Ok(count) = line.parse() {
                        // The channel has no receiver after a failure.
                        let _ = sender.send(Said::Done { process, count });
                    }
                }
                let _ = sender.send(Said::Ended { process });
            })
            .context("cannot start a thread")?;
        Ok(Process(child))
    }

    /// Lists the directory once and compares the names with those of files 0 to `count`.
    ///
    /// # Errors
    /// A name that is missing, twice there, or not to be there.
    pub(super) fn list_and_compare(
        &self,
        count: u64,
        show: &Show,
        title: &str,
    ) -> Result<Duration> {
        let step = show.step(title, Some(count));
        let size = usize::try_from(count).context("too many files")?;
        let mut seen = vec![false; size];
        let started = Instant::now();
        let context = || format!("cannot list {}", self.dir.display());
        let mut listed = 0;
        for entry in fs::read_dir(&self.dir).with_context(context)? {
            let name = entry.with_context(context)?.file_name();
            let number = name
                .to_str()
                .and_then(number)
                .and_then(|n| usize::try_from(n).ok());
            match number.and_then(|number| seen.get_mut(number)) {
                Some(seen) if !*seen => *seen = true,
                Some(_) => bail!("{} is listed twice", self.dir.join(name).display()),
                None => bail!("{} was not created", self.dir.join(name).display()),
            }
            listed += 1;
            if listed % 1_000 == 0 {
                step.set(listed);
            }
        }
        let took = started.elapsed();
        if let Some(missing) = seen.iter().position(|seen| !seen) {
            let left_out = seen.iter().filter(|seen| !**seen).count();
            bail!(
                "{left_out} files are missing from the listing of {}, the first is {}",
                self.dir.display(),
                name(missing as u64)
            );
        }
        step.finish(&format!("all {} names, each once", units::count(count)));
        Ok(took)
    }
}

/// A process that does not outlive the demo when something else fails.
#[derive(Debug)]
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It has usually ended, and then this does nothing.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_belong_together() {
        for n in [0, 7, 99_999, 12_345_678] {
            assert_eq!(number(&name(n)), Some(n));
        }
        for wrong in ["file-1", "file-", "other", "file-0000000x", "file-+0000001"] {
            assert_eq!(number(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_listing_is_compared_exactly() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().to_owned();
        let crowd = Crowd {
            dir: dir.clone(),
            processes: 2,
        };
        let show = Show::new();
        for first in 0..2 {
            let part = Work {
                job: Job::Create,
                dir: dir.clone(),
                files: first..10,
                every: 2,
            };
            work(&part, &mut Vec::new()).unwrap();
        }
        crowd.list_and_compare(10, &show, "list").unwrap();
        let said = |count| {
            crowd
                .list_and_compare(count, &show, "list")
                .unwrap_err()
                .to_string()
        };
        assert!(said(11).contains("1 files are missing"), "{}", said(11));
        assert!(said(9).contains("was not created"), "{}", said(9));
        fs::write(dir.join("other"), "").unwrap();
        assert!(said(10).contains("other was not created"));
        let stat = Work {
            job: Job::Stat,
            dir: dir.clone(),
            files: 0..11,
            every: 1,
        };
        let error = format!("{:#}", work(&stat, &mut Vec::new()).unwrap_err());
        assert!(
            error.contains("stat") && error.contains("file-00000010"),
            "{error}"
        );
        let remove = Work {
            job: Job::Remove,
            dir: dir.clone(),
            files: 0..10,
            every: 1,
        };
        work(&remove, &mut Vec::new()).unwrap();
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
    }
}
