//! Walks with checkpoints, in parts that are written down from time to time.
//!
//! A tool is made of a walk, of what it has found so far (its `T`), and of files that it appends
//! to. At each checkpoint the walk stops between two items; what was found, how long the files are
//! and the items that are left are written, and the walk goes on. After a crash it goes on from the
//! last checkpoint: what was appended later is cut off the files.
//!
//! Of several processes the first has the checkpoint and what is listed; `checkpoint_merge.rs`
//! makes one of what all have done. All items are at the first one when the walk goes on, and are
//! shared as its roots were. So any number of processes can go on, and one.

use crate::checkpoint::{self, Checkpoint, Timer};
use crate::checkpoint_merge::{Contribution, Joined, Verdict, merge_checkpoints};
use crate::executor::Executor;
use crate::mirror::refuse_doubles;
use crate::output::Output;
use crate::session::{self, Interrupts, Ran};
use anyhow::{Context, Result, bail};
use clap::Args;
use pandofs_walk_fs::{Meter, Options, Saved, Visitor};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Options of tools that can go on.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Resumable {
    /// Write what was done to this file from time to time, and at Ctrl-C; it is removed at the end.
    /// Of several processes the first one writes it, for all
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// Seconds between two times
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 300,
        requires = "checkpoint"
    )]
    checkpoint_interval: u64,
    /// Go on from what --checkpoint has written, with as many threads or processes as one likes
    #[arg(long, requires = "checkpoint")]
    resume: bool,
}

impl Resumable {
    pub(crate) fn is_wanted(&self) -> bool {
        self.checkpoint.is_some()
    }

    /// To be called before any file is made or opened.
    ///
    /// # Errors
    /// When what is there would be lost, or what is wanted is not there.
    pub(crate) fn refuse_others(&self, executor: &Executor<'_>) -> Result<()> {
        match &self.checkpoint {
            Some(path) if executor.is_first() => checkpoint::refuse(path, self.resume),
            _ => Ok(()),
        }
    }

    /// Returns whether an earlier run began.
    pub(crate) fn goes_on(&self) -> bool {
        self.resume
    }

    /// Opens a file that the tool appends to.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub(crate) fn file(&self, path: &Path) -> Result<File> {
        if !self.is_wanted() {
            // By their names: a socket cannot be opened again, and a file goes on where others have
            // written.
            let standard = match path.to_str() {
                Some("/dev/stdout") => Some(rustix::stdio::stdout()),
                Some("/dev/stderr") => Some(rustix::stdio::stderr()),
                _ => None,
            };
            if let Some(standard) = standard {
                return Ok(rustix::io::fcntl_dupfd_cloexec(standard, 0)?.into());
            }
        }
        let file = File::options()
            .append(true)
            .read(self.is_wanted())
            // A checkpoint to go on from has to be there.
            .create(!self.resume)
            .open(path)
            .with_context(|| path.display().to_string())?;
        let is_regular = file.metadata()?.is_file();
        if self.is_wanted() && !is_regular {
            bail!(
                "{}: --checkpoint needs a regular file, of which it can cut off what is too much",
                path.display()
            );
        }
        if !self.resume && is_regular {
            file.set_len(0)
                .with_context(|| path.display().to_string())?;
        }
        Ok(file)
    }

    /// Returns the file for names of files with several names, if there is a checkpoint.
    pub(crate) fn links(&self) -> Option<PathBuf> {
        let checkpoint = self.checkpoint.as_ref();
        checkpoint.map(|it| checkpoint::beside(it, checkpoint::LINKS))
    }

    /// Returns the output that the threads of all processes append to, and at the first process its
    /// file.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub(crate) fn appended(
        &self,
        path: &Path,
        executor: &mut Executor<'_>,
        meter: &Arc<Meter>,
    ) -> Result<(Output, Option<File>)> {
        if !executor.is_first() {
            return Ok((Output::new(meter, executor), None));
        }
        let file = self.file(path)?;
        let clone = file.try_clone()?;
        let output = match executor {
            Executor::Alone => Output::file(meter, clone),
            Executor::Together(_) => {
                executor.redirect(clone);
                Output::new(meter, executor)
            }
        };
        Ok((output, Some(file)))
    }

    /// Opens the tool's list: standard output, or with a checkpoint a file beside it, which comes
    /// to standard output when all is done, as nothing can be cut off that.
    ///
    /// # Errors
    /// When that file cannot be opened.
    pub(crate) fn list(&self, executor: &mut Executor<'_>, meter: &Arc<Meter>) -> Result<List> {
        let Some(checkpoint) = &self.checkpoint else {
            return Ok(List {
                output: Output::new(meter, executor),
                file: None,
            });
        };
        let path = checkpoint::beside(checkpoint, checkpoint::LIST);
        let (output, file) = self.appended(&path, executor, meter)?;
        Ok(List {
            output,
            file: file.map(|file| (file, path)),
        })
    }
}

