//! `cp`

use crate::copy::data::Methods;
use crate::copy::wanted::Wanted;
use crate::crew::Crew;
use crate::find::glob::Glob;
use crate::how::How;
use crate::job::{self, Job};
use crate::mirror::{parted, refuse_doubles};
use crate::outcome::Outcome;
use anyhow::{Result, bail};
use clap::Args;
use pandofs_walk_fs::Follow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const EXAMPLES: &str = "\
Examples:
  pandofs cp project /backup
      makes /backup/project
  pandofs cp --resume /scratch/run-17 /archive/run-17
      goes on with a copy that was interrupted
  pandofs cp --dry-run -x / /mnt/disk
  mpirun -n 16 --hostfile hosts pandofs cp /scratch/results /archive

Trees are copied as they are: owner, permissions, times, extended attributes, access control lists,
holes, files with several names, links, devices. Large files are copied in pieces by all threads.
Where the file system can, copies share their data until they are changed. A file that is
there already is replaced at once, when its copy is complete. What somebody else removes meanwhile
is not missed.";

/// Copy trees in parallel, with all that belongs to them
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Cp {
    #[command(flatten)]
    how: How,
    /// Leave files alone that are there already, with the same size and time of modification
    #[arg(long, visible_alias = "update")]
    resume: bool,
    /// Say what would be copied, and copy nothing
    #[arg(long)]
    dry_run: bool,
    /// Say what is copied
    #[arg(short, long)]
    verbose: bool,
    /// TARGET is the copy itself, also if it is a directory already
    #[arg(short = 'T', long)]
    no_target_directory: bool,
    /// Leave out entries with such a name (or path, if there is a '/' in it), and all below them
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// Copy all data, also where they could be shared
    #[arg(long)]
    no_reflink: bool,
    /// Stay on the file systems of what is copied
    #[arg(short = 'x', long)]
    one_file_system: bool,
    /// Copy what symbolic links lead to, rather than the links
    #[arg(short = 'L', long)]
    follow: bool,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
    /// Is always so; taken for the habit
    #[arg(short = 'a', short_aliases = ['r', 'R', 'p'], long)]
    archive: bool,
    /// What to copy
    #[arg(required = true, value_name = "SOURCE")]
    sources: Vec<OsString>,
    /// Where to
    #[arg(required = true, value_name = "TARGET")]
    target: OsString,
}

impl Cp {
    /// # Errors
    /// When it cannot begin, or standard output fails.
    pub fn run(&self, crew: &mut Crew<'_>) -> Result<Outcome> {
        refuse_doubles(&self.sources)?;
        let into = !self.no_target_directory && Path::new(&self.target).is_dir();
        let into = crew.agree(into)?;
        if !into && self.sources.len() > 1 {
            bail!(
                "'{}' is no directory to copy several things to",
                self.target.display()
            );
        }
        let mut pairs = Vec::new();
        for source in &self.sources {
            let target = if into {
                within(&self.target, source)
            } else {
                self.target.clone()
            };
            pairs.push((source.clone(), target));
        }
        let mut options = self.how.options(crew)?;
        options.one_file_system = self.one_file_system;
        if self.follow {
            options.follow = Follow::Always;
        }
        let wanted = Wanted {
            tool: "cp",
            update: self.resume,
            compare: false,
            dry_run: self.dry_run,
            clears: false,
            verbose: self.verbose,
            replaces: false,
            excluded: patterns(&self.exclude)?,
        };
        let base = if into {
            self.target.clone()
        } else {
            OsStr::from_bytes(parted(self.target.as_bytes()).0).to_owned()
        };
        Job {
            pairs,
            base,
            wanted,
            methods: methods(self.no_reflink),
            options,
            json: self.json,
        }
        .run(crew, job::Removed::default())
    }
}

/// Where a source goes in a directory: under its own name, or, if it has none, to the directory itself.
fn within(target: &OsString, source: &OsStr) -> OsString {
    let name = parted(source.as_bytes()).1;
    if matches!(name, b"." | b"..") {
        return target.clone();
    }
    Path::new(target).join(OsStr::from_bytes(name)).into()
}

/// Patterns of names, and of paths.
pub fn patterns(texts: &[String]) -> Result<Vec<(bool, Glob)>> {
    texts
        .iter()
        .map(|text| Ok((text.contains('/'), Glob::new(text.as_bytes(), false))))
        .collect()
}

/// How data are copied.
pub fn methods(no_reflink: bool) -> Methods {
    if no_reflink {
        Methods::plain()
    } else {
        Methods::default()
    }
}
