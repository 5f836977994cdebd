//! `du`

use crate::crew::Crew;
use crate::how::How;
use crate::outcome::Outcome;
use crate::output::{Output, Part};
use crate::session::{self, complain};
use crate::text::{bar, count, human};
use anyhow::Result;
use clap::{Args, ValueEnum};
use pandofs_walk_fs::{
    DirState, Entry, FileType, Flow, Leaving, Problem, Stat, StatxFlags, Visitor,
};
use serde::Serialize;
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

const EXAMPLES: &str = "\
Examples:
  pandofs du -sh /home/*
  pandofs du -h -d 1 -x /
  pandofs du --by user /scratch
      who has how much, with a chart
  pandofs du --by age --json /scratch | jq .groups

Sizes are what is on disk, in KiB, unless -h, -b or --apparent-size is given. A file with several
names counts once, in the directory where one of its names is met first. Directories come in no
order, but after all that is in them. A root that is in another one counts there alone. Apparent sizes include those of the directories themselves.";

/// Sum up the space that trees take, by directory or by owner, age or size
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES, disable_help_flag = true)]
pub struct Du {
    #[command(flatten)]
    how: How,
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
    #[arg(short, long)]
    human_readable: bool,
    /// What files hold, rather than what they take on disk
    #[arg(long)]
    apparent_size: bool,
    /// The same, in bytes
    #[arg(short, long)]
    bytes: bool,
    /// The sum of all roots as well
    #[arg(short = 'c', long, conflicts_with = "by")]
    total: bool,
    /// Stay on the file systems of the roots
    #[arg(short = 'x', long)]
    one_file_system: bool,
    /// A table of all trees together, rather than of directories
    #[arg(long, value_name = "WHAT")]
    by: Option<By>,
    /// Print JSON
    #[arg(long, requires = "by")]
    json: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    /// What to sum up
    #[arg(value_name = "PATH", default_value = ".")]
    roots: Vec<OsString>,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum By {
    /// Who owns it
    User,
    /// Which group it is of
    Group,
    /// When it was modified
    Age,
    /// How large it is; regular files
    Size,
}

impl Du {
    /// # Errors
    /// When the walk or standard output fails.
    pub fn run(&self, crew: &mut Crew<'_>) -> Result<Outcome> {
        crew.alone("du")?;
        let mut options = self.how.options(crew)?;
        options.one_file_system = self.one_file_system;
        options.fields = StatxFlags::TYPE
            | StatxFlags::SIZE
            | StatxFlags::BLOCKS
            | StatxFlags::NLINK
            | StatxFlags::INO;
        options.fields |= match self.by {
            Some(By::User) => StatxFlags::UID,
            Some(By::Group) => StatxFlags::GID,
            Some(By::Age) => StatxFlags::MTIME,
            Some(By::Size) | None => StatxFlags::empty(),
        };
        let output = Output::new(&options.meter, crew);
        let names = Names::default();
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |now| now.as_secs() as i64);
        let total = AtomicU64::new(0);
        let roots = apart(&self.roots);
        let ran = session::run(crew, &roots, &options, self.by.is_none(), |_| Summer {
            du: self,
            names: &names,
            total: &total,
            now,
            groups: BTreeMap::new(),
            out: output.part(),
        })?;
        let outcome = ran.outcome();
        let mut groups: BTreeMap<u64, Sum> = BTreeMap::new();
        for visitor in ran.visitors {
            for (group, sum) in &visitor.groups {
                groups.entry(*group).or_default().add(sum);
            }
        }
        if let Some(by) = self.by {
            output.print(&self.report(by, &groups)?);
        } else if self.total {
            let size = self.size(total.into_inner());
            output.print(&format!("{size}\ttotal\n"));
        }
        session::finish(outcome, &output)
    }

    fn measure(&self, stat: &Stat) -> u64 {
        if self.apparent_size || self.bytes {
            stat.size()
        } else {
            stat.blocks() * 512
        }
    }

    fn size(&self, bytes: u64) -> String {
        if self.human_readable {
            human(bytes)
        } else if self.bytes {
            bytes.to_string()
        } else {
            bytes.div_ceil(1024).to_string()
        }
    }

    fn report(&self, by: By, groups: &BTreeMap<u64, Sum>) -> Result<String> {
        let mut rows: Vec<Row> = groups
            .iter()
            .map(|(group, sum)| Row {
                name: by.name(*group),
                entries: sum.entries,
                bytes: sum.bytes,
            })
            .collect();
        if matches!(by, By::User | By::Group) {
            rows.sort_by_key(|row| std::cmp::Reverse(row.bytes));
        }
        let report = Report {
            by,
            apparent: self.apparent_size || self.bytes,
            bytes: rows.iter().map(|row| row.bytes).sum(),
            entries: rows.iter().map(|row| row.entries).sum(),
            groups: rows,
        };
        if self.json {
            return Ok(serde_json::to_string_pretty(&report)? + "\n");
        }
        let shown = |bytes| {
            if self.bytes {
                count(bytes)
            } else {
                human(bytes)
            }
        };
        let mut text = String::new();
        let most = report.groups.iter().map(|row| row.bytes).max().unwrap_or(0);
        for row in &report.groups {
            let line = format!(
                "{:<22} {:>14} {:>16}  {}",
                row.name,
                count(row.entries),
                shown(row.bytes),
                bar(row.bytes, most, 40)
            );
            text.push_str(line.trim_end());
            text.push('\n');
        }
        let (entries, bytes) = (count(report.entries), shown(report.bytes));
        Ok(text + &format!("{:<22} {entries:>14} {bytes:>16}\n", "all"))
    }
}

/// Without roots that are in others, which would count twice: the first of those is left that are the same.
fn apart(roots: &[OsString]) -> Vec<OsString> {
    let real: Vec<Option<PathBuf>> = roots
        .iter()
        .map(|root| {
            // A link that is a root is not followed.
            let path = Path::new(root);
            if path.is_symlink() {
                return None;
            }
            path.canonicalize().ok()
        })
        .collect();
    let is_in_another = |at: usize| {
        let Some(path) = &real[at] else { return false };
        real.iter().enumerate().any(|(other, above)| {
            other != at
                && above
                    .as_ref()
                    .is_some_and(|above| path.starts_with(above) && (path != above || other < at))
        })
    };
    let kept = (0..roots.len()).filter(|at| !is_in_another(*at));
    kept.map(|at| roots[at].clone()).collect()
}

/// What `--json` prints. Fields may be added; none goes or changes its meaning.
#[derive(Serialize)]
struct Report {
    by: By,
    /// Whether bytes are what files hold, rather than what they take on disk.
    apparent: bool,
    entries: u64,
    bytes: u64,
    groups: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    name: String,
    entries: u64,
    bytes: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    entries: u64,
    bytes: u64,
}

impl Sum {
    fn add(&mut self, other: &Sum) {
        self.entries += other.entries;
        self.bytes += other.bytes;
    }
}

const DAY: i64 = 86_400;
/// Seconds since the last change, and what is younger than that.
const AGES: [(i64, &str); 7] = [
    (DAY, "under a day"),
    (7 * DAY, "under a week"),
    (30 * DAY, "under 30 days"),
    (90 * DAY, "under 90 days"),
    (365 * DAY, "under a year"),
    (730 * DAY, "under two years"),
    (i64::MAX, "older"),
];
/// Bytes, and what has fewer.
const SIZES: [(u64, &str); 9] = [
    (1, "empty"),
    (4 << 10, "under 4 KiB"),
    (64 << 10, "under 64 KiB"),
    (1 << 20, "under 1 MiB"),
    (16 << 20, "under 16 MiB"),
    (256 << 20, "under 256 MiB"),
    (4 << 30, "under 4 GiB"),
    (64 << 30, "under 64 GiB"),
    (u64::MAX, "larger"),
];

impl By {
    /// Which group an entry is of, if any.
    fn group(self, stat: &Stat, now: i64) -> Option<u64> {
        match self {
            By::User => Some(u64::from(stat.uid())),
            By::Group => Some(u64::from(stat.gid())),
            By::Age => {
                let age = now.saturating_sub(stat.modified().seconds);
                let class = AGES.iter().position(|(below, _)| age < *below);
                Some(class.unwrap_or(AGES.len() - 1) as u64)
            }
            By::Size if stat.kind() != FileType::RegularFile => None,
            By::Size => {
                let class = SIZES.iter().position(|(below, _)| stat.size() < *below);
                Some(class.unwrap_or(SIZES.len() - 1) as u64)
            }
        }
    }

    fn name(self, group: u64) -> String {
        match self {
            By::User => crate::find::users::user_name(group as u32),
            By::Group => crate::find::users::group_name(group as u32),
            By::Age => AGES[group as usize].1.to_owned(),
            By::Size => SIZES[group as usize].1.to_owned(),
        }
    }
}

/// Files with several names of which one was met. In parts, so that threads rarely wait for one another.
#[derive(Debug, Default)]
struct Names([Mutex<HashSet<(u64, u64)>>; 16]);

impl Names {
    /// Whether it is the first name of its file.
    fn is_first(&self, stat: &Stat) -> bool {
        if stat.links() <= 1 || stat.kind() == FileType::Directory {
            return true;
        }
        let part = &self.0[(stat.ino() % 16) as usize];
        let mut seen = part.lock().unwrap_or_else(PoisonError::into_inner);
        seen.insert(stat.identity())
    }
}

/// Bytes of a directory and of what is below it.
#[derive(Debug)]
struct Below(AtomicU64);

impl DirState for Below {
    fn new(seed: [u64; 2]) -> Below {
        Below(AtomicU64::new(seed[0]))
    }
}

struct Summer<'s> {
    du: &'s Du,
    names: &'s Names,
    /// Of all roots.
    total: &'s AtomicU64,
    now: i64,
    groups: BTreeMap<u64, Sum>,
    out: Part,
}

impl Summer<'_> {
    fn line(&mut self, bytes: u64, path: &[u8]) {
        let size = self.du.size(bytes);
        let out = self.out.bytes();
        out.extend_from_slice(size.as_bytes());
        out.push(b'\t');
        out.extend_from_slice(path);
        out.push(b'\n');
        self.out.end_record();
    }

    fn is_shown(&self, depth: u32) -> bool {
        self.du.by.is_none()
            && if self.du.summarize {
                depth == 0
            } else {
                self.du.max_depth.is_none_or(|most| depth <= most)
            }
    }
}

impl Visitor for Summer<'_> {
    type Dir = Below;

    fn entry(&mut self, entry: &mut Entry<'_, Below>) -> Flow {
        if self.du.one_file_system && entry.kind() == FileType::Directory && entry.is_elsewhere() {
            return Flow::Skip;
        }
        let Ok(stat) = entry.stat() else {
            return Flow::Skip;
        };
        let bytes = self.du.measure(stat);
        let is_directory = stat.kind() == FileType::Directory;
        if !self.names.is_first(stat) {
            return Flow::Skip;
        }
        if let Some(by) = self.du.by {
            if let Some(group) = by.group(stat, self.now) {
                let sum = Sum { entries: 1, bytes };
                self.groups.entry(group).or_default().add(&sum);
            }
            return Flow::Descend([0, 0]);
        }
        if is_directory {
            return Flow::Descend([bytes, 0]);
        }
        match entry.dir() {
            Some(dir) => dir.state().0.fetch_add(bytes, Ordering::Relaxed),
            None => self.total.fetch_add(bytes, Ordering::Relaxed),
        };
        let depth = entry.depth();
        if (self.du.all || depth == 0) && self.is_shown(depth) {
            self.line(bytes, entry.path());
        }
        Flow::Skip
    }

    fn leave(&mut self, leaving: &mut Leaving<'_, Below>) {
        let dir = leaving.dir();
        let (bytes, depth) = (dir.state().0.load(Ordering::Relaxed), dir.depth());
        match dir.parent() {
            Some(parent) => parent.state().0.fetch_add(bytes, Ordering::Relaxed),
            None => self.total.fetch_add(bytes, Ordering::Relaxed),
        };
        if self.is_shown(depth) {
            self.line(bytes, leaving.path());
        }
    }

    fn problem(&mut self, problem: Problem<'_>) {
        complain("du", problem);
    }
}
