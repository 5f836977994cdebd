//! The tool `rm`.

use crate::common_args::CommonArgs;
use crate::executor::Executor;
use crate::outcome::Outcome;
use crate::output::{Output, Part};
use crate::roots::is_slash;
use crate::session::{self, complain, say};
use crate::text::{JsonPath, count, json_line, show, shown};
use anyhow::{Result, bail};
use clap::Args;
use pandofs_walk_fs::{
    DirState, Entry, FileType, Flow, Leaving, Problem, ProblemKind, StatxFlags, Unreadable, Visitor,
};
use rustix::fs::{AtFlags, Dir, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;
use serde::Serialize;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const EXAMPLES: &str = "\
Examples:
  pandofs rm -r --dry-run old-results
      what would be removed, in the order in which it would be
  pandofs rm -r old-results scratch/run-17
  pandofs rm -rf cache
      which may be missing

With -r directories are removed with all that is in them, from the bottom up, by all threads. Links
are removed and not followed. '/', '.' and '..' are refused. So are mount points, and then what they
are in stays as well, unless --cross-mounts is given: then what is mounted is emptied. Entries
that somebody else removes meanwhile are not missed. -i and -I are for one process.";

/// Remove trees, from the bottom up and in parallel
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Rm {
    #[command(flatten)]
    pub(crate) common_args: CommonArgs,
    /// Say what would be removed, and remove nothing
    #[arg(long)]
    dry_run: bool,
    /// Roots may be missing
    #[arg(short, long, overrides_with_all = ["interactive", "once"])]
    force: bool,
    /// Say what is removed
    #[arg(short, long)]
    verbose: bool,
    /// Empty what is mounted below a root; mount points themselves stay
    #[arg(long)]
    cross_mounts: bool,
    /// Directories too, with all that is in them
    #[arg(short, short_alias = 'R', long)]
    recursive: bool,
    /// Ask before each entry is removed and each directory is entered
    #[arg(short, overrides_with_all = ["force", "once"])]
    interactive: bool,
    /// Ask once, before all
    #[arg(short = 'I', overrides_with_all = ["force", "interactive"])]
    once: bool,
    /// Of directories only those that are empty, unless -r is given too
    #[arg(short, long)]
    dir: bool,
    /// Is so unless --cross-mounts is given
    #[arg(long, conflicts_with = "cross_mounts")]
    one_file_system: bool,
    /// Remove '/' too
    #[arg(long)]
    no_preserve_root: bool,
    /// Is so unless --no-preserve-root is given
    #[arg(long, overrides_with = "no_preserve_root")]
    preserve_root: bool,
    /// Print what was done as JSON, one object in a line: what is removed, if it is to be said, and
    /// counts at the end
    #[arg(long)]
    json: bool,
    /// Files and directories to remove
    #[arg(required_unless_present = "force", value_name = "PATH")]
    roots: Vec<OsString>,
}

/// Output of `--json`. Fields may be added; none goes or changes its meaning.
#[derive(Serialize)]
struct Counts {
    /// Or would have been, in a dry run.
    removed: u64,
    kept: u64,
    problems: u64,
    seconds: f64,
    dry_run: bool,
    interrupted: bool,
}

impl Rm {
    /// # Errors
    /// When a root is refused, or the walk cannot be done. Nothing has been removed then.
    pub fn run(&self, executor: &mut Executor<'_>) -> Result<Outcome> {
        let mut roots = Vec::new();
        for root in &self.roots {
            refuse(root, self.no_preserve_root)?;
            use std::io::ErrorKind::{NotADirectory, NotFound};
            let missing = std::fs::symlink_metadata(root)
                .is_err_and(|error| matches!(error.kind(), NotFound | NotADirectory));
            if !(self.force && missing) {
                roots.push(root.clone());
            }
        }
        if self.interactive || self.once {
            executor.alone("-i or -I")?;
        }
        if self.once && !roots.is_empty() {
            let all = if self.recursive {
                " with all that is in it"
            } else {
                ""
            };
            let what = format!("remove {}{all}", shown_all(&roots));
            if !self.dry_run && !agreed(&what) {
                return Ok(Outcome::Done);
            }
        }
        let mut how = self.common_args.clone();
        if self.interactive {
            // Questions come in an order that can be followed.
            how.threads = Some(1);
        }
        let mut options = how.options(executor)?;
        // Only for what a directory does not tell of its entries, and for directories.
        options.fields = StatxFlags::TYPE | StatxFlags::INO;
        let output = Output::new(&options.meter, executor).aside(!self.dry_run);
        let (removed, kept) = (AtomicU64::new(0), AtomicU64::new(0));
        let ran = session::run(executor, &roots, &options, self.interactive, |_| Remover {
            rm: self,
            removed: &removed,
            kept: &kept,
            out: output.part(),
            line: String::new(),
        })?;
        let mut ran = ran;
        ran.visitors.clear();
        let mine = (
            removed.load(Ordering::Relaxed),
            kept.load(Ordering::Relaxed),
        );
        let Some(all) = executor.gather(mine, &ran.meter)? else {
            return Ok(Outcome::Done);
        };
        if ran.interrupted {
            let removed = count(all.iter().map(|(removed, _)| removed).sum());
            let would = if self.dry_run {
                "would have been"
            } else {
                "were"
            };
            session::interrupted("rm", format_args!("{removed} entries {would} removed"));
        }
        if self.json {
            let counts = Counts {
                removed: all.iter().map(|(removed, _)| removed).sum(),
                kept: all.iter().map(|(_, kept)| kept).sum(),
                problems: ran.meter.problems(),
                seconds: ran.elapsed.as_secs_f64(),
                dry_run: self.dry_run,
                interrupted: ran.interrupted,
            };
            let last = Output::last(&ran.meter);
            json_line(&counts, last.part().bytes());
            last.finish()?;
        }
        let mut outcome = ran.outcome();
        if outcome == Outcome::Done && all.iter().any(|(_, kept)| *kept > 0) {
            outcome = Outcome::Incomplete;
        }
        session::finish(outcome, &output)
    }
}

/// Refuses the root of the file system, by whatever name, and the directories that names stand for.
fn refuse(root: &OsString, even_slash: bool) -> Result<()> {
    let bytes = root.as_bytes();
    let stripped = bytes.iter().rposition(|byte| *byte != b'/');
    let last = stripped.map(|end| {
        let start = bytes[..=end].iter().rposition(|byte| *byte == b'/');
        &bytes[start.map_or(0, |slash| slash + 1)..=end]
    });
    if matches!(last, Some(b"." | b"..")) {
        bail!("refusing to remove '.' or '..': {}", root.display());
    }
    if !even_slash && is_slash(root) {
        bail!(
            "refusing to remove '/' without --no-preserve-root: {}",
            root.display()
        );
    }
    Ok(())
}

fn shown_all(roots: &[OsString]) -> String {
    let names: Vec<String> = roots.iter().map(|root| shown(root.as_bytes())).collect();
    names.join(", ")
}

/// Asks on the terminal, or wherever standard input comes from; whether the answer is yes.
fn agreed(what: &str) -> bool {
    eprint!("pandofs rm: {what}? ");
    let mut answer = String::new();
    let read = std::io::stdin().read_line(&mut answer);
    read.is_ok() && answer.trim_start().starts_with(['y', 'Y'])
}

/// Whether something in a directory stays, so that it cannot be removed.
#[derive(Debug, Default)]
struct Stays(AtomicBool);

impl DirState for Stays {
    fn new(seed: [u64; 2]) -> Stays {
        // A mount point stays itself.
        Stays(AtomicBool::new(seed[0] != 0))
    }

    fn gathered(&self) -> Vec<u8> {
        vec![u8::from(self.0.load(Ordering::Relaxed))]
    }

    fn add(&self, gathered: &[u8]) -> std::result::Result<(), Unreadable> {
        match gathered {
            [0] => {}
            [1] => self.0.store(true, Ordering::Relaxed),
            _ => return Err(Unreadable),
        }
        Ok(())
    }
}

struct Remover<'r> {
    rm: &'r Rm,
    removed: &'r AtomicU64,
    kept: &'r AtomicU64,
    out: Part,
    line: String,
}

