//! The tool `cp`.

use crate::common_args::CommonArgs;
use crate::copy::data::{Holes, Methods};
use crate::copy::wanted::Wanted;
use crate::executor::Executor;
use crate::find::glob::Glob;
use crate::job::{self, Job};
use crate::mirror::{parted, refuse_doubles};
use crate::outcome::{Outcome, wrong};
use crate::output::Output;
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
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
    pub(crate) common_args: CommonArgs,
    /// Leave files alone that are there already, with the same size and time of modification, and
    /// go on in the middle of large files; what is left of these at Ctrl-C is for that
    #[arg(long)]
    resume: bool,
    /// Leave alone what is there already and not older
    #[arg(short, long)]
    update: bool,
    /// Leave alone all that is there already, but for directories
    #[arg(short = 'n', long)]
    no_clobber: bool,
    /// Say what would be copied, and copy nothing
    #[arg(long)]
    dry_run: bool,
    /// Say what is copied
    #[arg(short, long)]
    verbose: bool,
    /// TARGET is the copy itself, also if it is a directory already
    #[arg(short = 'T', long)]
    no_target_directory: bool,
    /// Copy all that is named into this directory
    #[arg(
        short = 't',
        long,
        value_name = "DIRECTORY",
        conflicts_with = "no_target_directory"
    )]
    target_directory: Option<OsString>,
    /// Leave out entries with such a name (or path, if there is a '/' in it), and all below them
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// Copy all data, also where they could be shared
    #[arg(long, conflicts_with = "reflink")]
    no_reflink: bool,
    /// Whether data are shared with the copies until one of both is changed
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "always")]
    reflink: Option<Reflink>,
    /// Treatment of holes
    #[arg(long, value_name = "HOW", default_value = "auto")]
    sparse: Holes,
    /// Stay on the file systems of what is copied
    #[arg(short = 'x', long)]
    one_file_system: bool,
    /// Copy what symbolic links lead to, rather than the links
    #[arg(
        short = 'L',
        long,
        visible_alias = "dereference",
        overrides_with_all = ["follow", "no_dereference", "follow_sources"]
    )]
    follow: bool,
    /// The same of those that are named
    #[arg(short = 'H', overrides_with_all = ["follow", "no_dereference", "follow_sources"])]
    follow_sources: bool,
    /// Copy symbolic links as such, as without -L and -H; of these the last one counts
    #[arg(short = 'P', short_alias = 'd', long, overrides_with_all = ["follow", "no_dereference", "follow_sources"])]
    no_dereference: bool,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
    /// Is always so; taken for the habit
    #[arg(short = 'a', short_aliases = ['r', 'R', 'p', 'f'], long, overrides_with = "archive",
        visible_aliases = ["recursive", "force", "remove-destination"])]
    archive: bool,
    /// The same
    #[arg(long, value_name = "WHAT", num_args = 0..=1, require_equals = true)]
    preserve: Option<String>,
    /// Sources; and the target, as the last one, unless -t is given
    #[arg(required = true, value_name = "SOURCE AND TARGET")]
    paths: Vec<OsString>,
}

/// Whether data are shared.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Reflink {
    /// Where they can be
    Auto,
    /// Files whose data cannot be shared are not copied
    Always,
    /// Nowhere
    Never,
}

impl Cp {
    /// # Errors
    /// When it cannot begin, or standard output fails.
    pub fn run(&self, executor: &mut Executor<'_>) -> Result<Outcome> {
        let (sources, target) = self.sources_and_target()?;
        refuse_doubles(sources)?;
        let into = !self.no_target_directory && Path::new(target).is_dir();
        let into = executor.agree(into)?;
        if !into && (sources.len() > 1 || self.target_directory.is_some()) {
            bail!(
                "'{}' is no directory to copy something into",
                target.display()
            );
        }
        // A name with a slash behind it is of a directory, or of nothing.
        if !into && target.as_bytes().ends_with(b"/") && !Path::new(&sources[0]).is_dir() {
            bail!("'{}' is no directory", target.display());
        }
        let mut pairs = Vec::new();
        for source in sources {
            let target = if into {
                within(target, source)
            } else {
                target.clone()
            };
            pairs.push((source.clone(), target));
        }
        let mut options = self.common_args.options(executor)?;
        options.one_file_system = self.one_file_system;
        if self.follow {
            options.follow = Follow::Always;
        } else if self.follow_sources {
            options.follow = Follow::Roots;
        }
        let wanted = Wanted {
            tool: "cp",
            update: self.resume,
            compare: false,
            dry_run: self.dry_run,
            clears: false,
            verbose: self.verbose,
            json: self.json,
            no_clobber: self.no_clobber,
            newer: self.update,
            excluded: patterns(&self.exclude)?,
            ..Wanted::default()
        };
        let base = if into {
            target.clone()
        } else {
            OsStr::from_bytes(parted(target.as_bytes()).0).to_owned()
        };
        let output = Output::new(&options.meter, executor).aside(!self.dry_run);
        Job {
            pairs,
            base,
            wanted,
            methods: self.methods().holes(self.sparse),
            options,
            output,
            json: self.json,
        }
        .run(executor, job::Removed::default())
    }
}

impl Cp {
    fn sources_and_target(&self) -> Result<(&[OsString], &OsString)> {
        if let Some(directory) = &self.target_directory {
            return Ok((&self.paths, directory));
        }
        match self.paths.split_last() {
            Some((target, sources)) if !sources.is_empty() => Ok((sources, target)),
            _ => Err(wrong(format!(
                "there is nothing to copy to '{}'",
                self.paths[0].display()
            ))),
        }
    }

    fn methods(&self) -> Methods {
        match self.reflink {
            Some(Reflink::Always) => Methods::sharing(),
            Some(Reflink::Never) => methods(true),
            Some(Reflink::Auto) | None => methods(self.no_reflink),
        }
    }
}

/// Returns the target of a source in a directory: under its own name, or, if it has none, the
/// directory.
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

/// Returns how data are copied.
pub fn methods(no_reflink: bool) -> Methods {
    if no_reflink {
        Methods::plain()
    } else {
        Methods::default()
    }
}
