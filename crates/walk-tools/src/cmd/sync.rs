//! `sync`

use crate::cmd::cp::{methods, patterns};
use crate::copy::delete::Deleter;
use crate::copy::wanted::Wanted;
use crate::crew::Crew;
use crate::how::How;
use crate::job::{Job, Removed};
use crate::mirror::{Mirror, parted};
use crate::outcome::Outcome;
use crate::output::Output;
use crate::session;
use anyhow::{Result, bail};
use clap::Args;
use pandofs_walk_fs::Options;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
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
    /// Say what is done
    #[arg(short, long)]
    verbose: bool,
    /// Leave entries alone with such a name (or path, if there is a '/' in it), and all below them
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
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
    #[arg(short, long)]
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
            excluded: patterns(&self.exclude)?,
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

    fn remove(&self, crew: &mut Crew<'_>, options: &Options) -> Result<Removed> {
        let excluded = patterns(&self.exclude)?;
        let origin = Mirror::new([(&*self.target, &*self.source)])?;
        let output = Output::new(&options.meter, crew);
        let lists = self.dry_run || self.verbose;
        let roots = [self.target.clone()];
        let ran = session::run(crew, &roots, options, lists, |_| Deleter {
            tool: "sync",
            origin: &origin,
            excluded: &excluded,
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
