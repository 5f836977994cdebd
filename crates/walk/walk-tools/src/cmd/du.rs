//! The tool `du`.

mod summer;

use crate::checkpoint_merge::Joined;
use crate::common_args::CommonArgs;
use crate::du::below::Below;
use crate::du::html::{Areas, page};
use crate::du::names::{Names, apart};
use crate::du::tables::{By, Tables};
use crate::du::times::{self, TimeOf};
use crate::du::units::{Threshold, Unit, threshold};
use crate::executor::Executor;
use crate::find::glob::Glob;
use crate::outcome::Outcome;
use crate::output::Output;
use crate::parts::{Parts, Resumable};
use crate::roots;
use crate::session;
use crate::text::{JsonPath, count, human, json_line, shown};
use anyhow::{Context, Result};
use clap::Args;
use pandofs_walk_fs::{DirState, Follow, Stat, StatxFlags};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};
use summer::Summer;

const EXAMPLES: &str = "\
Examples:
  pandofs du -sh /home/*
  pandofs du -h -d 1 -x --time /
  pandofs du --by user /scratch
      who has how much, with a chart
  pandofs du --by age --json /scratch | jq .groups
  pandofs du --json -d 1 /scratch | jq 'select(.bytes > 1e12).path'
  pandofs du --html usage.html /scratch
      a page with a map of the directories, and tables by user, group, age and size
  mpirun -n 20 pandofs du -sh /scratch
  pandofs du --checkpoint state /scratch > sizes
      a walk of days; if it ends too early, the same with --resume goes on from where it was

Sizes are what is on disk, in KiB, unless -h, -b, -B or --apparent-size is given. A file with
several names counts once, in the directory where one of its names is met first, over several
processes too (there -a shows such files in each process that meets one). Directories come in no
order, but after all that is in them. A root that is in another one counts there alone. Apparent
sizes include those of the directories themselves.";

/// Sum up the space that trees take, by directory or by owner, age or size
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES, disable_help_flag = true)]
pub struct Du {
    #[command(flatten)]
    pub(crate) common_args: CommonArgs,
    /// Only the sum of each root
    #[arg(short, long, conflicts_with_all = ["max_depth", "by"])]
    summarize: bool,
    /// Directories down to this level below the roots
    #[arg(short = 'd', long, value_name = "N", conflicts_with = "by")]
    max_depth: Option<u32>,
    /// Files as well as directories
    #[arg(short, long, conflicts_with_all = ["summarize", "by"])]
    all: bool,
    /// Sizes as people read them: 1.5M
    #[arg(short, long, overrides_with = "si")]
    human_readable: bool,
    /// The same by thousands
    #[arg(long, overrides_with = "human_readable")]
    si: bool,
    /// Sizes of files, rather than the room they take on disk
    #[arg(long)]
    apparent_size: bool,
    /// The same, in bytes
    #[arg(short, long)]
    bytes: bool,
    /// Sizes in units of this: 512, 4K, M
    #[arg(short = 'B', long, value_name = "SIZE", value_parser = Unit::parse)]
    block_size: Option<Unit>,
    /// Sizes in KiB
    #[arg(short)]
    k: bool,
    /// Sizes in MiB
    #[arg(short)]
    m: bool,
    /// Numbers of entries rather than sizes
    #[arg(long)]
    inodes: bool,
    /// The sum of all roots as well
    #[arg(short = 'c', long, conflicts_with = "by")]
    total: bool,
    /// Sizes of directories without those in them
    #[arg(short = 'S', long)]
    separate_dirs: bool,
    /// Count files with several names as often as they are met
    #[arg(short = 'l', long)]
    count_links: bool,
    /// Only what is at least this large; with a minus, at most
    #[arg(short, long, value_name = "SIZE", allow_hyphen_values = true, value_parser = threshold)]
    threshold: Option<Threshold>,
    /// The latest modification of anything below as well (or atime, ctime)
    #[arg(long, value_name = "WHICH", num_args = 0..=1, require_equals = true, default_missing_value = "mtime")]
    time: Option<TimeOf>,
    /// How times look: full-iso, long-iso, iso or +FORMAT
    #[arg(long, value_name = "STYLE", default_value = "long-iso")]
    time_style: String,
    /// Leave out entries with such a name (or path, if there is a '/' in it), and all below them
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<OsString>,
    /// The same for each line of a file
    #[arg(short = 'X', long, value_name = "FILE")]
    exclude_from: Vec<PathBuf>,
    /// Follow symbolic links
    #[arg(short = 'L', long, overrides_with_all = ["no_dereference", "dereference_args"])]
    dereference: bool,
    /// Follow those that are roots
    #[arg(short = 'D', short_alias = 'H', long, overrides_with_all = ["no_dereference", "dereference"])]
    dereference_args: bool,
    /// Follow none, as without any of these; of several the last one counts
    #[arg(short = 'P', long, overrides_with_all = ["dereference", "dereference_args"])]
    no_dereference: bool,
    /// Read the roots from a file, in which each has a NUL after it, or from standard input for -
    #[arg(long, value_name = "FILE", conflicts_with = "roots")]
    files0_from: Option<OsString>,
    /// End lines with a NUL
    #[arg(short = '0', long)]
    null: bool,
    /// Stay on the file systems of the roots
    #[arg(short = 'x', long)]
    one_file_system: bool,
    /// A table of all trees together, rather than of directories
    #[arg(long, value_name = "WHAT")]
    by: Option<By>,
    /// Print JSON: a table, or an object in a line for each directory, sizes in bytes
    #[arg(long, conflicts_with_all = ["html", "null"])]
    json: bool,
    /// Write a page for browsers to this file, rather than printing
    #[arg(long, value_name = "FILE", conflicts_with_all = ["by", "summarize", "max_depth", "all"])]
    html: Option<PathBuf>,
    #[command(flatten)]
    resumable: Resumable,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    /// Files and directories to sum up
    #[arg(value_name = "PATH", default_value = ".")]
    roots: Vec<OsString>,
}

/// A file with several names that one process met, for tables: another one may have met it too.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Linked {
    identity: (u64, u64),
    groups: Vec<Option<u64>>,
    bytes: u64,
}

/// Output of `--json` for a directory. Fields may be added; none goes or changes its meaning.
#[derive(Serialize)]
struct Line<'p> {
    /// None: the sum of all roots.
    #[serde(flatten)]
    path: Option<JsonPath<'p>>,
    /// On disk, or what files hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    /// With `--inodes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    inodes: Option<u64>,
    /// With `--time`: the latest below, nanoseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    mtime_ns: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    atime_ns: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ctime_ns: Option<i64>,
}

/// Findings so far.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Found {
    total: u64,
    /// The latest time of all, nanoseconds since 1970.
    moment: i64,
    tables: Tables,
    areas: Areas,
    linked: Vec<Linked>,
    /// Of files with several names.
    names: Vec<(u64, u64)>,
    /// When it began: ages count from there.
    now: i64,
}

impl Joined for Found {
    fn join(&mut self, other: Found) {
        self.total += other.total;
        self.moment = self.moment.max(other.moment);
        self.tables.add(&other.tables);
        self.areas.add(&other.areas);
        self.linked.extend(other.linked);
        self.names.extend(other.names);
        // Several may have met one file.
        self.names.sort_unstable();
        self.names.dedup();
    }
}

impl Du {
    /// # Errors
    /// When the walk or standard output fails.
    pub fn run(&self, executor: &mut Executor<'_>) -> Result<Outcome> {
        let mut options = self.common_args.options(executor)?;
        options.one_file_system = self.one_file_system;
        options.fields = self.fields();
        options.follow = if self.dereference {
            Follow::Always
        } else if self.dereference_args {
            Follow::Roots
        } else {
            Follow::Never
        };
        options.leaves = self.by.is_none();
        self.resumable.refuse_others(executor)?;
        let list = self.resumable.list(executor, &options.meter)?;
        let wanted = Wanted {
            tables: match (self.by, &self.html) {
                (Some(by), _) => vec![by],
                (None, Some(_)) => By::ALL.to_vec(),
                (None, None) => Vec::new(),
            },
            excluded: self.excluded()?,
            unit: self.unit(),
            several: executor.is_several(),
        };
        let files: Vec<_> = list.file().into_iter().collect();
        let asked = self.asked();
        let (mut parts, found) =
            Parts::begin::<Found>(&self.resumable, executor, &options.meter, asked, &files)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let mut found = found.unwrap_or(Found {
            now: now.map_or(0, |now| now.as_secs() as i64),
            moment: i64::MIN,
            ..Found::default()
        });
        found.now = executor.agree(found.now)?;
        // A thread that meets another name of theirs has to know: they have been counted.
        let before = executor.agree_all(std::mem::take(&mut found.names))?;
        let names = Names::met_before(before, executor.is_first());
        let total = Below::new([found.total, found.moment as u64]);
        let now = found.now;
        let named = match &self.files0_from {
            // Only the first process has the standard input.
            Some(file) if executor.is_first() => roots::from_file("--files0-from", file)?,
            Some(_) => Vec::new(),
            None => self.roots.clone(),
        };
        let named = executor.agree(named)?;
        let roots = apart(&named);
        let make = |_| Summer {
            du: self,
            wanted: &wanted,
            names: &names,
            total: &total,
            now,
            tables: Tables::default(),
            linked: Vec::new(),
            areas: Areas::default(),
            out: list.output.part(),
        };
        let take = |visitors: Vec<Summer<'_>>, _| {
            for visitor in visitors {
                found.tables.add(&visitor.tables);
                found.areas.add(&visitor.areas);
                found.linked.extend_from_slice(&visitor.linked);
            }
            found.total = total.bytes.load(Ordering::Relaxed);
            found.moment = total.moment.load(Ordering::Relaxed);
            let mut found = found.clone();
            found.names = names.all();
            Ok(found)
        };
        let ran = parts.run(executor, &roots, &mut options, false, make, take)?;
        if parts.is_put_off("du", executor, &ran)? {
            return session::finish(ran.outcome(), &list.output);
        }
        // Claims of roots that are files.
        let top = ran.top.state();
        found.total += top.bytes.load(Ordering::Relaxed);
        // Without such a root it begins with zeros.
        if top.bytes.load(Ordering::Relaxed) > 0 || top.moment.load(Ordering::Relaxed) != 0 {
            found.moment = found.moment.max(top.moment.load(Ordering::Relaxed));
        }
        let Some(all) = executor.gather(found, &ran.meter)? else {
            return Ok(Outcome::Done);
        };
        let mut found = Found {
            moment: i64::MIN,
            ..Found::default()
        };
        let mut seen = HashSet::new();
        for theirs in all {
            found.total += theirs.total;
            found.moment = found.moment.max(theirs.moment);
            found.tables.add(&theirs.tables);
            found.areas.add(&theirs.areas);
            for it in theirs.linked {
                if seen.insert(it.identity) {
                    found.tables.count(&wanted.tables, &it.groups, it.bytes);
                }
            }
        }
        list.finish()?;
        if ran.interrupted {
            let entries = count(ran.meter.entries());
            session::interrupted(
                "du",
                format_args!("sums are of {entries} entries, not of all"),
            );
        }
        let last = Output::last(&ran.meter);
        let apparent = self.apparent_size || self.bytes;
        if let Some(by) = self.by {
            let report = found.tables.report(0, by, apparent);
            last.print(&if self.json {
                report.json()?
            } else {
                report.chart(|bytes| {
                    if self.bytes || self.inodes {
                        count(bytes)
                    } else {
                        human(bytes)
                    }
                })
            });
        } else if let Some(path) = &self.html {
            let html = self.page(&found, &wanted, &named, &ran);
            std::fs::write(path, html).with_context(|| path.display().to_string())?;
        } else if self.total && self.json {
            let line = Line {
                path: None,
                ..self.json_of(b"", found.total, found.moment)
            };
            json_line(&line, last.part().bytes());
        } else if self.total {
            let end = if self.null { '\0' } else { '\n' };
            let mut line = wanted.unit.shown(found.total);
            if self.time.is_some() {
                line = format!("{line}\t{}", times::shown(found.moment, &self.time_style));
            }
            last.print(&format!("{line}\ttotal{end}"));
        }
        parts.finish()?;
        session::finish(ran.outcome(), &last)
    }

    fn excluded(&self) -> Result<Vec<(bool, Glob)>> {
        let mut patterns: Vec<_> = self.exclude.iter().map(pattern).collect();
        for file in &self.exclude_from {
            let lines = std::fs::read(file).with_context(|| file.display().to_string())?;
            let lines = lines.split(|byte| *byte == b'\n');
            let lines = lines.filter(|line| !line.is_empty());
            patterns.extend(lines.map(|line| pattern(&OsStr::from_bytes(line).to_owned())));
        }
        Ok(patterns)
    }

    fn fields(&self) -> StatxFlags {
        let mut fields = StatxFlags::TYPE
            | StatxFlags::SIZE
            | StatxFlags::BLOCKS
            | StatxFlags::NLINK
            | StatxFlags::INO;
        fields |= match self.by {
            Some(By::User) => StatxFlags::UID,
            Some(By::Group) => StatxFlags::GID,
            Some(By::Age) => StatxFlags::MTIME,
            Some(By::Size) | None => StatxFlags::empty(),
        };
        if self.html.is_some() {
            fields |= StatxFlags::UID | StatxFlags::GID | StatxFlags::MTIME;
        }
        fields | self.time.map_or(StatxFlags::empty(), TimeOf::field)
    }

    /// Returns the request without its speed and the place of its checkpoint.
    fn asked(&self) -> String {
        let mut asked = self.clone();
        asked.common_args = CommonArgs::default();
        asked.resumable = Resumable::default();
        format!("{asked:?}")
    }

    fn unit(&self) -> Unit {
        if let Some(unit) = &self.block_size {
            unit.clone()
        } else if self.human_readable {
            Unit::Human
        } else if self.si {
            Unit::Thousands
        } else if self.bytes || self.inodes {
            Unit::Blocks(1, String::new())
        } else {
            let size = if self.m { 1 << 20 } else { 1 << 10 };
            Unit::Blocks(size, String::new())
        }
    }

    fn measure(&self, stat: &Stat) -> u64 {
        if self.inodes {
            1
        } else if self.apparent_size || self.bytes {
            stat.size()
        } else {
            stat.blocks() * 512
        }
    }

    /// Returns the sum below a path, in JSON.
    fn json_of<'p>(&self, path: &'p [u8], sum: u64, moment: i64) -> Line<'p> {
        let named = |which| (self.time == Some(which)).then_some(moment);
        Line {
            path: Some(JsonPath::new(path)),
            bytes: (!self.inodes).then_some(sum),
            inodes: self.inodes.then_some(sum),
            mtime_ns: named(TimeOf::Mtime),
            atime_ns: named(TimeOf::Atime),
            ctime_ns: named(TimeOf::Ctime),
        }
    }

    fn moment(&self, stat: &Stat) -> i64 {
        self.time.map_or(i64::MIN, |time| time.of(stat))
    }

    fn page(
        &self,
        found: &Found,
        wanted: &Wanted,
        roots: &[OsString],
        ran: &session::Ran<Summer<'_>>,
    ) -> String {
        let apparent = self.apparent_size || self.bytes;
        let reports: Vec<_> = (0..)
            .zip(&wanted.tables)
            .map(|(number, by)| found.tables.report(number, *by, apparent))
            .collect();
        let roots: Vec<String> = roots.iter().map(|it| shown(it.as_bytes())).collect();
        let what = if apparent {
            "what files hold"
        } else {
            "on disk"
        };
        let written = jiff::Zoned::now().strftime("%Y-%m-%d %H:%M").to_string();
        let mut facts = vec![
            ("Trees", roots.join(", ")),
            (
                "Size",
                format!(
                    "{} ({} bytes, {what})",
                    human(found.total),
                    count(found.total)
                ),
            ),
            ("Entries", count(ran.meter.entries())),
            ("Could not be looked at", count(ran.meter.problems())),
            ("Written", written),
        ];
        let mut title = format!("Usage of {}", roots.join(", "));
        if ran.interrupted {
            title += " (interrupted)";
            let what = "It was interrupted: all sizes are of what was met by then";
            facts.insert(0, ("Not all", what.to_owned()));
        }
        page(&title, &found.areas, &reports, &facts)
    }
}

fn pattern(pattern: &OsString) -> (bool, Glob) {
    let bytes = pattern.as_bytes();
    (bytes.contains(&b'/'), Glob::new(bytes, false))
}

/// Options in their evaluated form.
struct Wanted {
    tables: Vec<By>,
    excluded: Vec<(bool, Glob)>,
    unit: Unit,
    /// Other processes may meet other names of a file.
    several: bool,
}
