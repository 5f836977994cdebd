//! Common part of `chmod` and `chown`.
//!
//! Each entry is changed, directories before or after what is in them.

use crate::common_args::CommonArgs;
use crate::executor::Executor;
use crate::outcome::Outcome;
use crate::output::{Output, Part};
use crate::roots::{is_slash, leads_to_slash};
use crate::session::{self, say};
use crate::text::{JsonPath, count, json_line, show};
use anyhow::{Context, Result, bail};
use clap::Args;
use pandofs_walk_fs::{Entry, FileType, Flow, Follow, Leaving, Meter, Problem, Stat, Visitor};
use rustix::fd::BorrowedFd;
use rustix::fs::CWD;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// Options of both.
#[derive(Args, Clone, Debug)]
pub(crate) struct Common {
    #[command(flatten)]
    pub(crate) common_args: CommonArgs,
    /// Say what would be changed, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Say what is changed
    #[arg(short, long, visible_short_alias = 'c')]
    verbose: bool,
    /// Stay on the file systems of the roots
    #[arg(short = 'x', long)]
    one_file_system: bool,
    /// Print what was done as JSON, one object in a line: changes, if they are to be said, and
    /// counts at the end
    #[arg(long)]
    json: bool,
    /// Is always so; taken for the habit
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Do not say what cannot be changed; the exit code still does
    #[arg(short = 'f', long, visible_aliases = ["quiet", "silent"])]
    force: bool,
    /// Leave links alone that are named, which chmod follows otherwise; of chown it is always so
    #[arg(short = 'h', long)]
    no_dereference: bool,
    /// Change '/' too
    #[arg(long)]
    no_preserve_root: bool,
    /// Is so unless --no-preserve-root is given
    #[arg(long, overrides_with = "no_preserve_root")]
    preserve_root: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

/// The attributes of the file that `--reference` names: of what it leads to, if it is a link.
///
/// # Errors
/// When it cannot be looked at.
pub(crate) fn reference(file: &OsStr) -> Result<Stat> {
    let path = CString::new(file.as_bytes())?;
    Stat::followed(CWD, &path).with_context(|| format!("--reference: {}", file.display()))
}

/// A change to entries.
pub(crate) trait Change: Sync {
    const TOOL: &'static str;
    /// Links that are named as roots stand for what they lead to.
    const FOLLOWS_ROOTS: bool;
    /// Name of what is changed, in JSON.
    const WHAT: &'static str;

    /// Returns what it is to become, in words; none if it is that already.
    fn change(&self, stat: &Stat) -> Option<String>;

    /// Makes it that; what it leads to, if it is a link that is to be followed.
    ///
    /// # Errors
    /// When it cannot.
    fn make(
        &self,
        dir: BorrowedFd<'_>,
        name: &CStr,
        stat: &Stat,
        is_followed: bool,
    ) -> Result<(), Errno>;

    /// Returns whether directories have to come before what is in them: it may not be reached
    /// otherwise. If not they come after it, because it may not be reached any more.
    fn before(&self) -> bool;
}

/// Output of `--json`. Fields may be added; none goes or changes its meaning.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Counts {
    entries: u64,
    changed: u64,
    problems: u64,
    vanished: u64,
    seconds: f64,
}

