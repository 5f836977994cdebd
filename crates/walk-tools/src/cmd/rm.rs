//! `rm`

use crate::crew::Crew;
use crate::how::How;
use crate::outcome::Outcome;
use crate::output::{Output, Part};
use crate::session::{self, complain, say};
use crate::text::show;
use anyhow::{Result, bail};
use clap::Args;
use pandofs_walk_fs::{
    DirState, Entry, FileType, Flow, Leaving, Problem, ProblemKind, StatxFlags, Unreadable, Visitor,
};
use rustix::fs::{AtFlags, CWD, statx, unlinkat};
use rustix::io::Errno;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const EXAMPLES: &str = "\
Examples:
  pandofs rm --dry-run old-results
      what would be removed, in the order in which it would be
  pandofs rm old-results scratch/run-17
  pandofs rm -f cache
      which may be missing

Directories are removed with all that is in them, from the bottom up, by all threads. Links are
removed and not followed. '/', '.' and '..' are refused. So are mount points, and then what they
are in stays as well, unless --cross-mounts is given: then what is mounted is emptied. Entries
that somebody else removes meanwhile are not missed.";

/// Remove trees, from the bottom up and in parallel
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Rm {
    #[command(flatten)]
    how: How,
    /// Say what would be removed, and remove nothing
    #[arg(long)]
    dry_run: bool,
    /// Roots may be missing
    #[arg(short, long)]
    force: bool,
    /// Say what is removed
    #[arg(short, long)]
    verbose: bool,
    /// Empty what is mounted below a root; mount points themselves stay
    #[arg(long)]
    cross_mounts: bool,
    /// Is always so; taken for the habit
    #[arg(short, short_alias = 'R', long)]
    recursive: bool,
    /// What to remove
    #[arg(required = true, value_name = "PATH")]
    roots: Vec<OsString>,
}

impl Rm {
    /// # Errors
    /// When a root is refused, or the walk cannot be done. Nothing has been removed then.
    pub fn run(&self, crew: &mut Crew<'_>) -> Result<Outcome> {
        let mut roots = Vec::new();
        for root in &self.roots {
            refuse(root)?;
            let missing = std::fs::symlink_metadata(root)
                .is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound);
            if !(self.force && missing) {
                roots.push(root.clone());
            }
        }
        let mut options = self.how.options(crew)?;
        // Only for what a directory does not tell of its entries, and for directories.
        options.fields = StatxFlags::TYPE | StatxFlags::INO;
        let lists = self.dry_run || self.verbose;
        let output = Output::new(&options.meter, crew);
        let kept = AtomicU64::new(0);
        let ran = session::run(crew, &roots, &options, lists, |_| Remover {
            rm: self,
            kept: &kept,
            out: output.part(),
            line: String::new(),
        })?;
        let mut ran = ran;
        ran.visitors.clear();
        let Some(kept) = crew.gather(kept.load(Ordering::Relaxed), &ran.meter)? else {
            return Ok(Outcome::Done);
        };
        let mut outcome = ran.outcome();
        if outcome == Outcome::Done && kept.iter().any(|kept| *kept > 0) {
            outcome = Outcome::Incomplete;
        }
        session::finish(outcome, &output)
    }
}

/// Refuses the root of the file system, by whatever name, and the directories that names stand for.
fn refuse(root: &OsString) -> Result<()> {
    let bytes = root.as_bytes();
    let stripped = bytes.iter().rposition(|byte| *byte != b'/');
    let last = stripped.map(|end| {
        let start = bytes[..=end].iter().rposition(|byte| *byte == b'/');
        &bytes[start.map_or(0, |slash| slash + 1)..=end]
    });
    if matches!(last, Some(b"." | b"..")) {
        bail!("refusing to remove '.' or '..': {}", root.display());
    }
    let same = |path: &Path| {
        statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::INO)
            .ok()
            .map(|it| (it.stx_dev_major, it.stx_dev_minor, it.stx_ino))
    };
    if last.is_none() && !bytes.is_empty() || same(Path::new(root)) == same(Path::new("/")) {
        bail!("refusing to remove '/': {}", root.display());
    }
    Ok(())
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
    kept: &'r AtomicU64,
    out: Part,
    line: String,
}

impl Remover<'_> {
    fn removed(&mut self, path: &[u8]) {
        self.line.clear();
        show(path, &mut self.line);
        let bytes = self.out.bytes();
        bytes.extend_from_slice(self.line.as_bytes());
        bytes.push(b'\n');
        self.out.end_record();
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

impl Visitor for Remover<'_> {
    type Dir = Stays;

    fn entry(&mut self, entry: &mut Entry<'_, Stays>) -> Flow {
        if entry.kind() == FileType::Directory {
            let mounted =
                entry.stat().is_ok_and(|stat| stat.is_mount_root()) || entry.is_elsewhere();
            if !mounted {
                return Flow::Descend([0, 0]);
            }
            stays(entry.dir());
            if self.rm.cross_mounts {
                return Flow::Descend([1, 0]);
            }
            self.keep(entry.path(), "something is mounted here; it stays");
            return Flow::Skip;
        }
        let removed = if self.rm.dry_run {
            Ok(())
        } else {
            unlinkat(entry.dir_fd(), entry.name(), AtFlags::empty())
        };
        match removed {
            Ok(()) if self.rm.dry_run || self.rm.verbose => self.removed(entry.path()),
            Ok(()) | Err(Errno::NOENT) => {}
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
            Ok(()) if self.rm.dry_run || self.rm.verbose => self.removed(leaving.path()),
            Ok(()) | Err(Errno::NOENT) => {}
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
            assert!(refuse(&root.into()).is_err(), "{root}");
        }
        for root in ["", "a", "./a", "/usr", "..a", "a/.b/"] {
            assert!(refuse(&root.into()).is_ok(), "{root}");
        }
    }
}
