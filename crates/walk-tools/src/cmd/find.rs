//! `find`

use crate::crew::Crew;
use crate::find::exec::Names;
use crate::find::expression::Scene;
use crate::find::parse::{Query, parse};
use crate::how::How;
use crate::outcome::Outcome;
use crate::output::{Output, Part};
use crate::session::{self, complain};
use anyhow::{Context, Result, bail};
use clap::Args;
use pandofs_walk_fs::{Entry, FileType, Flow, Leaving, Meter, Problem, Time, Visitor};
use std::ffi::OsString;
use std::fs::File;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

const EXAMPLES: &str = "\
Examples:
  pandofs find /scratch -name '*.tmp' -mtime +30
  pandofs find . --exclude .git -type f -size +1G -printf '%s %p\\n'
  pandofs find . -name core -exec gzip {} ';'
  pandofs find . -name '*.c' -print0 | xargs -0 wc -l
  pandofs find --threads 16 /nfs -user alice -delete

Roots and expression are those of GNU find, and so is what is printed, but for the order:
directories are searched in parallel, and each comes before what is in it (with -depth and
-delete after it). Known are
  -name -iname -path -ipath -lname -ilname -regex -iregex -regextype -type -size -empty
  -mtime -mmin -atime -amin -ctime -cmin -newer -anewer -cnewer -newerXY
  -user -group -uid -gid -nouser -nogroup -perm -links -inum -samefile
  -readable -writable -executable
  -maxdepth -mindepth -xdev -depth -follow -H -L -P  ! -not -a -and -o -or , ( ) -true -false
  -daystart -print -print0 -printf -ls -fprint -fprint0 -fprintf -fls -delete -exec -execdir -prune -quit
and --exclude PATTERN, which leaves out entries with such a name (or path, if there is a '/' in
it) and all below them. Commands of -exec run in each thread, so some run at once. Options of
this help come first.";

/// Search trees in parallel, with the expressions of GNU find
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES, disable_help_flag = true)]
pub struct Find {
    #[command(flatten)]
    how: How,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    /// Where to begin, and what to look for
    #[arg(
        value_name = "ROOTS AND EXPRESSION",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    words: Vec<OsString>,
}

impl Find {
    /// # Errors
    /// When the expression is none, or the walk or standard output fails.
    pub fn run(&self, crew: &mut Crew<'_>) -> Result<Outcome> {
        let query = parse(&self.words)?;
        let mut options = self.how.options(crew)?;
        options.leaves = query.depth_first;
        options.slow_entries = !query.execs.is_empty();
        options.follow = query.follow;
        options.one_file_system = query.one_file_system;
        let output = Output::new(&options.meter, crew);
        let failed = AtomicBool::new(false);
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let now = Time {
            seconds: now.as_secs() as i64,
            nanoseconds: now.subsec_nanos(),
        };
        // A launcher of processes may have made a terminal for them.
        let terminal = std::io::stdout().is_terminal() && !crew.is_several();
        let files = query.files.iter().map(|name| {
            let file = if crew.is_several() {
                bail!("-fprint and the like do not work over several processes");
            } else {
                File::create(name)
            };
            let file = file.with_context(|| name.display().to_string())?;
            Ok(Output::file(&options.meter, file))
        });
        let files: Vec<Output> = files.collect::<Result<_>>()?;
        let ran = session::run(crew, &query.roots, &options, true, |_| Finder {
            query: &query,
            out: output.part(),
            files: files.iter().map(Output::part).collect(),
            names: query.execs.iter().map(|_| Names::default()).collect(),
            now,
            terminal,
            failed: &failed,
            meter: Arc::clone(&options.meter),
        })?;
        let mut ran = ran;
        for mut finder in std::mem::take(&mut ran.visitors) {
            finder.out.flush();
            finder.files.iter_mut().for_each(Part::flush);
            if !ran.interrupted {
                for (exec, names) in query.execs.iter().zip(&mut finder.names) {
                    exec.run_batch(names, &failed);
                }
            }
        }
        let Some(failed) = crew.gather(failed.load(Ordering::Relaxed), &ran.meter)? else {
            return Ok(Outcome::Done);
        };
        let mut outcome = ran.outcome();
        if outcome == Outcome::Done && failed.contains(&true) {
            outcome = Outcome::Incomplete;
        }
        for (file, name) in files.iter().zip(&query.files) {
            file.finish().with_context(|| name.display().to_string())?;
        }
        session::finish(outcome, &output)
    }
}

struct Finder<'f> {
    query: &'f Query,
    out: Part,
    files: Vec<Part>,
    names: Vec<Names>,
    now: Time,
    terminal: bool,
    failed: &'f AtomicBool,
    meter: Arc<Meter>,
}

impl Finder<'_> {
    /// Whether the entry is not to be entered.
    fn evaluate(&mut self, entry: &mut Entry<'_, ()>) -> bool {
        if entry.depth() < self.query.min_depth {
            return false;
        }
        let mut scene = Scene {
            out: &mut self.out,
            execs: &self.query.execs,
            names: &mut self.names,
            files: &mut self.files,
            now: self.now,
            terminal: self.terminal,
            failed: self.failed,
            meter: &self.meter,
            pruned: false,
        };
        self.query.expression.evaluate(entry, &mut scene);
        scene.pruned
    }

    fn is_excluded(&self, entry: &mut Entry<'_, ()>) -> bool {
        self.query.excluded.iter().any(|(of_path, glob)| {
            if *of_path {
                glob.matches(entry.path())
            } else {
                glob.matches(entry.name().to_bytes())
            }
        })
    }
}

impl Visitor for Finder<'_> {
    type Dir = ();

    fn entry(&mut self, entry: &mut Entry<'_, ()>) -> Flow {
        if !self.query.excluded.is_empty() && entry.depth() > 0 && self.is_excluded(entry) {
            return Flow::Skip;
        }
        let too_deep = entry.depth() >= self.query.max_depth;
        if self.query.depth_first {
            // Directories that are entered are looked at when they are left.
            let elsewhere =
                |entry: &mut Entry<'_, ()>| self.query.one_file_system && entry.is_elsewhere();
            if !too_deep && entry.kind() == FileType::Directory && !elsewhere(entry) {
                return Flow::Descend([0, 0]);
            }
            self.evaluate(entry);
            return Flow::Skip;
        }
        if self.evaluate(entry) || too_deep {
            return Flow::Skip;
        }
        Flow::Descend([0, 0])
    }

    fn leave(&mut self, leaving: &mut Leaving<'_, ()>) {
        if self.query.depth_first {
            let looked = leaving.as_entry(|entry| self.evaluate(entry));
            if let Err(kind) = looked {
                self.failed.store(true, Ordering::Relaxed);
                complain(
                    "find",
                    Problem {
                        path: leaving.path(),
                        kind,
                    },
                );
            }
        }
    }

    fn problem(&mut self, problem: Problem<'_>) {
        complain("find", problem);
    }
}
