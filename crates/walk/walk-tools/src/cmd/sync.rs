//! The tool `sync`.

use crate::cmd::cp::{methods, patterns};
use crate::common_args::CommonArgs;
use crate::copy::delete::Deleter;
use crate::copy::wanted::Wanted;
use crate::executor::Executor;
use crate::find::glob::Glob;
use crate::job::{Job, Removed};
use crate::mirror::{Mirror, parted};
use crate::outcome::Outcome;
use crate::output::Output;
use crate::session;
use anyhow::{Context, Result, bail};
use clap::Args;
use pandofs_walk_fs::{Follow, Options, Stat};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, openat};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const EXAMPLES: &str = "\
Examples:
  pandofs sync /home /backup/home
      makes /backup/home what /home is, but for what it has besides
  pandofs sync --delete --dry-run /home /backup/home
      + what would be new, ~ changed, - removed
  pandofs sync --delete --exclude .cache /home /backup/home
      with excluded entries left alone in both, and what they are in

Files that have the same size and time of modification are taken to be the same, but for their
attributes, which are brought up to date. With --delete, what the source has not is removed
before anything is copied; nothing goes where the source cannot be read. All else is as with cp.";

/// Make one tree what another one is, in parallel
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Sync {
    #[command(flatten)]
    pub(crate) common_args: CommonArgs,
    /// Remove what the source has not
    #[arg(long)]
    delete: bool,
    /// Compare what is in files of the same size, rather than their times
    #[arg(short, long)]
    checksum: bool,
    /// Say what would be done, and do nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Files of the same size are taken to be the same
    #[arg(long, conflicts_with = "checksum")]
    size_only: bool,
    /// Say what is done
    #[arg(
        short,
        long,
        overrides_with = "verbose",
        short_alias = 'i',
        visible_alias = "itemize-changes"
    )]
    verbose: bool,
    /// Leave entries alone with such a name (or path, if there is a '/' in it), and all below them
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// The same for each line of a file, but for empty ones and those that begin with # or ;
    #[arg(long, value_name = "FILE")]
    exclude_from: Vec<PathBuf>,
    /// Of those that would be left alone, none with such a name or path
    #[arg(long, value_name = "PATTERN")]
    include: Vec<String>,
    /// Copy all data, also where they could be shared
    #[arg(long)]
    no_reflink: bool,
    /// Stay on the file systems of the roots
    #[arg(short = 'x', long)]
    one_file_system: bool,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
    /// Is always so; taken for the habit
    #[arg(short, long, overrides_with = "archive", short_aliases = ['H', 'A', 'X', 'S'], visible_aliases = ["hard-links", "acls", "xattrs", "sparse"])]
    archive: bool,
    /// The tree that is copied
    #[arg(value_name = "SOURCE")]
    source: OsString,
    /// The tree that is made like it
    #[arg(value_name = "TARGET")]
    target: OsString,
}

impl Sync {
    /// # Errors
    /// When it cannot begin, or standard output fails.
    pub fn run(&self, executor: &mut Executor<'_>) -> Result<Outcome> {
        if !Path::new(&self.source).is_dir() {
            bail!("'{}' is no directory", self.source.display());
        }
        let mut options = self.common_args.options(executor)?;
        options.one_file_system = self.one_file_system;
        // Each side is the directory that its name leads to.
        options.follow = Follow::Roots;
        let exists = executor.agree(Path::new(&self.target).is_dir())?;
        let output = Output::new(&options.meter, executor).aside(!self.dry_run);
        let mut removed = Removed::default();
        if self.delete && exists {
            refuse_below(&self.source, &self.target)?;
            removed = self.remove(executor, &options, &output)?;
        }
        let wanted = Wanted {
            tool: "sync",
            update: true,
            compare: self.checksum,
            dry_run: self.dry_run,
            clears: self.delete,
            verbose: self.verbose,
            json: self.json,
            replaces: true,
            size_only: self.size_only,
            excluded: self.excluded()?,
            included: patterns(&self.include)?,
            ..Wanted::default()
        };
        let base = if exists {
            self.target.clone()
        } else {
            OsStr::from_bytes(parted(self.target.as_bytes()).0).to_owned()
        };
        Job {
            pairs: vec![(self.source.clone(), self.target.clone())],
            base,
            wanted,
            methods: methods(self.no_reflink),
            options,
            output,
            json: self.json,
        }
        .run(executor, removed)
    }

    fn excluded(&self) -> Result<Vec<(bool, Glob)>> {
        let mut texts = self.exclude.clone();
        for file in &self.exclude_from {
            let lines =
                std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
            let lines = lines
                .lines()
                .filter(|line| !line.is_empty() && !line.starts_with(['#', ';']));
            texts.extend(lines.map(str::to_owned));
        }
        patterns(&texts)
    }

    fn remove(
        &self,
        executor: &mut Executor<'_>,
        options: &Options,
        output: &Output,
    ) -> Result<Removed> {
        let (excluded, included) = (self.excluded()?, patterns(&self.include)?);
        let source = Stat::of_open(open(&self.source)?.as_fd())?.identity();
        let origin = Mirror::new([(&*self.target, &*self.source)])?;
        let roots = [self.target.clone()];
        let ran = session::run(executor, &roots, options, false, |_| Deleter {
            tool: "sync",
            origin: &origin,
            excluded: &excluded,
            included: &included,
            called: (&self.target, &self.source),
            source,
            dry_run: self.dry_run,
            verbose: self.verbose,
            json: self.json,
            meter: Arc::clone(&options.meter),
            out: output.part(),
            removed: 0,
        })?;
        Ok(Removed {
            removed: ran.visitors.iter().map(|it| it.removed).sum(),
            interrupted: ran.interrupted,
        })
    }
}

/// Refuses a source that is below the target, by whatever names: it would be removed, as it is not
/// in itself.
fn refuse_below(source: &OsStr, target: &OsStr) -> Result<()> {
    let theirs = Stat::of_open(open(target)?.as_fd())?.identity();
    let mut dir = open(source)?;
    let mut ours = Stat::of_open(dir.as_fd())?.identity();
    loop {
        // Where directories are, not what their names say.
        dir = openat(&dir, c"..", PLACE, Mode::empty())
            .with_context(|| format!("where '{}' is", source.display()))?;
        let above = Stat::of_open(dir.as_fd())?.identity();
        // '/' is in itself.
        if above == ours {
            return Ok(());
        }
        if above == theirs {
            bail!(
                "'{}' is in '{}': --delete would remove it",
                source.display(),
                target.display()
            );
        }
        ours = above;
    }
}

/// Opens what a name leads to, to look where it is.
fn open(directory: &OsStr) -> Result<OwnedFd> {
    let opened = openat(CWD, directory, PLACE, Mode::empty());
    opened.with_context(|| directory.display().to_string())
}

/// A user who may go through a directory may not always read it.
const PLACE: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