/// List of a tool.
pub(crate) struct List {
    pub output: Output,
    file: Option<(File, PathBuf)>,
}

impl List {
    /// The file, if there is one.
    pub(crate) fn file(&self) -> Option<&File> {
        self.file.as_ref().map(|(file, _)| file)
    }

    /// All was listed.
    ///
    /// # Errors
    /// When standard output cannot be written.
    pub(crate) fn finish(&self) -> Result<()> {
        self.output.finish().context("standard output")?;
        if let Some((file, path)) = &self.file {
            let mut file = file;
            file.rewind()?;
            match std::io::copy(&mut file, &mut std::io::stdout().lock()) {
                Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                    return Err(error).context("standard output");
                }
                _ => {}
            }
            std::fs::remove_file(path).with_context(|| path.display().to_string())?;
        }
        Ok(())
    }
}

/// State in a checkpoint besides the items.
#[derive(Serialize, Deserialize)]
pub(crate) struct Done<T> {
    pub found: T,
    /// Of the files that are appended to.
    pub lengths: Vec<u64>,
    /// Entries, directories, problems, vanished.
    pub counted: [u64; 4],
    pub seconds: f64,
}

/// A reader that can go to its end.
trait ReadSeek: Read + Seek {}

impl<R: Read + Seek> ReadSeek for R {}

/// A tool's walk.
pub(crate) struct Parts {
    is_wanted: bool,
    /// Of the first process.
    checkpoint: Option<Checkpoint>,
    interval: Duration,
    /// Rest of an earlier run, or part; at other processes than the first nothing to read.
    rest: Option<Box<dyn ReadSeek>>,
    files: Vec<File>,
    seconds: f64,
    /// Something is left to go on with.
    is_left: bool,
}

