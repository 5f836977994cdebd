//! `sync`

use crate::cmd::cp::{methods, patterns};
use crate::copy::delete::Deleter;
use crate::copy::wanted::Wanted;
use crate::crew::Crew;
use crate::find::glob::Glob;
use crate::how::How;
use crate::job::{Job, Removed};
use crate::mirror::{Mirror, parted};
use crate::outcome::Outcome;
use crate::output::Output;
use crate::session;
use anyhow::{Context, Result, bail};
use clap::Args;
use pandofs_walk_fs::{Follow, Options};
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
      with excluded entries left alone in both

Files that have the same size and time of modification are taken to be the same, but for their
attributes, which are brought up to date. With --delete, what the source has not is removed
before anything is copied; nothing goes where the source cannot be read. All else is as with cp.";

/// Make one tree what another one is, in parallel
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Sync {
    #[command(flatten)]
    how: How,
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
    /// What becomes like it
    #[arg(value_name = "TARGET")]
    target: OsString,
}

impl Sync {
    /// # Errors
    /// When it cannot begin, or standard output fails.
    pub fn run(&self, crew: &mut Crew<'_>) -> Result<Outcome> {
        if !Path::new(&self.source).is_dir() {
            bail!("'{}' is no directory", self.source.display());
        }
        let mut options = self.how.options(crew)?;
        options.one_file_system = self.one_file_system;
        // Each side is the directory that its name leads to.
        options.follow = Follow::Roots;
        let exists = crew.agree(Path::new(&self.target).is_dir())?;
        let mut removed = Removed::default();
        if self.delete && exists {
            removed = self.remove(crew, &options)?;
        }
        let wanted = Wanted {
            tool: "sync",
            update: true,
            compare: self.checksum,
            dry_run: self.dry_run,
            clears: self.delete,
            verbose: self.verbose,
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
            json: self.json,
        }
        .run(crew, removed)
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

    fn remove(&self, crew: &mut Crew<'_>, options: &Options) -> Result<Removed> {
        let (excluded, included) = (self.excluded()?, patterns(&self.include)?);
        let origin = Mirror::new([(&*self.target, &*self.source)])?;
        let output = Output::new(&options.meter, crew);
        let lists = self.dry_run || self.verbose;
        let roots = [self.target.clone()];
        let ran = session::run(crew, &roots, options, lists, |_| Deleter {
            tool: "sync",
            origin: &origin,
            excluded: &excluded,
            included: &included,
            dry_run: self.dry_run,
            verbose: self.verbose,
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