/// # Errors
/// When it cannot begin, or standard output fails.
pub(crate) fn run<C: Change>(
    common: &Common,
    change: &C,
    roots: &[OsString],
    executor: &mut Executor<'_>,
) -> Result<Outcome> {
    let follows = C::FOLLOWS_ROOTS && !common.no_dereference;
    let refused = if follows { leads_to_slash } else { is_slash };
    if let Some(root) = roots.iter().find(|root| refused(root))
        && !common.no_preserve_root
    {
        bail!(
            "refusing to change all of '/' without --no-preserve-root: {}",
            root.display()
        );
    }
    let mut options = common.common_args.options(executor)?;
    options.one_file_system = common.one_file_system;
    options.leaves = !change.before();
    if follows {
        options.follow = Follow::Roots;
    }
    let output = Output::new(&options.meter, executor).aside(!common.dry_run);
    let mut ran = session::run(executor, roots, &options, false, |_| Changer {
        common,
        change,
        follows,
        meter: Arc::clone(&options.meter),
        counts: Counts::default(),
        out: output.part(),
    })?;
    let mut counts = Counts::default();
    for changer in std::mem::take(&mut ran.visitors) {
        counts.entries += changer.counts.entries;
        counts.changed += changer.counts.changed;
    }
    let Some(all) = executor.gather(counts, &ran.meter)? else {
        return Ok(Outcome::Done);
    };
    let counts = Counts {
        entries: all.iter().map(|it| it.entries).sum(),
        changed: all.iter().map(|it| it.changed).sum(),
        problems: ran.meter.problems(),
        vanished: ran.meter.vanished(),
        seconds: ran.elapsed.as_secs_f64(),
    };
    if ran.interrupted {
        let (changed, entries) = (count(counts.changed), count(counts.entries));
        session::interrupted(
            C::TOOL,
            format_args!("{changed} of {entries} entries were changed"),
        );
    }
    if common.json {
        let last = Output::last(&ran.meter);
        json_line(&counts, last.part().bytes());
        last.finish()?;
    }
    session::finish(ran.outcome(), &output)
}

/// A change in JSON.
#[derive(Serialize)]
struct Line<'l> {
    #[serde(flatten)]
    path: JsonPath<'l>,
    #[serde(flatten)]
    words: BTreeMap<&'static str, String>,
}

struct Changer<'c, C> {
    common: &'c Common,
    change: &'c C,
    follows: bool,
    meter: Arc<Meter>,
    counts: Counts,
    out: Part,
}

impl<C: Change> Changer<'_, C> {
    fn complain(&self, path: &[u8], what: &dyn std::fmt::Display) {
        if !self.common.force {
            say(C::TOOL, path, what);
        }
    }

    fn treat(&mut self, entry: &mut Entry<'_, ()>) {
        let Ok(stat) = entry.stat().copied() else {
            return;
        };
        self.counts.entries += 1;
        let is_followed = self.follows && entry.depth() == 0;
        if is_followed && stat.kind() == FileType::Symlink {
            self.meter.add_problem();
            self.complain(entry.path(), &"the link leads to nothing");
            return;
        }
        let Some(words) = self.change.change(&stat) else {
            return;
        };
        if !self.common.dry_run {
            let (dir, name) = (entry.dir_fd(), entry.name());
            match self.change.make(dir, name, &stat, is_followed) {
                Ok(()) => {}
                Err(Errno::NOENT) if entry.depth() > 0 => return self.meter.add_vanished(),
                Err(error) => {
                    self.meter.add_problem();
                    self.complain(entry.path(), &error);
                    return;
                }
            }
        }
        self.counts.changed += 1;
        if self.common.dry_run || self.common.verbose {
            if self.common.json {
                let line = Line {
                    path: JsonPath::new(entry.path()),
                    words: BTreeMap::from([(C::WHAT, words)]),
                };
                json_line(&line, self.out.bytes());
            } else {
                let mut line = words + " ";
                show(entry.path(), &mut line);
                line.push('\n');
                self.out.bytes().extend_from_slice(line.as_bytes());
            }
            self.out.end_record();
        }
    }
}

impl<C: Change> Visitor for Changer<'_, C> {
    type Dir = ();

    fn entry(&mut self, entry: &mut Entry<'_, ()>) -> Flow {
        if self.change.before() || entry.kind() != FileType::Directory {
            self.treat(entry);
        }
        Flow::Descend([0, 0])
    }

    fn leave(&mut self, leaving: &mut Leaving<'_, ()>) {
        if !self.change.before()
            && let Err(kind) = leaving.as_entry(|entry| self.treat(entry))
        {
            self.meter.add_problem();
            self.complain(leaving.path(), &kind);
        }
    }

    fn problem(&mut self, problem: Problem<'_>) {
        self.complain(problem.path, &problem.kind);
    }
}
