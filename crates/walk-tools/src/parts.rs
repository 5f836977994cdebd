//! Walks that are written down from time to time, and go on after whatever interrupted them.
//!
//! A tool is made of a walk, of what it has found so far (its `T`), and of files that it appends to. At each checkpoint the
//! walk stops between two items; what was found, how long the files are and the items that are left are written, and the
//! walk goes on. After a crash it goes on from the last checkpoint: what was appended later is cut off the files.

use crate::checkpoint::{Checkpoint, Timer};
use crate::crew::Crew;
use crate::output::Output;
use crate::session::{self, Ran};
use anyhow::{Context, Result, bail};
use clap::Args;
use pandofs_walk_fs::{Meter, Options, Visitor};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufReader, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Options of tools that can go on.
#[derive(Args, Clone, Debug, Default)]
pub struct Resumable {
    /// Write what was done to this file from time to time, and at Ctrl-C; it is removed at the end
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
    /// Go on from what --checkpoint has written
    #[arg(long, requires = "checkpoint")]
    resume: bool,
}

impl Resumable {
    pub fn is_wanted(&self) -> bool {
        self.checkpoint.is_some()
    }

    /// Whether an earlier run began.
    pub fn goes_on(&self) -> bool {
        self.resume
    }

    /// Opens a file that the tool appends to.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn file(&self, path: &Path) -> Result<File> {
        let file = File::options()
            .append(true)
            .read(true)
            .create(true)
            .open(path)
            .with_context(|| path.display().to_string())?;
        if !self.resume {
            file.set_len(0)?;
        }
        Ok(file)
    }

    /// Where the tool lists: standard output, or with a checkpoint a file beside it, which comes to standard output when
    /// all is done, as nothing can be cut off that.
    ///
    /// # Errors
    /// When that file cannot be opened.
    pub fn list(&self, crew: &Crew<'_>, meter: &Arc<Meter>) -> Result<List> {
        let Some(checkpoint) = &self.checkpoint else {
            return Ok(List {
                output: Output::new(meter, crew),
                file: None,
            });
        };
        let mut name = checkpoint.clone().into_os_string();
        name.push(".list");
        let path = PathBuf::from(name);
        let file = self.file(&path)?;
        Ok(List {
            output: Output::file(meter, file.try_clone()?),
            file: Some((file, path)),
        })
    }
}

/// What a tool lists.
pub struct List {
    pub output: Output,
    file: Option<(File, PathBuf)>,
}

impl List {
    /// The file, if there is one.
    pub fn file(&self) -> Option<&File> {
        self.file.as_ref().map(|(file, _)| file)
    }

    /// All was listed.
    ///
    /// # Errors
    /// When standard output cannot be written.
    pub fn finish(&self) -> Result<()> {
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

/// What a checkpoint knows besides the items.
#[derive(Serialize, Deserialize)]
struct Done<T> {
    found: T,
    /// Of the files that are appended to.
    lengths: Vec<u64>,
    /// Entries, directories, problems, vanished.
    counted: [u64; 4],
    seconds: f64,
}

/// A tool's walk.
pub struct Parts {
    checkpoint: Option<Checkpoint>,
    interval: Duration,
    /// What is left of an earlier run.
    rest: Option<BufReader<File>>,
    files: Vec<File>,
    seconds: f64,
    /// Something is left to go on with.
    is_left: bool,
}

impl Parts {
    /// `asked` is what makes the walk this one and no other. `files` are those that are appended to, of which what is not
    /// in the checkpoint is cut off. Also what was found before, if it goes on.
    ///
    /// # Errors
    /// When it cannot go on.
    pub fn begin<T: DeserializeOwned>(
        resumable: &Resumable,
        crew: &Crew<'_>,
        meter: &Meter,
        asked: String,
        files: &[&File],
    ) -> Result<(Parts, Option<T>)> {
        let mut parts = Parts {
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
        crew.alone("--checkpoint")?;
        for file in files {
            parts.files.push(file.try_clone()?);
        }
        let checkpoint = Checkpoint::new(path, asked);
        let mut found = None;
        if resumable.resume {
            let (done, rest) = checkpoint.read::<Done<T>>()?;
            if done.lengths.len() != parts.files.len() {
                bail!("{} is of another walk", path.display());
            }
            for (file, length) in parts.files.iter().zip(&done.lengths) {
                file.set_len(*length)?;
            }
            meter.add_all(done.counted);
            parts.seconds = done.seconds;
            parts.rest = Some(rest);
            found = Some(done.found);
        }
        parts.checkpoint = Some(checkpoint);
        Ok((parts, found))
    }

    /// Walks to the end, or to Ctrl-C. `take` gets the visitors of a part, and whether
    /// Ctrl-C ended it, and gives what was found so far; all that is
    /// appended to files has to be written then. No visitors are left in what is given back.
    ///
    /// # Errors
    /// When the walk is not complete for another reason than that some entries cannot be read, or cannot be written down.
    pub fn run<V: Visitor, T: Serialize>(
        &mut self,
        crew: &mut Crew<'_>,
        roots: &[OsString],
        options: &mut Options,
        lists: bool,
        mut make: impl FnMut(usize) -> V,
        mut take: impl FnMut(Vec<V>, bool) -> Result<T>,
    ) -> Result<Ran<V>> {
        loop {
            let mut timer = None;
            if let Some(checkpoint) = &self.checkpoint {
                let saved = checkpoint.begin()?;
                timer = Some(Timer::start(&saved, self.interval)?);
                options.saved = Some(saved);
            }
            let walked = match self.rest.take() {
                Some(mut rest) => session::go_on(&mut rest, options, lists, &mut make),
                None => session::run(crew, roots, options, lists, &mut make),
            };
            drop(timer);
            let mut ran = walked?;
            let found = take(std::mem::take(&mut ran.visitors), ran.interrupted)?;
            self.seconds += ran.elapsed.as_secs_f64();
            ran.elapsed = Duration::from_secs_f64(self.seconds);
            let (Some(checkpoint), Some(saved)) = (&self.checkpoint, options.saved.take()) else {
                return Ok(ran);
            };
            let items = saved.finish::<V::Dir>().context("the checkpoint")?;
            self.is_left = items > 0;
            if items == 0 {
                // Ctrl-C came too late.
                ran.interrupted = false;
                return Ok(ran);
            }
            let mut lengths = Vec::new();
            for file in &self.files {
                file.sync_all()?;
                lengths.push(file.metadata()?.len());
            }
            checkpoint.write(Done {
                found,
                lengths,
                counted: ran.meter.all(),
                seconds: self.seconds,
            })?;
            if ran.interrupted {
                return Ok(ran);
            }
            self.rest = Some(checkpoint.read::<Done<serde::de::IgnoredAny>>()?.1);
        }
    }

    /// All is done, and was told: nothing is left to go on from.
    ///
    /// # Errors
    /// When the checkpoint cannot be removed.
    pub fn finish(&self) -> Result<()> {
        match &self.checkpoint {
            Some(checkpoint) => checkpoint.remove(),
            None => Ok(()),
        }
    }

    /// Whether Ctrl-C left something to go on from, so that there is nothing to tell yet.
    pub fn is_put_off<V: Visitor>(&self, ran: &Ran<V>) -> bool {
        self.is_left && ran.interrupted
    }
}