impl Remover<'_> {
    fn removed(&mut self, path: impl FnOnce() -> Vec<u8>) {
        self.removed.fetch_add(1, Ordering::Relaxed);
        if !self.rm.dry_run && !self.rm.verbose {
            return;
        }
        let path = path();
        if self.rm.json {
            json_line(&JsonPath::new(&path), self.out.bytes());
        } else {
            self.line.clear();
            show(&path, &mut self.line);
            let bytes = self.out.bytes();
            bytes.extend_from_slice(self.line.as_bytes());
            bytes.push(b'\n');
        }
        self.out.end_record();
    }

    /// Returns whether the user agrees, if one is asked.
    fn may(&self, what: &str, path: &[u8]) -> bool {
        !self.rm.interactive || self.rm.dry_run || agreed(&format!("{what} {}", shown(path)))
    }

    fn keep(&self, path: &[u8], why: impl std::fmt::Display) {
        self.kept.fetch_add(1, Ordering::Relaxed);
        say("rm", path, why);
    }
}

fn stays(dir: Option<&std::sync::Arc<pandofs_walk_fs::Dir<Stays>>>) {
    if let Some(dir) = dir {
        dir.state().0.store(true, Ordering::Relaxed);
    }
}

impl Remover<'_> {
    /// A root, for `-d`.
    fn remove_empty(&mut self, entry: &mut Entry<'_, Stays>) {
        if !self.may("remove directory", entry.path()) {
            return;
        }
        let removed = if self.rm.dry_run {
            is_empty(entry)
        } else {
            unlinkat(entry.dir_fd(), entry.name(), AtFlags::REMOVEDIR)
        };
        match removed {
            Ok(()) => self.removed(|| entry.path().to_vec()),
            Err(error) => self.keep(entry.path(), error),
        }
    }
}