impl Parts {
    /// `asked` is what makes the walk this one and no other. `files` are those that are appended
    /// to, of which what is not in the checkpoint is cut off. Also what was found before, by all,
    /// if it goes on: at the first process, and `None` where nothing was.
    ///
    /// # Errors
    /// When it cannot go on.
    pub(crate) fn begin<T: Serialize + DeserializeOwned>(
        resumable: &Resumable,
        executor: &Executor<'_>,
        meter: &Meter,
        asked: String,
        files: &[&File],
    ) -> Result<(Parts, Option<T>)> {
        let mut parts = Parts {
            is_wanted: resumable.is_wanted(),
            checkpoint: None,
            interval: Duration::from_secs(resumable.checkpoint_interval),
            rest: None,
            files: Vec::new(),
            seconds: 0.0,
            is_left: false,
        };
        let Some(path) = &resumable.checkpoint else {
            return Ok((parts, None));
        };
        for file in files {
            parts.files.push(file.try_clone()?);
        }
        if !executor.is_first() {
            parts.rest = resumable.resume.then(nothing);
            return Ok((parts, None));
        }
        // Roots may be named from where one is.
        let here = std::env::current_dir().unwrap_or_default();
        let checkpoint = Checkpoint::new(path, format!("{asked}, in {here:?}"));
        let mut found = None;
        if !resumable.resume {
            // It may be killed before it writes down anything that it has done.
            checkpoint.begin()?;
            checkpoint.write(None::<Done<T>>)?;
        } else if let (Some(done), rest) = checkpoint.read::<Option<Done<T>>>()? {
            if done.lengths.len() != parts.files.len() {
                bail!("{} is of another walk", path.display());
            }
            // All are looked at before any is cut.
            for (file, length) in parts.files.iter().zip(&done.lengths) {
                refuse_shorter(file, *length)?;
            }
            for (file, length) in parts.files.iter().zip(&done.lengths) {
                file.set_len(*length)?;
            }
            meter.add_all(done.counted);
            parts.seconds = done.seconds;
            parts.rest = Some(Box::new(rest));
            found = Some(done.found);
        } else {
            // The contents of the files are in no checkpoint.
            for file in &parts.files {
                file.set_len(0)?;
            }
        }
        parts.checkpoint = Some(checkpoint);
        Ok((parts, found))
    }

    /// Walks to the end, or to Ctrl-C. `take` gets the visitors of a part, and whether Ctrl-C ended
    /// it, and gives what this process has found so far; all that is appended to files has to be
    /// written then, or handed over for standard output. No visitors are left in what is given
    /// back.
    ///
    /// # Errors
    /// When the walk is not complete for another reason than that some entries cannot be read, or
    /// cannot be written down.
    pub(crate) fn run<V: Visitor, T: Joined>(
        &mut self,
        executor: &mut Executor<'_>,
        roots: &[OsString],
        options: &mut Options,
        shares: bool,
        mut make: impl FnMut(usize) -> V,
        mut take: impl FnMut(Vec<V>, bool) -> Result<T>,
    ) -> Result<Ran<V>> {
        if self.is_wanted && matches!(executor, Executor::Together(_)) {
            // In what several have written they would be one.
            refuse_doubles(roots).context("--checkpoint over several processes")?;
        }
        let interrupts = self.is_wanted.then(Interrupts::take).transpose()?;
        let was_interrupted = || interrupts.as_ref().is_some_and(Interrupts::was_one);
        loop {
            let mut own = None;
            let mut timer = None;
            if self.is_wanted {
                let file = match (&self.checkpoint, &*executor) {
                    (Some(checkpoint), Executor::Alone) => checkpoint.begin()?,
                    _ => tempfile::tempfile_in(&options.spill_directory)?,
                };
                let saved = Arc::new(Saved::new(file.try_clone()?));
                if was_interrupted() {
                    // While the last checkpoint was written.
                    saved.ask();
                }
                if executor.is_first() {
                    timer = Some(Timer::start(&saved, self.interval)?);
                }
                own = Some((file, Arc::clone(&saved)));
                options.saved = Some(saved);
            }
            let walked = match self.rest.take() {
                Some(mut rest) => session::go_on(executor, &mut *rest, options, shares, &mut make),
                None => session::run(executor, roots, options, shares, &mut make),
            };
            drop(timer);
            let mut ran = walked?;
            ran.interrupted |= was_interrupted();
            let found = take(std::mem::take(&mut ran.visitors), ran.interrupted)?;
            self.seconds += ran.elapsed.as_secs_f64();
            ran.elapsed = Duration::from_secs_f64(self.seconds);
            options.saved = None;
            let Some((mut file, saved)) = own else {
                return Ok(ran);
            };
            let items = saved.finish::<V::Dir>().context("the checkpoint")?;
            let mut contribution = Contribution {
                interrupted: ran.interrupted,
                done: Done {
                    found,
                    lengths: self.reported_lengths()?,
                    counted: ran.meter.all(),
                    seconds: self.seconds,
                },
            };
            let verdict = match executor {
                Executor::Alone => Verdict {
                    is_left: items > 0 && !ran.meter.is_stopped(),
                    interrupted: ran.interrupted,
                },
                Executor::Together(processes) => {
                    file.rewind()?;
                    let to = self.checkpoint.as_ref();
                    merge_checkpoints::<V::Dir, T>(processes, options, &mut contribution, file, to)?
                }
            };
            // By now also a failure is known to write what visitors had gathered: a walk that was
            // stopped has dropped items, and lines maybe, and can go on only from the checkpoint
            // before.
            self.is_left = verdict.is_left;
            // Otherwise Ctrl-C came too late.
            ran.interrupted = verdict.is_left && verdict.interrupted;
            if verdict.is_left
                && let Some(checkpoint) = &self.checkpoint
            {
                // Now that what others have handed over is there as well.
                longest(&mut contribution.done.lengths, &self.lengths()?);
                checkpoint.write(Some(contribution.done))?;
            }
            if !verdict.is_left || ran.interrupted {
                return Ok(ran);
            }
            self.rest = Some(match &self.checkpoint {
                Some(checkpoint) => Box::new(checkpoint.read::<IgnoredAny>()?.1),
                None => nothing(),
            });
        }
    }

