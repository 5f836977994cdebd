//! The tool `find`.

use crate::checkpoint_merge::Joined;
use crate::common_args::CommonArgs;
use crate::executor::Executor;
use crate::find::exec::Names;
use crate::find::expression::Scene;
use crate::find::parse::{Query, parse};
use crate::outcome::{Outcome, wrong};
use crate::output::{Output, Part};
use crate::parts::{Parts, Resumable};
use crate::session::{self, complain};
use anyhow::{Context, Result, bail};
use clap::Args;
use pandofs_walk_fs::{Entry, FileType, Flow, Leaving, Meter, Problem, StatxFlags, Time, Visitor};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::File;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

const EXAMPLES: &str = "\
Examples:
  pandofs find /scratch -name '*.tmp' -mtime +30
  pandofs find . --exclude .git -type f -size +1G -printf '%s %p\\n'
  pandofs find . -name core -exec gzip {} ';'
  pandofs find . -name '*.c' -print0 | xargs -0 wc -l
  pandofs find --threads 16 /nfs -user alice -delete
  pandofs find --checkpoint state /scratch -mtime +900 -print0 > old
      a search of days; if it ends too early, the same with --resume goes on from where it was

Roots and expression are those of GNU find, and so is what is printed, but for the order:
directories are searched in parallel, and each comes before what is in it (with -depth and
-delete after it). Known are
  -name -iname -path -ipath -lname -ilname -regex -iregex -regextype -type -xtype -size -empty
  -mtime -mmin -atime -amin -ctime -cmin -newer -anewer -cnewer -newerXY (X, Y: a B c m; Y: t) -used
  -user -group -uid -gid -nouser -nogroup -perm -links -inum -samefile -fstype
  -readable -writable -executable
  -maxdepth -mindepth -xdev -depth -follow -H -L -P  ! -not -a -and -o -or , ( ) -true -false
  -context -daystart -files0-from -O -D -print -print0 -printf -ls -fprint -fprint0 -fprintf -fls
  -delete -exec -execdir -ok -okdir -prune -quit
and --exclude PATTERN, which leaves out entries with such a name (or path, if there is a '/' in
it) and all below them. Commands of -exec run in each thread, so some run at once. Options of
this help come first. With -quit one thing is done at a time. Files of -fprint and its like are
only for one process, but for /dev/stdout and /dev/stderr; over several processes each may still do
something after -quit.";