fn is_empty(entry: &Entry<'_, Stays>) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let listing = openat(entry.dir_fd(), entry.name(), flags, Mode::empty())?;
    for listed in Dir::read_from(listing)? {
        if !matches!(listed?.file_name().to_bytes(), b"." | b"..") {
            return Err(Errno::NOTEMPTY);
        }
    }
    Ok(())
}

impl Visitor for Remover<'_> {
    type Dir = Stays;

    fn entry(&mut self, entry: &mut Entry<'_, Stays>) -> Flow {
        if entry.kind() == FileType::Directory {
            let mounted =
                entry.stat().is_ok_and(|stat| stat.is_mount_root()) || entry.is_elsewhere();
            if !self.rm.recursive {
                if self.rm.dir && !mounted {
                    self.remove_empty(entry);
                } else {
                    self.keep(
                        entry.path(),
                        "it is a directory: -r removes it with all that is in it",
                    );
                }
                return Flow::Skip;
            }
            if !mounted {
                if !self.may("enter directory", entry.path()) {
                    stays(entry.dir());
                    return Flow::Skip;
                }
                return Flow::Descend([0, 0]);
            }
            stays(entry.dir());
            if self.rm.cross_mounts {
                return Flow::Descend([1, 0]);
            }
            self.keep(entry.path(), "something is mounted here; it stays");
            return Flow::Skip;
        }
        if !self.may("remove", entry.path()) {
            stays(entry.dir());
            return Flow::Skip;
        }
        let removed = if self.rm.dry_run {
            Ok(())
        } else {
            unlinkat(entry.dir_fd(), entry.name(), AtFlags::empty())
        };
        match removed {
            Ok(()) => self.removed(|| entry.path().to_vec()),
            Err(Errno::NOENT) => {}
            Err(error) => {
                stays(entry.dir());
                self.keep(entry.path(), error);
            }
        }
        Flow::Skip
    }

    fn leave(&mut self, leaving: &mut Leaving<'_, Stays>) {
        if leaving.dir().state().0.load(Ordering::Relaxed) {
            stays(leaving.dir().parent());
            return;
        }
        if !self.may("remove directory", leaving.path()) {
            stays(leaving.dir().parent());
            return;
        }
        let removed = if self.rm.dry_run {
            Ok(())
        } else {
            leaving
                .in_parent(|above, name| unlinkat(above, name, AtFlags::REMOVEDIR))
                .unwrap_or_else(|problem| match problem {
                    ProblemKind::Open(error) => Err(error),
                    _ => Err(Errno::STALE),
                })
        };
        match removed {
            Ok(()) => self.removed(|| leaving.path().to_vec()),
            Err(Errno::NOENT) => {}
            Err(error) => {
                stays(leaving.dir().parent());
                self.keep(leaving.path(), error);
            }
        }
    }

    fn problem(&mut self, problem: Problem<'_>) {
        complain("rm", problem);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_for_other_directories_is_refused() {
        for root in [
            "/",
            "//",
            "/usr/..",
            ".",
            "..",
            "./",
            "a/..//",
            "../.",
            "/proc/self/root/",
        ] {
            assert!(refuse(&root.into(), false).is_err(), "{root}");
        }
        assert!(refuse(&"/".into(), true).is_ok() && refuse(&"/..".into(), true).is_err());
        for root in ["", "a", "./a", "/usr", "..a", "a/.b/"] {
            assert!(refuse(&root.into(), false).is_ok(), "{root}");
        }
    }
}