    /// Lengths in the first process's message: it looks last.
    fn reported_lengths(&self) -> Result<Vec<u64>> {
        match &self.checkpoint {
            Some(_) => Ok(vec![0; self.files.len()]),
            None => self.lengths(),
        }
    }

    /// Returns how long the files are that are appended to. Their bytes are on disk then.
    fn lengths(&self) -> Result<Vec<u64>> {
        let length = |file: &File| -> Result<u64> {
            file.sync_all()?;
            Ok(file.metadata()?.len())
        };
        self.files.iter().map(length).collect()
    }

    /// All is done, was reported, and was written without a failure: nothing is left to go on from.
    ///
    /// # Errors
    /// When the checkpoint cannot be removed.
    pub(crate) fn finish(&self) -> Result<()> {
        match &self.checkpoint {
            Some(checkpoint) => checkpoint.remove(),
            None => Ok(()),
        }
    }

    /// Returns whether Ctrl-C left something to go on from, so that there is nothing more to tell
    /// yet than that: processes have ended what they had to do together then.
    ///
    /// # Errors
    /// When the other processes do not speak as they should.
    pub(crate) fn is_put_off<V: Visitor>(
        &self,
        tool: &str,
        executor: &mut Executor<'_>,
        ran: &Ran<V>,
    ) -> Result<bool> {
        let is_put_off = self.is_left && ran.interrupted;
        if is_put_off {
            executor.gather((), &ran.meter)?;
            if executor.is_first() {
                let what = "the same command goes on with --resume";
                session::interrupted(tool, format_args!("{}; {what}", ran.so_far()));
            }
        }
        Ok(is_put_off)
    }
}

/// A file that is shorter than when the checkpoint was written has lost lines, which no run would
/// find again.
fn refuse_shorter(file: &File, length: u64) -> Result<()> {
    let now = file.metadata()?.len();
    if now < length {
        let link = format!("/proc/self/fd/{}", file.as_raw_fd());
        let path = std::fs::read_link(link).unwrap_or_else(|_| "a file that is appended to".into());
        bail!(
            "{} has {now} bytes, but had {length} when the checkpoint was written: what is missing cannot be listed again. Begin \
             anew, without --resume",
            path.display()
        );
    }
    Ok(())
}

/// Only the first process reads.
fn nothing() -> Box<dyn ReadSeek> {
    Box::new(std::io::empty())
}

/// Of each file the longest that a process knows of: what another one appended may not be seen at
/// once.
pub(crate) fn longest(lengths: &mut [u64], others: &[u64]) {
    for (length, other) in lengths.iter_mut().zip(others) {
        *length = (*length).max(*other);
    }
}