/// Search trees in parallel, with the expressions of GNU find
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES, disable_help_flag = true)]
pub struct Find {
    #[command(flatten)]
    pub(crate) common_args: CommonArgs,
    #[command(flatten)]
    resumable: Resumable,
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
    pub fn run(&self, executor: &mut Executor<'_>) -> Result<Outcome> {
        let query = parse(&self.words).map_err(|error| wrong(format!("{error:#}")))?;
        let mut options = self.common_args.options(executor)?;
        options.leaves = query.depth_first;
        options.slow_entries = !query.execs.is_empty();
        options.follow = query.follow;
        options.one_file_system = query.one_file_system;
        if query.needs_birth {
            options.fields |= StatxFlags::BTIME;
        }
        if query.execs.iter().any(|exec| exec.asks) {
            executor.alone("-ok")?;
        }
        self.resumable.refuse_others(executor)?;
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let now = Time {
            seconds: now.as_secs() as i64,
            nanoseconds: now.subsec_nanos(),
        };
        // A launcher of processes may have made a terminal for them.
        let terminal = std::io::stdout().is_terminal() && !executor.is_several();
        let mut files = Vec::new();
        let mut outputs = Vec::new();
        for name in &query.files {
            if name == "/dev/stderr" {
                outputs.push(Output::errors(&options.meter).aside(true));
                continue;
            }
            if executor.is_several() {
                bail!(
                    "-fprint and the like do not work over several processes, but for /dev/stdout and /dev/stderr"
                );
            }
            let file: File = self.resumable.file(name.as_ref())?;
            outputs.push(Output::file(&options.meter, file.try_clone()?).aside(true));
            files.push(file);
        }
        // After what can fail: a list that is left behind would be in the way of the next run.
        let mut list = self.resumable.list(executor, &options.meter)?;
        list.output = list.output.aside(query.acts());
        let appended: Vec<&File> = list.file().into_iter().chain(&files).collect();
        let asked = format!("find {:?}", self.words);
        let (mut parts, found) =
            Parts::begin::<Found>(&self.resumable, executor, &options.meter, asked, &appended)?;
        let mut before = found.unwrap_or(Found {
            failed: false,
            now: (now.seconds, now.nanoseconds),
        });
        before.now = executor.agree(before.now)?;
        let failed = AtomicBool::new(before.failed);
        let now = Time {
            seconds: before.now.0,
            nanoseconds: before.now.1,
        };
        let turn = query.quits.then(|| Mutex::new(()));
        let is_first = query.excluded.is_empty() && query.min_depth == 0 && !query.depth_first;
        let looks_first = is_first && query.expression.looks_first();
        let make = |_| Finder {
            query: &query,
            looks_first,
            turn: turn.as_ref(),
            out: list.output.part(),
            files: outputs.iter().map(Output::part).collect(),
            names: query.execs.iter().map(|_| Names::default()).collect(),
            now,
            terminal,
            failed: &failed,
            meter: Arc::clone(&options.meter),
        };
        let take = |finders: Vec<Finder<'_>>, interrupted: bool| {
            for mut finder in finders {
                finder.out.flush();
                finder.files.iter_mut().for_each(Part::flush);
                // After Ctrl-C nothing is begun any more, unless it goes on later, without them.
                if !interrupted || self.resumable.is_wanted() {
                    for (exec, names) in query.execs.iter().zip(&mut finder.names) {
                        exec.run_batch(names, &failed);
                    }
                }
            }
            Ok(Found {
                failed: failed.load(Ordering::Relaxed),
                now: before.now,
            })
        };
        let mut how = options.clone();
        // Commands write where they like, but as a rule to standard output.
        let asks = query.execs.iter().any(|exec| exec.asks);
        let shares = asks || !query.execs.is_empty() && terminal;
        let ran = parts.run(executor, &query.roots, &mut how, shares, make, take)?;
        if parts.is_put_off("find", executor, &ran)? {
            return session::finish(ran.outcome(), &list.output);
        }
        let Some(failed) = executor.gather(failed.load(Ordering::Relaxed), &ran.meter)? else {
            return Ok(Outcome::Done);
        };
        let mut outcome = ran.outcome();
        if outcome == Outcome::Done && failed.contains(&true) {
            outcome = Outcome::Incomplete;
        }
        for (file, name) in outputs.iter().zip(&query.files) {
            file.finish().with_context(|| name.display().to_string())?;
        }
        list.finish()?;
        parts.finish()?;
        if ran.interrupted {
            session::interrupted("find", ran.so_far());
        }
        Ok(outcome)
    }
}

/// Findings that a checkpoint keeps.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Found {
    failed: bool,
    /// When it began: ages count from there.
    now: (i64, u32),
}

impl Joined for Found {
    fn join(&mut self, other: Found) {
        self.failed |= other.failed;
    }
}

struct Finder<'f> {
    /// Whether each entry is looked at before anything else is done with it.
    looks_first: bool,
    /// With -quit, only one thread evaluates: what another one does meanwhile would come after the
    /// end.
    turn: Option<&'f Mutex<()>>,
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
    /// Returns whether the entry is not to be entered.
    fn found(&mut self, entry: &mut Entry<'_, ()>) -> Flow {
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

    fn evaluate(&mut self, entry: &mut Entry<'_, ()>) -> bool {
        if entry.depth() < self.query.min_depth {
            return false;
        }
        let _turn = self
            .turn
            .map(|turn| turn.lock().unwrap_or_else(PoisonError::into_inner));
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

    /// Runs the commands that wait for names of one directory.
    fn run_there(&mut self) {
        // Commands that wait when the walk is ended are run when it has: it may be for -quit.
        if self.meter.is_stopped() {
            return;
        }
        for (exec, names) in self.query.execs.iter().zip(&mut self.names) {
            if exec.in_directory && exec.batch && !names.is_empty() {
                self.out.flush();
                exec.run_batch(names, self.failed);
            }
        }
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

    // No return comes between two calls that look at entries: see
    // `pandofs_walk_fs::Visitor::entry`.
    #[inline(always)]
    fn entry(&mut self, entry: &mut Entry<'_, ()>) -> Flow {
        if self.looks_first {
            let _ = entry.stat();
        }
        self.found(entry)
    }

    fn pause(&mut self) {
        self.run_there();
    }

    fn leave(&mut self, leaving: &mut Leaving<'_, ()>) {
        if self.query.depth_first {
            let looked = leaving.as_entry(|entry| self.evaluate(entry));
            self.run_there();
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
